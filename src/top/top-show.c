/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See top-show.h. */
#include "host/process/process.h"
#include "top/top-show.h"

static void write_out(FILE *f, struct dp_line *l)
{
	if (!l->broken)
		fwrite(l->text, 1, l->n, f);
	fflush(f);
	dp_line_free(l);
}

static void put_lines(struct dp_line *l, const struct dp_top *t, bool utf8)
{
	dp_top_put_heads(l, t);
	dp_top_put_rows(l, t, DP_TOP_ROWS, utf8);
	dp_line_bytes(l, t->tables.text, t->tables.n);
}

static void show(struct dp_top_show *s, FILE *out)
{
	struct dp_line l = {0};

	if (s->form == DP_TOP_SCREEN) {
		dp_top_screen_draw(s->screen);
		return;
	}
	if (s->form == DP_TOP_JSON) {
		dp_top_put_json(&l, s->top);
	} else {
		dp_top_put_summary(&l, s->top);
		put_lines(&l, s->top, s->utf8);
		dp_line_char(&l, '\n');
	}
	write_out(out, &l);
}

bool dp_top_show_turn(struct dp_top_show *s)
{
	u64 now = dp_now_ns();

	if (!s->next_ns) {
		dp_top_begin(s->top);
		s->next_ns = now + (u64)(s->interval * 1e9);
	}
	if (s->form == DP_TOP_SCREEN && !s->screen && !s->has_ended) {
		s->screen = dp_top_screen_new(s);
		if (!s->screen)
			s->has_ended = true;
		else
			dp_top_screen_draw(s->screen);
	}
	if (s->screen && !dp_top_screen_keys(s->screen))
		s->has_ended = true;
	if (!s->has_ended && now >= s->next_ns && !(s->screen && dp_top_screen_is_paused(s->screen))) {
		dp_top_turn(s->top);
		show(s, s->out);
		s->next_ns += (u64)(s->interval * 1e9);
		if (s->next_ns < now) /* the machine was busy */
			s->next_ns = now + (u64)(s->interval * 1e9);
		s->has_ended = s->turns && s->top->turns >= s->turns;
	}
	if (s->has_ended)
		dp_top_show_leave(s);
	return !s->has_ended;
}

void dp_top_show_leave(struct dp_top_show *s)
{
	dp_top_screen_free(s->screen);
	s->screen = NULL;
}

void dp_top_show_last(struct dp_top_show *s)
{
	struct dp_line l = {0};

	dp_top_show_leave(s);
	if (s->form != DP_TOP_SCREEN && !s->has_ended)
		show(s, stdout);
	if (s->form != DP_TOP_SCREEN || *s->trouble)
		return;
	put_lines(&l, s->top, s->utf8);
	dp_top_put_summary(&l, s->top);
	write_out(stdout, &l);
}
