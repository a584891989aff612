/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that hits load from, and the guards that take it back: hits at the system calls of the process that may unmap
 * it, or make it unreadable (abi/abi-stretch.h). A guard must not fail: where it does not know enough, or its hit is
 * missed, nothing is loaded any more.
 *
 * A call:
 *	1. The guard begins a new turn and counts the call, in one step. An offer that was made before is not taken any
 *	   more, and no offer is made while a call is on its way.
 *	2. It removes what the call is about from both tables.
 *	3. It waits until no thread is in a load that may have found it there before (dp_load() in hit-entry.S).
 *	4. The call is made.
 *	5. The guard behind it counts down.
 *
 * A new table is in force when the state says so; the other one is written again when all loads that may go by it have
 * ended.
 */
#include "abi/abi-point.h"
#include "abi/abi-stretch.h"
#include "hit/hit-priv.h"

#define SYS_GETTID 186
#define SYS_FUTEX 202
#define SYS_MEMBARRIER 324
#define BARRIER 8          /* MEMBARRIER_CMD_PRIVATE_EXPEDITED */
#define REGISTER (1u << 4) /* for it */
#define NAP_NS 20000
#define PAGE 4096ull

#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_FIXED 0x10
#define MAP_FIXED_NOREPLACE 0x100000
#define MREMAP_FIXED 2
#define SHM_REMAP 040000
#define PR_SET_SECCOMP 22
#define PR_SET_MM 35
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define RSEQ_UNREGISTER 1
#define UFFDIO_REGISTER 0xc020aa00u
#define UFFD_NEW 0xaa00u

static u64 *loading(const struct dp_control *ctl, u32 slot)
{
	return (u64 *)(ctl->loads + (u64)slot * DP_LOAD_STRIDE);
}

/* ---- waiting for loads ---- */

/* All threads of the process have seen what was stored before, and what they have stored before is seen. */
static void barrier(void)
{
	if (dp_syscall(SYS_MEMBARRIER, BARRIER, 0, 0, 0, 0, 0) && !dp_syscall(SYS_MEMBARRIER, REGISTER, 0, 0, 0, 0, 0))
		dp_syscall(SYS_MEMBARRIER, BARRIER, 0, 0, 0, 0, 0);
}

/* A real sleep: whoever is waited for may have a lower priority. */
static void nap(void)
{
	u64 time[2] = {0, NAP_NS};
	u32 word = 0;

	dp_syscall(SYS_FUTEX, (u64)&word, 128 /* FUTEX_WAIT, private */, 0, (u64)time, 0, 0);
}

/*
 * The thread's own area tells, where the kernel removes the sequence as soon as the load cannot go on. The area may
 * have been unmapped: then its thread has ended.
 */
static bool is_loading(const struct dp_control *ctl, u32 i, u32 tid)
{
	const struct dp_hit_slot *slot = (const struct dp_hit_slot *)(ctl->slots + ((u64)i << DP_HIT_SLOT_SHIFT) +
								      DP_HIT_SLOT_HEAD);
	u64 word = *(volatile u64 *)loading(ctl, i), cs;

	return word && dp_fetch(tid, &cs, slot->rseq + 8, 8) && cs == word;
}

/* What was taken back before is not loaded any more. The thread itself is in no load: a signal has ended it. */
static void await_loads(const struct dp_control *ctl)
{
	u64 own = dp_thread_pointer(ctl);
	u32 tid = 0;

	barrier(); /* pairs with the order of dp_load(): its word and its sequence, then the table */
	for (u32 i = 0; i < ctl->nslots; i++) {
		const struct dp_hit_slot *slot = (const struct dp_hit_slot *)(ctl->slots +
									      ((u64)i << DP_HIT_SLOT_SHIFT) +
									      DP_HIT_SLOT_HEAD);

		if (!*(volatile u64 *)loading(ctl, i) || slot->thread == own)
			continue;
		if (!tid)
			tid = (u32)dp_syscall(SYS_GETTID, 0, 0, 0, 0, 0, 0);
		while (is_loading(ctl, i, tid))
			nap();
	}
}

/* ---- reading ---- */

/* The other table is to be in force; one thread does it. */
static void take_offer(const struct dp_control *ctl, struct dp_stretches *st)
{
	/* Pairs with the control side's order: the table, then the offer. */
	u64 offer = __atomic_load_n(&st->offer, __ATOMIC_ACQUIRE), state = offer;

	if (!offer || offer == st->taken)
		return;
	st->taken = offer;
	if (!__atomic_compare_exchange_n(&st->state, &state, (offer ^ DP_STRETCH_SECOND) + DP_STRETCH_TURN, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return;
	await_loads(ctl);
	/* Pairs with the control side, which looks at it before it writes the other table. */
	__atomic_store_n(&st->settled, ~offer & DP_STRETCH_SECOND, __ATOMIC_RELEASE);
}

static bool find(struct dp_hit_slot *slot, const struct dp_stretches *st, u64 src)
{
	const struct dp_stretch_table *t = &st->tables[*(const volatile u64 *)&st->state & DP_STRETCH_SECOND];
	u64 n = DP_MIN(*(const volatile u64 *)&t->n, (u64)DP_STRETCHES), k = DP_COUNT_UP_TO(t->v, n, lo, src);

	if (!k || src >= *(const volatile u64 *)&t->v[k - 1].hi)
		return false;
	slot->hints[slot->next_hint++ % DP_STRETCH_HINTS] = (u32)((k - 1) * sizeof(t->v[0]));
	return true;
}

static void note_missed(struct dp_stretches *st)
{
	if (!*(volatile u32 *)&st->missed)
		*(volatile u32 *)&st->missed = 1;
}

bool dp_stretch_read_again(const struct dp_hit *h, void *dst, u64 src, u32 len)
{
	const struct dp_control *ctl = h->ctl;
	struct dp_hit_slot *slot = dp_slot_of(h);

	return slot->rseq &&
	       dp_load(slot, (struct dp_stretches *)ctl->stretches, dst, src, len, loading(ctl, slot->index));
}

bool dp_stretch_read(const struct dp_hit *h, void *dst, u64 src, u32 len)
{
	const struct dp_control *ctl = h->ctl;
	struct dp_stretches *st = (struct dp_stretches *)ctl->stretches;
	struct dp_hit_slot *slot = dp_slot_of(h);

	if (!slot->rseq)
		return false;
	if (*(volatile u64 *)&st->state & DP_STRETCH_CLOSED)
		return false;
	take_offer(ctl, st);
	if (find(slot, st, src) && dp_stretch_read_again(h, dst, src, len))
		return true;
	note_missed(st);
	return false;
}

void dp_stretch_learn(const struct dp_hit *h, u64 src)
{
	struct dp_stretches *st = (struct dp_stretches *)h->ctl->stretches;
	struct dp_hit_slot *slot = dp_slot_of(h);

	slot->wants = 0;
	if (!st || *(volatile u64 *)&st->state & DP_STRETCH_CLOSED)
		return;
	take_offer(h->ctl, st);
	if (!find(slot, st, src))
		note_missed(st);
}

/* ---- guards ---- */

/*
 * In both tables: nothing between lo and hi is found any more; drained: nor is it being loaded. True: there is
 * something of it. Another guard may have removed it just now, and wait: then both do.
 */
static bool remove_between(struct dp_stretches *st, u64 lo, u64 hi, bool drained)
{
	bool any = false;

	for (u32 k = 0; k < 2; k++) {
		struct dp_stretch_table *t = &st->tables[k];
		u64 n = DP_MIN(*(volatile u64 *)&t->n, (u64)DP_STRETCHES);

		for (u32 i = 0; i < n; i++) {
			volatile struct dp_stretch *s = &t->v[i];

			if (s->lo >= hi || s->end <= lo)
				continue;
			s->hi = 0;
			if (drained)
				s->end = 0;
			any = true;
		}
	}
	return any;
}

static void take_back(const struct dp_control *ctl, struct dp_stretches *st, u64 lo, u64 hi)
{
	if (!remove_between(st, lo, hi, false))
		return;
	await_loads(ctl);
	remove_between(st, lo, hi, true);
}

static void close_for_good(const struct dp_control *ctl, struct dp_stretches *st, u32 nr)
{
	/* Pairs with the exchange in take_offer(), which fails from then on. */
	if (!(__atomic_fetch_or(&st->state, DP_STRETCH_CLOSED, __ATOMIC_SEQ_CST) & DP_STRETCH_CLOSED))
		st->closer = nr;
	take_back(ctl, st, 0, ~0ull);
	*(volatile u64 *)&st->drained = 1;
}

/* Advice after which memory can be read as before, even if it holds zeroes then. Another: it is taken for the worst. */
static bool is_harmless(u64 advice)
{
	const u64 harmless = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 /* normal to willneed */ | 1u << 4 /* dontneed */ |
			     1u << 8 /* free */ | 1u << 11 /* dofork */ | 1u << 12 | 1u << 13 /* mergeable, or not */ |
			     1u << 14 | 1u << 15 /* huge pages, or not */ | 1u << 16 | 1u << 17 /* dump, or not */ |
			     1u << 18 | 1u << 19 /* wipe on fork, or keep */ | 1u << 20 |
			     1u << 21 /* cold, page out */ | 1u << 22 | 1u << 23 /* populate */ |
			     1u << 25 /* collapse */;

	return advice < 64 && harmless >> advice & 1;
}

struct effect {
	u64 lo, hi;  /* cannot be read any more, perhaps */
	bool closes; /* nobody knows what comes */
};

static struct effect over(u64 addr, u64 len)
{
	u64 lo = DP_ALIGN_DOWN(addr, PAGE), hi = addr + len;

	return (struct effect){.lo = lo, .hi = hi < addr || hi > ~0ull - PAGE ? ~0ull : DP_ALIGN_UP(hi, PAGE)};
}

static struct effect of_mremap(const struct dp_regs *r)
{
	struct effect e = over(dp_regs_call_arg(r, 0), dp_regs_call_arg(r, 1)), to;

	if (dp_regs_call_arg(r, 3) & MREMAP_FIXED) {
		to = over(dp_regs_call_arg(r, 4), dp_regs_call_arg(r, 2));
		e.lo = DP_MIN(e.lo, to.lo);
		e.hi = DP_MAX(e.hi, to.hi);
	}
	return e;
}

/*
 * brk() unmaps from its new end on. The old end is not known here: the control side may have seen another one since,
 * and be about to offer what it has seen. So each such call is counted.
 */
static struct effect of_brk(const struct dp_stretches *st, u64 to)
{
	u64 end = DP_MAX(st->tables[0].brk, st->tables[1].brk);

	return to ? over(to, DP_MAX(end, to + 1) - to) : (struct effect){0};
}

/* Of the calls that dp_stretch_watches() names. */
static struct effect effect_of(const struct dp_stretches *st, u32 nr, const struct dp_regs *r)
{
	const struct effect none = {0}, closes = {.closes = true};
	u64 a0 = dp_regs_call_arg(r, 0), a1 = dp_regs_call_arg(r, 1), a2 = dp_regs_call_arg(r, 2);
	u64 flags = dp_regs_call_arg(r, 3);

	switch (nr) {
	case 9: /* mmap */
		if (a2 & PROT_EXEC)
			return closes;
		return flags & MAP_FIXED && !(flags & MAP_FIXED_NOREPLACE) ? over(a0, a1) : none;
	case 10: /* mprotect: what can be written can be read */
		if (a2 & PROT_EXEC)
			return closes;
		return a2 & (PROT_READ | PROT_WRITE) ? none : over(a0, a1);
	case 11: /* munmap */
		return over(a0, a1);
	case 12:
		return of_brk(st, a0);
	case 16: /* ioctl */
		return (u32)a1 == UFFDIO_REGISTER || (u32)a1 == UFFD_NEW ? closes : none;
	case 25:
		return of_mremap(r);
	case 28: /* madvise */
		return is_harmless(a2) ? none : (u32)a2 == 10 /* dontfork */ ? closes : over(a0, a1);
	case 30: /* shmat */
		return a2 & SHM_REMAP ? closes : none;
	case 157: /* prctl */
		return a0 == PR_SET_SECCOMP || a0 == PR_SET_MM || a0 == PR_SET_SYSCALL_USER_DISPATCH ? closes : none;
	case 334: /* rseq */
		return a2 & RSEQ_UNREGISTER ? closes : none;
	default:
		return dp_stretch_watches(nr) ? closes : none;
	}
}

static void before_call(const struct dp_hit *h, struct dp_stretches *st)
{
	u32 nr = dp_regs_call(h->regs);
	struct effect e = effect_of(st, nr, h->regs);
	u64 calls;

	if (e.closes)
		close_for_good(h->ctl, st, nr);
	if (e.lo >= e.hi)
		return;
	dp_slot_of(h)->guard_sp = h->regs->sp;
	/* Pairs with the exchange in take_offer(): it comes before, and the table is looked at here, or it fails. */
	calls = __atomic_fetch_add(&st->state, DP_STRETCH_TURN + DP_STRETCH_CALL, __ATOMIC_SEQ_CST) / DP_STRETCH_CALL;
	if ((calls & DP_STRETCH_CALLS) > DP_STRETCH_CALLS / 2) /* calls that never came back, by longjmp */
		close_for_good(h->ctl, st, nr);
	take_back(h->ctl, st, e.lo, e.hi);
}

/* Of two guards of a thread at once, by a signal handler, the first is not found here: no offer is made then. */
static void after_call(const struct dp_hit *h, struct dp_stretches *st)
{
	struct dp_hit_slot *slot = dp_slot_of(h);

	if (!slot->guard_sp || slot->guard_sp != h->regs->sp)
		return;
	slot->guard_sp = 0;
	/* Pairs with the control side, which offers nothing before: the call has been made. */
	__atomic_fetch_sub(&st->state, DP_STRETCH_CALL, __ATOMIC_SEQ_CST);
}

void dp_guard(const struct dp_hit *h, u32 flags)
{
	struct dp_stretches *st = (struct dp_stretches *)h->ctl->stretches;

	if (*(volatile u64 *)&st->drained)
		return;
	if (flags & DP_PROBE_GUARD)
		before_call(h, st);
	else
		after_call(h, st);
}

void dp_guard_missed(const struct dp_control *ctl, u32 nr)
{
	struct dp_stretches *st = (struct dp_stretches *)ctl->stretches;

	if (dp_stretch_watches(nr) && !*(volatile u64 *)&st->drained)
		close_for_good(ctl, st, nr);
}
