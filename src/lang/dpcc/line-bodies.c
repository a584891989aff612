/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines that are of no place: begin { }, end { } and timers, i:1s. Their bodies are run by the control side. The first
 * assignment to a name in begin { } declares a variable of all bodies.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lang/dpcc/line-priv.h"

static bool is_word_and_brace(const char *text, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(text, word, n) && text[n + strspn(text + n, " \t")] == '{';
}

static bool is_timer(const char *text)
{
	return text[0] == 'i' && text[1] == ':';
}

bool dp_cc_line_is_body(const char *text)
{
	return is_timer(text) || is_word_and_brace(text, "begin") || is_word_and_brace(text, "end");
}

/* ---- times ---- */

#define UNIT_MIN 1000000 /* ms */

bool dp_cc_period(const char *text, u64 *ns)
{
	char *end;
	double v = strtod(text, &end), most = (double)DP_RPN_TIMER_MAX, least = (double)DP_RPN_TIMER_MIN;
	u32 len;
	u64 unit = dp_time_unit(end, &len);

	if (!isdigit((unsigned char)*text) || end == text || unit < UNIT_MIN || end[len])
		return false;
	v *= (double)unit;
	*ns = v >= least && v <= most ? (u64)v : 0;
	return *ns;
}

/* i:1s: what stands behind the colon; false: told already. */
static int timer_head(struct line *l)
{
	size_t n = strcspn(l->text + 2, " \t{");
	char period[32];
	u64 ns;

	snprintf(period, sizeof(period), "%.*s", (int)DP_MIN(n, sizeof(period) - 1), l->text + 2);
	if (!dp_cc_period(period, &ns))
		return dp_cc_line_fail(l, 2, E_EVENT_NUMBER,
				       "a timer's period must be from 1ms to 86400s: i:1s, i:100ms");
	snprintf(l->moment, sizeof(l->moment), "%s", period);
	snprintf(l->ev.name, sizeof(l->ev.name), "i_%.20s", period);
	for (char *p = l->ev.name; *p; p++)
		if (*p == '.')
			*p = '_';
	l->behind = (u32)n + 2;
	return 0;
}

/* ---- begin: declarations and statements ---- */

static bool is_statement_word(const char *p, u32 n)
{
	static const char *const words[] = {"if",   "else",   "for",      "while", "do",      "switch", "case",
					    "goto", "return", "continue", "break", "default", "try",    "throw"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == n && !memcmp(words[i], p, n))
			return true;
	return false;
}

/* long x, struct a *p: two words, or a word and a star in front of one. */
static bool is_declaration(const char *p)
{
	u32 n = dp_cc_word_len(p);
	const char *q = p + n + strspn(p + n, " \t*");

	return n && !is_statement_word(p, n) && q > p + n && dp_cc_word_len(q);
}

static bool is_number(const char *text, u32 from, u32 to)
{
	for (; from < to; from++)
		if (dp_cc_word_len(text + from) && !isdigit((unsigned char)text[from - 1]) &&
		    !dp_cc_is_word_char(text[from - 1]))
			return false;
		else if (text[from] == '$' || text[from] == '%')
			return false;
	return true;
}

static bool is_taken(struct line *l, const char *name, u32 n)
{
	for (u32 i = 0; i < l->ndeclared; i++)
		if (dp_cc_word_len(l->text + l->declared[i]) == n && !memcmp(l->text + l->declared[i], name, n))
			return true;
	return false;
}

/* The statement from at to end, its semicolon not included. */
static int begin_statement(struct line *l, struct out_text *o, u32 at, u32 end)
{
	const char *p = l->text + at;
	u32 n = dp_cc_word_len(p), equals = at + n + (u32)strspn(p + n, " \t");
	int r;

	if ((n == 4 && !strncmp(p, "KEYS", 4)) || (n == 7 && !strncmp(p, "THREADS", 7))) {
		if (l->text[equals] != '(')
			return dp_cc_line_fail(l, at, E_DPCC_SYNTAX, "write %.*s(NUMBER) here", (int)n, p);
		dp_cc_out_put(o, at, "\n#pragma ");
		dp_cc_out_add(o, p, end - at, at, true);
		dp_cc_out_put(o, at, "\n");
		return 0;
	}
	if (is_declaration(p)) {
		dp_cc_out_add(o, p, end - at, at, true);
		dp_cc_out_put(o, end, "; ");
		return 0;
	}
	if (n && l->text[equals] == '=' && l->text[equals + 1] != '=' && !is_taken(l, p, n)) {
		bool first = is_number(l->text, equals + 1, end);

		if (l->ndeclared == DP_ARRAY_SIZE(l->declared))
			return dp_cc_line_fail(l, at, E_DPCC_LIMIT, "a line can declare at most %zu variables",
					       DP_ARRAY_SIZE(l->declared));
		l->declared[l->ndeclared++] = at;
		dp_cc_out_put(o, at, "long ");
		dp_cc_out_add(o, p, first ? end - at : n, at, true);
		dp_cc_out_put(o, end, "; ");
		if (first)
			return 0;
	}
	r = dp_cc_line_body(l, at, end);
	dp_cc_out_put(&l->body, end, "; ");
	return r;
}

/* What stands between the braces: to the next semicolon, or behind a block. */
static int begin_body(struct line *l, struct out_text *o)
{
	u32 open = (u32)(strchr(l->text, '{') - l->text), close = dp_cc_step(l->text, open) - 1;
	int r = 0;

	if (l->text[close] != '}' || l->text[close + 1 + strspn(l->text + close + 1, " \t\r\n")])
		return dp_cc_line_fail(l, open, E_DPCC_SYNTAX, "the line must end with the } of its body");
	for (u32 at = open + 1, end; !r; at = end + (end < close && l->text[end] == ';')) {
		at += (u32)strspn(l->text + at, " \t\r\n;");
		if (at >= close)
			break;
		for (end = at; end < close && l->text[end] != ';';) {
			bool block = l->text[end] == '{';

			end = dp_cc_step(l->text, end);
			if (block)
				break;
		}
		r = begin_statement(l, o, at, end);
	}
	return r;
}

int dp_cc_line_moment(struct line *l, struct out_text *o)
{
	int r = 0;

	snprintf(l->ev.group, sizeof(l->ev.group), "dprobes");
	l->ev.is_named = true;
	if (is_timer(l->text)) {
		r = timer_head(l);
	} else {
		bool begin = *l->text == 'b';

		snprintf(l->moment, sizeof(l->moment), begin ? "begin" : "end");
		snprintf(l->ev.name, sizeof(l->ev.name), "%s", l->moment);
		l->behind = begin ? (u32)strlen(l->text) : 3;
		if (begin)
			r = begin_body(l, o);
	}
	return r;
}

/* The handler, unless there is nothing to do. */
void dp_cc_line_put_moment(struct line *l, struct out_text *o)
{
	bool empty = !l->naggregates && !l->body.n;

	if (!strcmp(l->moment, "begin") && empty) {
		dp_cc_out_put(o, 0, "\n");
		return;
	}
	dp_cc_out_put(o, 0,
		      "\n#pragma PROBEPOINT_LOCATION(\"i %s\") PROBEPOINT_HANDLER(\"__run%u\")\nvoid __run%u() { "
		      "log_event(\"%s/%s\"); ",
		      l->moment, l->number, l->number, l->ev.group, l->ev.name);
	dp_cc_line_put_condition(l, o);
	dp_cc_out_append(o, &l->body);
	dp_cc_out_append(o, &l->tail);
	if (empty)
		dp_cc_out_put(o, 0, "log_here(); ");
	dp_cc_out_put(o, 0, "}\n");
}
