/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A restless target: threads that compute and check, threads that come and go, forks, signals, dlopen
 * and dlclose. Any wrong result or lost child ends it with status 1. Usage: churn PLUGIN [THREADS]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static volatile long alarms, rounds, forks, loads, births;
static const char *plugin;

static void fail(const char *what)
{
	fprintf(stderr, "churn: %s\n", what);
	abort(); /* a core tells more than a status */
}

__attribute__((noinline)) unsigned long mix(unsigned long a, unsigned long b)
{
	a ^= b << 7;
	a *= 0x9e3779b97f4a7c15ul;
	return a ^ a >> 29;
}

__attribute__((noinline)) unsigned long hash_text(const char *s, size_t n)
{
	unsigned long h = 14695981039346656037ul;

	for (size_t i = 0; i < n; i++)
		h = mix(h, (unsigned char)s[i]);
	return h;
}

__attribute__((noinline)) int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

__attribute__((noinline)) void compute(unsigned seed)
{
	long v[64];
	char text[100];
	unsigned long first, again;
	char *p;

	for (int i = 0; i < 64; i++)
		v[i] = (long)mix(seed, (unsigned long)i);
	qsort(v, 64, sizeof(*v), compare);
	for (int i = 1; i < 64; i++)
		if (v[i - 1] > v[i])
			fail("sort");
	snprintf(text, sizeof(text), "%u:%s", seed, "some text to hash");
	first = hash_text(text, strlen(text));
	p = malloc(strlen(text) + 1 + seed % 2000);
	strcpy(p, text);
	again = hash_text(p, strlen(p));
	if (first != again)
		fail("hash");
	free(p);
}

__attribute__((noinline)) void on_alarm(int sig)
{
	(void)sig;
	mix((unsigned long)alarms, 3);
	alarms++;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void *worker(void *arg)
{
	unsigned seed = (unsigned)(long)arg * 7919;

	while (!stop) {
		for (int i = 0; i < 50; i++)
			compute(seed++);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *brief(void *arg)
{
	compute((unsigned)(long)arg);
	__atomic_fetch_add(&births, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *forker(void *arg)
{
	(void)arg;
	while (!stop) {
		int status;
		pthread_t t;
		pid_t pid = fork();

		if (pid == 0) {
			for (unsigned i = 0; i < 20; i++)
				compute(i);
			_exit(7);
		}
		if (pid < 0)
			fail("fork");
		while (waitpid(pid, &status, 0) < 0)
			;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
			fprintf(stderr, "churn: child status %x\n", status);
			_exit(1);
		}
		__atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED);
		if (pthread_create(&t, NULL, brief, (void *)forks) == 0)
			pthread_join(t, NULL);
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	return NULL;
}

static void *loader(void *arg)
{
	(void)arg;
	while (!stop) {
		long (*fn)(long);
		void *h = dlopen(plugin, RTLD_NOW);

		if (!h)
			fail(dlerror());
		*(void **)&fn = dlsym(h, "plugin_work");
		for (long i = 0; i < 100; i++)
			if (fn(i) < 0)
				fail("plugin");
		dlclose(h);
		__atomic_fetch_add(&loads, 1, __ATOMIC_RELAXED);
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 6;
	struct itimerval it = {{0, 3000}, {0, 3000}};
	pthread_t t[64];

	plugin = argv[1];
	signal(SIGTERM, on_term);
	signal(SIGALRM, on_alarm);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, worker, (void *)(long)(i + 1));
	pthread_create(&t[n], NULL, forker, NULL);
	pthread_create(&t[n + 1], NULL, loader, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (int i = 0; i < n + 2; i++)
		pthread_join(t[i], NULL);
	printf("rounds %ld forks %ld loads %ld births %ld alarms %ld\n", rounds, forks, loads, births, alarms);
	return rounds == 0;
}
