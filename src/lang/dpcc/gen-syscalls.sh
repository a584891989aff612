#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Names and numbers of system calls and of errors, as the kernel's headers of this machine have them, and of calls that
# came later than some headers: the programs of a newer system make them.
# Usage: gen-syscalls.sh CC...
set -eu

later="cachestat=451 fchmodat2=452 map_shadow_stack=453 futex_wake=454 futex_wait=455 futex_requeue=456 statmount=457
	listmount=458 lsm_get_self_attr=459 lsm_set_self_attr=460 lsm_list_modules=461 mseal=462 setxattrat=463
	getxattrat=464 listxattrat=465 removexattrat=466 open_tree_attr=467 file_getattr=468 file_setattr=469"

{
	"$@" -E -dM -include asm/unistd.h -include asm/errno.h - </dev/null |
		sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9][0-9]*\)$/DP_SYSTEM_CALL(\1, \2)/p
			s/^#define \(E[A-Z0-9]*\) \([0-9][0-9]*\)$/DP_SYSTEM_ERROR(\1, \2)/p'
	for call in $later; do
		echo "DP_SYSTEM_CALL(${call%=*}, ${call#*=})"
	done
} |
	LC_ALL=C sort -t, -k1,1 -u
