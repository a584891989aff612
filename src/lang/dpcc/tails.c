/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Functions that end by jumps to others (tail calls), which return to the caller in their place: where a call of such a
 * function goes on, so that a line that asks for its result or its time sees the real end. Calls are told apart by the
 * stack pointer, which is the same at the entry, at each jump and at the return.
 */
#include <string.h>

#include "lang/dpcc/dpcc-unit.h"

#define FOLLOWED_MAX 16 /* functions that the calls of one go on in */

struct search {
	struct unit *u;
	struct passes *p;
	u64 funcs[FOLLOWED_MAX]; /* the function itself, then those that are jumped to */
	u32 n;
};

static bool add(struct search *s, u64 addr, enum passing what)
{
	if (s->p->n == DP_ARRAY_SIZE(s->p->v))
		return false;
	s->p->v[s->p->n].addr = addr;
	s->p->v[s->p->n++].what = what;
	return true;
}

/* Probes fit at its entry and at all its exits: no line is refused for a function that it does not name. */
static bool can_be_probed(struct unit *u, u64 func)
{
	u64 exits[PLACES_MAX];
	struct dp_error err = {0};
	int n = dp_module_exits(u->c.mod, func, exits, NULL, PLACES_MAX, &err);
	bool good = n > 0 && dp_cc_unit_can_stand(u, func);

	for (int i = 0; i < n && good; i++)
		good = dp_cc_unit_can_stand(u, exits[i]);
	return good;
}

/*
 * The function at which a jump to `to` arrives; 0: it is not known. A stub of the linkage table leads to the function
 * of that name which this file defines: others are in other files.
 */
static u64 arrival(struct unit *u, u64 to)
{
	struct dp_symbol sym;
	const char *stub, *name;

	if (!dp_module_symbol_at(u->c.mod, to, &sym) || sym.addr != to)
		return 0;
	stub = strstr(sym.name, "@plt");
	if (!stub)
		return to;
	name = dp_cc_format(&u->c, "%.*s", (int)(stub - sym.name), sym.name);
	return dp_module_symbol(u->c.mod, name, &sym, NULL) || sym.is_ifunc ? 0 : sym.addr;
}

static bool can_follow(struct search *s, u64 to)
{
	if (to == DP_EXIT_ELSEWHERE || s->u->c.by_name)
		return false;
	to = arrival(s->u, to);
	for (u32 i = 0; i < s->n; i++)
		if (s->funcs[i] == to)
			return true;
	if (!to || s->n == FOLLOWED_MAX || !can_be_probed(s->u, to))
		return false;
	s->funcs[s->n++] = to;
	return true;
}

/* The exits of the function at s->funcs[i]. False: there are more places than one line can have. */
static bool see(struct search *s, u32 i, const struct tok *where)
{
	u64 exits[PLACES_MAX], to[PLACES_MAX];
	struct dp_error err = {0};
	int n = dp_module_exits(s->u->c.mod, s->funcs[i], exits, to, PLACES_MAX, &err);
	bool good = !i || add(s, s->funcs[i], PASS_ENTER);

	if (n < 0)
		dp_cc_refail(&s->u->c, where, &err);
	for (int k = 0; k < n && good; k++) {
		bool follows = to[k] && can_follow(s, to[k]);

		s->p->exits += !i;
		s->p->tails += !i && to[k];
		s->p->left += !i && to[k] && !follows;
		good = add(s, exits[k], !to[k] ? (i ? PASS_RETURN : PASS_NOTHING) : follows ? PASS_ON : PASS_LEAVE);
	}
	return good;
}

void dp_cc_unit_passes(struct unit *u, const struct tok *where, u64 func, struct passes *p)
{
	struct search s = {.u = u, .p = p, .funcs = {func}, .n = 1};

	memset(p, 0, sizeof(*p));
	for (u32 i = 0; i < s.n; i++)
		if (!see(&s, i, where))
			dp_cc_fail(&u->c, where, E_DPCC_LIMIT, "calls of this function end at more than %u places",
				   (u32)DP_ARRAY_SIZE(p->v));
	p->followed = s.n - 1;
}
