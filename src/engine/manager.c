/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Points and the probes on them. A point is made when an address is probed for the first time and
 * stays, with its slots, for good: nothing that a thread may still be executing or about to trap
 * into ever goes away. What changes is the list of probes that a hit sees, and the state of the
 * code bytes (states.c).
 */
#include "engine/manager-priv.h"

int dp_mgr_init(struct dp_manager *m, const struct dp_mgr_host *host)
{
	memset(m, 0, sizeof(*m));
	m->host = host;
	return host->refresh(host->arg, &m->space);
}

void dp_mgr_free(struct dp_manager *m)
{
	while (m->points) {
		struct dp_kpoint *next = m->points->next;

		dp_free(m->points->list);
		dp_free(m->points);
		m->points = next;
	}
	while (m->traps) {
		struct dp_traps *old = m->traps->old;

		dp_free(m->traps);
		m->traps = old;
	}
	dp_mgr_free_retired(m);
	dp_space_free(&m->space);
	memset(m, 0, sizeof(*m));
}

/* What stands in memory at addr, given the file's bytes and our own patches. */
static void expected(struct dp_manager *m, const struct dp_locus *l, u64 addr, u8 *bytes, u32 n)
{
	memcpy(bytes, l->text->bytes + (addr - l->bias - l->text->lo), n);
	for (u64 a = addr - MGR_REGION_MAX + 1; a < addr + n; a++) {
		struct dp_kpoint *p = dp_mgr_point(m, a);
		const struct dp_patch *patch;

		if (!p || p->state == DP_POINT_OFF)
			continue;
		patch = p->state == DP_POINT_JUMP ? &p->jump_patch : &p->trap_patch;
		for (u32 i = 0; i < patch->len + dp_mgr_padding(m, p); i++)
			if (a + i >= addr && a + i < addr + n)
				bytes[a + i - addr] = i < patch->len ? patch->jump[i] : MGR_PADDING;
	}
}

int dp_mgr_unchanged(struct dp_manager *m, const struct dp_locus *l, u64 addr, u32 n, struct dp_error *err)
{
	u8 want[DP_INSN_MAX + DP_JUMP_LEN], have[DP_INSN_MAX + DP_JUMP_LEN];

	expected(m, l, addr, want, n);
	if (m->host->peek(m->host->arg, addr, have, n) || memcmp(want, have, n) ||
	    (m->host->is_covered && m->host->is_covered(m->host->arg, addr, n)))
		return dp_fail(err, E_SITE_FOREIGN, "0x%llx", (unsigned long long)addr);
	return 0;
}

static int new_point(struct dp_manager *m, u64 addr, struct dp_kpoint **out, struct dp_error *err)
{
	struct dp_kpoint *p;
	struct dp_site site;
	struct dp_locus l;
	int r = m->host->locate(m->host->arg, addr, &l, err);

	if (!r)
		r = dp_site_judge(l.text, addr - l.bias, &site, err);
	if (r)
		return r;
	p = dp_alloc(sizeof(*p));
	if (!p)
		return dp_fail(err, E_ARM_NOMEM, "a point");
	*p = (struct dp_kpoint){.addr = addr,
				.text = l.text,
				.bias = l.bias,
				.reach_lo = l.reach_lo,
				.reach_hi = l.reach_hi,
				.module = l.module,
				.single = m->host->whole_list,
				.fresh = true,
				.vectors = 1};
	u64 avail = l.text->hi - (addr - l.bias);
	const u8 *code = l.text->bytes + (addr - l.bias - l.text->lo);
	dp_insn_decode(&p->insn, code, avail);
	memcpy(p->bytes, code, p->insn.len);
	r = dp_mgr_unchanged(m, &l, addr, p->insn.len, err);
	if (!r)
		r = dp_ool_slot_make(m, p, DP_OOL_PLAIN, err);
	if (r) {
		dp_free(p);
		return r;
	}
	p->trap_patch = (struct dp_patch){.addr = addr, .len = 1, .orig = {code[0]}, .jump = {DP_TRAP_BYTE}};
	p->next = m->points;
	p->hash_next = m->hash[dp_mgr_bucket(addr)];
	__atomic_store_n(&m->hash[dp_mgr_bucket(addr)], p, __ATOMIC_RELEASE); /* pairs with dp_mgr_point() */
	__atomic_store_n(&m->points, p, __ATOMIC_RELEASE); /* pairs with the acquire in dp_mgr_home() */
	m->npoints++;
	*out = p;
	return 0;
}

void dp_mgr_touch(struct dp_manager *m, struct dp_kpoint *p)
{
	if (p->dirty)
		return;
	p->dirty = true;
	p->work_next = m->work;
	m->work = p;
}

/* Is it to be called? While everything is disarmed, only what the host needs for itself. */
static bool is_enabled(const struct dp_manager *m, const struct dp_mgr_probe *k)
{
	return !(k->flags & DP_MGR_DISABLED) && (!m->disarmed || k->flags & DP_MGR_ALWAYS);
}

/* Publish the list of enabled probes; the old one goes when no hit can be reading it any more. */
static int relist(struct dp_manager *m, struct dp_kpoint *p)
{
	struct dp_hitlist *list = NULL, *old = p->list;
	u32 n = 0;

	for (struct dp_mgr_probe *k = p->probes; k; k = k->next)
		n += is_enabled(m, k);
	if (n) {
		list = dp_alloc(sizeof(*list) + n * sizeof(list->v[0]));
		if (!list)
			return -ENOMEM;
		list->general = list->no_regs = true;
		for (struct dp_mgr_probe *k = p->probes; k; k = k->next)
			if (is_enabled(m, k)) {
				list->v[list->n++] = k;
				list->general &= !!(k->flags & DP_MGR_GENERAL);
				list->no_regs &= !!(k->flags & DP_MGR_NO_REGS);
				list->post |= !!(k->flags & DP_MGR_POST);
			}
	}
	/*
	 * vectors and no_regs are hints to the entry; the hit path compares them with the list that it
	 * finds, so their order does not matter.
	 */
	__atomic_store_n(&p->vectors, !list || !list->general, __ATOMIC_RELAXED);
	__atomic_store_n(&p->no_regs, list && list->no_regs, __ATOMIC_RELAXED);
	__atomic_store_n(&p->list, list, __ATOMIC_RELEASE); /* pairs with the acquire in the hit path */
	/* Who finds the old one has begun before the grace period that ends its life. */
	__atomic_store_n(&p->single, n == 1 && list->v[0]->flags & DP_MGR_PRE ? list->v[0]->owner : m->host->whole_list,
			 __ATOMIC_RELEASE); /* pairs with the loads in the hit path */
	if (old) {
		old->old = m->retired;
		m->retired = old;
		m->stale = true;
	}
	dp_mgr_touch(m, p);
	return 0;
}

static bool has(const struct dp_kpoint *p, u32 flag)
{
	for (const struct dp_mgr_probe *k = p->probes; k; k = k->next)
		if (k->flags & flag)
			return true;
	return false;
}

static int prepare_post(struct dp_manager *m, struct dp_kpoint *p, struct dp_error *err)
{
	if (p->insn.cls == DP_INSN_XBEGIN)
		return dp_fail(err, E_KPROBE_POST, "0x%llx begins a transaction", (unsigned long long)p->addr);
	return dp_ool_slot_make(m, p, DP_OOL_POST, err);
}

int dp_mgr_attach(struct dp_manager *m, u64 addr, struct dp_mgr_probe *k, struct dp_error *err)
{
	struct dp_kpoint *p = dp_mgr_point(m, addr);
	struct dp_mgr_probe **end;
	int r = 0;

	if (!p)
		r = new_point(m, addr, &p, err);
	if (!r && k->flags & DP_MGR_BREAK && has(p, DP_MGR_BREAK))
		r = dp_fail(err, E_KPROBE_JPROBE, "0x%llx", (unsigned long long)addr);
	if (!r && k->flags & DP_MGR_POST)
		r = prepare_post(m, p, err);
	if (r)
		return r;
	for (end = &p->probes; *end; end = &(*end)->next)
		if ((*end)->flags & DP_MGR_BREAK) /* jprobes come last: their handlers do not return */
			break;
	k->point = p;
	k->next = *end;
	*end = k;
	r = relist(m, p);
	if (r) {
		*end = k->next;
		return dp_fail(err, E_ARM_NOMEM, "a list of probes");
	}
	dp_mgr_touch_region(m, p);
	return 0;
}

void dp_mgr_detach(struct dp_manager *m, struct dp_mgr_probe *k)
{
	struct dp_kpoint *p = k->point;
	struct dp_mgr_probe **at = &p->probes;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	if (relist(m, p)) {
		dp_mgr_drop_from_list(m, p, k);
		m->stale = true;
	}
	dp_mgr_touch_region(m, p);
}

/* Without memory for a shorter list: the entry is overwritten by another of the same list, or the
 * list emptied. */
void dp_mgr_drop_from_list(struct dp_manager *m, struct dp_kpoint *p, struct dp_mgr_probe *k)
{
	struct dp_hitlist *list = p->list;

	/* All pair with the acquire of p->list, or of p->single, in the hit path. */
	__atomic_store_n(&p->single, m->host->whole_list, __ATOMIC_RELEASE);
	for (u32 i = 0; list && i < list->n; i++)
		if (list->v[i] == k) {
			__atomic_store_n(&list->v[i], list->v[list->n - 1], __ATOMIC_RELEASE);
			__atomic_store_n(&list->n, list->n - 1, __ATOMIC_RELEASE);
		}
}

int dp_mgr_flags(struct dp_manager *m, struct dp_mgr_probe *k, u32 flags)
{
	u32 old = k->flags;
	int r;

	/* Hits in hits look at the flags of the list that they find (DP_MGR_ALWAYS), at any time. */
	__atomic_store_n(&k->flags, flags, __ATOMIC_RELAXED);
	r = relist(m, k->point);
	if (r)
		__atomic_store_n(&k->flags, old, __ATOMIC_RELAXED);
	return r;
}

int dp_mgr_knobs(struct dp_manager *m, bool disarmed, bool no_optimise)
{
	int r = 0;

	m->disarmed = disarmed;
	m->no_optimise = no_optimise;
	for (struct dp_kpoint *p = m->points; p && !r; p = p->next)
		if (p->probes)
			r = relist(m, p);
	return r;
}

u32 dp_mgr_gone(struct dp_manager *m, u64 lo, u64 hi)
{
	u32 n = 0;

	for (struct dp_kpoint *p = m->points; p; p = p->next) {
		struct dp_kpoint **at = &m->hash[dp_mgr_bucket(p->addr)];

		if (p->gone || p->addr < lo || p->addr >= hi)
			continue;
		while (*at != p)
			at = &(*at)->hash_next;
		__atomic_store_n(at, p->hash_next, __ATOMIC_RELEASE); /* pairs with dp_mgr_point() */
		dp_traps_set(m, p->addr, 0);
		for (u32 i = 1; i < DP_JUMP_LEN; i++)
			if (p->jump_patch.bounds >> i & 1)
				dp_traps_set(m, p->addr + i, 0);
		dp_mgr_count(m, p, DP_POINT_OFF);
		p->gone = true;
		n++;
	}
	return n;
}

static void give_slot(struct dp_manager *m, struct dp_ool_slot *s)
{
	u8 trap[64];

	if (!s->addr)
		return;
	memset(trap, DP_TRAP_BYTE, sizeof(trap));
	for (u32 i = 0; i < s->len; i += (u32)sizeof(trap))
		m->host->fill(m->host->arg, s->addr + i, trap, DP_MIN(s->len - i, (u32)sizeof(trap)), NULL);
	dp_space_give(&m->space, s->addr, DP_ALIGN_UP(s->len, 8u));
}

void dp_mgr_reap(struct dp_manager *m)
{
	struct dp_kpoint **at = &m->points, *p, *gone = NULL;

	while ((p = *at)) {
		if (!p->gone || p->probes || p->dirty) {
			at = &p->next;
			continue;
		}
		/* p->next stays: dp_mgr_home() may be looking at p. Pairs with its acquire. */
		__atomic_store_n(at, p->next, __ATOMIC_RELEASE);
		p->work_next = gone;
		gone = p;
	}
	if (gone)
		m->host->grace(m->host->arg);
	while ((p = gone)) {
		gone = p->work_next;
		give_slot(m, &p->plain);
		give_slot(m, &p->post);
		give_slot(m, &p->jump);
		dp_free(p->list);
		dp_free(p);
		m->npoints--;
	}
}
