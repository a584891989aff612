/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Holders of return probes: see returns.h. Everything here is under the host's lock. */
#include "engine/manager.h"
#include "engine/returns.h"

int dp_return_check(const struct dp_returns *rt, struct dp_kretprobe *rp, struct dp_error *err)
{
	if (rp->maxactive <= 0)
		rp->maxactive = (int)DP_MAX(10u, 2 * rt->cpus);
	rp->nmissed = 0;
	if (rp->maxactive > DP_MAXACTIVE)
		return dp_fail(err, E_KPROBE_ARGUMENT, "maxactive %d, at most %d", rp->maxactive, DP_MAXACTIVE);
	if (rp->data_size > DP_RETURN_DATA)
		return dp_fail(err, E_KPROBE_ARGUMENT, "data_size %zu, at most %d", rp->data_size, DP_RETURN_DATA);
	return 0;
}

static void free_holder(struct dp_returns *rt, struct dp_holder *h)
{
	/* Pairs with the acquire of who looks a landing's number up. */
	for (u32 k = 0; k < h->n; k++)
		if (h->v[k].landing)
			__atomic_store_n(&rt->by_number[h->v[k].number], NULL, __ATOMIC_RELEASE);
	if (rt->host->freed)
		rt->host->freed(h);
	dp_free(h->data);
	dp_free(h);
}

/* A landing for the instance; false: there is none left. Every number is tried once. */
static bool bind(struct dp_returns *rt, struct dp_instance *i)
{
	for (u32 n = 0; n < rt->host->numbers; n++) {
		u32 number = rt->hint++ % rt->host->numbers;
		u64 landing = rt->by_number[number] ? 0 : rt->host->landing(i->holder, number);

		if (!landing)
			continue;
		i->number = number;
		i->landing = landing;
		/* Pairs with the acquire of who finds an instance by its landing. */
		__atomic_store_n(&rt->by_number[number], i, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

int dp_return_open(struct dp_returns *rt, struct dp_kretprobe *rp, struct dp_error *err)
{
	size_t size = DP_ALIGN_UP(rp->data_size, (size_t)16);
	u32 n = (u32)rp->maxactive;
	struct dp_holder *h = dp_alloc(sizeof(*h) + n * sizeof(h->v[0]));
	bool good;

	if (!h)
		return dp_fail(err, E_ARM_NOMEM, "the instances of a return probe");
	h->n = n;
	h->rp = rp;
	h->free = 1;
	h->exits = rp->kp.flags & DP_KPROBE_FLAG_RET_EXITS;
	h->data = dp_alloc(n * size + 1);
	good = h->data && !rt->host->opened(h);
	for (u32 k = 0; k < n && good; k++) {
		h->v[k].holder = h;
		h->v[k].next = k + 1 < n ? k + 2 : 0;
		h->v[k].ri.rp = rp;
		h->v[k].ri.data = h->data + k * size;
		good = h->exits || bind(rt, &h->v[k]);
	}
	if (!good) {
		free_holder(rt, h);
		return dp_fail(err, E_ARM_NOMEM, "the landings of a return probe");
	}
	rp->dp_private = h;
	h->next = rt->open;
	__atomic_store_n(&rt->open, h, __ATOMIC_RELEASE); /* pairs with the acquire of who goes through the list */
	return 0;
}

void dp_return_forget(struct dp_manager *m, struct dp_kretprobe *rp)
{
	struct dp_holder *h = rp->dp_private;

	if (!h)
		return;
	__atomic_store_n(&h->rp, NULL, __ATOMIC_RELEASE); /* pairs with the acquire at a return */
	m->stale = true;                                  /* who has read it is waited for */
}

void dp_return_close(struct dp_returns *rt, struct dp_kretprobe *rp)
{
	struct dp_holder *h = rp->dp_private, **at = &rt->open;

	if (!h)
		return;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	rp->dp_private = NULL;
	if (rt->host->closed)
		rt->host->closed(h);
	h->next = rt->closed; /* who goes through the other list meanwhile finds its end, or this one's */
	rt->closed = h;
}

void dp_returns_sweep(struct dp_returns *rt)
{
	struct dp_holder **at = &rt->closed, *h;

	while ((h = *at)) {
		if (rt->host->is_unused && !rt->host->is_unused(h)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		free_holder(rt, h);
	}
}
