/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See tracepoints.h. Each tracepoint is a variable of the kernel, __tracepoint_NAME. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "symbols/kallsyms.h"
#include "symbols/tracepoints.h"

#define PREFIX "__tracepoint_"

static int add(const struct dp_ksym *sym, void *arg)
{
	struct dp_tracepoints *t = arg;
	struct dp_tracepoint *to;

	if (!dp_grow((void **)&t->v, &t->room, t->n, sizeof(*t->v)))
		return -ENOMEM;
	to = &t->v[t->n++];
	*to = (struct dp_tracepoint){.system = ""};
	snprintf(to->name, sizeof(to->name), "%s", sym->name + strlen(PREFIX));
	snprintf(to->module, sizeof(to->module), "%s", sym->module);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dp_tracepoint *)a)->name, ((const struct dp_tracepoint *)b)->name);
}

static int by_system(const void *a, const void *b)
{
	int r = strcmp(((const struct dp_tracepoint *)a)->system, ((const struct dp_tracepoint *)b)->system);

	return r ? r : by_name(a, b);
}

/* The events of a system that are tracepoints. */
static void add_system(struct dp_tracepoints *t, const char *events, const char *system)
{
	char path[512];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", events, system);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		struct dp_tracepoint wanted, *found;

		snprintf(wanted.name, sizeof(wanted.name), "%.127s", e->d_name);
		found = bsearch(&wanted, t->v, t->n, sizeof(*t->v), by_name);
		if (found && !found->system[0])
			snprintf(found->system, sizeof(found->system), "%.63s", system);
	}
	if (d)
		closedir(d);
}

static void add_systems(struct dp_tracepoints *t)
{
	static const char *const places[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"};
	const char *events = access(places[0], R_OK) ? places[1] : places[0];
	struct dirent *e;
	DIR *d = opendir(events);

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			add_system(t, events, e->d_name);
	if (d)
		closedir(d);
}

int dp_tracepoints_read(struct dp_tracepoints *t, struct dp_error *err)
{
	int r;

	*t = (struct dp_tracepoints){.v = NULL};
	r = dp_kallsyms_each_data(PREFIX "*", add, t, err);
	if (r == -ENOMEM)
		return dp_fail(err, E_EVENT_MEMORY, "tracepoints");
	if (r)
		return r;
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_name);
	add_systems(t);
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_system);
	return 0;
}

void dp_tracepoints_free(struct dp_tracepoints *t)
{
	free(t->v);
	*t = (struct dp_tracepoints){.v = NULL};
}

const char *dp_tracepoint_text(const struct dp_tracepoint *t, char buf[DP_TRACEPOINT_TEXT])
{
	snprintf(buf, DP_TRACEPOINT_TEXT, "%s%s%s", t->system, t->system[0] ? ":" : "", t->name);
	return buf;
}

const char *dp_tracepoint_split(const char *text, char *system, size_t size)
{
	const char *colon = strchr(text, ':');

	snprintf(system, size, "%.*s", colon ? (int)(colon - text) : 0, text);
	return colon ? colon + 1 : text;
}

bool dp_tracepoint_matches(const struct dp_tracepoint *t, const char *system, const char *name)
{
	return !fnmatch(name, t->name, 0) && (!*system || !fnmatch(system, t->system, 0));
}

int dp_tracepoints_none(const struct dp_tracepoints *t, const char *system, const char *name, struct dp_error *err)
{
	char wanted[200], known[DP_TRACEPOINT_TEXT];
	struct dp_near near = {.n = 0};

	snprintf(wanted, sizeof(wanted), "%.64s%s%.120s", system, *system ? ":" : "", name);
	for (u32 i = 0; i < t->n; i++) {
		dp_near_try(&near, wanted, *system ? dp_tracepoint_text(&t->v[i], known) : t->v[i].name);
	}
	dp_fail(err, E_TRACEPOINT_NONE, "%s", wanted);
	if (!near.n && !strncmp(name, "sys_enter_", 10))
		dp_error_hint(err, "system calls have lines of their own: s %.60s", name + 10);
	else if (!near.n && !strncmp(name, "sys_exit_", 9))
		dp_error_hint(err, "system calls have lines of their own: s %.60s", name + 9);
	else
		dp_near_hint(&near, "t ", err);
	return -dp_error_info(E_TRACEPOINT_NONE)->number;
}
