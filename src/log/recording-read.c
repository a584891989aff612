/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See recording-read.h. The file is read twice: first everything but the records, since formats want to know all
 * events before the first one; then the records, with the names of threads as they were then. Nothing is mapped: a file
 * may become shorter meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/recording-priv.h"
#include "log/recording-table.h"

#define KNOWN_FLAGS (DP_REC_FAULTED | DP_REC_TRUNCATED | DP_REC_EXIT | DP_REC_COMM | DP_REC_STOP)
#define PROGRAM_FLAGS (KNOWN_FLAGS | DP_REC_RPN | DP_REC_TRACE | DP_REC_ITEMS | DP_REC_BARE)

struct source {
	struct dp_recording_process p;
	struct dp_recording_map *maps;
	char **paths;
};

struct task {
	u32 ours;
	char comm[16];
};

struct dp_recording {
	int fd;
	char *path;
	u64 pos, end; /* the next block; where the last whole and sound one ends */
	u8 *buffer;
	size_t buffer_room;
	struct dp_recording_info info;
	struct dp_error damage; /* met by the first pass */
	struct dp_event_info *events;
	struct dp_recording_row *rows;
	struct dp_recording_governed *governed;
	struct source *sources;
	char **names;
	struct task *tasks;
	u32 nnames, ntasks;
	size_t events_room, sources_room, names_room, tasks_room;
	struct dp_recording_table name_table, task_table;
	struct dp_recording_programs programs;
	struct dp_recording_rings rings;
	u64 left_out; /* records */
	bool is_ended;
};

/* A text of that size, its NUL included. NULL: it is none. */
static const char *take_text(struct dp_recording_cursor *c, u32 size)
{
	return size > DP_RECORDING_TEXT ? NULL : dp_recording_take_long(c, size);
}

static int bad(const struct dp_recording *r, struct dp_error *err, const char *what)
{
	return dp_fail(err, E_REC_DAMAGED, "%.150s at %llu: %s", r->path, (unsigned long long)r->pos, what);
}

static int no_memory(const struct dp_recording *r, struct dp_error *err)
{
	return dp_fail(err, E_REC_MEMORY, "%.150s", r->path);
}

/* ---- events ---- */

bool dp_recording_is_word(const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return strlen(text) < 256;
}

static bool layout_ok(const struct dp_layout *l)
{
	if (dp_layout_check(l, DP_RECORD_MAX, NULL))
		return false;
	for (u32 i = 0; i < l->nfields; i++)
		if (!dp_recording_is_word(l->fields[i].name))
			return false;
	return true;
}

static void free_event(struct dp_event_info *ev)
{
	free((char *)ev->group);
	free((char *)ev->name);
	free((char *)ev->symbol);
	if (ev->layout)
		free(ev->layout->fields);
	free((struct dp_layout *)ev->layout);
}

/* False: no memory. */
static bool copy_event(struct dp_event_info *to, const struct dp_event_info *from)
{
	struct dp_layout *l = malloc(sizeof(*l));
	size_t size = from->layout->nfields * sizeof(struct dp_field);

	*to = *from;
	to->group = strdup(from->group);
	to->name = strdup(from->name);
	to->symbol = strdup(from->symbol);
	to->layout = l;
	if (l) {
		*l = *from->layout;
		l->fields = malloc(size + 1);
		if (l->fields && size)
			memcpy(l->fields, from->layout->fields, size);
	}
	if (to->group && to->name && to->symbol && l && l->fields)
		return true;
	free_event(to);
	return false;
}

static int take_event(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_event *e = dp_recording_take(c, sizeof(*e));
	const struct dp_field *fields = e ? dp_recording_take(c, e->nfields * sizeof(*fields)) : NULL;
	struct dp_layout layout;
	struct dp_event_info ev;

	if (!fields || e->index > r->info.nevents || e->index >= DP_RECORDING_EVENTS)
		return bad(r, err, "an event");
	layout = (struct dp_layout){.nfields = e->nfields,
				    .fixed_size = e->fixed_size,
				    .has_faultmask = !!e->has_faultmask,
				    .has_ret_addr = !!e->has_ret_addr,
				    .fields = (struct dp_field *)fields};
	ev = (struct dp_event_info){.group = take_text(c, e->group),
				    .name = take_text(c, e->name),
				    .symbol = take_text(c, e->symbol),
				    .offset = e->offset,
				    .function = e->function,
				    .is_return = e->is_return,
				    .layout = &layout};
	if (!ev.group || !ev.name || !ev.symbol || !dp_recording_is_word(ev.group) || !dp_recording_is_word(ev.name) ||
	    !layout_ok(&layout))
		return bad(r, err, "an event");
	if (e->index < r->info.nevents) /* told once more */
		return 0;
	if (!dp_grow((void **)&r->events, &r->events_room, r->info.nevents, sizeof(ev)) ||
	    !copy_event(&r->events[r->info.nevents], &ev))
		return no_memory(r, err);
	r->info.nevents++;
	return 0;
}

/* ---- programs ---- */

static int tell_program(const struct dp_recording *r, enum dp_code code, const char *what, struct dp_error *err)
{
	if (!code)
		return 0;
	return code == E_REC_MEMORY ? no_memory(r, err) : bad(r, err, what);
}

static int take_program(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	enum dp_code code = dp_recording_take_program(&r->programs, c);

	r->info.nprograms = r->programs.nunits;
	return tell_program(r, code, "a program", err);
}

static int take_probe(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	struct dp_event_info ev = {.group = NULL};
	enum dp_code code = dp_recording_take_probe(&r->programs, r->info.nevents, c, &ev);

	if (!code && ev.group &&
	    (!dp_grow((void **)&r->events, &r->events_room, r->info.nevents, sizeof(ev)) ||
	     !copy_event(&r->events[r->info.nevents], &ev)))
		code = E_REC_MEMORY;
	r->info.nevents += !code && ev.group;
	return tell_program(r, code, "a probe of a program", err);
}

static int take_tables(struct dp_recording *r, u32 source, struct dp_recording_cursor *c, struct dp_error *err)
{
	enum dp_code code = source < r->info.nsources ? dp_recording_take_tables(&r->programs, source, false, c, NULL)
						      : E_REC_DAMAGED;

	r->info.ntables = r->programs.last.n;
	return tell_program(r, code, "tables", err);
}

/* ---- processes ---- */

static void free_source(struct source *s)
{
	for (u32 i = 0; s->paths && i < s->p.nmaps; i++)
		free(s->paths[i]);
	free(s->paths);
	free(s->maps);
}

static int take_maps(struct dp_recording *r, struct source *s, struct dp_recording_cursor *c, struct dp_error *err)
{
	s->maps = calloc(s->p.nmaps + 1, sizeof(*s->maps));
	s->paths = calloc(s->p.nmaps + 1, sizeof(*s->paths));
	if (!s->maps || !s->paths)
		return no_memory(r, err);
	for (u32 i = 0; i < s->p.nmaps; i++) {
		const struct dp_recording_map *m = dp_recording_take(c, sizeof(*m));
		const char *path = m ? take_text(c, m->path) : NULL;

		if (!path || strnlen(m->build_id, sizeof(m->build_id)) == sizeof(m->build_id) ||
		    !dp_recording_is_word(m->build_id))
			return bad(r, err, "a mapped file");
		s->maps[i] = *m;
		s->paths[i] = strdup(path);
		if (!s->paths[i])
			return no_memory(r, err);
	}
	return 0;
}

static int take_source(struct dp_recording *r, u32 index, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_source *from = dp_recording_take(c, sizeof(*from));
	struct source s = {0};
	int result;

	if (!from || from->nmaps > c->left / sizeof(struct dp_recording_map) || index > r->info.nsources ||
	    index >= DP_RECORDING_SOURCES)
		return bad(r, err, "a process");
	s.p = (struct dp_recording_process){.pid = from->pid, .nmaps = from->nmaps};
	memcpy(s.p.comm, from->comm, sizeof(s.p.comm) - 1);
	result = take_maps(r, &s, c, err);
	if (!result && index == r->info.nsources &&
	    !dp_grow((void **)&r->sources, &r->sources_room, r->info.nsources, sizeof(s)))
		result = no_memory(r, err);
	if (result) {
		free_source(&s);
		return result;
	}
	if (index == r->info.nsources)
		r->info.nsources++;
	else
		free_source(&r->sources[index]);
	r->sources[index] = s;
	return 0;
}

/* ---- names ---- */

static int take_name(struct dp_recording *r, u32 source, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_name *n = dp_recording_take(c, sizeof(*n));
	const char *text = n ? take_text(c, n->text) : NULL;
	u32 known;

	if (!text)
		return bad(r, err, "the name of an address");
	if (!*text || dp_recording_find(&r->name_table, n->addr, source, &known))
		return 0;
	if (!dp_grow((void **)&r->names, &r->names_room, r->nnames, sizeof(*r->names)))
		return no_memory(r, err);
	r->names[r->nnames] = strdup(text);
	if (!r->names[r->nnames])
		return no_memory(r, err);
	r->nnames++;
	return dp_recording_add(&r->name_table, n->addr, source, r->nnames - 1) ? 0 : no_memory(r, err);
}

static int take_task(struct dp_recording *r, u32 source, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_task *from = dp_recording_take(c, sizeof(*from));
	struct task t = {0};
	u32 i;

	if (!from)
		return bad(r, err, "the name of a thread");
	t.ours = from->ours;
	memcpy(t.comm, from->comm, sizeof(t.comm) - 1);
	if (!dp_recording_find(&r->task_table, from->tid, source, &i)) {
		if (!dp_grow((void **)&r->tasks, &r->tasks_room, r->ntasks, sizeof(*r->tasks)) ||
		    !dp_recording_add(&r->task_table, from->tid, source, r->ntasks))
			return no_memory(r, err);
		i = r->ntasks++;
	}
	r->tasks[i] = t;
	return 0;
}

/* ---- what became of hits ---- */

static bool is_amount(double v)
{
	return v >= 0 && v < 1e18;
}

static int take_rows(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	u32 n = (u32)(c->left / sizeof(*r->rows));
	struct dp_recording_row *rows = calloc(n + 1, sizeof(*rows));

	if (!rows)
		return no_memory(r, err);
	memcpy(rows, c->p, n * sizeof(*rows));
	for (u32 i = 0; i < n; i++) {
		rows[i].name[sizeof(rows[i].name) - 1] = '\0';
		if (!is_amount(rows[i].cost_ns))
			rows[i].cost_ns = 0;
		rows[i].via[sizeof(rows[i].via) - 1] = '\0';
	}
	free(r->rows);
	r->rows = rows;
	r->info.nrows = n;
	r->info.ngoverned = 0; /* it comes behind them */
	return 0;
}

static int take_budget(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_budget *b = dp_recording_take(c, sizeof(*b));
	struct dp_recording_governed *v;
	u32 n;

	if (!b || !b->budget || b->budget > 10000 || !is_amount(b->cost_ns))
		return bad(r, err, "a budget");
	n = (u32)(c->left / sizeof(*v));
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return no_memory(r, err);
	memcpy(v, c->p, n * sizeof(*v));
	free(r->governed);
	r->governed = v;
	r->info.budget = *b;
	r->info.ngoverned = n;
	for (u32 i = 0; i < n; i++)
		if (v[i].row >= r->info.nrows || !is_amount(v[i].missed))
			return bad(r, err, "a probe that was taken out");
	return 0;
}

static int take_end(struct dp_recording *r, struct dp_recording_cursor *c, struct dp_error *err)
{
	const struct dp_recording_end *end = dp_recording_take(c, sizeof(*end));

	if (!end)
		return bad(r, err, "its end");
	r->info.lasted_ns = end->lasted_ns;
	r->is_ended = true;
	return 0;
}

/* ---- blocks ---- */

static bool read_at(struct dp_recording *r, u64 pos, void *to, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(r->fd, (u8 *)to + done, size - done, (off_t)(pos + done));

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The head of the next block; 1: there is none. */
static int next_head(struct dp_recording *r, struct dp_recording_block *b, struct dp_error *err)
{
	u64 left = r->end - r->pos;

	if (left < sizeof(*b))
		return 1;
	if (!read_at(r, r->pos, b, sizeof(*b)))
		return bad(r, err, "it cannot be read");
	if (b->magic != DP_RECORDING_BLOCK || b->size > DP_RECORDING_BLOCK_MAX || b->size % 8)
		return bad(r, err, "what should be a block");
	return b->size > left - sizeof(*b);
}

/* Its bytes, which stay until the next one. */
static int read_block(struct dp_recording *r, const struct dp_recording_block *b, struct dp_recording_cursor *c,
		      struct dp_error *err)
{
	if (b->size > r->buffer_room) {
		u8 *more = realloc(r->buffer, b->size);

		if (!more)
			return no_memory(r, err);
		r->buffer = more;
		r->buffer_room = b->size;
	}
	if (!read_at(r, r->pos + sizeof(*b), r->buffer, b->size))
		return bad(r, err, "it cannot be read");
	*c = (struct dp_recording_cursor){r->buffer, b->size};
	return 0;
}

/* Of records it is only seen how old they are, and that only from the first one on that are of a ring. */
static int look_at_records(struct dp_recording *r, const struct dp_recording_block *b, struct dp_error *err)
{
	bool of_ring = b->kind == DP_RECORDING_RING;
	size_t head = of_ring ? sizeof(struct dp_recording_ring) : sizeof(struct dp_record);
	u64 at = of_ring ? offsetof(struct dp_recording_ring, since) : offsetof(struct dp_record, tsc), since;

	if (!of_ring && !r->rings.n)
		return 0;
	if (b->size < head || !read_at(r, r->pos + sizeof(*b) + at, &since, sizeof(since)))
		return bad(r, err, of_ring ? "a part of a ring" : "records");
	return dp_recording_note(&r->rings, since) ? 0 : no_memory(r, err);
}

static int describe(struct dp_recording *r, const struct dp_recording_block *b, struct dp_error *err)
{
	struct dp_recording_cursor c = {0};
	int result;

	if (b->kind == DP_RECORDING_DATA || b->kind == DP_RECORDING_RING)
		return look_at_records(r, b, err);
	result = read_block(r, b, &c, err);
	if (result)
		return result;
	switch (b->kind) {
	case DP_RECORDING_EVENT:
		return take_event(r, &c, err);
	case DP_RECORDING_SOURCE:
		return take_source(r, b->source, &c, err);
	case DP_RECORDING_NAME:
		return take_name(r, b->source, &c, err);
	case DP_RECORDING_ROWS:
		return take_rows(r, &c, err);
	case DP_RECORDING_BUDGET:
		return take_budget(r, &c, err);
	case DP_RECORDING_END:
		return take_end(r, &c, err);
	case DP_RECORDING_PROGRAM:
		return take_program(r, &c, err);
	case DP_RECORDING_PROBE:
		return take_probe(r, &c, err);
	case DP_RECORDING_TABLES:
		return take_tables(r, b->source, &c, err);
	case DP_RECORDING_INTERVAL: /* what was told before is shown there, and not at the end */
		dp_recording_forget_tables(&r->programs, &r->programs.last);
		r->info.ntables = 0;
		r->info.has_intervals = true;
		return 0;
	default: /* of the second pass, or of a later version */
		return 0;
	}
}

/* Up to the end, or to what makes no sense. */
static int first_pass(struct dp_recording *r, struct dp_error *err)
{
	struct dp_recording_block b;
	u64 size = r->end;
	int result;

	while (!(result = next_head(r, &b, err))) {
		result = describe(r, &b, err);
		if (result)
			break;
		r->pos += sizeof(b) + b.size;
	}
	if (result < 0 && err->code == E_REC_MEMORY)
		return result;
	if (result < 0)
		r->damage = *err;
	dp_recording_noted(&r->rings);
	r->end = r->pos;
	r->info.cut = result < 0 ? 0 : size - r->end;
	return 0;
}

/* ---- records ---- */

static bool record_ok(const struct dp_recording *r, const struct dp_record *rec, size_t left)
{
	if (left < sizeof(*rec) || rec->len < sizeof(*rec) || rec->len % 8 || rec->len > DP_RECORD_MAX ||
	    rec->len > left || rec->event >= r->info.nevents)
		return false;
	return !(rec->flags & ~(dp_recording_hit(r, rec->event)->probe ? PROGRAM_FLAGS : KNOWN_FLAGS));
}

/* Of a part of a ring: it may be one that was passed over, whose length is all that is said of it. */
static bool ring_record_ok(const struct dp_recording *r, const struct dp_record *rec, size_t left)
{
	if (left >= sizeof(*rec) && rec->flags & DP_REC_PAD)
		return rec->len >= sizeof(*rec) && !(rec->len % 8) && rec->len <= left;
	return record_ok(r, rec, left) && !dp_recording_hit(r, rec->event)->probe;
}

/* 1: whoever takes them has enough. What makes no sense costs the rest of its part: the others stand for themselves. */
static int play_ring(struct dp_recording *r, u32 source, struct dp_recording_cursor *c,
		     const struct dp_recording_ops *ops, void *arg, struct dp_error *err)
{
	const struct dp_recording_ring *ring = dp_recording_take(c, sizeof(*ring));
	const struct dp_record *rec;

	if (!ring || source >= r->info.nsources)
		return bad(r, err, "a part of a ring");
	if (!dp_recording_show_known(&r->rings, ring->known, ops, arg))
		return 1;
	for (; c->left; dp_recording_take(c, rec->len)) {
		rec = (const struct dp_record *)c->p;
		if (!ring_record_ok(r, rec, c->left)) {
			r->rings.damaged += c->left;
			break;
		}
		if (!(rec->flags & DP_REC_PAD) && !dp_recording_keep(&r->rings, source, rec))
			return no_memory(r, err);
	}
	return !dp_recording_bound(&r->rings, ops, arg);
}

/* Behind parts of rings they are in one order with what waits of those: of a second process, or a successor's. */
static int play_behind_rings(struct dp_recording *r, u32 source, struct dp_recording_cursor *c,
			     const struct dp_recording_ops *ops, void *arg, struct dp_error *err)
{
	const struct dp_record *rec;
	bool first = true;

	for (; c->left; dp_recording_take(c, rec->len)) {
		rec = (const struct dp_record *)c->p;
		if (!record_ok(r, rec, c->left))
			return bad(r, err, "a record");
		if (first && !dp_recording_show_known(&r->rings, rec->tsc, ops, arg))
			return 1;
		first = false;
		if (!dp_recording_keep(&r->rings, source, rec))
			return no_memory(r, err);
		r->rings.known = DP_MAX(r->rings.known, rec->tsc); /* all that are older were written before it */
	}
	return !dp_recording_bound(&r->rings, ops, arg);
}

/* 1: whoever takes them has enough. */
static int play_data(struct dp_recording *r, u32 source, struct dp_recording_cursor *c,
		     const struct dp_recording_ops *ops, void *arg, struct dp_error *err)
{
	if (source >= r->info.nsources)
		return bad(r, err, "records of a process that is not described");
	if (r->rings.at)
		return play_behind_rings(r, source, c, ops, arg, err);
	while (c->left) {
		const struct dp_record *rec = (const struct dp_record *)c->p;

		if (!record_ok(r, rec, c->left))
			return bad(r, err, "a record");
		if (!ops->record(arg, source, rec))
			return 1;
		c->p += rec->len;
		c->left -= rec->len;
	}
	return 0;
}

static int play_tables(struct dp_recording *r, u32 source, struct dp_recording_cursor *c,
		       const struct dp_recording_ops *ops, void *arg, struct dp_error *err)
{
	const struct dp_recording_tables_read *printed = NULL;
	enum dp_code code = source < r->info.nsources
				? dp_recording_take_tables(&r->programs, source, true, c, &printed)
				: E_REC_DAMAGED;

	if (!code && printed)
		ops->printed(arg, printed);
	return tell_program(r, code, "tables", err);
}

static int play_interval(struct dp_recording *r, struct dp_recording_cursor *c, const struct dp_recording_ops *ops,
			 void *arg, struct dp_error *err)
{
	const u64 *ns = dp_recording_take(c, sizeof(*ns));

	if (!ns)
		return bad(r, err, "an interval");
	ops->interval(arg, *ns, r->programs.now.v, r->programs.now.n);
	dp_recording_forget_tables(&r->programs, &r->programs.now);
	return 0;
}

static int play_block(struct dp_recording *r, const struct dp_recording_block *b, const struct dp_recording_ops *ops,
		      void *arg, struct dp_error *err)
{
	bool wanted = b->kind == DP_RECORDING_DATA || b->kind == DP_RECORDING_TASK || b->kind == DP_RECORDING_LOST ||
		      b->kind == DP_RECORDING_TABLES || b->kind == DP_RECORDING_INTERVAL ||
		      b->kind == DP_RECORDING_RING;
	struct dp_recording_cursor c = {0};
	const u64 *lost;
	int result = wanted ? read_block(r, b, &c, err) : 0;

	if (result || !wanted)
		return result;
	if (b->kind == DP_RECORDING_DATA)
		return play_data(r, b->source, &c, ops, arg, err);
	if (b->kind == DP_RECORDING_RING)
		return play_ring(r, b->source, &c, ops, arg, err);
	if (b->kind == DP_RECORDING_TASK)
		return take_task(r, b->source, &c, err);
	if (b->kind == DP_RECORDING_TABLES)
		return play_tables(r, b->source, &c, ops, arg, err);
	if (b->kind == DP_RECORDING_INTERVAL)
		return play_interval(r, &c, ops, arg, err);
	lost = dp_recording_take(&c, sizeof(*lost));
	if (!lost)
		return bad(r, err, "losses");
	ops->lost(arg, *lost);
	return 0;
}

int dp_recording_play(struct dp_recording *r, const struct dp_recording_ops *ops, void *arg, struct dp_error *err)
{
	struct dp_recording_block b;
	bool enough = false;
	int result;

	dp_recording_begin_rings(&r->rings, r->is_ended && !r->damage.code);
	r->left_out = 0;
	r->pos = r->info.head.size;
	while (!(result = next_head(r, &b, err))) {
		result = play_block(r, &b, ops, arg, err);
		enough = result > 0;
		if (result)
			break;
		r->pos += sizeof(b) + b.size;
	}
	if (!enough) /* what comes before something that makes no sense, too */
		r->left_out = dp_recording_show_rest(&r->rings, ops, arg);
	if (result >= 0 && r->damage.code) {
		*err = r->damage;
		return -(int)dp_error_info(err->code)->number;
	}
	if (result >= 0 && r->rings.damaged)
		return dp_fail(err, E_REC_DAMAGED, "%.150s: %llu bytes of records", r->path,
			       (unsigned long long)r->rings.damaged);
	return DP_MIN(result, 0);
}

u64 dp_recording_left_out(const struct dp_recording *r)
{
	return r->left_out;
}

void dp_recording_place(const struct dp_recording *r, u64 *done, u64 *total)
{
	*done = r->pos;
	*total = r->end;
}

/* ---- open and close ---- */

static int read_head(struct dp_recording *r, struct dp_error *err)
{
	struct dp_recording_head *h = &r->info.head;
	struct stat st;

	if (fstat(r->fd, &st) || st.st_size < (off_t)sizeof(*h) || !read_at(r, 0, h, sizeof(*h)) ||
	    h->magic != DP_RECORDING_MAGIC)
		return dp_fail(err, E_REC_NONE, "%.200s", r->path);
	if (h->version < DP_RECORDING_VERSION || h->version > DP_RECORDING_VERSION_RINGS || h->size < sizeof(*h) ||
	    h->size > 1u << 20 || h->size % 8)
		return dp_fail(err, E_REC_VERSION, "%.150s has version %u, this dprobes reads %u to %u", r->path,
			       h->version, DP_RECORDING_VERSION, DP_RECORDING_VERSION_RINGS);
	h->system[sizeof(h->system) - 1] = h->release[sizeof(h->release) - 1] = '\0';
	h->machine[sizeof(h->machine) - 1] = h->host[sizeof(h->host) - 1] = '\0';
	r->end = (u64)st.st_size;
	r->pos = DP_MIN((u64)h->size, r->end);
	return 0;
}

int dp_recording_open(struct dp_recording **out, const char *path, struct dp_error *err)
{
	struct dp_recording *r = calloc(1, sizeof(*r));
	int result;

	*out = NULL;
	if (!r)
		return dp_fail(err, E_REC_MEMORY, "%.200s", path);
	r->fd = dp_open_regular(path);
	r->path = strdup(path);
	if (r->fd < 0)
		result = dp_fail(err, E_FILE_OPEN, "%.150s: %s", path,
				 errno == EINVAL ? "it is no regular file" : strerror(errno));
	else
		result = r->path ? read_head(r, err) : dp_fail(err, E_REC_MEMORY, "%.200s", path);
	result = result ? result : first_pass(r, err);
	if (result) {
		dp_recording_close(r);
		return result;
	}
	*out = r;
	return 0;
}

void dp_recording_close(struct dp_recording *r)
{
	if (!r)
		return;
	for (u32 i = 0; i < r->info.nevents; i++)
		free_event(&r->events[i]);
	for (u32 i = 0; i < r->info.nsources; i++)
		free_source(&r->sources[i]);
	for (u32 i = 0; i < r->nnames; i++)
		free(r->names[i]);
	dp_recording_table_free(&r->name_table);
	dp_recording_table_free(&r->task_table);
	dp_recording_free_programs(&r->programs);
	dp_recording_free_rings(&r->rings);
	free(r->events);
	free(r->sources);
	free(r->names);
	free(r->tasks);
	free(r->rows);
	free(r->governed);
	free(r->buffer);
	free(r->path);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

/* ---- questions ---- */

void dp_recording_info(const struct dp_recording *r, struct dp_recording_info *info)
{
	*info = r->info;
	info->events = r->events;
	info->rows = r->rows;
	info->governed = r->governed;
}

const struct dp_recording_hit *dp_recording_hit(const struct dp_recording *r, u32 event)
{
	static const struct dp_recording_hit none;

	return event < r->programs.nprobes ? &r->programs.probes[event] : &none;
}

const struct dp_rpn_unit *dp_recording_program(const struct dp_recording *r, u32 program)
{
	return r->programs.units[program];
}

const struct dp_recording_tables_read *dp_recording_tables(const struct dp_recording *r)
{
	return r->programs.last.v;
}

void dp_recording_process(const struct dp_recording *r, u32 source, struct dp_recording_process *p)
{
	*p = r->sources[source].p;
}

const char *dp_recording_map(const struct dp_recording *r, u32 source, u32 i, struct dp_recording_map *map)
{
	*map = r->sources[source].maps[i];
	return r->sources[source].paths[i];
}

bool dp_recording_symbolize(const struct dp_recording *r, u32 source, u64 addr, char *buf, size_t size)
{
	u32 i;

	if (!dp_recording_find(&r->name_table, addr, source, &i))
		return false;
	dp_format(buf, size, "%s", r->names[i]);
	return true;
}

bool dp_recording_task(const struct dp_recording *r, u32 source, u32 *tid, char comm[16])
{
	u32 i;

	if (!dp_recording_find(&r->task_table, *tid, source, &i))
		return false;
	memcpy(comm, r->tasks[i].comm, sizeof(r->tasks[i].comm));
	*tid = r->tasks[i].ours;
	return true;
}
