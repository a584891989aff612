/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * w FUNCTION($argument->field): memory that is watched from a function's entry until that call returns, in the thread
 * that made it. Probes at the entry and at the exits ask (hit/hit-calls.c); a thread of ours answers, since the events
 * of the kernel are ours: when we end in whatever way, nothing is watched any more.
 */
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/process/arm-priv.h"
#include "symbols/variable.h"

struct watched_call {
	pid_t tid;
	int fd;
};

struct dp_calls {
	struct dp_session *s;
	struct dp_asks *asks;
	pthread_t thread;
	bool stop;
	struct watched_call *open;
	size_t n, cap;
};

/* ---- from a line to probes ---- */

/* FUNCTION($ARGUMENT...): the parts. */
static bool split(const char *text, char *func, size_t size, char *expr, size_t expr_size)
{
	const char *open = strchr(text, '('), *end = text + strlen(text) - 1;

	if (!open || end < open + 3 || *end != ')' || open[1] != '$' || (size_t)(open - text) >= size ||
	    (size_t)(end - open) >= expr_size)
		return false;
	snprintf(func, size, "%.*s", (int)(open - text), text);
	snprintf(expr, expr_size, "%.*s", (int)(end - open - 2), open + 2);
	return true;
}

static int add_end(struct dp_session *s, const struct dp_location *loc, const struct dp_watch_path *path,
		   bool is_return, struct dp_error *err)
{
	struct dp_event *ev = calloc(1, sizeof(*ev));
	int r;

	if (ev)
		ev->prog.code = dp_alloc(sizeof(*path));
	if (!ev || !ev->prog.code) {
		free(ev);
		return dp_fail(err, E_ARM_NOMEM, "probe");
	}
	memcpy(ev->prog.code, path, sizeof(*path));
	ev->prog.len = sizeof(*path);
	ev->loc = *loc;
	ev->is_return = is_return;
	snprintf(ev->group, sizeof(ev->group), "dprobes");
	snprintf(ev->name, sizeof(ev->name), "%.50s%s", loc->symbol, is_return ? "%return" : "");
	r = dp_add_at_code(s, ev, -1, err);
	if (!r) {
		s->probes[s->nprobes - 1].jit = DP_JIT_OFF;
		s->probes[s->nprobes - 1].call_flags = is_return ? DP_PROBE_WATCH_END : DP_PROBE_WATCH_BEGIN;
	}
	return r;
}

int dp_call_resolve(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_event *parsed = dp_event_of_line(line);
	char func[DP_SYMBOL_MAX], expr[DP_SYMBOL_MAX];
	struct dp_location loc = parsed->loc;
	struct dp_register_part part;
	struct dp_way way;
	struct dp_watch_path path = {0}; /* of watch 0: nothing lies below that address */
	struct dp_symbol sym;
	struct dp_image *im;
	u64 len;
	int r;

	if (!split(loc.symbol, func, sizeof(func), expr, sizeof(expr)))
		return dp_fail(err, E_PLACE_SYNTAX, "%.150s: FUNCTION($ARGUMENT->FIELD) is expected", loc.symbol);
	if (parsed->watch_type == DP_WATCH_X || parsed->watch_type == DP_WATCH_IO)
		return dp_fail(err, E_WATCH_TYPE, "%.150s", loc.symbol);
	if (s->calls.any)
		return dp_fail(err, E_WATCH_MANY, "one watchpoint of this kind at a time");
	im = loc.module[0] ? dp_process_image(&s->proc, loc.module, err) : dp_image_of_symbol(s, func, err);
	if (!im)
		return -ENOENT;
	r = dp_module_symbol(im->mod, func, &sym, err);
	if (!r)
		r = dp_variable_way(im->mod, sym.addr, expr, &way, err);
	if (r)
		return r;
	len = parsed->watch_len ? parsed->watch_len : way.size;
	if (!len || len > DP_WATCH_CHUNK || len & (len - 1))
		return dp_fail(err, E_WATCH_SIZE, "%.150s: 1, 2, 4 or 8 bytes", expr);
	r = dp_watch_of_call(s, line, len == way.size ? way.type : NULL, (u32)len, err);
	if (r)
		return r;
	dp_register_find(way.reg, strlen(way.reg), &part);
	path.reg_word = part.reg->reg_word;
	path.n = (u8)way.n;
	memcpy(path.offsets, way.offsets, sizeof(path.offsets));
	snprintf(loc.symbol, sizeof(loc.symbol), "%s", func);
	loc.offset = 0;
	r = add_end(s, &loc, &path, false, err);
	if (!r)
		r = add_end(s, &loc, &path, true, err);
	s->calls.any = true;
	return r;
}

/* ---- answers ---- */

/* Its hits are known and missed together, see dp_watch_count(). */
static void unwatch(struct dp_calls *c, size_t i)
{
	u64 hits;

	ioctl(c->open[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(c->open[i].fd, &hits, 8) == 8)
		c->s->watch.hits[0] += hits;
	close(c->open[i].fd);
	c->open[i] = c->open[--c->n];
}

static bool answer(struct dp_calls *c, const volatile struct dp_ask *a)
{
	struct dp_watched w = c->s->watch.v[0];
	struct dp_ask q = {.tid = a->tid, .addr = a->addr}; /* it may write over it meanwhile */
	pid_t tid = dp_thread_of(c->s->pid, q.tid);
	int fd;

	if (!tid)
		return false;
	for (size_t i = c->n; i-- > 0;)
		if (c->open[i].tid == tid)
			unwatch(c, i);
	if (!q.addr)
		return true;
	w.addr = q.addr;
	if (!dp_grow((void **)&c->open, &c->cap, c->n, sizeof(*c->open)))
		return false;
	fd = dp_watch_open(c->s, &w, tid, DP_INHERIT_NONE);
	/* A thread that has ended meanwhile may have left its id to another process's. */
	if (fd >= 0 && !dp_thread_is_of(c->s->pid, tid)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		return false;
	c->open[c->n++] = (struct watched_call){tid, fd};
	return true;
}

static void futex(u32 *word, int op, u32 value, const struct timespec *patience)
{
	syscall(SYS_futex, word, op, value, patience, NULL, 0);
}

static void answer_all(struct dp_calls *c, bool refuse)
{
	for (u32 i = 0; i < DP_ASKS; i++) {
		struct dp_ask *a = &c->asks->v[i];
		bool good;

		/* Pairs with the release of the question. */
		if (__atomic_load_n(&a->state, __ATOMIC_ACQUIRE) != DP_ASK_ASKED)
			continue;
		good = !refuse && answer(c, a);
		__atomic_store_n(&a->state, good ? DP_ASK_DONE : DP_ASK_REFUSED, __ATOMIC_RELEASE);
		futex(&a->state, FUTEX_WAKE, 1, NULL);
	}
}

static void *serve(void *arg)
{
	struct dp_calls *c = arg;
	struct timespec patience = {1, 0};

	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) { /* pairs with the release in dp_calls_end() */
		/*
		 * Before the questions are looked at: one that comes later has changed it, and the wait ends at once.
		 * Pairs with the releases of who asks and of dp_calls_end().
		 */
		u32 doorbell = __atomic_load_n(&c->asks->doorbell, __ATOMIC_ACQUIRE);

		answer_all(c, false);
		futex(&c->asks->doorbell, FUTEX_WAIT, doorbell, &patience);
	}
	return NULL;
}

static int prepare(struct arming *a, struct dp_error *err)
{
	return a->s->calls.any && !(a->caps.caps & DP_CAP_FUTEX)
		   ? dp_fail(err, E_WATCH_CALL, "process %d", (int)a->s->pid)
		   : 0;
}

/* Not before: threads that wait for an answer cannot be sent to make calls. */
static int begin(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	struct dp_calls *c;
	sigset_t all, old;
	int r;

	if (!s->calls.any)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return dp_fail(err, E_ARM_NOMEM, "watchpoint");
	c->s = s;
	c->asks = (struct dp_asks *)((u8 *)s->rings.at + s->calls.asks_off);
	sigfillset(&all); /* they are for the thread that waits for them */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&c->thread, NULL, serve, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		free(c);
		return dp_fail(err, E_ARM_NOMEM, "a thread: %s", strerror(r));
	}
	s->calls.server = c;
	__atomic_store_n(&c->asks->serving, 1, __ATOMIC_RELEASE); /* pairs with the acquire of who asks */
	return 0;
}

static void end(struct dp_session *s)
{
	struct dp_calls *c = s->calls.server;

	if (!c)
		return;
	s->calls.server = NULL;
	/* Pair with the acquires of who asks, and of serve(). */
	__atomic_store_n(&c->asks->serving, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&c->asks->doorbell, 1, __ATOMIC_RELEASE);
	futex(&c->asks->doorbell, FUTEX_WAKE, 1, NULL);
	pthread_join(c->thread, NULL);
	answer_all(
	    c, true); /* who asked in the last moment; later ones find that nobody serves, or give up by themselves */
	while (c->n)
		unwatch(c, c->n - 1);
	free(c->open);
	free(c);
}

const struct dp_part dp_calls_part = {
    .steps = {[DP_PART_PREPARE] = prepare, [DP_PART_BEGIN] = begin},
    .end = end,
};
