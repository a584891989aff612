/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Guarded access to the probed process's memory from inside it. Direct where the memory cannot go away (the stack in
 * use, segments that stay mapped), or stays until it is taken back (hit-guard.c); everywhere else by a system call that
 * returns an error instead of faulting.
 */
#include "hit/hit-priv.h"
#include "program/opcode.h"

#define SYS_RT_SIGPROCMASK 14
#define SYS_PRCTL 157
#define SYS_CLONE 56
#define SYS_WAIT4 61
#define SYS_KILL 62
#define SYS_GETPID 39
#define SYS_GETUID 102
#define SYS_GETPPID 110
#define SYS_GETTID 186
#define SYS_RT_SIGACTION 13
#define SYS_FUTEX 202
#define SYS_SIGALTSTACK 131
#define SYS_PRLIMIT64 302
#define SYS_PROCESS_VM_READV 310
#define SYS_PROCESS_VM_WRITEV 311
#define PR_GET_NAME 16
#define RLIMIT_CORE 4
#define HAS_CORE 0x80u /* in what wait tells */
#define PAGE 4096ull

struct iovec_rt {
	u64 base, len;
};

/*
 * Above its stack pointer a thread's stack is its callers': that stays as long as they do. Where it ends is known of
 * the process's first thread, and of those that the C library has made: their control blocks lie at the end of their
 * stacks, and tell. (In that of the first thread the words mean something else, and the first one is 0.) Returns 0 when
 * sp points elsewhere, as on an alternate stack, or a coroutine's.
 */
static u64 stack_end(const struct dp_hit *h, u64 sp)
{
	const struct dp_control *ctl = h->ctl;
	const struct dp_hit_slot *slot = dp_slot_of(h);
	const volatile u64 *stack;
	u64 lo, size;

	if (sp - ctl->stack.lo < ctl->stack.hi - ctl->stack.lo)
		return ctl->stack.hi;
	if (!ctl->stack_off || !slot->tcb)
		return 0;
	stack = (const volatile u64 *)(slot->thread + ctl->stack_off);
	lo = stack[0];
	size = stack[1];
	return lo && sp - lo < size && slot->thread - lo < size ? lo + size : 0;
}

u64 dp_stack_end(const struct dp_hit *h)
{
	return h->aside ? 0 : DP_MAX(DP_ALIGN_DOWN(h->regs->sp, PAGE) + PAGE, stack_end(h, h->regs->sp));
}

/* By words while there are such: a string is read in pieces of 64 bytes. */
static void copy(void *dst, const void *src, u32 len)
{
	volatile u8 *d = dst;
	const volatile u8 *s = src;

	for (; len >= 8; len -= 8, d += 8, s += 8)
		*(volatile u64 *)d = *(const volatile u64 *)s;
	while (len--)
		*d++ = *s++;
}

static bool is_on_stack(const struct dp_hit *h, u64 addr, u32 len)
{
	u64 page = h->regs->sp & ~(PAGE - 1);

	return addr >= page && (addr + len <= page + PAGE || addr + len <= stack_end(h, h->regs->sp));
}

static bool is_in_range(const struct dp_control *ctl, u64 addr, u32 len)
{
	size_t k = DP_COUNT_UP_TO(ctl->ranges, ctl->nranges, lo, addr);

	return k && addr + len <= ctl->ranges[k - 1].hi;
}

/* Copies what can be loaded; false when it has to be asked for. */
static bool load(const struct dp_hit *h, void *dst, u64 src, u32 len)
{
	if (h->aside || src + len < src)
		return false;
	/* Most reads are where the thread has read before: that is looked at before the search. */
	if (!is_on_stack(h, src, len)) {
		if (h->ctl->stretches && dp_stretch_read_again(h, dst, src, len))
			return true;
		if (!is_in_range(h->ctl, src, len))
			return h->ctl->stretches && dp_stretch_read(h, dst, src, len);
	}
	if (__builtin_expect(dp_slot_of(h)->wants, 0))
		dp_stretch_learn(h, src);
	copy(dst, (const void *)src, len);
	return true;
}

/* The whole range can be read: the kernel copies a signal mask from there before it looks at a wrong `how`. */
static bool readable(u64 addr, u32 len)
{
	u64 last = addr + len - 1;

	if (last < addr)
		return false;
	for (u64 p = addr;; p = (p & ~(PAGE - 1)) + PAGE) {
		/* Eight bytes that lie in the page of p. */
		u64 at = DP_MIN(p & ~7ull, (p & ~(PAGE - 1)) + PAGE - 8);

		at = DP_MAX(at, 8ull); /* a null pointer would mean: no mask */
		if (dp_syscall(SYS_RT_SIGPROCMASK, 0x7fff, at, 0, 8, 0, 0) == -EFAULT)
			return false;
		if ((p & ~(PAGE - 1)) == (last & ~(PAGE - 1)))
			return true;
	}
}

bool dp_fetch(u32 tid, void *dst, u64 src, u32 len)
{
	struct iovec_rt here = {(u64)dst, len}, there = {src, len};

	return dp_syscall(SYS_PROCESS_VM_READV, tid, (u64)&here, 1, (u64)&there, 1, 0) == (s64)len;
}

/*
 * Programs read members of one structure: the bytes around the first come with it, for one system call. They lie in the
 * same page, so they can be read exactly if it can. Each is given out once: a program that reads it again gets what is
 * there then. Nothing but a running program asks for this (h->near): others wait between two reads.
 */
static bool is_near(const struct dp_hit *h, u64 src, u32 len)
{
	return h->near != DP_NEAR_OFF && src >= DP_NEAR && src % DP_NEAR + len <= DP_NEAR;
}

static bool read_near(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	u64 line = DP_ALIGN_DOWN(src, (u64)DP_NEAR), bits = (len == 64 ? ~0ull : (1ull << len) - 1) << (src - line);

	if (h->near != line || h->taken & bits) {
		h->near = 0;
		if (!dp_fetch(h->tid, h->line, line, DP_NEAR))
			return false;
		h->near = line;
		h->taken = 0;
	}
	h->taken |= bits;
	copy(dst, (const u8 *)h->line + (src - line), len);
	return true;
}

static __attribute__((noinline, cold)) u32 ask_for(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	struct iovec_rt here = {(u64)dst, len};
	/* One element for each page: a transfer stops between elements, never inside one. */
	u64 first = DP_MIN(len, PAGE - (src & (PAGE - 1)));
	struct iovec_rt there[2] = {{src, first}, {src + first, len - first}};
	s64 n;

	if (h->ctl->caps & DP_CAP_PVR) {
		if (is_near(h, src, len))
			return read_near(h, dst, src, len) ? len : 0;
		n = dp_syscall(SYS_PROCESS_VM_READV, h->tid, (u64)&here, 1, (u64)there, len > first ? 2 : 1, 0);
		return n > 0 ? (u32)n : 0;
	}
	if (h->ctl->caps & DP_CAP_PROBE_READ) {
		if (!readable(src, (u32)first))
			return 0;
		if (len > first && !readable(src + first, len - (u32)first))
			len = (u32)first;
		copy(dst, (const void *)src, len);
		return len;
	}
	return 0;
}

/* How many bytes from src on could be copied, up to len; 0 when none. */
static u32 read_some(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	return load(h, dst, src, len) ? len : ask_for(h, dst, src, len);
}

int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	/* Longer reads than a page would need more elements; programs are limited to one record. */
	while (len > PAGE) {
		if (read_some(h, dst, src, PAGE) != PAGE)
			return -EFAULT;
		dst = (u8 *)dst + PAGE;
		src += PAGE;
		len -= PAGE;
	}
	return read_some(h, dst, src, len) == len ? 0 : -EFAULT;
}

static bool write_all(const struct dp_hit *h, u64 dst, const void *src, u32 len)
{
	struct iovec_rt here = {(u64)src, len};
	struct iovec_rt there = {dst, len};

	return dp_syscall(SYS_PROCESS_VM_WRITEV, h->tid, (u64)&here, 1, (u64)&there, 1, 0) == (s64)len;
}

int dp_hit_write(struct dp_hit *h, u64 dst, const void *src, u32 len)
{
	u32 first = (u32)DP_MIN((u64)len, PAGE - (dst & (PAGE - 1)));
	u8 old[8];
	u64 page = h->regs->sp & ~(PAGE - 1);

	h->near &= DP_NEAR_OFF; /* what was read may be what is written */
	/* Our own memory is not the program's to write: slots, rings, the control block. */
	if (dst < h->ctl->region_hi && dst + len > h->ctl->region_lo)
		return -EFAULT;
	if (dst - page < PAGE && dst + len - page <= PAGE) {
		copy((void *)dst, src, len);
		return 0;
	}
	if (!(h->ctl->caps & DP_CAP_PVR))
		return -EFAULT;
	if (first == len || len - first > sizeof(old))
		return write_all(h, dst, src, len) ? 0 : -EFAULT;
	/*
	 * Over the end of a page: all or nothing. The kernel would write the first part, and then fail at the second.
	 */
	if (dp_hit_read(h, old, dst + first, len - first) ||
	    !write_all(h, dst + first, (const u8 *)src + first, len - first))
		return -EFAULT;
	if (write_all(h, dst, src, first))
		return 0;
	write_all(h, dst + first, old, len - first);
	return -EFAULT;
}

/* Of a text of at most n bytes; n: it has no end there. */
static u32 length(const char *text, u32 n)
{
	const u64 ones = 0x0101010101010101ull;
	u32 i = 0;

	for (; i + 8 <= n; i += 8) {
		u64 word = *(const volatile u64 *)(text + i), zeroes = (word - ones) & ~word & ones << 7;

		if (zeroes)
			return i + (u32)__builtin_ctzll(zeroes) / 8;
	}
	while (i < n && text[i])
		i++;
	return i;
}

int dp_hit_read_str(struct dp_hit *h, char *dst, u64 src, u32 size)
{
	u32 done = 0;

	if (!size)
		return -EFAULT;
	while (done < size - 1) {
		/* Within a page: memory that is loaded ends with one, and the string may lie before that. */
		u32 want = DP_MIN(DP_MIN(size - 1 - done, 64u), (u32)(PAGE - ((src + done) & (PAGE - 1))));
		u32 got = read_some(h, dst + done, src + done, want);

		if (!got)
			break;
		u32 len = length(dst + done, got);

		if (len < got)
			return (int)(done + len + 1);
		done += got;
		if (got < want)
			break;
	}
	if (!done)
		return -EFAULT;
	dst[done] = '\0';
	return (int)(done + 1);
}

void dp_hit_comm(struct dp_hit *h, char *dst16)
{
	(void)h;
	if (dp_syscall(SYS_PRCTL, PR_GET_NAME, (u64)dst16, 0, 0, 0, 0) < 0)
		dst16[0] = '\0';
}

bool dp_hit_writable(struct dp_hit *h, u64 addr)
{
	u64 page = h->regs->sp & ~(PAGE - 1);
	u32 nobody = 0;

	if (addr >= h->ctl->region_lo && addr < h->ctl->region_hi)
		return false;
	if (addr - page < PAGE)
		return true;
	/*
	 * Writing a byte back would undo what another thread writes meanwhile. The kernel adds nothing to the word
	 * instead, in one step (FUTEX_WAKE_OP, private), and wakes nobody on the first address.
	 */
	return dp_syscall(SYS_FUTEX, (u64)&nobody, 5 | 128, 0, 0, addr & ~3ull, 1u << 28) != -EFAULT;
}

/* A child that inherited its probes has another id than the control block says. */
u32 dp_hit_pid(struct dp_hit *h)
{
	u32 *known = (u32 *)h->ctl->tids + h->ctl->nslots, pid; /* wiped in a child */

	if (h->tid == h->ctl->pid || !(h->ctl->caps & DP_CAP_GETTID))
		return h->ctl->pid;
	if (*known)
		return *known;
	pid = (u32)dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0);
	/*
	 * A child of vfork, which does not know that it is one, writes to its parent's memory: it must not note its id.
	 */
	if ((u32)dp_syscall(SYS_GETTID, 0, 0, 0, 0, 0, 0) == h->tid)
		*known = pid;
	return pid;
}

s64 dp_hit_uid(struct dp_hit *h)
{
	return h->ctl->caps & DP_CAP_GETUID ? (u32)dp_syscall(SYS_GETUID, 0, 0, 0, 0, 0, 0) : -1ll;
}

s64 dp_hit_ppid(struct dp_hit *h)
{
	return h->ctl->caps & DP_CAP_GETPPID ? (u32)dp_syscall(SYS_GETPPID, 0, 0, 0, 0, 0, 0) : -1ll;
}

u32 dp_hit_cpu(struct dp_hit *h)
{
	const struct dp_control *ctl = h->ctl;
	u32 cpu = ~0u;
	u64 tp;

	if (ctl->caps & DP_CAP_RDPID)
		return dp_rdpid();
	tp = ctl->caps & DP_CAP_RSEQ ? dp_thread_pointer(ctl) : 0;
	if (tp >= 0x10000 && *(volatile u64 *)tp == tp) /* as in hit.c: the area is there */
		cpu = *(volatile u32 *)(tp + (u64)(s64)ctl->rseq_off + 4);
	if (cpu < ctl->ncpus)
		return cpu;
	if (ctl->caps & DP_CAP_LSL)
		cpu = dp_cpu_by_limit();
	else if (ctl->caps & DP_CAP_RDTSCP)
		dp_rdtscp(&cpu);
	else if (ctl->caps & DP_CAP_GETCPU)
		cpu = dp_getcpu();
	return cpu == ~0u ? 0 : cpu;
}

u64 dp_hit_ns(struct dp_hit *h)
{
	u64 ticks = dp_rdtsc() - h->ctl->clock_tsc;

	return h->ctl->clock_ns + (u64)((unsigned __int128)ticks * h->ctl->clock_mult >> 32);
}

/* Nothing of the hit path touches these registers, so they are still the program's. */
void dp_hit_fxsave(struct dp_hit *h, void *area512)
{
	(void)h;
	dp_fxsave(area512);
}

u64 dp_hit_segment(struct dp_hit *h, u32 which)
{
	return which < 4 ? dp_selector(which) : dp_segment_base(h->ctl, which == 5);
}

void dp_hit_cpuid(struct dp_hit *h, u32 leaf, u32 abcd[4])
{
	(void)h;
	dp_cpuid(leaf, abcd);
}

/*
 * Go to where the probe was hit, as rt_sigreturn does it, with nothing blocked: a signal that waits strikes there.
 * Debuggers see the probed function, its registers and its callers, and nothing of ours.
 */
static void return_to_hit(struct dp_hit *h)
{
	u64 uc[DP_CTX_WORDS];
	u8 fp[512] __attribute__((aligned(64)));

	for (u32 i = 0; i < DP_CTX_WORDS; i++)
		((volatile u64 *)uc)[i] = 0;
	dp_syscall(SYS_SIGALTSTACK, 0, (u64)&uc[DP_CTX_ALT], 0, 0, 0, 0);
	dp_context_of(h->regs, uc);
	uc[DP_CTX_SEGMENTS] = DP_CTX_USER_STACK << 48 | DP_CTX_USER_CODE;
	dp_hit_fxsave(h, fp);
	for (u32 i = 464; i < sizeof(fp); i++)
		((volatile u8 *)fp)[i] = 0; /* there is no more of the state than this */
	uc[DP_CTX_STATE] = (u64)fp;
	dp_enter_context(uc);
}

/* In the copy: die of SIGABRT, with a core as large as is allowed. Does not return. */
static void die_with_core(struct dp_hit *h, bool any)
{
	u64 limits[2], by_default[4] = {0}, all = ~0ull;

	if (any && !dp_syscall(SYS_PRLIMIT64, 0, RLIMIT_CORE, 0, (u64)limits, 0, 0)) {
		limits[0] = limits[1];
		dp_syscall(SYS_PRLIMIT64, 0, RLIMIT_CORE, (u64)limits, 0, 0, 0);
	}
	dp_syscall(SYS_RT_SIGACTION, 6, (u64)by_default, 0, 8, 0, 0);
	dp_syscall(SYS_RT_SIGPROCMASK, 2, (u64)&all, 0, 8, 0, 0);
	dp_syscall(SYS_KILL, (u64)dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0), 6, 0, 0, 0, 0);
	return_to_hit(h);
}

/*
 * A copy of the process dies for it. The copy ends without a signal to the program, and only a wait for children of
 * that kind sees it. The thread stands still until the core is written.
 */
static u32 dump(struct dp_hit *h, bool any)
{
	u64 limits[2] = {0};
	u32 status = 0;
	s64 pid;

	if (!any && !dp_syscall(SYS_PRLIMIT64, 0, RLIMIT_CORE, 0, (u64)limits, 0, 0) && !limits[0])
		return DP_CORE_LIMITED;
	pid = dp_syscall(SYS_CLONE, 0, 0, 0, 0, 0, 0);
	if (pid == 0)
		die_with_core(h, any);
	if (pid < 0)
		return DP_CORE_FAILED;
	while (dp_syscall(SYS_WAIT4, (u64)pid, (u64)&status, 0x40000000 /* __WALL */, 0, 0, 0) == -EINTR)
		;
	return (u32)pid << 8 | (status & HAS_CORE ? DP_CORE_MADE : DP_CORE_FAILED);
}

void dp_hit_exit(struct dp_hit *h, u32 facility)
{
	if (!(h->ctl->caps & DP_CAP_DUMP))
		return;
	if (facility >= DP_EXIT_COREDUMP)
		h->core = dump(h, facility == DP_EXIT_COREDUMP_ANY);
	else
		h->rec_flags |= DP_REC_STOP;
}

void dp_hit_stop(struct dp_hit_slot *slot, u64 where)
{
	*(volatile u64 *)&slot->stopped = where;
	dp_syscall(SYS_KILL, (u64)dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0), 19 /* SIGSTOP */, 0, 0, 0, 0);
	*(volatile u64 *)&slot->stopped = 0;
}
