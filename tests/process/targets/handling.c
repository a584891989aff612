/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a program sees of its SIGTRAP and SIGSEGV handlers, written down case by case: the same text with probes and without.
 * Usage: handling FLAGS MASK: the flags of both actions ("default" and "ignore": no handler), and the signals blocked
 * by them, in hexadecimal. Commands: "taken": which handlers are not its own; "run": all cases, each in a child;
 * "wait SIGNAL CAUSE ALT": one in the process itself, whose handler says "inside" and waits for a line; "end".
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct action { /* the kernel's */
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

enum cause { RAISED, QUEUED, KILLED, INSTRUCTION, NOT_CANONICAL, OVERFLOWN, NCAUSES };
enum alt { NONE, THERE, DISARMS, ON_IT, NALTS };

static const char *const cause_names[] = {"raised", "queued", "killed", "instruction", "not-canonical", "overflown"};
static const char *const alt_names[] = {"none", "there", "disarms", "on-it"};
static char alt_stack[65536] __attribute__((aligned(4096)));
static char *trap_page;
static volatile int depth, waits, skips_out;
static volatile int *entered; /* shared with children */
static int nested;
static struct action own[2];
static sigjmp_buf out;
static FILE *text;

extern char breakpoint[], bad_load[];

/* Two instructions lie in the five bytes of a jump, the second at its last byte. */
__attribute__((naked, noinline)) long step(long a)
{
	__asm__("push %rbp\n\tmov %rsp, %rbp\n\tlea 1(%rdi), %rax\n\tpop %rbp\n\tret");
}

static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(text, fmt, ap);
	va_end(ap);
}

static unsigned long blocked(void)
{
	unsigned long now = 0;

	syscall(SYS_rt_sigprocmask, 0, NULL, &now, 8);
	return now;
}

static void on_usr1(int sig)
{
	say(" [%d at depth %d]", sig, depth);
}

static int on_alt(const void *p)
{
	return (const char *)p >= alt_stack && (const char *)p < alt_stack + sizeof(alt_stack);
}

static void tell(int sig, const siginfo_t *si, ucontext_t *uc, const char *frame)
{
	const greg_t *g = uc->uc_mcontext.gregs;
	unsigned csr = 0;
	stack_t ss = {0};

	__asm__ volatile("stmxcsr %0" : "=m"(csr));
	sigaltstack(NULL, &ss);
	say(" {%d code %d mask %lx was %lx alt %d/%x/%zx of frame %x/%zx", sig, si->si_code, blocked(), *(unsigned long *)&uc->uc_sigmask, on_alt(frame), ss.ss_flags,
	    ss.ss_size, uc->uc_stack.ss_flags, uc->uc_stack.ss_size);
	say(" frame %zd %zd %d restorer %d", (const char *)uc - frame, (const char *)si - frame, (int)((uintptr_t)frame & 15),
	    *(void *const *)frame == own[sig == SIGSEGV].restorer);
	say(" fp %d csr %x df %d", uc->uc_mcontext.fpregs != NULL && !((uintptr_t)uc->uc_mcontext.fpregs & 63), csr, (int)(__builtin_ia32_readeflags_u64() >> 10 & 1));
	say(" zone %d", on_alt(frame) == on_alt((void *)g[REG_RSP]) ? (const char *)g[REG_RSP] - (const char *)uc->uc_mcontext.fpregs >= 128 : -1);
	if (si->si_code <= 0)
		say(" from %d value %lx", si->si_pid == getpid(), si->si_code == SI_QUEUE ? (long)si->si_value.sival_ptr : 0);
	if (g[REG_RIP] == (greg_t)breakpoint)
		say(" at breakpoint trap %lld", g[REG_TRAPNO]);
	if (g[REG_RIP] == (greg_t)bad_load)
		say(" at load trap %lld err %lld page %d cr2 %d", g[REG_TRAPNO], g[REG_ERR], si->si_addr == trap_page, g[REG_CR2] == (greg_t)trap_page);
	say("}");
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	const char *frame = (const char *)__builtin_frame_address(0) + 8;
	ucontext_t *uc = context;
	char line[64];

	depth++;
	tell(sig, si, uc, frame);
	if (waits) {
		printf("inside\n");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			_exit(3);
	}
	step(depth);
	if ((*entered)++ == 0 && !waits) {
		raise(SIGUSR1);
		if (nested)
			raise(sig);
	}
	if (si->si_code == SEGV_ACCERR)
		mprotect(trap_page, 4096, PROT_READ | PROT_WRITE);
	else if (sig == SIGSEGV && si->si_code == SI_KERNEL)
		uc->uc_mcontext.gregs[REG_RAX] = (greg_t)alt_stack;
	depth--;
	if (skips_out)
		siglongjmp(out, 1);
}

/* int3 with values in registers and in the red zone. 0: all are as before. */
static __attribute__((noinline)) long breaks(void)
{
	long bad;

	__asm__ volatile("movq $0x1111, %%rbx\n\tmovq $0x2222, %%r8\n\tmovq $0x3333, %%r12\n\tmovq %%r8, %%xmm7\n\tmovq $0x4444, -128(%%rsp)\n\tmovq $0x5555, -8(%%rsp)\n\t"
			 "std\n\tint3\n\t.globl breakpoint\nbreakpoint: pushfq\n\tcld\n\tpop %%rax\n\tnot %%rax\n\tand $0x400, %%rax\n\tsub $0x1111, %%rbx\n\tsub $0x2222, %%r8\n\t"
			 "sub $0x3333, %%r12\n\tmovq %%xmm7, %%rcx\n\tsub $0x2222, %%rcx\n\tor %%rbx, %%rax\n\tor %%r8, %%rax\n\tor %%r12, %%rax\n\tor %%rcx, %%rax\n\t"
			 "movq -128(%%rsp), %%rcx\n\tsub $0x4444, %%rcx\n\tor %%rcx, %%rax"
			 : "=a"(bad) : : "rbx", "rcx", "r8", "r12", "xmm7", "memory", "cc");
	return bad;
}

static __attribute__((noinline)) long loads(const void *from)
{
	long v = (long)from;

	__asm__ volatile(".globl bad_load\nbad_load: mov (%%rax), %%rax" : "+a"(v) : : "memory");
	return v;
}

static __attribute__((noinline)) long recurses(long n)
{
	volatile char much[4096];

	much[0] = (char)n;
	return n < 0 ? n : recurses(n + 1) + much[0];
}

static long overflows(void)
{
	skips_out = 1;
	return sigsetjmp(out, 1) ? 0 : recurses(0);
}

/* The system call in which it waits; -1: none. */
static long call_of(pid_t pid)
{
	char path[64];
	long nr = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%ld", &nr) != 1)
		nr = -1;
	if (f)
		fclose(f);
	return nr;
}

/* Sent while the process waits in a read: that goes on, or ends. */
static long is_killed(int sig)
{
	int ends[2], n;
	char c;
	pid_t me = getpid();

	if (pipe(ends))
		return 99;
	if (!fork()) {
		while (call_of(me) != 0)
			usleep(1000);
		kill(me, sig);
		while ((uintptr_t)own[0].handler > 1 && !*entered) /* then the read has ended, or goes on */
			usleep(1000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	n = (int)read(ends[0], &c, 1);
	if (n < 0)
		wait(NULL);
	return n;
}

static long happens(int sig, enum cause cause)
{
	switch (cause) {
	case RAISED:
		return raise(sig);
	case QUEUED:
		return sigqueue(getpid(), sig, (union sigval){.sival_ptr = (void *)0x1234567890});
	case KILLED:
		return is_killed(sig);
	case INSTRUCTION:
		return sig == SIGTRAP ? breaks() : loads(trap_page);
	case NOT_CANONICAL:
		return sig == SIGTRAP ? 0 : loads((void *)0x8000000000000000ul) == 0;
	default:
		return sig == SIGTRAP ? 0 : overflows();
	}
}

static struct {
	int sig;
	enum cause cause;
	long result;
} there;

static void on_usr2(int sig)
{
	(void)sig;
	there.result = happens(there.sig, there.cause);
}

static void set_alt(enum alt alt)
{
	stack_t ss = {.ss_sp = alt_stack, .ss_size = sizeof(alt_stack), .ss_flags = alt == DISARMS ? (int)(1u << 31) : 0};

	if (alt != NONE)
		sigaltstack(&ss, NULL);
}

static void one(int sig, enum cause cause, enum alt alt)
{
	unsigned csr = 0x7f80;
	stack_t ss = {0};

	set_alt(alt);
	there.sig = sig;
	there.cause = cause;
	__asm__ volatile("ldmxcsr %0" : : "m"(csr));
	if (alt == ON_IT)
		raise(SIGUSR2);
	else
		there.result = happens(sig, cause);
	__asm__ volatile("stmxcsr %0" : "=m"(csr));
	sigaltstack(NULL, &ss);
	say(" result %ld mask %lx alt %x/%zx csr %x entered %d\n", there.result, blocked(), ss.ss_flags, ss.ss_size, csr & 0xffc0, *entered);
}

/* In a child, whose text comes through a pipe: it may die in the middle. */
static void in_child(int sig, enum cause cause, enum alt alt, int blocks)
{
	char line[8192];
	size_t n, all = 0;
	int ends[2], status;
	pid_t pid;

	if (pipe(ends))
		exit(1);
	fflush(stdout);
	*entered = 0;
	pid = fork();
	if (!pid) {
		struct rlimit small = {256 * 1024, 256 * 1024}, whole = {RLIM_INFINITY, RLIM_INFINITY};

		if (cause == INSTRUCTION && alt == NONE && !nested)
			setrlimit(RLIMIT_CORE, &whole);
		if (cause == OVERFLOWN)
			setrlimit(RLIMIT_STACK, &small);
		text = fdopen(ends[1], "w");
		setvbuf(text, NULL, _IONBF, 0);
		if (blocks) {
			unsigned long set = 1ul << (sig - 1);

			syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
		}
		one(sig, cause, alt);
		_exit(0);
	}
	close(ends[1]);
	while ((n = (size_t)read(ends[0], line + all, sizeof(line) - 1 - all)) > 0 && n != (size_t)-1)
		all += n;
	close(ends[0]);
	line[all] = '\0';
	waitpid(pid, &status, 0);
	printf("%d %s alt=%s%s%s:%s%s -> %s %d core %d\n", sig, cause_names[cause], alt_names[alt], nested ? " nested" : "", blocks ? " blocked" : "",
	       line, line[all ? all - 1 : 0] == '\n' ? "" : " (cut)", WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), WIFSIGNALED(status) && WCOREDUMP(status));
}

static void run_all(void)
{
	static const int sigs[] = {SIGTRAP, SIGSEGV};

	for (int s = 0; s < 2; s++)
		for (int cause = 0; cause < NCAUSES; cause++)
			for (int alt = 0; alt < NALTS; alt++) {
				/* What lies below the alternate stack is the program's data. */
				if ((sigs[s] == SIGTRAP && cause > INSTRUCTION) || (cause == OVERFLOWN && alt == ON_IT))
					continue;
				for (nested = 0; nested < (cause == RAISED || cause == INSTRUCTION ? 2 : 1); nested++)
					in_child(sigs[s], cause, alt, 0);
				nested = 0;
				if (alt == THERE && cause != KILLED)
					in_child(sigs[s], cause, alt, 1);
			}
}

static int index_of(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	exit(2);
}

/* In the process itself; all that happens in the handler ends in nothing. */
static void wait_inside(const char *line)
{
	char cause[32], alt[32];
	int sig;

	if (sscanf(line, "wait %d %31s %31s", &sig, cause, alt) != 3)
		exit(2);
	waits = 1;
	*entered = 0;
	one(sig, index_of(cause_names, NCAUSES, cause), index_of(alt_names, NALTS, alt));
	mprotect(trap_page, 4096, PROT_NONE);
	waits = 0;
	printf("entered %d\n", *entered);
}

int main(int argc, char **argv)
{
	struct action a = {.handler = (void *)on_signal};
	struct sigaction usr1 = {.sa_handler = on_usr1}, usr2 = {.sa_handler = on_usr2, .sa_flags = SA_ONSTACK};
	char line[128];

	if (argc < 3)
		return 2;
	text = fopen("/dev/null", "w");
	entered = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	trap_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGUSR1, &usr1, NULL);
	sigaction(SIGUSR2, &usr2, NULL);
	syscall(SYS_rt_sigaction, SIGUSR1, NULL, &own[0], 8);
	a.restorer = own[0].restorer;
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, RLIM_INFINITY});
	if (!strcmp(argv[1], "default") || !strcmp(argv[1], "ignore"))
		a.handler = strcmp(argv[1], "ignore") ? SIG_DFL : SIG_IGN;
	else
		a.flags = strtoul(argv[1], NULL, 16);
	a.flags |= 0x04000000; /* SA_RESTORER */
	a.mask = strtoul(argv[2], NULL, 16);
	own[0] = own[1] = a;
	syscall(SYS_rt_sigaction, SIGTRAP, &a, NULL, 8);
	syscall(SYS_rt_sigaction, SIGSEGV, &a, NULL, 8);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n")) {
		if (!strcmp(line, "run\n"))
			run_all();
		else if (!strncmp(line, "wait", 4))
			wait_inside(line);
		else if (!strcmp(line, "taken\n"))
			for (int s = SIGTRAP; s <= SIGSEGV; s += SIGSEGV - SIGTRAP)
				if (!syscall(SYS_rt_sigaction, s, NULL, &a, 8) && (a.handler != own[0].handler || a.mask != own[0].mask))
					printf("%d\n", s);
		step(1);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
