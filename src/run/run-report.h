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

/* ---- for those who show it ---- */

/* A process of the recording, and what is known there: as formats ask for it. */
struct dp_report_source {
	const struct dp_recording *from;
	u32 source; /* ~0: none yet */
};
bool dp_report_symbolize(void *source, u64 addr, char *buf, size_t size);
bool dp_report_code_file(void *source, u64 addr, struct dp_code_file *file);
bool dp_report_name_thread(void *source, u32 *tid, char comm[16]);
u32 dp_report_pid(const struct dp_report_source *s); /* 0: the kernel, or not known */

/* Of lines that were compiled: run-report-programs.c */
int dp_report_check_programs(const struct dp_report *r, struct dp_error *err); /* E_REC_FORMAT */
void dp_report_program_head(struct dp_report *r, struct dp_formatter *f);
void dp_report_program(struct dp_report *r, struct dp_formatter *f, struct dp_report_source *at,
		       const struct dp_record *rec);
void dp_report_printed(struct dp_report *r, struct dp_formatter *f, const struct dp_recording_tables_read *t);
/* All tables together: of a moment while it was recorded, and of the end. */
void dp_report_interval(struct dp_report *r, struct dp_formatter *f, u64 ns, const struct dp_recording_tables_read *v,
			u32 n);
void dp_report_tables(struct dp_report *r, struct dp_formatter *f);

/* E_REC_*, E_OUT_*. */
int dp_report_run(struct dp_report *r, struct dp_error *err);

#endif
