# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Programs and records of any size, from the command and from the device as it is; read by guest.sh.

# A line whose record has so many bytes before its texts: 4052, and 1, 2, 4 or 8 for each more type given.
big_line() {
	line='kernel:ksys_write'
	for name in a b c d e f g; do line="$line $name=+0(%sp):x64[64]"; done
	line="$line h=+0(%sp):x64[57] s=+0(\$arg2):ustring"
	for type in "$@"; do line="$line $type=+0(%sp):$type"; done
	echo "$line"
}

big_records() {
	bad=0
	for more in '' x8 x16 'x16 x8' x32; do
		# shellcheck disable=SC2086 # a list of types
		begin "p $(big_line $more)" || bad=1
		dd if=/dev/zero of=/tmp/w bs=4096 count=50 2>/dev/null
		finish || bad=1
		grep -q ': ksys_write: .* s=' /tmp/out || bad=1
	done
	say $bad "records of up to 4056 bytes before their texts are logged"
	bad=0
	for more in 'x32 x8' 'x32 x16' 'x32 x16 x8' 'x64' 'x64 x8' 'x64 x16' 'x64 x16 x8' 'x64 x32' 'x64 x32 x8' \
		'x64 x32 x16' 'x64 x32 x16 x8'; do
		# shellcheck disable=SC2086 # a list of types
		$dprobes trace --duration 1 "p $(big_line $more)" >/tmp/out 2>/tmp/why && bad=1
		grep -q E-EVENT-BIG /tmp/why || bad=1
		dd if=/dev/zero of=/tmp/w bs=64k count=16 2>/dev/null
	done
	say $bad "those of 4057 bytes and more are refused"
	# shellcheck disable=SC2015 # not an if
	echo "p:big $(big_line x64)" 2>/dev/null >/sys/kernel/debug/dprobes/kprobe_events && bad=1 || bad=0
	say $bad "so they are in the event files"
}

# The mount of a probed file stays as long as the probe.
mounts() {
	mkdir -p /tmp/mounted
	mount -t tmpfs none /tmp/mounted && cp /t/lib/libc.so.6 /tmp/mounted/
	begin 'p:open user(/tmp/mounted/libc.so.6):fopen'
	say $? "a probe in a file of another mount"
	! umount /tmp/mounted 2>/dev/null
	say $? "which is busy as long as the probe is there"
	LD_LIBRARY_PATH=/tmp/mounted:/t/lib $dprobes explain kernel:vfs_read >/dev/null
	finish
	grep -q ': open: @fopen+0' /tmp/out
	say $? "and hit"
	umount /tmp/mounted
	say $? "and can go behind it"
	mount -t tmpfs none /tmp/mounted && cp /t/lib/libc.so.6 /tmp/mounted/
	begin 'p:open user(/tmp/mounted/libc.so.6):fopen'
	umount -l /tmp/mounted
	kill -9 $tracer
	wait $tracer
	say 0 "a lazy unmount and a killed trace"
}

# Raised while the module is loaded: a kernel that boots so loads only modules that are signed.
lockdown() {
	mount -t securityfs none /sys/kernel/security
	if ! echo integrity 2>/dev/null >/sys/kernel/security/lockdown; then
		say 0 "lockdown # SKIP this kernel cannot be locked down"
		return
	fi
	./raw lockdown integrity
	begin 'p kernel:ksys_sync'
	say $? "locked down for integrity, a trace is allowed"
	finish
	echo 'p:seen ksys_sync' >/sys/kernel/debug/dprobes/kprobe_events 2>/dev/null
	echo confidentiality >/sys/kernel/security/lockdown
	./raw lockdown confidentiality
	$dprobes trace --duration 1 'p kernel:ksys_sync' 2>/tmp/why
	[ $? != 0 ] && grep -q E-KERNEL-LOCKDOWN /tmp/why
	say $? "locked down for confidentiality, a trace is refused by name"
	$dprobes trace --duration 1 'w kernel:panic_timeout:4' 2>/tmp/why
	[ $? != 0 ] && grep -q E-KERNEL-LOCKDOWN /tmp/why
	say $? "and a watchpoint"
	! echo 'p:more vfs_read' 2>/dev/null >/sys/kernel/debug/dprobes/kprobe_events
	say $? "and an event"
}

limits() {
	own_libraries
	$dprobes kernel load dprobes.ko
	./raw variables
	./raw layouts
	./raw touches
	./raw work
	big_records
	mounts
	lockdown
	$dprobes kernel unload
	say $? "it unloads"
}

# ---- probes of the kernel's own on the same instructions ----

theirs=/sys/kernel/tracing
ours=/sys/kernel/debug/dprobes

read_some() {
	cat /proc/version /proc/uptime /proc/loadavg >/dev/null
}

our_event() {
	echo 'p:o vfs_read' >$ours/kprobe_events && echo 1 >$ours/events/kprobes/o/enable &&
		soon 'grep -q OPTIMIZED $debug/list'
}

# In each of these ways ours goes from being a jump.
no_event() { echo 0 >$ours/events/kprobes/o/enable; }
no_definition() { no_event; echo >$ours/kprobe_events; }
no_optimisation() { echo 0 >/proc/sys/debug/dprobes-optimization; }
none_enabled() { echo 0 >$debug/enabled; }
no_module() { rmmod dprobes; }
magic_key() { echo v >/proc/sysrq-trigger; soon '! grep -q OPTIMIZED $debug/list'; }

put_back() {
	case $1 in
	no_module) load ;;
	*)
		echo 1 >/proc/sys/debug/dprobes-optimization
		echo 1 >$debug/enabled
		echo 0 >$ours/events/kprobes/o/enable
		echo >$ours/kprobe_events
		;;
	esac
} 2>/dev/null

# $1: how ours goes; $2: the place of theirs, which comes behind our jump.
second() {
	our_event || return 1
	before=$(dmesg | grep -c .)
	echo "p:t $2" >$theirs/kprobe_events 2>/dev/null && echo 1 >$theirs/events/kprobes/t/enable
	read_some
	$1
	read_some
	echo 0 >$theirs/events/kprobes/t/enable
	read_some
	echo >$theirs/kprobe_events
	read_some
	put_back "$1"
	read_some
} 2>/dev/null

first() {
	echo "p:t $2" >$theirs/kprobe_events && echo 1 >$theirs/events/kprobes/t/enable
	sleep 0.3 # its jump comes
	{ echo 'p:o vfs_read' >$ours/kprobe_events && echo 1 >$ours/events/kprobes/o/enable; } 2>/dev/null
	sleep 0.3
	read_some
	$1
	read_some
	echo 0 >$theirs/events/kprobes/t/enable
	echo >$theirs/kprobe_events
	sleep 0.3
	read_some
	put_back "$1"
	read_some
} 2>/dev/null

# The first four instructions behind the function's start, as Kprobes sees them.
places() {
	n=0
	at=$(behind "$1")
	echo "$1"
	while [ $n -lt 4 ]; do
		if echo "p:t $1+$at" >$theirs/kprobe_events; then
			echo "$1+$at"
			n=$((n + 1))
		fi
		at=$((at + 1))
	done
	echo >$theirs/kprobe_events
} 2>/dev/null

# The stacks, each in a line, that the kernel's own unwinder finds below vfs_read().
stacks_below() {
	echo 1 >$theirs/tracing_on
	echo >$theirs/trace
	head -c 9 /proc/version >/dev/null
	echo 0 >$theirs/tracing_on # who reads the trace calls vfs_read(), too
	awk '/<stack trace>/ { print "" } / => / { printf "%s ", $2 }' $theirs/trace | grep vfs_read | sort -u
}

# $1, $2: those who change the return address of vfs_read(), in the order in which they come.
stacks_beside() {
	$1 && $2
	stacks=$(stacks_below)
	grep -q ' b: ' $ours/trace && [ "$stacks" = "$alone" ]
	say $? "stacks below: $1, then $2"
	$2 off
	$1 off
}

nobody() { :; }

return_of_ours() {
	if [ "$1" = off ]; then
		echo 0 >$ours/events/kprobes/b/enable
		echo >$ours/kprobe_events
	else
		echo 'r:b vfs_read' >$ours/kprobe_events && echo 1 >$ours/events/kprobes/b/enable
	fi
}

return_of_theirs() {
	if [ "$1" = off ]; then
		echo 0 >$theirs/events/kprobes/r/enable
		echo '-:r' >>$theirs/kprobe_events
	else
		echo 'r:r vfs_read' >>$theirs/kprobe_events && echo 1 >$theirs/events/kprobes/r/enable
	fi
}

graph() {
	if [ "$1" = off ]; then
		echo nop >$theirs/current_tracer
		echo >$theirs/set_ftrace_filter
	else
		echo vfs_read >$theirs/set_ftrace_filter && echo function_graph >$theirs/current_tracer
	fi
}

stacks() {
	echo 'p:s security_file_permission' >$theirs/kprobe_events &&
		echo stacktrace >$theirs/events/kprobes/s/trigger && echo 1 >$theirs/events/kprobes/s/enable
	for other in nobody graph return_of_theirs; do # the last ends the traces of older kernels
		$other
		alone=$(stacks_below)
		$other off
		[ -n "$alone" ] && { [ $other = return_of_theirs ] || echo "$alone" | grep -q do_syscall_64; }
		say $? "stacks below vfs_read() with $other alone: $(echo "$alone" | head -n 1)"
		stacks_beside $other return_of_ours
		stacks_beside return_of_ours $other
	done
	echo 1 >$theirs/tracing_on
	echo 0 >$theirs/events/kprobes/s/enable
	echo '!stacktrace' >$theirs/events/kprobes/s/trigger
	echo >$theirs/kprobe_events
}

neighbours() {
	load
	run neighbours
	stacks
	places=$(places vfs_read)
	[ "$(echo "$places" | grep -c .)" = 5 ]
	say $? "instructions of vfs_read: $(echo $places)"
	for way in no_event no_definition no_optimisation none_enabled magic_key no_module; do
		for place in $places; do
			second $way $place
			first $way $place
		done
		say $? "a kprobe of the kernel in vfs_read before and behind ours, which goes by $way"
	done
	our_event
	say $? "ours becomes a jump again"
	! echo "p:t vfs_read+$(behind vfs_read)" 2>/dev/null >$theirs/kprobe_events
	say $? "where our jump begins the kernel's is refused"
	put_back no_event
	rmmod dprobes
	say $? "it unloads"
	echo "p:t vfs_read+$(behind vfs_read)" >$theirs/kprobe_events &&
		echo 1 >$theirs/events/kprobes/t/enable && read_some
	say $? "and then it is accepted"
	echo 0 >$theirs/events/kprobes/t/enable
	echo >$theirs/kprobe_events
	read_some
}

# ---- live patching ----

# How often the event has been hit since the log was emptied.
hits_of() {
	grep -c " $1: (cmdline_proc_show+0x0/" $ours/trace
}

patches() {
	load
	own_libraries
	insmod dptest.ko lookup="$lookup" group=hold what=hot # return probes where tasks sleep
	results
	echo 'p:early cmdline_proc_show' >$ours/kprobe_events && echo 1 >$ours/events/kprobes/early/enable
	say $? "a probe of a function that will be patched"
	insmod dppatch.ko
	say $? "a live patch comes"
	soon '[ "$(cat /proc/cmdline)" = patched ]'
	say $? "the function is patched"
	soon '[ "$(cat /sys/kernel/livepatch/dppatch/transition)" = 0 ]'
	say $? "for all tasks, those in calls whose return is probed as well"
	grep -q 'cmdline_proc_show+0x[59]/.*\[PATCHED\]$' $debug/list &&
		$dprobes list | grep -q 'cmdline_proc_show+0x[59]/.*  \[PATCHED\]$'
	say $? "the probe that was there before is shown as one that is not hit"
	echo 'p:late cmdline_proc_show' >>$ours/kprobe_events &&
		echo 'r:back cmdline_proc_show' >>$ours/kprobe_events &&
		echo 1 >$ours/events/kprobes/late/enable && echo 1 >$ours/events/kprobes/back/enable
	say $? "a probe and a return probe of a function that is patched"
	grep -q 'cmdline_proc_show+0x[04]/.*\[FTRACE\]$' $debug/list
	say $? "stand at the function tracer's bytes"
	$dprobes explain kernel:cmdline_proc_show | grep -q ': ftrace$'
	say $? "and are explained so"
	echo >$ours/trace
	[ "$(cat /proc/cmdline)" = patched ] && [ "$(hits_of late)" = 1 ] && [ "$(hits_of early)" = 0 ] &&
		[ "$(grep -c ' back: (' $ours/trace)" = 1 ]
	say $? "they are hit: $(hits_of early) $(hits_of late)"
	echo 0 >/sys/kernel/livepatch/dppatch/enabled
	soon 'rmmod dppatch 2>/dev/null'
	say $? "the patch goes"
	! grep -q PATCHED $debug/list
	say $? "and all are shown as before"
	echo >$ours/trace
	[ "$(cat /proc/cmdline)" != patched ] && [ "$(hits_of late)" = 1 ] && [ "$(hits_of early)" = 1 ]
	say $? "all are hit: $(hits_of early) $(hits_of late)"
	echo 0 >$ours/events/enable
	echo >$ours/kprobe_events
	rmmod dptest
	results
	rmmod dprobes
	say $? "it unloads"
}
