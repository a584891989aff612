/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How blocks of a recording are taken apart, and what is kept of those of probe programs. See recording-read.h. */
#ifndef DP_RECORDING_PRIV_H
#define DP_RECORDING_PRIV_H

#include <string.h>

#include "log/order.h"
#include "log/recording-read.h"

/* A block that is being taken apart; what was asked for behind its end is not there. */
struct dp_recording_cursor {
	const u8 *p;
	size_t left;
};

static inline const void *dp_recording_take(struct dp_recording_cursor *c, size_t n)
{
	const void *at = c->p;

	if (n > c->left)
		return NULL;
	c->p += n;
	c->left -= n;
	return at;
}

/* A text of that size, its NUL included. NULL: it is none. */
static inline const char *dp_recording_take_long(struct dp_recording_cursor *c, u32 size)
{
	const char *text = size ? dp_recording_take(c, DP_ALIGN_UP((size_t)size, 8)) : NULL;

	return text && strnlen(text, size) == size - 1 ? text : NULL;
}

/* Names of events and of their fields are of the event language: formats rely on it. */
bool dp_recording_is_word(const char *text);

struct dp_recording_programs { /* begins with zeroes */
	struct dp_rpn_unit **units;
	struct dp_recording_list {
		struct dp_recording_tables_read *v;
		u32 n;
		size_t room;
	} last, now;                     /* tables of the end, and those that were told last in the second pass */
	struct dp_recording_hit *probes; /* by the index of the event; that of no program: probe is NULL */
	u32 nunits, nprobes;
	size_t units_room, probes_room;
	u64 nwords;                              /* of the tables, and that are being shown */
	struct dp_recording_tables_read printed; /* the one that was met last */
};

/* Records that wait, since older ones may follow. Begins with zeroes. */
struct dp_recording_rings {
	struct dp_order order;
	u64 *since; /* the least stamp of each block of records and all behind it, from the first one of a ring on */
	size_t n, room, at; /* of those, and the next block's */
	bool is_whole;      /* else others would follow the last one */
	u64 known, shown;   /* up to where the recorder was certain; up to where was shown */
	u64 fresh;          /* entries that are not in order yet: the last ones */
	u64 kept, moved;    /* records that have waited, and how often one was put in order */
	u64 damaged;        /* bytes of parts of rings that make no sense */
};

/* First pass: of each block in turn. False: no memory. */
bool dp_recording_note(struct dp_recording_rings *w, u64 since);
/* Behind the last block. */
void dp_recording_noted(struct dp_recording_rings *w);

/* Before the second pass. */
void dp_recording_begin_rings(struct dp_recording_rings *w, bool is_whole);
/*
 * Before the records of each block that was noted: what no older one can follow is shown. known: no record of this
 * block or behind it is older, as the recorder tells. False: enough.
 */
bool dp_recording_show_known(struct dp_recording_rings *w, u64 known, const struct dp_recording_ops *ops, void *arg);
/* A record that is true waits. False: no memory. */
bool dp_recording_keep(struct dp_recording_rings *w, u32 source, const struct dp_record *rec);
/* Behind those of a block: where too much waits, the older half is shown. False: enough. */
bool dp_recording_bound(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg);
/* Behind the last block. Returns how many are not shown, since older ones may be missing in the file. */
u64 dp_recording_show_rest(struct dp_recording_rings *w, const struct dp_recording_ops *ops, void *arg);
void dp_recording_free_rings(struct dp_recording_rings *w);

/* 0, or what is wrong: E_REC_DAMAGED or E_REC_MEMORY. */
enum dp_code dp_recording_take_program(struct dp_recording_programs *p, struct dp_recording_cursor *c);
/* *ev: what is told of the event, whose texts stay. */
enum dp_code dp_recording_take_probe(struct dp_recording_programs *p, u32 nevents, struct dp_recording_cursor *c,
				     struct dp_event_info *ev);
/* In the first pass those of the end are kept; in the second one those of an interval, and *printed is one, or NULL. */
enum dp_code dp_recording_take_tables(struct dp_recording_programs *p, u32 source, bool second,
				      struct dp_recording_cursor *c, const struct dp_recording_tables_read **printed);
void dp_recording_forget_tables(struct dp_recording_programs *p, struct dp_recording_list *l);
void dp_recording_free_programs(struct dp_recording_programs *p);

#endif
