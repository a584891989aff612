/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The judge of the relocator: the processor runs an instruction at its own address and its copy
 * elsewhere from the same random state; registers, flags, vector state, memory and exit must agree.
 * One judge to a process: it owns signal handlers, fixed addresses and the thread's fs and gs base.
 */
#ifndef RELOCATE_JUDGE_H
#define RELOCATE_JUDGE_H

#include "arch/x86_64/relocate.h"

/* Memory that instructions may use, in this order: operands, RIP-relative operands, stack. */
#define RJ_DATA 0
#define RJ_DATA_SIZE 0x6000
#define RJ_RIP (RJ_DATA + RJ_DATA_SIZE)
#define RJ_RIP_SIZE 0x2000
#define RJ_STACK (RJ_RIP + RJ_RIP_SIZE)
#define RJ_STACK_SIZE 0x4000
#define RJ_ARENA_SIZE (RJ_STACK + RJ_STACK_SIZE)

/* The same memory, mapped twice: within reach of 32-bit addresses, and far above. */
#define RJ_LOW 0x5a000000ull
#define RJ_HIGH 0x3a0000000000ull

#define RJ_XSTATE_MAX 4096

enum rj_reg { RJ_RAX, RJ_RCX, RJ_RDX, RJ_RBX, RJ_RSP, RJ_RBP, RJ_RSI, RJ_RDI, RJ_R8, RJ_R15 = 15 };

/* The order is known to the assembly in relocate-judge.c. */
struct rj_regs {
	u64 r[16]; /* in the processor's numbering */
	u64 rip;
	u64 flags;
	u64 fsbase;
	u64 gsbase;
};

/* The state that both runs start from. */
struct rj_state {
	struct rj_regs regs;
	u8 mem[RJ_ARENA_SIZE];
	_Alignas(64) u8 xstate[RJ_XSTATE_MAX]; /* xrstor image, standard format */
};

/* Why an instruction is not run. */
enum rj_exclusion {
	RJ_RUN,
	RJ_REFUSED,      /* the relocator refuses it */
	RJ_UNREPEATABLE, /* clock, random numbers, processor number, cpuid */
	RJ_XSAVE,        /* xsave, xrstor: they store and load which state is in use */
	RJ_SEGMENT,      /* loads of segment registers */
	RJ_EMULATED,     /* sgdt and its kind, which the kernel emulates or logs */
	RJ_TILES,        /* tile configuration, protection keys: not part of the compared state */
	RJ_SELF,         /* branches into themselves */
	RJ_OCCUPIED,     /* the page of the operand is used by something else */
	RJ_NEXCLUSIONS
};

const char *rj_exclusion_name(enum rj_exclusion x);

enum rj_kind { /* forms of relocation, for the counts */
	       RJ_PLAIN,
	       RJ_RIPREL,
	       RJ_JMP,
	       RJ_JCC,
	       RJ_LOOP,
	       RJ_CALL,
	       RJ_CALL_REG,
	       RJ_CALL_MEM,
	       RJ_CALL_RIP,
	       RJ_CALL_RSP,
	       RJ_JMP_IND,
	       RJ_RET,
	       RJ_XBEGIN,
	       RJ_SYSCALL,
	       RJ_NKINDS
};

const char *rj_kind_name(enum rj_kind k);

struct rj_stats {
	u64 cases;
	u64 stepped;        /* originals that were single-stepped */
	u64 fell, branched; /* how the originals ended */
	u64 faults[32];     /* by exception vector */
	u64 pushed_faults;  /* calls to a non-canonical address: see relocate.c */
	u64 out_of_reach;   /* copies refused for the distance, rightly */
	u64 unrepeatable;   /* the original differs from itself */
	u64 mismatches;
	u64 excluded[RJ_NEXCLUSIONS]; /* instructions */
	u64 kinds[RJ_NKINDS];         /* cases */
	char report[2048];            /* of the first mismatch */
};

/* Random numbers: splitmix64. */
static inline u64 rj_random(u64 *seed)
{
	u64 z = *seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Claim the addresses and the signals. False with a reason where this machine cannot do it. */
bool rj_init(u64 seed, const char **reason);

/*
 * Judge one instruction in n random states. Returns whether it was run or why not; mismatches are
 * counted and the first is described in *st.
 */
enum rj_exclusion rj_judge(const u8 *code, unsigned int n, struct rj_stats *st);

/* What relocate-steer.c does for relocate-judge.c. */
enum rj_exclusion rj_exclude(const struct dp_insn *in);

struct rj_place {
	u64 at;      /* address of the original */
	u64 landing; /* filled with breakpoints: where indirect branches should go */
};

/* The address outside the arena at which this operand lies wherever registers point; 0: none. */
u64 rj_fixed_operand(const struct dp_insn *in, const u8 *code, u64 at);

/* A random state in which the instruction's operands lie in the arena, most of the time. */
void rj_steer(struct rj_state *s, const struct dp_insn *in, const struct rj_place *p, u64 *seed);

/* The size and the components of the compared vector state. */
struct rj_xlayout {
	u32 mask;
	u32 size;
	u32 mxcsr_mask;
};
extern struct rj_xlayout rj_xlayout;

#endif
