/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Variables to be watched, and threads that write them when they are told to. Usage: watched [MODE], MODE one of plain,
 * blocked, ignored, handled: what the program does about SIGTRAP. Each line on standard input is a command; the answer is "ok".
 *	inc N		counter += 1, N times, in this thread
 *	threads T N	T new threads, each N times
 *	pool N		the two threads that were there from the start, each N times
 *	read N		looks at counter, N times
 *	call N		calls touch(), N times
 *	spin, rest	the two threads work until then, and take back what they added
 *	busy		this thread works until the next command comes, and takes back what it added
 *	change N D	change() on a part, N times, D calls deep, and writes to it behind each
 *	changers T N	T new threads, each N times on a part of its own
 *	rep		store_then_repeat(), repeat_over()
 *	parts		writes every other variable
 *	fork N, vfork N	the same as inc in a child
 *	end		prints what it counted itself
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traps.h"

struct part {
	int id;
	short level;
	signed char sign;
	struct part *next;
	long pair[2];
};

volatile long counter;
volatile long neighbour;
volatile int signed_one = -5;
volatile unsigned char bytes[16];
static struct part first = {1, 2, -3, NULL, {10, 20}}, second = {2, 3, -4, &first, {30, 40}};
struct part *volatile list = &second;
static volatile int hidden;

static pthread_t pool[2];
static sem_t go[2], done;
static long pool_times;
static volatile sig_atomic_t spinning;

__attribute__((noinline)) void increment(void)
{
	__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
	neighbour++;
}

__attribute__((noinline)) void touch(long n)
{
	__asm__ volatile("" ::"r"(n) : "memory");
}

/* Two writes to what p points to, and two more in each of the calls inside. */
__attribute__((noinline)) long change(struct part *p, long depth)
{
	long r = 1;

	p->pair[0]++;
	touch(depth);
	if (depth > 1)
		r += change(p, depth - 1);
	p->pair[0]++;
	return r;
}

static void *changes(void *arg)
{
	struct part mine = {0};

	for (long n = (long)arg; n > 0; n--) {
		change(&mine, 1);
		mine.pair[0] = 0;
	}
	return NULL;
}

/* A store to counter before an instruction that repeats elsewhere, and one that repeats over bytes. */
void store_then_repeat(void *p);
void repeat_over(volatile void *p);
__asm__(".text\n"
	".globl store_then_repeat; .type store_then_repeat, @function\n"
	"store_then_repeat: mov $200, %ecx; movq $77, counter(%rip); rep stosb; ret\n"
	".size store_then_repeat, . - store_then_repeat\n"
	".globl repeat_over; .type repeat_over, @function\n"
	"repeat_over: mov $200, %ecx; mov $3, %eax; rep stosb; ret\n"
	".size repeat_over, . - repeat_over\n");
static char area[256], elsewhere[256];

static void *work(void *arg)
{
	for (long n = (long)arg; n > 0; n--)
		increment();
	return NULL;
}

static void *wait_and_work(void *arg)
{
	for (;;) {
		sem_wait(&go[(long)arg]);
		work((void *)pool_times);
		long spun = 0;
		for (; spinning; spun++)
			increment();
		if (spun)
			__atomic_fetch_sub(&counter, spun, __ATOMIC_RELAXED);
		sem_post(&done);
	}
	return NULL;
}

static void work_until_told(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	long spun = 0;

	while (!poll(&in, 1, 0))
		for (int i = 0; i < 100000; i++, spun++)
			increment();
	__atomic_fetch_sub(&counter, spun, __ATOMIC_RELAXED);
}

static void threads(long t, void *(*what)(void *), long n)
{
	pthread_t v[64];

	for (long i = 0; i < t && i < 64; i++)
		pthread_create(&v[i], NULL, what, (void *)n);
	for (long i = 0; i < t && i < 64; i++)
		pthread_join(v[i], NULL);
}

static void parts(void)
{
	signed_one -= 1;
	bytes[5]++;
	second.id++;
	second.level--;
	second.sign--;
	first.pair[1] += 7;
	hidden = 99;
}

static void child(long n, pid_t pid)
{
	int status = 0;

	if (!pid) {
		work((void *)n);
		_exit(7);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		printf("child ended with %#x ", status);
}

int main(int argc, char **argv)
{
	char line[128], word[32];
	volatile long sum = 0;
	long a, b;

	set_traps(argc > 1 ? argv[1] : "plain");
	setvbuf(stdout, NULL, _IONBF, 0);
	sem_init(&done, 0, 0);
	for (long i = 0; i < 2; i++) {
		sem_init(&go[i], 0, 0);
		pthread_create(&pool[i], NULL, wait_and_work, (void *)i);
	}
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		a = b = 0;
		if (sscanf(line, "%31s %ld %ld", word, &a, &b) < 1)
			continue;
		if (!strcmp(word, "inc")) {
			work((void *)a);
		} else if (!strcmp(word, "threads")) {
			threads(a, work, b);
		} else if (!strcmp(word, "pool")) {
			pool_times = a;
			for (int i = 0; i < 2; i++)
				sem_post(&go[i]);
			for (int i = 0; i < 2; i++)
				sem_wait(&done);
		} else if (!strcmp(word, "spin")) {
			pool_times = 0;
			spinning = 1;
			for (int i = 0; i < 2; i++)
				sem_post(&go[i]);
		} else if (!strcmp(word, "rest")) {
			spinning = 0;
			for (int i = 0; i < 2; i++)
				sem_wait(&done);
		} else if (!strcmp(word, "busy")) {
			work_until_told();
		} else if (!strcmp(word, "read")) {
			while (a-- > 0)
				sum += counter;
		} else if (!strcmp(word, "call")) {
			while (a-- > 0)
				touch(a);
		} else if (!strcmp(word, "change")) {
			for (; a > 0; a--) {
				change(&first, b);
				first.pair[0] = 10;
			}
		} else if (!strcmp(word, "changers")) {
			threads(a, changes, b);
		} else if (!strcmp(word, "rep")) {
			store_then_repeat(elsewhere + 32);
			repeat_over(area);
		} else if (!strcmp(word, "parts")) {
			parts();
		} else if (!strcmp(word, "fork")) {
			child(a, fork());
		} else if (!strcmp(word, "vfork")) {
			child(a, vfork());
		} else if (!strcmp(word, "raise")) {
			raise(SIGTRAP);
		} else if (!strcmp(word, "unblock")) {
			sigset_t set;

			sigfillset(&set);
			sigprocmask(SIG_UNBLOCK, &set, NULL);
		} else if (!strcmp(word, "exec")) {
			execl("/bin/cat", "cat", (char *)NULL);
		} else if (!strcmp(word, "end")) {
			break;
		}
		printf("ok\n");
	}
	printf("counter %ld traps %d\n", counter, (int)traps);
	return 0;
}
