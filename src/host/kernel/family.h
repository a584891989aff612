/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Some processes and what they start: whose hits count in a session of the kernel. */
#ifndef DP_FAMILY_H
#define DP_FAMILY_H

#include "abi/abi-device.h"
#include "host/host.h"

/* The processes of opt->only, and what they have started and start. Before the session is armed. */
int dp_family_send(int fd, const struct dp_session_options *opt, struct dp_error *err);

/* Whether there is a process whose hits count. */
bool dp_family_lives(int fd);

/* kernel.c: the device's refusal becomes an error of ours. */
int dp_kernel_refused(const struct dp_dev_error *e, int number, struct dp_error *err);

#endif
