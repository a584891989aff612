# SPDX-License-Identifier: MIT OR GPL-2.0-only
# A process and the kernel below it in one trace; read by guest.sh. The emulator's clock counts instructions, so that
# times do not depend on the machine.

# Time (nanoseconds), event, round and the process's own time, a line for each record.
records() {
	sed -n 's/^{"ts":\([0-9]*\)\.\([0-9]*\),.*"event":"\([a-z]*\)".*"round":\([0-9]*\),"ns":\([0-9]*\).*/'\
'\1\2 \3 \4 \5/p' /tmp/out
}

# Rounds that are whole: into the kernel, there, and back. How many, and how many are out of order: by their times, or
# by what the process took its own to be before and behind.
rounds() {
	awk '$1 < last { bad++ } { last = $1 }
		$2 == "into" { round = $3; from = $4; inside = 0 }
		$2 == "inside" { if ($3 != round || $4 != from || inside) bad++; inside = $1 }
		$2 == "back" && inside { n++; if (inside < from || inside > $4) bad++; inside = 0 }
		END { print n + 0, bad + 0 }'
}

# How long behind a look at CLOCK_MONOTONIC an event's time is, at least: by how much that can be wrong. Empty: one is
# before it.
behind_look() {
	awk -v event="$1" '$2 == event { n = $1 - $4; if (n < 0) bad = 1; if (!best || n < best) best = n }
		END { if (best && !bad) print best }'
}

in_one_order() {
	$dprobes trace --json --duration 0.4 -p $target 'p:into enters round=%di ns=%si' \
		'p:inside kernel:__x64_sys_getppid round=+112(%di):u64 ns=+104(%di):u64' \
		'r:look kernel:ktime_get round=0 ns=$retval:u64' 'p:back comes_back round=%di ns=%si' >/tmp/out \
		2>/tmp/err
	say $? "a process and the kernel in one trace"
	# shellcheck disable=SC2046 # two numbers
	set -- $(records | rounds)
	[ "$1" -gt 100 ] && [ "$2" = 0 ]
	say $? "in one order, with times between those of the process ($1 rounds, $2 wrong)"
	process=$(records | behind_look into)
	kernel=$(records | behind_look look)
	echo "tap: # figure: times of the process are right within ${process:-?} ns, of the kernel within ${kernel:-?}"
	[ -n "$process" ] && [ "$process" -lt 1000 ] && [ -n "$kernel" ] && [ "$kernel" -lt 1000 ]
	say $? "all right within a microsecond"
	within=$(sed -n 's/.*times of one clock, within \([0-9]*\) ns of CLOCK_MONOTONIC$/\1/p' /tmp/err)
	[ -n "$within" ] && [ "$within" -lt 1000 ]
	say $? "and the error is told ($within ns)"
	awk '$1 == "inside" || $1 == "into" { n++; if ($3 != $4 + $5 + $6 + $7 + $8 || !$4) bad = 1 }
		END { exit bad || n != 2 }' /tmp/err
	say $? "one summary counts both"
}

# All kinds of lines, for the process alone.
of_one_process() {
	sh -c 'while :; do sh -c "echo \$PPID"; usleep 20000; done' >/dev/null &
	other=$!
	$dprobes trace -o /tmp/out --duration 0.4 -p $target 's getppid' 'p:inside kernel:__x64_sys_getppid $pid' \
		'p:n kernel:__x64_sys_getppid calls=count by $comm' 'p enters entries=count by $comm' \
		'r kernel:schedule off=sum($duration) by $backtrace[3]' >/tmp/tables 2>/tmp/err
	say $? "system calls, tables and probes of both"
	grep -q ": inside: @__x64_sys_getppid+0 pid=$target\$" /tmp/out &&
		grep -q ': getppid: <-syscall+0 ret=' /tmp/out &&
		! grep ' inside: ' /tmp/out | grep -qv " worlds-$target "
	say $? "only that process is recorded, in the kernel too"
	awk '$1 == "inside" { good = $6 + $5 < $3 + 1 && $4 > 0 } END { exit !good }' /tmp/err
	say $? "hits of others are not"
	grep -q '^  count calls' /tmp/tables && grep -q '^  count entries' /tmp/tables &&
		[ "$(grep -c '^    worlds ' /tmp/tables)" = 2 ]
	say $? "its tables"
	grep -q '^    do_nanosleep+0x[0-9a-f]* .*, 1\.[0-9]*ms on average$' /tmp/tables
	say $? "where it waits in the kernel, and for how long"
	kill $other
}

# Call chains that go on from the kernel in the process's own code.
whole_chains() {
	$dprobes trace --json --duration 0.4 -p $target 't sched:sched_switch switches=count by $backtrace' \
		'r kernel:schedule off=sum($duration) by $backtrace' >/tmp/tables 2>/tmp/err
	say $? "tables by the frames of the kernel and of the process"
	kernel='"do_nanosleep+[^]]*"do_syscall_64+0x[0-9a-f]*",[^]]*'
	grep '"switches"' /tmp/tables | grep -q "$kernel\"[a-z_0-9]*nanosleep+0x[0-9a-f]*\",[^]]*\"go_on+0x" &&
		grep '"switches"' /tmp/tables | grep -q "$kernel\"[a-z_0-9]*nanosleep+0x[0-9a-f]*\",[^]]*\"main+0x"
	say $? "where it gives up the processor, from the kernel to main and to the thread's function"
	grep '"off"' /tmp/tables | grep -q "$kernel\"go_on+0x" && grep '"off"' /tmp/tables | grep -q "$kernel\"main+0x"
	say $? "and for how long"
	$dprobes trace -o /tmp/out --duration 0.4 -p $target \
		'p kernel:__x64_sys_getppid bt=$backtrace:symbol[16]' 2>/tmp/err
	grep -q 'bt={[a-z_0-9]*getppid+0x[^}]*,syscall+0x[0-9a-f]*,main+0x' /tmp/out
	say $? "a record has both, too"
	$dprobes trace -o /tmp/out --duration 0.4 'p kernel:__x64_sys_getppid bt=$backtrace:symbol[16]' 2>/tmp/err
	grep -q 'bt={[a-z_0-9]*getppid+0x' /tmp/out && ! grep -q 'main+0x' /tmp/out
	say $? "without a process chains end where the kernel is entered"
}

of_a_command() {
	$dprobes trace -o /tmp/out 'p kernel:__x64_sys_getppid c=$comm' -- sh -c 'echo $PPID' >/tmp/said 2>/tmp/err
	say $? "the kernel below a command"
	[ "$(grep -c ': __x64_sys_getppid: @__x64_sys_getppid+0 c="sh"$' /tmp/out)" = 1 ]
	say $? "its hits alone"
	$dprobes trace -o /tmp/out --duration 0.4 --tree -p $target 'p:both kernel:__x64_sys_getppid' 'p enters' \
		2>/tmp/err
	say $? "a tree, in both"
	grep -q ' both: ' /tmp/out && grep -q ' enters: ' /tmp/out &&
		! grep -v '^#' /tmp/out | grep -qv " worlds-$target "
	say $? "and no other process"
	$dprobes trace --duration 0.4 --all /t/worlds 'p kernel:__x64_sys_getppid' 'p enters' >/dev/null 2>/tmp/err
	[ $? != 0 ] && grep -q 'E-KERNEL-WORLDS.*--all' /tmp/err
	say $? "who will map a file is not known to the kernel"
	$dprobes trace --duration 0.4 'p kernel:__x64_sys_getppid' 'p enters' >/dev/null 2>/tmp/err
	[ $? != 0 ] && grep -q 'E-CMD-MISSING.*1 of 2 events are in a process' /tmp/err
	say $? "a process must be named for the events of one"
}

# Hits of the thread that has its round as its value, of one that counts in another way, of one that has none; and how
# many had another value than they should, but for the first of each, which may come before it is set.
values() {
	awk '/ (first|third): / {
			match($0, / want=[0-9]+ /); want = substr($0, RSTART + 6, RLENGTH - 7)
			match($0, / got=[0-9]+/); got = substr($0, RSTART + 5, RLENGTH - 5)
			who = / first: / ? 1 : want + 0 ? 2 : 3
			if (got != want && (n[who] || got)) bad++
			if (/ third: / && n[who] && !/ own=[1-9]/) bad++
			n[who]++
		}
		END { print n[1] + 0, n[2] + 0, n[3] + 0, bad + 0 }' /tmp/out
}

# Each thread's own value of a variable that lines in the process set, in lines of the kernel.
of_its_threads() {
	$dprobes trace -o /tmp/out --duration 0.4 -p "$1" 'begin { thread long request; thread long own; }' \
		'p enters { request = $arg1; }' 'p names { request = $arg1; }' \
		'p:first kernel:__x64_sys_getppid want=+112(%di):u64 got=request' \
		'p:second kernel:__x64_sys_getpgrp { own++; }' \
		'p:third kernel:__x64_sys_getpgrp want=+112(%di):u64 got=request own=own' 2>/tmp/err
	say $? "variables of threads that the process sets, in the kernel, $2"
	# shellcheck disable=SC2046 # four numbers
	set -- $(values)
	[ "$1" -gt 100 ] && [ "$2" -gt 30 ] && [ "$3" -gt 30 ] && [ "$4" = 0 ]
	say $? "each thread has its own there, one that never sets it has none ($1, $2 and $3 hits, $4 wrong)"
}

# Where thread ids are not those of the kernel.
of_a_container() {
	unshare -p -f ./worlds &
	soon "children=\$(cat /proc/$!/task/$!/children) && [ -n \"\$children\" ]"
	of_its_threads "${children% }" "in a container"
	kill -9 "${children% }"
}

# What the kernel tells of a thread belongs to the request that the thread is in.
in_requests() {
	$dprobes trace -o /tmp/out --duration 0.4 -p $target --keep-if 'r requests if $retval == 1' \
		'p:in requests n=$arg1' 'p:below kernel:__x64_sys_getpgrp n=+112(%di):u64' \
		'p kernel:__x64_sys_getppid' 2>/tmp/err
	say $? "--keep-if with lines of the kernel"
	# The process has its probes before the kernel has.
	# shellcheck disable=SC2046 # two numbers
	set -- $(sed -n 's/.* \(in\|below\): .* n=\([0-9]*\)$/\1 \2/p' /tmp/out | awk '
		$2 % 2 == 0 { bad++ }
		$1 == "below" { if (n++ && (before != "in" || $2 != last)) bad++ }
		$1 == "in" && before == "in" && n { bad++ }
		{ before = $1; last = $2 }
		END { print n + 0, bad + 0 }')
	[ "$1" -gt 30 ] && [ "$2" = 0 ] && ! grep -q getppid: /tmp/out
	say $? "requests that are kept have theirs, and nothing else is shown ($1 of them, $2 wrong)"
	grep -q 'requests passed over, [0-9]* requests kept' /tmp/err
	say $? "and are counted"
}

# One table for lines of both.
one_table() {
	$dprobes trace --duration 0.4 -p $target 'p enters both=count by $comm' 'p names other=count' \
		'p kernel:__x64_sys_getppid both=count by $comm' 'p kernel:__x64_sys_getpgrp other=count by $comm' \
		>/tmp/tables 2>/tmp/err
	say $? "tables of one name in a process and in the kernel"
	want=$(awk '$1 == "enters" || $1 == "__x64_sys_getppid" { n += $3 } END { print n }' /tmp/err)
	got=$(sed -n '/^processes and the kernel:$/,$s/^    worlds *\([0-9]*\) .*/\1/p' /tmp/tables)
	[ -n "$got" ] && [ "$got" = "$want" ]
	say $? "are one table with the hits of both (${got:-none} of $want)"
	[ "$(grep -c '^    worlds ' /tmp/tables)" = 2 ] && grep -q '^process .*worlds:$' /tmp/tables
	say $? "those with other columns are not"
	$dprobes trace --json --duration 0.4 -p $target 'p enters both=count by $comm, $caller' 'p names other=count' \
		'p kernel:__x64_sys_getppid both=count by $comm, $caller' >/tmp/tables 2>/tmp/err
	want=$(awk '$1 == "enters" || $1 == "__x64_sys_getppid" { n += $3 } END { print n }' /tmp/err)
	got=$(sed -n 's/^{"aggregate":"both","kind":"count","module":null,"pid":null,"ended":false,"entries":\[//p' \
		/tmp/tables | grep -o '"value":[0-9]*' | awk -F: '{ n += $2 } END { print n }')
	[ -n "$got" ] && [ "$got" = "$want" ] && [ "$(grep -c '"aggregate":"both"' /tmp/tables)" = 1 ]
	say $? "as JSON, too (${got:-none} of $want)"
	grep '"both"' /tmp/tables | grep -q '\["worlds","[a-z_0-9]*x64[a-z_0-9]*+0x\|\["worlds","do_syscall_64+0x' &&
		grep '"both"' /tmp/tables | grep -q '\["worlds","main+0x'
	say $? "with names of both"
	grep -q '^{"aggregate":"other","kind":"count","module":"[^"]*worlds","pid":'$target, /tmp/tables
	say $? "and others as they were"
	$dprobes trace --format csv --duration 0.4 -p $target 'p enters both=count by $comm' 'p names other=count' \
		'p kernel:__x64_sys_getppid both=count by $comm' >/tmp/tables 2>/tmp/err
	want=$(awk '$1 == "enters" || $1 == "__x64_sys_getppid" { n += $3 } END { print n }' /tmp/err)
	[ "$(grep '^aggregate,both,' /tmp/tables)" = "aggregate,both,count,,,0,\"worlds\",value,$want" ] &&
		grep -q "^aggregate,other,count,.*worlds,$target,0," /tmp/tables
	say $? "and as CSV"
}

# What programs at a hit take, compiled and interpreted.
costs() {
	without=$(./worlds cost)
	while read -r name line; do
		took=
		for how in Y N; do
			echo $how >/sys/module/dprobes/parameters/compile
			$dprobes trace -q -o /dev/null "$line" >/tmp/out 2>/tmp/err &
			soon '$dprobes list 2>/dev/null | grep -q " jump "'
			took="$took $(($(./worlds cost) - without))"
			kill $!
			wait $!
		done
		echo "tap: # figure: kernel, a program with $name: ${took# } instructions, compiled and interpreted"
		# shellcheck disable=SC2086 # two numbers
		set -- $took
		[ "$1" -lt "$2" ]
		say $? "a program with $name takes less when it is compiled ($1, $2)"
	done <<'END'
a_sum p kernel:__x64_sys_getppid n=sum(+112(%di):u64)
a_histogram p kernel:__x64_sys_getppid hist(+112(%di):u64)
a_body p kernel:__x64_sys_getppid { int a = 3; if ($pid == 1) a++; if (a == 3) count(n); }
END
	echo Y >/sys/module/dprobes/parameters/compile
}

worlds() {
	own_libraries
	$dprobes kernel load dprobes.ko
	./worlds &
	target=$!
	of_its_threads $target "in a process"
	of_a_container
	one_table
	in_requests
	in_one_order
	of_one_process
	whole_chains
	of_a_command
	kill $target
	costs
	$dprobes kernel unload
	say $? "it unloads"
}
