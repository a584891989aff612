/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* When `dprobes top` looks and shows: on a screen, as lines, or as JSON. */
#ifndef DP_TOP_SHOW_H
#define DP_TOP_SHOW_H

#include "top/top.h"

enum dp_top_form { DP_TOP_SCREEN, DP_TOP_LINES, DP_TOP_JSON };

struct dp_top_screen;

struct dp_top_show {
	struct dp_top *top;
	enum dp_top_form form;
	double interval; /* seconds */
	u64 turns;       /* at most; 0: no limit */
	FILE *out;       /* of lines and JSON */
	bool utf8;

	u64 next_ns; /* of the next turn; 0: none has been shown */
	struct dp_top_screen *screen;
	bool has_ended;    /* all turns that were asked for are shown, or the user has quit */
	char trouble[128]; /* why there is no screen; "" */
};

/* Whenever something may be due, several times a second. False: it is over. */
bool dp_top_show_turn(struct dp_top_show *s);
/* The terminal is as it was; nothing is shown on a screen any more. May be called several times. */
void dp_top_show_leave(struct dp_top_show *s);
/* What was seen last, as lines or as JSON, unless it was shown; of a screen: with a summary. */
void dp_top_show_last(struct dp_top_show *s);

/* ---- forms ---- */

#define DP_TOP_ROWS 20 /* of lines */

/* The heads of the columns, and at most n rows. top-plain.c */
void dp_top_put_heads(struct dp_line *l, const struct dp_top *t);
void dp_top_put_rows(struct dp_line *l, const struct dp_top *t, u32 n, bool utf8);
void dp_top_put_summary(struct dp_line *l, const struct dp_top *t);
void dp_top_put_json(struct dp_line *l, const struct dp_top *t);

/* Why this build has no screen; NULL: it has. What draws it, and its version, for `dprobes --version`. */
const char *dp_top_screen_missing(void);
const char *dp_top_screen_library(void);
/* NULL: there is none; s->trouble tells why. */
struct dp_top_screen *dp_top_screen_new(struct dp_top_show *s);
void dp_top_screen_free(struct dp_top_screen *s); /* may be NULL */
/* A new turn is there. */
void dp_top_screen_draw(struct dp_top_screen *s);
/* What the user has typed. Returns whether turns go on (false: quit). */
bool dp_top_screen_keys(struct dp_top_screen *s);
bool dp_top_screen_is_paused(const struct dp_top_screen *s);

#endif
