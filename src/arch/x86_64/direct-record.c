/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What both ways of direct code to a ring have in common: whose hit it is, room for the record, the record itself. */
#include "arch/x86_64/direct-priv.h"

#define PREFETCH 1024 /* bytes ahead in the ring: the reader had these lines */
#define THREAD_MAX 9  /* of what finds the thread */

/* The event of the point, where that is not known beforehand. */
static void fetch_event(struct jit *j, u8 reg)
{
	LOAD32(j, reg, SP, dp_direct_saved_at(j, EVENT));
}

void dp_direct_abort(struct jit *j, const struct sequence *q, struct dp_rseq_cs *cs)
{
	BYTES(j, "\x0f\xb9\x3d"); /* ud1: the signature reads as an instruction */
	dp_emit_u32(j->e, DP_RSEQ_SIG);
	*cs = (struct dp_rseq_cs){
	    .start_ip = q->start, .post_commit_offset = q->end - q->start, .abort_ip = dp_emit_here(j->e)};
	j->far |= dp_emit_jmp(j->e, q->again, NULL) != 0;
}

void dp_direct_fill_up(struct jit *j, size_t from, u32 max)
{
	j->failed |= j->e->len - from > max;
	j->spare += max - (u32)(j->e->len - from);
}

void dp_direct_stamp(struct jit *j)
{
	BYTES(j, "\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0"); /* rdtsc; shl $32,%rdx; or %rdx,%rax */
}

void dp_direct_ask_processor(struct jit *j, u8 reg)
{
	if (j->in->ctl->caps & DP_CAP_LSL) {
		dp_emit_u8(j->e, 0xb8 | reg); /* mov $segment,%reg */
		dp_emit_u32(j->e, DP_CPU_SEGMENT);
		BYTES(j, "\x0f\x03"); /* lsl %reg,%reg */
		dp_emit_u8(j->e, (u8)(0xc0 | reg << 3 | reg));
		dp_direct_jump(j, CC_NE, GIVE_UP);
		return;
	}
	BYTES(j, "\x0f\x01\xf9\x48\xc1\xe2\x20\x48\x09\xd0"); /* rdtscp; shl $32,%rdx; or %rdx,%rax */
	if (reg != CX)
		op_reg(j->e, false, 0x89, CX, reg);
}

void dp_direct_need_processor(struct jit *j)
{
	op_imm(j->e, false, ALU_AND, DI, DP_CPU_MASK);
	op_imm(j->e, false, ALU_CMP, DI, j->in->ctl->ncpus);
	dp_direct_jump(j, CC_AE, GIVE_UP);
}

void dp_direct_ring(struct jit *j, u64 first)
{
	dp_emit_bytes(j->e, "\x48\x69\xcf", 3); /* imul $stride, %rdi, %rcx */
	dp_emit_u32(j->e, (u32)j->in->ctl->ring_stride);
	dp_direct_lea_rip(j, DX, first);
	op_regs(j->e, true, ALU_ADD, DX, CX);
}

void dp_direct_thread_pointer(struct jit *j, u8 reg)
{
	size_t from = j->e->len;

	thread_pointer(j->e, reg, j->in->ctl->caps & DP_CAP_RDFSBASE);
	dp_direct_fill_up(j, from, THREAD_MAX);
	op_imm(j->e, true, ALU_CMP, reg, 0x10000);
	dp_direct_jump(j, CC_B, GIVE_UP);
	op_mem(j->e, true, 0x3b, reg, AT(reg, 0));
	dp_direct_jump(j, CC_NE, GIVE_UP);
}

void dp_direct_need_pid(struct jit *j)
{
	dp_direct_lea_rip(j, R9, j->in->ctl->tids + 4ull * j->in->ctl->nslots);
	op_mem(j->e, false, 0x81, ALU_CMP, AT(R9, 0));
	dp_emit_u32(j->e, 0);
	dp_direct_jump(j, CC_E, GIVE_UP);
}

_Static_assert(sizeof(struct dp_counts) == 1 << COUNTS_SHIFT, "counts of events follow one another");

void dp_direct_count(struct jit *j, u64 first, enum dp_count what, bool locked)
{
	if (j->in->shared) {
		fetch_event(j, DI);
		op_reg(j->e, true, 0xc1, SHIFT_SHL, DI);
		dp_emit_u8(j->e, COUNTS_SHIFT);
		op_regs(j->e, true, ALU_ADD, AX, DI);
	} else {
		first += j->in->event * sizeof(struct dp_counts);
	}
	dp_direct_lea_rip(j, DI, first + (u64)what * 8);
	if (locked)
		BYTES(j, "\xf0");     /* lock */
	BYTES(j, "\x48\xff\x04\x07"); /* incq (%rdi,%rax) */
}

u32 dp_direct_size(const struct jit *j)
{
	return (u32)DP_ALIGN_UP(sizeof(struct dp_record) + j->p.size, 8);
}

void dp_direct_full(struct jit *j)
{
	LOAD(j, CX, DX, RING_HEAD);
	MOVE(j, R8, CX);
	op_mem(j->e, true, 0x2b, R8, AT(DX, RING_TAIL)); /* pairs with the reader's release of tail */
	op_imm(j->e, true, ALU_CMP, R8, (u32)j->in->ctl->ring_size - dp_direct_size(j));
	dp_direct_jump(j, CC_A, FULL);
}

void dp_direct_room(struct jit *j)
{
	const struct dp_control *ctl = j->in->ctl;
	u32 size = dp_direct_size(j);

	dp_direct_full(j);
	MOVE(j, R8, CX);
	op_imm(j->e, false, ALU_AND, R8, (u32)ctl->ring_size - 1);
	op_imm(j->e, false, ALU_CMP, R8, (u32)ctl->ring_size - size);
	dp_direct_jump(j, CC_A, BAIL_OUT);
	BYTES(j, "\x4e\x8d\x84\x02"); /* lea 4096(%rdx,%r8),%r8 */
	dp_emit_u32(j->e, 4096);
	BYTES(j, "\x41\x0f\x0d\x88"); /* prefetchw PREFETCH(%r8) */
	dp_emit_u32(j->e, PREFETCH);
}

static void put_event(struct jit *j)
{
	if (!j->in->shared) {
		STORE_IMM(j, false, R8, 4, j->in->event);
		return;
	}
	fetch_event(j, R9);
	STORE32(j, R8, 4, R9);
}

void dp_direct_write(struct jit *j)
{
	STORE_IMM(j, false, R8, 0, dp_direct_size(j) | j->p.rec_flags << 16);
	put_event(j);
	STORE32(j, R8, 12, DI);
	STORE(j, R8, 16, AX);
	if (j->p.size % 8)
		STORE_IMM(j, true, R8, (s32)dp_direct_size(j) - 8, 0);
	if (j->p.has_mask)
		STORE_IMM(j, true, R8, sizeof(struct dp_record), 0);
	for (u32 i = 0; i < j->p.nstores; i++)
		dp_direct_store(j, &j->p.stores[i]);
}
