/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Formats that have to know all processes and events at their beginning, in a trace that processes join: it is recorded
 * in a file without a name, and shown in the format at the end.
 */
#ifndef DP_CMD_TRACE_LATER_H
#define DP_CMD_TRACE_LATER_H

#include "cmd/cmd-trace.h"
#include "run/run-report.h"

struct trace_later {
	struct dp_report report;
	int fd; /* of the recording; -1: the format is written as the trace runs */
	char path[32];
};

/* Before the trace: where its output goes is open afterwards, and the trace records. E_OUT_OPEN. */
int dp_cmd_later_begin(struct trace_later *l, struct trace *t, struct dp_error *err);
/* Behind it. E_OUT_*, E_REC_*. */
int dp_cmd_later_end(struct trace_later *l, const struct trace *t, struct dp_error *err);

#endif
