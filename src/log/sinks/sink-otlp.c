/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as OpenTelemetry's data: a call whose entry and return are traced is a span, with the arguments of both; the
 * outermost call of a thread begins a trace, and the calls in it are spans below it. Any other record is a log record,
 * in the span that its thread is in. Tables are metrics (otlp-metrics.c). A return alone is a span, too, where it has
 * the time of its call ($duration).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/now.h"
#include "log/calls.h"
#include "log/log-rpn.h"
#include "log/recording-table.h"
#include "log/sinks.h"
#include "log/sinks/otlp-batch.h"
#include "log/sinks/otlp-metrics.h"

#define INTERNAL 1 /* enum SpanKind */
#define INFO 9     /* enum SeverityNumber */
#define WARN 13

struct ids {
	u64 trace[2], span, parent; /* parent 0: none */
};

struct span { /* of an open call; its struct dp_call.text */
	struct ids ids;
	u32 pid;
	char task[16];
	char *args; /* of its entry */
	size_t n;
};

struct otlp {
	struct dp_otlp_batch *batch;
	struct dp_calls *calls;
	const struct dp_format_env *env; /* whose events the calls are of: the sink's, or */
	struct dp_format_env own;        /* one with the events of programs */
	u64 to_unix;                     /* from CLOCK_MONOTONIC */
	u64 seed;
	u64 ns; /* of the last record */
	const struct dp_sink_record *r;
	enum dp_call_role role;
	struct dp_call ended; /* the call that the record at hand returns from; */
	struct span *ending;  /* its span, ours now */
	struct dp_line args;  /* of the record */
	struct dp_json a;
	size_t field; /* where the argument begins that is written */
	u64 more;     /* what a.more was there */
	u64 keyed;    /* bit N: a member with a name is open at depth N of the argument's value */
	unsigned depth;
	bool is_hidden, is_duration;
	u64 duration;
	struct dp_recording_head head;
	struct dp_recording_table by_program; /* events of programs by what describes them */
};

struct otlp_sink {
	struct dp_sink s;
	struct otlp *o;
};
_Static_assert(sizeof(struct otlp_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct otlp *otlp_of(void *s)
{
	return ((struct otlp_sink *)s)->o;
}

/* ---- identities ---- */

/* SplitMix64: each is met once. 0 means that there is none. */
static u64 next_id(struct otlp *o)
{
	u64 x;

	do {
		x = o->seed += 0x9e3779b97f4a7c15;
		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
		x = (x ^ x >> 27) * 0x94d049bb133111eb;
		x ^= x >> 31;
	} while (!x);
	return x;
}

/* The same recording has the same identities whenever it is shown. */
static u64 seed_of(const struct dp_recording_head *h, bool recorded)
{
	u64 seed = h->real_ns ^ h->mono_ns << 20;

	if (!recorded && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
		return seed;
	for (const char *c = h->host; *c; c++)
		seed = (seed ^ (u8)*c) * 0x100000001b3;
	return seed;
}

static void put_ids(struct dp_json *j, const struct ids *ids)
{
	dp_json_key(j, "traceId");
	dp_json_hex(j, ids->trace, sizeof(ids->trace));
	dp_json_key(j, "spanId");
	dp_json_hex(j, &ids->span, sizeof(ids->span));
}

static struct ids new_ids(struct otlp *o, const struct ids *parent)
{
	if (parent)
		return (struct ids){{parent->trace[0], parent->trace[1]}, next_id(o), parent->span};
	return (struct ids){{next_id(o), next_id(o)}, next_id(o), 0};
}

/* ---- whose ---- */

static u32 process_of(const struct dp_sink *s, const struct dp_sink_record *r)
{
	return r->pid ? r->pid : r->head ? r->head->pid : s->env->pid;
}

/* The name of its first thread. */
static const char *name_of(const struct dp_sink *s, u32 pid, const char *otherwise, char comm[16])
{
	u32 tid = pid;

	if (dp_otlp_knows(otlp_of((void *)s)->batch, pid))
		return "";
	if (s->env->comm ? s->env->comm(s->env->comm_arg, &tid, comm) : !s->env->recorded && dp_task_comm(tid, comm)) {
		comm[15] = '\0';
		return comm;
	}
	return otherwise;
}

static struct dp_json *item(struct dp_sink *s, enum dp_otlp_kind kind, u32 pid, const char *task)
{
	char comm[16];

	return dp_otlp_item(otlp_of(s)->batch, kind, pid, name_of(s, pid, task, comm));
}

static void put_thread(struct dp_json *j, u32 tid, const char *task)
{
	dp_otlp_number(j, "thread.id", tid);
	if (task)
		dp_otlp_text(j, "thread.name", task);
}

/* ---- spans ---- */

struct piece {
	const char *text;
	size_t n;
};

static void put_pieces(struct dp_json *j, struct piece one, struct piece other)
{
	u64 bit = (u64)1 << (j->depth & 63);

	if ((one.n || other.n) && j->more & bit)
		dp_line_char(j->line, ',');
	dp_line_bytes(j->line, one.text, one.n);
	if (one.n && other.n)
		dp_line_char(j->line, ',');
	dp_line_bytes(j->line, other.text, other.n);
	if (one.n || other.n)
		j->more |= bit;
}

struct interval {
	u64 begin_ns, end_ns;
};

/* Its attributes are open behind it. */
static struct dp_json *open_span(struct dp_sink *s, const struct span *span, const char *name, struct interval when)
{
	struct otlp *o = otlp_of(s);
	struct dp_json *j = item(s, DP_OTLP_SPANS, span->pid, span->task);

	dp_json_open(j, '{');
	put_ids(j, &span->ids);
	if (span->ids.parent) {
		dp_json_key(j, "parentSpanId");
		dp_json_hex(j, &span->ids.parent, sizeof(span->ids.parent));
	}
	dp_json_put_string(j, "name", name);
	dp_json_put_unsigned(j, "kind", INTERNAL);
	dp_otlp_put_time(j, "startTimeUnixNano", when.begin_ns + o->to_unix);
	dp_otlp_put_time(j, "endTimeUnixNano", DP_MAX(when.begin_ns, when.end_ns) + o->to_unix);
	dp_json_key(j, "attributes");
	dp_json_open(j, '[');
	return j;
}

static void close_span(struct dp_json *j)
{
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

/* remark: what its end is, where that is no return; NULL. */
static void put_call(struct dp_sink *s, u32 tid, const struct dp_call *c, const struct span *span, u64 end_ns,
		     struct piece result, const char *remark)
{
	struct dp_json *j = open_span(s, span, otlp_of(s)->env->events[c->event].symbol,
				      (struct interval){c->begin_ns, end_ns});

	put_thread(j, tid, span->task);
	put_pieces(j, (struct piece){span->args, span->n}, result);
	if (remark)
		dp_otlp_text(j, "dprobes.end", remark);
	if (c->lost) {
		dp_otlp_open(j, "dprobes.records_lost", "boolValue");
		dp_json_bool(j, true);
		dp_otlp_close(j);
	}
	close_span(j);
}

static void free_span(struct span *span)
{
	if (span)
		free(span->args);
	free(span);
}

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
	struct otlp *o = otlp_of(arg);
	const struct span *above = parent ? parent->text : NULL;
	struct span *span = calloc(1, sizeof(*span));

	c->text = span;
	if (!span)
		return; /* it is not shown */
	span->ids = new_ids(o, above ? &above->ids : NULL);
	span->pid = process_of(arg, o->r);
	dp_format(span->task, sizeof(span->task), "%s", o->r->task);
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct otlp *o = otlp_of(arg);
	struct dp_call *c = &outer[depth];
	struct span *span = c->text;

	c->text = NULL;
	if (!span)
		return;
	if (how == DP_CALL_RETURNED) { /* the record at hand has its result */
		o->ended = *c;
		o->ending = span;
		return;
	}
	put_call(arg, tid, c, span, ns, (struct piece){NULL, 0},
		 how == DP_CALL_LEFT ? "no return was seen" : "it had not returned at the end of the trace");
	free_span(span);
}

/* ---- values ---- */

static void put_text(struct dp_json *j, const char *text, size_t n)
{
	dp_json_key(j, "stringValue");
	dp_json_text(j, text, n);
}

static void put_integer(struct dp_json *j, bool fits, u64 bits)
{
	char digits[24];

	if (fits) {
		dp_json_key(j, "intValue");
		dp_otlp_integer(j, (s64)bits);
		return;
	}
	put_text(j, digits, (size_t)dp_format(digits, sizeof(digits), "%llu", (unsigned long long)bits));
}

/* A number in digits: infinities and what is none are texts. */
static void put_digits(struct dp_json *j, const char *text, size_t n)
{
	bool number = n > 0;

	for (size_t i = 0; i < n; i++)
		number &= strchr("0123456789+-.eE", text[i]) != NULL;
	if (!number) {
		put_text(j, text, n);
		return;
	}
	dp_json_key(j, "doubleValue");
	dp_json_digits(j, text, n);
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	static const char *const missing[] = {[DP_MISSING_FAULT] = "(fault)",
					      [DP_MISSING_FAULT_AT] = "(fault)",
					      [DP_MISSING_CUT] = "(cut)",
					      [DP_MISSING_REST] = "(cut)",
					      [DP_MISSING_NOTHING] = "(nothing)"};
	struct otlp *o = otlp_of(s);
	struct dp_json *j = &o->a;
	char buf[DP_SINK_SYMBOL], c = (char)v->bits;

	dp_json_open(j, '{');
	switch (v->kind) {
	case DP_SINK_UNSIGNED:
	case DP_SINK_CODE:
		put_integer(j, v->bits <= INT64_MAX, v->bits);
		break;
	case DP_SINK_SIGNED:
		put_integer(j, true, v->bits);
		break;
	case DP_SINK_BYTE:
		put_integer(j, true, (u64)(s8)c);
		break;
	case DP_SINK_BOOL:
		dp_json_key(j, "boolValue");
		dp_json_bool(j, v->bits);
		break;
	case DP_SINK_CHAR:
		put_text(j, &c, 1);
		break;
	case DP_SINK_ADDRESS:
		s->symbol(s, v->bits, v->behind_call, buf, sizeof(buf));
		put_text(j, buf, strlen(buf));
		break;
	case DP_SINK_DIGITS:
		put_digits(j, v->text, v->len);
		break;
	case DP_SINK_BYTES:
		dp_json_key(j, "stringValue");
		dp_json_hex(j, v->text, v->len);
		break;
	case DP_SINK_TEXT:
	case DP_SINK_NAME:
	case DP_SINK_MESSAGE:
		put_text(j, v->text, v->len);
		break;
	case DP_SINK_MISSING:
		put_text(j, missing[v->missing], strlen(missing[v->missing]));
		break;
	}
	dp_json_close(j, '}');
	if (o->is_duration && (v->kind == DP_SINK_UNSIGNED || v->kind == DP_SINK_SIGNED))
		o->duration = v->bits;
}

static void close_member(struct otlp *o)
{
	u64 bit = (u64)1 << (o->depth & 63);

	if (o->keyed & bit)
		dp_json_close(&o->a, '}');
	o->keyed &= ~bit;
}

static void member(struct dp_sink *s, const char *name)
{
	struct otlp *o = otlp_of(s);

	close_member(o);
	if (!name)
		return;
	dp_json_open(&o->a, '{');
	dp_json_put_string(&o->a, "key", name);
	dp_json_key(&o->a, "value");
	o->keyed |= (u64)1 << (o->depth & 63);
}

static void group(struct dp_sink *s, enum dp_sink_group what)
{
	struct otlp *o = otlp_of(s);

	dp_json_open(&o->a, '{');
	dp_json_key(&o->a, what == DP_GROUP_STRUCT ? "kvlistValue" : "arrayValue");
	dp_json_open(&o->a, '{');
	dp_json_key(&o->a, "values");
	dp_json_open(&o->a, '[');
	o->depth++;
	o->keyed &= ~((u64)1 << (o->depth & 63));
}

static void group_end(struct dp_sink *s, enum dp_sink_group what)
{
	struct otlp *o = otlp_of(s);

	close_member(o);
	o->depth--;
	dp_json_close(&o->a, ']');
	dp_json_close(&o->a, '}');
	dp_json_close(&o->a, '}');
}

/* Keys of one span differ: an argument of the return that is called like one of the entry has a longer name. */
static void put_key(struct otlp *o, const char *name)
{
	char longer[128];
	size_t begin;

	dp_json_open(&o->a, '{');
	begin = o->args.n;
	dp_json_put_string(&o->a, "key", name);
	if (!o->ending || !o->ending->n || o->args.broken ||
	    !memmem(o->ending->args, o->ending->n, o->args.text + begin, o->args.n - begin))
		return;
	o->args.n = begin;
	o->a.more &= ~((u64)1 << (o->a.depth & 63));
	dp_format(longer, sizeof(longer), "%.100s.return", name);
	dp_json_put_string(&o->a, "key", longer);
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct otlp *o = otlp_of(s);
	char unnamed[16];

	dp_format(unnamed, sizeof(unnamed), "arg%u", i + 1);
	o->is_hidden = !s->program && name && !strcmp(name, "sp"); /* of dprobes graph: nobody wants to see it */
	o->is_duration = o->r->program && name && !strcmp(name, "duration");
	o->field = o->args.n;
	o->more = o->a.more;
	put_key(o, name && *name ? name : name || !s->program ? unnamed : "message");
	dp_json_key(&o->a, "value");
}

static void field_end(struct dp_sink *s)
{
	struct otlp *o = otlp_of(s);

	dp_json_close(&o->a, '}');
	if (!o->is_hidden)
		return;
	o->args.n = DP_MIN(o->args.n, o->field);
	o->a.more = o->more;
}

/* ---- records ---- */

/* Records of programs know their event by its description. False: it was not told beforehand. */
static bool find_event(struct dp_sink *s, const struct dp_sink_record *r, u32 *found)
{
	const struct dp_event_info *ev = r->event;
	struct otlp *o = otlp_of(s);
	u64 rf = (u64)(uintptr_t)r->program->rf, function;
	u32 i;

	if (!ev)
		return false;
	if (dp_recording_find(&o->by_program, rf, 0, found))
		return *found < o->env->nevents;
	function = dp_rpn_function(r->program->module, ev->symbol);
	for (i = 0; i < o->env->nevents; i++) {
		const struct dp_event_info *known = &o->env->events[i];

		if (known->function == function && known->is_return == ev->is_return && known->offset == ev->offset)
			break;
	}
	dp_recording_add(&o->by_program, rf, 0, i); /* without memory for it, it is looked for again */
	*found = i;
	return i < o->env->nevents;
}

/* What it is among the calls. */
static enum dp_call_role role_of(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_record rec = *r->rec;
	struct dp_sink_record as_event = *r;
	u32 i;

	if (!r->program)
		return dp_calls_take(otlp_of(s)->calls, r);
	if (!find_event(s, r, &i))
		return DP_CALL_POINT;
	rec.event = i;
	as_event.rec = &rec;
	return dp_calls_take(otlp_of(s)->calls, &as_event);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct otlp *o = otlp_of(s);

	o->r = r;
	o->ns = DP_MAX(o->ns, r->ns);
	o->duration = 0;
	o->depth = 0;
	dp_line_reset(&o->args);
	o->a = (struct dp_json){.line = &o->args};
	o->role = role_of(s, r);
}

/* The arguments of an entry wait for the call's end. */
static void keep_args(struct otlp *o)
{
	struct dp_call *c = dp_calls_innermost(o->calls, o->r->tid);
	struct span *span = c ? c->text : NULL;

	if (!span || span->args || o->args.broken)
		return;
	span->args = o->args.n ? malloc(o->args.n) : NULL;
	span->n = span->args ? o->args.n : 0;
	if (span->n)
		memcpy(span->args, o->args.text, span->n);
}

static void end_call(struct dp_sink *s)
{
	struct otlp *o = otlp_of(s);

	if (o->ending)
		put_call(s, o->r->tid, &o->ended, o->ending, o->ns, (struct piece){o->args.text, o->args.n}, NULL);
	free_span(o->ending);
	o->ending = NULL;
}

/* A log record whose attributes are open behind it. in: the span it happened in; NULL: none. */
static struct dp_json *open_log(struct dp_sink *s, u32 pid, const char *task, const struct ids *in, bool warns,
				const char *text)
{
	struct otlp *o = otlp_of(s);
	struct dp_json *j = item(s, DP_OTLP_LOGS, pid, task);

	dp_json_open(j, '{');
	dp_otlp_put_time(j, "timeUnixNano", o->ns + o->to_unix);
	dp_otlp_put_time(j, "observedTimeUnixNano", o->ns + o->to_unix);
	dp_json_put_unsigned(j, "severityNumber", warns ? WARN : INFO);
	dp_json_put_string(j, "severityText", warns ? "WARN" : "INFO");
	dp_json_key(j, "body");
	dp_json_open(j, '{');
	dp_json_put_string(j, "stringValue", text);
	dp_json_close(j, '}');
	if (in)
		put_ids(j, in);
	dp_json_key(j, "attributes");
	dp_json_open(j, '[');
	return j;
}

static void put_log(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct otlp *o = otlp_of(s);
	const struct dp_event_info *ev = r->event;
	const char *module = r->program ? r->program->module : NULL;
	bool named = ev && ev->name && ev->name[0];
	const char *what = named ? ev->name : ev ? ev->symbol : dp_base_name(module);
	struct dp_call *c = dp_calls_innermost(o->calls, r->tid);
	const struct span *in = c ? c->text : NULL;
	struct dp_json *j = open_log(s, process_of(s, r), r->task, in ? &in->ids : NULL, false, what);

	put_thread(j, r->tid, r->task);
	if (ev)
		dp_otlp_text(j, "code.function.name", ev->symbol);
	if (o->role == DP_CALL_ORPHAN)
		dp_otlp_text(j, "dprobes.end", "the entry of this return was not seen");
	put_pieces(j, (struct piece){o->args.text, o->args.n}, (struct piece){NULL, 0});
	if (s->program && !r->program->rf) { /* what no program describes */
		dp_otlp_open(j, "dprobes.data", "stringValue");
		dp_json_hex(j, r->data, r->size);
		dp_otlp_close(j);
	}
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

/* The return of a function in a program, with the time that the call took. */
static void put_lone_span(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct otlp *o = otlp_of(s);
	const struct dp_event_info *ev = r->event;
	struct span span = {.ids = new_ids(o, NULL), .pid = process_of(s, r)};
	struct dp_json *j;

	dp_format(span.task, sizeof(span.task), "%s", r->task);
	j = open_span(s, &span, ev->symbol, (struct interval){r->ns - DP_MIN(o->duration, r->ns), r->ns});
	put_thread(j, r->tid, r->task);
	put_pieces(j, (struct piece){o->args.text, o->args.n}, (struct piece){NULL, 0});
	close_span(j);
}

static void write_full(struct dp_sink *s)
{
	if (dp_otlp_is_full(otlp_of(s)->batch))
		dp_otlp_write(otlp_of(s)->batch, s->line);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct otlp *o = otlp_of(s);
	const struct dp_event_info *ev = r->event;

	if (o->role == DP_CALL_ENTRY)
		keep_args(o);
	else if (o->role == DP_CALL_RETURN)
		end_call(s);
	else if (r->program && ev && ev->is_return && o->duration)
		put_lone_span(s, r);
	else
		put_log(s, r);
	write_full(s);
	o->r = NULL;
}

static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return parses && what == DP_SECTION_FIELDS;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
}

static void lost(struct dp_sink *s, u64 n)
{
	struct otlp *o = otlp_of(s);
	struct dp_json *j;

	dp_calls_lost(o->calls);
	j = open_log(s, s->env->pid, "", NULL, true, "records were lost");
	dp_otlp_number(j, "dprobes.records", (s64)n);
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

/* ---- the sink ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct otlp *o = dp_alloc(sizeof(*o));

	((struct otlp_sink *)s)->o = o;
	if (!o)
		return false;
	dp_recording_head_of(env->recording, &o->head);
	o->to_unix = o->head.real_ns - o->head.mono_ns;
	o->seed = seed_of(&o->head, env->recorded);
	o->batch = dp_otlp_batch_new(o->head.host);
	o->env = env;
	if (env->ndescribed) {
		o->own = *env;
		o->own.events = env->described;
		o->own.nevents = env->ndescribed;
		o->env = &o->own;
	}
	o->calls = dp_calls_new(o->env, &ops, s);
	return o->batch && o->calls;
}

static void free_open(void *arg, struct dp_call *c)
{
	free_span(c->text);
}

static void release(struct dp_sink *s)
{
	struct otlp *o = otlp_of(s);

	if (!o)
		return;
	if (o->calls)
		dp_calls_each(o->calls, free_open, NULL);
	free_span(o->ending);
	dp_calls_free(o->calls);
	dp_otlp_batch_free(o->batch);
	dp_recording_table_free(&o->by_program);
	dp_line_free(&o->args);
	dp_free(o);
}

static void commit(struct dp_sink *s)
{
	if (dp_otlp_is_due(otlp_of(s)->batch))
		dp_otlp_write(otlp_of(s)->batch, s->line);
}

static void finish(struct dp_sink *s)
{
	dp_calls_end(otlp_of(s)->calls);
	dp_otlp_write(otlp_of(s)->batch, s->line);
}

/* When the tables were what they are, in nanoseconds of the clock of the day. */
static u64 time_of_tables(const struct dp_sink *s, const struct otlp *o)
{
	const struct dp_format_env *env = s->env;

	if (s->interval_ns)
		return s->interval_ns + o->to_unix;
	return env->recorded ? o->head.real_ns + env->recording->lasted_ns(env->recording->arg) : dp_real_ns();
}

static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	struct otlp *o = otlp_of(s);
	struct dp_json *j = item(s, DP_OTLP_METRICS, (u32)t->view->pid, dp_base_name(t->module));

	dp_otlp_put_table(j, t, o->head.real_ns, time_of_tables(s, o));
	write_full(s);
}

const struct dp_sink_ops dp_sink_otlp = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = field,
    .field_end = field_end,
    .group = group,
    .member = member,
    .group_end = group_end,
    .value = value,
    .end = end,
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
    .commit = commit,
    .finish = finish,
    .lost = lost,
    .takes_tables_again = true,
};
