/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records as lines of text in the layout of the kprobe-based event tracer:
 *
 *     redis-server-2376  [001]   262.389131: conn: @acceptTcpHandler+0 el=0x55d0 fd=6
 *
 * `@` marks a hit of a probe, `<-` a return. Before the colon stands the event's name when the user
 * gave one; else the function, for a return the function that is returned to.
 */
#include "log/format-priv.h"

#define DIM "\033[2m"
#define CYAN "\033[36m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

/* Symbols come from files that anybody may have made. */
static void clean(struct dp_line *l, const char *text)
{
	dp_line_clean(l, text, strlen(text), "");
}

static void color(struct dp_formatter *f, const char *code)
{
	if (f->env.color)
		dp_line_str(&f->line, code);
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

/* "%16s-%-5d [%03u] %5u.%06u: " */
static void put_head(struct dp_formatter *f, const struct dp_record *rec, u64 ns)
{
	struct dp_line *l = &f->line;
	size_t before;

	put_task(l, dp_task_name(f, rec, ns));
	dp_line_char(l, '-');
	before = l->n;
	dp_line_dec(l, dp_task_id(f, rec->tid), 0, ' ');
	while (l->n < before + 5 && !l->broken)
		dp_line_char(l, ' ');
	dp_line_str(l, " [");
	dp_line_dec(l, rec->cpu, 3, '0');
	dp_line_str(l, "] ");
	dp_line_dec(l, ns / 1000000000, 5, ' ');
	dp_line_char(l, '.');
	dp_line_dec(l, ns / 1000 % 1000000, 6, '0');
	dp_line_str(l, ": ");
}

/* The function that a return goes to, without the offset. One byte back is still in the call. */
static bool put_caller(struct dp_formatter *f, const struct dp_view *v)
{
	char buf[512], *plus = NULL;
	u64 addr;

	if (!f->env.symbolize || !dp_view_ret_addr(v, &addr) ||
	    !f->env.symbolize(f->env.arg, addr - 1, buf, sizeof(buf)))
		return false;
	for (char *p = buf; *p; p++)
		if (*p == '+')
			plus = p; /* the last: operators may have one in their names */
	if (plus)
		*plus = '\0';
	clean(&f->line, buf);
	return true;
}

static void put_where(struct dp_formatter *f, const struct dp_event_info *ev,
		      const struct dp_view *v)
{
	struct dp_line *l = &f->line;

	color(f, CYAN);
	if (ev->name && ev->name[0])
		clean(l, ev->name);
	else if (!ev->is_return || !put_caller(f, v))
		clean(l, ev->symbol);
	color(f, PLAIN);
	dp_line_str(l, ev->is_return ? ": <-" : ": @");
	clean(l, ev->symbol);
	dp_line_char(l, '+');
	if (ev->offset)
		dp_line_hex(l, ev->offset);
	else
		dp_line_char(l, '0');
}

static void put_symbol(struct dp_line *l, u64 addr, bool behind_call, void *arg)
{
	struct dp_formatter *f = arg;
	char buf[512];

	dp_symbol_text(f->env.symbolize, f->env.arg, addr, behind_call, buf, sizeof(buf));
	clean(l, buf);
}

void dp_format_text(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev)
{
	struct dp_put put = {&f->line, put_symbol, f, f->env.color ? DIM : "", f->env.color ? PLAIN : ""};
	struct dp_view v;

	dp_view_init(&v, rec, ev->layout);
	put_head(f, rec, ns);
	put_where(f, ev, &v);
	dp_put_fields(&put, &v);
	if (rec->flags & DP_REC_TRUNCATED) {
		color(f, YELLOW);
		dp_line_str(&f->line, " (shortened)");
		color(f, PLAIN);
	}
	dp_line_char(&f->line, '\n');
}
