/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The world around a probe: modules that come and go, forks, spawned programs, signal handlers,
 * alternate stacks, threads, all while probes are in place.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

PROBED long add(long a, long b)
{
	return a + b;
}

PROBED long inner(long a)
{
	return a + 1;
}

static int hits, returns;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__atomic_fetch_add(&returns, 1, __ATOMIC_RELAXED);
	return 0;
}

static char plugin_path[4096];

static void *open_plugin(int (**work)(int))
{
	void *h = dlopen(plugin_path, RTLD_NOW);

	*work = h ? (int (*)(int))dlsym(h, "plugin_work") : NULL;
	return h;
}

static void test_modules(void)
{
	struct kprobe kp = {.symbol_name = "libplugin:plugin_work", .pre_handler = pre};
	struct kretprobe rp = {.kp.symbol_name = "libplugin:plugin_work", .handler = on_return};
	struct kprobe late = {.symbol_name = "libplugin:plugin_work", .pre_handler = pre};
	char list[1024];
	int (*work)(int);
	void *h;

	ok(!register_kprobe(&kp) && kp.flags & KPROBE_FLAG_PENDING, "a probe on a module that is not loaded waits");
	ok(!register_kretprobe(&rp), "so does a return probe (%s)", dp_kprobe_error());
	dp_kprobes_list(list, sizeof(list));
	ok(strstr(list, "libplugin:plugin_work+0x0  [PENDING]") != NULL, "the list says so");
	for (int round = 0; round < 3; round++) {
		hits = returns = 0;
		h = open_plugin(&work);
		if (!h) {
			ok(0, "dlopen: %s", dlerror());
			return;
		}
		ok(hits == 1 && returns == 1, "armed before the constructor runs (%d, %d)", hits, returns);
		ok(work(5) == 15 && hits == 2 && returns == 2 && !(kp.flags & KPROBE_FLAG_PENDING), "and hit");
		dlclose(h);
		dp_kprobes_list(list, sizeof(list));
		ok(strstr(list, "  k  libplugin:plugin_work+0x0  [GONE]") && kp.flags & KPROBE_FLAG_GONE,
		   "[GONE] after dlclose()");
		ok(disable_kprobe(&kp) == -EINVAL, "and cannot be disabled");
		unregister_kprobe(&kp);
		unregister_kretprobe(&rp);
		kp.flags = 0;
		if (round < 2)
			ok(!register_kprobe(&kp) && !register_kretprobe(&rp), "registered again");
	}
	h = open_plugin(&work);
	hits = 0;
	ok(h && !register_kprobe(&late) && work(1) == 3 && hits == 1, "a probe in an opened module");
	unregister_kprobe(&late);
	dlclose(h);
}

static void test_fork(void)
{
	struct kprobe kp = {.symbol_name = "add", .pre_handler = pre};
	struct kprobe in = {.symbol_name = "inner", .pre_handler = pre};
	struct kretprobe rp = {.kp.symbol_name = "add", .handler = on_return};
	unsigned char armed[8];
	pid_t pid;
	int status;

	register_kprobe(&kp);
	register_kretprobe(&rp);
	memcpy(armed, (void *)add, 8);
	pid = fork();
	if (!pid) {
		int good;

		hits = returns = 0;
		good = add(1, 2) == 3 && hits == 1 && returns == 1;
		good &= !register_kprobe(&in);
		hits = 0;
		good &= inner(1) == 2 && hits == 1;
		unregister_kprobe(&kp);
		unregister_kretprobe(&rp);
		hits = 0;
		good &= add(1, 2) == 3 && !hits;
		_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	ok(!status, "a child has the probes, can set its own and remove them (%x)", status);
	hits = returns = 0;
	ok(add(1, 2) == 3 && hits == 1 && returns == 1 && !memcmp(armed, (void *)add, 8), "the parent keeps its own");
	pid = vfork();
	if (!pid)
		_exit(add(1, 2) == 3 ? 0 : 1);
	waitpid(pid, &status, 0);
	ok(!status && hits == 2, "vfork: the child's hit counts here");
	unregister_kprobe(&kp);
	unregister_kretprobe(&rp);
}

extern char **environ;

static void test_spawn(void)
{
	struct kprobe kp = {.symbol_name = "libc:posix_spawn", .pre_handler = pre};
	char *argv[] = {"true", NULL};
	int status = -1, r;
	pid_t pid;

	r = register_kprobe(&kp);
	hits = 0;
	if (!r && !posix_spawnp(&pid, "true", NULL, NULL, argv, environ))
		waitpid(pid, &status, 0);
	ok(!r && !status, "posix_spawn() with probes in place");
	unregister_kprobe(&kp);
}

/* ---- signals ---- */

static volatile int in_handler, signals_in_handlers, signal_hits_missed;

static int slow(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	in_handler = 1;
	raise(SIGUSR1);
	in_handler = 0;
	return 0;
}

static void on_usr1(int sig)
{
	signals_in_handlers += in_handler;
	inner(1);
}

static void test_signals(void)
{
	struct kprobe outer = {.symbol_name = "add", .pre_handler = slow};
	struct kprobe in = {.symbol_name = "inner", .pre_handler = pre};
	struct sigaction sa = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK}, back;
	static char altstack[64 * 1024];
	stack_t ss = {.ss_sp = altstack, .ss_size = sizeof(altstack)};

	sigaltstack(&ss, NULL);
	sigfillset(&sa.sa_mask);
	sigaction(SIGUSR1, &sa, NULL);
	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		register_kprobe(&outer);
		register_kprobe(&in);
		hits = signals_in_handlers = 0;
		ok(add(1, 2) == 3 && hits == 1 && signals_in_handlers == 1 && in.nmissed == 1,
		   "a signal handler that interrupts a handler: its hits are missed");
		hits = 0;
		raise(SIGUSR1);
		ok(hits == 1, "elsewhere they count, with all signals in its mask and on an alternate stack");
		unregister_kprobe(&outer);
		unregister_kprobe(&in);
	}
	sigaction(SIGUSR1, NULL, &back);
	ok(back.sa_handler == on_usr1, "the program's action is what it was");
	signal(SIGUSR1, SIG_DFL);
	ss.ss_flags = SS_DISABLE;
	sigaltstack(&ss, NULL);
}

static sigjmp_buf env;

static void jump_out(int sig)
{
	siglongjmp(env, 1);
}

static int raises(struct kprobe *p, struct pt_regs *regs)
{
	raise(SIGUSR2);
	return 0;
}

static void test_left_handlers(void)
{
	struct kprobe a = {.symbol_name = "add", .pre_handler = raises};
	struct kprobe b = {.symbol_name = "inner", .pre_handler = pre};

	signal(SIGUSR2, jump_out);
	register_kprobe(&a);
	register_kprobe(&b);
	if (!sigsetjmp(env, 1))
		add(1, 2);
	hits = 0;
	ok(inner(1) == 2 && hits == 1, "a handler that was left by siglongjmp() does not silence the thread");
	unregister_kprobe(&a);
	unregister_kprobe(&b);
	signal(SIGUSR2, SIG_DFL);
}

/* ---- threads ---- */

static void *short_thread(void *arg)
{
	for (int i = 0; i < 10; i++)
		add(i, 1);
	return NULL;
}

static void test_threads(void)
{
	struct kprobe kp = {.symbol_name = "add", .pre_handler = pre};
	struct kretprobe rp = {.kp.symbol_name = "add", .handler = on_return, .maxactive = 100};
	pthread_t t[8];

	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		register_kprobe(&kp);
		register_kretprobe(&rp);
		hits = returns = 0;
		for (int round = 0; round < 50; round++) {
			for (int i = 0; i < 8; i++)
				pthread_create(&t[i], NULL, short_thread, NULL);
			for (int i = 0; i < 8; i++)
				pthread_join(t[i], NULL);
		}
		ok(hits == 4000 && returns == 4000, "400 threads that come and go: %d hits, %d returns", hits, returns);
		unregister_kprobe(&kp);
		unregister_kretprobe(&rp);
	}
}

int main(int argc, char **argv)
{
	char *slash;

	snprintf(plugin_path, sizeof(plugin_path) - 16, "%s", argv[0]);
	slash = strrchr(plugin_path, '/');
	strcpy(slash ? slash + 1 : plugin_path, "libplugin.so");
	test_modules();
	test_fork();
	test_spawn();
	test_signals();
	test_left_handlers();
	test_threads();
	return tap_done();
}
