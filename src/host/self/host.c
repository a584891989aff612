/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What this process gives to the probe manager: code is written through /proc/thread-self/mem (no
 * page is ever writable and executable), membarrier serialises all threads, and a look at the
 * threads' records tells when no handler of an older list runs any more. Control side, under the
 * lock.
 */
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "host/self/host.h"
#include "host/self/own-probes.h"
#include "symbols/symbols.h"

#define SYNC_CORE 32
#define REGISTER_SYNC_CORE 64
#define REACH 0x7fff0000ull
#define HEAP_MARGIN (256ull << 20)
#define STACK_MARGIN (256ull << 20)

/* State components that C code may touch: x87, SSE, AVX, AVX-512. Not: tiles, protection keys. */
#define COMPONENTS 0xe7u
#define SSE 2u
#define HIGH 0xa0u /* k0 to k7, zmm16 to zmm31: self-entry.S saves them one by one */

u32 dp_self_xmask, dp_self_xrest, dp_self_xhigh, dp_self_xsize;

static int mem_fd = -1;

extern const char __start_dprobes_text[], __stop_dprobes_text[];

/* arg: a descriptor that is opened when it is needed. */
int dp_self_write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	int *fd = arg;
	ssize_t r;

	if (*fd < 0)
		*fd = open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC);
	r = *fd < 0 ? -1 : pwrite(*fd, bytes, n, (off_t)addr);
	if (r == (ssize_t)n)
		return 0;
	return dp_fail(err, E_TARGET_MEM, "writing %u bytes at 0x%llx: %s", n, (unsigned long long)addr,
		       r < 0 ? strerror(errno) : "not all were written");
}

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	return dp_self_write_code(&mem_fd, addr, bytes, n, err);
}

void dp_self_host_close(void)
{
	if (mem_fd >= 0)
		close(mem_fd);
	mem_fd = -1;
}

/* A child made by fork is not registered on every kernel: registering again costs nothing. */
int dp_self_serialise(void *arg, struct dp_error *err)
{
	if (!syscall(SYS_membarrier, SYNC_CORE, 0, 0))
		return 0;
	if (!syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) && !syscall(SYS_membarrier, SYNC_CORE, 0, 0))
		return 0;
	return dp_fail(err, E_TARGET_CALL, "membarrier: %s", strerror(errno));
}

/* Hits use membarrier, too (instances.c), and do not register. */
void dp_self_host_forked(void)
{
	syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0);
}

void dp_self_breathe(void *arg)
{
}

static bool has_blacklisted(u64 addr);

/* Our own code: all of the library when it is a shared object, the hit path when it is part of the
 * program. */
bool dp_self_is_own(u64 addr)
{
	struct self_image *own = dp_self_image_at((u64)&dp_self_manager);

	if (addr >= (u64)__start_dprobes_text && addr < (u64)__stop_dprobes_text)
		return true;
	return own && !own->is_exe && addr >= own->lo && addr < own->hi;
}

static int locate(void *arg, u64 addr, struct dp_locus *l, struct dp_error *err)
{
	struct self_image *im = dp_self_image_at(addr);
	int r;

	if (!im) {
		if (dp_self_images_refresh())
			return dp_fail(err, E_FILE_MEMORY, "the list of modules");
		im = dp_self_image_at(addr);
	}
	if (!im)
		return dp_fail(err, E_SITE_NOTEXT, "0x%llx is in no module", (unsigned long long)addr);
	if (dp_self_is_own(addr))
		return dp_fail(err, E_SITE_OWN, "0x%llx", (unsigned long long)addr);
	r = dp_self_image_module(im, err);
	if (!r)
		r = dp_module_text(im->mod, addr - im->bias, &l->text, err);
	if (r)
		return r;
	l->bias = im->bias;
	l->module = im;
	l->reach_lo = im->hi > REACH ? im->hi - REACH : 65536;
	l->reach_hi = im->lo + REACH;
	if (has_blacklisted(addr))
		return dp_fail(err, E_KPROBE_BLACKLIST, "0x%llx", (unsigned long long)addr);
	return 0;
}

static int refresh(void *arg, struct dp_space *space)
{
	struct dp_maps maps = {0};
	int r = dp_maps_read(&maps, getpid(), NULL);

	if (!r)
		r = dp_space_busy(space, 0, 65536);
	for (size_t i = 0; i < maps.n && !r; i++) {
		u64 lo = maps.v[i].lo, hi = maps.v[i].hi;

		if (!strcmp(maps.v[i].path, "[heap]"))
			hi += HEAP_MARGIN;
		if (!strcmp(maps.v[i].path, "[stack]"))
			lo -= STACK_MARGIN;
		if (lo < 1ull << 47)
			r = dp_space_busy(space, lo, hi);
	}
	dp_maps_free(&maps);
	return r ? r : dp_space_busy(space, (1ull << 47) - 4096, ~0ull);
}

static int map(void *arg, u64 lo, u64 hi, struct dp_error *err)
{
	void *p = mmap((void *)lo, hi - lo, PROT_READ | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == (void *)lo)
		return 0;
	if (p != MAP_FAILED) {
		munmap(p, hi - lo);
		return -EEXIST;
	}
	if (errno == EEXIST)
		return -EEXIST;
	return dp_fail(err, E_TARGET_CALL, "mmap at 0x%llx: %s", (unsigned long long)lo, strerror(errno));
}

int dp_self_peek(void *arg, u64 addr, void *bytes, u32 n)
{
	return dp_self_read(addr, bytes, n) ? 0 : -EFAULT;
}

static bool is_alive(int tid)
{
	return !syscall(SYS_tgkill, getpid(), tid, 0) || errno != ESRCH;
}

/*
 * The membarrier makes every hit that read an older list visible as depth and seq (hit.c,
 * self_enter), whatever its processor had put off; a hit that begins later reads the new list. So
 * it is enough to wait for those that are seen inside now. Our own thread's hit, when a handler
 * asks, cannot be waited for.
 */
static void wait_out(int tid, const u32 *depth, const u64 *seq)
{
	const struct timespec nap = {0, 50000};
	u64 now = __atomic_load_n(seq, __ATOMIC_RELAXED);

	for (u32 n = 0; __atomic_load_n(depth, __ATOMIC_ACQUIRE) && /* pairs with self_leave() */
			__atomic_load_n(seq, __ATOMIC_RELAXED) == now;
	     n++) {
		if (n % 64 == 63 && !is_alive(tid))
			break;
		nanosleep(&nap, NULL);
	}
}

static void grace(bool hooks)
{
	/*
	 * These acquires pair with new_thread() and claim(): a record that is seen was zero, or belongs to its thread.
	 */
	u32 used = DP_MIN(__atomic_load_n(&dp_self_threads_used, __ATOMIC_ACQUIRE), (u32)SELF_THREADS);
	struct self_thread *me = dp_self_thread();

	dp_self_serialise(NULL, NULL);
	for (u32 i = 0; i < used; i++) {
		struct self_thread *t = &dp_self_threads[i];
		int tid = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);

		if (!tid || t == me)
			continue;
		if (hooks)
			wait_out(tid, &t->hook.depth, &t->hook.seq);
		else
			wait_out(tid, &t->depth, &t->seq);
	}
}

void dp_self_grace(void *arg)
{
	grace(false);
}

/* The same for exits of hooks. */
void dp_self_hooks_grace(void)
{
	grace(true);
}

/* Give the records of ended threads back. A thread that is just being made has its number already.
 */
void dp_self_reap(void)
{
	/* Pair as in grace(); giving a record back pairs with claim(). */
	u32 used = DP_MIN(__atomic_load_n(&dp_self_threads_used, __ATOMIC_ACQUIRE), (u32)SELF_THREADS);

	for (u32 i = 0; i < used; i++) {
		int tid = __atomic_load_n(&dp_self_threads[i].tid, __ATOMIC_ACQUIRE);

		if (tid && !is_alive(tid))
			__atomic_compare_exchange_n(&dp_self_threads[i].tid, &tid, 0, false, __ATOMIC_ACQ_REL,
						    __ATOMIC_RELAXED);
	}
}

/* Does any other thread block SIGTRAP at this moment? */
static bool blocks_trap(const char *tid)
{
	char path[64], line[256];
	unsigned long long mask = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "SigBlk: %llx", &mask) == 1)
			break;
	fclose(f);
	return mask >> (SIGTRAP - 1) & 1;
}

/* Does it wait for a child without handlers, which is on its way to its program? */
static bool waits_for_child(const char *tid)
{
	unsigned long long args = 0, flags = 0;
	struct iovec there, here = {&flags, sizeof(flags)};
	char path[64];
	int number;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%d %llx", &number, &args) != 2 || number != SYS_clone3) /* it runs, or makes another call */
		args = 0;
	fclose(f);
	there = (struct iovec){(void *)(uintptr_t)args, sizeof(flags)};
	return args && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(flags) && flags & CLEAR_SIGHAND;
}

static bool any_is_blocked(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] != '.' && (blocks_trap(e->d_name) || waits_for_child(e->d_name));
	if (d)
		closedir(d);
	return found;
}

/* Threads block everything for a moment while others are created, and programs are started. */
int dp_self_wait_unblocked(struct dp_error *err)
{
	const struct timespec nap = {0, 2000000};

	for (int i = 0; any_is_blocked(); i++) {
		if (i == 500)
			return dp_fail(err, E_KPROBE_BLOCKED, "process %d", (int)getpid());
		nanosleep(&nap, NULL);
	}
	return 0;
}

static void find_vectors(void)
{
	u32 a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || (a & 6) != 6) /* xsavec, xgetbv(1) */
		return;
	dp_self_xmask = dp_xcr0() & COMPONENTS;
	dp_self_xrest = dp_self_xhigh = dp_self_xmask & ~SSE;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512F && b & bit_AVX512BW)
		dp_self_xhigh &= ~HIGH;
	/* The standard format with all of the enabled components is never shorter than the
	 * compacted one. */
	__get_cpuid_count(0xd, 0, &a, &b, &c, &d);
	dp_self_xsize = 576;
	for (u32 i = 2; i < 8; i++)
		if (dp_self_xmask >> i & 1 && __get_cpuid_count(0xd, i, &a, &b, &c, &d))
			dp_self_xsize = DP_ALIGN_UP(dp_self_xsize, 64u) + a;
}

static void looked_at(void *arg, struct dp_kpoint *p)
{
	dp_kprobes_show_state(p);
}

static const struct dp_mgr_host host = {
    .code = {write_code, dp_self_serialise, dp_self_breathe, NULL},
    .locate = locate,
    .refresh = refresh,
    .map = map,
    .fill = write_code,
    .peek = dp_self_peek,
    .grace = dp_self_grace,
    .looked_at = looked_at,
    .zone = 128,
};

int dp_self_host_init(struct dp_error *err)
{
	static struct dp_mgr_host h;

	find_vectors();
	if (syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0))
		return dp_fail(err, E_TARGET_CPU, "membarrier: %s", strerror(errno));
	h = host;
	h.entry = (u64)dp_self_entry;
	h.entry_jumps = true;
	if (dp_mgr_init(&dp_self_manager, &h))
		return dp_fail(err, E_ARM_NOMEM, "the manager");
	return 0;
}

/* ---- the blacklist ---- */

static struct dp_span *black; /* hi 0: not looked up yet */
static u32 nblack;

/* The whole function where its end is known, else its first byte. */
static void look_up(struct dp_span *b)
{
	struct self_image *im = dp_self_image_at(b->lo);
	struct dp_symbol s;

	b->hi = b->lo + 1;
	if (im && !dp_self_image_module(im, NULL) && dp_module_symbol_at(im->mod, b->lo - im->bias, &s) && s.size)
		*b = (struct dp_span){s.addr + im->bias, s.addr + s.size + im->bias};
}

static bool has_blacklisted(u64 addr)
{
	for (u32 i = 0; i < nblack; i++) {
		if (!black[i].hi)
			look_up(&black[i]);
		if (addr >= black[i].lo && addr < black[i].hi)
			return true;
	}
	return false;
}

void dp_self_blacklist(u64 addr)
{
	struct dp_span *v = realloc(black, (nblack + 1) * sizeof(*v));

	if (!v)
		return;
	black = v;
	v[nblack++] = (struct dp_span){addr, 0};
}
