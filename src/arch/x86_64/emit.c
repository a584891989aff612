/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The writer: machine code bytes into a bounded buffer. It knows encodings, not meanings, and never
 * writes past the buffer. Freestanding.
 */
#include "arch/x86_64/relocate.h"

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

int dp_emit_jmp(struct dp_emit *e, u64 target, struct dp_error *err)
{
	u64 next = dp_emit_here(e) + 5;
	s64 rel = (s64)(target - next);

	if (rel != (s32)rel)
		return dp_fail(err, E_RELOC_RANGE, "a jump from 0x%llx to 0x%llx", (unsigned long long)dp_emit_here(e),
			       (unsigned long long)target);
	dp_emit_u8(e, 0xe9);
	dp_emit_u32(e, (u32)rel);
	return 0;
}

void dp_emit_jmp_far(struct dp_emit *e, u64 target)
{
	dp_emit_bytes(e, "\xff\x25\0\0\0\0", 6); /* jmp *0(%rip) */
	dp_emit_u64(e, target);
}

/*
 * push imm32 writes all eight bytes of the slot, sign-extended; where that is not the value, a
 * plain store corrects the upper half. Both leave the flags alone. A signal between the two sees a
 * return address that is half written: nothing but an unwinder looks at it then.
 */
void dp_emit_push_const(struct dp_emit *e, u64 value)
{
	dp_emit_u8(e, 0x68);
	dp_emit_u32(e, (u32)value);
	if ((u64)(s64)(s32)value == value)
		return;
	dp_emit_bytes(e, "\xc7\x44\x24\x04", 4); /* mov dword [rsp+4], imm32 */
	dp_emit_u32(e, (u32)(value >> 32));
}
