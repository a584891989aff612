/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls a place again and again, with patterns in registers that must stay, and sleeps between; tells at each line on
 * standard input how often, and whether something was not as it should be.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static volatile int over;
static volatile long total, bad;

__attribute__((noinline, noipa)) void place(long n)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(n));
}

static void call(long n)
{
	static const unsigned long pattern[2] = {0x0123456789abcdef, 0xfedcba9876543210};
	unsigned long after[6];
	long double x;

	__asm__ volatile("movups (%[p]), %%xmm0\n\tmovups (%[p]), %%xmm1\n\tmovups (%[p]), %%xmm15\n\tfldpi\n\t"
			 "call place\n\t"
			 "fstpt %[x]\n\tmovups %%xmm0, (%[q])\n\tmovups %%xmm1, 16(%[q])\n\tmovups %%xmm15, 32(%[q])"
			 : [x] "=m"(x), "+D"(n)
			 : [p] "b"(pattern), [q] "r"(after)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm15", "memory",
			   "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
	for (int i = 0; i < 3; i++)
		if (memcmp(&after[2 * i], pattern, sizeof(pattern)))
			bad |= 1;
	if (x < 3.14159265L || x > 3.14159266L)
		bad |= 2;
}

static void *run(void *arg)
{
	while (!over) {
		errno = 77;
		call(++total % 2 ? 0xff : 0xf);
		if (errno != 77)
			bad |= 4;
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	return arg;
}

int main(void)
{
	char line[64];
	pthread_t t;

	pthread_create(&t, NULL, run, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%ld %ld\n", total, bad);
		fflush(stdout);
	}
	over = 1;
	pthread_join(t, NULL);
	return (int)bad;
}
