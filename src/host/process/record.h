/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a dprobes writes down about the processes that it probes, where none of them can write: in a directory of the
 * user's alone, one file for each session, by process id, start time and region. It is there before the process is
 * changed, so whoever comes after a dprobes that was killed knows from it what to restore, and need not believe what
 * stands in the process. Without a directory nothing is written, and what stands in the process must do (untrusted.h).
 */
#ifndef DP_RECORD_H
#define DP_RECORD_H

#include "host/process/untrusted.h"
#include "log/rings.h"

struct dp_known;
struct dp_session;

struct dp_file_id { /* 0, 0: none */
	u64 dev, inode;
};

/* ---- the session's own ---- */

/* Write all of it, as the session is now. */
void dp_record_write(struct dp_session *s);
/* The same of a session that was adopted from its record. */
void dp_record_take(struct dp_session *s, const struct dp_known *k);
/* The control block has changed, but not its tables. Before the process is. */
void dp_record_update(struct dp_session *s);
/* The rings have come since it was written, and the control block has changed, but not its tables. */
void dp_record_renew(struct dp_session *s);
/* While it is changed again and again the file may stay open. It is the session's own then, whatever has its name. */
void dp_record_keep_open(struct dp_session *s, bool open);
/* The process carries nothing any more (forget), or what it carries is left to a successor. */
void dp_record_end(struct dp_session *s, bool forget);

/* ---- what was written ---- */

struct dp_known {
	struct dp_block block;
	pid_t pid;   /* for which it was written: this process, or one from which it inherited the probes */
	pid_t owner; /* or DP_OWNER_UNSEEN */
	u64 started, owner_started;
	struct dp_file_id file;   /* behind the rings */
	struct dp_ring_map rings; /* their layout; at is NULL */
	u64 words_off;
	char path[160];
};

struct dp_knowns {
	struct dp_known *v;
	u32 n;
};

/* What is known about the probes that stand in pid, of each session. Free it. */
struct dp_knowns dp_records_of(pid_t pid);
/* The same but for the session whose region this is. Of a hundred thousand probes the tables have 20 MB. */
struct dp_knowns dp_records_of_others(pid_t pid, u64 own);
/* Else there is none, nor anybody without one: no mapping could be of a session. */
bool dp_maps_may_have_owners(const struct dp_maps *maps);
void dp_knowns_free(struct dp_knowns *k);
void dp_known_forget(const struct dp_known *k);      /* nobody carries these probes any more */
bool dp_known_owner_lives(const struct dp_known *k); /* and is another process than this one */
/* The owner that a control block names which we did not write: our id of it, 0: none that lives, or DP_OWNER_UNSEEN. */
pid_t dp_owner_of(const struct dp_control *ctl);
bool dp_owner_lives(u32 pid); /* one that we can see: another dprobes that runs */

bool dp_is_rings(const struct dp_map *map); /* by its name */
struct dp_file_id dp_map_file(const struct dp_map *map);
/* The memory file that pid has mapped at this address under the name of log rings; 0, 0 when there is none. */
struct dp_file_id dp_rings_at(pid_t pid, u64 addr);
static inline bool dp_same_file(struct dp_file_id a, struct dp_file_id b)
{
	return a.inode && a.inode == b.inode && a.dev == b.dev;
}

#endif
