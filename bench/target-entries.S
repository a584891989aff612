/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Tiny functions whose first instructions are known, for the benchmark's target. */

	.macro	FUNC name
	.text
	.balign	64
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.endm

	.macro	DONE name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	FUNC	entry_nop5
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	lea	(%rdi, %rsi), %rax
	ret
	DONE	entry_nop5

	FUNC	entry_push
	push	%rbp
	.cfi_adjust_cfa_offset 8
	mov	%rsp, %rbp
	lea	(%rdi, %rsi), %rax
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	ret
	DONE	entry_push

	FUNC	entry_sub
	sub	$16, %rsp
	.cfi_adjust_cfa_offset 16
	mov	%rdi, 8(%rsp)
	lea	(%rdi, %rsi), %rax
	add	$16, %rsp
	.cfi_adjust_cfa_offset -16
	ret
	DONE	entry_sub

	FUNC	entry_endbr
	endbr64
	push	%rbp
	.cfi_adjust_cfa_offset 8
	mov	%rsp, %rbp
	lea	(%rdi, %rsi), %rax
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	ret
	DONE	entry_endbr

	.balign	64
	.section .note.GNU-stack, "", @progbits
