/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target whose threads call small functions all of the time and count the calls themselves. For each line on its
 * standard input it answers with how often each was called, when no thread is in a call; `go` lets them go on.
 * Usage: counts THREADS [PLUGIN]. With a plugin there are also forks, signals, short threads, and the plugin is loaded
 * and unloaded; a wrong result or a lost child ends the program.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define FUNCTIONS 4

__attribute__((noinline, noclone)) long steady(long a)
{
	__asm__ volatile("" ::: "memory");
	return a + 1;
}

__attribute__((noinline, noclone)) long left(long a)
{
	__asm__ volatile("" ::: "memory");
	return a * 3;
}

__attribute__((noinline, noclone)) long right(long a)
{
	__asm__ volatile("" ::: "memory");
	return a ^ 7;
}

__attribute__((noinline, noclone)) long several(long a)
{
	for (long i = 0; i < 3; i++)
		__asm__ volatile("add $1, %0\n\tnop\n\tadd $2, %0" : "+r"(a));
	return a;
}

static struct {
	unsigned long calls[FUNCTIONS];
	char pad[32];
} done[MOST];
static volatile int hold, nheld, nthreads;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void wait_here(void)
{
	pthread_mutex_lock(&lock);
	nheld++;
	pthread_cond_broadcast(&changed);
	while (hold)
		pthread_cond_wait(&changed, &lock);
	nheld--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	long me = (long)arg, v = me;

	for (unsigned i = 0;; i++) {
		v = steady(v);
		done[me].calls[0]++;
		v = left(v);
		done[me].calls[1]++;
		v = right(v);
		done[me].calls[2]++;
		v = several(v);
		done[me].calls[3]++;
		if (i % 16 == 0)
			usleep(100);
		if (hold)
			wait_here();
	}
	return NULL;
}

static void set_hold(int on)
{
	pthread_mutex_lock(&lock);
	hold = on;
	pthread_cond_broadcast(&changed);
	while (on ? nheld < nthreads : nheld > 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void show(void)
{
	unsigned long sum[FUNCTIONS] = {0};

	for (int i = 0; i < nthreads; i++)
		for (int k = 0; k < FUNCTIONS; k++)
			sum[k] += done[i].calls[k];
	printf("%lu %lu %lu %lu\n", sum[0], sum[1], sum[2], sum[3]);
	fflush(stdout);
}

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "counts: %s\n", what);
	abort();
}

static void on_alarm(int sig)
{
	check(left(sig) == sig * 3L, "left in a handler");
}

static void *brief(void *arg)
{
	check(right((long)arg) == ((long)arg ^ 7), "right in a short thread");
	return NULL;
}

/* The children call nothing that is counted: their probes count for the parent. */
static void *fork_all_the_time(void *arg)
{
	for (long i = 0;; i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(left(i) == i * 3 && right(i) == (i ^ 7) ? 5 : 6);
		check(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5,
		      "a child");
		usleep(2000);
	}
	return arg;
}

static void *load_all_the_time(void *plugin)
{
	for (long i = 0;; i++) {
		void *library = dlopen(plugin, RTLD_NOW);
		long (*work)(long) = library ? (long (*)(long))dlsym(library, "plugin_work") : NULL;
		pthread_t t;

		check(work && work(3) == 9 && work(4) == 24, "the plugin");
		usleep(20000);
		check(work(3) == 9 && !dlclose(library), "the plugin later");
		check(!pthread_create(&t, NULL, brief, (void *)i) && !pthread_join(t, NULL), "a short thread");
	}
	return NULL;
}

static void start_storm(char *plugin)
{
	const struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, 3000}, {0, 3000}};
	pthread_t t;

	pthread_create(&t, NULL, fork_all_the_time, NULL);
	pthread_create(&t, NULL, load_all_the_time, plugin);
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
	pthread_t t;
	char line[64];

	nthreads = argc > 1 ? atoi(argv[1]) : 4;
	for (long i = 0; i < nthreads; i++)
		pthread_create(&t, NULL, work, (void *)i);
	if (argc > 2)
		start_storm(argv[2]);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "go\n")) {
			set_hold(0);
			printf("ok\n");
			fflush(stdout);
		} else {
			set_hold(1);
			show();
		}
	}
	return 0;
}
