// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What root sees and switches: debugfs dprobes/kprobes/{list,enabled,blacklist} and debug_registers, the sysctl
 * debug.dprobes-optimization, and the magic key that removes every probe.
 */
#include <linux/debugfs.h>
#include <linux/kallsyms.h>
#include <linux/seq_file.h>
#include <linux/sysctl.h>
#include <linux/sysrq.h>
#include <linux/workqueue.h>

#include "kernel-priv.h"

#define KEY 'v'

struct dentry *dp_k_top;
static struct ctl_table_header *sysctls;
static bool have_key;

/* ---- list ---- */

static void show_probe(struct seq_file *m, const struct dp_registered *s)
{
	const struct dp_kprobe *kp = s->kp;

	if (s->pending)
		seq_printf(m, "%px  %c  %s+0x%x", NULL, s->type, kp->symbol_name, kp->offset);
	else if (kp->flags & DP_KPROBE_FLAG_GONE && kp->symbol_name)
		seq_printf(m, "%px  %c  %s+0x%x", kp->addr, s->type, kp->symbol_name, kp->offset);
	else
		seq_printf(m, "%px  %c  %pS", kp->addr, s->type, kp->addr);
	seq_printf(m, "%s%s%s%s%s%s\n", kp->flags & DP_KPROBE_FLAG_GONE ? "  [GONE]" : "",
		   kp->flags & DP_KPROBE_FLAG_DISABLED ? "  [DISABLED]" : "",
		   kp->flags & DP_KPROBE_FLAG_OPTIMIZED ? "  [OPTIMIZED]" : "",
		   kp->flags & DP_KPROBE_FLAG_FTRACE ? "  [FTRACE]" : "", s->pending ? "  [PENDING]" : "",
		   dp_k_is_passed_by(s) ? "  [PATCHED]" : "");
}

static void *list_start(struct seq_file *m, loff_t *pos)
{
	struct dp_registered *s;

	mutex_lock(&dp_k_lock);
	s = dp_k_kprobes.first;
	for (loff_t n = *pos; s && n; n--)
		s = s->next;
	return s;
}

static void *list_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return ((struct dp_registered *)v)->next;
}

static void list_stop(struct seq_file *m, void *v)
{
	mutex_unlock(&dp_k_lock);
}

static int list_show(struct seq_file *m, void *v)
{
	const struct dp_registered *s = v;

	if (!dp_k_unwind_is_own(s->kp))
		show_probe(m, s);
	return 0;
}

static const struct seq_operations list_sops = {
    .start = list_start, .next = list_next, .stop = list_stop, .show = list_show};
DEFINE_SEQ_ATTRIBUTE(list);

static int blacklist_show(struct seq_file *m, void *v)
{
	dp_k_blacklist_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(blacklist);

static int registers_open(struct inode *inode, struct file *f)
{
	return single_open(f, dp_k_watches_show, NULL);
}

static const struct file_operations registers_fops = {
    .owner = THIS_MODULE, .open = registers_open, .read = seq_read, .llseek = seq_lseek, .release = single_release};

/* ---- enabled ---- */

static ssize_t enabled_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	char text[] = {dp_k_manager.disarmed ? '0' : '1', '\n'};

	return simple_read_from_buffer(buf, n, pos, text, sizeof(text));
}

static ssize_t enabled_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	bool on;
	int was, r = kstrtobool_from_user(buf, n, &on);

	if (!r)
		r = dp_kprobes_knob(&dp_k_kprobes, false, on, &was);
	return r ? r : n;
}

static const struct file_operations enabled_fops = {
    .owner = THIS_MODULE, .read = enabled_read, .write = enabled_write, .llseek = default_llseek};

/* ---- sysctl ---- */

static int optimise(DP_K_CTL_TABLE *table, int write, void *buf, size_t *len, loff_t *pos)
{
	int on = !dp_k_manager.no_optimise, was, r;
	struct ctl_table t = *table;

	t.data = &on;
	r = proc_dointvec_minmax(&t, write, buf, len, pos);
	if (!r && write)
		r = dp_kprobes_knob(&dp_k_kprobes, true, on, &was);
	return r;
}

static struct ctl_table table[] = {{.procname = "dprobes-optimization",
				    .maxlen = sizeof(int),
				    .mode = 0644,
				    .proc_handler = optimise,
				    .extra1 = SYSCTL_ZERO,
				    .extra2 = SYSCTL_ONE},
				   {}}; /* where tables end with an empty entry */

/* ---- the magic key ---- */

static void remove_all(struct work_struct *w)
{
	dp_k_remove_all();
	dp_k_user_remove_all();
	dp_k_tracepoints_remove_all();
	dp_k_watches_remove_all();
	pr_info("dprobes: all probes are removed\n");
}

static DECLARE_WORK(remove_work, remove_all);

static void on_key(DP_K_SYSRQ_KEY key)
{
	schedule_work(&remove_work);
}

static const struct sysrq_key_op key_op = {
    .handler = on_key, .help_msg = "remove-probes(v)", .action_msg = "Remove all probes"};

int dp_k_debugfs_init(void)
{
	struct dentry *dir;

	dp_k_top = debugfs_create_dir("dprobes", NULL);
	dir = debugfs_create_dir("kprobes", dp_k_top);
	debugfs_create_file("list", 0400, dir, NULL, &list_fops);
	debugfs_create_file("blacklist", 0400, dir, NULL, &blacklist_fops);
	debugfs_create_file("enabled", 0600, dir, NULL, &enabled_fops);
	debugfs_create_file("debug_registers", 0400, dp_k_top, NULL, &registers_fops);
	sysctls = dp_k_register_sysctl("debug", table, 1);
	have_key = !register_sysrq_key(KEY, &key_op);
	return 0;
}

void dp_k_debugfs_exit(void)
{
	if (have_key)
		unregister_sysrq_key(KEY, &key_op);
	cancel_work_sync(&remove_work);
	if (sysctls)
		unregister_sysctl_table(sysctls);
	debugfs_remove_recursive(dp_k_top);
}
