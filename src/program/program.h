/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs on the control side: bytecode, the layout of the records it logs, the object format,
 * the verifier and the disassembler. The opcodes are defined once, in opcodes.def.
 */
#ifndef DP_PROGRAM_H
#define DP_PROGRAM_H

#include "abi/abi-record.h"
#include "base/error.h"

struct dp_layout {
	u16 nfields;
	u16 fixed_size; /* bytes of the fixed part of the payload */
	u8 has_faultmask;
	u8 has_ret_addr; /* return events: first u64 (after the mask) is the return address */
	u8 pad[2];
	struct dp_field *fields;
};

/*
 * What a program of the Dynamic Probes language has besides its code. Such a program keeps a machine state with frames,
 * exceptions, log items and a heap; ex_mask says that it is one. Its records have no layout: they begin with struct
 * dp_rpn_head, and items follow.
 */
struct dp_rpn_params {
	u32 ex_mask;   /* enabled exceptions, and DP_RPN_* (abi/abi-program.h); 0: not a program of this language */
	u32 heap;      /* bytes that may be allocated at one time */
	u32 ex_logmax; /* bytes of the stack-trace buffer */
	u16 major, minor;
	u64 pass; /* hits to pass over first */
	u64 max;  /* hits after which the probe is disabled */
};

#define DP_MAXHITS_NONE 0x7fffffff /* max hits: stands for no limit */

struct dp_program {
	u8 *code;
	u32 len;
	u32 jmpmax;
	u32 logmax; /* without the head of the records, struct dp_rpn_head */
	struct dp_rpn_params rpn;
	u16 nlocals;
	u16 nglobals;
	bool is_watch;  /* it runs at hits of a watchpoint only, and may read what struct dp_watch_regs has */
	bool in_kernel; /* where it will run: what the verifier lets pass */
	struct dp_layout layout;
};

void dp_program_free(struct dp_program *p);

/* Whether the instruction (DP_OP_*) is in a verified program. */
bool dp_program_uses(const struct dp_program *p, u32 opcode);

/* Whether a verified program hands over to the facility (DP_EXIT_*). */
bool dp_program_exits_to(const struct dp_program *p, u32 facility);

/* Whether a verified program does more than look: it sets registers, writes to memory or ports, stops or dumps. */
bool dp_program_acts(const struct dp_program *p);

/* What the interpreter wants to know of a program, but for addresses: those are the host's to fill in. */
struct dp_code_rt;
void dp_program_to_rt(const struct dp_program *p, struct dp_code_rt *rt);

/*
 * Verify once, before arming: opcodes, operands, register numbers, jump targets on instruction
 * boundaries, log sizes, stack effects where they can be known. E_PROG_* with the offset.
 * in_return: the program will run at a function's exit.
 */
int dp_program_verify(const struct dp_program *p, bool in_return, struct dp_error *err);

/* The same; *at: the offset of the instruction that is wrong, ~0 when the error is not of one. */
int dp_program_verify_at(const struct dp_program *p, bool in_return, u32 *at, struct dp_error *err);

/* That a layout stays inside the fixed part of a record, of which there are at most `room` bytes. E_PROG_LAYOUT. */
int dp_layout_check(const struct dp_layout *l, u32 room, struct dp_error *err);

/* Disassemble into text, one instruction a line; returns the length that the text needs. */
int dp_program_disasm(const struct dp_program *p, char *buf, size_t size);

#endif
