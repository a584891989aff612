/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See recording-table.h: open addressing, half of it free. */
#include "log/recording-table.h"

#define FIRST 1024u
#define LARGEST (1u << 28)

static u32 place(const struct dp_recording_table *t, u64 what, u32 source)
{
	u64 mixed = (what ^ (u64)source << 40) * 0x9e3779b97f4a7c15ull;
	u32 i = (u32)(mixed >> 32) & (t->room - 1);

	while (t->v[i].value && (t->v[i].what != what || t->v[i].source != source))
		i = (i + 1) & (t->room - 1);
	return i;
}

bool dp_recording_find(const struct dp_recording_table *t, u64 what, u32 source, u32 *value)
{
	u32 i = t->room ? place(t, what, source) : 0;

	if (!t->room || !t->v[i].value)
		return false;
	*value = t->v[i].value - 1;
	return true;
}

static bool grow(struct dp_recording_table *t)
{
	struct dp_recording_table more = {.room = t->room ? t->room * 2 : FIRST};

	if (t->n * 2 < t->room)
		return true;
	if (t->room >= LARGEST)
		return false;
	more.v = dp_alloc(more.room * sizeof(*more.v));
	if (!more.v)
		return false;
	for (u32 i = 0; i < t->room; i++)
		if (t->v[i].value)
			more.v[place(&more, t->v[i].what, t->v[i].source)] = t->v[i];
	more.n = t->n;
	dp_free(t->v);
	*t = more;
	return true;
}

bool dp_recording_add(struct dp_recording_table *t, u64 what, u32 source, u32 value)
{
	if (!grow(t))
		return false;
	t->v[place(t, what, source)] = (struct dp_recording_key){what, source, value + 1};
	t->n++;
	return true;
}

void dp_recording_table_free(struct dp_recording_table *t)
{
	dp_free(t->v);
	*t = (struct dp_recording_table){0};
}
