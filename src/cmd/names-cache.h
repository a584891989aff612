/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The names of a file's functions and its source lines, kept between commands: by build-id, in dp_module_keep_in. For
 * completion, which has no time to read the symbols of a large program. What the files say is believed for that alone.
 */
#ifndef DP_NAMES_CACHE_H
#define DP_NAMES_CACHE_H

#include "symbols/symbols.h"

/* Each name that begins so, in order. Where nothing can be kept, the symbols are read each time. */
void dp_names_each(struct dp_module *m, const char *prefix, void (*take)(void *arg, const char *name), void *arg);

/*
 * Each source line with code that begins so, as NAME.c:LINE without directories, in the order of its letters. With
 * `quick` only what is kept, or is read in no time. Where neither holds, nothing.
 */
void dp_lines_each(struct dp_module *m, const char *prefix, bool quick, void (*take)(void *arg, const char *line),
		   void *arg);

#endif
