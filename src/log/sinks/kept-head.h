/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The part of a line that tells whose record it is: most records that follow one another have the same, and to copy it
 * takes a fraction of what it takes to make it.
 */
#ifndef DP_KEPT_HEAD_H
#define DP_KEPT_HEAD_H

#include "log/digits.h"
#include "log/sink.h"

#define DP_KEPT_HEAD 192 /* whole blocks */

struct dp_kept_head { /* begins with zeroes */
	char text[DP_KEPT_HEAD];
	u32 len; /* 0: there is none */
	u32 tid, pid, cpu;
	char task[DP_COMM_SIZE];
};

/* Puts the last one, and leaves room for a number behind it. False: it is not that of this record. */
static inline bool dp_kept_head_put(const struct dp_kept_head *k, struct dp_line *l, const struct dp_sink_record *r)
{
	const size_t room = DP_KEPT_HEAD + DP_DIGITS_ROOM;

	if (!k->len || k->tid != r->tid || k->pid != r->pid || k->cpu != r->rec->cpu ||
	    strncmp(k->task, r->task, sizeof(k->task)) != 0 || !dp_line_reserve(l, room))
		return false;
	l->n = (size_t)(dp_put_text(l->text + l->n, k->text, k->len) - l->text);
	return true;
}

/* What was put since `before` is that of this record. */
static inline void dp_kept_head_is(struct dp_kept_head *k, const struct dp_line *l, size_t before,
				   const struct dp_sink_record *r)
{
	size_t n = l->n - before, task = strlen(r->task);

	k->len = n <= sizeof(k->text) && task < sizeof(k->task) && !l->broken ? (u32)n : 0;
	if (!k->len)
		return;
	memcpy(k->text, l->text + before, k->len);
	k->tid = r->tid;
	k->pid = r->pid;
	k->cpu = r->rec->cpu;
	memcpy(k->task, r->task, task + 1);
}

#endif
