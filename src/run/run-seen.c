/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Scans look at every process, and most are what they were at the scan before. Reading what a process maps takes a
 * hundred times as long as reading how much that is, so a process is looked at when it has run and the sizes of its
 * memory are others than at the last look, and, if it has run, anyway after some seconds: memory that was exchanged for
 * as much is found then.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/run-priv.h"

#define AGAIN_NS 8000000000ull /* after that much it is looked at in any case, */
#define SPREAD_NS 100000000ull /* not all of them at once */
#define SPREAD 40

struct run_sight {
	pid_t pid;
	u64 started;          /* another one may have its number now */
	u64 size, text, data; /* pages, as /proc/PID/statm has them */
	u64 ran_ns;           /* processor time: one that has not run has changed nothing */
	u64 rings;            /* that it has inherited; 0: none */
	u64 looked_ns;
};

struct run_seen {
	struct run_sight *v, *old; /* by their numbers; old: as the scan before has left them */
	u32 n, room, nold, old_room;
	struct run_sight now; /* of the one that was asked about last */
};

static bool read_sight(pid_t pid, struct run_sight *s)
{
	unsigned long long size, text, data;
	char path[32], buf[128];
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	if (sscanf(buf, "%llu %*u %*u %llu %*u %llu", &size, &text, &data) != 3)
		return false;
	s->started = dp_process_started(pid);
	s->size = size;
	s->text = text;
	s->data = data;
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct run_sight *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void append(struct run_seen *s, const struct run_sight *sight)
{
	if (s->n == s->room) {
		u32 room = s->room ? 2 * s->room : 256;
		struct run_sight *v = reallocarray(s->v, room, sizeof(*v));

		if (!v)
			return; /* it is looked at again */
		s->v = v;
		s->room = room;
	}
	s->v[s->n++] = *sight;
}

void dp_seen_begin(struct dp_run *run, bool anew)
{
	struct run_seen *s = run->seen ? run->seen : calloc(1, sizeof(*s));
	struct run_sight *v;
	u32 room;

	run->seen = s;
	if (!s)
		return;
	v = s->old;
	room = s->old_room;
	s->old = s->v;
	s->old_room = s->room;
	s->nold = anew ? 0 : s->n;
	s->v = v;
	s->room = room;
	s->n = 0;
}

static bool is_as_before(const struct run_sight *was, const struct run_sight *now)
{
	return was->started == now->started && was->size == now->size && was->text == now->text &&
	       was->data == now->data &&
	       now->looked_ns - was->looked_ns <= AGAIN_NS + (u64)(now->pid % SPREAD) * SPREAD_NS;
}

/* With what was noted before. */
static bool go_on(struct run_seen *s, const struct run_sight *was, u64 *rings)
{
	*rings = was->rings;
	append(s, was);
	s->now.pid = 0;
	return true;
}

bool dp_seen_same(struct dp_run *run, pid_t pid, u64 *rings)
{
	struct run_seen *s = run->seen;
	struct run_sight *was;

	if (!s)
		return false;
	s->now = (struct run_sight){.pid = pid, .ran_ns = dp_process_ran_ns(pid), .looked_ns = dp_now_ns()};
	was = s->nold ? bsearch(&s->now, s->old, s->nold, sizeof(*was), by_pid) : NULL;
	if (was && s->now.ran_ns && was->ran_ns == s->now.ran_ns)
		return go_on(s, was, rings);
	if (!read_sight(pid, &s->now))
		s->now.pid = 0;
	if (!s->now.pid || !was || !is_as_before(was, &s->now))
		return false;
	was->ran_ns = s->now.ran_ns;
	return go_on(s, was, rings);
}

void dp_seen_note(struct dp_run *run, pid_t pid, bool is_target, u64 rings)
{
	struct run_seen *s = run->seen;

	/* Where the main thread has ended, there are no sizes by which the end of the others could be seen. */
	if (!s || s->now.pid != pid || (!s->now.size && is_target))
		return;
	s->now.rings = rings;
	append(s, &s->now);
}

void dp_seen_free(struct dp_run *run)
{
	if (!run->seen)
		return;
	free(run->seen->v);
	free(run->seen->old);
	free(run->seen);
	run->seen = NULL;
}
