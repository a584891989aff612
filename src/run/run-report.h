/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A recording, shown in any format of events. */
#ifndef DP_RUN_REPORT_H
#define DP_RUN_REPORT_H

#include "log/recording-read.h"
#include "run/run-output.h"

struct dp_report { /* set by the caller */
	struct dp_recording *from;
	struct dp_output out; /* open; closed by dp_report_run() */
	enum dp_format format;
	const char *path; /* of formats that are a directory */
	const struct dp_graph_options *graph;
	u64 max_events; /* 0: no limit */
	bool color;
	void (*progress)(u64 done, u64 total); /* bytes of the recording; may be NULL */

	u64 shown, lost;
};

/* E_REC_*, E_OUT_*. */
int dp_report_run(struct dp_report *r, struct dp_error *err);

#endif
