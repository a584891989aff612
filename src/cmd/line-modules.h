/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which file the place of an event line is in: in a process, in what a command will map when it starts, or in a library
 * that either may load later.
 */
#ifndef DP_LINE_MODULES_H
#define DP_LINE_MODULES_H

#include "cmd/trace-lines.h"

struct line_finder {
	const struct line_target *target;
	struct dp_process process; /* one of the target's */
	bool is_read;
	char program[4096]; /* of a command */
};

/* For a process, or (0) for what the target has in its place. E_FILE_OPEN, errors of dp_process_read(). */
bool dp_cmd_finder_open(struct line_finder *f, const struct line_target *target, pid_t pid, struct dp_error *err);
void dp_cmd_finder_close(struct line_finder *f);

/*
 * System calls of all processes, which the kernel sees: s kernel:NAME, or, with the module loaded, s NAME where no
 * process is named.
 */
bool dp_cmd_is_kernel_call(const struct line_finder *f, const struct dp_location *loc);

/* The module of the place: p's names and type. E_MOD_NONE and others. */
bool dp_cmd_find_module(struct line_finder *f, const struct dp_location *loc, struct line_program *p,
			struct dp_error *err);

/*
 * The file of a module that is not mapped, where it is written like a shared object's name and the dynamic linker finds
 * one of that name: p's names and type. p->file is empty where it is not found and the user wants to wait for it all
 * the same. False: there is nothing to wait for, and err, which says that the module is not there, may get a hint.
 */
bool dp_cmd_find_later(struct line_finder *f, const char *module, struct line_program *p, struct dp_error *err);

/* What can be done about a module that is not there, if it may be one that is loaded later. */
void dp_cmd_hint_later(const char *module, struct dp_error *err);

/* For a line that may be left out. What a pattern matches is the compiler's business. */
bool dp_cmd_file_may_have(const char *path, const struct dp_location *loc);

/* A mapped file that a user may call by that name. */
const struct dp_map *dp_cmd_map_named(const struct dp_maps *maps, const char *module);

#endif
