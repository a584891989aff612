/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The control block: all that the hit path and a successor of the control side must know of a session. Change DP_ABI
 * with any layout of this folder that a target holds.
 */
#ifndef DP_ABI_CONTROL_H
#define DP_ABI_CONTROL_H

#include "base/base.h"

#define DP_ABI 21
#define DP_CONTROL_MAGIC 0x31424f5250594e44ull /* "DNYPROB1" */
#define DP_REDIRECTED 0x4452494445525044ull    /* value of a trap signal whose thread a tracer has redirected already */

/* Capabilities that the control side found out for this target. */
#define DP_CAP_RSEQ 0x1   /* threads may have a restartable-sequence area at thread pointer + rseq_off */
#define DP_CAP_PVR 0x2    /* process_vm_readv on oneself is allowed */
#define DP_CAP_RDPID 0x4  /* rdpid gives the processor's number */
#define DP_CAP_GETTID 0x8 /* gettid is allowed */
#define DP_CAP_SIGALTSTACK 0x10
#define DP_CAP_TIDOFF 0x20        /* the thread id stands at thread pointer + tid_off */
#define DP_CAP_PROBE_READ 0x40    /* rt_sigprocmask may be used to test whether memory is readable */
#define DP_CAP_DUMP 0x80          /* no filter of system calls is in force */
#define DP_CAP_FUTEX 0x100        /* futex is allowed: a thread can wait for an answer */
#define DP_CAP_RDTSCP 0x200       /* rdtscp gives the processor's number */
#define DP_CAP_LSL 0x400          /* the limit of a segment does */
#define DP_CAP_GETCPU 0x800       /* getcpu is allowed */
#define DP_CAP_RDFSBASE 0x1000    /* the thread pointer by rdfsbase; rdgsbase works too */
#define DP_CAP_FS_WORD 0x2000     /* else: every thread's control block begins with its own address */
#define DP_CAP_GET_FS 0x4000      /* else: by arch_prctl, which is allowed */
#define DP_CAP_GETUID 0x8000      /* getuid is allowed */
#define DP_CAP_GETPPID 0x10000    /* getppid is allowed */
#define DP_CAP_MEMBARRIER 0x20000 /* membarrier is allowed */

/*
 * A thread that has committed to a ring and does so again within that many ticks cannot have become a child of vfork
 * meanwhile: that takes several times as long. See put() in hit.c.
 */
#define DP_TRUST_TICKS 2048

#define DP_MAX_RANGES 64
#define DP_MAX_SEMAPHORES 128

enum dp_semaphore_state {
	DP_SEMAPHORE_NONE,
	DP_SEMAPHORE_RAISING, /* before is what it was: one more was written, or will be */
	DP_SEMAPHORE_RAISED,
	DP_SEMAPHORE_LOWERING, /* before is what it was: one less was written, or will be */
};

struct dp_semaphore { /* a 16-bit count of those who look at a static probe */
	u64 addr;     /* 0: the place is free */
	u32 file;     /* by which the file that is mapped there is known again */
	u16 before;
	u16 state; /* enum dp_semaphore_state */
};

enum dp_state {
	DP_STATE_EMPTY,  /* nothing was patched */
	DP_STATE_ARMING, /* bytes may be in any step of the protocol */
	DP_STATE_ARMED,
};

/* The control block: one per session and target, written by the control side, read-only inside. */
struct dp_control {
	u64 magic;
	u32 abi;
	u32 caps;
	u64 self;  /* its own address */
	u64 size;  /* of the whole read-only mapping */
	u64 rings; /* address of struct dp_rings in the target */
	u64 ring0; /* address of the first ring */
	u64 ring_stride;
	u64 ring_size; /* bytes of data, power of two */
	u64 counts;    /* address of the first ring's counts */
	u64 counts_stride;
	u32 ncpus; /* rings that are committed by restartable sequences */
	u32 nrings;
	u64 slots;  /* address of the first slot */
	u64 tids;   /* u32 per slot, then that of the process, on pages that are wiped in a forked child; 0: none */
	u32 nslots; /* power of two */
	s32 rseq_off;
	s32 tid_off;
	u32 pid;
	u64 points;    /* struct dp_point[] */
	u64 probes;    /* struct dp_probe_rt[] */
	u64 redirects; /* struct dp_redirect[], sorted */
	u64 homes;     /* struct dp_redirect[], sorted: place in a detour -> original address */
	u64 watches;   /* struct dp_watch_rt[] */
	u32 npoints, nprobes, nredirects, nhomes;
	u32 nwatches;
	u32 owner_ns;  /* the namespace in which owner_pid is an id: the inode of /proc/self/ns/pid; 0: not known */
	u32 state;     /* enum dp_state */
	u32 owner_pid; /* the dprobes that armed this; 0 when it let go of it for good */
	u64 region_lo, region_hi; /* the main mapping: code, control block, slots, rings */
	u64 rings_hi;             /* end of the rings */
	u64 jit_lo, jit_hi;       /* compiled programs */
	/* What changes when another session goes (owners.c): these nine words, by one write while no thread runs. */
	u64 above;       /* old_trap is the handler of another session: its watchpoints' signals go on to it */
	u64 old_trap[4]; /* the program's own SIGTRAP action: handler, flags, restorer, mask */
	u64 old_segv[4];
	u64 signals; /* address of a word: bit SIG - 1 is set when the program's handler was reset (SA_RESETHAND) */
	u64 patches; /* struct dp_patch[]: what a successor needs to restore the bytes */
	u32 npatches;
	u32 nareas;
	u64 areas;               /* struct dp_range[]: where the detours lie */
	u32 segv_taken;          /* a handler of ours stands for SIGSEGV too */
	u32 stack_off;           /* in a thread's control block: begin and size of its stack; 0: not known */
	u64 clock_tsc, clock_ns; /* a moment by both clocks */
	u64 clock_mult;          /* nanoseconds per tick, 32.32 fixed point; 0: no program asks */
	u64 unwind;              /* struct dp_unwind; 0: no program asks */
	u64 exits;               /* dp_exit_call_fn; 0: no program calls any */
	u64 asks;                /* struct dp_asks; 0: nobody does */
	u64 pages;               /* struct dp_range[]: whole pages that are watched, sorted, not overlapping */
	u64 copies;              /* struct dp_copies */
	u64 single; /* address of the byte by which the C library knows that there is one thread only; 0: not known */
	u64 copies_lo, copies_hi; /* their code; a copy's begins at copies_lo + index * DP_COPY_CODE */
	u32 npages;               /* ranges; 0: no pages are watched */
	s32 pagemap;              /* the process's descriptor of its own /proc/self/pagemap, opened for us */
	u64 stretches;            /* struct dp_stretches; 0: no program asks, or it cannot be done here */
	u64 loads; /* a word per slot, DP_LOAD_STRIDE apart, wiped in a forked child: the thread may be loading */
	u64 apart; /* stride of what processors add to words of aggregates (abi-apart.h); 0: nothing stands apart */
	struct dp_range stack; /* of the process's first thread, as far as it was mapped when this was armed */
	u32 nranges;           /* memory that cannot go away: may be read without a check; sorted, not touching */
	u32 pad;
	struct dp_range ranges[DP_MAX_RANGES];
	struct dp_semaphore semaphores[DP_MAX_SEMAPHORES];
};

#endif
