/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The library's own probes on the C library and the dynamic linker. */
#ifndef DP_SELF_OWN_PROBES_H
#define DP_SELF_OWN_PROBES_H

#include "host/self/self-priv.h"

int dp_self_own_probes_init(struct dp_error *err);

/* masks.c. The set that *set points to (NULL: none) is exchanged for one without SIGTRAP. */
void dp_self_open_mask(unsigned long *set);
void dp_self_masks_attach(void);
void dp_self_masks_keep_jumps(void);

#endif
