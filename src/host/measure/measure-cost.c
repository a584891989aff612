/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How long this machine takes for what hits are made of. */
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "host/measure/measure.h"

#define ROUNDS 5 /* the shortest one counts: it was not interrupted */

typedef void (*step_fn)(void);

static volatile u64 sink, stamp;
static volatile long watched;

/* What a hit does beside, some eight nanoseconds in which each step waits for the one before. */
static void work(void)
{
	u64 x = sink;

	for (u32 i = 0; i < 16; i++)
		x ^= x >> 1;
	sink = x;
}

static void work_and_stamp(void)
{
	stamp = dp_rdtsc();
	work();
}

static void call(void)
{
	syscall(SYS_getppid);
}

static void read_words(void)
{
	u64 from[4] = {0}, to[4];
	struct iovec local = {to, sizeof(to)}, remote = {from, sizeof(from)};

	process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

static void send_signal(void)
{
	raise(SIGURG);
}

static void write_watched(void)
{
	watched = 1;
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double shortest(step_fn step, u32 times)
{
	double best = 0;

	for (u32 i = 0; i < ROUNDS; i++) {
		double begin = now_ns(), took;

		for (u32 k = 0; k < times; k++)
			step();
		took = (now_ns() - begin) / times;
		if (!i || took < best)
			best = took;
	}
	return best;
}

static double once(double *known, step_fn step, u32 times)
{
	if (*known == 0)
		*known = shortest(step, times);
	return *known;
}

double dp_measure_stamp_ns(void)
{
	static double known;

	if (known == 0)
		known = DP_MAX(shortest(work_and_stamp, 1000) - shortest(work, 1000), 0.1);
	return known;
}

double dp_measure_call_ns(void)
{
	static double known;

	return once(&known, call, 100);
}

double dp_measure_read_ns(void)
{
	static double known;

	return once(&known, read_words, 100);
}

static void ignore(int sig)
{
	(void)sig;
}

double dp_measure_signal_ns(void)
{
	static double known;
	struct sigaction mine = {.sa_handler = ignore, .sa_flags = SA_RESTART}, before;

	if (known == 0 && !sigaction(SIGURG, &mine, &before)) {
		known = shortest(send_signal, 50);
		sigaction(SIGURG, &before, NULL);
	}
	return known;
}

double dp_measure_watch_ns(void)
{
	static double known;
	struct perf_event_attr a = {0};
	int fd;

	if (known == 0) {
		fd = dp_measure_watch_open(&a, DP_WATCH_W, (u64)&watched, sizeof(watched), 0);
		if (fd < 0)
			return 0;
		known = shortest(write_watched, 20);
		close(fd);
	}
	return known;
}
