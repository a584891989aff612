/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What probes are called, and the rows of the summary of programs: one for each event, over all its places. */
#include <string.h>

#include "base/hash.h"
#include "program/described.h"
#include "run/run-priv.h"
#include "run/run-rows.h"

const char *dp_run_place_text(const struct dp_rpn_probe *p, char *buf, size_t size)
{
	if (p->place == DP_RPN_WATCH)
		snprintf(buf, size, "watch %s", p->symbol);
	else if (p->place == DP_RPN_TRACEPOINT)
		snprintf(buf, size, "tracepoint %s", p->symbol);
	else if (p->place == DP_RPN_CALL)
		snprintf(buf, size, "call %s", p->symbol);
	else if (p->place == DP_RPN_SYMBOL)
		snprintf(buf, size, "%s%s%llx", p->symbol, p->offset < 0 ? "-0x" : "+0x",
			 (unsigned long long)(p->offset < 0 ? -p->offset : p->offset));
	else
		snprintf(buf, size, "0x%llx", (unsigned long long)p->offset);
	return buf;
}

static const struct dp_rf_event *event_of(const struct dp_rpn_probe *p)
{
	return p->rf ? p->rf->event : NULL;
}

static void note_place(struct run_how *how, const struct dp_rpn_probe *p, const struct dp_probe_info *info)
{
	if (!info->symbol || !info->symbol[0])
		return;
	if (info->offset && !p->at_return)
		snprintf(how->place, sizeof(how->place), "%.56s+0x%llx", info->symbol,
			 (unsigned long long)info->offset);
	else
		snprintf(how->place, sizeof(how->place), "%s%.70s", p->at_return ? "<-" : "", info->symbol);
}

void dp_run_note_how(struct run_target *t)
{
	struct dp_probe_info info;

	for (u32 i = 0; t->session && i < t->nprobes; i++) {
		const struct run_probe *p = &t->probes[i];
		struct run_how *how = p->m ? &p->m->how[p->index] : NULL;

		if (!how)
			continue;
		dp_tracee_probe(t->session, i, &info);
		how->via = dp_trace_row_via(&info);
		how->way = dp_trace_way_of(&info);
		if (!event_of(&p->m->unit.probes[p->index]))
			note_place(how, &p->m->unit.probes[p->index], &info);
	}
}

void dp_run_probe_name(const struct dp_rpn_probe *p, char *buf, size_t size)
{
	const struct dp_rf_event *e = event_of(p);

	if (e && e->name[0])
		snprintf(buf, size, "%s", e->name);
	else if (e && e->is_return)
		snprintf(buf, size, "<-%s", e->symbol);
	else if (e && e->offset)
		snprintf(buf, size, "%s+0x%llx", e->symbol, (unsigned long long)e->offset);
	else
		snprintf(buf, size, "%.79s", e ? e->symbol : p->symbol);
}

/* Each exit is a place of its own, and called what it is where dprobes finds the exits. */
static const char *via(const struct dp_rpn_probe *p, const char *how)
{
	if (!how || !p->rf || !p->rf->event || !p->rf->event->is_return)
		return how ? how : "";
	return !strcmp(how, "jump") ? "exits" : !strcmp(how, "trap") ? "exits+trap" : how;
}

/* A probe that is no event's is called by the place where it was last, or by what its program says of it. */
static void name_row(struct dp_trace_row *row, const struct run_module *m, u32 i)
{
	char place[DP_RPN_NAME_MAX + 64];

	if (event_of(&m->unit.probes[i]))
		dp_run_probe_name(&m->unit.probes[i], row->name, sizeof(row->name));
	else
		snprintf(row->name, sizeof(row->name), "%.79s",
			 m->how[i].place[0] ? m->how[i].place
					    : dp_run_place_text(&m->unit.probes[i], place, sizeof(place)));
}

struct row_table {
	struct dp_trace_row *rows;
	u32 n, *places, mask; /* a row's number, from 1, at the hash of its name or behind it */
};

/* For that many rows. False: no memory. */
static bool make_table(struct row_table *t, u32 most)
{
	u32 places = 16;

	while (places < 2 * most)
		places *= 2;
	*t = (struct row_table){.rows = dp_alloc(most * sizeof(*t->rows)),
				.places = dp_alloc(places * sizeof(*t->places)),
				.mask = places - 1};
	return t->rows && t->places;
}

static struct dp_trace_row *row_of(struct row_table *t, const struct run_module *m, u32 probe)
{
	struct dp_trace_row *row = &t->rows[t->n];
	u32 at;

	name_row(row, m, probe);
	at = (u32)dp_hash(DP_HASH_BEGIN, row->name, strlen(row->name)) & t->mask;
	for (; t->places[at]; at = (at + 1) & t->mask)
		if (!strcmp(t->rows[t->places[at] - 1].name, row->name))
			return &t->rows[t->places[at] - 1];
	t->places[at] = ++t->n;
	return row;
}

/* The places of an event in one function go together: what is told of them is not the sum. */
static void add_governed(const struct dp_run *run, const struct run_module *m, u32 i, struct dp_governed *sum)
{
	struct dp_governed own;
	double missed = sum->missed;

	dp_run_governed(run, m, i, &own);
	if (own.out_ns > sum->out_ns)
		*sum = own;
	sum->missed = missed + own.missed;
}

struct dp_trace_row *dp_run_rows(const struct dp_run *run, u32 *n, struct dp_trace_row *total)
{
	struct row_table rows;
	u32 most = 1;
	bool good;

	for (struct run_target *t = run->targets; t; t = t->next)
		dp_run_note_how(t);
	for (const struct run_module *m = run->modules; m; m = m->next)
		most += m->unit.nprobes;
	good = make_table(&rows, most);
	*total = (struct dp_trace_row){.name = "total", .via = ""};
	for (const struct run_module *m = run->modules; good && m; m = m->next)
		for (u32 i = 0; i < m->unit.nprobes; i++) {
			struct dp_trace_row *row = row_of(&rows, m, i);
			struct dp_counts c;

			dp_run_counts(run, m, i, &c);
			for (u32 k = 0; k < DP_NCOUNTS; k++)
				row->counts.v[k] += c.v[k];
			add_governed(run, m, i, &row->governed);
			if (!row->via || m->how[i].via)
				row->via = via(&m->unit.probes[i], m->how[i].via);
			dp_trace_row_program(row, &m->unit.probes[i].prog, m->how[i].way);
		}
	for (u32 i = 0; i < rows.n; i++)
		dp_trace_row_finish(&rows.rows[i], total);
	dp_free(rows.places);
	*n = rows.n;
	return rows.rows;
}

void dp_run_put_rows(const struct dp_run *run, struct dp_line *to)
{
	struct dp_trace_row total, *rows;
	u32 n;

	rows = dp_run_rows(run, &n, &total);
	for (u32 i = 0; rows && i < n; i++)
		dp_trace_put_row(&rows[i], to);
	dp_free(rows);
}

#define ENTRY "entry of " /* of the probes that a line with $duration has at entries */

static bool is_part_of(const struct dp_rpn_probe *p, const char *row)
{
	char name[80];

	dp_run_probe_name(p, name, sizeof(name));
	if (!strcmp(name, row))
		return true;
	return !strncmp(name, ENTRY, strlen(ENTRY)) &&
	       !strcmp(name + strlen(ENTRY), row + (strncmp(row, "<-", 2) ? 0 : 2));
}

bool dp_run_row_is_entry(const char *row)
{
	return !strncmp(row, ENTRY, strlen(ENTRY));
}

static int pause_in(struct run_target *t, const char *row, bool pause, struct dp_error *err)
{
	u32 words, n = 0;
	int r = dp_tracee_can_change(t->session, &words) ? 0 : -EINVAL;

	for (u32 i = 0; !r && i < t->nprobes; i++)
		if (t->probes[i].m && is_part_of(&t->probes[i].m->unit.probes[t->probes[i].index], row)) {
			r = dp_tracee_pause(t->session, i, pause);
			n++;
		}
	if (!r && !n)
		return 0;
	if (r && n)
		dp_tracee_cancel(t->session);
	if (!r)
		r = dp_tracee_change(t->session, err);
	return r && !err->code ? dp_fail(err, E_ARM_CHANGE, t->pid ? "process %d" : "the kernel", (int)t->pid) : r;
}

int dp_run_pause(struct dp_run *run, const char *row, bool pause, struct dp_error *err)
{
	int r = 0;

	*err = (struct dp_error){0};
	for (struct run_target *t = run->targets; t && !r; t = t->next)
		if (t->session && dp_tracee_alive(t->session))
			r = pause_in(t, row, pause, err);
	return r;
}

u64 dp_run_hits(const struct dp_run *run)
{
	u64 n = 0;

	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.nprobes; i++) {
			struct dp_counts c;

			dp_run_counts(run, m, i, &c);
			n += dp_counts_hits(&c);
		}
	return n;
}

typedef u64 losses_fn(const struct dp_rpn_unit *u, volatile const u64 *words);

static u64 losses_of_all(const struct dp_run *run, losses_fn *of)
{
	u64 n = 0;

	for (const struct run_target *t = run->targets; t; t = t->next) {
		volatile const u64 *words = t->session ? dp_tracee_words(t->session) : NULL;

		for (const struct run_kept *k = t->kept; k; k = k->next)
			n += k->locals ? of(&k->m->unit, k->locals->words) : 0;
		for (u32 i = 0; words && i < t->nranges; i++)
			if (!t->ranges[i].left_out)
				n += of(&t->ranges[i].m->unit, words + t->ranges[i].locals);
	}
	for (const struct run_module *m = run->modules; m; m = m->next)
		for (const struct run_ended *e = m->ended; e; e = e->next)
			n += of(&m->unit, e->words);
	return n;
}

u64 dp_run_losses(const struct dp_run *run)
{
	u64 n = losses_of_all(run, dp_agg_losses);

	for (const struct run_module *m = run->modules; m; m = m->next)
		n += m->losses;
	return n;
}

u64 dp_run_thread_losses(const struct dp_run *run)
{
	u64 n = losses_of_all(run, dp_agg_thread_losses);

	for (const struct run_module *m = run->modules; m; m = m->next)
		n += m->thread_losses;
	return n;
}
