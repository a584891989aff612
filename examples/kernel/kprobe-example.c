// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Counts how often a function of the kernel is entered, and tells when it is unloaded. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "dprobes/kernel.h"

static char *symbol = "kernel_clone";
module_param(symbol, charp, 0400);

static DEFINE_PER_CPU(unsigned long, entered);

static int on_entry(struct dp_kprobe *p, struct pt_regs *regs)
{
	this_cpu_inc(entered);
	return 0;
}

static struct dp_kprobe kp = {.pre_handler = on_entry};

static int __init example_init(void)
{
	int r;

	kp.symbol_name = symbol;
	r = dp_register_kprobe(&kp);
	if (r)
		pr_err("%s cannot be probed: %s (%d)\n", symbol, kp.refusal, r);
	else
		pr_info("probe at %pS\n", kp.addr);
	return r;
}

static void __exit example_exit(void)
{
	unsigned long n = 0;
	int cpu;

	dp_unregister_kprobe(&kp);
	for_each_possible_cpu(cpu) n += *per_cpu_ptr(&entered, cpu);
	pr_info("%s was entered %lu times, %lu hits were missed\n", symbol, n, kp.nmissed);
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a kprobe");
