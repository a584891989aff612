/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a shared object defines is exported by its linker. */
#ifndef DP_COMPAT_LINUX_EXPORT_H
#define DP_COMPAT_LINUX_EXPORT_H

#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
#define THIS_MODULE NULL

#endif
