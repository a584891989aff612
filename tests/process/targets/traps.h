/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a target does about SIGTRAP: blocked, ignored, handled; any other word: nothing. */
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t traps; /* its own handler got */

static void on_trap(int sig)
{
	(void)sig;
	traps++;
}

static void set_traps(const char *mode)
{
	sigset_t set;

	if (!strcmp(mode, "blocked")) {
		sigemptyset(&set);
		sigaddset(&set, SIGTRAP);
		sigprocmask(SIG_BLOCK, &set, NULL);
	} else if (!strcmp(mode, "ignored")) {
		signal(SIGTRAP, SIG_IGN);
	} else if (!strcmp(mode, "handled")) {
		signal(SIGTRAP, on_trap);
	}
}
