/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Refuses the calls that are made inside a process, one after the other: the first one in the first round, the second in the
 * second. Usage: refuse PID ERRNO EVENT...
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/process/session-priv.h"
#include "../lib/add-line.h"

static unsigned made, refused_one, number;

static int refuse(const struct dp_call *c)
{
	(void)c;
	return ++made == refused_one ? (int)number : 0;
}

static void quiet(void *arg, const char *text)
{
	(void)arg;
	(void)text;
}

/* 0: the round is over, 1: nothing was refused any more, 2: bad. */
static int round_of(int pid, char **events, int n, unsigned which)
{
	struct dp_session_options opt = {.note = quiet, .ring_size = 1 << 20};
	struct dp_session *s;
	struct dp_error err = {0};
	int r;

	made = 0;
	refused_one = which;
	if (dp_session_new(&s, pid, &opt, &err))
		goto bad;
	for (int k = 0; k < n; k++)
		if (add_line(s, events[k], &err))
			goto bad;
	dp_remote_refuse = refuse;
	r = dp_arm(s, &err); /* not tried again */
	dp_remote_refuse = NULL;
	printf("call %u: %s%s%s\n", which, r ? dp_error_info(err.code)->name : "armed", r ? ": " : "", r ? err.detail : "");
	if (!r && dp_session_remove(s, &err))
		goto bad;
	dp_session_free(s);
	return made < which;
bad:
	printf("call %u: %s: %s\n", which, dp_error_info(err.code)->name, err.detail);
	return 2;
}

int main(int argc, char **argv)
{
	int r = 0;

	if (argc < 4)
		return 2;
	number = (unsigned)atoi(argv[2]);
	for (unsigned which = 1; !r && which < 100; which++)
		r = round_of(atoi(argv[1]), argv + 3, argc - 3, which);
	return r != 1;
}
