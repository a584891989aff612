/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines of system calls (s NAME): a handler where the system is called, which keeps number and arguments, and one
 * behind it, which knows the result. Calls that do not come back are told of by the first.
 */
#include <string.h>

#include "lang/dpcc/line-priv.h"

enum call_class { NO_RETURN, EXEC, FORK, ADDRESS, CLASSES };

/* By their names, as the numbers are the machine's. */
static const char *const classes[CLASSES][5] = {
    [NO_RETURN] = {"exit", "exit_group"},
    [EXEC] = {"execve", "execveat"},
    [FORK] = {"fork", "vfork", "clone", "clone3"},
    [ADDRESS] = {"mmap", "mremap", "brk", "shmat"},
};

int dp_cc_line_calls(struct line *l)
{
	l->ev.is_return = true;
	l->ncalls = dp_syscalls_matching(l->ev.loc.symbol, l->calls, DP_SYSCALLS_MAX);
	return l->ncalls ? 0 : dp_cc_line_fail(l, (u32)l->ev.loc.column, E_CALLS_NONE, "%.80s", l->ev.loc.symbol);
}

static const char *type_of(char kind)
{
	return kind == 's' ? "char *" : kind == 'd' ? "int" : kind == 'l' ? "long" : "unsigned long";
}

static bool is_hex(char kind)
{
	return kind == 'x' || kind == 'p';
}

/* $NAME of an argument of the one call that the line means; the words that are known of each. */
bool dp_cc_line_call_name(struct line *l, u32 at, struct out_text *o)
{
	static const char *const results[] = {"ret", "retval", "error"}, *const others[] = {"call", "nr"};
	const char *p = l->text + at + 1;
	u32 n = dp_cc_word_len(p);
	char name[32], kind;

	for (u32 i = 0; i < DP_ARRAY_SIZE(results); i++)
		l->uses_result |= strlen(results[i]) == n && !memcmp(results[i], p, n);
	for (u32 i = 0; l->ncalls == 1 && i < DP_SYSCALL_ARGS; i++)
		if (dp_syscall_arg(l->calls[0], i, name, sizeof(name), &kind) > 0 && strlen(name) == n &&
		    !memcmp(name, p, n)) {
			dp_cc_out_put(o, at, "((%s)$arg%u)", type_of(kind), i + 1);
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

/* Whether __nr is in the set, as an expression. */
static void put_in(struct out_text *o, const struct set *s)
{
	dp_cc_out_put(o, 0, "(((");
	for (u32 i = 0; i + 1 < DP_ARRAY_SIZE(s->bits); i++)
		if (s->bits[i])
			dp_cc_out_put(o, 0, "__nr >> 6 == %u ? 0x%llxul : ", i, (unsigned long long)s->bits[i]);
	dp_cc_out_put(o, 0, "__nr >> 6 == %zu ? 0x%llxul : 0ul) >> (__nr & 63)) & 1)", DP_ARRAY_SIZE(s->bits) - 1,
		      (unsigned long long)s->bits[DP_ARRAY_SIZE(s->bits) - 1]);
}

static void class_of(const struct line *l, enum call_class class, struct set *s)
{
	u32 number;

	*s = (struct set){.any = false};
	for (u32 k = 0; k < DP_ARRAY_SIZE(classes[0]) && classes[class][k]; k++)
		if (dp_syscalls_matching(classes[class][k], &number, 1))
			for (u32 i = 0; i < l->ncalls; i++)
				if (l->calls[i] == number)
					add(s, number);
}

static void put_meant(const struct line *l, struct out_text *o)
{
	struct set all = {.any = false};

	if (!strcmp(l->ev.loc.symbol, "*"))
		return;
	for (u32 i = 0; i < l->ncalls; i++)
		add(&all, l->calls[i]);
	dp_cc_out_put(o, 0, "if (!");
	put_in(o, &all);
	dp_cc_out_put(o, 0, ") abort(); ");
}

/* ---- what a line shows that names no values ---- */

static void put_one(struct out_text *o, const char *name, char kind, u32 i)
{
	dp_cc_out_put(o, 0, "%s(\"%s\", (%s)$arg%u); ", is_hex(kind) ? "log_hex" : "log_as", name, type_of(kind),
		      i + 1);
}

/* Argument i of whichever call it is: by the kinds that it has. */
static void put_any(const struct line *l, struct out_text *o, u32 i)
{
	static const char kinds[] = "sdlu";
	struct set of[sizeof(kinds)] = {{.any = false}}, none = {.any = false};
	char name[32], kind;

	for (u32 k = 0; k < l->ncalls; k++) {
		int r = dp_syscall_arg(l->calls[k], i, name, sizeof(name), &kind);
		const char *at = r > 0 ? strchr(kinds, kind) : NULL;

		if (at)
			add(&of[at - kinds], l->calls[k]);
		if (!r)
			add(&none, l->calls[k]);
	}
	dp_format(name, sizeof(name), "arg%u", i + 1);
	for (u32 k = 0; kinds[k]; k++) {
		if (!of[k].any)
			continue;
		dp_cc_out_put(o, 0, "if (");
		put_in(o, &of[k]);
		dp_cc_out_put(o, 0, ") ");
		put_one(o, name, kinds[k], i);
		dp_cc_out_put(o, 0, "else ");
	}
	dp_cc_out_put(o, 0, "if (!");
	put_in(o, &none);
	dp_cc_out_put(o, 0, ") ");
	put_one(o, name, 'x', i);
}

static void put_arguments(const struct line *l, struct out_text *o)
{
	char name[32], kind;
	int r;

	if (l->ncalls > 1)
		dp_cc_out_put(o, 0, "log_as(\"call\", $call); ");
	for (u32 i = 0; i < DP_SYSCALL_ARGS; i++) {
		if (l->ncalls > 1) {
			put_any(l, o, i);
			continue;
		}
		r = dp_syscall_arg(l->calls[0], i, name, sizeof(name), &kind);
		if (r < 0)
			dp_format(name, sizeof(name), "arg%u", i + 1);
		if (r)
			put_one(o, name, r < 0 ? 'x' : kind, i);
	}
}

static void put_result(const struct line *l, struct out_text *o)
{
	struct set address;

	class_of(l, ADDRESS, &address);
	dp_cc_out_put(o, 0,
		      "if ($ret < 0 && $ret > -4096) { log_as(\"ret\", $ret); log_as(\"error\", $error); } else ");
	if (address.any) {
		dp_cc_out_put(o, 0, "if (");
		put_in(o, &address);
		dp_cc_out_put(o, 0, ") log_hex(\"ret\", $ret); else ");
	}
	dp_cc_out_put(o, 0, "log_as(\"ret\", $ret); ");
}

/* ---- the handlers ---- */

static void put_condition(struct line *l, struct out_text *o)
{
	if (!l->condition.n)
		return;
	dp_cc_out_put(o, l->condition.at[0], "if (!(");
	dp_cc_out_append(o, &l->condition);
	dp_cc_out_put(o, 0, ")) abort(); ");
}

/* What is shown of calls of this class where they begin; nothing when the line asks for what is known later. */
static void put_early(struct line *l, struct out_text *o, const struct set *s, bool is_own)
{
	if (!s->any || l->condition_waits || (is_own && l->uses_result))
		return;
	dp_cc_out_put(o, 0, "if (");
	put_in(o, s);
	dp_cc_out_put(o, 0, ") { ");
	if (is_own) {
		dp_cc_out_append(o, &l->body);
		dp_cc_out_append(o, &l->tail);
	} else {
		put_arguments(l, o);
	}
	dp_cc_out_put(o, 0, "} ");
}

static void put_head(struct line *l, struct out_text *o, const char *place, const char *handler, const char *prefix)
{
	const char *name = l->ev.is_named ? l->ev.name : strpbrk(l->ev.loc.symbol, "*?[") ? "calls" : l->ev.loc.symbol;

	dp_cc_out_put(o, (u32)l->ev.loc.column,
		      "#pragma PROBEPOINT_LOCATION(\"%s\") PROBEPOINT_HANDLER(\"__%s%u\")\nvoid __%s%u() { "
		      "log_event(\"%s/%s%.40s\"); ",
		      place, handler, l->number, handler, l->number, l->ev.group, prefix, name);
}

void dp_cc_line_put_calls(struct line *l, struct out_text *o)
{
	bool is_own = l->naggregates || l->body.n, early;
	struct set no_return, exec, forks;

	class_of(l, NO_RETURN, &no_return);
	class_of(l, EXEC, &exec);
	class_of(l, FORK, &forks);
	early = !l->condition_waits && !(is_own && l->uses_result) && (no_return.any || exec.any);
	put_head(l, o, "s", "begin", early ? "" : "entry of ");
	dp_cc_out_put(o, 0, "unsigned long __nr = $nr; ");
	put_meant(l, o);
	if (!l->condition_waits)
		put_condition(l, o);
	put_early(l, o, &no_return, is_own);
	put_early(l, o, &exec, is_own);
	if (is_own && !l->uses_result && exec.any) { /* they are told of already */
		dp_cc_out_put(o, 0, "if (!");
		put_in(o, &exec);
		dp_cc_out_put(o, 0, ") ");
	}
	dp_cc_out_put(o, 0, "__call_begin(%u, $nr, $arg1, $arg2, $arg3, $arg4, $arg5, $arg6); }\n", l->number);
	put_head(l, o, "s%return", "line", "");
	dp_cc_out_put(o, 0,
		      "long __call = __call_end(%u); if (__call < 0) abort(); unsigned long __nr = $nr; "
		      "unsigned long __took = timestamp() - $__began; ",
		      l->number);
	if (forks.any) { /* a child of vfork stands on its parent's stack, and has the parent's memory */
		dp_cc_out_put(o, 0, "if ($ret == 0 && ");
		put_in(o, &forks);
		dp_cc_out_put(o, 0, ") abort(); ");
	}
	dp_cc_out_put(o, 0, "__call_done(__call); ");
	if (l->condition_waits)
		put_condition(l, o);
	if (is_own) {
		dp_cc_out_append(o, &l->body);
		dp_cc_out_append(o, &l->tail);
	} else {
		put_arguments(l, o);
		put_result(l, o);
	}
	dp_cc_out_put(o, 0, "}\n");
}
