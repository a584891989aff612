/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The one place that knows which hosts there are. */
#ifndef DP_ANY_HOST_H
#define DP_ANY_HOST_H

#include "host/host.h"

/*
 * Open what a command names: command, a program to be started; else pid, a process; else, pid being 0, the kernel.
 * On errors *t has no session.
 */
int dp_tracee_open(struct dp_tracee *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		   struct dp_error *err);

#endif
