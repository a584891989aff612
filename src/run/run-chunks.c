/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/process/process.h"
#include "run/run-chunks.h"
#include "run/run-join.h"
#include "run/run-journal.h"
#include "run/run-output.h"

struct dp_chunk {
	int fd;
	bool is_named; /* a file of the journal; else memory that goes with us */
	u32 number;
	u64 size;
	u64 head; /* of these bytes: what stands before the first record */
	struct dp_time_span spans[DP_NTIMES];
	u64 began[DP_NTIMES]; /* the newest in those before it or, of the first one, the oldest in it; 0: nothing is */
};

static int next_file(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	char path[PATH_MAX];
	int r;

	if (!dp_join_name(p->path, p->files + 1, path, sizeof(path)))
		return dp_fail(err, E_OUT_OPEN, "%s: %s", p->path, strerror(ENAMETOOLONG));
	r = dp_output_next(o, path, err);
	if (r)
		return r;
	p->files++;
	p->since = dp_now_ns();
	if (p->keep && p->files > p->keep && dp_join_name(p->path, p->files - p->keep, path, sizeof(path)))
		unlink(path);
	return 0;
}

/* ---- in memory ---- */

static bool write_all(int fd, const char *text, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t w = write(fd, text + done, n - done);

		if (w <= 0 && !(w < 0 && errno == EINTR))
			return false;
		done += w > 0 ? (size_t)w : 0;
	}
	return true;
}

/* Where named chunks are there is no more room: this one goes on in memory. */
static bool to_memory(struct dp_chunks *p, struct dp_chunk *chunk)
{
	int fd = memfd_create("dprobes-chunk", MFD_CLOEXEC);
	void *at = chunk->size ? mmap(NULL, chunk->size, PROT_READ, MAP_PRIVATE, chunk->fd, 0) : NULL;
	bool good = fd >= 0 && at != MAP_FAILED && write_all(fd, at, chunk->size);

	if (at && at != MAP_FAILED)
		munmap(at, chunk->size);
	if (!good) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	dp_journal_drop_chunk(p->journal, chunk->number);
	close(chunk->fd);
	chunk->fd = fd;
	chunk->is_named = false;
	return true;
}

static bool take(void *arg, const char *text, size_t n)
{
	struct dp_chunks *p = arg;
	struct dp_chunk *last = p->v[p->n - 1];
	bool good = !last->is_named || !dp_journal_is_full(p->journal) || to_memory(p, last);

	good = good && write_all(last->fd, text, n);
	last->size += n;
	p->held += n;
	p->broken |= !good;
	return good;
}

static void drop(struct dp_chunks *p, u32 i)
{
	struct dp_chunk *chunk = p->v[i];

	p->held -= chunk->size;
	if (chunk->is_named)
		dp_journal_drop_chunk(p->journal, chunk->number);
	close(chunk->fd);
	free(chunk);
	memmove(p->v + i, p->v + i + 1, (--p->n - i) * sizeof(*p->v));
}

static int begin_chunk(struct dp_chunks *p, struct dp_error *err)
{
	struct dp_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return dp_fail(err, E_RING_MEMORY, "chunks of the recording");
	chunk->number = ++p->begun;
	chunk->fd = dp_journal_chunk(p->journal, chunk->number);
	chunk->is_named = chunk->fd >= 0;
	if (!chunk->is_named)
		chunk->fd = memfd_create("dprobes-chunk", MFD_CLOEXEC);
	if (chunk->fd < 0) {
		free(chunk);
		return dp_fail(err, E_RING_MEMORY, "chunks of the recording");
	}
	memcpy(chunk->began, p->newest, sizeof(chunk->began));
	p->v[p->n++] = chunk;
	return 0;
}

/* What has been put belongs to the chunk that is being written. */
static void take_times(struct dp_chunks *p, struct dp_formatter *f)
{
	struct dp_chunk *last = p->v[p->n - 1];
	struct dp_time_span spans[DP_NTIMES];
	u64 now = dp_now_ns();

	dp_formatter_times(f, spans);
	for (u32 i = 0; i < DP_NTIMES; i++) {
		/* Stamps stand in memory of the program: one from the future would make all others old. */
		u64 until = DP_MIN(spans[i].until, now), since = DP_MIN(spans[i].since, until);
		struct dp_time_span *all = &last->spans[i];

		if (!until)
			continue;
		all->since = all->until ? DP_MIN(all->since, since) : since;
		all->until = DP_MAX(all->until, until);
		if (!last->began[i])
			last->began[i] = since;
		p->newest[i] = DP_MAX(p->newest[i], until);
	}
	if (!last->spans[DP_TIME_ALL].until)
		last->head = last->size;
}

static u64 bytes_behind(const struct dp_chunks *p, u32 i)
{
	u64 n = 0;

	while (++i < p->n)
		n += p->v[i]->size - p->v[i]->head;
	return n;
}

/*
 * Hits are old by what newer hits there are. What is told beside them, every second for example, goes on while the
 * program hangs, and must not take the place of what it did before that.
 */
static bool is_old(const struct dp_chunks *p, const struct dp_chunk *chunk)
{
	enum dp_time_of of = chunk->spans[DP_TIME_HITS].until ? DP_TIME_HITS : DP_TIME_ALL;

	return p->ns && p->newest[of] - chunk->spans[of].until >= p->ns;
}

/* Without it there is still enough, or there is no room. */
static bool is_spare(const struct dp_chunks *p, u32 i)
{
	return is_old(p, p->v[i]) ||
	       (!i && (p->n == DP_ARRAY_SIZE(p->v) || (p->bytes && bytes_behind(p, i) >= p->bytes)));
}

static void drop_spare(struct dp_chunks *p)
{
	for (u32 i = 0; i < p->n;)
		if (is_spare(p, i))
			drop(p, i);
		else
			i++;
}

/* Never while nothing is put into it. */
static bool is_full(const struct dp_chunks *p)
{
	const struct dp_chunk *last = p->v[p->n - 1];

	if (!last->spans[DP_TIME_ALL].until)
		return false;
	if (p->bytes && last->size - last->head >= p->bytes / DP_CHUNKS_KEPT)
		return true;
	for (u32 i = 0; i < DP_NTIMES && p->ns; i++)
		if (p->newest[i] - last->began[i] >= p->ns / DP_CHUNKS_KEPT)
			return true;
	return false;
}

/* How long the program did what is kept. */
static u64 lasted_ns(const struct dp_chunks *p)
{
	enum dp_time_of of = DP_TIME_ALL;
	struct dp_time_span all = {~0ull, 0};

	for (u32 i = 0; i < p->n; i++)
		if (p->v[i]->spans[DP_TIME_HITS].until)
			of = DP_TIME_HITS;
	for (u32 i = 0; i < p->n; i++) {
		const struct dp_time_span *s = &p->v[i]->spans[of];

		if (!s->until)
			continue;
		all.since = DP_MIN(all.since, s->since);
		all.until = DP_MAX(all.until, s->until);
	}
	return all.until ? all.until - all.since : 0;
}

static int write_chunks(struct dp_chunks *p, struct dp_output *o, struct dp_error *err)
{
	u64 held = p->held;
	struct dp_join join = {0};
	char text[PATH_MAX + 100];
	int r;

	if (p->broken)
		return dp_fail(err, E_RING_MEMORY, "a recording of %llu bytes", (unsigned long long)held);
	dp_output_divert(o, NULL, NULL);
	r = p->files ? next_file(p, o, err) : 0;
	p->files += !p->files;
	for (u32 i = 0; i < p->n && !r; i++)
		dp_join_file(&join, o->f, p->v[i]->fd, p->v[i]->size);
	r = r ? r : dp_output_flush(o, err);
	dp_output_divert(o, take, p);
	if (!r && p->note && dp_join_name(p->path, p->files, text, PATH_MAX)) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, ": %.1f s, %.1f MiB", (double)lasted_ns(p) / 1e9,
			 (double)held / (1 << 20));
		p->note(text);
	}
	return r;
}

static void finish(const struct dp_chunks *p, struct dp_formatter *f)
{
	if (p->ending)
		p->ending(p->ending_arg);
	dp_formatter_finish(f);
}

static int dump(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	int r;

	finish(p, f);
	r = dp_output_flush(o, err);
	r = r ? r : write_chunks(p, o, err);
	dp_chunks_free(p);
	return r;
}

static int turn_memory(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	int r = 0;

	take_times(p, f);
	if (*p->asked) {
		*p->asked = 0;
		r = dump(p, o, f, err);
	} else if (!is_full(p)) {
		return 0;
	}
	drop_spare(p);
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
	finish(p, f);
	r = dp_output_flush(o, err);
	r = r ? r : next_file(p, o, err);
	if (r)
		return r;
	dp_formatter_head(f);
	return dp_output_flush(o, err);
}

/* ---- all ---- */

int dp_chunks_begin(struct dp_chunks *p, struct dp_output *o, const struct dp_journal *journal, struct dp_error *err)
{
	int r = 0;

	p->journal = journal;
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

void dp_chunks_point(const struct dp_chunks *p, struct dp_journal_point *point)
{
	point->number = p->files;
	point->rotates = !p->in_memory;
	if (!p->in_memory)
		return;
	point->number++;
	if (p->files) /* the first one has been there from the beginning */
		point->dev = point->inode = 0;
	point->first = p->n ? p->v[0]->number : 0;
	point->last = p->n ? p->v[p->n - 1]->number : 0;
	point->size = p->n ? p->v[p->n - 1]->size : 0;
}

int dp_chunks_turn(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	return p->in_memory ? turn_memory(p, o, f, err) : turn_files(p, o, f, err);
}

int dp_chunks_end(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err)
{
	int r;

	if (!p->in_memory || !p->n)
		return 0;
	r = dp_output_flush(o, err);
	if (r)
		return r;
	take_times(p, f);
	return write_chunks(p, o, err);
}

void dp_chunks_free(struct dp_chunks *p)
{
	while (p->n)
		drop(p, p->n - 1);
}
