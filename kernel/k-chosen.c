// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Which hits of the event files count at all: tracing_on, and set_event_pid, which names threads. A hit reads one flag
 * where neither says anything.
 */
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>

#include "k-event.h"

#define MOST_PIDS 4096

struct pids {
	struct rcu_head rcu;
	u32 n;
	s32 v[]; /* in order */
};

bool dp_k_choosy;
static bool tracing = true;
static struct pids __rcu *chosen; /* NULL: all; written under dp_k_events_lock */

/* Preemption is off: what is read here lives until the grace period behind it. */
HIT bool dp_k_wanted(void)
{
	const struct pids *p = rcu_dereference_sched(chosen);

	return READ_ONCE(tracing) && (!p || dp_k_among(p->v, p->n, current->pid));
}

static void update(void)
{
	WRITE_ONCE(dp_k_choosy, !tracing || rcu_access_pointer(chosen));
}

static struct pids *now(void)
{
	return rcu_dereference_protected(chosen, lockdep_is_held(&dp_k_events_lock));
}

static void set(struct pids *p)
{
	struct pids *old = now();

	rcu_assign_pointer(chosen, p);
	update();
	if (old)
		kfree_rcu(old, rcu);
}

/* ---- tracing_on ---- */

static int tracing_set(void *data, u64 v)
{
	mutex_lock(&dp_k_events_lock);
	WRITE_ONCE(tracing, v != 0);
	update();
	mutex_unlock(&dp_k_events_lock);
	return 0;
}

static int tracing_get(void *data, u64 *v)
{
	*v = tracing;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(tracing_fops, tracing_get, tracing_set, "%llu\n");

/* ---- set_event_pid ---- */

static int pids_show(struct seq_file *m, void *v)
{
	const struct pids *p;

	mutex_lock(&dp_k_events_lock);
	p = now();
	for (u32 i = 0; p && i < p->n; i++)
		seq_printf(m, "%d\n", p->v[i]);
	mutex_unlock(&dp_k_events_lock);
	return 0;
}

static int pids_open(struct inode *inode, struct file *f)
{
	if (f->f_mode & FMODE_WRITE && f->f_flags & O_TRUNC) {
		mutex_lock(&dp_k_events_lock);
		set(NULL);
		mutex_unlock(&dp_k_events_lock);
	}
	return single_open(f, pids_show, NULL);
}

/* Those of the text, added to those that are there. */
static int add(char *text)
{
	const struct pids *old = now();
	u32 n = old ? old->n : 0;
	struct pids *p;
	char *word;
	int r = 0;

	p = kzalloc(struct_size(p, v, MOST_PIDS), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	if (n)
		memcpy(p->v, old->v, n * sizeof(*p->v));
	while (!r && (word = strsep(&text, " \t\n"))) {
		if (!*word)
			continue;
		r = n == MOST_PIDS ? -E2BIG : kstrtos32(word, 10, &p->v[n]);
		if (!r && p->v[n] <= 0)
			r = -EINVAL;
		n += !r;
	}
	p->n = n;
	if (r || !n) {
		kfree(p);
		return r;
	}
	sort(p->v, n, sizeof(*p->v), dp_k_by_id, NULL);
	set(p);
	return 0;
}

static ssize_t pids_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	char *text;
	int r;

	if (n > MOST_PIDS * 12)
		return -E2BIG;
	text = memdup_user_nul(buf, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&dp_k_events_lock);
	r = add(text);
	mutex_unlock(&dp_k_events_lock);
	kfree(text);
	return r ? r : n;
}

static const struct file_operations pids_fops = {.owner = THIS_MODULE,
						 .open = pids_open,
						 .read = seq_read,
						 .write = pids_write,
						 .llseek = seq_lseek,
						 .release = single_release};

static struct dentry *files[2];

void dp_k_chosen_init(void)
{
	files[0] = debugfs_create_file("tracing_on", 0600, dp_k_top, NULL, &tracing_fops);
	files[1] = debugfs_create_file("set_event_pid", 0600, dp_k_top, NULL, &pids_fops);
}

void dp_k_chosen_exit(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(files); i++)
		debugfs_remove(files[i]);
	mutex_lock(&dp_k_events_lock);
	set(NULL);
	mutex_unlock(&dp_k_events_lock);
}
