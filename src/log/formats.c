/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which formats there are, and sinks of those that can show probe programs. Others, and their libraries: format.c. */
#include <string.h>

#include "log/format.h"
#include "log/sinks.h"

static const struct {
	const char *name;
	const struct dp_sink_ops *events, *programs; /* NULL: of events only */
	bool whole;
} formats[] = {
#define DP_FORMAT(id, name, events, programs, help) {name, &events, &programs, false},
#define DP_EVENT_FORMAT(id, name, events, help) {name, NULL, NULL, false},
#define DP_WHOLE_FORMAT(id, name, sink, help) {name, NULL, NULL, true},
#include "log/formats.def"
#undef DP_WHOLE_FORMAT
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
};

bool dp_format_find(const char *name, enum dp_format *format)
{
	for (u32 i = 0; i < DP_NFORMATS; i++)
		if (!strcmp(name, formats[i].name)) {
			*format = (enum dp_format)i;
			return true;
		}
	return false;
}

const char *dp_format_name(enum dp_format format)
{
	return formats[format].name;
}

bool dp_format_is_whole(enum dp_format format)
{
	return formats[format].whole;
}

const struct dp_sink_ops *dp_format_of_programs(enum dp_format format)
{
	return formats[format].programs;
}

const struct dp_sink_ops *dp_format_of_events(enum dp_format format)
{
	return formats[format].events;
}
