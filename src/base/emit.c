/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Bytes of code into a bounded buffer; never past its end. Freestanding. */
#include "base/emit.h"

void dp_emit_init(struct dp_emit *e, u8 *buf, size_t cap, u64 addr)
{
	e->buf = buf;
	e->cap = cap;
	e->len = 0;
	e->addr = addr;
	e->overflow = false;
}

/* All of the bytes or none, so that a full buffer never holds half an instruction field. */
void dp_emit_bytes(struct dp_emit *e, const void *bytes, size_t n)
{
	if (e->overflow || n > e->cap - e->len) {
		e->overflow = true;
		return;
	}
	memcpy(e->buf + e->len, bytes, n);
	e->len += n;
}

void dp_emit_u8(struct dp_emit *e, u8 v)
{
	dp_emit_bytes(e, &v, sizeof(v));
}

void dp_emit_u32(struct dp_emit *e, u32 v)
{
	dp_emit_bytes(e, &v, sizeof(v));
}

void dp_emit_u64(struct dp_emit *e, u64 v)
{
	dp_emit_bytes(e, &v, sizeof(v));
}

u64 dp_emit_here(const struct dp_emit *e)
{
	return e->addr + e->len;
}
