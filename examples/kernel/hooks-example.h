/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The hooks of hooks-example.ko, for modules that bring exits. */
#ifndef HOOKS_EXAMPLE_H
#define HOOKS_EXAMPLE_H

#include <linux/fs.h>

#include "dprobes/hooks.h"

/* A file is about to be opened: at the entry of the kernel's do_filp_open(), or do_file_open(). */
USE_DYNAMIC_HOOK(file_opening, int, struct filename *);
/* A number is written to /sys/module/hooks_example/parameters/number; an exit may change it, or
 * refuse it with an error. */
USE_HOOK(number_set, int *, int *);

#endif
