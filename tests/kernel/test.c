// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The test module: runs one group of tests when it is loaded, and says "tap: done". */
#include <linux/percpu.h>
#include <linux/smp.h>

#include "test.h"

static char *group = "kprobes";
module_param(group, charp, 0400);
static int seconds = 10;
module_param(seconds, int, 0400);
static char *what = "traps,jumps,inside,returns";
module_param(what, charp, 0400);
static unsigned long lookup;
module_param(lookup, ulong, 0400);

atomic_t hits;

void settle(void)
{
	((void (*)(void))find("wait_for_kprobe_optimizer"))();
	dp_wait_for_kprobe_optimizer();
}

int count_hit(struct dp_kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}

DEFINE_PER_CPU(int, t_number);

static void number_here(void *unused)
{
	__this_cpu_write(t_number, raw_smp_processor_id());
}

unsigned long tracers_bytes(const void *function)
{
	return ((typeof(ftrace_location) *)find("ftrace_location"))((unsigned long)function);
}

unsigned long find(const char *name)
{
	return ((unsigned long (*)(const char *))lookup)(name);
}

/* echo 1 >/sys/module/dptest/parameters/loop */
static int run_loop(const char *value, const struct kernel_param *param)
{
	bench("loop");
	return 0;
}

static const struct kernel_param_ops loop_ops = {.set = run_loop};
module_param_cb(loop, &loop_ops, NULL, 0200);

static int __init test_init(void)
{
	on_each_cpu(number_here, NULL, 1);
	if (!strcmp(group, "kprobes"))
		test_kprobes();
	else if (!strcmp(group, "rules"))
		conform();
	else if (!strcmp(group, "returns"))
		test_returns();
	else if (!strcmp(group, "exits"))
		test_exits_for(seconds);
	else if (!strcmp(group, "hooks"))
		test_hooks();
	else if (!strcmp(group, "refused"))
		test_refused();
	else if (!strcmp(group, "neighbours"))
		test_neighbours();
	else if (!strcmp(group, "ftrace"))
		test_ftrace();
	else if (!strcmp(group, "watch"))
		test_watch();
	else if (!strcmp(group, "many"))
		test_many(seconds, what);
	else if (!strcmp(group, "hold"))
		test_hold(what, true);
	else if (!strcmp(group, "bench"))
		bench(what);
	pr_info("tap: done %s\n", group);
	return 0;
}

static void __exit test_exit(void)
{
	if (!strcmp(group, "hold"))
		test_hold(what, false);
}

module_init(test_init);
module_exit(test_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Tests of the kernel host");
