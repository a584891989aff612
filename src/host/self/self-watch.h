/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The registered watchpoints, for the signal handler. */
#ifndef DP_SELF_WATCH_H
#define DP_SELF_WATCH_H

#include "dprobes/watch.h"
#include "host/self/self-priv.h"

#define SELF_WATCHES 4                 /* debug registers */
#define SELF_WATCH_MAGIC 0x4450574cull /* in the data of the signal, above the index */

extern struct watchpoint *dp_self_watched[SELF_WATCHES]; /* atomic; read by hits */

void dp_self_watch_forked(void); /* in the child */

#endif
