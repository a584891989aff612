/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Files in dp_module_keep_in with what was found out about a module, for the next command. What is kept belongs to one
 * file, by its identity and times, to its debug file, and to one build of dprobes; it must be the user's, and nobody
 * else may write to it. It is never written to, but replaced as a whole.
 */
#ifndef DP_KEPT_H
#define DP_KEPT_H

#include <limits.h>

#include "symbols/module-priv.h"

#define KEPT_CODE ""
#define KEPT_INLINED "-inlined"

/* Whose it is: the first bytes of each such file. */
struct kept_of {
	char magic[8];                    /* of what it has */
	struct mod_file_id by, of, debug; /* dprobes, the module, and its debug file; all 0: it has none */
	char build_id[80];
};

struct kept_file { /* that is being written */
	int fd;
	char path[PATH_MAX - 16], other[PATH_MAX];
};

/* own: the module has itself what could be in a debug file. False: nothing about the module is kept. */
bool dp_kept_identify(struct dp_module *m, const char *magic, bool own, struct kept_of *out);
/* What is kept of it, of that kind (KEPT_*): its size, at least that of want; munmap() it. NULL: there is none. */
void *dp_kept_map(const struct kept_of *want, const char *kind, u64 *size);
/*
 * The module is what it was when it was opened, and neither it nor its debug file had been changed a moment before:
 * what is changed then may be changed again and have the same times, which move by ticks, or once a page for who writes
 * through a mapping.
 */
bool dp_kept_is_at_rest(const struct dp_module *m, const struct kept_of *now);
/* A new file, which is thrown away unless it is ended as a good one. */
bool dp_kept_begin(const struct kept_of *of, const char *kind, struct kept_file *file);
void dp_kept_end(struct kept_file *file, bool good);

/*
 * kept-inlined.c. A walk through all debug information notes the name of each function that is inlined, false: no
 * memory, and leaves them for the next command, which is told of a name that is not among them.
 */
bool dp_mod_note_inlined(struct mod_addrs *all, const char *name);
void dp_mod_keep_inlined(struct dp_module *m, struct mod_addrs *all); /* sorts them */
bool dp_mod_is_never_inlined(struct dp_module *m, const char *name);

#endif
