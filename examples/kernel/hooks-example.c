// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Two hooks: one that this module passes itself, and one in a function of the kernel, which knows
 * nothing of it. audit-example.ko and tracer-example.ko bring exits for both.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "hooks-example.h"

DECLARE_DYNAMIC_HOOK(file_opening, int, struct filename *);
DECLARE_HOOK(number_set, int *, int *);

static int number;

static int set_number(const char *text, const struct kernel_param *param)
{
	int n, r = kstrtoint(text, 0, &n);

	if (r)
		return r;
	HOOK_RET(number_set, &n);
	number = n;
	return 0;
}

static const struct kernel_param_ops number_ops = {.set = set_number, .get = param_get_int};
module_param_cb(number, &number_ops, &number, 0600);

static int __init example_init(void)
{
	int r = hook_bind(&file_opening, "do_filp_open", 0);

	return r == -ENOENT ? hook_bind(&file_opening, "do_file_open", 0) : r; /* of later kernels */
}

static void __exit example_exit(void)
{
	hook_unbind(&file_opening);
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: a hook and its exits");
