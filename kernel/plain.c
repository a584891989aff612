// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Events that log registers, and words of memory behind them: their programs are followed ahead (program/lower.h) and
 * carried out here as a list, straight into the ring. What is not ordinary is left to the interpreter: a ring that is
 * nearly full, or a record that lies across its end.
 */
#include <linux/slab.h>

#include "run.h"
#include "program/lower.h"

enum field_kind {
	FIELD_WORD,   /* of the registers; these come first */
	FIELD_LOAD,   /* memory behind a register */
	FIELD_VALUE,  /* what is computed of a register, or a constant */
	FIELD_RETURN, /* the address that the function returns to */
};

struct field {
	u8 kind, reg_word; /* of FIELD_WORD and FIELD_LOAD, else a word that is there */
	u16 off, size;     /* in the record, from the payload's begin */
	u16 index;         /* FIELD_LOAD: of the field; FIELD_VALUE: in values */
	s32 disp;          /* FIELD_LOAD */
};

struct dp_k_plain {
	u64 head;       /* first word of the record */
	u32 len;        /* of the record */
	u16 comm, last; /* where its last two words are, and the one that need not be filled, with has_rest */
	bool decides, has_mask, has_rest;
	bool never; /* logs nothing */
	u32 nneeds;
	const struct dp_lowered_need *needs;
	const struct dp_value *values;
	const struct field *words_end, *end;
	struct field fields[];
};

/* ---- the control side ---- */

static enum field_kind kind_of(const struct dp_lowered_store *s)
{
	if (!s->v.constant && s->v.reg_word == DP_LOWER_RETURN)
		return FIELD_RETURN;
	return s->v.constant || s->v.nops || s->v.size != 8 || s->size != 8 || s->v.reg_word > 63 ? FIELD_VALUE
												  : FIELD_WORD;
}

/* Those that are words, or the others. Returns where the next fields belong. */
static struct field *add_stores(struct field *f, const struct dp_lowered *p, struct dp_value *values, bool words)
{
	u16 n = 0;

	for (u32 i = 0; i < p->nstores; i++) {
		const struct dp_lowered_store *s = &p->stores[i];
		enum field_kind kind = kind_of(s);

		if ((kind == FIELD_WORD) != words)
			continue;
		*f = (struct field){.kind = kind, .off = s->off, .size = s->size};
		if (kind == FIELD_WORD) {
			f->reg_word = s->v.reg_word;
		} else if (kind == FIELD_VALUE) {
			f->index = n;
			values[n++] = s->v;
		}
		f++;
	}
	return f;
}

static struct field *add_loads(struct field *f, const struct dp_lowered *p)
{
	for (u32 i = 0; i < p->nloads; i++)
		*f++ = (struct field){.kind = FIELD_LOAD,
				      .reg_word = p->loads[i].reg_word,
				      .off = p->loads[i].off,
				      .size = p->loads[i].size,
				      .index = p->loads[i].field,
				      .disp = p->loads[i].disp};
	return f;
}

static struct dp_k_plain *from_lowered(const struct dp_lowered *p, u32 event)
{
	u32 nfields = p->nstores + p->nloads;
	struct dp_k_plain *l = kzalloc(sizeof(*l) + nfields * sizeof(*l->fields) + p->nneeds * sizeof(*l->needs) +
					   p->nstores * sizeof(*l->values),
				       GFP_KERNEL);
	struct dp_lowered_need *needs;
	struct dp_value *values;
	struct field *f;

	if (!l)
		return NULL;
	l->comm = (u16)(sizeof(struct dp_record) + DP_ALIGN_UP(p->size, 8));
	l->len = l->comm + (u32)DP_COMM_SIZE;
	l->head = l->len | (u64)(p->rec_flags | DP_REC_COMM) << 16 | (u64)event << 32;
	l->last = (u16)(sizeof(struct dp_record) + DP_ALIGN_DOWN(p->size, 8));
	l->has_rest = p->size % 8;
	l->has_mask = p->has_mask;
	l->never = p->never;
	l->decides = p->never || p->nneeds;
	needs = (struct dp_lowered_need *)&l->fields[nfields];
	memcpy(needs, p->needs, p->nneeds * sizeof(*needs));
	values = (struct dp_value *)&needs[p->nneeds];
	f = add_stores(l->fields, p, values, true);
	l->words_end = f;
	l->end = add_loads(add_stores(f, p, values, false), p);
	l->needs = needs;
	l->nneeds = p->nneeds;
	l->values = values;
	return l;
}

static const struct dp_lower_for every_word = {.reg_words = ~0ull, .knows = true};

struct dp_k_plain *dp_k_plain_make(const struct dp_program *prog, u32 event)
{
	struct dp_lowered *p;
	struct dp_k_plain *l = NULL;

	if (prog->rpn.ex_mask)
		return NULL;
	p = kmalloc(sizeof(*p), GFP_KERNEL);
	/* The verifier knows which words of the registers the program may read. */
	if (p && dp_lower(p, prog->code, prog->len, &every_word) && p->size <= DP_K_LOGMAX)
		l = from_lowered(p, event);
	kfree(p);
	return l;
}

/* ---- the hit path ---- */

static __always_inline u64 register_word(const struct pt_regs *regs, u32 word)
{
	return ((const u64 *)regs)[word];
}

/* Or what stands for it in a value. */
static HIT u64 known_word(const struct pt_regs *regs, u32 word)
{
	switch (word) {
	case DP_LOWER_PID:
		return (u32)current->tgid;
	case DP_LOWER_TID:
		return (u32)current->pid;
	case DP_LOWER_CPU:
		return raw_smp_processor_id();
	default:
		return register_word(regs, word);
	}
}

static HIT bool holds(const struct dp_k_plain *l, const struct pt_regs *regs)
{
	for (u32 i = 0; i < l->nneeds; i++) {
		const struct dp_lowered_need *n = &l->needs[i];

		if (!dp_cc_holds(n->cc, dp_value_of(&n->v, known_word(regs, n->v.reg_word)), n->c))
			return false;
	}
	return !l->never;
}

/* The bit of the fields that could not be read. */
static HIT u64 load(const struct pt_regs *regs, const struct field *f, void *to, u64 addr)
{
	struct dp_hit h;

	h.regs = (struct dp_regs *)regs;
	if (!dp_hit_read(&h, to, addr, f->size))
		return 0;
	memset(to, 0, f->size);
	return 1ull << min_t(u32, f->index, 63);
}

static HIT void compute(const struct dp_value *v, const struct pt_regs *regs, void *to, u32 size)
{
	u64 x = dp_value_of(v, known_word(regs, v->reg_word)); /* a constant has reg_word 0 */

	memcpy(to, &x, size);
}

/* A field that is not just a register. The bit of those that could not be read. */
static __always_inline u64 fill(const struct dp_k_plain *l, const struct field *f, u8 *payload,
				const struct pt_regs *regs, u64 ret_addr)
{
	u64 addr, *to = (u64 *)(payload + f->off);

	if (likely(f->kind == FIELD_LOAD)) {
		addr = register_word(regs, f->reg_word) + (s64)f->disp;
		if (unlikely(f->size != 8 || !dp_k_near_stack((u64)regs, addr)))
			return load(regs, f, to, addr);
		*to = READ_ONCE_NOCHECK(*(const unsigned long *)addr);
	} else if (f->kind == FIELD_RETURN) {
		*to = ret_addr;
	} else {
		compute(&l->values[f->index], regs, to, f->size);
	}
	return 0;
}

HIT bool dp_k_plain_run(const struct dp_k_prog *p, const struct pt_regs *regs, u64 ret_addr)
{
	const struct dp_k_plain *l = p->plain;
	const struct field *f = l->fields;
	u32 cpu = raw_smp_processor_id(), faults = 0;
	struct dp_counts *counts = dp_k_counts(p, cpu);
	struct dp_k_sink *s = &p->sinks[cpu];
	u64 *to, mask = 0;
	u8 *payload;

	if (unlikely(l->decides) && !holds(l, regs)) {
		counts->v[DP_COUNT_FILTERED]++;
		return true;
	}
	to = dp_k_room(s, l->len);
	if (unlikely(!to))
		return false;
	payload = (u8 *)to + sizeof(struct dp_record);
	to[0] = l->head;
	to[1] = (u32)current->pid | (u64)cpu << 32;
	to[2] = rdtsc();
	if (l->has_rest)
		*(u64 *)((u8 *)to + l->last) = 0;
	for (; f < l->words_end; f++)
		*(u64 *)(payload + f->off) = register_word(regs, f->reg_word);
	for (; f < l->end; f++) {
		u64 bad = fill(l, f, payload, regs, ret_addr);

		if (unlikely(bad)) {
			mask |= bad;
			faults++;
		}
	}
	if (l->has_mask)
		*(u64 *)payload = mask;
	if (unlikely(faults)) {
		to[0] = l->head | (u64)DP_REC_FAULTED << 16;
		counts->v[DP_COUNT_FAULTS] += faults;
	}
	dp_k_commit(s, (u64 *)((u8 *)to + l->comm), l->len);
	counts->v[DP_COUNT_RECORDED]++;
	return true;
}
