/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The engine without a target: places satisfy the boundary bytes and never overlap; the publication
 * protocol is checked after every single byte that it writes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static int tests, failures;

static void report(bool good, const char *name)
{
	tests++;
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", tests, name);
}

/* ---- places ---- */

struct taken {
	u64 lo, hi;
};

static int by_lo(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static bool traps(u8 b)
{
	return b == 0xcc || (b >= 0x6c && b <= 0x6f) || b == 0xf4 || (b >= 0xec && b <= 0xef) || b == 0xfa || b == 0xfb;
}

static bool jump_is_right(u64 next, u64 addr, u8 bounds)
{
	s64 rel = (s64)(addr - next);
	u8 bytes[5] = {0xe9};

	if (rel < -0x80000000ll || rel > 0x7fffffffll)
		return false;
	memcpy(bytes + 1, &rel, 4);
	for (int i = 1; i <= 4; i++)
		if (bounds >> i & 1 && !(i == 4 ? traps(bytes[4]) : bytes[i] == 0xcc))
			return false;
	return true;
}

static void test_places(u64 base, u64 text, u32 n, bool low, const char *name)
{
	struct dp_space space = {0};
	struct taken *v = calloc(n, sizeof(*v));
	u32 placed = 0, failed = 0;
	bool right = true, apart = true;

	dp_space_busy(&space, 0, 65536);
	dp_space_busy(&space, base, base + text);
	if (low)
		dp_space_busy(&space, base + text, base + text + (1ull << 30));
	dp_space_busy(&space, (1ull << 47) - 4096, ~0ull);
	srand(1);
	for (u32 i = 0; i < n; i++) {
		u8 bounds = (u8)((rand() & rand() & 0x1e));
		struct dp_place want = {base + 5 + (u64)rand() % (text - 5), bounds, 40 + (u32)rand() % 100,
					base + text > 0x7fe00000 ? base + text - 0x7fe00000 : 65536, base + 0x7fe00000};
		u64 addr;

		if (dp_space_place(&space, &want, &addr, NULL)) {
			failed++;
			continue;
		}
		right &= jump_is_right(want.next, addr, bounds);
		v[placed++] = (struct taken){addr, addr + want.size};
	}
	qsort(v, placed, sizeof(*v), by_lo);
	for (u32 i = 1; i < placed; i++)
		apart &= v[i - 1].hi <= v[i].lo;
	printf("# %s: %u placed, %u not, %u areas\n", name, placed, failed, space.nareas);
	report(right && apart && failed * 50 < n, name);
	for (u32 i = 0; i < space.nareas; i++)
		for (u32 k = 0; k < placed; k++)
			apart &= v[k].hi <= base || v[k].lo >= base + text;
	report(apart, "no place inside the module");
	dp_space_free(&space);
	free(v);
}

/* A small pool, as a kernel module has one: full it gives nothing, and what is given back is there again. */
static void test_given_back(void)
{
	const u64 pool = 0x100000000, size = 65536;
	struct dp_space space = {0};
	u64 v[4096], addr, again;
	bool right = true;
	u32 n = 0;

	dp_space_busy(&space, 0, pool);
	dp_space_busy(&space, pool + size, ~0ull);
	for (; n < 4096; n++) {
		struct dp_place want = {pool + (1 << 20), 0, 64, pool, pool + size};

		if (dp_space_place(&space, &want, &v[n], NULL))
			break;
	}
	report(n == size / 64, "a pool is used up");
	for (u32 i = 0; i < n; i += 3) {
		struct dp_place want = {pool + (1 << 20), 0, 64, pool, pool + size};

		dp_space_give(&space, v[i], 64);
		right &= !dp_space_place(&space, &want, &again, NULL) && again == v[i];
		right &= !!dp_space_place(&space, &want, &addr, NULL);
	}
	report(right, "what is given back is placed again, once");
	dp_space_free(&space);
}

/* ---- the protocol ---- */

struct model {
	u8 mem[64], orig[64];
	const struct dp_patch *patch;
	bool serialised; /* since the last write */
	bool good;
	u8 mixed[64]; /* byte values a processor may still have fetched: old ones until serialised */
	int writes;
};

/* Each displaced instruction: its first byte traps, or all of it is original; the first may also be the whole jump. */
static bool state_is_safe(const struct model *m)
{
	const struct dp_patch *p = m->patch;
	u32 starts[6], n = 0;

	starts[n++] = 0;
	for (u32 i = 1; i < 5; i++)
		if (p->bounds >> i & 1)
			starts[n++] = i;
	starts[n] = 5;
	for (u32 k = 0; k < n; k++) {
		u8 first = m->mem[8 + starts[k]];
		u32 len = starts[k + 1] - starts[k];

		if (first == 0xcc || (k && traps(first) && first == p->jump[starts[k]]))
			continue;
		if (k == 0 && !memcmp(m->mem + 8, p->jump, 5))
			continue;
		if (!memcmp(m->mem + 8 + starts[k], m->orig + 8 + starts[k], len))
			continue;
		return false;
	}
	return true;
}

static int model_write(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct model *m = arg;

	(void)err;
	/* Bytes appear one by one, in either direction: each intermediate state must be safe. */
	for (int pass = 0; pass < 2; pass++) {
		u8 keep[64];

		memcpy(keep, m->mem, sizeof(keep));
		for (u32 i = 0; i < n; i++) {
			u32 k = pass ? n - 1 - i : i;

			m->mem[addr + k] = ((const u8 *)bytes)[k];
			m->good &= state_is_safe(m);
		}
		if (!pass)
			memcpy(m->mem, keep, sizeof(keep));
	}
	m->writes++;
	return 0;
}

static int model_serialise(void *arg, struct dp_error *err)
{
	(void)arg;
	(void)err;
	return 0;
}

static void model_breathe(void *arg)
{
	(void)arg;
}

static void test_protocol(void)
{
	bool good = true, restored = true, armed = true;

	for (u32 bounds = 0; bounds < 32; bounds += 2)
		for (u32 seed = 0; seed < 200; seed++) {
			struct dp_patch p = {.addr = 8, .len = 5, .bounds = (u8)bounds};
			struct model m = {.patch = &p, .good = true};
			struct dp_host host = {model_write, model_serialise, model_breathe, &m};

			srand(seed);
			for (u32 i = 0; i < 64; i++)
				m.orig[i] = m.mem[i] = (u8)(rand() % 200);
			memcpy(p.orig, m.orig + 8, 5);
			p.jump[0] = 0xe9;
			for (u32 i = 1; i < 5; i++)
				p.jump[i] = bounds >> i & 1 ? 0xcc : (u8)rand();
			dp_publish(&host, &p, 1, NULL);
			armed &= !memcmp(m.mem + 8, p.jump, 5);
			dp_withdraw(&host, &p, 1, NULL);
			restored &= !memcmp(m.mem, m.orig, 64);
			good &= m.good;
		}
	report(good, "every intermediate byte state is safe to execute");
	report(armed, "after publication the jump stands");
	report(restored, "after withdrawal every byte is original");
}

static void test_breakpoint(void)
{
	struct dp_patch p = {.addr = 8, .len = 1, .orig = {0x90}, .jump = {0xcc}};
	struct model m = {.patch = &p, .good = true};
	struct dp_host host = {model_write, model_serialise, model_breathe, &m};

	memset(m.orig, 0x90, sizeof(m.orig));
	memcpy(m.mem, m.orig, sizeof(m.mem));
	dp_publish(&host, &p, 1, NULL);
	report(m.mem[8] == 0xcc && m.mem[9] == 0x90, "a breakpoint changes one byte");
	dp_withdraw(&host, &p, 1, NULL);
	report(!memcmp(m.mem, m.orig, 64), "a breakpoint is taken back");
}

/* ---- from one set of patches to another ---- */

#define TEXT 96

struct stream { /* code of whole instructions, and two sets of patches */
	u8 orig[TEXT + 8], mem[TEXT + 8];
	u8 len[TEXT]; /* of the instruction that begins there; 0: none does */
	struct dp_patch old[TEXT], now[TEXT];
	u32 nold, nnow;
	u64 base; /* its address, where there are no steps */
	bool good;
};

static u32 some_patches(struct stream *s, struct dp_patch *v)
{
	u32 n = 0, end = 0;

	for (u32 at = 0; at + 16 < TEXT; at += s->len[at]) {
		struct dp_patch *p = &v[n];

		if (at < end || rand() % 3)
			continue;
		*p = (struct dp_patch){.addr = at, .len = rand() % 5 ? 5 : 1, .jump = {0xcc}};
		memcpy(p->orig, s->orig + at, p->len);
		end = at + 1;
		for (u32 i = 1; i < p->len; i++) {
			p->jump[i] = (u8)(rand() % 200);
			if (s->len[at + i]) {
				p->bounds |= (u8)(1 << i);
				p->jump[i] = 0xcc;
			}
		}
		if (p->len == 5) {
			p->jump[0] = 0xe9;
			end = at + 5;
		}
		n++;
	}
	return n;
}

static bool is_jump_of(const struct stream *s, const struct dp_patch *v, u32 n, u32 at)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].addr == at && v[i].len == 5 && !memcmp(s->mem + at, v[i].jump, 5))
			return true;
	return false;
}

/* Whoever comes to the beginning of an instruction meets a trap, a whole jump or a whole instruction. */
static int stream_write(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct stream *s = arg;

	(void)err;
	memcpy(s->mem + addr, bytes, n);
	for (u32 at = 0; at < TEXT; at += s->len[at])
		s->good &= s->mem[at] == 0xcc || is_jump_of(s, s->old, s->nold, at) ||
			   is_jump_of(s, s->now, s->nnow, at) || !memcmp(s->mem + at, s->orig + at, s->len[at]);
	return 0;
}

/* While nobody runs: whoever writes may be killed, so breakpoints stand only where one of the sets rests with them. */
static int rest_write(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct stream *s = arg;
	const struct {
		const struct dp_patch *v;
		u32 n;
	} sets[] = {{s->old, s->nold}, {s->now, s->nnow}};

	(void)err;
	memcpy(s->mem + (addr - s->base), bytes, n);
	for (u32 at = 0; at < TEXT; at++) {
		bool rests = s->mem[at] != 0xcc;

		for (u32 k = 0; k < DP_ARRAY_SIZE(sets); k++)
			for (u32 i = 0; i < sets[k].n; i++)
				rests |= at + s->base - sets[k].v[i].addr < sets[k].v[i].len &&
					 sets[k].v[i].jump[at + s->base - sets[k].v[i].addr] == 0xcc;
		s->good &= rests;
	}
	return 0;
}

static void move(struct dp_patch *v, u32 n, u64 by)
{
	for (u32 i = 0; i < n; i++)
		v[i].addr += by;
}

static void overlay(u8 *mem, const struct dp_patch *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		memcpy(mem + v[i].addr, v[i].jump, v[i].len);
}

static void test_republish(void)
{
	static struct stream s;
	bool good = true, there = true, whole = true, rested = true, shifted;
	struct dp_host rest = {rest_write, model_serialise, model_breathe, &s};
	struct dp_host host = {stream_write, model_serialise, model_breathe, &s};
	struct dp_patch a = {.addr = 8, .len = 5, .bounds = 4, .jump = {0xe9, 1, 0xcc, 2, 3}},
			b = {.addr = 9, .len = 5, .jump = {0xe9}};
	u8 want[TEXT + 8];

	for (u32 seed = 0; seed < 3000; seed++) {
		srand(seed);
		memset(&s, 0, sizeof(s));
		for (u32 at = 0; at < TEXT; at += s.len[at])
			s.len[at] = (u8)DP_MIN(1u + (u32)rand() % 7, TEXT - at);
		for (u32 i = 0; i < sizeof(s.orig); i++)
			s.orig[i] = (u8)(rand() % 200);
		s.nold = some_patches(&s, s.old);
		s.nnow = some_patches(&s, s.now);
		s.good = true;
		memcpy(s.mem, s.orig, sizeof(s.mem));
		overlay(s.mem, s.old, s.nold);
		memcpy(want, s.orig, sizeof(want));
		overlay(want, s.now, s.nnow);
		there &= !dp_republish(&host, s.old, s.nold, s.now, s.nnow, NULL) && !memcmp(s.mem, want, sizeof(want));
		good &= s.good;
		memcpy(s.mem, s.orig, sizeof(s.mem));
		overlay(s.mem, s.old, s.nold);
		s.base = 8 * 4096 - (seed % 2 ? 40 : 2 * TEXT); /* a page may end in the middle: there are steps */
		move(s.old, s.nold, s.base);
		move(s.now, s.nnow, s.base);
		s.good = true;
		whole &= !dp_rewrite(&rest, s.old, s.nold, s.now, s.nnow, NULL) && !memcmp(s.mem, want, sizeof(want));
		rested &= s.good || seed % 2;
	}
	report(whole && rested, "while nobody runs no breakpoint is written on the way");
	report(good, "every byte state between two sets of patches is safe to execute");
	report(there, "in the end the new set stands, and else the original code");
	shifted = dp_republish(&host, &a, 1, &b, 1, NULL) == -dp_error_info(E_SITE_TARGET)->number;
	report(shifted && !memcmp(s.mem, want, sizeof(want)), "patches that see other instructions change nothing");
}

int main(void)
{
	test_places(0x7f1234560000, 2 << 20, 5000, false, "places near a shared object");
	test_places(0x555555554000, 1 << 20, 5000, false, "places near a position-independent executable");
	test_places(0x400000, 6 << 20, 5000, true, "places near an executable at a low address");
	test_given_back();
	test_protocol();
	test_breakpoint();
	test_republish();
	printf("1..%d\n", tests);
	return failures != 0;
}
