/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the fuzzers of files and of dpcc begin with: small programs that are compiled when they start, and children that
 * may die.
 */
#ifndef FUZZ_SAMPLES_H
#define FUZZ_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/base.h"

struct sample {
	char path[200];
	u8 *bytes;
	size_t n;
};

/* In a new directory, which goes with samples_end(). Returns how many; 0: there is no compiler. */
u32 samples_make(struct sample *v, u32 max);
const char *samples_dir(void);
void samples_end(void);
bool sample_read(struct sample *s, const char *path);

/*
 * Call one(i) for i from first on, in children that take 100 each, for so many seconds (0: for ever) or times (0: no
 * limit). A child that dies, or that computes for longer than 20 s at one i, ends it: returns false, and *at is that i.
 */
bool fuzz_run(void (*one)(u64 i), u64 first, double seconds, u64 times, u64 *at);

/* What a fuzzer is called with: [SECONDS [SEED [ONLY]]]. As a test (DP_SHORT_RUN) it makes so many inputs. */
struct fuzz_args {
	double seconds;
	u64 times, first, seed;
};

static inline struct fuzz_args fuzz_args(int argc, char **argv, u64 short_times)
{
	struct fuzz_args a = {.first = argc > 3 ? strtoull(argv[3], NULL, 0) : 0,
			      .seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1};

#ifdef DP_SHORT_RUN
	a.times = short_times;
#else
	a.seconds = argc > 1 ? atof(argv[1]) : 10;
	a.times = argc > 3 ? 1 : 0;
#endif
	return a;
}

/* Counters that children share with us. */
extern u64 *fuzz_counts; /* [8] */

#endif
