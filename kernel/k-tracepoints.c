// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Probes of the device's sessions at the kernel's tracepoints, and at the system calls of all processes, which are seen
 * through two of them. A tracepoint calls what is registered with it; the programs are those of every probe. A probe of
 * a module's tracepoint comes and goes with the module.
 */
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

#include "k-session.h"

#include <asm/syscall.h>
#include <asm/unistd.h>

/*
 * Protects all that is static here and what probes say of themselves. Taken inside the kernel's list of modules with
 * tracepoints, and outside of its list of their functions.
 */
static DEFINE_MUTEX(tracepoints_lock);
static LIST_HEAD(armed); /* probes that are in place, wait or are gone, by trace_list */

#ifdef CONFIG_TRACEPOINTS

/* ---- the hit ---- */

static __always_inline void run(struct dp_k_session_probe *p, struct pt_regs *regs)
{
	if (unlikely(!dp_k_enter())) {
		__atomic_fetch_add(&p->rp.kp.nmissed, 1, __ATOMIC_RELAXED);
		return;
	}
	if (dp_k_session_wants(p))
		dp_k_run(&p->run, regs, 0);
	else
		dp_k_pass(&p->run);
	dp_k_leave();
}

/* Called by k-entry.S, with the registers as the tracepoint has set them: the first argument is in si. */
HIT void dp_k_tracepoint_hit(struct dp_k_session_probe *p, struct pt_regs *regs)
{
	run(p, regs);
}

static HIT void run_calls(const struct dp_k_calls *calls, struct pt_regs *regs, u32 number, bool is_return)
{
	if (in_ia32_syscall()) /* numbers of its own */
		return;
	if (number < DP_K_CALLS) {
		u32 at = array_index_nospec(number, DP_K_CALLS); /* the process has chosen it */

		for (struct dp_k_session_probe *p = calls->first[is_return][at]; p; p = p->next_call)
			run(p, regs);
	}
	for (struct dp_k_session_probe *p = calls->first[is_return][DP_K_CALLS]; p; p = p->next_call)
		run(p, regs);
}

/* The registers are those of the process at the instruction, where ax has the number: the kernel's own have lost it. */
static HIT void on_call(void *calls, struct pt_regs *regs, long number)
{
	struct pt_regs at = *regs;

	dp_regs_result(&at) = number; /* the same register */
	run_calls(calls, &at, number, false);
}

/* Those with which the process goes on. One that has become another program does not come back. */
static HIT void on_call_return(void *calls, struct pt_regs *regs, long result)
{
	u32 number = syscall_get_nr(current, regs);

	if (result || (number != __NR_execve && number != __NR_execveat))
		run_calls(calls, regs, number, true);
}

/* ---- finding ---- */

struct traced_module {
	struct list_head list;
	struct module *mod;
};
static LIST_HEAD(modules); /* with tracepoints; each until its notifier has taken our probes out */

struct search {
	const char *name;
	struct tracepoint *found;
};

static void compare(struct tracepoint *tp, void *arg)
{
	struct search *s = arg;

	if (!strcmp(tp->name, s->name))
		s->found = tp;
}

static struct tracepoint *in_module(const struct module *mod, const char *name)
{
	struct search s = {.name = name};

	for (u32 i = 0; i < mod->num_tracepoints; i++)
		compare(tracepoint_ptr_deref(&mod->tracepoints_ptrs[i]), &s);
	return s.found;
}

/* "NAME" or "MODULE:NAME". *missing: the module is not loaded. */
static struct tracepoint *find(const char *place, bool *missing)
{
	const char *colon = strchr(place, ':');
	struct search s = {.name = place};
	struct traced_module *m;

	*missing = colon;
	if (!colon) {
		for_each_kernel_tracepoint(compare, &s);
		return s.found;
	}
	list_for_each_entry(m, &modules, list)
		if (strlen(m->mod->name) == colon - place && !strncmp(m->mod->name, place, colon - place)) {
			*missing = false;
			return in_module(m->mod, colon + 1);
		}
	return NULL;
}

int dp_k_tracepoint_check(const struct dp_k_session_probe *p, struct dp_error *err)
{
	struct tracepoint *tp;
	bool missing;

	mutex_lock(&tracepoints_lock);
	tp = find(p->place, &missing);
	mutex_unlock(&tracepoints_lock);
	return tp || missing ? 0 : dp_fail(err, E_TRACEPOINT_NONE, "%s", p->place);
}

/* ---- in place ---- */

static int attach(struct dp_k_session_probe *p, struct tracepoint *tp)
{
	int r = tracepoint_probe_register(tp, dp_k_tracepoint, p);

	p->tracepoint = r ? NULL : tp;
	p->trace_state = r ? DP_DEV_GONE : DP_DEV_TRACED;
	return r;
}

static void detach(struct dp_k_session_probe *p, enum dp_dev_how state)
{
	if (p->tracepoint)
		tracepoint_probe_unregister(p->tracepoint, dp_k_tracepoint, p);
	p->tracepoint = NULL;
	p->trace_state = state;
}

static int arm_one(struct dp_k_session_probe *p, struct dp_error *err)
{
	bool missing;
	struct tracepoint *tp = find(p->place, &missing);
	int r = tp ? attach(p, tp) : 0;

	if (r || (!tp && !missing))
		return dp_fail(err, E_TRACEPOINT_NONE, "%s (%d)", p->place, r);
	if (!tp)
		p->trace_state = DP_DEV_PENDING;
	list_add_tail(&p->trace_list, &armed);
	return 0;
}

static void come(struct traced_module *m)
{
	struct dp_k_session_probe *p;
	bool missing;

	list_add(&m->list, &modules);
	list_for_each_entry(p, &armed, trace_list) {
		struct tracepoint *tp = p->trace_state == DP_DEV_PENDING ? find(p->place, &missing) : NULL;

		if (tp && attach(p, tp))
			pr_warn("dprobes: the tracepoint %s cannot be probed\n", p->place);
	}
}

static bool is_of(const struct dp_k_session_probe *p, const struct module *mod)
{
	return p->tracepoint && p->tracepoint == in_module(mod, p->tracepoint->name);
}

/* The probes wait until the module comes again. */
static void go(struct traced_module *m)
{
	struct dp_k_session_probe *p;
	bool any = false;

	list_for_each_entry(p, &armed, trace_list)
		if (is_of(p, m->mod)) {
			detach(p, DP_DEV_PENDING);
			any = true;
		}
	list_del(&m->list);
	kfree(m);
	if (any)
		tracepoint_synchronize_unregister();
}

static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct tp_module *tp_mod = data;
	struct traced_module *m, *next;

	mutex_lock(&tracepoints_lock);
	if (state == MODULE_STATE_COMING) {
		m = kzalloc(sizeof(*m), GFP_KERNEL);
		if (m) { /* else its tracepoints are as those of a module that is not there */
			m->mod = tp_mod->mod;
			come(m);
		}
	} else if (state == MODULE_STATE_GOING) {
		list_for_each_entry_safe(m, next, &modules, list)
			if (m->mod == tp_mod->mod)
				go(m);
	}
	mutex_unlock(&tracepoints_lock);
	return NOTIFY_OK;
}

static struct notifier_block on_module_block = {.notifier_call = on_module};

/* ---- system calls ---- */

static struct tracepoint *call_points[2]; /* where calls begin and return; NULL: this kernel has them not */

static void note_call_points(struct tracepoint *tp, void *arg)
{
	if (!strcmp(tp->name, "sys_enter"))
		call_points[false] = tp;
	else if (!strcmp(tp->name, "sys_exit"))
		call_points[true] = tp;
}

static void *const on_calls[2] = {on_call, on_call_return};

static int arm_calls(struct dp_k_session *s, struct dp_error *err)
{
	struct dp_k_calls *calls = s->calls = dp_alloc(sizeof(*calls));
	bool wanted[2] = {false, false};
	int r = 0;

	if (!calls)
		return dp_fail(err, E_ARM_NOMEM, "system calls");
	for (u32 i = s->nprobes; i--;) { /* each chain has the order of the session */
		struct dp_k_session_probe *p = s->probes[i], **first;

		if (!p->is_call)
			continue;
		first = &calls->first[p->is_return][p->call < 0 ? DP_K_CALLS : p->call];
		p->next_call = *first;
		*first = p;
		wanted[p->is_return] = true;
		p->trace_state = DP_DEV_TRACED;
		list_add_tail(&p->trace_list, &armed);
	}
	for (int i = 1; i >= 0 && !r; i--) { /* returns first: nobody has begun without being seen to return */
		if (!wanted[i])
			continue;
		r = call_points[i] ? tracepoint_probe_register(call_points[i], on_calls[i], calls) : -ENOENT;
		calls->is_in_place[i] = !r;
	}
	return r ? dp_fail(err, E_TRACEPOINT_NONE, "raw_syscalls (%d)", r) : 0;
}

static void disarm_calls(struct dp_k_calls *calls)
{
	for (int i = 0; calls && i < 2; i++) {
		if (calls->is_in_place[i])
			tracepoint_probe_unregister(call_points[i], on_calls[i], calls);
		calls->is_in_place[i] = false;
	}
}

/* ---- sessions ---- */

int dp_k_tracepoints_arm(struct dp_k_session *s, struct dp_error *err)
{
	bool calls = false;
	int r = 0;

	mutex_lock(&tracepoints_lock);
	for (u32 i = 0; i < s->nprobes && !r; i++) {
		calls |= s->probes[i]->is_call;
		if (s->probes[i]->is_tracepoint)
			r = arm_one(s->probes[i], err);
	}
	if (!r && calls)
		r = arm_calls(s, err);
	mutex_unlock(&tracepoints_lock);
	return r;
}

static void take_out(struct dp_k_session_probe *p, enum dp_dev_how state)
{
	list_del_init(&p->trace_list);
	if (p->is_call)
		disarm_calls(p->session->calls);
	detach(p, state);
}

void dp_k_tracepoints_disarm(struct dp_k_session *s)
{
	bool any = false;

	mutex_lock(&tracepoints_lock);
	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_k_session_probe *p = s->probes[i];

		if (!p->trace_list.next || list_empty(&p->trace_list))
			continue;
		take_out(p, DP_DEV_OFF);
		any = true;
	}
	mutex_unlock(&tracepoints_lock);
	if (any)
		tracepoint_synchronize_unregister(); /* nobody is in a program of them any more */
}

/* They stay their sessions'. */
void dp_k_tracepoints_remove_all(void)
{
	struct dp_k_session_probe *p, *next;

	mutex_lock(&tracepoints_lock);
	list_for_each_entry_safe(p, next, &armed, trace_list)
		take_out(p, DP_DEV_GONE);
	mutex_unlock(&tracepoints_lock);
	tracepoint_synchronize_unregister();
}

int dp_k_tracepoints_init(void)
{
	for_each_kernel_tracepoint(note_call_points, NULL);
	return register_tracepoint_module_notifier(&on_module_block); /* tells of those that are there, too */
}

void dp_k_tracepoints_exit(void)
{
	struct traced_module *m, *next;

	unregister_tracepoint_module_notifier(&on_module_block);
	list_for_each_entry_safe(m, next, &modules, list)
		kfree(m);
}

#else

int dp_k_tracepoint_check(const struct dp_k_session_probe *p, struct dp_error *err)
{
	return dp_fail(err, E_TRACEPOINT_NONE, "this kernel has no tracepoints");
}

int dp_k_tracepoints_arm(struct dp_k_session *s, struct dp_error *err)
{
	return 0;
}

void dp_k_tracepoints_disarm(struct dp_k_session *s)
{
}

void dp_k_tracepoints_remove_all(void)
{
}

int dp_k_tracepoints_init(void)
{
	return 0;
}

void dp_k_tracepoints_exit(void)
{
}

void dp_k_tracepoint_hit(struct dp_k_session_probe *p, struct pt_regs *regs)
{
}

#endif

void dp_k_tracepoints_each(void (*fn)(void *arg, const struct dp_k_session_probe *p), void *arg)
{
	const struct dp_k_session_probe *p;

	mutex_lock(&tracepoints_lock);
	list_for_each_entry(p, &armed, trace_list)
		fn(arg, p);
	mutex_unlock(&tracepoints_lock);
}
