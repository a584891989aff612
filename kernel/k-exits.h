/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities that modules have registered (include/dprobes/exits.h). */
#ifndef DP_KERNEL_EXITS_H
#define DP_KERNEL_EXITS_H

#include <linux/module.h>

#include "program/program.h"

/*
 * Whether all that a verified program calls is there, and takes and gives as many words. E_EXIT_NONE, E_EXIT_SIGNATURE.
 */
int dp_k_exits_check(const struct dp_program *prog, struct dp_error *err);
/* The module is about to be freed: what it has not unregistered is taken out. */
void dp_k_exits_gone(const struct module *mod);

#endif
