/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the files of the hit path in a process share among themselves. */
#ifndef DP_HIT_PRIV_H
#define DP_HIT_PRIV_H

#include "abi/abi-control.h"
#include "abi/abi-machine.h"
#include "abi/abi-record.h"
#include "abi/abi-ring.h"
#include "abi/abi-slot.h"
#include "abi/abi-unwind.h"
#include "arch/arch.h"
#include "hit/vm.h"

struct dp_probe_rt;
struct dp_regs;
struct dp_watch_regs;
struct dp_watch_rt;

/*
 * Records of a hit whose instruction may fault: they come into the ring when it has been carried out. When it faults
 * nobody asks for them, and the thread's next hit of this kind takes their place. In the slot, behind the machine.
 */
struct dp_pending {
	u64 addr; /* of the probepoint; 0: nothing waits */
	u64 bytes;
	u64 data[2 * DP_RECORD_MAX / 8];
};

#define DP_HIT_SLOT_PENDING (DP_HIT_SLOT_VM + DP_ALIGN_UP(sizeof(struct dp_vm), 64ul))

/*
 * What walks up the thread's stack have found lately (hit-unwind.c), in the slot behind the records that wait. A place
 * whose `at` is 0 is empty.
 */
#define DP_KNOWN_ROWS 64
#define DP_KNOWN_CHAINS 128
#define DP_KNOWN_WAYS 4     /* of the chains, in a row: where one with that beginning may be */
#define DP_KNOWN_FRAMES 8   /* of a chain: longer ones are several */
#define DP_KNOWN_SAVED 4    /* frame registers of callers that it depends on */
#define DP_KNOWN_NOWHERE 1u /* no offset of a word */

struct dp_known {
	u64 of; /* digest of the tables */
	u64 turn;
	struct dp_known_row {
		u64 at;
		struct dp_unwind_row row;
	} rows[DP_KNOWN_ROWS];
	struct dp_known_frames {
		u64 at;        /* an address inside the instruction where the walk was, ... */
		u64 sp, frame; /* ... and what it had; frame: where by_frame says that it depends on it */
		u64 reach;     /* the stack pointer of the last frame, from sp */
		u8 nframes, nsaved, by_frame;
		u8 is_end;    /* nobody has called the last one */
		u32 frame_at; /* where the last frame's frame register is saved; DP_KNOWN_NOWHERE: it is as it was */
		/* Words of the stack, and where they were, from sp. */
		u32 returns_at[DP_KNOWN_FRAMES], saved_at[DP_KNOWN_SAVED];
		u64 returns[DP_KNOWN_FRAMES], saved[DP_KNOWN_SAVED];
		/* Of the returns passed: all but the last one, if that has a caller. And DP_CHAIN_BASE, so often. */
		u64 digest, power;
	} chains[DP_KNOWN_CHAINS];
};

#define DP_HIT_SLOT_KNOWN (DP_HIT_SLOT_PENDING + DP_ALIGN_UP(sizeof(struct dp_pending), 64ul))

/* hit-entry.S */
int dp_commit(struct dp_hit_slot *slot, const struct dp_control *ctl, u64 *record, u64 bytes);
int dp_add_cpu(struct dp_hit_slot *slot, u32 ncpus, u64 first, u64 stride, u64 n);
void dp_init_cs(struct dp_hit_slot *slot);

struct dp_stretches;
bool dp_load(struct dp_hit_slot *slot, struct dp_stretches *st, void *dst, u64 src, u64 len, u64 *loading);

/* hit-guard.c */
/*
 * Copy memory that stays until it is taken back; false: it is none, or that is not known. The first one takes less
 * time, and looks only where the thread has read lately.
 */
bool dp_stretch_read_again(const struct dp_hit *h, void *dst, u64 src, u32 len);
bool dp_stretch_read(const struct dp_hit *h, void *dst, u64 src, u32 len);
/* Code of a program has found in no stretch that it knows what is at src: note the stretch. */
void dp_stretch_learn(const struct dp_hit *h, u64 src);
/* A probe with DP_PROBE_GUARD or _END. */
void dp_guard(const struct dp_hit *h, u32 flags);
/* From hit-entry.S: a guard whose hit was missed, on the program's stack, at the call with this number. */
void dp_guard_missed(const struct dp_control *ctl, u32 nr);

/* hit.c; dp_hit() is called from hit-entry.S */
u32 dp_hit(struct dp_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl);
u32 dp_hit_tid(struct dp_hit_slot *slot, const struct dp_control *ctl);

/*
 * hit.c: run the programs of n probes, and count what became of each. True: the process is to be stopped for a
 * debugger, by dp_hit_stop().
 */
bool dp_hit_probes(struct dp_hit *h, struct dp_hit_slot *slot, u32 first, u32 n);
/* Count one hit that ran no program: DP_COUNT_MISSED, or DP_COUNT_OWN. */
void dp_hit_passed_by(const struct dp_control *ctl, u32 first, u32 n, enum dp_count what);
void dp_hit_prepare(struct dp_hit_slot *slot, const struct dp_control *ctl);

/* hit-calls.c: a probe with DP_PROBE_WATCH_BEGIN or _END */
enum dp_count dp_call_probe(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_probe_rt *probe);

static inline struct dp_hit_slot *dp_slot_of(const struct dp_hit *h)
{
	return (struct dp_hit_slot *)((u8 *)h->vm - DP_HIT_SLOT_VM + DP_HIT_SLOT_HEAD);
}

/* hit-mem.c: from the stack pointer on the thread's stack can be loaded up to here. */
u64 dp_stack_end(const struct dp_hit *h);
/* Copy len bytes by a system call, from memory of whoever thread tid belongs to; all or nothing. */
bool dp_fetch(u32 tid, void *dst, u64 src, u32 len);
/* The process stands still until somebody continues it. where: DP_STOPPED_*. */
void dp_hit_stop(struct dp_hit_slot *slot, u64 where);

/* hit-watch.c */
struct dp_siginfo;
void dp_on_watch(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl);
void dp_watch_hit(struct dp_watch_regs *regs, const struct dp_watch_rt *w, void *slot_base,
		  const struct dp_control *ctl);

/* The thread's slot, as the entries of hit-entry.S find it; NULL when every one in reach is taken. */
u8 *dp_find_hit_slot(const struct dp_control *ctl);
/* What programs run with, of a thread in a signal's handler; the slot is taken. */
void dp_watch_begin(struct dp_hit *h, struct dp_watch_regs *regs, void *slot_base, const struct dp_control *ctl);
/* dp_watch_hit() on the slot, with the registers of the signal's context; what changes in them goes back there. */
void dp_watch_run(u8 *slot_base, const struct dp_watch_rt *w, u64 *uc, const struct dp_control *ctl);

/*
 * A probed instruction runs in its detour: the program counter that the program would have without probes. Behind an
 * access that is the next place of the detour that has an original address; a copy is never longer than that.
 */
u64 dp_home_of(const struct dp_control *ctl, u64 ip);

/* page.c */
void dp_on_page(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl);
/* Whoever stores to the page of addr from then on faults. */
void dp_page_close(const struct dp_control *ctl, u64 addr);
/* Behind a copy's store; called as dp_hit(). */
u32 dp_page_stored(struct dp_watch_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl);
/* A point whose instruction may store to the pages: before it, and behind it; the latter called as dp_hit(). */
void dp_page_expect(const struct dp_regs *regs, u32 index, struct dp_hit_slot *slot, const struct dp_control *ctl);
u32 dp_page_passed(struct dp_watch_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl);
/* Behind a system call that may have stored to any of the pages. */
void dp_page_swept(struct dp_watch_regs *regs, void *slot_base, const struct dp_control *ctl);

/* copy.c: what an instruction stores, and a copy of it that can run elsewhere */
#define DP_STORE_MAX 8192 /* no instruction stores more behind where its operand begins */

struct dp_store {
	u64 addr;   /* where its memory operand begins */
	u64 ip;     /* of the instruction behind it */
	u32 len;    /* bytes that it stores there, of a string by each element; 0: not known */
	u32 index;  /* of the copy */
	u64 lo, hi; /* all that it may store to */
};
/*
 * False: the fault at addr is not of this instruction's operand, or it cannot run elsewhere. met: called with addr when
 * the instruction is met for the first time, before its copy is made, which takes long; may be NULL.
 */
bool dp_copy_find(const struct dp_control *ctl, const u64 *uc, u64 addr,
		  void (*met)(const struct dp_control *ctl, u64 addr), struct dp_store *out);
/* What the instruction of a copy that is ready is about to store, with these registers. */
void dp_copy_expect(const struct dp_control *ctl, u32 index, const u64 *uc, struct dp_store *out);
/* Whether it is known of the instruction at ip whether it can have a point of its own. */
bool dp_copy_answered(const struct dp_control *ctl, u64 ip);
/*
 * The copy's original: address of the instruction behind it, and whether it is a string instruction, with its element's
 * bytes.
 */
u64 dp_copy_next(const struct dp_control *ctl, u32 index, u32 *element);

/* hit-entry.S: dp_watch_hit(), with the stack pointer at regs. */
void dp_watch_call(struct dp_watch_regs *regs, const struct dp_watch_rt *w, void *slot_base,
		   const struct dp_control *ctl);

/* struct siginfo of the kernel: the parts that are looked at */
struct dp_siginfo {
	s32 signo, err, code, pad;
	union {
		struct {
			u32 pid, uid;
			u64 value;
		} sent;
		struct { /* code TRAP_PERF */
			u64 addr, data;
			u32 type, flags;
		} perf;
	};
};

#define DP_PERF_ASYNC 1 /* flags: the signal was blocked at the access, and the registers are those of a later moment */

/* hit-watch.c: the context of a signal, of the registers at a hit. */
void dp_context_of(const struct dp_regs *regs, u64 uc[DP_CTX_WORDS]);

/* signal.c; called from hit-entry.S. True: go on with the context that start has got; it has room for one. */
bool dp_on_signal(int sig, void *info, u64 *uc, const struct dp_control *ctl, u64 *start);

static inline s64 dp_syscall(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	return dp_call_system(nr, a, b, c, d, e, f);
}

static inline u32 dp_getcpu(void)
{
	u32 cpu = 0;

	return dp_syscall(309, (u64)&cpu, 0, 0, 0, 0, 0) ? ~0u : cpu;
}

/* The base of fs or gs of the running thread. */
static inline u64 dp_segment_base(const struct dp_control *ctl, bool gs)
{
	u64 v = 0;

	if (__builtin_expect(ctl->caps & DP_CAP_RDFSBASE, 1))
		return gs ? dp_rdgsbase() : dp_rdfsbase();
	if (!gs && ctl->caps & DP_CAP_FS_WORD)
		return dp_fs_word();
	if (ctl->caps & DP_CAP_GET_FS)
		dp_syscall(158 /* arch_prctl */, gs ? 0x1004 : 0x1003, (u64)&v, 0, 0, 0, 0);
	return v;
}

static inline u64 dp_thread_pointer(const struct dp_control *ctl)
{
	return dp_segment_base(ctl, false);
}

#endif
