// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A session of some processes and of all that they start: a bit for each process, which forks hand on. A process id
 * that is used again belongs to whoever has started that process.
 */
#include <linux/bitops.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/threads.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#include "k-session.h"

#define FAMILY_BYTES (BITS_TO_LONGS(PID_MAX_LIMIT) * sizeof(unsigned long))

/* Its first thread may have ended before the others. */
static bool lives(s32 id)
{
	struct task_struct *task = pid_task(find_pid_ns(id, &init_pid_ns), PIDTYPE_TGID);

	return task && !(task->exit_state && thread_group_empty(task));
}

bool dp_k_session_lives(const struct dp_k_session *s)
{
	bool found = !s->npids;
	unsigned long id;

	rcu_read_lock();
	if (s->family)
		for (id = find_first_bit(s->family, PID_MAX_LIMIT); id < PID_MAX_LIMIT && !found;
		     id = find_next_bit(s->family, PID_MAX_LIMIT, id + 1))
			found = lives(id);
	for (u32 i = 0; !s->family && i < s->npids && !found; i++)
		found = lives(s->pids[i]);
	rcu_read_unlock();
	return found;
}

#ifdef CONFIG_TRACEPOINTS

/* The child has not run yet. */
static HIT void on_fork(void *family, struct task_struct *parent, struct task_struct *child)
{
	if (child->tgid != child->pid) /* a thread */
		return;
	if (test_bit(parent->tgid, family))
		set_bit(child->tgid, family);
	else if (test_bit(child->tgid, family))
		clear_bit(child->tgid, family);
}

static void compare(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, "sched_process_fork"))
		*(struct tracepoint **)found = tp;
}

static struct tracepoint *forks(void)
{
	struct tracepoint *found = NULL;

	for_each_kernel_tracepoint(compare, &found);
	return found;
}

static int begin(struct dp_k_session *s)
{
	struct tracepoint *tp = forks();
	unsigned long *family = tp ? vzalloc(FAMILY_BYTES) : NULL;
	int r = family ? tracepoint_probe_register(tp, on_fork, family) : tp ? -ENOMEM : -ENOENT;

	if (r) {
		vfree(family);
		return r;
	}
	s->family = family;
	WRITE_ONCE(s->npids, 1); /* hits look who they are of */
	return 0;
}

int dp_k_family_add(struct dp_k_session *s, const s32 *pids, u32 n, struct dp_error *err)
{
	int r = s->family ? 0 : begin(s);

	if (r)
		return dp_fail(err, r == -ENOMEM ? E_ARM_NOMEM : E_TRACEPOINT_NONE, "sched_process_fork (%d)", r);
	for (u32 i = 0; i < n; i++)
		if (pids[i] > 0 && pids[i] < PID_MAX_LIMIT)
			set_bit(pids[i], s->family);
	return 0;
}

void dp_k_family_end(struct dp_k_session *s)
{
	if (!s->family)
		return;
	tracepoint_probe_unregister(forks(), on_fork, s->family);
	tracepoint_synchronize_unregister();
	vfree(s->family);
	s->family = NULL;
}

#else

int dp_k_family_add(struct dp_k_session *s, const s32 *pids, u32 n, struct dp_error *err)
{
	return dp_fail(err, E_TRACEPOINT_NONE, "this kernel has no tracepoints");
}

void dp_k_family_end(struct dp_k_session *s)
{
}

#endif
