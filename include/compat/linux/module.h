/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A kernel module as a shared object: its init function runs when the object is loaded (`dprobes load FILE.so --
 * COMMAND`, or `-p PID`), its exit function when it is unloaded or the program ends. All of these macros may be used with and without a semicolon.
 */
#ifndef DP_COMPAT_LINUX_MODULE_H
#define DP_COMPAT_LINUX_MODULE_H

#include <errno.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <string.h>

#define THIS_MODULE NULL

/* A module whose init failed has nothing to undo. */
static int dp_module_failed __attribute__((unused)) = 1;

#define module_init(fn)                                                                            \
	static void __attribute__((constructor(300), used)) dp_module_begin(void)                  \
	{                                                                                          \
		int r;                                                                             \
                                                                                                   \
		unsetenv("DPROBES_MODULE_ARGS"); /* read by now; not for the program's children */ \
		r = (fn)();                                                                        \
		dp_module_failed = r;                                                              \
		if (r)                                                                             \
			printk("%s: init failed: %s\n", __FILE__, strerror(r < 0 ? -r : r));       \
	}
#define module_exit(fn)                                                        \
	static void __attribute__((destructor(300), used)) dp_module_end(void) \
	{                                                                      \
		if (!dp_module_failed)                                         \
			(fn)();                                                \
	}
#define MODULE_LICENSE(x)
#define MODULE_AUTHOR(x)
#define MODULE_DESCRIPTION(x)
#define MODULE_VERSION(x)
#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)

#endif
