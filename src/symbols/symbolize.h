/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Addresses of a process as "symbol+0x12", with a cache: the same few come again and again. */
#ifndef DP_SYMBOLIZE_H
#define DP_SYMBOLIZE_H

#include "symbols/symbols.h"

struct symbolizer;

/* NULL when there is no memory. The process stays the caller's and must outlive the symbolizer. */
struct symbolizer *dp_symbolizer_new(struct dp_process *process);
void dp_symbolizer_free(struct symbolizer *s);

/* For struct dp_format_env: arg is the symbolizer (NULL: nothing is known). */
bool dp_symbolize(void *arg, u64 addr, char *buf, size_t size);

#endif
