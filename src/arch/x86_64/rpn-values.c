/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The machine's stack while a block is compiled: words that were pushed stay constants or registers
 * as long as they can. Words that were popped count as well: their memory can be looked at, so the
 * last value of each is written out in the end like that of the others. What a later push replaces
 * is never written.
 */
#include "arch/x86_64/rpn-compile-priv.h"

/* In this order; those with a part in some instructions last. */
static const u8 pool[] = {SI, DI, R8, R9, CX, DX, AX};

#define MASK (DP_VM_STACK - 1)

static struct mem place_of(struct compiler *c, u32 top, bool any_top, int pos)
{
	if (!any_top)
		return AT(VM, ((top + (u32)pos) & MASK) * 8);
	lea(c->e, false, R11, AT(TOP, pos));
	op_imm(c->e, false, ALU_AND, R11, MASK);
	return (struct mem){VM, R11, 8, 0};
}

static void write_out(struct compiler *c, struct mem m, const struct word *w)
{
	if (w->kind == IN_REGISTER) {
		store(c->e, m, w->reg);
	} else if ((u64)(s64)(s32)w->c == w->c) {
		store_imm(c->e, true, m, (u32)w->c);
	} else {
		move_const(c->e, R10, w->c);
		store(c->e, m, R10);
	}
}

static void spill(struct compiler *c, int pos)
{
	struct word *w = &c->words[pos + REACH];

	if (w->dirty)
		write_out(c, place_of(c, c->top, c->any_top, pos), w);
	w->dirty = false;
}

void dp_val_begin(struct compiler *c, u32 at)
{
	c->top = c->flow.places[at].top;
	c->any_top = c->flow.places[at].any_top;
	c->cur = 0;
	c->locked = 0;
	memset(c->words, 0, sizeof(c->words));
}

struct word *dp_val_word(struct compiler *c, int i)
{
	return &c->words[c->cur + i + REACH];
}

static u32 users(const struct compiler *c, u8 reg)
{
	u32 n = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(c->words); i++)
		n += c->words[i].kind == IN_REGISTER && c->words[i].reg == reg;
	return n;
}

static bool is_free(const struct compiler *c, u8 reg)
{
	return !(c->locked >> reg & 1) && !users(c, reg);
}

/* Whoever has a value that the memory has too; then words that were popped; then anybody. */
static u8 victim(const struct compiler *c)
{
	u8 best = SP;
	u32 best_cost = ~0u;

	for (u32 i = 0; i < DP_ARRAY_SIZE(pool); i++) {
		u32 cost = 0;

		if (c->locked >> pool[i] & 1)
			continue;
		for (int k = 0; k < 2 * REACH; k++) {
			const struct word *w = &c->words[k];

			if (w->kind == IN_REGISTER && w->reg == pool[i])
				cost += 1 + (w->dirty ? 4 : 0) + (k - REACH >= c->cur ? 2 : 0);
		}
		if (cost < best_cost) {
			best = pool[i];
			best_cost = cost;
		}
	}
	return best;
}

u8 dp_val_alloc(struct compiler *c)
{
	u8 reg = SP;

	for (u32 i = 0; i < DP_ARRAY_SIZE(pool) && reg == SP; i++)
		if (is_free(c, pool[i]))
			reg = pool[i];
	if (reg == SP) {
		reg = victim(c);
		c->failed |= reg == SP; /* an instruction that wants too much: a mistake of ours */
		for (int k = 0; k < 2 * REACH; k++)
			if (c->words[k].kind == IN_REGISTER && c->words[k].reg == reg) {
				spill(c, k - REACH);
				c->words[k].kind = IN_MEMORY;
			}
	}
	c->locked |= 1u << reg;
	return reg;
}

void dp_val_evict(struct compiler *c, u8 reg)
{
	bool used = users(c, reg) != 0;
	u8 other;

	c->locked |= 1u << reg;
	if (!used)
		return;
	other = dp_val_alloc(c);
	if (users(c, reg)) /* the allocation did not write it out */
		move(c->e, other, reg);
	for (int k = 0; k < 2 * REACH; k++)
		if (c->words[k].kind == IN_REGISTER && c->words[k].reg == reg)
			c->words[k].reg = other;
}

u8 dp_val_load(struct compiler *c, int i)
{
	struct word *w = dp_val_word(c, i);
	u8 reg;

	if (w->kind != IN_REGISTER) {
		reg = dp_val_alloc(c);
		if (w->kind == CONSTANT)
			move_const(c->e, reg, w->c);
		else
			load(c->e, reg, dp_val_place(c, i));
		w->kind = IN_REGISTER;
		w->reg = reg;
	}
	c->locked |= 1u << w->reg;
	return w->reg;
}

u8 dp_val_take(struct compiler *c, int i)
{
	u8 reg = dp_val_load(c, i), other;

	if (users(c, reg) == 1)
		return reg;
	other = dp_val_alloc(c);
	move(c->e, other, reg);
	return other;
}

void dp_val_set(struct compiler *c, int i, u8 reg)
{
	*dp_val_word(c, i) = (struct word){IN_REGISTER, reg, true, 0};
}

void dp_val_push(struct compiler *c, u8 reg)
{
	c->cur--;
	dp_val_set(c, 0, reg);
}

void dp_val_set_const(struct compiler *c, int i, u64 v)
{
	*dp_val_word(c, i) = (struct word){CONSTANT, 0, true, v};
}

void dp_val_copy(struct compiler *c, int to, int from)
{
	struct word w;

	if (dp_val_word(c, from)->kind == IN_MEMORY)
		dp_val_load(c, from);
	w = *dp_val_word(c, from);
	w.dirty = true;
	*dp_val_word(c, to) = w;
}

bool dp_val_is_const(struct compiler *c, int i, u64 *v)
{
	const struct word *w = dp_val_word(c, i);

	*v = w->c;
	return w->kind == CONSTANT;
}

void dp_val_sync(struct compiler *c)
{
	for (int k = 0; k < 2 * REACH; k++)
		if (c->words[k].dirty)
			spill(c, k - REACH);
}

void dp_val_forget(struct compiler *c)
{
	for (int k = 0; k < 2 * REACH; k++)
		if (c->words[k].kind == IN_REGISTER)
			c->words[k].kind = IN_MEMORY;
}

void dp_val_forget_all(struct compiler *c)
{
	memset(c->words, 0, sizeof(c->words));
}

/* Count from the present top. */
void dp_val_rebase(struct compiler *c)
{
	dp_val_sync(c);
	dp_val_forget_all(c);
	if (c->any_top)
		lea(c->e, false, TOP, AT(TOP, c->cur));
	c->top += (u32)(s32)c->cur;
	c->cur = 0;
}

struct mem dp_val_place(struct compiler *c, int i)
{
	return place_of(c, c->top, c->any_top, c->cur + i);
}

void dp_val_top(struct compiler *c, u8 reg)
{
	if (c->any_top)
		lea(c->e, false, reg, AT(TOP, c->cur));
	else
		move_imm32(c->e, reg, c->top + (u32)(s32)c->cur);
}

/* ---- ways to the interpreter ---- */

void dp_val_save(struct compiler *c, struct leave *l)
{
	l->first = c->nsaved;
	for (int k = 0; k < 2 * REACH; k++) {
		if (!c->words[k].dirty)
			continue;
		if (c->nsaved == c->cap_saved) {
			u32 cap = c->cap_saved ? 2 * c->cap_saved : 256;
			void *p = dp_resize(c->saved, c->cap_saved * sizeof(*c->saved), cap * sizeof(*c->saved));

			if (!p) {
				c->failed = true;
				return;
			}
			c->saved = p;
			c->cap_saved = cap;
		}
		c->saved[c->nsaved++] = (struct saved){(s16)(k - REACH), c->words[k]};
	}
	l->n = c->nsaved - l->first;
}

void dp_val_restore(struct compiler *c, const struct leave *l)
{
	for (u32 i = l->first; i < l->first + l->n; i++)
		write_out(c, place_of(c, l->top, l->any_top, c->saved[i].pos), &c->saved[i].w);
}
