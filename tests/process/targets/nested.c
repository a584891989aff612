/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Handlers with probed calls, and hits that are interrupted. Usage: nested MODE. waits: SIGTRAP is blocked; a handler interrupts slow(), and
 * calls inner() with a word whose reading takes long, until it finds that three calls have taken long, or for a while: what it
 * has interrupted may be a call that a tracer waits for. altstack: two handlers on one alternate signal stack, which call inner(),
 * and one of which interrupts the other and its hits. Prints its counts at SIGTERM; wrong: what a handler keeps on its stack was
 * changed.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WORDS 256
#define PAGE 4096
#define STACK (256 * 1024)
#define LONG_NS 5000000
#define PATIENCE_NS 300000000

static volatile sig_atomic_t stop, inside;
static volatile long outer_runs, inner_runs, wrong;
static char *page;
static pthread_t first;

long slow(long n);

/* Most of its time is in its second instruction, behind which a thread is interrupted: on one that a jump displaces. */
__asm__("	.text\n"
	"	.globl	slow\n"
	"	.type	slow, @function\n"
	"	.balign	16\n"
	"slow:	push	%rbx\n"
	"	cpuid\n"
	"	mov	%edi, %eax\n"
	"	add	$1, %eax\n"
	"	pop	%rbx\n"
	"	ret\n"
	"	.size	slow, . - slow\n");

__attribute__((noinline)) long inner(const char *p, long n)
{
	__asm__ volatile("" : : "r"(p) : "memory");
	return n + 1;
}

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Calls of inner(), among words that nobody else may write. */
static void work(int calls)
{
	volatile long own[WORDS];

	for (int i = 0; i < WORDS; i++)
		own[i] = i;
	for (int i = 0; i < calls; i++)
		wrong += inner(page, i) != i + 1;
	for (int i = 0; i < WORDS; i++)
		wrong += own[i] != i;
}

static void on_outer(int sig)
{
	(void)sig;
	work(400);
	outer_runs++;
}

static void on_inner(int sig)
{
	(void)sig;
	work(2);
	inner_runs++;
}

static void until_hit(int sig)
{
	long begin = now_ns(), first_begin = begin;
	int took_long = 0;

	(void)sig;
	inside = 1;
	for (; took_long < 3 && !stop && begin - first_begin < PATIENCE_NS; begin = now_ns()) {
		work(1);
		took_long += now_ns() - begin > LONG_NS;
	}
	outer_runs++;
	inside = 0;
}

/* Each read of the page waits for a while; and the first thread is sent into its handler again and again. */
static void *keep_waiting(void *arg)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(unsigned long)page, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffdio_zeropage zero = {.range = reg.range};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct uffd_msg msg;

	(void)arg;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		_exit(77);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		if (poll(&p, 1, 10) > 0 && read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
			usleep(20000);
			ioctl(fd, UFFDIO_ZEROPAGE, &zero);
			usleep(2000);
			madvise(page, PAGE, MADV_DONTNEED);
			inner_runs++;
		}
		if (!inside && !stop)
			pthread_kill(first, SIGUSR1);
	}
	return NULL;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags | SA_RESTART};

	sigaction(sig, &sa, NULL);
}

static void use_one_stack(void)
{
	struct itimerval outer = {{0, 5000}, {0, 5000}};
	struct itimerspec inner_at = {{0, 1300000}, {0, 1300000}};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	stack_t ss = {.ss_size = STACK};
	timer_t timer;

	ss.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, NULL);
	handle(SIGALRM, on_outer, SA_ONSTACK);
	handle(SIGUSR2, on_inner, SA_ONSTACK);
	timer_create(CLOCK_MONOTONIC, &ev, &timer);
	timer_settime(timer, 0, &inner_at, NULL);
	setitimer(ITIMER_REAL, &outer, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

static void wait_in_hits(void)
{
	sigset_t set, term;
	pthread_t t;

	first = pthread_self();
	handle(SIGUSR1, until_hit, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL); /* in the other thread too, which inherits it */
	pthread_create(&t, NULL, keep_waiting, NULL);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
}

int main(int argc, char **argv)
{
	long turns = 0;

	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGTERM, on_term, 0);
	if (argc > 1 && !strcmp(argv[1], "altstack"))
		use_one_stack();
	else
		wait_in_hits();
	while (!stop)
		turns += slow(turns) != (int)turns + 1 ? (wrong++, 1) : 1;
	printf("turns %ld outer %ld inner %ld wrong %ld\n", turns, outer_runs, inner_runs, wrong);
	fflush(stdout);
	_exit(wrong != 0);
}
