/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A library whose code is the same harmless instruction all over: any other byte shows. */
	.text
	.balign 16
	.globl other_code
	.type other_code, @function
other_code:
	.fill 3071, 1, 0x90
	ret
	.size other_code, . - other_code
	.section .note.GNU-stack, "", @progbits
