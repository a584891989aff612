/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One hit in a process: run every program at the point, commit their records, count the outcome.
 * Called from hit-entry.S on the slot's own stack. Calls nothing outside src/hit.
 */
#include "abi/abi-page.h"
#include "abi/abi-point.h"
#include "abi/abi-stretch.h"
#include "hit/hit-priv.h"
#include "abi/abi-offsets.h"

#define SYS_RT_SIGPROCMASK 14
#define SIG_SETMASK_HOW 2
#define SYS_SCHED_YIELD 24
#define SYS_SIGALTSTACK 131
#define SS_ONSTACK_BIT 1
#define YIELDS 16 /* where every ring is taken */
#define CALM_HITS 256
#define CALM_SIZE 0x100000ull         /* of a thread: its stack is larger, and what it asks for lies elsewhere */
#define CALM_SIZE_OTHERS 0x4000000ull /* of threads that run many stacks */

#define SAME(macro, type, field) _Static_assert((macro) == offsetof(type, field), #field)
SAME(S_BUSY - S_OWNER, struct dp_hit_slot, busy);
SAME(S_RSEQ - S_OWNER, struct dp_hit_slot, rseq);
SAME(S_CALM - S_OWNER, struct dp_hit_slot, calm);
SAME(S_CALM_SIZE - S_OWNER, struct dp_hit_slot, calm_size);
SAME(S_MASK - S_OWNER, struct dp_hit_slot, mask);
SAME(S_BLOCKED - S_OWNER, struct dp_hit_slot, blocked);
SAME(S_CS_COMMIT - S_OWNER, struct dp_hit_slot, cs_commit);
SAME(S_CS_COUNT - S_OWNER, struct dp_hit_slot, cs_count);
SAME(S_DOUBTS - S_OWNER, struct dp_hit_slot, doubts);
SAME(S_ALTERNATE - S_OWNER, struct dp_hit_slot, alternate);
SAME(S_FRAME - S_OWNER, struct dp_hit_slot, frame);
SAME(S_CS_LOAD - S_OWNER, struct dp_hit_slot, cs_load);
SAME(S_HINTS - S_OWNER, struct dp_hit_slot, hints);
SAME(S_WANTS - S_OWNER, struct dp_hit_slot, wants);
SAME(STRETCH_STATE, struct dp_stretches, state);
SAME(STRETCH_LO, struct dp_stretches, tables[0].v[0].lo);
SAME(STRETCH_HI, struct dp_stretches, tables[0].v[0].hi);
SAME(R_R8, struct dp_regs, r8);
SAME(R_AX, struct dp_regs, ax);
SAME(R_DI, struct dp_regs, di);
SAME(R_IP, struct dp_regs, ip);
SAME(R_FLAGS, struct dp_regs, flags);
SAME(R_SP, struct dp_regs, sp);
SAME(C_CAPS, struct dp_control, caps);
SAME(C_RING0, struct dp_control, ring0);
SAME(C_RING_STRIDE, struct dp_control, ring_stride);
SAME(C_RING_SIZE, struct dp_control, ring_size);
SAME(C_COUNTS, struct dp_control, counts);
SAME(C_COUNTS_STRIDE, struct dp_control, counts_stride);
SAME(C_NCPUS, struct dp_control, ncpus);
SAME(C_POINTS, struct dp_control, points);
SAME(C_PROBES, struct dp_control, probes);
SAME(POINT_FIRST, struct dp_point, first);
SAME(POINT_N, struct dp_point, n);
SAME(PROBE_EVENT, struct dp_probe_rt, event);
SAME(PROBE_FLAGS, struct dp_probe_rt, flags);
SAME(COUNT_MISSED, struct dp_counts, v[DP_COUNT_MISSED]);
_Static_assert(sizeof(struct dp_point) == POINT_SIZE && sizeof(struct dp_probe_rt) == PROBE_SIZE, "points");
_Static_assert(sizeof(struct dp_counts) == 1 << COUNTS_SHIFT, "counts");
_Static_assert(DP_PROBE_IS_ENABLED == DP_PROBE_ENABLED && DP_HIT_SECOND == (DP_HIT_AFTER | DP_HIT_PAGE) &&
		   DP_PROBE_IS_GUARD == DP_PROBE_GUARD,
	       "flags");
_Static_assert(sizeof(struct dp_stretch_table) == 1 << STRETCH_TABLE_SHIFT, "stretches");
_Static_assert(DP_CAP_ALTERNATE == DP_CAP_SIGALTSTACK, "capabilities");
_Static_assert(DP_CAPS_BLOCK == (DP_CAP_SIGALTSTACK | DP_CAP_PROBE_READ), "capabilities");
_Static_assert(DP_CONTEXT_SIZE == DP_CTX_WORDS * 8, "struct ucontext");
SAME(RING_TAIL, struct dp_ring, tail);
SAME(RING_BY, struct dp_ring, by);
SAME(RING_AT, struct dp_ring, at);
_Static_assert(offsetof(struct dp_record, event) == 4 && offsetof(struct dp_record, cpu) == 12, "struct dp_record");
_Static_assert(sizeof(struct dp_regs) == R_SIZE, "struct dp_regs");
_Static_assert(DP_HIT_SLOT_SIZE == 1 << DP_HIT_SLOT_SHIFT, "slot size");
_Static_assert(DP_HIT_SLOT_KNOWN + sizeof(struct dp_known) + 65536 < DP_HIT_SLOT_SIZE, "room for a stack");

/* By the ABI of threads a control block begins with its own address; other runtimes do as they like. */
static bool has_tcb(u64 tp)
{
	return tp >= 0x10000 && *(volatile u64 *)tp == tp;
}

/* The thread's restartable-sequence area, when it is registered right now; else 0. */
static u64 rseq_area(const struct dp_control *ctl, u64 tp)
{
	u64 area;

	if (!(ctl->caps & DP_CAP_RSEQ) || !has_tcb(tp))
		return 0;
	area = tp + (u64)(s64)ctl->rseq_off;
	return *(volatile s32 *)(area + 4) >= 0 ? area : 0;
}

void dp_hit_prepare(struct dp_hit_slot *slot, const struct dp_control *ctl)
{
	slot->index = (u32)(((u64)slot - DP_HIT_SLOT_HEAD - ctl->slots) >> DP_HIT_SLOT_SHIFT);
	slot->thread = dp_thread_pointer(ctl);
	slot->tcb = has_tcb(slot->thread);
	slot->rseq = rseq_area(ctl, slot->thread);
	dp_init_cs(slot);
	slot->wants = 0;
	slot->guard_sp = 0;
	/* A thread is not registered yet while it is being born: look again at its next hit. */
	slot->ready = slot->rseq || !slot->tcb || !(ctl->caps & DP_CAP_RSEQ);
}

u32 dp_hit_tid(struct dp_hit_slot *slot, const struct dp_control *ctl)
{
	u32 *cached;

	if (slot->tcb && (ctl->caps & DP_CAP_TIDOFF))
		return *(volatile u32 *)(slot->thread + (u64)(s64)ctl->tid_off);
	/* The page of these is wiped in a forked child, whose threads have other identities. */
	cached = (u32 *)ctl->tids + slot->index;
	if (!*cached && (ctl->caps & DP_CAP_GETTID))
		*cached = (u32)dp_syscall(186, 0, 0, 0, 0, 0, 0);
	return *cached;
}

static void count_many(struct dp_hit_slot *slot, const struct dp_control *ctl, u32 probe, u32 what, u64 n)
{
	u64 off = (u64)probe * sizeof(struct dp_counts) + what * sizeof(u64);
	u64 cell;

	if (slot->rseq && dp_add_cpu(slot, ctl->ncpus, ctl->counts + off, ctl->counts_stride, n) == 0)
		return;
	/* Rings of threads without restartable sequences have counts of their own, shared by threads. */
	cell = ctl->counts + (ctl->ncpus + slot->index % (ctl->nrings - ctl->ncpus)) * ctl->counts_stride + off;
	__atomic_fetch_add((u64 *)cell, n, __ATOMIC_RELAXED);
}

static void count(struct dp_hit_slot *slot, const struct dp_control *ctl, u32 probe, u32 what)
{
	count_many(slot, ctl, probe, what, 1);
}

bool dp_hit_add_apart(struct dp_hit *h, const u64 *word, u64 n)
{
	struct dp_hit_slot *slot = dp_slot_of(h);
	const struct dp_control *ctl = h->ctl;

	return ctl->apart && slot->rseq && dp_add_cpu(slot, ctl->ncpus, (u64)word + ctl->apart, ctl->apart, n) == 0;
}

static bool copy_to_ring(struct dp_ring *ring, u64 size, const u64 *rec, u64 bytes)
{
	u64 head = ring->head;
	u64 mask = size - 1;
	u8 *data = (u8 *)ring + 4096;

	/* Pairs with the reader's release of tail: the space was read before it is written again. */
	if (head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) + bytes > size)
		return false;
	for (u64 i = 0; i < bytes; i += 8)
		*(u64 *)(data + ((head + i) & mask)) = rec[i / 8];
	/* Pairs with the reader's acquire of head. */
	__atomic_store_n(&ring->head, head + bytes, __ATOMIC_RELEASE);
	return true;
}

/*
 * Commit without a restartable sequence: take any ring of the second kind that is free. A holder
 * that dies leaves nothing half written in view; the reader frees its ring. Holders that were switched away come to
 * their end when others let them run.
 */
static bool commit_locked(struct dp_hit_slot *slot, const struct dp_control *ctl, u64 *rec, u64 bytes, u32 tid)
{
	u32 n = ctl->nrings - ctl->ncpus, rounds = ctl->caps & DP_CAP_DUMP ? YIELDS : 1;

	for (u32 k = 0; k < rounds * n; k++) {
		u64 at = ctl->ring0 + (ctl->ncpus + (slot->index + k) % n) * ctl->ring_stride;
		struct dp_ring *ring = (struct dp_ring *)at;
		u32 nobody = 0;
		bool done;

		if (k && k % n == 0)
			dp_syscall(SYS_SCHED_YIELD, 0, 0, 0, 0, 0, 0);
		/* Pairs with the release below, and with the reader's when it frees the ring of a holder that died. */
		if (!__atomic_compare_exchange_n(&ring->owner, &nobody, tid | 0x80000000u, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		done = copy_to_ring(ring, ctl->ring_size, rec, bytes);
		__atomic_store_n(&ring->owner, 0, __ATOMIC_RELEASE);
		return done;
	}
	return false;
}

/*
 * Come to the end of the room for a record before it is written: a page that is not there yet should not be met in
 * the sequence. Returns the processor by the thread's area.
 */
static u32 touch(const struct dp_hit_slot *slot, const struct dp_control *ctl, u64 bytes)
{
	u32 cpu = *(volatile u32 *)(slot->rseq + 4);
	const struct dp_ring *ring = (const struct dp_ring *)(ctl->ring0 + cpu * ctl->ring_stride);

	if (cpu < ctl->ncpus)
		(void)*(volatile const u64 *)((const u8 *)ring + 4096 + ((ring->head + bytes) & (ctl->ring_size - 1)));
	return cpu;
}

static u64 record_bytes(const struct dp_hit *h)
{
	return DP_ALIGN_UP(sizeof(struct dp_record) + h->log_len, 8);
}

/*
 * The first word of a record. Whole words: parts could not be forwarded to the loads of the copy, which comes at once.
 */
static u64 first_word(const struct dp_hit *h, u32 event)
{
	return record_bytes(h) | (u64)(u16)h->rec_flags << 16 | (u64)event << 32;
}

/*
 * The processor at hand by a source that is no memory of the thread's, or ~0. Costs some ten nanoseconds, by getcpu
 * more than a commit that is safe on any processor: `told` says that there is no need to go that far.
 */
static u32 processor(const struct dp_control *ctl, u32 told, u64 *stamp)
{
	u32 cpu = ~0u;

	if (ctl->caps & DP_CAP_LSL)
		return dp_cpu_by_limit();
	if (ctl->caps & DP_CAP_RDTSCP)
		*stamp = dp_rdtscp(&cpu);
	else if (told >= ctl->ncpus && ctl->caps & DP_CAP_GETCPU)
		cpu = dp_getcpu();
	return cpu;
}

/*
 * The time, and whether `told` is the processor at that time: a child of vfork runs with its parent's thread area, but
 * the kernel does not keep that area for it: neither is the processor right, nor is a sequence restarted. It must not
 * write to the ring of the processor where its parent was. (On that very one it may, unless it is switched away in the
 * middle, for which there is hardly time.) Who has been found to be in the right place a moment ago is no such child.
 */
static inline __attribute__((always_inline)) bool here(const struct dp_hit_slot *slot, const struct dp_control *ctl,
						       u32 told, u32 *cpu, u64 *stamp)
{
	const struct dp_ring *ring = (const struct dp_ring *)(ctl->ring0 + told * ctl->ring_stride);

	*stamp = dp_rdtsc();
	*cpu = told;
	if (ctl->caps & DP_CAP_RDPID) /* both together cost less than rdtscp, which waits */
		*cpu = dp_rdpid();
	else if (told >= ctl->ncpus || ring->by != slot->thread || *stamp - ring->at >= DP_TRUST_TICKS)
		*cpu = processor(ctl, told, stamp);
	if (*cpu == told)
		return true;
	if (*cpu == ~0u)
		*cpu = told < ctl->ncpus ? told : 0;
	return false;
}

static inline __attribute__((always_inline)) enum dp_count put(struct dp_hit_slot *slot, const struct dp_control *ctl,
							       u64 *words, u64 first, u64 bytes, u32 tid)
{
	u32 cpu, told = slot->rseq ? touch(slot, ctl, bytes) : ~0u;
	struct dp_ring *ring;
	bool is_here;
	u64 stamp;
	int r = 2;

	is_here = here(slot, ctl, told, &cpu, &stamp);
	((struct dp_record *)words)->tsc = stamp;
	words[0] = first;
	words[1] = tid | (u64)cpu << 32;
	if (is_here)
		r = dp_commit(slot, ctl, words, bytes);
	if (r != 2 && !(ctl->caps & DP_CAP_RDPID)) {
		ring = (struct dp_ring *)(ctl->ring0 + cpu * ctl->ring_stride);
		*(volatile u64 *)&ring->by = slot->thread;
		*(volatile u64 *)&ring->at = stamp;
	}
	if (r == 2)
		r = !commit_locked(slot, ctl, words, bytes, tid);
	return r ? DP_COUNT_LOST : DP_COUNT_RECORDED;
}

static enum dp_count commit(struct dp_hit *h, struct dp_hit_slot *slot, u32 event)
{
	return put(slot, h->ctl, h->vm->record, first_word(h, event), record_bytes(h), h->tid);
}

/* ---- records that wait for their instruction ---- */

static struct dp_pending *pending_of(struct dp_hit_slot *slot)
{
	return (struct dp_pending *)((u8 *)slot - DP_HIT_SLOT_HEAD + DP_HIT_SLOT_PENDING);
}

/* What waited before is of an instruction that faulted. */
static void begin_waiting(struct dp_hit *h, struct dp_hit_slot *slot, u64 addr)
{
	struct dp_pending *p = pending_of(slot);

	if (h->held)
		return; /* by another probe of this hit */
	h->held = true;
	p->addr = addr;
	p->bytes = 0;
}

/* False: there is no room. */
static bool hold(struct dp_hit *h, struct dp_hit_slot *slot, u32 event)
{
	struct dp_pending *p = pending_of(slot);
	u64 bytes = record_bytes(h), *to = p->data + p->bytes / 8;

	if (p->bytes + bytes > sizeof(p->data))
		return false;
	to[0] = first_word(h, event);
	for (u64 i = 1; i < bytes / 8; i++)
		((volatile u64 *)to)[i] = h->vm->record[i];
	p->bytes += bytes;
	return true;
}

/* The instruction has been carried out, or a program has sent control elsewhere in its place. */
static void release(struct dp_hit_slot *slot, const struct dp_control *ctl)
{
	struct dp_pending *p = pending_of(slot);
	u32 tid = dp_hit_tid(slot, ctl);

	for (u64 at = 0, n; at < p->bytes; at += n) {
		u64 *words = p->data + at / 8, first = words[0];
		const struct dp_record *rec = (const struct dp_record *)words;
		enum dp_count outcome;

		n = rec->len;
		outcome = put(slot, ctl, words, first, n, tid);
		if (!(rec->flags & DP_REC_TRACE))
			count(slot, ctl, rec->event, outcome);
	}
	p->addr = 0;
}

/* The second hit at a point. Hits in a handler that mended the fault may have taken the place of what waited here. */
static void confirm(struct dp_hit_slot *slot, const struct dp_control *ctl, const struct dp_point *point)
{
	const struct dp_probe_rt *probe = (const struct dp_probe_rt *)ctl->probes + point->first;

	if (pending_of(slot)->addr == point->addr) {
		release(slot, ctl);
		return;
	}
	for (u32 i = 0; i < point->n; i++)
		if (probe[i].flags & DP_PROBE_WAITS)
			count(slot, ctl, probe[i].event, DP_COUNT_LOST);
}

static bool waits(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_probe_rt *probe)
{
	return __builtin_expect(probe->flags & DP_PROBE_WAITS, 0) && hold(h, slot, probe->event);
}

/* The number that code in front of the system call has kept (arch/compile.h): for all programs of this hit. */
static __attribute__((noinline)) void take_number(const struct dp_hit *h, struct dp_hit_slot *slot)
{
	u64 sp = h->regs->sp, *kept = &slot->calls[sp >> DP_KEPT_CALL_SHIFT & (DP_HIT_SLOT_CALLS - 1)];
	u64 number = *kept ^ dp_kept_call(sp, 0);

	if (number >= DP_KEPT_CALLS)
		return;
	*kept = 0;
	dp_regs_spare(h->regs) = number;
}

static void run_probe(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_probe_rt *probe)
{
	enum dp_count outcome = DP_COUNT_FILTERED;
	enum dp_run_result result;

	h->prog = &probe->prog;
	h->flags = probe->flags;
	if (__builtin_expect(probe->flags & DP_PROBE_WAITS, 0))
		begin_waiting(h, slot, probe->addr);
	h->near = 0;
	result = dp_vm_run(h);
	h->near = DP_NEAR_OFF;
	if (result == DP_RUN_LOG)
		outcome = waits(h, slot, probe) ? DP_NCOUNTS : commit(h, slot, probe->event);
	else if (result == DP_RUN_PASSED)
		outcome = DP_COUNT_PASSED;
	if (__builtin_expect(outcome != DP_NCOUNTS, 1)) /* else it is counted when it is known */
		count(slot, h->ctl, probe->event, outcome);
	if (__builtin_expect(h->faults, 0))
		count_many(slot, h->ctl, probe->event, DP_COUNT_FAULTS, h->faults);
	if (__builtin_expect(h->exceptions, 0))
		count_many(slot, h->ctl, probe->event, DP_COUNT_EXCEPTIONS, h->exceptions);
	/* A record beside the one that counts. */
	if (__builtin_expect(h->prog->ex_mask, 0) && result != DP_RUN_PASSED) {
		h->stop |= h->rec_flags & DP_REC_STOP;
		if (dp_vm_trace(h) && !waits(h, slot, probe))
			commit(h, slot, probe->event);
	}
}

bool dp_hit_probes(struct dp_hit *h, struct dp_hit_slot *slot, u32 first, u32 n)
{
	const struct dp_probe_rt *probe = (const struct dp_probe_rt *)h->ctl->probes + first;

	h->held = false;
	h->stop = 0;
	for (u32 i = 0; i < n; i++) {
		if (!(probe[i].flags & DP_PROBE_ENABLED)) {
			if (probe[i].flags & (DP_PROBE_GUARD | DP_PROBE_GUARD_END))
				dp_guard(h, probe[i].flags);
			continue;
		}
		if (__builtin_expect(probe[i].flags & (DP_PROBE_WATCH_BEGIN | DP_PROBE_WATCH_END), 0)) {
			count(slot, h->ctl, probe[i].event, dp_call_probe(h, slot, &probe[i]));
			continue;
		}
		if (__builtin_expect(probe[i].flags & DP_PROBE_CALL_END, 0))
			take_number(h, slot);
		run_probe(h, slot, &probe[i]);
	}
	return h->stop;
}

/*
 * The process stops, with the records of the hit in their rings. Where the thread is sent back to the point meanwhile,
 * for a debugger, it does not come back here, and the hit that follows is this one once more.
 */
static __attribute__((noinline, cold)) void stop_at(struct dp_hit *h, struct dp_hit_slot *slot, u64 addr)
{
	if (h->held) {
		release(slot, h->ctl);
		/* Nothing waits any more, and nothing is missing when the instruction has been carried out. */
		pending_of(slot)->addr = addr;
		pending_of(slot)->bytes = 0;
	}
	slot->stopped_at = h->regs->ip == addr ? addr : 0;
	slot->left = 1; /* the next hit looks */
	dp_hit_stop(slot, DP_STOPPED_AT_POINT);
	slot->stopped_at = 0;
}

static bool comes_again(struct dp_hit_slot *slot, const struct dp_point *point)
{
	u64 at = slot->stopped_at;

	slot->stopped_at = 0;
	return at && at == point->addr;
}

/*
 * Whether the hit comes from the alternate signal stack, where signals must be blocked, as the entry has done it if it
 * did not know better. Where it does not, none are blocked from now on while the stack pointer stays near, for some
 * hits: the program may ask for another stack. Goroutines' stacks lie further apart than those of a thread, and their
 * signal stack is asked for once.
 */
static __attribute__((noinline, cold)) void look_up_alternate(struct dp_hit_slot *slot, u64 sp)
{
	u64 ss[3] = {0}; /* stack_t: address, flags, size */
	u64 lo, all = ~0ull;

	if (slot->calm_size == ~0ull)
		return; /* these calls are not allowed */
	slot->left = CALM_HITS;
	slot->doubts = 0;
	slot->calm_size = slot->tcb ? CALM_SIZE : CALM_SIZE_OTHERS;
	lo = sp - slot->calm_size / 2;
	if (dp_syscall(SYS_SIGALTSTACK, 0, (u64)ss, 0, 0, 0, 0) || sp - ss[0] < ss[2]) {
		if (!slot->blocked) { /* it was asked for since the last look */
			slot->calm = ~0ull;
			slot->blocked = !dp_syscall(SYS_RT_SIGPROCMASK, SIG_SETMASK_HOW, (u64)&all, (u64)&slot->mask, 8,
						    0, 0);
		}
		return;
	}
	/* Modulo 2^64, as the entry compares. */
	if (ss[2] && ss[0] - lo < slot->calm_size)
		lo = ss[0] > sp ? ss[0] - slot->calm_size : ss[0] + ss[2];
	else if (ss[2] && lo - ss[0] < ss[2])
		lo = ss[0] + ss[2];
	slot->calm = lo;
}

/* Returns whether the frame must be left through ip and sp. */
u32 dp_hit(struct dp_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl)
{
	struct dp_hit_slot *slot = (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);
	const struct dp_point *point = (const struct dp_point *)ctl->points + (index & ~(DP_HIT_AFTER | DP_HIT_PAGE));
	u64 sp = regs->sp;
	struct dp_hit h;

	if (__builtin_expect(!slot->ready, 0))
		dp_hit_prepare(slot, ctl);
	if (__builtin_expect(slot->blocked || !--slot->left, 0)) {
		look_up_alternate(slot, sp);
		if (comes_again(slot, point))
			return 0;
	}
	if (__builtin_expect(index & DP_HIT_PAGE, 0)) /* hit-entry.S leaves room behind the registers */
		return dp_page_stored((struct dp_watch_regs *)regs, index & ~DP_HIT_PAGE, slot_base, ctl);
	if (__builtin_expect(index & DP_HIT_AFTER, 0)) {
		if (point->store)
			return dp_page_passed((struct dp_watch_regs *)regs, index & ~DP_HIT_AFTER, slot_base, ctl);
		confirm(slot, ctl, point);
		return 0;
	}
	if (__builtin_expect(point->store, 0)) {
		dp_page_expect(regs, index, slot, ctl);
		return 0;
	}
	regs->ip = point->addr;
	h.regs = regs;
	h.vm = (struct dp_vm *)((u8 *)slot_base + DP_HIT_SLOT_VM);
	h.ctl = ctl;
	h.tid = dp_hit_tid(slot, ctl);
	h.aside = false;
	h.near = DP_NEAR_OFF;
	if (__builtin_expect(dp_hit_probes(&h, slot, point->first, point->n), 0))
		stop_at(&h, slot, point->addr);
	if (__builtin_expect(regs->ip == point->addr && regs->sp == sp, 1))
		return 0;
	if (regs->ip == point->addr)
		regs->ip = point->resume;
	else if (h.held)
		release(slot, ctl);
	return 1;
}

void dp_hit_passed_by(const struct dp_control *ctl, u32 first, u32 n, enum dp_count what)
{
	const struct dp_probe_rt *probe = (const struct dp_probe_rt *)ctl->probes + first;
	u64 base = ctl->counts + (u64)ctl->ncpus * ctl->counts_stride;

	for (u32 i = 0; i < n; i++) {
		struct dp_counts *c = (struct dp_counts *)(base + (u64)probe[i].event * sizeof(*c));

		if (probe[i].flags & DP_PROBE_ENABLED)
			__atomic_fetch_add(&c->v[what], 1, __ATOMIC_RELAXED);
	}
}
