#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Boot a kernel in an emulator and run a script in it. The script and the files are in /t of the guest,
# which has busybox and nothing else. Exit status: that of the script; 99 when the guest died
# or did not come to an end.
#
# Usage: run.sh KERNEL_DIR SCRIPT [FILE|DIRECTORY...]      KERNEL_DIR as get.sh has made it
# Environment: QEMU the emulator, LIMIT seconds, CPU model, SMP processors, MEM megabytes, APPEND kernel arguments,
# QEMU_ARGS, ACCEL
#
# Always software emulation: see doc/kernel-host.md for what was met with anything else.
set -eu

kernel=$1
script=$2
shift 2
limit=${LIMIT:-120}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/t"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$script" "$root/t/.script"
chmod +x "$root/t/.script"
for file in "$@"; do
	cp -a "$file" "$root/t/"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
ifconfig lo 127.0.0.1 up
echo 1 >/proc/sys/kernel/printk
cd /t
echo guest-up
./.script
echo "guest-exit:$?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initrd"

# no_timer_check: on a busy machine the emulator's timer may be late for the kernel's look at it, which then gives up.
# There a processor of the guest may also get nothing for half a minute: the watchdogs wait for longer.
# shellcheck disable=SC2086 # lists of words
timeout -k 5 "$limit" ${QEMU:-qemu-system-x86_64} ${ACCEL:--accel tcg,thread=single} -cpu "${CPU:-max}" \
	-smp "${SMP:-2}" -m "${MEM:-512}" -nodefaults -no-user-config -display none -serial stdio -monitor none \
	-no-reboot ${QEMU_ARGS:-} -kernel "$kernel/vmlinuz" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet no_timer_check panic=-1 oops=panic softlockup_panic=1 \
		watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 ${APPEND:-}" \
	</dev/null 2>&1 | tr -d '\r' | tee "$work/log" || :
times >"$work/times" # the emulator's, in its second line
sed -n '2s/^/guest-times: /p' "$work/times"
status=$(sed -n 's/^guest-exit:\([0-9]*\)$/\1/p' "$work/log" | tail -n 1)
exit "${status:-99}"
