/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The harness's end of the target: start it, find its functions, give orders, wait. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static const struct {
	const char *name, *symbol;
} funcs[NFUNCS] = {
    [FUNC_NOP5] = {"5-byte nop", "entry_nop5"},         [FUNC_PUSH] = {"push %rbp; mov", "entry_push"},
    [FUNC_SUB] = {"sub $16,%rsp", "entry_sub"},         [FUNC_ENDBR] = {"endbr64; push", "entry_endbr"},
    [FUNC_MALLOC] = {"libc malloc (+ free)", "malloc"},
};

/* The last processor that we may use is the target's, the first ours; no binding when there is one only. */
static int choose_cpus(void)
{
	cpu_set_t all, one;
	int first = -1, last = -1;

	if (sched_getaffinity(0, sizeof(all), &all))
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all)) {
			if (first < 0)
				first = i;
			last = i;
		}
	if (first == last)
		return -1;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	sched_setaffinity(0, sizeof(one), &one);
	return last;
}

/* A private copy has an inode of its own: probes by file hit nobody else. */
static int copy_libc(const char *work_dir, const char *program)
{
	char from[512] = "", to[512], line[1024];
	unsigned char buf[65536];
	FILE *maps = fopen("/proc/self/maps", "r");
	ssize_t n;
	int in, out;

	(void)program;
	while (maps && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (path && strstr(path, "/libc.so.6")) {
			path[strcspn(path, "\n")] = '\0';
			snprintf(from, sizeof(from), "%s", path);
			break;
		}
	}
	if (maps)
		fclose(maps);
	snprintf(to, sizeof(to), "%s/libc.so.6", work_dir);
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	while (in >= 0 && out >= 0 && (n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			break;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return in >= 0 && out >= 0 ? 0 : -1;
}

int bench_target_start(struct bench_target *t, const char *program, const char *work_dir)
{
	int fd = memfd_create("bench", 0);
	char arg[16];

	memset(t, 0, sizeof(*t));
	if (fd < 0 || ftruncate(fd, 4096) || copy_libc(work_dir, program)) {
		fprintf(stderr, "bench: the target cannot be prepared: %s\n", strerror(errno));
		return -1;
	}
	t->shm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	t->shm->asked = 0;
	t->cpu = choose_cpus();
	snprintf(arg, sizeof(arg), "%d", fd);
	t->pid = fork();
	if (t->pid == 0) {
		cpu_set_t one;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (t->cpu >= 0) {
			CPU_ZERO(&one);
			CPU_SET(t->cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
		}
		setpriority(PRIO_PROCESS, 0, -20); /* may fail; the same for all contenders */
		setenv("LD_LIBRARY_PATH", work_dir, 1);
		execl(program, program, arg, (char *)NULL);
		_exit(127);
	}
	close(fd);
	if (t->pid < 0)
		return -1;
	for (int i = 0; i < 500 && !t->shm->leave; i++)
		usleep(10000);
	if (!t->shm->leave) {
		fprintf(stderr, "bench: %s does not start\n", program);
		bench_target_stop(t);
		return -1;
	}
	t->shm->asked = 1;
	return 0;
}

void bench_target_stop(struct bench_target *t)
{
	if (t->pid <= 0)
		return;
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	t->pid = 0;
	munmap(t->shm, 4096);
}

int bench_place_find(struct bench_place *p, const struct bench_target *t, enum bench_func func)
{
	char maps[64], line[1024];
	FILE *f;

	memset(p, 0, sizeof(*p));
	p->func = func;
	p->name = funcs[func].name;
	p->addr = t->shm->addr[func];
	snprintf(p->symbol, sizeof(p->symbol), "%s", funcs[func].symbol);
	snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)t->pid);
	f = fopen(maps, "r");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long lo, hi, off;
		char *path = strchr(line, '/');

		if (!path || sscanf(line, "%lx-%lx %*s %lx", &lo, &hi, &off) != 3 || p->addr < lo || p->addr >= hi)
			continue;
		path[strcspn(path, "\n")] = '\0';
		snprintf(p->path, sizeof(p->path), "%s", path);
		snprintf(p->module, sizeof(p->module), "%s", strrchr(path, '/') + 1);
		p->offset = p->addr - lo + off;
	}
	if (f)
		fclose(f);
	return p->path[0] ? 0 : -1;
}

void bench_target_order(struct bench_target *t, enum bench_op op, enum bench_func func, bench_u64 calls)
{
	struct bench_shm *s = t->shm;

	s->op = op;
	s->func = func;
	s->calls = calls;
	/* Pairs with the target's acquire. */
	__atomic_store_n(&s->asked, s->asked + 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &s->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool bench_target_wait(struct bench_target *t, int timeout_ms)
{
	struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};
	struct bench_shm *s = t->shm;
	uint32_t done = __atomic_load_n(&s->done, __ATOMIC_ACQUIRE); /* pairs with the target's release */

	if (done == s->asked)
		return true;
	syscall(SYS_futex, &s->done, FUTEX_WAIT, done, &limit, NULL, 0);
	return __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) == s->asked;
}
