/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines of system calls (s NAME). Where it is known which call an instruction makes, one handler behind it knows all:
 * the kernel keeps the registers of the arguments. Elsewhere, and when the call's time is wanted, a handler in front
 * keeps the number, or the time, for the one behind. Calls that do not come back are told of in front.
 */
#include <string.h>

#include "lang/dpcc/line-priv.h"

enum call_class { NO_RETURN, EXEC, FORK, ADDRESS, CLASSES };

/* By their names, as the numbers are the machine's. */
static const char *const classes[CLASSES][5] = {
    [EXEC] = {"execve", "execveat"},
    [FORK] = {"fork", "vfork", "clone", "clone3"},
    [ADDRESS] = {"mmap", "mremap", "brk", "shmat"},
};

int dp_cc_line_calls(struct line *l)
{
	l->ev.is_return = true;
	l->ncalls = dp_syscalls_matching(l->ev.loc.symbol, l->calls, DP_SYSCALLS_MAX);
	if (l->ncalls)
		return 0;
	dp_cc_line_fail(l, (u32)l->ev.loc.column, E_CALLS_NONE, "%.80s", l->ev.loc.symbol);
	dp_syscall_near(l->ev.loc.symbol, l->err);
	return -dp_error_info(E_CALLS_NONE)->number;
}

static const char *type_of(char kind)
{
	return kind == 's' ? "char *" : kind == 'd' ? "int" : kind == 'l' ? "long" : "unsigned long";
}

static bool is_hex(char kind)
{
	return kind == 'x' || kind == 'p';
}

static void put_value(struct out_text *o, u32 at, const struct dp_syscall_arg *arg, u32 i)
{
	if (arg->set[0])
		dp_cc_out_put(o, at, "__set(\"%s\", $arg%u)", arg->set, i + 1);
	else
		dp_cc_out_put(o, at, "((%s)$arg%u)", type_of(arg->kind), i + 1);
}

/* Whether argument i is the same of all calls that the line means. */
static bool is_shared(const struct line *l, u32 i, const struct dp_syscall_arg *arg)
{
	struct dp_syscall_arg other;

	for (u32 k = 1; k < l->ncalls; k++)
		if (dp_syscall_arg(l->calls[k], i, &other) <= 0 || strcmp(other.name, arg->name) != 0 ||
		    strcmp(other.set, arg->set) != 0 || other.kind != arg->kind)
			return false;
	return true;
}

/* $NAME of an argument of the call that the line means, or of all of them; the words that are known of each. */
bool dp_cc_line_call_name(struct line *l, u32 at, struct out_text *o)
{
	static const char *const results[] = {"ret", "retval", "error"}, *const others[] = {"call", "nr"};
	const char *p = l->text + at + 1;
	u32 n = dp_cc_word_len(p);
	struct dp_syscall_arg arg;

	for (u32 i = 0; i < DP_ARRAY_SIZE(results); i++)
		l->uses_result |= strlen(results[i]) == n && !memcmp(results[i], p, n);
	for (u32 i = 0; i < DP_SYSCALL_ARGS; i++)
		if (dp_syscall_arg(l->calls[0], i, &arg) > 0 && strlen(arg.name) == n && !memcmp(arg.name, p, n) &&
		    is_shared(l, i, &arg)) {
			put_value(o, at, &arg, i);
			return true;
		}
	for (u32 i = 0; i < DP_ARRAY_SIZE(others); i++)
		if (strlen(others[i]) == n && !memcmp(others[i], p, n)) {
			dp_cc_out_put(o, at, "$%s", others[i]);
			return true;
		}
	return false;
}

/* ---- sets of calls ---- */

struct set {
	u64 bits[DP_SYSCALLS_MAX / 64];
	bool any;
};

static void add(struct set *s, u32 number)
{
	s->bits[number / 64] |= 1ull << number % 64;
	s->any = true;
}

static bool is_in_set(const struct set *s, u32 number)
{
	return s->bits[number / 64] >> number % 64 & 1;
}

/* Whether the call's number is in the set, as an expression. */
static void put_in(struct out_text *o, const struct line *l, const struct set *s)
{
	const char *nr = l->knows_call ? "$nr" : "__nr";

	dp_cc_out_put(o, 0, "(((");
	for (u32 i = 0; i < DP_ARRAY_SIZE(s->bits); i++)
		if (s->bits[i])
			dp_cc_out_put(o, 0, "%s >> 6 == %u ? 0x%llxul : ", nr, i, (unsigned long long)s->bits[i]);
	dp_cc_out_put(o, 0, "0ul) >> (%s & 63)) & 1)", nr);
}

static bool is_in_class(u32 number, enum call_class class)
{
	const char *name = dp_syscall_name_of(number);

	if (class == NO_RETURN)
		return !dp_syscall_returns(number);
	for (u32 k = 0; k < DP_ARRAY_SIZE(classes[0]) && classes[class][k]; k++)
		if (!strcmp(classes[class][k], name))
			return true;
	return false;
}

static void class_of(const struct line *l, enum call_class class, struct set *s)
{
	*s = (struct set){.any = false};
	for (u32 i = 0; i < l->ncalls; i++)
		if (is_in_class(l->calls[i], class))
			add(s, l->calls[i]);
}

static void put_meant(const struct line *l, struct out_text *o)
{
	struct set all = {.any = false};

	if (!strcmp(l->ev.loc.symbol, "*"))
		return;
	for (u32 i = 0; i < l->ncalls; i++)
		add(&all, l->calls[i]);
	dp_cc_out_put(o, 0, "if (!");
	put_in(o, l, &all);
	dp_cc_out_put(o, 0, ") abort(); ");
}

/* ---- what a line shows that names no values ---- */

static void put_one(struct out_text *o, const struct dp_syscall_arg *arg, u32 i)
{
	if (arg->kind == 's') /* many calls take no text as well as one */
		dp_cc_out_put(o, 0, "if (!$arg%u) log_hex(\"%s\", 0ul); else ", i + 1, arg->name);
	dp_cc_out_put(o, 0, "%s(\"%s\", ", is_hex(arg->kind) ? "log_hex" : "log_as", arg->name);
	put_value(o, 0, arg, i);
	dp_cc_out_put(o, 0, "); ");
}

/*
 * Of a call that is known at the hit only, the number is looked for by halves among ranges of calls that have the same
 * arguments, and there are as many pieces of code as different arguments.
 */
struct ranges {
	struct {
		u32 from, like; /* like: the first call that has these arguments */
		const char *args;
	} v[DP_SYSCALLS_MAX + 1];
	u32 n;
};

static bool same_arguments(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void add_range(struct ranges *r, u32 number)
{
	const char *args = dp_syscall_args(number);
	u32 k = 0;

	if (r->n && same_arguments(r->v[r->n - 1].args, args))
		return;
	while (k < r->n && !same_arguments(r->v[k].args, args))
		k++;
	r->v[r->n].like = k < r->n ? r->v[k].like : number;
	r->v[r->n].from = number;
	r->v[r->n++].args = args;
}

/* only: of these calls; NULL: of all that the line means. */
static void find_ranges(const struct line *l, const struct set *only, struct ranges *r)
{
	bool any = !only && !strcmp(l->ev.loc.symbol, "*"); /* those without a name, too */
	struct set meant = {.any = false};

	for (u32 i = 0; i < l->ncalls; i++)
		add(&meant, l->calls[i]);
	r->n = 0;
	for (u32 number = 0; number <= DP_SYSCALLS_MAX; number++) {
		bool has_name = number < DP_SYSCALLS_MAX && dp_syscall_name_of(number);

		if (has_name ? is_in_set(only ? only : &meant, number) : any)
			add_range(r, number);
	}
}

/* By name; six words where they are not known. */
static void put_arguments_of(struct out_text *o, u32 number)
{
	for (u32 i = 0; i < DP_SYSCALL_ARGS; i++) {
		struct dp_syscall_arg arg;
		int r = dp_syscall_arg(number, i, &arg);

		if (r < 0) {
			arg = (struct dp_syscall_arg){.kind = 'x'};
			dp_format(arg.name, sizeof(arg.name), "arg%u", i + 1);
		}
		if (r)
			put_one(o, &arg, i);
	}
}

static void put_range(struct out_text *o, const struct ranges *r, u32 from, u32 n, u32 choice)
{
	if (n == 1) {
		dp_cc_out_put(o, 0, "goto __call%u_%u;", choice, r->v[from].like);
		return;
	}
	dp_cc_out_put(o, 0, "if (__nr < %u) { ", r->v[from + n / 2].from);
	put_range(o, r, from, n / 2, choice);
	dp_cc_out_put(o, 0, " } else { ");
	put_range(o, r, from + n / 2, n - n / 2, choice);
	dp_cc_out_put(o, 0, " }");
}

/* Each piece of code stands where the first range of such calls is. */
static void put_any_arguments(struct line *l, struct out_text *o, const struct set *only)
{
	u32 choice = l->choices++;
	struct ranges r;

	find_ranges(l, only, &r);
	if (r.n == 1) {
		put_arguments_of(o, r.v[0].like);
		return;
	}
	put_range(o, &r, 0, r.n, choice);
	for (u32 i = 0, k; i < r.n; i++) {
		for (k = 0; r.v[k].like != r.v[i].like; k++)
			;
		if (k < i)
			continue;
		dp_cc_out_put(o, 0, " __call%u_%u: ", choice, r.v[i].like);
		put_arguments_of(o, r.v[i].like);
		dp_cc_out_put(o, 0, "goto __shown%u;", choice);
	}
	dp_cc_out_put(o, 0, " __shown%u: ; ", choice);
}

/* only: the call is one of these; NULL: one of the line's. */
static void put_arguments(struct line *l, struct out_text *o, const struct set *only)
{
	if (l->ncalls > 1)
		dp_cc_out_put(o, 0, "log_as(\"call\", $call); ");
	if (l->knows_call)
		dp_cc_out_put(o, 0, "log_args(); ");
	else if (l->ncalls > 1)
		put_any_arguments(l, o, only);
	else
		put_arguments_of(o, l->calls[0]);
}

static void put_result(const struct line *l, struct out_text *o)
{
	struct set address;

	class_of(l, ADDRESS, &address);
	dp_cc_out_put(o, 0,
		      "if ($ret < 0 && $ret > -4096) { log_as(\"ret\", $ret); log_as(\"error\", $error); } else ");
	if (address.any) {
		dp_cc_out_put(o, 0, "if (");
		put_in(o, l, &address);
		dp_cc_out_put(o, 0, ") log_hex(\"ret\", $ret); else ");
	}
	dp_cc_out_put(o, 0, "log_as(\"ret\", $ret); ");
}

/* ---- the handlers ---- */

static bool is_own(const struct line *l)
{
	return l->naggregates || l->body.n;
}

/* Whether calls that do not come back are told of where they begin: not when the line asks for what is known later. */
static bool is_early(const struct line *l)
{
	return !l->condition_waits && !(is_own(l) && l->uses_result);
}

/* What the line shows, but for what is known behind the call. */
static void put_shown(struct line *l, struct out_text *o, const struct set *only)
{
	if (is_own(l)) {
		dp_cc_out_append(o, &l->body);
		dp_cc_out_append(o, &l->tail);
		if (l->ends)
			dp_cc_out_put(o, 0, "log_here(); ");
	} else {
		put_arguments(l, o, only);
	}
}

/* What is shown of calls of this class where they begin. */
static void put_early(struct line *l, struct out_text *o, const struct set *s)
{
	if (!s->any || !is_early(l))
		return;
	dp_cc_out_put(o, 0, "if (");
	put_in(o, l, s);
	dp_cc_out_put(o, 0, ") { ");
	put_shown(l, o, s);
	dp_cc_out_put(o, 0, "} ");
}

/* The beginning of execve(), which may fail: it is told of once where the line has values of its own. */
static void leave_out_told(const struct line *l, struct out_text *o, const char *then)
{
	struct set exec;

	class_of(l, EXEC, &exec);
	if (!exec.any || !is_own(l) || !is_early(l))
		return;
	dp_cc_out_put(o, 0, "if (");
	put_in(o, l, &exec);
	dp_cc_out_put(o, 0, ") %s; ", then);
}

/* A child of vfork stands on its parent's stack, and has the parent's memory. */
static void leave_out_children(const struct line *l, struct out_text *o)
{
	struct set forks;

	class_of(l, FORK, &forks);
	if (!forks.any)
		return;
	dp_cc_out_put(o, 0, "if ($ret == 0 && ");
	put_in(o, l, &forks);
	dp_cc_out_put(o, 0, ") abort(); ");
}

static void put_place(struct line *l, struct out_text *o, const char *which, const char *pattern, const char *suffix)
{
	dp_cc_out_put(o, (u32)l->ev.loc.column, "#pragma PROBEPOINT_LOCATION(\"s%s %s%s\") ", which, pattern, suffix);
}

static void put_head(struct line *l, struct out_text *o, const char *handler, const char *prefix)
{
	const char *name = l->ev.is_named ? l->ev.name : strpbrk(l->ev.loc.symbol, "*?[") ? "calls" : l->ev.loc.symbol;

	dp_cc_out_put(o, (u32)l->ev.loc.column,
		      "PROBEPOINT_HANDLER(\"__%s%u\")\nvoid __%s%u() { log_event(\"%s/%s%.40s%s\"); ", handler,
		      l->number, handler, l->number, l->ev.group, prefix, name, l->ends ? DP_CC_ENDS : "");
}

/* The calls that the first handler must know of itself; of others the host may keep the number, for the second one. */
static void leave_to_host(const struct line *l, struct out_text *o)
{
	static const enum call_class own[] = {NO_RETURN, EXEC, FORK};
	struct set all = {.any = false}, s;

	if (l->uses_duration)
		return;
	for (u32 i = 0; i < DP_ARRAY_SIZE(own); i++) {
		class_of(l, own[i], &s);
		for (u32 k = 0; k < DP_ARRAY_SIZE(s.bits); k++)
			all.bits[k] |= s.bits[k];
		all.any |= s.any;
	}
	dp_cc_out_put(o, 0, "if (__kept >= 0");
	if (all.any) {
		dp_cc_out_put(o, 0, " && !");
		put_in(o, l, &all);
	}
	dp_cc_out_put(o, 0, ") abort(); ");
}

/*
 * The number of the call, by what the host or the first handler has kept. What the first one looks at has not been
 * looked at in a call that was left to the host.
 */
static void put_number(struct line *l, struct out_text *o)
{
	if (l->uses_duration) {
		dp_cc_out_put(o, 0, "if ($__kept >= 0) abort(); long __call = __call_end(%u); ", l->number);
		dp_cc_out_put(o, 0, "if (__call < 0) abort(); unsigned long __nr = $nr; " TOOK);
		return;
	}
	dp_cc_out_put(o, 0, "long __kept = $__kept; unsigned long __nr = __kept; ");
	dp_cc_out_put(o, 0, "if (__kept >= 0) { ");
	put_meant(l, o);
	dp_cc_out_put(o, 0, "} long __call = -1; if (__kept < 0) { __call = __call_end(%u); ", l->number);
	dp_cc_out_put(o, 0, "if (__call < 0) abort(); __nr = $nr; } long __number = __nr; ");
}

static void put_done(struct line *l, struct out_text *o)
{
	if (l->uses_duration) {
		dp_cc_out_put(o, 0, "__call_done(__call); ");
		return;
	}
	dp_cc_out_put(o, 0, "if (__kept < 0) __call_done(__call); ");
	if (l->condition_waits || !l->condition.n)
		return;
	dp_cc_out_put(o, 0, "if (__kept >= 0) { ");
	dp_cc_line_put_condition(l, o);
	dp_cc_out_put(o, 0, "} ");
}

/* Two handlers, of which the first keeps what the second asks for. */
static void put_pair(struct line *l, struct out_text *o, const char *which)
{
	struct set no_return, exec;

	class_of(l, NO_RETURN, &no_return);
	class_of(l, EXEC, &exec);
	put_place(l, o, which, l->ev.loc.symbol, "");
	put_head(l, o, "begin", is_early(l) && (no_return.any || exec.any) ? "" : "entry of ");
	dp_cc_out_put(o, 0, "unsigned long __nr = $nr; long __kept = $__kept; ");
	put_meant(l, o);
	leave_to_host(l, o);
	if (!l->condition_waits)
		dp_cc_line_put_condition(l, o);
	put_early(l, o, &no_return);
	put_early(l, o, &exec);
	leave_out_told(l, o, "return");
	dp_cc_out_put(o, 0, "__call_begin%s(%u, $nr); }\n", l->uses_duration ? "" : "_untimed", l->number);
	put_place(l, o, which, l->ev.loc.symbol, "%return");
	put_head(l, o, "line", "");
	put_number(l, o);
	leave_out_children(l, o);
	put_done(l, o);
	if (l->condition_waits)
		dp_cc_line_put_condition(l, o);
	put_shown(l, o, NULL);
	if (!is_own(l))
		put_result(l, o);
	dp_cc_out_put(o, 0, "}\n");
}

/* Of instructions of which the call is known: one behind it, since the kernel keeps the arguments' registers. */
static void put_one_each(struct line *l, struct out_text *o)
{
	bool any = false;

	l->knows_call = true;
	put_place(l, o, "=", l->ev.loc.symbol, "%return");
	put_head(l, o, "known", "");
	leave_out_told(l, o, "abort()");
	leave_out_children(l, o);
	dp_cc_line_put_condition(l, o);
	put_shown(l, o, NULL);
	if (!is_own(l))
		put_result(l, o);
	dp_cc_out_put(o, 0, "}\n");
	for (u32 i = 0; i < l->ncalls && is_early(l); i++) {
		if (!is_in_class(l->calls[i], NO_RETURN) && !is_in_class(l->calls[i], EXEC))
			continue;
		put_place(l, o, "=", dp_syscall_name_of(l->calls[i]), "");
		any = true;
	}
	if (any) {
		put_head(l, o, "early", "");
		dp_cc_line_put_condition(l, o);
		put_shown(l, o, NULL);
		dp_cc_out_put(o, 0, "}\n");
	}
	l->knows_call = false;
}

void dp_cc_line_put_calls(struct line *l, struct out_text *o)
{
	if (!l->uses_duration) /* first: mistakes are told where it is known which call it is */
		put_one_each(l, o);
	put_pair(l, o, l->uses_duration ? "" : "?");
}
