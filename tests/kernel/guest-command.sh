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
	begin 'p kernel:do_sys_openat2 dfd=%di:s32 name=+0($arg2):ustring' 'r:opened kernel:do_sys_openat2 fd=$retval:s32' \
		'p:odd kernel:vfs_write n=$arg3:u64 from=$stack0:symbol comm=$comm if $arg3 == 777'
	say $? "trace: two probes and a return probe"
	$dprobes list >/tmp/list
	grep -q "^ffffffff[0-9a-f]*  p     do_sys_openat2+0x5/0x[0-9a-f]* *  \(trap\|jump\)  dprobes $tracer" /tmp/list
	say $? "list shows a probe, its owner and how it stands"
	grep -q "  r     do_sys_openat2+0x5/" /tmp/list
	say $? "and the return probe"
	cat /proc/version >/dev/null
	dd if=/dev/zero of=/tmp/w bs=777 count=50 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=778 count=50 2>/dev/null
	soon '$dprobes list | grep -q jump'
	say $? "breakpoints become jumps"
	cat /proc/uptime >/dev/null
	finish
	say $? "it ends well"
	grep -q '^ *cat-[0-9]* *\[00[01]\] *[0-9]*\.[0-9]\{6\}: do_sys_openat2: @do_sys_openat2+0 dfd=-100 name="/proc/version"$' /tmp/out
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
	begin --json 'p:o kernel:do_sys_openat2 name=+0($arg2):ustring mode=+16($arg3):u64 bt=$backtrace:symbol[4]' 'r:r kernel:do_sys_openat2 $retval:s64'
	cat /proc/version >/dev/null
	finish
	grep -q '^{"ts":[0-9]*\.[0-9]*,"task":"cat","tid":[0-9]*,"cpu":[01],"event":"o","group":"dprobes","symbol":"do_sys_openat2","offset":0,"return":false,"args":{"name":"/proc/version","mode":0,"bt":\["do_sys_openat2+0x[05]","__x64_sys_openat+0x[0-9a-f]*","do_syscall_64+0x[0-9a-f]*","entry_SYSCALL_64_after_hwframe+0x[0-9a-f]*"\]}}$' /tmp/out
	say $? "JSON, with a call chain"
	grep -q '"event":"r",.*"return":true,"caller":"__x64_sys_openat+0x[0-9a-f]*","args":{"arg1":3}}$' /tmp/out
	say $? "JSON of a return, with its caller"
}

trace_refused() { # code event
	$dprobes trace --duration 1 "$2" >/dev/null 2>/tmp/err
	[ $? != 0 ] && grep -q "$1" /tmp/err
	say $? "refused with $1: $2"
}

trace_patterns() {
	begin 'p kernel:vfs_*' 'p kernel:ksys_read+5'
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
	trace_refused E-KERNEL-AMBIGUOUS 'p kernel:name_show'
	trace_refused E-SITE-TRAPPATH 'p kernel:__rcu_read_lock'
	trace_refused E-SITE-LOOP 'p kernel:hrtimer_active'
	trace_refused E-SITE-FTRACE 'p kernel:vfs_read+1'
	trace_refused E-SITE-MIDINSN 'p kernel:vfs_read+6'
	trace_refused E-KERNEL-PLACE 'p kernel:read_write.c:12'
	trace_refused E-KERNEL-SYMBOL 'p kernel:vfs_read x=@no_such_symbol_here'
	$dprobes trace -p 1 'p kernel:vfs_read' 2>/tmp/err
	[ $? != 0 ] && grep -q E-KERNEL-WORLDS /tmp/err
	say $? "a process and the kernel are not traced at once"
}

questions() {
	$dprobes funcs 'kernel:vfs_*' >/tmp/out 2>/tmp/err
	say $? "funcs"
	grep -q '^ffffffff[0-9a-f]* *[0-9]* \(jump\|trap\) *kernel:vfs_read' /tmp/out && grep -q '^[0-9]* functions: [0-9]* jump' /tmp/err
	say $? "funcs shows what a probe would be"
	$dprobes funcs 'kernel:__rcu_read_*' 2>/dev/null | grep -q 'refused kernel:__rcu_read_lock  E-SITE-TRAPPATH: '
	say $? "and why not"
	$dprobes explain kernel:__rcu_read_lock | grep -q '^E-SITE-TRAPPATH: '
	say $? "explain tells of a place"
	$dprobes explain kernel:vfs_read+5 | grep -q '^kernel:vfs_read+5, 0xffffffff[0-9a-f]*: \(jump\|trap\)'
	say $? "and of one that can be probed"
}

# Armed before the module's init runs, gone with it, there again when it comes back.
trace_modules() {
	begin 'p:once kmod(dpvictim):victim_once' 'p:work kmod(dpvictim):victim_work n=$arg1' 'r:done kmod(dpvictim):victim_work $retval'
	say $? "probes of a module that is not loaded"
	[ "$($dprobes list | grep -c 'dpvictim:victim_.*PENDING')" = 3 ]
	say $? "list shows that they wait"
	for round in 1 2 3; do
		insmod dpvictim.ko
		$dprobes list | grep -q ' victim_work+0x5/.* \[dpvictim\]'
		say $? "the module is loaded: armed (time $round)"
		rmmod dpvictim
		[ "$($dprobes list | grep -c 'dpvictim:victim_.*PENDING')" = 3 ]
		say $? "it is unloaded: they wait"
	done
	finish
	[ "$(grep -c ': once: @victim_once+0$' /tmp/out)" = 3 ]
	say $? "its init was seen each time"
	[ "$(grep -c ': work: @victim_work+0 n=' /tmp/out)" -ge 3 ] && [ "$(grep -c ': work: ' /tmp/out)" = "$(grep -c ': done: ' /tmp/out)" ]
	say $? "calls and their returns"
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
		begin 'p kernel:vfs_*' 'r kernel:kmem_cache_alloc p=$retval' 'p kernel:kfree p=$arg1 if $arg1 != 0' || bad=1
		sleep 1
		finish || bad=1
	done
	kill $worker
	say $bad "traces under load"
	awk '$2 == "jump" || $2 == "trap" || $2 ~ /^return/ { n++; if ($3 != $4 + $5 + $6 + $7 + $8) bad = 1 } END { exit !(n > 30 && !bad) }' /tmp/err
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
	$dprobes kernel load dprobes.ko
	trace_kernel
	trace_patterns
	questions
	trace_modules
	trace_killed
	trace_under_load
	$dprobes kernel unload
	say $? "it unloads"
}
