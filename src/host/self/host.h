/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The process as a host of the probe manager; under the lock. */
#ifndef DP_SELF_HOST_H
#define DP_SELF_HOST_H

#include "host/self/self-priv.h"

void dp_self_host_close(void);  /* no descriptor stays open between two calls */
void dp_self_host_forked(void); /* in the child */
void dp_self_grace(void *arg);
void dp_self_hooks_grace(void);
int dp_self_write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err);
int dp_self_serialise(void *arg, struct dp_error *err);
void dp_self_breathe(void *arg);
int dp_self_peek(void *arg, u64 addr, void *bytes, u32 n);
void dp_self_reap(void);
int dp_self_wait_unblocked(struct dp_error *err);
void dp_self_blacklist(u64 addr);

#endif
