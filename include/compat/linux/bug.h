/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What must not be: told, with who has called. */
#ifndef DP_COMPAT_LINUX_BUG_H
#define DP_COMPAT_LINUX_BUG_H

#include <linux/printk.h>
#include <stdlib.h>

#define WARN_ON(condition)                                                                  \
	({                                                                                  \
		int dp_is_bad = !!(condition);                                              \
                                                                                            \
		if (dp_is_bad) {                                                            \
			printk("WARNING: %s:%d in %s()\n", __FILE__, __LINE__, __func__);   \
			dump_stack();                                                       \
		}                                                                           \
		dp_is_bad;                                                                  \
	})
#define BUG_ON(condition)                                                                   \
	do {                                                                                \
		if (condition) {                                                            \
			printk("BUG: %s:%d in %s()\n", __FILE__, __LINE__, __func__);       \
			abort();                                                            \
		}                                                                           \
	} while (0)
#define BUG() BUG_ON(1)

#endif
