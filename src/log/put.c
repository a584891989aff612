/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields of a record as text in the layout of the kprobe-based event tracer. Kernel-clean. */
#include "log/view.h"

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

static void put_element(const struct dp_put *p, const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_value value = dp_view_value(v, i, at);
	char c = (char)value.bits;

	if (value.state != DP_VALUE_OK)
		dp_line_str(p->line, value.state == DP_VALUE_FAULT ? "(fault)" : "(cut)");
	else if (field->type == DP_FIELD_STRING)
		dp_line_c_string(p->line, value.text, value.len, '"');
	else if (field->type == DP_FIELD_CHAR)
		dp_line_c_string(p->line, &c, 1, '\'');
	else if (field->type == DP_FIELD_SYMBOL)
		p->symbol(p->line, value.bits, false, p->arg);
	else if (field->type == DP_FIELD_FRAME)
		p->symbol(p->line, value.bits, at > 0, p->arg);
	else
		put_number(p->line, field, value.bits);
}

static void put_field(const struct dp_put *p, const struct dp_view *v, unsigned i)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_line *l = p->line;

	dp_line_char(l, ' ');
	if (field->name[0]) {
		dp_line_str(l, p->dim);
		dp_line_str(l, field->name);
		dp_line_char(l, '=');
		dp_line_str(l, p->plain);
	}
	if (!field->count) {
		put_element(p, v, i, 0);
		return;
	}
	dp_line_char(l, '{');
	for (unsigned k = 0; k < dp_view_count(v, i); k++) {
		if (k)
			dp_line_char(l, ',');
		put_element(p, v, i, k);
	}
	dp_line_char(l, '}');
}

void dp_put_fields(const struct dp_put *p, const struct dp_view *v)
{
	for (unsigned i = 0; i < v->layout->nfields; i++)
		put_field(p, v, i);
}
