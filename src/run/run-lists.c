/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The lists of a run, modules and targets, and the ranges of modules in targets: made, found and counted. Nothing here
 * touches a process.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "run/run-priv.h"
#include "run/run-select.h"
#include "run/run-trace.h"

/* ---- modules ---- */

struct run_module *dp_run_module_find(struct dp_run *run, const char *name)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		if (!strcmp(m->unit.name, name))
			return m;
	return NULL;
}

static void link_last(struct dp_run *run, struct run_module *m)
{
	struct run_module **p = &run->modules;

	while (*p)
		p = &(*p)->next;
	m->next = NULL;
	*p = m;
}

struct run_module *dp_run_module_new(struct dp_run *run, struct dp_rpn_unit *u)
{
	struct run_module *m = calloc(1, sizeof(*m));
	struct stat st;

	if (m)
		m->done = calloc(u->nprobes + 1ull, sizeof(*m->done));
	if (m)
		m->governed = calloc(u->nprobes + 1ull, sizeof(*m->governed));
	if (m)
		m->how = calloc(u->nprobes + 1ull, sizeof(*m->how));
	if (m)
		m->due = calloc(u->nbodies + 1ull, sizeof(*m->due));
	if (!m || !m->done || !m->governed || !m->how || !m->due) {
		if (m) {
			free(m->done);
			free(m->governed);
			free(m->how);
		}
		free(m);
		return NULL;
	}
	m->unit = *u;
	memset(u, 0, sizeof(*u));
	m->first_event = run->nevents;
	run->nevents += m->unit.nprobes;
	if (!run_is_in_kernel(m) && m->unit.name[0] == '/' && !stat(m->unit.name, &st)) {
		m->file_inode = st.st_ino;
		m->file_dev_major = major(st.st_dev);
		m->file_dev_minor = minor(st.st_dev);
	}
	link_last(run, m);
	return m;
}

bool dp_run_is_for(const struct run_module *m, pid_t pid, bool chosen)
{
	if (m->pid)
		return m->pid == pid && dp_process_started(pid) == m->pid_started;
	return chosen && (!m->of_users || dp_select_maps_file(m->of_users, pid));
}

bool dp_run_was_for(const struct run_module *m, pid_t pid, bool chosen)
{
	return dp_run_is_for(m, pid, chosen) || (m->pid == pid && !dp_process_started(pid));
}

bool dp_run_takes_more(const struct dp_run *run, const struct run_module *m)
{
	return m->flags & DP_RUN_LATER || (!m->pid && !dp_run_is_closed(run));
}

bool dp_run_goes_on(const struct run_module *to, const struct run_module *from)
{
	return to == from || (to->before == from && to->is_new) || (from->before == to && from->is_new);
}

u32 dp_run_count_targets(const struct dp_run *run, const struct run_module *m)
{
	u32 n = 0;

	for (const struct run_target *t = run->targets; t; t = t->next)
		for (u32 i = 0; i < t->nranges; i++)
			n += t->session && t->ranges[i].m == m && !t->ranges[i].left_out;
	return n;
}

static bool is_probe(const struct run_target *t, u32 i, const struct run_module *m, u32 index)
{
	return i < t->nprobes && t->probes[i].m == m && t->probes[i].index == index;
}

u32 dp_run_probe_of(const struct run_target *t, const struct run_module *m, u32 index)
{
	u32 i = 0;

	for (u32 k = 0; k < t->nranges; k++)
		if (t->ranges[k].m == m && index < t->ranges[k].ngates && is_probe(t, t->ranges[k].at[index], m, index))
			return t->ranges[k].at[index];
	while (i < t->nprobes && !is_probe(t, i, m, index))
		i++;
	return i;
}

void dp_run_counts(const struct dp_run *run, const struct run_module *m, u32 index, struct dp_counts *sum)
{
	*sum = m->done[index];
	for (const struct run_target *t = run->targets; t; t = t->next) {
		u32 i = t->session ? dp_run_probe_of(t, m, index) : t->nprobes;
		struct dp_counts c;

		if (i == t->nprobes)
			continue;
		dp_reader_counts(t->reader, i, &c);
		for (u32 k = 0; k < DP_NCOUNTS; k++)
			sum->v[k] += c.v[k];
	}
}

/* ---- words and probes of a module in a target ---- */

void dp_run_free_ranges(struct run_range *v, u32 n)
{
	for (u32 i = 0; v && i < n; i++)
		free(v[i].at);
	free(v);
}

bool dp_run_place_range(struct run_range *r, struct run_module *m, u32 from, bool grows)
{
	u32 locals = m->unit.nlocals, gates = m->unit.nprobes;

	*r = (struct run_range){.m = m, .generation = m->generation, .nlocals = locals, .ngates = gates};
	r->room_locals = grows && locals ? locals * 2 + 64 : locals;
	r->room_gates = grows ? gates + 16 : gates;
	r->locals = from;
	r->gates = from + r->room_locals;
	r->at = calloc(gates + 1ull, sizeof(*r->at));
	return r->at;
}

/* The module's own probes are why there is no session: the others can do without it. */
void dp_run_leave_out(struct run_range *range, pid_t pid, const struct dp_error *err)
{
	range->left_out = true;
	if (err->code == E_PROC_DEAD || err->code == E_PROC_NONE || err->code == E_TARGET_GONE)
		return; /* it has ended meanwhile: that is no refusal */
	range->m->last = *err;
	range->m->last_pid = pid;
	range->m->left_out++;
}

bool dp_run_file_of(void *arg, u64 addr, struct dp_code_file *file)
{
	const struct run_target *t = arg;

	return t->session && dp_tracee_code_file(t->session, addr, file);
}

bool dp_run_symbol_of(void *arg, u64 addr, char *buf, size_t size)
{
	struct run_target *t = arg;

	if (!t->session)
		return false;
	return dp_tracee_symbolize(t->session, addr, buf, size);
}

u64 *dp_run_read_words(struct run_target *t, u32 n)
{
	struct dp_apart apart = dp_run_apart(t);
	u64 *copy = calloc(n + 1ull, sizeof(*copy));

	for (u32 i = 0; copy && i < n; i++)
		copy[i] = dp_apart_read(dp_tracee_words(t->session) + i, apart);
	return copy;
}
