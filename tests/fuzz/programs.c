/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See programs.h. */
#include <stdlib.h>
#include <string.h>

#include "programs.h"

u64 state;

u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static u64 any_word(void)
{
	static const u64 interesting[] = {0,
					  1,
					  2,
					  7,
					  8,
					  63,
					  64,
					  65,
					  255,
					  1024,
					  MEMORY_BASE,
					  MEMORY_BASE + 0x100,
					  MEMORY_BASE + MEMORY_SIZE - 4,
					  STACK_BASE,
					  1ull << 63,
					  ~0ull,
					  ~0ull >> 1};

	if (below(4) == 0)
		return next_random(&state);
	return interesting[below(DP_ARRAY_SIZE(interesting))] + (below(4) ? 0 : below(16));
}

/* ---- making programs ---- */

static struct dp_field fields[8];

static void make_rpn(struct dp_program *p)
{
	struct dp_rpn_params *r = &p->rpn;

	r->ex_mask = DP_RPN | (below(2) ? 0xffff : next_random(&state) & 0xffff) | (below(3) ? 0 : DP_RPN_AUTOTRACE);
	r->heap = below(3) ? DP_HEAP_MAX : below(200);
	r->ex_logmax = below(3) ? below(DP_EX_LOG_MAX + 1) : below(120);
	r->major = (u16)below(65536);
	r->minor = (u16)below(65536);
	r->pass = below(10) ? 0 : 1;
	r->max = below(20) ? ~0ull : 0;
	p->logmax = below(5) ? below(400) : 0;
	p->jmpmax = below(3) ? below(50) : below(2000);
	p->nlocals = (u16)below(below(2) ? 9 : 41);
	p->nglobals = (u16)below(9);
}

static void make_layout(struct dp_program *p, enum programs which)
{
	struct dp_layout *l = &p->layout;
	u32 at;

	if (which != PROGRAMS_ALL || below(2)) {
		make_rpn(p);
		return;
	}
	memset(fields, 0, sizeof(fields));
	l->has_faultmask = below(2);
	l->nfields = (u16)below(8);
	l->fields = fields;
	at = 8u * l->has_faultmask;
	for (u32 i = 0; i < l->nfields; i++) {
		fields[i] = (struct dp_field){.type = DP_FIELD_U32, .size = 4, .offset = (u16)at};
		at += 4;
	}
	l->fixed_size = (u16)(at + below(16));
	p->logmax = below(3) ? l->fixed_size + below(64) : (u32)DP_LOGMAX;
	p->jmpmax = below(3) ? below(50) : below(2000);
	p->nlocals = (u16)below(9);
	p->nglobals = (u16)below(9);
}

static s64 make_operand(const struct dp_program *p, char kind, const u32 *starts, u32 n, u32 opcode)
{
	const struct dp_layout *l = &p->layout;

	if (below(200) == 0) /* wrong on purpose */
		return (s64)any_word();
	switch (kind) {
	case DP_KIND_REG_WORD:
		return below(DP_NREG_WORDS);
	case DP_KIND_REG:
	case DP_KIND_REGW:
		return dp_register_at(below(21))->number;
	case DP_KIND_WORD:
		return (s64)any_word();
	case DP_KIND_DISP:
		return (s64)below(64) - 32;
	case DP_KIND_JUMP: /* the offset of an instruction, those to come included */
		return starts[p->rpn.ex_mask ? 1 + below(n - 1) : below(n)];
	case DP_KIND_NUM:
		return below(5);
	case DP_KIND_INDEX:
		return (s64)below(12) - 6;
	case DP_KIND_STATE:
		return opcode == DP_OP_PUSH_STATE ? 1 + below(4) : 0x4d + below(8);
	case DP_KIND_EXITTO:
		return DP_EXIT_COREDUMP;
	case DP_KIND_LOCAL:
		return below(p->nlocals + !p->nlocals);
	case DP_KIND_GLOBAL:
		return below(p->nglobals + !p->nglobals);
	case DP_KIND_COUNT:
		return below(4);
	case DP_KIND_BIT:
		return below(64) + 1;
	case DP_KIND_AMOUNT:
		return below(64);
	case DP_KIND_WIDTH:
		return below(64) + 1;
	case DP_KIND_OFF:
		return l->fixed_size ? below(l->fixed_size) & ~(below(2) ? 3u : 0u) : 0;
	case DP_KIND_LEN:
		if (opcode == DP_OP_REC || opcode == DP_OP_RECM)
			return l->fixed_size;
		return 1 + below(opcode == DP_OP_STR ? 40 : 16);
	case DP_KIND_FIELD:
		return l->has_faultmask && l->nfields && below(3) ? below(l->nfields) : 255;
	case DP_KIND_KEEP:
		return below(3) ? 0 : below(60);
	default:
		return below(10);
	}
}

/* Most opcodes belong to one of the two kinds of programs. */
static bool fits(u32 opcode, bool rpn)
{
	u8 rule = dp_opcode_info(opcode)->rule;

	return rpn ? rule != DP_RULE_BEGIN && rule < DP_RULE_KERNEL && (rule < DP_RULE_OPEN || rule > DP_RULE_SPAN)
		   : rule < DP_RULE_BEGIN;
}

static u32 any_opcode(bool rpn)
{
	static u32 kinds[2][256], counts[2];
	u32 *all = kinds[rpn], n = counts[rpn], i = 0;

	if (!n) {
		while (dp_opcode_next(&i, &all[n]))
			n += fits(all[n], rpn);
		counts[rpn] = n;
	}
	/* Words on the stack keep programs alive. */
	return below(3) ? all[below(n)] : below(2) ? DP_OP_PUSH_D : DP_OP_PUSHR;
}

/* What goes on whatever the words are, so that programs live long. */
static bool is_calm(u32 opcode)
{
	switch (opcode) {
	case DP_OP_PUSH_GV_S ... DP_OP_POP_GV_S:
		return opcode == DP_OP_POP_GV;
	case DP_OP_ABORT ... DP_OP_EXIT_TO:
	case DP_OP_CALL_EXIT:
	case DP_OP_CALL_EXIT_N:
	case DP_OP_LOG_STR:
	case DP_OP_LOG_MRF:
	case DP_OP_LOG_S:
	case DP_OP_LOG_LV:
	case DP_OP_LOG_GV:
	case DP_OP_POP_LP:
	case DP_OP_MOVE_GV_S:
	case DP_OP_INC_GV_S:
	case DP_OP_DEC_GV_S:
	case DP_OP_PUSH_LV_S:
	case DP_OP_POP_LV_S:
	case DP_OP_MOVE_LV_S:
	case DP_OP_INC_LV_S:
	case DP_OP_DEC_LV_S:
	case DP_OP_RET:
	case DP_OP_RX:
	case DP_OP_PBL_S:
	case DP_OP_PBR_S:
	case DP_OP_PZL_S:
	case DP_OP_PZR_S:
	case DP_OP_DUP_S:
	case DP_OP_RESTORE_TSP:
	case DP_OP_PUSH_TSP_S:
	case DP_OP_POP_TSP_S:
	case DP_OP_COPY_TSP_S:
	case DP_OP_PUSH_SBP_S:
	case DP_OP_POP_SBP_S:
	case DP_OP_COPY_SBP_S:
	case DP_OP_TRACE_LV:
	case DP_OP_TRACE_GV:
	case DP_OP_LOG_ST:
	case DP_OP_PURGE_ST:
	case DP_OP_TRACE_PV:
	case DP_OP_PUSH_STP:
	case DP_OP_POP_STP:
	case DP_OP_STR:
	case DP_OP_PUSH_MEM8 ... DP_OP_POP_MEM64:
	case DP_OP_FREE:
	case DP_OP_PUSH_HEAP8 ... DP_OP_POP_HEAP64:
	case DP_OP_LD8 ... DP_OP_LD64:
	case DP_OP_NEED ... DP_OP_NEED_GEU:
	case DP_OP_PUSH_STATE:
	case DP_OP_PUSH_STATE2:
	case DP_OP_PUSH_CPUID:
	case DP_OP_VFY_RW:
		return false;
	}
	return true;
}

#define OPS_MAX 60

/* Two passes, the first one for the lengths, so that jumps can go anywhere. */
void make_program(struct dp_program *p, enum programs which)
{
	struct dp_asm code = {0};
	u32 ops[OPS_MAX], starts[OPS_MAX + 1], n = 3 + below(OPS_MAX - 5), open = below(8);
	u64 again;

	make_layout(p, which);
	for (u32 i = 0; i < n; i++)
		do
			ops[i] = any_opcode(p->rpn.ex_mask != 0);
		while (which == PROGRAMS_CALM && !is_calm(ops[i]) && below(60));
	if (p->rpn.ex_mask)
		ops[0] = DP_OP_BEGIN;
	else if (open < n)
		ops[open] = p->layout.has_faultmask ? DP_OP_RECM : DP_OP_REC;
	ops[n - 1] = below(5) ? DP_OP_EXIT : DP_OP_JMP;
	memset(starts, 0, sizeof(starts));
	again = state;
	for (int pass = 0; pass < 2; pass++) {
		state = again;
		code.len = 0;
		for (u32 i = 0; i < n; i++) {
			const struct dp_opcode_info *info = dp_opcode_info(ops[i]);
			char text[32];
			s64 v[DP_OPERANDS_MAX + 1] = {0};

			starts[i] = code.len;
			for (u32 k = 0; info->operands[k]; k++)
				v[k] = make_operand(p, info->operands[k], starts, n, ops[i]);
			for (u32 k = 0; k < sizeof(text); k++)
				text[k] = "ab*?[]-!\\helo"[below(13)];
			for (u32 k = 0; info->operands[k]; k++)
				if (info->operands[k] == DP_KIND_TEXT)
					v[k] &= 15;
			dp_asm_put(&code, (enum dp_opcode)ops[i], v, text);
		}
	}
	if (below(10) == 0 && code.len) /* a flipped byte */
		code.bytes[below(code.len)] ^= (u8)(1u << below(8));
	p->code = code.bytes;
	p->len = code.len;
}

/* ---- machines ---- */

void furnish(struct machine *m, u64 seed)
{
	u64 *r = (u64 *)&m->regs;
	u64 saved = state;

	state = seed;
	machine_init(m);
	for (u32 i = 0; i < DP_NREG_WORDS; i++)
		r[i] = any_word();
	if (below(4))
		m->regs.sp = STACK_BASE + 8 * below(60);
	for (u32 i = 0; i < 8; i++) {
		m->locals[i] = any_word();
		m->globals[i] = any_word();
	}
	for (u32 i = 0; i < 64; i++) {
		u64 v = any_word();

		memcpy(m->memory + 8 * i, &v, 8);
	}
	memcpy(m->memory + 0x100, "hello", 6);
	m->gate = below(3);
	if (!below(3))
		m->work = below(below(2) ? 3000 : 100000);
	m->comm = below(2) ? "hello" : "a-name-of-fifteen";
	state = saved;
}
