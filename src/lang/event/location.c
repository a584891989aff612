/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The location of an event: MODULE:SYMBOL+OFFSET%return and its variants. Names of C++ and Go
 * contain most of the characters that have a meaning here, so what stands inside parentheses,
 * angle brackets and quotes is passed over. Resolves nothing.
 */
#include "lang/event/event-priv.h"

/* What is passed over while looking for a character with a meaning. */
struct nesting {
	u32 parens, angles;
};

static bool is_outside(const struct nesting *n)
{
	return !n->parens && !n->angles;
}

/* The characters before p are the C++ word `operator`. */
static bool after_operator(const char *text, u32 at)
{
	return at >= 8 && !memcmp(text + at - 8, "operator", 8) && (at == 8 || !dp_ev_is_word(text[at - 9]));
}

/* "operator new(...)" or "operator bool()": the blank after the word belongs to the name. */
static bool is_operator_name(const char *p)
{
	if (*p++ != ' ')
		return false;
	while (dp_ev_is_word(*p) || *p == ':' || *p == '*' || *p == '&' || *p == '[' || *p == ']')
		p++;
	return *p == '(';
}

/*
 * Step over one unit (a character, a quoted text, an operator's name); returns the position
 * behind it. `end` bounds what may be looked at.
 */
static u32 skip(const char *text, u32 at, u32 end, struct nesting *n)
{
	char c = text[at++];

	if (c == '"') {
		while (at < end && text[at] != '"')
			at += text[at] == '\\' && at + 1 < end ? 2 : 1;
		return DP_MIN(at + 1, end);
	}
	if (c == '(') {
		n->parens++;
	} else if (c == ')') {
		n->parens -= n->parens > 0;
	} else if (c == '<' && !n->parens) {
		n->angles++;
	} else if (c == '>' && !n->parens && at >= 2 && text[at - 2] != '-') {
		n->angles -= n->angles > 0;
	}
	if (after_operator(text, at)) {
		/* operator<<, operator->*, operator(), operator new: none of it means anything here
		 */
		if (at + 1 < end && text[at] == '(' && text[at + 1] == ')')
			return at + 2;
		if (is_operator_name(text + at))
			return at + 1;
		while (at < end && !dp_ev_is_word(text[at]) && !dp_ev_is_blank(text[at]) && text[at] != '(' &&
		       text[at] != '"')
			at++;
	}
	return at;
}

/* " const" behind a member function. */
static bool is_const_suffix(const char *p)
{
	return !strncmp(p, " const", 6) && !dp_ev_is_word(p[6]) && p[6] != '=';
}

/* Where the location ends: at the first blank that does not belong to a name. */
static int find_end(struct dp_event_line *l, u32 *end)
{
	const char *text = l->text;
	u32 at = l->pos, len = l->pos + (u32)strlen(text + l->pos);
	struct nesting n = {0, 0};

	while (at < len &&
	       (!is_outside(&n) || !dp_ev_is_blank(text[at]) || (text[at - 1] == ')' && is_const_suffix(text + at))))
		at = is_outside(&n) && text[at] == ' ' ? at + 6 : skip(text, at, len, &n);
	if (n.parens)
		return dp_ev_fail(l, l->pos, E_EVENT_PAREN, "in the name that begins here");
	/* An angle bracket that is not closed was none: end at the first blank then. */
	if (n.angles)
		for (at = l->pos; at < len && !dp_ev_is_blank(text[at]);)
			at++;
	*end = at;
	return 0;
}

/*
 * The first (or last) place in [from, end) where `is` holds outside of names; end when nowhere.
 */
static u32 find(const char *text, u32 from, u32 end, bool last, bool (*is)(const char *text, u32 at))
{
	struct nesting n = {0, 0};
	u32 found = end;

	for (u32 at = from; at < end; at = skip(text, at, end, &n)) {
		if (!is_outside(&n) || !is(text, at))
			continue;
		found = at;
		if (!last)
			break;
	}
	return found;
}

static bool is_module_colon(const char *text, u32 at)
{
	return text[at] == ':' && text[at + 1] != ':' && (at == 0 || text[at - 1] != ':');
}

static bool is_percent(const char *text, u32 at)
{
	return text[at] == '%';
}

static bool is_wildcard(const char *text, u32 at)
{
	return text[at] == '*' || text[at] == '?';
}

static bool is_plus(const char *text, u32 at)
{
	return text[at] == '+';
}

/* A sign with nothing but a number behind it, up to the end of the location. */
static bool is_offset(const char *text, u32 at)
{
	const char *p = text + at + 1;

	if ((text[at] != '+' && text[at] != '-') || !dp_ev_is_digit(*p))
		return false;
	while (dp_ev_is_word(*p))
		p++;
	return dp_ev_is_blank(*p) || *p == '%' || (*p == ':' && p[1] != ':');
}

/* Copy [from, to) without surrounding quotes. */
static int copy(struct dp_event_line *l, char *dst, u32 size, u32 from, u32 to)
{
	const char *p = l->text;
	u32 len = 0;

	if (to - from >= 2 && p[from] == '"' && p[to - 1] == '"') {
		from++;
		to--;
	}
	for (u32 i = from; i < to; i++) {
		if (p[i] == '"')
			return dp_ev_fail(l, i, E_EVENT_QUOTE, "the quotes must enclose the whole name");
		if (p[i] == '\\' && i + 1 < to)
			i++;
		if (len + 1 >= size)
			return dp_ev_fail(l, from, E_EVENT_LOCATION, "the name has more than %u characters", size - 1);
		dst[len++] = p[i];
	}
	dst[len] = '\0';
	if (!len)
		return dp_ev_fail(l, from, E_EVENT_LOCATION, "a name is missing here");
	return 0;
}

/* An address, or an offset in the file of the module. */
static int parse_number(struct dp_event_line *l, u32 end)
{
	struct dp_location *loc = &l->ev->loc;
	u64 v;
	int ret = dp_ev_number(l, false, &v);

	if (ret)
		return ret;
	if (l->pos < end && l->text[l->pos] == '(')
		return dp_ev_fail(l, l->pos, E_EVENT_REFCTR, "`%.*s`", (int)(end - l->pos), l->text + l->pos);
	if (l->pos != end)
		return dp_ev_fail(l, l->pos, E_EVENT_LOCATION, "unexpected `%c` behind the number", l->text[l->pos]);
	if (loc->module[0]) {
		loc->kind = DP_LOC_FILE_OFFSET;
		if (v > (~0ull >> 1))
			return dp_ev_fail(l, l->pos, E_EVENT_OFFSET, "no file is that long");
		loc->offset = (s64)v;
	} else {
		loc->kind = DP_LOC_ADDRESS;
		loc->address = v;
	}
	return 0;
}

static int parse_offset(struct dp_event_line *l, u32 end)
{
	bool negative = l->text[l->pos] == '-';
	u32 start = l->pos++;
	u64 v;

	if (dp_ev_number(l, false, &v) < 0 || l->pos != end || v > (~0ull >> 1))
		return dp_ev_fail(l, start, E_EVENT_OFFSET, "`%.*s`", (int)(end - start), l->text + start);
	l->ev->loc.offset = negative ? -(s64)v : (s64)v;
	l->ev->loc.has_offset = true;
	return 0;
}

static int parse_symbol(struct dp_event_line *l, u32 end)
{
	struct dp_location *loc = &l->ev->loc;
	u32 offset = find(l->text, l->pos, end, true, is_offset);
	u32 plus = find(l->text, l->pos, offset, false, is_plus);
	int ret;

	if (plus < offset)
		return dp_ev_fail(l, plus, E_EVENT_OFFSET, "`%.*s`", (int)(end - plus), l->text + plus);
	ret = copy(l, loc->symbol, sizeof(loc->symbol), l->pos, offset);
	if (ret)
		return ret;
	loc->kind = find(l->text, l->pos, offset, false, is_wildcard) < offset ? DP_LOC_PATTERN : DP_LOC_SYMBOL;
	l->pos = offset;
	return offset < end ? parse_offset(l, end) : 0;
}

static int parse_suffix(struct dp_event_line *l, u32 at, u32 end)
{
	if (end - at != 7 || memcmp(l->text + at, "%return", 7)) {
		int ret = dp_ev_fail(l, at, E_EVENT_SUFFIX, "`%.*s`", (int)(end - at), l->text + at);

		dp_error_hint(l->err, "did you mean %%return? Arguments need a blank before them");
		return ret;
	}
	if (l->ev->is_watch) {
		int ret = dp_ev_fail(l, at, E_EVENT_SUFFIX, "memory does not return");

		dp_error_hint(l->err, "watch with w, probe returns with r");
		return ret;
	}
	l->ev->is_return = true;
	return 0;
}

/* FILE:LINE behind the module; false when it is none. */
static bool parse_line(struct dp_event_line *l, u32 end)
{
	struct dp_location *loc = &l->ev->loc;
	u32 colon = find(l->text, l->pos, end, true, is_module_colon), start = l->pos;
	u64 v;

	if (!loc->module[0] || colon == end || !dp_ev_is_digit(l->text[colon + 1]) ||
	    copy(l, loc->symbol, sizeof(loc->symbol), start, colon))
		return false;
	l->pos = colon + 1;
	if (dp_ev_number(l, false, &v) || l->pos != end || !v || v > 10000000) {
		l->pos = start;
		return false;
	}
	loc->kind = DP_LOC_LINE;
	loc->offset = (s64)v;
	return true;
}

/* The module is a source file by its name, and a line stands behind it: FILE.c:LINE of whatever module has it. */
static bool is_source(const char *name)
{
	static const char *const endings[] = {".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".rs", ".go", ".s", ".S"};
	const char *dot = NULL;

	for (const char *p = name; *p; p++)
		dot = *p == '.' ? p : dot;
	for (u32 i = 0; dot && i < DP_ARRAY_SIZE(endings); i++)
		if (!strcmp(dot, endings[i]))
			return true;
	return false;
}

/* FUNCTION:LINE of whatever module has it; offsets in files are those of a path, a shared object, or in hexadecimal. */
static bool is_function(const char *name)
{
	const char *p = name;

	while (*p && *p != '/' && *p != '(' && !(p[0] == '.' && p[1] == 's' && p[2] == 'o'))
		p++;
	return *name && !*p;
}

static int parse_bare_line(struct dp_event_line *l, u32 end)
{
	struct dp_location *loc = &l->ev->loc;
	int ret = parse_number(l, end);

	if (ret)
		return ret;
	memcpy(loc->symbol, loc->module, sizeof(loc->module));
	loc->module[0] = '\0';
	loc->kind = DP_LOC_LINE;
	return 0;
}

/* What stands behind the last colon before end, when it is `want`. */
static bool ends_in(const struct dp_event_line *l, u32 end, const char *want)
{
	u32 n = (u32)strlen(want);

	return end > l->pos + n && l->text[end - n - 1] == ':' && !memcmp(l->text + end - n, want, n);
}

/* Behind watched memory: [:LEN][:w|rw|x|io]. *end goes back to where the place itself ends. */
static int parse_watch(struct dp_event_line *l, u32 *end)
{
	static const char *const types[] = {
	    [DP_WATCH_X] = "x", [DP_WATCH_W] = "w", [DP_WATCH_IO] = "io", [DP_WATCH_RW] = "rw"};
	u32 at, pos = l->pos;
	u64 len;
	int ret;

	l->ev->watch_type = DP_WATCH_W;
	for (u32 i = 0; i < DP_ARRAY_SIZE(types); i++)
		if (ends_in(l, *end, types[i])) {
			l->ev->watch_type = (enum dp_watch_type)i;
			*end -= (u32)strlen(types[i]) + 1;
			break;
		}
	for (at = *end; at > pos && dp_ev_is_word(l->text[at - 1]);)
		at--;
	if (at == *end || at <= pos + 1 || l->text[at - 1] != ':' || l->text[at - 2] == ':' ||
	    !dp_ev_is_digit(l->text[at]) || (l->text[at] == '0' && l->text[at + 1] == 'x'))
		return 0; /* no length; a 0x number behind a colon is an offset in a file */
	l->pos = at;
	ret = dp_ev_number(l, false, &len);
	if (!ret && (l->pos != *end || !len || len > EV_WATCH_MAX))
		ret = dp_ev_fail(l, at, E_EVENT_WATCHLEN, "`%.*s`", (int)(*end - at), l->text + at);
	l->pos = pos;
	l->ev->watch_len = (u32)len;
	*end = at - 1;
	return ret;
}

/* MODULE:NAME, MODULE:PROVIDER:NAME, NAME; each may be a pattern. Of system calls and tracepoints, too. */
static int parse_static(struct dp_event_line *l)
{
	struct dp_location *loc = &l->ev->loc;
	u32 end = l->pos, colon;
	int ret = 0;

	for (; !dp_ev_is_blank(l->text[end]); end++)
		if (l->text[end] == '"' || l->text[end] == '\\')
			return dp_ev_fail(l, end, E_EVENT_LOCATION, "such names have no `%c`", l->text[end]);
	for (colon = l->pos; colon < end && l->text[colon] != ':';)
		colon++;
	loc->kind = l->ev->is_call ? DP_LOC_CALL : l->ev->is_tracepoint ? DP_LOC_TRACEPOINT : DP_LOC_STATIC;
	if (colon < end) {
		ret = copy(l, loc->module, sizeof(loc->module), l->pos, colon);
		l->pos = colon + 1;
	}
	if (!ret)
		ret = copy(l, loc->symbol, sizeof(loc->symbol), l->pos, end);
	l->pos = end;
	return ret;
}

int dp_ev_parse_location(struct dp_event_line *l)
{
	struct dp_location *loc = &l->ev->loc;
	u32 end = l->pos, behind, colon, suffix;
	int ret;

	loc->column = (int)l->pos;
	if (dp_ev_is_of_compiler(l->ev))
		return parse_static(l);
	ret = find_end(l, &end);
	if (ret)
		return ret;
	if (end == l->pos)
		return dp_ev_fail(l, l->pos, E_EVENT_LOCATION, "there is none");
	behind = end;
	if (l->ev->is_watch) {
		ret = parse_watch(l, &end);
		if (ret)
			return ret;
	}
	suffix = find(l->text, l->pos, end, true, is_percent);
	if (suffix < end)
		ret = parse_suffix(l, suffix, end);
	colon = find(l->text, l->pos, suffix, false, is_module_colon);
	if (!ret && colon < suffix) {
		ret = copy(l, loc->module, sizeof(loc->module), l->pos, colon);
		l->pos = colon + 1;
	}
	if (!ret && !l->ev->is_watch && (is_source(loc->module) || is_function(loc->module)) &&
	    dp_ev_is_digit(l->text[l->pos]) && l->text[l->pos + 1] != 'x')
		ret = parse_bare_line(l, suffix);
	else if (!ret && (l->ev->is_watch || !parse_line(l, suffix)))
		ret = dp_ev_is_digit(l->text[l->pos]) ? parse_number(l, suffix) : parse_symbol(l, suffix);
	if (!ret && l->ev->is_return && loc->offset && loc->kind != DP_LOC_FILE_OFFSET)
		ret = dp_ev_fail(l, (u32)loc->column, E_EVENT_RETOFFSET, "`%.*s`", (int)(end - (u32)loc->column),
				 l->text + loc->column);
	l->pos = behind;
	return ret;
}
