/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target with a function that is called all of the time, or hardly, and two that are called now and then. It counts
 * the calls itself. Lines on its standard input: `hot` and `cool` change that; `stop` halts it and is answered with the
 * numbers of calls; `go` lets it go on.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALLS 20000 /* for each call of the others */

__attribute__((noinline, noclone)) long busy(long a)
{
	__asm__ volatile("" ::: "memory");
	return a + 1;
}

__attribute__((noinline, noclone)) long calm(long a)
{
	__asm__ volatile("" ::: "memory");
	return a * 3;
}

__attribute__((noinline, noclone)) long quiet(long a)
{
	__asm__ volatile("" ::: "memory");
	return a ^ 7;
}

static unsigned long calls[3];
static volatile int is_hot, hold, held;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void wait_here(void)
{
	pthread_mutex_lock(&lock);
	held = 1;
	pthread_cond_broadcast(&changed);
	while (hold)
		pthread_cond_wait(&changed, &lock);
	held = 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	long v = 1;

	for (;;) {
		for (int i = 0; i < (is_hot ? CALLS : 1); i++) {
			v = busy(v);
			calls[0]++;
		}
		v = calm(v);
		calls[1]++;
		v = quiet(v);
		calls[2]++;
		if (!is_hot)
			usleep(200);
		if (hold)
			wait_here();
	}
	return arg;
}

static void set_hold(int on)
{
	pthread_mutex_lock(&lock);
	hold = on;
	pthread_cond_broadcast(&changed);
	while (held != on)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	char line[64];
	pthread_t t;

	pthread_create(&t, NULL, work, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "stop\n")) {
			set_hold(1);
			printf("%lu %lu %lu\n", calls[0], calls[1], calls[2]);
		} else {
			if (!strcmp(line, "go\n"))
				set_hold(0);
			else
				is_hot = !strcmp(line, "hot\n");
			printf("ok\n");
		}
		fflush(stdout);
	}
	return 0;
}
