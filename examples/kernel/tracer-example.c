// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A tracer on the same hooks: tells what the audit lets through, both exits armed and disarmed
 * together. It makes numbers even, too.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "hooks-example.h"

static atomic_t opened;

static int trace_opening(struct hook *h, struct pt_regs *regs, int dir, struct filename *file)
{
	atomic_inc(&opened);
	return HOOK_CONTINUE;
}

static int trace_number(struct hook *h, int *result, int *number)
{
	pr_info("%s: number %d\n", h->name, *number);
	*number &= ~1;
	return HOOK_CONTINUE;
}

static struct hook_rec opening = HOOK_EXIT(file_opening, trace_opening, .name = "tracer");
static struct hook_rec numbers = HOOK_EXIT(number_set, trace_number, .name = "tracer");
static struct hook_rec *const group[] = {&opening, &numbers};

static int set_on(const char *text, const struct kernel_param *param)
{
	bool on;
	int r = kstrtobool(text, &on);

	if (r)
		return r;
	return on ? hook_exits_arm((struct hook_rec **)group, 2)
		  : hook_exits_disarm((struct hook_rec **)group, 2);
}

static const struct kernel_param_ops on_ops = {.set = set_on};
module_param_cb(on, &on_ops, NULL, 0200);

static int __init example_init(void)
{
	int r = hook_exit_register(&file_opening, &opening);

	if (r)
		return r;
	r = hook_exit_register(&number_set, &numbers);
	if (r)
		hook_exit_deregister(&opening);
	return r;
}

static void __exit example_exit(void)
{
	hook_exit_deregister(&opening);
	hook_exit_deregister(&numbers);
	pr_info("%d files\n", atomic_read(&opened));
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a tracer made of hooks");
