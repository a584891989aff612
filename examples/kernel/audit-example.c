// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A small security audit: refuses to open files of a directory, and negative numbers; asked first.
 * Its exits are files below /sys/kernel/debug/dprobes/hooks, which arm and disarm them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/module.h>

#include "hooks-example.h"

static char *directory = "/tmp/secret/";
module_param(directory, charp, 0400);

static atomic_t refused;

static int audit_opening(struct hook *h, struct pt_regs *regs, int dir, struct filename *file)
{
	if (strncmp(file->name, directory, strlen(directory)))
		return HOOK_CONTINUE;
	atomic_inc(&refused);
	regs_set_return_value(regs, (unsigned long)ERR_PTR(-EACCES));
	return HOOK_RETURN;
}

static int audit_number(struct hook *h, int *result, int *number)
{
	if (*number >= 0)
		return HOOK_CONTINUE;
	atomic_inc(&refused);
	*result = -EPERM;
	return HOOK_RETURN;
}

static struct hook_rec opening = HOOK_EXIT(file_opening, audit_opening, .name = "audit",
					   .flags = HOOK_PRIORITY_FIRST, .writable = 1);
static struct hook_rec numbers = HOOK_EXIT(number_set, audit_number, .name = "audit",
					   .flags = HOOK_PRIORITY_FIRST, .writable = 1);

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
	pr_info("%d refused\n", atomic_read(&refused));
}

module_init(example_init);
module_exit(example_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sample: exits of a hook that decide");
