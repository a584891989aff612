/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as a recording (log/recording.h): their records as they are, and beside them what is known here and nowhere
 * else, the names of addresses and of threads. What a record needs is written before it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/reader.h"
#include "log/recording-table.h"
#include "log/recording.h"
#include "log/sinks.h"

#define DATA_MAX 65536u /* bytes of records in one block */

struct task {
	u32 ours;
	char comm[16];
};

struct recording_sink {
	struct dp_sink s;
	struct dp_line data; /* records of one process that are not written yet */
	u32 data_source;
	u32 source;            /* of the record at hand */
	u32 nsources, nevents; /* that are described */
	struct dp_recording_table names, tasks;
	struct task *v;
	u32 ntasks;
	size_t room;
	dp_symbolize_fn *symbolize; /* names addresses of the record at hand */
	void *symbolize_arg;
	u32 event; /* of the record of a program */
	/* Of programs: indexes by address, or by the process's id. They stay when a recording begins anew. */
	struct dp_recording_table programs, probes, processes;
	u32 nprograms, nprobes, nprocesses;
	u32 *pids; /* of the processes */
	size_t pids_room;
	struct dp_line told; /* what is told of programs and their probes: each recording begins with it */
	u32 ntables;         /* that have been told together so far */
};
_Static_assert(sizeof(struct recording_sink) <= sizeof(union dp_sink_room), "a sink fits");

u32 dp_recording_text_size(const char *text)
{
	return (u32)DP_MIN(strlen(text), (size_t)DP_RECORDING_TEXT - 1) + 1;
}

void dp_recording_put_text(struct dp_line *l, const char *text)
{
	static const char zeroes[8];
	u32 n = dp_recording_text_size(text) - 1;

	dp_line_bytes(l, text, n);
	dp_line_bytes(l, zeroes, 8 - n % 8);
}

/* ---- blocks ---- */

static size_t open_block(struct recording_sink *w, enum dp_recording_kind kind, u32 source)
{
	struct dp_recording_block b = {.magic = DP_RECORDING_BLOCK, .kind = kind, .source = source};

	dp_line_bytes(w->s.line, (const char *)&b, sizeof(b));
	return w->s.line->n;
}

static void close_block(struct recording_sink *w, size_t at)
{
	struct dp_line *l = w->s.line;
	u32 size = (u32)(l->n - at);

	if (!l->broken)
		memcpy(l->text + at - sizeof(size), &size, sizeof(size));
}
_Static_assert(offsetof(struct dp_recording_block, size) + sizeof(u32) == sizeof(struct dp_recording_block),
	       "the size stands last");

static void put_block(struct recording_sink *w, enum dp_recording_kind kind, u32 source, const void *p, size_t n)
{
	size_t at = open_block(w, kind, source);

	dp_line_bytes(w->s.line, p, n);
	close_block(w, at);
}

static void put_data(struct recording_sink *w)
{
	if (w->data.broken)
		w->s.trouble = "there was no memory for some records";
	else if (w->data.n)
		put_block(w, DP_RECORDING_DATA, w->data_source, w->data.text, w->data.n);
	dp_line_reset(&w->data);
}

/* ---- what records need ---- */

static void put_event(struct recording_sink *w, u32 i)
{
	const struct dp_event_info *ev = &w->s.env->events[i];
	const char *group = ev->group ? ev->group : "", *name = ev->name ? ev->name : "";
	const char *symbol = ev->symbol ? ev->symbol : "";
	const struct dp_layout *l = ev->layout;
	struct dp_recording_event e = {
	    .index = i,
	    .is_return = ev->is_return,
	    .has_faultmask = l->has_faultmask,
	    .has_ret_addr = l->has_ret_addr,
	    .offset = ev->offset,
	    .function = ev->function,
	    .fixed_size = l->fixed_size,
	    .nfields = l->nfields,
	    .group = (u16)dp_recording_text_size(group),
	    .name = (u16)dp_recording_text_size(name),
	    .symbol = (u16)dp_recording_text_size(symbol),
	};
	size_t at = open_block(w, DP_RECORDING_EVENT, 0);

	dp_line_bytes(w->s.line, (const char *)&e, sizeof(e));
	dp_line_bytes(w->s.line, (const char *)l->fields, l->nfields * sizeof(*l->fields));
	dp_recording_put_text(w->s.line, group);
	dp_recording_put_text(w->s.line, name);
	dp_recording_put_text(w->s.line, symbol);
	close_block(w, at);
}
_Static_assert(sizeof(struct dp_recording_event) % 8 == 0 && sizeof(struct dp_field) % 8 == 0, "all lies on 8 bytes");

/* given: as env->recording knows it. */
static void put_source(struct recording_sink *w, u32 source, u32 given)
{
	const struct dp_format_env *env = w->s.env;
	struct dp_recording_source none = {.pid = env->pid};
	size_t at = open_block(w, DP_RECORDING_SOURCE, source);

	if (env->recording)
		env->recording->source(env->recording->arg, given, w->s.line);
	else
		dp_line_bytes(w->s.line, (const char *)&none, sizeof(none));
	close_block(w, at);
}

static void put_new(struct recording_sink *w, u32 source)
{
	while (w->nevents < w->s.env->nevents)
		put_event(w, w->nevents++);
	while (w->nsources <= source) {
		put_source(w, w->nsources, w->nsources);
		w->nsources++;
	}
}

/* What an address is called, once. Whether it has a name. */
static bool put_name(struct recording_sink *w, u64 addr)
{
	struct dp_recording_name n = {.addr = addr};
	char name[DP_SINK_SYMBOL];
	u32 known;
	bool found;
	size_t at;

	if (dp_recording_find(&w->names, addr, w->source, &known))
		return known;
	found = w->symbolize && w->symbolize(w->symbolize_arg, addr, name, sizeof(name));
	if (!dp_recording_add(&w->names, addr, w->source, found) || !found)
		return found;
	n.text = dp_recording_text_size(name);
	at = open_block(w, DP_RECORDING_NAME, w->source);
	dp_line_bytes(w->s.line, (const char *)&n, sizeof(n));
	dp_recording_put_text(w->s.line, name);
	close_block(w, at);
	return true;
}

/* As dp_symbol_text() will ask. */
static void put_names(struct recording_sink *w, u64 addr, bool behind_call)
{
	if (!behind_call || !put_name(w, addr - 1))
		put_name(w, addr);
}

static void put_task(struct recording_sink *w, const struct dp_sink_record *r)
{
	struct dp_recording_task told = {.tid = r->rec->tid, .ours = r->tid};
	struct task now = {.ours = r->tid};
	u32 i;

	if (dp_view_comm(r->rec))
		return;
	memcpy(now.comm, r->task, strnlen(r->task, sizeof(now.comm) - 1));
	if (!dp_recording_find(&w->tasks, r->rec->tid, w->source, &i)) {
		if (!dp_grow((void **)&w->v, &w->room, w->ntasks, sizeof(*w->v)) ||
		    !dp_recording_add(&w->tasks, r->rec->tid, w->source, w->ntasks))
			return;
		i = w->ntasks++;
	} else if (!memcmp(&w->v[i], &now, sizeof(now))) {
		return;
	} else {
		put_data(w); /* which had the name before */
	}
	w->v[i] = now;
	memcpy(told.comm, now.comm, sizeof(told.comm));
	put_block(w, DP_RECORDING_TASK, w->source, &told, sizeof(told));
}

/* ---- what records of programs need ---- */

/* The index of what has that number in the table; *count is the next one. Whether it is new. */
static bool index_of(struct recording_sink *w, struct dp_recording_table *t, u64 what, u32 *count, u32 *index)
{
	if (dp_recording_find(t, what, 0, index))
		return false;
	if (!dp_recording_add(t, what, 0, *count))
		w->s.trouble = "there was no memory for some records";
	*index = (*count)++;
	return true;
}

static u32 put_process(struct recording_sink *w, u32 pid)
{
	u32 index;

	if (index_of(w, &w->processes, pid, &w->nprocesses, &index)) {
		if (!dp_grow((void **)&w->pids, &w->pids_room, index, sizeof(*w->pids))) {
			w->nprocesses--;
			return 0;
		}
		w->pids[index] = pid;
	}
	for (; w->nsources <= index; w->nsources++)
		put_source(w, w->nsources, w->pids[w->nsources]);
	return index;
}

/* The block that begins there, header included, is told in each recording. */
static void keep_told(struct recording_sink *w, size_t at)
{
	size_t begin = at - sizeof(struct dp_recording_block);

	if (!w->s.line->broken)
		dp_line_bytes(&w->told, w->s.line->text + begin, w->s.line->n - begin);
	if (w->told.broken)
		w->s.trouble = "there was no memory for some records";
}

/* With its NUL, filled up to 8 bytes. */
static void put_long_text(struct dp_line *l, const char *text)
{
	static const char zeroes[8];
	size_t n = strlen(text);

	dp_line_bytes(l, text, n);
	dp_line_bytes(l, zeroes, 8 - n % 8);
}

static const char *description(const struct dp_rpn_probe *p)
{
	return p && p->described ? p->described : "";
}

static u32 put_program(struct recording_sink *w, const struct dp_rpn_unit *u)
{
	const char *described = description(u->nprobes ? &u->probes[0] : NULL);
	struct dp_recording_program p = {.id = u->id,
					 .modtype = u->modtype,
					 .nlocals = u->nlocals,
					 .naggregates = u->naggregates,
					 .aggregate = sizeof(*u->aggregates),
					 .name = (u32)strlen(u->name) + 1,
					 .description = (u32)strlen(described) + 1};
	size_t at;

	if (!index_of(w, &w->programs, (u64)(uintptr_t)u, &w->nprograms, &p.index))
		return p.index;
	at = open_block(w, DP_RECORDING_PROGRAM, 0);
	dp_line_bytes(w->s.line, (const char *)&p, sizeof(p));
	dp_line_bytes(w->s.line, (const char *)u->aggregates, u->naggregates * sizeof(*u->aggregates));
	put_long_text(w->s.line, u->name);
	put_long_text(w->s.line, described);
	close_block(w, at);
	keep_told(w, at);
	return p.index;
}
/* In the files of version 2: another structure is another version. */
_Static_assert(sizeof(struct dp_rpn_aggregate) == 160, "aggregates are what recordings have of them");

static u32 put_probe(struct recording_sink *w, const struct dp_rpn_context *c)
{
	const char *described = description(c->probe);
	struct dp_recording_probe p = {.offset = c->offset, .description = (u32)strlen(described) + 1};
	size_t at;

	p.program = put_program(w, c->unit);
	if (!index_of(w, &w->probes, (u64)(uintptr_t)c->probe, &w->nprobes, &p.index))
		return p.index;
	at = open_block(w, DP_RECORDING_PROBE, 0);
	dp_line_bytes(w->s.line, (const char *)&p, sizeof(p));
	put_long_text(w->s.line, described);
	close_block(w, at);
	keep_told(w, at);
	return p.index;
}

/* ---- tables ---- */

/* Behind word i all are 0 for a while: a run ends there. */
static u32 end_of_run(volatile const u64 *words, u32 i, u32 n)
{
	while (i < n && (words[i] || (i + 1 < n && words[i + 1])))
		i++;
	return i;
}

/* Words from..to that are not 0, and how many runs of them there are. */
static u32 put_runs(struct dp_line *l, volatile const u64 *words, u32 from, u32 to)
{
	u32 n = 0;

	for (u32 i = from, end; i < to; i = end + 1, n++) {
		struct dp_recording_run run;

		while (i < to && !words[i])
			i++;
		end = end_of_run(words, i, to);
		if (i == to)
			break;
		run = (struct dp_recording_run){i, end - i};
		dp_line_bytes(l, (const char *)&run, sizeof(run));
		for (; i < end; i++) {
			u64 word = words[i];

			dp_line_bytes(l, (const char *)&word, sizeof(word));
		}
	}
	return n;
}

/* As sinks will ask for the names of addresses in keys. */
static void put_key_names(struct recording_sink *w, const struct dp_rpn_aggregate *a, const u64 *key)
{
	for (u32 i = 0; i < a->nparts; key += dp_rpn_key_part_words(a, i++)) {
		if (a->parts[i] == DP_KEY_CODE)
			put_names(w, *key, false);
		for (u32 k = 0; a->parts[i] == DP_KEY_STACK && k < a->frames && (!k || dp_agg_frame(a, key, k)); k++)
			put_names(w, dp_agg_frame(a, key, k), k > 0);
	}
}

static void put_table_names(void *arg, const struct dp_agg_table *t)
{
	for (u32 i = 0; i < t->n; i++)
		put_key_names(arg, t->a, t->v[i].key);
}

static bool find_words(const struct dp_rpn_unit *u, u32 only, u32 *from, u32 *to)
{
	*from = 0;
	*to = u->nlocals;
	for (u32 i = 0; i < u->naggregates && only != DP_AGG_ALL; i++)
		if (u->aggregates[i].index == only) {
			*from = only;
			*to = only + (u32)dp_rpn_aggregate_words(&u->aggregates[i]);
			return true;
		}
	return only == DP_AGG_ALL;
}

static void put_words(struct dp_sink *s, const struct dp_rpn_unit *u, volatile const u64 *words, u32 only,
		      const struct dp_agg_view *view)
{
	struct recording_sink *w = (struct recording_sink *)s;
	struct dp_recording_tables t = {.only = only, .taken_out = view->taken_out, .ended = view->ended};
	u64 *copy = dp_alloc(u->nlocals * sizeof(*copy));
	struct dp_agg_view of_copy = *view;
	size_t at;
	u32 from, to;

	if (!copy || !find_words(u, only, &from, &to)) {
		dp_free(copy);
		return;
	}
	for (u32 i = 0; i < u->nlocals; i++) /* the program may go on */
		copy[i] = dp_apart_read(words + i, view->apart);
	of_copy.apart = (struct dp_apart){0, 0};
	put_data(w);
	w->source = put_process(w, (u32)view->pid);
	w->symbolize = view->symbolize;
	w->symbolize_arg = view->arg;
	t.program = put_program(w, u);
	t.number = only == DP_AGG_ALL ? w->ntables++ : 0;
	dp_agg_each(u, copy, only, &of_copy, put_table_names, w);
	at = open_block(w, DP_RECORDING_TABLES, w->source);
	dp_line_bytes(s->line, (const char *)&t, sizeof(t));
	t.nruns = put_runs(s->line, copy, from, to);
	if (!s->line->broken)
		memcpy(s->line->text + at, &t, sizeof(t));
	close_block(w, at);
	dp_free(copy);
}

/* ---- the sink ---- */

/* Nothing is known of what is behind it: a recording begins anew. */
static void forget(struct recording_sink *w)
{
	w->nsources = w->nevents = w->ntasks = 0;
	w->ntables = 0;
	dp_recording_table_free(&w->names);
	dp_recording_table_free(&w->tasks);
}

void dp_recording_head_of(const struct dp_recording_env *env, struct dp_recording_head *h)
{
	struct timespec mono, real;
	struct utsname u;

	*h = env && env->head ? *env->head : (struct dp_recording_head){0};
	h->magic = DP_RECORDING_MAGIC;
	h->version = env && env->of_programs ? DP_RECORDING_VERSION_PROGRAMS
		     : env && env->has_rings ? DP_RECORDING_VERSION_RINGS
					     : DP_RECORDING_VERSION;
	h->size = sizeof(*h);
	if (env && env->head)
		return;
	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	h->mono_ns = (u64)mono.tv_sec * 1000000000u + (u64)mono.tv_nsec;
	h->real_ns = (u64)real.tv_sec * 1000000000u + (u64)real.tv_nsec;
	if (uname(&u))
		return;
	dp_format(h->system, sizeof(h->system), "%s", u.sysname);
	dp_format(h->release, sizeof(h->release), "%s", u.release);
	dp_format(h->machine, sizeof(h->machine), "%s", u.machine);
	dp_format(h->host, sizeof(h->host), "%s", u.nodename);
}

static void head(struct dp_sink *s)
{
	struct recording_sink *w = (struct recording_sink *)s;
	struct dp_recording_head h;

	dp_recording_head_of(s->env->recording, &h);
	forget(w);
	dp_line_bytes(s->line, (const char *)&h, sizeof(h));
	dp_line_bytes(s->line, w->told.text, w->told.n);
	while (w->nevents < s->env->nevents)
		put_event(w, w->nevents++);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct recording_sink *w = (struct recording_sink *)s;
	u64 addr;

	w->symbolize = r->program ? r->program->symbolize : s->env->symbolize;
	w->symbolize_arg = r->program ? r->program->symbolize_arg : s->env->arg;
	if (r->program) {
		w->source = put_process(w, r->program->pid);
		w->event = put_probe(w, r->program);
		put_task(w, r);
		if (!r->event)
			put_names(w, r->head->ip, false);
		return;
	}
	w->source = r->source;
	put_new(w, r->source);
	put_task(w, r);
	if (dp_view_ret_addr(&r->view, &addr))
		put_names(w, addr, true);
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	if (v->kind == DP_SINK_ADDRESS || v->kind == DP_SINK_CODE)
		put_names((struct recording_sink *)s, v->bits, v->behind_call);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct recording_sink *w = (struct recording_sink *)s;
	struct dp_record rec = *r->rec;

	if (s->in_part)
		return;
	if (w->data_source != w->source || w->data.n > DATA_MAX - DP_RECORD_MAX)
		put_data(w);
	w->data_source = w->source;
	rec.tsc = r->ns;
	if (r->program)
		rec.event = w->event;
	dp_line_bytes(&w->data, (const char *)&rec, sizeof(rec));
	dp_line_bytes(&w->data, (const char *)(r->rec + 1), rec.len - sizeof(rec));
}

static void part(struct dp_sink *s, u32 source, const struct dp_reader_part *p)
{
	struct recording_sink *w = (struct recording_sink *)s;
	const struct dp_recording_ring ring = {p->ring, p->n, p->known, p->since, p->until};
	const struct dp_recording_block b = {DP_RECORDING_BLOCK, DP_RECORDING_RING, source,
					     (u32)(sizeof(ring) + p->size)};

	put_data(w);
	put_new(w, source);
	dp_line_bytes(s->line, (const char *)&b, sizeof(b));
	dp_line_bytes(s->line, (const char *)&ring, sizeof(ring));
}

static void commit(struct dp_sink *s)
{
	struct recording_sink *w = (struct recording_sink *)s;

	put_data(w);
	if (s->interval_ns && w->ntables)
		put_block(w, DP_RECORDING_INTERVAL, 0, &s->interval_ns, sizeof(s->interval_ns));
	w->ntables = 0; /* those that come now are told together */
}

static void lost(struct dp_sink *s, u64 n)
{
	struct recording_sink *w = (struct recording_sink *)s;

	put_data(w);
	put_block(w, DP_RECORDING_LOST, 0, &n, sizeof(n));
}

static void put_budget(struct recording_sink *w, const struct dp_recording_env *env)
{
	struct dp_line *l = w->s.line;
	size_t before = l->n, at = open_block(w, DP_RECORDING_BUDGET, 0);

	env->budget(env->arg, l);
	if (l->n > at)
		close_block(w, at);
	else
		l->n = before;
}

static void finish(struct dp_sink *s)
{
	struct recording_sink *w = (struct recording_sink *)s;
	const struct dp_recording_env *env = s->env->recording;
	struct dp_recording_end last = {.lasted_ns = env ? env->lasted_ns(env->arg) : 0};
	size_t at;

	put_data(w);
	if (env) {
		if (!env->of_programs)
			put_new(w, 0);
		at = open_block(w, DP_RECORDING_ROWS, 0);
		env->rows(env->arg, s->line);
		close_block(w, at);
		if (env->budget)
			put_budget(w, env);
	}
	put_block(w, DP_RECORDING_END, 0, &last, sizeof(last));
}

static void release(struct dp_sink *s)
{
	struct recording_sink *w = (struct recording_sink *)s;

	forget(w);
	dp_recording_table_free(&w->programs);
	dp_recording_table_free(&w->probes);
	dp_recording_table_free(&w->processes);
	dp_line_free(&w->told);
	dp_line_free(&w->data);
	free(w->pids);
	free(w->v);
}

static void no_field(struct dp_sink *s, const char *name, unsigned i)
{
}

static void no_group(struct dp_sink *s, enum dp_sink_group what)
{
}

static void no_member(struct dp_sink *s, const char *name)
{
}

/* Of records that are no event's only the fields can have addresses with names. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return what == DP_SECTION_FIELDS && parses;
}

static void no_section(struct dp_sink *s, enum dp_sink_section what)
{
}

const struct dp_sink_ops dp_sink_recording = {
    .release = release,
    .head = head,
    .begin = begin,
    .field = no_field,
    .group = no_group,
    .member = no_member,
    .group_end = no_group,
    .value = value,
    .end = end,
    .section = section,
    .section_end = no_section,
    .words = put_words,
    .commit = commit,
    .lost = lost,
    .part = part,
    .finish = finish,
    .takes_tables_again = true,
    .takes_addresses = true,
};
