/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The event lines of one module as one program: translated one after the other (line.c), compiled together. Mistakes
 * that the compiler finds are shown in the line that the user wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/line-priv.h"

struct dp_cc_lines {
	char *head; /* pragmas for all */
	struct one {
		char *text;
		struct out_text out;
	} * v;
	u32 n;
	struct line_names taken;
};

struct dp_cc_lines *dp_cc_lines_new(const char *modname, const char *modtype)
{
	struct dp_cc_lines *ls = calloc(1, sizeof(*ls));

	if (ls && asprintf(&ls->head, "#pragma MODNAME(\"%s\") MODTYPE(%s)\n", modname, modtype) < 0)
		ls->head = NULL;
	if (ls && ls->head)
		return ls;
	free(ls);
	return NULL;
}

static void free_one(struct one *one)
{
	free(one->text);
	dp_cc_out_free(&one->out);
}

void dp_cc_lines_free(struct dp_cc_lines *ls)
{
	for (u32 i = 0; ls && i < ls->n; i++)
		free_one(&ls->v[i]);
	if (ls) {
		free(ls->taken.v);
		free(ls->v);
		free(ls->head);
	}
	free(ls);
}

int dp_cc_lines_add(struct dp_cc_lines *ls, const char *text, bool ends, struct dp_error *err)
{
	struct one *v = realloc(ls->v, (ls->n + 1) * sizeof(*v)), *one;
	int r;

	if (!v)
		return dp_fail(err, E_EVENT_MEMORY, "the line");
	ls->v = v;
	one = &v[ls->n];
	*one = (struct one){.text = strdup(text)};
	if (!one->text)
		return dp_fail(err, E_EVENT_MEMORY, "the line");
	r = dp_cc_line_translate(&one->out, text, ls->n + 1, ends, &ls->taken, err);
	if (r)
		free_one(one);
	else
		ls->n++;
	return r;
}

/* Lines that only give variables their first values have nothing that runs, and a program needs a place: this one. */
#define NOWHERE "\n#pragma PROBEPOINT_LOCATION(\"i begin\") PROBEPOINT_HANDLER(\"__run0\")\nvoid __run0() { }\n"

static bool has_place(const struct dp_cc_lines *ls)
{
	for (u32 i = 0; i < ls->n; i++)
		if (ls->v[i].out.s && strstr(ls->v[i].out.s, "#pragma PROBEPOINT_LOCATION("))
			return true;
	return false;
}

static char *all_text(const struct dp_cc_lines *ls)
{
	size_t n = strlen(ls->head) + sizeof(NOWHERE);
	char *text, *p;

	for (u32 i = 0; i < ls->n; i++)
		n += ls->v[i].out.n;
	text = malloc(n);
	if (!text)
		return NULL;
	p = stpcpy(text, ls->head);
	for (u32 i = 0; i < ls->n; i++)
		p = stpcpy(p, ls->v[i].out.s ? ls->v[i].out.s : "");
	if (!has_place(ls))
		strcpy(p, NOWHERE);
	return text;
}

/* Where in which line a place of the program comes from; false: from none. */
static bool origin(const struct dp_cc_lines *ls, u32 row, u32 column, u32 *line, u32 *at)
{
	u32 now = 2; /* behind the head */

	for (u32 i = 0; i < ls->n; i++) {
		const struct out_text *o = &ls->v[i].out;
		u32 col = 0;

		for (size_t k = 0; k < o->n; k++) {
			if (now == row && col == column) {
				*line = i;
				*at = o->at[k];
				return true;
			}
			col++;
			if (o->s[k] == '\n') {
				if (now == row) /* behind its end */
					break;
				now++;
				col = 0;
			}
		}
	}
	return false;
}

static void show_in_line(const struct dp_cc_lines *ls, struct dpcc_result *res, u32 *line, struct dp_error *err)
{
	u32 row, column, at;
	struct dp_error told = *err;
	int n = 0;

	if (sscanf(err->detail, LINES_NAME ":%u:%u: %n", &row, &column, &n) != 2 || !n)
		return;
	memmove(told.detail, told.detail + n, strlen(told.detail + n) + 1);
	*err = told;
	if (!origin(ls, row, column - 1, line, &at))
		return;
	dp_error_column(err, (int)at);
	snprintf(res->line, sizeof(res->line), "%s", ls->v[*line].text);
}

int dp_cc_lines_compile(const struct dp_cc_lines *ls, const struct dpcc_options *opt, struct dpcc_result *res,
			u32 *line, struct dp_error *err)
{
	struct dpcc_options own = *opt;
	char *text = all_text(ls);
	int r;

	*line = ~0u;
	if (!text)
		return dp_fail(err, E_EVENT_MEMORY, "the lines");
	own.text = text;
	r = dp_cc_compile(LINES_NAME, &own, res, err);
	if (r)
		show_in_line(ls, res, line, err);
	free(text);
	return r;
}
