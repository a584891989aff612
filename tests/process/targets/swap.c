/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program that loads and unloads two libraries, which take each other's place in memory. The first one is probed;
 * a byte in the second one's code that is not its file's ends it with status 1. Usage: swap PLUGIN OTHER
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE 3072 /* bytes of it in the second one */

static volatile sig_atomic_t stop;
static volatile long forks, work;
static unsigned char other_code[CODE]; /* as its file has it */

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "swap: %s\n", what);
	_exit(1);
}

static void *get(void *library, const char *name)
{
	void *p = library ? dlsym(library, name) : NULL;

	if (!p)
		fail(dlerror());
	return p;
}

static void look_at_code(const unsigned char *code)
{
	char text[100];

	for (int i = 0; i < CODE; i++)
		if (code[i] != other_code[i]) {
			snprintf(text, sizeof(text), "byte %d of the other library is %02x, not %02x", i, code[i],
				 other_code[i]);
			fail(text);
		}
}

static void *worker(void *arg)
{
	(void)arg;
	while (!stop)
		work++;
	return NULL;
}

static void *forker(void *arg)
{
	(void)arg;
	while (!stop) {
		int status;
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		while (pid > 0 && waitpid(pid, &status, 0) < 0)
			;
		if (pid > 0 && status)
			fail("a child did not end as it should");
		forks++;
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long swaps = 0, same = 0;
	pthread_t t[2];

	if (argc < 3)
		return 2;
	signal(SIGTERM, on_term);
	for (; !stop; swaps++) {
		void *first = dlopen(argv[1], RTLD_NOW), *second;
		long (*fn)(long);
		void (*run)(void);

		*(void **)&fn = get(first, "plugin_work");
		for (long i = 0; i < 20000; i++)
			if (fn(i) != (i & 15) * ((i & 15) - 1) / 2 * i)
				fail("a wrong result");
		dlclose(first);
		second = dlopen(argv[2], RTLD_NOW);
		*(void **)&run = get(second, "other_code");
		same += ((unsigned long)fn ^ (unsigned long)run) < CODE;
		if (!swaps) {
			memcpy(other_code, (void *)run, CODE);
			if (pthread_create(&t[0], NULL, worker, NULL) || pthread_create(&t[1], NULL, forker, NULL))
				fail("no thread");
			printf("ready %d\n", (int)getpid());
			fflush(stdout);
		}
		look_at_code((const unsigned char *)run);
		run();
		look_at_code((const unsigned char *)run);
		dlclose(second);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("swaps %ld, %ld to the same place, forks %ld\n", swaps, same, forks);
	return 0;
}
