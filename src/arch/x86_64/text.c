/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The analysis of code. Rule: a target too many costs a probe site its jump, a target too few
 * can crash the program. So whatever looks like a target is one, and where a jump cannot be
 * followed the whole function is marked. Kernel-clean.
 */
#include "arch/x86_64/code-scan.h"
#include "arch/x86_64/gaps.h"
#include "arch/x86_64/indirect.h"
#include "arch/x86_64/jumps.h"
#include "arch/analysis.h"

#define ANY_REG 0xff
#define MANY_KNOWN 12 /* functions one by one; the whole costs about as much as 20 */
#define AROUND 160    /* short branches reach 128 bytes; and the longest instruction */
#define PADDING 80    /* behind a function a judge may look at so many bytes */

struct dp_table { /* what may be a table of int32 offsets relative to base */
	u64 at, base;
	u32 text, func;
	u32 entries;
	u8 reg;     /* the register that its address was loaded into */
	bool named; /* a jump of the function was seen to use this one */
};

struct dp_jump { /* a jump to a computed target: explained by a table, or the function is unproven
		  */
	u32 text, func;
	s64 disp;
	u64 table, base; /* what was in sight of the jump, else 0 */
	u8 reg;          /* the register that held the table's address */
	bool same;       /* and what entries are relative to */
};

/* What is remembered of the function that is being decoded. */
struct walk {
	struct dp_analysis *c;
	struct dp_code_text *ct;
	u32 text, func;
	u32 first_jump, first_table; /* indexes at the beginning of the function */
	u64 labels[8];               /* places of the function itself that it has loaded */
	u32 nlabels;
	bool many_labels;
	struct dp_sums sums;
	struct dp_trail trail;
};

static const struct dp_code_data *data_at(const struct dp_analysis *c, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(c->data, c->ndata, lo, addr);

	return n && addr < c->data[n - 1].hi ? &c->data[n - 1] : NULL;
}

static const u8 *bytes_at(const struct dp_analysis *c, u64 addr, u64 n)
{
	const struct dp_code_data *d = data_at(c, addr);
	struct dp_code_text *ct;

	if (d)
		return d->hi - addr >= n ? d->bytes + (addr - d->lo) : NULL;
	ct = dp_code_at(c, addr);
	return ct && ct->t.hi - addr >= n ? ct->t.bytes + (addr - ct->t.lo) : NULL;
}

static bool grow(void **v, u32 *cap, u32 n, size_t elem)
{
	u32 want = *cap ? *cap * 2 : 256;
	void *p;

	if (n < *cap)
		return true;
	p = dp_resize(*v, *cap * elem, want * elem);
	if (!p)
		return false;
	*v = p;
	*cap = want;
	return true;
}

static void add_table(struct walk *w, u64 at, u64 base, u8 reg, bool named)
{
	struct dp_analysis *c = w->c;

	if (!grow((void **)&c->tables, &c->tables_cap, c->ntables, sizeof(*c->tables))) {
		c->short_of_memory = true;
		return;
	}
	c->tables[c->ntables++] = (struct dp_table){at, base, w->text, w->func, 0, reg, named};
}

static bool table_before(const struct dp_table *a, const struct dp_table *b)
{
	if (a->at != b->at)
		return a->at < b->at;
	return a->base != b->base ? a->base < b->base : a->reg < b->reg;
}

/* By address. A shell sort: short, without recursion, fast enough for the few 100 000 there may be.
 */
static void sort_tables(struct dp_table *v, u32 n)
{
	u32 gap = 1;

	while (gap < n / 3)
		gap = 3 * gap + 1;
	for (; gap; gap /= 3) {
		for (u32 i = gap; i < n; i++) {
			struct dp_table x = v[i];
			u32 k = i;

			for (; k >= gap && table_before(&x, &v[k - gap]); k -= gap)
				v[k] = v[k - gap];
			v[k] = x;
		}
	}
}

/* The same table may be loaded at several places of a function: it counts once. */
static u32 unite_tables(struct dp_table *v, u32 n)
{
	u32 out = 0;

	sort_tables(v, n);
	for (u32 i = 0; i < n; i++) {
		if (out && v[out - 1].at == v[i].at && v[out - 1].base == v[i].base && v[out - 1].reg == v[i].reg)
			v[out - 1].named |= v[i].named;
		else
			v[out++] = v[i];
	}
	return out;
}

static void add_jump(struct walk *w, const struct dp_indirect *ind)
{
	struct dp_analysis *c = w->c;
	bool sum = ind->kind == DP_INDIRECT_SUM;

	if (!grow((void **)&c->jumps, &c->jumps_cap, c->njumps, sizeof(*c->jumps))) {
		c->short_of_memory = true;
		return;
	}
	c->jumps[c->njumps++] = (struct dp_jump){w->text,   w->func,
						 ind->disp, ind->kind == DP_INDIRECT_TABLE ? ind->table : 0,
						 ind->base, sum && ind->reg >= 0 ? (u8)ind->reg : ANY_REG,
						 ind->same};
}

static void see_indirect_jump(struct walk *w, const struct dp_insn *in, u64 off)
{
	struct dp_indirect ind;

	dp_indirect_trace(&w->ct->t, &w->trail, in, off, &ind);
	switch (ind.kind) {
	case DP_INDIRECT_MEMORY: /* whatever the word holds occurs in data or in an lea: marked
				    there */
	case DP_INDIRECT_UNKNOWN:
		if (dp_sums_reach(&w->sums, &ind))
			add_jump(w, &ind);
		break;
	case DP_INDIRECT_TABLE:
	case DP_INDIRECT_SUM:
		add_jump(w, &ind);
		break;
	}
}

static void add_label(struct walk *w, u64 at)
{
	for (u32 i = 0; i < w->nlabels; i++)
		if (w->labels[i] == at)
			return;
	if (w->nlabels == DP_ARRAY_SIZE(w->labels))
		w->many_labels = true;
	else
		w->labels[w->nlabels++] = at;
}

/* Addresses that an instruction mentions besides a branch target. */
static void see_operands(struct walk *w, const struct dp_insn *in, u64 next)
{
	struct dp_analysis *c = w->c;

	if (in->rip_relative) {
		u64 at = next + (u64)in->disp;
		struct dp_code_text *ct = dp_code_at(c, at);
		bool lea = in->opcode == 0x8d && in->map == DP_MAP_ONE && in->enc == DP_ENC_LEGACY;

		if (ct) { /* a label, or data between functions */
			dp_code_take(c, at);
			if (lea && at >= w->sums.lo && at < w->sums.hi)
				add_label(w, at);
		} else if (lea && w->func < w->ct->t.nfuncs && data_at(c, at)) {
			add_table(w, at, at, (u8)dp_modrm_reg(in), false);
		}
	}
	if (c->absolute && in->imm_size >= 4)
		dp_code_take(c, in->imm_size == 4 ? (u32)in->imm : (u64)in->imm);
}

#define MANY (~0u)

/* A branch or call from elsewhere to the start of a function. */
static void see_reference(struct walk *w, const struct dp_insn *in, u64 target)
{
	struct dp_func *f = dp_code_func(w->c, target);
	u32 from = w->func < w->ct->t.nfuncs ? w->func + 1 : MANY;

	if (!f)
		return;
	if (in->cls == DP_INSN_CALL_REL)
		f->flags |= DP_FUNC_ENTERED;
	f->from = !f->from || f->from == from ? from : MANY;
}

/* Control may come there, for what lies between functions: it is no target that a judge has to know. */
static void lead(struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);

	if (ct && ct->led)
		dp_code_set(ct->led, addr - ct->t.lo);
}

/* Everything one instruction tells. */
static void see(struct walk *w, const struct dp_insn *in, u64 off)
{
	const struct dp_text *t = &w->ct->t;
	u64 addr = t->lo + off, next = addr + in->len, target;

	if (dp_insn_target(in, addr, &target)) {
		if (target < w->sums.lo || target >= w->sums.hi || in->cls == DP_INSN_CALL_REL)
			see_reference(w, in, target);
		/* Most branches stay in their own range: spare the search. */
		if (target - t->lo < t->hi - t->lo)
			dp_code_arrive(w->c, w->ct, target - t->lo);
		else
			dp_code_mark(w->c, target);
	}
	switch (in->cls) {
	case DP_INSN_CALL_REL:
		if (target == w->c->rewound && target)
			dp_code_arrive(w->c, w->ct, off);
		/* fall through */
	case DP_INSN_CALL_IND:
	case DP_INSN_FAR:
		if (off + in->len < t->hi - t->lo)
			dp_code_arrive(w->c, w->ct, off + in->len);
		break;
	case DP_INSN_JMP_IND:
		if (w->func < t->nfuncs)
			see_indirect_jump(w, in, off);
		break;
	}
	if (in->rip_relative || in->imm_size >= 4)
		see_operands(w, in, next);
	if (in->has_modrm || in->imm_size >= 4 || in->opcode == 0x98)
		dp_sums_see(&w->sums, in, next);
	if (dp_insn_falls_through(in))
		dp_trail_add(&w->trail, off);
	else
		dp_trail_reset(&w->trail);
}

/*
 * The tables that a computed jump may use, as far as it was not seen which one: its address plus a
 * constant, relative to itself, to the base that was seen, or to a label of the function.
 */
static void guess_tables(struct walk *w, const struct dp_jump *j, u32 end)
{
	struct dp_analysis *c = w->c;

	for (u32 i = w->first_table; i < end; i++) {
		u64 at = c->tables[i].at;
		u8 reg = c->tables[i].reg;

		if (j->reg != ANY_REG && reg != j->reg)
			continue;
		if (j->base && at + (u64)j->disp != j->base)
			add_table(w, at + (u64)j->disp, j->base, reg, false);
		else if (j->disp)
			add_table(w, at + (u64)j->disp, at, reg, false);
		for (u32 k = 0; !j->base && !j->same && k < w->nlabels; k++)
			add_table(w, at + (u64)j->disp, w->labels[k], reg, false);
	}
}

/* A function without any computed jump needs no tables. */
static void end_function(struct walk *w)
{
	struct dp_analysis *c = w->c;

	if (c->njumps == w->first_jump || c->prepared) {
		if (c->njumps != w->first_jump) /* cannot be: dp_scan_jump() would have found it */
			w->ct->funcs[w->func].flags |= DP_FUNC_UNPROVEN;
		c->njumps = w->first_jump;
		c->ntables = w->first_table;
		return;
	}
	c->ntables = w->first_table + unite_tables(c->tables + w->first_table, c->ntables - w->first_table);
	for (u32 i = w->first_jump, n = c->ntables; i < c->njumps; i++) {
		struct dp_jump j = c->jumps[i];

		if (j.table)
			add_table(w, j.table, j.base, ANY_REG, true);
		else if (w->many_labels && !j.base && !j.same)
			w->ct->funcs[w->func].flags |= DP_FUNC_UNPROVEN;
		else
			guess_tables(w, &j, n);
	}
	c->ntables = w->first_table + unite_tables(c->tables + w->first_table, c->ntables - w->first_table);
}

/* Trailing padding is no part of a function whose end was only inferred from its successor. */
static void cut_padding(struct walk *w, struct dp_func *f, u64 end)
{
	if (!(f->flags & DP_FUNC_OPEN) || end <= f->lo)
		return;
	for (u64 a = end; a < f->hi; a++)
		w->ct->starts[(a - w->ct->t.lo) >> 3] &= (u8) ~(1u << ((a - w->ct->t.lo) & 7));
	f->hi = end;
}

/* Written in assembly: control runs on into the next function, through padding perhaps. */
static void see_end(struct walk *w, struct dp_func *f, const struct dp_insn *last)
{
	bool on = w->func + 1 < w->ct->t.nfuncs && f[1].lo - f->hi < 64;

	switch (last->cls) {
	case DP_INSN_CALL_REL: /* of a function that does not return */
	case DP_INSN_CALL_IND:
	case DP_INSN_HLT:
	case DP_INSN_INT3:
	case DP_INSN_SYSCALL:
		return;
	}
	if (on && last->len && dp_insn_falls_through(last))
		f[1].flags |= DP_FUNC_FALLEN;
}

static void walk_function(struct walk *w, struct dp_func *f)
{
	const struct dp_text *t = &w->ct->t;
	u64 off = f->lo - t->lo, end = f->hi - t->lo, last = off;
	struct dp_insn in, tail = {0};
	bool valid = true;

	w->first_jump = w->c->njumps;
	w->first_table = w->c->ntables;
	w->sums = (struct dp_sums){.lo = f->lo, .hi = f->hi};
	w->nlabels = 0;
	w->many_labels = false;
	dp_trail_reset(&w->trail);
	while (off < end) {
		int n = dp_insn_decode(&in, t->bytes + off, end - off);

		if (n < 0) { /* data in the code: what follows is read for its branches only */
			valid = false;
			dp_trail_reset(&w->trail);
			off++;
			continue;
		}
		if (valid)
			dp_code_set(w->ct->starts, off);
		see(w, &in, off);
		off += (u64)n;
		if (in.cls != DP_INSN_INT3 && !dp_insn_is_nop(&in)) {
			last = off;
			tail = in;
		}
	}
	see_end(w, f, &tail);
	end_function(w);
	cut_padding(w, f, t->lo + last);
	if (!valid || dp_insn_falls_through(&tail))
		lead(w->c, f->hi);
}

/* Bytes that no function claims may still be code, and branch into functions. */
static void walk_gap(struct walk *w, u64 off, u64 end)
{
	const struct dp_text *t = &w->ct->t;
	struct dp_insn in;

	dp_trail_reset(&w->trail);
	w->sums = (struct dp_sums){0};
	w->func = ~0u;
	w->c->between = true;
	while (off < end) {
		int n = dp_insn_decode(&in, t->bytes + off, end - off);

		if (n < 0) {
			off++;
			continue;
		}
		see(w, &in, off);
		off += (u64)n;
	}
	w->c->between = false;
}

/* Function i, unless that has been done. */
static void walk_once(struct walk *w, u32 i)
{
	struct dp_func *f = &w->ct->funcs[i];

	if (f->flags & DP_FUNC_WALKED)
		return;
	f->flags |= DP_FUNC_WALKED;
	dp_code_arrive(w->c, w->ct, f->lo - w->ct->t.lo);
	w->func = i;
	walk_function(w, f);
}

/* The bytes between function i and the one before it; behind the last one where i is their number. */
static void walk_before(struct walk *w, u32 i)
{
	struct dp_code_text *ct = w->ct;
	bool last = i == ct->t.nfuncs;

	if (i)
		walk_once(w, i - 1); /* it may end earlier than was thought */
	if (last ? ct->gap : ct->funcs[i].flags & DP_FUNC_GAP)
		return;
	if (last)
		ct->gap = true;
	else
		ct->funcs[i].flags |= DP_FUNC_GAP;
	walk_gap(w, i ? ct->funcs[i - 1].hi - ct->t.lo : 0, (last ? ct->t.hi : ct->funcs[i].lo) - ct->t.lo);
}

static void walk_text(struct dp_analysis *c, u32 text)
{
	struct walk w = {.c = c, .ct = &c->texts[text], .text = text};

	for (u32 i = 0; i < w.ct->t.nfuncs; i++) {
		walk_before(&w, i);
		walk_once(&w, i);
	}
	walk_before(&w, w.ct->t.nfuncs);
}

/* What contains addr: a function, or bytes of none. */
static void walk_at(struct walk *w, u64 addr)
{
	u32 n = (u32)DP_COUNT_UP_TO(w->ct->t.funcs, w->ct->t.nfuncs, lo, addr);

	if (n)
		walk_once(w, n - 1);
	if (!n || addr >= w->ct->funcs[n - 1].hi)
		walk_before(w, n);
}

/* Called, or used as a pointer. */
static bool is_entered(const struct dp_code_text *ct, const struct dp_func *f)
{
	return f->flags & DP_FUNC_ENTERED || (ct->pointed && dp_code_get(ct->pointed, f->lo - ct->t.lo));
}

/*
 * Compilers move unlikely code away from its function. Without names such a part looks like a
 * function, but it is only ever jumped to, and by one function.
 */
static void find_part(struct dp_code_text *ct, u32 i)
{
	struct dp_func *f = &ct->funcs[i];

	if (f->flags & DP_FUNC_NAMELESS && !(f->flags & (DP_FUNC_PART | DP_FUNC_GO)) && f->from && f->from != MANY &&
	    f->from != i + 1 && !is_entered(ct, f))
		f->flags |= DP_FUNC_PART | DP_FUNC_LEVEL;
}

static void walk_all(struct dp_analysis *c)
{
	if (c->complete)
		return;
	for (u32 i = 0; i < c->ntexts; i++)
		walk_text(c, i);
	for (u32 i = 0; i < c->ntexts; i++)
		for (u32 k = 0; k < c->texts[i].t.nfuncs; k++)
			find_part(&c->texts[i], k);
	c->complete = true;
}

/* Only who jumps to it can tell whether a function without a name is one. */
static bool part_is_open(const struct dp_analysis *c, const struct dp_code_text *ct, const struct dp_func *f)
{
	return !c->complete && f->flags & DP_FUNC_NAMELESS &&
	       !(f->flags & (DP_FUNC_PART | DP_FUNC_GO | DP_FUNC_KNOWN)) && !is_entered(ct, f);
}

/*
 * Whether an entry of a table may be meant for function f. Up to the next known table the entry
 * only has to be an instruction of any function; behind that, where another table begins, only f's
 * own bytes are believed. The byte behind the function is allowed: compilers point entries that
 * cannot occur there.
 */
static bool plausible(struct dp_analysis *c, const struct dp_code_text *own, const struct dp_func *f, u64 target,
		      bool sure)
{
	struct dp_code_text *ct;

	if (target >= f->lo && target <= f->hi)
		return sure || target == f->hi || dp_code_get(own->starts, target - own->t.lo);
	ct = dp_code_at(c, target);
	if (ct && !c->complete) {
		struct walk w = {.c = c, .ct = ct, .text = (u32)(ct - c->texts)};

		walk_at(&w, target);
	}
	if (!ct || !dp_code_get(ct->starts, target - ct->t.lo))
		return false;
	if (sure)
		return true;
	f = dp_text_func(&ct->t, target);
	if (f && part_is_open(c, ct, f))
		walk_all(c);
	return f && f->flags & DP_FUNC_PART;
}

static void read_table(struct dp_analysis *c, u32 i, u64 next_table)
{
	struct dp_table tb = c->tables[i]; /* walks on the way may move it */
	const struct dp_code_text *own = &c->texts[tb.text];
	const struct dp_func *f = &own->funcs[tb.func];

	for (u64 at = tb.at;; at += 4) {
		const u8 *p = bytes_at(c, at, 4);
		s32 v;
		u64 target;

		if (!p)
			break;
		memcpy(&v, p, 4);
		target = tb.base + (u64)(s64)v;
		if (!plausible(c, own, f, target, at < next_table)) {
			lead(c, target); /* the table goes on, perhaps, with code between functions */
			break;
		}
		dp_code_mark(c, target);
		tb.entries++;
	}
	c->tables[i].entries = tb.entries;
}

static u64 first_above(const struct dp_table *v, u32 n, u64 x)
{
	size_t i = DP_COUNT_UP_TO(v, n, at, x);

	return i < n ? v[i].at : ~0ull;
}

static int read_tables(struct dp_analysis *c)
{
	size_t size = c->ntables * sizeof(*c->tables);
	struct dp_table *sorted = size ? dp_alloc(size) : NULL;

	if (!size)
		return 0;
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, c->tables, size);
	sort_tables(sorted, c->ntables);
	for (u32 i = 0; i < c->ntables; i++)
		read_table(c, i, first_above(sorted, c->ntables, c->tables[i].at));
	dp_free(sorted);
	return 0;
}

/* Is there a table among [lo, hi) that explains the jump? */
static bool explained(const struct dp_analysis *c, u32 lo, u32 hi, const struct dp_jump *j)
{
	for (u32 i = lo; i < hi; i++) {
		const struct dp_table *t = &c->tables[i];

		if (!t->entries || (j->table && t->at != j->table))
			continue;
		if (j->base && t->base != j->base)
			continue;
		if (j->reg == ANY_REG || t->reg == j->reg)
			return true;
	}
	return false;
}

/*
 * Jumps and tables are both in the order of functions. A jump of which table, base or register was
 * seen needs a table that agrees; the others need as many tables that no jump has named.
 */
static void prove(struct dp_analysis *c)
{
	u32 t = 0;

	for (u32 j = 0; j < c->njumps;) {
		u32 text = c->jumps[j].text, func = c->jumps[j].func, hi, need = 0, have = 0;
		bool proven = true;

		while (t < c->ntables &&
		       (c->tables[t].text < text || (c->tables[t].text == text && c->tables[t].func < func)))
			t++;
		for (hi = t; hi < c->ntables && c->tables[hi].text == text && c->tables[hi].func == func; hi++)
			have += !c->tables[hi].named && c->tables[hi].entries > 0;
		for (; j < c->njumps && c->jumps[j].text == text && c->jumps[j].func == func; j++) {
			const struct dp_jump *k = &c->jumps[j];

			if (!k->table && !k->base && k->reg == ANY_REG)
				need++;
			else if (!explained(c, t, hi, k))
				proven = false;
		}
		if (!proven || need > have)
			c->texts[text].funcs[func].flags |= DP_FUNC_UNPROVEN;
	}
}

/* All functions with jumps to computed addresses have been walked, in their order. */
static int finish_tables(struct dp_analysis *c)
{
	int rc = 0;

	if (!c->prepared) {
		c->prepared = true;
		rc = read_tables(c);
		prove(c);
		c->njumps = c->ntables = 0;
	}
	return c->short_of_memory ? -ENOMEM : rc;
}

static int know_all(struct dp_analysis *c)
{
	walk_all(c);
	return finish_tables(c);
}

static void walk_found(void *arg, u32 i)
{
	walk_once(arg, i);
}

/* The tables of the whole module: one of any function may lead into any other. */
static int prepare(struct dp_analysis *c)
{
	for (u32 i = 0; i < c->ntexts && !c->prepared; i++) {
		struct walk w = {.c = c, .ct = &c->texts[i], .text = i};

		dp_jumps_find(c, w.ct, walk_found, &w);
	}
	return finish_tables(c);
}

/* Functions and bytes from which a short branch may lead to [lo, hi), or control may run into it. */
static void walk_around(struct walk *w, u64 lo, u64 hi)
{
	u32 n = w->ct->t.nfuncs, i = (u32)DP_COUNT_UP_TO(w->ct->t.funcs, n, lo, lo - DP_MIN(lo, (u64)AROUND));

	for (i -= i > 0; i < n && w->ct->funcs[i].lo < hi + AROUND; i++) {
		walk_before(w, i);
		walk_once(w, i);
	}
	walk_before(w, i);
}

/* Whatever refers to the function, or to the padding behind it. Calls of one that has a name do not matter. */
static void walk_referrers(struct dp_analysis *c, const struct dp_code_text *ct, const struct dp_func *f)
{
	bool last = f + 1 == ct->funcs + ct->t.nfuncs;
	struct dp_scan_refs refs = {.lo = f->lo + !(f->flags & DP_FUNC_NAMELESS),
				    .hi = DP_MIN(f->hi + PADDING, last ? ct->t.hi : f[1].lo),
				    .absolute = c->absolute};
	const u8 *code;

	for (u32 i = 0; i < c->ntexts; i++) {
		struct walk w = {.c = c, .ct = &c->texts[i], .text = i};
		u64 lo, hi = 0, size = w.ct->t.hi - w.ct->t.lo;

		while (hi < size) {
			lo = hi > DP_SCAN_OVERLAP ? hi - DP_SCAN_OVERLAP : 0;
			code = dp_code_look(c, w.ct, lo, &hi);
			refs.addr = w.ct->t.lo + lo;
			for (u64 off = 0; (off = dp_scan_ref(&refs, code, hi - lo, off)) < hi - lo; off++)
				walk_at(&w, refs.addr + off);
		}
	}
}

int dp_code_know(struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);
	struct walk w = {.c = c, .ct = ct, .text = (u32)(ct - c->texts)};
	const struct dp_func *at = ct ? dp_text_func(&ct->t, addr) : NULL;
	struct dp_func *f;
	int rc;

	if (addr == DP_CODE_ALL)
		return know_all(c);
	if (addr == DP_CODE_GAPS) {
		rc = know_all(c);
		return rc ? rc : dp_gaps_follow(c);
	}
	if (!at || c->complete || at->flags & DP_FUNC_KNOWN)
		return 0;
	if (c->nknown++ == MANY_KNOWN)
		return know_all(c);
	rc = prepare(c);
	if (rc)
		return rc;
	f = &ct->funcs[at - ct->funcs];
	walk_around(&w, f->lo, f->hi);
	walk_referrers(c, ct, f);
	find_part(ct, (u32)(f - ct->funcs));
	f->flags |= DP_FUNC_KNOWN;
	return c->short_of_memory ? -ENOMEM : 0;
}

int dp_code_settle(struct dp_analysis *c, const struct dp_func *f)
{
	struct dp_code_text *ct = dp_code_at(c, f->lo);
	struct walk w = {.c = c, .ct = ct, .text = (u32)(ct - c->texts)};
	int rc = c->complete ? 0 : prepare(c);

	if (!rc && !c->complete)
		walk_once(&w, (u32)(f - ct->funcs));
	return !rc && part_is_open(c, ct, f) ? dp_code_know(c, f->lo) : rc;
}
