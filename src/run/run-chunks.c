/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/process.h"
#include "log/format.h"
#include "log/line.h"
#include "log/recording.h"
#include "run/run-output.h"
#include "run/run-chunks.h"

struct dp_chunk {
	struct dp_line line;
	u64 since, until; /* CLOCK_MONOTONIC, nanoseconds */
};

/* run.dpt, run.2.dpt, run.3.dpt */
static bool name_of(const struct dp_chunks *p, u32 number, char *buf, size_t size)
{
	const char *slash = strrchr(p->path, '/'), *dot = strrchr(p->path, '.');
	size_t stem = dot && dot > (slash ? slash + 1 : p->path) ? (size_t)(dot - p->path) : strlen(p->path);

	if (number == 1)
		return (size_t)snprintf(buf, size, "%s", p->path) < size;
	return (size_t)snprintf(buf, size, "%.*s.%u%s", (int)stem, p->path, number, p->path + stem) < size;
}

static int next_file(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	char path[PATH_MAX];
	int r;

	if (!name_of(p, p->files + 1, path, sizeof(path)))
		return dp_fail(err, E_OUT_OPEN, "%s: %s", p->path, strerror(ENAMETOOLONG));
	r = dp_output_next(o, path, err);
	if (r)
		return r;
	p->files++;
	p->since = dp_now_ns();
	if (p->keep && p->files > p->keep && name_of(p, p->files - p->keep, path, sizeof(path)))
		unlink(path);
	return 0;
}

/* ---- in memory ---- */

static bool take(void *arg, const char *text, size_t n)
{
	struct dp_chunks *p = arg;
	struct dp_line *l = &p->v[p->n - 1]->line;

	dp_line_bytes(l, text, n);
	p->held += n;
	p->broken |= l->broken;
	return !l->broken;
}

static void drop_oldest(struct dp_chunks *p)
{
	p->held -= p->v[0]->line.n;
	dp_line_free(&p->v[0]->line);
	free(p->v[0]);
	memmove(p->v, p->v + 1, --p->n * sizeof(*p->v));
}

static int begin_chunk(struct dp_chunks *p, struct dp_error *err)
{
	struct dp_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return dp_fail(err, E_RING_MEMORY, "chunks of the recording");
	chunk->since = chunk->until = dp_now_ns();
	p->v[p->n++] = chunk;
	return 0;
}

/* Without the oldest there is still enough. */
static bool is_spare(const struct dp_chunks *p, u64 now)
{
	return p->n == DP_ARRAY_SIZE(p->v) || (p->bytes && p->held - p->v[0]->line.n >= p->bytes) ||
	       (p->ns && now - p->v[0]->until >= p->ns);
}

static bool is_full(const struct dp_chunks *p, u64 now)
{
	const struct dp_chunk *last = p->v[p->n - 1];

	return (p->bytes && last->line.n >= p->bytes / DP_CHUNKS_KEPT) ||
	       (p->ns && now - last->since >= p->ns / DP_CHUNKS_KEPT);
}

/*
 * What stands in the chunks, as one recording: each begins anew with its head and with all that records need, of which
 * the events and the processes may stand there once only.
 */
static void put_chunk(FILE *to, const struct dp_chunk *chunk, bool first, u32 *nevents, u32 *nsources)
{
	const char *at = chunk->line.text, *end = at + chunk->line.n;

	if (first)
		fwrite(at, 1, sizeof(struct dp_recording_head), to);
	at += sizeof(struct dp_recording_head);
	while (at < end) {
		const struct dp_recording_block *b = (const void *)at;
		const struct dp_recording_event *e = (const void *)(b + 1);
		size_t size = sizeof(*b) + b->size;
		bool again = (b->kind == DP_RECORDING_EVENT && e->index < *nevents) ||
			     (b->kind == DP_RECORDING_SOURCE && b->source < *nsources);

		*nevents += b->kind == DP_RECORDING_EVENT && !again;
		*nsources += b->kind == DP_RECORDING_SOURCE && !again;
		if (!again)
			fwrite(at, 1, size, to);
		at += size;
	}
}

static int write_chunks(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	u64 since = p->v[0]->since, held = p->held, now = dp_now_ns();
	u32 nevents = 0, nsources = 0;
	char text[PATH_MAX + 100];
	int r;

	if (p->broken)
		return dp_fail(err, E_RING_MEMORY, "a recording of %llu bytes", (unsigned long long)held);
	dp_output_divert(o, NULL, NULL);
	r = p->files ? next_file(p, o, err) : 0;
	p->files += !p->files;
	for (u32 i = 0; i < p->n && !r; i++)
		put_chunk(o->f, p->v[i], !i, &nevents, &nsources);
	r = r ? r : dp_output_flush(o, err);
	dp_output_divert(o, take, p);
	if (!r && p->note && name_of(p, p->files, text, PATH_MAX)) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, ": %.1f s, %.1f MiB", (double)(now - since) / 1e9,
			 (double)held / (1 << 20));
		p->note(text);
	}
	return r;
}

static int dump(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	int r;

	dp_formatter_finish(f);
	r = dp_output_flush(o, err);
	r = r ? r : write_chunks(p, o, err);
	while (p->n)
		drop_oldest(p);
	return r;
}

static int turn_memory(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	u64 now = dp_now_ns();
	int r = 0;

	p->v[p->n - 1]->until = now;
	if (*p->asked) {
		*p->asked = 0;
		r = dump(p, o, f, err);
	} else if (!is_full(p, now)) {
		return 0;
	}
	while (p->n && is_spare(p, now))
		drop_oldest(p);
	r = r ? r : begin_chunk(p, err);
	if (r)
		return r;
	dp_formatter_head(f);
	return dp_output_flush(o, err);
}

/* ---- files ---- */

static int turn_files(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	int r;

	if (!(p->bytes && o->written >= p->bytes) && !(p->ns && dp_now_ns() - p->since >= p->ns))
		return 0;
	dp_formatter_finish(f);
	r = dp_output_flush(o, err);
	r = r ? r : next_file(p, o, err);
	if (r)
		return r;
	dp_formatter_head(f);
	return dp_output_flush(o, err);
}

/* ---- all ---- */

int dp_chunks_begin(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	int r = 0;

	if (!dp_output_is_file(o))
		return dp_fail(err, E_OUT_OPEN, "%s is no file, and others are to follow it", p->path);
	p->since = dp_now_ns();
	if (p->in_memory) {
		r = begin_chunk(p, err);
		dp_output_divert(o, take, p);
	} else {
		p->files = 1;
	}
	return r;
}

int dp_chunks_turn(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	return p->in_memory ? turn_memory(p, o, f, err) : turn_files(p, o, f, err);
}

int dp_chunks_end(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	int r = p->in_memory && p->n ? dp_output_flush(o, err) : 0;

	return p->in_memory && p->n && !r ? write_chunks(p, o, err) : r;
}

void dp_chunks_free(struct dp_chunks *p)
{
	while (p->n)
		drop_oldest(p);
}
