/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is installed with a program, and the parts of it that are loaded when they are needed. A part stands alone where
 * the libraries that it needs are many and seldom needed: loading them takes longer than all else that most runs do.
 */
#ifndef DP_PART_H
#define DP_PART_H

#include "base/base.h"

/*
 * Where a file lies: `installed` is its path from the directory of the program that runs, `built` that from src/ where
 * the program runs in the directory of its build. False: it cannot be told.
 */
bool dp_own_path(const char *built, const char *installed, char *path, size_t size);

/* What a part exports, once, by this name. */
struct dp_part {
	const char *version; /* DP_VERSION: both sides share structures */
	const void *offers;
};
extern const struct dp_part dp_part_exported;

#define DP_PART(what) __attribute__((visibility("default"))) const struct dp_part dp_part_exported = {DP_VERSION, what}

/*
 * What the part dprobes-NAME.so offers; in the directory of a build it lies in src/DIR. It stays loaded. NULL: it is
 * not there, and *why tells why, until the next call. One thread at a time.
 */
const void *dp_part_load(const char *name, const char *dir, const char **why);

#endif
