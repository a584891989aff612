/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Functions to probe whose bytes are known. */
#include <linux/linkage.h>
#include <asm/asm.h>
#include <asm/nospec-branch.h>

	.text

.macro FUNC name
	.balign	16, 0x90
	.globl	\name
	.type	\name, @function
\name:
.endm

FUNC t_add
	lea	(%rdi,%rsi), %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_add, . - t_add

FUNC t_wide
	movabs	$0x1000, %rax
	add	%rdi, %rax
	add	%rsi, %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_wide, . - t_wide

FUNC t_short
	push	%rbx
	mov	%rdi, %rbx
	nop
	lea	(%rbx,%rsi), %rax
	pop	%rbx
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_short, . - t_short

/* The third instruction ends in what looks like one: lea (%rbx,%rsi), %eax */
FUNC t_region
	push	%rbx
	mov	%rdi, %rbx
	lea	(%rbx,%rsi), %rax
	add	$1, %rax
	pop	%rbx
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_region, . - t_region

FUNC t_loop
	xor	%eax, %eax
	test	%rdi, %rdi
	jz	2f
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
2:	ANNOTATE_UNRET_SAFE
	ret
	.size	t_loop, . - t_loop

FUNC t_calls
	mov	%rdi, %rsi
	call	t_add
	add	$1, %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_calls, . - t_calls

FUNC t_indirect
	mov	%rdi, %rsi
	call	*pointer(%rip)
	add	$1, %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_indirect, . - t_indirect

FUNC t_privileged
	pushf
	cli
	mov	%cr3, %rax
	sti
	cli
	popf
	lea	1(%rdi), %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_privileged, . - t_privileged

FUNC t_percpu
	movl	%gs:t_number(%rip), %eax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_percpu, . - t_percpu

FUNC t_fault
	.byte	0x0f, 0x1f, 0x44, 0, 0
1:	mov	(%rdi), %rax
	ANNOTATE_UNRET_SAFE
	ret
2:	mov	$-14, %rax
	ANNOTATE_UNRET_SAFE
	ret
	_ASM_EXTABLE(1b, 2b)
	.size	t_fault, . - t_fault

FUNC t_gpf
	.byte	0x0f, 0x1f, 0x44, 0, 0
	mov	(%rdi), %rax
	ANNOTATE_UNRET_SAFE
	ret
	mov	$-5, %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_gpf, . - t_gpf

FUNC t_many
	lea	(%rdi,%rsi,2), %rax
	lea	(%rax,%rdx,4), %rax
	lea	(%rax,%rcx,8), %rax
	add	%r8, %rax
	add	%r9, %rax
	add	8(%rsp), %rax
	add	16(%rsp), %rax
	add	24(%rsp), %rax
	add	32(%rsp), %rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_many, . - t_many

	.globl	t_branchy_len
FUNC t_branchy
	push	%rbx
	push	%rbp
	xor	%eax, %eax
	mov	%rdi, %rcx
	jrcxz	4f
1:	test	$1, %cl
	jz	2f
	add	%rcx, %rax
	jmp	3f
2:	push	%rcx
	mov	%rcx, %rdi
	mov	%rax, %rsi
	call	t_add
	pop	%rcx
	lea	t_add(%rip), %rbx
	push	%rcx
	push	%rax
	mov	%rcx, %rdi
	mov	$3, %esi
	call	*%rbx
	mov	%rax, %rdx
	pop	%rax
	pop	%rcx
	xor	%rdx, %rax
	cmp	$100, %rax
	jg	3f
	lea	5(%rax), %rax
3:	loop	1b
4:	pop	%rbp
	pop	%rbx
	ANNOTATE_UNRET_SAFE
	ret
.Lbranchy_end:
	.size	t_branchy, . - t_branchy

/* Called in front of a function. */
FUNC t_stub
	lock incl t_stub_hits(%rip)
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_stub, . - t_stub

FUNC t_landing
	lea	1(%rdi), %rax
	.byte	0xf3, 0x0f, 0x1e, 0xfa	/* endbr64 */
	inc	%rax
	ANNOTATE_UNRET_SAFE
	ret
	.size	t_landing, . - t_landing

	.data
	.balign	8
pointer:
	.quad	t_add
	.globl	t_stub_hits
t_stub_hits:
	.quad	0
t_branchy_len:
	.quad	.Lbranchy_end - t_branchy

	.section .note.GNU-stack, "", @progbits
