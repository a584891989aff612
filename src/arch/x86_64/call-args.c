/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* System calls in a module's code whose arguments are loaded a few instructions before. */
#include <string.h>

#include "arch/analysis.h"

#define RAX 0
#define RSI 6
#define RDI 7

struct search {
	const struct dp_text *text;
	s64 number, first;
	dp_call_fn found;
	void *arg;
};

/* What is known of three registers while one follows the code in a straight line. */
struct state {
	u64 lea;      /* where rsi got an address, 0: elsewhere */
	s64 rdi, rax; /* -1: unknown */
};

static u8 dest_of(const struct dp_insn *in)
{
	if (in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE && (in->opcode & 0xf8) == 0xb8)
		return (u8)((in->opcode & 7) | (in->rex & DP_REX_B ? 8 : 0)); /* mov $imm,reg */
	return dp_modrm_reg(in);
}

static void step(struct state *s, const struct dp_insn *in, u64 addr)
{
	bool one = in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE;
	bool is_imm = one && (in->opcode & 0xf8) == 0xb8;
	bool is_lea = one && in->opcode == 0x8d;
	bool is_zero = one && (in->opcode == 0x31 || in->opcode == 0x33) && dp_modrm_mod(in) == 3 &&
		       dp_modrm_reg(in) == dp_modrm_rm(in);
	s64 value = is_imm ? in->imm : is_zero ? 0 : -1;

	if (in->cls != DP_INSN_PLAIN) {
		*s = (struct state){0, -1, -1};
		return;
	}
	if (!is_imm && !in->has_modrm) /* one that moves things by itself: cqo, movs, push, ... */
		return;
	/* Either operand may be the destination: both are unknown then. */
	for (int k = 0; k < 2; k++) {
		u8 r = k ? dp_modrm_rm(in) : dest_of(in);

		if (k && (!in->has_modrm || dp_modrm_mod(in) != 3))
			break;
		if (r == RSI)
			s->lea = is_lea && in->len >= DP_JUMP_LEN ? addr : 0;
		if (r == RDI)
			s->rdi = value;
		if (r == RAX)
			s->rax = value;
	}
}

static void look_through(const struct search *find, const struct dp_func *f)
{
	const struct dp_text *t = find->text;
	struct state s = {0, -1, -1};
	struct dp_insn in;
	int n;

	for (u64 a = f->lo; a < f->hi; a += (u64)n) {
		n = dp_insn_decode(&in, t->bytes + (a - t->lo), f->hi - a);
		if (n <= 0)
			return;
		if (in.cls == DP_INSN_SYSCALL && s.rax == find->number && s.rdi == find->first && s.lea)
			find->found(s.lea, find->arg);
		step(&s, &in, a);
	}
}

/* Only functions that contain "mov $number,%eax" are decoded. */
void dp_text_find_calls(const struct dp_text *t, u32 number, u32 first, dp_call_fn found, void *arg)
{
	const struct search find = {t, number, first, found, arg};
	const u8 *end = t->bytes + (t->hi - t->lo), *at = t->bytes;
	u8 mov[5] = {0xb8};
	u64 done = 0;

	memcpy(mov + 1, &number, sizeof(number));
	while ((at = memmem(at, (size_t)(end - at), mov, sizeof(mov)))) {
		const struct dp_func *f = dp_text_func(t, t->lo + (u64)(at - t->bytes));

		if (f && f->lo >= done) {
			look_through(&find, f);
			done = f->hi;
		}
		at++;
	}
}
