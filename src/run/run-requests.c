/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of programs that wait until their request has ended (run/run-keep.h). They wait under numbers of their own,
 * since a session may give its probes other ones meanwhile.
 */
#include "log/log-rpn.h"
#include "program/described.h"
#include "run/run-keep.h"
#include "run/run-priv.h"

/* NULL: there is no such program any more. */
static struct run_module *module_of(struct dp_run *run, u32 event, u32 *index)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		if (event - m->first_event < m->unit.nprobes) {
			*index = event - m->first_event;
			return m;
		}
	return NULL;
}

static void show(void *arg, u32 source, const struct dp_record *rec, u64 ns)
{
	struct dp_run *run = arg;
	struct run_target *t = run->numbered[source];
	u32 index;
	struct run_module *m = module_of(run, rec->event, &index);

	if (m && t)
		dp_run_show_request(run, t, m, index, rec, ns);
}

static void met(void *arg)
{
	struct dp_run *run = arg;

	*run->asked_by_request = 1;
}

static void leave_out(void *arg, u32 event, bool lost)
{
	u32 index;
	struct run_module *m = module_of(arg, event, &index);

	if (m)
		dp_run_count_not_shown(m, index, lost ? DP_COUNT_LOST : DP_COUNT_PASSED);
}

static const struct dp_keep_ops ops = {.show = show, .met = met, .left = leave_out};

bool dp_run_keep(struct dp_run *run, const struct dp_keep_rule *rule, volatile sig_atomic_t *asked)
{
	run->keep = dp_keep_new(rule, &ops, run);
	run->asked_by_request = asked;
	return run->keep;
}

void dp_run_keep_counts(const struct dp_run *run, struct dp_keep_counts *out)
{
	dp_keep_counts(run->keep, out);
}

bool dp_run_take_request(struct dp_run *run, struct run_target *t, const struct run_probe *p,
			 const struct dp_record *rec, u64 ns)
{
	const struct dp_rf *rf = p->m->unit.probes[p->index].rf;
	const struct dp_rf_event *e = rf ? rf->event : NULL;
	struct dp_keep_hit hit = {.event = p->m->first_event + p->index, .is_mark = e && dp_keep_is_mark(e->group)};
	u64 v[2] = {0};

	if (!run->keep || (e && e->ends) || !dp_run_number(run, t))
		return false;
	hit.source = t->number - 1;
	hit.process = dp_rpn_pid(rec);
	if (hit.is_mark) {
		hit.is_return = e->is_return;
		dp_rpn_values(rec, v, DP_ARRAY_SIZE(v));
		hit.sp = v[0];
		hit.value = v[1];
	}
	dp_keep_take(run->keep, &hit, rec, ns);
	return true;
}

/* What the kernel has told is among the records of requests of processes. */
void dp_run_end_requests(struct dp_run *run, const struct run_target *t)
{
	if (run->keep && t->number)
		dp_keep_end(run->keep, t->pid ? t->number - 1 : ~0u);
}
