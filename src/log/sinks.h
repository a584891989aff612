/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The sinks of log/formats.def, for those that choose among them. */
#ifndef DP_SINKS_H
#define DP_SINKS_H

#include "log/sink.h"

#define DP_FORMAT(id, name, events, programs, help) extern const struct dp_sink_ops events, programs;
#define DP_EVENT_FORMAT(id, name, events, help) extern const struct dp_sink_ops events;
#define DP_WHOLE_FORMAT(id, name, events, help) extern const struct dp_sink_ops events;
#include "log/formats.def"
#undef DP_WHOLE_FORMAT
#undef DP_EVENT_FORMAT
#undef DP_FORMAT

#endif
