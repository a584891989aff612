/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The tracepoints of the running kernel and of its modules: their names and modules by the kernel's symbols, their
 * systems by tracefs. A tracepoint that is no event has no system.
 */
#ifndef DP_TRACEPOINTS_H
#define DP_TRACEPOINTS_H

#include "base/base.h"

struct dp_tracepoint {
	char name[128], system[64];
	char module[64]; /* "": the kernel itself */
};

struct dp_tracepoints {
	struct dp_tracepoint *v; /* by system and name */
	u32 n;
	size_t room;
};

/* E_KERNEL_LOOKUP. dp_tracepoints_free() in any case. */
int dp_tracepoints_read(struct dp_tracepoints *t, struct dp_error *err);
void dp_tracepoints_free(struct dp_tracepoints *t);

/* "SYSTEM:NAME", or the name alone of one that is no event. Returns buf. */
#define DP_TRACEPOINT_TEXT 200
const char *dp_tracepoint_text(const struct dp_tracepoint *t, char buf[DP_TRACEPOINT_TEXT]);
/* The name in such a text, or in such a pattern; its system goes to `system`, cut to that size; "": it has none. */
const char *dp_tracepoint_split(const char *text, char *system, size_t size);

/* Patterns of the shell; system "": any. */
bool dp_tracepoint_matches(const struct dp_tracepoint *t, const char *system, const char *name);

/* E_TRACEPOINT_NONE, with the tracepoint or the system that is most like it. */
int dp_tracepoints_none(const struct dp_tracepoints *t, const char *system, const char *name, struct dp_error *err);

#endif
