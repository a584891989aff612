/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as a trace in the Common Trace Format 1.8, by babeltrace2's own writer. The library pulls messages through a
 * graph: ours has a source, which makes one message of each record when the graph runs once, and the writer. This is a
 * part of its own (sink-ctf.c).
 */
#include <babeltrace2/babeltrace.h>
#include <stdlib.h>
#include <string.h>

#include "base/part.h"
#include "log/format.h"
#include "log/sinks/ctf.h"

struct ctf_sink {
	struct dp_sink s;
	bt_graph *graph;
	bt_trace_class *trace_class;
	bt_stream_class *stream_class;
	bt_trace *trace;
	bt_stream *stream;
	bt_packet *packet; /* that records go to; NULL: none is open */
	u32 in_packet;
	bt_event_class **classes;            /* by event */
	const struct dp_sink_record *record; /* that the source hands out next */
	bool begun, ended, any;              /* any: packet */
	u64 ns;
};
_Static_assert(sizeof(struct ctf_sink) <= sizeof(union dp_sink_room), "a sink fits");

#define PACKET_RECORDS 8192

static const char cannot[] = "babeltrace2 cannot write there";

static void trouble(struct ctf_sink *c)
{
	c->s.trouble = cannot;
	bt_current_thread_clear_error();
}

/* ---- classes: how records look ---- */

static bt_field_class *integer(bt_trace_class *tc, u32 bits, bool is_signed, bool hex)
{
	bt_field_class *fc = is_signed ? bt_field_class_integer_signed_create(tc)
				       : bt_field_class_integer_unsigned_create(tc);

	bt_field_class_integer_set_field_value_range(fc, bits);
	if (hex)
		bt_field_class_integer_set_preferred_display_base(
		    fc, BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL);
	return fc;
}

static bool is_text(const struct dp_field *f)
{
	return f->type == DP_FIELD_STRING || f->type == DP_FIELD_SYMBOL || f->type == DP_FIELD_FRAME ||
	       f->type == DP_FIELD_CHAR;
}

static void append(bt_field_class *to, const char *name, bt_field_class *fc)
{
	bt_field_class_structure_append_member(to, name, fc);
	bt_field_class_put_ref(fc);
}

static bt_field_class *of_field(bt_trace_class *tc, const struct dp_field *f)
{
	return is_text(f) ? bt_field_class_string_create(tc)
			  : integer(tc, 8u * f->size, dp_field_is_signed(f), dp_field_is_hex(f));
}

/* A field without a name, and one whose name another one has, goes by its place. */
static void name_field(const struct dp_layout *l, u32 i, char *name, size_t size)
{
	bool known = !l->fields[i].name[0];

	for (u32 k = 0; k < i && !known; k++)
		known = !strcmp(l->fields[k].name, l->fields[i].name);
	if (known)
		dp_format(name, size, "arg%u", i + 1);
	else
		dp_format(name, size, "%s", l->fields[i].name);
}

/* "where", "caller" of returns, "unread"; then the fields. The length of an array stands before it. */
static bt_field_class *payload_class(bt_trace_class *tc, const struct dp_event_info *ev)
{
	bt_field_class *all = bt_field_class_structure_create(tc);
	char name[DP_NAME_MAX + 8], len[DP_NAME_MAX + 16];

	append(all, "dp_where", bt_field_class_string_create(tc));
	append(all, "dp_caller", bt_field_class_string_create(tc));
	append(all, "dp_unread", bt_field_class_string_create(tc));
	for (u32 i = 0; i < ev->layout->nfields; i++) {
		const struct dp_field *f = &ev->layout->fields[i];
		bt_field_class *fc = of_field(tc, f), *n;

		name_field(ev->layout, i, name, sizeof(name));
		if (f->count) {
			n = integer(tc, 8, false, false);
			dp_format(len, sizeof(len), "dp_length_%s", name);
			bt_field_class_structure_append_member(all, len, n);
			bt_field_class *array = bt_field_class_array_dynamic_create(tc, fc, n);

			bt_field_class_put_ref(n);
			bt_field_class_put_ref(fc);
			fc = array;
		}
		append(all, name, fc);
	}
	return all;
}

static bt_event_class *make_class(struct ctf_sink *c, const struct dp_event_info *ev)
{
	bt_event_class *ec = bt_event_class_create(c->stream_class);
	bt_field_class *payload = payload_class(c->trace_class, ev);
	char name[2 * DP_NAME_MAX];

	dp_clean(name, sizeof(name), ev->name && ev->name[0] ? ev->name : ev->symbol,
		 strlen(ev->name && ev->name[0] ? ev->name : ev->symbol), "");
	bt_event_class_set_name(ec, name);
	if (bt_event_class_set_payload_field_class(ec, payload))
		trouble(c);
	bt_field_class_put_ref(payload);
	return ec;
}

static void make_classes(struct ctf_sink *c, bt_self_component *self)
{
	bt_clock_class *clock = bt_clock_class_create(self);
	bt_field_class *context;

	bt_clock_class_set_name(clock, "monotonic");
	bt_clock_class_set_frequency(clock, 1000000000);
	bt_clock_class_set_origin_is_unix_epoch(clock, BT_FALSE);
	c->trace_class = bt_trace_class_create(self);
	c->stream_class = bt_stream_class_create(c->trace_class);
	if (bt_stream_class_set_default_clock_class(c->stream_class, clock))
		trouble(c);
	bt_clock_class_put_ref(clock);
	/* Readers from 2.1 on want to know when a packet begins and ends. */
	bt_stream_class_set_supports_packets(c->stream_class, BT_TRUE, BT_TRUE, BT_TRUE);
	context = bt_field_class_structure_create(c->trace_class);
	append(context, "task", bt_field_class_string_create(c->trace_class));
	append(context, "tid", integer(c->trace_class, 32, false, false));
	append(context, "cpu", integer(c->trace_class, 32, false, false));
	if (bt_stream_class_set_event_common_context_field_class(c->stream_class, context))
		trouble(c);
	bt_field_class_put_ref(context);
	for (u32 i = 0; i < c->s.env->nevents; i++)
		c->classes[i] = make_class(c, &c->s.env->events[i]);
	c->trace = bt_trace_create(c->trace_class);
	c->stream = bt_stream_create(c->stream_class, c->trace);
}

/* ---- messages ---- */

static void set_text(bt_field *to, const char *text, size_t n)
{
	struct dp_line clean = {0};

	dp_line_clean(&clean, text, n, "");
	dp_line_char(&clean, '\0');
	bt_field_string_set_value(to, clean.broken ? "" : clean.text);
	dp_line_free(&clean);
}

static void set_value(struct ctf_sink *c, bt_field *to, const struct dp_field *f, struct dp_value v, unsigned at)
{
	char buf[DP_SINK_SYMBOL], one = (char)v.bits;

	if (!is_text(f) && dp_field_is_signed(f)) {
		bt_field_integer_signed_set_value(to, v.state == DP_VALUE_OK ? (s64)v.bits : 0);
	} else if (!is_text(f)) {
		bt_field_integer_unsigned_set_value(to, v.state == DP_VALUE_OK ? v.bits : 0);
	} else if (v.state != DP_VALUE_OK) {
		bt_field_string_set_value(to, "");
	} else if (f->type == DP_FIELD_STRING) {
		set_text(to, v.text, v.len);
	} else if (f->type == DP_FIELD_CHAR) {
		set_text(to, &one, 1);
	} else {
		c->s.symbol(&c->s, v.bits, f->type == DP_FIELD_FRAME && at > 0, buf, sizeof(buf));
		set_text(to, buf, strlen(buf));
	}
}

static void fill_field(struct ctf_sink *c, bt_field *all, u64 *at, u32 i, struct dp_line *unread)
{
	const struct dp_view *view = &c->record->view;
	const struct dp_field *f = &view->layout->fields[i];
	unsigned n = f->count ? dp_view_count(view, i) : 1;
	bool whole = true;
	bt_field *to;

	if (f->count)
		bt_field_integer_unsigned_set_value(bt_field_structure_borrow_member_field_by_index(all, (*at)++), n);
	to = bt_field_structure_borrow_member_field_by_index(all, (*at)++);
	if (f->count && bt_field_array_dynamic_set_length(to, n))
		return;
	for (unsigned k = 0; k < n; k++) {
		struct dp_value v = dp_view_value(view, i, k);

		whole &= v.state == DP_VALUE_OK;
		set_value(c, f->count ? bt_field_array_borrow_element_field_by_index(to, k) : to, f, v, k);
	}
	if (!whole) {
		char name[DP_NAME_MAX + 8];

		name_field(view->layout, i, name, sizeof(name));
		dp_line_str(unread, unread->n ? " " : "");
		dp_line_str(unread, name);
	}
}

static void fill_payload(struct ctf_sink *c, bt_field *all)
{
	const struct dp_event_info *ev = c->record->event;
	char where[DP_SINK_SYMBOL + 24], caller[DP_SINK_SYMBOL] = "";
	struct dp_line unread = {0};
	u64 at = 3, addr;

	dp_format(where, sizeof(where), "%s%s+0x%llx", ev->is_return ? "<-" : "@", ev->symbol,
		  (unsigned long long)ev->offset);
	if (dp_view_ret_addr(&c->record->view, &addr))
		c->s.symbol(&c->s, addr, true, caller, sizeof(caller));
	set_text(bt_field_structure_borrow_member_field_by_index(all, 0), where, strlen(where));
	set_text(bt_field_structure_borrow_member_field_by_index(all, 1), caller, strlen(caller));
	for (u32 i = 0; i < ev->layout->nfields; i++)
		fill_field(c, all, &at, i, &unread);
	set_text(bt_field_structure_borrow_member_field_by_index(all, 2), unread.n ? unread.text : "", unread.n);
	dp_line_free(&unread);
}

static bt_message *event_message(struct ctf_sink *c, bt_self_message_iterator *self)
{
	const struct dp_sink_record *r = c->record;
	bt_event_class *ec = c->classes[r->rec->event];
	bt_message *m = bt_message_event_create_with_packet_and_default_clock_snapshot(self, ec, c->packet, c->ns);
	bt_field *context;
	bt_event *e;

	if (!m)
		return NULL;
	e = bt_message_event_borrow_event(m);
	context = bt_event_borrow_common_context_field(e);
	set_text(bt_field_structure_borrow_member_field_by_index(context, 0), r->task, strlen(r->task));
	bt_field_integer_unsigned_set_value(bt_field_structure_borrow_member_field_by_index(context, 1), r->tid);
	bt_field_integer_unsigned_set_value(bt_field_structure_borrow_member_field_by_index(context, 2), r->rec->cpu);
	fill_payload(c, bt_event_borrow_payload_field(e));
	return m;
}

static bt_message *begin_packet(struct ctf_sink *c, bt_self_message_iterator *self)
{
	c->packet = bt_packet_create(c->stream);
	c->in_packet = 0;
	c->any = true;
	return c->packet ? bt_message_packet_beginning_create_with_default_clock_snapshot(self, c->packet, c->ns)
			 : NULL;
}

static bt_message *end_packet(struct ctf_sink *c, bt_self_message_iterator *self)
{
	bt_message *m = bt_message_packet_end_create_with_default_clock_snapshot(self, c->packet, c->ns);

	BT_PACKET_PUT_REF_AND_RESET(c->packet);
	return m;
}

/* The stream begins, one message for each record, in packets, the stream ends. Returns how many: 0 for now, or ever. */
static u32 make_messages(struct ctf_sink *c, bt_self_message_iterator *self, bt_message **to)
{
	u32 n = 0;

	if (!c->begun) {
		c->begun = true;
		to[n++] = bt_message_stream_beginning_create(self, c->stream);
	} else if (c->record) {
		if (c->packet && c->in_packet == PACKET_RECORDS)
			to[n++] = end_packet(c, self);
		if (!c->packet)
			to[n++] = begin_packet(c, self);
		c->in_packet++;
		to[n++] = c->packet ? event_message(c, self) : NULL;
		c->record = NULL;
	} else if (c->ended && c->stream) {
		if (!c->any) /* a file of no records has one */
			to[n++] = begin_packet(c, self);
		if (c->packet)
			to[n++] = end_packet(c, self);
		to[n++] = bt_message_stream_end_create(self, c->stream);
		BT_STREAM_PUT_REF_AND_RESET(c->stream);
	}
	return n;
}

static bt_message_iterator_class_next_method_status next(bt_self_message_iterator *self, bt_message_array_const msgs,
							 uint64_t capacity, uint64_t *count)
{
	struct ctf_sink *c = bt_self_component_get_data(bt_self_message_iterator_borrow_component(self));
	bt_message *made[3]; /* the library has room for more */
	u32 n = make_messages(c, self, made);
	bool good = n <= capacity;

	if (!n)
		return c->ended ? BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END
				: BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_AGAIN;
	for (u32 i = 0; i < n; i++)
		good &= made[i] != NULL;
	for (u32 i = 0; i < n && !good; i++)
		BT_MESSAGE_PUT_REF_AND_RESET(made[i]);
	if (!good)
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_MEMORY_ERROR;
	for (u32 i = 0; i < n; i++)
		msgs[i] = made[i];
	*count = n;
	return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
}

/* ---- the graph ---- */

static bt_component_class_initialize_method_status begin_source(bt_self_component_source *self,
								bt_self_component_source_configuration *config,
								const bt_value *params, void *data)
{
	bt_self_component *component = bt_self_component_source_as_self_component(self);

	bt_self_component_set_data(component, data);
	if (bt_self_component_source_add_output_port(self, "out", NULL, NULL))
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	make_classes(data, component);
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static const bt_component_source *add_source(struct ctf_sink *c)
{
	bt_message_iterator_class *ic = bt_message_iterator_class_create(next);
	bt_component_class_source *cc = ic ? bt_component_class_source_create("dprobes", ic) : NULL;
	const bt_component_source *source = NULL;

	if (cc && !bt_component_class_source_set_initialize_method(cc, begin_source) &&
	    bt_graph_add_source_component_with_initialize_method_data(c->graph, cc, "dprobes", NULL, c,
								      BT_LOGGING_LEVEL_NONE, &source))
		source = NULL;
	bt_component_class_source_put_ref(cc);
	bt_message_iterator_class_put_ref(ic);
	return source;
}

static const bt_component_sink *add_writer(struct ctf_sink *c, const char *path)
{
	const bt_component_sink *sink = NULL;
	const bt_plugin *plugin = NULL;
	bt_value *params = bt_value_map_create();

	if (params && !bt_value_map_insert_string_entry(params, "path", path) &&
	    !bt_value_map_insert_bool_entry(params, "assume-single-trace", BT_TRUE) &&
	    !bt_value_map_insert_bool_entry(params, "quiet", BT_TRUE) &&
	    /* From 2.1 on it would write version 2, which these graphs cannot have; 2.0 has no such name. */
	    (!bt_version_get_minor() || !bt_value_map_insert_string_entry(params, "ctf-version", "1")) &&
	    !bt_plugin_find("ctf", BT_FALSE, BT_FALSE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin) &&
	    bt_graph_add_sink_component(c->graph, bt_plugin_borrow_sink_component_class_by_name_const(plugin, "fs"),
					"writer", params, BT_LOGGING_LEVEL_NONE, &sink))
		sink = NULL;
	bt_plugin_put_ref(plugin);
	bt_value_put_ref(params);
	return sink;
}

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	struct ctf_sink *c = (struct ctf_sink *)s;
	const bt_component_source *source;
	const bt_component_sink *sink;

	c->classes = dp_alloc((env->nevents + 1) * sizeof(*c->classes));
	c->graph = bt_graph_create(0);
	if (!c->classes || !c->graph)
		return false;
	source = add_source(c);
	sink = source ? add_writer(c, env->path ? env->path : "") : NULL;
	if (!sink || bt_graph_connect_ports(c->graph, bt_component_source_borrow_output_port_by_index_const(source, 0),
					    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		trouble(c);
	return true;
}

static void run_once(struct ctf_sink *c)
{
	bt_graph_run_once_status status = c->s.trouble ? BT_GRAPH_RUN_ONCE_STATUS_END : bt_graph_run_once(c->graph);

	if (status < 0)
		trouble(c);
}

/* The files are whole when the graph is gone. */
static void end_graph(struct ctf_sink *c)
{
	for (u32 i = 0; c->classes && i < c->s.env->nevents; i++)
		BT_EVENT_CLASS_PUT_REF_AND_RESET(c->classes[i]);
	BT_PACKET_PUT_REF_AND_RESET(c->packet);
	BT_STREAM_PUT_REF_AND_RESET(c->stream);
	BT_TRACE_PUT_REF_AND_RESET(c->trace);
	BT_STREAM_CLASS_PUT_REF_AND_RESET(c->stream_class);
	BT_TRACE_CLASS_PUT_REF_AND_RESET(c->trace_class);
	BT_GRAPH_PUT_REF_AND_RESET(c->graph);
}

static void release(struct dp_sink *s)
{
	end_graph((struct ctf_sink *)s);
	dp_free(((struct ctf_sink *)s)->classes);
}

/* ---- the sink ---- */

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct ctf_sink *c = (struct ctf_sink *)s;

	if (!c->begun)
		run_once(c);
	c->ns = DP_MAX(c->ns, r->ns); /* a stream's time does not go back */
	c->record = r;
	run_once(c);
	c->record = NULL;
}

static void finish(struct dp_sink *s)
{
	struct ctf_sink *c = (struct ctf_sink *)s;

	if (!c->begun)
		run_once(c);
	c->ended = true;
	run_once(c);
	run_once(c);
	end_graph(c);
}

/* Fields are read from the record when its message is made. */
static void no_field(struct dp_sink *s, const char *name, unsigned i)
{
}

static void no_group(struct dp_sink *s, enum dp_sink_group what)
{
}

static void no_member(struct dp_sink *s, const char *name)
{
}

static void no_value(struct dp_sink *s, const struct dp_sink_value *v)
{
}

static const char *version(void)
{
	static char text[32];

	dp_format(text, sizeof(text), "%u.%u.%u", bt_version_get_major(), bt_version_get_minor(),
		  bt_version_get_patch());
	return text;
}

static const struct dp_sink_ops ops = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = no_field,
    .group = no_group,
    .member = no_member,
    .group_end = no_group,
    .value = no_value,
    .end = end,
    .finish = finish,
    .is_directory = true,
};

static const struct dp_ctf_part part = {.ops = &ops, .version = version};

DP_PART(&part);
