/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of a recording that come as rings have them, and are shown in the order of their stamps. A recorder tells up
 * to where order is certain; a file that never does costs no more memory than one that does.
 */
#include "log/recording-priv.h"

#define WAIT_MAX (64u << 20) /* bytes: more than the fastest recorder writes while a record waits for older ones */

bool dp_recording_show_known(struct dp_recording_rings *w, u64 known, const struct dp_recording_ops *ops, void *arg)
{
	const struct dp_record *rec;
	bool more = true;

	while (more && (rec = dp_order_next(&w->order, known)))
		more = ops->record(arg, dp_order_last(&w->order)->from, rec);
	w->damaged += dp_order_close_up(&w->order); /* no memory */
	w->arranged = w->order.batch.n;
	return more;
}

bool dp_recording_keep(struct dp_recording_rings *w, u32 source, const struct dp_record *rec)
{
	u8 *to = dp_order_put(&w->order, rec->len, rec->tsc, 0, source);

	if (to)
		memcpy(to, rec, rec->len);
	return to;
}

bool dp_recording_arrange(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg)
{
	const struct dp_order_batch *b = &w->order.batch;

	dp_order_arrange(&w->order, w->arranged);
	w->arranged = b->n;
	if (b->used - b->gone <= WAIT_MAX)
		return true;
	return dp_recording_show_known(w, b->index[b->first + (b->n - b->first) / 2].stamp, ops, arg);
}
