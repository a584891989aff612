/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The tables: one for each place, then what the project expects of itself. Prints, never judges by exit code. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "log/json.h"

/* What a contender adds to a call. results[0] is the unprobed one. */
static double net(const struct bench_result *results, size_t i)
{
	double v = bench_median(results[i].ns, results[i].n) - bench_median(results[0].ns, results[0].n);

	return v > 0 ? v : 0;
}

/* The cheapest contender of a side that does this job; -1 none. */
static int cheapest(const struct bench_result *results, size_t n, enum bench_job job, bool ours)
{
	int best = -1;

	for (size_t i = 1; i < n; i++)
		if (results[i].c->job == job && results[i].c->ours == ours && !results[i].c->is_step && results[i].n &&
		    (best < 0 || net(results, i) < net(results, (size_t)best)))
			best = (int)i;
	return best;
}

static void format_ns(char *out, size_t size, double v)
{
	if (v < 100)
		snprintf(out, size, "%.1f", v);
	else
		snprintf(out, size, "%.0f", v);
}

static void row(const struct bench_result *results, size_t n, size_t i)
{
	const struct bench_result *r = &results[i];
	char least[32], median[32], added[32], ratio[32] = "", seen[64] = "";
	int mine = cheapest(results, n, r->c->job, true);

	if (!r->n) {
		if (r->skipped[0])
			printf("| %-42s | skipped: %s\n", r->c->name, r->skipped);
		return;
	}
	format_ns(least, sizeof(least), bench_min(r->ns, r->n));
	format_ns(median, sizeof(median), bench_median(r->ns, r->n));
	format_ns(added, sizeof(added), net(results, i));
	if (i == 0)
		added[0] = '\0';
	else if (!r->c->ours && mine >= 0 && net(results, (size_t)mine) > 0)
		snprintf(ratio, sizeof(ratio), "%.1f", net(results, i) / net(results, (size_t)mine));
	if (r->can_count && r->hits != r->calls)
		snprintf(seen, sizeof(seen), "%llu of %llu hits", (unsigned long long)r->hits,
			 (unsigned long long)r->calls);
	else if (r->lost)
		snprintf(seen, sizeof(seen), "%llu of %llu lost", (unsigned long long)r->lost,
			 (unsigned long long)r->calls);
	else if (i)
		snprintf(seen, sizeof(seen), "%s", r->can_count ? "all" : "not counted");
	printf("| %-42s | %8s | %8s | %8s | %6s | %s |\n", r->c->name, least, median, added, ratio, seen);
}

static void table(const struct bench_place *p, const struct bench_result *results, size_t n)
{
	printf("\n### First instruction: %s\n\n", p->name);
	printf("| %-42s | %8s | %8s | %8s | %6s | %s |\n", "contender", "min ns", "median", "added", "ratio", "hits");
	printf("|%.44s|---------:|---------:|---------:|-------:|---|\n",
	       "---------------------------------------------------");
	for (int job = 0; job < NJOBS; job++)
		for (size_t i = 0; i < n; i++)
			if ((int)results[i].c->job == job)
				row(results, n, i);
}

/* Of a time stamp, in ns, here and now: the least of some turns. */
static double stamp_ns(void)
{
	enum { STAMPS = 10000, TURNS = 20 };
	double least = 0;

	for (int turn = 0; turn < TURNS; turn++) {
		struct timespec from, to;
		double ns;

		clock_gettime(CLOCK_MONOTONIC, &from);
		for (int i = 0; i < STAMPS; i++)
			__asm__ volatile("rdtsc" ::: "rax", "rdx");
		clock_gettime(CLOCK_MONOTONIC, &to);
		ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / STAMPS;
		least = turn && least < ns ? least : ns;
	}
	return least;
}

/* stamps: how many time stamps are in it. */
static void expect_ns(const struct bench_place *p, const struct bench_result *results, size_t n, enum bench_job job,
		      const char *name, double limit, int stamps)
{
	int mine = cheapest(results, n, job, true);
	char what[160], why[160];

	snprintf(what, sizeof(what), "%s, %s", name, p->name);
	snprintf(why, sizeof(why), "%.1f ns are time stamps", stamps ? stamps * stamp_ns() : 0);
	if (mine >= 0)
		bench_expect(what, net(results, (size_t)mine), "ns", limit, true, stamps ? why : NULL);
	else
		printf("| %-66s | not measured |  | |\n", what);
}

static void expect_ratio(const struct bench_place *p, const struct bench_result *results, size_t n, double limit)
{
	int mine = cheapest(results, n, JOB_RECORD, true), rival = cheapest(results, n, JOB_RECORD, false);
	char what[160];

	if (mine < 0 || rival < 0) {
		printf("| record against the cheapest kernel uprobe, %-23s | not measured |  | |\n", p->name);
		return;
	}
	snprintf(what, sizeof(what), "record against \"%s\", %s", results[rival].c->name, p->name);
	bench_expect(what, net(results, (size_t)rival) / net(results, (size_t)mine), "times", limit, false, NULL);
}

/* Of a contender, less the unprobed call; negative: it was not measured. */
static double net_of(const struct bench_result *results, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(results[i].c->name, name) && results[i].n)
			return net(results, i);
	return -1;
}

static void expect_words(const struct bench_place *p, const struct bench_result *results, size_t n)
{
	double pointer = net_of(results, n, BENCH_POINTER), word = net_of(results, n, BENCH_WORD),
	       words = net_of(results, n, BENCH_WORDS);
	char what[160];

	if (pointer < 0 || word < 0 || words < 0)
		return;
	snprintf(what, sizeof(what), "the first word behind a pointer, %s", p->name);
	bench_expect(what, word - pointer, "ns", 5, true, NULL);
	snprintf(what, sizeof(what), "each further one, %s", p->name);
	bench_expect(what, (words - word) / 3, "ns", 5, true, NULL);
}

static void expect_string(const struct bench_place *p, const struct bench_result *results, size_t n)
{
	double pointer = net_of(results, n, BENCH_POINTER), string = net_of(results, n, BENCH_STRING);
	char what[160];

	if (pointer < 0 || string < 0)
		return;
	snprintf(what, sizeof(what), "a string on the heap instead of its pointer, %s", p->name);
	bench_expect(what, string - pointer, "ns", 40, true, NULL);
}

void bench_report(const struct bench_place *places, size_t nplaces, struct bench_result *results, size_t ncontenders)
{
	for (size_t i = 0; i < nplaces; i++)
		table(&places[i], results + i * ncontenders, ncontenders);
	printf("\n\"added\": median less the median of the unprobed call. \"ratio\": added, divided by that of ours "
	       "for the same job.\n");
	bench_expected();
	for (size_t i = 0; i < nplaces; i++) {
		const struct bench_result *r = results + i * ncontenders;

		expect_ns(&places[i], r, ncontenders, JOB_HIT, "empty hit", 10, 0);
		expect_ns(&places[i], r, ncontenders, JOB_RECORD, "4-argument record with time stamp", 30, 1);
		expect_ns(&places[i], r, ncontenders, JOB_PAIR, "entry and exit, both records", 24, 2);
		expect_ratio(&places[i], r, ncontenders, places[i].func == FUNC_PUSH ? 25 : 10);
		expect_words(&places[i], r, ncontenders);
		expect_string(&places[i], r, ncontenders);
	}
}

static void put_ns(struct dp_json *j, const char *key, double v)
{
	char text[32];

	dp_json_key(j, key);
	dp_json_digits(j, text, (size_t)snprintf(text, sizeof(text), "%.3f", v));
}

static void put_result(struct dp_json *j, const struct bench_place *p, struct bench_result *results, size_t i)
{
	const struct bench_result *r = &results[i];

	dp_json_open(j, '{');
	dp_json_put_string(j, "place", p->name);
	dp_json_put_string(j, "contender", r->c->name);
	dp_json_put_unsigned(j, "job", r->c->job);
	dp_json_put_bool(j, "ours", r->c->ours);
	if (r->n) {
		put_ns(j, "least", bench_min(r->ns, r->n));
		put_ns(j, "median", bench_median(r->ns, r->n));
		put_ns(j, "added", net(results, i));
	}
	dp_json_put_string(j, "skipped", r->skipped);
	dp_json_close(j, '}');
}

int bench_report_json(const char *path, const struct bench_place *places, size_t nplaces, struct bench_result *results,
		      size_t ncontenders)
{
	struct dp_line line = {.n = 0};
	struct dp_json j = {.line = &line, .one_a_line = true};
	FILE *f = fopen(path, "w");
	bool good;

	if (!f)
		return -1;
	dp_json_open(&j, '[');
	for (size_t i = 0; i < nplaces; i++)
		for (size_t k = 0; k < ncontenders; k++)
			if (results[i * ncontenders + k].n || results[i * ncontenders + k].skipped[0])
				put_result(&j, &places[i], results + i * ncontenders, k);
	dp_json_close(&j, ']');
	dp_json_end(&j);
	good = fwrite(line.text, 1, line.n, f) == line.n;
	dp_line_free(&line);
	return fclose(f) || !good ? -1 : 0;
}
