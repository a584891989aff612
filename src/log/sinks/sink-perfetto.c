/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events in the trace format of Perfetto, one packet after the other: entries and returns of one function begin and end
 * a slice of their thread's track, everything else is a moment.
 */
#include <stdlib.h>
#include <string.h>

#include "log/calls.h"
#include "log/sinks.h"
#include <perfetto.pb-c.h>

#define NAMES 1024 /* threads whose tracks were just described */
#define SEQUENCE 1
#define STATE_CLEARED 1 /* the sequence begins */
#define NESTED 8

/* Values of a record: a tree whose nodes are given back together. */
struct value {
	Dp__PfValue v;
	Dp__PfValue **v_children;
	size_t n, room;
	struct value *next; /* of all */
};

struct perfetto_sink {
	struct dp_sink s;
	struct dp_calls *calls;
	u32 *named;    /* threads by their low bits */
	u64 ns;        /* of the last record */
	bool has_head; /* the first packet is written */
	struct value *values, *path[NESTED], *next_value;
	u32 depth; /* open groups of path[] */
	enum dp_call_role role;
};
_Static_assert(sizeof(struct perfetto_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct perfetto_sink *pf(struct dp_sink *s)
{
	return (struct perfetto_sink *)s;
}

/* ---- packets ---- */

static void write_packet(struct perfetto_sink *p, Dp__PfPacket *packet)
{
	struct dp_line *l = p->s.line;
	Dp__PfTrace trace = DP__PF_TRACE__INIT;
	size_t size;

	packet->has_trusted_packet_sequence_id = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	packet->has_sequence_flags = !p->has_head;
	packet->sequence_flags = STATE_CLEARED;
	p->has_head = true;
	trace.n_packet = 1;
	trace.packet = &packet;
	size = dp__pf_trace__get_packed_size(&trace);
	if (dp_line_reserve(l, size))
		l->n += dp__pf_trace__pack(&trace, (u8 *)l->text + l->n);
}

/* Texts of somebody else: valid UTF-8 and nothing that could drive a terminal. The caller frees it. */
static char *clean_text(struct dp_line *broken, const char *text, size_t n)
{
	char *clean = dp_line_clean_copy(text, n);

	broken->broken |= !clean;
	return clean;
}

static u64 track_of(const struct perfetto_sink *p, u32 tid)
{
	return ((u64)p->s.env->pid << 32) + tid + 1;
}

static void describe_thread(struct perfetto_sink *p, u32 tid, const char *task)
{
	Dp__PfThread thread = DP__PF_THREAD__INIT;
	Dp__PfTrack track = DP__PF_TRACK__INIT;
	Dp__PfPacket packet = DP__PF_PACKET__INIT;
	char *name = clean_text(p->s.line, task, strlen(task));

	thread.has_pid = thread.has_tid = true;
	thread.pid = (s32)p->s.env->pid;
	thread.tid = (s32)tid;
	thread.thread_name = name;
	track.has_uuid = true;
	track.uuid = track_of(p, tid);
	track.thread = &thread;
	packet.track_descriptor = &track;
	write_packet(p, &packet);
	dp_free(name);
}

static void write_event(struct perfetto_sink *p, u32 tid, u64 ns, Dp__PfEvent__Type type, const char *name,
			const char *group, Dp__PfValue **values, size_t n)
{
	Dp__PfEvent event = DP__PF_EVENT__INIT;
	Dp__PfPacket packet = DP__PF_PACKET__INIT;
	char *clean_name = name ? clean_text(p->s.line, name, strlen(name)) : NULL;
	char *clean_group = group && *group ? clean_text(p->s.line, group, strlen(group)) : NULL;

	event.has_type = event.has_track_uuid = packet.has_timestamp = true;
	event.type = type;
	event.track_uuid = track_of(p, tid);
	event.name = clean_name;
	event.n_categories = !!clean_group;
	event.categories = &clean_group;
	event.n_debug_annotations = n;
	event.debug_annotations = values;
	packet.timestamp = ns;
	packet.track_event = &event;
	write_packet(p, &packet);
	dp_free(clean_name);
	dp_free(clean_group);
}

/* A slice or a moment with one thing to say. */
static void write_remark(struct perfetto_sink *p, u32 tid, u64 ns, Dp__PfEvent__Type type, const char *name,
			 const char *key, const char *text)
{
	Dp__PfValue value = DP__PF_VALUE__INIT, *values = &value;

	value.name = (char *)key;
	value.string_value = (char *)text;
	write_event(p, tid, ns, type, name, NULL, &values, 1);
}

static void on_enter(void *arg, u32 tid, struct dp_call *call, const struct dp_call *parent, u32 depth)
{
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	if (how == DP_CALL_LEFT)
		write_remark(arg, tid, ns, DP__PF_EVENT__TYPE__SLICE_END, NULL, "end",
			     outer[depth].lost ? "records were lost" : "no return was seen");
}

/* ---- values ---- */

static void free_values(struct perfetto_sink *p)
{
	for (struct value *v = p->values, *next; v; v = next) {
		next = v->next;
		free(v->v_children);
		free(v->v.name);
		dp_free(v->v.string_value);
		free(v);
	}
	p->values = NULL;
}

/* A member of the innermost group, which takes its name. */
static struct value *add_value(struct perfetto_sink *p, const char *name)
{
	struct value *in = p->path[p->depth], *v = in ? calloc(1, sizeof(*v)) : NULL;

	if (!v || !dp_grow((void **)&in->v_children, &in->room, in->n, sizeof(*in->v_children))) {
		free(v);
		p->s.line->broken = true;
		return NULL;
	}
	dp__pf_value__init(&v->v);
	v->v.name = name ? strdup(name) : NULL;
	v->next = p->values;
	p->values = v;
	in->v_children[in->n++] = &v->v;
	return v;
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct perfetto_sink *p = pf(s);
	char unnamed[16];

	dp_format(unnamed, sizeof(unnamed), "arg%u", i + 1);
	p->depth = 0;
	p->next_value = add_value(p, name[0] ? name : unnamed);
}

static void member(struct dp_sink *s, const char *name)
{
	pf(s)->next_value = add_value(pf(s), name);
}

static void group(struct dp_sink *s, enum dp_sink_group what)
{
	struct perfetto_sink *p = pf(s);

	if (p->depth + 1 < NESTED && p->next_value)
		p->path[++p->depth] = p->next_value;
}

static void group_end(struct dp_sink *s, enum dp_sink_group what)
{
	struct perfetto_sink *p = pf(s);
	struct value *v = p->path[p->depth];

	if (!p->depth)
		return;
	p->depth--;
	if (what == DP_GROUP_STRUCT) {
		v->v.n_dict_entries = v->n;
		v->v.dict_entries = v->v_children;
	} else {
		v->v.n_array_values = v->n;
		v->v.array_values = v->v_children;
	}
}

static void set_text(struct perfetto_sink *p, const char *text, size_t n)
{
	p->next_value->v.string_value = clean_text(p->s.line, text, n);
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct perfetto_sink *p = pf(s);
	Dp__PfValue *to = p->next_value ? &p->next_value->v : NULL;
	char buf[DP_SINK_SYMBOL], c = (char)v->bits;

	if (!to)
		return;
	switch (v->kind) {
	case DP_SINK_UNSIGNED:
	case DP_SINK_CODE:
		to->has_uint_value = true;
		to->uint_value = v->bits;
		break;
	case DP_SINK_SIGNED:
		to->has_int_value = true;
		to->int_value = (s64)v->bits;
		break;
	case DP_SINK_BYTE:
		to->has_int_value = true;
		to->int_value = (s8)c;
		break;
	case DP_SINK_BOOL:
		to->has_bool_value = true;
		to->bool_value = v->bits;
		break;
	case DP_SINK_CHAR:
		set_text(p, &c, 1);
		break;
	case DP_SINK_ADDRESS:
		s->symbol(s, v->bits, v->behind_call, buf, sizeof(buf));
		set_text(p, buf, strlen(buf));
		break;
	case DP_SINK_MISSING:
		set_text(p, v->missing == DP_MISSING_FAULT ? "(fault)" : "(cut)",
			 v->missing == DP_MISSING_FAULT ? 7 : 5);
		break;
	case DP_SINK_DIGITS:
	case DP_SINK_TEXT:
	case DP_SINK_BYTES:
	case DP_SINK_NAME:
	case DP_SINK_MESSAGE:
		set_text(p, v->text, v->len);
		break;
	}
}

/* ---- the sink ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct perfetto_sink *p = pf(s);

	p->calls = dp_calls_new(env, &ops, p);
	p->named = dp_alloc(NAMES * sizeof(*p->named));
	return p->calls && p->named;
}

static void release(struct dp_sink *s)
{
	free_values(pf(s));
	dp_calls_free(pf(s)->calls);
	dp_free(pf(s)->named);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct perfetto_sink *p = pf(s);
	struct value *root;

	p->ns = DP_MAX(p->ns, r->ns);
	if (p->named[r->tid % NAMES] != r->tid) {
		p->named[r->tid % NAMES] = r->tid;
		describe_thread(p, r->tid, r->task);
	}
	p->role = dp_calls_take(p->calls, r);
	root = calloc(1, sizeof(*root));
	if (!root) {
		s->line->broken = true;
		p->path[0] = NULL;
		return;
	}
	root->next = p->values;
	p->values = p->path[0] = root;
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	static const Dp__PfEvent__Type types[] = {[DP_CALL_POINT] = DP__PF_EVENT__TYPE__INSTANT,
						  [DP_CALL_ENTRY] = DP__PF_EVENT__TYPE__SLICE_BEGIN,
						  [DP_CALL_RETURN] = DP__PF_EVENT__TYPE__SLICE_END,
						  [DP_CALL_ORPHAN] = DP__PF_EVENT__TYPE__INSTANT};
	struct perfetto_sink *p = pf(s);
	const struct dp_event_info *ev = r->event;
	bool named = p->role == DP_CALL_POINT && ev->name && ev->name[0];

	if (p->path[0])
		write_event(p, r->tid, p->ns, types[p->role], named ? ev->name : ev->symbol, ev->group,
			    p->path[0]->v_children, p->path[0]->n);
	free_values(p);
}

static void lost(struct dp_sink *s, u64 n)
{
	char text[32];

	dp_calls_lost(pf(s)->calls);
	dp_format(text, sizeof(text), "%llu", (unsigned long long)n);
	write_remark(pf(s), s->env->pid, pf(s)->ns, DP__PF_EVENT__TYPE__INSTANT, "records were lost", "records", text);
}

const struct dp_sink_ops dp_sink_perfetto = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = field,
    .group = group,
    .member = member,
    .group_end = group_end,
    .value = value,
    .end = end,
    .lost = lost,
};
