#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Probe a redis-server while 50 clients keep it busy: a screenful of live events, the summary, and the
# proof that the server is unharmed. Starts its own server on a port of its own and ends only what it
# started. Takes about 20 seconds.
set -eu

DPROBES=${DPROBES:-build/src/cmd/dprobes}
SECONDS_TRACED=${SECONDS_TRACED:-10}
LINES_SHOWN=${LINES_SHOWN:-32}
HOST=127.0.0.1
work=$(mktemp -d)
server=''
load=''
visitors=''
here=$$

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	for pid in $visitors $load $server; do
		kill "$pid" 2>/dev/null || :
	done
	for pid in $visitors $load $server; do
		wait "$pid" 2>/dev/null || :
	done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() {
	printf '\n== %s\n' "$*"
}

cli() {
	timeout 5 redis-cli -h "$HOST" -p "$port" "$@"
}

# A port that is free: a server that cannot bind ends at once, and the next number is tried.
start_server() {
	port=$((20000 + here % 20000))
	for _ in 1 2 3 4 5 6 7 8; do
		port=$((port + 7))
		redis-server --bind "$HOST" --port "$port" --save '' --appendonly no --daemonize no \
			--dir "$work" --logfile "$work/redis.log" >/dev/null 2>&1 &
		server=$!
		for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			sleep 0.1
			kill -0 "$server" 2>/dev/null || break
			# Ours, not somebody else's on the same port.
			if cli INFO server 2>/dev/null | grep -q "^process_id:$server"; then return 0; fi
		done
		kill "$server" 2>/dev/null || :
		wait "$server" 2>/dev/null || :
	done
	server=''
	echo "redis-server does not start:" >&2
	cat "$work/redis.log" >&2
	exit 1
}

say "redis-server, with redis-benchmark as its 50 clients"
start_server
timeout 50 redis-benchmark -h "$HOST" -p "$port" -c 50 -n 20000000 -r 100000 -t set,get -q \
	>"$work/benchmark" 2>&1 &
load=$!
# Somebody new comes by now and then.
(
	for visit in $(seq 100); do
		timeout 5 redis-cli -h "$HOST" -p "$port" SETEX "visitor:$visit" 60 hello >/dev/null 2>&1 || :
		sleep 0.3
	done
) &
visitors=$!
sleep 1
echo "process $server on port $port"

say "what can be probed: dprobes funcs -p $server 'redis-server:*Shared*'"
"$DPROBES" funcs -p "$server" 'redis-server:*Shared*' 2>&1 | head -n 12

say "dprobes trace, for $SECONDS_TRACED seconds"
cat >"$work/events" <<'EVENTS'
# a client connects
p:conn redis-server:createClient connection=$arg1
# a command runs
p:call redis-server:call client=$arg1 flags=$arg2:x32
# a key is looked up: its text, behind two pointers
p:key redis-server:lookupKey key=+0(+8($arg2)):string
# and what comes back
r:found redis-server:lookupKey object=$retval
# large pieces of memory only: the filter runs in the server
p:big libjemalloc:malloc bytes=$arg1:u64 if $arg1 > 10000
EVENTS
sed -n 's/^[pr]/    &/p' "$work/events"
status=0
{
	"$DPROBES" trace -p "$server" --duration "$SECONDS_TRACED" -f "$work/events" 2>"$work/summary" ||
		echo $? >"$work/failed"
} | awk -v shown="$LINES_SHOWN" '
	# The busy ones fill half a screen at once; of the rare ones half a screen is shown as they come.
	/: (conn|big): / ? rare++ < shown / 2 : busy++ < shown / 2 { print; fflush(); n++ }
	END { if (NR > n) printf "... and %d more events\n", NR - n }'
cat "$work/summary"
[ ! -e "$work/failed" ] || status=$(cat "$work/failed")

say "afterwards"
answer=$(cli PING) || answer="no answer"
echo "redis-cli PING:                  $answer"
[ "$answer" = PONG ] || status=1
kill -0 "$load" 2>/dev/null && clients="still running" || clients="have ended"
echo "the clients:                     $clients"
tracer=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$server/status")
echo "attached to it:                  $([ "$tracer" = 0 ] && echo nobody || echo "process $tracer")"
printf 'dprobes verify -p %-15s' "$server:"
"$DPROBES" verify -p "$server" || status=1
exit "$status"
