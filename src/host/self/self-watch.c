/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of <dprobes/watch.h>: a performance event of the kernel for each watchpoint and thread. Their signals come
 * to trap.c, which looks up the watchpoint here.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dprobes/watch.h"
#include "host/measure/measure.h"
#include "host/self/host.h"
#include "host/self/self-watch.h"

#define EXPORT __attribute__((visibility("default")))

struct events { /* of one watchpoint; under the library's lock */
	u32 index;
	struct event {
		int fd, tid;
	} * v;
	size_t n, cap;
};

struct watchpoint *dp_self_watched[SELF_WATCHES];

static int open_event(const struct watchpoint *w, u32 index, int tid)
{
	struct perf_event_attr a = {
	    .sample_period = 1,
	    .sigtrap = 1,
	    .remove_on_exec = 1,
	    .inherit = 1,
	    .inherit_thread = 1,
	    .sig_data = SELF_WATCH_MAGIC << 32 | index,
	};

	return dp_measure_watch_open(&a, (enum dp_watch_type)w->type, (u64)w->addr, w->len, tid);
}

/* Who has the registers, as far as it is us: others can only be guessed. */
static int fail_busy(const struct watchpoint *w, struct dp_error *err)
{
	char ours[192] = "nothing";
	size_t n = 0;

	for (u32 i = 0; i < SELF_WATCHES; i++)
		if (dp_self_watched[i] && dp_self_watched[i] != w && n < sizeof(ours))
			n += (size_t)snprintf(ours + n, sizeof(ours) - n, "%s%p for the handler %p", n ? ", " : "",
					      dp_self_watched[i]->addr, (void *)dp_self_watched[i]->handler);
	return dp_fail(err, E_WATCH_BUSY, "for %p; this library watches %s", w->addr, ours);
}

static int fail_event(const struct watchpoint *w, int e, struct dp_error *err)
{
	enum dp_code code = e == EACCES || e == EPERM    ? E_WATCH_PERM
			    : e == EMFILE || e == ENFILE ? E_WATCH_FILES
							 : E_WATCH_NONE;

	if (e == ENOSPC)
		return fail_busy(w, err);
	return dp_fail(err, code, "for %p: %s", w->addr, strerror(e));
}

static bool has(const struct events *ev, int tid)
{
	for (size_t i = 0; i < ev->n; i++)
		if (ev->v[i].tid == tid)
			return true;
	return false;
}

/* Every thread that has none. Returns how many there were, or an error. */
static int open_round(const struct watchpoint *w, struct events *ev, struct dp_error *err)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *de;
	int n = 0, r = dir ? 0 : dp_fail(err, E_WATCH_NONE, "/proc cannot be read");

	while (!r && (de = readdir(dir))) {
		int tid = atoi(de->d_name), fd;

		if (tid <= 0 || has(ev, tid))
			continue;
		if (!dp_grow((void **)&ev->v, &ev->cap, ev->n, sizeof(*ev->v))) {
			r = dp_fail(err, E_ARM_NOMEM, "watchpoint");
			break;
		}
		fd = open_event(w, ev->index, tid);
		if (fd >= 0)
			ev->v[ev->n++] = (struct event){fd, tid};
		else if (errno != ESRCH)
			r = fail_event(w, errno, err);
		n++;
	}
	if (dir)
		closedir(dir);
	return r ? r : n;
}

/*
 * A thread that was being born while its creator had no event yet shows up in a second look. One that has inherited it
 * shows up there, too: it gets a second one, whose signal joins the first.
 */
static int open_all(const struct watchpoint *w, struct events *ev, struct dp_error *err)
{
	int r = open_round(w, ev, err);

	return r > 0 ? DP_MIN(open_round(w, ev, err), 0) : r;
}

static void close_all(struct events *ev)
{
	/* A child of fork may hold a copy of the descriptor: closing alone would not end it. */
	for (size_t i = 0; i < ev->n; i++)
		ioctl(ev->v[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	for (size_t i = 0; i < ev->n; i++)
		close(ev->v[i].fd);
	ev->n = 0;
}

void dp_self_watch_forked(void)
{
	for (u32 i = 0; i < SELF_WATCHES; i++) {
		struct events *ev = dp_self_watched[i] ? dp_self_watched[i]->dp_private : NULL;

		for (size_t k = 0; ev && k < ev->n; k++)
			close(ev->v[k].fd); /* the parent's go on */
		if (ev)
			ev->n = 0;
	}
}

static int check(const struct watchpoint *w, struct dp_error *err)
{
	if (w->type == WATCH_IO)
		return dp_fail(err, E_WATCH_TYPE, "WATCH_IO");
	if (w->dp_private || !w->handler || w->type < WATCH_EXECUTE || w->type > WATCH_RW || !w->len || w->len > 8 ||
	    w->len & (w->len - 1) || (u64)w->addr % w->len || (w->type == WATCH_EXECUTE && w->len != 1))
		return dp_fail(err, E_WATCH_ARGUMENT, "%u bytes at %p, type %d", w->len, w->addr, w->type);
	return dp_measure_watch_check((enum dp_watch_type)w->type, err);
}

static int add(struct watchpoint *w, struct dp_error *err)
{
	struct events *ev;
	u32 index = 0;
	int r = check(w, err);

	while (index < SELF_WATCHES && dp_self_watched[index])
		index++;
	if (r)
		return r;
	if (index == SELF_WATCHES)
		return fail_busy(w, err);
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return dp_fail(err, E_ARM_NOMEM, "watchpoint");
	ev->index = index;
	w->dp_private = ev;
	w->nmissed = 0;
	/* Pairs with the acquire in trap.c: the structure is whole before a hit finds it. */
	__atomic_store_n(&dp_self_watched[index], w, __ATOMIC_RELEASE);
	r = open_all(w, ev, err);
	if (!r)
		return 0;
	close_all(ev);
	__atomic_store_n(&dp_self_watched[index], NULL, __ATOMIC_RELEASE);
	dp_self_grace(NULL);
	w->dp_private = NULL;
	free(ev->v);
	free(ev);
	return r;
}

EXPORT int register_watchpoint(struct watchpoint *w)
{
	struct dp_error err = {0};
	int r = dp_self_lock();

	if (r)
		return r;
	r = dp_self_fail(&err, add(w, &err));
	dp_self_unlock();
	return r;
}

EXPORT void unregister_watchpoint(struct watchpoint *w)
{
	struct events *ev;

	if (dp_self_lock())
		return;
	ev = w->dp_private;
	if (ev) {
		close_all(ev);
		/* Pairs with the acquire in trap.c: a signal under way finds nothing; a handler is waited for. */
		__atomic_store_n(&dp_self_watched[ev->index], NULL, __ATOMIC_RELEASE);
		dp_self_grace(NULL);
		w->dp_private = NULL;
		free(ev->v);
		free(ev);
	}
	dp_self_unlock();
}
