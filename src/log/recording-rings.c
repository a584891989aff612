/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of a recording that come as rings have them, and are shown in the order of their stamps. A recorder tells up
 * to where order is certain; a file that never does costs no more memory than one that does.
 */
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

bool dp_recording_show_known(struct dp_recording_rings *w, u64 known, const struct dp_recording_ops *ops, void *arg)
{
	if (known <= w->known)
		return true;
	w->known = known;
	arrange(w);
	return show(w, known, ops, arg);
}

bool dp_recording_keep(struct dp_recording_rings *w, u32 source, const struct dp_record *rec)
{
	u8 *to = dp_order_put(&w->order, rec->len, rec->tsc, 0, source);

	if (!to)
		return false;
	memcpy(to, rec, rec->len);
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

void dp_recording_show_rest(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg)
{
	arrange(w);
	show(w, ~(u64)0, ops, arg);
}
