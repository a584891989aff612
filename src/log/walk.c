/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Goes through an event's record and hands its fields to a sink, whatever the sink makes of them. Kernel-clean. */
#include "log/sink.h"

static void element(struct dp_sink *s, const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_value value = dp_view_value(v, i, at);
	struct dp_sink_value out = {.bits = value.bits, .bytes = (u8)field->size};

	if (value.state != DP_VALUE_OK) {
		out.kind = DP_SINK_MISSING;
		out.missing = value.state == DP_VALUE_FAULT ? DP_MISSING_FAULT : DP_MISSING_CUT;
	} else if (field->type == DP_FIELD_STRING) {
		out.kind = DP_SINK_TEXT;
		out.text = value.text;
		out.len = value.len;
	} else if (field->type == DP_FIELD_CHAR) {
		out.kind = DP_SINK_CHAR;
	} else if (dp_field_is_address(field)) {
		out.kind = DP_SINK_ADDRESS;
		out.behind_call = field->type == DP_FIELD_FRAME && at > 0;
	} else {
		out.kind = dp_field_is_signed(field) ? DP_SINK_SIGNED : DP_SINK_UNSIGNED;
		out.hex = dp_field_is_hex(field) || !field->name[0];
	}
	s->ops->value(s, &out);
}

void dp_walk_value(struct dp_sink *s, const struct dp_view *v, unsigned i)
{
	const struct dp_field *field = &v->layout->fields[i];
	enum dp_sink_group what = field->type == DP_FIELD_FRAME ? DP_GROUP_STACK : DP_GROUP_ARRAY;
	unsigned n;

	if (!field->count) {
		element(s, v, i, 0);
		return;
	}
	n = dp_view_count(v, i);
	s->ops->group(s, what);
	for (unsigned k = 0; k < n; k++) {
		s->ops->member(s, NULL);
		element(s, v, i, k);
	}
	s->ops->group_end(s, what);
}

static void walk_field(struct dp_sink *s, const struct dp_view *v, unsigned i)
{
	s->ops->field(s, v->layout->fields[i].name, i);
	dp_walk_value(s, v, i);
	if (s->ops->field_end)
		s->ops->field_end(s);
}

void dp_walk_event(struct dp_sink *s, const struct dp_sink_record *r)
{
	dp_sink_begin_event(s);
	s->ops->begin(s, r);
	for (unsigned i = 0; i < r->view.layout->nfields; i++)
		if (!s->ops->takes_addresses || dp_field_is_address(&r->view.layout->fields[i]))
			walk_field(s, &r->view, i);
	s->ops->end(s, r);
}
