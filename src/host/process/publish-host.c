/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* struct dp_host for a traced process. */
#include <errno.h>
#include <sys/syscall.h>

#include "host/process/publish-host.h"

#define REGISTER_SYNC_CORE 64
#define SYNC_CORE 32

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct dp_publish_host *ph = arg;

	if (ph->tracer->execed)
		return dp_fail(err, E_ARM_EXEC, "process %d", (int)ph->tracer->pid);
	return dp_mem_write(ph->mem, addr, bytes, n, err);
}

/* Without membarrier: a thread that was stopped and goes on has returned from the kernel, which serialises. */
static int stop_each(struct dp_publish_host *ph)
{
	struct dp_tracer *t = ph->tracer;

	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i].foreign && dp_tracer_stop(t, &t->v[i], 50000000))
			dp_tracer_resume(t, &t->v[i]);
	return 0;
}

static int serialise(void *arg, struct dp_error *err)
{
	struct dp_publish_host *ph = arg;
	struct dp_call calls[2] = {{SYS_membarrier, {REGISTER_SYNC_CORE}, 0}, {SYS_membarrier, {SYNC_CORE}, 0}};
	int r = dp_remote_calls(ph->remote, calls + ph->registered, 2u - ph->registered, err);

	if (r)
		return r;
	if (calls[1].ret < 0)
		return stop_each(ph);
	ph->registered = true;
	return 0;
}

static void breathe(void *arg)
{
	struct dp_publish_host *ph = arg;

	dp_tracer_pump(ph->tracer);
}

void dp_publish_host_init(struct dp_publish_host *ph, struct dp_tracer *t, struct dp_mem *mem, struct dp_remote *r)
{
	ph->host = (struct dp_host){write_code, serialise, breathe, ph};
	ph->tracer = t;
	ph->mem = mem;
	ph->remote = r;
	ph->registered = false;
}
