/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A module's unwind information as the table that the hit path walks call chains by. Control side only. */
#ifndef DP_UNWIND_H
#define DP_UNWIND_H

#include "symbols/symbols.h"

struct dp_unwind_row;

/*
 * The rows of the module's code, sorted, from dp_module_lowest() on; code without unwind information has DP_UNWIND_END.
 * free() *table. From .eh_frame and .debug_frame; some 40 bytes of table for 100 instructions. Errors: E_ARM_NOMEM, and
 * those of reading the module.
 */
int dp_module_unwind(struct dp_module *m, struct dp_unwind_row **table, u32 *n, struct dp_error *err);

#endif
