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
	const struct dp_journal_left *journal;
	struct dp_journal_point *point;
	const struct dp_journal_member *member; /* NULL: only chunks are saved */
	u32 index;                              /* of the member */
	u32 *events;                            /* of its probes: which of the recording's they are */
	struct dp_recording *head;              /* what the recorder noted of its events */
	struct dp_recording_info info;          /* of that */
	struct dp_recording *before;            /* the recording as it stands; NULL: a new file is made */
	struct dp_tracee *tracee;
	struct dp_threads *threads;
	struct dp_reader *reader;
	struct dp_formatter *formatter;
	u64 saved, lost, unknown;
	char path[PATH_MAX];
};

/* ---- the file ---- */

/* The directory that the recorder wrote to; -1: another one is there. */
static int open_directory(const struct dp_journal_head *h)
{
	const char *slash = strrchr(h->path, '/');
	char dir[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(dir, sizeof(dir), "%.*s", slash == h->path ? 1 : (int)(slash - h->path), h->path);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || st.st_dev != h->dir_dev || st.st_ino != h->dir_inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The file that the recorder was writing, as it was when the journal was written last. */
static int open_same(const struct saving *s, int dir)
{
	const struct dp_journal_head *h = s->journal->head;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (dir < 0 || !s->point->inode || !dp_join_name(h->path, s->point->number, path, sizeof(path)))
		return -1;
	fd = openat(dir, strrchr(path, '/') + 1, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_dev == s->point->dev &&
	    st.st_ino == s->point->inode && (h->in_memory || (u64)st.st_size >= s->point->size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A file that was not there: beside the recording or, for records that exist nowhere else, where we are. */
static int make_new(struct saving *s, int dir)
{
	const struct dp_journal_head *h = s->journal->head;
	bool next = h->in_memory && !s->point->inode && dir >= 0; /* the one that the recorder would have made */

	for (u32 i = 1; i < 1000 && (dir >= 0 || s->member); i++) {
		u32 number = next ? s->point->number + i - 1 : i;
		int fd;

		if (!dp_join_name_of(h->path, next ? "" : ".recovered", number, s->path, sizeof(s->path)))
			return -1;
		if (dir < 0)
			memmove(s->path, strrchr(s->path, '/') + 1, strlen(strrchr(s->path, '/') + 1) + 1);
		fd = openat(dir < 0 ? AT_FDCWD : dir, dir < 0 ? s->path : strrchr(s->path, '/') + 1,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static void put_chunks(const struct saving *s, struct dp_join *join, FILE *to)
{
	for (u32 i = s->point->first; i && i <= s->point->last; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "%u", i);
		fd = dp_journal_part(s->journal, name);
		if (fd >= 0) { /* else it was dropped */
			dp_join_file(join, to, fd, i == s->point->last ? s->point->size : ~0ull);
			close(fd);
		}
	}
}

static void put_head(const struct saving *s, struct dp_join *join, FILE *to)
{
	int fd = dp_journal_part(s->journal, "head");

	join->only_events = true; /* the counts behind them are to stand at the end */
	if (fd >= 0) {
		dp_join_file(join, to, fd, ~0ull);
		close(fd);
	}
	join->only_events = false;
}

/* The recording up to where the journal has it, to go on behind that. -1: it is not the same any more. */
static int go_on(struct saving *s, int dir, struct dp_join *join)
{
	struct dp_recording_info info;
	struct dp_error err;
	char link[32];
	int fd = open_same(s, dir);

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	dp_join_name(s->journal->head->path, s->point->number, s->path, sizeof(s->path));
	if (ftruncate(fd, s->journal->head->in_memory ? 0 : (off_t)s->point->size) ||
	    (!s->journal->head->in_memory && dp_recording_open(&s->before, link, &err))) {
		close(fd);
		return -1;
	}
	if (s->before) {
		dp_recording_info(s->before, &info);
		*join = (struct dp_join){.begun = true, .nevents = info.nevents, .nsources = info.nsources};
	}
	return fd;
}

/* The file with what is there up to now. */
static FILE *begin_file(struct saving *s, struct dp_join *join)
{
	int dir = open_directory(s->journal->head), fd = go_on(s, dir, join);
	FILE *to;

	if (fd < 0)
		fd = make_new(s, dir);
	if (dir >= 0)
		close(dir);
	to = fd >= 0 && lseek(fd, 0, SEEK_END) >= 0 ? fdopen(fd, "w") : NULL;
	if (!to) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (s->journal->head->in_memory)
		put_chunks(s, join, to);
	else if (!join->begun)
		put_head(s, join, to);
	return to;
}

/* Records of another of the recorder's processes go behind those that are in the file now. */
static bool end_file(struct saving *s, FILE *to)
{
	struct dp_journal_head *h = s->journal->head;
	bool good = !fflush(to) && !ferror(to);
	char link[32], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fileno(to));
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (good && !fstat(fileno(to), &st) && dp_journal_place(h, path)) {
		h->in_memory = 0;
		*s->point = (struct dp_journal_point){.number = 1,
						      .size = (u64)st.st_size,
						      .dev = st.st_dev,
						      .inode = st.st_ino,
						      .tsc = s->point->tsc,
						      .ns = s->point->ns};
	}
	return !fclose(to) && good;
}

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

	if (s->before && s->journal->head->saved)
		dp_recording_info(s->before, &before);
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
	u64 n = 0, told = s->member->lost[s->journal->head->epoch & 1];

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

	dp_reader_settle(&left->map, s->journal->head->epoch);
	r = dp_reader_open(&s->reader, &left->map, err);
	if (r)
		return r;
	dp_reader_clock_since(s->reader, s->point->tsc, s->point->ns);
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
	return s->events && pread(s->journal->fd, s->events, n, (off_t)s->member->events_at) == (ssize_t)n ? 0 : -EIO;
}

static int read_head(struct saving *s, struct dp_error *err)
{
	char path[220];
	int r;

	snprintf(path, sizeof(path), "%.199s.head", s->journal->path);
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
	dp_recording_close(s->before);
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
			       s->journal->head->path);
	to = begin_file(s, &join);
	if (!to)
		return dp_fail(err, E_OUT_OPEN, "%s: %s", s->journal->head->path, strerror(errno));
	f = left ? open_memstream(&bytes, &n) : NULL;
	if (left)
		r = f ? put_rings(s, left, f, err) : dp_fail(err, E_RING_MEMORY, "records that were left");
	if (f)
		fclose(f);
	if (!r && left)
		dp_join_put(&join, to, bytes, n);
	free(bytes);
	if (!end_file(s, to) && !r)
		r = dp_fail(err, E_OUT_WRITE, "%s: %s", s->path, strerror(errno));
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
			 "%s: saved %llu records that a killed recorder had not read; %llu were lost", s->path,
			 (unsigned long long)s->saved, (unsigned long long)s->lost);
	else
		snprintf(text, sizeof(text), "%s: saved what a killed flight recorder had kept", s->path);
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

static void find(struct recovery *rc, pid_t pid)
{
	struct dp_rings_left left[DP_RINGS_LEFT];
	u32 n = dp_rings_left(pid, left);

	for (u32 i = 0; i < n; i++) {
		struct rings *to = &rc->v[rc->n];

		*to = (struct rings){.left = left[i]};
		if (dp_journal_find(&to->journal, left[i].owner, left[i].owner_started)) {
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
	struct saving s = {.journal = &g->journal,
			   .point = &h->point[h->epoch & 1],
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
		find(rc, pid);
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
	struct saving s = {.journal = j, .point = &h->point[h->epoch & 1]};
	struct dp_error err = {0};
	int r;

	if (!is_wanted(j)) {
		if (h->in_memory && s.point->last && !h->saved) {
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
	const struct dp_session_options opt = {.note = note, .arg = arg};
	struct sweep w = {.opt = &opt};

	dp_journal_each(sweep_one, &w);
	return w.n;
}
