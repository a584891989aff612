/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Watchpoints in a process: debug registers, which the kernel sets for each thread through performance events. The
 * descriptors stay here, so when dprobes ends in whatever way nothing is watched any more. The kernel raises a SIGTRAP
 * in the thread that made the access; hit/hit-watch.c takes it.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/measure/measure.h"
#include "host/process/arm-priv.h"
#include "symbols/variable.h"

#define USER_END (1ull << 47)

/* ---- from a name to pieces ---- */

static bool read_memory(void *arg, u64 addr, void *buf, u32 len)
{
	struct dp_session *s = arg;
	struct iovec here = {buf, len}, there = {(void *)addr, len};

	return process_vm_readv(dp_memory_tid(s->pid), &here, 1, &there, 1, 0) == (ssize_t)len;
}

/* The image that has the variable with which the name begins. */
static struct dp_image *image_of(struct dp_session *s, const struct dp_location *loc, struct dp_error *err)
{
	char name[DP_SYMBOL_MAX];
	size_t n = strcspn(loc->symbol, ".-[");

	if (loc->module[0])
		return dp_process_image(&s->proc, loc->module, err);
	snprintf(name, sizeof(name), "%.*s", (int)n, loc->symbol);
	return dp_image_of_symbol(s, name, err);
}

static int find_place(struct dp_session *s, const struct dp_location *loc, struct dp_variable *out,
		      struct dp_image **im, struct dp_error *err)
{
	int r;

	*out = (struct dp_variable){0};
	*im = NULL;
	switch (loc->kind) {
	case DP_LOC_ADDRESS:
		out->addr = loc->address;
		*im = dp_process_image_at(&s->proc, loc->address);
		return 0;
	case DP_LOC_FILE_OFFSET:
		*im = dp_process_image(&s->proc, loc->module, err);
		if (!*im)
			return -dp_error_info(E_MOD_NONE)->number;
		if (!dp_module_number_to_addr((*im)->mod, (u64)loc->offset, &out->addr))
			return dp_fail(err, E_SITE_NOTEXT, "offset 0x%llx is in no segment of %s",
				       (unsigned long long)loc->offset, dp_module_base((*im)->mod));
		out->addr += (*im)->bias;
		return 0;
	case DP_LOC_SYMBOL:
		*im = image_of(s, loc, err);
		if (!*im)
			return -ENOENT;
		r = dp_variable_find(*im, loc->symbol, read_memory, s, out, err);
		if (r || !loc->offset)
			return r;
		out->addr += (u64)loc->offset;
		out->size = 0;
		out->type = NULL;
		return 0;
	default:
		return dp_fail(err, E_EVENT_LOCATION, "a watchpoint needs one place, not a pattern");
	}
}

static int add_pages(struct dp_session *s, u64 addr, u64 len, u32 owner, struct dp_error *err)
{
	if (len > DP_PAGES_MAX * 4096ull)
		return dp_fail(err, E_WATCH_PAGES, "%llu bytes, of at most %llu", (unsigned long long)len,
			       DP_PAGES_MAX * 4096ull);
	if (!dp_watched_add(s, (struct dp_watched){addr, (u32)len, DP_WATCH_W, owner, 0, true, 0}))
		return dp_fail(err, E_ARM_NOMEM, "watchpoint");
	return dp_pages_check(s, err);
}

/* Aligned pieces of at most 8 bytes, as the registers want them. */
static int add_pieces(struct dp_session *s, u64 addr, u64 len, enum dp_watch_type type, u32 owner, struct dp_error *err)
{
	for (u64 end = addr + len; addr < end;) {
		u32 size = type == DP_WATCH_X ? 1 : DP_WATCH_CHUNK;

		while (addr % size || addr + size > end)
			size /= 2;
		if (!dp_watched_add(s, (struct dp_watched){addr, size, type, owner, 0, false, 0}))
			return dp_fail(err, E_ARM_NOMEM, "watchpoint");
		addr += size;
		if (dp_watched_registers(s) > DP_WATCH_REGISTERS)
			return dp_fail(err, E_WATCH_MANY, "%u pieces of memory, of at most %u", dp_watched_registers(s),
				       DP_WATCH_REGISTERS);
	}
	return 0;
}

static int choose_length(const struct dp_event *ev, struct dp_variable *place, struct dp_error *err)
{
	if (ev->watch_type == DP_WATCH_X) {
		place->size = 1;
	} else if (ev->watch_len) {
		if (place->size != ev->watch_len)
			place->type = NULL;
		place->size = ev->watch_len;
	} else if (!place->size && ev->loc.kind == DP_LOC_ADDRESS) {
		place->size = place->addr % 8 == 0 ? 8 : place->addr % 4 == 0 ? 4 : place->addr % 2 == 0 ? 2 : 1;
	}
	if (!place->size)
		return dp_fail(err, E_WATCH_SIZE, "%s", ev->loc.symbol);
	if (place->addr >= USER_END || place->size > USER_END - place->addr)
		return dp_fail(err, E_SITE_NOTEXT, "0x%llx is no address of a process",
			       (unsigned long long)place->addr);
	return 0;
}

/* The type of $old and $new in the event line. */
static const char *value_type(const struct dp_variable *place)
{
	if (place->type)
		return place->type;
	return place->size == 1 ? "x8" : place->size == 2 ? "x16" : place->size == 4 ? "x32" : "x64";
}

static int name_probe(struct dp_probe *p, const struct dp_event *ev, const struct dp_image *im,
		      const struct dp_variable *place, struct dp_error *err)
{
	char number[20];

	p->module = im ? dp_module_base(im->mod) : "";
	p->addr = place->addr;
	p->outcome = DP_OUTCOME_JUMP;
	p->nsites = 1;
	p->event->watch_len = (u32)place->size;
	if (ev->loc.kind == DP_LOC_SYMBOL) {
		p->offset = (u64)ev->loc.offset;
		return dp_probe_name(p, ev->loc.symbol, err);
	}
	snprintf(number, sizeof(number), "0x%llx", (unsigned long long)place->addr);
	return dp_probe_name(p, number, err);
}

/* What is to be watched: where, how much, in which image (NULL: in none). */
static int find_memory(struct dp_session *s, const struct dp_event *ev, struct dp_variable *place, struct dp_image **im,
		       struct dp_error *err)
{
	int r;

	if (ev->watch_type == DP_WATCH_IO)
		return dp_fail(err, E_WATCH_TYPE, "io");
	r = find_place(s, &ev->loc, place, im, err);
	return r ? r : choose_length(ev, place, err);
}

/*
 * By pages where that is asked for, or where registers would never fire; what cannot be watched in either way is
 * refused.
 */
static int choose_way(struct dp_session *s, const struct dp_event *ev, const struct dp_variable *place, bool *by_pages,
		      struct dp_error *err)
{
	bool could = ev->watch_type == DP_WATCH_W && place->addr;
	int r;

	*by_pages = s->opt.pages && could;
	r = *by_pages ? 0 : dp_measure_watch_check(ev->watch_type, err);
	if (!r || !could || s->opt.children || dp_pages_can(NULL))
		return r;
	*by_pages = true;
	dp_session_say(s, "%s is watched by its pages: the debug registers of this machine never fire", ev->loc.symbol);
	return 0;
}

/* The event is the session's from now on, or freed. */
static int add_probe(struct dp_session *s, struct dp_event *ev, const struct dp_image *im,
		     const struct dp_variable *place, struct dp_error *err)
{
	struct dp_probe *p;
	bool by_pages;
	int r = choose_way(s, ev, place, &by_pages, err);

	p = r ? NULL : dp_add_probe(s);
	if (p) {
		p->event = ev;
		r = name_probe(p, ev, im, place, err);
		if (!r && by_pages)
			r = add_pages(s, place->addr, place->size, s->nprobes - 1, err);
		else if (!r)
			r = add_pieces(s, place->addr, place->size, ev->watch_type, s->nprobes - 1, err);
		if (!r)
			return 0;
		dp_drop_last_probe(s);
		dp_watched_drop(s, s->nprobes);
		return r;
	}
	dp_event_drop(ev);
	return r ? r : dp_fail(err, E_ARM_NOMEM, "probe");
}

int dp_watch_of_call(struct dp_session *s, struct dp_event_line *line, const char *type, u32 len, struct dp_error *err)
{
	struct dp_variable place = {.addr = 0, .size = len, .type = type};
	struct dp_event *ev;
	int r = dp_event_new(s, line, value_type(&place), &ev, err);

	return r ? r : add_probe(s, ev, NULL, &place, err);
}

int dp_watch_resolve(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_event *parsed = dp_event_of_line(line);
	struct dp_variable place;
	struct dp_image *im;
	struct dp_event *ev;
	int r;

	r = find_memory(s, parsed, &place, &im, err);
	if (!r)
		r = dp_event_new(s, line, value_type(&place), &ev, err);
	return r ? r : add_probe(s, ev, im, &place, err);
}

int dp_watch_add(struct dp_session *s, struct dp_event *ev, struct dp_error *err)
{
	struct dp_variable place;
	struct dp_image *im;
	int r = find_memory(s, ev, &place, &im, err);

	if (!r)
		return add_probe(s, ev, im, &place, err);
	dp_event_drop(ev);
	return r;
}

/* ---- events of the kernel ---- */

int dp_watch_open(const struct dp_session *s, const struct dp_watched *w, pid_t tid, enum dp_watch_inherit inherit)
{
	struct perf_event_attr a = {
	    .sample_period = 1,
	    .disabled = inherit == DP_INHERIT_TRIAL,
	    .sigtrap = 1,
	    .remove_on_exec = 1, /* the addresses mean nothing to the next program, and the handler is gone */
	    .inherit = inherit == DP_INHERIT_THREADS || inherit == DP_INHERIT_ALL,
	    /* Threads to come; children only on request: one of posix_spawn has no handler any more. */
	    .inherit_thread = inherit == DP_INHERIT_THREADS,
	    .sig_data = DP_WATCH_DATA(DP_WATCH_MAGIC, s->region, w->group),
	};

	return dp_measure_watch_open(&a, w->type, w->addr, w->len, tid);
}

/* Names of processes that may hold debug registers: they have performance events open, or trace the target. */
static void name_holders(pid_t target, char *buf, size_t size)
{
	DIR *proc = opendir("/proc"), *fds;
	struct dirent *de, *fd;
	char path[64], link[64], comm[32];
	size_t used = 0;

	*buf = '\0';
	while (proc && (de = readdir(proc))) {
		pid_t pid = (pid_t)atoi(de->d_name);
		bool holds = false;

		snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
		fds = pid > 0 && pid != getpid() && pid != target ? opendir(path) : NULL;
		while (fds && !holds && (fd = readdir(fds))) {
			ssize_t n = readlinkat(dirfd(fds), fd->d_name, link, sizeof(link) - 1);

			link[n > 0 ? n : 0] = '\0';
			holds = !strcmp(link, "anon_inode:[perf_event]");
		}
		if (fds)
			closedir(fds);
		if (!holds || used + 48 > size)
			continue;
		if (dp_status_field(pid, pid, "Name", comm, sizeof(comm)))
			snprintf(comm, sizeof(comm), "?");
		used += (size_t)snprintf(buf + used, size - used, "%s%s (process %d)", used ? ", " : "", comm,
					 (int)pid);
	}
	if (proc)
		closedir(proc);
}

static int fail_event(const struct dp_session *s, const struct dp_watched *w, int e, struct dp_error *err)
{
	unsigned long long addr = w->addr;
	char holders[192];

	switch (e) {
	case ENOSPC:
		name_holders(s->pid, holders, sizeof(holders));
		return dp_fail(err, E_WATCH_BUSY, "for 0x%llx; %s%s", addr,
			       *holders ? "performance events are open in " : "nobody is seen who holds one", holders);
	case EACCES:
	case EPERM:
		return dp_fail(err, E_WATCH_PERM, "for 0x%llx: %s", addr, strerror(e));
	case EMFILE:
	case ENFILE:
		return dp_fail(err, E_WATCH_FILES, "%zu are open", s->watch.nevents);
	default:
		return dp_fail(err, E_WATCH_NONE, "for 0x%llx: %s", addr, strerror(e));
	}
}

static void close_events(struct dp_session *s, size_t from)
{
	for (size_t i = from; i < s->watch.nevents; i++)
		close(s->watch.events[i].fd);
	s->watch.nevents = from;
}

/* All pieces on one thread, which is not watched yet. */
static int open_events(struct dp_session *s, pid_t tid, enum dp_watch_inherit inherit, struct dp_error *err)
{
	size_t before_this = s->watch.nevents;

	for (u32 i = 0; i < s->watch.n; i++) {
		const struct dp_watched *w = &s->watch.v[i];
		int fd;

		if (!w->addr || w->paged || (i && s->watch.v[i - 1].group == w->group))
			continue;
		if (!dp_grow((void **)&s->watch.events, &s->watch.cap_events, s->watch.nevents,
			     sizeof(*s->watch.events)))
			return dp_fail(err, E_ARM_NOMEM, "watchpoint");
		fd = dp_watch_open(s, w, tid, inherit);
		if (fd < 0) {
			int e = errno;

			close_events(s, before_this);
			return e == ESRCH ? 0 : fail_event(s, w, e, err);
		}
		s->watch.events[s->watch.nevents++] = (struct dp_watch_event){fd, w->group};
	}
	return 0;
}

static int watch_thread(struct dp_session *s, pid_t tid, struct dp_error *err)
{
	return open_events(s, tid, s->opt.children ? DP_INHERIT_ALL : DP_INHERIT_THREADS, err);
}

/* Whether the kernel gives the registers, tried with one thread. Nothing fires: there is no handler yet. */
static int prepare(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	pid_t tid = a->tracer.v[0].tid;
	int r;

	if (!s->watch.n)
		return 0;
	dp_allow_descriptors(); /* one for each thread and piece */
	r = open_events(s, tid, DP_INHERIT_TRIAL, err);
	if (!r && s->calls.any) {
		struct dp_watched w = s->watch.v[0];
		int fd;

		w.addr = 4096; /* any place */
		fd = dp_watch_open(s, &w, tid, DP_INHERIT_TRIAL);
		r = fd < 0 && errno != ESRCH ? fail_event(s, &w, errno, err) : 0;
		if (fd >= 0)
			close(fd);
	}
	close_events(s, 0);
	return r;
}

/* The values before the first hit. */
static int fill(struct arming *a, struct dp_error *err)
{
	const struct dp_session *s = a->s;
	int r = 0;

	for (u32 i = 0; i < s->watch.n && !r; i++) {
		const struct dp_watched *w = &s->watch.v[i];
		u64 v = 0;

		if (w->addr && !w->paged && w->type != DP_WATCH_X && !dp_mem_read(&a->mem, w->addr, &v, w->len, NULL))
			r = dp_mem_write(&a->mem, s->region + s->watch.cells_off + 8ull * w->group, &v, 8, err);
	}
	return r;
}

static void end(struct dp_session *s)
{
	for (size_t i = 0; i < s->watch.nevents; i++)
		ioctl(s->watch.events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	/* The kernel's own count, with that of the threads that inherited. */
	for (size_t i = 0; i < s->watch.nevents; i++) {
		u64 hits;

		if (read(s->watch.events[i].fd, &hits, 8) == 8)
			s->watch.hits[s->watch.events[i].group] += hits;
	}
	close_events(s, 0);
	free(s->watch.events);
	s->watch.events = NULL;
	s->watch.cap_events = 0;
}

const struct dp_part dp_watch_part = {
    .steps = {[DP_PART_PREPARE] = prepare, [DP_PART_FILL] = fill},
    .thread = watch_thread,
    .end = end,
};

void dp_watch_count(struct dp_session *s)
{
	for (u32 p = 0; p < s->nprobes && s->rings.at; p++) {
		u64 hits = 0, known = 0;

		if (!s->probes[p].event || !s->probes[p].event->is_watch)
			continue;
		for (u32 i = 0; i < s->watch.n; i++)
			if (s->watch.v[i].owner == p)
				hits += s->watch.hits[s->watch.v[i].group];
		for (u32 ring = 0; ring < s->rings.g.nrings; ring++) {
			const struct dp_counts *c = dp_ring_counts(&s->rings, ring) + p;

			for (u32 k = DP_COUNT_RECORDED; k <= DP_COUNT_LOST; k++)
				known += c->v[k];
			known += c->v[DP_COUNT_OWN];
		}
		if (hits > known)
			dp_ring_counts(&s->rings, 0)[p].v[DP_COUNT_MISSED] += hits - known;
	}
	memset(s->watch.hits, 0, sizeof(s->watch.hits));
}
