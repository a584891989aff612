// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* A module that is probed before it is loaded, and goes away under its probes. Traceable, as usual.
 */
#include <linux/module.h>

static int runs = 3;
module_param(runs, int, 0400);

int victim_calls; /* to be watched: echo 1 >/sys/module/dpvictim/parameters/work writes it */
module_param_named(work, victim_calls, int, 0200);

long victim_work(long n);

noinline __attribute__((noipa)) long victim_work(long n)
{
	barrier();
	return n * 2 + 1; /* doubled */
}

static noinline __init __attribute__((noipa)) long victim_once(long n)
{
	barrier();
	return n + 1;
}

static int __init victim_init(void)
{
	long sum = victim_once(1);

	for (int i = 0; i < runs; i++)
		sum += victim_work(i);
	return sum > 0 ? 0 : -EINVAL;
}

static void __exit victim_exit(void)
{
	victim_work(1);
}

module_init(victim_init);
module_exit(victim_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Tests: a module that is probed");
