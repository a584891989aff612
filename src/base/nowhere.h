/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A descriptor from which nothing comes, and to which nothing can be written. */
#ifndef DP_NOWHERE_H
#define DP_NOWHERE_H

#include "base/base.h"

/* For standard input, output and errors of what runs on its own; also in a root without /dev/null. */
int dp_open_nowhere(void);

#endif
