/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What hosts share: how they keep a program for a place beside the events of lines, and what came of a pattern. */
#include <errno.h>
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

int dp_matches_count(struct dp_matches *m, int r, const struct dp_error *why)
{
	if (r == -ENOMEM)
		return r;
	if (r) {
		m->left_out++;
		m->why = *why;
	} else {
		m->taken++;
	}
	return 0;
}

int dp_matches_end(const struct dp_matches *m, const char *pattern, enum dp_code none,
		   const struct dp_session_options *opt, struct dp_error *err)
{
	char note[600];

	if (!m->taken && !m->left_out)
		return dp_fail(err, none, "no function matches %.200s", pattern);
	if (!m->taken) {
		*err = m->why;
		return -dp_error_info(m->why.code)->number;
	}
	snprintf(note, sizeof(note), "%.200s: %u functions, %u left out (the last one: %s: %.200s)", pattern, m->taken,
		 m->left_out, dp_error_info(m->why.code)->name, m->why.detail);
	if (m->left_out && opt->note)
		opt->note(opt->arg, note);
	return 0;
}

u32 dp_groups_first(u32 *group, u32 probe)
{
	while (group[probe] != probe) {
		group[probe] = group[group[probe]]; /* paths become shorter */
		probe = group[probe];
	}
	return probe;
}

void dp_groups_join(u32 *group, u32 a, u32 b)
{
	a = dp_groups_first(group, a);
	b = dp_groups_first(group, b);
	group[DP_MAX(a, b)] = DP_MIN(a, b);
}
