# SPDX-License-Identifier: MIT OR GPL-2.0-only
# The dprobes command on the kernel, in the guest; read by guest.sh, which brings say, load and soon.

# Begin a trace with the arguments; returns when its probes stand.
begin() {
	$dprobes trace -o /tmp/out "$@" 2>/tmp/err &
	tracer=$!
	soon '$dprobes list | grep -q "dprobes $tracer "'
}

finish() {
	kill -TERM $tracer # a background command ignores SIGINT
	wait $tracer
}

# The summary's row of a probe: recorded and missed + lost; hits are the sum of their outcomes.
summary() {
	awk -v name="$1" '$1 == name { if ($3 != $4 + $5 + $6 + $7 + $8) exit; print $2, $4, $7 + $8 }' /tmp/err
}

trace_kernel() {
	begin 'p kernel:do_sys_openat2 dfd=%di:s32 name=+0($arg2):ustring' \
		'r:opened kernel:do_sys_openat2 fd=$retval:s32' \
		'p:odd kernel:vfs_write n=$arg3:u64 from=$stack0:symbol comm=$comm if $arg3 == 777'
	say $? "trace: two probes and a return probe"
	$dprobes list >/tmp/list
	grep "^ffffffff[0-9a-f]*  p     do_sys_openat2+0x[59]/0x" /tmp/list | grep -q " \(trap\|jump\) *dprobes $tracer"
	say $? "list shows a probe, its owner and how it stands"
	grep -q "  r     do_sys_openat2+0x[59]/" /tmp/list
	say $? "and the return probe"
	$dprobes list --json |
		grep -q '"type":"r","place":"do_sys_openat2.*"owner":'$tracer',"running":true,"state":\[.*\]}$'
	say $? "and as JSON"
	cat /proc/version >/dev/null
	dd if=/dev/zero of=/tmp/w bs=777 count=50 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=778 count=50 2>/dev/null
	soon '$dprobes list | grep -q jump'
	say $? "breakpoints become jumps"
	cat /proc/uptime >/dev/null
	finish
	say $? "it ends well"
	grep '^ *cat-[0-9]* *\[00[01]\] *[0-9]*\.[0-9]\{6\}: do_sys_openat2: ' /tmp/out |
		grep -q ': @do_sys_openat2+0 dfd=-100 name="/proc/version"$'
	say $? "a hit, with the user's text and the task's name"
	grep -q 'name="/proc/uptime"' /tmp/out
	say $? "and one by a jump"
	grep -q ': opened: <-do_sys_openat2+0 fd=3$' /tmp/out
	say $? "a return with its value"
	[ "$(grep -c ' odd: @vfs_write+0 n=777 from=ksys_write+0x[0-9a-f]* comm="dd"$' /tmp/out)" = 50 ]
	say $? "a condition, a word of the stack as a symbol, the task's name"
	[ "$(summary odd | cut -d' ' -f2-)" = "50 0" ]
	say $? "hits are recorded, filtered, or counted as lost"
	[ "$(grep -c 'name="' /tmp/out)" = "$(summary do_sys_openat2 | cut -d' ' -f2)" ]
	say $? "as many records as were counted"
	[ "$($dprobes list | grep -c "dprobes $tracer")" = 0 ]
	say $? "its probes are gone"
	begin --json 'p:o kernel:do_sys_openat2 name=+0($arg2):ustring mode=+16($arg3):u64 bt=$backtrace:symbol[4]' \
		'r:r kernel:do_sys_openat2 $retval:s64'
	cat /proc/version >/dev/null
	finish
	off='+0x[0-9a-f]*'
	head='^{"ts":[0-9]*\.[0-9]*,"task":"cat",\("pid":[0-9]*,\)\?"tid":[0-9]*,"cpu":[01],'
	head="$head"'"event":"o","group":"dprobes",'
	args='"symbol":"do_sys_openat2","offset":0,"return":false,"args":{"name":"/proc/version","mode":0,'
	chain="\"bt\":\\[\"do_sys_openat2+0x[05]\",\"__x64_sys_openat$off\",\"do_syscall_64$off\","
	grep -q "$head$args$chain\"entry_SYSCALL_64_after_hwframe$off\"\\]}}\$" /tmp/out
	say $? "JSON, with a call chain"
	grep -q '"event":"r",.*"return":true,"caller":"__x64_sys_openat+0x[0-9a-f]*","args":{"arg1":3}}$' /tmp/out
	say $? "JSON of a return, with its caller"
}

trace_watch() {
	begin 'w:timeout kernel:panic_timeout:4 old=$old new=$new:s32 by=$backtrace:symbol[3]' \
		'w:oops kernel:panic_on_oops:4 if $new == 1' \
		'p:other kernel:ksys_sync'
	say $? "watchpoints in the kernel, and a probe"
	was=$(cat /proc/sys/kernel/panic_on_oops)
	for n in 5 6 7; do echo $n >/proc/sys/kernel/panic; done
	for n in 0 1 0 $was; do echo $n >/proc/sys/kernel/panic_on_oops; done
	insmod kwatch-example.ko symbol=panic_on_warn
	$dprobes list >/tmp/list
	rmmod kwatch-example
	grep -q "^[0-9a-f]*  w     panic_timeout+0x0/[^ ]*  *watch   dprobes $tracer *\$" /tmp/list &&
		grep -q '^[0-9a-f]*  w     panic_on_warn+0x0/[^ ]*  *watch   module *$' /tmp/list &&
		[ "$(grep -c '  w  ' /tmp/list)" = 3 ]
	say $? "list shows watchpoints and whose they are"
	finish
	say $? "it ends well"
	echo 0 >/proc/sys/kernel/panic
	[ "$(grep -c ': timeout: @panic_timeout+0 old=0x[0-9a-f]* new=[567] by={.*int.*}$' /tmp/out)" = 3 ] &&
		grep -q 'old=0x5 new=6 ' /tmp/out
	say $? "who writes a variable of the kernel, and both values"
	[ "$(summary timeout)" = "watch 3 0" ]
	say $? "each write is counted once"
	[ "$(summary oops)" = "watch $((1 + was)) 0" ] && grep -q '^oops *watch *4 ' /tmp/err
	say $? "a condition"
}

# The kernel, for some processes.
trace_narrowed() {
	sh -c 'while :; do read -r _ </proc/uptime; usleep 10000; done' &
	reader=$!
	begin -p $reader 'p kernel:vfs_read pid=$pid comm=$comm' 'r:back kernel:vfs_read' 'p:never kernel:ksys_sync'
	say $? "trace -p: probes in the kernel"
	sync
	cat /proc/version >/dev/null
	soon '[ "$(grep -c vfs_read: /tmp/out)" -gt 3 ]'
	finish
	n=$(grep -c ' back: ' /tmp/out)
	[ "$n" -gt 3 ] && [ "$(grep -c " sh-$reader .* back: " /tmp/out)" = "$n" ] &&
		! grep ' vfs_read: ' /tmp/out | grep -qv " sh-$reader .* pid=$reader comm=\"sh\"\$" &&
		! grep -q ' never: ' /tmp/out
	say $? "only that process is recorded"
	awk '$1 == "never" { good = $3 >= 1 && $3 == $6 } END { exit !good }' /tmp/err
	say $? "hits of others are passed over"
	$dprobes trace --duration 1 --comm 'no such*' 'p kernel:vfs_read' 2>/tmp/err
	[ $? != 0 ] && grep -q E-SELECT-NONE /tmp/err
	say $? "a selection of nobody is an error"
	$dprobes trace --duration 1 --all /bin/busybox 'p kernel:vfs_read' 2>/tmp/err
	[ $? != 0 ] && grep -q 'E-KERNEL-WORLDS.*--all' /tmp/err
	say $? "and so are the users of a file"
	begin -p $reader 'p kernel:vfs_read'
	kill $reader
	soon '! $dprobes list | grep -q "dprobes $tracer "'
	say $? "the trace ends with the last of its processes"
	wait $tracer
}

# Those of a tree: a shell starts others all the time, which execute another program; a sibling does the same.
trace_family() {
	starts='while :; do sh -c "read -r _ </proc/uptime; exec cat /proc/version"; usleep 10000; done'
	sh -c "$starts" >/dev/null &
	root=$!
	sh -c "$starts" >/dev/null &
	other=$!
	for line in 'p kernel:do_filp_open $comm' 's kernel:openat $path' 't sched:sched_process_exec'; do
		begin -p $root --tree "p:names kernel:do_sys_openat2 pid=\$pid" "$line"
		say $? "--tree: $line"
		soon '[ "$(grep -c " cat-" /tmp/out)" -gt 3 ]'
		finish
		# Who was started in which order: our own are those whose parent is ours, at the time of the hit.
		awk '/^ / { split($1, v, "-"); if (v[2] > 0) seen[v[1]]++ } END { exit !seen["sh"] || !seen["cat"] }' \
			/tmp/out
		say $? "what the process starts, from its first hit on, and what that executes"
		awk -v root=$root -v other=$other '/^ / { n = split($1, v, "-"); if (v[n] == other) bad = 1; any = 1 }
			END { exit bad || !any }' /tmp/out
		say $? "no other process"
		awk '$1 == "names" { good = $4 > 3 && $6 > 3 } END { exit !good }' /tmp/err
		say $? "hits of others are passed over"
	done
	begin -p $root --tree 'p kernel:do_sys_openat2 files=count by $comm' >/tmp/tables
	kill $root $other
	soon '! $dprobes list | grep -q "dprobes $tracer "'
	wait $tracer
	say $? "it ends when the whole tree has ended"
	for how in --tree --children; do
		$dprobes trace $how -o /tmp/out 's kernel:openat $path' -- \
			sh -c 'true </proc/uptime; (usleep 300000; exec cat /proc/version) >/dev/null & exit 0' \
			2>/tmp/err
		grep -q 'sh-.*path="/proc/uptime"' /tmp/out && ! grep -v '^#' /tmp/out | grep -qv ' \(sh\|cat\)-'
		say $? "a command with $how, and nobody else"
	done
	$dprobes trace --tree -o /tmp/out 's kernel:openat $path' -- \
		sh -c '(usleep 300000; exec cat /proc/version) >/dev/null & exit 0' 2>/tmp/err
	grep -q 'cat-.*path="/proc/version"' /tmp/out
	say $? "its tree outlives it"
}

trace_refused() { # code event
	$dprobes trace --duration 1 "$2" >/dev/null 2>/tmp/err
	[ $? != 0 ] && grep -q "$1" /tmp/err
	say $? "refused with $1: $2"
}

trace_patterns() {
	begin 'p kernel:vfs_*' "p kernel:ksys_read+$(behind ksys_read)"
	say $? "every function that matches"
	[ "$($dprobes list | grep -c ' vfs_[a-z_]*+0x')" -gt 30 ]
	say $? "more than thirty"
	cat /proc/version >/dev/null
	finish
	grep -q ': vfs_read: @vfs_read+0$' /tmp/out && grep -q ': vfs_open: @vfs_open+0$' /tmp/out
	say $? "shown by their names"
	grep -q 'vfs_\*: [0-9]* functions' /tmp/err || ! grep -q 'left out' /tmp/err
	say $? "those that were left out are told"
	trace_refused E-KERNEL-SYMBOL 'p kernel:no_such_function_here'
	trace_refused E-KERNEL-SYMBOL 'p kernel:vfs_raed'
	grep -q 'did you mean vfs_read?' /tmp/err
	say $? "and what is like it is told"
	trace_refused E-KERNEL-SYMBOL 'w kernel:no_such_variable:4'
	trace_refused E-WATCH-SIZE 'w kernel:panic_timeout'
	trace_refused 'E-EVENT-REG.*nosuch' 'p kernel:vfs_read %nosuch'
	trace_refused E-KERNEL-AMBIGUOUS 'p kernel:name_show'
	trace_refused E-SITE-TRAPPATH "p kernel:$trap_path"
	begin 'p kernel:hrtimer_active'
	$dprobes list | grep -q ' p  *hrtimer_active+0x[04]/[^ ]* *ftrace '
	say $? "an entry that is a loop's is hit through the function tracer"
	finish
	$dprobes explain kernel:hrtimer_active | grep -q ': ftrace$'
	say $? "and explained"
	trace_refused E-SITE-FTRACE "p kernel:vfs_read+$(($(behind vfs_read) - 4))"
	trace_refused E-SITE-MIDINSN "p kernel:vfs_read+$(($(behind vfs_read) + 1))"
	trace_refused E-LINE-NODEBUG 'p kernel:read_write.c:12'
	trace_refused E-KERNEL-SYMBOL 'p kernel:vfs_read x=@no_such_symbol_here'
}

# The file for this kernel: which of the two that the test has made depends on where functions begin. Its build-id is
# that of no kernel before with_build_id.
debug_file() {
	mkdir -p /tmp/debug/boot
	export DPROBES_DEBUG_PATH=/tmp/debug
	debug=/tmp/debug/boot/vmlinux-$(uname -r)
	cp "debug-file.$(behind vfs_read)" "$debug"
}

with_build_id() {
	xxd -p /sys/kernel/notes | tr -d '\n' |
		sed 's/.*040000001400000003000000474e5500\(.\{40\}\).*/\1/' | xxd -r -p >/tmp/id
	dd if=/tmp/id of="$debug" bs=1 seek="$(cat "debug-file.$(behind vfs_read).id")" conv=notrunc 2>/dev/null
}

line_of() {
	grep -n "/\* $1 \*/" debug-file.c | cut -d: -f1
}

# Source lines, and variables that are known inside of functions only.
trace_source() {
	debug_file
	trace_refused 'E-LINE-NODEBUG.*vmlinux-[^ ]* is of another build' 'p kernel:debug-file.c:12'
	with_build_id
	begin "p:line kernel:debug-file.c:$(line_of read) left=\$left at=\$count if \$left == 777" \
		"p:inside kernel:vfs_read+$(behind vfs_read) \$left if \$left == 777" \
		'p:inlined kernel:inlined_half all=$all if $all == 555' \
		'p:name kernel:vfs_read $count if $count == 777' \
		't:switch sched:sched_switch n=count by $prev_comm'
	say $? "source lines in the kernel, beside functions and tracepoints"
	$dprobes list | grep -q "  p     vfs_read+0x$(behind vfs_read)/"
	say $? "list shows where they are"
	dd if=/dev/zero of=/tmp/w bs=777 count=3 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=555 count=3 2>/dev/null
	finish
	place="@vfs_read+0x$(behind vfs_read)"
	[ "$(grep -c "dd-[0-9]* .*: line: $place left=777 at=777\$" /tmp/out)" = 3 ] &&
		[ "$(grep -c ": inside: $place left=777\$" /tmp/out)" = 3 ] &&
		[ "$(grep -c ': name: @vfs_read+0 count=777$' /tmp/out)" = 3 ]
	say $? "with local variables"
	[ "$(grep -c ": inlined: @vfs_write+0x$(behind vfs_read) all=555\$" /tmp/out)" = 3 ]
	say $? "and a function that is inlined everywhere"
	$dprobes vars "kernel:debug-file.c:$(line_of read)" | grep -q '^ *\$left  *unsigned long\|left.*rdx'
	say $? "vars shows the variables of a line"
	trace_refused 'E-LINE-CODE' 'p kernel:debug-file.c:1'
	trace_refused 'E-LINE-FILE' 'p kernel:no_such_file.c:1'
	trace_refused 'E-KERNEL-BTF.*dpvictim is not loaded, and has no file' 'p kmod(dpvictim):victim.c:10'
	unset DPROBES_DEBUG_PATH
}

# The sample of the slides in C, and its command line.
slides_in_c() {
	debug_file
	with_build_id
	cat >/tmp/slides.dpc <<END
#pragma MODNAME("/usr/src/linux/vmlinux")
#pragma PROBEPOINT_LOCATION("debug-file.c:$(line_of read)")
#pragma MODTYPE(kernel)
#pragma PROBEPOINT_HANDLER ("test")
/* Demonstrates logging local variable. */
void test()
{
  log_probe_expr("*file");
}
END
	$dprobes -i /tmp/slides.dpc -s "$debug" >/tmp/out 2>/tmp/err
	say $? "dprobes -i FILE -s SYMBOLS: the sample in C of the slides"
	cat /proc/version >/dev/null
	soon '$dprobes log | grep -q ": @vfs_read+.*\*file={unknown = "'
	say $? "it logs the structure that a local variable points to"
	$dprobes -r /tmp/slides.dpc | grep -q 'removed'
	say $? "dprobes -r FILE removes it"
	unset DPROBES_DEBUG_PATH
}

questions() {
	$dprobes funcs 'kernel:vfs_*' >/tmp/out 2>/tmp/err
	say $? "funcs"
	grep -q '^ffffffff[0-9a-f]* *[0-9]* \(jump\|trap\) *kernel:vfs_read' /tmp/out &&
		grep -q '^[0-9]* functions: [0-9]* jump' /tmp/err
	say $? "funcs shows what a probe would be"
	! $dprobes funcs 'kernel:init_tas*' 2>/dev/null | grep -q ':init_task '
	say $? "data is not among the functions, whatever /proc/kallsyms shows it as"
	$dprobes funcs "kernel:${trap_path%?}*" 2>/dev/null | grep -q "refused kernel:$trap_path  E-SITE-TRAPPATH: "
	say $? "and why not"
	$dprobes explain "kernel:$trap_path" | grep -q '^E-SITE-TRAPPATH: '
	say $? "explain tells of a place"
	$dprobes funcs --json "kernel:$trap_path" 2>/dev/null |
		grep -q '"module":"kernel","address":"0xffff.*"code":"E-SITE-TRAPPATH","reason":"' &&
		$dprobes explain --json "kernel:$trap_path" |
		grep -q '^{"place":"kernel:'"$trap_path"'",.*"outcome":"refused","code":"E-SITE-TRAPPATH","message":"'
	say $? "both as JSON"
	place=kernel:vfs_read+$(behind vfs_read)
	$dprobes explain $place | grep -q "^$place, 0xffffffff[0-9a-f]*: \(jump\|trap\)"
	say $? "and of one that can be probed"
}

# Armed before the module's init runs, gone with it, there again when it comes back.
trace_modules() {
	begin 'p:once kmod(dpvictim):victim_once' 'p:work kmod(dpvictim):victim_work n=$arg1' \
		'r:done kmod(dpvictim):victim_work $retval'
	say $? "probes of a module that is not loaded"
	[ "$($dprobes list | grep -c 'dpvictim:victim_.*PENDING')" = 3 ]
	say $? "list shows that they wait"
	for round in 1 2 3; do
		insmod dpvictim.ko
		$dprobes list | grep -q ' victim_work+0x[59]/.* \[dpvictim\]'
		say $? "the module is loaded: armed (time $round)"
		rmmod dpvictim
		[ "$($dprobes list | grep -c 'dpvictim:victim_.*PENDING')" = 3 ]
		say $? "it is unloaded: they wait"
	done
	finish
	[ "$(grep -c ': once: @victim_once+0$' /tmp/out)" = 3 ]
	say $? "its init was seen each time"
	[ "$(grep -c ': work: @victim_work+0 n=' /tmp/out)" -ge 3 ] &&
		[ "$(grep -c ': work: ' /tmp/out)" = "$(grep -c ': done: ' /tmp/out)" ]
	say $? "calls and their returns"
	trace_refused 'E-KERNEL-SYMBOL.*dpvictim is not loaded, and has no file' 'p kmod(dpvictim):victim_*'
	files=/lib/modules/$(uname -r)
	mkdir -p "$files/extra"
	cp dpvictim.ko "$files/extra"
	echo 'extra/dpvictim.ko:' >"$files/modules.dep"
	trace_refused 'E-KERNEL-SYMBOL.*no function matches' 'p kmod(dpvictim):nothing_*'
	$dprobes funcs 'kmod(dpvictim):*' >/tmp/list 2>/tmp/err
	grep -q '^ *-  *[1-9][0-9]* waits *kmod(dpvictim):victim_work$' /tmp/list && ! grep -q _module /tmp/list &&
		grep -q '^[1-9] functions: dpvictim is not loaded; probes wait for it$' /tmp/err
	say $? "funcs shows the functions of a module that is not loaded"
	$dprobes funcs --json 'kmod(dpvictim):victim_w*' 2>/dev/null |
		grep -q '"module":"kmod(dpvictim)","address":null,"size":[1-9].*,"outcome":"waits"}$'
	say $? "and as JSON"
	begin 'p kmod(dpvictim):*' 'r kmod(dpvictim):victim_[ow]* $retval'
	say $? "patterns in a module that is not loaded"
	[ "$(grep -c 'dpvictim is not loaded yet; its probes wait for it$' /tmp/err)" = 1 ]
	say $? "which is told once"
	for round in 1 2; do
		insmod dpvictim.ko
		rmmod dpvictim
	done
	finish
	for function in victim_init victim_once victim_exit; do
		[ "$(grep -c ": $function: @$function+0\$" /tmp/out)" = 2 ]
		say $? "each function of it, each time: $function"
	done
	n=$(grep -c ': victim_work: @victim_work+0$' /tmp/out)
	[ "$n" -gt 4 ] && [ "$(grep -c ': <-victim_work+0 arg1=' /tmp/out)" = "$n" ] &&
		! grep -q '_module: @' /tmp/out
	say $? "once for each hit"
	trace_module_lines
	rm -r "$files"
	insmod dpvictim.ko
	trace_refused 'E-LINE-NODEBUG.*dpvictim, build [0-9a-f]\|E-KERNEL-BTF.*dpvictim' \
		"p kmod(dpvictim):victim.c:$line"
	rmmod dpvictim
}

# The module's file has debug information, as one that was built here has.
trace_module_lines() {
	line=$(grep -n '/\* doubled \*/' victim.c | cut -d: -f1)
	begin "p:line kmod(dpvictim):victim.c:$line n=\$n" 'p:entry kmod(dpvictim):victim_work at=$n'
	say $? "a source line of a module that is not loaded"
	insmod dpvictim.ko
	soon '$dprobes list | grep -q " victim_work+0x.*dprobes $tracer"'
	rmmod dpvictim
	finish
	[ "$(sed -n 's/.*: line: @victim_work+0x[0-9a-f]* n=\([0-9]\)$/\1/p' /tmp/out | tr -d '\n')" = 0121 ] &&
		[ "$(sed -n 's/.*: entry: @victim_work+0 at=\([0-9]\)$/\1/p' /tmp/out | tr -d '\n')" = 0121 ]
	say $? "with the function's variables, from its init to its exit"
	insmod dpvictim.ko
	begin "p:line kmod(dpvictim):victim.c:$line n=\$n"
	say $? "a source line of a module that is loaded"
	$dprobes vars "kmod(dpvictim):victim.c:$line" | grep -q '^ *\$n  *long\|n.*rdi\|n.*%di'
	say $? "vars shows its variables"
	rmmod dpvictim
	finish
	[ "$(grep -c ': line: @victim_work+0x[0-9a-f]* n=1$' /tmp/out)" = 1 ]
	say $? "is hit"
	trace_refused E-LINE-CODE 'p kmod(dpvictim):victim.c:1'
	trace_refused E-LINE-FILE 'p kmod(dpvictim):no_such_file.c:1'
}

# Code of processes, those that run already and those that come: all that map the C library of this command.
trace_user() {
	libc=/t/lib/libc.so.6
	$dprobes trace -o /tmp/waits 'p kernel:vfs_fsync' 2>/dev/null &
	earlier=$!
	soon '$dprobes list | grep -q " vfs_fsync"'
	begin "p:open user($libc):fopen name=+0(%di):ustring tid=\$comm" "r:opened user($libc):fopen f=\$retval" \
		"p:inside user($libc):fopen+0 if +0(%di):ustring == \"/proc/no-such-file\"" \
		"p user($libc):*clock_nanosleep" \
		"p:other user($libc):poll" "p kernel:vfs_read"
	say $? "probes in a file that processes map"
	$dprobes list | grep -q "^[0-9a-f]*  p  *$libc:fopen+0x0  *uprobe  dprobes $tracer"
	say $? "list shows them"
	# Probes come one after the other: what is compared below begins when all are there.
	for probe in "  r  *$libc:fopen+" "  p  *$libc:.*poll+" "  p  *vfs_read+"; do
		soon '$dprobes list | grep "dprobes $tracer" | grep -q "$probe"'
		say $? "there is $probe"
	done
	$dprobes explain kernel:vfs_read >/dev/null &
	later=$!
	wait $later
	$dprobes explain kernel:vfs_write >/dev/null
	sleep 1
	finish
	# The name is a constant of the command, whose page the process may not have touched yet.
	[ "$(grep -c ': open: @fopen+0 name=\("/proc/kallsyms"\|(fault)\) tid="dprobes"' /tmp/out)" -ge 2 ]
	say $? "processes that came later: $(grep -m 1 -o 'name=.*tid="dprobes"' /tmp/out)"
	[ "$(grep ': open: ' /tmp/out | sed 's/.*-\([0-9]*\) .*/\1/' | sort -u | wc -l)" -ge 2 ]
	say $? "several of them"
	grep -q -- "-$earlier .*: \(clock_nanosleep\|other\): @" /tmp/out
	say $? "and one that ran already"
	opened=$(grep -c -- "-$later .*: opened: <-fopen+0 f=0x[0-9a-f]*\$" /tmp/out)
	[ "$opened" -gt 0 ] && [ "$opened" = "$(grep -c -- "-$later .*: open: " /tmp/out)" ]
	say $? "each return with its value"
	grep -q ': vfs_read: @vfs_read+0$' /tmp/out
	say $? "and the kernel's own in the same trace"
	[ "$(summary open | cut -d' ' -f3)" = 0 ] && grep -q '^opened *uretprobe ' /tmp/err
	say $? "the summary tells how they were hit"
	[ "$(summary inside | cut -d' ' -f2)" = 0 ]
	say $? "a condition over the process's memory"
	begin "p user($libc):fopen"
	echo v >/proc/sysrq-trigger
	soon '! $dprobes list | grep -q uprobe'
	say $? "the magic key removes these, too"
	finish
	kill -TERM $earlier
	wait $earlier
	[ -z "$($dprobes list)" ]
	say $? "none is left"
	trace_refused E-SITE-MIDINSN "p user($libc):fopen+1"
	trace_refused E-SYM-NONE "p user($libc):no_such_function_here"
	trace_refused E-FILE-OPEN 'p user(/no/such/file):main'
}

# Whatever kills the command, its probes go.
trace_killed() {
	begin 'p kernel:vfs_read' 'r kernel:vfs_write'
	rmmod dprobes 2>/dev/null
	say $((!$?)) "the module cannot go meanwhile"
	kill -KILL $tracer
	wait $tracer 2>/dev/null
	soon '[ -z "$($dprobes list)" ]'
	say $? "a killed trace leaves no probes"
	chmod 666 /dev/dprobes
	su -s /bin/sh nobody -c "$dprobes list" 2>/tmp/err
	say $((!$?)) "only root may use the device"
	chmod 600 /dev/dprobes
	[ "$(ls -l /dev/dprobes | cut -c1-10)" = "crw-------" ]
	say $? "as its mode says"
}

# While everything is used: the rings are read, probes come and go.
trace_under_load() {
	work &
	worker=$!
	bad=0
	for round in 1 2 3 4 5; do
		begin 'p kernel:vfs_*' "r kernel:$cache_alloc p=\$retval" 'p kernel:kfree p=$arg1 if $arg1 != 0' ||
			bad=1
		sleep 1
		finish || bad=1
	done
	kill $worker
	say $bad "traces under load"
	awk '$2 == "jump" || $2 == "trap" || $2 ~ /^return/ { n++; if ($3 != $4 + $5 + $6 + $7 + $8) bad = 1 }
		END { exit !(n > 4 && !bad) }' /tmp/err
	say $? "each hit has one outcome"
	awk '$1 == "total" { total = $3 } END { print total }' /tmp/err >/tmp/n
	[ "$(grep -vc '^#' /tmp/out)" = "$(cat /tmp/n)" ]
	say $? "every recorded hit is shown"
}

ktrace() {
	own_libraries
	$dprobes trace --duration 1 'p kernel:vfs_read' 2>/tmp/err
	[ $? != 0 ] && grep -q 'E-KERNEL-DEVICE' /tmp/err
	say $? "without the module a trace is refused"
	$dprobes doctor | grep -q '^  dprobes.ko  *E-KERNEL-DEVICE: .*; processes can still be probed'
	say $? "and doctor misses it"
	$dprobes kernel load dprobes.ko
	$dprobes doctor | grep -q '^  dprobes.ko  *loaded, of this version  *probes in the kernel$'
	say $? "doctor finds it"
	trace_kernel
	trace_watch
	trace_narrowed
	trace_family
	trace_patterns
	trace_source
	questions
	trace_modules
	trace_user
	trace_killed
	trace_under_load
	$dprobes kernel unload
	say $? "it unloads"
}
