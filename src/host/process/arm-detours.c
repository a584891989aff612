/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Detours on their way into a process: as few writes as can be. */
#include <stdlib.h>
#include <string.h>

#include "host/process/arm-priv.h"

/* Bytes of detours that lie one behind the other, on their way into the target. */
struct pending {
	u64 at;
	u32 len;
	u8 bytes[65536];
};

#define GAP 256 /* bytes of nobody between two detours that are written with them */

/* Both lie in the same area, which is being mapped now: what is between them is ours alone, and zero. */
static bool both_fresh(const struct arming *a, u64 lo, u64 hi)
{
	size_t n = DP_COUNT_UP_TO(a->areas, a->nareas, lo, lo);

	return n && hi <= a->areas[n - 1].hi;
}

static int flush(struct arming *a, struct pending *w, struct dp_error *err)
{
	int r = w->len ? dp_mem_write(&a->mem, w->at, w->bytes, w->len, err) : 0;

	w->len = 0;
	dp_tracer_pump(&a->tracer);
	return r;
}

static int append_detour(struct arming *a, struct pending *w, const struct dp_planned *p, struct dp_error *err)
{
	u64 end = w->at + w->len, gap = p->detour_addr - end;
	int r = 0;

	if (!w->len || gap > GAP || w->len + gap + p->code_len > sizeof(w->bytes) ||
	    (gap && !both_fresh(a, w->at, p->detour_addr + p->code_len))) {
		r = flush(a, w, err);
		w->at = p->detour_addr;
		gap = 0;
	}
	memset(w->bytes + w->len, 0, gap);
	memcpy(w->bytes + w->len + gap, a->plan->code + p->code_off, p->code_len);
	w->len += (u32)gap + p->code_len;
	return r;
}

int dp_arm_write_detours(struct arming *a, struct dp_error *err)
{
	const struct dp_plan *plan = a->plan;
	struct dp_redirect *order = calloc(plan->npatches + 1, sizeof(*order)); /* where, and of which patch */
	struct pending *w = calloc(1, sizeof(*w));
	int r = order && w ? 0 : dp_fail(err, E_ARM_NOMEM, "detours");

	for (u32 i = 0; i < plan->npatches && !r; i++)
		order[i] = (struct dp_redirect){plan->patches[i].detour_addr, i};
	if (!r && !DP_SORT_BY(order, plan->npatches, pc))
		r = dp_fail(err, E_ARM_NOMEM, "detours");
	for (u32 i = 0; i < plan->npatches && !r; i++) {
		r = append_detour(a, w, &plan->patches[order[i].to], err);
		dp_session_tell(a->s, "probes placed:", i, plan->npatches);
	}
	if (!r)
		r = flush(a, w, err);
	free(order);
	free(w);
	return r;
}
