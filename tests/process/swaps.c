/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Arm and remove probes of a library that the process unloads again and again. Usage: swaps PID SECONDS EVENT...
 * Status 0: some rounds found the probes in place, and each other one was ended by what such a program may cause.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../lib/add-line.h"
#include "host/process/process.h"

static bool may_be(enum dp_code code)
{
	return code == E_ARM_MOVED || code == E_MOD_NONE || code == E_SYM_NONE || code == E_TARGET_MEM;
}

static u32 seen[DP_NCODES];

/* Returns whether the library was there; -1: something else is wrong. */
static int one_round(pid_t pid, char **events, u32 wait_us)
{
	struct dp_session_options opt = {.ring_size = 1 << 16};
	struct dp_error err = {0};
	struct dp_session *s;
	int r = dp_session_new(&s, pid, &opt, &err);

	if (!r) {
		for (int i = 0; events[i] && !r; i++)
			r = add_line(s, events[i], &err);
		if (!r)
			r = dp_session_arm(s, &err);
		if (!r) {
			usleep(wait_us);
			if (dp_session_remove(s, &err) || err.code)
				r = -1;
		}
		dp_session_free(s);
	}
	seen[err.code]++;
	if (!r || may_be(err.code))
		return !r;
	printf("%s: %s\n", dp_error_info(err.code)->name, err.detail);
	return -1;
}

int main(int argc, char **argv)
{
	u64 end = argc > 3 ? dp_now_ns() + (u64)(atof(argv[2]) * 1e9) : 0;
	u32 rounds = 0, armed = 0;

	while (dp_now_ns() < end) {
		int r = one_round(atoi(argv[1]), argv + 3, rounds * 37 % 3000);

		if (r < 0)
			return 1;
		rounds++;
		armed += (u32)r;
	}
	printf("%u rounds, %u of them with probes in place, %u ended since the library was unmapped\n", rounds, armed,
	       seen[E_ARM_MOVED]);
	return armed ? 0 : 1;
}
