/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that change what they see: registers, the stack pointer, the instruction pointer. A child calls
 * subject() again and again; programs written by hand change its argument, its result, or return at once in its place.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/process.h"
#include "../lib/add-line.h"

enum { OP_ABORT = 0x0b, OP_ADD = 0x33, OP_PUSH_R = 0x46, OP_POP_R = 0x47, OP_PUSH_D = 0x4c, OP_PUSH_MEM64 = 0x50 };
enum { AX = 0x06, CX = 0x08, DI = 0x0a, FLAGS = 0x0c, IP = 0x0d, SP = 0x0e };

struct shared {
	volatile long result, count, stop;
};

struct code {
	u8 b[128];
	u32 n;
};

static int tests, failures;
static struct shared *shared;

__attribute__((noinline, noclone)) long subject(long a, long b);
__attribute__((noinline, noclone)) long subject(long a, long b)
{
	__asm__ volatile("" ::: "memory");
	return a * 10 + b;
}

static void report(bool good, const char *name)
{
	tests++;
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", tests, name);
	fflush(stdout);
}

static void op(struct code *c, int opcode)
{
	c->b[c->n++] = (u8)opcode;
}

static void op_reg(struct code *c, int opcode, int reg)
{
	u16 r = (u16)reg;

	op(c, opcode);
	memcpy(c->b + c->n, &r, 2);
	c->n += 2;
}

static void op_word(struct code *c, u64 v)
{
	op(c, OP_PUSH_D);
	memcpy(c->b + c->n, &v, 8);
	c->n += 8;
}

/* Put the program in the place of the one that the event line gave. */
static void replace(struct dp_session *s, const struct code *c)
{
	struct dp_probe_info info;
	struct dp_program *p;

	dp_session_probe(s, 0, &info);
	p = (struct dp_program *)&info.event->prog;
	dp_free(p->code);
	p->code = dp_alloc(c->n);
	memcpy(p->code, c->b, c->n);
	p->len = c->n;
}

static long result_under(pid_t pid, const char *event, const struct code *c, const char *name)
{
	struct dp_error err = {0};
	struct dp_session *s = NULL;
	long seen = -1, count;

	if (dp_session_new(&s, pid, NULL, &err) || add_line(s, event, &err)) {
		printf("# %s: %s\n", event, err.detail);
		report(false, name);
		return -1;
	}
	replace(s, c);
	if (dp_session_arm(s, &err)) {
		printf("# %s: %s\n", event, err.detail);
		report(false, name);
	} else {
		count = shared->count;
		for (int i = 0; i < 2000 && shared->count < count + 3; i++)
			usleep(1000);
		seen = shared->result;
	}
	dp_session_free(s);
	return seen;
}

static void child(void)
{
	while (!shared->stop) {
		shared->result = subject(7, 5);
		shared->count++;
		usleep(200);
	}
	_exit(0);
}

int main(void)
{
	struct code c = {.n = 0};
	int status;
	pid_t pid;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0)
		child();
	usleep(100000);
	report(shared->result == 75, "before");

	op_word(&c, 9);
	op_reg(&c, OP_POP_R, DI);
	op(&c, OP_ABORT);
	report(result_under(pid, "p subject", &c, "argument") == 95, "a program changes an argument");

	c.n = 0;
	op_word(&c, 4242);
	op_reg(&c, OP_POP_R, AX);
	op(&c, OP_ABORT);
	report(result_under(pid, "r subject", &c, "result") == 4242, "a program changes the return value");

	/* ip = word at sp; sp += 8; ax = -12: the function returns before it began. */
	c.n = 0;
	op_reg(&c, OP_PUSH_R, SP);
	op(&c, OP_PUSH_MEM64);
	op_reg(&c, OP_POP_R, IP);
	op_reg(&c, OP_PUSH_R, SP);
	op_word(&c, 8);
	op(&c, OP_ADD);
	op_reg(&c, OP_POP_R, SP);
	op_word(&c, (u64)-12);
	op_reg(&c, OP_POP_R, AX);
	op(&c, OP_ABORT);
	report(result_under(pid, "p subject", &c, "ip") == -12, "a program changes ip and sp: the function is skipped");

	usleep(20000);
	report(shared->result == 75, "afterwards all is as before");
	shared->stop = 1;
	waitpid(pid, &status, 0);
	report(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the target ends well");
	printf("1..%d\n", tests);
	return failures != 0;
}
