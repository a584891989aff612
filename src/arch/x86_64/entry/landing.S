/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Stubs through which probed functions are called: the call leaves the address of the stub's landing as the return
 * address, and the landing leads to the return handlers. One unwind entry describes all of them: the caller's address
 * is in dp_self_unwind, at the stub's number, and everything else is as the caller left it.
 *
 * A page of stubs begins with the distance to its part of dp_self_unwind, so that the unwind entry needs no absolute
 * address: with the page at P, the caller's address is at P + [P] + (rip & 0xff0) / 2.
 */
#define PAGES 64

	.section dprobes_text, "ax", @progbits
	.globl	dp_self_stubs
	.hidden	dp_self_stubs
	.type	dp_self_stubs, @function
	.p2align 12
dp_self_stubs:
	.cfi_startproc
	/* A frame of its own kind: the same stack pointer as its caller's is no error then. */
	.cfi_signal_frame
	/*
	 * Behind the push of its number, that is in the last five bytes, a stub's stack is eight bytes deeper.
	 * def_cfa_expression: breg7 0, breg16 0, lit15, and, lit11, ge, lit3, shl, plus
	 */
	.cfi_escape 0x0f, 11, 0x77, 0x00, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
	/*
	 * val_expression for rip: breg16 0, const2s ~4095, and, dup, deref, plus, breg16 0, const2u 0xff0, and, lit1,
	 * shr, plus, deref
	 */
	.cfi_escape 0x16, 16, 19, 0x80, 0x00, 0x0b, 0x00, 0xf0, 0x1a, 0x12, 0x06, 0x22
	.cfi_escape 0x80, 0x00, 0x0a, 0xf0, 0x0f, 0x1a, 0x31, 0x25, 0x22, 0x06
	.set	stub, 0
	.rept	PAGES
	.quad	dp_self_unwind + 8 * stub - .
	.quad	0
	.set	stub, stub + 1
	.rept	255
	call	*dp_self_targets + 8 * stub(%rip)	/* 6 bytes */
	.byte	0x68					/* push $stub, always 5 bytes */
	.long	stub
	.byte	0xe9					/* jmp dp_self_landing, always 5 bytes */
	.long	dp_self_landing - . - 4
	.set	stub, stub + 1
	.endr
	.endr
	.cfi_endproc
	.size	dp_self_stubs, . - dp_self_stubs

	.section .note.GNU-stack, "", @progbits
