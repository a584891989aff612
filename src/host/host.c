/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What hosts share: how they keep a program for a place beside the events of lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"

struct dp_event *dp_event_of_spec(const struct dp_probe_spec *spec)
{
	struct dp_event *ev = calloc(1, sizeof(*ev));
	u8 *code = dp_alloc(spec->program->len);

	if (!ev || !code) {
		free(ev);
		dp_free(code);
		return NULL;
	}
	ev->loc = spec->place;
	ev->is_return = spec->kind == DP_SPEC_RETURN;
	ev->is_watch = spec->kind == DP_SPEC_WATCH;
	ev->watch_len = spec->watch_len;
	ev->watch_type = spec->watch_type;
	snprintf(ev->group, sizeof(ev->group), "dprobes");
	ev->prog = *spec->program;
	ev->prog.layout = (struct dp_layout){0};
	ev->prog.code = code;
	memcpy(code, spec->program->code, spec->program->len);
	return ev;
}
