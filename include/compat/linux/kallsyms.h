/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Names and addresses. */
#ifndef DP_COMPAT_LINUX_KALLSYMS_H
#define DP_COMPAT_LINUX_KALLSYMS_H

#include <dprobes/kprobes.h>

#define KSYM_NAME_LEN 512
#define KSYM_SYMBOL_LEN (KSYM_NAME_LEN + 64)

/* Of this process: "function", or "module:function". Not in handlers. */
static inline unsigned long kallsyms_lookup_name(const char *name)
{
	return dp_symbol_address(name);
}

#endif
