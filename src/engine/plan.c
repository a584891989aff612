/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From judged sites to patches: neighbours share a patch, each patch gets a detour at an address that its boundary
 * bytes allow. Decides everything ahead of time; changes nothing in the probed world.
 */
#include "engine/engine.h"

/* Little: all of it is zeroed, also for the one probe of a process that starts. */
#define FIRST_ROOM 8
#define CODE_ROOM 2048u
#define CODE_SHARE 96u /* of a patch, as a rule less, */
#define INSNS_SHARE 4u /* and so are its instructions */

static void *room(void *v, u32 *cap, u32 n, size_t size)
{
	if (n < *cap)
		return v;
	u32 want = *cap ? *cap * 2 : FIRST_ROOM;
	void *p = dp_resize(v, *cap * size, want * size);
	if (p)
		*cap = want;
	return p;
}

/* Heap sort: no libc, no worst case. */
static void sort(void *base, u32 n, u32 size, bool (*less)(const void *a, const void *b))
{
	u8 *v = base, t[512];
	u32 ordered = 1;

	while (ordered < n && !less(v + (size_t)ordered * size, v + (size_t)(ordered - 1) * size))
		ordered++;
	if (ordered >= n) /* the usual case: sites come in the order of the symbols */
		return;
	for (u32 end = n, root, child, start = n / 2; end > 1;) {
		if (start) {
			start--;
		} else {
			end--;
			memcpy(t, v, size);
			memcpy(v, v + (size_t)end * size, size);
			memcpy(v + (size_t)end * size, t, size);
		}
		for (root = start; (child = root * 2 + 1) < end; root = child) {
			if (child + 1 < end && less(v + (size_t)child * size, v + (size_t)(child + 1) * size))
				child++;
			if (!less(v + (size_t)root * size, v + (size_t)child * size))
				break;
			memcpy(t, v + (size_t)root * size, size);
			memcpy(v + (size_t)root * size, v + (size_t)child * size, size);
			memcpy(v + (size_t)child * size, t, size);
		}
	}
}

static bool redirect_less(const void *a, const void *b)
{
	const struct dp_redirect *x = a, *y = b;

	return x->pc < y->pc;
}

/* Behind the last of those from i on that are in order. */
static u32 run_end(const struct dp_redirect *v, u32 i, u32 n)
{
	for (i++; i < n && v[i - 1].pc <= v[i].pc;)
		i++;
	return i;
}

/* v[from] to v[middle] and on to v[end], each in order, to the same place in `to`. */
static void merge(const struct dp_redirect *v, u32 from, u32 middle, u32 end, struct dp_redirect *to)
{
	for (u32 i = from, k = middle, at = from; at < end; at++)
		to[at] = k == end || (i < middle && v[i].pc <= v[k].pc) ? v[i++] : v[k++];
}

/* Those of one detour are in order already, as are detours by and large. Without memory, where they are. */
static void sort_redirects(struct dp_redirect *all, u32 n)
{
	struct dp_redirect *v = all, *other, *room;

	if (run_end(v, 0, n) >= n)
		return;
	room = dp_alloc(n * sizeof(*v));
	if (!room) {
		sort(v, n, sizeof(*v), redirect_less);
		return;
	}
	for (other = room; run_end(v, 0, n) < n; other = v == room ? all : room) {
		for (u32 from = 0, middle, end; from < n; from = end) {
			middle = run_end(v, from, n);
			end = middle < n ? run_end(v, middle, n) : middle;
			merge(v, from, middle, end, other);
		}
		v = other;
	}
	if (v != all)
		memcpy(all, v, n * sizeof(*v));
	dp_free(room);
}

static bool spot_less(const void *a, const void *b)
{
	const struct dp_spot *x = a, *y = b;

	return x->addr != y->addr ? x->addr < y->addr : x->owner < y->owner;
}

enum dp_entry dp_entry_for(const struct dp_site *site)
{
	return (site->flags_dead ? 0 : DP_ENTRY_FLAGS) | (site->red_zone ? DP_ENTRY_ZONE : 0);
}

/* Index of the displaced instruction at link-time address a, or -1. */
static int insn_at(const struct dp_window *w, u64 a)
{
	for (u8 i = 0; i < w->ninsns; i++)
		if (w->start + w->off[i] == a)
			return i;
	return -1;
}

static u64 end_of(const struct dp_planned *p)
{
	return p->win.start + dp_planned_reach(p);
}

/*
 * The last patch displaces so many instructions; those that it did not displace before have no point. False: no
 * memory.
 */
static bool displace(struct dp_plan *plan, const struct dp_planned *p, u8 ninsns)
{
	u32 had = plan->ndisplaced, end = p->first + ninsns;

	while (plan->cap_displaced < end) {
		struct dp_displaced *v = room(plan->displaced, &plan->cap_displaced, plan->cap_displaced, sizeof(*v));

		if (!v)
			return false;
		plan->displaced = v;
	}
	for (u32 i = had; i < end; i++)
		plan->displaced[i] = (struct dp_displaced){.point = DP_NO_POINT};
	plan->ndisplaced = DP_MAX(had, end);
	return true;
}

/* Replace the last patch's window by a longer one with the same start, keeping the points of its instructions. */
static bool widen(struct dp_plan *plan, struct dp_planned *p, const struct dp_window *w)
{
	if (!displace(plan, p, w->ninsns))
		return false;
	p->win = *w;
	return true;
}

static struct dp_planned *new_patch(struct dp_plan *plan, const struct dp_spot *spot, const struct dp_window *w,
				    u32 flags)
{
	struct dp_planned *p = room(plan->patches, &plan->cap_patches, plan->npatches, sizeof(*p));

	if (!p)
		return NULL;
	plan->patches = p;
	p += plan->npatches;
	memset(p, 0, sizeof(*p));
	p->first = plan->ndisplaced;
	if (!displace(plan, p, w->ninsns))
		return NULL;
	plan->npatches++;
	p->text = spot->text;
	p->bias = spot->bias;
	p->start = w->start + spot->bias;
	p->win = *w;
	p->flags = flags;
	p->reach_lo = spot->reach_lo;
	p->reach_hi = spot->reach_hi;
	return p;
}

/* The place of others that has this byte. */
static const struct dp_shared *shared_at(const struct dp_plan *plan, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(plan->shared, plan->nshared, front.addr, addr);
	const struct dp_shared *s = n ? &plan->shared[n - 1] : NULL;

	return s && addr < s->front.addr + s->front.span ? s : NULL;
}

/* A patch with the window of those that stand there; NULL: it cannot be made, or no memory. */
static struct dp_planned *join_shared(struct dp_plan *plan, struct dp_spot *spot, const struct dp_shared *s)
{
	u64 start = s->front.addr - spot->bias;
	struct dp_window w = {.len = 0};
	struct dp_planned *p;

	while (w.len < s->front.span)
		if (dp_window_build(spot->text, start, start + w.len, &w, NULL))
			break;
	if (w.len != s->front.span || w.bounds != s->front.bounds) {
		spot->why = E_SITE_TAKEN;
		return NULL;
	}
	p = new_patch(plan, spot, &w, 0);
	if (p)
		p->shared = s;
	return p;
}

static const struct dp_taken *taken_in(const struct dp_plan *plan, u64 lo, u64 hi)
{
	for (u32 i = 0; i < plan->ntaken; i++)
		if (lo < plan->taken[i].hi && hi > plan->taken[i].lo)
			return &plan->taken[i];
	return NULL;
}

/* The patch that carries the spot already, beside those of others. It can stay, but with its own window alone. */
static const struct dp_planned *held_at(const struct dp_plan *plan, const struct dp_plan *before,
					const struct dp_spot *spot)
{
	size_t n = before ? DP_COUNT_UP_TO(before->patches, before->npatches, start, spot->addr) : 0;
	const struct dp_planned *p = n ? &before->patches[n - 1] : NULL;

	return p && p->text == spot->text && p->bias == spot->bias && insn_at(&p->win, spot->site.addr) >= 0 &&
		       taken_in(plan, p->start, p->start + dp_planned_reach(p))
		   ? p
		   : NULL;
}

/*
 * The patch that will carry the spot: the last one when it displaces the instruction already or
 * can be widened to do so, else a new one. NULL: the spot cannot be armed (why is set), or no memory.
 */
static struct dp_planned *patch_for(struct dp_plan *plan, const struct dp_plan *before, struct dp_spot *spot,
				    bool allow_trap)
{
	struct dp_planned *last = plan->npatches ? &plan->patches[plan->npatches - 1] : NULL, *p;
	const struct dp_planned *held = held_at(plan, before, spot);
	const struct dp_shared *shared = shared_at(plan, spot->addr);
	const struct dp_window *w = &spot->site.win;
	u64 addr = spot->site.addr;
	struct dp_window other;
	u64 end;

	if (last && (last->text != spot->text || last->bias != spot->bias))
		last = NULL;
	end = last ? end_of(last) : 0;
	if (last && addr < end && insn_at(&last->win, addr) >= 0)
		return last;
	if (held && (!last || held->win.start >= end)) {
		p = new_patch(plan, spot, &held->win, held->flags);
		if (p)
			p->held = true;
		return p;
	}
	if (shared)
		return join_shared(plan, spot, shared);
	if (spot->site.outcome == DP_OUTCOME_JUMP) {
		if (!last || w->start >= end)
			return new_patch(plan, spot, w, 0);
		if (addr >= end && !dp_window_build(spot->text, end, addr, &other, NULL))
			return new_patch(plan, spot, &other, 0);
		if (!(last->flags & DP_PATCH_TRAP) && !last->shared && !last->held &&
		    !dp_window_build(spot->text, last->win.start, addr, &other, NULL))
			return widen(plan, last, &other) ? last : NULL;
		spot->why = E_SITE_TARGET;
	} else {
		spot->why = spot->site.why;
	}
	if (spot->site.outcome < DP_OUTCOME_TRAP)
		return NULL;
	if (!allow_trap) {
		spot->why = E_SITE_TRAP;
		return NULL;
	}
	if (last && addr < end)
		return NULL;
	/* A breakpoint displaces its instruction alone. */
	memset(&other, 0, sizeof(other));
	other.start = addr;
	other.ninsns = 1;
	struct dp_insn in;
	u64 left = spot->text->hi - addr;
	int len = dp_insn_decode(&in, spot->text->bytes + (addr - spot->text->lo), left);
	if (len < 0)
		return NULL;
	other.len = (u8)len;
	other.falls = dp_insn_traits(&in) & DP_INSN_FALLS;
	return new_patch(plan, spot, &other, DP_PATCH_TRAP);
}

/* The point that is there for an address; DP_NO_POINT: none. */
static u32 point_before(const struct dp_plan *before, u64 addr)
{
	u32 n = before ? (u32)DP_COUNT_UP_TO(before->patches, before->npatches, start, addr) : 0;
	int i = n ? insn_at(&before->patches[n - 1].win, addr - before->patches[n - 1].bias) : -1;

	return i < 0 ? DP_NO_POINT : dp_displaced_by(before, &before->patches[n - 1])[i].point;
}

/* A number for the point of an address: its own, one that nobody uses, or the next. DP_NO_POINT: no memory. */
static u32 point_for(struct dp_plan *plan, const struct dp_plan *before, u64 addr)
{
	u32 i = point_before(before, addr);
	struct dp_point *v;

	if (i == DP_NO_POINT) {
		while (plan->unused < plan->npoints && plan->points[plan->unused].addr)
			plan->unused++;
		i = plan->unused;
	}
	if (i == plan->npoints) {
		v = room(plan->points, &plan->cap_points, plan->npoints, sizeof(*v));
		if (!v)
			return DP_NO_POINT;
		plan->points = v;
		plan->npoints++;
	}
	plan->points[i] = (struct dp_point){.addr = addr};
	return i;
}

static int add_spot(struct dp_plan *plan, const struct dp_plan *before, struct dp_spot *spot, bool allow_trap)
{
	struct dp_displaced *d;
	struct dp_planned *p;
	int i;

	spot->outcome = DP_OUTCOME_REFUSED;
	if (spot->site.outcome == DP_OUTCOME_REFUSED) {
		spot->why = spot->site.why;
		return 0;
	}
	p = patch_for(plan, before, spot, allow_trap);
	if (!p)
		return spot->why ? 0 : -ENOMEM;
	i = insn_at(&p->win, spot->site.addr);
	if (i < 0) {
		spot->why = E_SITE_MIDINSN;
		return 0;
	}
	spot->outcome = p->flags & DP_PATCH_TRAP ? DP_OUTCOME_TRAP : DP_OUTCOME_JUMP;
	d = &dp_displaced_by(plan, p)[i];
	d->confirm |= spot->confirm;
	if (spot->outcome == DP_OUTCOME_JUMP)
		spot->why = DP_OK;
	if (d->point != DP_NO_POINT) {
		spot->point = d->point;
		if (d->direct != spot->direct)
			d->direct = 0; /* the first one's code knows nothing of the second */
		return 0;
	}
	spot->point = point_for(plan, before, spot->addr);
	if (spot->point == DP_NO_POINT)
		return -ENOMEM;
	d->point = spot->point;
	d->entry = (u8)dp_entry_for(&spot->site);
	d->direct = spot->direct;
	return 0;
}

static int emit_at(const struct dp_plan *plan, struct dp_planned *p, u8 *buf, u64 addr, const u64 entries[DP_NENTRIES],
		   u32 *len)
{
	struct dp_displaced *v = dp_displaced_by(plan, p);
	struct dp_detour d;
	struct dp_emit e;
	int r;

	dp_emit_init(&e, buf, DP_DETOUR_MAX, addr);
	d.win = &p->win;
	d.code = p->text->bytes + (p->win.start - p->text->lo);
	d.start = p->start;
	d.others = p->shared ? plan->others + p->shared->first : NULL;
	d.nothers = p->shared ? p->shared->n : 0;
	for (u8 i = 0; i < p->win.ninsns; i++) {
		d.point[i] = v[i].point;
		d.entry[i] = v[i].entry;
		d.direct[i] = v[i].direct;
		d.confirm[i] = v[i].confirm;
	}
	r = dp_detour_emit(&e, &d, entries, NULL);
	*len = (u32)e.len;
	if (r)
		return r;
	for (u8 i = 0; i < p->win.ninsns; i++) {
		v[i].arrive = d.arrive[i];
		v[i].copy = d.copy[i];
		v[i].after = d.after[i];
	}
	p->back = d.back;
	p->words = d.words;
	p->patch.nwords = d.nwords;
	return 0;
}

static int keep_code(struct dp_plan *plan, struct dp_planned *p, const u8 *buf, u32 len)
{
	if (plan->code_len + len > plan->cap_code) {
		u64 want = DP_MAX(plan->cap_code * 2, plan->code_len + len + CODE_ROOM);
		u8 *v = dp_resize(plan->code, plan->cap_code, want);

		if (!v)
			return -ENOMEM;
		plan->code = v;
		plan->cap_code = want;
	}
	memcpy(plan->code + plan->code_len, buf, len);
	p->code_off = (u32)plan->code_len;
	p->code_len = len;
	plan->code_len += len;
	return 0;
}

static void fill_patch(const struct dp_plan *plan, struct dp_planned *p)
{
	struct dp_patch *t = &p->patch;
	bool trap = p->flags & DP_PATCH_TRAP;

	t->addr = p->start;
	t->len = trap ? 1 : DP_JUMP_LEN;
	t->bounds = trap ? 0 : p->win.bounds;
	t->span = p->win.len;
	t->rank = p->shared ? p->shared->rank : 0;
	t->words = t->nwords ? p->detour_addr + p->words : 0;
	memcpy(t->orig, p->text->bytes + (p->win.start - p->text->lo), t->len);
	dp_jump_make(t->jump, p->start, p->detour_addr + dp_displaced_by(plan, p)->arrive);
	if (trap)
		t->jump[0] = DP_TRAP_BYTE;
}

/* How each of the hits of others that go into a patch enters the hit path. */
static void take_others(struct dp_plan *plan, const struct dp_planned *p)
{
	for (u32 i = p->shared->first; i < p->shared->first + p->shared->n; i++) {
		struct dp_other_hit *o = &plan->others[i];
		struct dp_site site;

		dp_site_judge(p->text, o->addr - p->bias, &site, NULL);
		o->entry = site.outcome == DP_OUTCOME_REFUSED ? DP_ENTRY_ZONE_FLAGS : dp_entry_for(&site);
	}
}

/* Find a place for the detour and emit it there. Returns 0, or -ERANGE when no place will do. buf: to emit it to. */
static int place_with(struct dp_plan *plan, struct dp_planned *p, const u64 entries[DP_NENTRIES], u8 *buf)
{
	struct dp_place want = {
	    .next = p->start + DP_JUMP_LEN, .bounds = p->win.bounds, .reach_lo = p->reach_lo, .reach_hi = p->reach_hi};
	u32 len;
	int r;

	if (p->flags & DP_PATCH_TRAP)
		want.bounds = 0;
	if (p->shared)
		take_others(plan, p);
	/* The length does not depend on the address: ask for it near the site, where all is in reach. */
	if (emit_at(plan, p, buf, p->start + DP_JUMP_LEN, entries, &len))
		return -ERANGE;
	want.size = len;
	if (dp_space_place(&plan->space, &want, &p->detour_addr, NULL))
		return -ERANGE;
	r = emit_at(plan, p, buf, p->detour_addr, entries, &len);
	if (r || len != want.size)
		return -ERANGE;
	fill_patch(plan, p);
	return keep_code(plan, p, buf, len);
}

static int place_detour(struct dp_plan *plan, struct dp_planned *p, const u64 entries[DP_NENTRIES])
{
	u8 *buf = dp_alloc(DP_DETOUR_MAX);
	int r = buf ? place_with(plan, p, entries, buf) : -ENOMEM;

	dp_free(buf);
	return r;
}

/*
 * The copy of a system call goes on with setting rcx, and the kernel makes an interrupted call again by stepping
 * back two bytes from where it returns. So a thread that is behind the original, possibly inside the call, goes
 * behind the copied instruction itself, and back. Returns that address, 0: not a system call.
 */
static u64 behind_syscall(const struct dp_planned *p, const struct dp_displaced *v, u8 k)
{
	const u8 *code = p->text->bytes + (p->win.start + p->win.off[k] - p->text->lo);
	struct dp_insn in;
	int len = dp_insn_decode(&in, code, p->text->hi - p->win.start - p->win.off[k]);

	if (len < 0 || in.cls != DP_INSN_SYSCALL)
		return 0;
	return p->detour_addr + v[k].copy + (u64)len;
}

/* Where the instruction behind the k-th displaced one stands. */
static u64 home_after(const struct dp_planned *p, u8 k)
{
	return p->start + (k + 1 < p->win.ninsns ? p->win.off[k + 1] : p->win.len);
}

static int build_tables(struct dp_plan *plan)
{
	u32 nr = 0, nh = 0;

	for (u32 i = 0; i < plan->npatches; i++) {
		nr += 5;
		nh += plan->patches[i].win.ninsns * 4u + 1;
	}
	plan->redirects = dp_alloc(nr * sizeof(*plan->redirects));
	plan->homes = dp_alloc(nh * sizeof(*plan->homes));
	if (!plan->redirects || !plan->homes)
		return -ENOMEM;
	for (u32 i = 0; i < plan->npatches; i++) {
		const struct dp_planned *p = &plan->patches[i];
		const struct dp_displaced *v = dp_displaced_by(plan, p);
		u64 called = 0; /* behind the copy of a system call, when one stands before */

		for (u8 k = 0; k < p->win.ninsns; k++) {
			u64 home = p->start + p->win.off[k];
			u64 arrive = p->detour_addr + v[k].arrive;
			u64 copy = p->detour_addr + v[k].copy;

			if (!k || (p->win.off[k] < DP_JUMP_LEN && !(p->flags & DP_PATCH_TRAP)))
				plan->redirects[plan->nredirects++] = (struct dp_redirect){home,
											   called ? called : arrive};
			if (called)
				plan->homes[plan->nhomes++] = (struct dp_redirect){called, home};
			called = behind_syscall(p, v, k);
			plan->homes[plan->nhomes++] = (struct dp_redirect){arrive, home};
			if (copy != arrive)
				plan->homes[plan->nhomes++] = (struct dp_redirect){copy, home | DP_HOME_BEHIND};
			if (v[k].after)
				plan->homes[plan->nhomes++] = (struct dp_redirect){p->detour_addr + v[k].after,
										   home_after(p, k)};
			if (v[k].point != DP_NO_POINT)
				plan->points[v[k].point].resume = copy;
		}
		if (called)
			plan->homes[plan->nhomes++] = (struct dp_redirect){called, p->start + p->win.len};
		if (p->back)
			plan->homes[plan->nhomes++] = (struct dp_redirect){p->detour_addr + p->back,
									   p->start + p->win.len};
	}
	sort_redirects(plan->redirects, plan->nredirects);
	sort_redirects(plan->homes, plan->nhomes);
	return 0;
}

/* Where somebody else has changed bytes; NULL: nowhere. */
static const struct dp_taken *taken_by(const struct dp_plan *plan, const struct dp_planned *p)
{
	return p->shared ? NULL : taken_in(plan, p->start, p->start + dp_planned_reach(p));
}

/* A patch that cannot be is dropped; its spots learn why. */
static void drop_patch(struct dp_plan *plan, u32 index, struct dp_spot *spots, u32 n, enum dp_code why)
{
	struct dp_planned *p = &plan->patches[index];
	const struct dp_displaced *v = dp_displaced_by(plan, p);

	for (u32 i = 0; i < n; i++)
		if (spots[i].outcome > DP_OUTCOME_REFUSED)
			for (u8 k = 0; k < p->win.ninsns; k++)
				if (v[k].point == spots[i].point) {
					spots[i].outcome = DP_OUTCOME_REFUSED;
					spots[i].why = why;
				}
	memmove(p, p + 1, (plan->npatches - index - 1) * sizeof(*p));
	plan->npatches--;
}

/* Whether the patch that stands there, b with the instructions y, would be made again. */
static bool is_same(const struct dp_planned *a, const struct dp_displaced *x, const struct dp_planned *b,
		    const struct dp_displaced *y)
{
	if (a->text != b->text || a->bias != b->bias || a->start != b->start || a->flags != b->flags ||
	    a->win.ninsns != b->win.ninsns || a->win.len != b->win.len)
		return false;
	for (u8 i = 0; i < a->win.ninsns; i++)
		if (x[i].point != y[i].point || x[i].confirm != y[i].confirm ||
		    (x[i].point != DP_NO_POINT && (x[i].entry != y[i].entry || x[i].direct != y[i].direct)))
			return false;
	return true;
}

/*
 * Whether the detour that stands has the hit that is wanted before an instruction, and so have those that others
 * have made in front of it: somebody may have come while the point had no probe, and does not call it. A point without
 * a probe does nothing, unless code that was compiled for its probe alone is called.
 */
static bool has_hit(const struct dp_displaced *is, const struct dp_displaced *want, bool is_front)
{
	if (want->point == DP_NO_POINT)
		return !is->direct;
	return is->point == want->point && is->confirm == want->confirm && is->entry == want->entry &&
	       is->direct == want->direct && (is_front || !is->idle);
}

/* Whether the patch that stands beside those of others can stay. */
static bool can_stay(const struct dp_planned *p, const struct dp_displaced *v, const struct dp_planned *is,
		     const struct dp_displaced *there, bool is_front)
{
	if (p->text != is->text || p->bias != is->bias || p->win.ninsns != is->win.ninsns || p->win.len != is->win.len)
		return false;
	for (u8 i = 0; i < p->win.ninsns; i++)
		if (!has_hit(&there[i], &v[i], is_front))
			return false;
	return true;
}

/* The points that have no probe any more go on to its successor. */
static void take_idle(struct dp_displaced *v, const struct dp_displaced *there, u8 n)
{
	for (u8 i = 0; i < n; i++) {
		if (v[i].point != DP_NO_POINT || there[i].point == DP_NO_POINT)
			continue;
		v[i].idle = true;
		v[i].point = there[i].point;
		v[i].entry = there[i].entry;
		v[i].confirm = there[i].confirm;
	}
}

/* As keep(), where others have patches. If it cannot stay, it is to come in front of all, where that can be. */
static bool keep_beside(const struct dp_plan *plan, struct dp_planned *p, const struct dp_planned *is,
			const struct dp_displaced *there)
{
	const struct dp_shared *s = shared_at(plan, p->start);
	struct dp_displaced *v = dp_displaced_by(plan, p);
	bool stays;

	if (s && (s->front.addr != p->start || s->front.span != p->win.len))
		s = NULL;
	stays = can_stay(p, v, is, there, s && !memcmp(s->front.jump, is->patch.jump, sizeof(s->front.jump)));
	for (u8 i = 0; i < p->win.ninsns && stays; i++)
		v[i].idle = v[i].point == DP_NO_POINT && there[i].point != DP_NO_POINT;
	if (!stays)
		take_idle(v, there, DP_MIN(p->win.ninsns, is->win.ninsns));
	p->shared = stays ? NULL : s;
	return stays;
}

static bool keep(const struct dp_plan *plan, struct dp_planned *p, const struct dp_plan *before)
{
	u32 n = before ? (u32)DP_COUNT_UP_TO(before->patches, before->npatches, start, p->start) : 0;
	const struct dp_planned *is = n ? &before->patches[n - 1] : NULL;
	struct dp_displaced *v = dp_displaced_by(plan, p);
	const struct dp_displaced *there = is ? dp_displaced_by(before, is) : NULL;
	u32 first = p->first;

	if (!is || is->start != p->start)
		return false;
	if (p->held || p->shared ? !keep_beside(plan, p, is, there) : !is_same(p, v, is, there))
		return false;
	*p = *is;
	p->first = first;
	for (u8 i = 0; i < p->win.ninsns; i++) { /* they are as many */
		bool idle = v[i].idle;

		v[i] = there[i];
		v[i].idle = idle;
	}
	p->shared = NULL;
	p->kept = true;
	return true;
}

/* Patches that no spot wants any more, beside those of others. */
static int add_idle(struct dp_plan *plan, const struct dp_plan *before)
{
	for (u32 i = 0; before && plan->ntaken && i < before->npatches; i++) {
		const struct dp_planned *is = &before->patches[i];
		const struct dp_spot spot = {
		    .text = is->text, .bias = is->bias, .reach_lo = is->reach_lo, .reach_hi = is->reach_hi};
		size_t k = DP_COUNT_UP_TO(plan->patches, plan->npatches, start, is->start);
		struct dp_planned *p, made;

		if ((k && plan->patches[k - 1].start == is->start) ||
		    !taken_in(plan, is->start, is->start + dp_planned_reach(is)))
			continue;
		p = new_patch(plan, &spot, &is->win, is->flags);
		if (!p)
			return -ENOMEM;
		p->held = true;
		made = *p;
		p = plan->patches + k;
		memmove(p + 1, p, (plan->npatches - 1 - k) * sizeof(*p));
		*p = made;
	}
	return 0;
}

/*
 * As much as a plan of n spots needs where no two of them share a patch: what becomes more and more is moved, and
 * zeroed, each time. Memory that is not used costs nothing.
 */
static int reserve(struct dp_plan *plan, u32 n)
{
	if (n <= FIRST_ROOM || plan->cap_patches)
		return 0;
	plan->patches = dp_alloc((u64)n * sizeof(*plan->patches));
	plan->displaced = dp_alloc((u64)n * INSNS_SHARE * sizeof(*plan->displaced));
	plan->code = dp_alloc((u64)n * CODE_SHARE);
	if (!plan->patches || !plan->displaced || !plan->code)
		return -ENOMEM;
	plan->cap_patches = n;
	plan->cap_displaced = n * INSNS_SHARE;
	plan->cap_code = (u64)n * CODE_SHARE;
	if (plan->points)
		return 0;
	plan->points = dp_alloc((u64)n * sizeof(*plan->points));
	plan->cap_points = plan->points ? n : 0;
	return plan->points ? 0 : -ENOMEM;
}

/* The points that are there stay what they are until nobody can be in their detours; those that stay are made anew. */
static int begin_with(struct dp_plan *plan, const struct dp_plan *before)
{
	if (!before || !before->npoints)
		return 0;
	plan->points = dp_alloc((u64)before->npoints * sizeof(*plan->points));
	if (!plan->points)
		return -ENOMEM;
	plan->npoints = plan->cap_points = before->npoints;
	for (u32 i = 0; i < before->npoints; i++)
		plan->points[i] = (struct dp_point){.addr = before->points[i].addr, .resume = before->points[i].resume};
	return 0;
}

void dp_spots_sort(struct dp_spot *spots, u32 n)
{
	sort(spots, n, sizeof(*spots), spot_less);
}

int dp_plan_next(struct dp_plan *plan, const struct dp_plan *before, struct dp_spot *spots, u32 n,
		 const u64 entries[DP_NENTRIES], bool allow_trap)
{
	int r = begin_with(plan, before);

	if (!r)
		r = reserve(plan, n);
	dp_spots_sort(spots, n);
	for (u32 i = 0; i < n && !r; i++)
		r = add_spot(plan, before, &spots[i], allow_trap);
	if (!r)
		r = add_idle(plan, before);
	if (r)
		return r;
	for (u32 i = 0; i < plan->npatches;) {
		const struct dp_taken *taken = NULL;

		r = 0;
		if (!keep(plan, &plan->patches[i], before)) {
			taken = taken_by(plan, &plan->patches[i]);
			r = taken ? -EBUSY : place_detour(plan, &plan->patches[i], entries);
		}
		if (r == -ENOMEM)
			return r;
		if (r)
			drop_patch(plan, i, spots, n, taken ? taken->why : E_SITE_REACH);
		else
			i++;
	}
	return build_tables(plan);
}

int dp_plan_build(struct dp_plan *plan, struct dp_spot *spots, u32 n, const u64 entries[DP_NENTRIES], bool allow_trap)
{
	return dp_plan_next(plan, NULL, spots, n, entries, allow_trap);
}

void dp_plan_free(struct dp_plan *plan)
{
	dp_free(plan->patches);
	dp_free(plan->displaced);
	dp_free(plan->points);
	dp_free(plan->redirects);
	dp_free(plan->homes);
	dp_free(plan->code);
	dp_free(plan->taken);
	dp_free(plan->shared);
	dp_free(plan->others);
	dp_space_free(&plan->space);
	memset(plan, 0, sizeof(*plan));
}
