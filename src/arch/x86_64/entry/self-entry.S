/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The way from a slot to the C handlers and back. Whatever they may change is saved: general registers and flags in a
 * struct pt_regs on the interrupted stack, vector registers below it. Nothing here is position dependent.
 *
 * At dp_self_entry the stack holds, from the stack pointer up: where to come back to in the slot, the tagged point, and
 * 128 bytes of red zone. Slots jump to here and are jumped back to: the processor's memory of return addresses is not
 * touched, so that returns of probed functions are still predicted. The frame that is built below:
 *
 *	320  the stack pointer of the probed instruction
 *	184  tagged point (or index of a landing)
 *	176  where to come back to in the slot (or 0)
 *	168  flags as pushed
 *	  0  struct pt_regs (168 bytes); rbp points here while C runs
 */
#define R15 0
#define R14 8
#define R13 16
#define R12 24
#define RBP 32
#define RBX 40
#define R11 48
#define R10 56
#define R9 64
#define R8 72
#define RAX 80
#define RCX 88
#define RDX 96
#define RSI 104
#define RDI 112
#define ORIG 120
#define RIP 128
#define CS 136
#define FLAGS 144
#define RSP 152
#define SS 160
#define PUSHED 168
#define POINT 184
#define OUTER 320
#define FULL_SIZE 168

/* The frame of a hit of return probes alone: nine registers, flags, and what the slot has pushed. */
#define NO_REGS_FLAGS 72
#define NO_REGS_BACK 80
#define NO_REGS_OUTER 224

#define XMM_AREA 272	   /* sixteen registers, MXCSR */
#define K_AREA 320	   /* k0 to k7 */
#define ZMM_AREA 384	   /* zmm16 to zmm31 */
#define HIGH_SIZE 1408	   /* XMM_AREA, K_AREA and ZMM_AREA */
#define SIMPLE_FLAGS 0xad7 /* CF 1 PF AF ZF SF IF OF: lahf-like code can restore these */

	.section dprobes_text, "ax", @progbits

/*
 * Until then it is the point's address: *(*(CFA - 136) & ~3).
 * val_expression for rip: const2s -136, plus, deref, const1s -4, and, deref
 */
.macro cfi_rip_of_point
	.cfi_escape 0x16, 16, 9, 0x0b, 0x78, 0xff, 0x22, 0x06, 0x09, 0xfc, 0x1a, 0x06
.endm

/* Flags are pushed already, and rax below them. */
.macro save_general
	lea	-160(%rsp), %rsp
	.cfi_adjust_cfa_offset 160
	mov	%r15, R15(%rsp)
	mov	%r14, R14(%rsp)
	mov	%r13, R13(%rsp)
	mov	%r12, R12(%rsp)
	mov	%rbp, RBP(%rsp)
	mov	%rbx, RBX(%rsp)
	mov	%r11, R11(%rsp)
	mov	%r10, R10(%rsp)
	mov	%r9, R9(%rsp)
	mov	%r8, R8(%rsp)
	mov	%rcx, RCX(%rsp)
	mov	160(%rsp), %rax
	lea	OUTER(%rsp), %rcx
	mov	%rdx, RDX(%rsp)
	mov	%rsi, RSI(%rsp)
	mov	%rdi, RDI(%rsp)
	mov	%rax, RAX(%rsp)
	mov	PUSHED(%rsp), %rax
	mov	%rax, FLAGS(%rsp)
	mov	%rcx, RSP(%rsp)
	movq	$-1, ORIG(%rsp)
	movq	$0x33, CS(%rsp)
	movq	$0x2b, SS(%rsp)
	.cfi_offset rbx, RBX - OUTER
	.cfi_offset rbp, RBP - OUTER
	mov	POINT(%rsp), %rbx
	test	$0x400, %eax
	jz	1f
	cld
1:	mov	%rsp, %rbp
.endm

/*
 * From here on an unwinder sees the probed code as our caller: every register is in struct pt_regs.
 */
.macro cfi_regs
	.cfi_def_cfa rbp, OUTER
	.cfi_offset r15, R15 - OUTER
	.cfi_offset r14, R14 - OUTER
	.cfi_offset r13, R13 - OUTER
	.cfi_offset r12, R12 - OUTER
	.cfi_offset rbp, RBP - OUTER
	.cfi_offset rbx, RBX - OUTER
	.cfi_offset r11, R11 - OUTER
	.cfi_offset r10, R10 - OUTER
	.cfi_offset r9, R9 - OUTER
	.cfi_offset r8, R8 - OUTER
	.cfi_offset rax, RAX - OUTER
	.cfi_offset rcx, RCX - OUTER
	.cfi_offset rdx, RDX - OUTER
	.cfi_offset rsi, RSI - OUTER
	.cfi_offset rdi, RDI - OUTER
	.cfi_offset rip, RIP - OUTER
.endm

/* The program's registers are back, and their copies may lie where a signal's frame overwrites them. */
.macro cfi_regs_back
	.irp	r, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	.cfi_same_value \r
	.endr
.endm

.macro each_xmm op, n=0
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\op	\i
	.endr
.endm
.macro store_xmm i
	movaps	%xmm\i, \i*16(%rsp)
.endm
.macro load_xmm i
	movaps	\i*16(%rsp), %xmm\i
.endm

.macro each_zmm op
	.irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\op	\i
	.endr
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7
	\op\()_k	\i
	.endr
.endm
.macro store_zmm i
	vmovdqa64 %zmm\i, ZMM_AREA + (\i - 16) * 64(%rsp)
.endm
.macro store_zmm_k i
	kmovq	%k\i, K_AREA + \i * 8(%rsp)
.endm
.macro load_zmm i
	vmovdqa64 ZMM_AREA + (\i - 16) * 64(%rsp), %zmm\i
.endm
.macro load_zmm_k i
	kmovq	K_AREA + \i * 8(%rsp), %k\i
.endm

/*
 * Save the vector registers below the stack pointer. The processor tells which components hold anything but zeros.
 * r12d becomes:
 *	0	xmm0 to xmm15 and MXCSR; nothing else is in use
 *	1	those, k0 to k7 and zmm16 to zmm31: what the C library's string functions leave in use
 *	else	the mask of the components that xsavec has stored (three times as slow)
 * In the first two cases the upper parts of ymm0 to ymm15 are zero, and are zeroed again afterwards.
 * Clobbers rax, rcx, rdx, r13.
 */
.macro save_vectors
	xor	%r12d, %r12d
	mov	dp_self_xrest(%rip), %r13d
	test	%r13d, %r13d
	jz	2f
	mov	$1, %ecx
	xgetbv
	and	%r13d, %eax
	jz	2f
	and	dp_self_xhigh(%rip), %eax	/* anything besides k and zmm16-31, or no such instructions? */
	jz	7f
	cmp	$1, %eax
	jne	9f
	call	dp_self_clean_x87
	jnz	9f
	mov	dp_self_xhigh(%rip), %eax
	cmp	%eax, %r13d			/* are k and zmm16-31 ours to save one by one? */
	jne	7f
	jmp	2f
9:	mov	dp_self_xmask(%rip), %r12d
	mov	dp_self_xsize(%rip), %eax
	sub	%rax, %rsp
	and	$-64, %rsp
	/* The header must be zero; xsavec writes its first sixteen bytes only. */
	xor	%eax, %eax
	.irp	i, 528, 536, 544, 552, 560, 568
	mov	%rax, \i(%rsp)
	.endr
	mov	%r12d, %eax
	xor	%edx, %edx
	xsavec	(%rsp)
	jmp	3f
7:	mov	$1, %r12d
	and	$-64, %rsp
	sub	$HIGH_SIZE, %rsp
	each_zmm store_zmm
	jmp	8f
2:	and	$-16, %rsp
	sub	$XMM_AREA, %rsp
8:	each_xmm store_xmm
	stmxcsr	256(%rsp)
3:
.endm

.macro restore_vectors
	cmp	$1, %r12d
	jbe	4f
	mov	%r12d, %eax
	xor	%edx, %edx
	xrstor	(%rsp)
	jmp	5f
4:	testb	$4, dp_self_xmask(%rip)
	jz	7f
	vzeroupper
7:	each_xmm load_xmm
	test	%r12d, %r12d
	jz	8f
	each_zmm load_zmm
8:	stmxcsr	260(%rsp)
	mov	256(%rsp), %ecx
	cmp	260(%rsp), %ecx
	je	5f
	ldmxcsr	256(%rsp)
5:
.endm

/* Flags that lahf's kind can set, without popfq's 7 ns. eax: flags; clobbers eax, ecx. */
.macro simple_flags
	mov	%eax, %ecx
	shr	$11, %ecx
	and	$1, %ecx
	add	$0x7f, %cl		/* overflows if and only if OF was set */
	mov	%al, %ah
	sahf
.endm

.macro load_but_rax_rsp
	mov	R15(%rsp), %r15
	mov	R14(%rsp), %r14
	mov	R13(%rsp), %r13
	mov	R12(%rsp), %r12
	mov	RBP(%rsp), %rbp
	mov	RBX(%rsp), %rbx
	mov	R11(%rsp), %r11
	mov	R10(%rsp), %r10
	mov	R9(%rsp), %r9
	mov	R8(%rsp), %r8
	mov	RCX(%rsp), %rcx
	mov	RDX(%rsp), %rdx
	mov	RSI(%rsp), %rsi
	mov	RDI(%rsp), %rdi
.endm

.macro pop_no_regs
	.irp	r, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	pop	%\r
	.cfi_adjust_cfa_offset -8
	.endr
.endm

/*
 * The return from a signal handler marks the x87 unit as in use. When its state is the initial one all the same, say so
 * to the processor, and the next hits need not look again. Returns with ZF set then. Clobbers rax, rcx, rdx.
 */
	.type	dp_self_clean_x87, @function
dp_self_clean_x87:
	.cfi_startproc
	mov	%rsp, %rcx
	.cfi_def_cfa_register rcx
	sub	$576, %rsp
	and	$-64, %rsp
	fxsave	(%rsp)
	xor	%edx, %edx
	cmpl	$0x37f, (%rsp)		/* control word, status word */
	jne	1f
	cmpb	$0, 4(%rsp)		/* tags: all registers are empty */
	jne	1f
	.irp	i, 512, 520, 528, 536, 544, 552, 560, 568
	mov	%rdx, \i(%rsp)
	.endr
	mov	$1, %eax
	xrstor	(%rsp)			/* "none of this component is stored": initial */
	xor	%eax, %eax
1:	mov	%rcx, %rsp
	.cfi_def_cfa_register rsp
	ret
	.cfi_endproc
	.size	dp_self_clean_x87, . - dp_self_clean_x87

	.globl	dp_self_entry
	.hidden	dp_self_entry
	.type	dp_self_entry, @function
	.p2align 6
dp_self_entry:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa rsp, 144
	cfi_rip_of_point
	pushfq
	.cfi_adjust_cfa_offset 8
	push	%rax
	.cfi_adjust_cfa_offset 8
	.cfi_remember_state
	mov	24(%rsp), %rax
	test	$3, %al			/* DP_HIT_TAGS */
	jnz	.Lfull
	cmpl	$0, 12(%rax)		/* no_regs */
	je	.Lfull
	testl	$~SIMPLE_FLAGS, 8(%rsp)
	jnz	.Lfull
	/*
	 * Return probes without entry handlers, and nothing else: nobody looks at registers. An unwinder sees the
	 * function's caller as ours.
	 */
	.cfi_def_cfa rsp, 168
	.cfi_offset rip, -8
	.irp	r, rcx, rdx, rsi, rdi, r8, r9, r10, r11
	push	%\r
	.cfi_adjust_cfa_offset 8
	.endr
	mov	%rax, %rdi
	lea	NO_REGS_OUTER(%rsp), %rsi
	mov	NO_REGS_BACK(%rsp), %rdx
	call	dp_self_no_regs
	cmp	$2, %eax
	jne	8f
	mov	NO_REGS_FLAGS(%rsp), %eax
	simple_flags
	.cfi_remember_state
	pop_no_regs
	lea	NO_REGS_OUTER - NO_REGS_FLAGS + 8(%rsp), %rsp
	.cfi_def_cfa rsp, 0
	jmp	*-16(%rsp)
	.cfi_restore_state
8:	test	%eax, %eax
	js	9f
	mov	NO_REGS_FLAGS(%rsp), %eax
	simple_flags
	.cfi_remember_state
	pop_no_regs
	lea	16(%rsp), %rsp
	.cfi_adjust_cfa_offset -16
	jmp	*-8(%rsp)
	.cfi_restore_state
9:	.irp	r, r11, r10, r9, r8, rdi, rsi, rdx, rcx
	pop	%\r
	.cfi_adjust_cfa_offset -8
	.endr
.Lfull:
	.cfi_restore_state
	save_general
	mov	%rbx, %rdx
	and	$-4, %rdx
	mov	(%rdx), %rcx		/* the point's address; C corrects it where another is due */
	mov	%rcx, RIP(%rbp)
	cfi_regs
	cmpl	$0, 8(%rdx)		/* vectors */
	je	.Lgeneral
.Lvectors:
	save_vectors
	mov	%rbp, %rdi
	mov	%rbx, %rsi
	mov	%rsp, %rdx
	mov	%r12d, %ecx
	call	dp_self_hit
	mov	%eax, %ebx
	restore_vectors
	mov	%ebx, %eax
	test	%eax, %eax
	jnz	.Lelsewhere
.Lback:
	.cfi_remember_state
	mov	%rbp, %rsp
	.cfi_def_cfa rsp, OUTER
	mov	FLAGS(%rsp), %eax
	test	$~SIMPLE_FLAGS, %eax
	jnz	6f
	simple_flags
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	cfi_regs_back
	lea	184(%rsp), %rsp
	.cfi_def_cfa rsp, 136
	jmp	*-8(%rsp)		/* what lies 128 bytes below the stack pointer is safe from signal handlers */
	.cfi_restore_state
	.cfi_remember_state
6:	.cfi_def_cfa rsp, OUTER
	mov	%rax, PUSHED(%rsp)
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	cfi_regs_back
	lea	PUSHED(%rsp), %rsp
	.cfi_def_cfa rsp, OUTER - PUSHED
	popfq
	.cfi_adjust_cfa_offset -8
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	jmp	*-8(%rsp)
	.cfi_restore_state

	/* No handler here uses vector registers, and dp_self_hit does not either. */
.Lgeneral:
	and	$-16, %rsp
	test	$3, %bl			/* DP_HIT_TAGS */
	jnz	1f
	mov	%rbp, %rdi
	mov	%rbx, %rsi
	call	dp_self_plain
	test	%eax, %eax
	jz	.Lback
	jns	.Lelsewhere
1:	mov	%rbp, %rdi
	mov	%rbx, %rsi
	xor	%edx, %edx
	xor	%ecx, %ecx
	call	dp_self_hit
	test	%eax, %eax
	jz	.Lback
	js	.Lvectors		/* meanwhile a handler came that does: begin again */
.Lelsewhere:
	cmp	$2, %eax
	je	.Lthrough
	mov	%rbp, %rdi
	jmp	dp_self_resume

	/*
	 * To the stub whose address dp_self_hit has left below the return address of the function that was entered:
	 * nothing that is in use lies there.
	 */
.Lthrough:
	mov	%rbp, %rsp
	.cfi_def_cfa rsp, OUTER
	mov	FLAGS(%rsp), %eax
	test	$~SIMPLE_FLAGS, %eax
	jnz	7f
	simple_flags
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	.cfi_remember_state
	cfi_regs_back
	/* As if the function had been entered: its caller, or the landing. */
	.cfi_def_cfa rsp, OUTER+8
	.cfi_offset rip, -8
	lea	OUTER+8(%rsp), %rsp
	.cfi_def_cfa rsp, 0
	jmp	*-16(%rsp)
	.cfi_restore_state
7:	.cfi_def_cfa rsp, OUTER
	mov	%rax, OUTER-16(%rsp)
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	cfi_regs_back
	.cfi_def_cfa rsp, OUTER+8
	.cfi_offset rip, -8
	lea	OUTER-16(%rsp), %rsp
	.cfi_def_cfa rsp, 24
	popfq
	.cfi_adjust_cfa_offset -8
	lea	16(%rsp), %rsp
	.cfi_adjust_cfa_offset -16
	jmp	*-16(%rsp)
	.cfi_endproc
	.size	dp_self_entry, . - dp_self_entry

/*
 * Go on with exactly the registers of the struct pt_regs in rdi, wherever it lies. The jump is a return that takes 128
 * bytes along: it needs no register, and writes nothing into the red zone below the new stack pointer.
 */
	.globl	dp_self_resume
	.hidden	dp_self_resume
	.type	dp_self_resume, @function
dp_self_resume:
	.cfi_startproc
	.cfi_undefined rip
	/* First the registers to where nothing is in the way: below everything, and below the new stack's part. */
	mov	RSP(%rdi), %rdx
	lea	-512(%rdx), %rax
	cmp	%rsp, %rax
	cmova	%rsp, %rax
	lea	-FULL_SIZE(%rax), %rsp
	and	$-16, %rsp
	.irp	i, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 144, 152
	mov	\i(%rdi), %rax
	mov	%rax, \i(%rsp)
	.endr
	/* Then what the last instructions take from the new stack. */
	mov	RIP(%rsp), %rax
	mov	%rax, -136(%rdx)
	mov	FLAGS(%rsp), %rax
	mov	%rax, -144(%rdx)
	mov	RAX(%rsp), %rcx
	mov	%rcx, -152(%rdx)
	test	$~SIMPLE_FLAGS, %eax
	jnz	1f
	simple_flags
	load_but_rax_rsp
	mov	RSP(%rsp), %rsp
	lea	-152(%rsp), %rsp
	pop	%rax
	lea	8(%rsp), %rsp
	ret	$128
1:	load_but_rax_rsp
	mov	RSP(%rsp), %rsp
	lea	-152(%rsp), %rsp
	pop	%rax
	popfq
	ret	$128
	.cfi_endproc
	.size	dp_self_resume, . - dp_self_resume

/*
 * A probed function has returned to its stub, which has pushed its number where the return address was. The frame is
 * built as at an entry; dp_self_returned says whether the caller is to be returned to (0) or all is as struct pt_regs
 * says (1).
 */
	.globl	dp_self_landing
	.hidden	dp_self_landing
	.type	dp_self_landing, @function
	.p2align 6
dp_self_landing:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa rsp, 8
	.cfi_undefined rip
	lea	-120(%rsp), %rsp
	pushq	120(%rsp)
	pushq	$0
	.cfi_def_cfa rsp, 144
	pushfq
	.cfi_adjust_cfa_offset 8
	push	%rax
	.cfi_adjust_cfa_offset 8
	save_general
	/* Unwinders take this for where we were interrupted. */
	lea	dp_self_unwind(%rip), %rcx
	mov	(%rcx,%rbx,8), %rcx
	mov	%rcx, RIP(%rbp)
	cfi_regs
	lea	dp_self_general(%rip), %rcx
	cmpb	$0, (%rcx,%rbx)
	jne	1f
	save_vectors
	mov	%rbp, %rdi
	mov	%rbx, %rsi
	call	dp_self_returned
	mov	%eax, %ebx
	restore_vectors
	mov	%ebx, %eax
	jmp	2f
1:	and	$-16, %rsp
	mov	%rbp, %rdi
	mov	%rbx, %rsi
	call	dp_self_returned
2:	test	%eax, %eax
	jnz	9f
	/* Back to the caller, whose address is in its place again: the processor expects this return. */
	.cfi_remember_state
	mov	%rbp, %rsp
	.cfi_def_cfa rsp, OUTER
	mov	FLAGS(%rsp), %eax
	test	$~SIMPLE_FLAGS, %eax
	jnz	3f
	simple_flags
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	.cfi_remember_state
	cfi_regs_back
	.cfi_offset rip, -8
	lea	OUTER-8(%rsp), %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_restore_state
3:	.cfi_def_cfa rsp, OUTER
	mov	%rax, OUTER-16(%rsp)
	load_but_rax_rsp
	mov	RAX(%rsp), %rax
	cfi_regs_back
	.cfi_offset rip, -8
	lea	OUTER-16(%rsp), %rsp
	.cfi_def_cfa rsp, 16
	popfq
	.cfi_def_cfa rsp, 8
	ret
	.cfi_restore_state
9:	mov	%rbp, %rdi
	jmp	dp_self_resume
	.cfi_endproc
	.size	dp_self_landing, . - dp_self_landing

/*
 * void dp_self_call_jprobe(regs, entry, vectors, mask, &sp, args): call entry with the arguments of the probed
 * function: its registers, and a copy of 256 bytes of stack (args, aligned like the original). Comes back
 * when entry returns or calls dp_self_leave_jprobe(sp).
 */
	.globl	dp_self_call_jprobe
	.hidden	dp_self_call_jprobe
	.type	dp_self_call_jprobe, @function
dp_self_call_jprobe:
	.cfi_startproc
	.irp	r, rbx, rbp, r12, r13, r14, r15
	push	%\r
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \r, 0
	.endr
	mov	%rsp, (%r8)
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	mov	%rdi, %rbx
	mov	%rsi, %r11
	/* The arguments' copy, at an address that a call leaves aligned. */
	sub	$256, %rsp
	and	$-16, %rsp
	mov	%ecx, %eax
	mov	%r9, %rsi
	mov	%rsp, %rdi
	mov	$32, %ecx
	rep movsq
	mov	%rdx, %rcx
	cmp	$1, %eax
	jbe	1f
	xor	%edx, %edx
	xrstor	(%rcx)
	jmp	2f
1:	.irp i, 0, 1, 2, 3, 4, 5, 6, 7
	movaps	\i*16(%rcx), %xmm\i
	.endr
2:	mov	RDI(%rbx), %rdi
	mov	RSI(%rbx), %rsi
	mov	RDX(%rbx), %rdx
	mov	RCX(%rbx), %rcx
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	mov	R10(%rbx), %r10
	mov	RAX(%rbx), %rax
	call	*%r11
.Lleave_jprobe:
	mov	%rbp, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	.cfi_def_cfa rsp, 16
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	dp_self_call_jprobe, . - dp_self_call_jprobe

	.globl	dp_self_leave_jprobe
	.hidden	dp_self_leave_jprobe
	.type	dp_self_leave_jprobe, @function
dp_self_leave_jprobe:
	.cfi_startproc
	/* Seen by an unwinder, this is dp_self_call_jprobe already: entry and what it called are left. */
	.cfi_def_cfa rdi, 56
	.cfi_offset rbx, -16
	.cfi_offset rbp, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	mov	%rdi, %rbp
	jmp	.Lleave_jprobe
	.cfi_endproc
	.size	dp_self_leave_jprobe, . - dp_self_leave_jprobe

	/*
	 * Where handlers of signals return to, by the bytes by which unwinders know a signal frame. They look up the
	 * byte before it first: that one must belong to nothing that has unwind rows.
	 */
	nop
	.globl	dp_self_restorer
	.hidden	dp_self_restorer
	.type	dp_self_restorer, @function
dp_self_restorer:
	mov	$15, %rax
	syscall
	.size	dp_self_restorer, . - dp_self_restorer

	.section .note.GNU-stack, "", @progbits
