#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Build modules out of tree, in a copy made of links, so that nothing appears in the sources.
#
# Usage: build.sh KERNEL_BUILD_DIR OUTPUT_DIR [SUBDIR]     SUBDIR: kernel (the default), examples/kernel, ...
set -eu

headers=$1
out=$2
what=${3:-kernel}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
(cd "$headers" && pwd) >"$out/headers" # for packaging/compile-commands.py

# New files appear, removed ones go; objects stay for the next time.
find "$out" -xtype l -delete
for dir in kernel src include examples/kernel tests/kernel tests/conform; do
	[ ! -d "$root/$dir" ] ||
		(cd "$root" && find "$dir" -name '*.[chS]' -o -name '*.def' -o -name Kbuild -o -name features.sh) |
		while read -r file; do
			mkdir -p "$out/${file%/*}"
			[ -e "$out/$file" ] || ln -s "$root/$file" "$out/$file"
		done
done
symbols=
if [ "$what" != kernel ]; then
	symbols="KBUILD_EXTRA_SYMBOLS=$out/kernel/Module.symvers"
	# Kbuild does not see that modules were built against other versions of these symbols.
	[ ! "$out/kernel/Module.symvers" -nt "$out/$what/.built" ] || rm -f "$out/$what/Module.symvers"
fi
# shellcheck disable=SC2086 # one word or none
make -s -C "$headers" M="$out/$what" $symbols modules 2>"$out/log" >&2 || {
	cat "$out/log" >&2
	exit 1
}
grep -v 'Skipping BTF generation' "$out/log" >&2 || :
: >"$out/$what/.built" # what is newer has not been built
