/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Places: each becomes one or more instructions of the module, and each of these a probe definition of
 * its own, because a variable is somewhere else at each. In the kernel they stay names, with an offset.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/dpcc-unit.h"
#include "lang/event/event.h"
#include "symbols/copies.h"
#include "symbols/statics.h"
#include "symbols/sym-lines.h"
#include "symbols/variable.h"

/* What was made of the place's other instructions of this kind, if it serves all; NULL: there is none. */
static struct made *made_alike(struct unit *u, const struct place_def *d, const struct target *target, bool is_entry)
{
	if (u->made_for != d) {
		u->nmade = 0;
		memset(u->texts, 0, sizeof(u->texts));
	}
	u->made_for = d;
	for (u32 i = 0; i < u->nmade; i++)
		if (dp_cc_unit_is_alike(&u->made[i].target, target) && u->made[i].is_entry == is_entry)
			return &u->made[i];
	return NULL;
}

/* Whether the program that was just made, or that there is none, serves all instructions of its kind. */
static bool serves_all(const struct unit *u)
{
	return !u->c.is_of_place && !u->c.by_name && !u->c.opt->tree && !u->c.opt->vars_at &&
	       u->nmade < DP_ARRAY_SIZE(u->made);
}

/* False: there is nothing to see at this instruction. */
static bool probe_target(struct unit *u, const struct place_def *d, struct target target)
{
	struct tok token = dp_cc_pragma_token(d->line, d->line->text);
	char where[300] = "", text[32];
	struct dp_symbol sym = {.addr = ~0ull};
	struct made *made;
	u32 before = u->nprobes;
	size_t text_before = u->c.all.n;
	u64 offset, addr = target.pc;

	if (dp_module_symbol_at(u->c.mod, addr, &sym) && *sym.name)
		dp_format(where, sizeof(where), "%s+0x%llx", dp_cc_one_line(&u->c, sym.name),
			  (unsigned long long)(addr - sym.addr));
	else if (u->c.by_name)
		dp_cc_fail(&u->c, &token, E_SYM_NONE, "no symbol of the kernel is at 0x%llx", (unsigned long long)addr);
	if (!dp_module_addr_to_offset(u->c.mod, addr, &offset))
		dp_cc_fail(&u->c, &token, E_SITE_NOTEXT, "0x%llx is in no segment of the module",
			   (unsigned long long)addr);
	made = made_alike(u, d, &target, sym.addr == addr);
	if (made) {
		if (made->program)
			dp_cc_unit_repeat(u, d, target, offset, made);
		return made->program;
	}
	dp_format(text, sizeof(text), "0x%llx", (unsigned long long)offset);
	dp_cc_unit_probe(u, d, target, where, u->c.by_name ? dp_cc_unit_kernel_offset(u, where, &sym, addr) : text);
	if (!serves_all(u)) {
		if (u->nprobes == before)
			return false;
		dp_cc_unit_merge(u, target, sym.addr == addr, offset, text_before);
		return true;
	}
	made = &u->made[u->nmade++];
	*made = (struct made){.target = target, .is_entry = sym.addr == addr};
	if (!u->c.no_result)
		dp_cc_unit_made(u, made);
	return made->program;
}

static void probe_at(struct unit *u, const struct place_def *d, u64 addr)
{
	probe_target(u, d, (struct target){.pc = addr});
}

/* ---- places ---- */

struct matches {
	struct dpcc *c;
	u64 *v;
	u32 n, room;
};

static int add_match(const struct dp_symbol *sym, void *arg)
{
	struct matches *m = arg;

	if (sym->is_ifunc)
		return 0;
	if (m->n == m->room) {
		u64 *old = m->v;

		m->room = DP_MAX(2 * m->room, 64u);
		m->v = dp_cc_alloc(m->c, m->room * sizeof(*m->v));
		for (u32 i = 0; i < m->n; i++)
			m->v[i] = old[i];
	}
	m->v[m->n++] = sym->addr;
	return 0;
}

static void lines_place(struct unit *u, const struct place_def *d, const struct tok *where, u32 file_len, u32 line)
{
	const char *file = dp_cc_text(&u->c, d->location, file_len);
	u64 addrs[DP_LINE_COPIES_MAX];
	struct dp_error err = {0};
	u32 used;
	int n = dp_module_line(u->c.mod, file, line, addrs, DP_LINE_COPIES_MAX, &used, &err);

	if (n < 0)
		dp_cc_refail(&u->c, where, &err);
	if (used != line)
		dp_cc_unit_note(u, "%s has no code: line %u is used instead", d->location, used);
	if (n > 1)
		dp_cc_unit_note(u, "%s has %d places", d->location, n);
	for (int i = 0; i < n; i++)
		probe_at(u, d, addrs[i]);
}

/* ---- returns, and whole calls ---- */

/* What stands behind a function's name, without the % in front. */
static const struct call_place {
	const char *suffix;
	enum { EVERY_EXIT, CALL_BEGINS, CALL_GOES_ON, CALL_ENDS } what;
	char which; /* '?': of functions that end by jumps to others, '=': of others, 0: of all */
} call_places[] = {
    {"return", EVERY_EXIT, 0},    {"return=", EVERY_EXIT, '='},  {"entry", CALL_BEGINS, 0},
    {"entry?", CALL_BEGINS, '?'}, {"onward", CALL_GOES_ON, 0},   {"onward?", CALL_GOES_ON, '?'},
    {"returned", CALL_ENDS, 0},   {"returned?", CALL_ENDS, '?'},
};

/* NULL: there is none. */
static const struct call_place *call_place_of(const char *location)
{
	const char *sign = strchr(location, '%');

	for (u32 i = 0; sign && i < DP_ARRAY_SIZE(call_places); i++)
		if (!strcmp(sign + 1, call_places[i].suffix))
			return &call_places[i];
	return NULL;
}

/* Of what has the name: that symbol, all functions, or its copies in others as well. */
enum extent { ALONE, FUNCTIONS, CALLS };

struct begins { /* where calls of a function begin: functions, behind them copies in others */
	u64 *v;
	u32 functions, n;
};

static struct begins begins_of(struct unit *u, const struct tok *where, const char *name, enum extent extent, bool tell)
{
	struct dp_error err = {0};
	struct dp_func_copies copies;
	char text[DP_FUNC_COPIES_TEXT];
	struct begins b;

	if (dp_module_copies(u->c.mod, name, extent == CALLS, &copies, &err))
		dp_cc_refail(&u->c, where, &err);
	if (extent == ALONE)
		copies.functions = 1;
	b.functions = copies.functions;
	b.n = copies.functions + copies.inlined;
	b.v = dp_cc_alloc(&u->c, b.n * sizeof(*b.v));
	memcpy(b.v, copies.at, b.n * sizeof(*b.v));
	if (tell && dp_func_copies_text(&copies, name, text, sizeof(text)))
		dp_cc_unit_note(u, "%s %s", name, text);
	dp_func_copies_free(&copies);
	return b;
}

static bool belongs(const struct call_place *of, enum passing what)
{
	return of->what == CALL_ENDS      ? what == PASS_NOTHING || what == PASS_RETURN
	       : of->what == CALL_GOES_ON ? what == PASS_ENTER || what == PASS_ON || what == PASS_LEAVE
					  : false;
}

/* Once for each line: of the places where its calls end. */
static void tell_passes(struct unit *u, const struct tok *where, const char *name, const struct passes *p)
{
	if (!p->exits)
		dp_cc_fail(&u->c, where, E_FUNC_EXITS, "%s never returns", name);
	if (p->left == p->exits)
		dp_cc_fail(&u->c, where, E_FUNC_TAIL, "%s ends by jumps to other functions", name);
	if (p->left)
		dp_cc_unit_note(u, "%s " DP_TAIL_CALLS, name, p->left, p->exits);
	if (p->followed)
		dp_cc_unit_note(u, "%s ends by jumps to other functions: the returns of %u of them are probed, too",
				name, p->followed);
}

static void passes_of(struct unit *u, const struct place_def *d, const struct call_place *of, u64 func,
		      const struct passes *p, bool any_followed)
{
	if (of->which == '?' && !p->tails)
		return;
	if (of->what == CALL_BEGINS)
		probe_target(u, d, (struct target){.pc = func, .passing = any_followed ? PASS_BEGIN : PASS_NOTHING});
	for (u32 i = 0; i < p->n; i++)
		if (belongs(of, p->v[i].what))
			probe_target(u, d,
				     (struct target){.pc = p->v[i].addr,
						     .is_return = of->what == CALL_ENDS,
						     .passing = p->v[i].what,
						     .asked = func});
}

/* What is known of a call is the same for a function and its clones, which are told of together. */
static void passes_place(struct unit *u, const struct place_def *d, const struct tok *where, const char *name,
			 const struct call_place *of, bool alone)
{
	struct begins b = begins_of(u, where, name, alone ? ALONE : FUNCTIONS, of->what == CALL_ENDS);
	struct passes *p = dp_cc_alloc(&u->c, b.n * sizeof(*p)), *all = dp_cc_alloc(&u->c, sizeof(*all));

	for (u32 i = 0; i < b.n; i++) {
		dp_cc_unit_passes(u, where, b.v[i], &p[i]);
		all->exits += p[i].exits;
		all->tails += p[i].tails;
		all->left += p[i].left;
		all->followed += p[i].followed;
	}
	if (of->what == CALL_ENDS && (of->which != '?' || all->tails))
		tell_passes(u, where, name, all);
	for (u32 i = 0; i < b.n; i++)
		passes_of(u, d, of, b.v[i], &p[i], all->followed);
}

u32 dp_cc_unit_idle_lines(struct unit *u)
{
	struct passes *p = dp_cc_alloc(&u->c, sizeof(*p));
	struct dp_func_copies copies;
	u32 idle = 0;

	for (const struct place_def *d = u->places; d; d = d->next) {
		const struct call_place *of = call_place_of(d->location);
		const char *name = dp_cc_text(&u->c, d->location, strcspn(d->location, "%"));
		struct tok where = dp_cc_pragma_token(d->line, d->line->text);
		u32 tails = 0;

		if (!of || of->what != CALL_BEGINS || !of->which)
			continue;
		if (u->c.mod && !strpbrk(name, "*?[") && !dp_module_copies(u->c.mod, name, false, &copies, NULL)) {
			for (u32 i = 0; i < copies.functions; i++) {
				dp_cc_unit_passes(u, &where, copies.at[i], p);
				tails += p->tails;
			}
			dp_func_copies_free(&copies);
		}
		idle += !tails;
	}
	return idle;
}

struct exits { /* of one function, and where those that are jumps lead */
	u64 v[PLACES_MAX], to[PLACES_MAX];
	int n;
};

static void find_exits(struct unit *u, const struct tok *where, u64 func, struct exits *e)
{
	struct dp_error err = {0};

	e->n = dp_module_exits(u->c.mod, func, e->v, e->to, PLACES_MAX, &err);
	if (e->n < 0)
		dp_cc_refail(&u->c, where, &err);
}

/* Those that are jumps are left out where the result is asked for. */
static void exits_at(struct unit *u, const struct place_def *d, const struct exits *e, bool jumps_too, u32 *left_out)
{
	for (int i = 0; i < e->n; i++) {
		struct target target = {.pc = e->v[i], .is_return = true, .is_jump = e->to[i]};
		bool is_seen = (!e->to[i] || jumps_too) && probe_target(u, d, target);

		*left_out += !is_seen;
	}
}

static void returns_place(struct unit *u, const struct place_def *d, const struct tok *where, const char *name,
			  char which, bool alone)
{
	struct begins b = begins_of(u, where, name, alone ? ALONE : FUNCTIONS, !which);
	struct passes *p = dp_cc_alloc(&u->c, sizeof(*p));
	struct exits exits;
	u32 left_out = 0, all = 0, looked_at = 0;

	for (u32 i = 0; i < b.n; i++) {
		if (which)
			dp_cc_unit_passes(u, where, b.v[i], p);
		if (which && p->tails) /* another handler is for these */
			continue;
		find_exits(u, where, b.v[i], &exits);
		exits_at(u, d, &exits, true, &left_out);
		all += (u32)exits.n;
		looked_at++;
	}
	if (!looked_at)
		return;
	if (!all)
		dp_cc_fail(&u->c, where, E_FUNC_EXITS, "%s never returns", name);
	if (u->c.opt->tree || u->c.opt->vars_at)
		return;
	if (left_out == all)
		dp_cc_fail(&u->c, where, E_FUNC_TAIL, "%s ends by jumps to other functions", name);
	if (left_out)
		dp_cc_unit_note(u, "%s " DP_TAIL_CALLS, name, (int)left_out, (int)all);
}

/* ---- functions ---- */

/* NAME, NAME+N: the function itself and, for the name alone, its clones and inlined copies. */
static void function_place(struct unit *u, const struct place_def *d, const struct tok *where, const char *name,
			   u64 offset, bool has_offset)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	struct begins b;
	u32 left_out = 0, no_room = 0;

	if (has_offset) {
		if (dp_module_symbol(u->c.mod, name, &sym, &err))
			dp_cc_refail(&u->c, where, &err);
		probe_at(u, d, sym.addr + offset);
		return;
	}
	b = begins_of(u, where, name, CALLS, true);
	for (u32 i = 0; i < b.n; i++) {
		bool is_copy = i >= b.functions;

		if (is_copy && no_room + 1 < b.n && !dp_cc_unit_can_stand(u, b.v[i])) { /* the last is refused */
			no_room++;
			continue;
		}
		left_out += !probe_target(u, d, (struct target){.pc = b.v[i], .copy_of = is_copy ? name : NULL}) &&
			    is_copy && u->c.no_result;
	}
	if (no_room)
		dp_cc_unit_note(u, DP_FUNC_NO_ROOM, name, no_room, no_room == 1 ? "y is" : "ies are");
	if (left_out && left_out == b.n - no_room) {
		dp_cc_fail(&u->c, where, E_SYM_NONE, DP_FUNC_INLINED, name, b.n, b.n == 1 ? "" : "s");
	} else if (left_out) {
		dp_cc_unit_note(u, DP_FUNC_COPIES_OUT, name, left_out, left_out == 1 ? "y is" : "ies are");
	}
}

/* FUNCTION, FUNCTION+N, FUNCTION%return, PATTERN in the running kernel, by BTF. */
static void kernel_place(struct unit *u, const struct place_def *d, const struct tok *where, char *name, u64 offset,
			 bool is_return)
{
	const char *names[PLACES_MAX] = {name};
	bool is_pattern = strpbrk(name, "*?[");
	u32 n = 1;

	if (!is_pattern && !is_return && dp_cc_unit_needs_debug(u, name, offset)) {
		function_place(u, d, where, name, offset, offset);
		u->c.mod = NULL;
		return;
	}
	if (is_pattern) {
		n = dp_cc_btf_functions(&u->c, name, names, PLACES_MAX);
		if (!n)
			dp_cc_fail(&u->c, where, E_SYM_NONE, "no function matches %s", name);
		if (n == PLACES_MAX) /* and there may be more */
			dp_cc_fail(&u->c, where, E_PROG_LIMIT, "%s matches more than %u functions", name, n);
		dp_cc_unit_note(u, "%s matches %u function%s", name, n, n == 1 ? "" : "s");
	}
	for (u32 i = 0; i < n; i++) {
		struct target target = {.pc = offset, .is_return = is_return, .func = names[i]};
		const char *text = offset ? dp_cc_format(&u->c, "%s+0x%llx", names[i], (unsigned long long)offset)
					  : names[i];

		dp_cc_unit_probe(u, d, target, "", text);
	}
}

struct search_near {
	struct dp_near near;
	const char *word;
};

static int see_near(const struct dp_symbol *sym, void *arg)
{
	struct search_near *s = arg;

	dp_near_try(&s->near, s->word, sym->name);
	return 0;
}

/* Functions are suggested that are like what the pattern has beside its signs. */
static _Noreturn void no_match(struct unit *u, const struct tok *where, const char *pattern)
{
	char word[128] = "";
	struct search_near s = {.word = word};
	size_t n = 0;

	for (const char *p = pattern; *p && n + 1 < sizeof(word); p++)
		if (!strchr("*?[]", *p))
			word[n++] = *p;
	dp_module_each_func(u->c.mod, "*", see_near, &s);
	dp_cc_fail_near(&u->c, where, E_SYM_NONE, &s.near, "no function matches %s", pattern);
}

/*
 * Of many places in a process that a pattern means, those are left out where no jump fits: the others are not refused
 * for them.
 */
bool dp_cc_unit_can_stand(struct unit *u, u64 addr)
{
	const struct dp_text *text;
	struct dp_site site;
	struct dp_error err = {0};

	return u->c.by_name || u->c.opt->all_places ||
	       (!dp_module_text(u->c.mod, addr, &text, &err) && !dp_site_judge(text, addr, &site, &err) &&
		site.outcome == DP_OUTCOME_JUMP);
}

/* A call is seen whole or not at all: its function's entry and all of its exits have room. */
static bool call_can_stand(struct unit *u, u64 func, const struct exits *e)
{
	for (int i = 0; i < e->n; i++)
		if (!dp_cc_unit_can_stand(u, e->v[i]))
			return false;
	return dp_cc_unit_can_stand(u, func);
}

static void tell_matches(struct unit *u, const struct tok *where, const char *name, u32 found, u32 all)
{
	u32 left_out = all - found;

	if (!left_out)
		dp_cc_unit_note(u, "%s matches %u function%s", name, all, all == 1 ? "" : "s");
	else if (found)
		dp_cc_unit_note(u, "%s matches %u functions; %u of them %s left out: no room for a jump", name, all,
				left_out, left_out == 1 ? "is" : "are");
	else
		dp_cc_fail(&u->c, where, E_SITE_TRAP, "no jump fits on a function that matches %.100s", name);
}

/* It is known elsewhere, perhaps, of which a pattern means more than one. */
static bool is_of_variable(u32 code)
{
	return code == E_VAR_GONE || code == E_VAR_NONE || code == E_EVENT_VAR || code == E_EVENT_ARGN ||
	       code == E_LINE_NODEBUG;
}

/* Functions of a pattern that are passed over, since something that the program names is not known there. */
struct unknown {
	struct dp_error first;
	u64 addr; /* of that one */
	u32 n;
};

static void probe_if_known(struct unit *u, const struct place_def *d, u64 addr, struct unknown *none)
{
	struct dpcc *c = &u->c;
	size_t text = c->all.n;
	u32 nprobes = u->nprobes;
	bool bare = c->bare;
	jmp_buf out;

	memcpy(&out, &c->out, sizeof(out));
	if (!setjmp(c->out)) {
		probe_at(u, d, addr);
		memcpy(&c->out, &out, sizeof(out));
		return;
	}
	memcpy(&c->out, &out, sizeof(out));
	if (!is_of_variable(c->err->code))
		longjmp(c->out, 1);
	if (!none->n++) {
		none->first = *c->err;
		none->addr = addr;
	}
	*c->err = (struct dp_error){0};
	c->all.n = text;
	c->bare = bare;
	c->in_helpers = false;
	u->nprobes = nprobes;
}

/* Nobody is to look for these in vain; and a word that is known nowhere is a mistake. */
static void tell_unknown(struct unit *u, const char *name, const struct unknown *none, u32 found)
{
	const char *code = dp_error_info(none->first.code)->name;
	struct dp_symbol sym = {.name = ""};

	if (none->n == found) {
		*u->c.err = none->first;
		longjmp(u->c.out, 1);
	}
	dp_module_symbol_at(u->c.mod, none->addr, &sym);
	dp_cc_unit_note(u, "%s: %u function%s left out, where a variable is not known: %s in %.60s%s", name, none->n,
			none->n == 1 ? " is" : "s are", code, dp_cc_one_line(&u->c, sym.name),
			none->n == 1 ? "" : ", for instance");
}

static void patterns_place(struct unit *u, const struct place_def *d, const struct tok *where, const char *name,
			   const struct call_place *of)
{
	struct matches m = {.c = &u->c};
	u32 jumps = 0, before = u->nprobes, found = 0;
	struct exits exits = {.n = 0};
	struct unknown none = {.n = 0};
	int n = 0;

	dp_module_each_func(u->c.mod, name, add_match, &m);
	if (!m.n)
		no_match(u, where, name);
	if (of && (of->which == '?' || of->what == CALL_GOES_ON)) /* a function may jump to another one that matches */
		return;
	for (u32 i = 0; i < m.n; i++) {
		if (of)
			find_exits(u, where, m.v[i], &exits);
		if (!call_can_stand(u, m.v[i], &exits)) /* it has no exits where they do not matter */
			continue;
		found++;
		if (of && of->what != CALL_BEGINS) {
			n += exits.n;
			exits_at(u, d, &exits, of->what == EVERY_EXIT, &jumps);
		} else if (of) {
			probe_at(u, d, m.v[i]);
		} else {
			probe_if_known(u, d, m.v[i], &none);
		}
	}
	tell_matches(u, where, name, found, m.n);
	if (none.n)
		tell_unknown(u, name, &none, found);
	if (n && u->nprobes == before && !u->c.opt->tree)
		dp_cc_fail(&u->c, where, E_FUNC_TAIL, "the functions that match %s end by jumps to others", name);
	if (jumps)
		dp_cc_unit_note(u, "%s: " DP_TAIL_CALLS, name, (int)jumps, n);
}

/* u PATTERN: the static probes that match. */
static bool is_static(const struct place_def *d)
{
	return d->location[0] == 'u' && d->location[1] == ' ';
}

static void statics_place(struct unit *u, const struct place_def *d, const struct tok *where)
{
	const char *pattern = d->location + 2;
	const struct dp_static *v;
	u32 n = u->c.mod && !u->c.by_name ? dp_module_statics(u->c.mod, &v) : 0, found = 0, left_out = 0;
	bool many = strpbrk(pattern, "*?[");
	const char *caveat = NULL;
	u64 offset;

	for (u32 i = 0; i < n; i++) {
		struct target target = {.pc = v[i].addr, .note = &v[i]};

		if (!dp_static_matches(&v[i], pattern))
			continue;
		if (many && !dp_cc_unit_can_stand(u, v[i].addr)) {
			left_out++;
			continue;
		}
		if (!dp_module_addr_to_offset(u->c.mod, v[i].addr, &offset))
			dp_cc_fail(&u->c, where, E_SITE_NOTEXT, "0x%llx is in no segment of the module",
				   (unsigned long long)v[i].addr);
		dp_cc_unit_probe(u, d, target, dp_cc_format(&u->c, "%s:%s", v[i].provider, v[i].name),
				 dp_cc_format(&u->c, "0x%llx", (unsigned long long)offset));
		found++;
		caveat = dp_static_caveat(u->c.mod, &v[i]);
	}
	if (caveat && !many)
		dp_cc_unit_note(u, "%s: %s", pattern, caveat);
	if (left_out)
		dp_cc_unit_note(u, "%u of %u static probes left out: no room for a jump", left_out, left_out + found);
	if (!found && left_out)
		dp_cc_fail(&u->c, where, E_SITE_TRAP, "%.100s", pattern);
	if (!found)
		dp_cc_fail(&u->c, where, E_STATIC_NONE, "%.100s in %.80s", pattern,
			   u->c.mod ? dp_module_base(u->c.mod) : "the kernel");
}

/* t [SYSTEM:]PATTERN: the tracepoints of the kernel, or of the module, that match. */
bool dp_cc_unit_is_tracepoint(const struct place_def *d)
{
	return d->location[0] == 't' && d->location[1] == ' ';
}

static void tracepoints_place(struct unit *u, const struct place_def *d, const struct tok *where)
{
	struct dpcc *c = &u->c;
	char system[DP_TRACEPOINT_TEXT];
	const char *name = dp_tracepoint_split(d->location + 2, system, sizeof(system));
	const char *module = u->modtype == DP_RPN_KMOD ? u->modname : "";
	struct dp_error err = {0};
	u32 found = 0;

	if (!c->by_name)
		dp_cc_fail(c, where, E_TRACEPOINT_NONE, "%.100s in a process", name);
	if (c->mod)
		dp_cc_fail(c, where, E_KERNEL_BTF, "arguments of tracepoints are not read from a debug file");
	if (!c->tracepoints.v && dp_tracepoints_read(&c->tracepoints, &err))
		dp_cc_refail(c, where, &err);
	for (u32 i = 0; i < c->tracepoints.n; i++) {
		const struct dp_tracepoint *t = &c->tracepoints.v[i];
		const char *func = dp_cc_btf_tracepoint(c, t->name);

		if (strcmp(t->module, module) || !dp_tracepoint_matches(t, system, name))
			continue;
		dp_cc_unit_probe(u, d, (struct target){.func = func ? func : t->name, .tracepoint = t}, "", t->name);
		found++;
	}
	if (!found) {
		dp_tracepoints_none(&c->tracepoints, system, name, &err);
		dp_cc_refail(c, where, &err);
	}
	if (found > 1)
		dp_cc_unit_note(u, "%s: %u tracepoints", d->location + 2, found);
}

static void watch_place(struct unit *u, const struct place_def *d, const struct tok *where)
{
	struct dpcc *c = &u->c;
	struct target target = {.func = c->mod ? NULL : ""};
	struct dp_event ev = {0};
	struct dp_error err = {0};
	struct dp_symbol sym;
	Dwarf_Die type;
	bool typed, plain;
	u64 size = 0;
	int r = dp_event_parse(&ev, d->location, &err);

	dp_event_free(&ev);
	if (r)
		dp_cc_refail(c, where, &err);
	plain = c->mod && ev.loc.kind == DP_LOC_SYMBOL && !ev.loc.module[0];
	if (ev.watch_type == DP_WATCH_X) {
		if (plain && !dp_module_symbol(c->mod, ev.loc.symbol, &sym, NULL))
			target.pc = sym.addr + (u64)ev.loc.offset;
	} else if (c->by_name && !ev.watch_len) {
		dp_cc_fail(c, where, E_WATCH_SIZE, "%.100s", d->location + 2);
	} else {
		if (plain && dp_variable_type(c->mod, ev.loc.symbol, &typed, &type, &size, &err))
			dp_cc_refail(c, where, &err);
		target.watched_as = plain && !ev.loc.offset ? dp_cc_text(c, ev.loc.symbol, strlen(ev.loc.symbol))
							    : NULL;
		target.watched = ev.watch_len ? ev.watch_len : target.watched_as && size ? size : 8;
	}
	dp_cc_unit_probe(u, d, target, "", d->location + 2);
}

/* i begin, i end, i 1s, i 100ms: bodies that belong to no hit. */
bool dp_cc_unit_is_moment(const struct place_def *d)
{
	return d->location[0] == 'i' && d->location[1] == ' ';
}

static void moment_place(struct unit *u, const struct place_def *d, const struct tok *where)
{
	const char *p = d->location + 2;
	struct target target = {.body = p};
	u64 ns;

	if (!strcmp(p, "begin") || !strcmp(p, "end")) {
		dp_cc_unit_probe(u, d, target, "", p);
		return;
	}
	if (!dp_cc_period(p, &ns))
		dp_cc_fail(&u->c, where, E_DPCC_PRAGMA,
			   "the location must be begin, end or a period from 1ms to 86400s");
	target.body = dp_cc_format(&u->c, "%llu", (unsigned long long)ns);
	dp_cc_unit_probe(u, d, target, "", target.body);
}

void dp_cc_unit_place(struct unit *u, const struct place_def *d)
{
	struct tok where = dp_cc_pragma_token(d->line, d->line->text);
	char *name = dp_cc_text(&u->c, d->location, strlen(d->location)), *end, *sign;
	u32 file_len, line;
	const struct call_place *of;
	bool has_offset = false;
	u64 offset = 0;

	if (!d->handler)
		dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "a PROBEPOINT_HANDLER for %.60s is missing", d->location);
	if (dp_cc_unit_is_watch(d)) {
		watch_place(u, d, &where);
		return;
	}
	if (dp_cc_unit_is_moment(d)) {
		moment_place(u, d, &where);
		return;
	}
	if (dp_cc_unit_is_call(d)) {
		dp_cc_unit_calls(u, d, &where);
		return;
	}
	if (dp_cc_unit_is_tracepoint(d)) {
		tracepoints_place(u, d, &where);
		return;
	}
	if (is_static(d)) {
		statics_place(u, d, &where);
		return;
	}
	if (dp_line_parse(name, &file_len, &line)) {
		bool is_looked_up = !u->c.mod;

		if (is_looked_up)
			dp_cc_unit_use_debug(u, &where);
		lines_place(u, d, &where, file_len, line);
		if (is_looked_up)
			u->c.mod = NULL;
		return;
	}
	of = call_place_of(name);
	if (of)
		*strchr(name, '%') = '\0';
	sign = strrchr(name, '+');
	if (sign && sign != name) {
		offset = strtoull(sign + 1, &end, 0);
		has_offset = !*end && end != sign + 1;
		if (has_offset)
			*sign = '\0';
		else
			offset = 0;
	}
	if (!u->c.mod) {
		if (!of || (of->which != '?' && of->what != CALL_GOES_ON))
			kernel_place(u, d, &where, name, offset, of && of->what != CALL_BEGINS);
	} else if (strpbrk(name, "*?[")) {
		patterns_place(u, d, &where, name, of);
	} else if (of && of->what == EVERY_EXIT) {
		returns_place(u, d, &where, name, of->which, has_offset);
	} else if (of) {
		passes_place(u, d, &where, name, of, has_offset);
	} else if (*name >= '0' && *name <= '9') {
		offset = strtoull(name, &end, 0);
		if (*end || !dp_module_number_to_addr(u->c.mod, offset, &offset))
			dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "%s is not a place in the module", name);
		probe_at(u, d, offset);
	} else {
		function_place(u, d, &where, name, offset, has_offset);
	}
}
