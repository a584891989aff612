/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target that sets terms of its own. Usage: terms MODE [ARGUMENT], MODE one of
 *   data BYTES     may have so much private memory (RLIMIT_DATA)
 *   locked BYTES   all its memory, future memory included, is locked, and it may lock so much
 *   forbid         a filter forbids getppid; five threads try it all the time, one of which sleeps now and then
 *   swap FILE      puts a descriptor of FILE in the place of each new one that it finds
 *   few N          has N descriptors left
 *   twice          has its code mapped twice; at SIGUSR1 calls visit() a thousand times in each
 *   brief N        calls visit() that many times, and ends
 * All others call visit() until SIGTERM; then they print what they found.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop, usr1;
static volatile long got, tried;

__attribute__((noinline)) long visit(long n, const char *text)
{
	__asm__ volatile("" ::: "memory");
	return n * 2 + text[0];
}

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		usr1 = 1;
	else
		stop = 1;
}

static int limit(int what, const char *bytes)
{
	struct rlimit l = {strtoul(bytes, NULL, 0), strtoul(bytes, NULL, 0)};

	return setrlimit(what, &l);
}

static int forbid(void)
{
	struct sock_filter f[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(f) / sizeof(*f), f};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void *forbidden(void *arg)
{
	long ok = 0, n = 0, most = arg ? *(const long *)arg : 0;

	for (; !stop && (!most || n < most); n++)
		ok += syscall(SYS_getppid) > 0;
	__atomic_fetch_add(&got, ok, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tried, n, __ATOMIC_RELAXED);
	return NULL;
}

static void *swapper(void *file)
{
	int fd = open(file, O_PATH);

	while (!stop)
		for (int i = fd + 1; i < fd + 8; i++)
			if (fcntl(i, F_GETFD) >= 0) {
				dup3(fd, i, O_CLOEXEC);
				usleep(200);
				close(i);
			}
	return NULL;
}

typedef long (*visit_fn)(long n, const char *text);

/* The same function in another mapping of the file. */
static visit_fn second_visit(void)
{
	unsigned long lo, hi, off, at = (unsigned long)visit;
	int fd = open("/proc/self/exe", O_RDONLY);
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], *p = MAP_FAILED;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &lo, &hi, &off) == 3 && lo <= at && at < hi)
			p = mmap(NULL, hi - lo, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)off), at -= lo;
	return p == MAP_FAILED ? NULL : (visit_fn)(p + at);
}

static void twice(visit_fn again, const char *text)
{
	while (!stop) {
		usleep(1000);
		for (long i = 0; usr1 && i < 1000; i++)
			if (visit(i, text) != again(i, text))
				_exit(98);
		usr1 = 0;
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "0";
	char *text = strdup("text on the heap");
	bool forbids = !strcmp(mode, "forbid");
	visit_fn again = NULL;
	pthread_t t[4];
	int n = 0;

	signal(SIGTERM, on_signal);
	signal(SIGUSR1, on_signal);
	if (!strcmp(mode, "data") && limit(RLIMIT_DATA, arg))
		return 90;
	if (!strcmp(mode, "locked") && (limit(RLIMIT_MEMLOCK, arg) || mlockall(MCL_FUTURE)))
		return 91;
	if (forbids) {
		if (forbid())
			return 92;
		for (; n < 4; n++)
			pthread_create(&t[n], NULL, forbidden, NULL);
	}
	if (!strcmp(mode, "swap"))
		pthread_create(&t[n++], NULL, swapper, (void *)arg);
	if (!strcmp(mode, "few")) {
		char number[16];
		int left = atoi(arg), fd = dup(0);

		while (fd >= 0 && fd < 100)
			fd = dup(0);
		snprintf(number, sizeof(number), "%d", fd + 1 + left);
		if (limit(RLIMIT_NOFILE, number))
			return 93;
	}
	if (!strcmp(mode, "twice"))
		again = second_visit(); /* before "ready": a trace that comes earlier finds one mapping */
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (again)
		twice(again, text);
	if (!strcmp(mode, "brief"))
		for (long i = 0; i < atol(arg); i++)
			visit(i, text);
	for (long i = 0; !stop && strcmp(mode, "brief"); i++) {
		if (visit(i, text) != i * 2 + 't')
			_exit(99);
		if (forbids)
			forbidden(&(long){200});
		nanosleep(&(struct timespec){0, 300000}, NULL);
	}
	while (n)
		pthread_join(t[--n], NULL);
	printf("got %ld of %s\n", got, tried ? "many" : "none");
	fflush(stdout);
	_exit(0);
}
