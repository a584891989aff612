// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The interpreter, as it is for all hosts. Its blocks are reached by computed jumps: objtool takes them for calls. */
#include <linux/objtool.h>

#include "../src/hit/vm.c"

STACK_FRAME_NON_STANDARD(dp_vm_go);
