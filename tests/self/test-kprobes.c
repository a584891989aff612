/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * register_kprobe() and its family, sentence by sentence of the API reference: places, handlers,
 * registers, several probes at one address, enabling and disabling, batches, faults, recursion, the
 * list and the knobs.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

PROBED long add(long a, long b)
{
	return a + b;
}

PROBED long twice(long a)
{
	return add(a, a) + 1;
}

PROBED double scale(double x, double y)
{
	return x * y + 0.5;
}

PROBED long branchy(long n)
{
	long s = 0;

	for (long i = 0; i < n; i++)
		s += i & 1 ? add(i, s) : twice(i);
	return s;
}

static int pre_hits, post_hits;
static struct pt_regs seen;
static kprobe_opcode_t *text_of(void *f)
{
	return (kprobe_opcode_t *)f;
}

static int count_pre(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	seen = *regs;
	return 0;
}

static void count_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	post_hits++;
	seen = *regs;
}

static void test_places(void)
{
	struct kprobe a = {.symbol_name = "add", .pre_handler = count_pre};
	struct kprobe both = {.symbol_name = "add", .addr = text_of(add), .pre_handler = count_pre};
	struct kprobe none = {.pre_handler = count_pre};
	struct kprobe missing = {.symbol_name = "no_such_function_at_all"};
	struct kprobe data = {.addr = (kprobe_opcode_t *)&pre_hits};
	struct kprobe mid = {.symbol_name = "branchy", .offset = 1};
	struct kprobe own = {.addr = (kprobe_opcode_t *)register_kprobe};
	unsigned char before[16], after[16];
	int r;

	memcpy(before, (void *)add, 16);
	r = register_kprobe(&a);
	ok(!r, "register_kprobe() by symbol_name returns 0 (%d %s)", r, dp_kprobe_error());
	ok(a.addr == text_of(add), "addr is filled in");
	pre_hits = 0;
	ok(add(3, 4) == 7 && pre_hits == 1, "the pre handler runs, the function works");
	ok(seen.di == 3 && seen.si == 4 && seen.ip == (unsigned long)add, "registers are those of the call");
	ok(register_kprobe(&a) == -EINVAL, "registering it twice is -EINVAL");
	ok(register_kprobe(&both) == -EINVAL, "symbol_name and addr together are -EINVAL");
	ok(register_kprobe(&none) == -EINVAL, "neither of them is -EINVAL");
	ok(register_kprobe(&missing) == -ENOENT, "an unknown symbol is -ENOENT");
	ok(strstr(dp_kprobe_error(), "E-SYM-NONE") != NULL, "and the reason is told: %s", dp_kprobe_error());
	ok(register_kprobe(&data) < 0, "data is refused: %s", dp_kprobe_error());
	r = register_kprobe(&mid);
	ok(r == -EILSEQ || !r, "the middle of an instruction is -EILSEQ: %s", dp_kprobe_error());
	if (!r)
		unregister_kprobe(&mid);
	ok(register_kprobe(&own) == -EINVAL, "the library's own code is -EINVAL: %s", dp_kprobe_error());
	unregister_kprobe(&a);
	memcpy(after, (void *)add, 16);
	pre_hits = 0;
	ok(add(3, 4) == 7 && !pre_hits && !memcmp(before, after, 16), "unregister_kprobe() restores every byte");
	a.addr = text_of(add);
	unregister_kprobe(&a);
	ok(!a.addr, "unregistering an unregistered probe clears addr");
}

static void test_libc(void)
{
	struct kprobe kp = {.symbol_name = "libc:getppid", .pre_handler = count_pre};
	int r = register_kprobe(&kp);
	pid_t p;

	pre_hits = 0;
	p = getppid();
	ok(!r && p == getppid() && pre_hits == 2, "a probe in the C library (%d %s)", pre_hits, dp_kprobe_error());
	unregister_kprobe(&kp);
}

static void test_post(void)
{
	struct kprobe kp = {.addr = text_of(add), .pre_handler = count_pre, .post_handler = count_post};

	ok(!register_kprobe(&kp), "a post handler");
	pre_hits = post_hits = 0;
	ok(add(1, 2) == 3 && pre_hits == 1 && post_hits == 1, "pre and post handler run once each");
	ok(seen.ip > (unsigned long)add && seen.ip < (unsigned long)add + 16,
	   "ip of the post handler: the next instruction");
	ok(!(kp.flags & KPROBE_FLAG_OPTIMIZED), "a probe with a post handler is not optimised");
	unregister_kprobe(&kp);
}

static int set_args(struct kprobe *p, struct pt_regs *regs)
{
	regs->di = 40;
	return 0;
}

static long instead(long a, long b)
{
	return a * 1000 + b;
}

static int go_instead(struct kprobe *p, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)instead);
	return 1;
}

static int return_at_once(struct kprobe *p, struct pt_regs *regs)
{
	regs->ax = 77;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	return 1;
}

static void test_changes(void)
{
	struct kprobe kp = {.addr = text_of(add), .pre_handler = set_args};

	for (int optimised = 0; optimised < 2; optimised++) {
		const char *how = optimised ? "optimised" : "breakpoint";

		dp_kprobes_optimization(optimised);
		kp.pre_handler = set_args;
		register_kprobe(&kp);
		ok(!(kp.flags & KPROBE_FLAG_OPTIMIZED) == !optimised, "%s: as the knob says", how);
		ok(add(1, 2) == 42, "%s: a handler changes a register", how);
		unregister_kprobe(&kp);
		kp.addr = text_of(add);
		kp.pre_handler = go_instead;
		register_kprobe(&kp);
		ok(add(1, 2) == 1002, "%s: a handler changes ip and returns 1", how);
		unregister_kprobe(&kp);
		kp.addr = text_of(add);
		kp.pre_handler = return_at_once;
		register_kprobe(&kp);
		ok(add(1, 2) == 77, "%s: a handler returns from the function", how);
		unregister_kprobe(&kp);
		kp.addr = text_of(add);
	}
}

static int spoil_vectors(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n movaps %%xmm0, %%xmm1\n movaps %%xmm0, %%xmm7\n "
			 "movaps %%xmm0, %%xmm15\n"
			 "stc\n std\n cld" ::
			     : "xmm0", "xmm1", "xmm7", "xmm15", "cc");
	if (__builtin_cpu_supports("avx2"))
		__asm__ volatile("vpcmpeqd %%ymm2, %%ymm2, %%ymm2\n vzeroupper" ::: "xmm2");
	return 0;
}

static void test_vectors(void)
{
	struct kprobe kp = {.addr = text_of(scale), .pre_handler = spoil_vectors};

	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		register_kprobe(&kp);
		ok(scale(2.0, 3.25) == 7.0,
		   "floating point arguments survive a handler that uses vector registers (%d)", optimised);
		unregister_kprobe(&kp);
		kp.addr = text_of(scale);
	}
}

static int order[8], norder;

static int first(struct kprobe *p, struct pt_regs *regs)
{
	order[norder++] = 1;
	return 0;
}

static int second(struct kprobe *p, struct pt_regs *regs)
{
	order[norder++] = 2;
	return 0;
}

static void test_several(void)
{
	struct kprobe a = {.addr = text_of(add), .pre_handler = first};
	struct kprobe b = {.addr = text_of(add), .pre_handler = second, .post_handler = count_post};

	register_kprobe(&a);
	ok(a.flags & KPROBE_FLAG_OPTIMIZED, "one probe: optimised");
	register_kprobe(&b);
	ok(!(a.flags & KPROBE_FLAG_OPTIMIZED), "a second one with a post handler takes the optimisation back");
	norder = post_hits = 0;
	ok(add(1, 1) == 2 && norder == 2 && order[0] == 1 && order[1] == 2 && post_hits == 1,
	   "several probes at one address all run");
	ok(!disable_kprobe(&b), "disable_kprobe()");
	norder = post_hits = 0;
	add(1, 1);
	ok(norder == 1 && order[0] == 1 && !post_hits, "a disabled one does not");
	ok(!enable_kprobe(&b), "enable_kprobe()");
	norder = 0;
	add(1, 1);
	ok(norder == 2, "an enabled one does again");
	unregister_kprobe(&b);
	ok(a.flags & KPROBE_FLAG_OPTIMIZED, "optimised again when the other is gone");
	unregister_kprobe(&a);
	ok(disable_kprobe(&a) == -EINVAL && enable_kprobe(&a) == -EINVAL, "an unregistered probe: -EINVAL");
}

static void test_disabled(void)
{
	struct kprobe kp = {.addr = text_of(add), .pre_handler = count_pre, .flags = KPROBE_FLAG_DISABLED};

	ok(!register_kprobe(&kp), "registered disabled");
	pre_hits = 0;
	add(1, 1);
	ok(!pre_hits, "its handlers do not run");
	enable_kprobe(&kp);
	add(1, 1);
	ok(pre_hits == 1, "until it is enabled");
	unregister_kprobe(&kp);
}

static void test_batch(void)
{
	struct kprobe a = {.symbol_name = "add", .pre_handler = count_pre};
	struct kprobe b = {.symbol_name = "twice", .pre_handler = count_pre};
	struct kprobe bad = {.symbol_name = "no_such_function_at_all"};
	struct kprobe *good[] = {&a, &b}, *with_bad[] = {&a, &bad, &b};
	unsigned char before[16];

	memcpy(before, (void *)add, 16);
	ok(register_kprobes(with_bad, 3) == -ENOENT, "a batch with a bad probe fails");
	ok(!memcmp(before, (void *)add, 16), "and undoes itself");
	ok(!register_kprobes(good, 2), "a good batch");
	pre_hits = 0;
	twice(1);
	ok(pre_hits == 2, "both run");
	a.dp_private = NULL;
	bad.addr = text_of(add);
	with_bad[0] = &a;
	unregister_kprobes(with_bad, 3);
	pre_hits = 0;
	twice(1);
	ok(!bad.addr && !pre_hits && !memcmp(before, (void *)add, 16),
	   "unregister_kprobes() clears the addr of an incorrect probe and removes the others");
	ok(register_kprobes(good, 0) == -EINVAL, "an empty batch is -EINVAL");
}

static int call_add(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	add(1, 2);
	return 0;
}

static void test_recursion(void)
{
	struct kprobe outer = {.symbol_name = "twice", .pre_handler = call_add};
	struct kprobe inner = {.symbol_name = "add", .pre_handler = count_pre};

	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		register_kprobe(&outer);
		register_kprobe(&inner);
		pre_hits = 0;
		ok(twice(4) == 9 && pre_hits == 2 && inner.nmissed == 1 && outer.nmissed == 0,
		   "a hit inside a handler runs no handlers and counts nmissed");
		unregister_kprobe(&inner);
		unregister_kprobe(&outer);
	}
}

/* ---- every instruction, with and without post handlers ---- */

static int all_hits;

static int count_all(struct kprobe *p, struct pt_regs *regs)
{
	all_hits++;
	return 0;
}

static void all_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	all_hits++;
}

static void test_every_instruction(int post)
{
	static struct kprobe kps[200];
	static int hits_before;
	long want = branchy(10), got;
	int n = 0;

	memset(kps, 0, sizeof(kps));
	for (unsigned off = 0; off < 200 && n < 200; off++) {
		kps[n] = (struct kprobe){.symbol_name = "branchy",
					 .offset = off,
					 .pre_handler = count_all,
					 .post_handler = post ? all_post : NULL};
		if (!register_kprobe(&kps[n]))
			n++;
		else if (strstr(dp_kprobe_error(), "NOFUNC") || strstr(dp_kprobe_error(), "NOTEXT"))
			break;
	}
	all_hits = 0;
	got = branchy(10);
	/* With post handlers each instruction counts twice. */
	ok(n > 10 && got == want && all_hits > n && (!post || all_hits == 2 * hits_before),
	   "every instruction of a function, post %d: %d probes, %d hits", post, n, all_hits);
	hits_before = all_hits;
	for (int i = 0; i < n; i++)
		unregister_kprobe(&kps[i]);
	all_hits = 0;
	ok(branchy(10) == want && !all_hits, "and none");
}

/* ---- faults ---- */

static volatile long *bad_pointer;
static long good_value = 5;

PROBED long load(volatile long *p)
{
	return *p;
}

static int fault_trap, fault_says;

static int on_fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	fault_trap = trapnr;
	seen = *regs;
	if (fault_says)
		regs->di = (unsigned long)&good_value;
	return fault_says;
}

static int fault_in_pre(struct kprobe *p, struct pt_regs *regs)
{
	long v;

	/* rdi is what the fault handler repairs. */
	__asm__ volatile("mov (%%rdi), %0" : "=r"(v) : "D"(bad_pointer) : "memory");
	pre_hits += v == 5;
	return 0;
}

static sigjmp_buf env;
static int static_optimised; /* survives the jump */
static unsigned long sig_ip;

static void on_segv(int sig, siginfo_t *info, void *uc)
{
	sig_ip = (unsigned long)((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(env, 1);
}

static void test_faults(void)
{
	struct kprobe kp = {.addr = text_of(load), .pre_handler = count_pre, .fault_handler = on_fault};
	struct sigaction sa = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, back;

	bad_pointer = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (static_optimised = 0; static_optimised < 2; static_optimised++) {
		dp_kprobes_optimization(static_optimised);
		register_kprobe(&kp);
		fault_says = 1;
		ok(load(bad_pointer) == 5 && fault_trap == 14,
		   "the fault handler repairs a fault of the probed instruction");
		ok(seen.ip == (unsigned long)load, "it sees the instruction's own address");
		sigaction(SIGSEGV, &sa, NULL);
		sigaction(SIGSEGV, NULL, &back);
		ok(back.sa_sigaction == on_segv, "the program's own SIGSEGV handler is what sigaction() tells");
		fault_says = 0;
		fault_trap = 0;
		if (!sigsetjmp(env, 1))
			load(bad_pointer);
		ok(fault_trap == 14 && sig_ip == (unsigned long)load,
		   "a fault that it does not handle goes to the program, at the original address");
		unregister_kprobe(&kp);
		kp.addr = text_of(load);
		kp.pre_handler = fault_in_pre;
		fault_says = 1;
		register_kprobe(&kp);
		pre_hits = 0;
		ok(load(&good_value) == 5 && pre_hits == 1, "a fault in a handler is repaired by the fault handler");
		unregister_kprobe(&kp);
		kp.addr = text_of(load);
		kp.pre_handler = count_pre;
	}
	signal(SIGSEGV, SIG_DFL);
}

static volatile int traps;

static void on_trap(int sig)
{
	traps++;
}

static void test_own_traps(void)
{
	struct kprobe kp = {.addr = text_of(add), .pre_handler = count_pre};
	sigset_t all, old;

	dp_kprobes_optimization(0);
	register_kprobe(&kp);
	signal(SIGTRAP, on_trap);
	pre_hits = 0;
	__asm__ volatile("int3");
	raise(SIGTRAP);
	ok(add(1, 2) == 3 && traps == 2 && pre_hits == 1, "the program's own breakpoints reach its own handler");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	ok(add(1, 2) == 3 && pre_hits == 2, "a breakpoint while the program blocks all signals");
	sigprocmask(SIG_SETMASK, &old, NULL);
	unregister_kprobe(&kp);
	signal(SIGTRAP, SIG_DFL);
	dp_kprobes_optimization(1);
}

PROBED int forbidden(int a)
{
	return a + 1;
}
NOKPROBE_SYMBOL(forbidden);

static void test_lists(void)
{
	struct kprobe a = {.symbol_name = "add", .pre_handler = count_pre};
	struct kprobe b = {.symbol_name = "twice", .pre_handler = count_pre, .flags = KPROBE_FLAG_DISABLED};
	struct kprobe no = {.symbol_name = "forbidden"};
	char list[1024];

	register_kprobe(&a);
	register_kprobe(&b);
	dp_kprobes_list(list, sizeof(list));
	ok(strstr(list, "  k  exe:add+0x0  [OPTIMIZED]\n") && strstr(list, "  k  exe:twice+0x0  [DISABLED]\n"),
	   "dp_kprobes_list()");
	ok(dp_kprobes_optimization(0) == 1, "the optimisation knob tells its old value");
	dp_kprobes_list(list, sizeof(list));
	ok(!strstr(list, "OPTIMIZED"), "off: all optimised probes are unoptimised");
	pre_hits = 0;
	add(1, 1);
	ok(pre_hits == 1, "and still hit");
	dp_kprobes_optimization(1);
	ok(a.flags & KPROBE_FLAG_OPTIMIZED, "on: they are optimised again");
	ok(dp_kprobes_enabled(0) == 1, "the global knob");
	pre_hits = 0;
	add(1, 1);
	ok(!pre_hits, "off: nothing is hit");
	dp_kprobes_enabled(1);
	twice(1);
	ok(pre_hits == 1 && b.flags & KPROBE_FLAG_DISABLED, "on: each keeps its own state");
	unregister_kprobe(&a);
	unregister_kprobe(&b);
	ok(!dp_kprobes_list(list, sizeof(list)) && !list[0], "the list is empty");
	ok(register_kprobe(&no) == -EINVAL, "NOKPROBE_SYMBOL(): %s", dp_kprobe_error());
}

static void test_region(void)
{
	struct kprobe a = {.symbol_name = "branchy", .pre_handler = count_all};
	struct kprobe b = {.symbol_name = "branchy", .pre_handler = count_all};
	long want = branchy(5);

	register_kprobe(&a);
	if (!(a.flags & KPROBE_FLAG_OPTIMIZED)) {
		ok(1, "no jump fits here # SKIP");
		unregister_kprobe(&a);
		return;
	}
	for (b.offset = 1; b.offset < 5 && register_kprobe(&b); b.offset++)
		;
	if (b.offset < 5)
		ok(!(a.flags & KPROBE_FLAG_OPTIMIZED), "a probe inside the region takes the optimisation back");
	all_hits = 0;
	ok(branchy(5) == want && all_hits == 2, "both are hit");
	unregister_kprobe(&b);
	ok(a.flags & KPROBE_FLAG_OPTIMIZED, "and it comes back");
	all_hits = 0;
	ok(branchy(5) == want && all_hits == 1, "with one hit");
	unregister_kprobe(&a);
}

int main(void)
{
	test_places();
	test_libc();
	test_post();
	test_changes();
	test_vectors();
	test_several();
	test_disabled();
	test_batch();
	test_recursion();
	test_every_instruction(0);
	test_every_instruction(1);
	test_region();
	test_faults();
	test_own_traps();
	test_lists();
	return tap_done();
}
