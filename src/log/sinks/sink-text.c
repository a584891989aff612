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

#define DIM "\033[2m"
#define CYAN "\033[36m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

struct text_sink {
	struct dp_sink s;
	/* The head of the last record up to the microseconds, and what it was made of: most have the same. */
	char head[120];
	u32 head_len, tid, cpu;
	char task[16];
	u64 second;
	/* The same of what was hit. */
	char what[128];
	u32 what_len;
	const char *name, *symbol;
	u64 offset;
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
	dp_line_dec(l, r->ns / 1000000000, 5, ' ');
	dp_line_char(l, '.');
}

/* What was put since then, where it has room there: its length. 0: it has none. */
static u32 keep(const struct dp_line *l, size_t before, char *to, size_t room)
{
	size_t n = l->n - before;

	if (n > room || l->broken)
		return 0;
	memcpy(to, l->text + before, n);
	return (u32)n;
}

/* The same, and "%06u: " */
static void put_head(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct text_sink *t = (struct text_sink *)s;
	struct dp_line *l = s->line;
	size_t before = l->n;

	if (t->head_len && t->tid == r->tid && t->cpu == r->rec->cpu && r->ns - t->second < 1000000000 &&
	    !strcmp(t->task, r->task)) {
		dp_line_bytes(l, t->head, t->head_len);
	} else {
		put_who(l, r);
		t->head_len = keep(l, before, t->head, sizeof(t->head));
		t->tid = r->tid;
		t->cpu = r->rec->cpu;
		t->second = r->ns - r->ns % 1000000000;
		dp_format(t->task, sizeof(t->task), "%s", r->task);
	}
	dp_line_dec(l, (r->ns - t->second) / 1000, 6, '0');
	dp_line_bytes(l, ": ", 2);
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

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct text_sink *t = (struct text_sink *)s;
	const struct dp_event_info *ev = r->event;
	struct dp_line *l = s->line;
	size_t before;

	put_head(s, r);
	if (ev->is_return) { /* the caller is the record's */
		put_what(s, r);
		return;
	}
	if (t->what_len && t->name == ev->name && t->symbol == ev->symbol && t->offset == ev->offset) {
		dp_line_bytes(l, t->what, t->what_len);
		return;
	}
	before = l->n;
	put_what(s, r);
	t->what_len = keep(l, before, t->what, sizeof(t->what));
	t->name = ev->name;
	t->symbol = ev->symbol;
	t->offset = ev->offset;
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
};
