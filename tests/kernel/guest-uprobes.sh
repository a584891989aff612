# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Probe programs at places of files, by uprobes, in the guest; read by guest.sh, part of the group krpn of guest-rpn.sh.

# Probes of a file in all processes that map it, those that run and those that come: the programs of processes, by
# uprobes.
by_uprobes() {
	libc=/t/lib/libc.so.6
	cat >/tmp/all.rpn <<END
name = $libc
modtype = user
logmax = 80
vars = 1
offset = fopen
	inc lv, 0; push d, 60; push r, rdi; log str
	exit
offset = fopen
at = return
minor = 2
	push r, rax; log 1
	exit
END
	$dprobes insert /tmp/all.rpn --uprobes --log=PROCNAME >/tmp/out 2>/tmp/err
	say $? "a program of processes by the kernel's uprobes"
	grep -q "^$libc: 2 probes inserted in the kernel$" /tmp/out && $dprobes list |
		grep -q " $libc:fopen+0x0  *uprobe "
	say $? "it is in the kernel"
	$dprobes explain kernel:vfs_read >/dev/null
	logged '/proc/kallsym'
	say $? "a process that comes later"
	logged 'dprobes(1,0) name=dprobesd' && logged 'dprobes(1,2) name=dprobes$'
	say $? "one that ran already, and returns"
	$dprobes -q >/tmp/out
	grep -q "^$libc: user by uprobes, " /tmp/out && grep -q 'probe 0: active, [1-9][0-9]* counted' /tmp/out &&
		grep -q 'lv 0 = [1-9]' /tmp/out
	say $? "-q shows its counts and its variable"
	kill -KILL "$(pidof dprobesd)"
	$dprobes vars --local | grep -q 'lv 0 = [1-9]' && $dprobes list | grep -q " $libc:fopen+0x0  *uprobe "
	say $? "a killed driver's successor goes on with it"
	$dprobes build /tmp/all.rpn -o /tmp/all.ppdf >/dev/null &&
		$dprobes apply /tmp/all.ppdf --uprobes --replace >/dev/null
	say $? "an object"
	$dprobes -r /tmp/all.rpn >/dev/null && [ -z "$($dprobes list)" ]
	say $? "-r removes it"
	for what in 'name = libc.so.6' 'push d, environ' 'opcode = 0xcc'; do
		printf 'name = %s\n%s\noffset = fopen\n%s\n%s\nexit\n' $libc "$(echo "$what" | grep name)" \
			"$(echo "$what" | grep opcode)" \
			"$(echo "$what" | grep push)" >/tmp/bad.rpn
		! $dprobes insert /tmp/bad.rpn --uprobes 2>/tmp/err && grep -q 'E-KERNEL-UPROBE\|E-RPN-OPCODE' /tmp/err
		say $? "refused: $what"
	done
}

# What is logged at an instruction that faults: kept when that has been carried out, or with logonfault.
by_uprobes_faulting() {
	cat >/tmp/fault.rpn <<'END'
name = /t/faults
modtype = user
logmax = 64
ex_logmax = 200
vars = 1
offset = load_word
minor = 1
	inc lv, 0; push r, rdi; log 1; log st; exit
offset = divide + 5
minor = 2
	push r, rsi; log 1; exit
offset = add_numbers
minor = 3
	push r, rdi; log 1; exit
END
	words="load bad div_6_2 div_6_0 add_1_2 mend bad load"
	for kept in no yes; do
		sed "s/^minor/logonfault = $kept\nminor/" /tmp/fault.rpn >/tmp/fault-$kept.rpn
		$dprobes log --clear
		$dprobes insert /tmp/fault-$kept.rpn --uprobes >/dev/null 2>/tmp/err
		say $? "instructions that may fault, logonfault = $kept"
		for word in $words; do echo "$word" | tr _ ' '; done | ./faults | tr '\n' ' ' >/tmp/out
		[ "$(cat /tmp/out)" = "ready 7 fault 3 fault 3 0 7 fault 7 " ]
		say $? "the program does what it does without probes"
		$dprobes -q >/tmp/query
		[ $kept = no ] && load=4 divide=1 || load=7 divide=2
		grep -q "load_word+0x0, .* hits $load: recorded $load,.* lost 0;" /tmp/query &&
			grep -q "divide+0x5, .* hits $divide: recorded $divide," /tmp/query &&
			grep -q "add_numbers+0x0, .* hits 1: recorded 1," /tmp/query
		say $? "the records are those of instructions that were carried out, or of all"
		grep -q 'lv 0 = 7' /tmp/query
		say $? "the program ran at each"
		soon '[ "$($dprobes log | grep -c "^dprobes(1,1) .*bytes:")" = '$load' ] &&
			[ "$($dprobes log | grep -c "^dprobes(1,2) .*bytes:")" = '$divide' ]'
		say $? "and so are those in the log"
		[ "$($dprobes log | grep -c '^dprobes(0,0) stack trace of "/t/faults"+0x')" = $load ]
		say $? "and the stack traces"
		$dprobes -r -a >/dev/null && [ -z "$($dprobes list)" ]
		say $? "nothing is left"
	done
}
