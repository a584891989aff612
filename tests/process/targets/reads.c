/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target whose function is given pointers to memory of all kinds:
 *	calls N		so many calls, each with other values
 *	words		the first three words of the structure
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WORDS 16

__attribute__((noinline, noclone)) void look(const long *item, const char *end, const long *above, long n)
{
	__asm__ volatile("nopl 0(%%rax, %%rax)" : : "r"(item), "r"(end), "r"(above), "r"(n) : "memory");
}

int main(void)
{
	long *item = aligned_alloc(64, WORDS * sizeof(long)), above[512] = {0}, calls;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), line[64];

	munmap(page + 4096, 4096);
	memcpy(page + 4096 - 6, "at end", 6);
	memset(item, 0, WORDS * sizeof(long));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "calls %ld", &calls) != 1) {
			printf("%ld %ld %ld\n", item[0], item[1], item[2]);
			continue;
		}
		for (long n = 1; n <= calls; n++) {
			for (int i = 0; i < WORDS; i++)
				item[i] = n * 100 + i;
			above[511] = n;
			look(item, page + 4096, above + 511, n);
		}
		printf("done\n");
	}
	free(item);
	return 0;
}
