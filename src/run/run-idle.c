/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-idle.h. A host that has words, and rings into which nobody writes. */
#include <stdlib.h>
#include <time.h>

#include "abi/abi-record.h"
#include "run/run-idle.h"
#include "symbols/symbols.h"

#define RING_BYTES DP_RECORD_MAX /* as few as rings can have */

struct idle {
	pid_t pid;
	u64 started; /* so that another process with its id is not taken for it */
	u64 *words;
	struct dp_ring_map rings;
};

static void idle_free(void *session)
{
	struct idle *s = session;

	free(s->rings.at);
	free(s->words);
	free(s);
}

static int set_words(void *session, const u64 *values, u32 n, struct dp_error *err)
{
	struct idle *s = session;

	s->words = calloc(n + 1ull, sizeof(*s->words));
	if (!s->words)
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)s->pid);
	for (u32 i = 0; i < n; i++)
		s->words[i] = values[i];
	return 0;
}

static int arm(void *session, struct dp_error *err)
{
	(void)session;
	(void)err;
	return 0;
}

static volatile u64 *words(void *session)
{
	return ((struct idle *)session)->words;
}

static const struct dp_ring_map *rings(void *session)
{
	return &((struct idle *)session)->rings;
}

static bool alive(void *session)
{
	struct idle *s = session;

	return dp_process_started(s->pid) == s->started;
}

static void tend(void *session)
{
	(void)session;
}

static void rest(void *session, u64 ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	(void)session;
	nanosleep(&t, NULL);
}

static u32 nprobes(void *session)
{
	(void)session;
	return 0;
}

static int build_id(void *session, enum dp_module_kind kind, const char *module, char *id, size_t size,
		    struct dp_error *err)
{
	(void)session;
	(void)kind;
	(void)module;
	(void)id;
	(void)size;
	(void)err;
	return 1;
}

static bool symbolize(void *session, void **names, u64 addr, char *buf, size_t size)
{
	(void)session;
	(void)names;
	(void)addr;
	(void)buf;
	(void)size;
	return false;
}

static pid_t pid(void *session)
{
	return ((struct idle *)session)->pid;
}

/* What nobody asks of a session without probes (add(), probe(), symbol(), base()) is left out. */
static const struct dp_host_ops idle_ops = {.name = "idle",
					    .set_words = set_words,
					    .arm = arm,
					    .words = words,
					    .rings = rings,
					    .alive = alive,
					    .tend = tend,
					    .rest = rest,
					    .remove = arm,
					    .nprobes = nprobes,
					    .free = idle_free,
					    .build_id = build_id,
					    .symbolize = symbolize,
					    .pid = pid};

int dp_idle_open(struct dp_tracee *t, pid_t of, struct dp_error *err)
{
	struct idle *s = calloc(1, sizeof(*s));

	*t = (struct dp_tracee){.ops = &idle_ops};
	if (!s)
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)of);
	s->pid = of;
	s->started = dp_process_started(of);
	s->rings.size = dp_rings_size(1, 1, 1, RING_BYTES);
	s->rings.at = calloc(1, s->rings.size);
	if (!s->rings.at || !dp_ring_map_lay_out(&s->rings, 1, 1, 1, RING_BYTES)) {
		idle_free(s);
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)of);
	}
	dp_rings_init(s->rings.at, 1, 1, 1, RING_BYTES);
	t->session = s;
	return 0;
}
