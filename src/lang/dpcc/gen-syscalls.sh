#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Names and numbers of system calls and of errors, as the kernel's headers of this machine have them.
# Usage: gen-syscalls.sh CC...
set -eu

"$@" -E -dM -include asm/unistd.h -include asm/errno.h - </dev/null |
	sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9][0-9]*\)$/DP_SYSTEM_CALL(\1, \2)/p
		s/^#define \(E[A-Z0-9]*\) \([0-9][0-9]*\)$/DP_SYSTEM_ERROR(\1, \2)/p' |
	LC_ALL=C sort -t, -k1,1
