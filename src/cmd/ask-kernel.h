/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `list`, `funcs` and `explain` for the kernel. Each returns the exit status. */
#ifndef DP_ASK_KERNEL_H
#define DP_ASK_KERNEL_H

#include "base/base.h"

/* Whether a word names something in the kernel: kernel:..., kmod(NAME):... */
bool dp_cmd_kernel_word(const char *text);

/* Takes such a word apart and returns NAME, "*" when it is empty; the module is "" for the kernel itself. */
const char *dp_cmd_kernel_split(const char *text, char *module, size_t size);

int dp_cmd_list_kernel(bool json);
/* list-tracepoints.c: `dprobes funcs 't PATTERN'`; text is the pattern. */
int dp_cmd_funcs_tracepoints(const char *text, bool json);
int dp_cmd_funcs_kernel(const char *text, bool not_jump_only, bool json);
int dp_cmd_explain_kernel(const char *text, bool json); /* what a probe there would be */

#endif
