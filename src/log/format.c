/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the formats of events share: finds a record's event, knows the names of tasks, and sends the record through a
 * sink.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/now.h"
#include "lang/rpn/rpn.h"
#include "log/aggregate.h"
#include "log/format.h"
#include "log/log-rpn.h"
#include "log/reader.h"
#include "log/scope.h"
#include "log/sinks.h"
#include "log/template.h"

#define TASKS 4096                /* names kept; a power of two */
#define LOOK_AGAIN_NS 1000000000u /* a thread may change its name, an id may be used again */

struct task {
	u32 tid;
	u32 source; /* see dp_formatter_source() */
	u32 ours;   /* the same thread's id as we know it, 0: not looked up */
	u32 pid;    /* its process; 0: not known */
	bool known;
	char comm[16];
	u64 looked_ns; /* when it was last looked up */
};

struct dp_formatter {
	FILE *out;
	struct dp_format_env env;
	struct dp_line line;
	struct task *tasks; /* by the low bits of the id */
	u32 source, pid;
	char comm[16];          /* of those whose name nobody has seen; empty: not known */
	struct dp_scope *scope; /* NULL: all calls are shown */
	struct dp_time_span spans[DP_NTIMES];
	u32 nlooked;                    /* events that were looked at: */
	bool has_addresses;             /* one has addresses, whose names a recording keeps */
	struct dp_template **templates; /* of events, from their first record on; NULL: the format has none, or */
	u32 ntemplates;                 /* there was no memory */
	union dp_sink_room sink;
};

static const struct dp_sink_ops *const sinks[] = {
#define DP_FORMAT(id, name, events, programs, help) &events,
#define DP_EVENT_FORMAT(id, name, events, help) &events,
#define DP_WHOLE_FORMAT(id, name, events, help) &events,
#include "log/formats.def"
#undef DP_WHOLE_FORMAT
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
};

bool dp_format_is_directory(enum dp_format format)
{
	return sinks[format]->is_directory;
}

bool dp_format_takes_min(enum dp_format format)
{
	return sinks[format]->takes_min;
}

bool dp_format_takes_programs(enum dp_format format)
{
	return dp_format_is_whole(format) || sinks[format]->words;
}

bool dp_format_takes_tables_again(enum dp_format format)
{
	return sinks[format]->takes_tables_again;
}

const char *dp_format_missing(enum dp_format format)
{
	return sinks[format]->missing ? sinks[format]->missing() : NULL;
}

/* ---- one that is in use ---- */

static void name_address(struct dp_sink *s, u64 addr, bool behind_call, char *buf, size_t size)
{
	dp_symbol_text(s->env->symbolize, s->env->arg, addr, behind_call, buf, size);
}

int dp_formatter_new(struct dp_formatter **out, enum dp_format format, FILE *to, const struct dp_format_env *env)
{
	struct dp_formatter *f = dp_alloc(sizeof(*f));
	struct dp_sink *s;

	if (f)
		f->tasks = dp_alloc(TASKS * sizeof(*f->tasks));
	if (!f || !f->tasks) {
		dp_free(f);
		return -ENOMEM;
	}
	s = &f->sink.s;
	f->out = to;
	f->env = *env;
	s->ops = env->sink ? env->sink : sinks[format];
	s->line = &f->line;
	s->symbol = name_address;
	s->code_file = env->code_file;
	s->code_file_arg = env->arg;
	s->env = &f->env;
	s->dim = s->plain = "";
	if (dp_scope_limits(env->graph))
		f->scope = dp_scope_new(&f->env);
	if ((dp_scope_limits(env->graph) && !f->scope) || (s->ops->open && !s->ops->open(s, &f->env))) {
		dp_formatter_free(f);
		return -ENOMEM;
	}
	*out = f;
	return 0;
}

static void free_templates(struct dp_formatter *f)
{
	for (u32 i = 0; i < f->ntemplates; i++)
		dp_template_free(f->templates[i]);
	dp_free(f->templates);
}

void dp_formatter_free(struct dp_formatter *f)
{
	if (!f)
		return;
	if (f->sink.s.ops->release)
		f->sink.s.ops->release(&f->sink.s);
	free_templates(f);
	dp_scope_free(f->scope);
	dp_line_free(&f->line);
	dp_free(f->tasks);
	dp_free(f);
}

/* ---- tasks ---- */

bool dp_task_comm(u32 tid, char buf[16])
{
	char path[40];
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%u/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, 16);
	close(fd);
	if (n <= 0)
		return false;
	buf[n - 1] = '\0'; /* the line's end; a name has at most 15 bytes */
	return true;
}

/* The process of a thread; 0: it is gone. */
static u32 process_of(u32 tid)
{
	char path[40], text[512], *line;
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%u/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[DP_MAX(n, (ssize_t)0)] = '\0';
	line = strstr(text, "\nTgid:"); /* a line's end in the name in front of it is shown as \n */
	return line ? (u32)strtoul(line + 6, NULL, 10) : 0;
}

static struct task *task_slot(struct dp_formatter *f, u32 tid)
{
	struct task *t = &f->tasks[tid % TASKS];

	if (t->tid != tid || t->source != f->source) {
		memset(t, 0, sizeof(*t));
		t->tid = tid;
		t->source = f->source;
	}
	return t;
}

/* Whether it is time to ask for what is known of a thread. */
static bool look_again(struct task *t, u64 ns)
{
	if (t->looked_ns && ns - t->looked_ns <= LOOK_AGAIN_NS)
		return false;
	t->looked_ns = ns ? ns : 1;
	return true;
}

static void look_for_process(struct dp_formatter *f, struct task *t, u32 ours)
{
	u32 pid = f->env.recorded ? 0 : process_of(ours);

	t->pid = pid ? pid : t->pid;
}

static const char *task_name(struct dp_formatter *f, struct task *t, const struct dp_record *rec, u64 ns)
{
	u32 tid = rec->tid, ours = tid;
	const char *told = dp_view_comm(rec);
	bool look = look_again(t, ns);
	char comm[16];

	if (told) {
		memcpy(t->comm, told, sizeof(t->comm));
		t->comm[sizeof(t->comm) - 1] = '\0';
		if (look)
			look_for_process(f, t, tid);
		return t->comm;
	}
	/* The name of a thread that has ended stays, though it can no longer be looked up. */
	if (look && (f->env.comm ? f->env.comm(f->env.comm_arg, &ours, comm) : dp_task_comm(tid, comm))) {
		comm[15] = '\0';
		memcpy(t->comm, comm, sizeof(comm));
		t->ours = ours;
		t->known = true;
		look_for_process(f, t, ours);
	}
	return t->known ? t->comm : f->comm[0] ? f->comm : "<...>";
}

void dp_formatter_source(struct dp_formatter *f, u32 source, u32 pid, const char *comm)
{
	f->source = source;
	f->pid = pid;
	dp_format(f->comm, sizeof(f->comm), "%s", comm);
}

void dp_formatter_events(struct dp_formatter *f, const struct dp_event_info *events, u32 n)
{
	f->env.events = events;
	f->env.nevents = n;
	f->nlooked = 0;
}

/* ---- records ---- */

static void write_line(struct dp_formatter *f)
{
	if (f->line.n && !f->line.broken)
		fwrite_unlocked(f->line.text, 1, f->line.n, f->out);
}

/* A hit's are of both spans. Stamps may be anything, and 0 is none. */
static void extend(struct dp_formatter *f, enum dp_time_of of, u64 ns)
{
	ns = DP_MAX(ns, 1ull);
	for (u32 i = of; i < DP_NTIMES; i++) {
		struct dp_time_span *s = &f->spans[i];

		s->since = s->until ? DP_MIN(s->since, ns) : ns;
		s->until = DP_MAX(s->until, ns);
	}
}

void dp_formatter_times(struct dp_formatter *f, struct dp_time_span spans[DP_NTIMES])
{
	memcpy(spans, f->spans, sizeof(f->spans));
	memset(f->spans, 0, sizeof(f->spans));
}

/* The record's event is one of ours. */
static void describe(struct dp_formatter *f, const struct dp_record *rec, u64 ns, struct dp_sink_record *r)
{
	struct task *t = task_slot(f, rec->tid);

	r->rec = rec;
	r->ns = ns;
	r->source = f->source;
	r->event = &f->env.events[rec->event];
	r->task = task_name(f, t, rec, ns); /* before what it finds out: */
	r->tid = t->ours ? t->ours : rec->tid;
	r->pid = t->pid ? t->pid : f->pid;
	dp_view_init(&r->view, rec, f->env.events[rec->event].layout);
	/* One by one: to clear all of it first takes longer. */
	r->program = NULL;
	r->head = NULL;
	r->data = NULL;
	r->size = 0;
}

/* That of the record's event; NULL: its fields are walked through. */
static const struct dp_template *template_of(struct dp_formatter *f, const struct dp_sink_record *r)
{
	u32 event = r->rec->event, n = f->env.nevents;
	struct dp_template **more;

	if (event < f->ntemplates && f->templates[event])
		return f->templates[event];
	if (!f->sink.s.ops->lay_out)
		return NULL;
	if (event >= f->ntemplates) { /* there are more events now, or none had a record yet */
		more = dp_resize(f->templates, f->ntemplates * sizeof(*more), n * sizeof(*more));
		if (!more)
			return NULL;
		f->templates = more;
		f->ntemplates = n;
	}
	f->templates[event] = dp_template_new(&f->sink.s, r);
	return f->templates[event];
}

void dp_formatter_record(struct dp_formatter *f, const struct dp_record *rec, u64 ns)
{
	const struct dp_template *t;
	struct dp_sink_record r;

	if (rec->event >= f->env.nevents || (rec->flags & DP_REC_PAD))
		return;
	describe(f, rec, ns, &r);
	if (f->scope && !dp_scope_takes(f->scope, &r))
		return;
	extend(f, DP_TIME_HITS, ns);
	dp_line_reset(&f->line);
	t = template_of(f, &r);
	if (!t || !dp_template_put(t, &f->sink.s, &r))
		dp_walk_event(&f->sink.s, &r);
	write_line(f);
}

/* ---- parts of rings ---- */

bool dp_formatter_takes_parts(const struct dp_formatter *f)
{
	return f->sink.s.ops->part && !f->scope;
}

static bool has_addresses(const struct dp_layout *l)
{
	for (u32 i = 0; i < l->nfields; i++)
		if (dp_field_is_address(&l->fields[i]))
			return true;
	return l->has_ret_addr;
}

static void look_at_events(struct dp_formatter *f)
{
	f->has_addresses = false;
	for (u32 i = 0; i < f->env.nevents && !f->has_addresses; i++)
		f->has_addresses = has_addresses(f->env.events[i].layout);
	f->nlooked = f->env.nevents;
}

/* The thread whose record was met last in a part: its name is looked up again as if each record asked for it. */
struct met {
	u32 tid;
	u64 ns;
};

static bool is_met(struct met *m, const struct dp_record *rec)
{
	if (m->ns && rec->tid == m->tid && rec->tsc - m->ns <= LOOK_AGAIN_NS)
		return true;
	*m = (struct met){rec->tid, DP_MAX(rec->tsc, 1ull)};
	return false;
}

void dp_formatter_part(struct dp_formatter *f, struct dp_reader_part *part)
{
	struct met met = {0};
	struct dp_record *rec;

	if (f->nlooked != f->env.nevents)
		look_at_events(f);
	dp_line_reset(&f->line);
	f->sink.s.in_part = true;
	for (u64 at = 0; at < part->size; at += rec->len) {
		rec = (struct dp_record *)(part->bytes + at);
		if (rec->event >= f->env.nevents) {
			rec->flags |= DP_REC_PAD;
		} else if (!is_met(&met, rec) ||
			   (f->has_addresses && has_addresses(f->env.events[rec->event].layout))) {
			struct dp_sink_record r;

			describe(f, rec, rec->tsc, &r);
			dp_walk_event(&f->sink.s, &r);
		}
	}
	f->sink.s.in_part = false;
	if (part->n) {
		extend(f, DP_TIME_HITS, part->since);
		extend(f, DP_TIME_HITS, part->until);
	}
	f->sink.s.ops->part(&f->sink.s, f->source, part);
	if (f->line.broken) { /* without what the records need they are not written, either */
		f->sink.s.trouble = "there was no memory for some records";
		return;
	}
	write_line(f);
	fwrite_unlocked(part->bytes, 1, part->size, f->out);
}

static bool is_of_body(const struct dp_rpn_probe *p)
{
	return p && (p->place == DP_RPN_BEGIN || p->place == DP_RPN_END || p->place == DP_RPN_TIMER);
}

void dp_formatter_program(struct dp_formatter *f, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	extend(f, is_of_body(c->probe) ? DP_TIME_ALL : DP_TIME_HITS, c->ns);
	dp_line_reset(&f->line);
	dp_rpn_walk(&f->sink.s, rec, c);
	write_line(f);
}

static void give_table(void *arg, const struct dp_agg_table *t)
{
	struct dp_sink *s = arg;

	s->ops->aggregate(s, t);
}

void dp_formatter_aggregates(struct dp_formatter *f, const struct dp_rpn_unit *u, volatile const u64 *words,
			     const struct dp_agg_view *view)
{
	struct dp_sink *s = &f->sink.s;

	if (s->interval_ns)
		extend(f, DP_TIME_ALL, s->interval_ns);
	s->code_file = view->code_file;
	s->code_file_arg = view->arg;
	dp_line_reset(&f->line);
	if (s->ops->words)
		s->ops->words(s, u, words, DP_AGG_ALL, view);
	else
		dp_agg_each(u, words, DP_AGG_ALL, view, give_table, s);
	write_line(f);
}

void dp_formatter_print(struct dp_formatter *f, const struct dp_rpn_unit *u, volatile const u64 *words, u32 index,
			const struct dp_agg_view *view)
{
	if (!f->sink.s.ops->words)
		return;
	extend(f, DP_TIME_ALL, dp_now_ns());
	dp_line_reset(&f->line);
	f->sink.s.ops->words(&f->sink.s, u, words, index, view);
	write_line(f);
}

void dp_formatter_head(struct dp_formatter *f)
{
	dp_line_reset(&f->line);
	if (f->sink.s.ops->head)
		f->sink.s.ops->head(&f->sink.s);
	if (f->line.n)
		write_line(f);
}

void dp_formatter_lost(struct dp_formatter *f, u64 n)
{
	dp_line_reset(&f->line);
	if (f->sink.s.ops->lost)
		f->sink.s.ops->lost(&f->sink.s, n);
	if (f->line.n)
		write_line(f);
}

void dp_formatter_interval(struct dp_formatter *f, u64 ns)
{
	f->sink.s.interval_ns = ns;
}

void dp_formatter_commit(struct dp_formatter *f)
{
	if (f->sink.s.ops->commit) {
		dp_line_reset(&f->line);
		f->sink.s.ops->commit(&f->sink.s);
		write_line(f);
	}
	f->sink.s.interval_ns = 0;
}

const char *dp_formatter_finish(struct dp_formatter *f)
{
	dp_line_reset(&f->line);
	if (f->sink.s.ops->finish)
		f->sink.s.ops->finish(&f->sink.s);
	if (f->line.n)
		write_line(f);
	return f->line.broken ? "there is no memory for the output" : f->sink.s.trouble;
}
