/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Direct code for threads without a restartable sequence, as those of Go programs and of musl: the record goes to a
 * ring that is taken for that moment, as commit_locked() in hit.c does it.
 *	a record: the thread's id, stamp, processor; the ring is taken; room, header, fields, commit; it is given back;
 *		its count
 *	filtered: a count
 * Of the rings that threads share each processor has one, so that nobody waits; whoever finds it taken (by a thread
 * that was preempted there, or by what the thread's own signal handler has interrupted) goes to the general entry,
 * which looks for another. A thread that is killed in between has written nothing that is seen, since the head comes
 * last, and whoever reads the rings gives its ring back (free_if_dead() in log/reader.c).
 *
 * Where threads have no control block their id stands at their slot, by its first hit. A forked child finds none there.
 */
#include "arch/x86_64/direct-calls.h"
#include "arch/x86_64/direct-priv.h"

#define ID_MAX 96        /* bytes of what finds the thread's id, in the longest way */
#define PROCESSOR_MAX 40 /* and the processor */

/* No descriptions. */
static void begin(struct jit *j)
{
	for (u32 i = 0; i < DP_JIT_ENTRY; i++)
		dp_emit_u8(j->e, 0xcc);
}

/* The thread's id into rsi. Clobbers rcx, rdx, rdi. */
static void thread_id(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;
	size_t from = j->e->len;
	u32 spare = j->spare; /* what is added to it below counts as part of the whole */

	if (ctl->caps & DP_CAP_TIDOFF) {
		dp_direct_thread_pointer(j, SI);
		LOAD32(j, SI, SI, ctl->tid_off);
	} else {
		if (j->in->is_way) { /* the place is one in the thread's slot */
			LOAD(j, DX, SP, dp_direct_saved_at(j, KEPT));
			dp_direct_lea_rip(j, DI, ctl->slots);
		} else {
			dp_direct_slot(j->e, ctl);
			dp_direct_jump(j, CC_NE, GIVE_UP);
		}
		op_regs(j->e, true, ALU_SUB, DX, DI);
		op_reg(j->e, true, 0xc1, SHIFT_SHR, DX);
		dp_emit_u8(j->e, DP_HIT_SLOT_SHIFT);
		dp_direct_lea_rip(j, SI, ctl->tids);
		load32(j->e, SI, (struct mem){SI, DX, 4, 0});
		test(j->e, false, SI);
		dp_direct_jump(j, CC_E, GIVE_UP);
	}
	j->spare = spare;
	dp_direct_fill_up(j, from, ID_MAX);
}

/*
 * The processor into rdi; and, where that takes another look at the clock, the stamp into rax, which clobbers rcx and
 * rdx.
 */
static void processor(struct jit *j)
{
	if (j->in->ctl->caps & DP_CAP_RDPID)
		BYTES(j, "\xf3\x0f\xc7\xff"); /* rdpid %rdi */
	else
		dp_direct_ask_processor(j, DI);
	dp_direct_need_processor(j);
}

/* Add one to this outcome in the counts beside the ring of processor rdi. Clobbers rax and rdi. */
static void count(struct jit *j, enum dp_count what)
{
	const struct dp_control *ctl = j->in->ctl;

	dp_emit_bytes(j->e, "\x48\x69\xc7", 3); /* imul $stride, %rdi, %rax */
	dp_emit_u32(j->e, (u32)ctl->counts_stride);
	dp_direct_count(j, ctl->counts + ctl->ncpus * ctl->counts_stride, what, true);
}

/* The ring of processor rdi into rdx, for thread rsi alone. rax is kept. Clobbers rcx, r9. */
static void take(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;

	dp_direct_ring(j, ctl->ring0 + ctl->ncpus * ctl->ring_stride);
	MOVE(j, R9, AX);
	MOVE(j, CX, SI);
	op_imm(j->e, false, ALU_OR, CX, 0x80000000u);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	/* Pairs with give(), and with the reader that frees the ring of a holder that died. */
	dp_emit_u8(j->e, 0xf0); /* lock cmpxchg */
	op_mem(j->e, false, 0xb10f, CX, AT(DX, offsetof(struct dp_ring, owner)));
	dp_direct_jump(j, CC_NE, GIVE_UP);
	MOVE(j, AX, R9);
}

static void give(struct jit *j)
{
	STORE_IMM(j, false, DX, offsetof(struct dp_ring, owner), 0); /* stores are seen in order */
}

/* rsi: thread's id, rax: stamp, rdi: processor, rdx: ring, rcx: its head, r8: where the record goes, r9: scratch. */
static void record(struct jit *j)
{
	size_t from;

	thread_id(j);
	dp_direct_stamp(j);
	from = j->e->len;
	processor(j);
	dp_direct_fill_up(j, from, PROCESSOR_MAX);
	if (j->p.is_rpn)
		dp_direct_need_pid(j);
	take(j);
	dp_direct_room(j);
	dp_direct_write(j);
	STORE32(j, R8, 8, SI);
	op_imm(j->e, true, ALU_ADD, CX, dp_direct_size(j));
	STORE(j, DX, RING_HEAD, CX); /* commit; stores are seen in order, pairs with the reader's acquire */
	give(j);
	count(j, DP_COUNT_RECORDED);
	dp_direct_land(j, FINISH);
	dp_direct_effects(j, j->p.neffects);
	dp_direct_leave_done(j);
	dp_direct_land(j, FULL);
	give(j);
	count(j, DP_COUNT_LOST);
	dp_direct_jump(j, CC_ALWAYS, FINISH);
	dp_direct_land(j, BAIL_OUT);
	give(j);
	dp_direct_jump(j, CC_ALWAYS, GIVE_UP);
}

/* Which of the counts it is added to is all the same: where the processor's number takes more registers, the first. */
static void filtered(struct jit *j, bool fails)
{
	size_t from = j->e->len;

	if (fails)
		dp_direct_land(j, FILTERED);
	if (j->in->ctl->caps & (DP_CAP_RDPID | DP_CAP_LSL))
		processor(j);
	else
		op_regs(j->e, false, ALU_XOR, DI, DI);
	dp_direct_fill_up(j, from, PROCESSOR_MAX);
	count(j, DP_COUNT_FILTERED);
	dp_direct_effects(j, fails ? j->p.early : j->p.none);
	dp_direct_leave_done(j);
}

const struct dp_direct_way dp_direct_locked = {begin, record, filtered, false, NULL};
