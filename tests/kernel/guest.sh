#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Runs in the guest: one group of tests, named by the file /t/group. Lines that begin with "tap:" are
# results; at the end the kernel's log is looked through for trouble.
debug=/sys/kernel/debug/dprobes/kprobes
lookup=0x$(awk '$3 == "kallsyms_lookup_name" { print $1 }' /proc/kallsyms)

# Later kernels have it under another name.
cache_alloc=$(grep -o -m 1 -E ' kmem_cache_alloc(_noprof)?$' /proc/kallsyms | tr -d ' ')

# What runs before the handler of a breakpoint: the first is a function only where kernels are preemptible.
trap_path=$(grep -o -m 1 -E ' __rcu_read_lock$' /proc/kallsyms | tr -d ' ')
trap_path=${trap_path:-notify_die}

# Where the first instruction of a traceable function is, behind the tracer's bytes and, where the kernel wants one in
# every function that others can call, a landing pad.
behind() {
	if grep -q ' ibt_restore$' /proc/kallsyms && grep -q " T $1\$" /proc/kallsyms; then echo 9; else echo 5; fi
}

say() {
	if [ "$1" = 0 ]; then echo "tap: ok - $2"; else echo "tap: not ok - $2"; fi
}

# Results of the test module are in the kernel's log.
results() {
	dmesg | sed -n 's/^\[[ 0-9.]*\] [a-z]*: *tap: /tap: /p; s/^\[[ 0-9.]*\] tap: /tap: /p'
	dmesg >>/tmp/log
	dmesg -c >/dev/null
}

# Wait, for a while, until a command succeeds.
soon() {
	for _ in $(seq 150); do
		if eval "$1"; then return 0; fi
		sleep 0.2
	done
	return 1
}

load() {
	insmod dprobes.ko lookup="$lookup" "$@"
}

run() {
	insmod dptest.ko lookup="$lookup" group="$1" $2
	results
	rmmod dptest
}

work() {
	while :; do
		ls -lR /proc/self /sys/kernel
		dd if=/dev/zero of=/tmp/x bs=4k count=100
		md5sum /tmp/x
		ping -c 1 127.0.0.1
		sleep 0.3
	done >/dev/null 2>&1
}

# What the kernel has printed of the stack below calls whose return is probed, but for what it is not sure of.
printed_trace() {
	sed -n 's/^\[[ 0-9.]*\] *\(\[ *[TC][0-9]*\] *\)\?\(traced_[a-z]*\)[.a-z]*+0x.*/\2/p' /tmp/log | tr '\n' ' '
}

# KiB of the module: its code and data, and what it has allocated.
memory() {
	allocated=$(sed -n 's/.* pages=\([0-9]*\) .*/\1/p' /tmp/allocated | awk '{ n += $1 } END { print n * 4 }')
	echo $(($(awk '$1 == "dprobes" { print $2 }' /proc/modules) / 1024 + allocated))
}

conformance() {
	insmod dprobes.ko 2>/dev/null
	say $((!$?)) "without the address of kallsyms_lookup_name it does not load"
	insmod dprobes.ko lookup=0xffffffff81000000 2>/dev/null
	say $((!$?)) "nor with a wrong one"
	load
	say $? "it loads"
	grep '\[dprobes\]' /proc/vmallocinfo >/tmp/allocated
	[ "$(memory)" -lt 1024 ]
	say $? "it takes less than 1 MiB: $(memory) KiB"
	run rules
	run kprobes
	run returns
	[ "$(printed_trace)" = "traced_leaf traced_middle traced_outer " ]
	say $? "a stack that the kernel prints has the callers of functions whose return is probed: $(printed_trace)"
	run ftrace
	run hooks
	run watch
	rmmod dprobes
	say $? "it unloads"
}

# A boot of its own: where a refusal fails, the kernel does too.
refusals() {
	load
	run refused
	tracing=/sys/kernel/tracing
	insmod dptest.ko lookup="$lookup" group=hold what=hot
	results
	echo vfs_read >$tracing/set_ftrace_filter && echo function >$tracing/current_tracer
	say $? "the function tracer is switched on for a probed function"
	cat /proc/version >/dev/null
	grep -q ': vfs_read <-' $tracing/trace
	say $? "and sees it"
	echo 'p:theirs vfs_read' >$tracing/kprobe_events && echo 1 >$tracing/events/kprobes/theirs/enable
	say $? "so does a kprobe of the kernel at its start"
	echo >$tracing/trace
	head -c 9 /proc/version >/dev/null
	echo 0 >$tracing/tracing_on # who reads the trace calls vfs_read, too
	grep -q ': theirs: (vfs_read+0x[04]' $tracing/trace && grep -q ': vfs_read <-' $tracing/trace
	say $? "both are hit"
	echo 1 >$tracing/tracing_on
	echo 0 >$tracing/events/kprobes/theirs/enable
	echo >$tracing/kprobe_events
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	cat /proc/version >/dev/null
	grep -q ' k  vfs_read+0x[59]/' $debug/list
	say $? "ours stands where it stood"
	rmmod dptest
	results
	rmmod dprobes
	say $? "it unloads"
}

# The guest has no C library: the command brings its own. Programs that it starts find it there too.
own_libraries() {
	mkdir -p /lib64
	ln -sf /t/lib/ld-linux-x86-64.so.2 /lib64/
	export LD_LIBRARY_PATH=/t/lib
	dprobes=/t/lib/dprobes
}

dprobes_command() {
	own_libraries
	$dprobes kernel load dprobes.ko
	say $? "dprobes kernel load"
	[ "$(lsmod | grep -c '^dprobes ')" = 1 ]
	say $? "the module is there"
	$dprobes kernel load dprobes.ko 2>/tmp/why
	say $((!$?)) "a second time it fails"
	grep -q 'E-KERNEL-MODULE' /tmp/why
	say $? "with a code"
	insmod dptest.ko lookup="$lookup" group=hold what=hot
	$dprobes kernel unload 2>/tmp/why
	say $((!$?)) "it is not unloaded while it is used"
	grep -q 'unload the modules that use it first' /tmp/why
	say $? "and the reason told"
	results
	rmmod dptest
	results
	hooks_command
	$dprobes kernel unload
	say $? "dprobes kernel unload"
	[ "$(lsmod | grep -c '^dprobes ')" = 0 ]
	say $? "the module is gone"
	refused_modules
}

# $1: a pattern of what the command says when it is to load $2.
load_refused() {
	$dprobes kernel load "$2" 2>/tmp/why
	[ $? != 0 ] && grep -q "$1" /tmp/why
	say $? "dprobes kernel load is refused: $(head -n 1 /tmp/why)"
}

# None of these states of the kernel can be left again.
refused_modules() {
	load_refused "E-KERNEL-VERSION.*: built for 0[^ ]*, and this is $(uname -r)$" other.ko
	echo 1 >/sys/module/module/parameters/sig_enforce
	load_refused 'E-KERNEL-SIGNATURE.*loads signed modules only' dprobes.ko
	grep -q 'scripts/sign-file sha256' /tmp/why
	say $? "and the command that signs it told"
	mount -t securityfs security /sys/kernel/security
	echo integrity >/sys/kernel/security/lockdown
	load_refused 'E-KERNEL-SIGNATURE.*the kernel is locked down' dprobes.ko
	echo 1 >/proc/sys/kernel/modules_disabled
	load_refused 'E-KERNEL-MODULE.*loads no modules any more' dprobes.ko
}

# dprobes hooks without -p.
hooks_command() {
	number=/sys/module/hooks_example/parameters/number
	insmod hooks-example.ko && insmod audit-example.ko
	$dprobes hooks >/tmp/list
	grep -q '^number_set *hook *1  -$' /tmp/list && grep -q '^  1  audit *writable *-$' /tmp/list
	say $? "dprobes hooks shows the hooks of modules"
	$dprobes hooks --arm number_set:audit && ! echo -5 >$number 2>/dev/null
	say $? "and arms an exit"
	$dprobes hooks --json |
		grep '"hook":"number_set","kind":"hook","places":1,"active":true,"open":false,"exits":\[{' |
		grep -q '\[{"exit":"audit","position":1,"armed":true,"writable":true}\]}'
	say $? "JSON"
	$dprobes hooks --disarm number_set:audit && echo -5 >$number
	say $? "and disarms it"
	$dprobes hooks --arm nothing:audit 2>/tmp/why
	[ $? != 0 ] && grep -q E-HOOK-NONE /tmp/why
	say $? "an exit that is not there"
	$dprobes hooks --arm file_opening 2>/tmp/why
	[ $? != 0 ] && grep -q E-HOOK-DYNAMIC /tmp/why
	say $? "a dynamic hook is not opened"
	$dprobes hooks --arm number_set && $dprobes hooks | grep -q '^number_set *hook *1  open$'
	say $? "a hook is opened for probes"
	$dprobes trace -o /tmp/out 'p kmod(hooks_example):number_set_hook_call n=+0($arg3):s32' 2>/tmp/err &
	tracer=$!
	soon '$dprobes list | grep -q number_set_hook_call'
	echo 77 >$number
	$dprobes hooks --disarm number_set
	echo 78 >$number
	kill -TERM $tracer
	wait $tracer
	[ "$(grep -c 'number_set_hook_call: .* n=' /tmp/out)" = 1 ] && grep -q ' n=77$' /tmp/out
	say $? "a probe sees what is passed while it is open"
	rmmod audit-example && rmmod hooks-example
	say $? "the modules go"
}

modules() {
	load
	insmod dptest.ko lookup="$lookup" group=hold what=module
	results
	grep -q 'k  dpvictim:victim_work+0x0  \[PENDING\]' $debug/list
	say $? "list shows a probe that waits"
	insmod dpvictim.ko
	grep -q 'k  victim_work+0x[59]/.* \[dpvictim\]' $debug/list
	say $? "list shows it in its module"
	grep -q 'r  victim_work+0x[59]/.* \[dpvictim\]' $debug/list
	say $? "and the return probe"
	grep -q 'victim_once.*\[GONE\]' $debug/list
	say $? "code that init leaves behind is gone"
	rmmod dpvictim
	say $? "a probed module can be unloaded"
	[ "$(grep -c '\[GONE\]' $debug/list)" = 3 ]
	say $? "list shows that they are gone"
	rmmod dptest
	results
	rmmod dprobes
	say $? "it unloads"
}

knobs() {
	load
	insmod dptest.ko lookup="$lookup" group=hold what=hot
	results
	[ "$(cat $debug/enabled)" = 1 ] && [ "$(cat /proc/sys/debug/dprobes-optimization)" = 1 ]
	say $? "enabled, and optimisation is on"
	[ "$(grep -c . $debug/list)" = 17 ] && grep -q ' k  vfs_read+0x[59]/' $debug/list
	say $? "list shows all probes"
	soon '[ "$(grep -c OPTIMIZED $debug/list)" -gt 8 ]'
	say $? "most of them optimised"
	echo 0 >/proc/sys/debug/dprobes-optimization
	! grep -q OPTIMIZED $debug/list
	say $? "none, when optimisation is off"
	echo 1 >/proc/sys/debug/dprobes-optimization
	soon '[ "$(grep -c OPTIMIZED $debug/list)" -gt 8 ]'
	say $? "and again, when it is on"
	echo 0 >$debug/enabled
	[ "$(cat $debug/enabled)" = 0 ] && ! grep -q OPTIMIZED $debug/list
	say $? "everything is disarmed"
	echo 1 >$debug/enabled
	[ "$(cat $debug/enabled)" = 1 ]
	say $? "and armed"
	echo 7 >/proc/sys/debug/dprobes-optimization 2>/dev/null
	say $((!$?)) "the switch takes 0 and 1 only"
	[ "$(grep -c . $debug/blacklist)" -gt 10 ] && grep -q "$trap_path.*E-SITE-TRAPPATH" $debug/blacklist
	say $? "blacklist tells what may not be probed"
	insmod kwatch-example.ko && echo 3 >/proc/sys/kernel/panic
	echo v >/proc/sysrq-trigger
	soon '[ "$(grep -c GONE $debug/list)" = 17 ] && dmesg | grep -q "all probes are removed"'
	say $? "the magic key removes every probe"
	echo 0 >/proc/sys/kernel/panic
	rmmod kwatch-example
	dmesg | grep -q '_example: panic_timeout was written 1 times'
	say $? "and every watchpoint"
	rmmod dptest
	results
	[ ! -s $debug/list ]
	say $? "the list is empty"
	rmmod dprobes
	say $? "it unloads"
	[ ! -e /sys/kernel/debug/dprobes ] && [ ! -e /proc/sys/debug/dprobes-optimization ]
	say $? "and leaves nothing behind"
}

examples() {
	load
	for name in kprobe kretprobe jprobe; do
		insmod $name-example.ko
		say $? "$name-example is loaded"
	done
	for _ in 1 2 3 4 5 6 7 8; do ls /t | cat >/dev/null; done
	for name in kprobe kretprobe jprobe; do
		rmmod $name-example
	done
	dmesg | grep -E '_example: kernel_clone was entered ([89]|[1-9][0-9]+) times, 0 hits were missed'
	say $? "kprobe-example has counted"
	dmesg | grep -E '_example: kernel_clone took [1-9][0-9]* ns at most, returned [1-9][0-9]* last, 0 calls'
	say $? "kretprobe-example has measured"
	dmesg | grep -E '_example: vfs_read: [1-9][0-9]* calls for [1-9][0-9]* bytes'
	say $? "jprobe-example has seen arguments"
	insmod dpcompat.ko
	say $? "a module written for the kernel's own Kprobes is loaded"
	dmesg | grep -q 'compat: 1 before, 1 behind, 4 of a batch, 2 returned, 2 entered, addr kept'
	say $? "its probes are ours, of each kind"
	rmmod dpcompat
	insmod dpold.ko
	say $? "a module as of 2005, by init_module() and kallsyms_lookup_name(), is loaded"
	rmmod dpold
	dmesg | grep -q 'old: pre_handler: right place 1, argument 1, flags 1'
	say $? "registers by their names of then"
	dmesg | grep -q ' old_work+0x[0-9a-f]*/.* \[dpold\]'
	say $? "dump_stack() in a handler shows who was called"
	dmesg | grep -q 'old: 5 before, 5 behind, 5 entered, 5 returned, 10 of a batch'
	say $? "its probes have counted"
	insmod kprobe-example.ko symbol="$trap_path" 2>/dev/null
	say $((!$?)) "a place that must not be probed is refused"
	dmesg | grep "$trap_path cannot be probed: E-SITE-TRAPPATH"
	say $? "and the reason told"
	insmod kwatch-example.ko
	say $? "kwatch-example is loaded"
	for n in 3 4 5; do echo $n >/proc/sys/kernel/panic; done
	cat /proc/sys/kernel/panic >/dev/null
	rmmod kwatch-example
	echo 0 >/proc/sys/kernel/panic
	dmesg | grep -E '_example: panic_timeout was written 3 times, last before .*int.*, 0 hits were missed'
	say $? "kwatch-example has seen who writes a variable of the kernel"
	insmod kwatch-example.ko symbol=no_such_variable 2>/dev/null
	say $((!$?)) "a variable that does not exist is refused"
	dmesg | grep 'no_such_variable cannot be watched: E-SYM-NONE'
	say $? "and the reason told"
	examples_hooks
	rmmod dprobes
	say $? "it unloads"
}

# A program without hooks of its own (the kernel) and one with, an audit and a tracer on the same hooks.
examples_hooks() {
	hooks=/sys/kernel/debug/dprobes/hooks
	number=/sys/module/hooks_example/parameters/number
	mkdir /tmp/secret
	echo word >/tmp/secret/file
	insmod hooks-example.ko && insmod audit-example.ko && insmod tracer-example.ko
	say $? "hooks: three modules"
	[ "$(cat $hooks/*/* | tr -d '\n')" = 0000 ] && [ -e $hooks/file_opening/audit ] &&
		[ -e $hooks/number_set/tracer ]
	say $? "hooks: a file for each exit"
	cat /tmp/secret/file && echo -5 >$number
	say $? "hooks: idle, everything goes"
	echo 1 >$hooks/file_opening/audit
	echo 1 >$hooks/number_set/audit
	say $? "hooks: the audit is armed by its files"
	! cat /tmp/secret/file 2>/dev/null && cat /proc/version >/dev/null
	say $? "hooks: what it refuses cannot be opened"
	! echo -7 >$number 2>/dev/null && echo 7 >$number && [ "$(cat $number)" = 7 ]
	say $? "hooks: nor set"
	grep -q '^file_opening 1 dynamic 1$' $hooks/../hook_list && grep -q '^ audit 1 1 1$' $hooks/../hook_list &&
		grep -q '^number_set 1 hook 1$' $hooks/../hook_list && grep -q '^ tracer 0 0 2$' $hooks/../hook_list
	say $? "hooks: the list"
	! echo 1 >$hooks/number_set/tracer 2>/dev/null
	say $? "hooks: an exit that allows no arming from outside"
	echo 1 >/sys/module/tracer_example/parameters/on
	echo 9 >$number
	[ "$(cat $number)" = 8 ] && dmesg | grep -q 'tracer_example: number_set: number 9'
	say $? "hooks: the tracer sees and changes what the audit lets through"
	! echo -7 >$number 2>/dev/null && ! dmesg | grep -q 'number_set: number -7'
	say $? "hooks: and nothing else"
	echo 0 >$hooks/file_opening/audit
	cat /tmp/secret/file >/dev/null
	say $? "hooks: the audit is disarmed live"
	rmmod audit-example && rmmod tracer-example && [ -z "$(ls $hooks)" ]
	say $? "hooks: their modules go, and their files"
	dmesg | grep -q 'audit_example: [23] refused'
	say $? "hooks: the audit has counted"
	echo -9 >$number && [ "$(cat $number)" = -9 ]
	say $? "hooks: idle again"
	rmmod hooks-example
	say $? "hooks: all unloaded"
}

# Probes come and go, and the module with them, while everything is used and tasks sleep inside.
unload() {
	work &
	worker=$!
	(sleep 8; echo awake >/tmp/awake) &
	sleeper=$!
	bad=0
	for round in 1 2 3 4; do
		load || bad=1
		insmod dptest.ko lookup="$lookup" group=hold what=hot || bad=1
		sleep 1
		rmmod dptest || bad=1
		rmmod dprobes || bad=1
	done
	say $bad "loaded and unloaded four times under load"
	results
	load
	run exits seconds=6
	rmmod dprobes
	say $? "it unloads"
	wait $sleeper
	[ -e /tmp/awake ]
	say $? "a task that slept inside a probed call all that time goes on"
	kill $worker
	ls -lR /sys/kernel >/dev/null 2>&1
	say $? "the guest works on"
}

torture() {
	load "$@"
	work &
	worker=$!
	some=
	! grep -q ' kasan_check_range$' /proc/kallsyms || some=step=16 # it is slow
	run many "what=traps seconds=1 $some"
	run many "what=jumps seconds=3 $some"
	run many "what=inside seconds=6 $some"
	run many "what=returns seconds=6 $some"
	rmmod dprobes
	say $? "it unloads"
	[ ! -s torture-seconds ] || for_long "$(cat torture-seconds)"
	kill $worker
}

now() {
	cut -d. -f1 /proc/uptime
}

# The same again and again, with traces of the command and modules that come and go, for so many seconds.
for_long() {
	own_libraries
	end=$(($(now) + $1))
	rounds=0
	while [ "$(now)" -lt "$end" ]; do
		load || break
		for what in inside returns jumps; do
			run many "what=$what seconds=4"
		done
		for _ in 1 2 3; do
			$dprobes trace -q -o /tmp/out --duration 2 'p kernel:vfs_* c=$comm' \
				"r kernel:$cache_alloc p=\$retval" \
				'p kernel:kfree p=$arg1 s=+0($arg1):x64 if $arg1 != 0' \
				'p kmod(dpvictim):victim_work' 2>/tmp/err &
			tracer=$!
			sleep 1
			insmod dpvictim.ko && rmmod dpvictim || break 2
			wait $tracer || break 2
		done
		rmmod dprobes || break
		rounds=$((rounds + 1))
	done
	[ "$(now)" -ge "$end" ]
	say $? "$rounds rounds in $1 seconds${tracer:+$(head -c 200 /tmp/err)}"
}

# Code is written while all processors stand still.
stopped() {
	load stop_machine=1
	[ "$(cat /sys/module/dprobes/parameters/stop_machine)" = Y ]
	say $? "stop_machine is on"
	run kprobes
	run returns
	work &
	worker=$!
	insmod dptest.ko lookup="$lookup" group=hold what=hot
	results
	soon '[ "$(grep -c OPTIMIZED $debug/list)" -gt 8 ]'
	say $? "probes of busy functions become jumps"
	rmmod dptest
	results
	kill $worker
	rmmod dprobes
	say $? "it unloads"
}

# Counted in instructions: the emulator's clock is one for each.
bench() {
	load
	sleep 4
	echo 0 >/proc/sys/debug/dprobes-optimization
	echo 0 >/proc/sys/debug/kprobes-optimization
	run bench what=traps
	echo 1 >/proc/sys/debug/kprobes-optimization
	echo 1 >/proc/sys/debug/dprobes-optimization
	run bench what=jumps
	run bench what=hooks
	bench_events
	rmmod dprobes
}

dmesg -c >/dev/null # what the kernel had to say before us is its own
group=$(cat group)
for more in guest-events.sh guest-command.sh guest-rpn.sh guest-uprobes.sh guest-limits.sh guest-worlds.sh \
	guest-tracepoints.sh guest-starts.sh; do
	[ ! -e $more ] || . ./$more
done
[ "$group" != command ] || group=dprobes_command
$group
dmesg >>/tmp/log
trouble=$(grep -v -i -e 'command line' -e 'sysrq: DEBUG' /tmp/log |
	grep -E 'WARN|BUG|Oops|lockup|stall|ftrace bug|refcount|general protection')
[ -z "$trouble" ] || grep -v -i -e 'command line' -e 'sysrq: DEBUG' /tmp/log |
	grep -m 1 -A 40 -F "$(echo "$trouble" | head -n 1)" | sed 's/^/tap: # log: /'
[ -z "$trouble" ]
say $? "no trouble in the kernel's log${trouble:+: $trouble}"
echo "tap: done"
