/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Time stamp counter to CLOCK_MONOTONIC. Knows nothing of rings. */
#include <time.h>

#include "arch/arch.h"
#include "log/clock.h"

#define SAMPLES 5
#define LEAST_NS 1000000u      /* between the first two pairs; */
#define MOST_NS 10000000000ull /* older ones are not used for another clock */

u64 dp_clock_stamp(void)
{
	return dp_rdtsc_fenced();
}

static u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static u64 slope(const struct dp_clock_pair *a, const struct dp_clock_pair *b)
{
	if (b->tsc <= a->tsc || b->ns <= a->ns)
		return 0;
	return (u64)(((unsigned __int128)(b->ns - a->ns) << 32) / (b->tsc - a->tsc));
}

static u64 scale(u64 ticks, u64 mult)
{
	unsigned __int128 ns = (unsigned __int128)ticks * mult >> 32;

	return ns >> 63 ? (u64)1 << 63 : (u64)ns;
}

void dp_clock_add(struct dp_clock *c, u64 tsc, u64 ns)
{
	struct dp_clock_pair p = {tsc, ns, 0};
	struct dp_clock_pair *last = c->n ? &c->pair[c->n - 1] : NULL;

	if (last && tsc <= last->tsc) {
		/* The counter was set back (a virtual machine was moved): what was learned is void.
		 */
		p.mult = c->mult;
		c->pair[0] = p;
		c->n = 1;
		return;
	}
	if (last && ns < last->ns)
		p.ns = last->ns; /* measured too early by its uncertainty: never run backwards */
	if (last)
		p.mult = slope(last, &p);
	if (c->n == DP_CLOCK_PAIRS) {
		memmove(&c->pair[0], &c->pair[1], sizeof(p) * (DP_CLOCK_PAIRS - 1));
		c->n--;
	}
	c->pair[c->n++] = p;
	if (c->n > 1)
		c->mult = slope(&c->pair[0], &c->pair[c->n - 1]);
}

/*
 * Read one clock between two reads of the other, several times; the closest pair wins, since an
 * interruption between the reads only ever makes the bracket wider.
 */
u64 dp_clock_mark(struct dp_clock *c)
{
	u64 tsc = 0, ns = 0, best = ~(u64)0;

	for (int i = 0; i < SAMPLES; i++) {
		u64 before = dp_clock_stamp(), now = monotonic_ns(), after = dp_clock_stamp();

		if (after - before < best) {
			best = after - before;
			tsc = before + best / 2;
			ns = now;
		}
	}
	dp_clock_add(c, tsc, ns);
	c->unsure = DP_MAX(c->unsure, best);
	return tsc;
}

void dp_clock_start(struct dp_clock *c)
{
	static _Thread_local struct dp_clock_pair first; /* of a clock that was started shortly before */
	struct timespec ms = {0, 1000000};
	u64 age = monotonic_ns() - first.ns;

	c->n = 0;
	c->mult = c->unsure = 0;
	if (first.ns && age > LEAST_NS && age < MOST_NS)
		dp_clock_add(c, first.tsc, first.ns);
	dp_clock_mark(c);
	if (c->n < 2) { /* there was none, or the counter was set back */
		nanosleep(&ms, NULL);
		dp_clock_mark(c);
	}
	if (c->pair[0].tsc != first.tsc)
		first = c->pair[0];
	else if (age > MOST_NS / 2)
		first = c->pair[1];
}

/* The line that the stamp is on. Of those before the first pair it is good for this one only. */
static struct dp_clock_line line_of(const struct dp_clock *c, u64 tsc)
{
	const struct dp_clock_pair *last = &c->pair[c->n - 1], *first = &c->pair[0];
	u32 lo = 0, hi = c->n - 1; /* the pair sought is in [lo, hi] */

	if (tsc >= last->tsc)
		return (struct dp_clock_line){last->tsc, ~(u64)0 - last->tsc, last->ns, c->mult};
	if (tsc < first->tsc) {
		u64 back = scale(first->tsc - tsc, c->n > 1 ? first[1].mult : c->mult);

		return (struct dp_clock_line){tsc, 0, back < first->ns ? first->ns - back : 0, 0};
	}
	while (hi - lo > 1) {
		u32 mid = (lo + hi) / 2;

		if (c->pair[mid].tsc <= tsc)
			lo = mid;
		else
			hi = mid;
	}
	return (struct dp_clock_line){c->pair[lo].tsc, c->pair[hi].tsc - c->pair[lo].tsc, c->pair[lo].ns,
				      c->pair[hi].mult};
}

u64 dp_clock_ns(const struct dp_clock *c, u64 tsc)
{
	const struct dp_clock_line l = line_of(c, tsc);

	return l.ns + scale(tsc - l.tsc, l.mult);
}

u64 dp_clock_ns_near(const struct dp_clock *c, struct dp_clock_line *l, u64 tsc)
{
	if (tsc - l->tsc >= l->ticks)
		*l = line_of(c, tsc);
	return l->ns + scale(tsc - l->tsc, l->mult);
}

u64 dp_clock_error_ns(const struct dp_clock *c)
{
	return scale(c->unsure, c->mult) / 2 + 1;
}

u64 dp_clock_ticks_per_ms(const struct dp_clock *c)
{
	return c->mult ? ((u64)1000000 << 32) / c->mult : 1000000;
}
