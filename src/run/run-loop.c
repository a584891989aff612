/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a run does again and again, and its begin and end. */
#include <poll.h>
#include <stdlib.h>

#include "run/run-priv.h"

#define SCAN_NS 200000000ull
#define TEND_NS 1000000000ull

struct driver *dp_run_new(ssize_t (*write)(void *arg, const void *text, size_t n), void *arg)
{
	struct driver *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->watch_wake = -1;
	d->write = write;
	d->write_arg = arg;
	return d;
}

int dp_run_request(struct driver *d, const struct dp_driver_request *rq, const char *name, const void *object,
		   FILE *out, struct dp_error *err)
{
	switch (rq->op) {
	case DP_DRIVER_INSERT:
		return dp_drv_insert(d, rq, object, out, err);
	case DP_DRIVER_REMOVE:
		return dp_drv_remove(d, rq, name, out, err);
	case DP_DRIVER_QUERY:
		return dp_drv_query(d, rq, name, out, err);
	case DP_DRIVER_VARS:
		return dp_drv_vars(d, rq, name, out, err);
	default:
		return dp_fail(err, E_DRV_TALK, "request %u", rq->op);
	}
}

static void drain_all(struct driver *d)
{
	u64 now = dp_now_ns();

	for (struct drv_target *t = d->targets; t; t = t->next) {
		if (!t->session)
			continue;
		dp_drv_drain(d, t, false);
		if (now - t->tended_ns > TEND_NS) {
			dp_tracee_tend(t->session);
			t->tended_ns = now;
		}
	}
	dp_drv_log_commit(d);
}

bool dp_run_turn(struct driver *d, int fd)
{
	struct pollfd p[2] = {{fd, POLLIN, 0}, {d->watch_wake, POLLIN, 0}};

	if (poll(p, 2, d->targets ? 20 : 200) < 0)
		p[0].revents = 0;
	dp_drv_catch(d);
	drain_all(d);
	if (d->modules && dp_now_ns() - d->scanned_ns > SCAN_NS)
		dp_drv_scan(d, false);
	return p[0].revents & POLLIN;
}

void dp_run_end(struct driver *d)
{
	while (d->modules)
		dp_drv_drop(d, d->modules);
	while (d->targets)
		dp_drv_target_end(d, d->targets);
	dp_drv_log_commit(d);
}

void dp_run_free(struct driver *d)
{
	if (!d)
		return;
	dp_run_end(d);
	dp_drv_close_globals(d);
	dp_line_free(&d->line);
	free(d->out);
	free(d->unwritten);
	free(d);
}
