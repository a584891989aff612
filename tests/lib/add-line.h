/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For tests and benchmarks: add an event to a session by its text. */
#ifndef DP_TEST_ADD_LINE_H
#define DP_TEST_ADD_LINE_H

#include "host/process/process.h"

static inline int add_line(struct dp_session *s, const char *text, struct dp_error *err)
{
	struct dp_event_line *line;
	int r = dp_event_read(&line, text, false, err);

	if (!r)
		r = dp_session_add(s, line, err);
	dp_event_line_free(line);
	return r;
}

#endif
