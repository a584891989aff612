/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Budgets of probe programs: each target has a governor for all programs of one command, or, in a driver, one for each
 * program. What they have done stays with the programs when a session ends or changes.
 */
#include <stdlib.h>
#include <string.h>

#include "program/described.h"
#include "run/run-priv.h"
#include "run/run-rows.h"

struct run_governed {
	struct run_target *t;
	struct run_module *m; /* of which program; NULL: of all */
	struct dp_governor *governor;
};

static bool has_budget(const struct run_module *m)
{
	return m && m->budget && !run_is_in_kernel(m);
}

static bool has(void *arg, u32 probe)
{
	const struct run_governed *r = arg;
	const struct run_module *m = probe < r->t->nprobes ? r->t->probes[probe].m : NULL;

	return has_budget(m) && (!r->m || r->m == m);
}

/* ---- what goes together ---- */

struct named {
	const struct run_module *m;
	const char *function;
	u32 probe;
};

static const char *function_of(const struct run_probe *p)
{
	const struct dp_rpn_probe *q = &p->m->unit.probes[p->index];
	const struct dp_rf_event *e = q->rf ? q->rf->event : NULL;

	return e ? e->symbol : q->symbol;
}

static int by_function(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->m != y->m)
		return x->m < y->m ? -1 : 1;
	return strcmp(x->function, y->function);
}

/* Handlers of one function know of each other: what the one at the entry keeps, those at the exits use. */
static void join(void *arg, u32 *group)
{
	const struct run_target *t = ((const struct run_governed *)arg)->t;
	struct named *v = calloc(t->nprobes + 1ull, sizeof(*v));
	u32 n = 0;

	for (u32 i = 0; v && i < t->nprobes; i++)
		if (has(arg, i) && *function_of(&t->probes[i]))
			v[n++] = (struct named){t->probes[i].m, function_of(&t->probes[i]), i};
	if (v)
		qsort(v, n, sizeof(*v), by_function);
	for (u32 i = 1; i < n; i++)
		if (!by_function(&v[i - 1], &v[i]))
			dp_groups_join(group, v[i].probe, v[i - 1].probe);
	free(v);
}

/* ---- governors ---- */

/* As the scans have found them. */
static u32 processes(void *arg, pid_t **pids)
{
	const struct run_target *t = ((const struct run_governed *)arg)->t;

	*pids = calloc(t->nheirs + 1ull, sizeof(**pids));
	if (!*pids)
		return 0;
	(*pids)[0] = t->pid;
	for (u32 i = 0; i < t->nheirs; i++)
		(*pids)[i + 1] = t->heirs[i];
	return t->nheirs + 1;
}

/* The smallest of those that one governor is for. */
static u32 budget_of(const struct run_target *t, const struct run_module *m)
{
	u32 budget = 0;

	if (m)
		return m->budget;
	for (u32 i = 0; i < t->nranges; i++)
		if (has_budget(t->ranges[i].m))
			budget = budget ? DP_MIN(budget, t->ranges[i].m->budget) : t->ranges[i].m->budget;
	return budget;
}

static void add_governor(struct dp_run *run, struct run_target *t, struct run_module *m)
{
	struct run_governed *r = &t->governed[t->ngoverned];
	u32 budget = budget_of(t, m);

	*r = (struct run_governed){.t = t, .m = m};
	if (!budget)
		return;
	r->governor = dp_governor_new(&(struct dp_govern_setup){.budget = budget,
								.tracee = t->session,
								.reader = t->reader,
								.has = has,
								.join = join,
								.processes = processes,
								.arg = r,
								.note = run->note,
								.note_arg = run->note_arg});
	t->ngoverned += r->governor != NULL;
}

static void begin(struct dp_run *run, struct run_target *t)
{
	t->governed = calloc(t->nranges + 1ull, sizeof(*t->governed));
	if (!t->governed)
		return;
	if (!run->log) {
		add_governor(run, t, NULL);
		return;
	}
	for (u32 i = 0; i < t->nranges; i++)
		if (!t->ranges[i].left_out && has_budget(t->ranges[i].m))
			add_governor(run, t, t->ranges[i].m);
}

void dp_run_govern_target(struct run_target *t)
{
	for (u32 i = 0; i < t->ngoverned; i++)
		dp_governor_turn(t->governed[i].governor);
}

void dp_run_govern(struct dp_run *run)
{
	for (struct run_target *t = run->targets; t; t = t->next) {
		if (!t->session || !t->pid || !t->reader)
			continue;
		if (!t->governed && run->scan_due_ns) /* a scan has found those that had inherited adopted probes */
			begin(run, t);
		dp_run_govern_target(t);
	}
}

static void fold(struct run_target *t, const struct dp_governor *g)
{
	for (u32 i = 0; i < t->nprobes; i++) {
		const struct run_probe *p = &t->probes[i];

		if (p->m)
			dp_governor_add(g, i, &p->m->governed[p->index]);
	}
}

void dp_run_end_governors(struct dp_run *run, struct run_target *t)
{
	for (u32 i = 0; i < t->ngoverned; i++) {
		dp_governor_end(t->governed[i].governor);
		fold(t, t->governed[i].governor);
		dp_governor_add_cost(t->governed[i].governor, &run->governed);
		dp_governor_free(t->governed[i].governor);
	}
	free(t->governed);
	t->governed = NULL;
	t->ngoverned = 0;
}

void dp_run_withdraw(struct dp_run *run, struct run_target *t)
{
	if (!t->session || t->is_withdrawn)
		return;
	t->is_withdrawn = true;
	dp_run_tell_kernel(run, t, true);
	dp_run_note_how(t);
	dp_run_end_governors(run, t);
	run->left_in += dp_tracee_remove(t->session, NULL) != 0;
}

/* ---- what is told of it ---- */

bool dp_run_is_out(const struct run_target *t, u32 probe)
{
	bool out = false;

	for (u32 i = 0; i < t->ngoverned; i++)
		out |= dp_governor_is_out(t->governed[i].governor, probe);
	return out;
}

void dp_run_governed(const struct dp_run *run, const struct run_module *m, u32 index, struct dp_governed *sum)
{
	*sum = m->governed[index];
	for (const struct run_target *t = run->targets; t; t = t->next) {
		u32 i = t->ngoverned ? dp_run_probe_of(t, m, index) : t->nprobes;

		for (u32 k = 0; i < t->nprobes && k < t->ngoverned; k++)
			dp_governor_add(t->governed[k].governor, i, sum);
	}
}

u32 dp_run_count_taken_out(const struct dp_run *run, const struct run_module *m)
{
	u32 n = 0;

	for (u32 i = 0; m->budget && i < m->unit.nprobes; i++) {
		struct dp_governed sum;

		dp_run_governed(run, m, i, &sum);
		n += sum.times > 0;
	}
	return n;
}

void dp_run_govern_cost(const struct dp_run *run, struct dp_govern_cost *sum)
{
	*sum = run->governed;
	for (const struct run_target *t = run->targets; t; t = t->next)
		for (u32 i = 0; i < t->ngoverned; i++)
			dp_governor_add_cost(t->governed[i].governor, sum);
}

void dp_run_set_note(struct dp_run *run, void (*note)(void *arg, const char *text), void *arg)
{
	run->note = note;
	run->note_arg = arg;
}
