/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target whose function is given pointers to memory of all kinds:
 *	calls N		so many calls, each with other values
 *	static N	the same with a structure in the program's zeroed data
 *	thread N	the same as "calls" by a second thread
 *	other N		the same on a stack that is no thread's, with a pointer to memory behind it that is not there
 *	words		the first three words of the structure
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define WORDS 16
#define STACK 16384

static long zeroed[65536], *item, calls;
static char *page, *stack;
static sem_t begin, end;
static ucontext_t back, other;

__attribute__((noinline, noclone)) void look(const long *words, const char *last, const long *above, long n)
{
	__asm__ volatile("nopl 0(%%rax, %%rax)" : : "r"(words), "r"(last), "r"(above), "r"(n) : "memory");
}

static void call(long *words, const long *behind)
{
	long above[512] = {0};

	for (long n = 1; n <= calls; n++) {
		for (int i = 0; i < WORDS; i++)
			words[i] = n * 100 + i;
		above[511] = n;
		look(words, page + 4096, behind ? behind : above + 511, n);
	}
}

/*
 * Random words of the C library stand in a thread's control block; these here could be taken for a stack's begin and
 * length. The thread never comes back to a function that began before.
 */
static void *second(void *arg)
{
	__asm__ volatile("movabs $0xf000000000005000, %%rax; mov %%rax, %%fs:0x28; mov $-1, %%rax; mov %%rax, %%fs:0x30"
			 :
			 :
			 : "rax", "memory");
	while (!sem_wait(&begin)) {
		call(item, NULL);
		sem_post(&end);
	}
	return arg;
}

static void on_other_stack(void)
{
	call(item, (const long *)(stack + STACK));
}

static void run(const char *how)
{
	if (!strcmp(how, "thread")) {
		sem_post(&begin);
		sem_wait(&end);
	} else if (!strcmp(how, "other")) {
		getcontext(&other);
		other.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK};
		other.uc_link = &back;
		makecontext(&other, on_other_stack, 0);
		swapcontext(&back, &other);
	} else {
		call(strcmp(how, "static") ? item : zeroed + 32768, NULL);
	}
}

static char *memory_before_nothing(size_t size)
{
	char *p = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + size, 4096);
	return p;
}

int main(void)
{
	char line[64], how[16];
	pthread_t t;

	item = aligned_alloc(64, WORDS * sizeof(long));
	page = memory_before_nothing(4096);
	memcpy(page + 4096 - 6, "at end", 6);
	stack = memory_before_nothing(STACK);
	memset(item, 0, WORDS * sizeof(long));
	sem_init(&begin, 0, 0);
	sem_init(&end, 0, 0);
	pthread_create(&t, NULL, second, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %ld", how, &calls) != 2) {
			printf("%ld %ld %ld\n", item[0], item[1], item[2]);
			continue;
		}
		run(how);
		printf("done\n");
	}
	exit(0);
}
