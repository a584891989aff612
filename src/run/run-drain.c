/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-drain.h. Never waits itself: who calls has more to wait for. */
#include "host/process/process.h"
#include "run/run-drain.h"

#define MS 1000000u
#define REST_BUSY (2 * MS)
#define REST_USUAL (20 * MS)
#define REST_IDLE (50 * MS)
#define REST_OF_EACH (1 * MS) /* where many sessions have nothing to tell, each is read less often: */
#define REST_MOST (2000 * MS) /* at least so often */
#define TEND_NS 1000000000u
#define OFTEN 4096 /* after so many records */

static u64 next_rest(const struct dp_reader *reader, u64 last, int read, u32 sessions)
{
	unsigned pressure = dp_reader_pressure(reader);

	if (pressure > 40 || dp_reader_has_more(reader))
		return 0;
	if (pressure > 10)
		return REST_BUSY;
	if (read)
		return REST_USUAL;
	return DP_MIN(last + last / 4 + MS,
		      DP_MIN(DP_MAX((u64)REST_IDLE, (u64)sessions * REST_OF_EACH), (u64)REST_MOST));
}

/* What looks often does so after n more records. */
static void look_often(const struct dp_drain *d, u32 *since, u32 n)
{
	*since += n;
	if (*since < OFTEN || !d->often)
		return;
	d->often(d->often_arg);
	*since = 0;
}

struct passing {
	const struct dp_drain *drain;
	void (*fn)(const struct dp_record *rec, u64 ns, void *arg);
	void *arg;
	u32 n;
};

static void pass_on(const struct dp_record *rec, u64 ns, void *arg)
{
	struct passing *p = arg;

	p->fn(rec, ns, p->arg);
	look_often(p->drain, &p->n, 1);
}

/* Behind a look at the rings that has found n records. */
static void end_turn(struct dp_drain *d, struct dp_tracee *session, const struct dp_reader *reader, int n)
{
	u64 now = dp_now_ns();

	dp_tracee_tend_soon(session);
	if (!d->tended_ns) /* there is nothing to tend yet */
		d->tended_ns = now;
	if (now - d->tended_ns > TEND_NS) {
		dp_tracee_tend(session);
		d->tended_ns = now;
	}
	d->rest_ns = next_rest(reader, d->rest_ns, n, d->sessions);
	d->due_ns = now + d->rest_ns;
}

int dp_drain_turn(struct dp_drain *d, struct dp_tracee *session, struct dp_reader *reader,
		  void (*fn)(const struct dp_record *rec, u64 ns, void *arg), void *arg)
{
	struct passing p = {.drain = d, .fn = fn, .arg = arg};
	int n = d->often ? dp_reader_drain(reader, false, pass_on, &p) : dp_reader_drain(reader, false, fn, arg);

	end_turn(d, session, reader, n);
	return n;
}

struct passing_parts {
	const struct dp_drain *drain;
	void (*fn)(struct dp_reader_part *part, void *arg);
	void *arg;
	u32 n; /* records since the last look */
};

static void pass_part_on(struct dp_reader_part *part, void *arg)
{
	struct passing_parts *p = arg;

	p->fn(part, p->arg);
	look_often(p->drain, &p->n, part->n);
}

void dp_drain_parts(struct dp_drain *d, struct dp_tracee *session, struct dp_reader *reader,
		    void (*fn)(struct dp_reader_part *part, void *arg), void *arg)
{
	struct passing_parts p = {.drain = d, .fn = fn, .arg = arg};

	end_turn(d, session, reader, dp_reader_take(reader, false, pass_part_on, &p));
}
