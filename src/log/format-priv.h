/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the formats share: the formatter, task names. */
#ifndef DP_FORMAT_PRIV_H
#define DP_FORMAT_PRIV_H

#include "log/format.h"
#include "log/line.h"
#include "log/view.h"

#define DP_TASKS 4096 /* names kept; a power of two */

struct dp_task {
	u32 tid;
	u32 ours; /* the same thread's id as we know it, 0: not looked up */
	bool known;
	char comm[16];
	u64 looked_ns; /* when it was last looked up */
};

struct dp_formatter {
	enum dp_format format;
	FILE *out;
	struct dp_format_env env;
	struct dp_line line;
	struct dp_task *tasks; /* by the low bits of the id */
};

/* The name of the record's thread, or "<...>". */
const char *dp_task_name(struct dp_formatter *f, const struct dp_record *rec, u64 ns);
u32 dp_task_id(struct dp_formatter *f, u32 tid); /* as we know it; after dp_task_name() */

void dp_format_text(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev);
void dp_format_json(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev);

#endif
