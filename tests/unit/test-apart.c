/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Direct code that adds to what processors keep apart (abi-apart.h): threads that are moved and interrupted run it at
 * once, and the sums must be exact. So must they be where nothing stands apart, and where a thread's area names a
 * processor that has no words.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "abi/abi-apart.h"
#include "abi/abi-ring.h"
#include "arch/compile.h"
#include "arch/x86_64/insn.h"
#include "host/measure/measure.h"
#include "machine.h"
#include "program/opcode.h"

#define PAGE 4096u
#define THREADS 4
#define HITS 1000000u

/* Where aggregates of each kind are among the words, and a table of counts by a key of one word. */
enum {
	COUNT = 0,
	SUM = 2,
	HIST = 8,
	QUANTILES = 80,
	LEAST = 340,
	MOST = 342,
	LATEST = 344,
	TABLE = 400,
	KEYS = 16,
	WORDS = TABLE + 1 + 3 * KEYS
};

u64 apart_target, apart_left;
void apart_entry(void);
/* The general entry, for these tests: only tells that it was called. */
__asm__(".text\n.globl apart_entry\napart_entry: pushfq; lock incq apart_left(%rip); popfq; ret\n");

static struct dp_control ctl;
static u8 *code;
static u64 *words, stride;
static u32 ncpus;

static void fill_table(void)
{
	for (u64 key = 0; key < 8; key++) {
		u32 place = dp_table_place(dp_table_hash(0, 0, key), KEYS);

		while (words[TABLE + 1 + 3 * place])
			place = (place + 1) % KEYS;
		words[TABLE + 1 + 3 * place] = DP_TABLE_VALID;
		words[TABLE + 2 + 3 * place] = key;
	}
}

static bool make_world(void)
{
	u64 counts;
	u8 *all;

	ncpus = (u32)sysconf(_SC_NPROCESSORS_CONF);
	stride = dp_apart_stride(WORDS);
	counts = DP_ALIGN_UP(2ull * ncpus * sizeof(struct dp_counts), PAGE);
	if (!__rseq_size)
		return false;
	all = mmap((void *)(((u64)apart_entry & ~0xffffffull) + (512u << 20)), PAGE + counts + (ncpus + 1) * stride,
		   PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return false;
	code = all;
	words = (u64 *)(all + PAGE + counts);
	ctl = (struct dp_control){.caps = DP_CAP_RSEQ | DP_CAP_TIDOFF | DP_CAP_RDTSCP | DP_CAP_FS_WORD,
				  .rseq_off = (s32)__rseq_offset,
				  .counts = (u64)all + PAGE,
				  .counts_stride = sizeof(struct dp_counts),
				  .ring0 = (u64)all + PAGE,
				  .ring_stride = PAGE,
				  .ring_size = PAGE,
				  .slots = (u64)all + PAGE,
				  .tids = (u64)all + PAGE,
				  .nslots = 1};
	return dp_jit_usable(&ctl);
}

/* All words are zero, but for the keys. */
static void begin(u32 processors, u64 apart)
{
	memset(words, 0, (ncpus + 1) * stride);
	memset((void *)ctl.counts, 0, 2ull * ncpus * sizeof(struct dp_counts));
	fill_table();
	ctl.ncpus = processors;
	ctl.nrings = 2 * processors;
	ctl.apart = apart;
	apart_left = 0;
}

/* Its length; 0: it is none that becomes direct code. */
static u32 compile(const char *text)
{
	struct dp_program p = {.logmax = 512};
	struct dp_code_rt rt;
	struct dp_jit jit = {.ctl = &ctl, .entry = (u64)apart_entry, .zone = true, .flags = true, .rt = &rt};
	struct dp_emit e;

	if (!assemble(&p, text))
		exit(1);
	p.logmax = 512;
	p.nlocals = WORDS;
	p.rpn = (struct dp_rpn_params){.ex_mask = DP_RPN | DP_EX_DEFAULT, .max = DP_MAXHITS_NONE};
	dp_program_to_rt(&p, &rt);
	rt.locals = (u64)words;
	dp_emit_init(&e, code, DP_JIT_MAX, (u64)code);
	apart_target = (u64)code + DP_JIT_ENTRY;
	if (dp_jit_compile(&e, p.code, p.len, &jit))
		e.len = 0;
	free(p.code);
	return (u32)e.len;
}

/* What a detour does. False: a register has changed. */
static bool hit(u64 value, u64 key)
{
	u64 di = value, si = key, dx = ~value, cx = ~key;

	__asm__ volatile("lea -128(%%rsp), %%rsp; push %%rdi; mov $7, %%edi; call *apart_target(%%rip); pop %%rdi\n"
			 "lea 128(%%rsp), %%rsp"
			 : "+D"(di), "+S"(si), "+d"(dx), "+c"(cx)
			 :
			 : "memory", "cc");
	return di == value && si == key && dx == ~value && cx == ~key;
}

/* ---- threads ---- */

static u64 value_of(u64 i)
{
	return i * 37 % 1000;
}

static volatile u32 running;
static u64 changed, interrupts;

static void *work(void *arg)
{
	u64 bad = 0;

	for (u64 i = 0; i < HITS; i++)
		bad += !hit(value_of(i), i % 8);
	__atomic_fetch_add(&changed, bad, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED);
	return arg;
}

/* A hit as the first one of a thread, wherever another hit is. */
static void on_tick(int sig)
{
	bool good = hit(value_of(0), 0);

	(void)sig;
	__atomic_fetch_add(&interrupts, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&changed, !good, __ATOMIC_RELAXED);
}

static void put_on(pthread_t t, u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(t, sizeof(set), &set); /* where there is no such processor, nothing happens */
}

/* All threads at once, from one processor to another. */
static void run_threads(void)
{
	struct itimerval often = {{0, 100}, {0, 100}}, never = {0};
	u64 seed = 88172645463325252ull;
	pthread_t t[THREADS];

	running = THREADS;
	changed = interrupts = 0;
	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	for (u32 i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, NULL);
	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		u64 r = next_random(&seed);

		put_on(t[r % THREADS], (u32)(r >> 8) % ncpus);
		usleep(20);
	}
	for (u32 i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- what must be there ---- */

static u64 read_word(u32 at)
{
	return dp_apart_read(words + at, (struct dp_apart){stride, ncpus});
}

static u64 times(u64 i) /* hits of this number */
{
	return THREADS + (i ? 0 : interrupts);
}

static u64 hits(void)
{
	return (u64)THREADS * HITS + interrupts;
}

static bool right_bars(u32 at, u32 n, bool quantiles)
{
	static u64 want[DP_QUANTILE_WORDS];

	memset(want, 0, sizeof(want));
	for (u64 i = 0; i < HITS; i++) {
		u64 v = value_of(i);
		u32 bar = quantiles ? dp_quantile_bar((s64)v) : v ? 64 - (u32)__builtin_clzll(v) : 0;

		want[bar] += times(i);
	}
	for (u32 i = 0; i < n; i++)
		if (read_word(at + i) != want[i])
			return false;
	return true;
}

static bool right_sum(void)
{
	u64 sum = 0;

	for (u64 i = 0; i < HITS; i++)
		sum += value_of(i) * times(i);
	return read_word(SUM) == sum && read_word(SUM + 1) == hits();
}

static bool right_table(void)
{
	u64 found = 0;

	for (u32 i = 0; i < KEYS; i++) {
		u32 at = TABLE + 1 + 3 * i;

		if (!words[at])
			continue;
		found++;
		if (read_word(at + 2) != (u64)THREADS * (HITS / 8) + (words[at + 1] ? 0 : interrupts))
			return false;
	}
	return found == 8;
}

#define HAS_COUNT 1u
#define HAS_SUM 2u
#define HAS_HIST 4u
#define HAS_QUANTILES 8u
#define HAS_ENDS 16u
#define HAS_TABLE 32u

#define P_COUNT "push d, 0; push d, 0; fold lv, 0x100; "
#define P_SUM "pushr di; push d, 2; fold lv, 0x101; "
#define P_HIST "pushr di; push d, 8; fold lv, 0x104; "
#define P_QUANTILES "pushr di; push d, 80; fold lv, 0x107; "
#define P_ENDS "pushr di; push d, 340; fold lv, 2; pushr di; push d, 342; fold lv, 3; "
#define P_LATEST "pushr di; push d, 344; fold lv, 5; "
#define P_TABLE "push d, 0; pushr si; find lv, 1, 400, 16, 1; fold lv, 0x100; "

static const struct {
	const char *name, *code;
	u32 has;
} programs[] = {
    {"a count", P_COUNT, HAS_COUNT},
    {"a sum", P_SUM, HAS_SUM},
    {"a histogram", P_HIST, HAS_HIST},
    {"quantiles", P_QUANTILES, HAS_QUANTILES},
    {"counts by a key", P_TABLE, HAS_TABLE},
    {"a count, a sum and a histogram", P_COUNT P_SUM P_HIST, HAS_COUNT | HAS_SUM | HAS_HIST},
    {"quantiles and a count", P_QUANTILES P_COUNT, HAS_QUANTILES | HAS_COUNT},
    {"the smallest, the greatest and a count", P_ENDS P_COUNT, HAS_ENDS | HAS_COUNT},
    {"the smallest, the greatest and a sum", P_ENDS P_SUM, HAS_ENDS | HAS_SUM},
    {"counts by a key behind the smallest, the greatest and the latest", P_ENDS P_LATEST P_TABLE P_HIST,
     HAS_ENDS | HAS_TABLE | HAS_HIST},
};

static bool is_right(u32 has)
{
	return !changed && (!(has & HAS_COUNT) || read_word(COUNT) == hits()) && (!(has & HAS_SUM) || right_sum()) &&
	       (!(has & HAS_HIST) || right_bars(HIST, DP_HIST_WORDS, false)) &&
	       (!(has & HAS_QUANTILES) || right_bars(QUANTILES, DP_QUANTILE_WORDS, true)) &&
	       (!(has & HAS_TABLE) || right_table()) && (!(has & HAS_ENDS) || (!words[LEAST] && words[MOST] == 999));
}

static u64 filtered(void)
{
	u64 sum = 0;

	for (u32 c = 0; c < ctl.ncpus; c++)
		sum += ((struct dp_counts *)(ctl.counts + c * ctl.counts_stride))->v[DP_COUNT_FILTERED];
	return sum;
}

/* Whether the words themselves have it all. */
static bool is_in_place(void)
{
	for (u32 i = 0; i < WORDS; i++)
		if (dp_apart_added(words + i, (struct dp_apart){stride, ncpus}))
			return false;
	return true;
}

static void test_program(u32 i, u64 apart)
{
	char text[1024];
	u32 len;

	begin(ncpus, apart);
	dp_format(text, sizeof(text), "begin; %sabort", programs[i].code);
	len = compile(text);
	ok(len, "%s: becomes machine code of %u bytes", programs[i].name, len);
	if (!len)
		return;
	run_threads();
	ok(is_right(programs[i].has), "%llu hits, %s: exact", (unsigned long long)hits(), programs[i].name);
	ok(!apart_left && filtered() == hits(), "each is counted, and none left to the entry");
	ok(is_in_place() == !apart, "what was added stands %s", apart ? "apart" : "in the words themselves");
}

/* ---- threads whose area is not what it should be ---- */

static void *work_unregistered(void *arg)
{
	void *area = (u8 *)__builtin_thread_pointer() + __rseq_offset;

	/* The C library has registered so many bytes, or 32. */
	if (syscall(SYS_rseq, area, DP_MAX(__rseq_size, 32u), 1, RSEQ_SIG))
		return NULL;
	for (u64 i = 0; i < HITS / 100; i++)
		hit(value_of(i), i % 8);
	return arg;
}

static void test_unregistered(void)
{
	pthread_t t;
	void *r;

	begin(ncpus, stride);
	compile("begin; " P_COUNT P_SUM "abort");
	pthread_create(&t, NULL, work_unregistered, code);
	pthread_join(t, &r);
	if (!r) {
		ok(true, "a thread without an area # SKIP it cannot be unregistered");
		return;
	}
	ok(apart_left == HITS / 100 && !read_word(COUNT) && !read_word(SUM) && !filtered(),
	   "a thread without an area leaves all to the entry");
}

/* Processors beyond those that have words: there all is left to the entry, or a hit comes there on its way. */
static void test_too_few(void)
{
	begin(1, stride);
	compile("begin; " P_COUNT P_SUM "abort");
	run_threads();
	ok(filtered() + apart_left == hits() && read_word(COUNT) == filtered() && read_word(SUM + 1) == filtered(),
	   "%llu of %llu hits where processors have no words are left to the entry; all others are added once",
	   (unsigned long long)apart_left, (unsigned long long)hits());
	ok(ncpus == 1 || apart_left, "there are some");
}

/* ---- breakpoints between the instructions ---- */

static u8 *volatile trap_at, trap_was;
static volatile u32 trapped_on; /* processor that had been told */
static u32 traps, restarts, late;

/* The thread goes on where it was, or where the kernel has sent it to; but on the next processor. */
static void on_trap(int sig, siginfo_t *info, void *context)
{
	u64 *ip = (u64 *)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	u64 *copy = words + (1 + trapped_on) * (stride / 8);

	*trap_at = trap_was;
	traps++;
	if (*ip == (u64)trap_at + 1)
		*ip = (u64)trap_at;
	else
		restarts++;
	late += *copy != 0;
	put_on(pthread_self(), (trapped_on + 1) % 2);
}

/* One hit that is moved in front of that instruction. False: it was not added once, or to another processor's word. */
static bool moved_at(u32 at)
{
	u32 late_before = late;
	u32 on, next = (trapped_on + 1) % 2;
	bool good;

	begin(ncpus, stride);
	put_on(pthread_self(), trapped_on);
	trap_at = code + at;
	trap_was = *trap_at;
	*trap_at = 0xcc;
	good = hit(5, 0);
	*trap_at = trap_was;
	on = late != late_before ? trapped_on : next;
	return good && read_word(COUNT) == 1 && words[(1 + on) * (stride / 8)] == 1;
}

static void test_moved(void)
{
	const struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	struct dp_insn in;
	u32 len, bad = 0, before;
	cpu_set_t all;

	if (ncpus < 2) {
		ok(true, "a hit that is moved anywhere # SKIP one processor");
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	sigaction(SIGTRAP, &act, NULL);
	begin(ncpus, stride);
	len = compile("begin; " P_COUNT "abort");
	for (u32 at = DP_JIT_ENTRY; at < len && dp_insn_decode(&in, code + at, len - at) > 0; at += in.len)
		for (trapped_on = 0; trapped_on < 2; trapped_on++) {
			before = traps;
			if (!moved_at(at) && traps != before) {
				printf("# moved from processor %u at byte %u\n", trapped_on, at);
				bad++;
			}
		}
	signal(SIGTRAP, SIG_DFL);
	sched_setaffinity(0, sizeof(all), &all);
	ok(!bad && traps > 20 && late && late < traps,
	   "a hit that is moved in front of any instruction is added once, where it is by then");
	ok(restarts >= 2 * 2 * 3, "%u of %u were in a sequence, and began it again", restarts, traps);
}

/* A reader that finds the words sets the sum, not the word. */
static void test_set(void)
{
	const struct dp_apart apart = {stride, ncpus};

	begin(ncpus, stride);
	for (u32 c = 0; c <= ncpus; c++)
		words[c * (stride / 8)] = 100 + c;
	ok(dp_apart_read(words, apart) == 100ull * (ncpus + 1) + (u64)ncpus * (ncpus + 1) / 2, "the sum of all");
	dp_apart_set(words, apart, 7);
	ok(dp_apart_read(words, apart) == 7 && words[ncpus * (stride / 8)] == 100 + ncpus,
	   "it is set, and what the processors have stays");
	dp_apart_clear(words, apart);
	ok(!dp_apart_read(words, apart) && !words[0] && !words[ncpus * (stride / 8)], "all are cleared");
	words[0] = 5;
	ok(dp_apart_read(words, (struct dp_apart){0, 0}) == 5, "a word alone");
}

/* Where it is asked for, the process is not known yet. */
static void test_length(void)
{
	static const u64 strides[] = {0, 4096, 1u << 20, 1u << 30};
	u32 len, bad = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(programs); i++) {
		char text[1024];

		dp_format(text, sizeof(text), "begin; %sabort", programs[i].code);
		begin(ncpus, stride);
		len = compile(text);
		for (u32 k = 0; k < DP_ARRAY_SIZE(strides); k++)
			for (u32 way = 0; way < 2; way++) {
				const struct dp_control before = ctl;

				ctl.apart = strides[k];
				ctl.rseq_off = (s32[]){0, 64, 1024, -100000}[k];
				ctl.ncpus = (u32[]){1, 200, 1000, 4}[k];
				if (way)
					ctl.caps &= ~(u32)DP_CAP_RSEQ;
				bad += compile(text) != len;
				ctl = before;
			}
	}
	ok(!bad, "the length of the code is the same, whatever ctl holds");
}

int main(void)
{
	if (!make_world()) {
		printf("ok 1 - words that stand apart # SKIP the C library registers no restartable sequences\n1..1\n");
		return 0;
	}
	test_set();
	test_length();
	for (u32 i = 0; i < DP_ARRAY_SIZE(programs); i++) {
		test_program(i, stride);
		test_program(i, 0);
	}
	test_moved();
	test_unregistered();
	test_too_few();
	return done();
}
