/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The process as a host of the registry of probes (engine/kprobes.c), the calls of <dprobes/kprobes.h>, and the one
 * lock of the library.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/self/host.h"
#include "host/self/own-probes.h"
#include "host/self/trap.h"
#include "host/self/self-watch.h"
#include "symbols/symbols.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lock_owner;    /* tid; written under the lock, read by anybody who asks whether it is himself */
static int modules_dirty; /* atomic: modules came or went while the lock was held */
static bool ready;

static void before_fork(void)
{
	pthread_mutex_lock(&dp_self_hooks_lock);
	pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&dp_self_hooks_lock);
}

/* Only this thread lives on. Its record keeps its state; the others' owners do not exist here. */
static void after_fork_child(void)
{
	struct self_thread *me = dp_self_thread();

	dp_self_host_forked();
	dp_self_watch_forked();
	for (u32 i = 0; i < SELF_THREADS && i < dp_self_threads_used; i++) {
		dp_self_threads[i].open = dp_self_threads[i].shut = 0;
		if (&dp_self_threads[i] != me) {
			dp_self_threads[i].tid = 0;
			dp_self_threads[i].depth = 0;
			dp_self_threads[i].hook.depth = 0;
		}
	}
	if (me) {
		dp_self_returns_forked(me->tid, gettid());
		me->tid = me->task.pid = gettid();
		me->task.tgid = getpid();
	}
	dp_self_pid = getpid();
	after_fork_parent();
}

void dp_self_survive_forks(void)
{
	static int done; /* atomic: the two locks do not exclude each other */

	if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static int set_up(struct dp_error *err)
{
	int r = dp_self_images_refresh();

	dp_self_returns.cpus = (u32)sysconf(_SC_NPROCESSORS_CONF);
	if (!r)
		r = dp_self_host_init(err);
	if (!r)
		r = dp_self_wait_unblocked(err);
	if (!r)
		r = dp_self_trap_init(err);
	if (!r)
		r = dp_self_own_probes_init(err);
	if (!r)
		dp_self_survive_forks();
	return r;
}

int dp_self_lock(void)
{
	struct dp_error err = {0};
	int r = 0;

	pthread_mutex_lock(&lock);
	__atomic_store_n(&lock_owner, gettid(), __ATOMIC_RELAXED);
	dp_self_reason[0] = '\0';
	if (!ready) {
		r = set_up(&err);
		ready = !r;
	}
	if (r) {
		dp_self_fail(&err, r);
		dp_self_host_close();
		__atomic_store_n(&lock_owner, 0, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
	}
	return r;
}

static void update_modules(void);

void dp_self_unlock(void)
{
	do {
		/* Both looks pair with the release in dp_self_modules_changed(). */
		if (__atomic_exchange_n(&modules_dirty, 0, __ATOMIC_ACQ_REL))
			update_modules();
		dp_self_host_close();
		__atomic_store_n(&lock_owner, 0, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		/* A module that came between the look and the unlock is this thread's to see,
		 * unless another took over. */
	} while (__atomic_load_n(&modules_dirty, __ATOMIC_ACQUIRE) && !pthread_mutex_trylock(&lock));
}

/* Called when the dynamic linker has finished; never waits for the lock, whose owner may wait for
 * the linker. */
void dp_self_modules_changed(void)
{
	__atomic_store_n(&modules_dirty, 1, __ATOMIC_RELEASE); /* pairs with the looks in dp_self_unlock() */
	if (__atomic_load_n(&lock_owner, __ATOMIC_RELAXED) == gettid() || pthread_mutex_trylock(&lock))
		return;
	__atomic_store_n(&lock_owner, gettid(), __ATOMIC_RELAXED);
	dp_self_unlock();
}

/* Said by the caller, or found in the handlers' code. Of a return probe: what is called at the
 * entry. */
static bool is_general(const struct kprobe *kp, char type)
{
	if (type == 'j')
		return false;
	if (kp->flags & KPROBE_FLAG_GENERAL_REGS)
		return true;
	if (type == 'r')
		return dp_self_is_general((const void *)((const struct kretprobe *)kp)->entry_handler);
	return dp_self_is_general((const void *)kp->pre_handler) && dp_self_is_general((const void *)kp->post_handler);
}

static u32 hints(const struct kprobe *kp, char type)
{
	bool no_regs = type == 'r' && !((const struct kretprobe *)kp)->entry_handler &&
		       !(kp->flags & (KPROBE_FLAG_RET_EXITS | KPROBE_FLAG_RET_CLASSIC));

	return (is_general(kp, type) ? DP_MGR_GENERAL : 0) | (no_regs ? DP_MGR_NO_REGS : 0);
}

static int apply(struct dp_error *err)
{
	int r = dp_mgr_apply(&dp_self_manager, err);

	dp_self_reap();
	return r;
}

static bool updating; /* under the lock: nobody has called for what is going on */

static void tell(struct kprobe *kp, const struct dp_error *err, int r)
{
	if (!updating)
		dp_self_fail(err, r);
}

static int resolve(const char *name, u64 *addr, struct dp_error *err)
{
	int r = dp_self_lookup(name, addr, err);

	if (r == -ENOENT) {
		dp_self_images_refresh();
		dp_kprobes_mark_gone(&dp_self_kprobes);
		r = dp_self_lookup(name, addr, err);
	}
	return r == -ENOENT && *addr == 1 ? 1 : r;
}

/*
 * Functions that return twice: their second return comes from a saved address, which would be that
 * of a stub whose call is long over.
 */
static bool returns_twice(u64 addr)
{
	static const char *const names[] = {"setjmp", "sigsetjmp", "vfork", "getcontext"};
	struct self_image *im = dp_self_image_at(addr);
	struct dp_symbol sym;
	const char *name;

	if (!im || !dp_module_symbol_at(im->mod, addr - im->bias, &sym))
		return false;
	name = sym.name + strspn(sym.name, "_");
	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])) && strchr("@", name[strlen(names[i])]))
			return true;
	return false;
}

static int find_entry(u64 addr, bool *is_entry, struct dp_error *err)
{
	const struct dp_func *f;
	struct dp_locus l;
	int r = dp_self_manager.host->locate(NULL, addr, &l, err);

	if (r)
		return r;
	f = dp_text_func(l.text, addr - l.bias);
	*is_entry = f && f->lo == addr - l.bias;
	return 0;
}

bool dp_self_is_entry(u64 addr)
{
	bool is_entry = false;

	if (dp_self_lock())
		return false;
	find_entry(addr, &is_entry, NULL);
	dp_self_unlock();
	return is_entry;
}

/* Return probes and jprobes stand at the first instruction of a function. */
static int check_entry(const struct dp_registered *s, u64 addr, struct dp_error *err)
{
	bool is_entry;
	int r = find_entry(addr, &is_entry, err);

	if (r)
		return r;
	if (!is_entry)
		return dp_fail(err, E_KPROBE_ARGUMENT, "0x%llx is not the start of a function",
			       (unsigned long long)addr);
	if (s->type == 'r' && !(s->kp->flags & KPROBE_FLAG_RET_EXITS) && returns_twice(addr))
		return dp_fail(err, E_KPROBE_TWICE, "0x%llx", (unsigned long long)addr);
	return 0;
}

static int attach(struct dp_registered *s, u64 *addr, struct dp_error *err)
{
	int r = s->type == 'k' ? 0 : check_entry(s, *addr, err);

	r = r ? r : dp_mgr_attach(&dp_self_manager, *addr, &s->k, err);
	if (!r && s->type == 'r' && s->kp->flags & KPROBE_FLAG_RET_EXITS) {
		r = dp_self_exits_attach(s, *addr, err);
		if (r)
			dp_mgr_detach(&dp_self_manager, &s->k);
	}
	return r;
}

static void detach(struct dp_registered *s)
{
	if (s->k.point)
		dp_mgr_detach(&dp_self_manager, &s->k);
	dp_self_exits_detach(s);
}

static const struct dp_kprobes_host kprobes_host = {
    .user_flags = KPROBE_FLAG_DISABLED | KPROBE_FLAG_GENERAL_REGS | KPROBE_FLAG_RET_EXITS | KPROBE_FLAG_RET_CLASSIC,
    .return_entry = dp_self_return_pre,
    .jprobe_entry = dp_self_jprobe_pre,
    .lock = dp_self_lock,
    .unlock = dp_self_unlock,
    .tell = tell,
    .resolve = resolve,
    .hints = hints,
    .attach = attach,
    .detach = detach,
    .flagged = dp_self_exits_flagged,
    .apply = apply,
    .sweep = dp_self_sweep,
};

struct dp_kprobes dp_self_kprobes = {.host = &kprobes_host, .m = &dp_self_manager, .returns = &dp_self_returns};

/* Modules came or went: probes that wait for one are tried, those in modules that went away are marked. */
static void update_modules(void)
{
	updating = true;
	dp_self_images_refresh();
	dp_kprobes_mark_gone(&dp_self_kprobes);
	dp_kprobes_try_pending(&dp_self_kprobes, NULL);
	updating = false;
}

#define DP_CALL(type, name) EXPORT type name
#define DP_EXPORT(name)
#define DP_REGISTER(v, num, type) dp_kprobes_register(&dp_self_kprobes, (struct kprobe **)(v), num, type, NULL)
#define DP_UNREGISTER(v, num) dp_kprobes_unregister(&dp_self_kprobes, (struct kprobe **)(v), num)
#define DP_DISABLE(kp, disabled) dp_kprobes_disable(&dp_self_kprobes, kp, disabled)
#include "engine/kprobes-calls.h"

EXPORT void dp_kprobe_blacklist(const void *addr)
{
	pthread_mutex_lock(&lock); /* constructors call this: nothing is set up for it */
	dp_self_blacklist((u64)addr);
	pthread_mutex_unlock(&lock);
}

EXPORT unsigned long dp_symbol_address(const char *name)
{
	struct dp_error err = {0};
	u64 addr;
	int r;

	if (dp_self_lock())
		return 0;
	r = resolve(name, &addr, &err);
	if (r)
		dp_self_fail(&err, -ENOENT);
	dp_self_unlock();
	return r ? 0 : addr;
}

static int knob(int on, bool optimisation)
{
	int was;

	dp_kprobes_knob(&dp_self_kprobes, optimisation, on, &was);
	return was;
}

EXPORT int dp_kprobes_optimization(int on)
{
	return knob(on, true);
}

EXPORT int dp_kprobes_enabled(int on)
{
	return knob(on, false);
}
