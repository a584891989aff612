// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Watches a variable of the kernel: counts who writes to it, and tells when it is unloaded. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "dprobes/kernel.h"

static char *symbol = "panic_timeout";
module_param(symbol, charp, 0400);

static atomic_long_t writes;
static unsigned long last_ip;

static void on_write(struct dp_kwatch *w, struct pt_regs *regs, void *addr)
{
	atomic_long_inc(&writes);
	WRITE_ONCE(last_ip, regs->ip);
}

static struct dp_kwatch watch = {.len = 4, .type = DP_KWATCH_WRITE, .handler = on_write};

static int __init example_init(void)
{
	int r;

	watch.symbol_name = symbol;
	r = dp_register_kwatch(&watch);
	if (r)
		pr_err("%s cannot be watched: %s (%d)\n", symbol, watch.refusal, r);
	else
		pr_info("watching %pS\n", watch.addr);
	return r;
}

static void __exit example_exit(void)
{
	dp_unregister_kwatch(&watch);
	pr_info("%s was written %ld times, last before %pS, %lu hits were missed\n", symbol, atomic_long_read(&writes),
		(void *)last_ip, watch.nmissed);
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a watchpoint");
