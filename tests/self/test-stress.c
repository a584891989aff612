/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads that call a thousand functions while one thread registers, unregisters, enables and
 * disables probes on them in random order. Every result must be right; probes that stay must count
 * every call; every byte must be back at the end.
 *
 * Seconds: DP_STRESS (4).
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

#define THREADS 8
#define FUNCS 1000
#define STEADY 4 /* the last functions carry probes from start to end */

/* A thousand functions, alike but not the same: f(x) = x * x + number, in several instructions and
 * with a branch. */
__asm__(".text\n"
	".altmacro\n"
	".macro stress_func n\n"
	".type stress_func\\n, @function\n"
	"stress_func\\n:\n"
	"push %rbx\n"
	"mov %rdi, %rbx\n"
	"imul %rdi, %rbx\n"
	"test $1, %dil\n"
	"jz 1f\n"
	"add $1, %rbx\n"
	"sub $1, %rbx\n"
	"1: lea (%rbx), %rax\n"
	".byte 0x48, 0x05\n" /* add $n, %rax */
	".long \\n\n"
	"pop %rbx\n"
	"ret\n"
	".size stress_func\\n, . - stress_func\\n\n"
	".p2align 6\n"
	".endm\n"
	".set k, 0\n"
	".p2align 6\n"
	".globl stress_funcs\n"
	"stress_funcs:\n"
	".rept 1000\n"
	"stress_func %k\n"
	".set k, k + 1\n"
	".endr\n"
	".noaltmacro\n");
extern char stress_funcs[];
#define STRIDE 64

static long call(int n, long x)
{
	return ((long (*)(long))(stress_funcs + n * STRIDE))(x);
}

static volatile int stop;
static unsigned long wrong, calls[STEADY], hits[STEADY], returns[STEADY];
static unsigned long any;

static unsigned next(unsigned *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static void *worker(void *arg)
{
	unsigned seed = (unsigned)(unsigned long)arg;
	unsigned long mine[STEADY] = {0}, bad = 0;

	while (!stop)
		for (int i = 0; i < 500; i++) {
			int n = (int)(next(&seed) % FUNCS);
			long x = next(&seed) & 0xffff;

			bad += call(n, x) != x * x + n;
			if (n >= FUNCS - STEADY)
				mine[n - (FUNCS - STEADY)]++;
		}
	__atomic_fetch_add(&wrong, bad, __ATOMIC_RELAXED);
	for (int i = 0; i < STEADY; i++)
		__atomic_fetch_add(&calls[i], mine[i], __ATOMIC_RELAXED);
	return NULL;
}

static struct kprobe kps[FUNCS];
static struct kretprobe rps[FUNCS];

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&any, 1, __ATOMIC_RELAXED);
	if (p >= &kps[FUNCS - STEADY])
		__atomic_fetch_add(&hits[p - &kps[FUNCS - STEADY]], 1, __ATOMIC_RELAXED);
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = ri->rp;

	__atomic_fetch_add(&any, 1, __ATOMIC_RELAXED);
	if (rp >= &rps[FUNCS - STEADY])
		__atomic_fetch_add(&returns[rp - &rps[FUNCS - STEADY]], 1, __ATOMIC_RELAXED);
	return 0;
}

enum { NONE, ON, OFF };
static char state[FUNCS];
static const unsigned char offsets[] = {0, 1, 4, 8, 12, 14};

/* Every fourth function gets a return probe. */
static int is_return(int n)
{
	return n % 4 == 3;
}

static int add(int n, unsigned r)
{
	if (is_return(n)) {
		rps[n] = (struct kretprobe){.kp.addr = (kprobe_opcode_t *)stress_funcs + n * STRIDE,
					    .kp.flags = r & 1 ? KPROBE_FLAG_DISABLED : 0,
					    .handler = on_return};
		return register_kretprobe(&rps[n]);
	}
	kps[n] = (struct kprobe){.addr = (kprobe_opcode_t *)stress_funcs + n * STRIDE, .pre_handler = pre};
	kps[n].offset = offsets[r % 6];
	if (r / 6 % 3 == 1)
		kps[n].post_handler = post;
	if (r / 18 % 4 == 1)
		kps[n].flags = KPROBE_FLAG_DISABLED;
	return register_kprobe(&kps[n]);
}

/* One random change. */
static int step(unsigned *seed)
{
	int n = (int)(next(seed) % (FUNCS - STEADY)), r = 0;

	switch (state[n]) {
	case NONE:
		r = add(n, next(seed));
		state[n] = (kps[n].flags | rps[n].kp.flags) & KPROBE_FLAG_DISABLED ? OFF : ON;
		break;
	case ON:
		if (next(seed) & 1) {
			r = is_return(n) ? disable_kretprobe(&rps[n]) : disable_kprobe(&kps[n]);
			state[n] = OFF;
			break;
		}
		/* fallthrough */
	default:
		if (next(seed) & 1) {
			r = is_return(n) ? enable_kretprobe(&rps[n]) : enable_kprobe(&kps[n]);
			state[n] = ON;
			break;
		}
		if (is_return(n))
			unregister_kretprobe(&rps[n]);
		else
			unregister_kprobe(&kps[n]);
		state[n] = NONE;
	}
	return r;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void steady(void)
{
	for (int n = FUNCS - STEADY; n < FUNCS; n++) {
		kps[n] = (struct kprobe){.addr = (kprobe_opcode_t *)stress_funcs + n * STRIDE, .pre_handler = pre};
		kps[n].offset = n & 1 ? 0 : 4;
		kps[n].post_handler = n & 2 ? post : NULL;
		rps[n] = (struct kretprobe){.kp.addr = (kprobe_opcode_t *)stress_funcs + n * STRIDE,
					    .handler = on_return,
					    .maxactive = 2 * THREADS};
		if (register_kprobe(&kps[n]) || register_kretprobe(&rps[n]))
			printf("# %s\n", dp_kprobe_error());
	}
}

int main(void)
{
	const char *s = getenv("DP_STRESS");
	double end, seconds = s ? atof(s) : 4;
	static char before[FUNCS * STRIDE];
	unsigned long steps = 0, sum_calls = 0, missed = 0;
	unsigned seed = 12345;
	pthread_t t[THREADS];
	int failed = 0, exact = 1;

	memcpy(before, stress_funcs, sizeof(before));
	steady();
	for (unsigned long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, (void *)(i + 1));
	for (end = now() + seconds; now() < end; steps++) {
		failed += !!step(&seed);
		if (steps % 256 == 255)
			dp_kprobes_optimization((int)(next(&seed) & 1));
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < STEADY; i++) {
		missed += kps[FUNCS - STEADY + i].nmissed;
		exact &= hits[i] + kps[FUNCS - STEADY + i].nmissed == calls[i];
		exact &= returns[i] + (unsigned long)rps[FUNCS - STEADY + i].nmissed == calls[i];
		sum_calls += calls[i];
	}
	ok(!failed, "%lu changes, all of them accepted (%d failed)", steps, failed);
	ok(!wrong, "every result is right");
	ok(exact && sum_calls, "probes that stayed counted every call: %lu, %lu missed", sum_calls, missed);
	for (int n = 0; n < FUNCS; n++) {
		if (n >= FUNCS - STEADY) {
			unregister_kprobe(&kps[n]);
			unregister_kretprobe(&rps[n]);
		} else if (state[n] != NONE && is_return(n)) {
			unregister_kretprobe(&rps[n]);
		} else if (state[n] != NONE) {
			unregister_kprobe(&kps[n]);
		}
	}
	ok(!memcmp(before, stress_funcs, sizeof(before)), "every byte is back");
	printf("# figure: stress: %lu changes in %.0f s, %lu hits\n", steps, seconds, any);
	return tap_done();
}
