/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which processes a trace is for: by id, name, user, control group or a file that they map. Looks at /proc only. */
#ifndef DP_RUN_SELECT_H
#define DP_RUN_SELECT_H

#include <sys/types.h>

#include "base/error.h"

/* All that is given must hold; of several names one. What is NULL or 0 is not asked for. */
struct dp_select {
	char **names; /* process ids, names and shell patterns, as -p takes them */
	u32 nnames;
	const char *file; /* the process maps it */
	bool by_user;
	uid_t user;
	const char *comm;      /* shell pattern of the main thread's name */
	const char *cgroup;    /* path below the mount point: this directory or one below it */
	const char *container; /* the begin of its id, in the name of a directory */
	const char *unit;      /* of systemd; ".service" may be left out */
	bool tree;             /* and what they have started */

	u64 file_inode; /* filled in by dp_select_check() */
	u32 file_dev_major, file_dev_minor;
};

/* Add what stands behind a -p: ids, names and patterns, with commas between them. False: no memory. */
bool dp_select_add(struct dp_select *s, const char *list);
void dp_select_free(struct dp_select *s);

/* Whether anything is asked for, and whether processes that start later may belong to it. */
bool dp_select_any(const struct dp_select *s);
bool dp_select_is_open(const struct dp_select *s);
bool dp_select_is_file_alone(const struct dp_select *s); /* whoever maps it, now and later */

/* Whether a process is one of those, whatever it maps and whoever started it; and whether it maps the file. */
bool dp_select_allows(const struct dp_select *s, pid_t pid);
bool dp_select_maps_file(const struct dp_select *s, pid_t pid);

/* The file is there: E_FILE_OPEN. Before the others. */
int dp_select_check(struct dp_select *s, struct dp_error *err);

struct dp_pids {
	pid_t *v;
	u32 n, room;
};

/* The processes of now, in the order of their ids. None: E_SELECT_NONE, E_PROC_NONE. Free *pids in any case. */
int dp_select_find(const struct dp_select *s, struct dp_pids *pids, struct dp_error *err);
bool dp_pids_add(struct dp_pids *pids, pid_t pid); /* false: no memory */
void dp_pids_free(struct dp_pids *pids);
bool dp_pids_have(const struct dp_pids *pids, pid_t pid);

/* Whether the process runs the same file as another. */
bool dp_same_program(pid_t a, pid_t b);

pid_t dp_parent_of(pid_t pid); /* 0: it has ended */

/* The same, as a session's options want it. */
u32 dp_pids_started(const pid_t *roots, u32 n, pid_t **below);

/* What these have started and what that has started, without these themselves. False: no memory. */
bool dp_pids_below(const struct dp_pids *roots, struct dp_pids *below);

#endif
