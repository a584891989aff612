/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Arm and remove probes in one process many times, in one process of ours. Usage: rounds PID ROUNDS EVENT... */
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

static int fail(const char *what, int round, const struct dp_error *err)
{
	printf("round %d: %s: %s: %s\n", round, what, dp_error_info(err->code)->name, err->detail);
	return 1;
}

int main(int argc, char **argv)
{
	struct dp_session_options opt = {.note = note, .ring_size = 1 << 20};
	struct dp_session_stats st, worst = {0};
	unsigned long hits = 0;

	for (int i = 0; argc > 3 && i < atoi(argv[2]); i++) {
		struct dp_session *s;
		struct dp_error err = {0};
		const struct dp_ring_map *rings;

		if (dp_session_new(&s, atoi(argv[1]), &opt, &err))
			return fail("new", i, &err);
		for (int k = 3; k < argc; k++)
			if (add_line(s, argv[k], &err))
				return fail(argv[k], i, &err);
		if (dp_session_arm(s, &err))
			return fail("arm", i, &err);
		if (i % 8 == 0)
			usleep(3000);
		if (dp_session_remove(s, &err))
			return fail("remove", i, &err);
		rings = dp_session_rings(s);
		for (unsigned c = 0; c < rings->g.nrings; c++)
			hits += dp_ring_of(rings, c)->head;
		dp_session_stats(s, &st);
		worst.longest_stop_ns = DP_MAX(worst.longest_stop_ns, st.longest_stop_ns);
		worst.arm_ns += st.arm_ns;
		worst.remove_ns += st.remove_ns;
		worst.stops += st.stops;
		worst.moved += st.moved;
		worst.rescued += st.rescued;
		worst.kept_bytes += st.kept_bytes;
		dp_session_free(s);
	}
	printf("logged %lu KiB; mean arm %.2f ms, remove %.2f ms; longest stop of a thread %.3f ms; stops %lu, moved %lu, "
	       "rescued %lu, kept %lu bytes\n",
	       hits / 1024, (double)worst.arm_ns / atoi(argv[2]) / 1e6, (double)worst.remove_ns / atoi(argv[2]) / 1e6,
	       (double)worst.longest_stop_ns / 1e6, (unsigned long)worst.stops, (unsigned long)worst.moved,
	       (unsigned long)worst.rescued, (unsigned long)worst.kept_bytes);
	return worst.kept_bytes != 0 || hits == 0;
}
