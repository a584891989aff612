/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* <dprobes/watch.h>: kinds of access, registers, threads, errors, what the program does with SIGTRAP, fork. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/fires.h"
#include "dprobes/watch.h"
#include "tap.h"

static volatile long value, other;
static volatile unsigned char small[8] __attribute__((aligned(8)));
static int hits, traps;
static struct pt_regs seen;
static void *seen_addr;
static long seen_value;

PROBED void write_value(long v)
{
	value = v;
}

PROBED long read_value(void)
{
	return value;
}

PROBED long run_me(long a)
{
	return a * 3;
}

static void on_hit(struct watchpoint *w, struct pt_regs *regs, void *addr)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	seen = *regs;
	seen_addr = addr;
	seen_value = value;
}

static void double_argument(struct watchpoint *w, struct pt_regs *regs, void *addr)
{
	hits++;
	regs->di *= 2;
}

static void write_again(struct watchpoint *w, struct pt_regs *regs, void *addr)
{
	hits++;
	value = -1;
}

static void kinds(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 8, .type = WATCH_WRITE, .handler = on_hit};
	struct watchpoint x = {.addr = (void *)run_me, .len = 1, .type = WATCH_EXECUTE, .handler = double_argument};
	struct watchpoint b = {.addr = (void *)&small[4], .len = 1, .type = WATCH_RW, .handler = on_hit};

	ok(register_watchpoint(&w) == 0, "a write watchpoint is registered: %s", dp_kprobe_error());
	write_value(41);
	ok(hits == 1 && seen_addr == &value && seen_value == 41, "it fires behind the store");
	ok(seen.ip > (unsigned long)write_value && seen.ip < (unsigned long)write_value + 32 && seen.di == 41,
	   "with the registers of the instruction behind it");
	other = read_value();
	ok(hits == 1, "reads do not fire");
	unregister_watchpoint(&w);
	write_value(42);
	ok(hits == 1, "nothing fires any more");
	ok(register_watchpoint(&x) == 0, "execution");
	ok(run_me(5) == 30 && hits == 2, "fires before the instruction; registers can be changed");
	unregister_watchpoint(&x);
	ok(run_me(5) == 15 && hits == 2, "and no more");
	ok(register_watchpoint(&b) == 0, "one byte, reads and writes");
	small[3] = 1;
	small[5] = 1;
	ok(hits == 2, "its neighbours do not fire");
	small[4] = 9;
	other = small[4];
	ok(hits == 4, "a write and a read do");
	unregister_watchpoint(&b);
}

static void nested(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 8, .type = WATCH_WRITE, .handler = write_again};

	hits = 0;
	register_watchpoint(&w);
	write_value(1);
	ok(hits == 1 && w.nmissed == 1 && value == -1, "an access by the handler itself is counted as missed");
	unregister_watchpoint(&w);
}

static void *writer(void *arg)
{
	for (int i = 0; i < 100; i++)
		write_value(i);
	return arg;
}

static pthread_barrier_t barrier;

static void *early_writer(void *arg)
{
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return writer(arg);
}

static void threads(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 8, .type = WATCH_WRITE, .handler = on_hit};
	pthread_t v[4];

	pthread_barrier_init(&barrier, NULL, 3);
	for (int i = 0; i < 2; i++)
		pthread_create(&v[i], NULL, early_writer, NULL);
	pthread_barrier_wait(&barrier);
	hits = 0;
	register_watchpoint(&w);
	pthread_barrier_wait(&barrier);
	for (int i = 2; i < 4; i++)
		pthread_create(&v[i], NULL, writer, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(v[i], NULL);
	ok(hits == 400 && !w.nmissed, "threads that were there and new ones: %d of 400 hits", hits);
	unregister_watchpoint(&w);
}

static void errors(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 3, .type = WATCH_WRITE, .handler = on_hit};
	struct watchpoint five[5];
	char want[64];
	int r = 0, n = 0;

	ok(register_watchpoint(&w) == -EINVAL, "a length of 3 is refused");
	w.len = 4;
	w.addr = (char *)&value + 2;
	ok(register_watchpoint(&w) == -EINVAL, "an address that is not aligned is refused");
	w.addr = (void *)&value;
	w.type = WATCH_IO;
	ok(register_watchpoint(&w) == -EOPNOTSUPP, "I/O ports are refused");
	w.type = WATCH_WRITE;
	ok(register_watchpoint(&w) == 0 && register_watchpoint(&w) == -EINVAL, "registering twice is refused");
	unregister_watchpoint(&w);
	unregister_watchpoint(&w);
	memset(five, 0, sizeof(five));
	for (n = 0; n < 5 && !r; n++) {
		five[n] = (struct watchpoint){
		    .addr = (void *)(&small[n]), .len = 1, .type = WATCH_WRITE, .handler = on_hit};
		r = register_watchpoint(&five[n]);
	}
	ok(r == -EBUSY && n == 5, "the fifth one is refused: no register is free (%d, %d)", r, n);
	snprintf(want, sizeof(want), "%p for the handler", (void *)&small[3]);
	ok(strstr(dp_kprobe_error(), want) != NULL, "the message names what has them: %s", dp_kprobe_error());
	for (int i = 0; i < 4; i++)
		unregister_watchpoint(&five[i]);
}

static void on_trap(int sig)
{
	traps++;
}

static void signals(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 8, .type = WATCH_WRITE, .handler = on_hit};
	int status;
	pid_t pid;

	hits = 0;
	register_watchpoint(&w);
	signal(SIGTRAP, on_trap);
	write_value(1);
	raise(SIGTRAP);
	ok(hits == 1 && traps == 1, "a handler that the program sets meanwhile gets its own traps only");
	signal(SIGTRAP, SIG_IGN);
	write_value(2);
	ok(hits == 2, "ignoring the signal does not matter");
	signal(SIGTRAP, SIG_DFL);
	write_value(3);
	ok(hits == 3, "nor does the default action");
	pid = fork();
	if (!pid) {
		write_value(4);
		unregister_watchpoint(&w);
		_exit(hits == 3 ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child is not watched");
	write_value(5);
	ok(hits == 4, "the parent still is");
	unregister_watchpoint(&w);
}

int main(void)
{
	struct watchpoint w = {.addr = (void *)&value, .len = 8, .type = WATCH_WRITE, .handler = on_hit};
	int fires = debug_registers_fire(), r = register_watchpoint(&w);

	if (!fires) {
		if (!r)
			unregister_watchpoint(&w);
		printf("ok 1 - watchpoints # SKIP " REGISTERS_DEAD "\n1..1\n");
		return 0;
	}
	if (r == -ENOSYS || r == -EACCES || r == -EOPNOTSUPP) {
		printf("ok 1 - watchpoints # SKIP %s\n1..1\n", dp_kprobe_error());
		return 0;
	}
	unregister_watchpoint(&w);
	kinds();
	nested();
	threads();
	errors();
	signals();
	return tap_done();
}
