/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files share that compile small programs: direct.c the whole, direct-values.c the program and the registers
 * that it finds, direct-words.c what it loads from memory, direct-tables.c what it changes, direct-rseq.c and
 * direct-locked.c two ways to a ring, direct-record.c what these have in common.
 */
#ifndef DP_DIRECT_PRIV_H
#define DP_DIRECT_PRIV_H

#include "abi/abi-control.h"
#include "abi/abi-offsets.h"
#include "abi/abi-program.h"
#include "abi/abi-ring.h"
#include "abi/abi-slot.h"
#include "arch/compile.h"
#include "arch/x86_64/encode.h"
#include "arch/x86_64/machine.h"
#include "program/lower.h"

#define FIXUPS_MAX 96
#define STAGES_MAX 4 /* of loads */
#define ADDS_MAX 2

enum target {
	FILTERED,  /* a condition does not hold */
	GIVE_UP,   /* leave the hit to the general entry */
	BAIL_OUT,  /* the same, when the ring is taken or the record's sequence has begun */
	UNCOUNTED, /* the same, out of the sequence behind FILTERED */
	UNLOADED,  /* the same, out of a sequence that loads memory */
	FULL,      /* count the record as lost: the ring has no room */
	SHARED,    /* count the record, which is committed, where threads without a sequence count */
	FINISH,
	NTARGETS
};

/* One restartable sequence: its description, and where its parts will be. */
struct sequence {
	u64 cs;    /* address of struct dp_rseq_cs */
	size_t at; /* of it in the code; or of the displacement that is to lead there */
	u64 again, start, end;
};

struct dp_direct_way;

struct jit {
	struct dp_emit *e;
	const struct dp_jit *in;
	const struct dp_direct_way *way;
	u8 saved[16]; /* registers on the stack, in the order of pushing */
	u32 nsaved;
	u32 loaded; /* words below them, each at its index: bit i when it is there */
	struct sequence stages[STAGES_MAX];
	u32 nstages;
	struct dp_lowered p;
	struct {
		size_t hole;
		enum target to;
	} fixups[FIXUPS_MAX];
	u32 nfixups;
	size_t landed[NTARGETS]; /* 0: not yet */
	/* bytes that other ways to the processor and the thread would have taken: the length is the same for all */
	u32 spare;
	struct sequence commits, counts, filtered, losts;
	struct sequence *adds[ADDS_MAX]; /* for additions to what stands apart: the first nadds are still free */
	u32 nadds;
	bool cx_taken; /* by an effect: what it held is lost */
	bool failed, far;
};

/* A way to a ring: the parts of the code that differ by it. */
struct dp_direct_way {
	void (*begin)(struct jit *j); /* DP_JIT_ENTRY bytes in front of the code */
	void (*record)(struct jit *j);
	/* Nothing was logged: count that, where a condition does not hold, or behind them all. */
	void (*filtered)(struct jit *j, bool fails);
	bool has_area; /* each thread has one for restartable sequences */
	/*
	 * Or NULL. Add rdx, or one, to what the processor keeps apart for the word at rdi: takes one of j->adds.
	 * rcx: thread pointer. Clobbers rax.
	 */
	void (*add)(struct jit *j, bool one);
};

extern const struct dp_direct_way dp_direct_rseq, dp_direct_locked;

/* Words of the frame that are no register's: what a stub has pushed, the point, where a number is kept. */
#define NONE 0xff
#define EVENT 0xfe
#define POINT 0xfd
#define KEPT 0xfc

#define BYTES(j, s) dp_emit_bytes((j)->e, s, sizeof(s) - 1)
#define LOAD(j, reg, base, disp) load((j)->e, reg, AT(base, disp))
#define LOAD32(j, reg, base, disp) load32((j)->e, reg, AT(base, disp))
#define STORE(j, base, disp, reg) store((j)->e, AT(base, disp), reg)
#define STORE32(j, base, disp, reg) store32((j)->e, AT(base, disp), reg)
#define LEA(j, reg, base, disp) lea((j)->e, true, reg, AT(base, disp))
#define MOVE(j, to, from) move((j)->e, to, from)
#define STORE_IMM(j, wide, base, disp, imm) store_imm((j)->e, wide, AT(base, disp), imm)

/* ---- instructions (direct-values.c, as all up to the record) ---- */

/* lea target(%rip), reg */
void dp_direct_lea_rip(struct jit *j, u8 reg, u64 target);
/* A jump on condition cc (0-15; 16: always). */
void dp_direct_jump(struct jit *j, u8 cc, enum target to);
/* Let the jumps to `to` come here. */
void dp_direct_land(struct jit *j, enum target to);

/* ---- the frame ---- */

/* rax first, and the flags behind it where they are live. */
void dp_direct_enter(struct jit *j);
/* Everything as it was, but for the return address and rdi below it. */
void dp_direct_leave(struct jit *j);
/* The hit is done: the place of its call's number is free. */
void dp_direct_leave_done(struct jit *j);
/* Where the program's value of a register is saved, from rsp; -1: the register still holds it. */
s32 dp_direct_saved_at(const struct jit *j, u8 reg);
/* The words of struct dp_regs that the code can read. */
u64 dp_direct_readable(bool shared);
/* The word itself, for reading: in a register of the program's own, or loaded into scratch. */
u8 dp_direct_fetch(struct jit *j, u8 reg_word, u8 scratch);

/* ---- the program ---- */

/* Go on only if the condition holds. */
void dp_direct_need(struct jit *j, const struct dp_lowered_need *n);
/* One field of the record at r8. Clobbers r9. */
void dp_direct_store(struct jit *j, const struct dp_lowered_store *s);
/* What is no constant, in a register: the program's own, or scratch. */
u8 dp_direct_eval(struct jit *j, const struct dp_value *v, u8 scratch);

/* ---- variables and tables (direct-tables.c) ---- */

/* Where the place of that key is in the frame, from rsp. */
s32 dp_direct_place_at(const struct jit *j, u32 find);
/* Places of keys into the frame; to GIVE_UP unless each is near where its search begins. Clobbers rax, rcx, rdi. */
void dp_direct_find(struct jit *j);
/*
 * The first n changes of variables: the hit is committed. rcx: the thread pointer, if there are j->nadds. Clobbers rax,
 * rcx, rdi.
 */
void dp_direct_effects(struct jit *j, u32 n);

/* ---- memory (direct-words.c) ---- */

/*
 * The first n words are in the frame from here on; to GIVE_UP where one is in no memory that is known to stay.
 * Clobbers all registers that are saved.
 */
void dp_direct_words(struct jit *j, u32 n);
/* Before GIVE_UP: a word is in no such memory. */
void dp_direct_words_fail(struct jit *j);
/* Behind the code: descriptions of the sequences, and the ways back into them. */
void dp_direct_words_end(struct jit *j);

/* ---- what both ways do (direct-record.c) ---- */

/* The way back into a sequence that was interrupted: the description leads here. */
void dp_direct_abort(struct jit *j, const struct sequence *q, struct dp_rseq_cs *cs);
/* Code between `from` and here, in any of its ways, takes so many bytes. */
void dp_direct_fill_up(struct jit *j, size_t from, u32 max);
/* The stamp into rax. Clobbers rdx. */
void dp_direct_stamp(struct jit *j);
/*
 * The processor into reg, one of the first eight, by the segment's limit; or by another look at the clock, which is the
 * stamp in rax then and clobbers rcx and rdx. To be masked.
 */
void dp_direct_ask_processor(struct jit *j, u8 reg);
/* rdi: the processor, from what tells more than that; to GIVE_UP unless it is one of those that there are rings for. */
void dp_direct_need_processor(struct jit *j);
/* The ring of processor rdi into rdx: the first one is there. Clobbers rcx. */
void dp_direct_ring(struct jit *j, u64 first);
/* Thread pointer into reg; to GIVE_UP unless a control block of the usual kind is there. */
void dp_direct_thread_pointer(struct jit *j, u8 reg);
/* The process's id is noted by its first hit; a forked child's is not yet. */
void dp_direct_need_pid(struct jit *j);
/* The head of ring rdx into rcx; to FULL where there is no room for the record. Clobbers r8. */
void dp_direct_full(struct jit *j);
/* The same, and the place of the record into r8; to BAIL_OUT where it would not be in one piece. */
void dp_direct_room(struct jit *j);
/* The record at r8, but for the thread's id. rax: stamp, rdi: processor. Clobbers r9. */
void dp_direct_write(struct jit *j);
/* Add one to this outcome of the point's event, in the counts at rax behind `first`. Clobbers rax and rdi. */
void dp_direct_count(struct jit *j, u64 first, enum dp_count what, bool locked);
/* Bytes of the record. */
u32 dp_direct_size(const struct jit *j);

#endif
