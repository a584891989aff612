/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What "Features and Limitations" of kprobes.txt says about hits: no lock, no allocation and no
 * system call is made at one; handlers may take their time; copies of inlined functions are not
 * probed.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

PROBED long add(long a, long b)
{
	return a + b;
}

static int hits, posts, returns;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts++;
}

static int on_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	*(long *)ri->data = (long)regs->di;
	return 0;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returns += *(long *)ri->data == 1;
	return 0;
}

static long jadd(long a, long b)
{
	jprobe_return();
	return 0;
}

/* ---- nothing is called at a hit ---- */

static struct kprobe kp = {.symbol_name = "add", .pre_handler = pre};
static struct kretprobe rp = {
    .kp.symbol_name = "add", .handler = on_return, .entry_handler = on_entry, .data_size = sizeof(long)};

static int calls(int n)
{
	long sum = 0;

	for (int i = 0; i < n; i++)
		sum += add(1, i);
	return sum == n + (long)n * (n - 1) / 2;
}

static void test_no_calls(void)
{
	static const char *const names[] = {
	    "malloc", "calloc", "realloc", "free", "mmap", "munmap", "pthread_mutex_lock", "syscall"};
	static struct kprobe inner[8];
	static char text[8][40];
	struct jprobe jp = {.kp.symbol_name = "add", .entry = jadd};
	unsigned long missed = 0;
	int r = register_kprobe(&kp) | register_kretprobe(&rp);

	calls(2); /* the thread has its record */
	for (int i = 0; i < 8; i++) {
		snprintf(text[i], sizeof(text[i]), "libc:%s", names[i]);
		inner[i] = (struct kprobe){.symbol_name = text[i], .pre_handler = pre};
		r |= register_kprobe(&inner[i]);
	}
	for (int how = 0; how < 3; how++) { /* jump, breakpoint, with a jprobe */
		dp_kprobes_optimization(how == 0);
		if (how == 2)
			r |= register_jprobe(&jp);
		hits = returns = 0;
		r |= !calls(100) || hits != 100 || returns != 100;
	}
	for (int i = 0; i < 8; i++)
		missed += inner[i].nmissed;
	ok(!r && !missed, "no allocation, no lock and no system call through libc is made at a hit");
	unregister_jprobe(&jp);
	for (int i = 0; i < 8; i++)
		unregister_kprobe(&inner[i]);
	unregister_kretprobe(&rp);
	unregister_kprobe(&kp);
}

/* The kernel ends who makes any call but read, write, exit and the return from a signal. */
static int under_seccomp(int optimised, int with_post)
{
	pid_t pid = fork();
	int status, good;

	if (!pid) {
		kp.post_handler = with_post ? post : NULL;
		dp_kprobes_optimization(optimised);
		if (register_kprobe(&kp) || register_kretprobe(&rp))
			_exit(2);
		calls(2);
		hits = returns = posts = 0;
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			_exit(3);
		good = calls(1000) && hits == 1000 && returns == 1000 && posts == (with_post ? 1000 : 0);
		syscall(SYS_exit, good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_no_system_calls(void)
{
	int r[3];

	r[0] = under_seccomp(1, 0);
	r[1] = under_seccomp(0, 0);
	r[2] = under_seccomp(0, 1);
	ok(!r[0], "kprobe and return probe, jumps: no system call at a hit (%d)", r[0]);
	ok(!r[1], "the same, breakpoints: none but the return from the signal (%d)", r[1]);
	ok(!r[2], "the same, with a post handler (%d)", r[2]);
}

/* ---- handlers that sleep ---- */

static volatile int asleep, awake;

static int sleeps(struct kprobe *p, struct pt_regs *regs)
{
	const struct timespec nap = {0, 20000000};

	if (regs->di != 777)
		return pre(p, regs);
	asleep = 1;
	nanosleep(&nap, NULL);
	awake = 1;
	return 0;
}

static void *sleeper(void *arg)
{
	return (void *)add(777, 1);
}

static void test_sleep(void)
{
	struct kprobe slow = {.symbol_name = "add", .pre_handler = sleeps};
	pthread_t t;
	void *sum;
	int r, during;

	dp_kprobes_optimization(1);
	r = register_kprobe(&slow);
	hits = 0;
	pthread_create(&t, NULL, sleeper, NULL);
	while (!asleep)
		sched_yield();
	r |= !calls(10);
	during = hits;
	unregister_kprobe(&slow);
	ok(!r && during == 10, "a handler sleeps, other threads' hits go on meanwhile");
	ok(awake, "unregister_kprobe() waits for it");
	pthread_join(t, &sum);
	ok((long)sum == 778, "and the call goes on");
}

/* ---- inlined copies ---- */

static inline __attribute__((always_inline)) long body(long x)
{
	return 3 * x + 1;
}

/* The function of that name, and a copy of it inlined elsewhere. */
PROBED long triple(long x)
{
	return body(x);
}

PROBED long has_a_copy(long x)
{
	return body(x) + 1;
}

static void test_inlined(void)
{
	struct kprobe k = {.symbol_name = "triple", .pre_handler = pre};
	int r = register_kprobe(&k);

	hits = 0;
	ok(!r && triple(2) == 7 && has_a_copy(2) == 8 && hits == 1, "the function is probed, its inlined copy is not");
	unregister_kprobe(&k);
}

int main(void)
{
	test_no_calls();
	test_no_system_calls();
	test_sleep();
	test_inlined();
	return tap_done();
}
