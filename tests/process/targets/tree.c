/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of all kinds: recursion, longjmp(), a signal handler on its own stack, coroutines, threads. Built twice: the
 * second time with -finstrument-functions, when each function tells of its entry and return, with the address of its
 * frame and the number of the stack that the program knows it is on. Usage: tree [FILE for that]
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FN __attribute__((noinline, noclone))

static __thread int stack_number;
static FILE *told;

void __cyg_profile_func_enter(void *fn, void *from);
void __cyg_profile_func_exit(void *fn, void *from);
static QUIET void tell(char what, void *fn, void *frame)
{
	if (told)
		fprintf(told, "%c %ld %p %d %p\n", what, (long)syscall(SYS_gettid), fn, stack_number, frame);
}

QUIET void __cyg_profile_func_enter(void *fn, void *from)
{
	tell('>', fn, __builtin_frame_address(0));
}

QUIET void __cyg_profile_func_exit(void *fn, void *from)
{
	tell('<', fn, __builtin_frame_address(0));
}

static volatile long sink;
static volatile int always = 1; /* which the compiler does not know */
static jmp_buf back;
static ucontext_t home, one, two;

FN long leaf(long n)
{
	sink += n;
	return n * 2;
}

FN long deeper(long n)
{
	long r = n ? deeper(n - 1) + 1 : leaf(n);

	sink += r;
	return r;
}

FN long thrower(long n)
{
	sink += n;
	if (n == 0 && always)
		longjmp(back, 1);
	n = n ? thrower(n - 1) : 0;
	sink += n;
	return n;
}

FN long catcher(long n)
{
	long r;

	if (!setjmp(back))
		r = thrower(n);
	else
		r = leaf(n);
	sink += r;
	return r;
}

FN void handler(int sig)
{
	int was = stack_number;

	stack_number = 9;
	sink += leaf(sig);
	stack_number = was;
}

FN void signalled(void)
{
	raise(SIGUSR1);
	sink++;
}

FN long step(long n)
{
	sink += leaf(n);
	return n;
}

FN long across(long n)
{
	ucontext_t *me = n ? &one : &two, *other = n ? &two : &one;
	long r = step(n);

	stack_number = n ? 2 : 1;
	swapcontext(me, other);
	stack_number = n ? 1 : 2;
	sink += step(r);
	return r;
}

FN void first(void)
{
	sink += across(1);
	stack_number = 2;
	swapcontext(&one, &two);
}

FN void second(void)
{
	sink += across(0);
	stack_number = 0;
	swapcontext(&two, &home);
}

FN void coroutines(void)
{
	static char stacks[2][128 << 10];

	getcontext(&one);
	one.uc_stack.ss_sp = stacks[0];
	one.uc_stack.ss_size = sizeof(stacks[0]);
	makecontext(&one, first, 0);
	getcontext(&two);
	two.uc_stack.ss_sp = stacks[1];
	two.uc_stack.ss_size = sizeof(stacks[1]);
	makecontext(&two, second, 0);
	stack_number = 1;
	swapcontext(&home, &one);
	sink++;
}

FN long round_of(long n)
{
	long r = deeper(n % 7);

	r += catcher(n % 5);
	signalled();
	r += leaf(n);
	sink += r;
	return r;
}

FN void *worker(void *arg)
{
	long r = 0;

	for (long i = 0; i < 50; i++)
		r += deeper(i % 9) + leaf(i);
	sink += r;
	return (void *)r;
}

FN long all(void)
{
	pthread_t t[3];
	long r = 0;

	for (int i = 0; i < 20; i++)
		r += round_of(i);
	coroutines();
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	sink += r;
	return r;
}

QUIET int main(int argc, char **argv)
{
	static char own[64 << 10];
	stack_t st = {.ss_sp = own, .ss_size = sizeof(own)};
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

	if (argc > 1)
		told = fopen(argv[1], "w");
	sigaltstack(&st, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	printf("%ld\n", all());
	if (told)
		fclose(told);
	return 0;
}
