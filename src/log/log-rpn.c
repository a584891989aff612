/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See log-rpn.h. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "lang/rpn/rpn.h"
#include "log/core-text.h"
#include "log/log-fields.h"
#include "log/log-rpn.h"
#include "log/sinks.h"
#include "program/described.h"
#include "program/opcode.h"

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

static bool open_record(const struct dp_record *rec, struct dp_rpn_head *head, const u8 **data, size_t *n)
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

/* ---- what sinks get ---- */

static void member(struct dp_sink *s, const char *name, u64 v)
{
	s->ops->member(s, name);
	s->ops->value(s, &(struct dp_sink_value){.kind = DP_SINK_UNSIGNED, .bits = v});
}

static void words_member(struct dp_sink *s, const char *name, const u8 *p, size_t n)
{
	s->ops->member(s, name);
	s->ops->group(s, DP_GROUP_ARRAY);
	for (size_t i = 0; i < n; i++)
		member(s, NULL, word_at(p + 8 * i));
	s->ops->group_end(s, DP_GROUP_ARRAY);
}

static void bytes_member(struct dp_sink *s, const char *name, enum dp_sink_kind kind, const u8 *p, size_t n)
{
	s->ops->member(s, name);
	s->ops->value(s, &(struct dp_sink_value){.kind = kind, .text = (const char *)p, .len = n});
}

/* ---- items ---- */

struct item {
	int token;
	const u8 *p;
	size_t count, bytes;
};

static bool is_words(int token)
{
	return token >= DP_TOKEN_STACK && token <= DP_TOKEN_WORDS;
}

/* The next item; false when what is left is none. */
static bool next_item(const u8 **p, size_t *n, struct item *it)
{
	if (*n < 3)
		return false;
	it->token = (s8)(*p)[0];
	it->count = half_at(*p + 1);
	it->bytes = is_words(it->token) ? it->count * 8 : it->count;
	it->p = *p + 3;
	if (it->bytes > *n - 3)
		return false;
	*p += 3 + it->bytes;
	*n -= 3 + it->bytes;
	return is_words(it->token) || it->token == DP_TOKEN_MEMORY || it->token == DP_TOKEN_ASCII ||
	       (it->token == DP_TOKEN_FAULT && it->bytes == 8);
}

/* Words without a prefix cannot be told from items; where both were logged, nobody can say which is which. */
static bool items_parse(u32 flags, const u8 *p, size_t n)
{
	struct item it;

	if (flags & DP_REC_BARE)
		return !(flags & DP_REC_ITEMS) && n % 8 == 0;
	while (n)
		if (!next_item(&p, &n, &it))
			return false;
	return true;
}

u32 dp_rpn_pid(const struct dp_record *rec)
{
	struct dp_rpn_head head;
	const u8 *data;
	size_t n;

	return open_record(rec, &head, &data, &n) ? head.pid : 0;
}

void dp_rpn_values(const struct dp_record *rec, u64 *v, u32 n)
{
	struct dp_rpn_head head;
	const u8 *p;
	size_t left;
	struct item it;

	if (!open_record(rec, &head, &p, &left))
		return;
	while (left && next_item(&p, &left, &it)) {
		u64 field = it.token == DP_TOKEN_WORDS && it.count == 2 ? word_at(it.p) - DP_FIELD_MARK : n;

		if (field < n)
			v[field] = word_at(it.p + 8);
	}
}

static void walk_items(struct dp_sink *s, u32 flags, const u8 *p, size_t n)
{
	static const char *const names[] = {"stack", "locals", "globals", "words"};
	struct item it;

	if (flags & DP_REC_BARE) {
		s->ops->member(s, NULL);
		s->ops->group(s, DP_GROUP_STRUCT);
		words_member(s, "words", p, n / 8);
		s->ops->group_end(s, DP_GROUP_STRUCT);
		return;
	}
	while (n && next_item(&p, &n, &it)) {
		s->ops->member(s, NULL);
		s->ops->group(s, DP_GROUP_STRUCT);
		if (it.token == DP_TOKEN_FAULT)
			member(s, "fault", word_at(it.p));
		else if (it.token == DP_TOKEN_MEMORY)
			bytes_member(s, "memory", DP_SINK_BYTES, it.p, it.bytes);
		else if (it.token == DP_TOKEN_ASCII)
			bytes_member(s, "ascii", DP_SINK_TEXT, it.p, it.bytes);
		else
			words_member(s, names[it.token - DP_TOKEN_STACK], it.p, it.count);
		s->ops->group_end(s, DP_GROUP_STRUCT);
	}
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

static void walk_vars(struct dp_sink *s, struct cut *c, int token, const char *name)
{
	u32 n = next_prefix(c, token);

	if (!n)
		return;
	n = (u32)DP_MIN((size_t)n, c->n / 8);
	words_member(s, name, c->p, n);
	c->p += 8 * n;
	c->n -= 8 * n;
}

static void walk_frame(struct dp_sink *s, struct cut *c)
{
	u64 called = next_word(c), ret = next_word(c);

	s->ops->member(s, NULL);
	s->ops->group(s, DP_GROUP_STRUCT);
	member(s, "called", called);
	if (ret != ~0ull)
		member(s, "return", ret);
	walk_vars(s, c, DP_TOKEN_STACK, "stack");
	walk_vars(s, c, DP_TOKEN_LOCALS, "locals");
	walk_vars(s, c, DP_TOKEN_GLOBALS, "globals");
	s->ops->group_end(s, DP_GROUP_STRUCT);
}

/* What was cut off is left out. */
static void walk_traces(struct dp_sink *s, const u8 *p, size_t n)
{
	struct cut c = {p, n, false};

	next_prefix(&c, DP_TOKEN_TRACES);
	while (!c.ended && c.n >= 4 * 8) {
		u64 code = next_word(&c), handler = next_word(&c), parm1 = next_word(&c), parm2 = next_word(&c);
		u32 frames = next_prefix(&c, DP_TOKEN_FRAMES);

		s->ops->member(s, NULL);
		s->ops->group(s, DP_GROUP_STRUCT);
		member(s, "exception", code);
		if (handler != ~0ull)
			member(s, "handler", handler);
		member(s, "parm1", parm1);
		member(s, "parm2", parm2);
		s->ops->member(s, "frames");
		s->ops->group(s, DP_GROUP_ARRAY);
		for (u32 i = 0; i < frames && !c.ended; i++)
			walk_frame(s, &c);
		s->ops->group_end(s, DP_GROUP_ARRAY);
		s->ops->group_end(s, DP_GROUP_STRUCT);
	}
}

/* ---- records ---- */

static bool parses(enum dp_sink_section what, u32 flags, const u8 *p, size_t n)
{
	if (what == DP_SECTION_ITEMS)
		return items_parse(flags, p, n);
	return what == DP_SECTION_TRACES || dp_fields_parse(p, n);
}

static void walk_section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what)
{
	if (!s->ops->section(s, r, what, parses(what, r->rec->flags, r->data, r->size)))
		return;
	if (what == DP_SECTION_TRACES)
		walk_traces(s, r->data, r->size);
	else if (what == DP_SECTION_ITEMS)
		walk_items(s, r->rec->flags, r->data, r->size);
	else
		dp_walk_described(s, r->program, r->data, r->size);
	s->ops->section_end(s, what);
}

static void name_address(struct dp_sink *s, u64 addr, bool behind_call, char *buf, size_t size)
{
	const struct dp_rpn_context *c = s->arg;

	dp_symbol_text(c->symbolize, c->symbolize_arg, addr, behind_call, buf, size);
}

/* The program: its records may be shown as events. Formats that need to know all events beforehand do not. */
static bool as_events(enum dp_format format, bool events)
{
	return events && (format == DP_FORMAT_TEXT || format == DP_FORMAT_JSON || format == DP_FORMAT_JOURNALD);
}

static void make_sink(union dp_sink_room *room, struct dp_line *l, enum dp_format format, bool events,
		      const struct dp_rpn_context *c)
{
	memset(room, 0, sizeof(*room));
	room->s.ops = as_events(format, events) ? dp_format_of_events(format) : dp_format_of_programs(format);
	room->s.line = l;
	room->s.symbol = name_address;
	room->s.arg = (void *)c;
	room->s.dim = room->s.plain = "";
	room->s.program = !as_events(format, events);
}

void dp_rpn_log_head(struct dp_line *l, enum dp_format format, bool events)
{
	union dp_sink_room room;

	make_sink(&room, l, format, events, NULL);
	if (room.s.ops->head)
		room.s.ops->head(&room.s);
}

u64 dp_rpn_function(const char *module, const char *symbol)
{
	u64 h = dp_hash(dp_hash(DP_HASH_BEGIN, module, strlen(module)), symbol, strlen(symbol));

	return h ? h : 1;
}

u32 dp_rpn_events(const struct dp_rpn_unit *u, struct dp_event_info *to)
{
	static const struct dp_layout nothing;
	u32 n = 0;

	for (u32 i = 0; i < u->nprobes; i++) {
		const struct dp_rf_event *e = u->probes[i].rf ? u->probes[i].rf->event : NULL;

		if (e)
			to[n++] = (struct dp_event_info){.group = e->group,
							 .name = e->name,
							 .symbol = e->symbol,
							 .offset = e->offset,
							 .is_return = e->is_return,
							 .layout = &nothing,
							 .function = e->offset ? 0
									       : dp_rpn_function(u->name, e->symbol)};
	}
	return n;
}

/* Where the hit was, of a program that does not say it: "malloc+0x12" in name is taken apart. */
static void find_place(const struct dp_sink_record *r, char *name, size_t size, struct dp_event_info *info)
{
	char *plus;

	dp_symbol_text(r->program->symbolize, r->program->symbolize_arg, r->head->ip, false, name, size);
	plus = strrchr(name, '+'); /* the last: operators may have one in their names */
	info->symbol = name;
	if (plus && plus > name) {
		info->offset = strtoull(plus + 1, NULL, 0);
		*plus = '\0';
	}
}

static void walk_as_event(struct dp_sink *s, struct dp_sink_record *r)
{
	static const struct dp_layout nothing;
	const struct dp_rpn_context *c = r->program;
	const struct dp_rf_event *e = c->rf->event;
	struct dp_event_info info = {.group = e ? e->group : "",
				     .name = e ? e->name : "",
				     .symbol = e ? e->symbol : "",
				     .offset = e ? e->offset : 0,
				     .is_return = e && e->is_return,
				     .layout = &nothing};
	char name[DP_SINK_SYMBOL];
	const struct dp_format_env own = {
	    .events = &info, .nevents = 1, .symbolize = c->symbolize, .arg = c->symbolize_arg};
	const struct dp_format_env *env = s->env;

	if (!e)
		find_place(r, name, sizeof(name), &info);
	s->env = env ? env : &own;
	r->event = &info;
	r->ns = c->ns;
	r->pid = r->head->pid;
	r->view.layout = &nothing;
	s->ops->begin(s, r);
	dp_walk_described(s, c, r->data, r->size);
	s->ops->end(s, r);
	s->env = env;
	r->event = NULL;
}

static void walk_as_program(struct dp_sink *s, const struct dp_sink_record *r)
{
	s->ops->begin(s, r);
	if (r->rec->flags & DP_REC_TRACE) {
		walk_section(s, r, DP_SECTION_TRACES);
	} else {
		walk_section(s, r, DP_SECTION_ITEMS);
		if (r->program->rf)
			walk_section(s, r, DP_SECTION_FIELDS);
	}
	s->ops->end(s, r);
}

static bool is_of_event(const struct dp_record *rec, const struct dp_rpn_context *c)
{
	return c->rf && c->rf->event && !(rec->flags & DP_REC_TRACE);
}

/*
 * Text shows records whose items are described on a line, as it shows events. What tells more than its items, and what
 * was asked for in the form of Dynamic Probes (--log), has that form.
 */
static bool is_line(enum dp_format format, const struct dp_sink_record *r)
{
	const struct dp_rpn_context *c = r->program;
	char core[8];

	return format == DP_FORMAT_TEXT && c->rf && !c->fields && !(r->rec->flags & (DP_REC_TRACE | DP_REC_STOP)) &&
	       !dp_core_text(r->head, core, sizeof(core)) && dp_fields_parse(r->data, r->size);
}

static void walk(struct dp_sink *s, struct dp_sink_record *r)
{
	if (s->program)
		walk_as_program(s, r);
	else
		walk_as_event(s, r);
}

bool dp_rpn_log(struct dp_line *l, enum dp_format format, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	struct dp_sink_record r = {.rec = rec, .task = c->comm, .tid = rec->tid, .program = c};
	union dp_sink_room room;
	struct dp_rpn_head head;

	if (!open_record(rec, &head, &r.data, &r.size))
		return false;
	r.head = &head;
	make_sink(&room, l, format, is_of_event(rec, c) || is_line(format, &r), c);
	walk(&room.s, &r);
	if (room.s.ops->release)
		room.s.ops->release(&room.s);
	return true;
}

void dp_rpn_log_raw(struct dp_line *l, const struct dp_record *rec)
{
	static const char mark[] = {DP_RPN_RAW, '\0'};
	struct dp_rpn_head head;
	const u8 *data;
	size_t size;

	if (open_record(rec, &head, &data, &size))
		dp_line_rows(l, mark, data, size);
}

bool dp_rpn_walk(struct dp_sink *s, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	struct dp_sink_record r = {
	    .rec = rec, .task = c->comm, .tid = rec->tid, .ns = c->ns, .source = c->pid, .program = c};
	struct dp_rpn_head head;

	if (!open_record(rec, &head, &r.data, &r.size))
		return false;
	r.head = &head;
	s->program = !is_of_event(rec, c);
	s->symbol = name_address;
	s->arg = (void *)c;
	s->code_file = c->code_file;
	s->code_file_arg = c->symbolize_arg;
	walk(s, &r);
	return true;
}

bool dp_rpn_log_section(struct dp_line *l, enum dp_format format, enum dp_sink_section what, u32 flags,
			const struct dp_rpn_context *c, const u8 *p, size_t n)
{
	const struct dp_record rec = {.flags = (u16)flags};
	struct dp_sink_record r = {.rec = &rec, .program = c, .data = p, .size = n};
	union dp_sink_room room;

	if (!parses(what, flags, p, n))
		return false;
	make_sink(&room, l, format, false, c);
	walk_section(&room.s, &r, what);
	return true;
}
