/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-join.h: two recordings of programs as one. The first may be cut anywhere; the second is our own, whole. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "log/recording.h"
#include "run/run-join.h"

struct list { /* blocks, by their number */
	const struct dp_recording_block **v;
	u32 n, last; /* found last: the next one is looked for behind it */
	size_t room;
};

struct known {
	struct list programs, probes, sources;
};

struct numbers { /* of the second recording's: which they are from now on */
	u32 *v;
	u32 n;
	size_t room;
};

struct other {
	FILE *to;
	struct known known;
	struct numbers programs, probes, sources;
	char *copy; /* of the block at hand */
	size_t copy_room;
	bool broken;
};

/* The next whole block; NULL: there is none. */
static const struct dp_recording_block *next(const char **at, const char *end)
{
	const struct dp_recording_block *b = (const void *)*at;

	if ((size_t)(end - *at) < sizeof(*b) || b->magic != DP_RECORDING_BLOCK || b->size % 8 ||
	    b->size > (size_t)(end - *at) - sizeof(*b))
		return NULL;
	*at += sizeof(*b) + b->size;
	return b;
}

static bool add(struct list *l, const struct dp_recording_block *b)
{
	if (!dp_grow((void **)&l->v, &l->room, l->n, sizeof(*l->v)))
		return false;
	l->v[l->n++] = b;
	return true;
}

static struct list *list_of(struct known *k, const struct dp_recording_block *b)
{
	if (b->kind == DP_RECORDING_PROGRAM && b->size >= sizeof(struct dp_recording_program))
		return &k->programs;
	if (b->kind == DP_RECORDING_PROBE && b->size >= sizeof(struct dp_recording_probe))
		return &k->probes;
	return b->kind == DP_RECORDING_SOURCE && b->size >= sizeof(struct dp_recording_source) ? &k->sources : NULL;
}

/* What is told once more has its number already. */
static bool is_next(const struct list *l, const struct dp_recording_block *b)
{
	return (b->kind == DP_RECORDING_SOURCE ? b->source : *(const u32 *)(b + 1)) == l->n;
}

static bool learn(struct known *k, const char *at, const char *end)
{
	const struct dp_recording_block *b;

	at += sizeof(struct dp_recording_head);
	while ((b = next(&at, end))) {
		struct list *l = list_of(k, b);

		if (l && is_next(l, b) && !add(l, b))
			return false;
	}
	return true;
}

/* But for the number, which stands first. A process is the one with that id. */
static bool same(const struct dp_recording_block *a, const struct dp_recording_block *b)
{
	const u32 *p = (const u32 *)(a + 1), *q = (const u32 *)(b + 1);

	if (a->kind == DP_RECORDING_SOURCE)
		return *p == *q;
	return a->size == b->size && !memcmp(p + 1, q + 1, a->size - sizeof(*p));
}

/* Which one of the list it is, now; *is_new: it was not there, and is known by `from`, which stays, from now on. */
static u32 number(struct other *o, struct list *l, const struct dp_recording_block *b,
		  const struct dp_recording_block *from, bool *is_new)
{
	*is_new = false;
	for (u32 i = 0; i < l->n; i++) {
		u32 k = (l->last + 1 + i) % l->n;

		if (same(l->v[k], b))
			return l->last = k;
	}
	*is_new = true;
	o->broken |= !add(l, from);
	return l->n - 1;
}

static void note(struct other *o, struct numbers *to, u32 now)
{
	if (dp_grow((void **)&to->v, &to->room, to->n, sizeof(*to->v)))
		to->v[to->n++] = now;
	else
		o->broken = true;
}

static u32 now(const struct numbers *n, u32 was)
{
	return was < n->n ? n->v[was] : 0;
}

static void put(const struct other *o, const struct dp_recording_block *b)
{
	fwrite(b, 1, sizeof(*b) + b->size, o->to);
}

static void put_described(struct other *o, struct dp_recording_block *b, const struct dp_recording_block *from)
{
	struct list *l = list_of(&o->known, b);
	bool is_new;
	u32 i;

	if (b->kind == DP_RECORDING_PROBE)
		((struct dp_recording_probe *)(b + 1))->program = now(&o->programs,
								      ((struct dp_recording_probe *)(b + 1))->program);
	i = number(o, l, b, from, &is_new);
	note(o,
	     b->kind == DP_RECORDING_PROGRAM ? &o->programs
	     : b->kind == DP_RECORDING_PROBE ? &o->probes
					     : &o->sources,
	     i);
	if (b->kind == DP_RECORDING_SOURCE)
		b->source = i;
	else
		*(u32 *)(b + 1) = i;
	if (is_new)
		put(o, b);
}

static void put_records(const struct other *o, struct dp_recording_block *b)
{
	char *at = (char *)(b + 1), *end = at + b->size;

	b->source = now(&o->sources, b->source);
	while ((size_t)(end - at) >= sizeof(struct dp_record)) {
		struct dp_record *rec = (void *)at;

		rec->event = now(&o->probes, rec->event);
		at += DP_MAX(rec->len, (u32)sizeof(*rec));
	}
	put(o, b);
}

static void put_other(struct other *o, const struct dp_recording_block *from)
{
	size_t size = sizeof(*from) + from->size;
	struct dp_recording_block *b;

	if (size > o->copy_room) {
		char *more = realloc(o->copy, size);

		if (!more) {
			o->broken = true;
			return;
		}
		o->copy = more;
		o->copy_room = size;
	}
	b = (void *)o->copy;
	memcpy(b, from, size);
	if (list_of(&o->known, b)) {
		put_described(o, b, from);
		return;
	}
	if (b->kind == DP_RECORDING_DATA) {
		put_records(o, b);
		return;
	}
	if (b->kind == DP_RECORDING_TABLES || b->kind == DP_RECORDING_TASK || b->kind == DP_RECORDING_NAME)
		b->source = now(&o->sources, b->source);
	if (b->kind == DP_RECORDING_TABLES)
		*(u32 *)(b + 1) = now(&o->programs, *(u32 *)(b + 1));
	put(o, b);
}
_Static_assert(!offsetof(struct dp_recording_tables, program) && !offsetof(struct dp_recording_source, pid),
	       "they stand first");

static void free_other(struct other *o)
{
	free(o->known.programs.v);
	free(o->known.probes.v);
	free(o->known.sources.v);
	free(o->programs.v);
	free(o->probes.v);
	free(o->sources.v);
	free(o->copy);
}

bool dp_join_other(FILE *to, const void *from, size_t n)
{
	const char *at = from, *end = at + n;
	const struct dp_recording_block *b;
	struct other o = {.to = to};
	struct stat st;
	char *before;

	if (fflush(to) || fstat(fileno(to), &st))
		return false;
	if (st.st_size < (off_t)sizeof(struct dp_recording_head))
		return fwrite(from, 1, n, to) == n;
	before = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fileno(to), 0);
	if (before == MAP_FAILED)
		return false;
	o.broken = !learn(&o.known, before, before + st.st_size);
	at += sizeof(struct dp_recording_head);
	while (!o.broken && (b = next(&at, end)))
		put_other(&o, b);
	free_other(&o);
	munmap(before, (size_t)st.st_size);
	return !o.broken;
}
