/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For event lines with names: arguments of all kinds, values that are returned, calls that take time, allocations. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum color { RED, GREEN = 5, BLUE };
struct order {
	int id;
	const char *name;
	double price;
	enum color color;
	struct order *next;
};

long sold;

__attribute__((noinline)) int add_order(int qty, struct order *o, const char *label, double total)
{
	sold += qty;
	if (total > 1e6)
		sold++; /* line of a large order */
	asm volatile("" ::"r"(label), "x"(total), "r"(o) : "memory");
	return qty * o->id;
}

__attribute__((noinline)) int do_query(const char *sql, int kind)
{
	struct timespec t = {0, kind * 1000000L};

	if (kind > 1)
		do_query("inner", kind - 1);
	nanosleep(&t, NULL);
	asm volatile("" ::"r"(sql) : "memory");
	return kind - 1;
}

__attribute__((noinline)) double mean(double a, float b)
{
	double v = (a + (double)b) / 2;

	asm volatile("" : "+x"(v));
	return v;
}

__attribute__((noinline)) float ratio(int a, int b)
{
	float v = (float)a / (float)b;

	asm volatile("" : "+x"(v));
	return v;
}

__attribute__((noinline)) void nothing(int a)
{
	asm volatile("" ::"r"(a) : "memory");
}

__attribute__((noinline)) int may_fail(const char *path)
{
	asm volatile("" ::"r"(path) : "memory");
	return (int)strlen(path);
}

__attribute__((noinline)) void *make(size_t n)
{
	void *p = malloc(n);

	asm volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static int price_of(int kind, int unused)
{
	int v = kind * 3 + (int)sold;

	asm volatile("" : "+r"(v));
	return v;
}

__attribute__((noinline)) int deep(int n)
{
	int v = n > 1 ? deep(n - 1) : 0;

	asm volatile("" : "+r"(v));
	return v + 1;
}

int main(int argc, char **argv)
{
	struct order second = {8, "bolt", 0.25, BLUE, NULL}, first = {7, "anvil", 99.5, GREEN, &second};
	int times = argc > 1 ? atoi(argv[1]) : 1, fd = open(argv[0], O_RDONLY), made = 0;
	char buf[256];

	for (int i = 1; i <= times; i++) {
		made += add_order(i, &first, "retail", 1000.0 * i);
		made += add_order(i + 10, &second, "whole \"sale\"", 3e6);
		do_query("select", 2);
		mean(i, 2.5f);
		ratio(i, 4);
		nothing(i);
		made += may_fail("/etc/passwd");
		made += may_fail("/tmp/x") < 0;
		for (int k = 0; k < 4; k++)
			free(make((size_t)(100 << k)));
		made += price_of(i, 1) & 1;
		if (read(fd, buf, (size_t)(64 * (1 + i % 2))) < 0 || read(-1, buf, 1) >= 0)
			return 2;
	}
	made += deep(3000) - 3000;
	printf("%d\n", made);
	return 0;
}
