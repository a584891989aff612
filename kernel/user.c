// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Probes of the device's sessions in user code: a file and an offset in it, in all processes that
 * map it, now and later. The kernel's uprobes stand below, since they know all mappings; the
 * programs are those of every probe. They run in the process's own context, with preemption off,
 * and read what is in memory.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/path.h>
#include <linux/slab.h>
#include <linux/uprobes.h>

#include "k-session.h"

LIST_HEAD(dp_k_user_probes); /* armed ones; under dp_k_lock */

#ifdef CONFIG_UPROBES

/* ---- the hit ---- */

static void run(struct dp_k_session_probe *p, struct pt_regs *regs, unsigned long ret_addr)
{
	struct dp_k_waiting *w = p->waits ? dp_k_waiting_new(p) : NULL;
	unsigned long ip = dp_regs_ip(regs), spare = dp_regs_spare(regs);

	if ((p->waits && !w) || !dp_k_enter()) {
		__atomic_fetch_add(&p->rp.kp.nmissed, 1, __ATOMIC_RELAXED);
		kfree(w);
		return;
	}
	if (p->is_return)
		dp_regs_spare(regs) = ret_addr; /* for `rp` */
	if (dp_k_session_wants(p))
		dp_k_run_waiting(&p->run, regs, ret_addr, w);
	else
		dp_k_pass(&p->run);
	dp_k_leave();
	if (w)
		dp_k_waiting_add(w, ip);
	/* The kernel still has the probed instruction to execute, and looks whether a system call
	 * is to be restarted. */
	dp_regs_ip(regs) = ip;
	dp_regs_spare(regs) = spare;
}

static int on_entry(struct uprobe_consumer *uc, struct pt_regs *regs DP_K_UPROBE_ARGS)
{
	run(container_of(uc, struct dp_k_session_probe, user), regs, 0);
	return 0;
}

static int on_return(struct uprobe_consumer *uc, unsigned long func, struct pt_regs *regs DP_K_UPROBE_ARGS)
{
	run(container_of(uc, struct dp_k_session_probe, user), regs, dp_regs_ip(regs));
	return 0;
}

/* ---- the control side ---- */

int dp_k_user_open(struct dp_k_session_probe *p, int fd, s64 offset, struct dp_error *err)
{
	struct fd f = fdget(fd);
	struct inode *inode = fd_file(f) ? d_real_inode(fd_file(f)->f_path.dentry) : NULL;
	int r = 0;

	if (!inode || !S_ISREG(inode->i_mode) || offset < 0 || offset >= i_size_read(inode)) {
		r = dp_fail(err, E_KERNEL_UPROBE, "%s: no such place in a file", p->place);
	} else {
		/*
		 * The inode alone would not do: the kernel's uprobes keep it, and a mount that goes before them leaves
		 * it behind.
		 */
		p->path = fd_file(f)->f_path;
		path_get(&p->path);
		p->inode = inode;
	}
	fdput(f);
	p->offset = offset;
	return r;
}

/* Not dp_k_lock: the uprobes take locks of the memory manager. */
static DEFINE_MUTEX(arming);

int dp_k_user_arm(struct dp_k_session_probe *p, struct dp_error *err)
{
	int r;

	if (p->is_return)
		p->user.ret_handler = on_return;
	else
		p->user.handler = on_entry;
	mutex_lock(&arming);
	if (p->waits && dp_k_waiting_begin(err)) {
		mutex_unlock(&arming);
		return -dp_error_info(err->code)->number;
	}
	r = dp_k_uprobe_register(&p->uprobe, p->inode, p->offset, &p->user);
	if (r && p->waits)
		dp_k_waiting_end(p);
	if (!r) {
		p->user_armed = true;
		mutex_lock(&dp_k_lock);
		list_add_tail(&p->user_list, &dp_k_user_probes);
		mutex_unlock(&dp_k_lock);
	}
	mutex_unlock(&arming);
	return r ? dp_fail(err, E_KERNEL_UPROBE, "%s (%d)", p->place, r) : 0;
}

static void take_out(struct dp_k_session_probe *p)
{
	mutex_lock(&dp_k_lock);
	list_del(&p->user_list);
	mutex_unlock(&dp_k_lock);
	dp_k_uprobe_unregister(p->uprobe, p->inode, p->offset, &p->user); /* waits for handlers that run */
	if (p->waits)
		dp_k_waiting_end(p);
	p->user_armed = false;
}

void dp_k_user_disarm(struct dp_k_session_probe *p)
{
	mutex_lock(&arming);
	if (p->user_armed)
		take_out(p);
	mutex_unlock(&arming);
}

/* Probes come onto the list and leave it with the lock that is held here. */
void dp_k_user_remove_all(void)
{
	struct dp_k_session_probe *p, *next;

	mutex_lock(&arming);
	list_for_each_entry_safe(p, next, &dp_k_user_probes, user_list)
		take_out(p);
	mutex_unlock(&arming);
}

#else

int dp_k_user_open(struct dp_k_session_probe *p, int fd, s64 offset, struct dp_error *err)
{
	return dp_fail(err, E_KERNEL_UPROBE, "this kernel has no uprobes");
}

int dp_k_user_arm(struct dp_k_session_probe *p, struct dp_error *err)
{
	return -EOPNOTSUPP;
}

void dp_k_user_disarm(struct dp_k_session_probe *p)
{
}

void dp_k_user_remove_all(void)
{
}

#endif

void dp_k_user_close(struct dp_k_session_probe *p)
{
	if (p->inode)
		path_put(&p->path);
}
