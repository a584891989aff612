/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Event lines among the handlers of a file: each becomes a handler, as in lines.c, behind the preprocessor and in front
 * of the lexer. Mistakes are shown in the line that the user wrote.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/line-priv.h"

/* ---- which lines ---- */

/* How deep in brackets of these kinds the text ends; *last is its last character that is no blank. */
static u32 depth_behind(const char *text, const char *open, const char *close, u32 depth, char *last)
{
	for (u32 at = 0; text[at];) {
		char ch = text[at];

		if (!isspace((unsigned char)ch))
			*last = ch;
		if (ch == '"' || ch == '\'') {
			at = dp_cc_step(text, at);
			continue;
		}
		if (strchr(open, ch))
			depth++;
		else if (strchr(close, ch) && depth)
			depth--;
		at++;
	}
	return depth;
}

/* p, r5:NAME and the like, and something behind it; C would end with a semicolon. */
static bool is_event(const char *text)
{
	const char *p = text + strspn(text, " \t"), *end = p + strlen(p);

	if (dp_cc_line_is_body(p))
		return true;
	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	if (!strchr("pruws", *p) || end == p || end[-1] == ';')
		return false;
	p++;
	if (p[-1] == 'r')
		p += strspn(p, "0123456789");
	if (*p == ':')
		p += strcspn(p, " \t");
	if (*p != ' ' && *p != '\t')
		return false;
	p += strspn(p, " \t");
	return p < end && !strchr("=;,([", *p);
}

/* ---- one line ---- */

struct reader {
	struct dpcc *c;
	struct rpn_source *src;
	struct rpn_line *out; /* what the source is to have */
	u32 n, room;
	u32 number; /* of the event line */
	struct line_names taken;
};

static void put_line(struct reader *r, char *text, const struct rpn_line *from)
{
	if (r->n == r->room) {
		struct rpn_line *more = dp_cc_alloc(r->c, (2 * r->room + 64) * sizeof(*more));

		if (r->n)
			memcpy(more, r->out, r->n * sizeof(*more));
		r->out = more;
		r->room = 2 * r->room + 64;
	}
	r->out[r->n++] = (struct rpn_line){text, from->file, from->line};
}

/* Its lines of C, each with the places where it comes from. */
static void put_made(struct reader *r, const struct out_text *made, const struct rpn_line *line)
{
	for (size_t from = 0; from < made->n;) {
		const char *end = memchr(made->s + from, '\n', made->n - from);
		size_t n = end ? (size_t)(end - made->s) - from : made->n - from;
		struct origin *o = dp_cc_alloc(r->c, sizeof(*o));
		u32 *at = dp_cc_alloc(r->c, (n + 1) * sizeof(*at));
		char *text = dp_cc_text(r->c, made->s + from, n);

		memcpy(at, made->at + from, n * sizeof(*at));
		*o = (struct origin){r->c->origins, text, n, at, *line};
		r->c->origins = o;
		put_line(r, text, line);
		from += n + 1;
	}
}

/* Whether the file's pragma has that path, or a path that ends in that name. */
static bool is_own(const struct reader *r, const char *name)
{
	size_t n = strlen(name);

	for (u32 i = 0; i < r->src->n; i++) {
		const char *text = r->src->lines[i].text, *p = *text == '#' ? strstr(text, "MODNAME") : NULL;
		const char *end = p && (p = strchr(p, '"')) ? strchr(++p, '"') : NULL;

		if (end && (size_t)(end - p) >= n && !strncmp(end - n, name, n) &&
		    ((size_t)(end - p) == n || end[-(ptrdiff_t)n - 1] == '/'))
			return true;
	}
	return false;
}

static int check_module(const struct reader *rd, const char *text, struct dp_error *err)
{
	struct dp_event ev;
	u32 behind;
	int r = dp_event_head(&ev, text, &behind, err);

	if (r || !ev.loc.module[0] || is_own(rd, ev.loc.module))
		return r;
	r = dp_fail(err, E_DPCC_PRAGMA, "an event line in the file must be in the file's module, not in %.60s",
		    ev.loc.module);
	dp_error_hint(err, "leave out the module, or give the line to `dprobes trace` without the file");
	dp_error_column(err, ev.loc.column);
	return r;
}

static void translate(struct reader *r, const struct rpn_line *line, bool ends)
{
	struct out_text made = {0};
	struct dp_error err = {0};
	int bad;

	bad = dp_cc_line_is_body(line->text) ? 0 : check_module(r, line->text, &err);
	if (!bad)
		bad = dp_cc_line_translate(&made, line->text, ++r->number, ends, &r->taken, &err);
	if (!bad)
		put_made(r, &made, line);
	dp_cc_out_free(&made);
	if (bad) {
		struct tok t = {.at = line->text + DP_MAX(err.column, 0), .line = line};

		free(r->taken.v);
		dp_cc_refail(r->c, &t, &err);
	}
}

/* The line at i, and those behind it until its body is closed. Returns how many. */
static u32 take_event(struct reader *r, u32 i)
{
	const struct rpn_line *lines = r->src->lines;
	struct rpn_line line = lines[i];
	const char *start = line.text + strspn(line.text, " \t");
	char last = 0, *text = dp_cc_text(r->c, start, strlen(start));
	u32 depth = depth_behind(text, "{", "}", 0, &last), n = 1;

	for (; depth && i + n < r->src->n; n++) {
		text = dp_cc_format(r->c, "%s %s", text, lines[i + n].text);
		depth = depth_behind(lines[i + n].text, "{", "}", depth, &last);
	}
	line.text = text;
	translate(r, &line, false);
	return n;
}

/* Those that are given beside the file. */
static void take_given(struct reader *r, bool first)
{
	const struct dpcc_options *opt = r->c->opt;

	for (u32 i = 0; i < opt->nlines; i++) {
		const struct dpcc_line *given = &opt->lines[i];
		struct rpn_line line = {dp_cc_text(r->c, given->text, strlen(given->text)), given->name, 1};

		if (given->first == first)
			translate(r, &line, given->ends);
	}
}

void dp_cc_file_lines(struct dpcc *c)
{
	struct reader r = {.c = c, .src = &c->src};
	struct rpn_source *src = &c->src;
	u32 depth = 0;
	char last = ';';
	bool any = false;

	for (u32 i = 0; i < src->n && !any; i++)
		any = is_event(src->lines[i].text);
	if (!any && !c->opt->nlines)
		return;
	take_given(&r, true);
	for (u32 i = 0; i < src->n;) {
		struct rpn_line *line = &src->lines[i];

		if (*line->text == '#') {
			put_line(&r, line->text, line);
			i++;
		} else if (!depth && strchr(";}", last) && is_event(line->text)) {
			u32 n = take_event(&r, i);

			i += n;
			last = '}';
		} else {
			depth = depth_behind(line->text, "([{", ")]}", depth, &last);
			put_line(&r, line->text, line);
			i++;
		}
	}
	take_given(&r, false);
	free(r.taken.v);
	c->owner = *src; /* of the texts */
	*src = (struct rpn_source){.lines = r.out, .n = r.n};
}
