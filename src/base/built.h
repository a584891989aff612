/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How this build differs from the usual one. src/cmd/static has the other value. */
#ifndef DP_BUILT_H
#define DP_BUILT_H

#include "base/base.h"

extern const bool dp_built_static; /* one file, which loads no library */

#endif
