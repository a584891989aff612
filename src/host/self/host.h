/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The process as a host of the probe manager; under the lock. */
#ifndef DP_SELF_HOST_H
#define DP_SELF_HOST_H

#include "host/self/self-priv.h"

void self_host_close(void);  /* no descriptor stays open between two calls */
void self_host_forked(void); /* in the child */
void self_grace(void *arg);
void self_reap(void);
int self_wait_unblocked(struct dp_error *err);
void self_blacklist(u64 addr);

#endif
