#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Runs in the guest of test_machines.py: the command on processes, on whatever processor this is. Lines that begin with
# "tap:" are results. What the machine cannot do is skipped with what doctor has found.
mkdir -p /lib64
ln -sf /t/lib/ld-linux-x86-64.so.2 /lib64/
export LD_LIBRARY_PATH=/t/lib DPROBES_DIR=/tmp/driver
dprobes=/t/lib/dprobes

say() {
	if [ "$1" = 0 ]; then echo "tap: ok - $2"; else echo "tap: not ok - $2"; fi
}

skip() {
	echo "tap: ok - $1 # SKIP $2"
}

# Wait, for a while, until a command succeeds.
soon() {
	for _ in $(seq 300); do
		if eval "$1"; then return 0; fi
		sleep 0.1
	done
	return 1
}

# What doctor has found, of a capability by its name.
found() {
	sed -n "s/^ *$1  *\(.*\)/\1/p" /tmp/doctor | sed 's/   *.*//' | head -n 1
}

tell() {
	sed 's/^/tap: # log: /' "$@" | head -n 40
}

# The command that begins a program under a trace; its records are in /tmp/out.
traced() {
	$dprobes trace --json -o /tmp/out "$@" >/tmp/told 2>/tmp/err
}

records() {
	grep -c '"event"' /tmp/out
}

# Each record bears the processor where the program said it was.
processors_right() {
	sed -n 's/.*"cpu":\([0-9]*\),.*"where":\([0-9]*\)}.*/\1 \2/p' /tmp/out |
		awk '$1 != $2 % 1000 { bad++ } { n++ } END { exit bad > 0 || n < 50 }'
}

numbers() {
	for how in "" --interpret; do
		for program in pinned pinned-static; do
			traced $how 'p work where=%di:s64' -- ./$program 50
			[ $? = 0 ] && [ "$(records)" = "$(sed -n 's/^calls \([0-9]*\) .*/\1/p' /tmp/told)" ] &&
				processors_right
			r=$?
			say $r "trace $how: $program runs through, every call is recorded on the right processor"
			[ $r = 0 ] || tell /tmp/told /tmp/err /tmp/out
		done
	done
	if [ "$(grep -c '^processor' /proc/cpuinfo)" = 1 ]; then
		skip "children of vfork on another processor" "one processor only"
		return
	fi
	traced 'p work where=%di:s64' -- ./pinned 50 vfork
	[ $? = 0 ] && [ "$(records)" = "$(awk '$1 == "calls" && $3 == "children" { print $2 + $4 }' /tmp/told)" ] &&
		processors_right
	say $? "children of vfork on another processor: all recorded, none in the wrong place"
}

returns() {
	traced 'r:back work v=$retval:s64' -- ./pinned 50
	[ $? = 0 ] && [ "$(records)" = "$(sed -n 's/^calls \([0-9]*\) .*/\1/p' /tmp/told)" ]
	say $? "returns are recorded"
	traced 'p work' 'r:back outer v=$retval' -- ./simple 2 500
	[ $? = 0 ] && grep -q '^calls 1000 bad 0$' /tmp/told && [ "$(records)" = 2000 ]
	say $? "entries and returns of two threads, and the program's own sums are right"
}

# Not a C library's: the word at the thread pointer is something else, and no restartable sequences are registered.
other_runtimes() {
	if [ -e gowork ]; then
		./gowork >/tmp/go.told 2>&1 &
		pid=$!
		soon 'grep -q ready /tmp/go.told'
		$dprobes trace --json -o /tmp/out --duration 1 -p $pid 'p main.Words' >/tmp/told 2>/tmp/err
		[ $? = 0 ] && [ "$(records)" -gt 0 ]
		say $? "a Go program is traced"
		kill -0 $pid
		say $? "and lives"
		kill $pid
	else
		skip "a Go program" "none was built"
	fi
	if [ -e simple-musl-static ]; then
		traced 'p work' -- ./simple-musl-static 2 500
		# Without rseq a ring is locked: what another thread logs while its holder is not running is lost, and
		# counted.
		[ $? = 0 ] && grep -q '^calls 1000 bad 0$' /tmp/told &&
			awk -v n="$(records)" '$1 == "work" { seen = 1; bad = $3 != 1000 || $4 != n || $4 + $8 != 1000 }
				END { exit bad || !seen }' /tmp/err
		r=$?
		say $r "a program with musl"
		[ $r = 0 ] || tell /tmp/told /tmp/err
	else
		skip "a program with musl" "none was built"
	fi
}

# Where the kernel promises no more memory than it has.
strict_memory() {
	echo 2 >/proc/sys/vm/overcommit_memory
	traced 'p work' -- ./simple 2 500
	r=$?
	echo 0 >/proc/sys/vm/overcommit_memory
	{ [ $r = 0 ] && [ "$(records)" -gt 0 ] && grep -q '^calls 1000 bad 0$' /tmp/told; } ||
		{ [ $r = 1 ] && grep -q '^dprobes: E-' /tmp/err; }
	r=$?
	say $r "memory is counted strictly: probed, or refused by name"
	[ $r = 0 ] || tell /tmp/told /tmp/err
}

watch() {
	mkfifo /tmp/in
	./watched plain </tmp/in >/tmp/watched.told &
	pid=$!
	exec 3>/tmp/in
	soon 'grep -q ready /tmp/watched.told'
	if [ "$(found 'debug registers: writes')" != fired ]; then
		skip "a watched variable" "$(found 'debug registers: writes')"
	else
		$dprobes trace -o /tmp/out -p $pid 'w:c counter old=$old new=$new' 2>/tmp/err &
		tracer=$!
		soon 'ls -l /proc/$tracer/fd | grep -q perf_event'
		sleep 0.5
		echo 'inc 20' >&3
		soon 'grep -q ok /tmp/watched.told'
		kill -TERM $tracer
		wait $tracer
		say $? "a variable is watched"
		[ "$(grep -c 'c: @counter' /tmp/out)" = 20 ] && grep -q 'old=19 new=20$' /tmp/out
		say $? "every write is told, with both values"
	fi
	echo end >&3
	exec 3>&-
	wait $pid
	say $? "the program ends well"
}

inserted() {
	cat >/tmp/count.rpn <<-'RPN'
	name = simple
	logmax = 100
	vars = 1
	offset = work
		inc lv, 0
		abort
	RPN
	./simple 2 >/tmp/simple.told 2>&1 &
	pid=$!
	soon 'grep -q ready /tmp/simple.told'
	$dprobes -i /tmp/count.rpn --pid $pid >/tmp/told 2>/tmp/err
	r=$?
	say $r "a program is inserted"
	[ $r = 0 ] || tell /tmp/told /tmp/err
	soon '$dprobes -q -a | grep -q "lv 0 = [1-9]"'
	say $? "and counts"
	driver=$($dprobes list -p $pid | sed -n 's/.* dprobes \([0-9]*\) *$/\1/p' | head -n 1)
	kill -KILL $driver
	soon '$dprobes -q -a | grep -q "1 probe"'
	say $? "the driver is killed: its successor goes on"
	$dprobes -r -a >/dev/null
	$dprobes verify -q -p $pid
	say $? "removed, every byte is the file's"
	kill -TERM $pid
	wait $pid
	say $? "the program ends well, its sums are right"
}

# Times in the log are those of the wall clock, also when somebody sets it meanwhile.
clock_set() {
	cat >/tmp/clock.rpn <<-'RPN'
	name = simple
	logmax = 100
	offset = work
		push d, 1
		log 1
		exit
	RPN
	./simple 2 >/tmp/clock.told 2>&1 &
	pid=$!
	soon 'grep -q ready /tmp/clock.told'
	$dprobes -i /tmp/clock.rpn --log TSC --pid $pid >/tmp/told 2>/tmp/err
	soon '$dprobes log | grep -q "tsc="'
	now=$(date +%s)
	date -s "@$((now + 100000))" >/dev/null
	soon '$dprobes log --clear; sleep 0.1; $dprobes log | sed -n \
		"s/.* tsc=\([0-9]*\):.*/\1/p" | awk -v least=$((now + 100000)) \
		"\$1 >= least && \$1 < least + 1000 { seen = 1 } END { exit !seen }"'
	r=$?
	say $r "the clock is set: times in the log follow it"
	[ $r = 0 ] || { $dprobes log | tail -n 3 >/tmp/out; tell /tmp/told /tmp/err /tmp/out; }
	date -s "@$(($(date +%s) - 100000))" >/dev/null
	$dprobes -r -a >/dev/null
	kill -TERM $pid
	wait $pid
}

killed() {
	./simple 2 >/tmp/killed.told 2>&1 &
	pid=$!
	soon 'grep -q ready /tmp/killed.told'
	for t in 0.02 0.1 0.3 0.5 0.7; do
		$dprobes trace -o /tmp/out -p $pid 'p work' 'r outer $retval' 2>/tmp/err &
		tracer=$!
		sleep $t
		kill -KILL $tracer
		wait $tracer
	done
	kill -0 $pid
	say $? "dprobes is killed five times: the program lives"
	$dprobes trace -o /tmp/out --duration 1 -p $pid 'p work' >/tmp/told 2>/tmp/err
	say $? "the next one traces it"
	$dprobes verify -q -p $pid
	say $? "and leaves every byte as it was"
	kill -TERM $pid
	wait $pid
	say $? "its sums are right"
}

dmesg -c >/dev/null
$dprobes doctor >/tmp/doctor
say $? "doctor finds nothing that keeps probes away"
sed 's/^/tap: # log: /' /tmp/doctor
for part in numbers returns other_runtimes strict_memory watch inserted clock_set killed; do
	$part
done
# A signal that nobody handled ends in the kernel's log.
traps=$(dmesg | grep -E 'traps:|segfault|invalid opcode|BUG|Oops')
[ -z "$traps" ]
say $? "no program of the guest died of a fault${traps:+: $traps}"
echo "tap: done"
