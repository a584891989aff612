/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-govern.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/process.h"
#include "program/program.h"
#include "run/budget.h"
#include "run/run-govern.h"
#include "run/run-trace.h"

#define MS 1000000ull
#define SECOND 1000000000ull
#define TURN_NS (100 * MS)   /* at least, and so much processor time has to have been used, */
#define TURN_CPU_NS (2 * MS) /* unless a turn has lasted */
#define TURN_MOST_NS SECOND
#define REST_MOST_NS (500 * MS) /* between looks at processes that do not run */
#define CHANGE_PART 20          /* changes take so small a part of the time at most */
#define LOOK_PART 100           /* and looks, at counts and for processes that have inherited the probes */
#define AGAIN_NS (10 * SECOND)
#define NOTES 5 /* a minute */
#define MINUTE_NS (60 * SECOND)
#define NO_UNIT (~0u)
#define OURS_NS (100 * MS)  /* our own time for a record is known anew after so long, */
#define OURS_MOST_NS 1000.0 /* at most so much: the rest was for something else, as is, in any case, */
#define OURS_REST 0.01      /* so large a part of the time */
#define OURS_RECORDS 10000  /* so many new ones tell as much as all before: few are lost in what else we do */

struct process {
	pid_t pid;
	u64 cpu_ns;
};

struct probe {
	u32 unit; /* NO_UNIT: it is not governed */
	struct dp_trace_row row;
	struct dp_counts before;
	double rate, missed; /* hits per nanosecond of processor time, when it was in last */
};

struct dp_governor {
	struct dp_govern_setup s;
	struct dp_budget budget;
	struct dp_budget_unit *units, *saved;
	struct probe *v;
	u32 n;
	struct process *processes;
	u32 nprocesses;
	u64 begun_ns, turn_ns, due_ns, rest_ns, looked_ns, look_took_ns, ended_ns;
	u64 cpu_ns; /* in the turn so far */
	u64 handed; /* records of the reader, up to the last turn */
	struct dp_govern_cost cost;
	u64 noted_ns;
	u32 notes, unnoted;
	bool failed; /* and it was told */
};

/* ---- processor time ---- */

/* Since the last call. Time of a process that has ended meanwhile is missing, so the judge errs to the safe side. */
static u64 cpu_used(struct dp_governor *g)
{
	u64 sum = 0;

	for (u32 i = 0; i < g->nprocesses; i++) {
		u64 now = dp_process_ran_ns(g->processes[i].pid);

		if (now > g->processes[i].cpu_ns)
			sum += now - g->processes[i].cpu_ns;
		g->processes[i].cpu_ns = DP_MAX(now, g->processes[i].cpu_ns);
	}
	return sum;
}

static u64 cpu_known(const struct dp_governor *g, pid_t pid)
{
	for (u32 i = 0; i < g->nprocesses; i++)
		if (g->processes[i].pid == pid)
			return g->processes[i].cpu_ns;
	return g->processes ? 0
			    : dp_process_ran_ns(pid); /* one that has been born since: all of its time is with probes */
}

/* Processes that have inherited the probes hit them as well. */
static void look_for_processes(struct dp_governor *g, u64 now)
{
	pid_t *pids = NULL;
	u32 n = g->s.processes ? g->s.processes(g->s.arg, &pids) : dp_tracee_processes(g->s.tracee, &pids);
	struct process *v = calloc(n + 1ull, sizeof(*v));

	for (u32 i = 0; v && i < n; i++)
		v[i] = (struct process){pids[i], cpu_known(g, pids[i])};
	free(pids);
	if (v) {
		free(g->processes);
		g->processes = v;
		g->nprocesses = n;
	}
	g->looked_ns = dp_now_ns();
	g->look_took_ns = g->looked_ns - now;
}

/* ---- our own time ---- */

/* Of all governors: what we take for a record, as far as others wait for a processor while we have one. */
static struct {
	u64 looked_ns, cpu_ns, records;
	double displaces; /* how often, of the last looks: 0 to 1 */
	double record_ns; /* of those that we have read, which others may have written long before */
	bool known;
} ours;

/* Whether more threads want to run now than there are processors. Without /proc/loadavg: nobody knows of any. */
static bool others_wait(void)
{
	unsigned long running = 0;
	FILE *f = fopen("/proc/loadavg", "re");

	if (f && fscanf(f, "%*s %*s %*s %lu", &running) != 1)
		running = 0;
	if (f)
		fclose(f);
	return running > (unsigned long)DP_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
}

static void begin_with_ourselves(u64 now)
{
	if (ours.looked_ns)
		return;
	ours.looked_ns = now;
	ours.cpu_ns = dp_process_ran_ns(getpid());
}

static void look_at_ourselves(u64 now, u64 records)
{
	double spent;
	u64 cpu;

	ours.records += records;
	if (now - ours.looked_ns < OURS_NS)
		return;
	cpu = dp_process_ran_ns(getpid());
	ours.displaces += (others_wait() - ours.displaces) / (ours.known ? 8 : 1);
	ours.known = true;
	spent = (double)(cpu - ours.cpu_ns) - OURS_REST * (double)(now - ours.looked_ns);
	if (ours.records)
		ours.record_ns += (DP_MIN(DP_MAX(spent, 0.0) / (double)ours.records, OURS_MOST_NS) - ours.record_ns) *
				  (double)ours.records / (double)(ours.records + OURS_RECORDS);
	ours.cpu_ns = cpu;
	ours.looked_ns = now;
	ours.records = 0;
}

/* ---- the beginning ---- */

static void take_program(struct probe *p, const struct dp_probe_info *info)
{
	const struct dp_event *ev = info->event;

	if (ev->is_named)
		snprintf(p->row.name, sizeof(p->row.name), "%s", ev->name);
	else
		snprintf(p->row.name, sizeof(p->row.name), "%s", info->symbol);
	p->row.via = dp_trace_row_via(info);
	dp_trace_row_program(&p->row, &ev->prog, dp_trace_way_of(info));
}

static bool is_governed(const struct dp_governor *g, u32 i, const struct dp_probe_info *info)
{
	return info->event && info->outcome != DP_OUTCOME_REFUSED && !info->absent &&
	       (!g->s.has || g->s.has(g->s.arg, i));
}

/* Units are numbered in the order of their first probes. */
static u32 unit_of(u32 *numbers, u32 first, u32 *n)
{
	if (numbers[first] == NO_UNIT)
		numbers[first] = (*n)++;
	return numbers[first];
}

static u32 make_units(struct dp_governor *g, u32 *group, u32 *numbers)
{
	struct dp_probe_info info;
	u32 n = 0;

	for (u32 i = 0; i < g->n; i++)
		numbers[i] = NO_UNIT;
	for (u32 i = 0; i < g->n; i++) {
		struct probe *p = &g->v[i];

		p->unit = NO_UNIT;
		dp_tracee_probe(g->s.tracee, i, &info);
		if (!is_governed(g, i, &info))
			continue;
		take_program(p, &info);
		p->unit = unit_of(numbers, dp_groups_first(group, i), &n);
		g->units[p->unit].fixed |= info.event->is_watch || dp_program_acts(&info.event->prog);
		dp_reader_counts(g->s.reader, i, &p->before);
	}
	return n;
}

static u32 group_probes(struct dp_governor *g)
{
	u32 *group = calloc(g->n + 1ull, sizeof(*group)), *numbers = calloc(g->n + 1ull, sizeof(*numbers)), n = 0;

	if (group && numbers && dp_tracee_groups(g->s.tracee, group)) {
		if (g->s.join)
			g->s.join(g->s.arg, group);
		n = make_units(g, group, numbers);
	}
	free(group);
	free(numbers);
	return n;
}

struct dp_governor *dp_governor_new(const struct dp_govern_setup *setup)
{
	struct dp_governor *g = calloc(1, sizeof(*g));
	u32 n;

	if (!g)
		return NULL;
	g->s = *setup;
	g->n = dp_tracee_nprobes(setup->tracee);
	g->v = calloc(g->n + 1ull, sizeof(*g->v));
	g->units = calloc(g->n + 1ull, sizeof(*g->units));
	g->saved = calloc(g->n + 1ull, sizeof(*g->saved));
	n = g->v && g->units && g->saved ? group_probes(g) : 0;
	if (!n) {
		dp_governor_free(g);
		return NULL;
	}
	g->begun_ns = g->turn_ns = dp_now_ns();
	dp_budget_begin(&g->budget, setup->budget / DP_BUDGET_UNIT, g->units, n, g->begun_ns);
	look_for_processes(g, g->begun_ns);
	g->due_ns = g->begun_ns + TURN_NS;
	begin_with_ourselves(g->begun_ns);
	return g;
}

void dp_governor_free(struct dp_governor *g)
{
	if (!g)
		return;
	free(g->v);
	free(g->units);
	free(g->saved);
	free(g->processes);
	free(g);
}

/* ---- what it says ---- */

static void tell(struct dp_governor *g, const char *fmt, ...) DP_PRINTF(2, 3);
static void tell(struct dp_governor *g, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	if (!g->s.note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	g->s.note(g->s.note_arg, text);
}

static const char *name_of(const struct dp_governor *g, u32 unit)
{
	for (u32 i = 0; i < g->n; i++)
		if (g->v[i].unit == unit)
			return g->v[i].row.name;
	return "";
}

/* The costliest of the units that have just gone for the first time and were not told yet; NO_UNIT: there is none. */
static u32 costliest_new(const struct dp_governor *g)
{
	u32 found = NO_UNIT;

	for (u32 i = 0; i < g->budget.n; i++)
		if (g->units[i].times == 1 && !g->saved[i].times &&
		    (found == NO_UNIT || g->units[i].ratio > g->units[found].ratio))
			found = i;
	return found;
}

/* Of a unit that goes for the first time; some a minute, the others are counted. */
static void tell_out(struct dp_governor *g, u32 unit, u64 now)
{
	double percent;

	if (now - g->noted_ns > MINUTE_NS) {
		g->noted_ns = now;
		g->notes = 0;
	}
	if (g->notes++ >= NOTES) {
		g->unnoted++;
		return;
	}
	percent = 100 * g->units[unit].ratio;
	tell(g,
	     "%s is taken out: its hits and records take about %.*f %% of the processor time, and the budget is %g %%",
	     name_of(g, unit), percent < 10 ? 2 : 0, percent, g->s.budget / 100.0);
}

static void tell_unnoted(struct dp_governor *g, u64 now)
{
	if (!g->unnoted || (now - g->noted_ns <= MINUTE_NS && !g->ended_ns))
		return;
	tell(g, "%u more probes were taken out", g->unnoted);
	g->unnoted = 0;
}

/* ---- a turn ---- */

/* What a probe's hits since the last turn have cost; *hits: how many they were. */
static double take_hits(struct dp_governor *g, u32 i, u64 *hits)
{
	struct probe *p = &g->v[i];
	struct dp_trace_row total = {.via = ""};
	struct dp_counts now;

	dp_reader_counts(g->s.reader, i, &now);
	for (u32 k = 0; k < DP_NCOUNTS; k++)
		p->row.counts.v[k] = now.v[k] - p->before.v[k];
	p->before = now;
	dp_trace_row_finish(&p->row, &total);
	*hits = p->row.hits;
	return p->row.cost_ns;
}

/* Of the records of the turn. */
static void add_ours(struct dp_governor *g)
{
	double ns = ours.displaces * ours.record_ns;

	for (u32 i = 0; ns > 0 && i < g->n; i++)
		if (g->v[i].unit != NO_UNIT)
			g->units[g->v[i].unit].cost_ns += ns * (double)g->v[i].row.counts.v[DP_COUNT_RECORDED];
}

/* Costs of units, and the rates and estimates of probes. */
static void take_turn(struct dp_governor *g, u64 cpu_ns)
{
	u64 handed = dp_reader_handed(g->s.reader);

	for (u32 i = 0; i < g->budget.n; i++)
		g->units[i].cost_ns = 0;
	for (u32 i = 0; i < g->n; i++) {
		struct probe *p = &g->v[i];
		double cost;
		u64 hits;

		if (p->unit == NO_UNIT)
			continue;
		cost = take_hits(g, i, &hits);
		g->units[p->unit].cost_ns += cost;
		g->cost.cost_ns += cost;
		g->cost.hits += hits;
		if (dp_budget_is_out(&g->units[p->unit]))
			p->missed += p->rate * (double)cpu_ns;
		else if (cpu_ns)
			p->rate = (double)hits / (double)cpu_ns;
	}
	g->cost.cpu_ns += cpu_ns;
	look_at_ourselves(dp_now_ns(), handed - g->handed);
	g->handed = handed;
	add_ours(g);
}

static int carry_out(struct dp_governor *g, struct dp_error *err)
{
	for (u32 i = 0; i < g->n; i++)
		if (g->v[i].unit != NO_UNIT)
			dp_tracee_mark_out(g->s.tracee, i, dp_budget_is_out(&g->units[g->v[i].unit]));
	return dp_tracee_take_out(g->s.tracee, err);
}

/* Those that were to come back stay out for some time (all: everything is as it was before). Whether that helps. */
static bool revert(struct dp_governor *g, bool all, u64 now)
{
	bool any = false;

	for (u32 i = 0; i < g->budget.n; i++) {
		bool comes = dp_budget_is_out(&g->saved[i]) && !dp_budget_is_out(&g->units[i]);

		if (!comes && !all)
			continue;
		any |= comes;
		g->units[i] = g->saved[i];
		if (comes)
			g->units[i].wake_ns = now + AGAIN_NS;
	}
	return any;
}

static void change(struct dp_governor *g, u64 now)
{
	struct dp_error err = {0};
	int r = carry_out(g, &err);
	u64 end;

	if (r && revert(g, false, now))
		r = carry_out(g, &err);
	if (r) {
		revert(g, true, now);
		carry_out(g, NULL); /* the marks: nothing changes */
		if (!g->failed && err.code && dp_tracee_alive(g->s.tracee))
			tell(g, "the budget cannot be kept at the moment: %s: %s", dp_error_info(err.code)->name,
			     err.detail);
		g->failed = err.code;
	}
	for (u32 unit; !r && (unit = costliest_new(g)) != NO_UNIT; g->saved[unit].times = 1)
		tell_out(g, unit, now);
	end = dp_now_ns();
	/* What is in trial or still too much may go at the next turn: only trials wait. */
	g->budget.rest_ns = DP_MAX(g->budget.rest_ns, end) + CHANGE_PART * (end - now);
	g->due_ns = DP_MAX(g->due_ns, end + (r ? SECOND : TURN_NS));
}

/* Of a turn in which the process has run. Thousands of probes are looked at less often than ten times a second. */
static void judge(struct dp_governor *g, u64 now, u64 lasted)
{
	u64 begun = dp_clock_now(CLOCK_PROCESS_CPUTIME_ID), took;

	take_turn(g, g->cpu_ns);
	memcpy(g->saved, g->units, g->budget.n * sizeof(*g->units));
	took = dp_clock_now(CLOCK_PROCESS_CPUTIME_ID) - begun;
	g->due_ns = now + DP_MAX(LOOK_PART * took, DP_MAX(TURN_NS, g->rest_ns));
	if (dp_budget_judge(&g->budget, now, lasted, g->cpu_ns))
		change(g, now);
}

void dp_governor_turn(struct dp_governor *g)
{
	u64 now = dp_now_ns(), lasted, used;

	if (!g || g->ended_ns || now < g->due_ns)
		return;
	used = cpu_used(g);
	g->cpu_ns += used;
	g->rest_ns = used ? 0 : DP_MIN(2 * g->rest_ns + TURN_NS, REST_MOST_NS);
	g->due_ns = now + g->rest_ns;
	lasted = now - g->turn_ns;
	if (g->cpu_ns < TURN_CPU_NS && lasted < TURN_MOST_NS)
		return;
	if (g->cpu_ns)
		judge(g, now, lasted);
	g->turn_ns = now;
	g->cpu_ns = 0;
	tell_unnoted(g, now);
	if (now - g->looked_ns > DP_MAX(SECOND, LOOK_PART * g->look_took_ns))
		look_for_processes(g, dp_now_ns());
}

void dp_governor_end(struct dp_governor *g)
{
	if (!g || g->ended_ns)
		return;
	take_turn(g, g->cpu_ns + cpu_used(g));
	g->ended_ns = dp_now_ns();
	tell_unnoted(g, g->ended_ns);
}

/* ---- what is told of it ---- */

bool dp_governor_is_out(const struct dp_governor *g, u32 probe)
{
	return g && probe < g->n && g->v[probe].unit != NO_UNIT && dp_budget_is_out(&g->units[g->v[probe].unit]);
}

void dp_governed_sum(struct dp_governed *to, const struct dp_governed *add)
{
	to->probes += add->probes;
	to->times += add->times;
	to->out_ns += add->out_ns;
	to->of_ns += add->of_ns;
	to->missed += add->missed;
}

void dp_governor_add(const struct dp_governor *g, u32 probe, struct dp_governed *sum)
{
	u64 now = g && g->ended_ns ? g->ended_ns : dp_now_ns();
	const struct dp_budget_unit *u;

	if (!g || probe >= g->n || g->v[probe].unit == NO_UNIT)
		return;
	u = &g->units[g->v[probe].unit];
	dp_governed_sum(sum, &(struct dp_governed){.probes = u->times > 0,
						   .times = u->times,
						   .out_ns = dp_budget_out_ns(u, now),
						   .of_ns = u->times ? now - g->begun_ns : 0,
						   .missed = g->v[probe].missed});
}

void dp_governor_add_cost(const struct dp_governor *g, struct dp_govern_cost *sum)
{
	if (!g)
		return;
	sum->cost_ns += g->cost.cost_ns;
	sum->hits += g->cost.hits;
	sum->cpu_ns += g->cost.cpu_ns;
}

/* With a comma before each three digits. */
static void put_count(double v, char *buf, size_t size)
{
	char digits[32];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%.0f", DP_MIN(v, 1e18)), k = 0;

	for (size_t i = 0; i < n && k + 2 < size; i++) {
		if (i && (n - i) % 3 == 0)
			buf[k++] = ',';
		buf[k++] = digits[i];
	}
	buf[k] = '\0';
}

void dp_governed_text(const struct dp_governed *s, char *buf, size_t size)
{
	char missed[48];

	put_count(s->missed, missed, sizeof(missed));
	snprintf(buf, size, "taken out %u time%s, %.1f s of %.1f s, about %s hits passed over", s->times,
		 s->times == 1 ? "" : "s", (double)s->out_ns / 1e9, (double)s->of_ns / 1e9, missed);
}
