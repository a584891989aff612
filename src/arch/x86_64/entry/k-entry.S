/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How code comes from a slot into C and back, and where the landings of return probes lead.
 * Runs wherever the probed instruction runs; leaves all registers as they were or as handlers set them.
 * While a handler runs, the kernel's unwinder finds pt_regs here, and goes on at its ip.
 */
#include <linux/linkage.h>
#include <asm/asm.h>
#include <asm/segment.h>
#include <asm/smap.h>
#include <asm/unwind_hints.h>

#include "abi/abi-limits.h"

/* struct pt_regs */
#define AX 80
#define DI 112
#define IP 128
#define FLAGS 144
#define SP 152
#define SS 160

	.section .kprobes.text, "ax"

/* What lies below flags, with ip left open. */
.macro save_registers
	push	$__KERNEL_CS
	push	$0
	push	$-1
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%rax
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
.endm

.macro restore_registers
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
.endm

.macro begin_hit
	ANNOTATE_NOENDBR
	UNWIND_HINT_FUNC
	pushf
	save_registers
	UNWIND_HINT_REGS
	cld
	ASM_CLAC
	mov	SS(%rsp), %rbp
	mov	SP(%rsp), %r12
	lea	SS+8(%rsp), %r13
	mov	%r13, SP(%rsp)
.endm

/*
 * Called by a slot: the return address lies where pt_regs has sp, the point above it where pt_regs has ss.
 */
	.balign	64
SYM_CODE_START_NOALIGN(dp_k_entry)
	begin_hit
	/*
	 * What dp_k_hit() does, outside of any other hit: everything is saved already, which C could not
	 * know. The point has the one probe to be called, or dp_k_whole_list.
	 */
	DP_K_PREEMPT_INC	%gs:DP_K_PREEMPT_COUNT(%rip)
	btsl	$0, %gs:dp_cpu(%rip)
	jc	.Lpreemption_back
	mov	(%rbp), %rax
	mov	%rax, IP(%rsp)
	mov	DP_K_POINT_SINGLE(%rbp), %rdi
	mov	DP_K_KPROBE_PRE(%rdi), %rax
	mov	%rsp, %rsi
	call	__x86_indirect_thunk_rax
	test	%eax, %eax
	jnz	.Lelsewhere
	cmp	%r13, SP(%rsp)
	jne	.Lother_stack
	movl	$0, %gs:dp_cpu(%rip)
	DP_K_PREEMPT_DEC	%gs:DP_K_PREEMPT_COUNT(%rip)
	jz	.Lresched
.Lon:
	mov	%r12, SP(%rsp)
	restore_registers
	lea	24(%rsp), %rsp
	popf
	UNWIND_HINT_FUNC
	RET
.Lresched:
	UNWIND_HINT_REGS
	call	dp_k_resched
	jmp	.Lon

.Lother_stack:
	lea	DP_K_OOL_LEA(%r12), %rax
	mov	%rax, IP(%rsp)
.Lelsewhere:
	movl	$0, %gs:dp_cpu(%rip)
	DP_K_PREEMPT_DEC	%gs:DP_K_PREEMPT_COUNT(%rip)
	jnz	.Lreturn
	call	dp_k_resched
	/* Go on at ip with sp: what lies at the top of pt_regs is what iretq takes. */
.Lreturn:
	movq	$__KERNEL_DS, SS(%rsp)
	restore_registers
	lea	8(%rsp), %rsp
	iretq

SYM_CODE_END(dp_k_entry)

/* The same with a tag in the point: after the instruction. */
SYM_CODE_START_NOALIGN(dp_k_entry_tagged)
	begin_hit
	jmp	.Lall

.Lpreemption_back:
	DP_K_PREEMPT_DEC	%gs:DP_K_PREEMPT_COUNT(%rip)	/* dp_k_hit() will look whether somebody waits */
.Lall:
	mov	%rsp, %rdi
	mov	%rbp, %rsi
	mov	%r12, %rdx
	call	dp_k_hit
	test	%eax, %eax
	jz	.Lon
	jmp	.Lreturn
SYM_CODE_END(dp_k_entry_tagged)

/*
 * A landing has pushed its number where the return address was; pt_regs goes below that, with two words of its own
 * for ss and sp. The usual way is here, because everything is saved already. What it reads of the instance and its
 * holder pairs with the releases in returns.c: loads are not reordered on this processor.
 */
SYM_CODE_START_NOALIGN(dp_k_landed)
	ANNOTATE_NOENDBR
	UNWIND_HINT_FUNC
	push	$__KERNEL_DS
	push	%rsp
	pushf
	save_registers
	UNWIND_HINT_REGS
	cld
	ASM_CLAC
	addq	$16, SP(%rsp)		/* as the function's caller will see it */
	mov	SS+8(%rsp), %rax
	mov	dp_k_instances(%rip), %rbx
	mov	(%rbx,%rax,8), %rbx
	mov	DP_K_CALL_ADDR(%rbx), %r12	/* of the function's caller */
	mov	DP_K_CALL_BACK(%rbx), %rbp	/* that, or another probe's landing */
	mov	%r12, IP(%rsp)
	DP_K_PREEMPT_INC	%gs:DP_K_PREEMPT_COUNT(%rip)
	btsl	$0, %gs:dp_cpu(%rip)
	jc	.Lmissed
	mov	DP_K_CALL_HOLDER(%rbx), %rax
	mov	DP_K_HOLDER_PROBE(%rax), %rdi
	test	%rdi, %rdi
	jz	.Lno_handler
	mov	DP_K_RETURN_HANDLER(%rdi), %rax
	test	%rax, %rax
	jz	.Lno_handler
	testb	$DP_K_DISABLED, DP_K_KPROBE_FLAGS(%rdi)
	jnz	.Lno_handler
	mov	%rbx, %rdi
	mov	%rsp, %rsi
	call	__x86_indirect_thunk_rax
	cmp	%r12, IP(%rsp)
	cmovne	IP(%rsp), %rbp			/* the handler wants it elsewhere */
.Lno_handler:
	movl	$0, %gs:dp_cpu(%rip)
.Lhandled:
	DP_K_PREEMPT_DEC	%gs:DP_K_PREEMPT_COUNT(%rip)
	jz	.Lresched_landed
.Lgive_back:
	movq	$0, DP_K_CALL_RUNS(%rbx)
	mov	DP_K_CALL_HOLDER(%rbx), %rax
	mov	DP_K_HOLDER_SPARE(%rax), %rax
	add	%gs:this_cpu_off(%rip), %rax	/* the spare of whichever processor */
	xchg	%rbx, (%rax)
	test	%rbx, %rbx
	jnz	.Lto_list
.Lgiven:
	mov	%rbp, SS+8(%rsp)
	restore_registers
	lea	24(%rsp), %rsp
	popf
	lea	16(%rsp), %rsp
	UNWIND_HINT_FUNC
	RET
.Lto_list:
	UNWIND_HINT_REGS
	mov	%rbx, %rdi
	call	dp_k_give_to_list
	jmp	.Lgiven
.Lresched_landed:
	call	dp_k_resched
	jmp	.Lgive_back
.Lmissed:
	mov	%rbx, %rdi
	call	dp_k_return_missed
	jmp	.Lhandled
SYM_CODE_END(dp_k_landed)

/*
 * What a tracepoint calls (kernel/k-tracepoints.c), with what it was registered with in rdi. pt_regs is as where it
 * goes on, but for the registers of its arguments; nothing that is written to it counts.
 */
SYM_TYPED_FUNC_START(dp_k_tracepoint)
	push	$__KERNEL_DS
	push	%rsp
	pushf
	save_registers
	UNWIND_HINT_REGS
	mov	SS+8(%rsp), %rax
	mov	%rax, IP(%rsp)
	lea	SS+16(%rsp), %rax
	mov	%rax, SP(%rsp)
	mov	%rsp, %rsi
	call	dp_k_tracepoint_hit
	lea	SS+8(%rsp), %rsp
	UNWIND_HINT_FUNC
	RET
SYM_FUNC_END(dp_k_tracepoint)

/* Machine code made by the module jumps here to return: this kernel may want a detour for it. */
SYM_FUNC_START(dp_k_ret)
	ANNOTATE_NOENDBR
	RET
SYM_FUNC_END(dp_k_ret)

/* rdi: registers, rsi: function, rdx: where to keep the stack pointer. With its own copy of 64 bytes of arguments. */
.macro return_to_hit
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	RET
.endm

SYM_FUNC_START(dp_k_call_jprobe)
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, (%rdx)
	mov	%rsp, %rbp
	mov	%rsi, %r11
	mov	%rdi, %rax
	mov	SP(%rax), %r10		/* the return address, then arguments */
	/* A function that is called first on an interrupt's stack has nothing above it, not even memory. */
	xor	%ebx, %ebx
	i = 64
	.rept	8
1:	mov	i(%r10), %rbx
2:	push	%rbx
	_ASM_EXTABLE(1b, 2b)
	i = i - 8
	.endr
	mov	DI(%rax), %rdi
	mov	DI-8(%rax), %rsi
	mov	DI-16(%rax), %rdx
	mov	DI-24(%rax), %rcx
	mov	DI-40(%rax), %r8
	mov	DI-48(%rax), %r9
	mov	AX(%rax), %rax
	call	__x86_indirect_thunk_r11
	mov	%rbp, %rsp
	return_to_hit
SYM_FUNC_END(dp_k_call_jprobe)

STACK_FRAME_NON_STANDARD dp_k_leave_jprobe
SYM_FUNC_START(dp_k_leave_jprobe)
	mov	%rdi, %rsp
	return_to_hit
SYM_FUNC_END(dp_k_leave_jprobe)

	.section .note.GNU-stack, "", @progbits
