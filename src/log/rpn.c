/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See rpn.h. */
#include "log/rpn.h"

#include "log/fields.h"
#include "log/view.h"
#include "program/opcode.h"

#define ROW 16

static void put(struct dp_line *l, const char *fmt, ...) DP_PRINTF(2, 3);

static void put(struct dp_line *l, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	dp_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	dp_line_str(l, text);
}

static u64 word_at(const u8 *p)
{
	u64 v;

	memcpy(&v, p, 8);
	return v;
}

static u32 half_at(const u8 *p)
{
	return p[0] | (u32)p[1] << 8;
}

static bool open_record(const struct dp_record *rec, struct dp_rpn_head *head, const u8 **data,
			size_t *n)
{
	if (!(rec->flags & DP_REC_RPN) || rec->len < sizeof(*rec) + sizeof(*head))
		return false;
	memcpy(head, rec + 1, sizeof(*head));
	*data = (const u8 *)(rec + 1) + sizeof(*head);
	*n = rec->len - sizeof(*rec) - sizeof(*head);
	if (dp_view_comm(rec)) {
		if (*n < DP_COMM_SIZE)
			return false;
		*n -= DP_COMM_SIZE;
	}
	/* Lengths in the ring are rounded up to words; how much of the last one counts stands in
	 * the head. */
	if (head->pad & 7 && *n >= (head->pad & 7))
		*n -= head->pad & 7;
	return true;
}

static void hex(struct dp_line *l, const u8 *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(l, "%02x", p[i]);
}

static void rows(struct dp_line *l, const u8 *p, size_t n)
{
	for (size_t at = 0; at < n; at += ROW) {
		put(l, "%04zx ", at);
		for (size_t i = 0; i < ROW; i++) {
			if (i % 4 == 0)
				dp_line_char(l, ' ');
			if (at + i < n)
				put(l, "%02x", p[at + i]);
			else
				dp_line_str(l, "  ");
		}
		dp_line_str(l, "  ");
		for (size_t i = 0; i < ROW && at + i < n; i++)
			dp_line_char(l,
				     p[at + i] >= ' ' && p[at + i] < 0x7f ? (char)p[at + i] : '.');
		dp_line_char(l, '\n');
	}
}

static void selected(struct dp_line *l, const struct dp_record *rec, const struct dp_rpn_head *head,
		     const struct dp_rpn_context *c)
{
	if (c->fields & DP_RPN_LOG_CPU)
		put(l, " cpu=%u", rec->cpu);
	if (c->fields & DP_RPN_LOG_PID)
		put(l, " pid=%u", head->pid);
	if (c->fields & DP_RPN_LOG_UID)
		put(l, " uid=%u", c->uid);
	if (c->fields & DP_RPN_LOG_CSEIP)
		put(l, " cs=%x eip=%016llx", head->cs, (unsigned long long)head->ip);
	if (c->fields & DP_RPN_LOG_SSESP)
		put(l, " ss=%x esp=%016llx", head->ss, (unsigned long long)head->sp);
	if (c->fields & DP_RPN_LOG_TSC)
		put(l, " tsc=%llu:%06llu", (unsigned long long)(c->realtime_ns / 1000000000u),
		    (unsigned long long)(c->realtime_ns / 1000u % 1000000u));
	if (c->fields & DP_RPN_LOG_PROCNAME) {
		dp_line_str(l, " name=");
		for (const char *p = c->comm ? c->comm : "<...>"; *p;
		     p++) /* a name may hold anything */
			dp_line_char(l, *p > ' ' && *p < 0x7f ? *p : '?');
	}
}

bool dp_rpn_log_text(struct dp_line *l, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	struct dp_rpn_head head;
	const u8 *data;
	size_t n;

	if (!open_record(rec, &head, &data, &n))
		return false;
	put(l, "dprobes(%u,%u)", head.major, head.minor);
	selected(l, rec, &head, c);
	put(l, "\ndprobes(%u,%u) ", head.major, head.minor);
	if (rec->flags & DP_REC_TRACE) {
		dp_line_str(l, "stack trace of ");
		dp_line_c_string(l, c->module, strlen(c->module), '"');
		put(l, "+0x%llx id=%u: ", (unsigned long long)c->offset, c->id & 0xffff);
	}
	put(l, "%zu bytes%s", n, rec->flags & DP_REC_TRUNCATED ? ", cut to the log budget" : "");
	if (c->fields & DP_RPN_LOG_UNFORMATTED) {
		dp_line_str(l, n ? ": " : "");
		hex(l, data, n);
		dp_line_char(l, '\n');
	} else {
		dp_line_str(l, n ? ":\n" : "\n");
		if (rec->flags & DP_REC_TRACE || !c->rf || !dp_fields_text(l, c, data, n))
			rows(l, data, n);
	}
	if (rec->flags & DP_REC_STOP)
		put(l, "dprobes(%u,%u) process %u is stopped: gdb -p %u, or kill -CONT %u\n", head.major, head.minor, head.pid,
		    head.pid, head.pid);
	return true;
}

/* ---- items ---- */

static void words_json(struct dp_line *l, const u8 *p, size_t n)
{
	dp_line_char(l, '[');
	for (size_t i = 0; i < n; i++)
		put(l, "%s%llu", i ? "," : "", (unsigned long long)word_at(p + 8 * i));
	dp_line_char(l, ']');
}

static bool item_json(struct dp_line *l, int token, const u8 *p, size_t n)
{
	static const char *const names[] = {"stack", "locals", "globals", "words"};

	if (token == DP_TOKEN_FAULT && n == 8) {
		put(l, "{\"fault\":%llu}", (unsigned long long)word_at(p));
	} else if (token == DP_TOKEN_MEMORY) {
		dp_line_str(l, "{\"memory\":\"");
		hex(l, p, n);
		dp_line_str(l, "\"}");
	} else if (token == DP_TOKEN_ASCII) {
		dp_line_str(l, "{\"ascii\":");
		dp_line_json_string(l, (const char *)p, n);
		dp_line_char(l, '}');
	} else if (token >= DP_TOKEN_STACK && token <= DP_TOKEN_WORDS) {
		put(l, "{\"%s\":", names[token - DP_TOKEN_STACK]);
		words_json(l, p, n / 8);
		dp_line_char(l, '}');
	} else {
		return false;
	}
	return true;
}

bool dp_rpn_items_json(struct dp_line *l, const u8 *p, size_t n)
{
	size_t start = l->n;
	bool first = true;

	dp_line_char(l, '[');
	while (n) {
		int token = n >= 3 ? (s8)p[0] : -128;
		size_t count = n >= 3 ? half_at(p + 1) : 0;
		size_t bytes =
		    token >= DP_TOKEN_STACK && token <= DP_TOKEN_WORDS ? count * 8 : count;

		if (!first)
			dp_line_char(l, ',');
		if (n < 3 || bytes > n - 3 || !item_json(l, token, p + 3, bytes)) {
			l->n = start;
			return false;
		}
		first = false;
		p += 3 + bytes;
		n -= 3 + bytes;
	}
	dp_line_char(l, ']');
	return true;
}

/* ---- stack traces ---- */

struct cut { /* a reader that stops at the end of what there is */
	const u8 *p;
	size_t n;
	bool ended;
};

static u64 next_word(struct cut *c)
{
	u64 v;

	if (c->n < 8) {
		c->ended = true;
		return 0;
	}
	v = word_at(c->p);
	c->p += 8;
	c->n -= 8;
	return v;
}

static u32 next_prefix(struct cut *c, int token)
{
	u32 count;

	if (c->n < 3 || (s8)c->p[0] != token) {
		c->ended = true;
		return 0;
	}
	count = half_at(c->p + 1);
	c->p += 3;
	c->n -= 3;
	return count;
}

static void vars_json(struct dp_line *l, struct cut *c, int token, const char *name)
{
	u32 n = next_prefix(c, token);

	if (!n)
		return;
	n = (u32)DP_MIN((size_t)n, c->n / 8);
	put(l, ",\"%s\":", name);
	words_json(l, c->p, n);
	c->p += 8 * n;
	c->n -= 8 * n;
}

static void frame_json(struct dp_line *l, struct cut *c)
{
	u64 called = next_word(c), ret = next_word(c);

	put(l, "{\"called\":%llu", (unsigned long long)called);
	if (ret != ~0ull)
		put(l, ",\"return\":%llu", (unsigned long long)ret);
	vars_json(l, c, DP_TOKEN_STACK, "stack");
	vars_json(l, c, DP_TOKEN_LOCALS, "locals");
	vars_json(l, c, DP_TOKEN_GLOBALS, "globals");
	dp_line_char(l, '}');
}

void dp_rpn_traces_json(struct dp_line *l, const u8 *p, size_t n)
{
	struct cut c = {p, n, false};
	bool first = true;

	dp_line_char(l, '[');
	next_prefix(&c, DP_TOKEN_TRACES);
	while (!c.ended && c.n >= 4 * 8) {
		u64 code = next_word(&c), handler = next_word(&c), parm1 = next_word(&c),
		    parm2 = next_word(&c);
		u32 frames = next_prefix(&c, DP_TOKEN_FRAMES);

		put(l, "%s{\"exception\":%llu", first ? "" : ",", (unsigned long long)code);
		if (handler != ~0ull)
			put(l, ",\"handler\":%llu", (unsigned long long)handler);
		put(l, ",\"parm1\":%llu,\"parm2\":%llu,\"frames\":[", (unsigned long long)parm1,
		    (unsigned long long)parm2);
		for (u32 i = 0; i < frames && !c.ended; i++) {
			if (i)
				dp_line_char(l, ',');
			frame_json(l, &c);
		}
		dp_line_str(l, "]}");
		first = false;
	}
	dp_line_char(l, ']');
}

bool dp_rpn_log_json(struct dp_line *l, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	struct dp_rpn_head head;
	const u8 *data;
	size_t n;

	if (!open_record(rec, &head, &data, &n))
		return false;
	put(l, "{\"time\":%llu.%09llu,\"major\":%u,\"minor\":%u",
	    (unsigned long long)(c->realtime_ns / 1000000000u),
	    (unsigned long long)(c->realtime_ns % 1000000000u), head.major, head.minor);
	dp_line_str(l, ",\"module\":");
	dp_line_json_string(l, c->module, strlen(c->module));
	put(l, ",\"pid\":%u,\"tid\":%u,\"cpu\":%u,\"ip\":%llu,\"sp\":%llu,\"name\":", head.pid,
	    rec->tid, rec->cpu, (unsigned long long)head.ip, (unsigned long long)head.sp);
	dp_line_json_string(l, c->comm ? c->comm : "", c->comm ? strlen(c->comm) : 0);
	if (rec->flags & DP_REC_TRACE) {
		dp_line_str(l, ",\"traces\":");
		dp_rpn_traces_json(l, data, n);
	} else {
		dp_line_str(l, ",\"data\":\"");
		hex(l, data, n);
		dp_line_str(l, "\",\"items\":");
		if (!dp_rpn_items_json(l, data, n))
			dp_line_str(l, "null");
		if (c->rf) {
			dp_line_str(l, ",\"fields\":");
			if (!dp_fields_json(l, c, data, n))
				dp_line_str(l, "null");
		}
	}
	dp_line_str(l, rec->flags & DP_REC_STOP ? ",\"stopped\":true}\n" : "}\n");
	return true;
}
