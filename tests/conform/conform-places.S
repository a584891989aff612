/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What rules.c probes: the same bytes in a program and in a module. */
	.text

.macro FUNC name
	.balign	16, 0x90
	.globl	\name
	.type	\name, @function
\name:
.endm
.macro END name
	.size	\name, . - \name
.endm

FUNC c_add
	lea	(%rdi,%rsi), %rax
	ret
END c_add

FUNC c_wide
	movabs	$0x1000, %rax
	add	%rdi, %rax
	add	%rsi, %rax
	ret
END c_wide

FUNC c_region
	push	%rbx
	mov	%rdi, %rbx
	lea	(%rbx,%rsi), %rax
	add	$1, %rax
	pop	%rbx
	ret
END c_region

FUNC c_load
	mov	(%rdi), %rax
	ret
END c_load

FUNC c_sum
	push	%rbx
	mov	%rdi, %rbx
	xor	%eax, %eax
	test	%rdi, %rdi
	jz	1f
	dec	%rdi
	call	c_sum
	add	%rbx, %rax
1:	pop	%rbx
	ret
END c_sum

FUNC c_calls
	push	%rbx
	call	c_add
	.globl	c_calls_back
c_calls_back:
	add	$1, %rax
	pop	%rbx
	ret
END c_calls

FUNC c_through
	push	%rbx
	call	*%rdi
	mov	$5, %eax
	pop	%rbx
	ret
END c_through

FUNC c_many
	mov	%rdi, %rax
	add	8(%rsp), %rax
	sub	16(%rsp), %rax
	ret
END c_many

	.section .note.GNU-stack, "", @progbits
