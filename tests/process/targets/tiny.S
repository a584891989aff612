/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Functions so short, and so close to the next one, that no jump fits into them. */
	.text
	.globl	tiny, tiny_next
	.type	tiny, @function
	.type	tiny_next, @function
	.balign	16
tiny:
	mov	%edi, %eax
	ret
	.size	tiny, . - tiny
tiny_next:
	lea	1(%rdi), %eax
	ret
	.size	tiny_next, . - tiny_next
	.section .note.GNU-stack, "", @progbits
