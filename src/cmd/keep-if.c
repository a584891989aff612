/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `--keep-if 'r FUNCTION if CONDITION'`: the two events that mark a request, and the condition, which is checked where
 * the records are read, not in the process (run/run-keep.h).
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd-trace.h"

#define EXAMPLE "for example: --keep-if 'r handle if $duration > 10ms || $retval:s32 < 0'"

struct parse {
	const char *at;
	struct dp_keep_rule *rule;
	u32 depth;
};

static void skip_blanks(struct parse *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool next_is(struct parse *p, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(p);
	if (strncmp(p->at, word, n) != 0)
		return false;
	p->at += n;
	return true;
}

/* -1: there are too many. */
static int add_node(struct parse *p, struct dp_keep_node node)
{
	if (p->rule->n == DP_KEEP_NODES)
		return -1;
	p->rule->v[p->rule->n] = node;
	return (int)p->rule->n++;
}

static bool take_type(struct parse *p, struct dp_keep_node *n)
{
	static const struct {
		const char *name;
		u8 bytes;
		bool is_signed;
	} types[] = {{"s8", 1, true},  {"s16", 2, true},  {"s32", 4, true},  {"s64", 8, true},
		     {"u8", 1, false}, {"u16", 2, false}, {"u32", 4, false}, {"u64", 8, false},
		     {"x8", 1, false}, {"x16", 2, false}, {"x32", 4, false}, {"x64", 8, false}};

	n->bytes = 8;
	n->is_signed = true;
	if (*p->at != ':')
		return true;
	p->at++;
	for (size_t i = 0; i < DP_ARRAY_SIZE(types); i++)
		if (next_is(p, types[i].name)) {
			n->bytes = types[i].bytes;
			n->is_signed = types[i].is_signed;
			return true;
		}
	return false;
}

static bool take_comparison(struct parse *p, struct dp_keep_node *n)
{
	static const struct {
		const char *text;
		enum dp_keep_op op;
	} ops[] = {{"<=", DP_KEEP_LE}, {">=", DP_KEEP_GE}, {"==", DP_KEEP_EQ},
		   {"!=", DP_KEEP_NE}, {"<", DP_KEEP_LT},  {">", DP_KEEP_GT}};

	for (size_t i = 0; i < DP_ARRAY_SIZE(ops); i++)
		if (next_is(p, ops[i].text)) {
			n->op = ops[i].op;
			return true;
		}
	return false;
}

static bool take_value(struct parse *p, struct dp_keep_node *n)
{
	char word[32], *end;
	size_t len;
	u64 ns;

	skip_blanks(p);
	len = strcspn(p->at, " \t)&|");
	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, p->at, len);
	word[len] = '\0';
	p->at += len;
	errno = 0;
	if (n->duration && dp_cmd_parse_time(word, &ns)) {
		n->value = (s64)ns;
		return true;
	}
	n->value = n->is_signed ? strtoll(word, &end, 0) : (s64)strtoull(word, &end, 0);
	return !*end && !errno && (n->is_signed || word[0] != '-');
}

static int take_term(struct parse *p)
{
	struct dp_keep_node n = {.duration = next_is(p, "$duration")};

	if (!n.duration && !next_is(p, "$retval"))
		return -1;
	if (n.duration)
		n.bytes = 8; /* in nanoseconds, unsigned */
	else if (!take_type(p, &n))
		return -1;
	return take_comparison(p, &n) && take_value(p, &n) ? add_node(p, n) : -1;
}

static int take_any(struct parse *p);

static int take_factor(struct parse *p)
{
	int a;

	if (++p->depth > DP_KEEP_NODES)
		return -1;
	if (next_is(p, "!")) {
		a = take_factor(p);
		return a < 0 ? a : add_node(p, (struct dp_keep_node){.op = DP_KEEP_NOT, .a = (u8)a});
	}
	if (!next_is(p, "("))
		return take_term(p);
	a = take_any(p);
	return a >= 0 && next_is(p, ")") ? a : -1;
}

/* Of operands of the stronger operator: all (&&), or any (||). */
static int take_chain(struct parse *p, const char *sign, enum dp_keep_op op, int (*operand)(struct parse *p))
{
	int a = operand(p);

	while (a >= 0 && next_is(p, sign)) {
		int b = operand(p);

		a = b < 0 ? b : add_node(p, (struct dp_keep_node){.op = op, .a = (u8)a, .b = (u8)b});
	}
	return a;
}

static int take_all(struct parse *p)
{
	return take_chain(p, "&&", DP_KEEP_AND, take_factor);
}

static int take_any(struct parse *p)
{
	return take_chain(p, "||", DP_KEEP_OR, take_all);
}

/* "r FUNCTION if CONDITION": the length of the function; 0: it is none of that form. */
static size_t split(const char *text, const char **function, const char **condition)
{
	size_t n;

	if (text[0] != 'r' || !isspace((unsigned char)text[1]))
		return 0;
	*function = text + 1 + strspn(text + 1, " \t");
	n = strcspn(*function, " \t");
	*condition = *function + n + strspn(*function + n, " \t");
	if (!n || strncmp(*condition, "if", 2) != 0 || !isspace((unsigned char)(*condition)[2]))
		return 0;
	*condition += 2;
	return n;
}

/* An event of --dump-on that looks at the duration of its call: it is judged as --keep-if is. */
static bool asks_for_time(const struct trace *t)
{
	return t->dump_on && strstr(t->dump_on, "$duration");
}

static bool asks_for_result(const struct dp_keep_rule *rule)
{
	for (u32 i = 0; i < rule->n; i++)
		if (rule->v[i].op <= DP_KEEP_NE && !rule->v[i].duration)
			return true;
	return false;
}

/* The events of entry and return: the first and the last of all, so that a request holds what is at the same places. */
static int add_marks(struct trace *t, const char *function, size_t n, struct dp_error *err)
{
	char entry[600], end[600];
	struct event_line last;
	int r;

	if (n > 500)
		return dp_fail(err, E_CMD_EVENTS, "%.100s...", function);
	snprintf(entry, sizeof(entry), "p:" DP_KEEP_GROUP "/request %.*s sp=%%sp", (int)n, function);
	snprintf(end, sizeof(end), "r:" DP_KEEP_GROUP "/request_end %.*s sp=%%sp%s", (int)n, function,
		 asks_for_result(&t->rule) ? " value=$retval:u64" : "");
	r = dp_event_lines_add(&t->lines, entry, "--keep-if: ", err);
	if (r)
		return r;
	last = t->lines.v[t->lines.n - 1];
	memmove(t->lines.v + 1, t->lines.v, (t->lines.n - 1) * sizeof(last));
	t->lines.v[0] = last;
	return dp_event_lines_add(&t->lines, end, "--keep-if: ", err);
}

int dp_cmd_keep_if(struct trace *t)
{
	struct parse p = {.rule = &t->rule};
	struct dp_error err = {0};
	const char *function, *option = t->keep_if ? "--keep-if" : "--dump-on", *text = t->keep_if;
	size_t n;

	if (asks_for_time(t) && t->keep_if)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them",
				  "--keep-if cannot be used with $duration in --dump-on");
	if (asks_for_time(t)) {
		text = t->dump_on;
		t->rule.asks = true;
		t->dump_on = NULL;
	}
	if (!text)
		return t->rule.outside || t->rule.unfinished
			   ? dp_ui_fail(E_CMD_MISSING, EXAMPLE, "%s, and no --keep-if",
					t->rule.outside ? "--keep-outside" : "--keep-unfinished")
			   : CMD_OK;
	if (!t->lines.n && !t->of_programs)
		return dp_ui_fail(E_CMD_MISSING, "for example: 'p libc:malloc bytes=%di'", "no event");
	n = split(text, &function, &p.at);
	if (!n)
		return dp_ui_fail(E_CMD_VALUE, EXAMPLE, "%s wants the return of a function with a condition", option);
	if (take_any(&p) < 0 || (skip_blanks(&p), *p.at))
		return dp_ui_fail(E_CMD_VALUE, EXAMPLE,
				  "%s compares $duration and $retval with numbers; not understood: '%s'", option,
				  dp_ui_clean(*p.at ? p.at : text));
	if (add_marks(t, function, n, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	t->run.rule = &t->rule;
	return CMD_OK;
}

void dp_cmd_keep_if_tell(const struct trace *t, const struct dp_keep_counts *c)
{
	dp_ui_note("%llu records in %llu requests passed over, %llu requests kept; %llu records outside of requests "
		   "passed over",
		   (unsigned long long)c->passed_records, (unsigned long long)c->passed, (unsigned long long)c->kept,
		   (unsigned long long)c->outside);
	if (c->unfinished)
		dp_ui_note("%llu requests did not return, and are %s", (unsigned long long)c->unfinished,
			   t->rule.unfinished ? "among those that were kept" : "passed over");
	if (c->cut)
		dp_ui_note("%llu records were dropped from requests with more than %u KiB of them",
			   (unsigned long long)c->cut, DP_KEEP_BYTES >> 10);
}
