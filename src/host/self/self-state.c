/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What all parts of the library's control side share, below them. */
#include <pthread.h>

#include "host/self/self-priv.h"

struct dp_manager dp_self_manager;
pthread_mutex_t dp_self_hooks_lock = PTHREAD_MUTEX_INITIALIZER;
__thread char dp_self_reason[400];

__attribute__((visibility("default"))) const char *dp_kprobe_error(void)
{
	return dp_self_reason;
}

int dp_self_fail(const struct dp_error *err, int r)
{
	const struct dp_error_info *info = dp_error_info(err->code);

	if (r && err->code)
		dp_format(dp_self_reason, sizeof(dp_self_reason), "%s: %s: %s", info->name, info->sentence,
			  err->detail);
	return r;
}
