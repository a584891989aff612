/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The libraries that a program will map when it starts, and those that it may load later. Control side only. */
#ifndef DP_NEEDED_H
#define DP_NEEDED_H

#include "base/base.h"

/* Whether a file of that name is what the user calls so: "libc" is libc.so.6. */
bool dp_needed_is_meant(const char *file, const char *name);

/* The real path of a library that the file at `program`, or one of its libraries, needs: "libc", "libc.so.6". */
bool dp_needed_find(const char *program, const char *name, char *path, size_t size);

/* Call fn for each library until it returns true; its real path then is in path. */
bool dp_needed_each(const char *program, bool (*fn)(void *arg, const char *path), void *arg, char *path, size_t size);

struct dp_library {
	char path[4096]; /* as maps have it */
	char file[4096]; /* where it can be read */
};

/*
 * The shared object that is loaded by that name ("libssl", "libssl.so.3", or a path): of the latest version, in the
 * first of these directories that has one, then in the usual ones. root: where the directories begin, "" or
 * "/proc/PID/root".
 */
bool dp_library_find(const char *root, const char *dirs, const char *name, struct dp_library *lib);

#endif
