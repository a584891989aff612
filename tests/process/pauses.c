/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Take probes out of a process and bring them back, again and again, while others stay. Usage: pauses PID ROUNDS EVENT...
 * The first event stays. It says "armed"; for a line it does the rounds and says how many changes failed; for the next
 * one it says how often each event was hit; then it removes the probes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../lib/add-line.h"
#include "host/process/process.h"
#include "log/reader.h"

static u64 seed = 7;

static u32 pick(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed % n);
}

/* Each group but the first probe's is in or out. */
static void choose(struct dp_session *s, u32 *group, bool all_in)
{
	u32 n = dp_session_nprobes(s);
	bool out[64];

	for (u32 i = 0; i < n; i++) {
		u32 first = dp_groups_first(group, i);

		if (first == i)
			out[i] = !all_in && first != dp_groups_first(group, 0) && pick(2);
		dp_session_mark_out(s, i, out[first]);
	}
}

static int storm(struct dp_session *s, u32 rounds)
{
	struct dp_error err = {0};
	int failed = 0;
	u32 group[64];

	if (dp_session_nprobes(s) > 64 || !dp_session_groups(s, group))
		return -1;
	for (u32 i = 0; i < rounds; i++) {
		choose(s, group, i + 1 == rounds);
		if (dp_session_take_out(s, &err)) {
			failed++;
			fprintf(stderr, "%s: %s\n", dp_error_info(err.code)->name, err.detail);
		}
		usleep(pick(2000));
	}
	return failed;
}

static void show(struct dp_session *s)
{
	struct dp_reader *reader = NULL;
	struct dp_counts c;

	if (dp_reader_open(&reader, dp_session_rings(s), NULL))
		return;
	for (u32 i = 0; i < dp_session_nprobes(s); i++) {
		dp_reader_counts(reader, i, &c);
		printf("%llu ", (unsigned long long)(c.v[DP_COUNT_RECORDED] + c.v[DP_COUNT_LOST] +
						     c.v[DP_COUNT_MISSED] + c.v[DP_COUNT_FILTERED]));
	}
	printf("\n");
	dp_reader_close(reader);
}

int main(int argc, char **argv)
{
	struct dp_session_options opt = {.ring_size = 1 << 16};
	struct dp_session *s = NULL;
	struct dp_error err = {0};
	char line[16];
	int r = argc > 3 ? dp_session_new(&s, atoi(argv[1]), &opt, &err) : -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 3; i < argc && !r; i++)
		r = add_line(s, argv[i], &err);
	if (!r)
		r = dp_session_arm(s, &err);
	if (r) {
		printf("%s: %s\n", dp_error_info(err.code)->name, err.detail);
		return 1;
	}
	printf("armed\n");
	for (bool first = true; fgets(line, sizeof(line), stdin); first = false)
		if (first)
			printf("%d failed\n", storm(s, (u32)atoi(argv[2])));
		else
			show(s);
	r = dp_session_remove(s, &err);
	dp_session_free(s);
	return r != 0;
}
