/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A function is decoded as far as the last bytes in it that may be an indirect jump. Most such jumps go where a word
 * in memory says (tail calls by a table of methods), which is seen from the few instructions in front.
 */
#include "arch/x86_64/jumps.h"

#include "arch/x86_64/code-scan.h"
#include "arch/x86_64/indirect.h"

/* Whether the indirect jump may be to a computed address, whatever registers hold by the rest of the function. */
static bool is_computed(const struct dp_text *t, const struct dp_trail *trail, const struct dp_insn *in, u64 off)
{
	struct dp_indirect ind;

	dp_indirect_trace(t, trail, in, off, &ind);
	return ind.kind != DP_INDIRECT_MEMORY || ind.stack;
}

/* Whether there may be one in the function that t consists of, before offset `end`. It is decoded as text.c does. */
static bool has_computed(const struct dp_text *t, u64 end)
{
	struct dp_trail trail;
	struct dp_insn in;

	dp_trail_reset(&trail);
	for (u64 off = 0; off < end;) {
		int n = dp_insn_decode(&in, t->bytes + off, t->hi - t->lo - off);

		if (n < 0) {
			dp_trail_reset(&trail);
			off++;
			continue;
		}
		if (in.cls == DP_INSN_JMP_IND && is_computed(t, &trail, &in, off))
			return true;
		if (dp_insn_falls_through(&in))
			dp_trail_add(&trail, off);
		else
			dp_trail_reset(&trail);
		off += (u64)n;
	}
	return false;
}

/* What is looked at: a part of the range's code, and the last function in which bytes were found. */
struct look {
	const struct dp_text *t;
	u64 lo, hi;
	const u8 *code;
	const struct dp_func *func; /* NULL: none, or it has been judged */
	u64 last;                   /* offset of the bytes */
	void (*found)(void *arg, u32 i);
	void *arg;
};

static void judge(struct look *l)
{
	u64 begin = l->func ? l->func->lo - l->t->lo : 0, end = l->func ? l->func->hi - l->t->lo : 0;
	struct dp_text own;

	if (!l->func)
		return;
	own = (struct dp_text){l->func->lo, l->func->hi};
	own.bytes = begin >= l->lo && end <= l->hi ? l->code + (begin - l->lo) : l->t->bytes + begin;
	if (has_computed(&own, l->last + 1 - begin))
		l->found(l->arg, (u32)(l->func - l->t->funcs));
	l->func = NULL;
}

static void look_through(struct look *l)
{
	u64 n = l->hi - l->lo;

	for (u64 i = 0; (i = dp_scan_jump(l->code, n, i)) < n; i++) {
		const struct dp_func *f = l->func;

		if (!f || l->t->lo + l->lo + i >= f->hi)
			f = dp_text_func(l->t, l->t->lo + l->lo + i);
		if (!f)
			continue;
		if (f != l->func)
			judge(l);
		l->func = f;
		l->last = l->lo + i;
		if (l->code[i] != 0xff) { /* a branch with 16 bits */
			l->found(l->arg, (u32)(f - l->t->funcs));
			l->func = NULL;
		}
	}
	judge(l);
}

void dp_jumps_find(const struct dp_analysis *c, const struct dp_code_text *ct, void (*found)(void *arg, u32 i),
		   void *arg)
{
	struct look l = {.t = &ct->t, .found = found, .arg = arg};
	u64 size = ct->t.hi - ct->t.lo;

	while (l.hi < size) {
		l.lo = l.hi > DP_SCAN_OVERLAP ? l.hi - DP_SCAN_OVERLAP : 0; /* what lies on the border */
		l.code = dp_code_look(c, ct, l.lo, &l.hi);
		look_through(&l);
	}
}
