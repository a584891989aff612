/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of a recording that come as rings have them, and are shown in the order of their stamps. The first pass has
 * seen the least stamp of each block, so it is known which older ones are still to come. Of a file that was not ended
 * only so much is shown as was certain when it was written. A file that lies costs no more memory than another one.
 */
#include <stdlib.h>

#include "log/recording-priv.h"

#define WAIT_MAX (64u << 20) /* bytes: more than the fastest recorder writes while a record waits for older ones */
#define MOVES 256u           /* of a record, on average; those that a recorder has written take one for each ring */
#define MOVES_FREE (1u << 20)

/*
 * A file may be such that each of its records has to be put in front of all that wait. Then order is made when many are
 * new, so that the work for each stays small, and what comes out meanwhile is not in order.
 */
static bool is_too_much(const struct dp_recording_rings *w)
{
	const struct dp_order_batch *b = &w->order.batch;

	return w->moved > w->kept * MOVES + MOVES_FREE && w->fresh < (b->n - b->first) / 4;
}

static void arrange(struct dp_recording_rings *w)
{
	if (is_too_much(w))
		return;
	w->moved += dp_order_arrange(&w->order, w->order.batch.n - w->fresh);
	w->fresh = 0;
}

static bool show(struct dp_recording_rings *w, u64 until, const struct dp_recording_ops *ops, void *arg)
{
	const struct dp_record *rec;
	bool more = true;

	while (more && (rec = dp_order_next(&w->order, until)))
		more = ops->record(arg, dp_order_last(&w->order)->from, rec);
	w->damaged += dp_order_close_up(&w->order); /* no memory */
	w->fresh = DP_MIN(w->fresh, w->order.batch.n - w->order.batch.first);
	return more;
}

/* ---- the first pass ---- */

bool dp_recording_note(struct dp_recording_rings *w, u64 since)
{
	if (!dp_grow((void **)&w->since, &w->room, w->n, sizeof(*w->since)))
		return false;
	w->since[w->n++] = since;
	return true;
}

/* Of each block and all behind it. */
void dp_recording_noted(struct dp_recording_rings *w)
{
	for (size_t i = w->n; i-- > 1;)
		w->since[i - 1] = DP_MIN(w->since[i - 1], w->since[i]);
}

/* ---- the second one ---- */

bool dp_recording_show_known(struct dp_recording_rings *w, u64 known, const struct dp_recording_ops *ops, void *arg)
{
	u64 until = w->at < w->n ? w->since[w->at++] : 0; /* the file has grown meanwhile: nothing is known */

	w->known = DP_MAX(w->known, known);
	if (!w->is_whole)
		until = DP_MIN(until, known);
	if (until <= w->shown)
		return true;
	w->shown = until;
	arrange(w);
	return show(w, until, ops, arg);
}

bool dp_recording_keep(struct dp_recording_rings *w, u32 source, const struct dp_record *rec)
{
	u8 *to = dp_order_room(&w->order, rec->len);

	if (!to)
		return false;
	memcpy(to, rec, rec->len);
	if (!dp_order_add(&w->order, 0, rec->len, rec->tsc, 0, source))
		return false;
	w->fresh++;
	w->kept++;
	return true;
}

bool dp_recording_bound(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg)
{
	const struct dp_order_batch *b = &w->order.batch;

	if (b->used - b->gone <= WAIT_MAX)
		return true;
	arrange(w);
	return show(w, b->index[b->first + (b->n - b->first) / 2].stamp, ops, arg);
}

u64 dp_recording_show_rest(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg)
{
	arrange(w);
	if (!show(w, w->is_whole ? ~(u64)0 : w->known, ops, arg))
		return 0;
	return w->order.batch.n - w->order.batch.first;
}

void dp_recording_begin_rings(struct dp_recording_rings *w, bool is_whole)
{
	dp_order_free(&w->order);
	*w = (struct dp_recording_rings){.since = w->since, .n = w->n, .room = w->room, .is_whole = is_whole};
}

void dp_recording_free_rings(struct dp_recording_rings *w)
{
	dp_order_free(&w->order);
	free(w->since);
}
