/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The probes that a `dprobes trace` holds in a process, read from the control block inside it. Only
 * looks: the process is neither stopped nor attached to, and its probes may come and go meanwhile.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/process-priv.h"

#define MOST (1u << 24) /* a block that goes away while it is read may hold anything */

static int by_patch_address(const void *a, const void *b)
{
	const struct dp_patch *p = a, *q = b;

	return p->addr < q->addr ? -1 : p->addr > q->addr;
}

static int by_address(const void *a, const void *b)
{
	const struct dp_standing *p = a, *q = b;

	return p->addr < q->addr ? -1 : p->addr > q->addr;
}

static void *read_table(const struct dp_mem *mem, u64 addr, u32 n, size_t size,
			struct dp_error *err)
{
	void *v = n <= MOST ? calloc((size_t)n + 1, size) : NULL;

	if (!v) {
		dp_fail(err, E_ARM_NOMEM, "process %d", (int)mem->pid);
		return NULL;
	}
	if (n && dp_mem_read(mem, addr, v, n * size, err)) {
		free(v);
		return NULL;
	}
	return v;
}

int dp_tables_read(struct dp_tables *t, const struct dp_mem *mem, u64 addr, struct dp_error *err)
{
	int r = dp_mem_read(mem, addr, &t->ctl, sizeof(t->ctl), err);

	if (r || t->ctl.state == DP_STATE_EMPTY)
		return r;
	t->points = read_table(mem, t->ctl.points, t->ctl.npoints, sizeof(*t->points), err);
	t->probes = read_table(mem, t->ctl.probes, t->ctl.nprobes, sizeof(*t->probes), err);
	t->patches = read_table(mem, t->ctl.patches, t->ctl.npatches, sizeof(*t->patches), err);
	if (!t->points || !t->probes || !t->patches)
		return -EIO;
	qsort(t->patches, t->ctl.npatches, sizeof(*t->patches), by_patch_address);
	return 0;
}

void dp_tables_free(struct dp_tables *t)
{
	free(t->points);
	free(t->probes);
	free(t->patches);
}

/* Patches do not overlap, and each displaces the instructions from its start on: the last one that
 * begins before. */
const struct dp_patch *dp_tables_patch(const struct dp_tables *t, u64 addr)
{
	u32 lo = 0, hi = t->ctl.npatches;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (t->patches[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &t->patches[lo - 1] : NULL;
}

static enum dp_standing_state state_of(const struct dp_tables *t, const struct dp_patch *p,
				       const struct dp_mem *mem)
{
	u8 now[sizeof(p->orig)];

	if (p->len > sizeof(now) || dp_mem_read(mem, p->addr, now, p->len, NULL))
		return DP_STANDING_GONE;
	if (!memcmp(now, p->jump, p->len))
		return DP_STANDING_ARMED;
	if (t->ctl.state == DP_STATE_ARMING)
		return DP_STANDING_ARMING;
	return memcmp(now, p->orig, p->len) ? DP_STANDING_ALTERED : DP_STANDING_GONE;
}

static u32 collect(const struct dp_tables *t, const struct dp_mem *mem, struct dp_standing *v)
{
	const struct dp_control *c = &t->ctl;
	u32 n = 0;

	for (u32 i = 0; i < c->npoints; i++) {
		const struct dp_point *pt = &t->points[i];
		const struct dp_patch *patch = dp_tables_patch(t, pt->addr);

		for (u32 k = pt->first;
		     patch && k - pt->first < pt->n && k < c->nprobes && n < c->nprobes; k++) {
			v[n].addr = pt->addr;
			v[n].is_return = t->probes[k].flags & DP_PROBE_RETURN;
			v[n].outcome = patch->len == 1 ? DP_OUTCOME_TRAP : DP_OUTCOME_JUMP;
			v[n].state = state_of(t, patch, mem);
			v[n].owner = (pid_t)c->owner_pid;
			n++;
		}
	}
	/* Nothing is watched any more when the owner has ended. */
	for (u32 i = 0; i < c->nwatches && (kill((pid_t)c->owner_pid, 0) == 0 || errno == EPERM); i++) {
		struct dp_watch_rt w;

		if (dp_mem_read(mem, c->watches + i * sizeof(w), &w, sizeof(w), NULL))
			break;
		for (u32 k = 0; w.addr && k < w.n && n < c->nprobes; k++)
			v[n++] = (struct dp_standing){.addr = w.addr,
						      .is_watch = true,
						      .outcome = DP_OUTCOME_JUMP,
						      .state = DP_STANDING_ARMED,
						      .owner = (pid_t)c->owner_pid};
	}
	qsort(v, n, sizeof(*v), by_address);
	return n;
}

int dp_standing_read(pid_t pid, struct dp_standing **out, u32 *n, struct dp_error *err)
{
	struct dp_tables t = {.points = NULL};
	struct dp_mem mem;
	u64 addr;
	int r;

	*out = NULL;
	*n = 0;
	r = dp_mem_open(&mem, pid, err);
	if (r)
		return r;
	addr = dp_find_control(pid);
	if (addr) {
		r = dp_tables_read(&t, &mem, addr, err);
		if (!r && t.ctl.state != DP_STATE_EMPTY) {
			*out = calloc((size_t)t.ctl.nprobes + 1, sizeof(**out));
			if (*out)
				*n = collect(&t, &mem, *out);
			else
				r = dp_fail(err, E_ARM_NOMEM, "process %d", (int)pid);
		} else if (r && dp_find_control(pid) != addr) {
			r = 0; /* its dprobes has just removed them */
		}
	}
	dp_tables_free(&t);
	dp_mem_close(&mem);
	return r;
}
