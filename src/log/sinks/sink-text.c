/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as lines of text in the layout of the kprobe-based event tracer:
 *
 *     redis-server-2376  [001]   262.389131: conn: @acceptTcpHandler+0 el=0x55d0 fd=6
 *
 * `@` marks a hit of a probe, `<-` a return. Before the colon stands the event's name when the user
 * gave one; else the function, for a return the function that is returned to.
 */
#include "log/format.h"
#include "log/sinks.h"
#include "log/sinks/kept-head.h"
#include "log/template.h"

#define DIM "\033[2m"
#define CYAN "\033[36m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"
#define NS 1000000000u /* in a second */

struct text_sink {
	struct dp_sink s;
	struct dp_kept_head head; /* up to the microseconds */
	u64 second;               /* that it is of */
};
_Static_assert(sizeof(struct text_sink) <= sizeof(union dp_sink_room), "a sink fits");

/* Symbols come from files that anybody may have made. */
static void clean(struct dp_line *l, const char *text)
{
	dp_line_clean(l, text, strlen(text), "");
}

static void color(struct dp_sink *s, const char *code)
{
	if (s->env->color)
		dp_line_str(s->line, code);
}

/* Names of tasks are set by programs: nothing that could drive a terminal gets through. */
static void put_task(struct dp_line *l, const char *comm)
{
	size_t at = l->n, width = 0, pad;

	clean(l, comm);
	for (size_t i = at; i < l->n; i++)
		width += (l->text[i] & 0xc0) != 0x80;
	pad = width < 16 ? 16 - width : 0;
	if (!pad || !dp_line_reserve(l, pad))
		return;
	memmove(l->text + at + pad, l->text + at, l->n - at);
	memset(l->text + at, ' ', pad);
	l->n += pad;
}

/* "%16s-%-5d [%03u] %5u." */
static void put_who(struct dp_line *l, const struct dp_sink_record *r)
{
	size_t before;

	put_task(l, r->task);
	dp_line_char(l, '-');
	before = l->n;
	dp_line_dec(l, r->tid, 0, ' ');
	while (l->n < before + 5 && !l->broken)
		dp_line_char(l, ' ');
	dp_line_str(l, " [");
	dp_line_dec(l, r->rec->cpu, 3, '0');
	dp_line_str(l, "] ");
	dp_line_dec(l, r->ns / NS, 5, ' ');
	dp_line_char(l, '.');
}

/* The same, and "%06u: ". */
static void put_head(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct text_sink *t = (struct text_sink *)s;
	struct dp_line *l = s->line;
	size_t before = l->n;
	char *to;

	if (r->ns - t->second >= NS || !dp_kept_head_put(&t->head, l, r)) {
		put_who(l, r);
		t->second = r->ns - r->ns % NS;
		dp_kept_head_is(&t->head, l, before, r);
		if (!dp_line_reserve(l, DP_DIGITS_ROOM))
			return;
	}
	to = dp_put_digits(l->text + l->n, (r->ns - t->second) / 1000, 6);
	memcpy(to, ": ", 2);
	l->n = (size_t)(to + 2 - l->text);
}

/* The function that a return goes to, without the offset. One byte back is still in the call. */
static bool put_caller(struct dp_sink *s, const struct dp_view *v)
{
	char buf[512], *plus = NULL;
	u64 addr;

	if (!s->env->symbolize || !dp_view_ret_addr(v, &addr) ||
	    !s->env->symbolize(s->env->arg, addr - 1, buf, sizeof(buf)))
		return false;
	for (char *p = buf; *p; p++)
		if (*p == '+')
			plus = p; /* the last: operators may have one in their names */
	if (plus)
		*plus = '\0';
	clean(s->line, buf);
	return true;
}

static void put_what(struct dp_sink *s, const struct dp_sink_record *r)
{
	const struct dp_event_info *ev = r->event;
	struct dp_line *l = s->line;

	color(s, CYAN);
	if (ev->name && ev->name[0])
		clean(l, ev->name);
	else if (!ev->is_return || !put_caller(s, &r->view))
		clean(l, ev->symbol);
	color(s, PLAIN);
	if (!ev->symbol[0] && !ev->offset && !ev->is_return) { /* of no place */
		dp_line_char(l, ':');
		return;
	}
	dp_line_bytes(l, ev->is_return ? ": <-" : ": @", ev->is_return ? 4 : 3);
	clean(l, ev->symbol);
	dp_line_char(l, '+');
	if (ev->offset)
		dp_line_hex(l, ev->offset);
	else
		dp_line_char(l, '0');
}

/* The caller of a return is the record's. */
static void start(struct dp_sink *s, const struct dp_sink_record *r)
{
	put_head(s, r);
	if (((const struct dp_event_info *)r->event)->is_return)
		put_what(s, r);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	put_head(s, r);
	put_what(s, r);
}

static bool lay_out(struct dp_sink *s, struct dp_template *t, const struct dp_sink_record *r)
{
	const struct dp_layout *layout = r->view.layout;

	if (!((const struct dp_event_info *)r->event)->is_return)
		put_what(s, r);
	for (u32 i = 0; i < layout->nfields; i++) {
		dp_put_field(s, layout->fields[i].name, i);
		dp_template_field(t, i, true);
	}
	dp_line_char(s->line, '\n');
	return true;
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	if (r->rec->flags & DP_REC_TRUNCATED) {
		color(s, YELLOW);
		dp_line_str(s->line, " (shortened)");
		color(s, PLAIN);
	}
	dp_line_char(s->line, '\n');
}

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	s->dim = env->color ? DIM : "";
	s->plain = env->color ? PLAIN : "";
	return true;
}

static void head(struct dp_sink *s)
{
	dp_line_str(s->line, "# tracer: dprobes\n"
			     "#\n"
			     "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
			     "#              | |       |          |         |\n");
}

const struct dp_sink_ops dp_sink_text = {
    .open = open,
    .head = head,
    .begin = begin,
    .field = dp_put_field,
    .group = dp_put_group,
    .member = dp_put_member,
    .group_end = dp_put_group_end,
    .value = dp_put_value,
    .end = end,
    .start = start,
    .lay_out = lay_out,
};
