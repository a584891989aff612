/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Sections of kernel source, and where a module begins and ends (module.h). */
#ifndef DP_COMPAT_LINUX_INIT_H
#define DP_COMPAT_LINUX_INIT_H

#include <linux/compiler.h>

#define __init
#define __exit
#define __initdata
#define __exitdata

#endif
