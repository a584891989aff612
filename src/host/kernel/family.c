/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See family.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "host/kernel/family.h"

#define LOOKS 8

static int send_some(int fd, const pid_t *pids, u32 n, struct dp_error *err)
{
	struct dp_dev_error told = {.column = -1};
	struct dp_dev_follow follow = {.error = (u64)&told, .pids = (u64)pids, .npids = n};

	return ioctl(fd, DP_DEV_FOLLOW, &follow) ? dp_kernel_refused(&told, errno, err) : 0;
}

/*
 * Whom the processes start from now on is known to the module, whom they have started is not: until a look finds nobody
 * more, since those that it finds may have started others meanwhile.
 */
int dp_family_send(int fd, const struct dp_session_options *opt, struct dp_error *err)
{
	int r = send_some(fd, opt->only, opt->nonly, err);
	u32 before = 0, n = 1;

	for (int turn = 0; !r && n > before && turn < LOOKS; turn++) {
		pid_t *below = NULL;

		before = turn ? n : 0;
		n = opt->below(opt->only, opt->nonly, &below);
		if (n)
			r = send_some(fd, below, n, err);
		free(below);
	}
	return r;
}

bool dp_family_lives(int fd)
{
	struct dp_dev_follow question = {.npids = 0};

	return ioctl(fd, DP_DEV_FOLLOW, &question) || question.live;
}
