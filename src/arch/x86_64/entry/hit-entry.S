/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where detours enter the hit path, and what else must be assembly: the commit sequences, the
 * signal entry and the service loop. Position independent; clobbers nothing that it does not restore.
 *
 * A detour does:	[lea -128(%rsp),%rsp]		the red zone, where one may be live
 *			push %rdi
 *			mov  $point,%edi
 *			call *entry(%rip)
 *			pop  %rdi
 *			[lea 128(%rsp),%rsp]
 * There are four entries: with and without red zone, with and without live arithmetic flags.
 */
#include "abi/abi-offsets.h"

	.section .head, "ax", @progbits
	.globl dp_head
dp_head:			/* struct dp_blob_head: constants written by the control side */
	.quad	DP_BLOB_MAGIC
dp_ctl:	.quad	0		/* struct dp_control */
dp_hit_slots: .quad	0		/* first slot */
dp_mask: .quad	0		/* nslots - 1 */
	.long	dp_entry_plain - dp_head
	.long	dp_entry_flags - dp_head
	.long	dp_entry_zone - dp_head
	.long	dp_entry_zone_flags - dp_head
	.long	dp_signal_entry - dp_head
	.long	dp_restorer - dp_head
	.long	dp_service - dp_head
	.long	dp_service_end - dp_head
	.long	dp_blob_end - dp_head
dp_thread_by: .long 0		/* 0 rdfsbase, 1 the word at the thread pointer, 2 arch_prctl */
#define DP_SERVICE(name) .long name - dp_head;
#include "abi/services.def"

	.text

/* Registers that no exit needs as scratch, from the frame on our stack. */
.macro	RESTORE_REGISTERS
	mov	R_DX(%rsp), %rdx
	mov	R_R8(%rsp), %r8
	mov	R_R9(%rsp), %r9
	mov	R_R10(%rsp), %r10
	mov	R_R11(%rsp), %r11
	mov	R_BX(%rsp), %rbx
	mov	R_BP(%rsp), %rbp
	mov	R_R12(%rsp), %r12
	mov	R_R13(%rsp), %r13
	mov	R_R14(%rsp), %r14
	mov	R_R15(%rsp), %r15
.endm

/* The frame's flags as lahf and seto gave them: ah, al. Clobbers r8. */
.macro	PACK_FLAGS
	mov	R_FLAGS(%rsp), %r8d
	movzbl	%r8b, %eax
	shl	$8, %eax
	shr	$11, %r8d
	and	$1, %r8d
	or	%r8d, %eax
.endm

.macro	ENTRY_STUB name, zone, flags
	.globl	\name
	.balign	64
\name:
	push	%rax
.if \flags
	lahf
	seto	%al
.endif
	push	%rsi
	push	%rcx
	/* The slot of this thread: open addressing, keyed by the thread pointer. */
	cmpl	$0, dp_thread_by(%rip)
	jne	9f
	rdfsbase %rsi
6:	or	$1, %rsi
	imul	$0x5851f42d, %rsi, %rcx
	shr	$16, %rcx
	and	dp_mask(%rip), %rcx
	shl	$DP_HIT_SLOT_SHIFT, %rcx
	add	dp_hit_slots(%rip), %rcx
	cmp	%rsi, S_OWNER(%rcx)
	jne	8f
7:	cmpl	$0, S_BUSY(%rcx)
	jne	dp_nested_\flags
	mov	%rsp, %rsi
	sub	S_CALM(%rcx), %rsi
	cmp	S_CALM_SIZE(%rcx), %rsi
	jae	4f
2:	/* From here until busy is cleared, a hit from a signal handler on this thread is missed. */
	movl	$DP_HIT_SLOT_TAKEN, S_BUSY(%rcx)
	mov	%rsp, S_FRAME(%rcx)
	/* frames.c follows it from the first moment on */
	mov	%rsp, (DP_HIT_SLOT_STACK_TOP - R_SIZE - 24 + R_SP)(%rcx)
	mov	%rsp, %rsi
	lea	(DP_HIT_SLOT_STACK_TOP - R_SIZE - 24)(%rcx), %rsp
	movl	$DP_HIT_SLOT_ENTERED, S_BUSY(%rcx)
	mov	%r15, R_R15(%rsp)
	mov	%r14, R_R14(%rsp)
	mov	%r13, R_R13(%rsp)
	mov	%r12, R_R12(%rsp)
	mov	%rbp, R_BP(%rsp)
	mov	%rbx, R_BX(%rsp)
	mov	%r11, R_R11(%rsp)
	mov	%r10, R_R10(%rsp)
	mov	%r9, R_R9(%rsp)
	mov	%r8, R_R8(%rsp)
	mov	%rdx, R_DX(%rsp)
	mov	F_AX(%rsi), %r8
	mov	F_CX(%rsi), %r9
	mov	F_SI(%rsi), %r10
	mov	F_DI(%rsi), %r11
	mov	%r8, R_AX(%rsp)
	mov	%r9, R_CX(%rsp)
	mov	%r10, R_SI(%rsp)
	mov	%r11, R_DI(%rsp)
	lea	(F_SIZE + \zone * 128)(%rsi), %r8
	mov	%r8, R_SP(%rsp)
	movq	$-1, R_ORIG_AX(%rsp)
	movq	$0x33, R_CS(%rsp)
	movq	$0x2b, R_SS(%rsp)
.if \flags
	movzbl	%ah, %edx
	movzbl	%al, %r9d
	shl	$11, %r9d
	lea	0x200(%rdx, %r9), %r8d
	mov	%r8, R_FLAGS(%rsp)
.else
	movq	$0x202, R_FLAGS(%rsp)
.endif
	mov	%rsi, %rbx		/* frame on the program's stack */
	mov	%rcx, %r12		/* slot */
	mov	%edi, %esi
	mov	%rsp, %rdi
	mov	%rcx, %rdx
	mov	dp_ctl(%rip), %rcx
	call	dp_hit			/* (regs, point, slot, ctl) */
	test	%eax, %eax
	jnz	dp_leave_moved
	mov	R_AX(%rsp), %r8
	mov	R_CX(%rsp), %r9
	mov	R_SI(%rsp), %r10
	mov	R_DI(%rsp), %r11
	mov	%r8, F_AX(%rbx)
	mov	%r9, F_CX(%rbx)
	mov	%r10, F_SI(%rbx)
	mov	%r11, F_DI(%rbx)
.if \flags
	PACK_FLAGS
.endif
	mov	%r12, %rcx
	mov	%rbx, %rsi
	RESTORE_REGISTERS
	movl	$DP_HIT_SLOT_TAKEN, S_BUSY(%rcx)
	mov	%rsi, %rsp
	movl	$0, S_BUSY(%rcx)	/* only now may this thread's slot be used again */
	cmpl	$0, S_BLOCKED(%rcx)
	jne	3f
1:
.if \flags
	add	$127, %al
	sahf
.endif
	pop	%rcx
	pop	%rsi
	pop	%rax
	ret

3:	call	dp_unblock_signals
	jmp	1b
4:	call	dp_block_signals
	jmp	2b

	/* The thread pointer on a machine without rdfsbase. */
9:	cmpl	$1, dp_thread_by(%rip)
	jne	5f
	mov	%fs:0, %rsi
	jmp	6b
5:	call	dp_thread_by_call
	jmp	6b

	/* Not the first place: look on, or take a free slot. rsi: key, rcx: slot. */
8:	push	%rdx
	push	%r8
	push	%rax
	mov	$DP_HIT_SLOT_TRIES, %r8d
1:	cmp	%rsi, S_OWNER(%rcx)
	je	3f
	cmpq	$0, S_OWNER(%rcx)
	jne	2f
	xor	%eax, %eax
	lock cmpxchg %rsi, S_OWNER(%rcx)
	je	3f
	cmp	%rsi, %rax
	je	3f
2:	add	$DP_HIT_SLOT_SIZE, %rcx
	mov	dp_mask(%rip), %rdx
	inc	%rdx
	shl	$DP_HIT_SLOT_SHIFT, %rdx
	add	dp_hit_slots(%rip), %rdx
	cmp	%rdx, %rcx
	jb	4f
	mov	dp_hit_slots(%rip), %rcx
4:	dec	%r8d
	jnz	1b
	pop	%rax
	pop	%r8
	pop	%rdx
	jmp	dp_nested_\flags	/* every slot in reach is taken */
3:	pop	%rax
	pop	%r8
	pop	%rdx
	jmp	7b
.endm

	ENTRY_STUB dp_entry_plain, 0, 0
	ENTRY_STUB dp_entry_flags, 0, 1
	ENTRY_STUB dp_entry_zone, 1, 0
	ENTRY_STUB dp_entry_zone_flags, 1, 1

/*
 * On a slot's stack a thread is, to the kernel, not on its alternate signal stack any more: a signal would overwrite
 * the frames of the handler that the hit came from. So hits on that stack, and those of which it is not known, block
 * all signals. rcx: the slot. Changes rsi. Where these calls are not allowed the stack is taken for another one from
 * now on.
 */
dp_block_signals:
	push	%rax
	mov	dp_ctl(%rip), %rsi
	mov	C_CAPS(%rsi), %eax
	not	%eax
	test	$DP_CAPS_BLOCK, %al
	jnz	1f
	push	%rdi
	push	%rdx
	push	%r10
	push	%r11
	push	%rcx
	mov	$14, %eax		/* rt_sigprocmask */
	mov	$2, %edi		/* SIG_SETMASK */
	lea	dp_every_signal(%rip), %rsi
	lea	S_MASK(%rcx), %rdx
	mov	$8, %r10d
	syscall
	pop	%rcx
	movl	$1, S_BLOCKED(%rcx)
	pop	%r11
	pop	%r10
	pop	%rdx
	pop	%rdi
	pop	%rax
	ret
1:	movq	$-1, S_CALM_SIZE(%rcx)
	pop	%rax
	ret
dp_every_signal:
	.quad	-1

/* On the program's stack again. rcx: the slot. Changes rcx and rsi; what comes now may hit, and use the slot. */
dp_unblock_signals:
	push	%rax
	push	%rdi
	push	%rdx
	push	%r10
	push	%r11
	movl	$0, S_BLOCKED(%rcx)
	mov	$14, %eax
	mov	$2, %edi
	lea	S_MASK(%rcx), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	pop	%r11
	pop	%r10
	pop	%rdx
	pop	%rdi
	pop	%rax
	ret

/* The thread pointer into rsi, by a system call; rcx, which that changes, is saved already. */
dp_thread_by_call:
	push	%rax
	push	%rdi
	push	%r11
	push	$0
	mov	$158, %eax		/* arch_prctl */
	mov	$0x1003, %edi		/* ARCH_GET_FS */
	mov	%rsp, %rsi
	syscall
	pop	%rsi
	pop	%r11
	pop	%rdi
	pop	%rax
	ret

/*
 * A hit inside a hit, or no slot: run nothing, count. On the program's stack, of which it takes little: 56 bytes below
 * what an entry has saved there. With flags: al and ah hold the flags. rcx: the slot that is busy, or one of somebody
 * else; rsi: the key of this thread.
 */
.macro	NESTED flags
dp_nested_\flags:
	push	%rax
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	call	dp_missed
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdx
	pop	%rax
.if \flags
	add	$127, %al
	sahf
.endif
	pop	%rcx
	pop	%rsi
	pop	%rax
	ret
.endm

	NESTED 0
	NESTED 1

/*
 * edi: the point, rcx: the slot, rsi: the thread's key. Changes rax, rcx, rdx, rsi, rdi, r8 to r11. Counted where
 * threads without a processor of their own count. Of the second hit at a point nothing waits, since the first one was
 * missed, too; of pages: nobody is sent to a copy without a slot.
 */
dp_missed:
	test	$DP_HIT_SECOND, %edi
	jnz	3f
	mov	dp_ctl(%rip), %r8
	imul	$POINT_SIZE, %rdi, %rdi
	add	C_POINTS(%r8), %rdi
	mov	POINT_FIRST(%rdi), %eax
	mov	POINT_N(%rdi), %edx
	imul	$PROBE_SIZE, %rax, %rax
	add	C_PROBES(%r8), %rax
	mov	C_NCPUS(%r8), %r9d
	imul	C_COUNTS_STRIDE(%r8), %r9
	add	C_COUNTS(%r8), %r9
1:	dec	%edx
	js	dp_abandon
	testl	$DP_PROBE_IS_ENABLED, PROBE_FLAGS(%rax)
	jz	2f
	mov	PROBE_EVENT(%rax), %r10d
	shl	$COUNTS_SHIFT, %r10
	lock incq COUNT_MISSED(%r9, %r10)
2:	testl	$DP_PROBE_IS_GUARD, PROBE_FLAGS(%rax)
	jnz	4f
5:	add	$PROBE_SIZE, %rax
	jmp	1b
3:	ret
4:	push	%rax
	push	%rcx
	push	%rdx
	push	%rsi
	push	%r8
	push	%r9
	mov	%r8, %rdi
	mov	(6 * 8 + 8 + 6 * 8 + F_AX)(%rsp), %esi
	call	dp_guard_missed		/* (ctl, number of the call) */
	pop	%r9
	pop	%r8
	pop	%rsi
	pop	%rdx
	pop	%rcx
	pop	%rax
	jmp	5b

/*
 * A signal handler that interrupted a hit may have left by longjmp: that hit never ends, and its slot would stay busy
 * for good. While a hit is on the slot's own stack, a further one of the thread comes from a handler, which runs on
 * that stack or on the alternate one. On neither of them: give the slot up, so that the thread's next hit takes
 * another one. In the few instructions before and after, a handler runs on the program's stack, and nothing tells it
 * from the program after a longjmp; many such hits in a row are the latter. This may err: there, with SS_AUTODISARM,
 * when a handler switches to another context. Then the interrupted hit still ends well: it goes by slot->thread. So the
 * slot is not used again before it is known that nobody comes back to it (dp_session_tend()).
 *
 * rcx: the slot, rsi: the thread's key, r8: the control block. What sigaltstack() tells lies in the slot: a handler
 * that comes between and writes there as well is on the alternate stack if we are.
 */
dp_abandon:
	cmp	%rsi, S_OWNER(%rcx)
	jne	1f
	mov	%rsp, %rax
	sub	%rcx, %rax
	cmp	$DP_HIT_SLOT_SIZE, %rax
	jb	1f
	testl	$DP_CAP_ALTERNATE, C_CAPS(%r8)
	jz	1f
	cmpl	$DP_HIT_SLOT_ENTERED, S_BUSY(%rcx)
	je	2f
	incl	S_DOUBTS(%rcx)
	cmpl	$DP_MANY_DOUBTS, S_DOUBTS(%rcx)
	jb	1f
2:	mov	%rcx, %r8		/* which a system call keeps */
	mov	$131, %eax		/* sigaltstack */
	xor	%edi, %edi
	lea	S_ALTERNATE(%rcx), %rsi
	syscall
	test	%eax, %eax
	jnz	1f
	testl	$1, S_ALTERNATE + 8(%r8) /* SS_ONSTACK */
	jnz	1f
	movq	$-1, S_OWNER(%r8)	/* DP_HIT_SLOT_ABANDONED */
1:	ret

/*
 * The program changed ip or sp. Everything is restored from the frame; the new ip is put below the new stack
 * pointer's red zone and reached by a return that drops the zone. r12: slot.
 */
dp_leave_moved:
	mov	R_SP(%rsp), %rsi
	sub	$(128 + 8 + 24), %rsi
	mov	R_CX(%rsp), %r8
	mov	R_SI(%rsp), %r9
	mov	R_AX(%rsp), %r10
	mov	R_IP(%rsp), %r11
	mov	%r8, 0(%rsi)
	mov	%r9, 8(%rsi)
	mov	%r10, 16(%rsi)
	mov	%r11, 24(%rsi)
	PACK_FLAGS
	mov	%r12, %rcx
	mov	R_DI(%rsp), %rdi
	RESTORE_REGISTERS
	movl	$DP_HIT_SLOT_TAKEN, S_BUSY(%rcx)
	mov	%rsi, %rsp
	movl	$0, S_BUSY(%rcx)
	cmpl	$0, S_BLOCKED(%rcx)
	je	1f
	call	dp_unblock_signals
1:	add	$127, %al
	sahf
	pop	%rcx
	pop	%rsi
	pop	%rax
	ret	$128

/*
 * int dp_commit(struct dp_hit_slot *slot, const struct dp_control *ctl, u64 *record, u64 bytes)
 * Copy a finished record into the ring of the processor that this thread runs on. Between the
 * labels the kernel sends the thread to the abort address when it is preempted, moved or
 * signalled; the one store to head makes the record visible. Returns 0 done, 1 no room, 2 not usable here.
 */
	.globl	dp_commit
dp_commit:
	push	%rbx
	push	%rbp
	push	%r12
	mov	S_RSEQ - S_OWNER(%rdi), %r8
	lea	S_CS_COMMIT - S_OWNER(%rdi), %r9
.Lcommit_again:
	mov	%r9, 8(%r8)		/* rseq_cs */
.Lcommit_start:
	mov	4(%r8), %eax		/* cpu_id; negative when unregistered */
	cmp	C_NCPUS(%rsi), %eax
	jae	.Lcommit_unusable
	mov	%rax, %r10
	imul	C_RING_STRIDE(%rsi), %r10
	add	C_RING0(%rsi), %r10
	mov	RING_HEAD(%r10), %r11
	mov	%r11, %rax
	sub	RING_TAIL(%r10), %rax	/* pairs with the reader's release of tail */
	add	%rcx, %rax
	cmp	C_RING_SIZE(%rsi), %rax
	ja	.Lcommit_full
	mov	C_RING_SIZE(%rsi), %r12
	dec	%r12
	mov	%r11, %rbp
	and	%r12, %rbp
	prefetchw 4096 + 640(%r10, %rbp)	/* the reader had these lines: fetch them before they are needed */
	xor	%ebx, %ebx
1:	mov	(%rdx, %rbx), %rax
	lea	(%r11, %rbx), %rbp
	and	%r12, %rbp
	mov	%rax, 4096(%r10, %rbp)
	add	$8, %rbx
	cmp	%rcx, %rbx
	jb	1b
	add	%rcx, %r11
	mov	%r11, RING_HEAD(%r10)	/* commit; stores are seen in order, pairs with the reader's acquire */
.Lcommit_end:
	movq	$0, 8(%r8)
	xor	%eax, %eax
2:	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
.Lcommit_full:
	movq	$0, 8(%r8)
	mov	$1, %eax
	jmp	2b
.Lcommit_unusable:
	movq	$0, 8(%r8)
	mov	$2, %eax
	jmp	2b
	.byte	0x0f, 0xb9, 0x3d	/* ud1: the signature reads as an instruction */
	.long	DP_RSEQ_SIG
.Lcommit_abort:
	jmp	.Lcommit_again

/*
 * int dp_add_cpu(struct dp_hit_slot *slot, u32 ncpus, u64 first, u64 stride, u64 n)
 * Add n to the word of the processor at hand: the first one's is at first. Returns 0, or 2.
 */
	.globl	dp_add_cpu
dp_add_cpu:
	mov	S_RSEQ - S_OWNER(%rdi), %r9
	lea	S_CS_COUNT - S_OWNER(%rdi), %r10
.Lcount_again:
	mov	%r10, 8(%r9)
.Lcount_start:
	mov	4(%r9), %eax
	cmp	%esi, %eax
	jae	.Lcount_unusable
	imul	%rcx, %rax
	add	%r8, (%rax, %rdx)	/* commit */
.Lcount_end:
	movq	$0, 8(%r9)
	xor	%eax, %eax
	ret
.Lcount_unusable:
	movq	$0, 8(%r9)
	mov	$2, %eax
	ret
	.byte	0x0f, 0xb9, 0x3d
	.long	DP_RSEQ_SIG
.Lcount_abort:
	jmp	.Lcount_again

/*
 * bool dp_load(struct dp_hit_slot *slot, struct dp_stretches *st, void *dst, u64 src, u64 len, u64 *loading)
 * Copy memory that lies in a stretch of the table in force that the thread has met lately; false when it does not.
 * Whoever takes a stretch back waits until no thread is between the labels (await_loads() in hit-guard.c). A thread is,
 * as long as its word and its area have the sequence, which the kernel removes from the area when it sends the thread
 * to the abort address. It does so before a signal handler runs, which may take back what the load that it interrupted
 * was about. A handler that comes before the sequence begins may load, too, and clear the word.
 */
	/* r8 bytes from rcx on lie in that one of the thread's stretches; rax: table. */
	.macro	LOOK_UP hint
	mov	(S_HINTS - S_OWNER + 4 * \hint)(%rdi), %r11d
	add	%rax, %r11
	cmp	%rcx, STRETCH_LO(%r11)
	ja	9f
	mov	STRETCH_HI(%r11), %r11
	sub	%rcx, %r11
	jb	9f
	cmp	%r8, %r11
	jae	.Lload_found
9:
	.endm

	.globl	dp_load
dp_load:
	mov	S_RSEQ - S_OWNER(%rdi), %r10
.Lload_again:
	lea	S_CS_LOAD - S_OWNER(%rdi), %rax
	mov	%rax, (%r9)		/* again, for a child that was forked in a handler: the word was wiped */
	mov	%rax, 8(%r10)
.Lload_start:
	cmp	%rax, (%r9)
	jne	.Lload_again
	cmpl	$0, 4(%r10)		/* cpu_id; negative when unregistered */
	jl	.Lload_not
	mov	STRETCH_STATE(%rsi), %eax	/* pairs with the barrier of await_loads() */
	and	$1, %eax
	shl	$STRETCH_TABLE_SHIFT, %eax
	add	%rsi, %rax
	LOOK_UP	0
	LOOK_UP	1
	LOOK_UP	2
	LOOK_UP	3
	jmp	.Lload_not
.Lload_found:
	xor	%eax, %eax
1:	lea	32(%rax), %r11		/* strings are looked for in pieces of 64 bytes */
	cmp	%r8, %r11
	ja	2f
	.irp	at, 0, 8, 16, 24
	mov	\at(%rcx, %rax), %r11
	mov	%r11, \at(%rdx, %rax)
	.endr
	add	$32, %rax
	jmp	1b
2:	lea	8(%rax), %r11
	cmp	%r8, %r11
	ja	3f
	mov	(%rcx, %rax), %r11
	mov	%r11, (%rdx, %rax)
	add	$8, %rax
	jmp	2b
3:	cmp	%r8, %rax
	jae	.Lload_end
	movzbl	(%rcx, %rax), %r11d
	mov	%r11b, (%rdx, %rax)
	inc	%rax
	jmp	3b
.Lload_end:
	movq	$0, 8(%r10)
	movq	$0, (%r9)
	mov	$1, %eax
	ret
.Lload_not:
	movq	$0, 8(%r10)
	movq	$0, (%r9)
	xor	%eax, %eax
	ret
	.byte	0x0f, 0xb9, 0x3d
	.long	DP_RSEQ_SIG
.Lload_abort:
	jmp	.Lload_again

/* void dp_init_cs(struct dp_hit_slot *slot): describe the three sequences above, at their run address. */
	.globl	dp_init_cs
dp_init_cs:
	lea	.Lcommit_start(%rip), %rax
	mov	%rax, S_CS_COMMIT - S_OWNER + 8(%rdi)
	movq	$(.Lcommit_end - .Lcommit_start), S_CS_COMMIT - S_OWNER + 16(%rdi)
	lea	.Lcommit_abort(%rip), %rax
	mov	%rax, S_CS_COMMIT - S_OWNER + 24(%rdi)
	lea	.Lcount_start(%rip), %rax
	mov	%rax, S_CS_COUNT - S_OWNER + 8(%rdi)
	movq	$(.Lcount_end - .Lcount_start), S_CS_COUNT - S_OWNER + 16(%rdi)
	lea	.Lcount_abort(%rip), %rax
	mov	%rax, S_CS_COUNT - S_OWNER + 24(%rdi)
	lea	.Lload_start(%rip), %rax
	mov	%rax, S_CS_LOAD - S_OWNER + 8(%rdi)
	movq	$(.Lload_end - .Lload_start), S_CS_LOAD - S_OWNER + 16(%rdi)
	lea	.Lload_abort(%rip), %rax
	mov	%rax, S_CS_LOAD - S_OWNER + 24(%rdi)
	movq	$0, S_CS_COMMIT - S_OWNER(%rdi)
	movq	$0, S_CS_COUNT - S_OWNER(%rdi)
	movq	$0, S_CS_LOAD - S_OWNER(%rdi)
	ret

/* Signal handler of the second net: a thread came to a trapping byte. */
	.globl	dp_signal_entry
dp_signal_entry:
	mov	dp_ctl(%rip), %rcx
	sub	$(DP_CONTEXT_SIZE + 8), %rsp
	mov	%rsp, %r8
	call	dp_on_signal		/* (signal, siginfo, ucontext, ctl, start) */
	test	%al, %al
	jz	1f
	mov	$15, %eax		/* rt_sigreturn: into the program's own handler */
	syscall
1:	add	$(DP_CONTEXT_SIZE + 8), %rsp
	ret

	.globl	dp_watch_call
dp_watch_call:
	push	%rbp
	mov	%rsp, %rbp
	mov	%rdi, %rsp
	call	dp_watch_hit		/* (regs, watch, slot, ctl) */
	mov	%rbp, %rsp
	pop	%rbp
	ret

	.globl	dp_restorer
dp_restorer:
	mov	$15, %eax		/* rt_sigreturn */
	syscall

/*
 * The service loop: the control side sends a stopped thread here to make system calls for it. rsp
 * points at { table, signal mask, rax, rcx, rdx, rbx, rsi, rdi, r8..r12, flags, rip } below the thread's red
 * zone. Each entry of the table is { number, six arguments, result }, ended by number -1, then a
 * word that is set when all are done. The thread comes with its signals blocked, since a handler may jump out of here;
 * it restores its mask and itself and goes on: no tracer is needed for that, so a tracer that dies leaves nothing
 * behind.
 */
	.globl	dp_service
dp_service:
	pop	%rbx
1:	mov	0(%rbx), %rax
	cmp	$-1, %rax
	je	2f
	mov	8(%rbx), %rdi
	mov	16(%rbx), %rsi
	mov	24(%rbx), %rdx
	mov	32(%rbx), %r10
	mov	40(%rbx), %r8
	mov	48(%rbx), %r9
	syscall
	mov	%rax, 56(%rbx)
	add	$64, %rbx
	jmp	1b
2:	movq	$1, 8(%rbx)
	mov	$14, %eax		/* rt_sigprocmask */
	mov	$2, %edi		/* SIG_SETMASK */
	mov	%rsp, %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	pop	%rax			/* the mask */
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rbx
	pop	%rsi
	pop	%rdi
	pop	%r8
	pop	%r9
	pop	%r10
	pop	%r11
	pop	%r12
	popfq
	ret	$128
dp_service_end:

	.section .tail, "ax", @progbits
	.globl	dp_blob_end
dp_blob_end:
	.section .note.GNU-stack, "", @progbits
