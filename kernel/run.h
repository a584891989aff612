/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A verified program at a hit, for everything that has programs: the event files (k-event.c) and the
 * sessions of the device (session.c). Hits on one processor do not nest, so each processor has one
 * machine and, in each log, one ring with one producer.
 */
#ifndef DP_KERNEL_RUN_H
#define DP_KERNEL_RUN_H

#include <linux/sched.h>
#include <linux/uaccess.h>

#include "abi/abi-control.h"
#include "abi/abi-machine.h"
#include "abi/abi-program.h"
#include "abi/abi-record.h"
#include "abi/abi-regs.h"
#include "abi/abi-ring.h"
#include "kernel-priv.h"
#include "hit/vm.h"
#include "program/opcode.h"
#include "program/program.h"

#include <asm/msr.h>

struct dp_k_sink {            /* one processor's end of a log */
	struct dp_ring *ring; /* a reader may map it: only its tail is read, and not believed */
	u8 *data;
	u64 mask; /* of the data's size */
	u64 head;
	u64 safe;        /* up to there records are in one piece, and room is known: dp_k_more_room() */
	u64 overwritten; /* records */
	bool overwrite;  /* a full ring gives up its oldest records, not the new one */
} ____cacheline_aligned;

#define DP_K_LOGMAX (DP_LOGMAX - DP_COMM_SIZE) /* payload of a record, which the task's name ends */

struct dp_k_plain;
struct dp_k_stacks;

struct dp_k_prog {
	struct dp_code_rt rt;
	/* k-unwind.h: call chains go on in these processes; NULL: in none */
	const struct dp_k_stacks *stacks;
	struct dp_k_plain *plain; /* plain.c: the same as a list, NULL: it is none */
	u32 event;                /* in records */
	u32 probe_flags;          /* DP_PROBE_* */
	s16 ret_at;               /* where the return address belongs in the payload, -1: nowhere */
	struct dp_k_sink *sinks;  /* by processor */
	u8 *counts;               /* struct dp_counts of the first processor */
	u64 counts_stride;        /* bytes to the next one's */
};

int dp_k_run_init(void);
void dp_k_run_exit(void);

/* By the program: what it needs at the hit, but for the log. event: in its records. What it was before is freed. */
void dp_k_prog_init(struct dp_k_prog *p, const struct dp_program *prog, u32 event);
void dp_k_prog_free(struct dp_k_prog *p);

/* plain.c: NULL where the program is for the interpreter. kfree() frees it. */
struct dp_k_plain *dp_k_plain_make(const struct dp_program *prog, u32 event);

/* compiled.c: the same as machine code, or nothing where the interpreter has to. When it is freed no hit runs it. */
struct dp_k_code {
	u64 addr; /* 0: there is none */
	u32 len;
};
void dp_k_compile(struct dp_k_prog *p, struct dp_k_code *code);
bool dp_k_compiles_alike(const struct dp_k_prog *a, const struct dp_k_prog *b); /* one's code serves the other, too */
void dp_k_code_free(struct dp_k_code *code);

/* Whether a kernel that is locked down allows a probe with that program. E_KERNEL_LOCKDOWN. */
int dp_k_locked_down(const struct dp_program *prog, struct dp_error *err);

static __always_inline struct dp_counts *dp_k_counts(const struct dp_k_prog *p, u32 cpu)
{
	return (struct dp_counts *)(p->counts + cpu * p->counts_stride);
}

/* ---- the hit path, preemption off ---- */

DECLARE_PER_CPU(struct dp_vm *, dp_k_vm);
extern const struct dp_control dp_k_control;

/* user-wait.c: keeps a record until its instruction has been carried out; it is counted then. */
struct dp_k_waiting;
void dp_k_waiting_hold(struct dp_k_waiting *w, const struct dp_hit *h);

/* Looks how much of the ring has been read. Whether n bytes are free behind the head and before the ring's end. */
bool dp_k_more_room(struct dp_k_sink *s, u32 n);
/* Into a ring that is nearly full, or across its end. */
bool dp_k_put_slowly(struct dp_k_sink *s, const u64 *head, const u64 *payload, u32 n);
void dp_k_unusual(const struct dp_k_prog *p, struct dp_hit *h, struct dp_counts *counts, u32 cpu, bool passed,
		  struct dp_k_waiting *w);

/* plain.c: false, and nothing has happened, where the interpreter has to. */
bool dp_k_plain_run(const struct dp_k_prog *p, const struct pt_regs *regs, u64 ret_addr);

/*
 * The saved registers lie on the stack that is in use: from there to the end of that page nothing can fault. Words
 * of the stack are what programs of the kernel read most, and the kernel's guarded copy takes its time.
 */
static __always_inline bool dp_k_near_stack(u64 regs, u64 addr)
{
	return addr >= regs && ((addr + 7) ^ regs) < PAGE_SIZE;
}

/* Room for a record of n bytes in one piece; NULL: only dp_k_put_slowly() can tell. */
static __always_inline u64 *dp_k_room(struct dp_k_sink *s, u32 n)
{
	if (unlikely(s->head + n > s->safe) && !dp_k_more_room(s, n))
		return NULL;
	return (u64 *)(s->data + (s->head & s->mask));
}

/* Its last words, the task's name; then it is there to be read. */
static __always_inline void dp_k_commit(struct dp_k_sink *s, u64 *last, u32 n)
{
	u64 head = s->head + n;

	static_assert(DP_COMM_SIZE == TASK_COMM_LEN);
	memcpy(last, current->comm, DP_COMM_SIZE);
	s->head = head;
	smp_store_release(&s->ring->head, head); /* pairs with the reader's acquire */
}

/* What the program has put together, with the task's name: tasks that are gone cannot be asked. */
static __always_inline bool dp_k_put(const struct dp_k_prog *p, struct dp_hit *h, u32 cpu)
{
	struct dp_k_sink *s = &p->sinks[cpu];
	u64 *payload = h->vm->record + sizeof(struct dp_record) / 8, *to;
	u32 words = (h->log_len + 7) / 8, n = (u32)sizeof(struct dp_record) + 8 * words + DP_COMM_SIZE;
	u64 head[3] = {n | (u64)(h->rec_flags | DP_REC_COMM) << 16 | (u64)p->event << 32, h->tid | (u64)cpu << 32,
		       rdtsc()};

	static_assert(sizeof(struct dp_record) == 24);
	if (unlikely(h->log_len & 7))
		memset((u8 *)payload + h->log_len, 0, 8 * words - h->log_len);
	to = dp_k_room(s, n);
	if (unlikely(!to))
		return dp_k_put_slowly(s, head, payload, n);
	to[0] = head[0];
	to[1] = head[1];
	to[2] = head[2];
	for (to += 3; words; words--)
		*to++ = *payload++;
	dp_k_commit(s, to, n);
	return true;
}

/* There is more to be done than to log and to count. */
static __always_inline bool dp_k_is_unusual(const struct dp_k_prog *p, const struct dp_hit *h)
{
	return h->faults | h->exceptions || (p->rt.ex_mask && (h->vm->rpn.trace_len || h->rec_flags & DP_REC_EXIT));
}

/* Runs it, logs, counts. w: NULL, or what its records wait in. */
static __always_inline void dp_k_run_waiting(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr,
					     struct dp_k_waiting *w)
{
	u32 cpu = raw_smp_processor_id();
	struct dp_counts *counts = dp_k_counts(p, cpu);
	enum dp_run_result r;
	struct dp_hit h; /* what is missing below, dp_vm_run() sets */

	h.regs = (struct dp_regs *)regs;
	h.vm = __this_cpu_read(dp_k_vm);
	h.ctl = &dp_k_control;
	h.prog = &p->rt;
	h.tid = current->pid;
	h.flags = p->probe_flags;
	r = dp_vm_run(&h);
	if (likely(r == DP_RUN_LOG)) {
		if (p->ret_at >= 0)
			memcpy((u8 *)h.vm->record + sizeof(struct dp_record) + p->ret_at, &ret_addr, 8);
		if (w)
			dp_k_waiting_hold(w, &h);
		else
			counts->v[dp_k_put(p, &h, cpu) ? DP_COUNT_RECORDED : DP_COUNT_LOST]++;
	} else {
		counts->v[r == DP_RUN_PASSED ? DP_COUNT_PASSED : DP_COUNT_FILTERED]++;
	}
	if (unlikely(dp_k_is_unusual(p, &h)))
		dp_k_unusual(p, &h, counts, cpu, r == DP_RUN_PASSED, w);
}

void dp_k_interpret(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr);

static __always_inline void dp_k_run(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr)
{
	if (unlikely(!p->plain || !dp_k_plain_run(p, regs, ret_addr)))
		dp_k_interpret(p, regs, ret_addr);
}

static __always_inline void dp_k_pass(const struct dp_k_prog *p)
{
	dp_k_counts(p, raw_smp_processor_id())->v[DP_COUNT_PASSED]++;
}

/* Whether an id is one of those, which are in order. */
static __always_inline bool dp_k_among(const s32 *v, u32 n, s32 id)
{
	u32 lo = 0;

	while (lo < n) {
		u32 mid = (lo + n) / 2;

		if (v[mid] == id)
			return true;
		if (v[mid] < id)
			lo = mid + 1;
		else
			n = mid;
	}
	return false;
}
int dp_k_by_id(const void *a, const void *b); /* for sort() */

/* The same at a watchpoint. The old value, in *last, goes to one hit only, whichever processors write at once. */
static __always_inline void dp_k_run_watch(const struct dp_k_prog *p, const struct dp_kwatch *w, u64 *last,
					   struct pt_regs *regs)
{
	struct dp_watch_regs r = {.regs = *(struct dp_regs *)regs, .addr = (u64)w->addr};

	/* The address may have been unmapped (a module's variable): the reading must not fault. */
	if (w->type != DP_KWATCH_EXECUTE && !copy_from_kernel_nofault(&r.now, w->addr, w->len))
		r.old = xchg(last, r.now);
	dp_k_run(p, (struct pt_regs *)&r, 0);
	*(struct dp_regs *)regs = r.regs;
}

#endif
