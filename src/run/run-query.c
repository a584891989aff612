/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Answers: what is inserted, where, how often it was hit, and what its variables hold. */
#include <stdlib.h>
#include <string.h>

#include "log/human.h"
#include "log/json.h"
#include "run/run-priv.h"
#include "run/run-rows.h"

static const struct run_range *slot_of(const struct run_target *t, const struct run_module *m)
{
	for (u32 i = 0; t->session && i < t->nranges; i++)
		if (t->ranges[i].m == m && !t->ranges[i].left_out)
			return &t->ranges[i];
	return NULL;
}

static const char *target_name(pid_t pid, char *buf, size_t size)
{
	snprintf(buf, size, pid ? "process %d" : "the kernel", (int)pid);
	return buf;
}

/* ---- query ---- */

/* The words of the status bits that Dynamic Probes has. */
static const char *status(const struct dp_rpn_probe *p, u64 gate)
{
	if (gate & DP_GATE_REMOVED)
		return "removed";
	if (gate >= p->prog.rpn.pass && gate - p->prog.rpn.pass >= p->prog.rpn.max)
		return "disabled (max hits)";
	return "active";
}

/* Hits that have come to an end; those that were missed are known of the whole module. */
static u64 counted(const struct dp_counts *c)
{
	return dp_counts_hits(c) - c->v[DP_COUNT_MISSED];
}

static const char *via(const struct dp_probe_info *info)
{
	return info->via                          ? info->via
	       : info->outcome == DP_OUTCOME_JUMP ? "jump"
	       : info->outcome == DP_OUTCOME_TRAP ? "trap"
						  : "refused";
}

static void query_probe(struct dp_run *run, const struct run_module *m, u32 i, FILE *out)
{
	const struct dp_rpn_probe *p = &m->unit.probes[i];
	char place[sizeof(p->symbol) + 32];
	char governed[128] = "; ";
	struct dp_governed sum;
	struct dp_counts c;
	u64 hits;

	dp_run_counts(run, m, i, &c);
	dp_run_governed(run, m, i, &sum);
	dp_governed_text(&sum, governed + 2, sizeof(governed) - 2);
	if (!sum.times)
		governed[0] = '\0';
	hits = dp_counts_hits(&c);
	fprintf(out, "  probe %u: %s", i, dp_run_place_text(p, place, sizeof(place)));
	fprintf(out,
		"%s, major %u, minor %u, hits %llu: recorded %llu, passed over %llu, not logged "
		"%llu, missed %llu, "
		"lost %llu; exceptions %llu%s\n",
		p->at_return ? " at return" : "", p->prog.rpn.major, p->prog.rpn.minor, (unsigned long long)hits,
		(unsigned long long)c.v[DP_COUNT_RECORDED], (unsigned long long)c.v[DP_COUNT_PASSED],
		(unsigned long long)c.v[DP_COUNT_FILTERED], (unsigned long long)c.v[DP_COUNT_MISSED],
		(unsigned long long)c.v[DP_COUNT_LOST], (unsigned long long)c.v[DP_COUNT_EXCEPTIONS], governed);
}

/* Where a probe is in a target, and how; of one that is not in place, why not. */
static void query_place(const struct dp_probe_info *info, FILE *out)
{
	if (info->absent) {
		fprintf(out, "%s+0x%llx", info->symbol, (unsigned long long)info->offset);
		return;
	}
	fprintf(out, "at 0x%llx (%s+0x%llx) by %s", (unsigned long long)info->addr, info->symbol,
		(unsigned long long)info->offset, via(info));
}

/* What a probe of a target is at the moment. */
static const char *state_of(const struct run_target *t, u32 i, u64 gate, const struct dp_probe_info *info)
{
	if (info->absent)
		return info->absent;
	return dp_run_is_out(t, i) ? "taken out" : status(&t->probes[i].m->unit.probes[t->probes[i].index], gate);
}

static void query_armed(struct run_target *t, u32 i, u64 gate, FILE *out)
{
	u32 index = t->probes[i].index;
	struct dp_probe_info info;
	struct dp_counts c;

	dp_tracee_probe(t->session, i, &info);
	dp_reader_counts(t->reader, i, &c);
	fprintf(out, "    probe %u: %s, %llu counted, ", index, state_of(t, i, gate, &info),
		(unsigned long long)counted(&c));
	query_place(&info, out);
	fprintf(out, ", %s\n", info.ncompiled ? "compiled" : "interpreted");
}

static void query_target(struct run_target *t, const struct run_range *range, FILE *out)
{
	volatile u64 *words = dp_tracee_words(t->session);
	char name[32];

	fprintf(out, "  %s:\n", target_name(t->pid, name, sizeof(name)));
	for (u32 i = 0; i < t->nprobes; i++)
		if (t->probes[i].m == range->m)
			query_armed(t, i, words[range->gates + t->probes[i].index], out);
	for (u32 i = 0; i < range->m->unit.nlocals; i++) {
		u32 whole = dp_run_aggregate_at(&range->m->unit, i); /* `dprobes vars` shows it */

		if (whole)
			i += whole - 1;
		else
			fprintf(out, "    lv %u = %llu\n", i, (unsigned long long)words[range->locals + i]);
	}
}

static const char *const types[] = {"user", "kernel", "kmod"};

static void query_module(struct dp_run *run, struct run_module *m, bool extended, FILE *out)
{
	fprintf(out, "%s: %s%s, id %u, %u probes, %u variables", m->unit.name, types[m->unit.modtype],
		m->flags & DP_RUN_UPROBES ? " by uprobes" : "", m->unit.id, m->unit.nprobes, m->unit.nlocals);
	if (m->budget)
		fprintf(out, ", budget %g %%", m->budget / 100.0);
	if (run_is_in_kernel(m))
		fprintf(out, "\n");
	else
		fprintf(out, ", in %u processes\n", dp_run_count_targets(run, m));
	for (u32 i = 0; i < m->unit.nprobes; i++)
		query_probe(run, m, i, out);
	if (!run_is_in_kernel(m) && !m->pid && *run->not_held)
		fprintf(out, "  programs are not held at their start: %s\n", run->not_held);
	if (m->let_go)
		fprintf(out, "  %llu did not wait for the probes when they began or loaded the file\n",
			(unsigned long long)m->let_go);
	if (m->last.code)
		fprintf(out, "  last process left out: %s: %s\n", dp_error_info(m->last.code)->name, m->last.detail);
	for (struct run_target *t = run->targets; t; t = t->next) {
		const struct run_range *range = slot_of(t, m);

		if (range)
			query_target(t, range, out);
	}
	if (extended)
		dp_rpn_list(&m->unit, out);
}

/* ---- the same as JSON ---- */

static void json_probe(struct dp_json *j, struct dp_run *run, const struct run_module *m, u32 i)
{
	static const struct {
		enum dp_count count;
		const char *key;
	} counts[] = {{DP_COUNT_RECORDED, "recorded"}, {DP_COUNT_PASSED, "passed"},
		      {DP_COUNT_FILTERED, "filtered"}, {DP_COUNT_MISSED, "missed"},
		      {DP_COUNT_LOST, "lost"},         {DP_COUNT_EXCEPTIONS, "exceptions"}};
	const struct dp_rpn_probe *p = &m->unit.probes[i];
	char place[sizeof(p->symbol) + 32];
	struct dp_governed sum;
	struct dp_counts c;

	dp_run_counts(run, m, i, &c);
	dp_json_open(j, '{');
	dp_json_put_unsigned(j, "probe", i);
	dp_json_put_string(j, "place", dp_run_place_text(p, place, sizeof(place)));
	dp_json_put_bool(j, "return", p->at_return);
	dp_json_put_unsigned(j, "major", p->prog.rpn.major);
	dp_json_put_unsigned(j, "minor", p->prog.rpn.minor);
	dp_json_put_unsigned(j, "hits", dp_counts_hits(&c));
	for (u32 k = 0; k < DP_ARRAY_SIZE(counts); k++)
		dp_json_put_unsigned(j, counts[k].key, c.v[counts[k].count]);
	dp_run_governed(run, m, i, &sum);
	dp_json_put_unsigned(j, "taken_out", sum.times);
	dp_json_close(j, '}');
}

static void json_armed(struct dp_json *j, struct run_target *t, u32 i, u64 gate)
{
	u32 index = t->probes[i].index;
	struct dp_probe_info info;
	struct dp_counts c;
	char address[20];

	dp_tracee_probe(t->session, i, &info);
	dp_reader_counts(t->reader, i, &c);
	snprintf(address, sizeof(address), "0x%llx", info.absent ? 0 : (unsigned long long)info.addr);
	dp_json_open(j, '{');
	dp_json_put_unsigned(j, "probe", index);
	dp_json_put_string(j, "state", state_of(t, i, gate, &info));
	dp_json_put_unsigned(j, "counted", counted(&c));
	dp_json_put_string(j, "address", address);
	dp_json_put_string(j, "symbol", info.symbol);
	dp_json_put_unsigned(j, "offset", info.offset);
	dp_json_put_string_or_null(j, "via", info.absent ? NULL : via(&info));
	dp_json_put_bool(j, "compiled", info.ncompiled);
	dp_json_close(j, '}');
}

static void json_target(struct dp_json *j, struct run_target *t, const struct run_range *range)
{
	volatile u64 *words = dp_tracee_words(t->session);

	dp_json_open(j, '{');
	dp_json_put_unsigned(j, "pid", (u64)t->pid);
	dp_json_key(j, "probes");
	dp_json_open(j, '[');
	for (u32 i = 0; i < t->nprobes; i++)
		if (t->probes[i].m == range->m)
			json_armed(j, t, i, words[range->gates + t->probes[i].index]);
	dp_json_close(j, ']');
	dp_json_key(j, "variables");
	dp_json_open(j, '[');
	for (u32 i = 0; i < range->m->unit.nlocals; i++) {
		u32 whole = dp_run_aggregate_at(&range->m->unit, i);

		if (whole) { /* `dprobes vars` shows it */
			i += whole - 1;
			continue;
		}
		dp_json_open(j, '{');
		dp_json_put_unsigned(j, "index", i);
		dp_json_put_unsigned(j, "value", words[range->locals + i]);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

/* The last process that was left out. */
void dp_run_json_refusal(struct dp_json *j, const struct dp_error *why)
{
	dp_json_key(j, "refused");
	if (!why->code) {
		dp_json_null(j);
		return;
	}
	dp_json_open(j, '{');
	dp_json_put_string(j, "code", dp_error_info(why->code)->name);
	dp_json_put_string(j, "detail", why->detail);
	dp_json_close(j, '}');
}

static void json_program(struct dp_json *j, const struct dp_rpn_unit *u)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (f) {
		dp_rpn_list(u, f);
		fclose(f);
	}
	dp_json_put_string(j, "program", text ? text : "");
	free(text);
}

static void json_module(struct dp_run *run, struct run_module *m, bool extended, FILE *out)
{
	bool held = run_is_in_kernel(m) || m->pid || !*run->not_held;
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};
	char budget[24];

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "module", m->unit.name);
	dp_json_put_string(&j, "type", types[m->unit.modtype]);
	dp_json_put_bool(&j, "uprobes", m->flags & DP_RUN_UPROBES);
	dp_json_put_unsigned(&j, "id", m->unit.id);
	dp_json_put_unsigned(&j, "variables", m->unit.nlocals);
	snprintf(budget, sizeof(budget), "%g", m->budget / 100.0);
	dp_json_key(&j, "budget");
	dp_json_digits(&j, budget, strlen(budget));
	dp_json_put_string_or_null(&j, "not_held", held ? NULL : run->not_held);
	dp_json_put_unsigned(&j, "let_go", m->let_go);
	dp_run_json_refusal(&j, &m->last);
	dp_json_key(&j, "probes");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < m->unit.nprobes; i++)
		json_probe(&j, run, m, i);
	dp_json_close(&j, ']');
	dp_json_key(&j, "targets");
	dp_json_open(&j, '[');
	for (struct run_target *t = run->targets; t; t = t->next)
		if (slot_of(t, m))
			json_target(&j, t, slot_of(t, m));
	dp_json_close(&j, ']');
	if (extended)
		json_program(&j, &m->unit);
	dp_json_close(&j, '}');
	dp_json_end(&j);
	if (!line.broken)
		fwrite(line.text, 1, line.n, out);
	dp_line_free(&line);
}

int dp_run_query(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out, struct dp_error *err)
{
	void (*show)(struct dp_run *, struct run_module *, bool,
		     FILE *) = dp_run_format(rq->flags) == DP_FORMAT_JSON ? json_module : query_module;
	struct run_module *m = *name ? dp_run_module_find(run, name) : NULL;

	if (*name && !m)
		return dp_fail(err, E_RPN_NOTIN, "%.150s", name);
	if (m) {
		show(run, m, rq->flags & DP_RUN_EXTENDED, out);
		return 0;
	}
	for (m = run->modules; m; m = m->next)
		show(run, m, rq->flags & DP_RUN_EXTENDED, out);
	return 0;
}

/* ---- variables ---- */

/* A range of words, shown or set to zero. The indexes are clipped to what exists. */
static void show_words(volatile u64 *v, u32 n, const struct dp_run_request *rq, const char *what, FILE *out)
{
	for (u32 i = rq->lo; i < n && i <= rq->hi; i++) {
		if (rq->flags & DP_RUN_RESET)
			__atomic_store_n(&v[i], 0, __ATOMIC_RELAXED);
		else
			fprintf(out, "  %s %u = %llu\n", what, i, (unsigned long long)v[i]);
	}
}

/* How many global variables the programs for processes, or those for the kernel, have. */
static u32 nglobals(const struct dp_run *run, bool in_kernel)
{
	u32 n = 0;

	for (const struct run_module *m = run->modules; m; m = m->next)
		if (run_is_in_kernel(m) == in_kernel)
			n = DP_MAX(n, m->unit.nglobals);
	return n;
}

static void show_globals(volatile u64 *v, u32 n, const char *whose, const struct dp_run_request *rq, FILE *out)
{
	if (!n || !v)
		return;
	if (!(rq->flags & DP_RUN_RESET))
		fprintf(out, "%s, global:\n", whose);
	show_words(v, n, rq, "gv", out);
}

/* Words of local variables; those of aggregates are shown as what they are. */
static void show_locals(const struct dp_rpn_unit *u, volatile u64 *v, struct dp_apart apart,
			const struct dp_run_request *rq, FILE *out)
{
	for (u32 i = rq->lo; i < u->nlocals && i <= rq->hi; i++) {
		u32 words = dp_run_aggregate_at(u, i);

		if (rq->flags & DP_RUN_RESET)
			dp_apart_set(v + i, apart, 0);
		else if (words)
			i += words - 1;
		else
			fprintf(out, "  lv %u = %llu\n", i, (unsigned long long)v[i]);
	}
}

/* ---- one table for several processes ---- */

struct sources {
	const struct dp_rpn_unit *u;
	struct dp_agg_source *v;
	u32 n;
	size_t room;
};

static void add_source(void *arg, const struct dp_rpn_unit *u, volatile u64 *words, const struct dp_agg_view *view)
{
	struct sources *s = arg;

	if (u == s->u && dp_grow((void **)&s->v, &s->room, s->n, sizeof(*s->v)))
		s->v[s->n++] = (struct dp_agg_source){.words = words, .view = *view};
}

/* For people, and where there are several. Programs that read tables know their processes. */
static bool is_merged(const struct dp_run *run, const struct dp_rpn_unit *u, const struct dp_run_request *rq)
{
	struct sources s = {.u = u};
	bool several;

	if (dp_run_format(rq->flags) != DP_FORMAT_TEXT || rq->flags & DP_RUN_RESET || !dp_agg_any_merged(u))
		return false;
	dp_run_each_words(run, add_source, &s);
	several = s.n > 1;
	free(s.v);
	return several;
}

static void show_module(const struct dp_run *run, const struct dp_rpn_unit *u, volatile u64 *v,
			const struct dp_agg_view *view, const struct dp_run_request *rq, FILE *out)
{
	bool merged = is_merged(run, u, rq);

	if (dp_run_format(rq->flags) != DP_FORMAT_TEXT) {
		dp_agg_show(dp_run_format(rq->flags), u, v, DP_AGG_ALL, view, out);
		return;
	}
	if (rq->flags & DP_RUN_AGGREGATES && !(merged ? dp_agg_any_own(u) : dp_agg_any_shown(u)))
		return;
	if (!(rq->flags & DP_RUN_RESET))
		dp_agg_show_process(u, v, merged, view, out);
	if (!(rq->flags & DP_RUN_AGGREGATES))
		show_locals(u, v, view->apart, rq, out);
}

/* Once for all processes: it takes a look at each of them. */
static void note_taken_out(const struct dp_run *run)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		m->taken_out = dp_run_count_taken_out(run, m);
}

/* Words of a process that is there, or of one that has ended; both with what is known of its addresses. */
static struct dp_agg_view view_of_target(const struct run_module *m, struct run_target *t)
{
	return (struct dp_agg_view){.pid = t->pid,
				    .ended = t->session && !dp_tracee_alive(t->session),
				    .symbolize = dp_run_symbol_of,
				    .arg = t,
				    .code_file = dp_run_file_of,
				    .taken_out = m->taken_out,
				    .apart = dp_run_apart(t)};
}

static struct dp_agg_view view_of_ended(const struct run_module *m, struct run_ended *e, bool ended)
{
	return (struct dp_agg_view){.pid = e->pid,
				    .ended = ended,
				    .symbolize = dp_run_name_of_ended,
				    .arg = e,
				    .code_file = dp_run_file_of_ended,
				    .taken_out = m->taken_out};
}

static void each_of_target(struct run_target *t, const char *name, dp_run_words_fn *fn, void *arg)
{
	volatile u64 *words = t->session ? dp_tracee_words(t->session) : NULL;

	for (struct run_kept *k = t->kept; k; k = k->next) /* of libraries that are unloaded at the moment */
		if ((!*name || !strcmp(k->m->unit.name, name)) && k->locals && k->generation == k->m->generation) {
			const struct dp_agg_view view = view_of_ended(k->m, k->locals, false);

			fn(arg, &k->m->unit, k->locals->words, &view);
		}
	for (u32 i = 0; words && i < t->nranges; i++) {
		const struct dp_rpn_unit *u = &t->ranges[i].m->unit;
		const struct dp_agg_view view = view_of_target(t->ranges[i].m, t);

		if (!t->ranges[i].left_out && (!*name || !strcmp(u->name, name)) && u->nlocals)
			fn(arg, u, words + t->ranges[i].locals, &view);
	}
}

static void each_of_ended(struct run_module *m, dp_run_words_fn *fn, void *arg)
{
	for (struct run_ended *e = m->ended; e; e = e->next) {
		const struct dp_agg_view view = view_of_ended(m, e, true);

		fn(arg, &m->unit, e->words, &view);
	}
}

void dp_run_each_words(const struct dp_run *run, dp_run_words_fn *fn, void *arg)
{
	note_taken_out(run);
	for (struct run_target *t = run->targets; t; t = t->next)
		each_of_target(t, "", fn, arg);
	for (struct run_module *m = run->modules; m; m = m->next)
		each_of_ended(m, fn, arg);
}

static void show_merged(const struct dp_run *run, const struct run_module *m, const struct dp_run_request *rq,
			FILE *out)
{
	struct sources s = {.u = &m->unit};

	if (!is_merged(run, &m->unit, rq))
		return;
	dp_run_each_words(run, add_source, &s);
	dp_agg_show_merged(&m->unit, s.v, s.n, out);
	free(s.v);
}

struct shown {
	const struct dp_run *run;
	const struct dp_run_request *rq;
	FILE *out;
};

static void show(void *arg, const struct dp_rpn_unit *u, volatile u64 *words, const struct dp_agg_view *view)
{
	const struct shown *s = arg;
	bool raw = dp_human.raw_units;

	dp_human.raw_units |= !!(s->rq->flags & DP_RUN_RAW_UNITS);
	show_module(s->run, u, words, view, s->rq, s->out);
	dp_human.raw_units = raw;
}

int dp_run_vars(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out, struct dp_error *err)
{
	bool local = rq->flags & DP_RUN_LOCAL, global = rq->flags & DP_RUN_GLOBAL;
	struct shown s = {run, rq, out};

	if (*name && !dp_run_module_find(run, name))
		return dp_fail(err, E_RPN_NOTIN, "%.150s", name);
	note_taken_out(run);
	if ((global || !local) && !(rq->flags & DP_RUN_AGGREGATES) && dp_run_format(rq->flags) == DP_FORMAT_TEXT) {
		show_globals(run->globals, nglobals(run, false), "all processes", rq, out);
		for (struct run_target *t = run->targets; t; t = t->next)
			if (t->session && !t->pid)
				show_globals(dp_tracee_words(t->session), nglobals(run, true), "the kernel", rq, out);
	}
	for (struct run_target *t = run->targets; t; t = t->next)
		if (local || !global)
			each_of_target(t, name, show, &s);
	for (struct run_module *m = run->modules; m; m = m->next) {
		if ((*name && strcmp(m->unit.name, name)) || rq->flags & DP_RUN_GLOBAL)
			continue;
		if (rq->flags & DP_RUN_RESET)
			dp_run_forget_ended(m);
		each_of_ended(m, show, &s);
		show_merged(run, m, rq, out);
	}
	return 0;
}

u32 dp_run_refused(const struct dp_run *run, const char **module, pid_t *last, struct dp_error *why)
{
	bool behind = !*module;

	for (const struct run_module *m = run->modules; m; m = m->next) {
		if (behind && m->left_out) {
			*module = m->unit.name;
			*why = m->last;
			*last = m->last_pid;
			return m->left_out;
		}
		behind |= *module && !strcmp(m->unit.name, *module);
	}
	return 0;
}

const char *dp_run_why_not_held(const struct dp_run *run)
{
	return !run->no_watch ? NULL : *run->not_held ? run->not_held : "only root may do that";
}

bool dp_run_was_in(struct dp_run *run, const char *module)
{
	const struct run_module *m = dp_run_module_find(run, module);

	for (struct run_target *t = run->targets; t; t = t->next)
		dp_run_note_how(t);
	for (u32 i = 0; m && i < m->unit.nprobes; i++)
		if (m->how[i].via)
			return true;
	return m && !m->unit.nprobes && (m->was_in || m->ended || dp_run_count_targets(run, m));
}
