/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Converts time stamp counter values to CLOCK_MONOTONIC. Pairs of both clocks are taken now and
 * then; between two pairs the conversion is the straight line through them, so it is continuous,
 * monotonic, and exact at every pair, whatever the kernel does to the speed of its clock.
 */
#ifndef DP_CLOCK_H
#define DP_CLOCK_H

#include "base/base.h"

#define DP_CLOCK_PAIRS 64 /* history: older stamps use the oldest line */

struct dp_clock_pair {
	u64 tsc;
	u64 ns;
	u64 mult; /* nanoseconds per tick from the pair before, 32.32 fixed point */
};

struct dp_clock {
	struct dp_clock_pair pair[DP_CLOCK_PAIRS]; /* oldest first */
	u32 n;
	u64 mult;   /* over the whole history: for stamps behind the last pair */
	u64 unsure; /* ticks: the widest gap in which a pair was taken, of those that were taken here */
};

/* Take the first two pairs; sleeps for a millisecond, unless another clock was started shortly before. */
void dp_clock_start(struct dp_clock *c);

/* Take a pair; returns its stamp. Loads that follow in program order are made after the stamp. */
u64 dp_clock_mark(struct dp_clock *c);

/* The stamp of this moment, without taking a pair. */
u64 dp_clock_stamp(void);

/* The same with a given pair: for dp_clock_mark() and for tests. */
void dp_clock_add(struct dp_clock *c, u64 tsc, u64 ns);

u64 dp_clock_ns(const struct dp_clock *c, u64 tsc);

/* The same for many stamps that lie close together: keeps the line between two pairs. No pair is taken meanwhile. */
struct dp_clock_line {  /* begins with zeroes */
	u64 tsc, ticks; /* from this stamp on so far, without the end */
	u64 ns, mult;
};
u64 dp_clock_ns_near(const struct dp_clock *c, struct dp_clock_line *l, u64 tsc);

/* The moment at which a pair was taken is known to so many nanoseconds. */
u64 dp_clock_error_ns(const struct dp_clock *c);

/* Ticks in one millisecond. */
u64 dp_clock_ticks_per_ms(const struct dp_clock *c);

#endif
