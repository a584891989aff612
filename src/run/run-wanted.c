/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which modules' probes a process is to have: those that it maps, of those that are for it. Changes no process. */
#include <stdio.h>
#include <string.h>

#include "run/run-priv.h"

static bool named(const struct run_module *m, const char *path)
{
	const char *name = m->unit.name, *base = dp_base_name(path);
	size_t n = strlen(name);

	if (*name == '/')
		return !strcmp(path, name);
	return !strcmp(base, name) || (!strncmp(base, name, n) && !strncmp(base + n, ".so", 3));
}

static const struct dp_map *find_module(const struct dp_maps *maps, const struct run_module *m)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct dp_map *map = &maps->v[i];
		bool same_file = m->file_inode && map->inode == m->file_inode && map->dev_major == m->file_dev_major &&
				 map->dev_minor == m->file_dev_minor;

		if (map->x && map->inode && (same_file || named(m, map->path)))
			return map;
	}
	return NULL;
}

/* A module that was inserted by its name alone: now it is known which file that is. */
static void watch(struct dp_run *run, struct run_module *m, pid_t pid, const struct dp_map *map)
{
	if (!m->watched && !run->no_watch && dp_run_takes_more(run, m))
		dp_run_watch_file(run, m, dp_map_open(pid, map));
}

/* A command that has not begun is a child of ours, with libraries of its own, and calls itself so. */
static bool has_begun(const struct run_module *m, pid_t pid)
{
	char path[40], name[32] = "";
	FILE *f;

	if (!(m->flags & DP_RUN_LATER))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (f && !fgets(name, sizeof(name), f))
		*name = '\0';
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = '\0';
	return strcmp(name, DP_RUN_WAITS);
}

void dp_run_find_wanted(struct dp_run *run, const struct dp_maps *maps, pid_t pid, struct run_wanted *w)
{
	bool chosen = dp_run_has_chosen(run, pid);

	w->n = 0;
	for (struct run_module *m = run->modules; m && w->n < RUN_WANTED_MAX; m = m->next) {
		bool here = !run_is_in_kernel(m) && !m->leaving && dp_run_is_for(m, pid, chosen) && has_begun(m, pid);
		const struct dp_map *map = here ? find_module(maps, m) : NULL;

		if (!map)
			continue;
		watch(run, m, pid, map);
		w->v[w->n++] = m;
	}
}

void dp_run_find_wanted_in_kernel(struct dp_run *run, struct run_wanted *w)
{
	w->n = 0;
	for (struct run_module *m = run->modules; m && w->n < RUN_WANTED_MAX; m = m->next)
		if (run_is_in_kernel(m) && !m->leaving)
			w->v[w->n++] = m;
}

/*
 * A module that is unmapped keeps its part of the session, so that the process, which may be about to load it again, is
 * left alone now; then its probes are set anew.
 */
bool dp_run_as_wanted(struct run_target *t, const struct run_wanted *w)
{
	u32 n = 0;

	for (u32 i = 0; i < t->nranges; i++) {
		struct run_range *s = &t->ranges[i];
		bool here = dp_run_is_among(w, s->m);

		if (s->generation != s->m->generation || (here && s->stale))
			return false;
		s->stale |= !here;
		n += here;
	}
	return n == w->n;
}
