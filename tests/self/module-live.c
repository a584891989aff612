/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A probe module for a running process: it multiplies what sleeper's count() is given, so that the program notices. */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int handler(struct kprobe *p, struct pt_regs *regs)
{
	regs->di = 1000;
	return 0;
}

static struct kprobe kp = {.symbol_name = "exe:count", .pre_handler = handler};

static int __init live_init(void)
{
	return register_kprobe(&kp);
}

static void __exit live_exit(void)
{
	unregister_kprobe(&kp);
}

module_init(live_init);
module_exit(live_exit);
MODULE_LICENSE("Dual MIT/GPL");
