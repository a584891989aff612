/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target with a signal story of its own. Usage: signals MODE, MODE one of plain, blocked, ignored,
 * handled, own-trap, late (its own SIGTRAP handler comes with SIGUSR1), longjmp, altstack. Prints its counts at
 * SIGTERM.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "traps.h"

static volatile sig_atomic_t stop, go_late;
static volatile long ticks, jumps;
static sigjmp_buf out;
static int jump_mode;

int tiny(int a); /* tiny.S: too short for a jump */
int tiny_next(int a);

__attribute__((noinline)) long step(long a)
{
	__asm__ volatile("" ::: "memory");
	return a + 1;
}

__attribute__((noinline)) void on_tick(int sig)
{
	(void)sig;
	ticks = step(ticks);
	/* Not every time: a hit that is left in this way costs its slot. */
	if (jump_mode && ticks % 128 == 0) {
		jumps++;
		siglongjmp(out, 1);
	}
}

static void on_usr1(int sig)
{
	(void)sig;
	go_late = 1;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	struct itimerval it = {{0, 1000}, {0, 1000}};
	struct sigaction sa = {.sa_handler = on_tick};
	static char stack[65536];
	volatile long calls = 0, wrong = 0;
	volatile int own;

	signal(SIGTERM, on_term);
	signal(SIGUSR1, on_usr1);
	set_traps(strcmp(mode, "own-trap") ? mode : "handled");
	if (!strcmp(mode, "altstack")) {
		stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};

		sigaltstack(&ss, NULL);
		sa.sa_flags = SA_ONSTACK;
	}
	own = !strcmp(mode, "own-trap");
	jump_mode = !strcmp(mode, "longjmp");
	sigaction(SIGALRM, &sa, NULL);
	if (strcmp(mode, "blocked") && strcmp(mode, "ignored"))
		setitimer(ITIMER_REAL, &it, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	sigsetjmp(out, 1);
	while (!stop) {
		for (int i = 0; i < 500; i++)
			calls = step(calls);
		if (tiny(7) != 7 || tiny_next(7) != 8)
			wrong++;
		if (own)
			__asm__ volatile("int3");
		if (!own && go_late && !strcmp(mode, "late")) {
			signal(SIGTRAP, on_trap);
			own = 1;
		}
		if (!jump_mode)
			nanosleep(&(struct timespec){0, 300000}, NULL);
	}
	printf("calls %ld traps %ld ticks %ld jumps %ld wrong %ld\n", calls, (long)traps, ticks, jumps, wrong);
	return wrong != 0;
}
