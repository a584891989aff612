#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Compile the hit path into one flat piece and check its border: no undefined symbols, no writable
# data, no relocations, general registers only, no string instructions.
# Usage: build-blob.sh CC SRC_DIR OUT_DIR OUT_BIN OUT_S
set -eu
cc=$1 src=$2 work=$3 out=$(realpath -m "$4") text=$(realpath -m "$5")
mkdir -p "$work"
cd "$work" # names of objects have no blanks
flags="-std=gnu17 -O2 -g -ffreestanding -fPIE -mgeneral-regs-only -mno-red-zone -fno-stack-protector
	-fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -fcf-protection=none -fno-jump-tables
	-fvisibility=hidden -fno-strict-aliasing -fno-builtin -Wall -Wextra -Werror -Wno-unused-parameter
	-Wstack-usage=1024"
objects=
arch=../arch/x86_64
: >commands # for packaging/compile-commands.py
for f in hit-calls.c hit-exits.c hit-guard.c copy.c $arch/entry/hit-entry.S hit.c hit-mem.c \
	page.c hit-rpn.c signal.c string.c hit-tables.c hit-text.c hit-unwind.c vm.c hit-watch.c $arch/store.c \
	$arch/insn.c $arch/insn-class.c $arch/insn-table.c $arch/insn-table-vex.c $arch/insn-table-evex.c; do
	$cc $flags "-I$src" "-I$src/../include" -c "$src/hit/$f" -o "${f##*/}.o"
	echo $cc $flags "'-I$src' '-I$src/../include' -o '$work/${f##*/}.o' -c '$src/hit/$f'" >>commands
	objects="$objects ${f##*/}.o"
done
ld -pie --no-dynamic-linker -z noexecstack --no-undefined -T "$src/hit/blob.ld" $objects -o blob.elf
# The code of the parts: in the whole, constants stand between it and read like anything.
bad=$(objdump -d --no-show-raw-insn $objects | awk '/^Disassembly of section/ { head = /\.head/ } !head' |
	grep -E -e '%[xyz]mm|%st\b|%mm[0-7]|%k[0-7]\b|:%fs|%[fg]s:' \
		-e '\b(rep|movs[bwlq]?|stos[bwlq]?|cmps[bwl]|scas[bwlq]?|lods[bwlq]?) +(%ds|%es)' |
	grep -v 'mov  *%fs:0x0,' || true)
if [ -n "$bad" ]; then
	echo "the hit path may only use general registers and no string instructions:" >&2
	echo "$bad" | head >&2
	exit 1
fi
objcopy -O binary -j .text blob.elf "$out"
# The checksum makes this file differ, and so be assembled again, whenever the piece does.
cat > "$text" <<END
/* $(sha256sum < "$out" | cut -c1-32) */
	.section .rodata
	.balign 16
	.globl dp_blob, dp_blob_size
	.hidden dp_blob, dp_blob_size
dp_blob:
	.incbin "$out"
1:	.balign 4
dp_blob_size:
	.long 1b - dp_blob
	.section .note.GNU-stack, "", @progbits
END
