// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Tells how long a function of the kernel took at most, and its last return value. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ktime.h>
#include <linux/module.h>

#include "dprobes/kernel.h"

static char *symbol = "kernel_clone";
module_param(symbol, charp, 0400);

static atomic64_t longest, last;

static int on_entry(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	*(ktime_t *)ri->data = ktime_get();
	return !current->mm; /* kernel threads are none of our business */
}

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	s64 ns = ktime_to_ns(ktime_sub(ktime_get(), *(ktime_t *)ri->data));

	if (ns > atomic64_read(&longest))
		atomic64_set(&longest, ns);
	atomic64_set(&last, regs_return_value(regs));
	return 0;
}

static struct dp_kretprobe rp = {
    .handler = on_return, .entry_handler = on_entry, .data_size = sizeof(ktime_t), .maxactive = 20};

static int __init example_init(void)
{
	int r;

	rp.kp.symbol_name = symbol;
	r = dp_register_kretprobe(&rp);
	if (r)
		pr_err("%s cannot be probed: %s (%d)\n", symbol, rp.kp.refusal, r);
	return r;
}

static void __exit example_exit(void)
{
	dp_unregister_kretprobe(&rp);
	pr_info("%s took %lld ns at most, returned %lld last, %d calls were missed\n", symbol,
		atomic64_read(&longest), atomic64_read(&last), rp.nmissed);
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a return probe");
