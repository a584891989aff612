/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How long the name of a symbol may be. */
#ifndef DP_COMPAT_LINUX_KALLSYMS_H
#define DP_COMPAT_LINUX_KALLSYMS_H

#define KSYM_NAME_LEN 512
#define KSYM_SYMBOL_LEN (KSYM_NAME_LEN + 64)

#endif
