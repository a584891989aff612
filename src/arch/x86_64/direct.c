/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that only look at registers, compare and log, as straight machine code: no stack of its own, no slot, no
 * frame of registers. Whatever is out of the ordinary (another opcode, a thread without a restartable sequence,
 * a record across the ring's end) is the interpreter's work, which stays the reference.
 *
 * The code, on the probed program's stack:
 *	save registers; conditions (to `filtered` where one does not hold)
 *	a record: stamp, processor; [ sequence: room, header, fields, commit ]; [ sequence: count ]
 *	filtered: [ sequence: count ]
 *	no room: [ sequence: count ]
 * Each sequence is restartable (rseq): the kernel sends a thread that is preempted, moved or signalled inside to its
 * abort address, and one store commits it. Nothing has an effect before the record's commit, so up to there the code
 * can leave everything to the general entry.
 *
 * Code that many points share gets what differs between them on the stack, from a stub of each: the event. The point is
 * in rdi, as the detour has it for the general entry.
 */
#include "abi/abi-control.h"
#include "abi/abi-offsets.h"
#include "abi/abi-program.h"
#include "abi/abi-ring.h"
#include "abi/abi-slot.h"
#include "arch/compile.h"
#include "arch/x86_64/direct-calls.h"
#include "arch/x86_64/encode.h"
#include "arch/x86_64/machine.h"
#include "program/lower.h"

#define FIXUPS_MAX 64
#define PREFETCH 1024     /* bytes ahead in the ring: the reader had these lines */
#define PROCESSOR_MAX 112 /* bytes of what finds the processor, in the longest way */
#define SIGN_MAX 14
#define THREAD_MAX 9 /* of what finds the thread */

enum target {
	FILTERED,  /* a condition does not hold */
	GIVE_UP,   /* leave the hit to the general entry */
	BAIL_OUT,  /* the same, out of the record's sequence */
	UNCOUNTED, /* the same, out of the sequence behind FILTERED */
	FULL,      /* count the record as lost: the ring has no room */
	SHARED,    /* count the record, which is committed, where threads without a sequence count */
	FINISH,
};

struct jit {
	struct dp_emit *e;
	const struct dp_jit *in;
	u8 saved[9]; /* registers on the stack, in the order of pushing */
	u32 nsaved;
	struct dp_lowered p;
	struct {
		size_t hole;
		enum target to;
	} fixups[FIXUPS_MAX];
	u32 nfixups;
	size_t landed[FINISH + 1]; /* 0: not yet */
	/* bytes that other ways to the processor and the thread would have taken: the length is the same for all */
	u32 spare;
	bool failed, far;
};

/* Slots of struct dp_regs, as processor registers; NONE: not one. */
#define NONE 0xff
/* Words on the stack that are no register's either: what a stub has pushed, the point, where a number is kept. */
#define EVENT 0xfe
#define POINT 0xfd
#define KEPT 0xfc
static const u8 reg_word_reg[] = {R15, R14, R13, R12, BP, BX,   R11,  R10,  R9,   R8,
				  AX,  CX,  DX,  SI,  DI, NONE, NONE, NONE, NONE, SP};

#define REG_WORD_IP (R_IP / 8)
#define REG_WORD_SP (R_SP / 8)

/* ---- instructions ---- */

static void bytes(struct jit *j, const char *b, size_t n)
{
	dp_emit_bytes(j->e, b, n);
}
#define BYTES(j, s) bytes(j, s, sizeof(s) - 1)

#define LOAD(j, reg, base, disp) load((j)->e, reg, AT(base, disp))
#define LOAD32(j, reg, base, disp) load32((j)->e, reg, AT(base, disp))
#define STORE(j, base, disp, reg) store((j)->e, AT(base, disp), reg)
#define STORE32(j, base, disp, reg) store32((j)->e, AT(base, disp), reg)
#define LEA(j, reg, base, disp) lea((j)->e, true, reg, AT(base, disp))
#define MOVE(j, to, from) move((j)->e, to, from)
#define STORE_IMM(j, wide, base, disp, imm) store_imm((j)->e, wide, AT(base, disp), imm)

/* lea target(%rip), reg */
static void lea_rip(struct jit *j, u8 reg, u64 target)
{
	s64 rel = (s64)(target - (dp_emit_here(j->e) + 7));

	j->far |= rel != (s32)rel;
	dp_emit_u8(j->e, (u8)(0x48 | (reg >> 3) << 2));
	dp_emit_u8(j->e, 0x8d);
	dp_emit_u8(j->e, (u8)(0x05 | (reg & 7) << 3));
	dp_emit_u32(j->e, (u32)rel);
}

/* A jump on condition cc (0-15; 16: always). */
static void jump(struct jit *j, u8 cc, enum target to)
{
	if (cc < 16) {
		dp_emit_u8(j->e, 0x0f);
		dp_emit_u8(j->e, (u8)(0x80 | cc));
	} else {
		dp_emit_u8(j->e, 0xe9);
	}
	if (j->landed[to]) {
		dp_emit_u32(j->e, (u32)(j->landed[to] - (j->e->len + 4)));
		return;
	}
	if (j->nfixups == FIXUPS_MAX) {
		j->failed = true;
		return;
	}
	j->fixups[j->nfixups].hole = j->e->len;
	j->fixups[j->nfixups++].to = to;
	dp_emit_u32(j->e, 0);
}

/* Let the jumps to `to` come here. */
static void land(struct jit *j, enum target to)
{
	j->landed[to] = j->e->len;
	for (u32 i = 0; i < j->nfixups; i++) {
		u32 rel = (u32)(j->e->len - j->fixups[i].hole - 4);

		if (j->fixups[i].to == to && !j->e->overflow)
			memcpy(j->e->buf + j->fixups[i].hole, &rel, 4);
	}
}

/* ---- the frame ---- */

static void save(struct jit *j, u8 reg)
{
	push(j->e, reg);
	j->saved[j->nsaved++] = reg;
}

/* rax first, and the flags behind it where they are live. */
static void enter(struct jit *j)
{
	static const u8 more[] = {CX, DX, SI, R8, R9}; /* only the first without a record */

	if (j->in->shared) {
		j->saved[j->nsaved++] = EVENT; /* by the stub */
		push(j->e, DI);
		j->saved[j->nsaved++] = POINT;
	}
	if (j->in->is_way)
		j->saved[j->nsaved++] = KEPT; /* by direct-calls.c */
	save(j, AX);
	if (j->in->flags) {
		BYTES(j, "\x9f\x0f\x90\xc0"); /* lahf; seto %al */
		push(j->e, AX);
		j->saved[j->nsaved++] = NONE; /* a word, and no register's */
	}
	for (u32 i = 0; i < (j->p.never ? 1 : DP_ARRAY_SIZE(more)); i++)
		save(j, more[i]);
}

/* Everything as it was, but for the return address and rdi below it. */
static void leave(struct jit *j)
{
	for (u32 i = j->nsaved; i-- > 0;) {
		if (j->saved[i] == NONE)
			BYTES(j, "\x58\x04\x7f\x9e"); /* pop %rax; add $127,%al; sahf */
		else if (j->saved[i] == EVENT || j->saved[i] == KEPT)
			LEA(j, SP, SP, 8); /* keeps the flags */
		else if (j->saved[i] == POINT)
			pop(j->e, DI);
		else
			pop(j->e, j->saved[i]);
	}
}

/* Where the program's value of a register is saved, from rsp; -1: the register still holds it. */
static s32 saved_at(const struct jit *j, u8 reg)
{
	if (reg == DI)
		return (s32)(j->nsaved + 1) * 8;
	for (u32 i = 0; i < j->nsaved; i++)
		if (j->saved[i] == reg)
			return (s32)(j->nsaved - 1 - i) * 8;
	return -1;
}

/* The hit is done: the place of its call's number is free. */
static void leave_done(struct jit *j)
{
	if (j->in->is_way) {
		LOAD(j, DI, SP, saved_at(j, KEPT));
		STORE_IMM(j, true, DI, 0, 0);
	}
	leave(j);
	BYTES(j, "\xc3"); /* ret */
}

static s32 stack_pointer(const struct jit *j)
{
	return (s32)(j->nsaved + 2) * 8 + (j->in->zone ? 128 : 0);
}

/* The probed program's register of that word, for reading: in itself, or loaded into scratch. */
static u8 fetch(struct jit *j, u8 reg_word, u8 scratch)
{
	s32 at;

	if (reg_word == DP_LOWER_RETURN) {
		LOAD(j, scratch, SP, stack_pointer(j));
	} else if (reg_word == REG_WORD_SP) {
		LEA(j, scratch, SP, stack_pointer(j));
	} else if (reg_word == REG_WORD_IP) {
		move_address(j->e, scratch, j->in->addr);
	} else {
		at = saved_at(j, reg_word_reg[reg_word]);
		if (at < 0)
			return reg_word_reg[reg_word];
		LOAD(j, scratch, SP, at);
	}
	return scratch;
}

/* The event of the point, where that is not known beforehand. */
static void fetch_event(struct jit *j, u8 reg)
{
	LOAD32(j, reg, SP, saved_at(j, EVENT));
}

/* The words of struct dp_regs that fetch() knows. */
static u64 readable(bool shared)
{
	u64 slots = (u64)!shared << REG_WORD_IP;

	for (u32 i = 0; i < DP_ARRAY_SIZE(reg_word_reg); i++)
		slots |= (u64)(reg_word_reg[i] != NONE) << i;
	return slots;
}

/* ---- conditions ---- */

static void do_op(struct jit *j, u8 reg, const struct dp_value_op *x)
{
	static const u8 alu_of[] = {[DP_ALU_ADD] = ALU_ADD,
				    [DP_ALU_SUB] = ALU_SUB,
				    [DP_ALU_AND] = ALU_AND,
				    [DP_ALU_OR] = ALU_OR,
				    [DP_ALU_XOR] = ALU_XOR};

	switch (x->op.does) {
	case DP_DOES_BINARY:
		op_imm(j->e, true, (enum alu)alu_of[x->op.how], reg, x->by);
		break;
	case DP_DOES_UNARY:
		op_reg(j->e, true, 0xf7, x->op.how == DP_ALU_NEG ? 3 : 2, reg);
		break;
	case DP_DOES_SHIFT:
		op_reg(j->e, true, 0xc1, x->op.how == DP_SHIFT_SHL ? SHIFT_SHL : SHIFT_SHR, reg);
		dp_emit_u8(j->e, (u8)x->by);
		break;
	default:
		move_part(j->e, reg, reg, x->op.size, x->op.is_signed);
	}
}

/* What is no constant, in a register: the program's own, or scratch. */
static u8 eval(struct jit *j, const struct dp_value *v, u8 scratch)
{
	u8 reg;

	if (v->reg_word == DP_LOWER_PID) {
		lea_rip(j, scratch, j->in->ctl->tids + 4ull * j->in->ctl->nslots);
		LOAD32(j, scratch, scratch, 0);
		return scratch;
	}
	reg = fetch(j, v->reg_word, scratch);
	if (v->size < 8)
		move_part(j->e, scratch, reg, v->size, v->is_signed);
	else if (v->nops && reg != scratch)
		MOVE(j, scratch, reg);
	for (u32 i = 0; i < v->nops; i++)
		do_op(j, scratch, &v->ops[i]);
	return v->size < 8 || v->nops ? scratch : reg;
}

/* Go on only if the condition holds. */
static void need(struct jit *j, const struct dp_lowered_need *n)
{
	u8 reg = eval(j, &n->v, DI);

	if ((s64)n->c == (s32)n->c) {
		op_imm(j->e, true, ALU_CMP, reg, (u32)n->c);
	} else {
		move_address(j->e, CX, n->c);
		op_reg(j->e, true, 0x39, CX, reg);
	}
	jump(j, cc_of[n->cc] ^ 1, n->is_usual ? GIVE_UP : FILTERED); /* the opposite condition */
}

/* ---- sequences ---- */

/* One restartable sequence: its description, and where its parts will be. */
struct sequence {
	u64 cs;    /* address of struct dp_rseq_cs */
	size_t at; /* of it in the code */
	u64 again, start, end;
};

/* tp: register that holds the thread pointer. Clobbers scratch. */
static void begin(struct jit *j, struct sequence *q, u8 tp, u8 scratch)
{
	q->again = dp_emit_here(j->e);
	lea_rip(j, scratch, q->cs);
	STORE(j, tp, j->in->ctl->rseq_off + 8, scratch);
	q->start = dp_emit_here(j->e);
}

static void commit(struct jit *j, struct sequence *q, u8 tp)
{
	q->end = dp_emit_here(j->e);
	STORE_IMM(j, true, tp, j->in->ctl->rseq_off + 8, 0);
}

/* The description goes in front of the code, the way back behind it. */
static void reserve(struct jit *j, struct sequence *q)
{
	q->cs = dp_emit_here(j->e);
	q->at = j->e->len;
	for (u32 i = 0; i < sizeof(struct dp_rseq_cs) / 8; i++)
		dp_emit_u64(j->e, 0);
}

static void describe(struct jit *j, const struct sequence *q)
{
	struct dp_rseq_cs cs = {0};

	BYTES(j, "\x0f\xb9\x3d"); /* ud1: the signature reads as an instruction */
	dp_emit_u32(j->e, DP_RSEQ_SIG);
	cs.start_ip = q->start;
	cs.post_commit_offset = q->end - q->start;
	cs.abort_ip = dp_emit_here(j->e);
	j->far |= dp_emit_jmp(j->e, q->again, NULL) != 0;
	if (!j->e->overflow)
		memcpy(j->e->buf + q->at, &cs, sizeof(cs));
}

/* Thread pointer into reg; to GIVE_UP unless a control block of the usual kind is there. */
static void thread_pointer(struct jit *j, u8 reg)
{
	size_t from = j->e->len;

	if (j->in->ctl->caps & DP_CAP_RDFSBASE) {
		BYTES(j, "\xf3\x48\x0f\xae"); /* rdfsbase */
		dp_emit_u8(j->e, (u8)(0xc0 | reg));
	} else {
		BYTES(j, "\x64\x48\x8b"); /* mov %fs:0,%reg */
		dp_emit_u8(j->e, (u8)(0x04 | reg << 3));
		BYTES(j, "\x25\0\0\0\0");
	}
	j->spare += THREAD_MAX - (u32)(j->e->len - from);
	op_imm(j->e, true, ALU_CMP, reg, 0x10000);
	jump(j, CC_B, GIVE_UP);
	op_mem(j->e, true, 0x3b, reg, AT(reg, 0));
	jump(j, CC_NE, GIVE_UP);
}

_Static_assert(sizeof(struct dp_counts) == 1 << COUNTS_SHIFT, "counts of events follow one another");

/* To rax, where the processor's counts begin: those of the point's event. Clobbers rdi. */
static void add_counts_of_event(struct jit *j)
{
	fetch_event(j, DI);
	op_reg(j->e, true, 0xc1, SHIFT_SHL, DI);
	dp_emit_u8(j->e, COUNTS_SHIFT);
	op_regs(j->e, true, ALU_ADD, AX, DI);
}

/* Add one to this outcome in the processor's counts. Clobbers rax and rdi. */
static void count(struct jit *j, struct sequence *q, u8 tp, enum dp_count what, enum target otherwise)
{
	const struct dp_control *ctl = j->in->ctl;

	begin(j, q, tp, AX);
	LOAD32(j, AX, tp, ctl->rseq_off + 4);
	op_imm(j->e, false, ALU_CMP, AX, ctl->ncpus);
	jump(j, CC_AE, otherwise);
	dp_emit_bytes(j->e, "\x48\x69\xc0", 3); /* imul $stride, %rax, %rax */
	dp_emit_u32(j->e, (u32)ctl->counts_stride);
	if (j->in->shared)
		add_counts_of_event(j);
	lea_rip(j, DI, ctl->counts + (j->in->shared ? 0 : j->in->event) * sizeof(struct dp_counts) + (u64)what * 8);
	BYTES(j, "\x48\xff\x04\x07"); /* incq (%rdi,%rax) */
	commit(j, q, tp);
}

static void store_const(struct jit *j, struct mem to, u8 size, u64 c)
{
	if (size == 1) {
		store_imm8(j->e, to, (u8)c);
	} else if (size == 2) {
		store_imm16(j->e, to, (u16)c);
	} else {
		store_imm(j->e, false, to, (u32)c);
		to.disp += 4;
		if (size == 8)
			store_imm(j->e, false, to, (u32)(c >> 32));
	}
}

static void store_field(struct jit *j, const struct dp_lowered_store *s)
{
	struct mem to = AT(R8, sizeof(struct dp_record) + s->off);
	u8 reg;

	if (s->v.constant) {
		store_const(j, to, s->size, s->v.c);
		return;
	}
	reg = eval(j, &s->v, R9);
	if (s->size == 2)
		dp_emit_u8(j->e, 0x66);
	op_mem(j->e, s->size == 8, s->size == 1 ? 0x88 : 0x89, reg, to);
}

/* The first n changes of variables: the hit is committed. */
static void effects(struct jit *j, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		move_address(j->e, DI, j->p.effects[i].addr);
		dp_emit_u8(j->e, 0xf0); /* lock */
		op_mem(j->e, true, 0xff, j->p.effects[i].down, AT(DI, 0));
	}
}

/* The process's id is noted by its first hit; a forked child's is not yet. */
static void need_pid(struct jit *j)
{
	lea_rip(j, R9, j->in->ctl->tids + 4ull * j->in->ctl->nslots);
	op_mem(j->e, false, 0x81, ALU_CMP, AT(R9, 0));
	dp_emit_u32(j->e, 0);
	jump(j, CC_E, GIVE_UP);
}

/* A jump to a place that is near, and that place. */
static size_t jump_short(struct jit *j, u8 cc)
{
	dp_emit_u8(j->e, (u8)(0x70 | cc));
	dp_emit_u8(j->e, 0);
	return j->e->len;
}

static void land_short(struct jit *j, size_t from)
{
	if (!j->e->overflow)
		j->e->buf[from - 1] = (u8)(j->e->len - from);
}

/* The ring of processor rdi into rdx. Clobbers rcx. */
static void ring(struct jit *j)
{
	dp_emit_bytes(j->e, "\x48\x69\xcf", 3); /* imul $stride, %rdi, %rcx */
	dp_emit_u32(j->e, (u32)j->in->ctl->ring_stride);
	lea_rip(j, DX, j->in->ctl->ring0);
	op_regs(j->e, true, ALU_ADD, DX, CX);
}

/*
 * The processor into rdi: as the thread's area tells it, if that is right. Who has committed to that processor's ring a
 * moment ago is believed; see here() in hit.c. rax: the stamp. Clobbers rcx, rdx, r8.
 */
static void told_processor(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;
	size_t stranger, recent;

	LOAD32(j, DI, SI, ctl->rseq_off + 4);
	op_imm(j->e, false, ALU_CMP, DI, ctl->ncpus);
	jump(j, CC_AE, GIVE_UP);
	ring(j);
	op_mem(j->e, true, 0x3b, SI, AT(DX, RING_BY));
	stranger = jump_short(j, CC_NE);
	MOVE(j, R8, AX);
	op_mem(j->e, true, 0x2b, R8, AT(DX, RING_AT));
	op_imm(j->e, true, ALU_CMP, R8, DP_TRUST_TICKS);
	recent = jump_short(j, CC_B);
	land_short(j, stranger);
	if (ctl->caps & DP_CAP_LSL) {
		BYTES(j, "\xb9"); /* mov $segment,%ecx */
		dp_emit_u32(j->e, DP_CPU_SEGMENT);
		BYTES(j, "\x0f\x03\xc9"); /* lsl %ecx,%ecx */
		jump(j, CC_NE, GIVE_UP);
	} else {
		BYTES(j, "\x0f\x01\xf9\x48\xc1\xe2\x20\x48\x09\xd0"); /* rdtscp; shl $32,%rdx; or %rdx,%rax */
	}
	op_imm(j->e, false, ALU_AND, CX, DP_CPU_MASK);
	op_regs(j->e, false, ALU_CMP, DI, CX);
	jump(j, CC_NE, GIVE_UP);
	land_short(j, recent);
}

static void processor(struct jit *j)
{
	size_t from = j->e->len;

	if (j->in->ctl->caps & DP_CAP_RDPID) {
		BYTES(j, "\xf3\x0f\xc7\xff"); /* rdpid %rdi */
		op_imm(j->e, false, ALU_AND, DI, DP_CPU_MASK);
		op_imm(j->e, false, ALU_CMP, DI, j->in->ctl->ncpus);
		jump(j, CC_AE, GIVE_UP);
	} else {
		told_processor(j);
	}
	j->failed |= j->e->len - from > PROCESSOR_MAX;
	j->spare += PROCESSOR_MAX - (u32)(j->e->len - from);
}

/* Who has committed here, and when: for processor(). rdx: ring. */
static void sign(struct jit *j)
{
	size_t from = j->e->len;

	if (!(j->in->ctl->caps & DP_CAP_RDPID)) {
		STORE(j, DX, RING_BY, SI);
		STORE(j, DX, RING_AT, AX);
	}
	j->spare += SIGN_MAX - (u32)(j->e->len - from);
}

/* Into the record at r8. Clobbers r9. */
static void put_event(struct jit *j)
{
	if (!j->in->shared) {
		STORE_IMM(j, false, R8, 4, j->in->event);
		return;
	}
	fetch_event(j, R9);
	STORE32(j, R8, 4, R9);
}

/*
 * rsi: thread pointer, rax: stamp, rdi: processor, rdx: ring, rcx: its head, r8: where the record goes, r9: scratch.
 * Zero flag is not kept.
 */
static void record(struct jit *j, struct sequence *q)
{
	const struct dp_control *ctl = j->in->ctl;
	u32 size = (u32)DP_ALIGN_UP(sizeof(struct dp_record) + j->p.size, 8);

	thread_pointer(j, SI);
	BYTES(j, "\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0"); /* rdtsc; shl $32,%rdx; or %rdx,%rax */
	processor(j);
	if (j->p.is_rpn)
		need_pid(j);
	begin(j, q, SI, CX);
	/* In a child of vfork the area is its parent's, and may tell another processor: see commit() in hit.c. */
	op_mem(j->e, false, 0x3b, DI, AT(SI, ctl->rseq_off + 4));
	jump(j, CC_NE, BAIL_OUT);
	ring(j);
	LOAD(j, CX, DX, RING_HEAD);
	MOVE(j, R8, CX);
	op_mem(j->e, true, 0x2b, R8, AT(DX, RING_TAIL)); /* pairs with the reader's release of tail */
	op_imm(j->e, true, ALU_CMP, R8, (u32)ctl->ring_size - size);
	jump(j, CC_A, FULL);
	MOVE(j, R8, CX);
	op_imm(j->e, false, ALU_AND, R8, (u32)ctl->ring_size - 1);
	op_imm(j->e, false, ALU_CMP, R8, (u32)ctl->ring_size - size);
	jump(j, CC_A, BAIL_OUT);
	BYTES(j, "\x4e\x8d\x84\x02"); /* lea 4096(%rdx,%r8),%r8 */
	dp_emit_u32(j->e, 4096);
	BYTES(j, "\x41\x0f\x0d\x88"); /* prefetchw PREFETCH(%r8) */
	dp_emit_u32(j->e, PREFETCH);
	STORE_IMM(j, false, R8, 0, size | j->p.rec_flags << 16);
	put_event(j);
	LOAD32(j, R9, SI, ctl->tid_off);
	STORE32(j, R8, 8, R9);
	STORE32(j, R8, 12, DI);
	STORE(j, R8, 16, AX);
	if (j->p.size % 8)
		STORE_IMM(j, true, R8, (s32)size - 8, 0);
	if (j->p.has_mask)
		STORE_IMM(j, true, R8, sizeof(struct dp_record), 0);
	for (u32 i = 0; i < j->p.nstores; i++)
		store_field(j, &j->p.stores[i]);
	sign(j);
	op_imm(j->e, true, ALU_ADD, CX, size);
	STORE(j, DX, RING_HEAD, CX); /* commit; stores are seen in order, pairs with the reader's acquire */
	commit(j, q, SI);
}

/* ---- the program ---- */

bool dp_jit_usable(const struct dp_control *ctl)
{
	u32 want = DP_CAP_RSEQ | DP_CAP_TIDOFF;

	return (ctl->caps & want) == want && ctl->caps & (DP_CAP_RDPID | DP_CAP_LSL | DP_CAP_RDTSCP) &&
	       ctl->caps & (DP_CAP_RDFSBASE | DP_CAP_FS_WORD) && ctl->ring_size <= 1u << 30 &&
	       ctl->ring_stride < 1u << 31 && ctl->counts_stride < 1u << 31;
}

static bool reaches(const struct jit *j, enum target to)
{
	for (u32 i = 0; i < j->nfixups; i++)
		if (j->fixups[i].to == to)
			return true;
	return false;
}

/* Nothing was logged: count that. */
static void emit_filtered(struct jit *j, struct sequence *q)
{
	land(j, FILTERED);
	thread_pointer(j, CX);
	count(j, q, CX, DP_COUNT_FILTERED, UNCOUNTED);
	effects(j, j->p.early);
	leave_done(j);
	describe(j, q);
	land(j, UNCOUNTED);
	STORE_IMM(j, true, CX, j->in->ctl->rseq_off + 8, 0);
	jump(j, CC_ALWAYS, GIVE_UP);
}

/* The ring is full: count that, and go on as behind a record. */
static void emit_lost(struct jit *j, struct sequence *q)
{
	land(j, FULL);
	count(j, q, SI, DP_COUNT_LOST, BAIL_OUT);
	jump(j, CC_ALWAYS, FINISH);
	describe(j, q);
}

static void emit_record(struct jit *j, struct sequence *commits, struct sequence *counts, struct sequence *losts)
{
	const struct dp_control *ctl = j->in->ctl;
	u64 together = ctl->counts + ctl->ncpus * ctl->counts_stride + DP_COUNT_RECORDED * 8;

	record(j, commits);
	count(j, counts, SI, DP_COUNT_RECORDED, SHARED);
	land(j, FINISH);
	effects(j, j->p.neffects);
	leave_done(j);
	describe(j, commits);
	describe(j, counts);
	emit_lost(j, losts);
	land(j, SHARED);
	STORE_IMM(j, true, SI, ctl->rseq_off + 8, 0);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	if (j->in->shared)
		add_counts_of_event(j);
	lea_rip(j, DI, together + (j->in->shared ? 0 : j->in->event) * sizeof(struct dp_counts));
	BYTES(j, "\xf0\x48\xff\x04\x07"); /* lock incq (%rdi,%rax) */
	jump(j, CC_ALWAYS, FINISH);
	land(j, BAIL_OUT);
	STORE_IMM(j, true, SI, ctl->rseq_off + 8, 0);
	jump(j, CC_ALWAYS, GIVE_UP);
}

static void emit_all(struct jit *j)
{
	struct sequence commits, counts, filtered, losts;

	reserve(j, &commits);
	reserve(j, &counts);
	reserve(j, &filtered);
	reserve(j, &losts);
	enter(j);
	for (u32 i = 0; i < j->p.nneeds; i++)
		need(j, &j->p.needs[i]);
	if (!j->p.never)
		emit_record(j, &commits, &counts, &losts);
	if (j->p.never || reaches(j, FILTERED))
		emit_filtered(j, &filtered);
	land(j, GIVE_UP);
	leave(j);
	if (!j->in->shared) {
		BYTES(j, "\xbf"); /* mov $point,%edi */
		dp_emit_u32(j->e, j->in->point);
	}
	j->far |= dp_emit_jmp(j->e, j->in->entry, NULL) != 0;
	for (; j->spare; j->spare--)
		dp_emit_u8(j->e, 0xcc);
}

static int emit_stub(struct dp_emit *e, const struct dp_jit *jit)
{
	dp_emit_u8(e, 0x68); /* push $event */
	dp_emit_u32(e, jit->event);
	return dp_emit_jmp(e, jit->stub_to, NULL) || e->overflow ? -ERANGE : 0;
}

int dp_jit_compile(struct dp_emit *e, const u8 *code, u32 len, const struct dp_jit *jit)
{
	const struct dp_known_word number = {DP_REG_WORD(orig_ax), jit->number};
	const struct dp_lower_for in = {.rt = jit->rt && jit->rt->ex_mask ? jit->rt : NULL,
					.reg_words = readable(jit->shared),
					.known = jit->is_way ? &number : NULL};
	struct jit j = {.e = e, .in = jit};

	if (jit->stub_to)
		return emit_stub(e, jit);
	if (jit->calls)
		return dp_direct_calls(e, jit);
	if (!dp_lower(&j.p, code, len, &in))
		return -EOPNOTSUPP;
	if (j.p.nloads) /* memory of a process is for the general entry to read */
		return -EOPNOTSUPP;
	emit_all(&j);
	if (j.failed)
		return -EOPNOTSUPP;
	return j.far || e->overflow ? -ERANGE : 0;
}
