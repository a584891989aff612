// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * debugfs dprobes/hooks/HOOK/EXIT: one file for each registered exit, which shows whether it is
 * armed, and takes 0 and 1 where its record allows that; and dprobes/hook_list, the same as a
 * table.
 */
#include <linux/debugfs.h>
#include <linux/list.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "k-hooks.h"
#include "kernel-priv.h"

struct hook_dir {
	struct list_head list;
	struct hook *hook;
	struct dentry *dir;
	u32 files;
};

struct exit_file {
	struct list_head list;
	struct hook_rec *rec;
	struct hook_dir *dir;
	struct dentry *file;
};

static DEFINE_MUTEX(lock); /* protects the lists; nobody waits for users of files with it */
static LIST_HEAD(dirs);
static LIST_HEAD(files);
static struct dentry *top;

static ssize_t armed_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	const struct hook_rec *rec = file_inode(f)->i_private;
	char text[] = {READ_ONCE(rec->flags) & HOOK_ARMED ? '1' : '0', '\n'};

	return simple_read_from_buffer(buf, n, pos, text, sizeof(text));
}

static ssize_t armed_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	struct hook_rec *rec = file_inode(f)->i_private;
	bool on;
	int r = rec->writable ? kstrtobool_from_user(buf, n, &on) : -EPERM;

	if (!r)
		r = on ? hook_exit_arm(rec) : hook_exit_disarm(rec);
	return r ? r : n;
}

static const struct file_operations armed_fops = {
    .owner = THIS_MODULE, .read = armed_read, .write = armed_write, .llseek = default_llseek};

static struct hook_dir *dir_of(struct hook *hook)
{
	struct hook_dir *d;

	list_for_each_entry(d, &dirs, list)
		if (d->hook == hook)
			return d;
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return NULL;
	d->hook = hook;
	d->dir = debugfs_create_dir(hook->name, top);
	list_add_tail(&d->list, &dirs);
	return d;
}

/* Without memory there is no file: the exit works all the same. */
void dp_k_hook_file_add(struct hook *hook, struct hook_rec *rec)
{
	struct exit_file *e = kzalloc(sizeof(*e), GFP_KERNEL);
	char name[64];

	mutex_lock(&lock);
	if (e)
		e->dir = dir_of(hook);
	if (!e || !e->dir) {
		mutex_unlock(&lock);
		kfree(e);
		return;
	}
	snprintf(name, sizeof(name), rec->name ? "%s" : "%ps", rec->name ?: (const char *)rec->exit);
	e->rec = rec;
	e->file = debugfs_create_file(name, rec->writable ? 0600 : 0400, e->dir->dir, rec, &armed_fops);
	e->dir->files++;
	list_add_tail(&e->list, &files);
	mutex_unlock(&lock);
}

void dp_k_hook_file_remove(struct hook_rec *rec)
{
	struct exit_file *e, *found = NULL;
	struct hook_dir *empty = NULL;

	mutex_lock(&lock);
	list_for_each_entry(e, &files, list)
		if (e->rec == rec)
			found = e;
	if (found) {
		list_del(&found->list);
		if (!--found->dir->files) {
			empty = found->dir;
			list_del(&empty->list);
		}
	}
	mutex_unlock(&lock);
	if (found)
		debugfs_remove(found->file); /* waits for who reads or writes it */
	if (empty)
		debugfs_remove(empty->dir);
	kfree(found);
	kfree(empty);
}

/* ---- the table ---- */

static u32 places_of(const struct hook *h)
{
	u32 n = !!h->place;

	for (u32 i = 0; i < dp_k_hooks.n; i++)
		n += dp_k_hooks.places[i].hook == h;
	return n;
}

/* HOOK STATE KIND PLACES (1 active, 2 open, as a sum), and a line that begins with a blank for each
 * exit: EXIT ARMED WRITABLE POSITION. */
static int hook_list_show(struct seq_file *m, void *v)
{
	mutex_lock(&dp_k_hooks_lock);
	for (const struct hook *h = dp_k_hooks.heads; h; h = h->next) {
		seq_printf(m, "%s %d %s %u\n", h->name, !!(h->flags & HOOK_ACTIVE) + 2 * !!(h->flags & HOOK_OPEN),
			   h->hit                      ? "dynamic"
			   : h->flags & HOOK_EXCLUSIVE ? "exclusive"
			   : h->flags & HOOK_ASM       ? "hook"
						       : "generic",
			   places_of(h));
		for (const struct hook_rec *r = h->exits; r; r = r->next) {
			seq_printf(m, r->name ? " %s" : " %ps", r->name ?: (const char *)r->exit);
			seq_printf(m, " %d %d %d\n", !!(r->flags & HOOK_ARMED), !!r->writable, r->position);
		}
	}
	mutex_unlock(&dp_k_hooks_lock);
	return 0;
}

static int hook_list_open(struct inode *inode, struct file *f)
{
	return single_open(f, hook_list_show, NULL);
}

/* "+HOOK" opens one: its places lead to HOOK_hook_call, for probes. "-HOOK" closes it. */
static ssize_t hook_list_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	char *text = n < 256 ? memdup_user_nul(buf, n) : ERR_PTR(-EINVAL);
	int r = -EINVAL;

	if (IS_ERR(text))
		return PTR_ERR(text);
	if (text[0] == '+' || text[0] == '-')
		r = dp_k_hook_open(strim(text + 1), text[0] == '+');
	kfree(text);
	return r ? r : n;
}

static const struct file_operations hook_list_fops = {.owner = THIS_MODULE,
						      .open = hook_list_open,
						      .read = seq_read,
						      .write = hook_list_write,
						      .llseek = seq_lseek,
						      .release = single_release};

int dp_k_hook_files_init(void)
{
	top = debugfs_create_dir("hooks", dp_k_top);
	debugfs_create_file("hook_list", 0600, dp_k_top, NULL, &hook_list_fops);
	return 0;
}

/* No exit is registered any more; debugfs.c removes what is left of the tree. */
void dp_k_hook_files_exit(void)
{
	debugfs_remove(top);
}
