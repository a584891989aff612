// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Two exit facilities for probe programs in the kernel: "weight" says what a number weighs (how many of its bits are
 * set) and fails for 0, "mark" counts that a probe was here.
 *
 *	call_exit 1, 1, "weight"	(number -- bits)
 *	call_exit "mark"
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/module.h>

#include <dprobes/exits.h>

static atomic_t marks;
static bool leave; /* for the tests: facilities stay registered when the module goes */
module_param(leave, bool, 0400);

static int weigh(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args, dp_exit_word *results)
{
	if (!args[0])
		return -EDOM;
	results[0] = hweight64(args[0]);
	return 0;
}

static int mark(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args, dp_exit_word *results)
{
	atomic_inc(&marks);
	return 0;
}

static struct dp_exit weight_exit = {.name = "weight", .nargs = 1, .nresults = 1, .handler = weigh};
static struct dp_exit mark_exit = {.name = "mark", .handler = mark};

static int __init example_init(void)
{
	int r = dp_register_exit(&weight_exit);

	if (r)
		return r;
	r = dp_register_exit(&mark_exit);
	if (r)
		dp_unregister_exit(&weight_exit);
	return r;
}

static void __exit example_exit(void)
{
	if (!leave) {
		dp_unregister_exit(&mark_exit);
		dp_unregister_exit(&weight_exit);
	}
	pr_info("marked %d times\n", atomic_read(&marks));
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: exit facilities for probe programs");
