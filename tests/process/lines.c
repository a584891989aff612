/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For event lines as typed: what test_one_line.py asks about. Line 11 is named there. */
struct order { int id; const char *name; double price; enum color { RED, GREEN = 5 } color; };
struct command { const char *fullname; };
struct client { int argc; struct command *cmd; };

__attribute__((noinline)) int add_order(int qty, struct order *o, const char *label, double total)
{
	int id = o->id;

	asm volatile("" ::"r"(label), "x"(total), "r"(o) : "memory");
	return qty * id;
}
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) int do_query(int kind)
{
	struct timespec t = {0, kind * 100000L};

	nanosleep(&t, NULL);
	return kind - 1;
}

__attribute__((noinline)) int open(const char *path, int flags)
{
	asm volatile("" ::"r"(path) : "memory");
	return flags + 3;
}

__attribute__((noinline)) void call(struct client *c)
{
	asm volatile("" ::"r"(c) : "memory");
}

__attribute__((noinline)) void *make(size_t n)
{
	void *p = malloc(n);

	asm volatile("" : "+r"(p));
	return p;
}

int main(int argc, char **argv)
{
	struct order o = {7, "anvil", 99.5, GREEN}, big = {8, "bolt", 0.25, RED};
	struct command get = {"get"}, set = {"set"};
	struct client one = {2, &get}, two = {3, &set};
	char buf[64];
	int fds[2], made = 0;
	long times = argc > 1 ? atol(argv[1]) : 1;

	if (argc > 2) /* two of us */
		fork();
	if (pipe(fds))
		return 2;
	for (long i = 0; i < times; i++) {
		add_order(1, &o, "retail", 1000.0);
		add_order(11, &big, "whole", 3e6);
		do_query(2);
		made += open("/etc/passwd", 0) < 0;
		made += open("/tmp/x", 0) < 0;
		call(&one);
		call(&two);
		for (int k = 0; k < 4; k++)
			free(make((size_t)(100 << k)));
		if (write(fds[1], buf, 32) != 32 || read(fds[0], buf, 64) != 32 || read(-1, buf, 1) >= 0)
			return 2;
		fclose(fopen("/etc/passwd", "r"));
	}
	while (argc > 2 && wait(NULL) > 0)
		;
	return times == 1 ? made : 0; /* files that could not be opened */
}
