# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Tracepoints of the kernel and of a module, and system calls of all processes; read by guest.sh.

# $1 seconds of a trace of the other words.
traced_by() {
	seconds=$1
	shift
	$dprobes trace -o /tmp/out --duration "$seconds" "$@" >/tmp/tables 2>/tmp/err
}

# $1: what the command must say when it refuses the line $2.
refuses() {
	traced_by 0.2 "$2"
	[ $? != 0 ] && grep -q "$1" /tmp/err
	say $? "refused: $2: $(grep -m 1 -o 'E-[A-Z-]*' /tmp/err)"
}

# Every hit of the probes, so many, is accounted for.
counted() {
	awk -v names=" $1 " -v want="$(echo "$1" | wc -w)" 'index(names, " " $1 " ") { n++
		if ($3 != $4 + $5 + $6 + $7 + $8 || !$3) bad = 1 } END { exit bad || n != want }' /tmp/err
}

by_names() {
	traced_by 0.4 't sched:sched_switch p=$prev_comm n=$next->comm from=$prev_pid to=$next_pid s=$prev_state' \
		's openat $path $ret if $ret < 0' 's getppid'
	say $? "a tracepoint and system calls in one trace"
	grep -q ': sched:sched_switch: @sched_switch+0 p="[^"]*" n="[^"]*" from=[0-9]* to=[0-9]* s=[0-9]*$' /tmp/out
	say $? "arguments, and members by the names of the record"
	awk '/sched:sched_switch:/ { split($0, v, /from=| to=/); n++; if (v[2] + 0 == v[3] + 0) bad = 1 }
		END { exit !n || bad }' /tmp/out
	say $? "of two different tasks"
	grep -q ': openat: path="/nonexistent" ret=-2$' /tmp/out && ! grep -q ': openat: .*ret=[0-9]' /tmp/out
	say $? "system calls with their arguments, by a condition"
	counted "sched:sched_switch openat"
	say $? "one summary counts them"
	traced_by 0.3 't sched_switch count by $prev_comm if $prev_pid != 0' 's openat count by $path, $error' \
		's read hist($duration)' 't sched:sched_wak* wakes=count'
	grep -q '^    cat ' /tmp/tables && grep -q '^    /nonexistent, ENOENT' /tmp/tables &&
		grep -q '^  hist  *read_duration' /tmp/tables && grep -q '^  count wakes' /tmp/tables
	say $? "tables of what arguments have, and of the time of calls"
	traced_by 0.3 -p $worker 's kernel:clone' 't sched:sched_process_fork $child_pid'
	grep -q 'sched:sched_process_fork: @sched_process_fork+0 child_pid=[1-9]' /tmp/out &&
		grep -q ': clone: .* ret=[1-9]' /tmp/out && ! grep -v '^#' /tmp/out | grep -v -q -- "-$worker "
	say $? "of one process alone"
}

changes_calls() {
	$dprobes trace -q 's getuid $ret = 7' >/dev/null 2>&1 &
	tracer=$!
	soon '[ "$(id -ru)" = 7 ]'
	say $? "what a process gets from a call can be changed"
	kill -INT $tracer
	wait $tracer
	[ "$(id -ru)" = 0 ]
	say $? "as long as the probe is there"
}

of_a_module() {
	tp='t dptraced:dptraced_work'
	insmod dptraced.ko
	$dprobes trace -o /tmp/out "$tp n=\$arg1:s32 six=\$arg6 seven=\$arg7" 2>/tmp/err &
	tracer=$!
	soon '$dprobes list 2>/dev/null | grep -q " t .*dptraced_work .*tpoint"'
	echo 5 >/sys/module/dptraced/parameters/number
	rmmod dptraced
	say $? "a module goes while its tracepoint is probed"
	$dprobes list 2>/dev/null | grep -q ' t .*dptraced_work .*PENDING'
	say $? "and the probe waits"
	insmod dptraced.ko && echo 6 >/sys/module/dptraced/parameters/number
	kill -INT $tracer
	wait $tracer
	[ "$(grep -o 'n=.*' /tmp/out | tr '\n' ' ')" = "n=5 six=6 seven=25 n=6 six=6 seven=26 " ]
	say $? "until it comes again; arguments in registers and on the stack"
	rmmod dptraced
}

listed_tracepoints() {
	$dprobes funcs 't sched:sched_sw*' >/tmp/list
	grep -q '^sched:sched_switch  .* \$prev (struct task_struct \*) \$next (struct task_struct \*)' /tmp/list
	say $? "they are listed with their arguments"
	$dprobes funcs --json 't sched_switch' |
		grep -q '^{"tracepoint":"sched_switch","system":"sched","module":null,"arguments":\[{"name":"preempt",'
	say $? "JSON"
	$dprobes complete zsh "dprobes trace 't sched:sched_swi" | grep -q 'sched:sched_switch'
	say $? "and completed"
	refuses 'did you mean t sched:sched_switch?' 't sched:sched_swich'
	refuses 'arguments of sched_switch are $preempt $prev $next' 't sched:sched_switch $prio_of'
	refuses 'system calls have lines of their own: s openat' 't syscalls:sys_enter_openat'
}

tracepoints() {
	own_libraries
	$dprobes kernel load dprobes.ko
	(while :; do cat /proc/version /nonexistent; usleep 20000; done) >/dev/null 2>&1 &
	worker=$!
	by_names
	changes_calls
	of_a_module
	listed_tracepoints
	$dprobes trace -q -o /tmp/out 't sched:sched_w* count' 's openat' >/dev/null 2>&1 &
	tracer=$!
	soon '$dprobes list 2>/dev/null | grep -q "sched_wakeup .*tpoint"'
	echo v >/proc/sysrq-trigger
	soon '! $dprobes list 2>/dev/null | grep -q tpoint'
	say $? "the magic key takes them out"
	kill -9 $tracer
	kill $worker
	soon '$dprobes kernel unload'
	say $? "it unloads"
}
