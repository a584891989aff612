/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Breakpoints where the C library blocks all signals for itself: every instruction of the functions
 * that make threads, send signals and start programs, while these are at work; handlers that run
 * while a call waits with a mask of its own; and probes that come while other threads are in such
 * moments.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "symbols/symbols.h"
#include "tap.h"

#define MAX 16000

extern char **environ;

static struct kprobe kps[MAX], *all[MAX];
static int n;
static unsigned long hits;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

PROBED long add(long a, long b)
{
	return a + b;
}

/* ---- the work ---- */

static void *thread(void *arg)
{
	return arg;
}

static int spawn_program(void)
{
	char *argv[] = {"true", NULL};
	posix_spawnattr_t attr;
	sigset_t set;
	int status = -1, bad;
	pid_t pid;

	sigfillset(&set);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &set);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&attr, &set);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	bad = posix_spawnp(&pid, "true", NULL, &attr, argv, environ) || waitpid(pid, &status, 0) != pid || status;
	posix_spawnattr_destroy(&attr);
	return bad;
}

static int aborts(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		abort();
	return waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT;
}

static volatile int handled;

static void on_signal(int sig)
{
	handled += add(sig, 1) == sig + 1;
}

static int work(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	pthread_t t;
	void *r;
	int bad = 0;
	char c = 0;
	FILE *f;

	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 10; i++)
		bad += pthread_create(&t, NULL, thread, &bad) || pthread_join(t, &r) || r != &bad;
	handled = 0;
	for (int i = 0; i < 10; i++)
		bad += pthread_kill(pthread_self(), SIGUSR1) + raise(SIGUSR1);
	bad += handled != 20;
	for (int i = 0; i < 3; i++)
		bad += spawn_program() + (system("true") != 0);
	f = popen("echo x", "r");
	bad += !f || fread(&c, 1, 1, f) != 1 || c != 'x' || pclose(f);
	return bad + aborts();
}

/* ---- the probes ---- */

static int probe_function(struct dp_module *m, unsigned long bias, const char *name)
{
	struct dp_symbol s;
	const struct dp_text *text;
	const struct dp_func *f;
	struct dp_insn in;
	int len, before = n;

	if (dp_module_symbol(m, name, &s, NULL) || dp_module_text(m, s.addr, &text, NULL))
		return 0;
	f = dp_text_func(text, s.addr);
	for (unsigned long a = f ? f->lo : 1, hi = f ? f->hi : 0; a < hi && n < MAX; a += (unsigned)len) {
		len = dp_insn_decode(&in, text->bytes + (a - text->lo), hi - a);
		if (len <= 0)
			break;
		kps[n] = (struct kprobe){.addr = (kprobe_opcode_t *)(a + bias), .pre_handler = pre};
		all[n] = &kps[n];
		n += !register_kprobe(&kps[n]);
	}
	return n - before;
}

/* By places that they contain: some of these functions have no symbol. */
static int probe_block_sites(struct dp_module *m, unsigned long bias)
{
	static const unsigned char mov[] = {0xb8, 14, 0, 0, 0};
	const struct dp_text *text;
	struct dp_symbol s;
	int found = 0;

	if (dp_module_symbol(m, "pthread_create", &s, NULL) || dp_module_text(m, s.addr, &text, NULL))
		return 0;
	for (const unsigned char *at = text->bytes, *end = text->bytes + (text->hi - text->lo);
	     (at = memmem(at, (size_t)(end - at), mov, sizeof(mov))); at++) {
		const struct dp_func *f = dp_text_func(text, text->lo + (unsigned long)(at - text->bytes));
		struct dp_insn in;
		int len;

		if (!f)
			continue;
		found++;
		for (unsigned long a = f->lo; a < f->hi && n < MAX; a += (unsigned)len) {
			len = dp_insn_decode(&in, text->bytes + (a - text->lo), f->hi - a);
			if (len <= 0)
				break;
			kps[n] = (struct kprobe){.addr = (kprobe_opcode_t *)(a + bias), .pre_handler = pre};
			all[n] = &kps[n];
			n += !register_kprobe(&kps[n]);
		}
		at = text->bytes + (f->hi - text->lo) - 1;
	}
	return found;
}

static void test_every_instruction(struct dp_module *m, unsigned long bias)
{
	static const char *const more[] = {"sigaction", "__libc_sigaction", "__clone",       "clone",      "execve",
					   "abort",     "pthread_sigmask",  "__sigprocmask", "sigprocmask"};
	int sites, bad;

	dp_kprobes_optimization(0);
	sites = probe_block_sites(m, bias);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		probe_function(m, bias, more[i]);
	hits = 0;
	bad = work();
	ok(sites >= 4 && n > 1000 && !bad && hits > 1000,
	   "breakpoints on %d instructions around %d places that set a mask: %lu hits, %d wrong", n, sites, hits, bad);
	unregister_kprobes(all, n);
	dp_kprobes_optimization(1);
}

/* ---- calls that wait with a mask ---- */

static pthread_t waiter;
static volatile int waiting;

static void *prod(void *arg)
{
	const struct timespec nap = {0, 2000000};

	while (waiting) {
		nanosleep(&nap, NULL);
		pthread_kill(waiter, SIGUSR2);
	}
	return NULL;
}

/* All signals but SIGUSR2 blocked, SIGTRAP among them: its handler meets a breakpoint. */
static int wait_by(int how)
{
	const struct timespec forever = {100, 0};
	struct pollfd none = {.fd = -1};
	struct epoll_event ev;
	int r, fd = epoll_create1(0);
	pthread_t t;
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGUSR2);
	handled = 0;
	waiting = 1;
	waiter = pthread_self();
	pthread_create(&t, NULL, prod, NULL);
	r = how == 0   ? sigsuspend(&set)
	    : how == 1 ? ppoll(&none, 0, &forever, &set)
	    : how == 2 ? pselect(0, NULL, NULL, NULL, &forever, &set)
		       : epoll_pwait(fd, &ev, 1, 100000, &set);
	r = r == -1 && errno == EINTR;
	waiting = 0;
	pthread_join(t, NULL);
	close(fd);
	return r && handled;
}

static void *met_by_thread(void *arg)
{
	return (void *)add(40, 2);
}

/* A thread that begins with everything blocked. */
static int thread_with_mask(void)
{
	pthread_attr_t attr;
	pthread_t t;
	sigset_t set;
	void *r = NULL;

	sigfillset(&set);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &set);
	if (!pthread_create(&t, &attr, met_by_thread, NULL))
		pthread_join(t, &r);
	pthread_attr_destroy(&attr);
	return r == (void *)42;
}

static void test_waits(void)
{
	static const char *const names[] = {"sigsuspend", "ppoll", "pselect", "epoll_pwait"};
	struct kprobe kp = {.addr = (kprobe_opcode_t *)add, .pre_handler = pre};
	struct sigaction sa = {.sa_handler = on_signal}, old = {0};
	sigset_t set;

	sigfillset(&sa.sa_mask);
	sigaction(SIGUSR2, &sa, NULL);
	dp_kprobes_optimization(0);
	register_kprobe(&kp);
	for (int how = 0; how < 4; how++) {
		hits = 0;
		ok(wait_by(how) && hits, "%s() with SIGTRAP in its mask: a handler meets a breakpoint", names[how]);
	}
	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	hits = 0;
	ok(add(1, 2) == 3 && hits == 1, "a breakpoint, met with everything blocked");
	sigemptyset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	hits = 0;
	ok(thread_with_mask() && hits == 1, "and in a thread that was given such a mask");
	sigaction(SIGUSR2, NULL, &old);
	ok(old.sa_handler == on_signal, "the program's actions are its own");
	unregister_kprobe(&kp);
	dp_kprobes_optimization(1);
}

/* ---- the first probes of a process ---- */

static int stop;

static void *churn(void *arg)
{
	pthread_t t;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (arg)
			spawn_program();
		else if (!pthread_create(&t, NULL, thread, NULL))
			pthread_join(t, NULL);
	}
	return NULL;
}

static int first_probes(void)
{
	struct kprobe kp = {.symbol_name = "libc:pthread_create", .pre_handler = pre};
	struct kprobe mem = {.symbol_name = "libc:munmap", .pre_handler = pre};
	struct kprobe *v[] = {&kp, &mem};
	pthread_t t[3];
	int r;

	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, churn, i == 2 ? &stop : NULL);
	usleep(3000);
	r = register_kprobes(v, 2);
	for (int i = 0; i < 10 && !r; i++) {
		dp_kprobes_optimization(i & 1);
		usleep(500);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	if (r)
		return 2;
	unregister_kprobes(v, 2);
	return !hits;
}

/* Before the library comes up in this process. */
static void test_first(void)
{
	int died = 0, failed = 0, status;

	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(first_probes());
		waitpid(pid, &status, 0);
		died += !WIFEXITED(status);
		failed += WIFEXITED(status) && WEXITSTATUS(status);
	}
	ok(!died && !failed, "30 times the first probes, while threads and programs are started: %d died, %d failed",
	   died, failed);
}

int main(void)
{
	void *h = dlopen("libc.so.6", RTLD_NOW);
	struct link_map *lm = NULL;
	struct dp_module *m;

	test_first();
	if (!h || dlinfo(h, RTLD_DI_LINKMAP, &lm) || dp_module_open(&m, lm->l_name, NULL) || work()) {
		ok(0, "the work without probes");
		return tap_done();
	}
	test_every_instruction(m, lm->l_addr);
	test_waits();
	return tap_done();
}
