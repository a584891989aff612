/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random instructions before the judge of the relocator, in a child process, until one is judged
 * wrong or the time is up. Usage: fuzz-relocate [SECONDS [SEED]]; 0 seconds (the default) means
 * endless.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "relocate-judge.h"

#define STATES 8  /* random states for one instruction */
#define REPORT 10 /* seconds between lines */
#define STALL 30

struct shared {
	volatile u64 progress;
	u8 code[16];
	struct rj_stats st;
};

static size_t add_prefixes(u8 *code, u64 *seed)
{
	static const u8 prefixes[] = {0x66, 0xf2, 0xf3, 0x2e, 0x3e, 0x64, 0x65, 0x67, 0xf0};
	size_t n = 0;

	while (n < 5 && (rj_random(seed) & 3) == 0)
		code[n++] = prefixes[rj_random(seed) % sizeof(prefixes)];
	return n;
}

static size_t add_opcode(u8 *code, u64 *seed)
{
	u64 r = rj_random(seed);
	size_t n = 0;

	if (r & 8)
		code[n++] = (u8)(0x40 | (r >> 8 & 15));
	switch (r & 7) {
	case 0:
	case 1:
		code[n++] = 0x0f;
		break;
	case 2:
		code[n++] = 0x0f;
		code[n++] = r & 16 ? 0x38 : 0x3a;
		break;
	case 3:
		n = 0;
		code[n++] = 0xc5;
		code[n++] = (u8)(r >> 16);
		break;
	case 4:
		n = 0;
		code[n++] = 0xc4;
		code[n++] = (u8)((r >> 16 & 0xe0) | (1 + (r >> 24) % 3));
		code[n++] = (u8)(r >> 32);
		break;
	case 5:
		n = 0;
		code[n++] = 0x62;
		code[n++] = (u8)((r >> 16 & 0xf0) | (1 + (r >> 24) % 6));
		code[n++] = (u8)(r >> 32) | 4;
		code[n++] = (u8)(r >> 40);
		break;
	default: /* the indirect branches are a twentieth of all */
		if (r >> 48 & 7)
			break;
		code[n++] = 0xff;
		code[n++] = (u8)((r >> 16 & 0xc7) | (r & 32 ? 0x10 : 0x20));
		return n;
	}
	code[n++] = (u8)rj_random(seed);
	return n;
}

static void random_instruction(u8 code[32], u64 *seed)
{
	u64 rest[4];
	size_t n;

	for (int i = 0; i < 4; i++)
		rest[i] = rj_random(seed);
	memcpy(code, rest, sizeof(rest));
	if ((rest[0] & 15) == 0)
		return;
	n = add_prefixes(code, seed);
	n += add_opcode(code + n, seed);
	if ((rj_random(seed) & 3) == 0) /* small displacements and immediates */
		memset(code + n + 2, rj_random(seed) & 1 ? 0 : 0xff, 6);
}

static void fuzz(struct shared *sh, u64 seed)
{
	const char *reason;

	if (!rj_init(seed, &reason)) {
		fprintf(stderr, "fuzz-relocate: %s\n", reason);
		_exit(98);
	}
	while (!sh->st.mismatches && !sh->st.unrepeatable) {
		u8 code[32];
		struct dp_insn in;

		random_instruction(code, &seed);
		if (dp_insn_decode(&in, code, DP_INSN_MAX) < 0)
			continue;
		memcpy(sh->code, code, in.len);
		memset(sh->code + in.len, 0, sizeof(sh->code) - in.len);
		sh->progress++;
		rj_judge(sh->code, STATES, &sh->st);
	}
	_exit(1);
}

static void show(const struct shared *sh, time_t since)
{
	printf("%lld s: %llu instructions, %llu cases, %llu mismatches, %llu unrepeatable\n",
	       (long long)(time(NULL) - since), (unsigned long long)sh->progress, (unsigned long long)sh->st.cases,
	       (unsigned long long)sh->st.mismatches, (unsigned long long)sh->st.unrepeatable);
	fflush(stdout);
}

/* Returns the child's wait status; 0 when the time was up. */
static int watch(const struct shared *sh, pid_t pid, long limit)
{
	time_t start = time(NULL), shown = start, moved = start;
	u64 seen = 0;
	int status;

	while (!limit || time(NULL) - start < limit) {
		usleep(50000);
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		if (sh->progress != seen) {
			seen = sh->progress;
			moved = time(NULL);
		} else if (time(NULL) - moved > STALL) {
			kill(pid, SIGKILL);
		}
		if (time(NULL) - shown >= REPORT) {
			show(sh, start);
			shown = time(NULL);
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	show(sh, start);
	return 0;
}

int main(int argc, char **argv)
{
	long limit = argc > 1 ? atol(argv[1]) : 0;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL);
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	if (sh == MAP_FAILED)
		return 2;
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	pid = fork();
	if (!pid)
		fuzz(sh, seed);
	status = watch(sh, pid, limit);
	if (!status)
		return 0;
	printf("ended with wait status %x at", (unsigned int)status);
	for (size_t i = 0; i < sizeof(sh->code); i++)
		printf(" %02x", sh->code[i]);
	printf("\n%s\n", sh->st.report);
	return 1;
}
