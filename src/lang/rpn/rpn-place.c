/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where a probe is, as a definition begins: code, memory, a point of the kernel, or a moment of the trace. */
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/rpn-parse-priv.h"

/* FILE.c:LINE, with or without quotes around it. */
static bool set_line(struct dp_rpn_probe *probe, const char *value)
{
	char text[DP_RPN_NAME_MAX];
	struct rpn_token t = dp_rpn_token(value);
	int n = (int)strlen(value);
	const char *colon;
	char *end;

	if (t.kind == RPN_TEXT && !t.bad && dp_rpn_token(t.at + t.len).kind == RPN_END)
		n = dp_rpn_text(&t, text, sizeof(text) - 1);
	else if (n < (int)sizeof(text))
		memcpy(text, value, (size_t)n);
	else
		n = -1;
	if (n <= 0)
		return false;
	text[n] = '\0';
	colon = strrchr(text, ':');
	if (!colon || colon == text || colon[-1] == ':' || colon[1] < '1' || colon[1] > '9' ||
	    !memchr(text, '.', (size_t)(colon - text)))
		return false;
	probe->offset = (s64)strtoull(colon + 1, &end, 10);
	if (*end || probe->offset > 10000000)
		return false;
	memcpy(probe->symbol, text, (size_t)(colon - text));
	probe->symbol[colon - text] = '\0';
	probe->place = DP_RPN_LINE;
	return true;
}

/* SYMBOL, SYMBOL+N, SYMBOL-N, N, FILE:LINE; symbols may hold what C++, Go and assembler put in
 * them. */
int dp_rpn_set_place(struct rpn_parser *p, const char *value, bool absolute)
{
	struct dp_rpn_probe *probe = p->probe;
	const char *q = value;
	s64 v = 0;
	size_t n;

	if (dp_rpn_expression(&q, &v, NULL, NULL) && dp_rpn_token(q).kind == RPN_END) {
		probe->place = absolute ? DP_RPN_ADDRESS : DP_RPN_OFFSET;
		probe->offset = v;
		return 0;
	}
	if (absolute)
		return dp_rpn_bad_value(p, value);
	if (set_line(probe, value))
		return 0;
	if (*value == '"') { /* a name that is not a word */
		struct rpn_token t = dp_rpn_token(value);
		int len = t.bad ? -1 : dp_rpn_text(&t, probe->symbol, sizeof(probe->symbol) - 1);

		if (len <= 0)
			return dp_rpn_bad_value(p, value);
		q = t.at + t.len;
	} else {
		n = strcspn(value, " \t+-");
		if (!n || n >= sizeof(probe->symbol) || strcspn(value, "\"'\\") < n)
			return dp_rpn_bad_value(p, value);
		memcpy(probe->symbol, value, n);
		q = value + n;
	}
	if (dp_rpn_token(q).kind != RPN_END &&
	    (!dp_rpn_expression(&q, &v, NULL, NULL) || dp_rpn_token(q).kind != RPN_END))
		return dp_rpn_bad_value(p, value);
	probe->offset = v;
	probe->place = DP_RPN_SYMBOL;
	return 0;
}

/* [MODULE:]VARIABLE, SYMBOL+N or an address; what may stand behind it is put there at the definition's end. */
int dp_rpn_set_memory(struct rpn_parser *p, const char *value)
{
	char *to = p->probe->symbol;
	int r = dp_rpn_text_value(p, value, to, sizeof(p->probe->symbol));

	for (const char *from = to; !r && *from; from++)
		if (*from != ' ' && *from != '\t')
			*to++ = *from;
	*to = '\0';
	p->probe->place = DP_RPN_WATCH;
	return r;
}

/* NAME; of a call NAME NUMBER. Both are of the kernel. */
int dp_rpn_set_traced(struct rpn_parser *p, const char *value, bool is_call)
{
	struct rpn_token name = dp_rpn_token(value);
	const char *rest = name.at + name.len;
	char *to = p->probe->symbol;
	int n = -1;

	p->probe->place = is_call ? DP_RPN_CALL : DP_RPN_TRACEPOINT;
	if (p->u->modtype == DP_RPN_USER)
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "'%s' belongs to programs of the kernel", p->key);
	if (!is_call)
		return dp_rpn_text_value(p, value, to, sizeof(p->probe->symbol));
	if (name.kind == RPN_TEXT && !name.bad)
		n = dp_rpn_text(&name, to, sizeof(p->probe->symbol) - 1);
	if (n <= 0 || strlen(to) != (size_t)n || !dp_rpn_expression(&rest, &p->probe->offset, NULL, NULL) ||
	    dp_rpn_token(rest).kind != RPN_END || p->probe->offset < -1 || p->probe->offset > 0xffff)
		return dp_rpn_bad_value(p, value);
	return 0;
}

/* begin, end, or a number of nanoseconds. */
int dp_rpn_set_moment(struct rpn_parser *p, const char *value)
{
	s64 ns;
	int r;

	p->probe->place = !strcmp(value, "begin") ? DP_RPN_BEGIN : !strcmp(value, "end") ? DP_RPN_END : DP_RPN_TIMER;
	if (p->probe->place != DP_RPN_TIMER)
		return 0;
	r = dp_rpn_number_value(p, value, DP_RPN_TIMER_MIN, DP_RPN_TIMER_MAX, &ns);
	p->probe->offset = r ? 0 : ns;
	return r;
}
