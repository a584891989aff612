/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A bounded buffer for code. Freestanding. */
#ifndef DP_EMIT_H
#define DP_EMIT_H

#include "base/base.h"

/*
 * Bytes go to buf[len]; addr is the address at which buf[0] will run. When the buffer is full, overflow becomes true
 * and further bytes are dropped: check once, at the end.
 */
struct dp_emit {
	u8 *buf;
	size_t cap;
	size_t len;
	u64 addr;
	bool overflow;
};

void dp_emit_init(struct dp_emit *e, u8 *buf, size_t cap, u64 addr);
void dp_emit_bytes(struct dp_emit *e, const void *bytes, size_t n);
void dp_emit_u8(struct dp_emit *e, u8 v);
void dp_emit_u32(struct dp_emit *e, u32 v);
void dp_emit_u64(struct dp_emit *e, u64 v);
u64 dp_emit_here(const struct dp_emit *e); /* run address of the next byte */

#endif
