/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Call stacks as a flame graph: an SVG file with all that it needs in itself. Functions stand above their callers and
 * are as wide as their weight. Its script (flame.js) enlarges and searches; without it the picture is whole.
 */
#include <stdlib.h>

#include "log/sinks.h"
#include "log/sinks/sink-flame.h"

#define WIDTH 1200
#define ROW 18
#define TOP 46
#define BOTTOM 30
#define LETTER 6.6     /* width of one */
#define COLORS 8       /* in the style */
#define NARROWEST 0.06 /* units of the picture; what is narrower cannot be seen */
#define DEEPEST 1024

_Static_assert(sizeof(struct dp_stacks_sink) <= sizeof(union dp_sink_room), "a sink fits");

const char dp_flame_style[] =
    ".flame{font:12px monospace;display:block;width:100%;background:#fff}"
    ".flame text{fill:#1c1c1c;pointer-events:none}.flame .title{font-size:15px;font-weight:bold}"
    ".flame .button{pointer-events:all;cursor:pointer;fill:#0b57d0}.flame rect{stroke:#fff;stroke-width:.6}"
    ".flame g.f{cursor:pointer}.flame g.f:hover rect{stroke:#000;stroke-width:1.2}.flame .ghost{opacity:.55}"
    ".flame .off{display:none}.flame .hit rect{fill:#c158dc!important}"
    ".flame .c0 rect{fill:#e5a15b}.flame .c1 rect{fill:#e3b448}.flame .c2 rect{fill:#e58a5f}"
    ".flame .c3 rect{fill:#d9a441}.flame .c4 rect{fill:#e67a6a}.flame .c5 rect{fill:#d6b36a}"
    ".flame .c6 rect{fill:#ee9d6e}.flame .c7 rect{fill:#cfae4f}.flame .root rect{fill:#c9c9c9}"
    "@media (prefers-color-scheme:dark){.flame{background:#1b1b1f}.flame text{fill:#f2f2f2}"
    ".flame .button{fill:#8ab4f8}.flame rect{stroke:#1b1b1f}.flame g.f:hover rect{stroke:#fff}"
    ".flame .c0 rect{fill:#9a5a1f}.flame .c1 rect{fill:#8f6a12}.flame .c2 rect{fill:#a14c24}"
    ".flame .c3 rect{fill:#86600f}.flame .c4 rect{fill:#a03f36}.flame .c5 rect{fill:#7d6424}"
    ".flame .c6 rect{fill:#a85a2c}.flame .c7 rect{fill:#786218}.flame .root rect{fill:#55555c}"
    ".flame .hit rect{fill:#9c27b0!important}}";

const char dp_flame_script[] =
#include <flame-script.inc>
    ;

void dp_flame_text(struct dp_line *l, const char *s, size_t n)
{
	struct dp_line clean = {0};

	dp_line_clean(&clean, s, n, "");
	for (size_t i = 0; i < clean.n; i++) {
		char c = clean.text[i];

		if (c == '&' || c == '<' || c == '>' || c == '"')
			dp_line_str(l, c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&quot;");
		else
			dp_line_char(l, c);
	}
	dp_line_free(&clean);
}

static void put_weight(struct dp_line *l, const struct dp_stacks *st, u64 v)
{
	if (st->unit[0] != 'n')
		dp_line_format(l, "%llu %s", (unsigned long long)v, v == 1 ? "event" : st->unit);
	else if (v < 10000)
		dp_line_format(l, "%llu ns", (unsigned long long)v);
	else if (v < 10000000)
		dp_line_format(l, "%.1f us", (double)v / 1e3);
	else
		dp_line_format(l, "%.1f ms", (double)v / 1e6);
}

struct picture {
	struct dp_line *l;
	const struct dp_stacks *st;
	double scale; /* units for a weight of 1 */
	u32 height, hidden;
};

/* As much of a name as there is room for. */
static size_t fitting(const char *name, double width)
{
	size_t room = width < 2 * LETTER ? 0 : (size_t)((width - 4) / LETTER), n = strlen(name);

	n = DP_MIN(n, room);
	while (n && (name[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void put_frame(struct picture *p, u32 i, double x, u32 depth)
{
	const struct dp_stack_node *node = &p->st->nodes[i];
	const char *name = p->st->names[node->name];
	double w = (double)node->total * p->scale, y = p->height - BOTTOM - (depth + 1.0) * ROW;
	u64 all = DP_MAX(p->st->nodes[0].total, (u64)1);
	u32 color = 0;

	for (const char *c = name; *c; c++)
		color = color * 31 + (u8)*c;
	dp_line_format(p->l, "<g class=\"f %s%u\" data-x=\"%.3f\" data-w=\"%.3f\" data-d=\"%u\" data-n=\"",
		       i ? "c" : "root c", color % COLORS, x, w, depth);
	dp_flame_text(p->l, name, strlen(name));
	dp_line_format(p->l, "\"><title>");
	dp_flame_text(p->l, name, strlen(name));
	dp_line_format(p->l, " (");
	put_weight(p->l, p->st, node->total);
	dp_line_format(p->l, ", %.2f %%", 100 * (double)node->total / (double)all);
	if (node->calls)
		dp_line_format(p->l, ", %llu call%s", (unsigned long long)node->calls, node->calls == 1 ? "" : "s");
	dp_line_format(p->l, ")</title><rect x=\"%.3f\" y=\"%.1f\" width=\"%.3f\" height=\"%u\" rx=\"2\"/>", x, y, w,
		       ROW - 1);
	dp_line_format(p->l, "<text x=\"%.3f\" y=\"%.1f\">", x + 3, y + ROW - 5);
	dp_flame_text(p->l, name, fitting(name, w));
	dp_line_format(p->l, "</text></g>\n");
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct dp_stacks *st = arg;
	int order = strcmp(st->names[st->nodes[*(const u32 *)a].name], st->names[st->nodes[*(const u32 *)b].name]);

	return order ? order : *(const u32 *)a < *(const u32 *)b ? -1 : 1;
}

/* Brothers by name, so that two pictures can be compared. */
static void put_frames(struct picture *p, u32 i, double x, u32 depth)
{
	u32 *children, n = 0, k = 0;

	put_frame(p, i, x, depth);
	for (u32 c = p->st->nodes[i].child; c; c = p->st->nodes[c].sibling)
		n++;
	children = n && depth < DEEPEST ? malloc(n * sizeof(*children)) : NULL;
	if (!children) {
		p->l->broken |= n && depth < DEEPEST;
		return;
	}
	for (u32 c = p->st->nodes[i].child; c; c = p->st->nodes[c].sibling)
		children[k++] = c;
	qsort_r(children, n, sizeof(*children), by_name, (void *)p->st);
	for (k = 0; k < n; k++) {
		double w = (double)p->st->nodes[children[k]].total * p->scale;

		if (w >= NARROWEST)
			put_frames(p, children[k], x, depth + 1);
		else
			p->hidden += p->st->nodes[children[k]].total > 0; /* 0: all its calls were brief */
		x += w;
	}
	free(children);
}

static u32 depth_of(const struct dp_stacks *st)
{
	u32 deepest = 0, *depth = calloc(st->n, sizeof(*depth));

	for (size_t i = 1; depth && i < st->n; i++) { /* parents come first */
		depth[i] = depth[st->nodes[i].parent] + 1;
		deepest = DP_MAX(deepest, depth[i]);
	}
	free(depth);
	return DP_MIN(deepest, (u32)DEEPEST);
}

void dp_flame_svg(struct dp_line *l, const struct dp_stacks *st)
{
	u64 all = st->nodes[0].total;
	struct picture p = {l, st, all ? (double)WIDTH / (double)all : 0};

	p.height = TOP + BOTTOM + (depth_of(st) + 1) * ROW;
	dp_line_format(l, "<svg class=\"flame\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\">\n", WIDTH,
		       p.height);
	dp_line_format(l, "<text class=\"title\" x=\"8\" y=\"20\">Flame graph: ");
	put_weight(l, st, all);
	dp_line_format(l, "</text>\n<text class=\"button reset off\" x=\"%u\" y=\"20\">whole picture</text>\n",
		       WIDTH - 250);
	dp_line_format(l, "<text class=\"button search\" x=\"%u\" y=\"20\">search (/)</text>\n", WIDTH - 110);
	dp_line_format(l, "<text class=\"found\" x=\"8\" y=\"38\"></text>\n");
	put_frames(&p, 0, 0, 0);
	dp_line_format(l, "<text class=\"under\" x=\"8\" y=\"%u\">", p.height - 10);
	if (p.hidden)
		dp_line_format(l, "%u stacks are too narrow to be shown", p.hidden);
	dp_line_format(l, "</text>\n</svg>\n");
}

static void finish(struct dp_sink *s)
{
	const struct dp_stacks *st = dp_stacks_whole(s);
	struct dp_line svg = {0};

	dp_flame_svg(&svg, st);
	if (!svg.broken) {
		dp_line_str(s->line, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
		dp_line_bytes(s->line, svg.text, svg.n - strlen("</svg>\n"));
		dp_line_str(s->line, "<style>");
		dp_line_str(s->line, dp_flame_style);
		dp_line_str(s->line, "</style>\n<script><![CDATA[\n");
		dp_line_str(s->line, dp_flame_script);
		dp_line_str(s->line, "]]></script>\n</svg>\n");
	}
	s->line->broken |= svg.broken;
	dp_line_free(&svg);
}

const struct dp_sink_ops dp_sink_flame = {DP_STACKS_OPS, .finish = finish};
