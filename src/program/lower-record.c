/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See lower.h: what a program reads, logs and changes, as dp_lower() comes by it. */
#include "program/lower-priv.h"

void dp_lower_effect(struct walk *w, const struct dp_op_view *op)
{
	struct dp_lowered *p = w->p;
	u64 base = op->info->op.where == DP_VARIABLES_LOCAL ? w->in->rt->locals : w->in->rt->globals;
	u8 how = op->info->op.how;

	if (p->neffects == DP_LOWER_EFFECTS || (how != DP_ACCESS_INC && how != DP_ACCESS_DEC)) {
		w->failed = true;
		return;
	}
	p->effects[p->neffects++] = (struct dp_lowered_effect){
	    .how = how == DP_ACCESS_DEC ? DP_EFFECT_DOWN : DP_EFFECT_UP, .addr = base + 8 * (u64)op->v[0]};
}

/* ---- tables ---- */

void dp_lower_find(struct walk *w, const struct dp_op_view *op)
{
	struct dp_lowered *p = w->p;
	struct dp_lowered_find *f = &p->finds[DP_MIN(p->nfinds, DP_LOWER_FINDS - 1u)];
	u64 n = (u64)op->v[0];

	if (p->nfinds == DP_LOWER_FINDS || !n || n > DP_LOWER_PARTS || n > w->depth || !op->v[2]) {
		w->failed = true;
		return;
	}
	*f = (struct dp_lowered_find){.table = w->in->rt->locals + 8 * ((u64)op->v[1] + 1),
				      .keys = (u32)op->v[2],
				      .step = 1 + (u32)n + (u32)op->v[3],
				      .nparts = (u32)n};
	for (u32 i = 0; i < n; i++) /* the first word is deepest */
		f->parts[i] = dp_lower_number(w, (u32)n - 1 - i)->v;
	dp_lower_drop(w, (u32)n);
	dp_lower_push_const(w, 0);
	if (!w->failed)
		dp_lower_word(w, 0)->place = ++p->nfinds;
}

/* (value index -- ) */
void dp_lower_fold(struct walk *w, const struct dp_op_view *op)
{
	const struct word *index = dp_lower_word(w, 0);
	u32 kind = (u32)op->v[0] & ~(u32)DP_FOLD_APART;
	u64 words = dp_aggregate_words(kind), nlocals = w->in->rt->nlocals;
	struct dp_lowered *p = w->p;
	struct dp_lowered_effect *e = &p->effects[DP_MIN(p->neffects, DP_LOWER_EFFECTS - 1u)];

	if (p->neffects == DP_LOWER_EFFECTS || w->depth < 2 || index->is_truth || !index->v.constant ||
	    kind == DP_AGG_LINEAR || kind >= DP_NAGGS ||
	    (!index->place && (index->v.c >= nlocals || nlocals - index->v.c < words))) {
		w->failed = true;
		return;
	}
	*e = (struct dp_lowered_effect){.how = DP_EFFECT_FOLD,
					.kind = (u8)kind,
					.apart = op->v[0] & DP_FOLD_APART,
					.find = (u8)index->place,
					.addr = w->in->rt->locals + 8 * index->v.c,
					.v = dp_lower_number(w, 1)->v};
	p->neffects++;
	dp_lower_drop(w, 2);
}

/* ---- memory ---- */

/* What was added to an address goes into the displacement. */
static struct dp_value plain_address(struct dp_value at, s64 *disp)
{
	const struct dp_value_op *x = &at.ops[0];

	if (at.nops == 1 && x->op.does == DP_DOES_BINARY && (x->op.how == DP_ALU_ADD || x->op.how == DP_ALU_SUB)) {
		*disp += x->op.how == DP_ALU_ADD ? (s32)x->by : -(s64)(s32)x->by;
		at.nops = 0;
	}
	return at;
}

/* The number of that word; one that is loaded already is not loaded again. */
static u32 add_word(struct walk *w, struct dp_value at, s64 disp, u8 size)
{
	struct dp_lowered *p = w->p;
	u32 i = 0;

	at = plain_address(at, &disp);
	w->failed |= !w->in->words || at.nops || at.size != 8 || disp != (s32)disp;
	while (i < p->nwords &&
	       (!dp_value_is_same(&p->words[i].at, &at) || p->words[i].disp != disp || p->words[i].size != size))
		i++;
	w->failed |= i == DP_LOWER_WORDS;
	if (!w->failed && i == p->nwords)
		p->words[p->nwords++] = (struct dp_lowered_word){at, (s32)disp, size};
	return i;
}

static struct dp_value word_value(u32 i)
{
	return (struct dp_value){.reg_word = (u8)(DP_LOWER_WORD + i), .size = 8};
}

void dp_lower_read(struct walk *w, const struct dp_op_view *op)
{
	struct dp_value at = dp_lower_number(w, 0)->v;
	u32 i = add_word(w, at, op->v[0], op->info->op.size); /* v[0] is 0 where there is no operand */

	if (!w->failed)
		*dp_lower_word(w, 0) = (struct word){.v = word_value(i)};
}

/* ---- the record ---- */

void dp_lower_put(struct walk *w, u64 off, u8 size, struct dp_value v)
{
	if (w->p->nstores == DP_LOWER_STORES)
		w->failed = true;
	else
		w->p->stores[w->p->nstores++] = (struct dp_lowered_store){(u16)off, size, v};
}

static void put_const(struct walk *w, u32 off, u8 size, u64 c)
{
	dp_lower_put(w, off, size, (struct dp_value){.constant = true, .c = c, .size = 8});
}

void dp_lower_put_reg(struct walk *w, u64 off, u8 size, u8 reg_word)
{
	dp_lower_put(w, off, size, (struct dp_value){.reg_word = reg_word, .size = 8});
}

/* Memory as it is, word by word. */
static void load_words(struct walk *w, struct dp_value at, s64 disp, u64 size, u64 off)
{
	while (size && !w->failed) {
		u8 n = size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;

		dp_lower_put(w, off, n, word_value(add_word(w, at, disp, n)));
		disp += n;
		off += n;
		size -= n;
	}
}

void dp_lower_load(struct walk *w, const struct dp_op_view *op)
{
	struct dp_lowered *p = w->p;
	u64 reg_word = (u64)op->v[0];

	if (p->is_rpn || reg_word > 63 || !(w->in->reg_words >> reg_word & 1))
		w->failed = true;
	else if (w->in->words)
		load_words(w, (struct dp_value){.reg_word = (u8)reg_word, .size = 8}, op->v[1], (u64)op->v[2],
			   (u64)op->v[3]);
	else if (p->nloads == DP_LOWER_LOADS)
		w->failed = true;
	else
		p->loads[p->nloads++] = (struct dp_lowered_load){.reg_word = (u8)reg_word,
								 .disp = (s32)op->v[1],
								 .size = (u16)op->v[2],
								 .off = (u16)op->v[3],
								 .field = (u8)op->v[4]};
}

void dp_lower_load_top(struct walk *w, const struct dp_op_view *op)
{
	load_words(w, dp_lower_number(w, 0)->v, op->v[0], (u64)op->v[1], (u64)op->v[2]);
	dp_lower_drop(w, 1);
}

void dp_lower_store_top(struct walk *w, const struct dp_op_view *op)
{
	dp_lower_put(w, (u64)op->v[0], op->info->op.size, dp_lower_number(w, 0)->v);
	dp_lower_drop(w, 1);
}

void dp_lower_open(struct walk *w, const struct dp_op_view *op)
{
	w->failed |= w->open;
	w->open = true;
	w->p->size = (u32)op->v[0];
	w->p->has_mask = op->info->rule == DP_RULE_OPENMASK;
}

void dp_lower_log_words(struct walk *w, u32 n, bool prefix)
{
	if (w->len + (prefix ? 3 : 0) + 8 * n > w->in->rt->logmax || n > w->depth) {
		w->failed = true;
		return;
	}
	w->p->rec_flags |= prefix ? DP_REC_ITEMS : DP_REC_BARE;
	if (prefix) {
		put_const(w, w->len, 1, DP_TOKEN_WORDS);
		put_const(w, w->len + 1, 2, n);
		w->len += 3;
	}
	for (u32 i = 0; i < n; i++, w->len += 8)
		dp_lower_put(w, w->len, 8, dp_lower_number(w, i)->v);
	dp_lower_drop(w, n);
}

void dp_lower_log_counted(struct walk *w)
{
	struct word x = *dp_lower_number(w, 0);

	w->failed |= !x.v.constant || x.v.c > DEPTH;
	dp_lower_drop(w, 1);
	if (!w->failed)
		dp_lower_log_words(w, (u32)x.v.c, true);
}

void dp_lower_finish(struct walk *w)
{
	w->ended = true;
	if (!w->p->is_rpn) {
		w->failed |= !w->open;
		return;
	}
	if (w->len < HEAD) { /* no log: counted as if a condition did not hold */
		if (!w->p->never)
			w->p->none = w->p->neffects;
		w->p->never = true;
		return;
	}
	/* cs and ss as the entry gives them. */
	put_const(w, offsetof(struct dp_rpn_head, major), 8,
		  w->major | (u64)w->minor << 16 | 0x33ull << 32 | 0x2bull << 48);
	dp_lower_put_reg(w, offsetof(struct dp_rpn_head, pid), 4, DP_LOWER_PID);
	put_const(w, offsetof(struct dp_rpn_head, pad), 4, -w->len & 7);
	dp_lower_put_reg(w, offsetof(struct dp_rpn_head, ip), 8, DP_REG_WORD(ip));
	dp_lower_put_reg(w, offsetof(struct dp_rpn_head, sp), 8, DP_REG_WORD(sp));
	w->p->size = w->len;
}
