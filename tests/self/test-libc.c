/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * All functions of the C library probed at once, those that the library itself is made of included,
 * while memory, files, threads and processes are worked with: as jumps, as breakpoints, and with
 * return probes.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "symbols/symbols.h"
#include "tap.h"

#define MAX 8000

static unsigned long hits;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return 0;
}

/* ---- the work ---- */

static int compare(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

static void *thread(void *arg)
{
	free(malloc(100));
	return arg;
}

static int work(void)
{
	char buf[100];
	pthread_t t;
	int bad = 0, status;
	void *r;
	FILE *f;
	pid_t pid;

	for (int i = 0; i < 200; i++) {
		char *p = malloc((size_t)i * 10 + 1);

		sprintf(buf, "%d %s %f", i, "abc", i * 1.5);
		p = realloc(p, 1000);
		strcpy(p, buf);
		bad += atoi(p) != i || strlen(p) != strlen(buf);
		free(p);
		qsort(buf, 20, 1, compare);
	}
	f = fopen("/proc/self/status", "r");
	bad += !f || !fgets(buf, sizeof(buf), f) || strncmp(buf, "Name:", 5);
	if (f)
		fclose(f);
	for (int i = 0; i < 20; i++)
		bad += pthread_create(&t, NULL, thread, buf) || pthread_join(t, &r) || r != buf;
	pid = fork();
	if (!pid)
		_exit(3);
	bad += waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 3;
	return bad + (system("true") != 0);
}

/* ---- the probes ---- */

static struct kprobe kps[MAX], *all_k[MAX];
static struct kretprobe rps[MAX], *all_r[MAX];
static int n, with_returns;

/* Functions that return more than once, or to elsewhere. */
static int is_odd(const char *name)
{
	static const char *const odd[] = {"vfork", "setjmp", "longjmp", "context", "clone", "restore_rt"};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		if (strstr(name, odd[i]))
			return 1;
	return 0;
}

static int add(const struct dp_symbol *s, void *arg)
{
	kprobe_opcode_t *addr = (kprobe_opcode_t *)(s->addr + *(unsigned long *)arg);
	int r;

	if (n == MAX || (with_returns && is_odd(s->name)))
		return n == MAX;
	if (with_returns) {
		all_r[n] = &rps[n];
		rps[n] = (struct kretprobe){.kp.addr = addr, .handler = on_return, .maxactive = 3};
		r = register_kretprobe(&rps[n]);
	} else {
		all_k[n] = &kps[n];
		kps[n] = (struct kprobe){.addr = addr, .pre_handler = pre};
		r = register_kprobe(&kps[n]);
	}
	n += !r;
	return 0;
}

static void test_all(struct dp_module *m, unsigned long bias, int optimised, int returns, const char *name)
{
	int bad;

	n = 0;
	with_returns = returns;
	dp_kprobes_optimization(optimised);
	dp_module_each_func(m, NULL, add, &bias);
	hits = 0;
	bad = work();
	ok(!bad && n > 1000 && hits, "%s on %d functions, %lu hits, %d wrong", name, n, hits, bad);
	if (returns)
		unregister_kretprobes(all_r, n);
	else
		unregister_kprobes(all_k, n);
	hits = 0;
	ok(!work() && !hits, "and none");
}

int main(void)
{
	void *h = dlopen("libc.so.6", RTLD_NOW);
	struct link_map *lm = NULL;
	struct dp_module *m;

	if (!h || dlinfo(h, RTLD_DI_LINKMAP, &lm) || dp_module_open(&m, lm->l_name, NULL) || work()) {
		ok(0, "the work without probes");
		return tap_done();
	}
	test_all(m, lm->l_addr, 1, 0, "jumps");
	test_all(m, lm->l_addr, 0, 0, "breakpoints");
	test_all(m, lm->l_addr, 1, 1, "return probes");
	dp_module_close(m);
	return tap_done();
}
