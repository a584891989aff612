/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rows of functions from call stacks of a process, at a rate and without any probe. Registers and a copy of the stack
 * come from the kernel's perf events of its threads, or, where there are none, from threads that are stopped for a
 * moment while they run. They are unwound here.
 */
#ifndef DP_TOP_SAMPLE_H
#define DP_TOP_SAMPLE_H

#include <sys/types.h>

#include "top/top.h"

struct dp_sampler;

/* E_PROC_*, E_SAMPLE_PERF. The rows go to top. */
int dp_sampler_new(struct dp_sampler **s, pid_t pid, u32 hz, struct dp_top *top, struct dp_error *err);
void dp_sampler_free(struct dp_sampler *s);

/* The rows are filled as samples come. */
struct dp_top_source dp_top_samples_source(void);

/* By what samples come: why not by perf events; NULL: by these. */
const char *dp_sampler_no_perf(const struct dp_sampler *s);

/* Wait so long, and take what was sampled; looks for new threads. False: the process has ended. */
bool dp_sampler_turn(struct dp_sampler *s, int ms);

#endif
