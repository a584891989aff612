/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See hooks.h. Lists are changed by single stores, since exits are called from them meanwhile. */
#include "engine/hooks.h"

/* In a record's flags, while a group is armed: it was not armed before. In a hook's: it is this one
 * whose errors are to be told. */
#define NEW 0x100u

bool dp_hook_wanted(const struct hook *hook)
{
	const struct hook_rec *r = hook->exits;

	/* Exits clear their flags themselves, at any time. */
	while (r && !(__atomic_load_n(&r->flags, __ATOMIC_RELAXED) & HOOK_ARMED))
		r = r->next;
	return r || hook->flags & HOOK_OPEN;
}

/* ---- what there is ---- */

void dp_hooks_know(struct dp_hooks *k, struct hook *hook)
{
	struct hook **at = &k->heads;

	while (*at && *at != hook)
		at = &(*at)->next;
	if (*at)
		return;
	hook->next = NULL;
	__atomic_store_n(at, hook, __ATOMIC_RELEASE); /* pairs with whoever reads from outside */
}

int dp_hooks_add_place(struct dp_hooks *k, const struct dp_hook_place *p)
{
	if (k->n == k->cap) {
		u32 cap = k->cap ? 2 * k->cap : 32;
		void *v = dp_resize(k->places, k->cap * sizeof(*p), cap * sizeof(*p));

		if (!v)
			return -ENOMEM;
		k->places = v;
		k->cap = cap;
	}
	k->places[k->n++] = *p;
	dp_hooks_know(k, p->hook);
	return 0;
}

static void drop_place(struct dp_hooks *k, u32 i)
{
	k->places[i] = k->places[--k->n];
}

void dp_hooks_forget_places(struct dp_hooks *k, const void *owner)
{
	for (u32 i = k->n; i--;)
		if (k->places[i].owner == owner)
			drop_place(k, i);
}

void dp_hooks_forget(struct dp_hooks *k, struct hook *hook)
{
	for (struct hook **at = &k->heads; *at; at = &(*at)->next)
		if (*at == hook) {
			*at = hook->next;
			break;
		}
	for (u32 i = k->n; i--;)
		if (k->places[i].hook == hook)
			drop_place(k, i);
	while (hook->exits) {
		struct hook_rec *r = hook->exits;

		hook->exits = r->next;
		r->flags &= ~HOOK_ARMED;
		r->hook = NULL;
	}
}

/* ---- order ---- */

/* Where it goes, or why it cannot. */
static int find_order(struct hook *hook, const struct hook_rec *rec, struct hook_rec ***out)
{
	struct hook_rec **at = &hook->exits;
	bool first = *at && (*at)->flags & HOOK_PRIORITY_FIRST;

	*out = at;
	if (hook->flags & HOOK_EXCLUSIVE && *at)
		return -HOOK_EPRIORITY;
	if (rec->flags & HOOK_PRIORITY_FIRST)
		return first ? -HOOK_EPRIORITY_FIRST : 0;
	if (rec->flags & HOOK_QUEUE_LIFO && !(rec->flags & HOOK_PRIORITY_LAST)) {
		*out = first ? &(*at)->next : at;
		return 0;
	}
	while (*at && !((*at)->flags & HOOK_PRIORITY_LAST))
		at = &(*at)->next;
	*out = at;
	return *at && rec->flags & HOOK_PRIORITY_LAST ? -HOOK_EPRIORITY_LAST : 0;
}

static void number(struct hook *hook)
{
	int n = 0;

	for (struct hook_rec *r = hook->exits; r; r = r->next)
		r->position = ++n;
}

static int check(const struct hook *hook, const struct hook_rec *rec, struct dp_error *err)
{
	const u32 both = HOOK_PRIORITY_FIRST | HOOK_PRIORITY_LAST;

	if (!rec->exit)
		return dp_fail(err, E_HOOK_ARGUMENT, "the record has no exit");
	if (rec->of && rec->of != hook)
		return dp_fail(err, E_HOOK_ARGUMENT, "the record was made for hook %s, not for %s", rec->of->name,
			       hook->name);
	if (rec->hook)
		return dp_fail(err, E_HOOK_ARGUMENT, "it is registered already");
	if ((rec->flags & both) == both)
		return dp_fail(err, E_HOOK_ARGUMENT, "first and last at once");
	return 0;
}

int dp_hooks_insert(struct dp_hooks *k, struct hook *hook, struct hook_rec *rec, struct dp_error *err)
{
	struct hook_rec **at;
	int r = check(hook, rec, err);

	if (r)
		return r;
	r = find_order(hook, rec, &at);
	if (r) {
		dp_fail(err, E_HOOK_PRIORITY, "%s", hook->name);
		return r;
	}
	rec->flags &= ~(HOOK_ARMED | NEW);
	rec->hook = hook;
	rec->next = *at;
	__atomic_store_n(at, rec, __ATOMIC_RELEASE); /* pairs with HOOK_CALL_ALL_ */
	number(hook);
	dp_hooks_know(k, hook);
	return 0;
}

int dp_hooks_take_out(struct dp_hooks *k, struct hook_rec *rec, struct dp_error *err)
{
	struct hook_rec **at;

	if (!rec->hook)
		return dp_fail(err, E_HOOK_UNKNOWN, "%s", rec->name ? rec->name : "no name");
	at = &rec->hook->exits;
	while (*at != rec)
		at = &(*at)->next;
	__atomic_fetch_and(&rec->flags, ~HOOK_ARMED, __ATOMIC_RELAXED);
	/* Whoever stands at the record still finds the rest of the list behind it. Pairs with HOOK_RUN's acquires. */
	__atomic_store_n(at, rec->next, __ATOMIC_RELEASE);
	number(rec->hook);
	rec->hook = NULL;
	rec->position = 0;
	dp_hooks_apply(k, NULL);
	return 0;
}

/* ---- arming ---- */

static u8 look(const struct dp_hooks *k, const struct dp_hook_place *p)
{
	u8 b[DP_HOOK_LEN];

	return k->host->peek(k->host->code.arg, p->code, b, sizeof(b)) ? 0 : dp_hook_now(p, b);
}

int dp_hooks_apply_places(struct dp_hooks *k, struct dp_error *err)
{
	const struct dp_host *code = &k->host->code;
	bool any = false;
	int r = 0;

	for (u32 i = 0; i < k->n; i++) {
		struct dp_hook_place *p = &k->places[i];
		bool on = p->hook->flags & HOOK_ACTIVE;
		u8 want = on ? DP_HOOK_ARMED : DP_HOOK_IDLE, now = look(k, p);

		if (!now && on && !p->on && p->hook->flags & NEW)
			r = dp_fail(err, E_HOOK_SITE, "0x%llx, hook %s", (unsigned long long)p->code, p->hook->name);
		if (!now)
			continue;
		if (now != want) {
			int w = dp_flip(code, p->code, want, err);

			if (w) {
				r = w;
				continue;
			}
			any = true;
		}
		p->on = on;
	}
	if (any) {
		int w = code->serialise(code->arg, err);

		r = r ? r : w;
	}
	return r;
}

int dp_hooks_apply(struct dp_hooks *k, struct dp_error *err)
{
	int r = 0, e;

	for (struct hook *h = k->heads; h; h = h->next) {
		bool on = dp_hook_wanted(h), was = h->flags & HOOK_ACTIVE;

		if (on == was)
			continue;
		e = h->hit ? k->host->enable(h, on, h->flags & NEW ? err : NULL) : 0;
		if (e && on) {
			r = h->flags & NEW ? e : r;
			continue;
		}
		__atomic_store_n(&h->flags, on ? h->flags | HOOK_ACTIVE : h->flags & ~HOOK_ACTIVE, __ATOMIC_RELAXED);
	}
	e = dp_hooks_apply_places(k, err);
	return r ? r : e;
}

static void set_flags(struct hook_rec *rec, bool on)
{
	if (!on)
		__atomic_fetch_and(&rec->flags, ~HOOK_ARMED, __ATOMIC_RELAXED);
	else if (!(__atomic_fetch_or(&rec->flags, HOOK_ARMED, __ATOMIC_RELAXED) & HOOK_ARMED))
		__atomic_fetch_or(&rec->flags, NEW, __ATOMIC_RELAXED);
}

int dp_hooks_arm(struct dp_hooks *k, struct hook_rec **recs, int n, bool on, struct dp_error *err)
{
	int r;

	for (int i = 0; i < n; i++)
		if (!recs[i]->hook)
			return dp_fail(err, E_HOOK_UNKNOWN, "%s", recs[i]->name ? recs[i]->name : "no name");
	for (int i = 0; i < n; i++) {
		set_flags(recs[i], on);
		recs[i]->hook->flags |= NEW;
	}
	r = dp_hooks_apply(k, err);
	for (int i = 0; i < n; i++) {
		recs[i]->hook->flags &= ~NEW;
		if (r && recs[i]->flags & NEW)
			set_flags(recs[i], false);
		__atomic_fetch_and(&recs[i]->flags, ~NEW, __ATOMIC_RELAXED);
	}
	if (r)
		dp_hooks_apply(k, NULL);
	return on ? r : 0;
}

int dp_hooks_open(struct dp_hooks *k, struct hook *hook, bool on, struct dp_error *err)
{
	u32 flags = hook->flags & ~HOOK_OPEN;
	int r;

	if (hook->hit)
		return dp_fail(err, E_HOOK_DYNAMIC, "%s has no places of its own", hook->name);
	__atomic_store_n(&hook->flags, (on ? flags | HOOK_OPEN : flags) | NEW, __ATOMIC_RELAXED);
	r = dp_hooks_apply(k, err);
	__atomic_store_n(&hook->flags, hook->flags & ~NEW, __ATOMIC_RELAXED);
	if (r && on) {
		__atomic_store_n(&hook->flags, hook->flags & ~HOOK_OPEN, __ATOMIC_RELAXED);
		dp_hooks_apply(k, NULL);
	}
	return on ? r : 0;
}
