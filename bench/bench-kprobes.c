/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a probe of libdprobes costs, in the rows of section 6 of kprobes.txt, with the kernel's
 * uprobes on the same functions in the same run. All contenders take turns; the medians of the time
 * added to a call are shown.
 *
 * Usage: bench-kprobes [ROUNDS]
 */
#include <errno.h>
#include <link.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "dprobes/kprobes.h"

#define ROUNDS 9     /* at most */
#define NEAR 2000000 /* calls in a round, for what takes nanoseconds */
#define FAR 20000    /* for what traps */
#define SLICES 100

/* The ordinary entry, and one that the kernel's uprobes cannot emulate. */
__asm__(".text\n.p2align 6\n"
	".globl bench_push\n.type bench_push, @function\n"
	"bench_push: push %rbp\nmov %rsp, %rbp\nlea 1(%rdi), %rax\npop %rbp\nret\n"
	".size bench_push, . - bench_push\n"
	".p2align 6\n"
	".globl bench_sub\n.type bench_sub, @function\n"
	"bench_sub: sub $24, %rsp\nlea 1(%rdi), %rax\nadd $24, %rsp\nret\n"
	".size bench_sub, . - bench_sub\n"
	".globl bench_trap\n.type bench_trap, @function\n"
	"bench_trap: int3\nret\n"
	".size bench_trap, . - bench_trap\n");
long bench_push(long x), bench_sub(long x), bench_trap(long x);

__attribute__((target("general-regs-only"))) static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

/* What it calls cannot be seen: the vector registers have to be saved. */
static int (*volatile unknown)(struct kprobe *, struct pt_regs *) = pre;

static int pre_unknown(struct kprobe *p, struct pt_regs *regs)
{
	return unknown(p, regs);
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static long jentry(long x)
{
	jprobe_return();
	return 0;
}

static void on_trap(int sig)
{
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The median of SLICES short ones: what else runs on the machine interrupts a few of them. */
static double per_call(long (*f)(long), long n)
{
	double v[SLICES];

	for (int s = 0; s < SLICES; s++) {
		double begin = now_ns();

		for (long i = 0; i < n / SLICES; i++)
			f(i);
		v[s] = (now_ns() - begin) / (double)(n / SLICES);
	}
	return bench_median(v, SLICES);
}

/* ---- contenders ---- */

struct kind {
	const char *row, *what;
	const char *seed; /* x86-64 figures of the seed, microseconds */
	bool k, k_post, k_vectors, r, j, jump;
	int uprobe; /* 1 entry, 2 return */
	bool far;
};

static const struct kind kinds[] = {
    {"k", "kprobe: breakpoint, pre and post handler", "0.49  0.99", .k = true, .k_post = true, .far = true},
    {"b", "kprobe: breakpoint, boosted", "      0.43", .k = true, .far = true},
    {"o", "kprobe: optimised", "      0.06", .k = true, .jump = true},
    {"ov", "the same, vector registers saved", "", .k = true, .k_vectors = true, .jump = true},
    {"r", "return probe, entry with a post handler", "0.80  1.24", .k = true, .k_post = true, .r = true, .far = true},
    {"rb", "return probe: breakpoint, boosted", "      0.68", .r = true, .far = true},
    {"ro", "return probe: optimised", "      0.30", .r = true, .jump = true},
    {"j", "jprobe", "0.76      ", .j = true, .far = true},
    {"jr", "jprobe and return probe", "1.07      ", .j = true, .r = true, .far = true},
    {"kr", "kprobe and return probe, breakpoint", "0.82      ", .k = true, .r = true, .far = true},
    {"kro", "kprobe and return probe, optimised", "", .k = true, .r = true, .jump = true},
    {"u", "kernel uprobe, counting", "", .uprobe = 1, .far = true},
    {"ur", "kernel uretprobe, counting", "", .uprobe = 2, .far = true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static int rounds = ROUNDS;
static unsigned long file_offset;

static int find_offset(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long addr = *(unsigned long *)arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && addr - info->dlpi_addr - ph->p_vaddr < ph->p_filesz)
			file_offset = addr - info->dlpi_addr - ph->p_vaddr + ph->p_offset;
	}
	return 1; /* the first is the program */
}

static int open_uprobe(long (*f)(long), bool is_return)
{
	unsigned long addr = (unsigned long)f;
	struct perf_event_attr attr = {.size = sizeof(attr), .config = is_return};
	static char exe[4096];
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (!file || fscanf(file, "%d", &type) != 1 || readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		type = -1;
	if (file)
		fclose(file);
	if (type < 0)
		return -1;
	dl_iterate_phdr(find_offset, &addr);
	attr.type = (unsigned)type;
	attr.uprobe_path = (unsigned long)exe;
	attr.probe_offset = file_offset;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

#define FAILED -1e9

/* One turn: nanoseconds added to a call, or FAILED. */
static double turn(const struct kind *k, long (*f)(long))
{
	struct kprobe kp = {.addr = (kprobe_opcode_t *)f,
			    .pre_handler = k->k_vectors ? pre_unknown : pre,
			    .post_handler = k->k_post ? post : NULL};
	struct kretprobe rp = {.kp.addr = (kprobe_opcode_t *)f, .handler = ret};
	struct jprobe jp = {.kp.addr = (kprobe_opcode_t *)f, .entry = jentry};
	long n = k->far ? FAR : NEAR;
	double base = per_call(f, n), with;
	int fd = -1, bad = 0;

	dp_kprobes_optimization(k->jump);
	if (k->k)
		bad |= register_kprobe(&kp);
	if (k->r)
		bad |= register_kretprobe(&rp);
	if (k->j)
		bad |= register_jprobe(&jp);
	if (k->uprobe)
		bad |= (fd = open_uprobe(f, k->uprobe == 2)) < 0;
	if (k->jump && k->k && !(kp.flags & KPROBE_FLAG_OPTIMIZED))
		bad = 1;
	per_call(f, n / 10);
	with = per_call(f, n);
	if (k->k)
		unregister_kprobe(&kp);
	if (k->r)
		unregister_kretprobe(&rp);
	if (k->j)
		unregister_jprobe(&jp);
	if (fd >= 0)
		close(fd);
	return bad ? FAILED : with - base;
}

static double median_of(const struct kind *k, long (*f)(long), double v[KINDS][ROUNDS])
{
	double *mine = v[k - kinds];

	for (int i = 0; i < rounds; i++)
		if (mine[i] == FAILED)
			return FAILED;
	return bench_median(mine, (size_t)rounds);
}

static void show(double ns)
{
	if (ns == FAILED)
		printf("%12s", "-");
	else if (ns < 1000)
		printf("%9.1f ns", ns);
	else
		printf("%9.2f us", ns / 1000);
}

int main(int argc, char **argv)
{
	static double v[2][KINDS][ROUNDS];
	double trap[ROUNDS];
	struct sigaction sa = {.sa_handler = on_trap}, old;
	long (*const funcs[])(long) = {bench_push, bench_sub};

	if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) < ROUNDS)
		rounds = atoi(argv[1]);
	sigaction(SIGTRAP, &sa, &old);
	for (int i = 0; i < rounds; i++)
		trap[i] = per_call(bench_trap, FAR);
	sigaction(SIGTRAP, &old, NULL);
	for (int i = 0; i < rounds; i++)
		for (size_t k = 0; k < KINDS; k++)
			for (int f = 0; f < 2; f++)
				v[f][k][i] = turn(&kinds[k], funcs[f]);
	printf("Time added to a call; functions that begin with `push %%rbp` and with `sub "
	       "$24,%%rsp`; medians of %d.\n",
	       rounds);
	printf("Seed: kprobes.txt, microseconds on x86-64: Opteron 246 (2005), Xeon E5410.\n\n");
	printf("%-4s %-44s %12s%12s   %s\n", "", "", "push", "sub", "seed");
	for (size_t k = 0; k < KINDS; k++) {
		printf("%-4s %-44s ", kinds[k].row, kinds[k].what);
		for (int f = 0; f < 2; f++)
			show(median_of(&kinds[k], funcs[f], v[f]));
		printf("   %s\n", kinds[k].seed);
	}
	printf("%-4s %-44s ", "", "a bare SIGTRAP round trip");
	show(bench_median(trap, (size_t)rounds));
	printf("\n");
	return 0;
}
