/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Fuzz the decoder against its judge. Usage: fuzz-decoder [SECONDS [SEED]]; 0 seconds = endless.
 * Beside the comparison: the code lies at the end of a page before an unmapped one, and every
 * truncation of a valid instruction must be told as such.
 */
#include "decoder-judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Returns what is wrong with the decoding of the truncations of code, or NULL. */
static const char *check_truncated(const u8 *code, unsigned int len, u8 *page_end)
{
	struct dp_insn in;
	unsigned int n;
	int rc;

	for (n = 0; n <= len; n++) {
		memcpy(page_end - n, code, n);
		rc = dp_insn_decode(&in, page_end - n, n);
		if (n < len && rc != -ENODATA)
			return "truncated instruction decoded";
		if (n == len && rc != (int)len)
			return "length depends on what follows";
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 10, page = sysconf(_SC_PAGESIZE);
	u64 state = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (u64)time(NULL) << 20 | 1;
	u64 seed = state, count = 0, valid = 0;
	u8 *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	time_t end = time(NULL) + seconds;

	if (pages == MAP_FAILED || mprotect(pages + page, (size_t)page, PROT_NONE)) {
		perror("mmap");
		return 2;
	}
	while (seconds == 0 || time(NULL) < end) {
		int i;

		for (i = 0; i < 100000; i++, count++) {
			const char *what;
			unsigned int len;
			u8 code[16];

			judge_random(&state, code);
			what = judge_decode(code, sizeof(code), &len);
			valid += len != 0;
			if (!what && len && (count & 15) == 0)
				what = check_truncated(code, len, pages + page);
			if (what) {
				judge_print(what, code, sizeof(code));
				printf("seed %#llx, string %llu\n", (unsigned long long)seed,
				       (unsigned long long)count);
				return 1;
			}
		}
	}
	printf("%llu strings, %llu valid, no mismatch, seed %#llx\n", (unsigned long long)count,
	       (unsigned long long)valid, (unsigned long long)seed);
	return 0;
}
