#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Build modules for a kernel that get.sh has fetched: with ../../kernel/build.sh, and for a kernel of another suite with
# the compiler and the tools of that, in its own root directory.
#
# Usage: build-for.sh KERNEL_DIR OUTPUT_DIR WHAT      as build.sh
set -eu

kernel=$1
what=$3
top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
[ -e "$kernel/tools" ] || exec "$top/kernel/build.sh" "$kernel/build" "$out" "$what"

# One copy of the sources for each output directory. What has not changed keeps its time.
name=dprobes-$(echo "$out" | cksum | cut -d ' ' -f 1)
copy=$kernel/root/$name
mkdir -p "$copy/src" "$out/$what"
for part in kernel src include examples/kernel tests/kernel tests/conform; do
	mkdir -p "$copy/src/$part"
	(cd "$top" && find "$part" -name '*.[chS]' -o -name '*.def' -o -name Kbuild -o -name '*.sh') |
		(cd "$top" && cpio --quiet -pdm "$copy/src") 2>/dev/null
done
status=0
# With /proc, where later tools look for their limits, in a mount namespace that ends with the build.
mkdir -p "$kernel/root/proc"
unshare -m sh -c 'mount --rbind /proc "$1/proc" || :; exec chroot "$1" /bin/sh -c "$2"' sh "$kernel/root" "
	PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C exec /$name/src/kernel/build.sh \
		/usr/src/$(basename "$(readlink "$kernel/build")") /$name/out $what" || status=$?
cp "$copy/out/$what/"*.ko "$copy/out/$what/"*.o "$out/$what/" 2>/dev/null || :
exit $status
