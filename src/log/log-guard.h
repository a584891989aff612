/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shared memory whose file somebody else could make shorter: an access behind its end would raise SIGBUS in us. Where
 * such memory is guarded the page is replaced by an empty one of ours, and the access goes on.
 */
#ifndef DP_LOG_GUARD_H
#define DP_LOG_GUARD_H

#include "base/base.h"

/* From now on, until it is dropped, before it is unmapped. False: no memory, and it is not guarded. */
bool dp_guard_add(const void *at, u64 size);
void dp_guard_drop(const void *at);

#endif
