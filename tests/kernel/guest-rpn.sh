# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Probe programs in the kernel, in the guest; read by guest.sh, which brings say, load and soon.

insert() { # name, text
	cat >/tmp/"$1"
	$dprobes -i /tmp/"$1" --log=PROCNAME,CPU >/tmp/out 2>/tmp/err
}

logged() {
	soon "$dprobes log --raw | grep -q '$1'"
}

# The program of the slides, for today's name of the function.
slides() {
	insert slides.rpn <<'END'
name = bzImage
modtype = kernel
major = 1
jmpmax = 32
logmax = 100
vars = 1
offset = do_sys_openat2
minor = 1
ignore = 0
maxhits = 1000
inc lv,0
push d, 16
push r, esp
log mrf
exit
END
	say $? "dprobes -i: the program of the slides"
	grep -q '^bzImage: 1 probe inserted in the kernel$' /tmp/out
	say $? "it is inserted in the kernel"
	cat /proc/version >/dev/null
	logged '"cat"\|cat'
	say $? "it logs, with the task's name"
	$dprobes -q >/tmp/out
	grep -q '^bzImage: kernel, ' /tmp/out && grep -q '  the kernel:' /tmp/out &&
		grep -q 'probe 0: active, [1-9][0-9]* counted, at 0xffffffff[0-9a-f]* (do_sys_openat2+0x0) by' /tmp/out
	say $? "-q shows where it is and what it counted"
	$dprobes -q -x -a | grep -q 'lv 0 = [1-9]'
	say $? "and its variable"
	$dprobes --getvars --local >/tmp/out
	grep -q 'the kernel, bzImage:' /tmp/out && grep -q 'lv 0 = [1-9]' /tmp/out
	say $? "--getvars too"
	$dprobes list | grep -q "p     do_sys_openat2+0x[59]/.*dprobes "
	say $? "list shows the driver's probe"
	$dprobes -i /tmp/slides.rpn 2>/tmp/err
	[ $? != 0 ] && grep -q E-RPN-EXISTS /tmp/err
	say $? "the same once more is refused"
	echo v >/proc/sysrq-trigger
	soon '$dprobes -q | grep -q "probe 0: gone, [1-9][0-9]* counted, do_sys_openat2+0x0, "'
	say $? "-q says when the magic key has removed it"
	$dprobes -r /tmp/slides.rpn | grep -q 'bzImage: removed'
	say $? "-r removes it"
	[ -z "$($dprobes list)" ]
	say $? "and its probe"
}

# For as long as a command runs.
traced() {
	cat >/tmp/traced.rpn <<'END'
name = bzImage
modtype = kernel
jmpmax = 32
logmax = 100
vars = 1
aggregate = "opened" count 0
offset = do_sys_openat2
inc lv,0
push d, 7; log 1
exit
END
	$dprobes trace -f /tmp/traced.rpn -- cat /proc/version >/tmp/out 2>/tmp/err
	say $? "trace -f runs a program in the kernel while a command runs"
	grep -q '^Linux version' /tmp/out && grep -q '(1,0)' /tmp/out && grep -q 'count opened *[1-9]' /tmp/out
	say $? "its records and its aggregates are shown"
	[ -z "$($dprobes list)" ]
	say $? "and its probe is gone"
}

# Functions of a module that programs call by name.
facilities() {
	cat >/tmp/exits.rpn <<'END'
name = bzImage
modtype = kernel
major = 7
jmpmax = 32
logmax = 100
vars = 2
offset = do_sys_openat2
ex_mask = 0xffff
	sx gone
	push d, 0x70
	call_exit 1, 1, "weight"
	pop lv, 0
	call_exit "mark"
	push d, 0x1111
	log 1
	push lv, 0
	log 1
	ux
	exit
gone:	log 3
	exit
END
	! $dprobes -i /tmp/exits.rpn 2>/tmp/err && grep -q 'E-EXIT-NONE.*"weight"' /tmp/err
	say $? "a program that calls an exit facility which is not there is refused"
	insmod exit-example.ko
	sed 's/1, 1, "weight"/1, 2, "weight"/' /tmp/exits.rpn >/tmp/bad.rpn
	! $dprobes -i /tmp/bad.rpn 2>/tmp/err &&
		grep -q 'E-EXIT-SIGNATURE.*"weight" takes 1 words and gives 1, not 1 and 2' /tmp/err
	say $? "and one that passes another number of words"
	$dprobes -i /tmp/exits.rpn --log=PROCNAME >/tmp/out
	say $? "the program is inserted once a module has registered the facility"
	cat /proc/version >/dev/null
	logged '1111 00000000 *00000000 00000003\|11 11 00.* 03 00\|0x1111.*0x3\|1111.*3'
	say $? "it calls the facility and gets its result"
	$dprobes -q >/tmp/out
	! grep -q 'exceptions [1-9]' /tmp/out
	say $? "without an exception"
	rmmod exit_example
	say $? "the module can go while programs call its facilities"
	dmesg | grep -q 'exit_example: marked [1-9][0-9]* times'
	say $? "the one that takes no words was called"
	cat /proc/version >/dev/null
	soon '$dprobes -q | grep -q "exceptions [1-9]"'
	say $? "from then on a call is an exception"
	insmod exit-example.ko leave=1
	$dprobes vars --local | grep -q 'lv 0 = 3'
	say $? "the program goes on when it is there again"
	rmmod exit_example && dmesg | grep -q 'exit_example has left exit facilities behind'
	say $? "facilities that a module leaves behind are taken out"
	cat /proc/version >/dev/null
	$dprobes -r -a >/dev/null
	sed 's/push d, 0x70/push d, 0/' /tmp/exits.rpn >/tmp/zero.rpn
	insmod exit-example.ko
	$dprobes -i /tmp/zero.rpn >/tmp/out
	cat /proc/version >/dev/null
	soon '$dprobes -q | grep -q "exceptions [1-9]"'
	say $? "an error of the facility is an exception"
	$dprobes -r -a >/dev/null
	$dprobes trace \
		'p kernel:do_sys_openat2 { int bits = call_exit("weight", 0xf0f); if (comm_is("cat")) log(bits); }' \
		-- cat /proc/version >/tmp/out 2>/tmp/err
	grep -q 'bits=8' /tmp/out
	say $? "a handler in C calls a facility"
	rmmod exit_example
}

# Types of the kernel, without which there is nothing to be said in C.
has_btf() {
	[ -r /sys/kernel/btf/vmlinux ] || { echo "tap: ok - $1 # SKIP the kernel has no BTF"; false; }
}

watched_in_c() {
	insert watched.dpc <<'END'
#pragma MODNAME("vmlinux") MODTYPE(kernel)
#pragma PROBEPOINT_LOCATION("w panic_timeout:4") PROBEPOINT_HANDLER("changed")
void changed() { if ($new != $old) printf("from %d to %d", (int)$old, (int)$new); count(writers, here()); }
END
	say $? "a handler in C at a watchpoint"
	echo -7 >/proc/sys/kernel/panic; echo $was >/proc/sys/kernel/panic
	logged "from $was to -7" && logged "from -7 to $was"
	say $? "it logs both values"
	$dprobes vars | grep -q '^    [a-z_]*int[a-z_]*+0x[0-9a-f]* *2 |#'
	say $? "it counts by the instruction that wrote"
	insert many.rpn <<'END'
name = many
modtype = kernel
watchpoint = panic_on_oops
length = 4
	exit
watchpoint = panic_on_warn
length = 4
	exit
watchpoint = system_state
length = 4
	exit
watchpoint = nr_cpu_ids
length = 4
	exit
END
	grep -q 'E-WATCH-BUSY.*panic_timeout' /tmp/err
	say $? "when no register is free, those that this module has are named"
	$dprobes -r -a >/dev/null
}

# Memory of the kernel is watched, beside a probe.
watched() {
	insert nolen.rpn <<'END'
name = vmlinux
modtype = kernel
watchpoint = panic_timeout
	exit
END
	[ $? != 0 ] && grep -q E-WATCH-SIZE /tmp/err
	say $? "a watchpoint in the kernel needs a length"
	insert watched.rpn <<'END'
name = vmlinux
modtype = kernel
logmax = 64
vars = 2
watchpoint = panic_timeout
length = 4
access = write
minor = 3
	inc lv, 0
	push r, old; push r, new; log 2
	exit
offset = ksys_sync
	inc lv, 1
	abort
END
	say $? "a program at a watchpoint"
	was=$(cat /proc/sys/kernel/panic)
	for n in 5 6 $was; do echo $n >/proc/sys/kernel/panic; done
	sync
	$dprobes -q >/tmp/out
	grep -q 'probe 0: watch panic_timeout:4:w, .*hits 3: recorded 3' /tmp/out && grep -q 'by watch, ' /tmp/out &&
		grep -q 'lv 0 = 3' /tmp/out && grep -q 'lv 1 = 1' /tmp/out
	say $? "it counts each write"
	logged '(1,3)' && logged '0600000000000000 *0500000000000000\|06000000.00000000.05000000.00000000'
	say $? "and logs both values"
	$dprobes -r -a >/dev/null
	echo 9 >/proc/sys/kernel/panic; echo $was >/proc/sys/kernel/panic
	[ -z "$($dprobes list)" ]
	say $? "it is removed"
	$dprobes log --clear
	has_btf "a handler in C at a watchpoint" && watched_in_c
}

# What only the kernel can do: the task, the processor, registers of user mode, its own memory; and altering.
kernel_only() {
	insert only.rpn <<'END'
name = vmlinux
modtype = kernel
logmax = 64
jmpmax = 4
vars = 3
gvars = 1
offset = __x64_sys_getuid
	push task; log 1
	push procid; log 1
	push u, rax; log 1
	push u, rip; log 1
	push r, cs; log 1
	push d, jiffies; push mem u64; log 1
	push d, 0; push mem u8; log 1
	exit

offset = __x64_sys_getuid
at = return
	push d, 4711; pop r, rax
	inc gv, 0
	abort
END
	say $? "a program with registers of user mode, task and processor"
	[ "$(id -ru)" = 4711 ]
	say $? "a return value is altered"
	soon '$dprobes vars --global | grep -q "gv 0 = [1-9]"'
	say $? "a global variable"
	$dprobes -q | grep -q 'exceptions [1-9]'
	say $? "memory that is not there is an exception, not a fault"
	$dprobes -r -a
	[ "$(id -ru)" = 0 ]
	say $? "and not any more"
	! insert bad.rpn <<'END'
name = vmlinux
modtype = kernel
offset = vfs_read
	call_kmod
	exit
END
	grep -q 'E-PROG-KERNEL' /tmp/err
	say $? "call_kmod is refused"
	for n in 1 2 3; do
		printf 'name = vmlinux\nmodtype = kernel\noffset = vfs_read\nexit %d\n' $n >/tmp/bad.rpn
		! $dprobes -i /tmp/bad.rpn 2>/tmp/err && grep -q \
			"E-KERNEL-DEBUGGER\|E-KERNEL-CRASH\|E-PROG-KERNEL" /tmp/err
		say $? "exit $n is refused"
	done
	! insert bad.rpn <<'END'
name = vmlinux
modtype = kernel
offset = vfs_read
opcode = 0xcc
	exit
END
	grep -q 'E-RPN-OPCODE' /tmp/err
	say $? "another first byte than the expected one is refused"
	! insert bad.rpn <<END
name = vmlinux
modtype = kernel
offset = $trap_path
	exit
END
	grep -q 'E-SITE-TRAPPATH' /tmp/err
	say $? "what must not be probed is refused"
	! insert other.rpn <<'END'
name = vmlinux
modtype = kernel
build_id = 00112233445566778899aabbccddeeff00112233
offset = vfs_write
	exit
END
	grep -q E-RPN-BUILD /tmp/err
	say $? "a program for another build of the kernel is refused"
	[ -z "$($dprobes list)" ]
	say $? "nothing is left of them"
}

# The processor's own registers, each as the reference kernel has it on this machine: nothing is logged where one
# differs.
processor() {
	cat >/tmp/cpu.rpn <<'END'
name = vmlinux
modtype = kernel
logmax = 64
jmpmax = 40
vars = 1
offset = __x64_sys_getuid
	push r, cr0; push d, 0x80000001; and; push d, 0x80000001; sub; jnz wrong
	push r, cr3; jz wrong
	push r, cr4; push d, 0x20; and; jz wrong
	push r, dr7; push d, 0x400; sub; jnz wrong
	push r, dr0; push r, dr1; or; push r, dr2; or; push r, dr3; or; jnz wrong
	push r, dr6; push d, 0xffff0000; and; jz wrong
	push r, gdtr; push d, 127; sub; jnz wrong; ros 1
	jz wrong
	push r, idtr; push d, 4095; sub; jnz wrong; ros 1
	jz wrong
	push r, tr; push d, 0x40; sub; jnz wrong
	push r, ldtr; jnz wrong
	push r, fs_base; jz wrong
	push u, mxcsr; push d, 0x1f80; sub; jnz wrong
	push u, fcw; push d, 0x37f; sub; jnz wrong
	push d, 0xc0000080; push r, msr; push d, 0xd01; and; push d, 0xd01; sub; jnz wrong
	push d, 0x12345678; push r, msr; or; jnz wrong
	push d, 0x18; push d, 4660; seg2lin; push d, 4660; sub; jnz wrong
	push d, 47; log 1
	push d, 0x61; push io u8; push d, 0x61; xchg; pop io u8
	push d, 48; log 1
	exit
wrong:	push d, 666; log 1
	exit

offset = __x64_sys_getgid
	push d, 0xfff8; push d, 0; seg2lin
	exit
END
	$dprobes insert /tmp/cpu.rpn --json >/tmp/out 2>/tmp/err
	say $? "a program with control, debug, table, segment, vector and model specific registers, and ports"
	id -ru >/dev/null
	soon '$dprobes log | grep -q "2f000000000000003000000000000000"'
	say $? "each as it must be"
	! $dprobes log | grep -q '"9a02000000000000"'
	say $? "and none as it must not be"
	id -rg >/dev/null
	soon '$dprobes -q | grep -q "exceptions [1-9]"'
	say $? "seg2lin of a segment that is not there is an exception"
	$dprobes -r -a
}

# modtype kmod: before the module is there; an object; what is inserted together shares a session.
of_modules() {
	insert victim.rpn <<'END'
name = dpvictim
modtype = kmod
logmax = 32
vars = 2
offset = victim_once
	inc lv, 0; push d, 1; log 1; exit
offset = victim_work
	inc lv, 1; push r, rdi; log 1; exit
END
	say $? "probes of a module that is not loaded"
	$dprobes -q >/tmp/out
	grep -q 'probe 0: waits, 0 counted, victim_once+0x0, ' /tmp/out &&
		grep -q 'probe 1: waits, 0 counted, victim_work+0x0, ' /tmp/out
	say $? "query says that they wait"
	insmod dpvictim.ko
	$dprobes -q | grep -q 'probe 1: active, [0-9]* counted, at 0xffffffff[0-9a-f]* (victim_work+0x0) by '
	say $? "and where they are once it is loaded"
	rmmod dpvictim
	$dprobes -q | grep -q 'probe 0: waits, 1 counted, victim_once+0x0, '
	say $? "and that they wait again when it has gone"
	insmod dpvictim.ko
	rmmod dpvictim
	$dprobes vars --local | grep -q 'lv 0 = 2'
	say $? "its init was seen each time it was loaded"
	cat >/tmp/count.rpn <<'END'
name = vmlinux
modtype = kernel
vars = 1
offset = vfs_read
	inc lv, 0; abort
END
	$dprobes build /tmp/count.rpn -o /tmp/count.ppdf >/tmp/out && $dprobes apply /tmp/count.ppdf >/dev/null
	say $? "an object is built and applied"
	grep -q 'for build [0-9a-f]\{40\}$' /tmp/out
	say $? "it has the build-id of the kernel"
	cat /proc/version >/dev/null
	$dprobes vars --local >/tmp/out
	grep -q 'lv 0 = 2' /tmp/out && grep -A 1 'the kernel, vmlinux:' /tmp/out | grep -q 'lv 0 = [1-9]'
	say $? "variables of the other program stay as they are"
	driver=$(pidof dprobesd)
	kill -KILL "$driver"
	soon '[ -z "$($dprobes list)" ]'
	say $? "a killed driver leaves no probes"
	$dprobes -r -a
	say $? "and nothing to remove"
}

# Machine code and the interpreter do the same, and a program that has gone leaves no code.
compiled() {
	has_btf "programs as machine code" || return
	cat >/tmp/both.dpc <<'END'
#pragma MODNAME("vmlinux") MODTYPE(kernel)
#pragma PROBEPOINT_LOCATION("vfs_open") PROBEPOINT_HANDLER("opened")
long mixed(const char *s, int n) {
	long h = n;
	for (int i = 0; i < 8 && s[i]; i++)
		h = h * 31 + (s[i] ^ i) - (h >> 3);
	return h < 0 ? -h : h;
}
void opened() {
	if (!comm_is("cat"))
		abort();
	log(mixed($path->dentry->d_name.name, 5), mixed($current->comm, -7));
	log_str($path->dentry->d_name.name);
	count(names, $path->dentry->d_name.name);
	hist(lengths, $path->dentry->d_name.len);
	log(*(long *)8); /* an exception */
}
END
	for how in Y N; do
		echo $how >/sys/module/dprobes/parameters/compile
		$dprobes trace -q -o /tmp/events -f /tmp/both.dpc -- cat /proc/version /proc/uptime >/tmp/out 2>/tmp/err
		sed -n 's/^.*vfs_open: //p' /tmp/events >/tmp/with.$how
		sed -n '/^  [a-z]* /,$p' /tmp/out >>/tmp/with.$how
	done
	echo Y >/sys/module/dprobes/parameters/compile
	grep -q 'd_name.name="version"' /tmp/with.Y && grep -q '^  hist *lengths' /tmp/with.Y &&
		cmp /tmp/with.Y /tmp/with.N
	say $? "a program compiled and interpreted"
	bytes=/sys/module/dprobes/parameters/compiled_bytes
	$dprobes -i /tmp/both.dpc >/tmp/out 2>/tmp/err && [ "$(cat $bytes)" -gt 500 ]
	say $? "its machine code"
	$dprobes -r -a && [ "$(cat $bytes)" = 0 ]
	say $? "goes with it"
}

# Names of a module's parameters before it is loaded, by its file.
late_in_c() {
	files=/lib/modules/$(uname -r)
	mkdir -p "$files/extra"
	cp dummy.ko "$files/extra"
	echo 'extra/dummy.ko:' >"$files/modules.dep"
	$dprobes trace -o /tmp/out 'p kmod(dummy):dummy_xmit len=$skb->len name=$dev->name' \
		'p kmod(dummy):dummy_* n=count by $comm' 'p kernel:dev_ioctl i=count' >/tmp/tables 2>/tmp/err &
	tracer=$!
	soon '$dprobes list 2>/dev/null | grep -q dev_ioctl' && $dprobes list | grep -q "dummy_xmit.*PENDING"
	say $? "lines with names for a module that is not loaded"
	insmod dummy.ko
	ifconfig dummy0 10.1.1.1 netmask 255.255.255.0 up
	ping -c 1 -W 1 10.1.1.2 >/dev/null
	kill -TERM $tracer
	wait $tracer
	ifconfig dummy0 down
	soon 'rmmod dummy 2>/dev/null'
	grep -q ': dummy_xmit: @dummy_xmit+0 len=[1-9][0-9]* name="dummy0"$' /tmp/out &&
		grep -q '^    insmod  *[1-9]' /tmp/tables && grep -q '^    ifconfig  *[1-9]' /tmp/tables
	say $? "it is seen from its init on"
	[ "$(grep -c 'dummy is not loaded yet; its probes wait for it$' /tmp/err)" = 1 ]
	say $? "that they wait is told once"
	rm -r "$files"
}

# Handlers in C: types and parameters by the kernel's BTF, and by that of a module.
in_c() {
	has_btf "handlers in C" || return
	cat >/tmp/kernel.dpc <<'END'
#pragma MODNAME("vmlinux") MODTYPE(kernel)
#pragma PROBEPOINT_LOCATION("tcp_v4_rcv") PROBEPOINT_HANDLER("received")
#pragma PROBEPOINT_LOCATION("vfs_open") PROBEPOINT_HANDLER("opened")
#pragma PROBEPOINT_LOCATION("do_sys_openat2%return") PROBEPOINT_HANDLER("returned")
#pragma PROBEPOINT_LOCATION("do_sys_openat2+5") PROBEPOINT_HANDLER("inside")
#pragma PROBEPOINT_LOCATION("vfs_read") PROBEPOINT_HANDLER("backtrace")
void received() { log($skb->len, $skb->protocol == 8); remove(); }
void opened() {
	if (strcmp($path->dentry->d_name.name, "version"))
		abort();
	log_str($path->dentry->d_name.name);
	log($path->dentry->d_name.len, $file->f_flags, $current->comm, $current->tgid == pid());
	count(opens, $current->comm);
}
void returned() { if ($retval != -2) abort(); log($retval); }
void backtrace() { log_backtrace(6); remove(); }
void inside() { if (@defined($filename)) log($filename); abort(); }
END
	sed -i "s/openat2+5/openat2+$(behind do_sys_openat2)/" /tmp/kernel.dpc
	$dprobes trace -f /tmp/kernel.dpc -- sh -c \
		'cat /proc/version; cat /no/such; nc -l -p 99 >/dev/null & sleep 1; echo 12345 | nc 127.0.0.1 99' \
		>/tmp/out 2>/tmp/err
	say $? "handlers in C run in the kernel"
	grep -q 'd_name.name="version" .*d_name.len=7 .*current->comm="cat" .*tgid == pid()=1' /tmp/out
	say $? "they read structures by their names, and the task's"
	grep -q 'skb->len=[1-9][0-9]* .*protocol == 8=1' /tmp/out
	say $? "a packet is read where it is received"
	grep -q 'retval=-2' /tmp/out
	say $? "and what a function returns"
	grep -q 'opens' /tmp/out && grep -q 'cat *1' /tmp/out
	say $? "an aggregate with a key"
	grep -q 'backtrace={vfs_read+0x[0459],ksys_read+0x[0-9a-f]*,.*do_syscall_64' /tmp/out
	say $? "a call chain"
	cat >/tmp/chains.dpc <<'END'
#pragma MODNAME("vmlinux") MODTYPE(kernel)
#pragma PROBEPOINT_LOCATION("vfs_read") PROBEPOINT_HANDLER("h")
void h() { count(chains, backtrace(4)); count(callers, caller()); count(places, here());
	sum(bytes, $count, backtrace(3), comm()); }
END
	$dprobes trace -f /tmp/chains.dpc -- sh -c 'cat /proc/version /proc/uptime >/dev/null' >/tmp/out 2>/tmp/err
	say $? "call chains as keys of tables"
	off='+0x[0-9a-f]*  *'
	grep -A 4 '^ *vfs_read+0x[0459]  *[1-9]' /tmp/out | tr -d '\n' |
		grep -q "vfs_read+0x[0459] *[1-9][0-9]* *|#*  *ksys_read$off.*do_syscall_64${off}entry_SYSCALL_64"
	say $? "a chain has the names of the kernel's functions"
	grep -q '^ *ksys_read+0x[0-9a-f]*  *[1-9][0-9]* |#' /tmp/out
	say $? "and the caller, and the place"
	grep -A 1 '^ *vfs_read+0x[0459], dprobes' /tmp/out | grep -q '^ *ksys_read+0x'
	say $? "a chain beside another part of a key"
	$dprobes trace -f kernel-open.dpc -- cat /proc/version /proc/cpuinfo >/tmp/out 2>/tmp/err
	grep -q 'cat, proc  *[2-9] |' /tmp/out && grep -q 'hist *bytes' /tmp/out
	say $? "the example: who opens what"
	$dprobes trace -q --json -o /tmp/out 'p kernel:vfs_open $uid $ppid $thread_name $cgroup if $comm == "cat"' \
		-- cat /proc/version >/tmp/told 2>/tmp/err &
	wait $!
	[ $? = 0 ] && grep -q "\"uid\":0,\"ppid\":$!,\"thread_name\":\"cat\",\"cgroup\":1}" /tmp/out
	say $? "event lines know the user, the parent, the name and the control group of the current task"
	$dprobes trace -q --json --children -o /tmp/out 'begin { thread long opened; n = 0; }' \
		'p kernel:vfs_open { if (comm_is("cat")) { opened++; n++; log(opened); } }' 'i:20ms { log(n); }' \
		'end { log(n); }' -- sh -c 'cat /proc/version /proc/uptime; sleep 1; cat /proc/version' \
		>/tmp/told 2>/tmp/err
	[ $? = 0 ] && [ "$(grep -c '"opened":1}' /tmp/out)" = 2 ] && grep -q '"opened":2}' /tmp/out
	say $? "each task has a variable of its own, which begins at 0"
	n=$(grep -c '"opened"' /tmp/out)
	grep -q "\"event\":\"end\".*\"n\":$n}" /tmp/out && grep -q '"event":"i_20ms"' /tmp/out
	say $? "timers and the end's body have the variables of the kernel's hits"
	cat >/tmp/gone.dpc <<'END'
#pragma MODNAME("vmlinux") MODTYPE(kernel) PROBEPOINT_LOCATION("vfs_open+1") PROBEPOINT_HANDLER("h")
void h() { log($path); }
END
	! $dprobes -i /tmp/gone.dpc 2>/tmp/err
	[ $? = 0 ] && grep -q 'E-VAR-GONE.*gone.dpc:2:16' /tmp/err
	say $? "a parameter behind the first instruction is refused"
	$dprobes vars kernel:vfs_open >/tmp/out
	grep -q '\$path *struct path \*, rdi' /tmp/out && grep -q '\$file *struct file \*, rsi' /tmp/out
	say $? "vars shows the parameters of a function"
	insmod dummy.ko
	[ -r /sys/kernel/btf/dummy ]
	typed=$?
	soon 'rmmod dummy 2>/dev/null'
	if [ $typed != 0 ]; then
		echo "tap: ok - a handler in C for a module # SKIP the kernel's modules have no BTF"
		return
	fi
	cat >/tmp/dummy.dpc <<'END'
#pragma MODNAME("dummy") MODTYPE(kmod) PROBEPOINT_LOCATION("dummy_xmit") PROBEPOINT_HANDLER("h")
void h() { log($skb->len, $dev->name); }
END
	late_in_c
	insmod dummy.ko
	$dprobes -i /tmp/dummy.dpc
	say $? "a handler in C for a module"
	ifconfig dummy0 10.1.1.1 netmask 255.255.255.0 up
	ping -c 1 -W 1 10.1.1.2 >/dev/null
	logged 'dev->name="dummy0"'
	say $? "it reads the module's arguments"
	$dprobes -r -a
	ifconfig dummy0 down
	soon 'rmmod dummy 2>/dev/null'
	say $? "which can be unloaded again"
}

# What the console and the serial port have shown, test_kernel.py looks at.
targets() {
	for target in CONSOLE COM1; do
		insert target.rpn <<END
name = vmlinux
modtype = kernel
major = $([ $target = COM1 ] && echo 8 || echo 7)
logmax = 32
offset = __x64_sys_getuid
	push d, 4711; log 1; exit
END
		$dprobes -r -a
		echo 7 >/proc/sys/kernel/printk
		$dprobes insert /tmp/target.rpn --log=PROCNAME --log-target $target >/dev/null
		say $? "log target $target"
		id -ru >/dev/null
		logged 'name=id'
		sleep 1
		$dprobes -r -a
		echo 1 >/proc/sys/kernel/printk
	done
	dmesg | grep -q 'dprobes(7,0) name=id'
	say $? "what goes to the console is in the kernel's log"
	! $dprobes insert /tmp/target.rpn --log-target COM2 2>/tmp/err && grep -q E-DRV-TARGET /tmp/err
	say $? "a port that is not there is refused"
}

# This kernel does not live on: test_kernel.py sees what it says at its end.
crash() {
	own_libraries
	mkdir -p /run
	$dprobes kernel load --allow-crash --allow-debugger dprobes.ko
	say $? "the module is loaded so that programs may crash the kernel"
	printf 'name = vmlinux\nmodtype = kernel\noffset = vfs_read\nexit 1\n' >/tmp/bad.rpn
	! $dprobes -i /tmp/bad.rpn 2>/tmp/err && grep -q \
		'E-KERNEL-DEBUGGER.*this kernel has none\|E-KERNEL-DEBUGGER.*no debugger is connected' /tmp/err
	say $? "exit 1 is refused where no debugger is"
	insert crash.rpn <<'END'
name = vmlinux
modtype = kernel
jmpmax = 1
offset = __x64_sys_getgid
	push d, 0; jz out
	exit 2
out:	abort
offset = __x64_sys_sync
	exit 2
END
	say $? "exit 2 is accepted"
	id -rg >/dev/null
	say $? "it is not reached"
	echo "tap: done"
	sleep 1
	sync
	say 1 "the kernel should not have come here"
}

# A kernel with a debugger; test_kernel.py sits at its second serial line, at kdb first, then with gdb.
debugger() {
	own_libraries
	mkdir -p /run
	sed -n 's/^\([0-9a-f]*\) [tT] \(__x64_sys_sync\|do_mkdirat\)$/debugger: \1 \2/p' /proc/kallsyms
	cat >/tmp/kdb.rpn <<'END'
name = vmlinux
modtype = kernel
logmax = 32
offset = __x64_sys_sync
	push d, 4711; log 1
	exit 1
END
	$dprobes kernel load dprobes.ko
	! $dprobes insert /tmp/kdb.rpn 2>/tmp/err && grep -q 'E-KERNEL-DEBUGGER' /tmp/err &&
		grep -q 'allow-debugger' /tmp/err
	say $? "exit 1 is refused where the module does not allow it"
	soon 'rmmod dprobes 2>/dev/null'
	$dprobes kernel load --allow-debugger dprobes.ko
	say $? "the module is loaded so that programs may enter the debugger"
	! $dprobes insert /tmp/kdb.rpn 2>/tmp/err && grep -q 'E-KERNEL-DEBUGGER.*no debugger is connected' /tmp/err
	say $? "exit 1 is refused while no debugger has a line"
	echo ttyS1 >/sys/module/kgdboc/parameters/kgdboc
	$dprobes insert /tmp/kdb.rpn >/dev/null
	say $? "with kdb on a line it is accepted"
	sync
	say $? "what entered kdb goes on"
	logged '67120000 00000000\|6712000000000000'
	say $? "its record is written"
	$dprobes -q | grep -q 'hits 1: recorded 1,'
	say $? "and counted"
	$dprobes -r -a >/dev/null
	cat >/tmp/gdb.rpn <<'END'
name = vmlinux
modtype = kernel
offset = do_mkdirat
maxhits = 2
	exit 1
offset = do_mkdirat
at = return
maxhits = 1
	exit 1
END
	echo 1 >/proc/sys/kernel/sysrq
	echo g >/proc/sysrq-trigger
	$dprobes insert /tmp/gdb.rpn >/dev/null
	say $? "with gdb connected it is accepted"
	! mkdir /tmp/refused 2>/tmp/err && grep -q 'No space left' /tmp/err && [ -d /tmp/refused ]
	say $? "what gdb writes to a register counts"
	mkdir /tmp/two
	say $? "without gdb nobody waits for it"
	$dprobes -r -a >/dev/null
	! $dprobes insert /tmp/gdb.rpn 2>/tmp/err && grep -q 'E-KERNEL-DEBUGGER.*no debugger is connected' /tmp/err
	say $? "when gdb has gone exit 1 is refused again"
	soon 'rmmod dprobes 2>/dev/null'
	say $? "it unloads"
}

krpn() {
	own_libraries
	mkdir -p /run
	insert bad.rpn <<'END'
name = vmlinux
modtype = kernel
offset = vfs_read
	exit
END
	grep -q E-KERNEL-DEVICE /tmp/err
	say $? "without the module a program is refused"
	$dprobes kernel load dprobes.ko
	slides
	slides_in_c
	traced
	facilities
	kernel_only
	processor
	watched # behind it: a debug register keeps its address
	of_modules
	in_c
	compiled
	by_uprobes
	by_uprobes_faulting
	targets
	soon 'rmmod dprobes 2>/dev/null'
	say $? "it unloads"
}
