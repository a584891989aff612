/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The hit path's data, shared with the control side that fills it in. Everything under src/hit is
 * freestanding: no libc, no thread-local storage, no locks that block, general registers only.
 * Three parties use these layouts: the blob inside a target, the control side that writes it from
 * outside, and the ring reader. Change DP_ABI with any of them.
 */
#ifndef DP_HIT_H
#define DP_HIT_H

#include "base/base.h"

#define DP_ABI 9
#define DP_CONTROL_MAGIC 0x31424f5250594e44ull /* "DNYPROB1" */
#define DP_REDIRECTED 0x4452494445525044ull /* value of a trap signal whose thread a tracer has redirected already */

/*
 * Registers at the hit, in the order of the kernel's struct pt_regs. All general ones can be
 * changed by a program; changing ip or sp makes the hit leave through the slow path.
 */
struct dp_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

/* What a memory access leads to. The numbers are those of Dynamic Probes and of the processor. */
enum dp_watch_type {
	DP_WATCH_X,  /* execution: the hit comes before the instruction */
	DP_WATCH_W,  /* a store: the hit comes behind it */
	DP_WATCH_IO, /* an access to an I/O port */
	DP_WATCH_RW, /* a load or a store: the hit comes behind it */
};

/* Registers at a hit of a watchpoint; what stands behind them can be read like a register. */
struct dp_watch_regs {
	struct dp_regs regs;
	u64 addr;     /* of the watched memory */
	u64 old, now; /* what stood there at the last hit, and what stands there; zero-extended */
};

/* ---- the log ring (memfd, shared by the target, its children and the reader) ---- */

#define DP_RING_MAGIC 0x31474e4952504455ull
#define DP_RECORD_MAX 4096 /* bytes of one record, header included */

struct dp_record { /* 8-byte aligned in the ring; payload follows */
	u16 len;   /* bytes, header included, multiple of 8 */
	u16 flags; /* DP_REC_* */
	u32 event; /* index of the probe (dp_probe_rt) */
	u32 tid;
	u32 cpu;
	u64 tsc;
};

#define DP_REC_FAULTED 0x1   /* an argument could not be read; its field holds the fault marker */
#define DP_REC_TRUNCATED 0x2 /* payload shortened to the log budget */
#define DP_REC_PAD 0x4	     /* filler, no record */
#define DP_REC_RPN 0x8	     /* the payload begins with struct dp_rpn_head */
#define DP_REC_TRACE 0x10    /* and then comes a stack trace */
#define DP_REC_EXIT 0x20     /* the program handed over to a facility */
#define DP_REC_COMM 0x40     /* the last DP_COMM_SIZE bytes are the task's name (the kernel host) */
#define DP_REC_STOP 0x80     /* the process stopped for a debugger behind this record */

#define DP_COMM_SIZE 16

struct dp_rpn_head { /* begins the payload of records that RPN programs log */
	u16 major, minor;
	u16 cs, ss;
	u32 pid;
	u32 pad;     /* bytes behind the last item, since records have whole words */
	u64 ip, sp;
};

/* Outcomes of one hit. hits = sum of these; faults and exceptions are counted beside it. */
enum dp_count {
	DP_COUNT_RECORDED,
	DP_COUNT_PASSED,   /* passed over: pass count, ignore, max hits */
	DP_COUNT_FILTERED, /* the program decided not to log */
	DP_COUNT_MISSED,   /* recursion, or no slot, or no free return-probe instance */
	DP_COUNT_LOST,	   /* no room in the ring */
	DP_COUNT_FAULTS,
	DP_COUNT_EXCEPTIONS,
	DP_COUNT_OWN, /* watched memory was read by a program of ours: no hit */
	DP_NCOUNTS
};

struct dp_counts {
	u64 v[DP_NCOUNTS]; /* one cache line */
};

struct dp_ring { /* one page, then the data */
	u64 head;	  /* bytes ever written; written by producers only */
	u64 by, at;	  /* thread pointer and stamp of a commit that was known to be made on this ring's processor */
	u64 pad0[5];
	u64 tail;	  /* bytes ever consumed; written by the reader only */
	u64 next, epoch;  /* of the reader: where tail goes once the log has reached that epoch (log/reader.h) */
	u64 pad1[5];
	u32 owner;	  /* locked rings: tid of the producer inside, 0 free */
	u32 pad2[15];
};

/*
 * The mapping: one page of struct dp_rings, then counts, then nrings rings. Rings 0..ncpus-1 belong
 * to one CPU each and are committed by restartable sequences; rings ncpus..nrings-1 are taken by
 * threads without one, for one commit, by compare-and-swap on owner.
 */
struct dp_rings {
	u64 magic;
	u32 abi;
	u32 ncpus;
	u32 nrings;
	u32 nprobes;	  /* capacity of the counts */
	u64 ring_size;	  /* bytes of data of one ring, power of two */
	u64 counts_off;	  /* from the start of the mapping; [ring][probe] struct dp_counts */
	u64 counts_stride; /* bytes from one ring's counts to the next */
	u64 rings_off;
	u64 ring_stride;
	u64 size;	  /* of the whole mapping */
	u32 owner_pid;	  /* the dprobes that reads; 0 none */
	u32 bell;	  /* counts questions of threads that store to watched pages (copies); who reads waits on it */
	u32 answered;	  /* counts the answers; they wait on it */
	u32 pad;
};

/* ---- programs and probes, read-only in the target ---- */

struct dp_code_rt {  /* one verified program, as the interpreter wants it */
	u64 code;    /* address of the bytecode */
	u32 len;
	u32 jmpmax;  /* jumps allowed in one run */
	u32 logmax;  /* payload bytes allowed in one record, <= DP_RECORD_MAX - sizeof header */
	u32 nlocals;
	u64 locals;  /* address of the module's local variables (u64 each), 0 none */
	u64 globals;
	u32 nglobals;
	u32 ex_mask;
	/* RPN programs only, those with an ex_mask: */
	u64 gate;    /* address of the count of hits, shared; 0: none. Counted only where pass or max want to know */
	u64 pass;    /* hits to pass over first, then */
	u64 max;     /* hits that may run */
	u32 heap;    /* bytes allocated at one time */
	u32 ex_logmax;
	u16 major, minor;
	u32 pad;
	u64 compiled; /* address of the program as machine code, 0: none (arch/x86_64/rpn-jit.h) */
};

/* In ex_mask, above the exceptions. */
#define DP_RPN 0x80000000u	    /* always set in RPN programs */
#define DP_RPN_AUTOTRACE 0x40000000u /* a stack trace at every exception */

#define DP_NO_LIMIT (~0ull) /* of hits that may run */
#define DP_GATE_REMOVED (1ull << 63) /* in the count of hits: the program has removed its probe */

#define DP_PROBE_ENABLED 0x1
#define DP_PROBE_RETURN 0x2 /* at a function's exit: the return address is at the stack pointer */
#define DP_PROBE_WAITS 0x4  /* its records wait until the probed instruction has been carried out */
#define DP_PROBE_WATCH_BEGIN 0x8 /* instead of a program code is a struct dp_chase: that memory is watched */
#define DP_PROBE_WATCH_END 0x10	 /* until here */

/* In the number of a point that a detour calls with: this is the second hit, behind the instruction. */
#define DP_HIT_AFTER 0x80000000u
/* Instead of a point: a copy of an instruction has stored to watched pages. */
#define DP_HIT_PAGE 0x40000000u

struct dp_probe_rt {
	struct dp_code_rt prog;
	u32 event; /* index for records and counts */
	u32 flags; /* DP_PROBE_* */
	u64 addr;  /* run-time address of the probepoint, what regs->ip shows */
};

struct dp_point {   /* what one detour calls: all probes at one address */
	u64 addr;   /* run-time address of the probed instruction */
	u64 resume; /* address of its copy in the detour: where execution goes on */
	u32 first;  /* first probe, index into probes[] */
	u32 n;
	u64 store;  /* no probes, but an instruction that stores to watched pages: its index into copies[], + 1; 0: probes */
};

struct dp_watch_rt { /* one watched piece of memory: at most 8 bytes, or any number where its pages are watched */
	u64 addr;  /* 0: that of the call which the thread is in, see struct dp_slot_head */
	u32 len;
	u32 type;  /* enum dp_watch_type */
	u32 first; /* first probe, index into probes[] */
	u32 n;
	u64 last;  /* address of the word that holds its value at the last hit; of pages: of a copy of all len bytes */
	u32 paged; /* by its pages, not by a register */
	u32 pad;
};

/* ---- memory that is watched by its pages (page.c, copy.c) ---- */

/* In the data of the signal of a page fault, as DP_WATCH_MAGIC; below it: */
#define DP_PAGE_MAGIC 0x44505047ull
#define DP_PAGE_BY_CALL 1 /* the kernel faulted, on behalf of the program */

#define DP_COPIES 4096	     /* instructions that may be known, power of two */
#define DP_COPY_CODE 128     /* bytes of code of one of them */
#define DP_PAGES_RANGES 64   /* stretches of pages */
#define DP_PAGES_MAX 65536   /* pages in all */

enum dp_copy_state { DP_COPY_FREE, DP_COPY_BUSY, DP_COPY_READY, DP_COPY_NONE };

enum dp_copy_asked {
	DP_COPY_UNASKED,
	DP_COPY_ASKED,	  /* threads wait until it has a point of its own, or cannot have one */
	DP_COPY_ANSWERED,
};

struct dp_copy {   /* an instruction that stores to watched pages; its code is a copy of it, a hit, and the way back */
	u64 ip;	   /* where it stands in the program */
	u32 state; /* enum dp_copy_state */
	u32 asked; /* enum dp_copy_asked */
	u64 body[14]; /* copy.c's own */
};

struct dp_copies {
	struct dp_copy v[DP_COPIES];
	u64 nready;
	u64 nasked; /* for how many of them threads have waited, up to DP_COPY_ASKS; then nobody waits any more */
};

#define DP_COPY_ASKS 64

/* In the data of the signal that a hit raises: above the index into watches[]. */
#define DP_WATCH_MAGIC 0x44505741ull
#define DP_TRAP_PERF 6 /* si_code of that signal */
#define DP_WATCH_CHUNK 8

/* From a register along pointers: each offset but the last leads to a word that is the next pointer. */
#define DP_CHASE_MAX 8

struct dp_chase {
	u32 watch; /* index into watches[] */
	u8 slot;   /* the register: word of struct dp_regs */
	u8 n;	   /* offsets */
	u16 pad;
	u64 offsets[DP_CHASE_MAX];
};

/* Behind the words in the mapping of the rings: threads that want memory to be watched, or no longer. */
#define DP_ASKS 64

enum dp_ask_state { DP_ASK_FREE, DP_ASK_TAKEN, DP_ASK_ASKED, DP_ASK_DONE, DP_ASK_REFUSED };

struct dp_ask {
	u32 state; /* the thread waits on it (futex) */
	u32 tid;   /* as the process knows it */
	u32 watch; /* index into watches[] */
	u32 pad;
	u64 addr;  /* 0: watched no more */
};

struct dp_asks {
	u32 serving; /* somebody answers */
	u32 bell;    /* counts questions; who answers waits on it */
	u32 pad[14];
	struct dp_ask v[DP_ASKS];
};

struct dp_redirect { /* where a program counter found on a patched byte belongs; sorted by pc */
	u64 pc;	     /* an address at which a trapping byte stands */
	u64 to;	     /* where execution goes on */
};

/* How many of n such entries are of addresses below pc: the index of its own, if it has one, else of the next. */
static inline u32 dp_redirects_below(const struct dp_redirect *v, u32 n, u64 pc)
{
	u32 lo = 0, hi = n;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (v[mid].pc < pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Where a program counter found at pc belongs; 0 when it may stay. */
static inline u64 dp_redirect_find(const struct dp_redirect *v, u32 n, u64 pc)
{
	u32 i = dp_redirects_below(v, n, pc);

	return i < n && v[i].pc == pc ? v[i].to : 0;
}

/* ---- per-thread slots, writable in the target ---- */

#define DP_SLOT_SIZE (256 * 1024)
#define DP_SLOT_SHIFT 18
#define DP_SLOT_HEAD 4096
#define DP_SLOT_VM 8192		    /* struct dp_vm */
#define DP_SLOT_STACK_TOP DP_SLOT_SIZE /* the stack grows down from here to the end of the vm */
#define DP_SLOT_ABANDONED (~0ull)    /* owner of a slot whose hit never ended: the key of no thread */
#define DP_SLOT_PROBES 16	    /* slots that a thread may try before its hit is missed */
#define DP_VM_STACK 1024
#define DP_FRAMES_MAX 64 /* of a call chain */
#define DP_FRAMES_USUAL 16 /* of one whose length the user does not say */
#define DP_VM_CALLS 32
#define DP_VM_CALLS_TOTAL 65535	  /* calls in one run: what bounds recursion that branches */
#define DP_VM_HANDLED 256	  /* exceptions that handlers may take in one run */
#define DP_HEAP_MAX 16384
#define DP_EX_LOG_MAX 1024

struct dp_vm; /* machine state, src/hit/vm.h */

struct dp_rseq_cs {
	u32 version, flags;
	u64 start_ip, post_commit_offset, abort_ip;
} __attribute__((aligned(32)));

/*
 * One thread's place to run a hit: own stack, machine state, owner. A slot belongs to the thread whose thread
 * pointer (with bit 0 set) is in owner; nobody else touches it. Signal handlers of the program that interrupt a
 * hit run on this stack too (unless they asked for one of their own), so it is large; pages never touched cost nothing.
 */
struct dp_slot_head { /* at DP_SLOT_HEAD from the slot's start */
	u64 owner;	/* 0: free; DP_SLOT_ABANDONED */
	u32 busy;	/* a hit is in progress: further ones on this thread count as missed */
	u32 ready;	/* the fields below are set up */
	u64 rseq;	/* address of the thread's restartable-sequence area, 0 none */
	u32 index;	/* of this slot */
	u32 tcb;	/* the thread pointer points at a control block of the usual kind */
	u64 call_sp;	/* stack pointer at the entry of the call for which memory is watched; 0: none */
	u64 call_addr, call_last; /* that memory, and its value at the last hit */
	u32 call_watch, pad;
	struct dp_rseq_cs cs_commit;
	struct dp_rseq_cs cs_count;
	u64 page_addr; /* where the store begins that page_copy makes */
	u64 page_left; /* in a page that is to be closed again at the end of the hit; 0: none */
	u32 page_copy; /* the copy that the thread was sent to, index + 1, or DP_HIT_AFTER and its point, index + 1; 0: none */
	u32 page_len;  /* bytes that it stores; 0: not known */
	u32 page_lost, pad2; /* page_copy was set when it was set again: by a signal handler that came between */
};

/* Capabilities that the control side found out for this target. */
#define DP_CAP_RSEQ 0x1	    /* threads may have a restartable-sequence area at thread pointer + rseq_off */
#define DP_CAP_PVR 0x2	    /* process_vm_readv on oneself is allowed */
#define DP_CAP_RDPID 0x4    /* rdpid gives the processor's number */
#define DP_CAP_GETTID 0x8   /* gettid is allowed */
#define DP_CAP_SIGALTSTACK 0x10
#define DP_CAP_TIDOFF 0x20  /* the thread id stands at thread pointer + tid_off */
#define DP_CAP_PROBE_READ 0x40 /* rt_sigprocmask may be used to test whether memory is readable */
#define DP_CAP_DUMP 0x80       /* no filter of system calls is in force */
#define DP_CAP_FUTEX 0x100     /* futex is allowed: a thread can wait for an answer */
#define DP_CAP_RDTSCP 0x200    /* rdtscp gives the processor's number */
#define DP_CAP_LSL 0x400       /* the limit of a segment does */
#define DP_CAP_GETCPU 0x800    /* getcpu is allowed */
#define DP_CAP_RDFSBASE 0x1000 /* the thread pointer by rdfsbase; rdgsbase works too */
#define DP_CAP_FS_WORD 0x2000  /* else: every thread's control block begins with its own address */
#define DP_CAP_GET_FS 0x4000   /* else: by arch_prctl, which is allowed */

/*
 * A thread that has committed to a ring and does so again within that many ticks cannot have become a child of vfork meanwhile: that takes
 * several times as long. See put() in hit.c.
 */
#define DP_TRUST_TICKS 2048

struct dp_range {
	u64 lo, hi;
};

/* ---- who called: one row for each stretch of code in which the frame is laid out alike ---- */

enum dp_unwind_kind { /* where the frame's upper end is, the place behind the return address */
	DP_UNWIND_END,	   /* nobody called, or it is not known */
	DP_UNWIND_SP,	   /* sp + 8 * cfa */
	DP_UNWIND_BP,	   /* bp + 8 * cfa */
	DP_UNWIND_R10,	   /* r10 + 8 * cfa; known at the hit only, as functions that align their stack begin and end */
	DP_UNWIND_BP_WORD, /* the word at bp + 8 * cfa */
	DP_UNWIND_PLT,	   /* sp + 8, and 8 more from byte cfa on of each 16 */
	DP_UNWIND_SIGNAL,  /* a signal frame */
};

#define DP_UNWIND_AT_BP 1 /* the caller's bp is where bp points */

struct dp_unwind_row {
	u32 pc;	      /* where it begins, from the module's lo */
	s32 cfa : 20; /* in words */
	s32 bp : 8;   /* the caller's bp is that many words from the upper end; 0: it has not changed; DP_UNWIND_AT_BP */
	u32 kind : 4; /* enum dp_unwind_kind */
};

struct dp_unwind_module {
	u64 lo, hi;
	u64 rows; /* struct dp_unwind_row[], sorted */
	u64 n;
};

struct dp_unwind {
	u64 n;
	struct dp_unwind_module modules[]; /* sorted, not overlapping */
};

#define DP_MAX_RANGES 64

enum dp_state {
	DP_STATE_EMPTY,	 /* nothing was patched */
	DP_STATE_ARMING, /* bytes may be in any step of the protocol */
	DP_STATE_ARMED,
};

/* The control block: one per session and target, written by the control side, read-only inside. */
struct dp_control {
	u64 magic;
	u32 abi;
	u32 caps;
	u64 self;	/* its own address */
	u64 size;	/* of the whole read-only mapping */
	u64 rings;	/* address of struct dp_rings in the target */
	u64 ring0;	/* address of the first ring */
	u64 ring_stride;
	u64 ring_size;	/* bytes of data, power of two */
	u64 counts;	/* address of the first ring's counts */
	u64 counts_stride;
	u32 ncpus;	/* rings that are committed by restartable sequences */
	u32 nrings;
	u64 slots;	/* address of the first slot */
	u64 tids;	/* u32 per slot, then that of the process, on pages that are wiped in a forked child; 0: none */
	u32 nslots;	/* power of two */
	s32 rseq_off;
	s32 tid_off;
	u32 pid;
	u64 points;	/* struct dp_point[] */
	u64 probes;	/* struct dp_probe_rt[] */
	u64 redirects;	/* struct dp_redirect[], sorted */
	u64 homes;	/* struct dp_redirect[], sorted: place in a detour -> original address */
	u64 watches;	/* struct dp_watch_rt[] */
	u32 npoints, nprobes, nredirects, nhomes;
	u32 nwatches, pad3;
	u32 state;	/* enum dp_state */
	u32 owner_pid;	/* the dprobes that armed this; 0 when it let go of it for good */
	u64 region_lo, region_hi; /* the main mapping: code, control block, slots, rings */
	u64 rings_hi;	/* end of the rings */
	u64 jit_lo, jit_hi; /* compiled programs */
	u64 old_trap[4]; /* the program's own SIGTRAP action: handler, flags, restorer, mask */
	u64 old_segv[4];
	u64 signals;	/* address of a word: bit SIG - 1 is set when the program's handler was reset (SA_RESETHAND) */
	u64 patches;	/* struct dp_patch[]: what a successor needs to restore the bytes */
	u32 npatches;
	u32 nareas;
	u64 areas;	/* struct dp_range[]: where the detours lie */
	u32 segv_taken, pad2; /* a handler of ours stands for SIGSEGV too */
	u64 clock_tsc, clock_ns; /* a moment by both clocks */
	u64 clock_mult;	/* nanoseconds per tick, 32.32 fixed point; 0: no program asks */
	u64 unwind;	/* struct dp_unwind; 0: no program asks */
	u64 asks;	/* struct dp_asks; 0: nobody does */
	u64 pages;	/* struct dp_range[]: whole pages that are watched, sorted, not overlapping */
	u64 copies;	/* struct dp_copies */
	u64 single;	/* address of the byte by which the C library knows that there is one thread only; 0: not known */
	u64 copies_lo, copies_hi; /* their code; a copy's begins at copies_lo + index * DP_COPY_CODE */
	u32 npages;	/* ranges; 0: no pages are watched */
	s32 pagemap;	/* the process's descriptor of its own /proc/self/pagemap, opened for us */
	u32 nranges;	/* memory that cannot go away: may be read without a check */
	u32 pad;
	struct dp_range ranges[DP_MAX_RANGES];
};

struct dp_patch { /* one overwritten place */
	u64 addr;
	u8 len;		  /* bytes overwritten: 1 or 5 */
	u8 bounds;	  /* bit i: byte i is a trapping boundary byte */
	u8 orig[5];
	u8 jump[5];
	u8 pad[4];
};

#endif
