/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target that does what it is told on its standard input, a word a line, and answers with a line:
 *	add A B		the sum, by add_numbers()
 *	malloc N SIZE	N allocations: "ok" or "null" for each
 *	write PATH	opens and writes: "ok" or the error's number
 *	fork A B	the sum, by a child
 *	counter		the variable of that name
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long counter = 5;

__attribute__((noinline, noclone)) long add_numbers(long a, long b)
{
	__asm__ volatile("" ::: "memory");
	return a + b;
}

static void allocate(int n, size_t size)
{
	for (int i = 0; i < n; i++) {
		void *volatile p = malloc(size);

		printf("%s ", p ? "ok" : "null");
		free(p);
	}
	printf("\n");
}

static void write_to(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (write(fd, "some bytes\n", 11) == 11)
		printf("ok\n");
	else
		printf("%d\n", errno);
	close(fd);
}

static void in_child(long a, long b)
{
	if (fork() == 0) {
		printf("%ld\n", add_numbers(a, b));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

int main(void)
{
	char line[512], path[256];
	long a, b;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "add %ld %ld", &a, &b) == 2)
			printf("%ld\n", add_numbers(a, b));
		else if (sscanf(line, "malloc %ld %ld", &a, &b) == 2)
			allocate((int)a, (size_t)b);
		else if (sscanf(line, "write %255s", path) == 1)
			write_to(path);
		else if (sscanf(line, "fork %ld %ld", &a, &b) == 2)
			in_child(a, b);
		else
			printf("%ld\n", counter);
		fflush(stdout);
	}
	return 0;
}
