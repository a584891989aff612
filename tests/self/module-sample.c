/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A probe module written as for the kernel: nothing in it knows of processes. Probes of all three
 * kinds on the functions that its parameters name.
 */
#define pr_fmt(fmt) "%s: " fmt, __func__

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/slab.h>

static char symbol[NAME_MAX] = "unset";
module_param_string(symbol, symbol, sizeof(symbol), 0644);
static char *func = "unset";
module_param(func, charp, S_IRUGO);
MODULE_PARM_DESC(func, "function whose time is taken");
static int fail;
module_param(fail, int, 0);

struct my_data {
	ktime_t entry_stamp;
};

static unsigned long pre_count, post_count;

static int __kprobes handler_pre(struct kprobe *p, struct pt_regs *regs)
{
#ifdef CONFIG_X86
	if (!pre_count++)
		pr_info("<%s> ip at the probe: %d\n", p->symbol_name, regs->ip == (unsigned long)p->addr);
#endif
	return 0;
}

static void handler_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	post_count++;
}

static struct kprobe kp = {
    .symbol_name = symbol,
    .pre_handler = handler_pre,
    .post_handler = handler_post,
};

static int entry_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct my_data *data;

	if (!current->mm)
		return 1;
	data = (struct my_data *)ri->data;
	data->entry_stamp = ktime_get();
	return 0;
}

static int ret_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	unsigned long retval = regs_return_value(regs);
	struct my_data *data = (struct my_data *)ri->data;
	s64 delta = ktime_to_ns(ktime_sub(ktime_get(), data->entry_stamp));

	pr_info("[%s] %s returned %lu, time is positive: %d\n", current->comm, func, retval, delta > 0);
	return 0;
}

static struct kretprobe my_kretprobe = {
    .handler = ret_handler,
    .entry_handler = entry_handler,
    .data_size = sizeof(struct my_data),
    .maxactive = 20,
};

static long jsum(int a, int b)
{
	pr_info("a = %d, b = %d\n", a, b);
	jprobe_return();
	return 0;
}

static struct jprobe my_jprobe = {
    .entry = jsum,
    .kp =
	{
	    .symbol_name = "sum",
	},
};

static int __init sample_init(void)
{
	void *p = kzalloc(16, GFP_KERNEL);
	int ret;

	kfree(p);
	if (fail)
		return -EINVAL;
	my_kretprobe.kp.symbol_name = func;
	ret = register_kprobe(&kp);
	if (ret < 0) {
		pr_err("register_kprobe failed, returned %d\n", ret);
		return ret;
	}
	ret = register_kretprobe(&my_kretprobe);
	if (ret < 0) {
		unregister_kprobe(&kp);
		return ret;
	}
	ret = register_jprobe(&my_jprobe);
	printk(KERN_INFO "Planted: %d\n", ret);
	return ret;
}

static void __exit sample_exit(void)
{
	unregister_jprobe(&my_jprobe);
	unregister_kretprobe(&my_kretprobe);
	unregister_kprobe(&kp);
	pr_info("pre %lu, post %lu, missed %d\n", pre_count, post_count, my_kretprobe.nmissed);
}

module_init(sample_init) module_exit(sample_exit) MODULE_LICENSE("Dual MIT/GPL");
