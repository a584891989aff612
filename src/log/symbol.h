/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code addresses in logs, by whatever knows the program's symbols. */
#ifndef DP_LOG_SYMBOL_H
#define DP_LOG_SYMBOL_H

#include "base/base.h"

/* Write "symbol+0x12" for a run-time address; false when unknown. */
typedef bool dp_symbolize_fn(void *arg, u64 addr, char *buf, size_t size);

/*
 * An address by its symbol, or as a number. behind_call: execution goes on there when a call returns, and the call may
 * be the last instruction of its function. fn may be NULL.
 */
void dp_symbol_text(dp_symbolize_fn *fn, void *arg, u64 addr, bool behind_call, char *buf, size_t size);

/* The file with code that is mapped at a run-time address; the texts stay until the next call. False: none is known. */
struct dp_code_file {
	u64 lo, hi; /* where it is mapped */
	const char *path, *build_id;
};
typedef bool dp_code_file_fn(void *arg, u64 addr, struct dp_code_file *file);

#endif
