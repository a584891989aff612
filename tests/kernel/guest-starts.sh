# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Starts of processes, in the guest; read by guest.sh, which brings say, soon and own_libraries.

# Programs of processes that are inserted for all of them: who starts is caught, and goes on whatever happens to the
# driver.
started() { # which, how many times at once
	pids=
	for _ in $(seq "$2"); do
		timeout 300 ./"$1" &
		pids="$pids $!"
	done
	bad=0
	for pid in $pids; do
		wait "$pid" || {
			echo "tap: # $1: status $?"
			bad=1
		}
	done
	[ $bad = 0 ]
}

of_starts() { # the words of a program for that file
	printf 'name = /t/%s\nlogmax = 8\nvars = 1\noffset = brief_work\ninc lv, 0; push d, 1; log 1; exit\n' "$1"
}

starts_of() {
	of_starts "$1" >/tmp/"$1".rpn
	$dprobes insert /tmp/"$1".rpn >/tmp/out 2>&1
	say $? "$1: inserted for every process, of which there is none"
	started "$1" 1 && started "$1" 3
	say $? "$1: what starts goes on"
	# Nobody is held for longer than three seconds, and an emulator may be slow.
	soon '$dprobes -q | grep -q "hits 12: recorded 12,\|did not wait"'
	say $? "$1: each hit of the shortest processes is counted, or they are told to have been let go"
	! $dprobes -q | grep 'not held'
	say $? "$1: they were held"
	$dprobes -r -a >/dev/null
	timeout 300 $dprobes trace -f /tmp/"$1".rpn -- ./"$1" >/tmp/out 2>/tmp/err
	say $? "$1: trace -f with the command"
	[ "$(grep -c '^dprobes(1,0)' /tmp/out)" = 6 ]
	say $? "$1: its records"
}

nobody_frozen() {
	mkdir -p /tmp/cgroup && mount -t cgroup2 cgroup2 /tmp/cgroup
	[ -z "$(find /tmp/cgroup -name 'dprobes-held-*')" ]
	frozen=$?
	umount /tmp/cgroup
	return $frozen
}

# $1: who is killed; $3: what lets go whom they held, where nobody is left to do it.
killed_starts() {
	bad=0
	for turn in 0 1 2; do
		$dprobes insert /tmp/brief.rpn >/dev/null && $dprobes insert /tmp/brief-static.rpn >/dev/null
		started brief 2 &
		one=$!
		started brief-static 2 &
		two=$!
		usleep $((turn * 150000))
		# shellcheck disable=SC2046 # a list of ids
		kill -KILL $($1)
		${3:-true} >/dev/null
		wait $one || bad=1
		wait $two || bad=1
		$dprobes -r -a >/dev/null
	done
	say $bad "everybody goes on when $2 in these moments"
	nobody_frozen
	say $? "and nobody is left behind"
}

starts() {
	own_libraries
	mkdir -p /run
	! grep -q cgroup2 /proc/mounts
	say $? "no cgroup version 2 is mounted"
	starts_of brief
	starts_of brief-static
	mkdir -p /tmp/mounted && mount -t cgroup2 cgroup2 /tmp/mounted
	starts_of brief
	umount /tmp/mounted
	killed_starts "pidof dprobesd" "the driver is killed"
	killed_starts "pidof dprobes-guard" "its guard and the keeper are killed"
	killed_starts "pidof dprobesd dprobes-guard" "all of them are killed" "$dprobes clean --all"
}
