/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Looks for processes that a running trace is to have as well. Children of a fork have inherited the probes: they are
 * recognised by the log rings that they map, and keep the member alive whose rings these are. What has begun another
 * program has lost them, and joins as a member of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/run-follow.h"
#include "symbols/symbols.h"

struct dp_tried { /* once for each program that a process runs */
	pid_t pid;
	u64 started;
	dev_t dev;
	ino_t inode;
};

static bool identify(pid_t pid, struct dp_tried *id)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	*id = (struct dp_tried){.pid = pid, .started = dp_process_started(pid)};
	if (!id->started || stat(path, &st))
		return false;
	id->dev = st.st_dev;
	id->inode = st.st_ino;
	return true;
}

/* Whether this is the first time; it is no more afterwards. */
static bool note_tried(struct dp_follow_run *f, const struct dp_tried *id)
{
	struct dp_tried *v;

	for (u32 i = 0; i < f->ntried; i++)
		if (f->tried[i].pid == id->pid) {
			bool is_new = f->tried[i].started != id->started || f->tried[i].dev != id->dev ||
				      f->tried[i].inode != id->inode;

			f->tried[i] = *id;
			return is_new;
		}
	v = realloc(f->tried, (f->ntried + 1) * sizeof(*v));
	if (!v)
		return false;
	f->tried = v;
	v[f->ntried++] = *id;
	return true;
}

/* Whether the process has probes of this trace; its member stays as long as somebody has its probes. */
static bool has_probes(struct dp_trace *t, pid_t pid)
{
	struct dp_maps maps;
	bool found = false;

	if (dp_maps_read(&maps, pid, NULL))
		return true; /* it has ended */
	for (size_t i = 0; i < maps.n; i++) {
		if (!strstr(maps.v[i].path, "dprobes-rings"))
			continue;
		for (u32 k = 0; k < t->n; k++)
			if (t->v[k]->reader && t->v[k]->rings_inode == maps.v[i].inode)
				t->v[k]->is_inherited = found = true;
	}
	dp_maps_free(&maps);
	return found;
}

static void look_at(struct dp_follow_run *f, struct dp_trace *t, pid_t pid)
{
	struct dp_tried id;

	if (has_probes(t, pid) || !identify(pid, &id) || !note_tried(f, &id))
		return;
	if (!f->join)
		f->strangers += f->has_looked;
	else if (!f->open(t, pid, f->arg))
		f->joined++;
}

static bool know(struct dp_follow_run *f, pid_t pid)
{
	if (!dp_grow((void **)&f->began, &f->room_began, f->known.n, sizeof(*f->began)))
		return false;
	f->began[f->known.n] = dp_process_started(pid);
	return dp_pids_add(&f->known, pid);
}

/* Their numbers may be those of strangers by now. */
static void drop_ended(struct dp_follow_run *f)
{
	u32 n = 0;

	for (u32 i = 0; i < f->known.n; i++) {
		if (!f->began[i] || dp_process_started(f->known.v[i]) != f->began[i])
			continue;
		f->began[n] = f->began[i];
		f->known.v[n++] = f->known.v[i];
	}
	f->known.n = n;
}

/* The trees grow by what their processes have started meanwhile. */
static void look_at_trees(struct dp_follow_run *f, struct dp_trace *t)
{
	struct dp_pids below;

	drop_ended(f);
	if (dp_pids_below(&f->known, &below))
		for (u32 i = 0; i < below.n; i++)
			know(f, below.v[i]);
	dp_pids_free(&below);
	for (u32 i = 0; i < f->known.n; i++)
		look_at(f, t, f->known.v[i]);
}

static void look_at_users_of_file(struct dp_follow_run *f, struct dp_trace *t)
{
	struct dp_pids pids;

	if (!dp_select_find(f->select, &pids, NULL))
		for (u32 i = 0; i < pids.n; i++)
			look_at(f, t, pids.v[i]);
	dp_pids_free(&pids);
}

bool dp_follow_start(struct dp_follow_run *f, const struct dp_trace *t)
{
	bool good = true;

	f->has_looked = t->started; /* a program that has not run yet has started nothing before the trace */
	for (u32 i = 0; i < t->n && good; i++) {
		pid_t pid = dp_tracee_pid(&t->v[i]->tracee);

		good = !pid || know(f, pid);
	}
	return good;
}

bool dp_follow_look(struct dp_trace *t, void *arg)
{
	struct dp_follow_run *f = arg;
	bool by_file = f->select->file && !f->select->tree && f->join;

	for (u32 i = 0; i < t->n; i++)
		t->v[i]->is_inherited = false;
	if (by_file)
		look_at_users_of_file(f, t);
	else
		look_at_trees(f, t);
	for (u32 i = 0; i < t->n && !f->join; i++)
		t->v[i]->is_inherited = false;
	f->has_looked = true;
	return by_file || (f->join && f->known.n);
}

void dp_follow_free(struct dp_follow_run *f)
{
	dp_pids_free(&f->known);
	free(f->began);
	free(f->tried);
}
