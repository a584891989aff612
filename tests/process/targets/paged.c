/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Pages to be watched, and everything that may be stored there in ways that differ. Usage: paged [MODE], MODE one of plain, blocked,
 * ignored, handled: what the program does about SIGTRAP. Each line on standard input is a command; the answer is "ok".
 *	add I N		table[I] += 1, N times, in this thread
 *	apart T N	T new threads, N times each, each on a page of its own: table[512 * thread]
 *	same T N	T new threads, N times each, all on table[0], by locked additions
 *	mixed T N	T new threads, N times each: a locked addition to table[0], the four stores of far, a string over 24 bytes
 *	close N		closes the descriptors of /proc/self/pagemap, then table[6] += 1, N times
 *	kinds		stores of every kind, one after the other, to kinds_at on
 *	get I N		read() of N bytes into table[I]; gets I N: by readv in two pieces, the second one first in memory
 *	beside N	before[] and after[], N times: neighbours on the same pages
 *	far N		table[4095] is written by an instruction that names it by its distance, N times
 *	abort N		restartable sequences that store to table[0], N times
 *	jumps N		table[1] += 1, then a SIGSEGV whose handler stores to table[2] and leaves by siglongjmp, N times
 *	alarms N	table[3] += 1, N times, interrupted by a handler that adds to table[4]; tells how often: "alarms M"
 *	fork N, vfork N	the same as add 0 N in a child, which looks at its own copy
 *	vary		unmaps, protects and maps again what lies behind the table, and discards pages of it
 *	spin, rest	two threads work on table[5] and table[1024] until then
 *	exec		runs cat
 *	end		prints the sum of the table
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traps.h"

#define WORDS 4096

struct {
	volatile long pad[500], before[12];
	volatile long table[WORDS];
	volatile long after[12], more[500];
} all __attribute__((aligned(4096)));

static sigjmp_buf back;
static volatile sig_atomic_t alarms, spinning;
static pthread_t spinners[2];

struct job {
	long at, times;
};

__attribute__((noinline)) void bump(volatile long *p)
{
	__atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	struct job *j = arg;

	for (long i = 0; i < j->times; i++)
		bump(&all.table[j->at]);
	return NULL;
}

static void *spin(void *arg)
{
	while (spinning)
		bump(&all.table[(long)arg]);
	return NULL;
}

static void threads(void *(*fn)(void *), long n, long times, long step)
{
	struct job jobs[64];
	pthread_t v[64];

	for (long i = 0; i < n && i < 64; i++) {
		jobs[i] = (struct job){i * step, times};
		pthread_create(&v[i], NULL, fn, &jobs[i]);
	}
	for (long i = 0; i < n && i < 64; i++)
		pthread_join(v[i], NULL);
}

/* Each store goes 64 bytes behind the one before; %rdi stands there. Sixteen bytes of ones are in xmm0. */
void store_kinds(volatile void *at, volatile void *from);
__asm__(".text\n"
	".globl store_kinds; .type store_kinds, @function\n"
	"store_kinds: push %rbx; push %rbp\n"
	"pcmpeqd %xmm0, %xmm0; mov $-1, %rax; mov $3, %ecx; mov %rdi, %rbp\n"
	"movb %al, (%rdi); add $64, %rdi\n"
	"movw %ax, (%rdi); add $64, %rdi\n"
	"movl $0x1010101, (%rdi); add $64, %rdi\n"
	"movq %rax, (%rdi); add $64, %rdi\n"
	"lock incl (%rdi); add $64, %rdi\n"
	"movups %xmm0, (%rdi); add $64, %rdi\n"
	"movaps %xmm0, (%rdi); add $64, %rdi\n"
	"movdqu %xmm0, (%rdi); add $64, %rdi\n"
	"movntdq %xmm0, (%rdi); add $64, %rdi\n"
	"movss %xmm0, (%rdi); add $64, %rdi\n"
	"movsd %xmm0, (%rdi); add $64, %rdi\n"
	"movq %xmm0, (%rdi); add $64, %rdi\n"
	"movnti %rax, (%rdi); add $64, %rdi\n"
	"setc (%rdi); notb (%rdi); add $64, %rdi\n"
	"bts %rax, 8(%rdi); add $64, %rdi\n"
	"xadd %rax, (%rdi); mov $-1, %rax; add $64, %rdi\n"
	"xchg %rcx, (%rdi); mov $3, %ecx; incl (%rdi); add $64, %rdi\n"
	"shldq $4, %rax, (%rdi); add $64, %rdi\n"
	"fld1; fstpl (%rdi); add $64, %rdi\n"
	"fld1; fstpt (%rdi); add $64, %rdi\n"
	"fnstcw (%rdi); add $64, %rdi\n"
	"mov %rdi, %rbx; rep stosb; mov %rbx, %rdi; add $64, %rdi\n"
	"mov $3, %ecx; mov %rdi, %rbx; rep movsq; mov %rbx, %rdi; add $64, %rdi\n"
	"mov %rdi, %rbx; stosq; mov %rbx, %rdi; add $64, %rdi\n"
	"mov %rsp, %rbx; lea 8(%rdi), %rsp; push %rax; mov %rbx, %rsp; add $64, %rdi\n"
	"fninit; fxsave (%rdi); add $512, %rdi\n"
	"pop %rbp; pop %rbx; ret\n"
	".size store_kinds, . - store_kinds\n"
	".globl store_far; .type store_far, @function\n"
	"store_far: movl $1, all+36860(%rip); incq all+36856(%rip); incq all+36856(%rip); pcmpeqd %xmm0, %xmm0;"
	"movsd %xmm0, all+36848(%rip); ret\n"
	".size store_far, . - store_far\n");
void store_far(void);

static void *mix(void *arg)
{
	struct job *j = arg;

	for (long i = 0; i < j->times; i++) {
		long *to = (long *)&all.table[8 + j->at * 3], n = 3;

		bump(&all.table[0]);
		store_far();
		__asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(i) : "memory");
	}
	return NULL;
}

static void close_pagemap(void)
{
	char path[64], link[64];

	for (int fd = 3; fd < 64; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, link, sizeof(link));
		if (n > 8 && !memcmp(link + n - 8, "/pagemap", 8))
			close(fd);
	}
}

static void read_into(long at, long n, int pieces)
{
	static char text[8192];
	struct iovec v[2] = {{(char *)&all.table[at] + n / 2, n - n / 2}, {(char *)&all.table[at], n / 2}};
	int p[2];

	memset(text, 'x', sizeof(text));
	if (pipe(p) || write(p[1], text, (size_t)n) != n)
		abort();
	if ((pieces ? readv(p[0], v, 2) : read(p[0], (void *)&all.table[at], (size_t)n)) != n)
		printf("the call failed ");
	close(p[0]);
	close(p[1]);
}

static void on_fault(int sig)
{
	(void)sig;
	bump(&all.table[2]);
	siglongjmp(back, 1);
}

static void jumps(long n)
{
	signal(SIGSEGV, on_fault);
	while (n-- > 0) {
		bump(&all.table[1]);
		if (!sigsetjmp(back, 1))
			*(volatile int *)8 = 1;
	}
	signal(SIGSEGV, SIG_DFL);
}

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
	bump(&all.table[4]);
}

static void interrupted(long n)
{
	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	while (n-- > 0)
		bump(&all.table[3]);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("alarms %d\n", (int)alarms);
}

/* The C library's area; a store inside a sequence, which a signal would send to its begin again. */
static void sequences(long n)
{
	extern const ptrdiff_t __rseq_offset;
	struct {
		uint32_t version, flags;
		uint64_t start, post, abort;
	} __attribute__((aligned(32))) cs = {0};
	volatile uint64_t *where = (volatile uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset + 8);
	volatile long *p = &all.table[0];

	while (n-- > 0)
		__asm__ volatile("lea 3f(%%rip), %%rax; mov %%rax, 8+%0\n"
				 "lea 4f(%%rip), %%rcx; sub %%rax, %%rcx; mov %%rcx, 16+%0\n"
				 "lea 5f(%%rip), %%rax; mov %%rax, 24+%0\n"
				 "jmp 2f\n"
				 ".long 0x53053053\n"
				 "5: nop\n"
				 "2: lea %0, %%rax; mov %%rax, %1\n"
				 "3: incq (%2)\n"
				 "4: movq $0, %1\n"
				 : "+m"(cs), "+m"(*where)
				 : "r"(p)
				 : "rax", "rcx", "memory");
}

static void child(long n, pid_t pid)
{
	int status = 0;

	if (!pid) {
		struct job j = {0, n};

		work(&j);
		_exit(7);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		printf("child ended with %#x ", status);
}

/* The last two pages of the table hold nothing that is counted. */
static void vary(void)
{
	char *at = (char *)(((uintptr_t)&all.table[3072] + 4095) & ~4095ul);

	*(volatile char *)at = 0;
	mprotect(at, 4096, PROT_READ);
	mprotect(at, 4096, PROT_READ | PROT_WRITE);
	*(volatile char *)at = 0;
	madvise(at, 4096, MADV_DONTNEED);
	*(volatile char *)at = 0;
	munmap(at, 4096);
	if (mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		abort();
	*(volatile char *)at = 0;
}

/* The alarms are for the first thread: their handler counts, and is not made for several at once. */
static void start_spinning(void)
{
	sigset_t alarm, old;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, &old);
	spinning = 1;
	pthread_create(&spinners[0], NULL, spin, (void *)5);
	pthread_create(&spinners[1], NULL, spin, (void *)1024);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void stop_spinning(void)
{
	spinning = 0;
	for (int i = 0; i < 2; i++)
		pthread_join(spinners[i], NULL);
	all.table[5] = all.table[1024] = 0;
}

int main(int argc, char **argv)
{
	static long from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	char line[128], word[32];
	volatile long sum = 0;
	long a, b;

	set_traps(argc > 1 ? argv[1] : "plain");
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		a = b = 0;
		if (sscanf(line, "%31s %ld %ld", word, &a, &b) < 1)
			continue;
		struct job j = {a, b};
		if (!strcmp(word, "add"))
			work(&j);
		else if (!strcmp(word, "apart"))
			threads(work, a, b, 512);
		else if (!strcmp(word, "same"))
			threads(work, a, b, 0);
		else if (!strcmp(word, "mixed"))
			threads(mix, a, b, 1);
		else if (!strcmp(word, "close"))
			close_pagemap(), j = (struct job){6, a}, work(&j);
		else if (!strcmp(word, "kinds"))
			store_kinds(&all.table[512], from);
		else if (!strcmp(word, "get"))
			read_into(a, b, 0);
		else if (!strcmp(word, "gets"))
			read_into(a, b, 1);
		else if (!strcmp(word, "beside"))
			for (; a > 0; a--)
				all.before[11]++, all.after[0]++;
		else if (!strcmp(word, "far"))
			for (; a > 0; a--)
				store_far();
		else if (!strcmp(word, "abort"))
			sequences(a);
		else if (!strcmp(word, "jumps"))
			jumps(a);
		else if (!strcmp(word, "alarms"))
			interrupted(a);
		else if (!strcmp(word, "fork"))
			child(a, fork());
		else if (!strcmp(word, "vfork"))
			child(a, vfork());
		else if (!strcmp(word, "vary"))
			vary();
		else if (!strcmp(word, "spin"))
			start_spinning();
		else if (!strcmp(word, "rest"))
			stop_spinning();
		else if (!strcmp(word, "clear"))
			memset((void *)all.table, 0, sizeof(all.table));
		else if (!strcmp(word, "raise"))
			raise(SIGTRAP);
		else if (!strcmp(word, "exec"))
			execl("/bin/cat", "cat", (char *)NULL);
		else if (!strcmp(word, "end"))
			break;
		printf("ok\n");
	}
	for (int i = 0; i < WORDS; i++)
		sum += all.table[i];
	printf("sum %ld traps %d\n", sum, (int)traps);
	return 0;
}
