/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A kernel module as a shared object: its init function runs when the object is loaded (`dprobes load FILE.so --
 * COMMAND`, or `-p PID`), its exit function when it is unloaded or the program ends. All of these macros may be used
 * with and without a semicolon.
 */
#ifndef DP_COMPAT_LINUX_MODULE_H
#define DP_COMPAT_LINUX_MODULE_H

#include <errno.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <string.h>

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

/*
 * Modules of earlier kernels have functions with these names instead. The C library has an init_module() of its own.
 * One constructor of a module with several sources calls it.
 */
#define init_module dp_init_module
#define cleanup_module dp_cleanup_module
__attribute__((weak, visibility("hidden"))) int init_module(void);
__attribute__((weak, visibility("hidden"))) void cleanup_module(void);
__attribute__((weak, visibility("hidden"))) int dp_module_state; /* 1: init_module() was called, 2: it succeeded */

static void __attribute__((constructor(300), used)) dp_module_begin_old(void)
{
	int r;

	if (!init_module || dp_module_state)
		return;
	unsetenv("DPROBES_MODULE_ARGS");
	dp_module_state = 1;
	r = init_module();
	if (r)
		printk("%s: init failed: %s\n", __FILE__, strerror(r < 0 ? -r : r));
	else
		dp_module_state = 2;
}

static void __attribute__((destructor(300), used)) dp_module_end_old(void)
{
	if (cleanup_module && dp_module_state == 2)
		cleanup_module();
	dp_module_state = 1;
}

#endif
