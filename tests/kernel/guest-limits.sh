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
	for more in 'x32 x8' 'x32 x16' 'x32 x16 x8' 'x64' 'x64 x8' 'x64 x16' 'x64 x16 x8' 'x64 x32' 'x64 x32 x8' 'x64 x32 x16' 'x64 x32 x16 x8'; do
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

limits() {
	own_libraries
	$dprobes kernel load dprobes.ko
	./raw variables
	./raw layouts
	big_records
	$dprobes kernel unload
	say $? "it unloads"
}
