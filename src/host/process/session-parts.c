/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The parts of a session beside its probes at code, and the walk through them (arm-priv.h), not what they do. */
#include "host/process/arm-priv.h"

/* Calls are answered before their memory is watched, and no more once nothing is watched. */
static const struct dp_part *const parts[] = {&dp_calls_part, &dp_watch_part, &dp_pages_part, &dp_semaphores_part,
					      &dp_stretches_part};

int dp_parts_step(struct arming *a, enum dp_part_step step, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(parts) && !r; i++)
		if (parts[i]->steps[step])
			r = parts[i]->steps[step](a, err);
	return r;
}

int dp_parts_thread(struct dp_session *s, pid_t tid, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(parts) && !r; i++)
		if (parts[i]->thread)
			r = parts[i]->thread(s, tid, err);
	return r;
}

void dp_parts_end(struct dp_session *s)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(parts); i++)
		parts[i]->end(s);
}
