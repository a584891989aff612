/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of <dprobes/hooks.h> in a process. They do without what probes need (signal handlers,
 * probes on the C library), but for dynamic hooks, which are kprobes. One lock; waiting for exits
 * is done outside of it, so that what they wait for may use hooks.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/self/host.h"
#include "abi/abi-registry.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT __thread struct hook_thread *dp_hook_me __attribute__((tls_model("initial-exec")));

struct place {            /* where a dynamic hook is bound */
	struct kprobe kp; /* first */
	struct hook *hook;
	bool ready; /* registered */
	bool entry;
	char symbol[];
};

static int mem_fd = -1; /* no descriptor stays open between two calls */
static int enable(struct hook *hook, bool on, struct dp_error *err);

static const struct dp_hook_host host = {
    .code = {dp_self_write_code, dp_self_serialise, dp_self_breathe, &mem_fd},
    .peek = dp_self_peek,
    .enable = enable,
};
static struct dp_hooks hooks = {.host = &host};

/* For whoever looks from outside (src/cmd/cmd-hooks.c). */
EXPORT const struct self_hooks_registry dp_self_hooks = {
    SELF_REGISTRY_MAGIC, SELF_HOOKS_VERSION, sizeof(dp_self_hooks_lock), (u64)&hooks, (u64)&dp_self_hooks_lock};

EXPORT struct hook_thread *dp_hook_thread(void)
{
	struct self_thread *t = dp_self_thread();

	if (t)
		dp_hook_me = &t->hook;
	return dp_hook_me;
}

static void lock(void)
{
	pthread_mutex_lock(&dp_self_hooks_lock);
}

static void unlock(void)
{
	if (mem_fd >= 0)
		close(mem_fd);
	mem_fd = -1;
	pthread_mutex_unlock(&dp_self_hooks_lock);
}

static int enter(struct dp_error *err)
{
	if (dp_hook_me && dp_hook_me->depth)
		return dp_fail(err, E_HOOK_INSIDE, "a call from an exit");
	lock();
	dp_self_survive_forks();
	return 0;
}

static int leave(const struct dp_error *err, int r)
{
	unlock();
	return dp_self_fail(err, r);
}

/* ---- what comes and goes with programs and shared objects ---- */

static void come(struct hook_site *first, struct hook_site *end, struct hook **heads, struct hook **heads_end)
{
	for (struct hook **h = heads; h < heads_end; h++)
		dp_hooks_know(&hooks, *h);
	for (struct hook_site *s = first; s < end; s++) {
		struct dp_hook_place p = {(u64)&s->code + (u64)(s64)s->code, (u64)&s->armed + (u64)(s64)s->armed,
					  s->hook, first};

		dp_hooks_add_place(&hooks, &p);
	}
	dp_hooks_apply_places(&hooks, NULL); /* others' hooks may be active already */
}

EXPORT void dp_hook_module(struct hook_site *first, struct hook_site *end, struct hook **heads, struct hook **heads_end,
			   int comes)
{
	if (!first && !heads)
		return;
	lock();
	dp_hooks_forget_places(&hooks, first); /* each file of a module tells it once more */
	if (comes)
		come(first, end, heads, heads_end);
	for (struct hook **h = heads; !comes && h < heads_end; h++)
		dp_hooks_forget(&hooks, *h);
	unlock();
}

/* ---- exits ---- */

EXPORT int hook_exit_register(struct hook *hook, struct hook_rec *rec)
{
	struct dp_error err = {0};
	int r = enter(&err);

	if (r)
		return dp_self_fail(&err, r);
	return leave(&err, dp_hooks_insert(&hooks, hook, rec, &err));
}

EXPORT int hook_exit_deregister(struct hook_rec *rec)
{
	struct dp_error err = {0};
	int r = enter(&err);

	if (r)
		return dp_self_fail(&err, r);
	r = leave(&err, dp_hooks_take_out(&hooks, rec, &err));
	if (!r) {
		dp_self_hooks_grace();
		dp_self_reap();
	}
	return r;
}

static int arm(struct hook_rec **recs, int num, bool on)
{
	struct dp_error err = {0};
	int r = enter(&err);

	if (r)
		return dp_self_fail(&err, r);
	return leave(&err, dp_hooks_arm(&hooks, recs, num, on, &err));
}

EXPORT int hook_exits_arm(struct hook_rec **recs, int num)
{
	return arm(recs, num, true);
}

EXPORT int hook_exits_disarm(struct hook_rec **recs, int num)
{
	return arm(recs, num, false);
}

EXPORT int hook_exit_arm(struct hook_rec *rec)
{
	return arm(&rec, 1, true);
}

EXPORT int hook_exit_disarm(struct hook_rec *rec)
{
	return arm(&rec, 1, false);
}

/* ---- dynamic hooks ---- */

static int on_hit(struct kprobe *kp, struct pt_regs *regs)
{
	struct place *p = (struct place *)kp;
	unsigned long ip = dp_regs_ip(regs);

	if (p->hook->hit(p->hook, regs) == HOOK_RETURN && p->entry) {
		dp_regs_ip(regs) = *(unsigned long *)dp_regs_sp(regs);
		dp_regs_sp(regs) += 8;
	}
	return dp_regs_ip(regs) != ip;
}

static int enable(struct hook *hook, bool on, struct dp_error *err)
{
	struct place *p = hook->place;
	int r;

	if (!p || !p->ready) /* it is enabled when it is bound */
		return 0;
	r = on ? enable_kprobe(&p->kp) : disable_kprobe(&p->kp);
	return r && on ? dp_fail(err, E_HOOK_SITE, "%s", dp_kprobe_error()), r : 0;
}

/* The reason has been told. */
static int bind_failed(struct place *p, int r)
{
	lock();
	p->hook->place = NULL;
	unlock();
	free(p);
	return r;
}

EXPORT int hook_bind(struct hook *hook, const char *symbol, unsigned long offset)
{
	size_t len = symbol ? strlen(symbol) + 1 : 0;
	struct dp_error err = {0};
	struct place *p;
	int r = enter(&err);

	if (r)
		return dp_self_fail(&err, r);
	if (!hook->hit || hook->place)
		return leave(&err, dp_fail(&err, hook->hit ? E_HOOK_BOUND : E_HOOK_ARGUMENT, "%s", hook->name));
	p = calloc(1, sizeof(*p) + len);
	if (!p)
		return leave(&err, dp_fail(&err, E_ARM_NOMEM, "a hook"));
	p->hook = hook;
	p->kp.pre_handler = on_hit;
	p->kp.offset = symbol ? (unsigned)offset : 0;
	p->kp.addr = symbol ? NULL : (kprobe_opcode_t *)offset;
	p->kp.symbol_name = symbol ? memcpy(p->symbol, symbol, len) : NULL;
	p->kp.flags = KPROBE_FLAG_DISABLED;
	hook->place = p;
	dp_hooks_know(&hooks, hook);
	unlock(); /* a lookup may wait for the dynamic linker, which may wait for us
				(dp_hook_module) */
	r = register_kprobe(&p->kp);
	if (r)
		return bind_failed(p, r);
	p->entry = (symbol && !offset) || (p->kp.addr && dp_self_is_entry((u64)p->kp.addr));
	lock();
	p->ready = true;
	return leave(&err, dp_hook_wanted(hook) ? enable(hook, true, &err) : 0);
}

EXPORT int hook_unbind(struct hook *hook)
{
	struct dp_error err = {0};
	struct place *p;
	int r = enter(&err);

	if (r)
		return dp_self_fail(&err, r);
	p = hook->place;
	if (!p || !p->ready || dp_hook_wanted(hook))
		return leave(&err, dp_fail(&err, p ? E_HOOK_BOUND : E_HOOK_ARGUMENT, "%s", hook->name));
	hook->place = NULL;
	unregister_kprobe(&p->kp);
	free(p);
	return leave(&err, 0);
}
