/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes of an armed session that are not in place for a while: their spots are set aside, until the next change takes
 * them out (change.c), and taken up again.
 */
#include <errno.h>
#include <string.h>

#include "host/process/session-priv.h"

static bool set_aside(struct dp_session *s, u32 probe)
{
	for (u32 i = 0; i < s->nspots; i++) {
		if (s->spots[i].owner != probe)
			continue;
		if (!dp_grow((void **)&s->idle, &s->cap_idle, s->nidle, sizeof(*s->idle)))
			return false;
		s->idle[s->nidle++] = s->spots[i];
	}
	return true;
}

static bool take_up(struct dp_session *s, u32 probe)
{
	size_t room = s->cap_spots;

	for (u32 i = 0; i < s->nidle; i++) {
		if (s->idle[i].owner != probe)
			continue;
		if (!dp_grow((void **)&s->spots, &room, s->nspots, sizeof(*s->spots)))
			return false;
		s->cap_spots = (u32)room;
		s->spots[s->nspots++] = s->idle[i];
	}
	return true;
}

void dp_session_forget_idle(struct dp_session *s)
{
	u32 n = 0;

	for (u32 i = 0; i < s->nidle; i++)
		if (dp_spot_probe(s, &s->idle[i])->paused)
			s->idle[n++] = s->idle[i];
	s->nidle = n;
}

int dp_session_pause(struct dp_session *s, u32 probe, bool pause)
{
	struct dp_probe *p = &s->probes[probe];

	if (!p->event || p->event->is_watch || p->paused == pause || p->leaving || p->fresh)
		return -EINVAL;
	if (!(pause ? set_aside(s, probe) : take_up(s, probe)))
		return -ENOMEM;
	p->paused = p->leaving = pause;
	p->fresh = p->resumed = !pause;
	return 0;
}
