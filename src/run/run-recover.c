/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See run-recover.h. The rings are mapped before the probes are taken out, and read after that: so nothing that is
 * written meanwhile is missed. A recording is only gone on with if it is the very file that the recorder wrote, and
 * ours; everything else leads to a new file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/abi-record.h"
#include "host/process/process.h"
#include "log/recording-read.h"
#include "run/run-join.h"
#include "run/run-journal.h"
#include "run/run-recover-file.h"
#include "run/run-recover.h"
#include "run/run-threads.h"
#include "run/run-trace.h"

struct rings {
	struct dp_rings_left left;
	struct dp_journal_left journal;
	struct dp_journal_member *member;
};

struct recovery {
	struct rings v[DP_RINGS_LEFT];
	u32 n;
};

struct saving {
	struct dp_recover_file file;
	const struct dp_journal_member *member; /* NULL: only chunks are saved */
	u32 index;                              /* of the member */
	u32 *events;                            /* of its probes: which of the recording's they are */
	struct dp_recording *head;              /* what the recorder noted of its events */
	struct dp_recording_info info;          /* of that */
	struct dp_tracee *tracee;
	struct dp_threads *threads;
	struct dp_reader *reader;
	struct dp_formatter *formatter;
	u64 saved, lost, unknown;
};

/* ---- what the recording asks for ---- */

static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	struct saving *s = arg;

	return dp_tracee_symbolize(s->tracee, addr, buf, size);
}

static bool name_thread(void *arg, u32 *tid, char buf[16])
{
	struct saving *s = arg;

	return s->threads ? dp_threads_comm(s->threads, tid, buf) : dp_task_comm(*tid, buf);
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	struct saving *s = arg;
	char comm[16] = "";

	if (source == s->index)
		dp_task_comm((u32)s->member->pid, comm);
	dp_recording_put_process(to, source == s->index ? dp_tracee_process(s->tracee) : NULL,
				 source == s->index ? (u32)s->member->pid : ~0u, comm);
}

static void add(struct dp_recording_row *row, const struct dp_counts *c)
{
	row->hits += dp_counts_hits(c);
	for (u32 k = 0; k < DP_NCOUNTS; k++)
		row->counts.v[k] += c->v[k];
}

/* Of a recorder that was killed before it had told what its rows are called. */
static void name_row(struct dp_recording_row *row, const struct dp_event_info *ev)
{
	if (*ev->name)
		dp_format(row->name, sizeof(row->name), "%s", ev->name);
	else if (ev->offset && !ev->is_return)
		dp_format(row->name, sizeof(row->name), "%s+0x%llx", ev->symbol, (unsigned long long)ev->offset);
	else
		dp_format(row->name, sizeof(row->name), "%s%s", ev->is_return ? "<-" : "", ev->symbol);
}

/* Names as the recorder knew them, and the counts of the rings, beside those of a process that was saved before. */
static void put_rows(void *arg, struct dp_line *to)
{
	struct saving *s = arg;
	struct dp_recording_row *rows = calloc(s->info.nevents + 1, sizeof(*rows));
	struct dp_recording_info before = {.nrows = 0};

	if (s->file.before && s->file.journal->head->saved)
		dp_recording_info(s->file.before, &before);
	for (u32 i = 0; rows && i < s->info.nevents; i++) {
		if (i < s->info.nrows) {
			memcpy(rows[i].name, s->info.rows[i].name, sizeof(rows[i].name));
			memcpy(rows[i].via, s->info.rows[i].via, sizeof(rows[i].via));
		} else {
			name_row(&rows[i], &s->info.events[i]);
		}
		if (i < before.nrows)
			add(&rows[i], &before.rows[i].counts);
	}
	for (u32 i = 0; rows && s->reader && i < s->member->nevents; i++) {
		struct dp_counts c;

		dp_reader_counts(s->reader, i, &c);
		if (s->events[i] < s->info.nevents)
			add(&rows[s->events[i]], &c);
	}
	if (rows)
		dp_line_bytes(to, (const char *)rows, s->info.nevents * sizeof(*rows));
	free(rows);
}

static u64 lasted_ns(void *arg)
{
	struct saving *s = arg;

	return dp_now_ns() - s->info.head.mono_ns;
}

/* ---- records ---- */

static void save_record(const struct dp_record *rec, u64 ns, void *arg)
{
	struct saving *s = arg;
	struct dp_record *own;

	if (rec->event >= s->member->nevents || s->events[rec->event] >= s->info.nevents) {
		s->unknown++;
		return;
	}
	own = (struct dp_record *)rec; /* the reader's copy, which nobody looks at any more */
	own->event = s->events[rec->event];
	dp_formatter_record(s->formatter, rec, ns);
	s->saved++;
}

static u64 losses(const struct saving *s)
{
	u64 n = 0, told = s->member->lost[s->file.journal->head->epoch & 1];

	for (u32 i = 0; i < s->member->nevents; i++) {
		struct dp_counts c;

		dp_reader_counts(s->reader, i, &c);
		n += c.v[DP_COUNT_LOST] + c.v[DP_COUNT_MISSED];
	}
	return n > told ? n - told : 0;
}

/* A recording of its own, of what stands in the rings. */
static int put_rings(struct saving *s, const struct dp_rings_left *left, FILE *to, struct dp_error *err)
{
	const struct dp_recording_env recording = {s, put_source, put_rows, lasted_ns};
	const struct dp_format_env env = {.events = s->info.events,
					  .nevents = s->info.nevents,
					  .symbolize = symbolize,
					  .arg = s,
					  .comm = name_thread,
					  .comm_arg = s,
					  .recording = &recording};
	char comm[16] = "";
	int r;

	dp_reader_settle(&left->map, s->file.journal->head->epoch);
	r = dp_reader_open(&s->reader, &left->map, err);
	if (r)
		return r;
	dp_reader_clock_since(s->reader, s->file.point->tsc, s->file.point->ns);
	if (dp_formatter_new(&s->formatter, DP_FORMAT_RECORDING, to, &env))
		return dp_fail(err, E_RING_MEMORY, "%u events", s->info.nevents);
	dp_task_comm((u32)s->member->pid, comm);
	dp_formatter_head(s->formatter);
	dp_formatter_source(s->formatter, s->index, (u32)s->member->pid, comm);
	dp_reader_drain(s->reader, true, save_record, s);
	s->lost = losses(s) + s->unknown;
	if (s->lost)
		dp_formatter_lost(s->formatter, s->lost);
	dp_formatter_finish(s->formatter);
	return 0;
}

/* ---- a recording ---- */

static int read_events(struct saving *s)
{
	size_t n = s->member->nevents * sizeof(*s->events);

	s->events = s->member->nevents < DP_RECORDING_EVENTS ? malloc(n + 1) : NULL;
	return s->events && pread(s->file.journal->fd, s->events, n, (off_t)s->member->events_at) == (ssize_t)n ? 0
														: -EIO;
}

static int read_head(struct saving *s, struct dp_error *err)
{
	char path[220];
	int r;

	snprintf(path, sizeof(path), "%.199s.head", s->file.journal->path);
	r = dp_recording_open(&s->head, path, err);
	if (!r)
		dp_recording_info(s->head, &s->info);
	return r;
}

static void free_saving(struct saving *s)
{
	dp_formatter_free(s->formatter);
	dp_reader_close(s->reader);
	dp_threads_free(s->threads);
	dp_recording_close(s->head);
	dp_recording_close(s->file.before);
	free(s->events);
}

/* What is left is written behind what is there. left: NULL: chunks alone. */
static int save(struct saving *s, const struct dp_rings_left *left, struct dp_error *err)
{
	struct dp_join join = {.begun = false};
	char *bytes = NULL;
	size_t n = 0;
	FILE *to, *f;
	int r = 0;

	if (left && (read_head(s, err) || read_events(s)))
		return dp_fail(err, E_OUT_OPEN, "%s: the recorder's notes about it cannot be read",
			       s->file.journal->head->path);
	to = dp_recover_file_begin(&s->file, &join);
	if (!to)
		return dp_fail(err, E_OUT_OPEN, "%s: %s", s->file.journal->head->path, strerror(errno));
	f = left ? open_memstream(&bytes, &n) : NULL;
	if (left)
		r = f ? put_rings(s, left, f, err) : dp_fail(err, E_RING_MEMORY, "records that were left");
	if (f)
		fclose(f);
	if (!r && left)
		dp_join_put(&join, to, bytes, n);
	free(bytes);
	if (!dp_recover_file_end(&s->file, to) && !r)
		r = dp_fail(err, E_OUT_WRITE, "%s: %s", s->file.path, strerror(errno));
	return r;
}

/* Whether others of its processes may have records still. */
static bool is_wanted(const struct dp_journal_left *j)
{
	for (u32 i = 0; i < j->head->nmembers; i++)
		if (!j->members[i].done && j->members[i].pid &&
		    dp_process_lives(j->members[i].pid, j->members[i].started))
			return true;
	return false;
}

static void tell(const struct dp_session_options *opt, const struct saving *s, int r, const struct dp_error *err)
{
	char text[PATH_MAX + 300];

	if (r)
		snprintf(text, sizeof(text), "what a killed recorder has left was not saved: %s: %s",
			 dp_error_info(err->code)->name, err->detail);
	else if (s->member)
		snprintf(text, sizeof(text),
			 "%s: saved %llu records that a killed recorder had not read; %llu were lost", s->file.path,
			 (unsigned long long)s->saved, (unsigned long long)s->lost);
	else
		snprintf(text, sizeof(text), "%s: saved what a killed flight recorder had kept", s->file.path);
	if (opt && opt->note)
		opt->note(opt->arg, text);
}

/* ---- of a process ---- */

static struct dp_journal_member *member_of(const struct dp_journal_left *j, const struct dp_rings_left *left)
{
	for (u32 i = j->head->nmembers; i-- > 0;) /* a process that has become another program is there again */
		if (j->members[i].pid == left->pid && j->members[i].started == left->started)
			return j->members[i].done ? NULL : &j->members[i];
	return NULL;
}

static dp_recover_programs_fn *by;

void dp_recover_programs_by(dp_recover_programs_fn *fn)
{
	by = fn;
}

static bool recover_programs(struct dp_journal_left *l, const struct dp_session_options *opt)
{
	return by && by(l, opt->note, opt->arg);
}

static void find(struct recovery *rc, pid_t pid, const struct dp_session_options *opt)
{
	struct dp_rings_left left[DP_RINGS_LEFT];
	u32 n = dp_rings_left(pid, left);

	for (u32 i = 0; i < n; i++) {
		struct rings *to = &rc->v[rc->n];

		*to = (struct rings){.left = left[i]};
		if (dp_journal_find(&to->journal, left[i].owner, left[i].owner_started)) {
			if (to->journal.head->begun_ns)
				recover_programs(&to->journal, opt);
			to->member = member_of(&to->journal, &left[i]);
			if (to->member) {
				rc->n++;
				continue;
			}
			dp_journal_release(&to->journal);
		}
		munmap(left[i].map.at, left[i].map.size);
	}
}

static void save_rings(struct rings *g, struct dp_tracee *t, const struct dp_session_options *opt)
{
	struct dp_journal_head *h = g->journal.head;
	struct saving s = {.file = dp_recover_file_of(&g->journal, true),
			   .member = g->member,
			   .index = (u32)(g->member - g->journal.members),
			   .tracee = t,
			   .threads = dp_threads_new(g->left.pid)};
	struct dp_error err = {0};
	int r = save(&s, &g->left, &err);

	g->member->done = 1;
	h->saved += !r;
	tell(opt, &s, r, &err);
	free_saving(&s);
	if (!is_wanted(&g->journal))
		dp_journal_forget(&g->journal);
}

static void drop(struct recovery *rc)
{
	for (u32 i = 0; i < rc->n; i++) {
		dp_journal_release(&rc->v[i].journal);
		munmap(rc->v[i].left.map.at, rc->v[i].left.map.size);
	}
	free(rc);
}

int dp_recover_open(struct dp_tracee *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		    struct dp_error *err)
{
	struct recovery *rc = pid && !opt->adopt ? calloc(1, sizeof(*rc)) : NULL;
	int r;

	if (rc)
		find(rc, pid, opt);
	r = dp_tracee_open(t, pid, command, opt, err);
	for (u32 i = 0; rc && !r && i < rc->n; i++)
		save_rings(&rc->v[i], t, opt);
	if (rc)
		drop(rc);
	return r;
}

/* ---- of recorders whose processes have ended ---- */

struct sweep {
	const struct dp_session_options *opt;
	u32 n;
};

static void sweep_one(struct dp_journal_left *j, void *arg)
{
	struct sweep *w = arg;
	struct dp_journal_head *h = j->head;
	struct saving s = {.file = dp_recover_file_of(j, false)};
	struct dp_error err = {0};
	int r;

	if (h->begun_ns) {
		w->n += recover_programs(j, w->opt);
	} else if (!is_wanted(j)) {
		if (h->in_memory && s.file.point->last && !h->saved) {
			r = save(&s, NULL, &err);
			tell(w->opt, &s, r, &err);
			w->n += !r;
			free_saving(&s);
		}
		dp_journal_forget(j);
	}
	dp_journal_release(j);
}

u32 dp_recover_chunks(void (*note)(void *arg, const char *text), void *arg)
{
	const struct dp_session_options opt = {.note = note, .left = note, .arg = arg};
	struct sweep w = {.opt = &opt};

	dp_journal_each(sweep_one, &w);
	return w.n;
}
