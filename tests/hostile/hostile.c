/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program that tells lies to whoever probes it: a control block that nobody has armed, log rings that are not what they were, questions
 * about other processes' threads, lists without an end. Run as a user without rights; who is deceived is root's dprobes.
 * Usage: hostile LIE [NUMBER]. Says "ready" when it stands; then works until its input ends, and says what it noticed.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <unistd.h>

#define dp_blob dp_blob_elsewhere
#define dp_blob_size dp_blob_size_elsewhere
#include "abi/abi-control.h"
#include "abi/abi-point.h"
#include "abi/abi-ring.h"
#include "abi/abi-watch.h"
#include "hit/blob.h"
#undef dp_blob
#undef dp_blob_size
#include "abi/abi-registry.h"

/* ---- what is probed ---- */

struct thing {
	long a, b;
};
volatile long sink;
long watched;
static struct thing thing;

__attribute__((noinline)) long work(long n)
{
	long sum = n;

	for (long i = 0; i < 3; i++)
		sum += sink * i;
	watched = n;
	return sum;
}

__attribute__((noinline)) long touch(struct thing *t)
{
	t->b = watched;
	__asm__ volatile("" ::"r"(t) : "memory");
	return t->b + 1;
}

/* ---- planted control blocks ---- */

#define REGION ((u8 *)0x200000000000)
#define REGION_SIZE (4u << 20)
#define CONTROL 0x200000u
#define SLOTS 0x100000u

static struct dp_control *control;
static u8 *tables;

/* Our code, which lies beside the program: in its constants it would look like tables of jumps. */
static u8 dp_blob[1 << 20];
static u32 dp_blob_size;

static void read_blob(void)
{
	char path[4096 + 16];
	ssize_t n = readlink("/proc/self/exe", path, 4096);
	FILE *f;

	while (n > 0 && path[n - 1] != '/')
		n--;
	strcpy(path + n, "blob.bin");
	f = fopen(path, "re");
	if (!f)
		exit(3);
	dp_blob_size = (u32)fread(dp_blob, 1, sizeof(dp_blob), f);
	fclose(f);
}

static u64 place(const void *p, size_t n)
{
	u64 at = (u64)tables;

	memcpy(tables, p, n);
	tables += DP_ALIGN_UP(n, 16);
	return at;
}

/* A block as one that was killed would have left it, with one patch: the first bytes of work() are as they should be. */
static void make_block(void)
{
	const void *volatile code = (const void *)work; /* not known to the compiler, which would name places inside of it */
	struct dp_patch patch = {.addr = (u64)work, .len = 5, .jump = {0xe9}};
	struct dp_point point = {.addr = (u64)work, .n = 1};
	struct dp_probe_rt probe = {.addr = (u64)work, .flags = DP_PROBE_ENABLED};
	struct dp_blob_head *head = (struct dp_blob_head *)REGION;

	read_blob();
	if (mmap(REGION, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		exit(2);
	memcpy(REGION, dp_blob, dp_blob_size);
	memcpy(patch.orig, code, 5);
	memcpy(patch.jump + 1, patch.orig + 1, 4);
	control = (struct dp_control *)(REGION + CONTROL);
	tables = REGION + CONTROL + 4096;
	*control = (struct dp_control){
	    .magic = DP_CONTROL_MAGIC, .abi = DP_ABI, .self = (u64)control, .size = 8192, .slots = (u64)REGION + SLOTS, .nslots = 1,
	    .tids = (u64)REGION + 0x80000, .state = DP_STATE_ARMED, .owner_pid = 999999999, .region_lo = (u64)REGION,
	    .region_hi = (u64)REGION + REGION_SIZE, .npatches = 1, .npoints = 1, .nprobes = 1, .old_trap = {0, 0, ~0ull, 0}};
	control->patches = place(&patch, sizeof(patch));
	control->points = place(&point, sizeof(point));
	control->probes = place(&probe, sizeof(probe));
	head->ctl = (u64)control;
}

static void show_block(void)
{
	mprotect(REGION, DP_ALIGN_UP(dp_blob_size, 4096ull), PROT_READ | PROT_EXEC);
}

static struct dp_patch *first_patch(void)
{
	return (struct dp_patch *)control->patches;
}

/* The return address of whoever copies `len` bytes of code onto his stack. */
static void overlong_patch(void)
{
	u8 *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(code, 0x41, 8192);
	mprotect(code, 8192, PROT_READ | PROT_EXEC);
	first_patch()->addr = (u64)code + 256;
	first_patch()->len = 255;
	memset(first_patch()->orig, 0x41, 5);
	memset(first_patch()->jump, 0x41, 5);
}

/* Four thousand million empty ones, which can all be read. */
static void endless_watches(void)
{
	control->owner_pid = (u32)getppid(); /* lives */
	control->nwatches = ~0u;
	control->watches = (u64)mmap(NULL, 1ull << 38, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void endless_tables(void)
{
	control->npatches = ~0u;
	control->nredirects = control->nhomes = control->nareas = 0xfffffff0;
}

static void tables_elsewhere(void)
{
	control->patches = 0xffffffffff600000; /* vsyscall */
	control->areas = 1ull << 63;
	control->nareas = 3;
}

static void no_region(void)
{
	control->region_hi = control->region_lo - 4096;
	control->jit_lo = 1;
	control->jit_hi = ~0ull;
	control->nslots = 1u << 31;
}

static void wrapping_region(void)
{
	control->region_lo = 0;
	control->region_hi = ~0ull;
}

/* Runs with the filter of system calls lifted, if anybody lets it. */
static void own_service(void)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)dp_blob;
	static const u8 store[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xc6, 0x00, 0x01, 0xeb, 0xfe}; /* movabs $sink, %rax; movb $1, (%rax); jmp . */
	u8 *code = REGION + head->service;
	u64 at = (u64)&sink;

	memcpy(code, store, sizeof(store));
	memcpy(code + 2, &at, 8);
}

/* ---- log rings ---- */

static struct dp_rings *find_rings(u64 *size)
{
	unsigned long lo, hi;
	char line[512];
	struct dp_rings *found = NULL;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:dprobes-rings") && sscanf(line, "%lx-%lx", &lo, &hi) == 2) {
			found = (struct dp_rings *)lo;
			*size = hi - lo;
		}
	if (f)
		fclose(f);
	return found;
}

/* By a system call: what is found may not be mapped yet, or no more. */
static bool get(void *to, const void *from, size_t size)
{
	struct iovec there = {(void *)from, size}, here = {to, size};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

#define GET(field, v) get(&(v), &(field), sizeof(v))

static struct dp_control *find_control(void)
{
	unsigned long lo, hi;
	char line[512], mode[8];
	struct dp_control *found = NULL;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		struct dp_blob_head head;

		if (sscanf(line, "%lx-%lx %7s", &lo, &hi, mode) != 3 || strcmp(mode, "r-xp") || strchr(line, '/') || strchr(line, '['))
			continue;
		if (hi - lo >= sizeof(head) && get(&head, (void *)lo, sizeof(head)) && head.magic == DP_BLOB_MAGIC &&
		    head.ctl)
			found = (struct dp_control *)head.ctl;
	}
	if (f)
		fclose(f);
	return found;
}

/* By a system call: dprobes may take the mapping away at any moment, and a store there would be our own death. */
static void put(void *to, u64 v, size_t size)
{
	struct iovec from = {&v, size}, there = {to, size};

	process_vm_writev(getpid(), &from, 1, &there, 1, 0);
}

#define PUT(field, v) put(&(field), v, sizeof(field))

static void scribble_header(struct dp_rings *g, u64 size)
{
	(void)size;
	PUT(g->nrings, 100000);
	PUT(g->nprobes, 1u << 26);
	PUT(g->counts_off, 1ull << 45);
	PUT(g->counts_stride, 1ull << 33);
	PUT(g->rings_off, 1ull << 44);
	PUT(g->ring_stride, 1ull << 40);
	PUT(g->ring_size, 1ull << 36);
	PUT(g->size, ~0ull);
	PUT(g->ncpus, 5000);
}

/* Everything behind the header: heads, tails, owners, records. */
static void scribble_rings(struct dp_rings *g, u64 size)
{
	static u64 seed = 88172645463325252ull;

	for (u64 i = 4096 / 8; i < size / 8; i += 1 + seed % 61) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		PUT(((u64 *)g)[i], seed % 3 ? seed : seed & 0x7ffff8);
	}
}

/* ---- the memory file behind them, while it is being made ---- */

static volatile int cut_to = -1, cuts;

static void *cut_files(void *arg)
{
	char path[64], link[128];

	(void)arg;
	for (;;) {
		for (int fd = 3; fd < 64; fd++) {
			ssize_t n;

			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			n = readlink(path, link, sizeof(link) - 1);
			link[n > 0 ? n : 0] = '\0';
			if (strstr(link, "memfd:dprobes")) {
				int mine = dup(fd);

				usleep(2000); /* whoever makes it has mapped it by then */
				cuts += mine >= 0 && !ftruncate(mine, cut_to);
				if (mine >= 0)
					close(mine);
			}
		}
	}
	return NULL;
}

/* ---- questions ---- */

/* "Watch an address in this thread": of a process that is not ours. Returns the answer. */
static u32 ask_for(u32 tid)
{
	struct dp_control *c;
	struct dp_asks *asks;
	struct dp_ask *a;
	u32 serving = 0;
	u64 at = 0;

	while (!(c = find_control()) || !GET(c->asks, at) || !at || !GET(((struct dp_asks *)at)->serving, serving) ||
	       !serving)
		usleep(10000);
	asks = (struct dp_asks *)at;
	a = &asks->v[DP_ASKS - 1];
	a->tid = tid;
	a->addr = (u64)&thing & ~7ull;
	__atomic_store_n(&a->state, DP_ASK_ASKED, __ATOMIC_RELEASE);
	for (int i = 0; i < 3000 && __atomic_load_n(&a->state, __ATOMIC_ACQUIRE) == DP_ASK_ASKED; i++) {
		__atomic_fetch_add(&asks->doorbell, 1, __ATOMIC_RELEASE);
		usleep(10000);
	}
	return a->state;
}

/* ---- what a library of ours would keep ---- */

struct circle {
	u64 words[64];
};
static struct circle circle;

__attribute__((visibility("default"))) struct self_registry dp_self_registry;

/* A list whose end is its beginning: whatever word is taken for the next one. */
static void make_circle(void)
{
	static u64 first;

	for (u32 i = 0; i < 64; i++)
		circle.words[i] = (u64)&circle;
	first = (u64)&circle;
	dp_self_registry = (struct self_registry){SELF_REGISTRY_MAGIC, SELF_REGISTRY_VERSION, 0, (u64)&first};
}

/* ---- the lies ---- */

static const struct {
	const char *name;
	void (*change)(void);
} blocks[] = {
    {"block", NULL},
    {"overlong", overlong_patch},
    {"watches", endless_watches},
    {"counts", endless_tables},
    {"tables", tables_elsewhere},
    {"region", no_region},
    {"wrap", wrapping_region},
    {"service", own_service},
};

static void (*scribble)(struct dp_rings *g, u64 size);

/* Until the input ends; rings that come are written over. */
static void work_on(void)
{
	struct pollfd in = {0, POLLIN, 0};
	u64 size = 0;

	for (unsigned n = 0;; n++) {
		work(n);
		touch(&thing);
		if (n % 4096 == 0 && poll(&in, 1, 0) > 0)
			return;
		if (scribble && n % 4096 == 0) {
			struct dp_rings *g = find_rings(&size);

			if (g)
				scribble(g, size);
		}
		if (n % 1024 == 0)
			usleep(100);
	}
}

int main(int argc, char **argv)
{
	const char *lie = argc > 1 ? argv[1] : "";
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (u32 i = 0; i < DP_ARRAY_SIZE(blocks); i++)
		if (!strcmp(lie, blocks[i].name)) {
			make_block();
			if (blocks[i].change)
				blocks[i].change();
			show_block();
		}
	if (!strcmp(lie, "circle"))
		make_circle();
	if (!strcmp(lie, "header"))
		scribble = scribble_header;
	if (!strcmp(lie, "rings"))
		scribble = scribble_rings;
	if (!strcmp(lie, "cut")) {
		cut_to = 0;
		if (pthread_create(&thread, NULL, cut_files, NULL))
			return 2;
	}
	puts("ready");
	if (!strcmp(lie, "where")) /* tables that only somebody who takes probes out looks at stand in a block */
		printf("%zu %zu\n", offsetof(struct dp_control, patches), offsetof(struct dp_control, segv_taken));
	if (!strcmp(lie, "ask") && argc > 2) {
		u32 state = ask_for((u32)atoi(argv[2]));

		puts(state == DP_ASK_DONE ? "done" : state == DP_ASK_REFUSED ? "refused" : "no answer");
	}
	work_on();
	printf("sink %ld cuts %d\n", sink, cuts);
	return 0;
}
