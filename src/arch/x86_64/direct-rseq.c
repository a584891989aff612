/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Direct code for threads with a restartable sequence: to the ring and the counts of the processor at hand, without a
 * locked instruction.
 *	a record: stamp, processor; [ sequence: room, header, fields, commit ]; [ sequence: count ]
 *	filtered: [ sequence: count ]
 *	no room: [ sequence: count ]
 * Each sequence is restartable (rseq): the kernel sends a thread that is preempted, moved or signalled inside to its
 * abort address, and one store commits it.
 */
#include "arch/x86_64/direct-priv.h"

#define TOLD_MAX 24  /* bytes of what finds the processor, in the longest way */
#define CHECK_MAX 80 /* and whether it is right */
#define SIGN_MAX 14

/* tp: register that holds the thread pointer. Clobbers scratch. */
static void begin(struct jit *j, struct sequence *q, u8 tp, u8 scratch)
{
	q->again = dp_emit_here(j->e);
	dp_direct_lea_rip(j, scratch, q->cs);
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
	struct dp_rseq_cs cs;

	dp_direct_abort(j, q, &cs);
	if (!j->e->overflow)
		memcpy(j->e->buf + q->at, &cs, sizeof(cs));
}

/* Add one to this outcome in the processor's counts. Clobbers rax and rdi. */
static void count(struct jit *j, struct sequence *q, u8 tp, enum dp_count what, enum target otherwise)
{
	const struct dp_control *ctl = j->in->ctl;

	begin(j, q, tp, AX);
	LOAD32(j, AX, tp, ctl->rseq_off + 4);
	op_imm(j->e, false, ALU_CMP, AX, ctl->ncpus);
	dp_direct_jump(j, CC_AE, otherwise);
	dp_emit_bytes(j->e, "\x48\x69\xc0", 3); /* imul $stride, %rax, %rax */
	dp_emit_u32(j->e, (u32)ctl->counts_stride);
	dp_direct_count(j, ctl->counts, what, false);
	commit(j, q, tp);
}

/* A jump to a place that is near, and that place. */
static size_t jump_short(struct jit *j, u8 cc)
{
	dp_emit_u8(j->e, cc == CC_ALWAYS ? 0xeb : (u8)(0x70 | cc));
	dp_emit_u8(j->e, 0);
	return j->e->len;
}

static void land_short(struct jit *j, size_t from)
{
	if (!j->e->overflow)
		j->e->buf[from - 1] = (u8)(j->e->len - from);
}

/*
 * The processor into rdi, as rdpid or the thread's area tells it, its ring into rdx and r9. Where that is full the rest
 * is spared: the stamp costs most of a hit. rsi: thread pointer. Clobbers rcx, r8.
 */
static void told_processor(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;
	size_t from = j->e->len;

	if (ctl->caps & DP_CAP_RDPID) {
		BYTES(j, "\xf3\x0f\xc7\xff"); /* rdpid %rdi */
		dp_direct_need_processor(j);
	} else {
		LOAD32(j, DI, SI, ctl->rseq_off + 4);
		op_imm(j->e, false, ALU_CMP, DI, ctl->ncpus);
		dp_direct_jump(j, CC_AE, GIVE_UP);
	}
	dp_direct_fill_up(j, from, TOLD_MAX);
	dp_direct_ring(j, ctl->ring0);
	MOVE(j, R9, DX);
	dp_direct_full(j);
}

/*
 * Leaves unless the thread's area has told the right processor. Who has been found there a moment ago is believed; see
 * here() in hit.c. r9: its ring, rax: the stamp. Clobbers rcx, rdx, r8.
 */
static void check_told(struct jit *j)
{
	size_t stranger, recent;

	op_mem(j->e, true, 0x3b, SI, AT(R9, RING_BY));
	stranger = jump_short(j, CC_NE);
	MOVE(j, R8, AX);
	op_mem(j->e, true, 0x2b, R8, AT(R9, RING_AT));
	op_imm(j->e, true, ALU_CMP, R8, DP_TRUST_TICKS);
	recent = jump_short(j, CC_B);
	land_short(j, stranger);
	dp_direct_ask_processor(j, CX);
	op_imm(j->e, false, ALU_AND, CX, DP_CPU_MASK);
	op_regs(j->e, false, ALU_CMP, DI, CX);
	dp_direct_jump(j, CC_NE, GIVE_UP);
	land_short(j, recent);
}

static void check_processor(struct jit *j)
{
	size_t from = j->e->len;

	if (!(j->in->ctl->caps & DP_CAP_RDPID))
		check_told(j);
	dp_direct_fill_up(j, from, CHECK_MAX);
}

/* Who has been found here, and when: for processor(), also where there is no room. rdx: ring. */
static void sign(struct jit *j)
{
	size_t from = j->e->len;

	if (!(j->in->ctl->caps & DP_CAP_RDPID)) {
		STORE(j, DX, RING_BY, SI);
		STORE(j, DX, RING_AT, AX);
	}
	dp_direct_fill_up(j, from, SIGN_MAX);
}

/* rsi: thread pointer, rax: stamp, rdi: processor, rdx: ring, rcx: its head, r8: where the record goes, r9: scratch. */
static void commit_record(struct jit *j, struct sequence *q)
{
	const struct dp_control *ctl = j->in->ctl;

	dp_direct_thread_pointer(j, SI);
	told_processor(j);
	dp_direct_stamp(j);
	check_processor(j);
	if (j->p.is_rpn)
		dp_direct_need_pid(j);
	begin(j, q, SI, CX);
	/* In a child of vfork the area is its parent's, and may tell another processor: see commit() in hit.c. */
	op_mem(j->e, false, 0x3b, DI, AT(SI, ctl->rseq_off + 4));
	dp_direct_jump(j, CC_NE, BAIL_OUT);
	dp_direct_ring(j, ctl->ring0); /* again: r9 is changed below, and a sequence may begin once more */
	sign(j);
	dp_direct_room(j);
	dp_direct_write(j);
	LOAD32(j, R9, SI, ctl->tid_off);
	STORE32(j, R8, 8, R9);
	op_imm(j->e, true, ALU_ADD, CX, dp_direct_size(j));
	STORE(j, DX, RING_HEAD, CX); /* commit; stores are seen in order, pairs with the reader's acquire */
	commit(j, q, SI);
}

/* The descriptions of four sequences. */
static void begin_code(struct jit *j)
{
	reserve(j, &j->commits);
	reserve(j, &j->counts);
	reserve(j, &j->filtered);
	reserve(j, &j->losts);
}

/* A thread whose area names no processor adds to the word itself. */
static void add(struct jit *j, bool one)
{
	const struct dp_control *ctl = j->in->ctl;
	struct sequence *q = j->adds[--j->nadds];
	size_t none, end;

	begin(j, q, CX, AX);
	LOAD32(j, AX, CX, ctl->rseq_off + 4);
	op_imm(j->e, false, ALU_CMP, AX, ctl->ncpus);
	none = jump_short(j, ctl->apart ? CC_AE : CC_ALWAYS);
	BYTES(j, "\xff\xc0\x48\x69\xc0"); /* inc %eax; imul $stride, %rax, %rax */
	dp_emit_u32(j->e, (u32)ctl->apart);
	if (one)
		BYTES(j, "\x48\xff\x04\x07"); /* incq (%rdi,%rax) */
	else
		BYTES(j, "\x48\x01\x14\x07"); /* add %rdx,(%rdi,%rax) */
	commit(j, q, CX);
	end = jump_short(j, CC_ALWAYS);
	land_short(j, none);
	STORE_IMM(j, true, CX, ctl->rseq_off + 8, 0);
	if (one)
		BYTES(j, "\xf0\x48\xff\x07"); /* lock incq (%rdi) */
	else
		BYTES(j, "\xf0\x48\x01\x17"); /* lock add %rdx,(%rdi) */
	land_short(j, end);
}

static void filtered(struct jit *j, bool fails)
{
	struct sequence *q = fails ? &j->filtered : &j->counts; /* there is no record */
	u32 free = j->nadds;

	if (fails)
		dp_direct_land(j, FILTERED);
	dp_direct_thread_pointer(j, CX);
	count(j, q, CX, DP_COUNT_FILTERED, UNCOUNTED);
	dp_direct_effects(j, fails ? j->p.early : j->p.none);
	dp_direct_leave_done(j);
	describe(j, q);
	for (u32 i = j->nadds; i < free; i++)
		describe(j, j->adds[i]);
	if (j->landed[UNCOUNTED])
		return;
	dp_direct_land(j, UNCOUNTED);
	STORE_IMM(j, true, CX, j->in->ctl->rseq_off + 8, 0);
	dp_direct_jump(j, CC_ALWAYS, GIVE_UP);
}

/* The ring is full: count that, and go on as behind a record. */
static void lost(struct jit *j)
{
	dp_direct_land(j, FULL);
	count(j, &j->losts, SI, DP_COUNT_LOST, BAIL_OUT);
	dp_direct_jump(j, CC_ALWAYS, FINISH);
	describe(j, &j->losts);
}

static void record(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;
	u64 together = ctl->counts + ctl->ncpus * ctl->counts_stride;

	commit_record(j, &j->commits);
	count(j, &j->counts, SI, DP_COUNT_RECORDED, SHARED);
	dp_direct_land(j, FINISH);
	dp_direct_effects(j, j->p.neffects);
	dp_direct_leave_done(j);
	describe(j, &j->commits);
	describe(j, &j->counts);
	lost(j);
	dp_direct_land(j, SHARED);
	STORE_IMM(j, true, SI, ctl->rseq_off + 8, 0);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	dp_direct_count(j, together, DP_COUNT_RECORDED, true);
	dp_direct_jump(j, CC_ALWAYS, FINISH);
	dp_direct_land(j, BAIL_OUT);
	STORE_IMM(j, true, SI, ctl->rseq_off + 8, 0);
	dp_direct_jump(j, CC_ALWAYS, GIVE_UP);
}

const struct dp_direct_way dp_direct_rseq = {begin_code, record, filtered, true, add};
