/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bodies of begin, end and timers: run here, once for each target that has the program, on the variables that its hits
 * use. Nothing of a process is looked at, and none waits.
 */
#include <stdlib.h>
#include <string.h>

#include "hit/hit-rpn.h"
#include "program/work.h"
#include "run/run-machine.h"
#include "run/run-priv.h"

struct body { /* one that runs */
	struct run_machine machine;
	struct dp_run *run;
	struct run_target *t;
	struct run_module *m;
	const struct dp_rpn_probe *p;
	u64 *locals;
	bool silent;
};

/* ---- what bodies ask for ---- */

/* Hits add to the variables of a session that goes on, not to those that are kept of one that has ended. */
static struct dp_apart apart_of(const struct body *b)
{
	volatile u64 *words = b->t->session ? dp_tracee_words(b->t->session) : NULL;

	if (!words || b->locals < words || b->locals >= words + b->t->nwords)
		return (struct dp_apart){0, 0};
	return dp_run_apart(b->t);
}

/* What has been logged so far, as a record of its own. */
static void show_record(struct body *b)
{
	struct dp_hit *h = &b->machine.hit;
	struct dp_record *rec = (struct dp_record *)b->machine.vm.record;

	rec->len = (u16)DP_ALIGN_UP(sizeof(*rec) + h->log_len, 8);
	rec->flags = (u16)h->rec_flags;
	rec->event = 0;
	rec->tid = (u32)b->t->pid;
	rec->cpu = 0;
	rec->tsc = 0;
	if (!b->silent)
		dp_run_show_body(b->run, b->t, b->m, b->p, rec);
}

static const struct dp_rpn_aggregate *aggregate_at(const struct dp_rpn_unit *u, u32 index)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (u->aggregates[i].index == index)
			return &u->aggregates[i];
	return NULL;
}

static void print(struct body *b, u32 index)
{
	const struct dp_agg_view view = {.pid = b->t->pid,
					 .symbolize = dp_run_symbol_of,
					 .arg = b->t,
					 .code_file = dp_run_file_of,
					 .apart = apart_of(b)};
	struct dp_hit *h = &b->machine.hit;
	char *text = NULL;
	size_t n = 0;
	FILE *f;

	if (h->log_len && dp_rpn_position(h)) { /* it comes first */
		dp_rpn_end(h);
		show_record(b);
		dp_rpn_go_back(h, 0);
	}
	if (b->run->formatter && !b->silent)
		dp_formatter_print(b->run->formatter, &b->m->unit, b->locals, index, &view);
	f = b->silent || b->run->formatter ? NULL : open_memstream(&text, &n);
	if (!f)
		return;
	dp_agg_show(dp_run_format(b->m->flags), &b->m->unit, b->locals, index, &view, f);
	if (!fclose(f) && n)
		dp_run_show_text(b->run, b->m, text, n);
	free(text);
}

static bool answer(struct run_machine *machine, u64 addr)
{
	struct body *b = machine->arg;
	const struct dp_rpn_aggregate *a = aggregate_at(&b->m->unit, (u32)addr);

	if (addr >> 48 != DP_CONTROL_TAG)
		return false;
	switch (addr >> 32 & 0xffff) {
	case DP_CONTROL_PRINT:
		if (a)
			print(b, a->index);
		return a;
	case DP_CONTROL_CLEAR:
		if (a)
			dp_run_clear_aggregate(a, b->locals, apart_of(b));
		return a;
	case DP_CONTROL_STOP:
		b->run->has_ended = true;
		return true;
	default:
		return false;
	}
}

/* ---- one body ---- */

static void run_body(struct dp_run *run, struct run_target *t, struct run_module *m, const struct dp_rpn_probe *p,
		     volatile u64 *locals, bool silent)
{
	struct body *b = calloc(1, sizeof(*b));
	struct run_machine *k = b ? &b->machine : NULL;

	if (!b)
		return;
	*b = (struct body){.run = run, .t = t, .m = m, .p = p, .locals = (u64 *)locals, .silent = silent};
	dp_program_to_rt(&p->prog, &k->prog);
	k->prog.code = (u64)p->prog.code;
	k->prog.locals = (u64)locals;
	k->prog.globals = (u64)(t->session && !t->pid ? dp_tracee_words(t->session) : run->globals);
	if (!k->prog.globals)
		k->prog.nglobals = 0;
	k->prog.max = DP_NO_LIMIT;
	k->prog.pass = 0;
	k->prog.work = DP_WORK_PROCESS;
	k->ctl.pid = (u32)t->pid;
	k->hit.regs = &k->regs;
	k->hit.vm = &k->vm;
	k->hit.ctl = &k->ctl;
	k->hit.prog = &k->prog;
	k->hit.tid = (u32)t->pid;
	k->hit.near = DP_NEAR_OFF;
	k->pid = t->pid;
	k->comm = t->comm;
	k->ask = answer;
	k->arg = b;
	if (dp_vm_run(&k->hit) == DP_RUN_LOG)
		show_record(b);
	run->body_exceptions += k->hit.exceptions;
	free(b);
}

/* ---- begin ---- */

void dp_run_begin_bodies(struct dp_run *run, struct run_target *t, struct run_module *m, volatile u64 *locals)
{
	bool again = m->begun && m->begun == t->pid && m->begun_started == t->started;

	for (u32 i = 0; i < m->unit.nbodies; i++)
		if (m->unit.bodies[i].place == DP_RPN_BEGIN)
			run_body(run, t, m, &m->unit.bodies[i], locals, again);
	m->begun = t->pid;
	m->begun_started = t->started;
	m->was_in = true;
}

static bool is_kept(const struct run_target *t, const struct run_range *r)
{
	for (const struct run_kept *k = t->kept; k; k = k->next)
		if (k->m == r->m && k->generation == r->generation && k->locals)
			return true;
	return false;
}

void dp_run_begin_all(struct dp_run *run, struct run_target *t, const struct run_range *old, u32 nold, u64 *words)
{
	for (u32 i = 0; i < t->nranges; i++) {
		const struct run_range *r = &t->ranges[i];
		bool goes_on = is_kept(t, r);

		for (u32 k = 0; k < nold; k++)
			goes_on |= dp_run_goes_on(r->m, old[k].m);
		if (!goes_on)
			dp_run_begin_bodies(run, t, r->m, words + r->locals);
	}
}

/* ---- end ---- */

static bool has_end(const struct run_module *m)
{
	for (u32 i = 0; i < m->unit.nbodies; i++)
		if (m->unit.bodies[i].place == DP_RPN_END)
			return true;
	return false;
}

void dp_run_end_body_words(struct dp_run *run, struct run_target *t, struct run_module *m, u64 *locals)
{
	for (u32 i = 0; i < m->unit.nbodies; i++)
		if (m->unit.bodies[i].place == DP_RPN_END)
			run_body(run, t, m, &m->unit.bodies[i], locals, false);
	m->begun = 0;
}

void dp_run_end_bodies(struct dp_run *run, struct run_target *t, const struct run_module *m)
{
	bool any = false;

	for (u32 i = 0; t->session && i < t->nranges; i++) {
		struct run_range *r = &t->ranges[i];

		if (r->ended || r->left_out || !has_end(r->m) || (m && m != r->m))
			continue;
		if (!any && !m)
			dp_tracee_remove(t->session, NULL);
		if (!any)
			dp_run_drain(run, t, !m);
		any = r->ended = true;
		dp_run_end_body_words(run, t, r->m, (u64 *)dp_tracee_words(t->session) + r->locals);
	}
}

/* ---- timers ---- */

u64 dp_run_next_timer(const struct dp_run *run)
{
	u64 now = dp_now_ns(), next = ~(u64)0;

	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.nbodies; i++)
			if (m->unit.bodies[i].place == DP_RPN_TIMER)
				next = DP_MIN(next, m->due[i] > now ? m->due[i] - now : 0);
	return next;
}

static void run_timer(struct dp_run *run, struct run_module *m, const struct dp_rpn_probe *p)
{
	for (struct run_target *t = run->targets; t && !run->has_ended; t = t->next)
		for (u32 i = 0; t->session && i < t->nranges; i++) {
			const struct run_range *r = &t->ranges[i];

			if (r->m != m || r->left_out || r->ended || r->generation != m->generation)
				continue;
			dp_run_drain(run, t, true); /* hits that were before come first */
			run_body(run, t, m, p, dp_tracee_words(t->session) + r->locals, false);
		}
}

/* One that is late runs once, and goes on from now. */
void dp_run_timers(struct dp_run *run)
{
	u64 now = dp_now_ns();
	bool any = false;

	for (struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.nbodies; i++) {
			const struct dp_rpn_probe *p = &m->unit.bodies[i];
			u64 period = (u64)p->offset;

			if (p->place != DP_RPN_TIMER || (m->due[i] && m->due[i] > now))
				continue;
			if (m->due[i]) {
				run_timer(run, m, p);
				any = true;
			}
			m->due[i] = m->due[i] && m->due[i] + period > now ? m->due[i] + period : now + period;
		}
	if (any)
		dp_run_log_commit(run);
}
