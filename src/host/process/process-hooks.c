/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See hooks.h. What is written is what the library itself would write: a flag of the exit, one of
 * the hook, one byte at each place, in this order. Whoever stops in between leaves a list that is
 * right and places that the library's next call brings in line; an exit that is not armed is not
 * called whatever the places say.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/process-hooks.h"
#include "host/process/untrusted.h"
#include "abi/abi-registry.h"

#define MOST 65536u /* places */
#define STOP_TIMEOUT 500000000ull

static int find(struct dp_process *proc, struct self_hooks_registry *reg, bool *found, struct dp_error *err)
{
	return dp_process_registry(proc, "dp_self_hooks", SELF_REGISTRY_MAGIC, SELF_HOOKS_VERSION, reg, sizeof(*reg),
				   found, err);
}

/* ---- reading ---- */

static struct dp_hook_place *read_places(pid_t pid, const struct dp_hooks *k)
{
	u32 n = k->n <= MOST ? k->n : 0;
	struct dp_hook_place *v = calloc(n + 1, sizeof(*v));

	if (v && n && !dp_process_peek(pid, (u64)k->places, v, n * sizeof(*v)))
		memset(v, 0, n * sizeof(*v));
	return v;
}

static bool read_exits(pid_t pid, struct dp_hook_info *info, u64 at, u32 *left)
{
	struct hook_rec rec;
	struct dp_walk w;
	size_t cap = 0;

	dp_walk_begin(&w, left);
	for (; dp_walk_to(&w, at) && dp_process_peek(pid, at, &rec, sizeof(rec)); at = (u64)rec.next) {
		struct dp_hook_exit *e;

		if (!dp_grow((void **)&info->exits, &cap, info->nexits, sizeof(*e)))
			return false;
		e = &info->exits[info->nexits++];
		*e = (struct dp_hook_exit){.addr = at,
					   .exit = (u64)rec.exit,
					   .armed = rec.flags & HOOK_ARMED,
					   .writable = rec.writable,
					   .position = rec.position};
		dp_process_peek_name(pid, (u64)rec.name, e->name, sizeof(e->name));
	}
	return true;
}

static int read_all(pid_t pid, const struct dp_hooks *k, const struct dp_hook_place *places, struct dp_hook_info **v,
		    u32 *n)
{
	u32 left = DP_WALK_STEPS;
	struct hook h;
	struct dp_walk w;
	size_t cap = 0;

	dp_walk_begin(&w, &left);
	for (u64 at = (u64)k->heads; dp_walk_to(&w, at) && dp_process_peek(pid, at, &h, sizeof(h)); at = (u64)h.next) {
		struct dp_hook_info *info;

		if (!dp_grow((void **)v, &cap, *n, sizeof(*info)))
			return -ENOMEM;
		info = &(*v)[(*n)++];
		*info = (struct dp_hook_info){
		    .addr = at, .flags = h.flags, .dynamic = h.hit, .nplaces = h.hit && h.place};
		dp_process_peek_name(pid, (u64)h.name, info->name, sizeof(info->name));
		for (u32 i = 0; i < k->n && k->n <= MOST; i++)
			info->nplaces += (u64)places[i].hook == at;
		if (!read_exits(pid, info, (u64)h.exits, &left))
			return -ENOMEM;
	}
	return 0;
}

void dp_hooks_free(struct dp_hook_info *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		free(v[i].exits);
	free(v);
}

int dp_hooks_read(struct dp_process *proc, struct dp_hook_info **v, u32 *n, struct dp_error *err)
{
	struct self_hooks_registry reg;
	struct dp_hook_place *places;
	struct dp_hooks k;
	bool found;
	int r = find(proc, &reg, &found, err);

	*v = NULL;
	*n = 0;
	if (r || !found || !dp_process_peek(proc->pid, reg.hooks, &k, sizeof(k)))
		return r;
	places = read_places(proc->pid, &k);
	r = places ? read_all(proc->pid, &k, places, v, n) : -ENOMEM;
	free(places);
	if (r) {
		dp_hooks_free(*v, *n);
		*v = NULL;
		*n = 0;
		return dp_fail(err, E_ARM_NOMEM, "the list of hooks");
	}
	return 0;
}

/* ---- writing, while all threads stand ---- */

struct change {
	const struct dp_mem *mem;
	u64 hook, rec; /* rec 0: the hook itself */
	bool on;
	struct dp_hooks k;
	struct hook head;
	struct hook_rec exit;
	bool wanted; /* by another exit */
};

/* The hook and the exit are still there; what else wants the hook to be active. */
static int look_up(struct change *c, struct dp_error *err)
{
	struct hook_rec r;
	bool known = !c->rec;
	u64 at = (u64)c->k.heads;
	u32 left = DP_WALK_STEPS;
	struct dp_walk w;

	dp_walk_begin(&w, &left);
	while (at != c->hook && dp_walk_to(&w, at)) {
		if (dp_mem_read(c->mem, at, &c->head, sizeof(c->head), err))
			return -EFAULT;
		at = (u64)c->head.next;
	}
	if (at != c->hook || dp_mem_read(c->mem, at, &c->head, sizeof(c->head), err))
		return dp_fail(err, E_HOOK_NONE, "it went away");
	c->wanted = c->rec && c->head.flags & HOOK_OPEN;
	dp_walk_begin(&w, &left);
	for (at = (u64)c->head.exits; dp_walk_to(&w, at); at = (u64)r.next) {
		if (dp_mem_read(c->mem, at, &r, sizeof(r), err))
			return -EFAULT;
		if (at == c->rec) {
			c->exit = r;
			known = true;
		} else if (r.flags & HOOK_ARMED) {
			c->wanted = true;
		}
	}
	return known ? 0 : dp_fail(err, E_HOOK_NONE, "its exit went away");
}

/* first: only look whether all are as they should be. */
static int set_places(const struct change *c, bool active, bool first, struct dp_error *err)
{
	u8 want = active ? DP_HOOK_ARMED : DP_HOOK_IDLE, bytes[DP_HOOK_LEN], now;
	struct dp_hook_place p;
	int r = 0;

	for (u32 i = 0; i < c->k.n && i < MOST && !r; i++) {
		r = dp_mem_read(c->mem, (u64)&c->k.places[i], &p, sizeof(p), err);
		if (r || (u64)p.hook != c->hook)
			continue;
		r = dp_mem_read(c->mem, p.code, bytes, sizeof(bytes), err);
		if (r)
			break;
		now = dp_hook_now(&p, bytes);
		if (!now) {
			if (active && first)
				r = dp_fail(err, E_HOOK_SITE, "0x%llx", (unsigned long long)p.code);
		} else if (!first && now != want) {
			r = dp_mem_write(c->mem, p.code, &want, 1, err);
		}
	}
	return r;
}

static int write_flags(const struct change *c, u64 addr, u32 flags, struct dp_error *err)
{
	return dp_mem_write(c->mem, addr, &flags, sizeof(flags), err);
}

static int change(struct change *c, struct dp_error *err)
{
	bool active;
	u32 flags;
	int r = look_up(c, err);

	if (r)
		return r;
	active = c->on || c->wanted;
	flags = c->head.flags;
	if (c->head.hit && active && !(flags & HOOK_ACTIVE))
		return dp_fail(err, E_HOOK_DYNAMIC, "the hook is idle");
	if (c->head.hit && !c->rec)
		return dp_fail(err, E_HOOK_DYNAMIC, "it has no places of its own");
	r = set_places(c, active, true, err);
	if (r)
		return r;
	if (c->rec)
		r = write_flags(c, c->rec + offsetof(struct hook_rec, flags),
				c->on ? c->exit.flags | HOOK_ARMED : c->exit.flags & ~HOOK_ARMED, err);
	else
		flags = c->on ? flags | HOOK_OPEN : flags & ~HOOK_OPEN;
	if (c->head.hit) /* its probe is the library's: it goes with the next call there */
		return r;
	flags = active ? flags | HOOK_ACTIVE : flags & ~HOOK_ACTIVE;
	if (!r)
		r = write_flags(c, c->hook + offsetof(struct hook, flags), flags, err);
	return r ? r : set_places(c, active, false, err);
}

/*
 * A thread that does not stop within the time is inside the kernel, with the interruption waiting
 * for it: it does not come back to user mode before us.
 */
static void stop_all(struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++) /* threads that are born meanwhile come to the end */
		if (!t->v[i].foreign)
			dp_tracer_stop(t, &t->v[i], STOP_TIMEOUT);
}

/* 1: the library is at its lists at this moment. */
static int try_once(pid_t pid, const struct self_hooks_registry *reg, struct change *c, struct dp_error *err)
{
	struct dp_tracer t = {.late_watches = 0};
	struct dp_mem mem;
	int lock, r = dp_mem_open(&mem, pid, err);

	if (r)
		return r;
	r = dp_tracer_attach(&t, pid, err);
	if (r) {
		dp_mem_close(&mem);
		return r;
	}
	c->mem = &mem;
	stop_all(&t);
	r = dp_mem_read(&mem, reg->lock, &lock, sizeof(lock), err);
	if (!r && lock)
		r = 1;
	if (!r)
		r = dp_mem_read(&mem, reg->hooks, &c->k, sizeof(c->k), err);
	if (!r)
		r = change(c, err);
	dp_tracer_detach(&t);
	dp_mem_close(&mem);
	return r;
}

int dp_hooks_set(struct dp_process *proc, const struct dp_hook_info *hook, const struct dp_hook_exit *exit, bool on,
		 struct dp_error *err)
{
	struct change c = {.hook = hook->addr, .rec = exit ? exit->addr : 0, .on = on};
	struct self_hooks_registry reg;
	bool found;
	int r = find(proc, &reg, &found, err);

	if (!r && !found)
		return dp_fail(err, E_HOOK_NONE, "the process has no hooks");
	for (u32 tries = 0; !r && tries < 100; tries++) {
		r = try_once(proc->pid, &reg, &c, err);
		if (r <= 0)
			return r;
		r = 0;
		usleep(5000);
	}
	return r ? r : dp_fail(err, E_HOOK_BUSY, "process %d", (int)proc->pid);
}
