/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of probe programs as text: the two lines that Dynamic Probes writes to the system log, and below them the
 * fields, or the bytes in rows where nothing describes them. Their aggregates: sink-table.c.
 */
#include "log/core-text.h"
#include "log/log-rpn.h"
#include "log/sinks/sink-table.h"
#include "log/sinks.h"

#define ROW 16

static void rows(struct dp_line *l, const u8 *p, size_t n)
{
	for (size_t at = 0; at < n; at += ROW) {
		dp_line_format(l, "%04zx ", at);
		for (size_t i = 0; i < ROW; i++) {
			if (i % 4 == 0)
				dp_line_char(l, ' ');
			if (at + i < n)
				dp_line_bytes_hex(l, p + at + i, 1);
			else
				dp_line_str(l, "  ");
		}
		dp_line_str(l, "  ");
		for (size_t i = 0; i < ROW && at + i < n; i++)
			dp_line_char(l, p[at + i] >= ' ' && p[at + i] < 0x7f ? (char)p[at + i] : '.');
		dp_line_char(l, '\n');
	}
}

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

/* The data is shown once: as fields where they are described, else as rows. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	if (r->program->fields & DP_RPN_LOG_UNFORMATTED)
		return false;
	if (what == DP_SECTION_FIELDS && parses)
		return true;
	if (what == DP_SECTION_TRACES || what == DP_SECTION_FIELDS || !r->program->rf)
		rows(s->line, r->data, r->size);
	return false;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
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
    .group = dp_put_group,
    .member = dp_put_member,
    .group_end = dp_put_group_end,
    .value = dp_put_value,
    .end = end,
    .section = section,
    .section_end = section_end,
    .aggregate = dp_table_aggregate,
};
