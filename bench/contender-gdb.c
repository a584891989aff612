/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The debugger: a breakpoint whose commands are silent and continue. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

struct gdb {
	pid_t pid;
	struct bench_target target;
	char script[64];
};

static bool breakpoint_is_at(pid_t pid, bench_u64 addr)
{
	char path[64];
	unsigned char byte = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (pread(fd, &byte, 1, (off_t)addr) != 1)
		byte = 0;
	close(fd);
	return byte == 0xcc;
}

/* Runs until the target calls bench_leave(), where no command continues it. */
static void write_script(FILE *f, const struct bench_target *t, const struct bench_place *p)
{
	fprintf(f,
		"set pagination off\nset confirm off\n"
		"attach %d\n"
		"break *0x%llx\ncommands\nsilent\ncontinue\nend\n"
		"break *0x%llx\n"
		"continue\n"
		"delete\ndetach\nquit\n",
		(int)t->pid, (unsigned long long)p->addr, (unsigned long long)t->shm->leave);
}

/* The debugger must be gone before anybody else can attach; when it does not go by itself it is ended. */
static void detach(struct bench_contender *c)
{
	struct gdb *s = c->state;
	int i;

	if (breakpoint_is_at(s->target.pid, s->target.shm->leave))
		bench_target_order(&s->target, OP_LEAVE, 0, 0);
	for (i = 0; i < 500 && waitpid(s->pid, NULL, WNOHANG) == 0; i++)
		usleep(10000);
	if (i == 500) {
		kill(s->pid, SIGTERM);
		waitpid(s->pid, NULL, 0);
	}
	bench_target_wait(&s->target, 1000);
	unlink(s->script);
	free(s);
	c->state = NULL;
}

static int attach(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	struct gdb *s;
	FILE *f;
	int fd;

	if (system("command -v gdb >/dev/null 2>&1")) {
		snprintf(why, WHY_SIZE, "gdb is not installed");
		return -1;
	}
	s = calloc(1, sizeof(*s));
	s->target = *t;
	snprintf(s->script, sizeof(s->script), "/tmp/bench-gdb-XXXXXX");
	fd = mkstemp(s->script);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		snprintf(why, WHY_SIZE, "no temporary file: %s", strerror(errno));
		free(s);
		return -1;
	}
	write_script(f, t, p);
	fclose(f);
	s->pid = fork();
	if (s->pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execlp("gdb", "gdb", "-nx", "-batch", "-x", s->script, (char *)NULL);
		_exit(127);
	}
	c->state = s;
	for (int i = 0; i < 2000; i++) {
		if (breakpoint_is_at(t->pid, p->addr) && breakpoint_is_at(t->pid, t->shm->leave))
			return 0;
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
			break;
		usleep(10000);
	}
	snprintf(why, WHY_SIZE, "gdb could not put its breakpoint");
	kill(s->pid, SIGTERM);
	waitpid(s->pid, NULL, 0);
	unlink(s->script);
	free(s);
	c->state = NULL;
	return -1;
}

struct bench_contender bench_gdb[] = {
    {.name = "gdb breakpoint, silent, continue",
     .job = JOB_HIT,
     .attach = attach,
     .detach = detach,
     .hits_per_call = 1,
     .max_attach = 1,
     .places = 1 << FUNC_PUSH},
};
const size_t bench_gdb_n = sizeof(bench_gdb) / sizeof(bench_gdb[0]);
