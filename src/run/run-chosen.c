/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which processes a run is for, where somebody has chosen: those that were there at the start; of a tree, also what
 * they start; of a file's users, also those that come later.
 */
#include <stdlib.h>

#include "run/run-priv.h"
#include "run/run-select.h"

struct run_chosen {
	const struct dp_select *select;
	struct one {
		pid_t pid;
		u64 started;
	} * v;
	u32 n, room;
};

static void drop_ended(struct run_chosen *c)
{
	u32 n = 0;

	for (u32 i = 0; i < c->n; i++)
		if (dp_process_started(c->v[i].pid) == c->v[i].started)
			c->v[n++] = c->v[i];
	c->n = n;
}

static bool add(struct run_chosen *c, pid_t pid, u64 started)
{
	if (c->n == c->room)
		drop_ended(c);
	if (c->n == c->room) {
		u32 room = c->room * 2 + 16;
		struct one *v = realloc(c->v, room * sizeof(*v));

		if (!v)
			return false;
		c->v = v;
		c->room = room;
	}
	c->v[c->n++] = (struct one){pid, started};
	return true;
}

bool dp_run_choose(struct dp_run *run, const struct dp_select *select, const pid_t *pids, u32 n)
{
	struct run_chosen *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	c->select = select;
	run->chosen = c;
	for (u32 i = 0; i < n; i++)
		if (!add(c, pids[i], dp_process_started(pids[i])))
			return false;
	return true;
}

bool dp_run_choose_command(struct dp_run *run, const struct dp_select *select, pid_t command)
{
	run->command = command;
	return dp_run_choose(run, select, &command, 1);
}

void dp_run_narrow(struct dp_run *run, const pid_t *pids, u32 n, bool follows)
{
	run->follows = follows;
	run->only = pids;
	run->nonly = n;
}

static bool has(const struct run_chosen *c, pid_t pid, u64 started)
{
	for (u32 i = 0; i < c->n; i++)
		if (c->v[i].pid == pid && c->v[i].started == started)
			return true;
	return false;
}

bool dp_run_has_chosen(const struct dp_run *run, pid_t pid)
{
	struct run_chosen *c = run->chosen;
	u64 started = c ? dp_process_started(pid) : 0;
	pid_t parent;

	if (!c || (started && has(c, pid, started)))
		return true;
	if (!started || !dp_select_is_open(c->select))
		return false;
	if (!c->select->tree)
		return dp_select_allows(c->select, pid) && add(c, pid, started);
	parent = dp_parent_of(pid);
	return parent > 0 && has(c, parent, dp_process_started(parent)) && add(c, pid, started);
}

const struct dp_select *dp_run_users_of(const struct dp_run *run, const struct run_module *m)
{
	const struct dp_select *s = run->chosen ? run->chosen->select : NULL;

	if (!s || !s->file || s->tree || !dp_select_is_open(s) || run_is_in_kernel(m))
		return NULL;
	return m->file_inode == s->file_inode && m->file_dev_major == s->file_dev_major &&
		       m->file_dev_minor == s->file_dev_minor
		   ? NULL
		   : s;
}

bool dp_run_is_closed(const struct dp_run *run)
{
	return run->chosen && !dp_select_is_open(run->chosen->select);
}

bool dp_run_chosen_live(const struct dp_run *run)
{
	const struct run_chosen *c = run->chosen;

	for (u32 i = 0; c && i < c->n; i++)
		if (dp_process_lives(c->v[i].pid, c->v[i].started))
			return true;
	for (const struct run_target *t = run->targets; t; t = t->next)
		if (!t->pid && t->session && run->follows && dp_tracee_alive(t->session))
			return true;
	return false;
}

void dp_run_free_chosen(struct dp_run *run)
{
	if (run->chosen)
		free(run->chosen->v);
	free(run->chosen);
	run->chosen = NULL;
}
