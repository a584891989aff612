/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What arming costs: the time to prepare, arm and remove 1, 100 and 10,000 probes in a program that
 * keeps calling all the probed functions on four threads, the longest stop of a thread, and the memory that
 * the target gets. Prints, never asserts. Usage: bench-arm [-r repetitions] BENCH-MANY
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "host/process/process.h"
#include "log/reader.h"
#include "../tests/lib/add-line.h"

#define MAX_REPETITIONS 64
#define THREADS "4"

static const struct {
	const char *what, *event;
} cases[] = {
    {"1", "p bench-many:f00000 if 0"},
    {"100", "p bench-many:f000* if 0"},
    {"10,000", "p bench-many:f????? if 0"},
    {"10,000 + exits", "p bench-many:f????? if 0\nr bench-many:f????? if 0"},
};

enum figure {
	PREPARE_MS, /* looking at the process, symbols, judging, compiling */
	PLAN_MS,    /* until attached */
	ARM_MS,     /* attached until let go */
	REMOVE_MS,
	STOP_US, /* longest stop of a thread */
	STOPS,
	MAPPED_KB,  /* address space */
	RSS_KB,     /* resident memory of the target, after some hits */
	PRIVATE_KB, /* of it, shared with nobody */
	NFIGURES
};

struct outcome {
	double v[NFIGURES][MAX_REPETITIONS];
	size_t n;
	u32 probes;
	char failed[WHY_SIZE];
};

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static pid_t start(const char *program)
{
	char line[16] = "";
	int out[2];
	pid_t pid;

	if (pipe(out))
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		close(out[0]);
		execl(program, program, THREADS, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	if (read(out[0], line, sizeof(line)) <= 0)
		pid = -1;
	close(out[0]);
	return pid;
}

/* kB from smaps_rollup. */
static void memory(pid_t pid, double *rss, double *private)
{
	char path[64], line[256];
	unsigned long v;
	FILE *f;

	*rss = *private = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Rss: %lu", &v) == 1)
			*rss = (double)v;
		if (sscanf(line, "Private_Dirty: %lu", &v) == 1 || sscanf(line, "Private_Clean: %lu", &v) == 1)
			*private += (double)v;
	}
	if (f)
		fclose(f);
}

static int add(struct dp_session *s, const char *events, struct dp_error *err)
{
	char lines[256], *save, *def;
	int r = 0;

	snprintf(lines, sizeof(lines), "%s", events);
	for (def = strtok_r(lines, "\n", &save); def && !r; def = strtok_r(NULL, "\n", &save))
		r = add_line(s, def, err);
	return r;
}

static void once(pid_t pid, const char *events, struct outcome *o)
{
	double begin = now_ms(), rss0, private0, rss, private;
	struct dp_session *s = NULL;
	struct dp_session_stats st;
	struct dp_error err = {0};
	size_t i = o->n;
	int r;

	memory(pid, &rss0, &private0);
	r = dp_session_new(&s, pid, NULL, &err);
	if (!r)
		r = add(s, events, &err);
	o->v[PREPARE_MS][i] = now_ms() - begin;
	if (!r)
		r = dp_session_arm(s, &err);
	if (!r) {
		usleep(100000); /* each thread comes by everywhere */
		memory(pid, &rss, &private);
		o->v[RSS_KB][i] = rss - rss0;
		o->v[PRIVATE_KB][i] = private - private0;
		o->probes = dp_session_nprobes(s);
		r = dp_session_remove(s, &err);
	}
	if (!r) {
		dp_session_stats(s, &st);
		o->v[PLAN_MS][i] = (double)st.attach_ns / 1e6;
		o->v[ARM_MS][i] = (double)st.arm_ns / 1e6;
		o->v[REMOVE_MS][i] = (double)st.remove_ns / 1e6;
		o->v[STOP_US][i] = (double)st.longest_stop_ns / 1e3;
		o->v[STOPS][i] = (double)st.stops;
		o->v[MAPPED_KB][i] = (double)st.mapped_bytes / 1024;
		o->n++;
	} else {
		snprintf(o->failed, sizeof(o->failed), "%s: %.180s", dp_error_info(err.code)->name, err.detail);
	}
	dp_session_free(s);
}

static double most(const double *v, size_t n)
{
	double m = 0;

	for (size_t i = 0; i < n; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

static void row(const char *what, struct outcome *o)
{
	double worst = most(o->v[STOP_US], o->n), m[NFIGURES];

	if (!o->n) {
		printf("| %-14s | failed: %s\n", what, o->failed);
		return;
	}
	for (int k = 0; k < NFIGURES; k++)
		m[k] = bench_median(o->v[k], o->n);
	printf("| %-14s | %6u | %8.1f | %8.1f | %8.1f | %8.1f | %6.0f | %6.0f | %5.0f | %9.0f | %7.0f | %7.0f |\n",
	       what, o->probes, m[PREPARE_MS], m[PLAN_MS], m[ARM_MS], m[REMOVE_MS], m[STOP_US], worst, m[STOPS],
	       m[MAPPED_KB], m[RSS_KB], m[PRIVATE_KB]);
	if (o->failed[0])
		printf("| %-14s | one or more rounds failed: %s\n", what, o->failed);
}

/* Of a call that does nothing, in us, here and now. */
static double system_call_us(void)
{
	enum { CALLS = 20000 };
	double before = now_ms();

	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return (now_ms() - before) * 1e3 / CALLS;
}

/* Of all probes at once. */
static void expectations(struct outcome *o)
{
	char why[64];

	if (!o->n)
		return;
	snprintf(why, sizeof(why), "a system call takes %.2f us here", system_call_us());
	bench_expected();
	bench_expect("10,000 probes out", bench_median(o->v[REMOVE_MS], o->n), "ms", 50, true, why);
	bench_expect("longest stop of a thread, median", bench_median(o->v[STOP_US], o->n), "us", 100, true, why);
	bench_expect("longest stop of a thread, worst", most(o->v[STOP_US], o->n), "us", 1000, true, why);
}

int main(int argc, char **argv)
{
	static struct outcome results[sizeof(cases) / sizeof(*cases)];
	const size_t n = sizeof(cases) / sizeof(*cases);
	int repetitions = 5, c, status;
	pid_t pid;

	while ((c = getopt(argc, argv, "r:")) != -1)
		if (c == 'r')
			repetitions = atoi(optarg);
	if (optind >= argc || repetitions > MAX_REPETITIONS) {
		fprintf(stderr, "usage: bench-arm [-r repetitions] BENCH-MANY\n");
		return 2;
	}
	pid = start(argv[optind]);
	if (pid < 0) {
		fprintf(stderr, "bench: %s does not start\n", argv[optind]);
		return 1;
	}
	printf("\n## Arming and removing\n\nA program of 10,000 functions that " THREADS
	       " threads keep calling; medians of %d rounds, in turn.\n\n",
	       repetitions);
	fflush(stdout);
	for (int k = 0; k < repetitions; k++)
		for (size_t i = 0; i < n; i++)
			once(pid, cases[i].event, &results[i]);
	printf("| %-14s | %6s | %8s | %8s | %8s | %8s | %6s | %6s | %5s | %9s | %7s | %7s |\n", "probes", "armed",
	       "look ms", "plan ms", "arm ms", "remove", "stop", "worst", "stops", "mapped kB", "rss kB", "private");
	printf("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
	for (size_t i = 0; i < n; i++)
		row(cases[i].what, &results[i]);
	printf(
	    "\n\"look\": process, symbols, judging, compiling; nothing is stopped. \"stop\": longest stop of one "
	    "thread in microseconds, median\nand worst. \"mapped\": address space; \"rss\", \"private\": memory that "
	    "the target got, "
	    "rings and own pages.\n");
	expectations(&results[2]);
	if (waitpid(pid, &status, WNOHANG) == pid)
		printf("\nThe target DIED: status 0x%x\n", status);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
