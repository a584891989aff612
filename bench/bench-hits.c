/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a hit costs, ours and everybody's, in one run: the contenders take turns at the same function of
 * the same process, some rounds each, again and again, so that whatever else the machine does
 * meets all of them alike. A rival that is not there is named with the reason.
 *
 * Usage: bench-hits [-r repetitions] [-n rounds] [-c part-of-name] [-p place] [-w work-dir] [-j FILE] TARGET
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

#define MAX_CALLS 10000 /* of one round: their records fit into a 1 MiB ring */
#define ROUND_NS 500000 /* about how long a round shall take: short enough to be seldom preempted */
#define SLOW_NS 5000    /* contenders above this get fewer rounds */
#define TRIAL_CALLS 64
#define WARM_ROUNDS 12   /* rounds that are not counted: the log ring's pages are touched for the first time; */
#define WARM_CALLS 40000 /* so many for those who are not slow, whose records fill 1 MiB then */

static struct {
	unsigned repetitions, rounds;
	const char *only, *place, *work_dir, *json, *program;
} opt = {.repetitions = 5, .rounds = 24, .work_dir = "."};

static struct bench_target target;
static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static int attach_nothing(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p,
			  char *why)
{
	(void)c, (void)t, (void)p, (void)why;
	return 0;
}

static void detach_nothing(struct bench_contender *c)
{
	(void)c;
}

static struct bench_contender unprobed = {
    .name = "(unprobed)", .job = JOB_NONE, .attach = attach_nothing, .detach = detach_nothing};

/* One round; ns per call, or -1 when the target does not answer. */
static double run_round(struct bench_contender *c, const struct bench_place *p, bench_u64 calls)
{
	bench_target_order(&target, OP_CALLS, p->func, calls);
	for (int i = 0; !bench_target_wait(&target, 2); i++) {
		if (i > 15000)
			return -1;
		if (c->drain)
			c->drain(c);
	}
	if (c->drain)
		c->drain(c);
	return (double)target.shm->ns / (double)calls;
}

/* All rounds of one turn. */
static void take_turn(struct bench_contender *c, const struct bench_place *p, struct bench_result *r)
{
	double cold = run_round(c, p, TRIAL_CALLS), trial = cold < 0 ? cold : run_round(c, p, TRIAL_CALLS);
	bench_u64 calls = TRIAL_CALLS, done = 2 * TRIAL_CALLS;
	unsigned rounds = trial > SLOW_NS ? opt.rounds / 2 : opt.rounds, warm = WARM_ROUNDS;

	if (trial > 0)
		calls = (bench_u64)(ROUND_NS / trial);
	calls = calls < TRIAL_CALLS ? TRIAL_CALLS : calls > MAX_CALLS ? MAX_CALLS : calls;
	if (trial <= SLOW_NS && warm * calls < WARM_CALLS)
		warm = (unsigned)(WARM_CALLS / calls);
	for (unsigned i = 0; i < rounds + warm && !stop && trial >= 0; i++) {
		double ns = run_round(c, p, calls);

		done += calls;
		if (ns < 0) {
			snprintf(r->skipped, WHY_SIZE, "the target did not answer");
			break;
		}
		if (i >= warm && r->n < MAX_SAMPLES)
			r->ns[r->n++] = ns;
	}
	r->calls += done * c->hits_per_call;
	r->can_count = c->hits != NULL;
	if (c->hits)
		r->hits += c->hits(c);
	if (c->lost)
		r->lost += c->lost(c);
}

static bool wanted(const struct bench_contender *c, const struct bench_place *p, unsigned repetition)
{
	if (c != &unprobed && opt.only && !strstr(c->name, opt.only))
		return false;
	if (c->max_attach && repetition >= c->max_attach)
		return false;
	return !c->places || c->places & 1u << p->func;
}

static void repeat(const struct bench_place *places, size_t nplaces, struct bench_contender **all, size_t n,
		   struct bench_result *results)
{
	for (unsigned k = 0; k < opt.repetitions; k++)
		for (size_t i = 0; i < nplaces; i++)
			for (size_t j = 0; j < n && !stop; j++) {
				struct bench_result *r = &results[i * n + j];

				if (r->skipped[0] || !wanted(all[j], &places[i], k))
					continue;
				if (all[j]->attach(all[j], &target, &places[i], r->skipped))
					continue;
				take_turn(all[j], &places[i], r);
				all[j]->detach(all[j]);
			}
}

static size_t collect(struct bench_contender **all)
{
	struct {
		struct bench_contender *v;
		size_t n;
	} sets[] = {{bench_dprobes, bench_dprobes_n},
		    {bench_perf, bench_perf_n},
		    {bench_bpf, bench_bpf_n},
		    {bench_tracefs, bench_tracefs_n},
		    {bench_gdb, bench_gdb_n}};
	size_t n = 0;

	all[n++] = &unprobed;
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		for (size_t k = 0; k < sets[i].n; k++)
			all[n++] = &sets[i].v[k];
	return n;
}

static int parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "r:n:c:p:w:j:")) != -1)
		switch (c) {
		case 'r':
			opt.repetitions = (unsigned)atoi(optarg);
			break;
		case 'n':
			opt.rounds = (unsigned)atoi(optarg);
			break;
		case 'c':
			opt.only = optarg;
			break;
		case 'p':
			opt.place = optarg;
			break;
		case 'w':
			opt.work_dir = optarg;
			break;
		case 'j':
			opt.json = optarg;
			break;
		default:
			return -1;
		}
	opt.program = argv[optind];
	return opt.program ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct bench_contender *all[64];
	struct bench_place places[NFUNCS];
	struct bench_result *results;
	size_t n = collect(all), nplaces = 0;
	struct sigaction sa = {.sa_handler = on_signal};
	struct utsname un;

	if (parse(argc, argv)) {
		fprintf(stderr,
			"usage: bench-hits [-r repetitions] [-n rounds] [-c contender] [-p place] [-w dir] [-j FILE] "
			"TARGET\n");
		return 2;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (bench_target_start(&target, opt.program, opt.work_dir))
		return 1;
	for (int f = 0; f < NFUNCS; f++)
		if (!bench_place_find(&places[nplaces], &target, f) &&
		    (!opt.place || strstr(places[nplaces].name, opt.place)))
			nplaces++;
	results = calloc(nplaces * n, sizeof(*results));
	for (size_t i = 0; i < nplaces * n; i++) {
		results[i].c = all[i % n];
		results[i].ns = calloc(MAX_SAMPLES, sizeof(double));
	}
	uname(&un);
	printf("## Cost of a hit\n\nLinux %s, %u repetitions of %u rounds of up to %d calls, in turn; ns per call.\n",
	       un.release, opt.repetitions, opt.rounds, MAX_CALLS);
	fflush(stdout);
	repeat(places, nplaces, all, n, results);
	bench_report(places, nplaces, results, n);
	if (opt.json && bench_report_json(opt.json, places, nplaces, results, n))
		fprintf(stderr, "bench-hits: %s: %s\n", opt.json, strerror(errno));
	bench_tracefs_end();
	bench_target_stop(&target);
	return stop ? 130 : 0;
}
