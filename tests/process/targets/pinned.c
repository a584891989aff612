/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target that knows where it runs: on each processor that it may run on it calls work() with that processor's number. Usage: pinned
 * CALLS [vfork]; with vfork a child on the next processor does so, too, with 1000 added, while its parent's thread area names
 * another one. Prints how many calls there were in all.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) long work(long cpu)
{
	__asm__ volatile("" ::: "memory");
	return cpu;
}

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* A child that borrows our memory and thread area, on another processor. */
static void in_child(int cpu, long calls)
{
	pid_t pid = vfork();

	if (!pid) {
		pin(cpu);
		for (long i = 0; i < calls; i++)
			work(1000 + cpu);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 10, done = 0, children = 0;
	int with = argc > 2 && !strcmp(argv[2], "vfork"), cpus = 0, last = -1;
	cpu_set_t all;

	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || pin(cpu))
			continue;
		cpus++;
		for (long i = 0; i < calls; i++, done++)
			work(cpu);
		if (with && last >= 0) {
			in_child(last, calls);
			children += calls;
		}
		last = cpu;
	}
	printf("calls %ld children %ld processors %d\n", done, children, cpus);
	return 0;
}
