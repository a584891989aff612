// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Sees the arguments of a function of the kernel under their names. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/module.h>

#include "dprobes/kernel.h"

static atomic_t reads;
static atomic64_t bytes;

/* The prototype of vfs_read(). */
static ssize_t on_vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	atomic_inc(&reads);
	atomic64_add(count, &bytes);
	dp_jprobe_return();
	return 0;
}

static struct dp_jprobe jp = {.kp.symbol_name = "vfs_read", .entry = on_vfs_read};

static int __init example_init(void)
{
	int r = dp_register_jprobe(&jp);

	if (r)
		pr_err("vfs_read cannot be probed: %s (%d)\n", jp.kp.refusal, r);
	return r;
}

static void __exit example_exit(void)
{
	dp_unregister_jprobe(&jp);
	pr_info("vfs_read: %d calls for %lld bytes\n", atomic_read(&reads), atomic64_read(&bytes));
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a jprobe");
