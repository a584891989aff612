/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is told of a core dump that a program has asked for: whether there is one, and where. */
#ifndef DP_CORE_TEXT_H
#define DP_CORE_TEXT_H

#include "abi/abi-record.h"

/* False: the record is not of an exit to a core dump. */
bool dp_core_text(const struct dp_rpn_head *head, char *text, size_t size);

#endif
