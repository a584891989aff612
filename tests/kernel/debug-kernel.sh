#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Build a small kernel that watches its own locks and memory (lockdep, KASAN, checks for sleeping where
# that is forbidden) and has a debugger (kgdb, kdb), from Debian's source package, installing nothing. It takes 20
# minutes on two processors. What is there already is not built again, unless the list of options below has changed.
# `make check-kernel-debug` runs the guest's tests on it.
#
# Usage: debug-kernel.sh BUILD_DIR      prints the directory, which is laid out as that of get.sh
# Environment: DP_KERNEL_CACHE, DP_MAKE (the make to use)
set -eu

cache=${DP_KERNEL_CACHE:-$1/kernel-cache}
dir=$cache/debug
package=linux-source-6.1

die() {
	echo "$*" >&2
	exit 1
}

mkdir -p "$dir"
cd "$dir"
here=$(pwd)

# Over the smallest configuration there is: what the guest needs, what is probed, what watches.
cat >wanted.new <<'CONFIG'
CONFIG_64BIT=y
CONFIG_SMP=y
CONFIG_NR_CPUS=8
CONFIG_LOCALVERSION="-debug"
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
CONFIG_EXPERT=y
CONFIG_MULTIUSER=y
CONFIG_PRINTK=y
CONFIG_BUG=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_EVENTFD=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_POSIX_TIMERS=y
CONFIG_SHMEM=y
CONFIG_INOTIFY_USER=y
CONFIG_SECURITY=y
CONFIG_FILE_LOCKING=y
CONFIG_FANOTIFY=y
CONFIG_FANOTIFY_ACCESS_PERMISSIONS=y
CONFIG_CROSS_MEMORY_ATTACH=y
CONFIG_PRINTK_TIME=y
CONFIG_AIO=y
CONFIG_MEMBARRIER=y
CONFIG_RSEQ=y
CONFIG_SYSCTL=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_NO_HZ_IDLE=y
CONFIG_HZ_250=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_RD_GZIP=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_PROC_FS=y
CONFIG_PROC_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_DEVTMPFS=y
CONFIG_TMPFS=y
CONFIG_TTY=y
CONFIG_UNIX98_PTYS=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_PCI=y
CONFIG_ACPI=y
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_INET=y
CONFIG_MAGIC_SYSRQ=y
CONFIG_MODULES=y
CONFIG_MODULE_UNLOAD=y
CONFIG_MODVERSIONS=y
CONFIG_KALLSYMS=y
CONFIG_KALLSYMS_ALL=y
CONFIG_JUMP_LABEL=y
CONFIG_PREEMPT_VOLUNTARY=y
CONFIG_PREEMPT_DYNAMIC=y
CONFIG_SLUB=y
CONFIG_SLUB_DEBUG=y
CONFIG_RELOCATABLE=y
CONFIG_RANDOMIZE_BASE=y
CONFIG_CPU_MITIGATIONS=y
CONFIG_RETPOLINE=y
CONFIG_UNWINDER_ORC=y
CONFIG_STACKPROTECTOR=y
CONFIG_STACKPROTECTOR_STRONG=y
CONFIG_STRICT_KERNEL_RWX=y
CONFIG_STRICT_MODULE_RWX=y
CONFIG_VMAP_STACK=y
CONFIG_PERF_EVENTS=y
CONFIG_KPROBES=y
CONFIG_FTRACE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_KPROBE_EVENTS=y
CONFIG_UPROBE_EVENTS=y
CONFIG_DEBUG_KERNEL=y
CONFIG_DEBUG_FS=y
CONFIG_DEBUG_INFO_NONE=y
CONFIG_FRAME_WARN=2048
CONFIG_PROVE_LOCKING=y
CONFIG_DEBUG_ATOMIC_SLEEP=y
CONFIG_DEBUG_LIST=y
CONFIG_DEBUG_PREEMPT=y
CONFIG_SOFTLOCKUP_DETECTOR=y
CONFIG_DETECT_HUNG_TASK=y
CONFIG_KASAN=y
CONFIG_KASAN_GENERIC=y
CONFIG_KASAN_OUTLINE=y
CONFIG_KASAN_VMALLOC=y
CONFIG_VT=y
CONFIG_KGDB=y
CONFIG_KGDB_SERIAL_CONSOLE=y
CONFIG_KGDB_KDB=y
CONFIG
if [ -s kver ] && cmp -s wanted.new wanted; then
	echo "$here"
	exit 0
fi
rm -f kver
mv wanted.new wanted
for tool in apt-get dpkg flex bison bc; do
	command -v $tool >/dev/null || die "$tool is not installed"
done
if [ ! -s source/Makefile ]; then
	apt-get -qq download $package >log 2>&1 || die "the package $package cannot be had"
	dpkg -x $package*.deb unpacked
	mkdir -p source
	tar xf unpacked/usr/src/$package.tar.xz -C source --strip-components=1
	rm -rf $package*.deb unpacked
fi
make=${DP_MAKE:-make -j2}
mkdir -p build
# shellcheck disable=SC2086 # words
{
	make -s -C source O="$here/build" tinyconfig &&
		source/scripts/kconfig/merge_config.sh -m -O build build/.config wanted >/dev/null &&
		make -s -C source O="$here/build" olddefconfig &&
		$make -s -C source O="$here/build" bzImage modules
} >log 2>&1 || {
	tail -n 20 log >&2
	die "the kernel could not be built: see $here/log"
}
for option in PROVE_LOCKING KASAN KASAN_VMALLOC DEBUG_ATOMIC_SLEEP KPROBES DYNAMIC_FTRACE \
	KGDB_SERIAL_CONSOLE KGDB_KDB; do
	grep -q "^CONFIG_$option=y" build/.config || die "CONFIG_$option is not in the configuration"
done
ln -sfn build/arch/x86/boot/bzImage vmlinuz
make -s -C source O="$here/build" kernelrelease >kver
echo "$here"
