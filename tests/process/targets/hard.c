/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target that lives under hard conditions. Usage: hard MODE, MODE one of
 *   plain            one thread that calls visit() until SIGTERM, as every mode does
 *   seccomp-kill     a filter kills the process at mmap, mprotect, memfd_create, process_vm_readv and others
 *   seccomp-eperm    a filter refuses process_vm_readv
 *   zombie-main      the first thread has ended, others run
 *   leave-main       the same, but it ends at SIGUSR1
 *   blocked          threads sleep in calls of many kinds; none may return before the end
 *   exec PROGRAM...  becomes another program at SIGUSR1
 *   exit             ends with status 7 at SIGUSR1
 *   fork             a child at SIGUSR1, which goes on calling; SIGUSR2 ends the parent alone
 *   spawn            starts `true` 50 times by vfork and posix_spawn
 * Prints what it found when it ends.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t stop, usr1, usr2;
static volatile long early, late_errno;
static int pipe_fd[2];
static unsigned futex_word;

__attribute__((noinline)) long visit(long n, const char *text)
{
	__asm__ volatile("" ::: "memory");
	return n * 2 + text[0];
}

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		usr1 = 1;
	else if (sig == SIGUSR2)
		usr2 = 1;
	else
		stop = 1;
}

static void *visitor(void *arg)
{
	char *text = strdup("text on the heap");
	long n = 0;

	(void)arg;
	while (!stop) {
		if (visit(n, text) != n * 2 + 't')
			_exit(99);
		n++;
		nanosleep(&(struct timespec){0, 300000}, NULL);
	}
	free(text);
	return NULL;
}

#define REFUSE(nr, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, what)

static int filter(int kill_mode)
{
	unsigned act = kill_mode ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
	struct sock_filter soft[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    REFUSE(SYS_process_vm_readv, act),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter hard[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    REFUSE(SYS_process_vm_readv, act),
	    REFUSE(SYS_mmap, act),
	    REFUSE(SYS_mprotect, act),
	    REFUSE(SYS_munmap, act),
	    REFUSE(SYS_memfd_create, act),
	    REFUSE(SYS_madvise, act),
	    REFUSE(SYS_membarrier, act),
	    REFUSE(SYS_rt_sigaction, act),
	    REFUSE(SYS_sigaltstack, act),
	    REFUSE(SYS_gettid, act),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = kill_mode ? (struct sock_fprog){sizeof(hard) / sizeof(*hard), hard}
					   : (struct sock_fprog){sizeof(soft) / sizeof(*soft), soft};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* One kind of sleep each, none of which anything in this program ends. */
static void *sleeper(void *arg)
{
	struct epoll_event ev;
	struct timespec hour = {3600, 0};
	sigset_t none;
	char c;
	long r = 0;
	int ep = epoll_create1(0);

	sigemptyset(&none);
	sigaddset(&none, SIGWINCH);
	pthread_sigmask(SIG_BLOCK, &none, NULL);
	switch ((long)arg) {
	case 0: r = nanosleep(&hour, NULL); break;
	case 1: r = epoll_wait(ep, &ev, 1, -1); break;
	case 2: r = poll(NULL, 0, 3600000); break;
	case 3: r = syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, NULL); break;
	case 4: r = read(pipe_fd[0], &c, 1); break;
	case 5: r = sigtimedwait(&none, NULL, &hour); break;
	case 6: r = pause(); break;
	case 7: r = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL); break;
	case 8: r = epoll_wait(ep, &ev, 1, 3600000); break;
	case 9: r = sigwaitinfo(&none, NULL); break;
	}
	late_errno = r < 0 ? errno : 0;
	__atomic_fetch_or(&early, 1l << (long)arg, __ATOMIC_RELAXED);
	return NULL;
}

static int spawn_rounds(void)
{
	char *const argv[] = {"true", NULL};
	volatile int bad = 0;
	int status;
	pid_t pid;

	for (int i = 0; i < 50 && !stop; i++) {
		if (i & 1) {
			if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ))
				pid = -1;
		} else {
			pid = vfork();
			if (pid == 0) {
				visit(i, "t");
				execvp("true", argv);
				_exit(98);
			}
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			bad++;
		visit(i, "t");
	}
	return bad;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	struct sigaction sa = {.sa_handler = on_signal};
	pthread_t t;
	sigset_t set;

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	/* The first thread alone hears of them; all others sleep undisturbed. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	if (strcmp(mode, "zombie-main") && strcmp(mode, "leave-main"))
		pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pipe(pipe_fd) || pthread_create(&t, NULL, visitor, NULL))
		return 97;
	if (!strcmp(mode, "blocked"))
		for (long i = 0; i < 10; i++) {
			pthread_t s;

			if (pthread_create(&s, NULL, sleeper, (void *)i))
				return 97;
		}
	if (strcmp(mode, "zombie-main") && strcmp(mode, "leave-main"))
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(mode, "zombie-main"))
		pthread_exit(NULL);
	if (!strncmp(mode, "seccomp-", 8)) {
		/* For this thread; the other one goes first. */
		stop = 1;
		pthread_join(t, NULL);
		stop = 0;
		if (filter(!strcmp(mode, "seccomp-kill")))
			return 96;
		printf("filtered\n");
		fflush(stdout);
		visitor(NULL);
	}
	if (!strcmp(mode, "spawn")) {
		while (!usr1 && !stop)
			usleep(1000);
		printf("bad %d\n", spawn_rounds());
		fflush(stdout);
	}
	while (!stop) {
		usleep(1000);
		if (usr1 && !strcmp(mode, "exec"))
			execv(argv[2], argv + 2);
		if (usr1 && !strcmp(mode, "leave-main"))
			pthread_exit(NULL);
		if (usr1 && !strcmp(mode, "exit"))
			exit(7);
		if (usr1 && !strcmp(mode, "fork")) {
			pid_t pid = fork();

			usr1 = 0;
			if (pid == 0) {
				visitor(NULL);
				_exit(0);
			}
			printf("child %d\n", (int)pid);
			fflush(stdout);
		}
		if (usr2 && !strcmp(mode, "fork"))
			_exit(0);
	}
	printf("early %lx errno %ld\n", early, late_errno);
	fflush(stdout);
	_exit(0);
}
