/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Event lines that say more than the event language: names of the program, aggregates, assignments, a body in C. Each
 * becomes a handler in C, whose text remembers where in the line it comes from, so that mistakes are shown there.
 * Reads text only; the compiler resolves the names.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "lang/dpcc/line-priv.h"

/* ---- characters ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || !c;
}

static u32 skip_blanks(const char *text, u32 at)
{
	while (text[at] && is_blank(text[at]))
		at++;
	return at;
}

static bool is_keyword(const char *p)
{
	u32 n = dp_cc_word_len(p);

	return (n == 2 && (!strncmp(p, "if", 2) || !strncmp(p, "by", 2))) || (n == 3 && !strncmp(p, "top", 3));
}

/* Where the item at `at` ends: at a blank, or, for whole expressions, at the next keyword. A comma ends it, too. */
static u32 item_end(const char *text, u32 at, bool whole)
{
	u32 end = at, last = at;

	while (text[end] && (whole || !is_blank(text[end]))) {
		if (text[end] == ',' && !whole)
			break;
		if (whole && end > at && is_blank(text[end - 1]) && is_keyword(text + end))
			break;
		end = dp_cc_step(text, end);
		if (end && !is_blank(text[end - 1]))
			last = end;
	}
	return last;
}

/* ---- what stands where ---- */

static const struct aggregate_word {
	const char *name, *builtin;
} aggregate_words[] = {
    {"count", "count"}, {"sum", "sum"},   {"min", "min"},     {"max", "max"},
    {"avg", "sum"},     {"hist", "hist"}, {"lhist", "lhist"}, {"quantiles", "quantiles"},
};

static const struct aggregate_word *aggregate_at(const char *p)
{
	u32 n = dp_cc_word_len(p);

	for (u32 i = 0; i < DP_ARRAY_SIZE(aggregate_words); i++)
		if (strlen(aggregate_words[i].name) == n && !memcmp(p, aggregate_words[i].name, n) &&
		    (p[n] == '(' || (!i && (is_blank(p[n]) || p[n] == ','))))
			return &aggregate_words[i];
	return NULL;
}

/* NAME= in front of an item: its length, or 0. */
static u32 name_before(const char *p)
{
	u32 n = dp_cc_word_len(p);

	return n && p[n] == '=' && p[n + 1] != '=' ? n : 0;
}

/* $x = E, *$p = E, $p->x = E: where the = stands; 0: it is none. */
static u32 assignment_at(const char *text, u32 at)
{
	u32 p = at;

	while (text[p] == '*')
		p++;
	if (text[p] != '$')
		return 0;
	for (p++;;) {
		if (dp_cc_is_word_char(text[p]) || text[p] == '.')
			p++;
		else if (text[p] == '-' && text[p + 1] == '>')
			p += 2;
		else if (text[p] == '[')
			p = dp_cc_step(text, p);
		else
			break;
	}
	p = skip_blanks(text, p);
	return text[p] == '=' && text[p + 1] != '=' ? p : 0;
}

static bool is_return_word(const char *p)
{
	return dp_cc_word_len(p) == 6 && !strncmp(p, "return", 6) && is_blank(p[6]);
}

/* $name that the event language does not have, and $backtrace[N]. at_return: it knows no parameters there. */
static bool is_new_name(const char *p, bool at_return)
{
	static const char *const old[] = {"retval", "stack", "comm", "backtrace", "addr", "old", "new", "arg"};
	u32 n = dp_cc_word_len(p), letters = n;

	if (n == strlen("backtrace") && !strncmp(p, "backtrace[", n + 1))
		return true;
	if (n && p[n] == '.' && isalpha((unsigned char)p[n + 1])) /* a member */
		return true;
	while (letters && isdigit((unsigned char)p[letters - 1]))
		letters--;
	for (u32 i = 0; i < DP_ARRAY_SIZE(old); i++)
		if (strlen(old[i]) == letters && !strncmp(p, old[i], letters) &&
		    (letters == n || !strcmp(old[i], "arg") || !strcmp(old[i], "stack")))
			return at_return && !strcmp(old[i], "arg");
	return n > 0;
}

/* A chain as `$p->data`, or an expression in parentheses, of which a dump can be made. */
static bool is_dumped(const char *text, u32 at, u32 end)
{
	if (at == end || !strchr("$%(", text[at]))
		return false;
	for (at = dp_cc_step(text, at); at < end; at = dp_cc_step(text, at))
		if (!dp_cc_is_word_char(text[at]) && !strchr("[.:", text[at]) && strncmp(text + at, "->", 2) != 0 &&
		    strncmp(text + at - 1, "->", 2) != 0)
			return false;
	return true;
}

/* A number alone is an index, as everywhere. */
static bool is_length(const char *text, u32 at, u32 end)
{
	for (; at < end; at++) {
		if (text[at] == '$' || text[at] == '%' || dp_cc_word_len(text + at))
			return true;
		while (at + 1 < end && dp_cc_is_word_char(text[at]) && dp_cc_is_word_char(text[at + 1]))
			at++;
	}
	return false;
}

/* %REG, $argN: it has no elements. */
static bool is_machine_word(const char *text, u32 at, u32 end)
{
	u32 name = text[at] == '%' ? at + 1 : !strncmp(text + at, "$arg", 4) ? at + 4 : end;

	for (u32 i = name; i < end; i++)
		if (!dp_cc_is_word_char(text[i]) || (text[at] == '$' && (text[i] < '0' || text[i] > '9')))
			return false;
	return name < end;
}

struct line_dump { /* where its parts begin and end */
	u32 base_end, length, length_end;
};

/* BASE[LENGTH]:x8 and BASE:x8[LENGTH]: LENGTH bytes of memory at BASE. */
static bool dump_at(const char *text, u32 at, u32 end, struct line_dump *d)
{
	static const char type[] = ":x8";
	u32 n = sizeof(type) - 1, open = 0, close = 0;
	bool is_typed_first;

	for (u32 i = at; i < end; i = dp_cc_step(text, i))
		if (text[i] == '[') {
			open = i;
			close = dp_cc_step(text, i);
		}
	is_typed_first = open >= at + n && close == end && !memcmp(text + open - n, type, n);
	*d = (struct line_dump){is_typed_first ? open - n : open, open + 1, close - 1};
	if (!open || text[close - 1] != ']' || !is_dumped(text, at, d->base_end))
		return false;
	return is_typed_first || (end - close == n && !memcmp(text + close, type, n) &&
				  (is_machine_word(text, at, open) || is_length(text, d->length, d->length_end)));
}

static bool says_more(const char *text, u32 at, bool at_return)
{
	for (at = skip_blanks(text, at); text[at];) {
		u32 name = name_before(text + at), item = at + (name ? name + 1 : 0);
		struct line_dump d;

		if (dump_at(text, item, item_end(text, item, false), &d) || text[at] == '{' ||
		    aggregate_at(text + item) || is_return_word(text + at) || assignment_at(text, at))
			return true;
		for (; text[at] && !is_blank(text[at]); at++) {
			if (text[at] == '"') {
				at = dp_cc_step(text, at) - 1;
				continue;
			}
			if ((text[at] == '$' && is_new_name(text + at + 1, at_return)) ||
			    (text[at] == '-' && text[at + 1] == '>'))
				return true;
		}
		at = skip_blanks(text, at);
	}
	return false;
}

bool dp_cc_line_says_more(const char *text)
{
	struct dp_event_line *line;
	struct dp_event ev;
	u32 behind;

	if (!dp_event_read(&line, text, false, NULL)) {
		dp_event_line_free(line);
		return false;
	}
	return !dp_event_head(&ev, text, &behind, NULL) &&
	       (ev.is_static || ev.is_call || ev.is_tracepoint ||
		says_more(text, behind, ev.is_return && strcmp(ev.loc.module, "kernel") != 0));
}

/* ---- names ---- */

/* What a value is called that got no name: its text, letters only where it is a word of the language. */
static void name_of(char *buf, size_t size, const char *text, u32 from, u32 to, bool word)
{
	size_t n = 0;

	for (u32 i = from; i < to && n + 1 < size; i++) {
		if (text[i] == '$' || (word && !dp_cc_is_word_char(text[i]) && (!n || buf[n - 1] == '_')))
			continue;
		buf[n++] = word && !dp_cc_is_word_char(text[i]) ? '_' : text[i];
	}
	while (word && n && buf[n - 1] == '_')
		n--;
	buf[n] = '\0';
}

/* A name that was made is the line's alone: a number tells two of one kind apart. False: no memory. */
static bool take_name(struct line_names *taken, const char *kind, char *name, size_t size)
{
	size_t len = strlen(name);
	char(*v)[80] = realloc(taken->v, (taken->n + 1) * sizeof(*v));

	if (!v)
		return false;
	taken->v = v;
	for (u32 i = 0, k = 2; i < taken->n; i++) {
		snprintf(v[taken->n], sizeof(*v), "%s %.60s", kind, name);
		if (strcmp(v[i], v[taken->n]))
			continue;
		snprintf(name + len, size - len, "_%u", k++);
		i = ~0u; /* from the start */
	}
	snprintf(v[taken->n++], sizeof(*v), "%s %.60s", kind, name);
	return true;
}

/* The aggregate's name: the user's, else of the function and the value. */
static bool aggregate_name(struct line *l, const char *kind, char *buf, size_t size, u32 name, u32 name_len, u32 from,
			   u32 to)
{
	char base[48], value[20];

	name_of(value, sizeof(value), l->text, from, to, true);
	if (name_len)
		snprintf(buf, size, "%.*s", (int)DP_MIN(name_len, 48u), l->text + name);
	else if (l->ev.is_named)
		snprintf(buf, size, "%.36s%s%s", l->ev.name, *value ? "_" : "", value);
	else {
		name_of(base, sizeof(base), l->ev.loc.symbol, 0, (u32)strlen(l->ev.loc.symbol), true);
		snprintf(buf, size, "%.36s%s%s", *base ? base : "hits", *value ? "_" : "", value);
	}
	if (isdigit((unsigned char)*buf))
		*buf = '_';
	return name_len || take_name(l->taken, kind, buf, size);
}

/* ---- items ---- */

static int quoted_name(struct out_text *o, u32 at, const char *name)
{
	dp_cc_out_put(o, at, "\"");
	for (; *name; name++)
		dp_cc_out_put(o, at, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
	dp_cc_out_put(o, at, "\"");
	return 0;
}

/* It has no value that the line's other parts could use. */
static int dump(struct line *l, u32 from, const struct line_dump *d, const char *name)
{
	int r;

	dp_cc_out_put(&l->body, from, "log_mem_as(");
	quoted_name(&l->body, from, name);
	dp_cc_out_put(&l->body, from, ", ");
	r = dp_cc_line_expr(l, from, d->base_end, &l->body, NULL);
	dp_cc_out_put(&l->body, d->length, ", ");
	if (!r)
		r = dp_cc_line_expr(l, d->length, d->length_end, &l->body, NULL);
	dp_cc_out_put(&l->body, d->length_end, "); ");
	l->fields[l->nfields++].name[0] = '\0';
	return r;
}

static int field(struct line *l, u32 at, u32 end)
{
	struct line_dump d;
	u32 len = name_before(l->text + at), from = at + (len ? len + 1 : 0);
	struct field *f = &l->fields[l->nfields];
	bool hex = false;
	int r;

	if (l->nfields == DP_ARRAY_SIZE(l->fields))
		return dp_cc_line_fail(l, at, E_EVENT_ARGS, "more than %zu", DP_ARRAY_SIZE(l->fields));
	if (end - from == 5 && !strncmp(l->text + from, "$args", 5)) {
		if (l->ev.is_call)
			return dp_cc_line_fail(l, from, E_EVENT_VAR, "a line without values shows all arguments");
		dp_cc_out_put(&l->body, from, "log_args(); ");
		l->uses_all = true;
		return 0;
	}
	if (len)
		snprintf(f->name, sizeof(f->name), "%.*s", (int)len, l->text + at);
	else if (l->text[from] == '$' || l->text[from] == '*')
		name_of(f->name, sizeof(f->name), l->text, from, end, false);
	else
		snprintf(f->name, sizeof(f->name), "arg%u", l->nfields + 1);
	if (!len && strrchr(f->name, ':') && !strstr(f->name, "::")) /* without its type */
		*strrchr(f->name, ':') = '\0';
	if (dump_at(l->text, from, end, &d))
		return dump(l, from, &d, f->name);
	r = dp_cc_line_expr(l, from, end, &f->value, &hex);
	if (r)
		return r;
	dp_cc_out_put(&l->body, from, hex ? "log_hex(" : "log_as(");
	quoted_name(&l->body, at, f->name);
	dp_cc_out_put(&l->body, from, ", ");
	dp_cc_out_append(&l->body, &f->value);
	dp_cc_out_put(&l->body, end, "); ");
	l->nfields++;
	return 0;
}

static int assignment(struct line *l, u32 at, u32 equals, u32 end)
{
	int r = dp_cc_line_expr(l, at, equals, &l->body, NULL);

	dp_cc_out_put(&l->body, equals, " = ");
	if (!r)
		r = dp_cc_line_expr(l, skip_blanks(l->text, equals + 1), end, &l->body, NULL);
	dp_cc_out_put(&l->body, end, "; ");
	return r;
}

/* return E: the function is left at once, as if it had returned E. */
static int skip_function(struct line *l, u32 at, u32 end)
{
	u32 from = skip_blanks(l->text, at + 6);
	int r;

	if (l->ev.is_return || l->ev.is_watch || l->ev.is_static || l->ev.is_tracepoint || l->ev.loc.offset ||
	    l->ev.loc.kind == DP_LOC_LINE)
		return dp_cc_line_fail(l, at, E_DPCC_TYPE,
				       "return is allowed only at a function's entry: p FUNCTION return VALUE");
	dp_cc_out_put(&l->body, at, "setreg(\"" DP_NAME_RESULT "\", ");
	r = dp_cc_line_expr(l, from, end, &l->body, NULL);
	dp_cc_out_put(&l->body, at,
		      "); setreg(\"" DP_NAME_IP "\", *(unsigned long *)reg(\"" DP_NAME_SP "\")); setreg(\"" DP_NAME_SP
		      "\", reg(\"" DP_NAME_SP "\") + 8); ");
	return r;
}

/* ---- aggregates: known when the line's keys are ---- */

static int remember_aggregate(struct line *l, u32 at, u32 end)
{
	u32 len = name_before(l->text + at), word = at + (len ? len + 1 : 0);
	struct line_aggregate *a = &l->aggregates[l->naggregates];
	u32 n = dp_cc_word_len(l->text + word);

	if (l->naggregates == DP_ARRAY_SIZE(l->aggregates))
		return dp_cc_line_fail(l, at, E_DPCC_LIMIT, "a line can have at most %zu aggregates",
				       DP_ARRAY_SIZE(l->aggregates));
	*a = (struct line_aggregate){.at = at, .name_len = len, .word = word, .end = end};
	if (l->text[word + n] == '(') {
		a->args = word + n + 1;
		a->args_end = end - 1;
		if (l->text[end - 1] != ')')
			return dp_cc_line_fail(l, word + n, E_EVENT_PAREN, "this ( has no )");
	}
	l->naggregates++;
	return 0;
}

/* The arguments of an aggregate, by their commas. */
static u32 split(const struct line *l, const struct line_aggregate *a, u32 *from, u32 *to)
{
	u32 n = 0, at = a->args;

	if (skip_blanks(l->text, at) >= a->args_end)
		return 0;
	while (n < 4 && at <= a->args_end) {
		u32 end = at;

		while (end < a->args_end && l->text[end] != ',')
			end = dp_cc_step(l->text, end);
		from[n] = skip_blanks(l->text, at);
		to[n++] = end;
		at = end + 1;
	}
	return n;
}

static int linear(struct line *l, const struct line_aggregate *a, const u32 *from, u32 n, long *step, long *low)
{
	char *end;
	long high;

	if (n != 4)
		return dp_cc_line_fail(l, a->word, E_DPCC_TYPE, "write lhist(VALUE, LOW, HIGH, STEP)");
	*low = strtol(l->text + from[1], &end, 0);
	high = strtol(l->text + from[2], &end, 0);
	*step = strtol(l->text + from[3], &end, 0);
	if (*step < 1 || high <= *low || (high - *low + *step - 1) / *step > DP_HIST_WORDS - 2)
		return dp_cc_line_fail(l, from[1], E_DPCC_LIMIT,
				       "LOW, HIGH and STEP must be constants that make from 1 to %d bars",
				       DP_HIST_WORDS - 2);
	return 0;
}

/* Of times it is known that they are nanoseconds. */
static bool is_duration(const struct line *l, u32 from, u32 to)
{
	while (to > from && is_blank(l->text[to - 1]))
		to--;
	return to - from == strlen("$duration") && !memcmp(l->text + from, "$duration", to - from);
}

static int put_aggregate(struct line *l, const struct line_aggregate *a)
{
	const struct aggregate_word *w = aggregate_at(l->text + a->word);
	u32 from[4], to[4], n = split(l, a, from, to);
	bool is_linear = !strcmp(w->name, "lhist"), counts = !strcmp(w->name, "count");
	long step = 0, low = 0;
	char name[64];
	int r = is_linear ? linear(l, a, from, n, &step, &low) : 0;

	if (!r && n != (counts ? 0u : is_linear ? 4u : 1u))
		r = dp_cc_line_fail(l, a->word, E_DPCC_TYPE, counts ? "count takes no value" : "%s takes one value",
				    w->name);
	if (r)
		return r;
	if (!aggregate_name(l, w->name, name, sizeof(name), a->at, a->name_len, n ? from[0] : 0, n ? to[0] : 0))
		return dp_cc_line_fail(l, a->word, E_EVENT_MEMORY, "the line");
	dp_cc_out_put(&l->tail, a->word, "%s(%s", w->builtin, name);
	if (!strcmp(w->name, "avg"))
		dp_cc_out_put(&l->tail, a->word, " : avg");
	if (n && is_duration(l, from[0], to[0]))
		dp_cc_out_put(&l->tail, a->word, " : unit ns");
	if (l->top)
		dp_cc_out_put(&l->tail, a->word, " : top %lu", l->top);
	if (low)
		dp_cc_out_put(&l->tail, a->word, " : from %ld", low);
	if (!counts) {
		dp_cc_out_put(&l->tail, from[0], ", ");
		r = dp_cc_line_expr(l, from[0], to[0], &l->tail, NULL);
	}
	if (is_linear)
		dp_cc_out_put(&l->tail, from[3], ", %ld", step);
	for (u32 i = 0; !r && i < l->nkeys; i++) {
		dp_cc_out_put(&l->tail, l->keys[i], ", ");
		r = dp_cc_line_expr(l, l->keys[i], l->key_ends[i], &l->tail, NULL);
	}
	dp_cc_out_put(&l->tail, a->end, "); ");
	return r;
}

/* A word in front of the key may be meant: count, sum. */
static int nothing_to_count(struct line *l)
{
	u32 key = l->nkeys ? l->keys[0] : 0;
	struct dp_near near = {.n = 0};
	char word[32];

	dp_cc_line_fail(l, key, E_EVENT_ARG, "there is nothing to count by this key");
	for (u32 at = l->behind, n; at < key; at += n ? n : 1) {
		n = dp_cc_word_len(l->text + at);
		dp_format(word, sizeof(word), "%.*s", (int)DP_MIN(n, 31u), l->text + at);
		for (size_t i = 0; n > 2 && i < DP_ARRAY_SIZE(aggregate_words); i++)
			dp_near_try(&near, word, aggregate_words[i].name);
	}
	dp_near_hint(&near, "", l->err);
	return -dp_error_info(E_EVENT_ARG)->number;
}

/* ---- the line ---- */

static int parse_keys(struct line *l, u32 *at)
{
	u32 start = *at;

	for (*at = skip_blanks(l->text, start + 2);
	     l->text[*at] && !is_keyword(l->text + *at) && l->text[*at] != '{';) {
		if (l->nkeys == DP_RPN_KEYS_MAX)
			return dp_cc_line_fail(l, *at, E_DPCC_LIMIT, "a key can have at most %d parts",
					       DP_RPN_KEYS_MAX);
		l->keys[l->nkeys] = *at;
		l->key_ends[l->nkeys] = item_end(l->text, *at, false);
		if (l->key_ends[l->nkeys] == *at)
			return dp_cc_line_fail(l, *at, E_EVENT_ARG, "a key is missing here");
		*at = l->key_ends[l->nkeys++];
		*at = skip_blanks(l->text, *at + (l->text[*at] == ','));
	}
	return l->nkeys ? 0 : dp_cc_line_fail(l, start, E_EVENT_ARG, "keys are missing after `by`");
}

static int parse_condition(struct line *l, u32 *at)
{
	u32 from = skip_blanks(l->text, *at + 2), end = from + (u32)strlen(l->text + from);

	bool used = l->uses_result;
	int r;

	*at = end;
	if (from == end)
		return dp_cc_line_fail(l, from, E_EVENT_ARG, "the condition is missing");
	l->uses_result = false;
	r = dp_cc_line_expr(l, from, end, &l->condition, NULL);
	l->condition_waits = l->uses_result;
	l->uses_result |= used;
	return r;
}

static int parse_item(struct line *l, u32 *at)
{
	const char *p = l->text + *at;
	u32 len = name_before(p), equals = assignment_at(l->text, *at), end;
	bool is_skip = is_return_word(p), is_aggregate = aggregate_at(p + (len ? len + 1 : 0)) != NULL;

	if (*p == '{') {
		end = dp_cc_step(l->text, *at);
		if (l->text[end - 1] != '}' || l->text[skip_blanks(l->text, end)])
			return dp_cc_line_fail(l, *at, E_DPCC_SYNTAX, "the line must end with the } of its body");
		*at = skip_blanks(l->text, end);
		dp_cc_out_put(&l->body, (u32)(p - l->text), "__no_record(); ");
		return dp_cc_line_body(l, (u32)(p - l->text), end);
	}
	end = item_end(l->text, *at, equals || is_skip);
	if (end == *at)
		return dp_cc_line_fail(l, *at, E_EVENT_ARG, "unexpected `%c`", *p);
	*at = end;
	if (is_skip)
		return skip_function(l, (u32)(p - l->text), end);
	if (equals)
		return assignment(l, (u32)(p - l->text), equals, end);
	return is_aggregate ? remember_aggregate(l, (u32)(p - l->text), end) : field(l, (u32)(p - l->text), end);
}

static int parse_top(struct line *l, u32 *at)
{
	char *end;

	l->top = strtoul(l->text + *at + 3, &end, 10);
	if (!l->top || !is_blank(*end))
		return dp_cc_line_fail(l, *at, E_EVENT_NUMBER, "top takes a number");
	*at = (u32)(end - l->text);
	return 0;
}

static int parse_line(struct line *l, u32 at)
{
	int r = 0;

	for (at = skip_blanks(l->text, at); !r && l->text[at]; at = skip_blanks(l->text, at)) {
		const char *p = l->text + at;

		if (l->text[at] == ',')
			at++;
		else if (!is_keyword(p))
			r = parse_item(l, &at);
		else if (*p == 'b')
			r = parse_keys(l, &at);
		else
			r = *p == 't' ? parse_top(l, &at) : parse_condition(l, &at);
	}
	if (!r && (l->nkeys || l->top) && !l->naggregates)
		r = nothing_to_count(l);
	for (u32 i = 0; !r && i < l->naggregates; i++)
		r = put_aggregate(l, &l->aggregates[i]);
	return r;
}

/* ---- the handler ---- */

static void put_location(struct line *l, struct out_text *o, const char *suffix)
{
	const struct dp_location *loc = &l->ev.loc;
	u32 at = (u32)loc->column;

	dp_cc_out_put(o, at, "#pragma PROBEPOINT_LOCATION(\"");
	if (l->ev.is_watch)
		dp_cc_out_put(o, at, "w %.*s", (int)(l->behind - at), l->text + at);
	else if (l->ev.is_static)
		dp_cc_out_put(o, at, "u %s", loc->symbol);
	else if (l->ev.is_tracepoint)
		dp_cc_out_put(o, at, "t %s%s%s", loc->module, loc->module[0] ? ":" : "", loc->symbol);
	else if (loc->kind == DP_LOC_FILE_OFFSET)
		dp_cc_out_put(o, at, "0x%llx", (unsigned long long)loc->offset);
	else if (loc->kind == DP_LOC_LINE)
		dp_cc_out_put(o, at, "%s:%lld", loc->symbol, (long long)loc->offset);
	else if (loc->has_offset)
		dp_cc_out_put(o, at, "%s+0x%llx", loc->symbol, (unsigned long long)loc->offset);
	else
		dp_cc_out_put(o, at, "%s", loc->symbol);
	dp_cc_out_put(o, at, "%s\") PROBEPOINT_HANDLER(\"", suffix);
}

/* A handler that makes no records. */
static void put_head(struct line *l, struct out_text *o, const char *handler)
{
	dp_cc_out_put(o, 0, "__%s%u\")\nvoid __%s%u() { log_event(\"%s/entry of %.40s\"); ", handler, l->number,
		      handler, l->number, l->ev.group, l->ev.is_named ? l->ev.name : l->ev.loc.symbol);
}

static void put_begin(struct line *l, struct out_text *o, const char *suffix)
{
	put_location(l, o, suffix);
	put_head(l, o, "begin");
	dp_cc_out_put(o, 0, "__call_begin%s(%u", l->uses_duration ? "" : "_untimed", l->number);
	for (u32 i = 0; i < l->nnames; i++) {
		dp_cc_out_put(o, l->names[i] - 1, ", ");
		dp_cc_out_add(o, l->text + l->names[i] - 1, 1 + dp_cc_word_len(l->text + l->names[i]), l->names[i] - 1,
			      true);
	}
	if (l->uses_all)
		dp_cc_out_put(o, 0, ", $args");
	dp_cc_out_put(o, 0, "); }\n");
}

/* The call goes on in another function. */
static void put_onward(struct line *l, struct out_text *o, const char *suffix)
{
	put_location(l, o, suffix);
	put_head(l, o, "onward");
	dp_cc_out_put(o, 0, "__call_pass(%u); }\n", l->number);
}

static void put_shown(struct line *l, struct out_text *o, const char *handler, const char *suffix, bool whole)
{
	put_location(l, o, suffix);
	dp_cc_out_put(o, 0, "__%s%u\")\nvoid __%s%u() { log_event(\"%s/%s%s\"); ", handler, l->number, handler,
		      l->number, l->ev.group, l->ev.is_named ? l->ev.name : "", l->ends ? DP_CC_ENDS : "");
	if (whole)
		dp_cc_out_put(o, 0, "long __call = __call_end(%u); if (__call < 0) abort(); %s__call_done(__call); ",
			      l->number, l->uses_duration ? TOOK : "");
	dp_cc_line_put_condition(l, o);
	dp_cc_out_append(o, &l->body);
	dp_cc_out_append(o, &l->tail);
	if (l->ends || (!l->naggregates && !l->body.n))
		dp_cc_out_put(o, 0, "log_here(); ");
	dp_cc_out_put(o, 0, "}\n");
}

/*
 * A line that asks for a result or a time follows calls that end by jumps to other functions, for which the whole call
 * is looked at; where it needs no more than the result, only in functions that have such jumps.
 */
static void put_handlers(struct line *l, struct out_text *o)
{
	bool whole = l->uses_duration || l->uses_all || l->nnames, asks = l->uses_duration || l->uses_retval;

	if (!l->ev.is_return) {
		put_shown(l, o, "line", "", false);
		return;
	}
	if (whole)
		put_begin(l, o, "%entry");
	else if (asks)
		put_begin(l, o, "%entry?");
	if (asks)
		put_onward(l, o, whole ? "%onward" : "%onward?");
	if (whole && !asks)
		put_shown(l, o, "line", "%return", true);
	else if (asks)
		put_shown(l, o, "line", whole ? "%returned" : "%returned?", true);
	if (!whole)
		put_shown(l, o, "result", asks ? "%return=" : "%return", false);
}

int dp_cc_line_translate(struct out_text *o, const char *text, u32 number, bool ends, struct line_names *taken,
			 struct dp_error *err)
{
	struct line *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return dp_fail(err, E_EVENT_MEMORY, "the line");
	l->text = text;
	l->taken = taken;
	l->number = number;
	l->ends = ends;
	l->err = err;
	r = dp_cc_line_is_body(text) ? dp_cc_line_moment(l, o) : dp_event_head(&l->ev, text, &l->behind, err);
	if (!r && l->ev.is_call)
		r = dp_cc_line_calls(l);
	if (!r && !*l->moment && l->ev.loc.kind == DP_LOC_ADDRESS)
		r = dp_cc_line_fail(l, (u32)l->ev.loc.column, E_EVENT_LOCATION,
				    "variables are known only in functions: give one");
	if (!r)
		r = parse_line(l, l->behind);
	if (!r && l->uses_duration && !l->ev.is_return)
		r = dp_cc_line_fail(l, l->duration_at, E_EVENT_VAR,
				    "$duration is known only where a function returns: r FUNCTION");
	if (!r)
		(*l->moment ? dp_cc_line_put_moment : l->ev.is_call ? dp_cc_line_put_calls : put_handlers)(l, o);
	if (!r && (o->failed || l->body.failed || l->tail.failed || l->condition.failed))
		r = dp_fail(err, E_EVENT_MEMORY, "the line");
	for (u32 i = 0; i < DP_ARRAY_SIZE(l->fields); i++)
		dp_cc_out_free(&l->fields[i].value);
	dp_cc_out_free(&l->body);
	dp_cc_out_free(&l->tail);
	dp_cc_out_free(&l->condition);
	free(l);
	return r;
}
