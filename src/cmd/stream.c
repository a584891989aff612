/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The loop of a trace: drain, format, flush, sleep. Never blocks for long, so that an end is
 * noticed at once; sleeps the longer the less there is to do, and not at all when the rings fill
 * up.
 */
#include <time.h>

#include "cmd/stream.h"

#define MS 1000000u
#define SLEEP_BUSY (2 * MS)
#define SLEEP_USUAL (20 * MS)
#define SLEEP_IDLE (50 * MS)
#define TEND_NS 1000000000u

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static void show(const struct dp_record *rec, u64 ns, void *arg)
{
	struct stream *s = arg;

	s->shown++;
	/* Once writing has failed the rest is only counted. */
	if (ferror(s->out->f))
		return;
	dp_formatter_record(s->formatter, rec, ns);
	if (s->more)
		s->more(rec, s->more_arg);
	dp_output_line_done(s->out);
}

static int drain(struct stream *s, bool final, struct dp_error *err, int *n)
{
	*n = dp_reader_drain(s->reader, final, show, s);
	return *n ? dp_output_flush(s->out, err) : 0;
}

static u64 next_sleep(const struct stream *s, u64 last, int shown)
{
	unsigned pressure = dp_reader_pressure(s->reader);

	if (pressure > 40)
		return 0;
	if (pressure > 10)
		return SLEEP_BUSY;
	if (shown)
		return SLEEP_USUAL;
	return DP_MIN(last + last / 4 + MS, (u64)SLEEP_IDLE);
}

int dp_stream_run(struct stream *s, struct dp_error *err)
{
	u64 start = now_ns(), now = start, tended = start, sleep = SLEEP_BUSY;
	u64 end = s->seconds > 0 ? start + (u64)(s->seconds * 1e9) : ~(u64)0;
	int n, r = 0;

	while (!*s->stop && now < end) {
		bool alive = dp_tracee_alive(s->tracee); /* before the drain: its last records count */

		r = drain(s, false, err, &n);
		if (r || !alive)
			break;
		now = now_ns();
		dp_tracee_tend_pages(s->tracee);
		if (now - tended > TEND_NS) {
			dp_tracee_tend(s->tracee);
			tended = now;
		}
		sleep = next_sleep(s, sleep, n);
		if (sleep && now < end)
			dp_tracee_rest(s->tracee, DP_MIN(sleep, end - now));
		now = now_ns();
	}
	s->lasted = (double)(now_ns() - start) / 1e9;
	return r;
}

int dp_stream_finish(struct stream *s, struct dp_error *err)
{
	int n;

	return drain(s, true, err, &n);
}
