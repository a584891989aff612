/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What bench-watch.py watches: writes to one variable or to its neighbour, timed by the program itself. Commands on
 * standard input: "hit N", "miss N" (answer: nanoseconds), "count" and "signal" (a bare performance event of its own,
 * without and with a signal), "off", "leave" (calls leave(), where a debugger waits).
 */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

volatile long watched __attribute__((aligned(16)));
volatile long beside;
static volatile long handled;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	handled++;
}

static long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

__attribute__((noinline)) static long hit(long n)
{
	long begin = now();

	while (n-- > 0)
		watched++;
	return now() - begin;
}

__attribute__((noinline)) static long miss(long n)
{
	long begin = now();

	while (n-- > 0)
		beside++;
	return now() - begin;
}

__attribute__((noinline)) void leave(void)
{
	__asm__ volatile("" ::: "memory");
}

static int watch(int with_signal)
{
	struct perf_event_attr a = {.type = PERF_TYPE_BREAKPOINT,
				    .size = sizeof(a),
				    .sample_period = 1,
				    .bp_addr = (unsigned long)&watched,
				    .bp_len = 8,
				    .bp_type = HW_BREAKPOINT_W,
				    .exclude_kernel = 1,
				    .exclude_hv = 1,
				    .sigtrap = (unsigned)with_signal,
				    .remove_on_exec = (unsigned)with_signal};
	struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	if (with_signal)
		sigaction(SIGTRAP, &sa, NULL);
	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

int main(void)
{
	char line[64], word[16];
	long n, fd = -1;

	setvbuf(stdout, NULL, _IONBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		if (sscanf(line, "%15s %ld", word, &n) < 1)
			continue;
		if (!strcmp(word, "hit")) {
			n = hit(n);
		} else if (!strcmp(word, "miss")) {
			n = miss(n);
		} else if (!strcmp(word, "count") || !strcmp(word, "signal")) {
			n = fd = watch(word[0] == 's');
		} else if (!strcmp(word, "off")) {
			close((int)fd);
			signal(SIGTRAP, SIG_DFL);
		} else if (!strcmp(word, "leave")) {
			leave();
		}
		printf("%ld\n", n);
	}
	return 0;
}
