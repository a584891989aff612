/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How a kernel uprobe is opened for one process; shared by the perf and BPF contenders. */
#ifndef BENCH_CONTENDER_PERF_H
#define BENCH_CONTENDER_PERF_H

#include "bench.h"

struct perf_event_attr;

/* A descriptor, or -1 with the reason in why. attr: what to sample; the rest is filled in. */
int bench_uprobe_open(const struct bench_target *t, const struct bench_place *p, bool is_return,
		      struct perf_event_attr *attr, char *why);

/* The number of the uprobe event source, or -1 with the reason. */
int bench_uprobe_type(char *why);

#endif
