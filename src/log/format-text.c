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

static void color(struct dp_formatter *f, const char *code)
{
	if (f->env.color)
		dp_line_str(&f->line, code);
}

/* Names of tasks are set by programs: nothing that could drive a terminal gets through. */
static void put_task(struct dp_line *l, const char *comm)
{
	size_t n = strlen(comm), width = 0;
	char clean[16 * 2];
	size_t len = 0;

	for (size_t i = 0; i < n && len < sizeof(clean) - 4;) {
		u32 rune = 0;
		unsigned k = dp_utf8(comm + i, n - i, &rune);

		if (!k || rune < 0x20 || (rune >= 0x7f && rune < 0xa0)) {
			clean[len++] = '?';
			i += k ? k : 1;
		} else {
			memcpy(clean + len, comm + i, k);
			len += k;
			i += k;
		}
		width++;
	}
	for (; width < 16; width++)
		dp_line_char(l, ' ');
	dp_line_bytes(l, clean, len);
}

/* "%16s-%-5d [%03u] %5u.%06u: " */
static void put_head(struct dp_formatter *f, const struct dp_record *rec, u64 ns)
{
	struct dp_line *l = &f->line;
	size_t before;

	put_task(l, dp_task_name(f, rec->tid, ns));
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
	dp_line_str(&f->line, buf);
	return true;
}

static void put_where(struct dp_formatter *f, const struct dp_event_info *ev,
		      const struct dp_view *v)
{
	struct dp_line *l = &f->line;

	color(f, CYAN);
	if (ev->name && ev->name[0])
		dp_line_str(l, ev->name);
	else if (!ev->is_return || !put_caller(f, v))
		dp_line_str(l, ev->symbol);
	color(f, PLAIN);
	dp_line_str(l, ev->is_return ? ": <-" : ": @");
	dp_line_str(l, ev->symbol);
	dp_line_char(l, '+');
	if (ev->offset)
		dp_line_hex(l, ev->offset);
	else
		dp_line_char(l, '0');
}

static void put_symbol(struct dp_formatter *f, u64 addr)
{
	char buf[512];

	if (f->env.symbolize && f->env.symbolize(f->env.arg, addr, buf, sizeof(buf)))
		dp_line_str(&f->line, buf);
	else
		dp_line_hex(&f->line, addr);
}

static void put_number(struct dp_line *l, const struct dp_field *field, u64 bits)
{
	bool unnamed = !field->name[0];

	if (dp_field_is_hex(field) || unnamed) {
		/* A negative number in hexadecimal has the width of its type. */
		if (field->size < 8)
			bits &= ((u64)1 << 8 * field->size) - 1;
		dp_line_hex(l, bits);
	} else if (dp_field_is_signed(field)) {
		dp_line_signed(l, (s64)bits);
	} else {
		dp_line_dec(l, bits, 0, ' ');
	}
}

static void put_element(struct dp_formatter *f, const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_value value = dp_view_value(v, i, at);
	char c = (char)value.bits;

	if (value.state != DP_VALUE_OK)
		dp_line_str(&f->line, value.state == DP_VALUE_FAULT ? "(fault)" : "(cut)");
	else if (field->type == DP_FIELD_STRING)
		dp_line_c_string(&f->line, value.text, value.len, '"');
	else if (field->type == DP_FIELD_CHAR)
		dp_line_c_string(&f->line, &c, 1, '\'');
	else if (field->type == DP_FIELD_SYMBOL)
		put_symbol(f, value.bits);
	else
		put_number(&f->line, field, value.bits);
}

static void put_field(struct dp_formatter *f, const struct dp_view *v, unsigned i)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_line *l = &f->line;

	dp_line_char(l, ' ');
	if (field->name[0]) {
		color(f, DIM);
		dp_line_str(l, field->name);
		dp_line_char(l, '=');
		color(f, PLAIN);
	}
	if (!field->count) {
		put_element(f, v, i, 0);
		return;
	}
	dp_line_char(l, '{');
	for (unsigned k = 0; k < field->count; k++) {
		if (k)
			dp_line_char(l, ',');
		put_element(f, v, i, k);
	}
	dp_line_char(l, '}');
}

void dp_format_text(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev)
{
	struct dp_view v;

	dp_view_init(&v, rec, ev->layout);
	put_head(f, rec, ns);
	put_where(f, ev, &v);
	for (unsigned i = 0; i < ev->layout->nfields; i++)
		put_field(f, &v, i);
	if (rec->flags & DP_REC_TRUNCATED) {
		color(f, YELLOW);
		dp_line_str(&f->line, " (shortened)");
		color(f, PLAIN);
	}
	dp_line_char(&f->line, '\n');
}
