/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A profiler in the program: at any instruction of a hit, of a stub or of a return a signal arrives
 * whose handler unwinds the stack. It must come through, or stop early, and never go astray.
 */
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "dprobes/kprobes.h"
#include "tap.h"

#define TRACES 300

PROBED long work(long x)
{
	return x * 3 + 1;
}

static volatile long traces, with_caller;
static volatile int go_on;

PROBED long caller(void)
{
	long bad = 0;

	for (long i = 0; go_on; i++)
		bad += work(i) != i * 3 + 1;
	return bad;
}

static void on_alarm(int sig)
{
	void *v[64];
	int n = backtrace(v, 64);

	for (int i = 0; i < n; i++)
		if ((char *)v[i] >= (char *)caller && (char *)v[i] < (char *)caller + 128) {
			with_caller++;
			break;
		}
	go_on = ++traces < TRACES;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static int vectors(struct kprobe *p, struct pt_regs *regs)
{
	__asm__ volatile("pcmpeqd %%xmm1, %%xmm1" ::: "xmm1");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static int vectors_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__asm__ volatile("pcmpeqd %%xmm1, %%xmm1" ::: "xmm1");
	return 0;
}

static long jwork(long x)
{
	jprobe_return();
	return 0;
}

static const struct {
	const char *name;
	kprobe_pre_handler_t pre;
	kprobe_post_handler_t post;
	kretprobe_handler_t ret, entry;
	unsigned flags;
	int jprobe, breakpoints;
} kinds[] = {
    {"a kprobe", .pre = pre},
    {"a kprobe that uses vector registers", .pre = vectors},
    {"a kprobe, breakpoint", .pre = pre, .breakpoints = 1},
    {"a kprobe with a post handler", .pre = pre, .post = post},
    {"a return probe", .ret = on_return},
    {"a return probe that uses vector registers", .ret = vectors_return},
    {"a return probe with an entry handler", .ret = on_return, .entry = on_return},
    {"a kprobe and a return probe", .pre = pre, .ret = on_return},
    {"a return probe, breakpoint", .ret = on_return, .breakpoints = 1},
    {"a return probe, classic", .ret = on_return, .flags = KPROBE_FLAG_RET_CLASSIC},
    {"a return probe by exits", .ret = on_return, .flags = KPROBE_FLAG_RET_EXITS},
    {"a jprobe", .jprobe = 1},
};

static void test_kind(size_t k)
{
	struct kprobe kp = {
	    .symbol_name = "work", .pre_handler = kinds[k].pre, .post_handler = kinds[k].post};
	struct kretprobe rp = {.kp.symbol_name = "work",
			       .kp.flags = kinds[k].flags,
			       .handler = kinds[k].ret,
			       .entry_handler = kinds[k].entry};
	struct jprobe jp = {.kp.symbol_name = "work", .entry = (void *)jwork};
	const struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
	long bad;
	int r = 0;

	dp_kprobes_optimization(!kinds[k].breakpoints);
	if (kinds[k].pre)
		r |= register_kprobe(&kp);
	if (kinds[k].ret)
		r |= register_kretprobe(&rp);
	if (kinds[k].jprobe)
		r |= register_jprobe(&jp);
	traces = with_caller = 0;
	go_on = 1;
	setitimer(ITIMER_REAL, &often, NULL);
	bad = caller();
	setitimer(ITIMER_REAL, &never, NULL);
	ok(!r && !bad && with_caller, "%s, unwound at any moment: %ld of %ld reach the caller",
	   kinds[k].name, with_caller, traces);
	if (kinds[k].pre)
		unregister_kprobe(&kp);
	if (kinds[k].ret)
		unregister_kretprobe(&rp);
	if (kinds[k].jprobe)
		unregister_jprobe(&jp);
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	void *v[4];

	backtrace(v, 4); /* loads the unwinder */
	sigaction(SIGALRM, &sa, NULL);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		test_kind(k);
	return tap_done();
}
