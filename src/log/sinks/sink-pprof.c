/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A profile in pprof's format, compressed: a sample for each call stack, with what was counted or measured there.
 * Stacks are those of events with $backtrace, of calls, or keys of tables. The nodes of the tree have the numbers of
 * places.
 */
#include <stdlib.h>
#include <string.h>

#include "log/aggregate.h"
#include "log/gzip.h"
#include "log/recording-table.h"
#include "log/recording.h"
#include "log/sinks.h"
#include "log/stacks.h"
#include <pprof.pb-c.h>

#define KEY_TEXT 512

struct place { /* a location of the profile */
	u64 addr;
	u32 function; /* number of its name */
	u32 file;     /* one more than its number; 0: not known */
};

struct table { /* that has call stacks: its values, which add up */
	char name[80];
	const char *unit;
};

struct row { /* of a table */
	u32 node, table;
	u64 value;
	char *label; /* the other parts of its key; NULL: there are none */
};

struct profile {
	struct place *places;
	size_t nplaces, places_room;
	struct dp_recording_table by_addr; /* an address and the number of its name */
	struct dp_code_file *files;
	size_t nfiles, files_room;
	u64 *ns; /* by node: $duration of events */
	size_t nns, ns_room;
	struct table *tables;
	size_t ntables, tables_room;
	struct row *rows;
	size_t nrows, rows_room;
	u64 first_ns;
	bool any_event, any_ns, any_without; /* a table without call stacks */
	bool of_program, is_duration;        /* the field at hand, */
	u64 duration;                        /* and its value; 0: none */
};

struct pprof_sink {
	struct dp_stacks_sink st;
	struct profile *p;
};
_Static_assert(sizeof(struct pprof_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct profile *profile_of(struct dp_sink *s)
{
	return ((struct pprof_sink *)s)->p;
}

static struct dp_stacks *stacks_of(struct dp_sink *s)
{
	return ((struct pprof_sink *)s)->st.stacks;
}

/* ---- places ---- */

static u32 file_of(struct dp_sink *s, u64 addr)
{
	struct profile *p = profile_of(s);
	struct dp_code_file f, *to;

	if (!s->code_file || !s->code_file(s->code_file_arg, addr, &f))
		return 0;
	for (size_t i = 0; i < p->nfiles; i++)
		if (p->files[i].lo == f.lo && !strcmp(p->files[i].path, f.path))
			return (u32)i + 1;
	if (!dp_grow((void **)&p->files, &p->files_room, p->nfiles, sizeof(f)))
		return 0;
	to = &p->files[p->nfiles++];
	*to = (struct dp_code_file){f.lo, f.hi, strdup(f.path), strdup(f.build_id)};
	return to->path && to->build_id ? (u32)p->nfiles : 0;
}

static u32 name_of(struct dp_sink *s, u64 addr, bool behind_call, const char *symbol)
{
	char name[DP_SINK_SYMBOL];

	if (symbol)
		return dp_stacks_name(stacks_of(s), symbol);
	s->symbol(s, addr, behind_call, name, sizeof(name));
	dp_stacks_function(name);
	return dp_stacks_name(stacks_of(s), name);
}

/* A caller's address is the one behind its call: the byte before is in the call. */
static u32 place_of(struct dp_sink *s, u64 addr, bool behind_call, const char *symbol)
{
	struct profile *p = profile_of(s);
	u32 name = name_of(s, addr, behind_call, symbol), at;

	addr -= behind_call && addr;
	if (dp_recording_find(&p->by_addr, addr, name, &at))
		return at;
	if (!dp_grow((void **)&p->places, &p->places_room, p->nplaces, sizeof(*p->places)) ||
	    !dp_recording_add(&p->by_addr, addr, name, (u32)p->nplaces)) {
		stacks_of(s)->broken = true;
		return 0;
	}
	p->places[p->nplaces] = (struct place){addr, name, file_of(s, addr)};
	return (u32)p->nplaces++;
}

/* ---- records ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	struct pprof_sink *ps = (struct pprof_sink *)s;

	ps->p = dp_alloc(sizeof(*ps->p));
	if (!dp_stacks_open(s, env) || !ps->p)
		return false;
	ps->st.stacks->place = place_of;
	return true;
}

static void release(struct dp_sink *s)
{
	struct profile *p = profile_of(s);

	for (size_t i = 0; p && i < p->nfiles; i++) {
		free((char *)p->files[i].path);
		free((char *)p->files[i].build_id);
	}
	for (size_t i = 0; p && i < p->nrows; i++)
		free(p->rows[i].label);
	if (p) {
		dp_recording_table_free(&p->by_addr);
		free(p->places);
		free(p->files);
		free(p->ns);
		free(p->tables);
		free(p->rows);
	}
	dp_free(p);
	dp_stacks_release(s);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct profile *p = profile_of(s);

	if (!p->first_ns)
		p->first_ns = r->ns;
	p->any_event |= r->event != NULL;
	p->is_duration = false;
	p->of_program = r->program;
	p->duration = 0;
	dp_stacks_begin(s, r);
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct profile *p = profile_of(s);

	p->is_duration = p->of_program && name && !strcmp(name, "duration"); /* $duration */
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct profile *p = profile_of(s);

	if (p->is_duration && (v->kind == DP_SINK_UNSIGNED || v->kind == DP_SINK_SIGNED))
		p->duration = v->bits;
	else
		dp_stacks_value(s, v);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct profile *p = profile_of(s);
	struct dp_stacks *st = stacks_of(s);

	dp_stacks_end(s, r);
	if (!st->last || !p->duration)
		return;
	while (p->nns <= st->last) {
		if (!dp_grow((void **)&p->ns, &p->ns_room, p->nns, sizeof(*p->ns))) {
			st->broken = true;
			return;
		}
		p->ns[p->nns++] = 0;
	}
	p->ns[st->last] += p->duration;
	p->any_ns = true;
}

/* Records of programs that are no events have no call stack of their own. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return false;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
}

/* ---- tables ---- */

/* A column of values; several processes share it. */
static u32 table_named(struct profile *p, const char *name, const char *suffix, const char *unit)
{
	struct table t = {.unit = unit};

	dp_format(t.name, sizeof(t.name), "%s%s", name, suffix);
	for (size_t i = 0; i < p->ntables; i++)
		if (!strcmp(p->tables[i].name, t.name))
			return (u32)i;
	if (!dp_grow((void **)&p->tables, &p->tables_room, p->ntables, sizeof(t)))
		return ~0u;
	p->tables[p->ntables++] = t;
	return (u32)p->ntables - 1;
}

static u32 node_of(struct dp_sink *s, const struct dp_agg_table *t, const u64 *chain)
{
	char name[DP_SINK_SYMBOL];
	u32 n = 0, node = 0;

	while (dp_agg_frame(t->a, chain, n))
		n++;
	while (n--) {
		dp_agg_frame_name(t, chain, n, name, sizeof(name));
		dp_stacks_function(name);
		node = dp_stacks_child(stacks_of(s), node, place_of(s, dp_agg_frame(t->a, chain, n), n > 0, name));
	}
	return node;
}

/* The parts of a key that are no call stack. */
static char *label_of(const struct dp_agg_table *t, const u64 *key)
{
	char part[KEY_TEXT];
	struct dp_line l = {0};
	char *label;

	if (t->a->nparts < 2)
		return NULL;
	for (u32 i = 0; i < t->a->nparts; key += dp_rpn_key_part_words(t->a, i++)) {
		if (t->a->parts[i] == DP_KEY_STACK)
			continue;
		dp_agg_part(t, i, key, part, sizeof(part));
		dp_line_str(&l, l.n ? ", " : "");
		dp_line_str(&l, part);
	}
	label = l.broken ? NULL : dp_line_clean_copy(l.n ? l.text : "", l.n);
	dp_line_free(&l);
	return label;
}

static void add_row(struct dp_sink *s, const struct dp_agg_table *t, const u64 *key, u32 node, u32 table, u64 value)
{
	struct profile *p = profile_of(s);

	if (!node || !value)
		return;
	if (table == ~0u || !dp_grow((void **)&p->rows, &p->rows_room, p->nrows, sizeof(*p->rows))) {
		stacks_of(s)->broken = true;
		return;
	}
	p->rows[p->nrows++] = (struct row){node, table, value, label_of(t, key)};
}

static u64 bars_sum(const u64 *v)
{
	u64 n = 0;

	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		n += v[i];
	return n;
}

/* What adds up: least, greatest and last values do not. */
static void add_entry(struct dp_sink *s, const struct dp_agg_table *t, const struct dp_agg_entry *e, u32 node)
{
	struct profile *p = profile_of(s);
	const struct dp_rpn_aggregate *a = t->a;
	const char *unit = strstr(a->name, "duration") ? "nanoseconds" : "count";

	if (a->kind == DP_AGG_COUNT)
		add_row(s, t, e->key, node, table_named(p, a->name, "", "count"), e->v[0]);
	else if (a->kind == DP_AGG_SUM)
		add_row(s, t, e->key, node, table_named(p, a->name, "", unit), e->v[0]);
	if (a->kind == DP_AGG_SUM)
		add_row(s, t, e->key, node, table_named(p, a->name, ": values", "count"), e->v[1]);
	else if (a->kind == DP_AGG_QUANTILES)
		add_row(s, t, e->key, node, table_named(p, a->name, ": values", "count"), dp_agg_values(e->v));
	else if (dp_agg_is_hist(a))
		add_row(s, t, e->key, node, table_named(p, a->name, ": values", "count"), bars_sum(e->v));
}

static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	u32 at = 0, i = 0;

	for (; i < t->a->nparts && t->a->parts[i] != DP_KEY_STACK; i++)
		at += dp_rpn_key_part_words(t->a, i);
	if (i == t->a->nparts) {
		profile_of(s)->any_without = true;
		return;
	}
	for (u32 k = 0; k < t->n; k++)
		add_entry(s, t, &t->v[k], node_of(s, t, t->v[k].key + at));
}

/* ---- the profile: all that is made for it is freed together ---- */

struct piece {
	struct piece *next;
	u64 data[];
};

struct build {
	struct dp_sink *s;
	struct profile *p;
	const struct dp_stacks *st;
	Dp__PpProfile out;
	struct piece *pieces;
	size_t texts_room;
	u32 first_table; /* sample types in front of those of tables */
	bool is_calls, broken;
};

static void *make(struct build *b, size_t n, size_t size)
{
	struct piece *piece = size && n <= SIZE_MAX / 2 / size ? calloc(1, sizeof(*piece) + n * size + 1) : NULL;

	if (!piece) {
		b->broken = true;
		return NULL;
	}
	piece->next = b->pieces;
	b->pieces = piece;
	return piece->data;
}

static s64 text(struct build *b, const char *s)
{
	Dp__PpProfile *out = &b->out;
	char *clean = dp_line_clean_copy(s, strlen(s));

	if (!clean || !dp_grow((void **)&out->string_table, &b->texts_room, out->n_string_table, sizeof(char *))) {
		dp_free(clean);
		b->broken = true;
		return 0;
	}
	out->string_table[out->n_string_table++] = clean;
	return (s64)out->n_string_table - 1;
}

/* The names of functions stand behind the empty text, in their order. */
static void build_functions(struct build *b)
{
	size_t n = b->st->nnames;
	Dp__PpFunction *v = make(b, n, sizeof(*v));

	text(b, "");
	b->out.function = make(b, n, sizeof(v));
	for (size_t i = 0; i < n && !b->broken; i++) {
		dp__pp_function__init(&v[i]);
		v[i].has_id = v[i].has_name = v[i].has_system_name = true;
		v[i].id = i + 1;
		v[i].name = v[i].system_name = text(b, b->st->names[i]);
		b->out.function[b->out.n_function++] = &v[i];
	}
}

static void build_mappings(struct build *b)
{
	size_t n = b->p->nfiles;
	Dp__PpMapping *v = make(b, n, sizeof(*v));

	b->out.mapping = make(b, n, sizeof(v));
	for (size_t i = 0; i < n && !b->broken; i++) {
		const struct dp_code_file *f = &b->p->files[i];

		dp__pp_mapping__init(&v[i]);
		v[i].has_id = v[i].has_memory_start = v[i].has_memory_limit = v[i].has_file_offset = true;
		v[i].has_filename = v[i].has_build_id = v[i].has_has_functions = v[i].has_functions = true;
		v[i].id = i + 1;
		v[i].memory_start = f->lo;
		v[i].memory_limit = f->hi;
		v[i].filename = text(b, f->path ? f->path : "");
		v[i].build_id = text(b, f->build_id ? f->build_id : "");
		b->out.mapping[b->out.n_mapping++] = &v[i];
	}
}

static void build_locations(struct build *b)
{
	size_t n = b->p->nplaces;
	Dp__PpLocation *v = make(b, n, sizeof(*v));
	Dp__PpLine *lines = make(b, n, sizeof(*lines)), **each = make(b, n, sizeof(lines));

	b->out.location = make(b, n, sizeof(v));
	for (size_t i = 0; i < n && !b->broken; i++) {
		const struct place *at = &b->p->places[i];

		dp__pp_line__init(&lines[i]);
		lines[i].has_function_id = true;
		lines[i].function_id = at->function + 1;
		each[i] = &lines[i];
		dp__pp_location__init(&v[i]);
		v[i].has_id = v[i].has_address = true;
		v[i].has_mapping_id = at->file;
		v[i].id = i + 1;
		v[i].mapping_id = at->file;
		v[i].address = at->addr;
		v[i].n_line = 1;
		v[i].line = &each[i];
		b->out.location[b->out.n_location++] = &v[i];
	}
}

static void build_type(struct build *b, const char *name, const char *unit)
{
	Dp__PpType *t = make(b, 1, sizeof(*t));

	if (b->broken)
		return;
	dp__pp_type__init(t);
	t->has_type = t->has_unit = true;
	t->type = text(b, name);
	t->unit = text(b, unit);
	b->out.sample_type[b->out.n_sample_type++] = t;
}

static void build_types(struct build *b)
{
	b->is_calls = b->st->unit[0] == 'n';
	b->out.sample_type = make(b, b->p->ntables + 2, sizeof(Dp__PpType *));
	if (b->is_calls) {
		build_type(b, "calls", "count");
		build_type(b, "time", "nanoseconds");
	} else if (b->p->any_event || !b->p->ntables) {
		build_type(b, "events", "count");
		if (b->p->any_ns)
			build_type(b, "duration", "nanoseconds");
	}
	b->first_table = (u32)b->out.n_sample_type;
	for (size_t i = 0; i < b->p->ntables; i++)
		build_type(b, b->p->tables[i].name, b->p->tables[i].unit);
}

/* Its values are still 0. */
static Dp__PpSample *build_sample(struct build *b, u32 node)
{
	Dp__PpSample *sample = make(b, 1, sizeof(*sample));
	u32 depth = 0;

	for (u32 i = node; i; i = b->st->nodes[i].parent)
		depth++;
	if (b->broken)
		return NULL;
	dp__pp_sample__init(sample);
	sample->location_id = make(b, depth, sizeof(u64));
	sample->value = make(b, b->out.n_sample_type, sizeof(s64));
	sample->n_value = b->out.n_sample_type;
	for (u32 i = node; i && !b->broken; i = b->st->nodes[i].parent)
		sample->location_id[sample->n_location_id++] = b->st->nodes[i].name + 1ull;
	if (b->broken)
		return NULL;
	b->out.sample[b->out.n_sample++] = sample;
	return sample;
}

static void build_of_node(struct build *b, u32 i)
{
	const struct dp_stack_node *node = &b->st->nodes[i];
	Dp__PpSample *sample = node->self || node->calls ? build_sample(b, i) : NULL;

	if (!sample)
		return;
	sample->value[0] = (s64)(b->is_calls ? node->calls : node->self);
	if (b->is_calls)
		sample->value[1] = (s64)node->self;
	else if (b->p->any_ns && i < b->p->nns)
		sample->value[1] = (s64)b->p->ns[i];
}

static void build_of_row(struct build *b, const struct row *row, s64 key)
{
	Dp__PpSample *sample = build_sample(b, row->node);
	Dp__PpLabel *label = sample && row->label ? make(b, 1, sizeof(*label)) : NULL;

	if (!sample)
		return;
	sample->value[b->first_table + row->table] = (s64)row->value;
	if (!label)
		return;
	dp__pp_label__init(label);
	label->has_key = label->has_str = true;
	label->key = key;
	label->str = text(b, row->label);
	sample->label = make(b, 1, sizeof(label));
	if (!b->broken)
		sample->label[sample->n_label++] = label;
}

static void build_samples(struct build *b)
{
	s64 key = text(b, "key");

	b->out.sample = make(b, b->st->n + b->p->nrows, sizeof(Dp__PpSample *));
	for (u32 i = 1; i < b->st->n && !b->broken; i++)
		build_of_node(b, i);
	for (size_t i = 0; i < b->p->nrows && !b->broken; i++)
		build_of_row(b, &b->p->rows[i], key);
}

static void build_time(struct build *b)
{
	const struct dp_recording_env *env = b->s->env->recording;
	struct dp_recording_head h;

	if (!env)
		return;
	dp_recording_head_of(env, &h);
	b->out.has_time_nanos = b->out.has_duration_nanos = true;
	b->out.time_nanos = (s64)(h.real_ns + (b->p->first_ns ? b->p->first_ns - h.mono_ns : 0));
	b->out.duration_nanos = (s64)env->lasted_ns(env->arg);
}

static void put_profile(struct build *b)
{
	size_t size = dp__pp_profile__get_packed_size(&b->out);
	u8 *bytes = malloc(size + 1);

	if (bytes)
		dp_gzip_put(b->s->line, bytes, dp__pp_profile__pack(&b->out, bytes));
	b->broken |= !bytes;
	free(bytes);
}

static void free_build(struct build *b)
{
	for (struct piece *next; b->pieces; b->pieces = next) {
		next = b->pieces->next;
		free(b->pieces);
	}
	for (size_t i = 0; i < b->out.n_string_table; i++)
		dp_free(b->out.string_table[i]);
	free(b->out.string_table);
}

static void finish(struct dp_sink *s)
{
	struct build b = {.s = s, .p = profile_of(s), .st = dp_stacks_whole(s), .out = DP__PP_PROFILE__INIT};

	build_functions(&b);
	build_mappings(&b);
	build_locations(&b);
	build_types(&b);
	build_samples(&b);
	build_time(&b);
	if (!b.broken)
		put_profile(&b);
	if (b.broken)
		s->trouble = "there is no memory for the profile";
	else if (b.p->any_without && !b.out.n_sample)
		s->trouble = "no table is by $backtrace";
	free_build(&b);
}

const struct dp_sink_ops dp_sink_pprof = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = field,
    .group = dp_stacks_group,
    .member = dp_stacks_member,
    .group_end = dp_stacks_group_end,
    .value = value,
    .end = end,
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
    .lost = dp_stacks_lost,
    .finish = finish,
    .takes_min = true,
};
