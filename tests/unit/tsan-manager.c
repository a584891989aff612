/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The probe manager under ThreadSanitizer: one thread registers, removes, enables and disables
 * probes at random; others do all that a hit may do meanwhile: find where a trap goes on, read the
 * slot there, walk the list of probes, ask for the home of an address. Code is bytes in memory that
 * nobody executes. test_tsan.py runs this.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/analysis.h"
#include "engine/manager.h"

#define FUNCS 40
#define STRIDE 64
#define PROCESSORS 2
#define CHANGES 60000 /* at least; and until the processors have come to hit */
#define HITS 5000
#define SIZE 4096 /* bytes of code */

static const u8 body[] = {0x55,                   /* push %rbp */
			  0x48, 0x89, 0xe5,       /* mov %rsp,%rbp */
			  0x48, 0x8d, 0x47, 0x01, /* lea 1(%rdi),%rax */
			  0x74, 0x02,             /* je +2 */
			  0x90, 0x90,             /* nop, nop */
			  0x5d, 0xc3};            /* pop %rbp; ret */
static const u8 offsets[] = {0, 1, 4, 8, 10, 12};

static u8 *code;                       /* what "runs" */
static u8 original[SIZE];              /* the file */
static u8 targets[SIZE], starts[SIZE]; /* bitmaps, with room to spare */
static struct dp_func funcs[FUNCS];
static struct dp_code_text text;
static struct dp_manager manager;
static unsigned reports;

void __tsan_on_report(void *report);
void __tsan_on_report(void *report)
{
	__atomic_fetch_add(&reports, 1, __ATOMIC_RELAXED);
}

/* ---- the host ---- */

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	for (u32 i = 0; i < n; i++)
		__atomic_store_n((u8 *)addr + i, ((const u8 *)bytes)[i], __ATOMIC_RELAXED);
	return 0;
}

static int serialise(void *arg, struct dp_error *err)
{
	return 0;
}

static void breathe(void *arg)
{
}

static int locate(void *arg, u64 addr, struct dp_locus *l, struct dp_error *err)
{
	*l = (struct dp_locus){
	    .text = &text.t, .reach_lo = (u64)code + SIZE - 0x7fff0000ull, .reach_hi = (u64)code + 0x7fff0000ull};
	return 0;
}

static int refresh(void *arg, struct dp_space *space)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[600];
	int r = f ? dp_space_busy(space, 0, 65536) : -EFAULT;

	while (f && !r && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &lo, &hi) == 2 && lo < 1ul << 47)
			r = dp_space_busy(space, lo, hi);
	if (f)
		fclose(f);
	return r ? r : dp_space_busy(space, (1ull << 47) - 4096, ~0ull);
}

static int map(void *arg, u64 lo, u64 hi, struct dp_error *err)
{
	void *p = mmap((void *)lo, hi - lo, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	return p == (void *)lo ? 0 : -EEXIST;
}

/* Ordinary stores: whoever reads the slot must have been shown the way by the manager. */
static int fill(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	memcpy((void *)addr, bytes, n);
	return 0;
}

static int peek(void *arg, u64 addr, void *bytes, u32 n)
{
	for (u32 i = 0; i < n; i++)
		((u8 *)bytes)[i] = __atomic_load_n((u8 *)addr + i, __ATOMIC_RELAXED);
	return 0;
}

/* Who is inside. An exchange on both sides stands for the barriers of a real host. */
static struct processor {
	pthread_t thread;
	u32 inside;
	unsigned seed;
	unsigned long hits, calls, lost, always;
} processors[PROCESSORS];

static void grace(void *arg)
{
	for (int i = 0; i < PROCESSORS; i++)
		while (__atomic_fetch_add(&processors[i].inside, 0, __ATOMIC_SEQ_CST) & 1)
			sched_yield();
}

static const struct dp_mgr_host host = {
    .code = {write_code, serialise, breathe, NULL},
    .locate = locate,
    .refresh = refresh,
    .map = map,
    .fill = fill,
    .peek = peek,
    .grace = grace,
    .entry = 0x1000,
    .entry_jumps = true,
    .zone = 128,
};

/* ---- hits ---- */

static unsigned next(unsigned *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* The constant behind "lea -128(%rsp),%rsp; push point(%rip)" at the start of a slot. */
static struct dp_kpoint *point_of(u64 slot)
{
	s32 disp;
	u64 tagged;

	memcpy(&disp, (void *)(slot + 7), 4);
	memcpy(&tagged, (void *)(slot + 11 + (u64)disp), 8);
	return (struct dp_kpoint *)(tagged & ~DP_HIT_TAGS);
}

struct owner { /* of a probe: what a handler may look at until it is unregistered */
	struct dp_mgr_probe k;
	unsigned long number, *alive;
};

static void hit(struct processor *me, u64 slot)
{
	struct dp_kpoint *p, *home;
	struct dp_hitlist *list;
	u32 index;

	__atomic_fetch_or(&me->inside, 1, __ATOMIC_SEQ_CST);
	p = point_of(slot);
	me->lost += p->addr < (u64)code || p->addr >= (u64)code + SIZE;
	__atomic_load_n(&p->vectors, __ATOMIC_RELAXED);
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE);
	for (u32 i = 0; list && i < list->n; i++) {
		const struct owner *o = list->v[i]->owner;

		me->calls += *o->alive; /* freed memory would be found here */
		me->always += __atomic_load_n(&list->v[i]->flags, __ATOMIC_RELAXED) & DP_MGR_ALWAYS && list->general;
	}
	if (me->hits % 256 == 0)
		dp_mgr_home(&manager, slot + 24 + next(&me->seed) % 32, &home, &index);
	__atomic_fetch_and(&me->inside, ~1u, __ATOMIC_SEQ_CST);
	__atomic_store_n(&me->hits, me->hits + 1, __ATOMIC_RELAXED);
}

static bool stop;

static void *processor(void *arg)
{
	struct processor *me = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		u64 addr = (u64)code + next(&me->seed) % FUNCS * STRIDE + offsets[next(&me->seed) % sizeof(offsets)];
		u64 to;

		if (next(&me->seed) % 64 == 0) /* let the others run where processors are few */
			sched_yield();
		if (__atomic_load_n((u8 *)addr, __ATOMIC_RELAXED) != 0xcc)
			continue;
		to = dp_mgr_redirect(&manager, addr);
		/* A boundary byte's way leads behind a hit: only ways to a slot's start are hits.
		 */
		if (!to)
			me->lost++;
		else if (*(u8 *)to == 0x48 && *(u8 *)(to + 4) == 0x80)
			hit(me, to);
	}
	return NULL;
}

/* ---- changes ---- */

#define PROBES 60
static struct owner *probes[PROBES];
static u64 places[PROBES];

static int change(unsigned *seed)
{
	struct dp_error err;
	u32 n = next(seed) % PROBES, flags = 0;
	int r = 0;

	if (next(seed) % 3 == 0)
		flags |= DP_MGR_POST;
	if (next(seed) % 3 == 0)
		flags |= DP_MGR_GENERAL;
	if (!probes[n]) {
		struct owner *o = calloc(1, sizeof(*o));

		o->alive = malloc(sizeof(long));
		*o->alive = 1;
		o->k.owner = o;
		o->k.flags = flags;
		places[n] = (u64)code + next(seed) % FUNCS * STRIDE + offsets[next(seed) % sizeof(offsets)];
		r = dp_mgr_attach(&manager, places[n], &o->k, &err);
		probes[n] = o;
	} else if (next(seed) & 1) {
		flags = (probes[n]->k.flags & ~(u32)DP_MGR_DISABLED) | (next(seed) & 1 ? DP_MGR_DISABLED : 0);
		r = dp_mgr_flags(&manager, &probes[n]->k, flags);
	} else {
		dp_mgr_detach(&manager, &probes[n]->k);
		r = dp_mgr_apply(&manager, &err);
		free(probes[n]->alive);
		free(probes[n]);
		probes[n] = NULL;
		return r;
	}
	if (!r && next(seed) % 50 == 0)
		r = dp_mgr_knobs(&manager, next(seed) % 4 == 0, next(seed) & 1);
	return r ? r : dp_mgr_apply(&manager, &err);
}

static int set_up(void)
{
	struct dp_analysis an = {.texts = &text, .ntexts = 1};

	code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(original, 0x90, SIZE);
	for (u32 i = 0; i < FUNCS; i++) {
		memcpy(original + i * STRIDE, body, sizeof(body));
		funcs[i] = (struct dp_func){(u64)code + i * STRIDE, (u64)code + i * STRIDE + sizeof(body)};
	}
	memcpy(code, original, SIZE);
	text.funcs = funcs;
	text.targets = targets;
	text.starts = starts;
	text.t = (struct dp_text){(u64)code, (u64)code + SIZE, original, targets, funcs, FUNCS};
	text.t.starts = starts;
	if (dp_code_know(&an, DP_CODE_ALL))
		return -1;
	dp_code_release(&an);
	return dp_mgr_init(&manager, &host);
}

static bool enough(void)
{
	for (int i = 0; i < PROCESSORS; i++)
		if (__atomic_load_n(&processors[i].hits, __ATOMIC_RELAXED) < HITS)
			return false;
	return true;
}

int main(void)
{
	unsigned long hits = 0, calls = 0, lost = 0, changes = 0;
	unsigned seed = 7;
	struct dp_error err;
	int failed = 0, r = set_up();

	for (int i = 0; i < PROCESSORS && !r; i++) {
		processors[i].seed = (unsigned)i + 1;
		r = pthread_create(&processors[i].thread, NULL, processor, &processors[i]);
	}
	for (; !r && (changes < CHANGES || !enough()); changes++)
		failed += !!change(&seed);
	for (int i = 0; i < PROBES && !r; i++)
		if (probes[i])
			dp_mgr_detach(&manager, &probes[i]->k);
	failed += r || dp_mgr_apply(&manager, &err);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < PROCESSORS && !r; i++) {
		pthread_join(processors[i].thread, NULL);
		hits += processors[i].hits;
		calls += processors[i].calls;
		lost += processors[i].lost;
	}
	printf("%sok 1 - %lu changes while %d processors hit: %lu hits, %lu calls of handlers, %lu "
	       "lost, %d failed\n",
	       !failed && !lost && calls ? "" : "not ", changes, PROCESSORS, hits, calls, lost, failed);
	printf("%sok 2 - every byte is back\n", memcmp(code, original, SIZE) ? "not " : "");
	printf("%sok 3 - ThreadSanitizer reports nothing (%u)\n1..3\n", reports ? "not " : "", reports);
	return failed || lost || reports;
}
