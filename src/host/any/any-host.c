/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Chooses the host of a target. */
#include "host/any/any-host.h"
#include "host/kernel/kernel.h"
#include "host/process/process.h"

int dp_tracee_open(struct dp_tracee *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		   struct dp_error *err)
{
	struct dp_session *process = NULL;
	struct dp_kernel *kernel = NULL;
	int r;

	*t = (struct dp_tracee){.ops = pid || command ? &dp_process_ops : &dp_kernel_ops};
	if (command)
		r = dp_session_spawn(&process, command, opt, err);
	else
		r = pid ? dp_session_new(&process, pid, opt, err) : dp_kernel_open(&kernel, opt, err);
	if (!r)
		t->session = process ? (void *)process : (void *)kernel;
	return r;
}
