/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Instances of return probes wander between threads: a thread keeps those that it gave back, and
 * yet no call goes unprobed while any thread keeps one. And the shorter way into a function that
 * has return probes alone changes no register and no flag.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

#define THREADS 6
#define PROBES 40 /* more than a thread keeps apart */

PROBED long add(long a, long b)
{
	return a + b;
}

static int hits;

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

/* Threads take turns: only one calls at any time, so one instance is enough for all. */
static pthread_barrier_t turn;
static long wrong;

static void *caller(void *arg)
{
	long me = (long)arg;

	for (long round = 0; round < 10; round++)
		for (long i = 0; i < THREADS; i++) {
			if (i == me)
				wrong += add(me, round) != me + round;
			pthread_barrier_wait(&turn);
		}
	return NULL;
}

static void test_turns(void)
{
	struct kretprobe rp = {.kp.symbol_name = "add", .handler = on_return, .maxactive = 1};
	pthread_t t[THREADS];
	int r = register_kretprobe(&rp);

	pthread_barrier_init(&turn, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, caller, (void *)i);
	for (long i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ok(!r && !wrong && hits == THREADS * 10 && !rp.nmissed,
	   "one instance serves %d threads that take turns: %d hits, %d missed", THREADS, hits, rp.nmissed);
	hits = 0;
	add(1, 2);
	ok(hits == 1 && !rp.nmissed, "and is found when the threads that kept it have ended");
	unregister_kretprobe(&rp);
}

/* Calls of all threads at once: hits and misses are all calls, and never more at once than allowed.
 */
static int active, most;

static int enters(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int n = __atomic_add_fetch(&active, 1, __ATOMIC_RELAXED), m = most;

	while (n > m && !__atomic_compare_exchange_n(&most, &m, n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return 0;
}

static int leaves(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__atomic_fetch_sub(&active, 1, __ATOMIC_RELAXED);
	return on_return(ri, regs);
}

static void *hammer(void *arg)
{
	for (long i = 0; i < 20000; i++)
		add(i, 1);
	return NULL;
}

static void test_all_at_once(void)
{
	struct kretprobe rp = {.kp.symbol_name = "add", .handler = leaves, .entry_handler = enters, .maxactive = 2};
	pthread_t t[THREADS];
	int r = register_kretprobe(&rp);

	hits = 0;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, hammer, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ok(!r && hits + rp.nmissed == THREADS * 20000 && most <= 2 && !active,
	   "two instances, %d threads: hits and misses are all calls (%d missed), %d at once", THREADS, rp.nmissed,
	   most);
	unregister_kretprobe(&rp);
}

static void test_many(void)
{
	static struct kretprobe rps[PROBES];
	struct kretprobe *v[PROBES];
	long good = 0;
	int r;

	for (int i = 0; i < PROBES; i++) {
		rps[i] = (struct kretprobe){.kp.symbol_name = "add", .handler = on_return, .maxactive = 1};
		v[i] = &rps[i];
	}
	r = register_kretprobes(v, PROBES);
	hits = 0;
	for (int i = 0; i < 100; i++)
		good += add(i, i) == 2 * i;
	ok(!r && good == 100 && hits == 100 * PROBES, "%d return probes on one function: every one sees every call",
	   PROBES);
	for (int again = 0; again < 3 && !r; again++) {
		unregister_kretprobes(v, PROBES);
		r = register_kretprobes(v, PROBES);
	}
	hits = 0;
	add(1, 1);
	ok(!r && hits == PROBES, "registered anew, with instances that threads had kept");
	unregister_kretprobes(v, PROBES);
}

/* The child of a fork inside a probed call has that call under way, whatever its thread's number.
 */
PROBED long nested(long n)
{
	long r = n ? nested(n - 1) : 0;

	__asm__ volatile("" : "+r"(r)); /* a call, not a loop */
	return r + n;
}

static pid_t child;

PROBED long forks(long n)
{
	child = fork();
	return nested(n) + n;
}

static void test_fork(void)
{
	struct kretprobe outer = {.kp.symbol_name = "forks", .handler = on_return, .maxactive = 1};
	struct kretprobe inner = {.kp.symbol_name = "nested", .handler = on_return, .maxactive = 3};
	struct kretprobe *v[] = {&outer, &inner};
	int r = register_kretprobes(v, 2), status = -1, good;

	hits = 0;
	/* Many misses: the library looks again and again for calls that will never return. */
	good = forks(300) == 300 + 300 * 301 / 2 && hits == 4;
	for (int i = 0; i < 200; i++)
		good &= nested(4) == 10;
	good &= hits == 4 + 3 * 200 && inner.nmissed == 301 - 3 + 2 * 200;
	if (!child)
		_exit(!good);
	waitpid(child, &status, 0);
	ok(!r && good && !status, "a fork inside a probed call: both processes return (%d, %d)", hits, status);
	unregister_kretprobes(v, 2);
}

/* The same function, called again and again before the fork's child comes back into it. */
PROBED long deep(long n, int forks)
{
	long r = n ? deep(n - 1, forks) : 0;

	if (!n && forks) {
		child = fork();
		for (int i = 0; i < 200; i++)
			r += deep(3, 0) == 4;
		r -= 200;
	}
	__asm__ volatile("" : "+r"(r));
	return r + 1;
}

static void test_fork_deep(void)
{
	struct kretprobe rp = {.kp.symbol_name = "deep", .handler = on_return, .maxactive = 4};
	int r = register_kretprobe(&rp), status = -1, good;

	hits = 0;
	good = deep(7, 1) == 8 && hits == 4 && rp.nmissed == 4 + 4 * 200;
	good &= deep(3, 0) == 4 && hits == 8;
	if (!child)
		_exit(!good);
	waitpid(child, &status, 0);
	ok(!r && good && !status, "calls under way at a fork are not taken for left ones (%d, %d)", hits, status);
	unregister_kretprobe(&rp);
}

/*
 * All general registers and the flags as the function's first instruction finds them, and as its
 * caller does after the return. The function stores what it got; rsp is checked by returning.
 */
__asm__(".text\n.p2align 4\n"
	".type spy, @function\n"
	"spy: mov %rax, spied(%rip)\n"
	"mov %rbx, spied+8(%rip)\n mov %rcx, spied+16(%rip)\n mov %rdx, spied+24(%rip)\n"
	"mov %rsi, spied+32(%rip)\n mov %rdi, spied+40(%rip)\n mov %rbp, spied+48(%rip)\n"
	"mov %r8, spied+56(%rip)\n mov %r9, spied+64(%rip)\n mov %r10, spied+72(%rip)\n"
	"mov %r11, spied+80(%rip)\n mov %r12, spied+88(%rip)\n mov %r13, spied+96(%rip)\n"
	"mov %r14, spied+104(%rip)\n mov %r15, spied+112(%rip)\n"
	"pushfq\n popq spied+120(%rip)\n"
	"ret\n"
	".size spy, . - spy\n"
	/* call_spy(flags): numbers into all registers, and what comes back into `back` */
	".globl call_spy\n.type call_spy, @function\n"
	"call_spy: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"sub $8, %rsp\n push %rdi\n"
	"mov $1001, %eax\n mov $1002, %ebx\n mov $1003, %ecx\n mov $1004, %edx\n"
	"mov $1005, %esi\n mov $1006, %edi\n mov $1007, %ebp\n mov $1008, %r8d\n"
	"mov $1009, %r9d\n mov $1010, %r10d\n mov $1011, %r11d\n mov $1012, %r12d\n"
	"mov $1013, %r13d\n mov $1014, %r14d\n mov $1015, %r15d\n"
	"popfq\n call spy\n"
	"mov %rax, back(%rip)\n"
	"mov %rbx, back+8(%rip)\n mov %rcx, back+16(%rip)\n mov %rdx, back+24(%rip)\n"
	"mov %rsi, back+32(%rip)\n mov %rdi, back+40(%rip)\n mov %rbp, back+48(%rip)\n"
	"mov %r8, back+56(%rip)\n mov %r9, back+64(%rip)\n mov %r10, back+72(%rip)\n"
	"mov %r11, back+80(%rip)\n mov %r12, back+88(%rip)\n mov %r13, back+96(%rip)\n"
	"mov %r14, back+104(%rip)\n mov %r15, back+112(%rip)\n"
	"pushfq\n popq back+120(%rip)\n cld\n"
	"add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
	".size call_spy, . - call_spy\n");
void call_spy(unsigned long flags);
__attribute__((used)) static unsigned long spied[16], back[16];

static int registers_kept(unsigned long flags)
{
	int good = 1;

	memset(spied, 0, sizeof(spied));
	memset(back, 0, sizeof(back));
	call_spy(flags);
	for (unsigned long i = 0; i < 15; i++)
		good &= spied[i] == 1001 + i && back[i] == 1001 + i;
	return good && (spied[15] & 0xcd5) == (flags & 0xcd5) && (back[15] & 0xcd5) == (flags & 0xcd5);
}

static int uses_vectors(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0" ::: "xmm0");
	return on_return(ri, regs);
}

static void test_registers(void)
{
	static const unsigned long flags[] = {0x202, 0x203, 0xa47, 0x8d7 | 0x200, 0x602, 0xe43};
	struct kretprobe rp = {.kp.symbol_name = "spy", .handler = on_return};
	int good[2] = {1, 1};

	for (int how = 0; how < 2; how++) {
		rp.handler = how ? uses_vectors : on_return;
		if (register_kretprobe(&rp)) {
			ok(0, "%s", dp_kprobe_error());
			return;
		}
		hits = 0;
		for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
			good[how] &= registers_kept(flags[i]) && hits == (int)i + 1;
		unregister_kretprobe(&rp);
	}
	ok(good[0], "entry and return keep every register and every flag");
	ok(good[1], "with a handler that uses vector registers, too");
}

int main(void)
{
	test_turns();
	test_all_at_once();
	test_many();
	test_fork();
	test_fork_deep();
	test_registers();
	return tap_done();
}
