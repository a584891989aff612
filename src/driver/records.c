/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* From the rings of the targets to the driver's log and the system's. */
#include <errno.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>

#include "driver/driver-priv.h"
#include "log/view.h"

#define LOG_MAX_BYTES (64ull << 20) /* then it is renamed and begun anew */

int drv_log_open(struct driver *d, const char *dir, struct dp_error *err)
{
	struct timespec mono, real;
	struct stat st;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	d->realtime_offset =
	    (real.tv_sec - mono.tv_sec) * 1000000000ll + real.tv_nsec - mono.tv_nsec;
	snprintf(d->log_path, sizeof(d->log_path), "%s/log", dir);
	d->log = fopen(d->log_path, "ae");
	if (!d->log)
		return dp_fail(err, E_DRV_DIR, "%.150s: %s", d->log_path, strerror(errno));
	d->log_bytes = fstat(fileno(d->log), &st) ? 0 : (u64)st.st_size;
	return 0;
}

static void flush(struct driver *d)
{
	char old[4200];
	FILE *f;

	fflush(d->log);
	if (d->log_bytes < LOG_MAX_BYTES)
		return;
	snprintf(old, sizeof(old), "%s.1", d->log_path);
	if (rename(d->log_path, old))
		return;
	f = fopen(d->log_path, "ae");
	if (!f)
		return;
	fclose(d->log);
	d->log = f;
	d->log_bytes = 0;
}

void drv_log_commit(struct driver *d)
{
	struct stat st;
	u64 epoch;

	flush(d);
	if (!d->journal || fstat(fileno(d->log), &st))
		return;
	epoch = d->journal->epoch + 1;
	for (struct drv_target *t = d->targets; t; t = t->next)
		if (t->reader)
			dp_reader_propose(t->reader, epoch);
	d->journal->size[epoch & 1] = (u64)st.st_size;
	/* The moment at which all of it has happened, for whoever finds this file after our death. */
	__atomic_store_n(&d->journal->epoch, epoch, __ATOMIC_RELEASE);
	for (struct drv_target *t = d->targets; t; t = t->next)
		if (t->reader)
			dp_reader_release(t->reader);
}

static const char *thread_name(u32 tid, char *buf, size_t size)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", tid);
	f = fopen(path, "re");
	if (!f || !fgets(buf, (int)size, f))
		snprintf(buf, size, "<...>");
	if (f)
		fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
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

struct drain {
	struct driver *d;
	struct drv_target *t;
};

static bool symbol_of(void *arg, u64 addr, char *buf, size_t size)
{
	struct drv_target *t = arg;

	if (t->session->kernel)
		return dp_kernel_symbolize(t->session->kernel, addr, buf, size);
	if (!t->names)
		t->names = symbolizer_new(dp_session_process(t->session->process));
	return symbolize(t->names, addr, buf, size);
}

static void show(const struct dp_record *rec, u64 ns, void *arg)
{
	struct drain *a = arg;
	struct driver *d = a->d;
	const struct drv_probe *p;
	struct dp_rpn_context c = {0};
	struct dp_probe_info info = {.offset = 0};
	char comm[32];
	bool good;

	if (rec->event >= a->t->nprobes)
		return;
	p = &a->t->probes[rec->event];
	if (a->t->session) /* else these are the rings of one that was killed */
		tracee_probe(a->t->session, rec->event, &info);
	c.module = p->m->unit.name;
	c.fields = p->m->fields;
	c.id = p->m->unit.id;
	c.offset = info.offset;
	c.symbolize = symbol_of;
	c.symbolize_arg = a->t;
	c.rf = p->m->unit.probes[p->index].rf;
	c.realtime_ns = ns + (u64)d->realtime_offset;
	if (dp_view_comm(rec)) {
		snprintf(comm, sizeof(comm), "%.16s", dp_view_comm(rec));
		c.comm = comm;
	} else {
		c.comm = thread_name(rec->tid, comm, sizeof(comm));
	}
	c.uid = c.fields & DP_RPN_LOG_UID ? owner_of(a->t->pid ? a->t->pid : (pid_t)rec->tid) : 0;
	dp_line_reset(&d->line);
	good = p->m->flags & DP_DRIVER_JSON ? dp_rpn_log_json(&d->line, rec, &c)
					    : dp_rpn_log_text(&d->line, rec, &c);
	if (!good || d->line.broken)
		return;
	/* Whoever reads the log meanwhile sees whole records. */
	if (__fpending(d->log) + d->line.n > __fbufsize(d->log))
		fflush(d->log);
	fwrite(d->line.text, 1, d->line.n, d->log);
	d->log_bytes += d->line.n;
	if (p->m->flags & DP_DRIVER_SYSLOG)
		to_syslog(&d->line);
}

void drv_drain(struct driver *d, struct drv_target *t, bool final)
{
	struct drain a = {d, t};

	if (t->reader)
		dp_reader_drain(t->reader, final, show, &a);
}
