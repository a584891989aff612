#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Make libdprobes.a: one object whose code lies in a section of its own, so that the library knows its own
# code inside a program, and whose only global names are the exported ones.
#
# Usage: build-archive.sh IN.a MAP OUT.a
set -eu

in=$1 map=$2 out=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n '/global:/,/local:/p' "$map" | tr -d ' \t' | tr ';' '\n' | grep -E '^[a-z_]+$' >"$work/names"
ld -r --whole-archive "$in" -o "$work/dprobes.o"
set --
for section in .text .text.unlikely .text.startup .text.exit .text.hot; do
	set -- "$@" --rename-section "$section=dprobes_text"
done
objcopy "$@" --keep-global-symbols="$work/names" "$work/dprobes.o"
rm -f "$out"
ar rcs "$out" "$work/dprobes.o"
