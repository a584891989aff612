/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as a recording (log/recording.h): their records as they are, and beside them what is known here and nowhere
 * else, the names of addresses and of threads. What a record needs is written before it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

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

static void put_source(struct recording_sink *w, u32 source)
{
	const struct dp_format_env *env = w->s.env;
	struct dp_recording_source none = {.pid = env->pid};
	size_t at = open_block(w, DP_RECORDING_SOURCE, source);

	if (env->recording)
		env->recording->source(env->recording->arg, source, w->s.line);
	else
		dp_line_bytes(w->s.line, (const char *)&none, sizeof(none));
	close_block(w, at);
}

static void put_new(struct recording_sink *w, u32 source)
{
	while (w->nevents < w->s.env->nevents)
		put_event(w, w->nevents++);
	while (w->nsources <= source)
		put_source(w, w->nsources++);
}

/* What env->symbolize() says of an address, once. Whether it says anything. */
static bool put_name(struct recording_sink *w, u64 addr)
{
	struct dp_recording_name n = {.addr = addr};
	char name[DP_SINK_SYMBOL];
	u32 known;
	bool found;
	size_t at;

	if (dp_recording_find(&w->names, addr, w->source, &known))
		return known;
	found = w->s.env->symbolize && w->s.env->symbolize(w->s.env->arg, addr, name, sizeof(name));
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
	dp_format(now.comm, sizeof(now.comm), "%s", r->task);
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

/* ---- the sink ---- */

/* Nothing is known of what is behind it: a recording begins anew. */
static void forget(struct recording_sink *w)
{
	w->nsources = w->nevents = w->ntasks = 0;
	dp_recording_table_free(&w->names);
	dp_recording_table_free(&w->tasks);
}

void dp_recording_head_of(const struct dp_recording_env *env, struct dp_recording_head *h)
{
	struct timespec mono, real;
	struct utsname u;

	*h = env && env->head ? *env->head : (struct dp_recording_head){0};
	h->magic = DP_RECORDING_MAGIC;
	h->version = DP_RECORDING_VERSION;
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
	while (w->nevents < s->env->nevents)
		put_event(w, w->nevents++);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct recording_sink *w = (struct recording_sink *)s;
	u64 addr;

	w->source = r->source;
	put_new(w, r->source);
	put_task(w, r);
	if (dp_view_ret_addr(&r->view, &addr))
		put_names(w, addr, true);
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	if (v->kind == DP_SINK_ADDRESS)
		put_names((struct recording_sink *)s, v->bits, v->behind_call);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct recording_sink *w = (struct recording_sink *)s;
	struct dp_record rec = *r->rec;

	if (w->data_source != r->source || w->data.n > DATA_MAX - DP_RECORD_MAX)
		put_data(w);
	w->data_source = r->source;
	rec.tsc = r->ns;
	dp_line_bytes(&w->data, (const char *)&rec, sizeof(rec));
	dp_line_bytes(&w->data, (const char *)(r->rec + 1), rec.len - sizeof(rec));
}

static void commit(struct dp_sink *s)
{
	put_data((struct recording_sink *)s);
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
	dp_line_free(&w->data);
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
    .commit = commit,
    .lost = lost,
    .finish = finish,
};
