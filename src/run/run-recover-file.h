/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The file that a killed recorder was writing, or one in its place: what is saved goes behind what is there. */
#ifndef DP_RUN_RECOVER_FILE_H
#define DP_RUN_RECOVER_FILE_H

#include <stdio.h>

#include "log/recording-read.h"
#include "run/run-join.h"
#include "run/run-journal.h"

struct dp_recover_file {
	const struct dp_journal_left *journal;
	struct dp_journal_point *point; /* the one that counts */
	bool keeps; /* nothing of what is behind that point stands in rings: the file is not cut there */
	bool must;  /* records exist nowhere else: where the directory is another one, the file is made where we are */
	struct dp_recording *before; /* the recording as it stands; NULL: a new file is made. To be closed */
	char path[PATH_MAX];         /* what it is called */
};

struct dp_recover_file dp_recover_file_of(const struct dp_journal_left *journal, bool must);
/* The file with what is there up to now, chunks included. NULL: none can be written, as errno says. */
FILE *dp_recover_file_begin(struct dp_recover_file *s, struct dp_join *join);
/* Closes it; records of another of the recorder's processes go behind those that are in it now. */
bool dp_recover_file_end(struct dp_recover_file *s, FILE *to);

#endif
