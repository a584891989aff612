/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The event line as a whole: kind, names, location, arguments, condition. Reads only; see event-compile.c
 * for what is made of it.
 */
#include "lang/event/event-priv.h"

/* A line that begins with the place: the kind in front of it is missing. */
static void suggest_kind(struct dp_event_line *l, const char *p, const char *before)
{
	u32 n = dp_ev_word(p), next = n;

	while (p[next] && dp_ev_is_blank(p[next]))
		next++;
	/* "probe add_order": the place is behind a word that is meant as the kind. */
	if (n > 1 && *p == 'p' && next > n && dp_ev_word(p + next) > 1 && p[next] != '$' && p[next] != '%')
		dp_error_hint(l->err, "%sdid you mean `p %.80s`?", before, p + next);
	else if (n > 1)
		dp_error_hint(l->err, "%sdid you mean `p %.80s`?", before, p);
}

static int parse_kind(struct dp_event_line *l)
{
	const char *p = l->text + l->pos;
	u32 start = l->pos;
	u64 n;
	int ret;

	l->ev->is_static = *p == 'u' && l->any_kind;
	l->ev->is_call = *p == 's' && l->any_kind;
	l->ev->is_tracepoint = *p == 't' && l->any_kind;
	if (*p != 'p' && *p != 'r' && *p != 'w' && !dp_ev_is_of_compiler(l->ev)) {
		ret = *p ? dp_ev_fail(l, start, E_EVENT_KIND, "this one begins with `%c`", *p)
			 : dp_ev_fail(l, start, E_EVENT_KIND, "this one is empty");
		suggest_kind(l, p, "");
		if (*p == '-' && p[1] == ':')
			dp_error_hint(l->err, "events end with the command that made them; nothing "
					      "needs to be removed");
		return ret;
	}
	l->ev->is_return = *p == 'r';
	l->ev->is_watch = l->ev->prog.is_watch = *p == 'w';
	l->pos++;
	if (dp_ev_is_digit(p[1])) {
		while (dp_ev_is_digit(l->text[l->pos]))
			l->pos++;
		if (*p != 'r')
			return dp_ev_fail(l, start + 1, E_EVENT_MAXACTIVE, "%c takes no number", *p);
		l->pos = start + 1;
		ret = dp_ev_number(l, false, &n);
		if (ret || !n || n > EV_MAXACTIVE_MAX)
			return dp_ev_fail(l, start + 1, E_EVENT_MAXACTIVE, "from 1 to %u", EV_MAXACTIVE_MAX);
		l->ev->maxactive = (int)n;
	}
	if (l->text[l->pos] != ':' && !dp_ev_is_blank(l->text[l->pos])) {
		ret = dp_ev_fail(l, start, E_EVENT_KIND, "unexpected `%c` behind `%c`", l->text[l->pos], *p);
		dp_error_hint(l->err, "a blank or a colon with the event's name follows %c", *p);
		if (l->pos == start + 1 && dp_ev_is_word(l->text[l->pos]))
			suggest_kind(l, p, "a blank or a colon follows the kind; ");
		return ret;
	}
	return 0;
}

/* One half of GROUP/NAME; may be empty. */
static int copy_name(struct dp_event_line *l, char *dst, u32 from, u32 to, bool is_group)
{
	enum dp_code code = is_group ? E_EVENT_GROUP : E_EVENT_NAME;
	const char *p = l->text;

	if (to - from >= DP_NAME_MAX)
		return dp_ev_fail(l, from, code, "it has %u characters", to - from);
	for (u32 i = from; i < to; i++)
		if ((!dp_ev_is_word(p[i]) && !(is_group && p[i] == '-')) || (i == from && !dp_ev_word(p + i)))
			return dp_ev_fail(l, i, code, "`%.*s` contains `%c`", (int)(to - from), p + from, p[i]);
	memcpy(dst, p + from, to - from);
	dst[to - from] = '\0';
	return 0;
}

static int parse_names(struct dp_event_line *l)
{
	u32 start, slash = 0;
	int ret = 0;

	if (l->text[l->pos] != ':')
		return 0;
	for (start = ++l->pos; !dp_ev_is_blank(l->text[l->pos]); l->pos++)
		if (l->text[l->pos] == '/' && !slash)
			slash = l->pos;
	if (slash == start)
		return dp_ev_fail(l, start, E_EVENT_GROUP, "there is none before the /");
	if (slash) {
		ret = copy_name(l, l->ev->group, start, slash, true);
		start = slash + 1;
	}
	return ret ? ret : copy_name(l, l->ev->name, start, l->pos, false);
}

/* As the kernel names events that have no name: kind, place, offset, nothing but word characters.
 */
static void make_name(struct dp_event *ev)
{
	const struct dp_location *loc = &ev->loc;
	const char *base = loc->module;
	char kind = ev->is_watch        ? 'w'
		    : ev->is_return     ? 'r'
		    : ev->is_static     ? 'u'
		    : ev->is_call       ? 's'
		    : ev->is_tracepoint ? 't'
					: 'p';

	for (const char *p = loc->module; *p; p++)
		if (*p == '/' && p[1])
			base = p + 1;
	switch (loc->kind) {
	case DP_LOC_SYMBOL:
		dp_format(ev->name, sizeof(ev->name), "%c_%.40s_%lld", kind, loc->symbol, (long long)loc->offset);
		break;
	case DP_LOC_PATTERN:
	case DP_LOC_STATIC:
	case DP_LOC_CALL:
	case DP_LOC_TRACEPOINT:
		dp_format(ev->name, sizeof(ev->name), "%c_%.40s", kind, loc->symbol);
		break;
	case DP_LOC_LINE:
		dp_format(ev->name, sizeof(ev->name), "%c_%.40s_%lld", kind, loc->symbol, (long long)loc->offset);
		break;
	case DP_LOC_ADDRESS:
		dp_format(ev->name, sizeof(ev->name), "%c_0x%llx", kind, (unsigned long long)loc->address);
		break;
	case DP_LOC_FILE_OFFSET:
		dp_format(ev->name, sizeof(ev->name), "%c_%.40s_0x%llx", kind, base, (unsigned long long)loc->offset);
		break;
	}
	for (char *p = ev->name; *p; p++)
		if (!dp_ev_is_word(*p))
			*p = '_';
}

/* `if` as a word of its own. */
static bool at_if(const struct dp_event_line *l)
{
	const char *p = l->text + l->pos;

	return p[0] == 'i' && p[1] == 'f' && (dp_ev_is_blank(p[2]) || p[2] == '(');
}

int dp_ev_parse_arguments(struct dp_event_line *l)
{
	int ret;

	for (;;) {
		dp_ev_skip_blanks(l);
		if (!l->text[l->pos])
			return 0;
		if (at_if(l)) {
			l->pos += 2;
			return dp_ev_parse_condition(l);
		}
		ret = dp_ev_parse_argument(l);
		if (ret)
			return ret;
	}
}

int dp_ev_parse_head(struct dp_event_line *l)
{
	int ret;

	memcpy(l->ev->group, "dprobes", 8);
	if (strlen(l->text) > EV_LINE_MAX)
		return dp_ev_fail(l, 0, E_EVENT_LONG, "%u characters", (u32)strlen(l->text));
	dp_ev_skip_blanks(l);
	ret = parse_kind(l);
	if (!ret)
		ret = parse_names(l);
	if (ret)
		return ret;
	dp_ev_skip_blanks(l);
	ret = dp_ev_parse_location(l);
	if (ret)
		return ret;
	l->ev->is_named = l->ev->name[0];
	if (!l->ev->is_named)
		make_name(l->ev);
	return 0;
}
