/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields of a record, each checked against the record's size. Kernel-clean. */
#include "log/view.h"

void dp_view_init(struct dp_view *v, const struct dp_record *rec, const struct dp_layout *layout)
{
	v->rec = rec;
	v->layout = layout;
	v->payload = (const u8 *)(rec + 1);
	v->size = rec->len > sizeof(*rec) ? rec->len - sizeof(*rec) : 0;
	if (dp_view_comm(rec))
		v->size -= DP_COMM_SIZE;
}

static bool faulted(const struct dp_view *v, unsigned i)
{
	u64 mask;

	if (!v->layout->has_faultmask || v->size < 8)
		return false;
	memcpy(&mask, v->payload, 8);
	return mask >> DP_MIN(i, 63u) & 1;
}

static u64 load(const u8 *p, unsigned size, bool is_signed)
{
	u64 bits = 0;
	unsigned shift = 64 - 8 * size;

	if (size == 8)
		memcpy(&bits, p, 8); /* most are, and this is one instruction */
	else
		memcpy(&bits, p, size); /* little endian, like the target */
	return is_signed && size < 8 ? (u64)((s64)(bits << shift) >> shift) : bits;
}

static struct dp_value string_value(const struct dp_view *v, u32 descriptor)
{
	u32 off = descriptor & 0xffff, len = descriptor >> 16;
	struct dp_value out = {DP_VALUE_OK};

	if (!len) {
		out.state = DP_VALUE_FAULT;
	} else if (off > v->size || len > v->size - off) {
		out.state = DP_VALUE_CUT;
	} else {
		out.text = (const char *)v->payload + off;
		out.len = len - 1;
		if (out.text[len - 1])
			out.len = len; /* shortened: its end is missing */
	}
	return out;
}

unsigned dp_view_count(const struct dp_view *v, unsigned i)
{
	const struct dp_field *field = &v->layout->fields[i];
	unsigned n = 0;

	if (field->type != DP_FIELD_FRAME)
		return field->count;
	while (n < field->count && (!n || dp_view_value(v, i, n).bits))
		n++;
	return n;
}

struct dp_value dp_view_value(const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	unsigned size = field->size <= 8 ? field->size : 8;
	size_t off = field->offset + (size_t)at * size;
	struct dp_value out = {DP_VALUE_OK};

	if (off + size > v->size) {
		out.state = DP_VALUE_CUT;
		return out;
	}
	out.bits = load(v->payload + off, size, dp_field_is_signed(field));
	if (field->type == DP_FIELD_STRING)
		return string_value(v, (u32)out.bits);
	/* The mask has one bit for all fields from 63 on; among those only a zero can be a fault.
	 */
	if (faulted(v, i) && (i < 63 || !out.bits))
		out.state = DP_VALUE_FAULT;
	return out;
}

bool dp_view_ret_addr(const struct dp_view *v, u64 *addr)
{
	size_t off = v->layout->has_faultmask ? 8 : 0;

	if (!v->layout->has_ret_addr || v->size < off + 8)
		return false;
	memcpy(addr, v->payload + off, 8);
	return true;
}
