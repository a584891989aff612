/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What manager.c and states.c share. */
#ifndef DP_MANAGER_PRIV_H
#define DP_MANAGER_PRIV_H

#include "engine/manager.h"

#define MGR_REGION_MAX (DP_JUMP_LEN - 1 + DP_INSN_MAX) /* most bytes that a window displaces */
#define MGR_PADDING DP_TRAP_BYTE

/* How many bytes of the point's jump stand behind it as breakpoints that nobody meets (states.c). */
u32 dp_mgr_padding(const struct dp_manager *m, const struct dp_kpoint *p);

/* The bytes at addr are the file's, or our own patches; E_SITE_FOREIGN otherwise. */
int dp_mgr_unchanged(struct dp_manager *m, const struct dp_locus *l, u64 addr, u32 n, struct dp_error *err);

/* Have a point looked at by the next dp_mgr_apply(); the same for those whose jumps would cover it.
 */
void dp_mgr_touch(struct dp_manager *m, struct dp_kpoint *p);
void dp_mgr_touch_region(struct dp_manager *m, struct dp_kpoint *p);

void dp_mgr_drop_from_list(struct dp_manager *m, struct dp_kpoint *p, struct dp_mgr_probe *k);

/* Note a new state and keep the sums right. */
void dp_mgr_count(struct dp_manager *m, struct dp_kpoint *p, enum dp_state_now state);

/* Free the lists that no hit can see any more. */
void dp_mgr_free_retired(struct dp_manager *m);

#endif
