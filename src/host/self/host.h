/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The process as a host of the probe manager; under the lock. */
#ifndef DP_SELF_HOST_H
#define DP_SELF_HOST_H

#include "host/self/self-priv.h"

void self_host_close(void);  /* no descriptor stays open between two calls */
void self_host_forked(void); /* in the child */
void self_grace(void *arg);
void self_hooks_grace(void);
int self_write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err);
int self_serialise(void *arg, struct dp_error *err);
void self_breathe(void *arg);
int self_peek(void *arg, u64 addr, void *bytes, u32 n);
void self_reap(void);
int self_wait_unblocked(struct dp_error *err);
void self_blacklist(u64 addr);

#endif
