/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of probe programs as text: the two lines that Dynamic Probes writes to the system log, and below them the
 * fields or items, or the bytes in rows where nothing tells what they are. Their aggregates: sink-table.c.
 */
#include "log/core-text.h"
#include "log/log-rpn.h"
#include "log/sinks/sink-table.h"
#include "log/sinks.h"

struct rpn_sink {
	struct dp_sink s;
	bool in_items; /* of the program, each on a line of its own */
};
_Static_assert(sizeof(struct rpn_sink) <= sizeof(union dp_sink_room), "a sink fits");

static void selected(struct dp_line *l, const struct dp_sink_record *r)
{
	const struct dp_rpn_context *c = r->program;
	const struct dp_rpn_head *head = r->head;

	if (c->fields & DP_RPN_LOG_CPU)
		dp_line_format(l, " cpu=%u", r->rec->cpu);
	if (c->fields & DP_RPN_LOG_PID)
		dp_line_format(l, " pid=%u", head->pid);
	if (c->fields & DP_RPN_LOG_UID)
		dp_line_format(l, " uid=%u", c->uid);
	if (c->fields & DP_RPN_LOG_CSEIP)
		dp_line_format(l, " cs=%x eip=%016llx", head->cs, (unsigned long long)head->ip);
	if (c->fields & DP_RPN_LOG_SSESP)
		dp_line_format(l, " ss=%x esp=%016llx", head->ss, (unsigned long long)head->sp);
	if (c->fields & DP_RPN_LOG_TSC)
		dp_line_format(l, " tsc=%llu:%06llu", (unsigned long long)(c->realtime_ns / 1000000000u),
			       (unsigned long long)(c->realtime_ns / 1000u % 1000000u));
	if (c->fields & DP_RPN_LOG_PROCNAME) {
		dp_line_str(l, " name=");
		for (const char *p = r->task ? r->task : "<...>"; *p; p++) /* a name may hold anything */
			dp_line_char(l, *p > ' ' && *p < 0x7f ? *p : '?');
	}
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	bool bare = r->program->fields & DP_RPN_LOG_UNFORMATTED;
	struct dp_line *l = s->line;

	dp_line_format(l, "dprobes(%u,%u)", r->head->major, r->head->minor);
	selected(l, r);
	dp_line_format(l, "\ndprobes(%u,%u) ", r->head->major, r->head->minor);
	if (r->rec->flags & DP_REC_TRACE) {
		dp_line_str(l, "stack trace of ");
		dp_line_c_string(l, r->program->module, strlen(r->program->module), '"');
		dp_line_format(l, "+0x%llx id=%u: ", (unsigned long long)r->program->offset, r->program->id & 0xffff);
	}
	dp_line_format(l, "%zu bytes%s", r->size, r->rec->flags & DP_REC_TRUNCATED ? ", cut to the log budget" : "");
	dp_line_str(l, bare && r->size ? ": " : !bare && r->size ? ":\n" : "\n");
	if (!bare)
		return;
	dp_line_bytes_hex(l, r->data, r->size);
	if (r->size)
		dp_line_char(l, '\n');
}

/* The data is shown once: as fields where they are described, as items where they can be told apart, else as rows. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	bool described = r->program->rf && what == DP_SECTION_ITEMS;

	if (r->program->fields & DP_RPN_LOG_UNFORMATTED || described)
		return false;
	((struct rpn_sink *)s)->in_items = what == DP_SECTION_ITEMS;
	if (parses && what != DP_SECTION_TRACES)
		return true;
	dp_line_rows(s->line, "", r->data, r->size);
	return false;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
	((struct rpn_sink *)s)->in_items = false;
}

/* Whether it is an item of the program, and nothing within one. */
static bool is_item(const struct dp_sink *s)
{
	return ((const struct rpn_sink *)s)->in_items && s->depth == 0;
}

static void member(struct dp_sink *s, const char *name)
{
	if (!is_item(s))
		dp_put_member(s, name);
}

static void group(struct dp_sink *s, enum dp_sink_group what)
{
	if (!is_item(s)) {
		dp_put_group(s, what);
		return;
	}
	dp_line_str(s->line, "  ");
	dp_sink_deeper(s);
}

static void group_end(struct dp_sink *s, enum dp_sink_group what)
{
	if (!((struct rpn_sink *)s)->in_items || s->depth != 1) {
		dp_put_group_end(s, what);
		return;
	}
	s->depth--;
	dp_line_char(s->line, '\n');
}

static void field_end(struct dp_sink *s)
{
	dp_line_char(s->line, '\n');
}

static void put_core(struct dp_sink *s, const struct dp_sink_record *r)
{
	char text[512];

	if (!dp_core_text(r->head, text, sizeof(text)))
		return;
	dp_line_format(s->line, "dprobes(%u,%u) process %u: ", r->head->major, r->head->minor, r->head->pid);
	dp_line_clean(s->line, text, strlen(text), "");
	dp_line_char(s->line, '\n');
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	if (!(r->rec->flags & DP_REC_TRACE))
		put_core(s, r);
	if (r->rec->flags & DP_REC_STOP)
		dp_line_format(s->line, "dprobes(%u,%u) process %u is stopped: gdb -p %u, or kill -CONT %u\n",
			       r->head->major, r->head->minor, r->head->pid, r->head->pid, r->head->pid);
}

const struct dp_sink_ops dp_sink_rpn = {
    .begin = begin,
    .field = dp_put_field,
    .field_end = field_end,
    .group = group,
    .member = member,
    .group_end = group_end,
    .value = dp_put_value,
    .end = end,
    .section = section,
    .section_end = section_end,
    .aggregate = dp_table_aggregate,
};
