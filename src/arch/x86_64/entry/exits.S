/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * int dp_self_exit_run(handler, exit, regs, args, results): calls the handler from code that may use general registers
 * only. All other registers that the program may use are saved on the stack, and are back afterwards.
 */
	.section dprobes_text, "ax", @progbits
	.globl dp_self_exit_run
	.hidden dp_self_exit_run
	.type dp_self_exit_run, @function
dp_self_exit_run:
	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	mov	%rdi, %r10
	mov	%rdx, %r9
	mov	dp_self_exit_xsize(%rip), %eax
	test	%eax, %eax
	jz	1f
	sub	%rax, %rsp
	and	$-64, %rsp
	xor	%eax, %eax
	/* The header: what is not written there must be zero. */
	.irp	i, 512, 520, 528, 536, 544, 552, 560, 568
	mov	%rax, \i(%rsp)
	.endr
	mov	dp_self_exit_xmask(%rip), %eax
	xor	%edx, %edx
	xsave64	(%rsp)
	jmp	2f
1:	sub	$512, %rsp
	and	$-16, %rsp
	fxsave64 (%rsp)
2:	fninit
	mov	%rsi, %rdi
	mov	%r9, %rsi
	mov	%rcx, %rdx
	mov	%r8, %rcx
	call	*%r10
	cmpl	$0, dp_self_exit_xsize(%rip)
	mov	%eax, %ecx
	je	3f
	mov	dp_self_exit_xmask(%rip), %eax
	xor	%edx, %edx
	xrstor64 (%rsp)
	jmp	4f
3:	fxrstor64 (%rsp)
4:	mov	%ecx, %eax
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size dp_self_exit_run, . - dp_self_exit_run
	.section .note.GNU-stack, "", @progbits
