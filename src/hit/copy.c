/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Instructions that store to watched pages, each once: what its memory operand is, and a copy of it that runs
 * elsewhere, followed by a hit. The processor makes the store, so every instruction is told alike; what cannot be
 * copied is let through untold. Copies are made by whoever meets an instruction first, and stay until the probes are
 * removed.
 */
#include "abi/abi-page.h"
#include "arch/arch.h"
#include "hit/blob.h"
#include "hit/hit-priv.h"

#define SYS_CLOSE 3
#define SYS_PWRITE64 18
#define SYS_SCHED_YIELD 24
#define SYS_NANOSLEEP 35
#define SYS_OPEN 2
#define O_WRONLY_CLOEXEC 02000001
#define TRIES 16     /* places in the table for one instruction */
#define PATIENCE 100 /* turns that another thread may take to make a copy, then as many milliseconds */

_Static_assert(sizeof(struct dp_store_insn) <= sizeof(((struct dp_copy *)0)->body), "room for an instruction");
_Static_assert(DP_STORE_CODE <= DP_COPY_CODE, "room for its copy");

static struct dp_store_insn *body_of(struct dp_copy *c)
{
	return (struct dp_store_insn *)c->body;
}

/* Past the protection of our own code. */
static bool write_code(u64 at, const u8 *code, u32 size)
{
	static const char name[] = "/proc/self/mem";
	s64 fd = dp_syscall(SYS_OPEN, (u64)name, O_WRONLY_CLOEXEC, 0, 0, 0, 0), n;

	if (fd < 0)
		return false;
	n = dp_syscall(SYS_PWRITE64, (u64)fd, (u64)code, size, at, 0, 0);
	dp_syscall(SYS_CLOSE, (u64)fd, 0, 0, 0, 0, 0);
	return n == (s64)size;
}

static bool make(struct dp_copy *c, const struct dp_control *ctl, u32 index)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)ctl->region_lo;
	const struct dp_store_insn *s = body_of(c);
	u8 code[DP_STORE_CODE];
	u32 n = dp_store_emit(s, c->ip + s->in.len, index | DP_HIT_PAGE, ctl->region_lo + head->entry_zone_flags, code);

	return n && write_code(ctl->copies_lo + (u64)index * DP_COPY_CODE, code, n);
}

static u64 place_of(u64 ip)
{
	_Static_assert(DP_COPIES == 1 << 12, "12 bits of the product");
	return ip * 0x9e3779b97f4a7c15ull >> 52;
}

/* The entry of the instruction at ip, claimed if it is the first time; NULL: there is no room. */
static struct dp_copy *entry_of(const struct dp_control *ctl, u64 ip, u32 *index)
{
	struct dp_copy *v = (struct dp_copy *)ctl->copies;
	u64 at = place_of(ip);

	for (u32 i = 0; i < TRIES; i++, at = (at + 1) % DP_COPIES) {
		u64 nobody = 0;

		*index = (u32)at;
		if (__atomic_load_n(&v[at].ip, __ATOMIC_RELAXED) == ip ||
		    __atomic_compare_exchange_n(&v[at].ip, &nobody, ip, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    nobody == ip)
			return &v[at];
	}
	return NULL;
}

bool dp_copy_answered(const struct dp_control *ctl, u64 ip)
{
	const struct dp_copy *v = (const struct dp_copy *)ctl->copies;
	u64 at = place_of(ip);

	for (u32 i = 0; i < TRIES; i++, at = (at + 1) % DP_COPIES)
		if (__atomic_load_n(&v[at].ip, __ATOMIC_RELAXED) == ip)
			return __atomic_load_n(&v[at].asked, __ATOMIC_RELAXED) == DP_COPY_ANSWERED;
	return false;
}

/* Whether it is at addr that the instruction stores, with these registers. */
static bool stores_at(const struct dp_control *ctl, u32 index, const u64 *uc, u64 addr, struct dp_store *out)
{
	dp_copy_expect(ctl, index, uc, out);
	return addr - out->addr < (out->len ? out->len : DP_STORE_MAX);
}

/* Until another thread has made the copy; if it is kept from that for long, without it. */
static void await(const struct dp_copy *c)
{
	static const s64 ms[2] = {0, 1000000};

	for (u32 i = 0; i < 2 * PATIENCE && __atomic_load_n(&c->state, __ATOMIC_RELAXED) == DP_COPY_BUSY; i++) {
		if (i < PATIENCE)
			dp_syscall(SYS_SCHED_YIELD, 0, 0, 0, 0, 0, 0);
		else
			dp_syscall(SYS_NANOSLEEP, (u64)ms, 0, 0, 0, 0, 0);
	}
}

bool dp_copy_find(const struct dp_control *ctl, const u64 *uc, u64 addr,
		  void (*met)(const struct dp_control *ctl, u64 addr), struct dp_store *out)
{
	struct dp_copies *all = (struct dp_copies *)ctl->copies;
	u64 ip = uc[DP_CTX_IP];
	struct dp_copy *c = entry_of(ctl, ip, &out->index);
	u32 first = DP_COPY_FREE, index = out->index;

	if (!c)
		return false;
	if (__atomic_load_n(&c->state, __ATOMIC_RELAXED) == DP_COPY_FREE &&
	    __atomic_compare_exchange_n(&c->state, &first, DP_COPY_BUSY, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		bool made = dp_store_read(body_of(c), c->ip);

		if (made && met && stores_at(ctl, index, uc, addr, out))
			met(ctl, addr);
		made = made && make(c, ctl, index);
		/* Pairs with the acquire of whoever uses it. */
		__atomic_store_n(&c->state, made ? DP_COPY_READY : DP_COPY_NONE, __ATOMIC_RELEASE);
		__atomic_fetch_add(&all->nready, made, __ATOMIC_RELAXED);
	} else if (met && __atomic_load_n(&c->state, __ATOMIC_RELAXED) == DP_COPY_BUSY) {
		met(ctl, addr);
	}
	await(c);
	if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != DP_COPY_READY)
		return false;
	if (memcmp((const void *)ip, body_of(c)->bytes, body_of(c)->in.len))
		return false; /* other code stands there now */
	return stores_at(ctl, index, uc, addr, out);
}

void dp_copy_expect(const struct dp_control *ctl, u32 index, const u64 *uc, struct dp_store *out)
{
	struct dp_copy *c = (struct dp_copy *)ctl->copies + index;
	const struct dp_store_insn *s = body_of(c);
	u64 base = s->segment ? dp_segment_base(ctl, s->segment == DP_STORE_GS) : 0, repeated;

	out->ip = c->ip + s->in.len;
	out->index = index;
	out->len = s->size;
	out->addr = out->lo = dp_store_address(s, uc, out->ip, base, &repeated);
	out->hi = out->lo + (s->size ? s->size : DP_STORE_MAX);
	/* Upward or downward: a detour does not tell. */
	out->lo -= repeated;
	out->hi += repeated;
}

u64 dp_copy_next(const struct dp_control *ctl, u32 index, u32 *element)
{
	struct dp_copy *c = (struct dp_copy *)ctl->copies + index;
	const struct dp_store_insn *s = body_of(c);

	*element = s->string ? s->size : 0;
	return c->ip + s->in.len;
}
