/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Exits of a function: the places at which control goes back to the caller or on to another
 * function that will. A missed exit would leave a return probe without its return, so doubt is an
 * error.
 *
 * A part without a name may be a function of its own to which this one alone jumps: nothing tells the two apart. It
 * counts as a part, because returns are then seen where they happen, unless it returns where no jump fits.
 */
#include "arch/x86_64/indirect.h"
#include "arch/analysis.h"

#define MAX_RANGES 64   /* a function and its parts */
#define CALLED_MAX 4096 /* bytes of a part that may count as another function */
#define TABLE_MAX 1024  /* entries of a table of addresses that are looked at */

struct range {
	const struct dp_func *f;
	bool joined; /* control comes other than by a jump to its start, or goes on in another range */
	bool tight;  /* no jump fits at one of its exits */
};

enum way { UNKNOWN, STAYS, LEAVES };

struct search {
	struct dp_analysis *c;
	const struct dp_exit_env *env;
	struct dp_error *err;
	struct range ranges[MAX_RANGES];          /* first the function itself */
	u32 nranges, at;                          /* at: the one that is looked at */
	const struct dp_func *called[MAX_RANGES]; /* parts that count as other functions */
	u32 ncalled;
	u64 table; /* that was looked at last, and what was found */
	enum way way;
	u64 *exits;
	int n, max;
};

static struct range *known(struct search *s, const struct dp_func *f)
{
	for (u32 i = 0; i < s->nranges; i++)
		if (s->ranges[i].f == f)
			return &s->ranges[i];
	return NULL;
}

/* Whether a jump to its start is a tail call. */
static bool is_function(const struct search *s, const struct dp_func *f)
{
	for (u32 i = 0; i < s->ncalled; i++)
		if (s->called[i] == f)
			return true;
	return !(f->flags & DP_FUNC_PART);
}

static int doubt(struct search *s, const char *why, u64 addr)
{
	return dp_fail(s->err, E_FUNC_EXITS, "%s at 0x%llx", why, (unsigned long long)addr);
}

/* The function at addr, as the analysis of the whole module sees it. */
static int function_at(struct search *s, u64 addr, const struct dp_func **f)
{
	struct dp_code_text *ct = dp_code_at(s->c, addr);
	int rc;

	*f = ct ? dp_text_func(&ct->t, addr) : NULL;
	rc = *f ? dp_code_settle(s->c, *f) : 0;
	if (rc)
		return dp_fail(s->err, E_FILE_MEMORY, "0x%llx", (unsigned long long)addr);
	if (*f && addr >= (*f)->hi) /* padding */
		*f = NULL;
	return 0;
}

static bool jump_fits(const struct search *s, u64 addr)
{
	struct dp_site site;

	return !dp_site_judge(&dp_code_at(s->c, addr)->t, addr, &site, NULL) && site.outcome == DP_OUTCOME_JUMP;
}

static void add_exit(struct search *s, u64 addr, u64 to)
{
	if (s->at && !jump_fits(s, addr))
		s->ranges[s->at].tight = true;
	if (s->n < s->max)
		s->exits[s->n] = addr;
	if (s->n < s->max && s->env->to)
		s->env->to[s->n] = to;
	s->n++;
}

/* Control goes on in another range which then belongs to the function. at_start: by an unconditional jump there. */
static int follow(struct search *s, const struct dp_func *f, u64 from, bool at_start)
{
	struct range *r = known(s, f);

	s->ranges[s->at].joined = true;
	if (r) {
		r->joined |= !at_start;
		return 0;
	}
	if (f->flags & DP_FUNC_UNPROVEN)
		return doubt(s, "it goes on in code that jumps to a computed address", from);
	if (s->nranges == MAX_RANGES)
		return doubt(s, "it has too many parts", from);
	s->ranges[s->nranges++] = (struct range){.f = f, .joined = !at_start};
	return 0;
}

/*
 * A tail call. A conditional one cannot be an exit: a probe on it would also be hit by calls that
 * stay.
 */
static int tail_call(struct search *s, const struct dp_insn *in, u64 from, u64 target)
{
	if (in->cls != DP_INSN_JMP_REL)
		return doubt(s, "a conditional jump leaves the function", from);
	add_exit(s, from, target);
	return 0;
}

/* A direct branch out of its range: a tail call when it goes to the start of a function. */
static int branch_out(struct search *s, const struct dp_insn *in, u64 from, u64 target)
{
	const struct dp_func *f;
	int rc = function_at(s, target, &f);

	if (rc)
		return rc;
	if (!f || (target == f->lo && f != s->ranges[0].f && is_function(s, f)))
		return tail_call(s, in, from, target);
	return follow(s, f, from, target == f->lo && in->cls == DP_INSN_JMP_REL);
}

/*
 * A jump through a table of addresses. Where the table ends is not known: at the latest with what is no label of the
 * function's. Addresses in parts that stand in front of one or between two make those the function's.
 */
static int look_through(struct search *s, u64 from, u64 table, enum way *way)
{
	const struct dp_func *parts[MAX_RANGES], *g;
	u32 nparts = 0;
	u64 to;

	*way = UNKNOWN;
	for (u64 i = 0; i < TABLE_MAX; i++) {
		int rc = s->env->pointer(s->env->arg, table + 8 * i, &to);

		if (rc < 0)
			return dp_fail(s->err, E_FILE_MEMORY, "0x%llx", (unsigned long long)table);
		if (!rc || !dp_code_at(s->c, to))
			return 0;
		if (*way == UNKNOWN)
			*way = LEAVES;
		rc = function_at(s, to, &g);
		if (rc || !g || (to == g->lo && is_function(s, g)))
			return rc;
		if (known(s, g)) {
			*way = STAYS;
			for (; nparts && !rc; nparts--)
				rc = follow(s, parts[nparts - 1], from, false);
		} else if (!is_function(s, g) && nparts < MAX_RANGES) {
			if (!nparts || parts[nparts - 1] != g)
				parts[nparts++] = g;
		} else { /* in another function */
			return 0;
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int indirect_jump(struct search *s, const struct dp_text *t, const struct dp_func *f,
			 const struct dp_trail *trail, const struct dp_insn *in, u64 off)
{
	struct dp_indirect ind;
	u64 table;
	int rc = 0;

	dp_indirect_trace(t, trail, in, off, &ind);
	s->ranges[s->at].joined = true;
	if (ind.kind == DP_INDIRECT_TABLE || ind.kind == DP_INDIRECT_SUM)
		return 0;
	table = ind.kind == DP_INDIRECT_MEMORY && ind.indexed ? ind.table : 0;
	if (table && table != s->table) {
		rc = look_through(s, t->lo + off, table, &s->way);
		s->table = table;
	}
	if (rc || (table && s->way == STAYS))
		return rc;
	if ((!table || s->way == UNKNOWN) && s->env->leaves(s->env->arg, f) < 0)
		return doubt(s, "an indirect jump may stay inside or leave", t->lo + off);
	add_exit(s, t->lo + off, DP_EXIT_ELSEWHERE);
	return 0;
}

static int one(struct search *s, const struct dp_text *t, const struct dp_func *f, const struct dp_trail *trail,
	       const struct dp_insn *in, u64 off)
{
	u64 target;

	switch (in->cls) {
	case DP_INSN_RET:
		add_exit(s, t->lo + off, 0);
		return 0;
	case DP_INSN_JMP_REL:
	case DP_INSN_JCC_REL:
	case DP_INSN_LOOP:
		dp_insn_target(in, t->lo + off, &target);
		return target >= f->lo && target < f->hi ? 0 : branch_out(s, in, t->lo + off, target);
	case DP_INSN_JMP_IND:
		return indirect_jump(s, t, f, trail, in, off);
	case DP_INSN_FAR:
		return dp_insn_falls_through(in) ? 0 : doubt(s, "a far transfer", t->lo + off);
	}
	return 0;
}

/* Code that runs off its end goes on in the next function; behind a call, the call does not return.
 */
static int run_off(struct search *s, const struct dp_text *t, const struct dp_func *f)
{
	const struct dp_func *next = NULL;
	struct dp_insn in;
	int rc;

	for (u64 a = f->hi; !next && a < t->hi; a += in.len) {
		rc = function_at(s, a, &next);
		if (rc)
			return rc;
		if (!next && (dp_insn_decode(&in, t->bytes + (a - t->lo), t->hi - a) < 0 || !dp_insn_is_nop(&in)))
			break;
	}
	if (!next)
		return doubt(s, "control runs off the end", f->hi);
	return follow(s, next, f->hi, false);
}

static int scan(struct search *s, const struct dp_func *f)
{
	const struct dp_text *t = &dp_code_at(s->c, f->lo)->t;
	u64 off = f->lo - t->lo, end = f->hi - t->lo;
	struct dp_trail trail = {.n = 0};
	struct dp_insn in = {0};
	bool real = false, falls = false;

	while (off < end) {
		int n = dp_insn_decode(&in, t->bytes + off, end - off), rc;

		if (n < 0)
			return doubt(s, "bytes that are no instruction", t->lo + off);
		rc = one(s, t, f, &trail, &in, off);
		if (rc)
			return rc;
		if (!dp_insn_is_nop(&in)) {
			real = !dp_insn_is_call(&in) && in.cls != DP_INSN_HLT && in.cls != DP_INSN_INT3 &&
			       in.cls != DP_INSN_SYSCALL;
			falls = dp_insn_falls_through(&in);
		}
		if (dp_insn_falls_through(&in))
			dp_trail_add(&trail, off);
		else
			dp_trail_reset(&trail);
		off += (u64)n;
	}
	return real && falls ? run_off(s, t, f) : 0;
}

/* Whether control arrives at an address inside it that none of its own branches and calls leads to. */
static bool entered_inside(const struct dp_text *t, const struct dp_func *f)
{
	for (u64 a = f->lo + 1; a < f->hi; a++) {
		bool own = !dp_text_is_target(t, a);
		struct dp_insn in;
		u64 target;
		int n;

		for (u64 b = f->lo; b < f->hi && !own; b += (u64)n) {
			n = dp_insn_decode(&in, t->bytes + (b - t->lo), f->hi - b);
			if (n < 0)
				return true;
			own = (dp_insn_target(&in, b, &target) && target == a) ||
			      (dp_insn_is_call(&in) && b + (u64)n == a);
		}
		if (!own)
			return true;
	}
	return false;
}

/*
 * A part counts as a function where that makes its exits places for jumps: it begins with the stack of a function's
 * entry, is only jumped to, at its start, and never goes back. Whether there was one.
 */
static bool call_parts(struct search *s)
{
	u32 before = s->ncalled;

	for (u32 i = 1; i < s->nranges; i++) {
		const struct range *r = &s->ranges[i];

		if (r->tight && !r->joined && r->f->flags & DP_FUNC_LEVEL && r->f->hi - r->f->lo <= CALLED_MAX &&
		    !entered_inside(&dp_code_at(s->c, r->f->lo)->t, r->f))
			s->called[s->ncalled++] = r->f;
	}
	return s->ncalled > before;
}

static int search_from(struct search *s, const struct dp_func *f)
{
	int rc = 0;

	s->ranges[0] = (struct range){.f = f};
	s->nranges = 1;
	s->n = 0;
	s->table = 0;
	for (s->at = 0; s->at < s->nranges && !rc; s->at++)
		rc = scan(s, s->ranges[s->at].f);
	return rc;
}

int dp_code_exits(struct dp_analysis *c, u64 addr, const struct dp_exit_env *env, u64 *exits, int max,
		  struct dp_error *err)
{
	struct search s = {.c = c, .env = env, .err = err, .exits = exits, .max = max};
	const struct dp_func *f;
	int rc = function_at(&s, addr, &f);

	if (rc)
		return rc;
	if (!f)
		return dp_fail(err, E_SITE_NOFUNC, "0x%llx", (unsigned long long)addr);
	if (f->flags & DP_FUNC_UNPROVEN)
		return dp_fail(err, E_FUNC_EXITS, "the function at 0x%llx jumps to a computed address",
			       (unsigned long long)f->lo);
	do
		rc = search_from(&s, f);
	while (!rc && call_parts(&s));
	if (rc)
		return rc;
	if (s.n > max)
		return dp_fail(err, E_FUNC_EXITS, "the function at 0x%llx has %d exits, more than %d",
			       (unsigned long long)f->lo, s.n, max);
	return s.n;
}
