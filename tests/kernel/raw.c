/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that no front end makes, given to the module's device as they are. Each must be refused by name, or run
 * without harm. Usage: raw CASE; lines that begin with "tap:" are results. Static: the guest has no C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-program.h"
#include "abi/abi-ring.h"
#include "abi/abi-device.h"
#include "program/code.h"
#include "program/program-image.h"
#include "program/program.h"

#define WORDS 512
#define RING 65536

static struct dp_dev_error error;

static void ok(bool good, const char *what)
{
	printf("tap: %sok - %s%s%s\n", good ? "" : "not ", what, good || !error.code[0] ? "" : ": ",
	       good ? "" : error.code);
	fflush(stdout);
}

struct run { /* an armed program */
	int fd;
	u8 *area;
	struct dp_dev_arm arm;
};

/* A program at the start of ksys_sync; 0 or -errno of the first call that failed. */
static int begin(struct run *r, struct dp_dev_probe *d, struct dp_program *p, const struct dp_asm *code, u32 nwords)
{
	static char image[DP_IMAGE_MAX];
	static u64 words[WORDS];

	memset(&error, 0, sizeof(error));
	*r = (struct run){.fd = open(DP_DEV_PATH, O_RDWR | O_CLOEXEC)};
	if (r->fd < 0)
		return -errno;
	strcpy(d->place, "ksys_sync");
	d->error = (u64)&error;
	d->opcode = -1;
	p->code = code->bytes;
	p->len = code->len;
	dp_program_image_write(p, image);
	d->image = (u64)image;
	d->image_size = dp_program_image_size(p);
	if (ioctl(r->fd, DP_DEV_ADD, d))
		return -errno;
	r->arm = (struct dp_dev_arm){.error = (u64)&error, .ring_size = RING, .words = (u64)words, .nwords = nwords};
	if (ioctl(r->fd, DP_DEV_ARM, &r->arm))
		return -errno;
	r->area = mmap(NULL, r->arm.size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	return r->area == MAP_FAILED ? -errno : 0;
}

static u64 word(const struct run *r, u32 i)
{
	return ((const u64 *)(r->area + r->arm.words_off))[i];
}

static u64 count(const struct run *r, enum dp_count what)
{
	const struct dp_rings *g = (const struct dp_rings *)r->area;
	u64 n = 0;

	for (u32 cpu = 0; cpu < g->nrings; cpu++)
		n += ((const struct dp_counts *)(r->area + g->counts_off + cpu * g->counts_stride))->v[what];
	return n;
}

static void end(struct run *r)
{
	if (r->area && r->area != MAP_FAILED)
		munmap(r->area, r->arm.size);
	close(r->fd);
}

/* Variables without exceptions: the session gives them their words all the same, or does not arm. */
static void variables(void)
{
	struct dp_asm code = {0};
	struct dp_program p = {.nlocals = 100, .nglobals = 10, .logmax = 64};
	struct dp_dev_probe d = {.locals = 8, .globals = 200};
	struct dp_dev_probe e;
	struct run r;
	int ret;

	DP_PUT(&code, PUSH_D, 7);
	DP_PUT(&code, POP_LV, 5);
	DP_PUT(&code, PUSH_D, 9);
	DP_PUT(&code, POP_GV, 9);
	DP_PUT(&code, PUSH_D, 100); /* lv[100] = 1: not one of them */
	DP_PUT(&code, PUSH_D, 1);
	DP_PUT(&code, POP_LV_S);
	DP_PUT(&code, EXIT);
	e = d;
	ret = begin(&r, &e, &p, &code, 100);
	ok(ret == -EINVAL, "variables of a plain program beyond the words that were given are refused");
	end(&r);
	e = d;
	ret = begin(&r, &e, &p, &code, WORDS);
	ok(!ret, "a plain program with variables is armed");
	sync();
	ok(!ret && word(&r, 8 + 5) == 7 && word(&r, 200 + 9) == 9, "it writes to its own words");
	ok(!ret && !word(&r, 108) && count(&r, DP_COUNT_EXCEPTIONS), "and to none behind them");
	end(&r);
	free(code.bytes);
}

/* The fixed part of a record may fill what a process's record can have, but the task's name comes behind it. */
static void layouts(void)
{
	u32 most = DP_LOGMAX - DP_COMM_SIZE, refused = 0, taken = 0;
	struct run r;

	for (u32 size = most - 1; size <= DP_LOGMAX; size++) {
		struct dp_program p = {.logmax = DP_LOGMAX, .layout = {.fixed_size = (u16)size}};
		struct dp_dev_probe d = {0};
		struct dp_asm code = {0};
		int ret;

		DP_PUT(&code, REC, size);
		for (u32 i = 0; i < 8; i++)
			DP_PUT(&code, LOGCOMM, 0, 0);
		DP_PUT(&code, EXIT);
		ret = begin(&r, &d, &p, &code, 0);
		refused += size > most && ret == -E2BIG && !strcmp(error.code, "E-EVENT-BIG");
		taken += size <= most && !ret;
		if (!ret)
			for (u32 i = 0; i < 20; i++)
				sync();
		end(&r);
		free(code.bytes);
	}
	ok(refused == DP_COMM_SIZE && taken == 2,
	   "a fixed part that leaves no room for the task's name is refused, a byte less is not");
}

/* Whether memory can be written is tried without a store that could undo somebody else's. */
static u8 shared;
static volatile bool stopping;
static u64 added;

static void *add_on(void *arg)
{
	for (; !stopping; added++)
		__atomic_fetch_add(&shared, 1, __ATOMIC_RELAXED);
	return arg;
}

static void touches(void)
{
	struct dp_program p = {.rpn = {.ex_mask = DP_RPN, .max = DP_MAXHITS_NONE}, .jmpmax = 50, .nlocals = 3};
	struct dp_dev_probe d = {0};
	struct dp_asm code = {0};
	pthread_t thread;
	struct run r;
	u32 loop;
	int ret;

	DP_PUT(&code, BEGIN);
	DP_PUT(&code, PUSH_D, (s64)touches);
	DP_PUT(&code, VFY_RW);
	DP_PUT(&code, POP_LV, 1); /* code: not writable */
	DP_PUT(&code, PUSH_D, 50);
	loop = DP_PUT(&code, PUSH_D, (s64)&shared);
	DP_PUT(&code, VFY_RW);
	DP_PUT(&code, POP_LV, 0);
	DP_PUT(&code, LOOP, loop);
	DP_PUT(&code, INC_LV, 2);
	DP_PUT(&code, EXIT);
	ret = begin(&r, &d, &p, &code, 8);
	pthread_create(&thread, NULL, add_on, NULL);
	for (u32 i = 0; i < 20000 && !ret; i++)
		sync();
	stopping = true;
	pthread_join(thread, NULL);
	ok(!ret && !word(&r, 0) && word(&r, 1) == 1 && word(&r, 2), "vfy rw tells what can be written");
	ok(shared == (u8)added, "and undoes nobody's store");
	end(&r);
	free(code.bytes);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* As many jumps as there may be, over as much code: seconds, with preemption off. */
static void work(void)
{
	struct dp_program p = {
	    .rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT, .max = DP_MAXHITS_NONE}, .jmpmax = DP_JMPMAX, .nlocals = 1};
	struct dp_dev_probe d = {0};
	struct dp_asm code = {0};
	double took = 1e9, since;
	struct run r;
	u32 loop;
	int ret;

	DP_PUT(&code, BEGIN);
	loop = DP_PUT(&code, PUSH_D, 1);
	for (u32 i = 0; i < 4000; i++) {
		DP_PUT(&code, DUP, 255);
		DP_PUT(&code, ROS, 255);
		DP_PUT(&code, PUSH_D, 1);
	}
	DP_PUT(&code, INC_LV, 0);
	DP_PUT(&code, JMP, loop);
	ret = code.len > DP_CODE_MAX ? -E2BIG : begin(&r, &d, &p, &code, 1);
	for (u32 i = 0; i < 5 && !ret; i++) {
		since = now();
		sync();
		took = took < now() - since ? took : now() - since;
	}
	printf("tap: # figure: a run that is ended, in this emulator: %.1f ms\n", took * 1e3);
	ok(!ret && count(&r, DP_COUNT_EXCEPTIONS) == 5, "a program that works too long is ended by an exception");
	ok(!ret && word(&r, 0) < 5 && took < 0.5, "soon");
	end(&r);
	free(code.bytes);
}

/* What is refused depends on what the program does. */
static void lockdown(const char *how)
{
	bool all = !strcmp(how, "confidentiality");
	struct dp_asm code = {0};
	struct run r;
	int ret;

	for (u32 i = 0; i < 2; i++) {
		struct dp_program p = {0};
		struct dp_dev_probe d = {0};

		code.len = 0;
		if (i)
			DP_PUT(&code, PUSH_D, 0);
		if (i)
			DP_PUT(&code, POP_R, 6);
		DP_PUT(&code, EXIT);
		ret = begin(&r, &d, &p, &code, 0);
		end(&r);
		if (i || all)
			ok(ret == -EPERM && !strcmp(error.code, "E-KERNEL-LOCKDOWN"),
			   i ? "a program that changes a register is refused by name"
			     : "and so is one that only looks");
		else
			ok(!ret, "a program that only looks is allowed");
	}
	free(code.bytes);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "variables"))
		variables();
	else if (!strcmp(what, "layouts"))
		layouts();
	else if (!strcmp(what, "touches"))
		touches();
	else if (!strcmp(what, "work"))
		work();
	else if (!strcmp(what, "lockdown"))
		lockdown(argc > 2 ? argv[2] : "");
	else
		return 2;
	return 0;
}
