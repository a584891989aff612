/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Functions that need no stack, and a way to call them where there is little of it. */
	.text
	/* edge_call(function, stack pointer) */
	.globl edge_call
	.type edge_call, @function
edge_call:
	push	%rbx
	mov	%rsp, %rbx
	mov	%rsi, %rsp
	call	*%rdi
	mov	%rbx, %rsp
	pop	%rbx
	ret
	.size edge_call, . - edge_call

	.globl edge_entry
	.type edge_entry, @function
edge_entry:
	mov	$1, %eax
	ret
	.size edge_entry, . - edge_entry

	/* In its middle the red zone is in use. */
	.balign 16
	.globl edge_inside
	.type edge_inside, @function
edge_inside:
	movq	$77, -8(%rsp)
	movq	$78, -128(%rsp)
	mov	$2, %eax		/* edge_inside+18 is probed */
	cmpq	$77, -8(%rsp)
	jne	1f
	cmpq	$78, -128(%rsp)
	jne	1f
	ret
1:	ud2
	.size edge_inside, . - edge_inside

	/* No jump fits: another function follows at once. */
	.balign 16
	.globl edge_trap
	.type edge_trap, @function
edge_trap:
	clc
	.size edge_trap, . - edge_trap
	.globl edge_next
	.type edge_next, @function
edge_next:
	mov	$3, %eax
	ret
	.size edge_next, . - edge_next

	.section .note.GNU-stack, "", @progbits
