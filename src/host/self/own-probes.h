/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The library's own probes on the C library and the dynamic linker. */
#ifndef DP_SELF_OWN_PROBES_H
#define DP_SELF_OWN_PROBES_H

#include "host/self/self-priv.h"

#define CLEAR_SIGHAND (1ull << 32) /* among the flags of clone3, which are the first word of its argument */

int dp_self_own_probes_init(struct dp_error *err);

/* masks.c. The set that *set points to (NULL: none) is exchanged for one without SIGTRAP. */
void dp_self_open_mask(unsigned long *set);
/* The places that block signals: attached, not applied yet; what did not become a jump is given up. */
void dp_self_masks_attach(void);
void dp_self_masks_keep_jumps(void);
/* Those that make a child without handlers. Threads come there with all signals blocked: once SIGTRAP is not. */
void dp_self_masks_attach_clones(void);

#endif
