/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The process as a host of return probes (engine/returns.c): stubs, who may still return to them, and probes on exits.
 */
#include "host/self/host.h"
#include "symbols/symbols.h"

static u32 next_id;

static u64 landing(const struct dp_holder *h, u32 number)
{
	if (!(number % 256)) /* the header of a page */
		return 0;
	dp_self_general[number] = h->general;
	return (u64)dp_self_stubs + number * 16ull + SELF_LANDING;
}

static int opened(struct dp_holder *h)
{
	h->general = h->rp->kp.flags & KPROBE_FLAG_GENERAL_REGS || dp_self_is_general((const void *)h->rp->handler);
	h->id = ++next_id;
	return 0;
}

static bool all_free(const struct dp_holder *h)
{
	u32 n = 0;

	/* Pairs with the release of dp_freelist_give(). */
	for (u32 i = (u32)__atomic_load_n(&h->free, __ATOMIC_ACQUIRE); i; i = h->v[i - 1].next)
		n++;
	return n == h->n;
}

/* No thread gives anything of these to its store any more: they are unregistered, and a grace
 * period is over. */
static bool is_unused(struct dp_holder *h)
{
	/* Without stubs nothing but stores leads to it. */
	return dp_self_collect(h, NULL) && (h->exits || all_free(h));
}

static const struct dp_returns_host returns_host = {
    .numbers = SELF_STUBS, .landing = landing, .opened = opened, .is_unused = is_unused};

struct dp_returns dp_self_returns = {.host = &returns_host, .by_number = dp_self_instances};

void dp_self_sweep(void)
{
	dp_returns_sweep(&dp_self_returns);
}

static void renumber(struct dp_holder *h, int old, int now)
{
	for (; h; h = h->next)
		for (u32 k = 0; k < h->n; k++)
			if ((int)h->v[k].owner == old)
				h->v[k].owner = (u32)now;
}

/* In the child: calls of the thread that lives on are under way under its new number. */
void dp_self_returns_forked(int old, int now)
{
	renumber(dp_self_returns.open, old, now);
	renumber(dp_self_returns.closed, old, now);
}

/* ---- exits ---- */

#define MAX_EXITS 256

int dp_self_exits_attach(struct dp_registered *s, u64 addr, struct dp_error *err)
{
	struct self_image *im = dp_self_image_at(addr);
	struct dp_holder *h = ((struct kretprobe *)s->kp)->dp_private;
	u64 v[MAX_EXITS];
	int r, n = dp_module_exits(im->mod, addr - im->bias, v, NULL, MAX_EXITS, err);

	if (n <= 0)
		return n ? n : dp_fail(err, E_FUNC_EXITS, "0x%llx never returns", (unsigned long long)addr);
	dp_free(s->own); /* of an attempt before */
	s->own = dp_alloc((size_t)n * sizeof(struct self_exit));
	if (!s->own)
		return dp_fail(err, E_ARM_NOMEM, "exits");
	for (int i = 0; i < n; i++) {
		struct self_exit *e = (struct self_exit *)s->own + i;

		e->kp.pre_handler = dp_self_exit_pre;
		e->holder = h;
		e->k.owner = &e->kp;
		e->k.flags = s->k.flags & DP_MGR_DISABLED;
		if (h->general)
			e->k.flags |= DP_MGR_GENERAL;
		r = dp_mgr_attach(&dp_self_manager, v[i] + im->bias, &e->k, err);
		if (r) {
			dp_self_exits_detach(s);
			return r;
		}
		s->nown++;
	}
	return 0;
}

void dp_self_exits_detach(struct dp_registered *s)
{
	struct self_exit *v = s->own;

	while (s->nown)
		dp_mgr_detach(&dp_self_manager, &v[--s->nown].k);
}

int dp_self_exits_flagged(struct dp_registered *s)
{
	struct self_exit *v = s ? s->own : NULL;
	int r = 0;

	for (u32 i = 0; v && i < s->nown && !r; i++)
		r = dp_mgr_flags(&dp_self_manager, &v[i].k,
				 (v[i].k.flags & ~(u32)DP_MGR_DISABLED) | (s->k.flags & DP_MGR_DISABLED));
	return r;
}
