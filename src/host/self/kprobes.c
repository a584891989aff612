/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of <dprobes/kprobes.h> for kprobes, and the one lock of the library.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/self/host.h"
#include "host/self/own-probes.h"
#include "host/self/trap.h"
#include "host/self/watch.h"
#include "symbols/symbols.h"

#define EXPORT __attribute__((visibility("default")))

struct dp_manager self_manager;
struct self_probe *self_probes; /* newest first */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int
    lock_owner; /* tid; written under the lock, read by anybody who asks whether it is himself */
static int modules_dirty; /* atomic: modules came or went while the lock was held */
static bool ready;
static __thread char reason[400];

EXPORT const char *dp_kprobe_error(void)
{
	return reason;
}

int self_fail(const struct dp_error *err, int r)
{
	const struct dp_error_info *info = dp_error_info(err->code);

	if (r && err->code)
		dp_format(reason, sizeof(reason), "%s: %s: %s", info->name, info->sentence,
			  err->detail);
	return r;
}

static void before_fork(void)
{
	self_hooks_lock();
	pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
	self_hooks_unlock();
}

/* Only this thread lives on. Its record keeps its state; the others' owners do not exist here. */
static void after_fork_child(void)
{
	struct self_thread *me = self_thread();

	self_host_forked();
	self_watch_forked();
	for (u32 i = 0; i < SELF_THREADS && i < self_threads_used; i++) {
		self_threads[i].open = self_threads[i].shut = 0;
		if (&self_threads[i] != me) {
			self_threads[i].tid = 0;
			self_threads[i].depth = 0;
			self_threads[i].hook.depth = 0;
		}
	}
	if (me) {
		self_returns_forked(me->tid, gettid());
		me->tid = me->task.pid = gettid();
		me->task.tgid = getpid();
	}
	self_pid = getpid();
	after_fork_parent();
}

void self_survive_forks(void)
{
	static int done; /* atomic: the two locks do not exclude each other */

	if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static int set_up(struct dp_error *err)
{
	int r = self_images_refresh();

	if (!r)
		r = self_host_init(err);
	if (!r)
		r = self_wait_unblocked(err);
	if (!r)
		r = self_trap_init(err);
	if (!r)
		r = self_own_probes_init(err);
	if (!r)
		self_survive_forks();
	return r;
}

int self_lock(void)
{
	struct dp_error err = {0};
	int r = 0;

	pthread_mutex_lock(&lock);
	__atomic_store_n(&lock_owner, gettid(), __ATOMIC_RELAXED);
	reason[0] = '\0';
	if (!ready) {
		r = set_up(&err);
		ready = !r;
	}
	if (r) {
		self_fail(&err, r);
		self_host_close();
		__atomic_store_n(&lock_owner, 0, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
	}
	return r;
}

static void update_modules(void);

void self_unlock(void)
{
	do {
		if (__atomic_exchange_n(&modules_dirty, 0, __ATOMIC_ACQ_REL))
			update_modules();
		self_host_close();
		__atomic_store_n(&lock_owner, 0, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		/* A module that came between the look and the unlock is this thread's to see,
		 * unless another took over. */
	} while (__atomic_load_n(&modules_dirty, __ATOMIC_ACQUIRE) &&
		 !pthread_mutex_trylock(&lock));
}

/* Called when the dynamic linker has finished; never waits for the lock, whose owner may wait for
 * the linker. */
void self_modules_changed(void)
{
	__atomic_store_n(&modules_dirty, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&lock_owner, __ATOMIC_RELAXED) == gettid() ||
	    pthread_mutex_trylock(&lock))
		return;
	__atomic_store_n(&lock_owner, gettid(), __ATOMIC_RELAXED);
	self_unlock();
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
		return self_is_general((const void *)((const struct kretprobe *)kp)->entry_handler);
	return self_is_general((const void *)kp->pre_handler) &&
	       self_is_general((const void *)kp->post_handler);
}

static u32 flags_of(const struct self_probe *s)
{
	const struct kprobe *kp = s->kp;
	bool lean = s->type == 'r' && !((const struct kretprobe *)kp)->entry_handler &&
		    !(kp->flags & (KPROBE_FLAG_RET_EXITS | KPROBE_FLAG_RET_CLASSIC));

	return (kp->flags & KPROBE_FLAG_DISABLED ? DP_KPROBE_DISABLED : 0) |
	       (s->general ? DP_KPROBE_GENERAL : 0) | (lean ? DP_KPROBE_LEAN : 0) |
	       (kp->post_handler ? DP_KPROBE_POST : 0) | (s->type == 'j' ? DP_KPROBE_BREAK : 0);
}

static void show_states(void)
{
	for (struct self_probe *s = self_probes; s; s = s->next) {
		struct dp_kpoint *p = s->k.point;

		if (!p)
			continue;
		s->kp->flags &= ~(unsigned)(KPROBE_FLAG_OPTIMIZED | KPROBE_FLAG_GONE);
		if (p->gone)
			s->kp->flags |= KPROBE_FLAG_GONE;
		else if (p->state == DP_POINT_JUMP && !(s->kp->flags & KPROBE_FLAG_DISABLED))
			s->kp->flags |= KPROBE_FLAG_OPTIMIZED;
	}
}

int self_apply(struct dp_error *err)
{
	int r = dp_mgr_apply(&self_manager, err);

	self_reap();
	show_states();
	return r;
}

static struct self_probe *probe_of(const struct kprobe *kp)
{
	struct self_probe *s = self_probes;

	while (s && s->kp != kp)
		s = s->next;
	return s;
}

/* Find the address. 1: it is a symbol in a module that is not loaded. */
static int resolve(struct kprobe *kp, u64 *addr, struct dp_error *err)
{
	int r;

	if (kp->symbol_name && kp->addr == kp->dp_private) /* left from the last time */
		kp->addr = NULL;
	if (!kp->symbol_name == !kp->addr)
		return dp_fail(err, E_KPROBE_ARGUMENT, "%s",
			       kp->addr ? "both symbol_name and addr" : "no place");
	if (kp->addr) {
		*addr = (u64)kp->addr + kp->offset;
		return 0;
	}
	r = self_lookup(kp->symbol_name, addr, err);
	if (r == -ENOENT) {
		self_images_refresh();
		r = self_lookup(kp->symbol_name, addr, err);
	}
	if (r == -ENOENT && *addr == 1)
		return 1;
	*addr += kp->offset;
	return r;
}

/*
 * Functions that return twice: their second return comes from a saved address, which would be that
 * of a stub whose call is long over.
 */
static bool returns_twice(u64 addr)
{
	static const char *const names[] = {"setjmp", "sigsetjmp", "vfork", "getcontext"};
	struct self_image *im = self_image_at(addr);
	struct dp_symbol sym;
	const char *name;

	if (!im || !dp_module_symbol_at(im->mod, addr - im->bias, &sym))
		return false;
	name = sym.name + strspn(sym.name, "_");
	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])) &&
		    strchr("@", name[strlen(names[i])]))
			return true;
	return false;
}

static int find_entry(u64 addr, bool *is_entry, struct dp_error *err)
{
	const struct dp_func *f;
	struct dp_locus l;
	int r = self_manager.host->locate(NULL, addr, &l, err);

	if (r)
		return r;
	f = dp_text_func(l.text, addr - l.bias);
	*is_entry = f && f->lo == addr - l.bias;
	return 0;
}

bool self_is_entry(u64 addr)
{
	bool is_entry = false;

	if (self_lock())
		return false;
	find_entry(addr, &is_entry, NULL);
	self_unlock();
	return is_entry;
}

/* Return probes and jprobes stand at the first instruction of a function. */
static int check_entry(const struct self_probe *s, u64 addr, struct dp_error *err)
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

static int attach(struct self_probe *s, u64 addr, struct dp_error *err)
{
	int r = s->type == 'k' ? 0 : check_entry(s, addr, err);

	if (r)
		return r;
	s->k.owner = s->kp;
	s->k.flags = flags_of(s);
	r = dp_mgr_attach(&self_manager, addr, &s->k, err);
	if (!r && s->type == 'r' && s->kp->flags & KPROBE_FLAG_RET_EXITS) {
		r = self_exits_attach(s, addr, err);
		if (r)
			dp_mgr_detach(&self_manager, &s->k);
	}
	if (!r) {
		s->kp->addr = (kprobe_opcode_t *)addr;
		s->pending = false;
		s->kp->flags &= ~(unsigned)KPROBE_FLAG_PENDING;
	}
	return r;
}

static int add_probe(struct kprobe *kp, char type, struct dp_error *err)
{
	struct self_probe *s;
	u64 addr;
	int r;

	if (probe_of(kp))
		return dp_fail(err, E_KPROBE_ARGUMENT, "it is registered already");
	r = resolve(kp, &addr, err);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return dp_fail(err, E_ARM_NOMEM, "a probe");
	s->kp = kp;
	s->type = type;
	s->general = is_general(kp, type);
	kp->nmissed = 0;
	kp->flags &= SELF_USER_FLAGS;
	s->pending = r;
	if (r)
		kp->flags |= KPROBE_FLAG_PENDING;
	r = r ? 0 : attach(s, addr, err);
	if (r) {
		if (s->k.point) { /* it was attached for a moment: no hit may see it any more */
			struct dp_error ignored;

			s->kp = NULL;
			dp_mgr_apply(&self_manager, &ignored);
		}
		free(s->exits);
		free(s);
		return r;
	}
	kp->dp_private = s;
	s->next = self_probes;
	self_probes = s;
	return 0;
}

/* Out of all lists; the memory that hits may still see goes after self_apply(). */
static struct self_probe *take_out(struct kprobe *kp) /* NULL: it was not registered */
{
	struct self_probe **at = &self_probes, *s;

	while (*at && (*at)->kp != kp)
		at = &(*at)->next;
	s = *at;
	if (!s) {
		kp->addr = NULL;
		return NULL;
	}
	*at = s->next;
	if (s->k.point)
		dp_mgr_detach(&self_manager, &s->k);
	self_exits_detach(s);
	return s;
}

void self_unregister_all(struct kprobe **kps, int num)
{
	struct self_probe *gone = NULL, *s;
	struct dp_error err;

	for (int i = 0; i < num; i++) {
		s = take_out(kps[i]);
		if (!s)
			continue;
		kps[i]->flags &= SELF_USER_FLAGS;
		/* Registered again as it is, it stands where it stood: its symbol counts, no matter what this was, or the address that was given. */
		kps[i]->dp_private = kps[i]->symbol_name ? kps[i]->addr : NULL;
		if (!kps[i]->symbol_name)
			kps[i]->addr -= kps[i]->offset;
		s->next = gone;
		gone = s;
	}
	self_apply(&err);
	while ((s = gone)) {
		gone = s->next;
		free(s->exits);
		free(s);
	}
}

/* Probes that wait for a module are tried again; those in modules that went away are marked. */
static void update_modules(void)
{
	struct dp_error err;
	u64 addr;

	self_images_refresh();
	for (struct self_probe *s = self_probes; s; s = s->next)
		if (s->pending && !self_lookup(s->kp->symbol_name, &addr, &err))
			attach(s, addr + s->kp->offset, &err);
	self_apply(&err);
}

int self_register_all(struct kprobe **kps, int num, char type)
{
	struct dp_error err = {0};
	int r = self_lock(), i;

	if (r)
		return r;
	for (i = 0; i < num && !r; i++)
		r = add_probe(kps[i], type, &err);
	if (r)
		i--; /* the bad one is not registered */
	else
		r = self_apply(&err);
	if (r)
		self_unregister_all(kps, i);
	if (r && type == 'r')
		self_returns_give_up(kps, num);
	self_fail(&err, r);
	self_unlock();
	return r;
}

int self_refuse(const char *why)
{
	struct dp_error err = {0};

	return self_fail(&err, dp_fail(&err, E_KPROBE_ARGUMENT, "%s", why));
}

EXPORT int register_kprobes(struct kprobe **kps, int num)
{
	return num > 0 ? self_register_all(kps, num, 'k') : self_refuse("a batch of none");
}

EXPORT int register_kprobe(struct kprobe *kp)
{
	return register_kprobes(&kp, 1);
}

EXPORT void unregister_kprobes(struct kprobe **kps, int num)
{
	if (num <= 0 || self_lock())
		return;
	self_unregister_all(kps, num);
	self_unlock();
}

EXPORT void unregister_kprobe(struct kprobe *kp)
{
	unregister_kprobes(&kp, 1);
}

int self_set_disabled(struct kprobe *kp, bool disabled)
{
	struct dp_error err = {0};
	struct self_probe *s;
	int r = self_lock();

	if (r)
		return r;
	s = probe_of(kp);
	if (!s || (s->k.point && s->k.point->gone)) {
		r = dp_fail(&err, E_KPROBE_UNKNOWN, "%s",
			    s ? "its module is gone" : "no such probe");
		goto out;
	}
	kp->flags = disabled ? kp->flags | KPROBE_FLAG_DISABLED
			     : kp->flags & ~(unsigned)KPROBE_FLAG_DISABLED;
	if (s->k.point)
		r = dp_mgr_flags(&self_manager, &s->k, flags_of(s));
	for (int i = 0; i < s->nexits && !r; i++)
		r = dp_mgr_flags(&self_manager, &s->exits[i].k,
				 (s->exits[i].k.flags & ~(u32)DP_KPROBE_DISABLED) |
				     (disabled ? DP_KPROBE_DISABLED : 0));
	if (!r)
		r = self_apply(&err);
out:
	self_fail(&err, r);
	self_unlock();
	return r;
}

EXPORT int disable_kprobe(struct kprobe *kp)
{
	return self_set_disabled(kp, true);
}

EXPORT int enable_kprobe(struct kprobe *kp)
{
	return self_set_disabled(kp, false);
}

EXPORT void dp_kprobe_blacklist(const void *addr)
{
	pthread_mutex_lock(&lock); /* constructors call this: nothing is set up for it */
	self_blacklist((u64)addr);
	pthread_mutex_unlock(&lock);
}

static int knob(int on, bool optimisation)
{
	struct dp_error err = {0};
	int was, r;

	if (self_lock())
		return 0;
	was = optimisation ? !self_manager.no_optimise : !self_manager.disarmed;
	if (on == !was) {
		r = dp_mgr_knobs(&self_manager, optimisation ? self_manager.disarmed : !on,
				 optimisation ? !on : self_manager.no_optimise);
		if (r)
			dp_fail(&err, E_ARM_NOMEM, "the lists of probes");
		else
			r = self_apply(&err);
		self_fail(&err, r);
	}
	self_unlock();
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
