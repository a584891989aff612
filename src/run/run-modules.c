/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is inserted: one probe program for each module name, in the order of insertion. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "run/run-priv.h"

struct run_module *dp_run_module_find(struct dp_run *run, const char *name)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		if (!strcmp(m->unit.name, name))
			return m;
	return NULL;
}

static void free_module(struct dp_run *run, struct run_module *m)
{
	dp_run_unwatch(run, m);
	dp_rpn_free(&m->unit);
	dp_run_forget_ended(m);
	free(m->done);
	free(m->how);
	free(m);
}

static void unlink_module(struct dp_run *run, struct run_module *m)
{
	struct run_module **p = &run->modules;

	while (*p && *p != m)
		p = &(*p)->next;
	if (*p)
		*p = m->next;
}

static void link_last(struct dp_run *run, struct run_module *m)
{
	struct run_module **p = &run->modules;

	while (*p)
		p = &(*p)->next;
	m->next = NULL;
	*p = m;
}

/* ---- insert ---- */

static bool same_place(const struct dp_rpn_probe *a, const struct dp_rpn_probe *b)
{
	return a->place == b->place && a->offset == b->offset && a->at_return == b->at_return &&
	       !strcmp(a->symbol, b->symbol);
}

/* The probes of `add` go into `u`, in the place of those at the same places. Variables become as
 * many as either wants. */
static int merge(struct run_module *m, struct dp_rpn_unit *add, struct dp_error *err)
{
	struct dp_rpn_unit *u = &m->unit;
	u32 most = u->nprobes + add->nprobes;
	struct dp_rpn_probe *v = realloc(u->probes, most * sizeof(*v));
	struct dp_counts *done = v ? realloc(m->done, most * sizeof(*done)) : NULL;
	struct run_how *how = done ? realloc(m->how, most * sizeof(*how)) : NULL;

	if (v)
		u->probes = v;
	if (done)
		m->done = done;
	if (how)
		m->how = how;
	if (!v || !done || !how)
		return dp_fail(err, E_RPN_MEMORY, "merge");
	for (u32 i = 0; i < add->nprobes; i++) {
		u32 k = 0;

		while (k < u->nprobes && !same_place(&v[k], &add->probes[i]))
			k++;
		if (k < u->nprobes) {
			dp_rpn_probe_free(&v[k]);
		} else {
			u->nprobes++;
		}
		v[k] = add->probes[i];
		memset(&done[k], 0, sizeof(*done));
		memset(&how[k], 0, sizeof(*how));
	}
	add->nprobes = 0; /* they have moved */
	u->nlocals = DP_MAX(u->nlocals, add->nlocals);
	u->nglobals = DP_MAX(u->nglobals, add->nglobals);
	m->generation++;
	dp_run_forget_ended(m); /* their words mean something else */
	return 0;
}

struct run_module *dp_run_module_new(struct dp_run *run, struct dp_rpn_unit *u)
{
	struct run_module *m = calloc(1, sizeof(*m));
	struct stat st;

	if (m)
		m->done = calloc(u->nprobes, sizeof(*m->done));
	if (m)
		m->how = calloc(u->nprobes, sizeof(*m->how));
	if (!m || !m->done || !m->how) {
		if (m)
			free(m->done);
		free(m);
		return NULL;
	}
	m->unit = *u;
	memset(u, 0, sizeof(*u));
	if (!run_is_in_kernel(m) && m->unit.name[0] == '/' && !stat(m->unit.name, &st)) {
		m->file_inode = st.st_ino;
		m->file_dev_major = major(st.st_dev);
		m->file_dev_minor = minor(st.st_dev);
	}
	link_last(run, m);
	return m;
}

/* Put it in everywhere. When no process takes it and one refuses, it is not inserted. */
static int apply(struct dp_run *run, struct run_module *m, FILE *out, struct dp_error *err)
{
	u32 n;

	m->left_out = 0;
	dp_run_scan(run, true);
	n = dp_run_count_targets(run, m);
	if (!n && (m->left_out || (m->pid && !(m->flags & DP_RUN_LATER)))) {
		if (!m->left_out)
			return dp_fail(err, E_MOD_NONE, "%.80s is not mapped by process %d", m->unit.name, (int)m->pid);
		*err = m->last;
		return -dp_error_info(err->code)->number;
	}
	fprintf(out, "%s: %u probe%s inserted in ", m->unit.name, m->unit.nprobes, m->unit.nprobes == 1 ? "" : "s");
	if (run_is_in_kernel(m))
		fprintf(out, "the kernel");
	else
		fprintf(out, "%u process%s", n, n == 1 ? "" : "es");
	if (m->left_out)
		fprintf(out, ", %u left out (%s: %s)", m->left_out, dp_error_info(m->last.code)->name, m->last.detail);
	fprintf(out, "%s\n", run_is_in_kernel(m) || m->pid ? "" : ", and in all that map it later");
	return 0;
}

void dp_run_drop(struct dp_run *run, struct run_module *m)
{
	dp_run_forget(run, m);
	dp_run_unsave_module(run, m);
	unlink_module(run, m);
	free_module(run, m);
}

static int insert_unit(struct dp_run *run, const struct dp_run_request *rq, struct dp_rpn_unit *u, FILE *out,
		       struct dp_error *err)
{
	struct run_module *m = dp_run_module_find(run, u->name);
	u32 n = 0;
	int r;

	if (m && rq->flags & DP_RUN_MERGE) {
		r = merge(m, u, err);
		dp_run_save_module(run, m);
		return r ? r : apply(run, m, out, err);
	}
	if (m && !(rq->flags & DP_RUN_REPLACE))
		return dp_fail(err, E_RPN_EXISTS, "%.150s", u->name);
	if (m)
		dp_run_drop(run, m);
	for (const struct run_module *o = run->modules; o; o = o->next)
		n++;
	m = n < RUN_WANTED_MAX ? dp_run_module_new(run, u) : NULL;
	if (!m)
		return dp_fail(err, E_RPN_MEMORY, "module %u", n + 1);
	m->flags = rq->flags;
	m->fields = rq->fields;
	m->pid = rq->pid;
	m->pid_started = dp_run_start_time(m->pid);
	m->number = ++run->numbers;
	if (!run_is_in_kernel(m) && m->unit.name[0] == '/')
		dp_run_watch_file(run, m, dp_open_regular(m->unit.name));
	/* Before the first process has its probes: who is killed in between must not leave any that nobody knows. */
	dp_run_save_module(run, m);
	r = apply(run, m, out, err);
	if (r)
		dp_run_drop(run, m);
	return r;
}

int dp_run_insert(struct dp_run *run, const struct dp_run_request *rq, const void *object, FILE *out,
		  struct dp_error *err)
{
	struct dp_rpn_unit u;
	int r = dp_rpn_load(&u, object, rq->object_len, err);

	if (r)
		return r;
	r = dp_run_open_sinks(run, rq->flags, err);
	if (!r && rq->flags & DP_RUN_UPROBES && (u.modtype != DP_RPN_USER || rq->pid))
		r = dp_fail(err, E_RPN_WORLD, "--uprobes for %.150s", rq->pid ? "one process" : u.name);
	if (r) {
		dp_rpn_free(&u);
		return r;
	}
	r = u.modtype == DP_RPN_USER || !rq->pid ? insert_unit(run, rq, &u, out, err)
						 : dp_fail(err, E_RPN_WORLD, "--pid %d for %.150s", rq->pid, u.name);
	dp_rpn_free(&u);
	return r;
}

/* ---- remove ---- */

int dp_run_remove(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		  struct dp_error *err)
{
	bool all = rq->flags & DP_RUN_ALL;
	struct run_module *m = all ? run->modules : dp_run_module_find(run, name);

	if (!m && !all)
		return dp_fail(err, E_RPN_NOTIN, "%.150s", name);
	for (; m; m = all ? run->modules : NULL) {
		fprintf(out, "%s: removed\n", m->unit.name);
		dp_run_drop(run, m);
	}
	if (!run->modules)
		dp_run_close_globals(run);
	return 0;
}
