/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of <dprobes/kprobes.h> for return probes and jprobes. Instances and stubs are handed
 * out here, ahead of time, so that a hit finds all that it needs.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/self/host.h"
#include "symbols/symbols.h"

#define EXPORT __attribute__((visibility("default")))
#define MAXACTIVE 4096

static struct self_holder *left; /* of unregistered probes, with calls under way */
static u32 next_stub = 1, next_id;

static void free_holder(struct self_holder *h)
{
	for (u32 k = 0; k < h->n; k++)
		if (h->v[k].stub)
			__atomic_store_n(&self_instances[h->v[k].stub], NULL, __ATOMIC_RELEASE);
	free(h->data);
	free(h);
}

static bool all_free(const struct self_holder *h)
{
	u32 n = 0;

	for (u32 i = (u32)__atomic_load_n(&h->free, __ATOMIC_ACQUIRE); i; i = h->v[i - 1].next)
		n++;
	return n == h->n;
}

/* No thread gives anything of these to its store any more: they are unregistered, and a grace
 * period is over. */
static void reap_holders(void)
{
	struct self_holder **at = &left, *h;

	while ((h = *at)) {
		bool stores = self_collect(h, NULL);

		/* Without stubs nothing but stores leads to it. */
		if (stores && (h->exits || all_free(h))) {
			*at = h->next;
			free_holder(h);
		} else {
			at = &h->next;
		}
	}
}

/* Every stub is tried once. Numbers that are multiples of 256 are page headers. */
static u32 free_stub(void)
{
	for (u32 n = 0; n < SELF_STUBS; n++) {
		u32 s = next_stub++ % SELF_STUBS;

		if (s % 256 && !self_instances[s])
			return s;
	}
	return 0;
}

static int make_holder(struct kretprobe *rp)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t size = DP_ALIGN_UP(rp->data_size, (size_t)16);
	bool general =
	    rp->kp.flags & KPROBE_FLAG_GENERAL_REGS || self_is_general((const void *)rp->handler);
	struct self_holder *h;

	if (rp->maxactive <= 0)
		rp->maxactive = (int)DP_MAX(10l, 2 * cpus);
	if (rp->maxactive > MAXACTIVE || rp->data_size > 1 << 20) {
		struct dp_error err = {0};

		return self_fail(&err, rp->maxactive > MAXACTIVE
					   ? dp_fail(&err, E_KPROBE_ARGUMENT, "maxactive %d, at most %d", rp->maxactive, MAXACTIVE)
					   : dp_fail(&err, E_KPROBE_ARGUMENT, "data_size %zu, at most 1048576", rp->data_size));
	}
	h = calloc(1, sizeof(*h) + (size_t)rp->maxactive * sizeof(h->v[0]));
	if (!h)
		return -ENOMEM;
	h->n = (u32)rp->maxactive;
	h->rp = rp;
	h->general = general;
	h->id = ++next_id;
	h->exits = rp->kp.flags & KPROBE_FLAG_RET_EXITS;
	h->data = size ? calloc(h->n, size) : NULL;
	for (u32 k = 0; k < h->n; k++) {
		h->v[k].holder = h;
		h->v[k].next = k + 1 < h->n ? k + 2 : 0;
		h->v[k].ri.data = h->data + k * size;
		h->v[k].stub = h->exits ? 0 : free_stub();
		if ((!h->exits && !h->v[k].stub) || (size && !h->data)) {
			free_holder(h);
			return -ENOMEM;
		}
		if (!h->exits)
			dp_self_general[h->v[k].stub] = general;
		if (!h->exits)
			__atomic_store_n(&self_instances[h->v[k].stub], &h->v[k], __ATOMIC_RELEASE);
	}
	h->free = 1;
	rp->dp_private = h;
	rp->nmissed = 0;
	return 0;
}

/*
 * The probe was taken out, or is about to be: calls that are under way return without its handler.
 * Whoever has read rp already is waited for by the grace period of self_unregister_all().
 */
static void forget(struct kretprobe *rp)
{
	struct self_holder *h = rp->dp_private;

	if (h)
		__atomic_store_n(
		    &h->rp, NULL,
		    __ATOMIC_RELEASE); /* pairs with the acquire in dp_self_returned() */
}

static void drop(struct kretprobe *rp)
{
	struct self_holder *h = rp->dp_private;

	rp->dp_private = NULL;
	if (!h)
		return;
	h->next = left;
	left = h;
}

static void renumber(struct self_holder *h, int old, int now)
{
	for (u32 k = 0; k < h->n; k++)
		if (h->v[k].tid == old)
			h->v[k].tid = now;
}

/* In the child: calls of the thread that lives on are under way under its new number. */
void self_returns_forked(int old, int now)
{
	for (const struct self_probe *s = self_probes; s; s = s->next)
		if (s->type == 'r')
			renumber(((struct kretprobe *)s->kp)->dp_private, old, now);
	for (struct self_holder *h = left; h; h = h->next)
		renumber(h, old, now);
}

static int by_address(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* The same probe twice in a batch. No memory: it is found out later, at the second one's registration. */
static bool has_twins(struct kretprobe **rps, int num)
{
	struct kretprobe **v = calloc((size_t)num, sizeof(*v));
	bool found = false;

	if (!v)
		return false;
	memcpy(v, rps, (size_t)num * sizeof(*v));
	qsort(v, (size_t)num, sizeof(*v), by_address);
	for (int i = 1; i < num; i++)
		found |= v[i] == v[i - 1];
	free(v);
	return found;
}

static int make_all(struct kretprobe **rps, int num, struct kprobe **kps)
{
	int r;

	if (has_twins(rps, num))
		return self_refuse("the same return probe twice");
	for (int i = 0; i < num; i++) {
		if (rps[i]->kp.dp_private && rps[i]->dp_private)
			return self_refuse("it is registered already");
		r = make_holder(rps[i]);
		if (r) {
			while (i--)
				drop(rps[i]);
			return r;
		}
		rps[i]->kp.pre_handler = self_return_pre;
		rps[i]->kp.post_handler = NULL;
		kps[i] = &rps[i]->kp;
	}
	return 0;
}

void self_returns_give_up(struct kprobe **kps, int num)
{
	for (int i = 0; i < num; i++)
		forget((struct kretprobe *)kps[i]);
	self_grace(NULL);
	for (int i = 0; i < num; i++)
		drop((struct kretprobe *)kps[i]);
}

EXPORT int register_kretprobes(struct kretprobe **rps, int num)
{
	struct kprobe **kps;
	int r;

	if (num <= 0)
		return self_refuse("a batch of none");
	kps = calloc((size_t)num, sizeof(*kps));
	if (!kps)
		return -ENOMEM;
	r = self_lock();
	if (!r) {
		reap_holders();
		r = make_all(rps, num, kps);
		self_unlock();
	}
	if (!r)
		r = self_register_all(kps, num, 'r');
	free(kps);
	return r;
}

EXPORT void unregister_kretprobes(struct kretprobe **rps, int num)
{
	struct kprobe **kps = num > 0 ? calloc((size_t)num, sizeof(*kps)) : NULL;

	if (!kps || self_lock()) {
		free(kps);
		return;
	}
	for (int i = 0; i < num; i++) {
		kps[i] = &rps[i]->kp;
		forget(rps[i]);
	}
	self_unregister_all(kps, num);
	for (int i = 0; i < num; i++)
		drop(rps[i]);
	reap_holders();
	self_unlock();
	free(kps);
}

EXPORT int register_kretprobe(struct kretprobe *rp)
{
	return register_kretprobes(&rp, 1);
}

EXPORT void unregister_kretprobe(struct kretprobe *rp)
{
	unregister_kretprobes(&rp, 1);
}

EXPORT int disable_kretprobe(struct kretprobe *rp)
{
	return self_set_disabled(&rp->kp, true);
}

EXPORT int enable_kretprobe(struct kretprobe *rp)
{
	return self_set_disabled(&rp->kp, false);
}

/* ---- exits ---- */

#define MAX_EXITS 256

int self_exits_attach(struct self_probe *s, u64 addr, struct dp_error *err)
{
	struct self_image *im = self_image_at(addr);
	struct self_holder *h = ((struct kretprobe *)s->kp)->dp_private;
	u64 v[MAX_EXITS];
	int r, n = dp_module_exits(im->mod, addr - im->bias, v, MAX_EXITS, err);

	if (n <= 0)
		return n ? n
			 : dp_fail(err, E_FUNC_EXITS, "0x%llx never returns",
				   (unsigned long long)addr);
	s->exits = calloc((size_t)n, sizeof(*s->exits));
	if (!s->exits)
		return dp_fail(err, E_ARM_NOMEM, "exits");
	for (int i = 0; i < n; i++) {
		struct self_exit *e = &s->exits[i];

		e->kp.pre_handler = self_exit_pre;
		e->holder = h;
		e->k.owner = &e->kp;
		e->k.flags = s->k.flags & DP_KPROBE_DISABLED;
		if (h->general)
			e->k.flags |= DP_KPROBE_GENERAL;
		r = dp_mgr_attach(&self_manager, v[i] + im->bias, &e->k, err);
		if (r) {
			self_exits_detach(s);
			return r;
		}
		s->nexits++;
	}
	return 0;
}

void self_exits_detach(struct self_probe *s)
{
	while (s->nexits > 0)
		dp_mgr_detach(&self_manager, &s->exits[--s->nexits].k);
}

/* ---- jprobes ---- */

static struct kprobe **kprobes_of(struct jprobe **jps, int num)
{
	struct kprobe **kps = num > 0 ? calloc((size_t)num, sizeof(*kps)) : NULL;

	for (int i = 0; kps && i < num; i++)
		kps[i] = &jps[i]->kp;
	return kps;
}

EXPORT int register_jprobes(struct jprobe **jps, int num)
{
	struct kprobe **kps = kprobes_of(jps, num);
	int r;

	if (!kps)
		return num > 0 ? -ENOMEM : self_refuse("a batch of none");
	for (int i = 0; i < num; i++) {
		if (!jps[i]->entry) {
			free(kps);
			return self_refuse("a jprobe without an entry");
		}
		kps[i]->pre_handler = self_jprobe_pre;
		kps[i]->post_handler = NULL;
		kps[i]->flags &= ~(unsigned)KPROBE_FLAG_GENERAL_REGS;
	}
	r = self_register_all(kps, num, 'j');
	free(kps);
	return r;
}

EXPORT void unregister_jprobes(struct jprobe **jps, int num)
{
	struct kprobe **kps = kprobes_of(jps, num);

	if (kps && !self_lock()) {
		self_unregister_all(kps, num);
		self_unlock();
	}
	free(kps);
}

EXPORT int register_jprobe(struct jprobe *jp)
{
	return register_jprobes(&jp, 1);
}

EXPORT void unregister_jprobe(struct jprobe *jp)
{
	unregister_jprobes(&jp, 1);
}

EXPORT int disable_jprobe(struct jprobe *jp)
{
	return self_set_disabled(&jp->kp, true);
}

EXPORT int enable_jprobe(struct jprobe *jp)
{
	return self_set_disabled(&jp->kp, false);
}
