/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Starts a program, takes a long time, and only then arms a probe in it; prints how many records there were when it has ended.
 * Usage: late SECONDS EVENT PROGRAM...
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/process/process.h"
#include "../lib/add-line.h"

static void note(void *arg, const char *text)
{
	(void)arg;
	printf("note: %s\n", text);
}

static int fail(const char *what, const struct dp_error *err)
{
	printf("%s: %s: %s\n", what, dp_error_info(err->code)->name, err->detail);
	return 1;
}

int main(int argc, char **argv)
{
	struct dp_session_options opt = {.note = note, .ring_size = 1 << 20};
	struct dp_error err = {0};
	struct dp_session *s;
	const struct dp_ring_map *rings;
	unsigned long hits = 0;

	if (argc < 4 || dp_session_spawn(&s, argv + 3, &opt, &err) || add_line(s, argv[2], &err))
		return fail("begin", &err);
	sleep((unsigned)atoi(argv[1]));
	if (dp_session_arm(s, &err))
		return fail("arm", &err);
	while (dp_session_alive(s))
		usleep(10000);
	rings = dp_session_rings(s);
	for (unsigned i = 0; i < rings->g.nrings; i++)
		hits += dp_ring_counts(rings, i)->v[DP_COUNT_RECORDED];
	printf("recorded %lu\n", hits);
	dp_session_free(s);
	return 0;
}
