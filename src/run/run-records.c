/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* From the rings of the targets to the run's output and the system's log. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "run/run-merge.h"
#include "run/run-priv.h"
#include "log/view.h"
#include "program/described.h"
#include "send/journald.h"

#define NO_PROBE (~0u)
#define OUT_BYTES 65536             /* of records that are written at once */
#define LOG_MAX_BYTES (64ull << 20) /* then it is renamed and begun anew */

int dp_run_log_open(struct dp_run *run, const char *dir, struct dp_error *err)
{
	struct stat st;

	snprintf(run->log_path, sizeof(run->log_path), "%s/log", dir);
	run->log = fopen(run->log_path, "ae");
	if (!run->log)
		return dp_fail(err, E_DRV_DIR, "%.150s: %s", run->log_path, strerror(errno));
	run->log_bytes = fstat(fileno(run->log), &st) ? 0 : (u64)st.st_size;
	return 0;
}

/* What the session has counted is added to these. */
void dp_run_count_not_shown(struct run_module *m, u32 index, u32 as)
{
	m->done[index].v[DP_COUNT_RECORDED]--;
	m->done[index].v[as]++;
}

static void count_as_lost(struct run_module *m, u32 index)
{
	if (index != NO_PROBE)
		dp_run_count_not_shown(m, index, DP_COUNT_LOST);
}

/*
 * Records that do not fit on the disk any more are counted as lost, and the log ends with the last one that is whole.
 * It is tried anew with the records that follow.
 */
static void write_out(struct dp_run *run)
{
	int fd = run->log ? fileno(run->log) : -1;
	size_t done = 0, good = 0;
	struct stat st;

	while (done < run->out_n) {
		ssize_t n = run->log ? write(fd, run->out + done, run->out_n - done)
				     : run->write(run->write_arg, run->out + done, run->out_n - done);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	for (size_t i = 0; i < run->nunwritten; i++) {
		const struct run_unwritten *u = &run->unwritten[i];

		if (u->end <= done) {
			good = u->end;
			continue;
		}
		count_as_lost(u->m, u->index);
	}
	if (run->log && done > good && !fstat(fd, &st) && ftruncate(fd, st.st_size - (off_t)(done - good)))
		good = done;
	run->log_bytes += good;
	run->out_n = run->nunwritten = 0;
}

/* Whoever reads the log meanwhile sees whole records. */
static void put(struct dp_run *run, struct run_module *m, u32 index)
{
	if (run->out_n + run->line.n > OUT_BYTES)
		write_out(run);
	if (!dp_grow((void **)&run->unwritten, &run->unwritten_room, run->nunwritten, sizeof(*run->unwritten)))
		goto lost;
	if (run->out_room < run->out_n + run->line.n) {
		size_t room = DP_MAX((size_t)OUT_BYTES, run->out_n + run->line.n);
		char *bytes = realloc(run->out, room);

		if (!bytes)
			goto lost;
		run->out = bytes;
		run->out_room = room;
	}
	memcpy(run->out + run->out_n, run->line.text, run->line.n);
	run->out_n += run->line.n;
	run->unwritten[run->nunwritten++] = (struct run_unwritten){m, index, run->out_n};
	return;
lost:
	count_as_lost(m, index);
}

/* What is asked once for all records that are read together: the time of day, and the names of their threads. */
static void begin_turn(struct dp_run *run)
{
	struct timespec mono, real;

	run->turn++;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	run->realtime_offset = (real.tv_sec - mono.tv_sec) * 1000000000ll + real.tv_nsec - mono.tv_nsec;
}

/* The name of a thread that has ended stays. NULL: nobody has seen it. */
static const char *name_of(struct dp_run *run, u32 tid)
{
	struct run_task *n = &run->tasks[tid % RUN_TASKS];

	if (n->tid != tid)
		*n = (struct run_task){.tid = tid};
	if (n->turn != run->turn)
		n->known |= dp_task_comm(tid, n->comm);
	n->turn = run->turn;
	return n->known ? n->comm : NULL;
}

static void flush(struct dp_run *run)
{
	char old[4200];
	FILE *f;

	write_out(run);
	if (!run->log || run->log_bytes < LOG_MAX_BYTES)
		return;
	snprintf(old, sizeof(old), "%s.1", run->log_path);
	if (rename(run->log_path, old))
		return;
	f = fopen(run->log_path, "ae");
	if (!f)
		return;
	fclose(run->log);
	run->log = f;
	run->log_bytes = 0;
}

void dp_run_log_commit(struct dp_run *run)
{
	struct stat st;
	u64 epoch;

	flush(run);
	if (run->recorded)
		run->recorded(run);
	if (!run->journal || fstat(fileno(run->log), &st))
		return;
	if (!run->moved && (u64)st.st_size == run->journal->size[run->journal->epoch & 1])
		return;
	run->moved = false;
	epoch = run->journal->epoch + 1;
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->reader)
			dp_reader_propose(t->reader, epoch);
	run->journal->size[epoch & 1] = (u64)st.st_size;
	/* The moment at which all of it has happened. Pairs with our death, after which a successor finds this file. */
	__atomic_store_n(&run->journal->epoch, epoch, __ATOMIC_RELEASE);
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->reader)
			dp_reader_release(t->reader);
}

static u32 owner_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) ? (u32)-1 : st.st_uid;
}

/* Each line is a message of its own there. */
static void to_syslog(const struct dp_line *l)
{
	size_t at = 0;

	while (at < l->n) {
		const char *end = memchr(l->text + at, '\n', l->n - at);
		size_t n = end ? (size_t)(end - (l->text + at)) : l->n - at;

		syslog(LOG_USER | LOG_INFO, "%.*s", (int)n, l->text + at);
		at += n + 1;
	}
}

/* ---- console and serial ports ---- */

static const char *const sinks[RUN_SINKS] = {"/dev/kmsg", "/dev/ttyS0", "/dev/ttyS1"};

static u32 sink_flag(u32 i)
{
	return (u32)DP_RUN_CONSOLE << i;
}

int dp_run_open_sinks(struct dp_run *run, u32 flags, struct dp_error *err)
{
	struct termios settings;
	int r = flags & DP_RUN_JOURNALD && !run->journald ? dp_journald_new(&run->journald, err) : 0;

	if (r)
		return r;
	for (u32 i = 0; i < RUN_SINKS; i++) {
		if (!(flags & sink_flag(i)) || run->sinks[i])
			continue;
		run->sinks[i] = open(sinks[i], O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) + 1;
		/* A port that is not there can be opened all the same. */
		if (!run->sinks[i] || (i && tcgetattr(run->sinks[i] - 1, &settings))) {
			int why = errno;

			if (run->sinks[i])
				close(run->sinks[i] - 1);
			run->sinks[i] = 0;
			return dp_fail(err, E_DRV_TARGET, "%s: %s", sinks[i], strerror(why));
		}
	}
	return 0;
}

/* As an entry with fields, whatever the format of the log is. */
static void to_journal(struct dp_run *run, const struct dp_record *rec, const struct dp_rpn_context *c)
{
	struct dp_line entry = {0};

	if (run->journald && dp_rpn_log(&entry, DP_FORMAT_JOURNALD, rec, c) && !entry.broken)
		dp_journald_take(run->journald, entry.text, entry.n);
	dp_line_free(&entry);
}

/* A port that does not take a line within a second loses the rest of it: processes must not wait for it. */
static void write_sink(int fd, const char *p, size_t n)
{
	while (n) {
		struct pollfd ready = {fd, POLLOUT, 0};
		ssize_t w = write(fd, p, n);

		if (w > 0) {
			p += w;
			n -= (size_t)w;
		} else if (w == 0 || errno != EAGAIN || poll(&ready, 1, 1000) <= 0) {
			return;
		}
	}
}

/* Line by line: each is a message of its own in the kernel's log, and ends as on a terminal on a port. */
static void to_sinks(struct dp_run *run, u32 flags)
{
	char line[1024];

	for (u32 i = 0; i < RUN_SINKS; i++)
		for (size_t at = 0, n; flags & sink_flag(i) && run->sinks[i] && at < run->line.n; at += n + 1) {
			const char *text = run->line.text + at, *end = memchr(text, '\n', run->line.n - at);
			int len;

			n = end ? (size_t)(end - text) : run->line.n - at;
			len = snprintf(line, sizeof(line), i ? "%.*s\r\n" : "<4>%.*s\n",
				       (int)DP_MIN(n, sizeof(line) - 8), text);
			write_sink(run->sinks[i] - 1, line, (size_t)len);
		}
}

/* ---- showing ---- */

void dp_run_give_to(struct dp_run *run, struct dp_formatter *f)
{
	run->formatter = f;
}

void dp_run_ask_at_end(struct dp_run *run, volatile sig_atomic_t *asked)
{
	run->asked = asked;
}

void dp_run_limit(struct dp_run *run, u64 n)
{
	run->most = n;
}

bool dp_run_is_full(const struct dp_run *run)
{
	return run->is_full || (run->most && run->shown >= run->most);
}

struct drain {
	struct dp_run *run;
	struct run_target *t;
	bool has_clock;
};

/* An event after which nothing is shown any more, or for which what is kept is to be written. */
static void end_with(struct dp_run *run, const struct dp_rf *rf)
{
	if (!rf || !rf->event || !rf->event->ends)
		return;
	if (run->asked)
		*run->asked = 1;
	else
		run->is_full = true;
}

/* index: of the probe; NO_PROBE: it is a body, whose records are not counted. */
static void show_record(struct dp_run *run, struct run_target *t, struct run_module *m, u32 index, u64 offset,
			const struct dp_rpn_probe *probe, const struct dp_record *rec, u64 ns)
{
	struct dp_rpn_context c = {0};
	char comm[32];

	c.module = m->unit.name;
	c.fields = m->fields;
	c.id = m->unit.id;
	c.offset = offset;
	c.pid = (u32)t->pid;
	c.symbolize = dp_run_symbol_of;
	c.code_file = dp_run_file_of;
	c.symbolize_arg = t;
	c.rf = probe->rf;
	c.unit = &m->unit;
	c.probe = probe;
	c.ns = ns;
	c.realtime_ns = ns + (u64)run->realtime_offset;
	if (dp_view_comm(rec)) {
		snprintf(comm, sizeof(comm), "%.16s", dp_view_comm(rec));
		c.comm = comm;
	} else {
		c.comm = name_of(run, rec->tid);
		c.comm = c.comm ? c.comm : t->comm[0] ? t->comm : "<...>";
	}
	c.uid = c.fields & DP_RPN_LOG_UID ? owner_of(t->pid ? t->pid : (pid_t)rec->tid) : 0;
	if (run->formatter) {
		dp_formatter_program(run->formatter, rec, &c);
		run->shown += index != NO_PROBE;
		end_with(run, probe->rf);
		return;
	}
	dp_line_reset(&run->line);
	if (!dp_rpn_log(&run->line, dp_run_format(m->flags), rec, &c) || run->line.broken)
		return;
	run->shown += index != NO_PROBE;
	end_with(run, probe->rf);
	if (m->flags & DP_RUN_SYSLOG)
		to_syslog(&run->line);
	if (m->flags & DP_RUN_JOURNALD)
		to_journal(run, rec, &c);
	if (m->flags & (DP_RUN_CONSOLE | DP_RUN_SERIAL1 | DP_RUN_SERIAL2))
		to_sinks(run, m->flags);
	if (run->log && dp_run_format(m->flags) == DP_FORMAT_TEXT)
		dp_rpn_log_raw(&run->line, rec); /* `dprobes log --raw` */
	put(run, m, index);
}

static void show(const struct dp_record *rec, u64 ns, void *arg)
{
	struct drain *a = arg;
	struct dp_probe_info info = {.offset = 0};
	const struct run_probe *p;

	if (rec->event >= a->t->nprobes || dp_run_is_full(a->run))
		return;
	p = &a->t->probes[rec->event];
	if (!p->m)
		return;
	if (!a->has_clock)
		begin_turn(a->run); /* somebody may have set it */
	a->has_clock = true;
	if (dp_run_take_request(a->run, a->t, p, rec, ns))
		return;
	if (a->t->session) /* else these are the rings of one that was killed */
		dp_tracee_probe(a->t->session, rec->event, &info);
	show_record(a->run, a->t, p->m, p->index, info.offset, &p->m->unit.probes[p->index], rec, ns);
}

void dp_run_show_request(struct dp_run *run, struct run_target *t, struct run_module *m, u32 index,
			 const struct dp_record *rec, u64 ns)
{
	if (!dp_run_is_full(run))
		show_record(run, t, m, index, 0, &m->unit.probes[index], rec, ns);
}

void dp_run_show_body(struct dp_run *run, struct run_target *t, struct run_module *m, const struct dp_rpn_probe *body,
		      const struct dp_record *rec)
{
	begin_turn(run);
	show_record(run, t, m, NO_PROBE, 0, body, rec, dp_now_ns());
}

void dp_run_show_text(struct dp_run *run, struct run_module *m, const char *text, size_t n)
{
	dp_line_reset(&run->line);
	dp_line_bytes(&run->line, text, n);
	if (!run->line.broken)
		put(run, m, NO_PROBE);
}

/* ---- in order ---- */

/*
 * A trace shows the records of all its targets in the order of their stamps: they wait until no target can have an
 * older one. A driver's log is in order for each target alone, since what is read must be logged at once.
 */
static bool has_order(const struct dp_run *run)
{
	bool alone = !run->waiting && (!run->targets || !run->targets->next);

	return !run->log && !alone;
}

/* Under which number its records wait. False: no memory. */
bool dp_run_number(struct dp_run *run, struct run_target *t)
{
	if (!run->merge)
		run->merge = dp_merge_new();
	if (!t->number && run->merge &&
	    dp_grow((void **)&run->numbered, &run->room_numbered, run->nnumbered, sizeof(t))) {
		run->numbered[run->nnumbered++] = t;
		t->number = run->nnumbered;
	}
	return run->merge && t->number;
}

static void wait(const struct dp_record *rec, u64 ns, void *arg)
{
	struct drain *a = arg;

	if (dp_merge_put(a->run->merge, rec, a->t->number - 1, dp_reader_mark(a->t->reader)))
		a->run->waiting++;
	else
		show(rec, ns, arg);
}

static void show_waiting(const struct dp_record *rec, u32 source, u64 ns, void *arg)
{
	struct drain *a = arg;

	a->run->waiting--;
	a->t = a->run->numbered[source];
	show(rec, ns, a);
}

static void show_up_to(struct dp_run *run, u64 tsc)
{
	struct drain a = {.run = run};

	if (run->waiting)
		dp_merge_take(run->merge, tsc, show_waiting, &a);
}

void dp_run_show_known(struct dp_run *run)
{
	u64 known = ~(u64)0;

	for (const struct run_target *t = run->targets; t && run->waiting; t = t->next)
		if (t->session)
			known = DP_MIN(known, dp_reader_known(t->reader));
	show_up_to(run, known);
}

/* Whatever any target has by now; the one whose turn it is may end with it. */
static void show_all(struct dp_run *run, const struct run_target *but)
{
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t != but && t->session && dp_run_number(run, t))
			dp_reader_drain(t->reader, true, wait, &(struct drain){.run = run, .t = t});
	show_up_to(run, ~(u64)0);
}

void dp_run_order_forget(struct dp_run *run, const struct run_target *t)
{
	if (t->number)
		run->numbered[t->number - 1] = NULL;
}

static void govern(void *target)
{
	dp_run_govern_target(target);
}

void dp_run_drain(struct dp_run *run, struct run_target *t, bool final)
{
	struct drain a = {.run = run, .t = t};
	bool ordered = has_order(run) && dp_run_number(run, t);
	void (*fn)(const struct dp_record *, u64, void *) = ordered ? wait : show;

	if (t->ngoverned) {
		t->drain.often = govern;
		t->drain.often_arg = t;
	}
	if (final)
		dp_reader_drain(t->reader, true, fn, &a);
	else
		dp_drain_turn(&t->drain, t->session, t->reader, fn, &a);
	if (final && ordered)
		show_all(run, t);
	run->moved |= dp_reader_has_moved(t->reader);
}
