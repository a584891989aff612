/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Return probes and jprobes: what kprobes.txt promises about them. */
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

PROBED long add(long a, long b)
{
	return a + b;
}

PROBED long factorial(long n)
{
	long r = n < 2 ? 1 : factorial(n - 1);

	__asm__ volatile("" : "+r"(r)); /* a call, not a loop */
	return n < 2 ? 1 : n * r;
}

PROBED double half(double x)
{
	return x / 2;
}

PROBED long double thirds(long double x)
{
	return x / 3;
}

static jmp_buf env;

PROBED int leaves(int how)
{
	if (how)
		longjmp(env, 1);
	return 3;
}

static int depth_seen, hits, entries;
static unsigned long values[64];

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	if (hits < 64)
		values[hits] = regs_return_value(regs);
	hits++;
	return 0;
}

/* What is wrong with a probe is told, whoever finds it. */
static void test_arguments(void)
{
	struct kretprobe big = {.kp.symbol_name = "add", .handler = on_return, .data_size = (1 << 20) + 1};
	struct kretprobe many = {.kp.symbol_name = "add", .handler = on_return, .maxactive = 4097};
	struct kretprobe good = {.kp.symbol_name = "add", .handler = on_return}, *twice[] = {&good, &good};
	struct jprobe bare = {.kp.symbol_name = "add"}, *jps[] = {&bare};
	struct kprobe *none[] = {NULL};

	ok(register_kretprobe(&big) == -EINVAL && strstr(dp_kprobe_error(), "E-KPROBE-ARGUMENT") &&
	       strstr(dp_kprobe_error(), "data_size"),
	   "data_size over a mebibyte: %s", dp_kprobe_error());
	ok(register_kretprobe(&many) == -EINVAL && strstr(dp_kprobe_error(), "maxactive 4097"), "maxactive 4097: %s",
	   dp_kprobe_error());
	ok(register_jprobes(jps, 1) == -EINVAL && strstr(dp_kprobe_error(), "without an entry"),
	   "a jprobe without entry: %s", dp_kprobe_error());
	ok(register_kretprobes(twice, 2) == -EINVAL && strstr(dp_kprobe_error(), "twice"), "the same one twice: %s",
	   dp_kprobe_error());
	ok(register_kprobes(none, 0) == -EINVAL && strstr(dp_kprobe_error(), "none"), "none: %s", dp_kprobe_error());
	hits = 0;
	ok(!register_kretprobe(&good) && add(1, 2) == 3 && hits == 1, "and the good one is registered");
	unregister_kretprobe(&good);
}

/* By an address and an offset, again and again as it is. */
static void test_again(void)
{
	static int n;
	unsigned long place = (unsigned long)add - 3;
	struct kretprobe rp = {.kp.addr = (kprobe_opcode_t *)place, .kp.offset = 3, .handler = on_return};
	int wrong = 0;

	for (n = 0; n < 3; n++) {
		hits = 0;
		wrong += register_kretprobe(&rp) != 0;
		wrong += (unsigned long)rp.kp.addr != place + 3 || add(4, 5) != 9 || hits != 1;
		unregister_kretprobe(&rp);
	}
	ok(!wrong, "addr and offset: registered three times as it is, it stands at the same place");
}

static void test_values(void)
{
	struct kretprobe rp = {.kp.symbol_name = "add", .handler = on_return};
	struct kretprobe fp = {.kp.symbol_name = "half", .handler = on_return};
	struct kretprobe xp = {.kp.symbol_name = "thirds", .handler = on_return};
	struct kretprobe mid = {.kp.symbol_name = "add", .kp.offset = 4, .handler = on_return};
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int r;

	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		rp.maxactive = 0;
		r = register_kretprobe(&rp);
		ok(!r, "register_kretprobe() (%s)", dp_kprobe_error());
		ok(rp.maxactive == (2 * cpus > 10 ? 2 * cpus : 10), "maxactive is max(10, twice the processors)");
		hits = 0;
		ok(add(20, 22) == 42 && hits == 1 && values[0] == 42, "the handler sees the return value");
		unregister_kretprobe(&rp);
		hits = 0;
		ok(add(1, 2) == 3 && !hits, "unregistered");
		register_kretprobe(&fp);
		ok(half(5.0) == 2.5 && hits == 1, "a floating point value comes through");
		unregister_kretprobe(&fp);
		register_kretprobe(&xp);
		ok(thirds(6.0L) == 2.0L && hits == 2, "so does one on the x87 stack");
		unregister_kretprobe(&xp);
	}
	ok(register_kretprobe(&mid) < 0, "not at the start of a function: refused");
}

static int change(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	regs_set_return_value(regs, 1000 + regs_return_value(regs));
	return 0;
}

struct mine {
	long arg;
};

static int remember(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	((struct mine *)ri->data)->arg = (long)regs->di;
	return regs->di == 3; /* that call is not wanted */
}

static int ordered;

static int recall(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct mine *m = (struct mine *)ri->data;

	hits++;
	if (m->arg == hits + (hits > 2))
		ordered++;
	return 0;
}

static unsigned long own_ret;
static int told;

static int check_instance(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits++;
	told = (unsigned long)ri->ret_addr == own_ret && ri->task->pid == gettid() && ri->task->tgid == getpid() &&
	       get_kretprobe(ri)->handler == check_instance && regs->ip == own_ret;
	return 0;
}

PROBED long tells_return_address(long a)
{
	own_ret = a;
	return a;
}

static int learn_ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	own_ret = *(unsigned long *)regs->sp;
	return 0;
}

static void test_instances(void)
{
	struct kretprobe rp = {.kp.symbol_name = "factorial",
			       .handler = recall,
			       .entry_handler = remember,
			       .data_size = sizeof(struct mine),
			       .maxactive = 20};
	struct kretprobe few = {.kp.symbol_name = "factorial", .handler = on_return, .maxactive = 4};
	struct kretprobe ch = {.kp.symbol_name = "add", .handler = change};
	struct kretprobe who = {.kp.symbol_name = "add", .handler = check_instance, .entry_handler = learn_ret};

	register_kretprobe(&rp);
	hits = entries = ordered = 0;
	ok(factorial(8) == 40320 && entries == 8 && hits == 7, "entry_handler: non-zero for one call skips its return");
	ok(ordered == 7, "recursion: returns come innermost first, each with its own data");
	unregister_kretprobe(&rp);
	ok(!register_kretprobe(&few) && factorial(10) == 3628800 && few.nmissed == 6,
	   "calls beyond maxactive are missed and counted");
	hits = 0;
	few.nmissed = 0;
	factorial(4);
	ok(hits == 4 && !few.nmissed, "instances come back");
	unregister_kretprobe(&few);
	register_kretprobe(&ch);
	ok(add(1, 2) == 1003, "a handler changes the return value");
	unregister_kretprobe(&ch);
	register_kretprobe(&who);
	hits = 0;
	add(1, 2);
	ok(hits == 1 && told, "ri tells the return address, the task and the probe");
	unregister_kretprobe(&who);
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	entries++;
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	depth_seen++;
}

static void test_together(void)
{
	struct kprobe kp = {.symbol_name = "add", .pre_handler = pre};
	struct kprobe kpost = {.symbol_name = "add", .pre_handler = pre, .post_handler = post};
	struct kretprobe a = {.kp.symbol_name = "add", .handler = on_return};
	struct kretprobe b = {.kp.symbol_name = "add", .handler = on_return};

	register_kretprobe(&a);
	register_kprobe(&kp);
	register_kretprobe(&b);
	hits = entries = 0;
	ok(add(2, 3) == 5 && hits == 2 && entries == 1, "a kprobe and two return probes on one function");
	register_kprobe(&kpost);
	hits = entries = depth_seen = 0;
	ok(add(2, 3) == 5 && hits == 2 && entries == 2 && depth_seen == 1, "and a post handler");
	disable_kretprobe(&b);
	hits = 0;
	add(1, 1);
	ok(hits == 1, "disable_kretprobe()");
	enable_kretprobe(&b);
	hits = 0;
	add(1, 1);
	ok(hits == 2, "enable_kretprobe()");
	unregister_kprobe(&kpost);
	unregister_kprobe(&kp);
	unregister_kretprobe(&a);
	unregister_kretprobe(&b);
}

static const struct {
	const char *name;
	unsigned flags;
} hows[] = {{"call-through", 0}, {"classic", KPROBE_FLAG_RET_CLASSIC}, {"exits", KPROBE_FLAG_RET_EXITS}};

static void test_jumps(void)
{
	for (int h = 0; h < 3; h++) {
		static struct kretprobe rp;
		static int i;

		rp = (struct kretprobe){
		    .kp.symbol_name = "leaves", .handler = on_return, .maxactive = 3, .kp.flags = hows[h].flags};
		register_kretprobe(&rp);
		hits = 0;
		for (i = 0; i < 100; i++)
			if (!setjmp(env))
				leaves(1);
		ok(leaves(0) == 3 && hits == 1 && !rp.nmissed,
		   "%s: calls left by longjmp give their instances back (%d missed)", hows[h].name, rp.nmissed);
		unregister_kretprobe(&rp);
	}
}

static void test_mechanisms(void)
{
	char list[512];

	for (int h = 0; h < 3; h++) {
		struct kretprobe rp = {.kp.symbol_name = "factorial",
				       .handler = recall,
				       .entry_handler = remember,
				       .data_size = sizeof(struct mine),
				       .maxactive = 20,
				       .kp.flags = hows[h].flags};
		struct kretprobe ch = {.kp.symbol_name = "add", .handler = change, .kp.flags = hows[h].flags};
		struct kretprobe b = {.kp.symbol_name = "add", .handler = on_return, .kp.flags = hows[h].flags};
		int r = register_kretprobe(&rp);

		hits = entries = ordered = 0;
		ok(!r && factorial(8) == 40320 && entries == 8 && hits == 7 && ordered == 7, "%s: recursion (%s)",
		   hows[h].name, dp_kprobe_error());
		dp_kprobes_list(list, sizeof(list));
		ok(!strstr(list, "EXITS") == (h != 2) && !strstr(list, "CLASSIC") == (h != 1), "%s: the list says so",
		   hows[h].name);
		disable_kretprobe(&rp);
		hits = 0;
		factorial(3);
		ok(!hits, "%s: disabled", hows[h].name);
		unregister_kretprobe(&rp);
		register_kretprobe(&ch);
		register_kretprobe(&b);
		hits = 0;
		ok(add(1, 2) == 1003 && hits == 1, "%s: two on a function, one changes the value", hows[h].name);
		unregister_kretprobe(&b);
		unregister_kretprobe(&ch);
		ok(add(1, 2) == 3, "%s: gone", hows[h].name);
	}
}

static int frames_seen;

PROBED long shows_stack(long a)
{
	void *v[32];
	int n = backtrace(v, 32);
	char **names = backtrace_symbols(v, n);

	frames_seen = 0;
	for (int i = 0; i < n; i++)
		if (names && strstr(names[i], "(main+"))
			frames_seen++;
	free(names);
	return a;
}

PROBED long between(long a)
{
	return shows_stack(a) + 1;
}

static int handler_sees;

static int backtrace_in_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	void *v[32];
	int n = backtrace(v, 32);
	char **names = backtrace_symbols(v, n);

	for (int i = 0; i < n; i++)
		if (names && strstr(names[i], "(main+"))
			handler_sees++;
	free(names);
	return 0;
}

static void test_unwinding(void)
{
	struct kretprobe a = {.kp.symbol_name = "shows_stack", .handler = on_return};
	struct kretprobe b = {
	    .kp.symbol_name = "between", .handler = backtrace_in_handler, .entry_handler = backtrace_in_handler};
	struct kretprobe c = {.kp.symbol_name = "between", .handler = on_return};

	shows_stack(1);
	register_kretprobe(&a);
	ok(between(1) == 2 && frames_seen == 1, "backtrace() through a probed call reaches main");
	register_kretprobe(&b);
	ok(between(1) == 2 && frames_seen == 1, "and through two of them");
	ok(handler_sees == 2, "backtrace() inside the handlers reaches main (%d)", handler_sees);
	register_kretprobe(&c);
	ok(between(1) == 2 && frames_seen == 1, "and through two on one call");
	unregister_kretprobe(&a);
	unregister_kretprobe(&b);
	unregister_kretprobe(&c);
}

static int cleaned;

static void clean(void *arg)
{
	cleaned++;
}

PROBED int waits(int fd)
{
	char c;

	pthread_cleanup_push(clean, NULL);
	while (read(fd, &c, 1) == 1)
		;
	pthread_cleanup_pop(0);
	return 0;
}

static void *canceled(void *arg)
{
	waits(*(int *)arg);
	return NULL;
}

static void test_cancel(void)
{
	struct kretprobe rp = {.kp.symbol_name = "waits", .handler = on_return};
	struct kretprobe rd = {.kp.symbol_name = "canceled", .handler = on_return};
	pthread_t t;
	void *result;
	int fds[2];

	register_kretprobe(&rp);
	register_kretprobe(&rd);
	if (pipe(fds))
		return;
	pthread_create(&t, NULL, canceled, &fds[0]);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, &result);
	ok(result == PTHREAD_CANCELED && cleaned == 1, "pthread_cancel() unwinds through probed calls");
	unregister_kretprobe(&rp);
	unregister_kretprobe(&rd);
}

/* ---- jprobes ---- */

PROBED double many(int a, double x, const char *s, long b, long c, long d, long e, long f, long g, double y, float z)
{
	return a + x + (double)strlen(s) + (double)(b + c + d + e + f + g) + y + (double)z;
}

PROBED long sums(int n, ...)
{
	va_list ap;
	long s = 0;

	va_start(ap, n);
	for (int i = 0; i < n; i++)
		s += va_arg(ap, long);
	va_end(ap);
	return s;
}

struct big {
	long v[6];
};

PROBED long takes_big(struct big b, long x)
{
	return b.v[0] + b.v[5] + x;
}

static int jhits;

static double jmany(int a, double x, const char *s, long b, long c, long d, long e, long f, long g, double y, float z)
{
	if (a == 1 && x == 2.5 && !strcmp(s, "abc") && b == 4 && c == 5 && d == 6 && e == 7 && f == 8 && g == 9 &&
	    y == 0.25 && z == 0.5f)
		jhits++;
	a = 99;
	g = 99;
	jprobe_return();
	return 0;
}

static long jsums(int n, ...)
{
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < n; i++)
		if (va_arg(ap, long) == i + 1)
			jhits++;
	va_end(ap);
	jprobe_return();
	return 0;
}

static long jbig(struct big b, long x)
{
	jhits += b.v[0] == 1 && b.v[5] == 6 && x == 7;
	b.v[0] = 100;
	return -1; /* returning is the same as jprobe_return() */
}

struct wide {
	long v[40];
};

PROBED long takes_wide(struct wide w)
{
	return w.v[39];
}

static long jwide(struct wide w)
{
	jhits = (int)w.v[31]; /* the last of 256 bytes */
	jprobe_return();
	return 0;
}

static void test_jprobes(void)
{
	struct jprobe jw = {.kp.symbol_name = "takes_wide", .entry = jwide};
	struct wide wide;
	struct jprobe a = {.kp.symbol_name = "many", .entry = jmany};
	struct jprobe b = {.kp.symbol_name = "sums", .entry = JPROBE_ENTRY(jsums)};
	struct jprobe c = {.kp.symbol_name = "takes_big", .entry = jbig};
	struct jprobe again = {.kp.symbol_name = "many", .entry = jmany};
	struct jprobe mid = {.kp.symbol_name = "many", .kp.offset = 4, .entry = jmany};
	struct jprobe *all[] = {&b, &c};
	struct kretprobe r = {.kp.symbol_name = "many", .handler = on_return};
	struct kprobe k = {.symbol_name = "many", .pre_handler = pre};
	double want = many(1, 2.5, "abc", 4, 5, 6, 7, 8, 9, 0.25, 0.5f);

	ok(!register_jprobe(&a), "register_jprobe() (%s)", dp_kprobe_error());
	jhits = 0;
	ok(many(1, 2.5, "abc", 4, 5, 6, 7, 8, 9, 0.25, 0.5f) == want && jhits == 1,
	   "integer, pointer, floating and stack arguments arrive; changes do not reach the "
	   "function");
	ok(!(a.kp.flags & KPROBE_FLAG_OPTIMIZED), "jprobes are not optimised");
	ok(register_jprobe(&again) == -EEXIST, "one jprobe per function: %s", dp_kprobe_error());
	ok(register_jprobe(&mid) < 0, "only at the start of a function");
	register_kretprobe(&r);
	register_kprobe(&k);
	hits = jhits = entries = 0;
	ok(many(1, 2.5, "abc", 4, 5, 6, 7, 8, 9, 0.25, 0.5f) == want && jhits == 1 && hits == 1 && entries == 1,
	   "with a return probe and a kprobe on the same function");
	unregister_kprobe(&k);
	unregister_kretprobe(&r);
	disable_jprobe(&a);
	jhits = 0;
	many(1, 2.5, "abc", 4, 5, 6, 7, 8, 9, 0.25, 0.5f);
	ok(!jhits, "disable_jprobe()");
	enable_jprobe(&a);
	many(1, 2.5, "abc", 4, 5, 6, 7, 8, 9, 0.25, 0.5f);
	ok(jhits == 1, "enable_jprobe()");
	unregister_jprobe(&a);
	ok(!register_jprobes(all, 2), "register_jprobes()");
	jhits = 0;
	ok(sums(20, 1l, 2l, 3l, 4l, 5l, 6l, 7l, 8l, 9l, 10l, 11l, 12l, 13l, 14l, 15l, 16l, 17l, 18l, 19l, 20l) == 210 &&
	       jhits == 20,
	   "a function with variable arguments: twenty of them (%d)", jhits);
	for (int i = 0; i < 40; i++)
		wide.v[i] = i;
	jhits = 0;
	ok(!register_jprobe(&jw) && takes_wide(wide) == 39 && jhits == 31,
	   "256 bytes of stack arguments are seen, all are kept");
	unregister_jprobe(&jw);
	jhits = 0;
	ok(takes_big((struct big){{1, 2, 3, 4, 5, 6}}, 7) == 14 && jhits == 1, "a structure by value");
	unregister_jprobes(all, 2);
	jhits = 0;
	takes_big((struct big){{1, 2, 3, 4, 5, 6}}, 7);
	ok(!jhits, "unregister_jprobes()");
}

static jmp_buf again;

static void test_twice(void)
{
	static const char *const others[] = {"libc:setjmp", "libc:__sigsetjmp", "libc:getcontext", "libc:vfork"};
	static struct kretprobe no, yes;
	static volatile int rounds;

	no = (struct kretprobe){.kp.symbol_name = "libc:_setjmp", .handler = on_return};
	ok(register_kretprobe(&no) == -EINVAL, "a function that returns twice is refused: %s", dp_kprobe_error());
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		no = (struct kretprobe){.kp.symbol_name = others[i], .handler = on_return};
		ok(register_kretprobe(&no) == -EINVAL && strstr(dp_kprobe_error(), "E-KPROBE-TWICE"), "and %s",
		   others[i]);
	}
	yes = (struct kretprobe){
	    .kp.symbol_name = "libc:_setjmp", .kp.flags = KPROBE_FLAG_RET_EXITS, .handler = on_return};
	if (register_kretprobe(&yes)) {
		ok(1, "its exits: %s # SKIP", dp_kprobe_error());
		return;
	}
	hits = 0;
	if (!_setjmp(again) && ++rounds)
		longjmp(again, 1);
	ok(rounds == 1 && hits == 1, "its exits can be probed (%d)", hits);
	unregister_kretprobe(&yes);
}

static void test_list(void)
{
	struct kretprobe r = {.kp.symbol_name = "add", .handler = on_return};
	struct jprobe j = {.kp.symbol_name = "many", .entry = jmany};
	char list[512];

	register_kretprobe(&r);
	register_jprobe(&j);
	dp_kprobes_list(list, sizeof(list));
	ok(strstr(list, "  r  exe:add+0x0  [OPTIMIZED]\n") && strstr(list, "  j  exe:many+0x0\n"), "the list");
	unregister_kretprobe(&r);
	unregister_jprobe(&j);
}

int main(void)
{
	test_arguments();
	test_again();
	test_values();
	test_instances();
	test_together();
	test_mechanisms();
	test_jumps();
	test_unwinding();
	test_cancel();
	test_twice();
	test_jprobes();
	test_list();
	return tap_done();
}
