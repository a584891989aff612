/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A probe module for a running process: it multiplies what sleeper's count() is given, so that the
 * program notices. */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int factor = 1000;
module_param(factor, int, 0444);
static char symbol[KSYM_NAME_LEN] = "exe:count";
module_param_string(symbol, symbol, KSYM_NAME_LEN, 0444);

static int handler(struct kprobe *p, struct pt_regs *regs)
{
	regs->di = (unsigned long)factor;
	return 0;
}

static struct kprobe kp = {.symbol_name = symbol, .pre_handler = handler};

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
