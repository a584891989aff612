/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Code in front of a system call and behind it that keeps the call's number (struct dp_jit_calls), on the probed
 * program's stack. Nothing has an effect before the one store that keeps a number, or gives its place free.
 *
 * A signal's handler may come between any two instructions, and make calls itself. It leaves places as it found them:
 * a place that is taken, by another stack pointer, is not used.
 */
#include "abi/abi-control.h"
#include "arch/x86_64/direct-calls.h"
#include "arch/x86_64/encode.h"

#define HOLES 8

_Static_assert(sizeof(((struct dp_jit_calls *)0)->numbers) <= DP_JIT_ENTRY, "the numbers stand before the code");

struct calls {
	struct dp_emit *e;
	const struct dp_jit *in;
	u64 numbers; /* address of what stands before the code */
	size_t give_up[HOLES];
	u32 nholes, spare;
	u32 nsaved;
};

static void save(struct calls *c, u8 reg)
{
	push(c->e, reg);
	c->nsaved++;
}

static void enter(struct calls *c)
{
	if (c->in->calls->ways)
		save(c, DI); /* a word for what the program's code is told */
	save(c, AX);
	if (c->in->flags) {
		dp_emit_bytes(c->e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
		save(c, AX);
	}
	save(c, CX);
	save(c, DX);
}

/* All but that word. */
static void restore(struct calls *c)
{
	pop(c->e, DX);
	pop(c->e, CX);
	if (c->in->flags)
		dp_emit_bytes(c->e, "\x58\x04\x7f\x9e", 4); /* pop %rax; add $127,%al; sahf */
	pop(c->e, AX);
}

static void leave(struct calls *c)
{
	restore(c);
	if (c->in->calls->ways)
		lea(c->e, true, SP, AT(SP, 8)); /* keeps the flags */
}

static void give_up_if(struct calls *c, u8 cc)
{
	c->give_up[c->nholes++] = jump_hole(c->e, cc);
}

/* An operand behind the instruction pointer; the instruction ends with it. */
static void at_address(struct dp_emit *e, u64 address)
{
	s64 rel = (s64)(address - (dp_emit_here(e) + 4));

	e->overflow |= rel != (s32)rel;
	dp_emit_u32(e, (u32)rel);
}

/* The thread's key into rcx, as in hit-entry.S. */
static void thread_key(struct dp_emit *e, const struct dp_control *ctl)
{
	thread_pointer(e, CX, ctl->caps & DP_CAP_RDFSBASE);
	op_imm(e, true, ALU_OR, CX, 1);
}

void dp_direct_slot(struct dp_emit *e, const struct dp_control *ctl)
{
	thread_key(e, ctl);
	dp_emit_bytes(e, "\x48\x69\xd1\x2d\xf4\x51\x58", 7); /* imul $0x5851f42d,%rcx,%rdx */
	op_reg(e, true, 0xc1, SHIFT_SHR, DX);
	dp_emit_u8(e, 16);
	op_imm(e, true, ALU_AND, DX, ctl->nslots - 1);
	op_reg(e, true, 0xc1, SHIFT_SHL, DX);
	dp_emit_u8(e, DP_HIT_SLOT_SHIFT);
	dp_emit_bytes(e, "\x48\x8d\x3d", 3); /* lea slots(%rip),%rdi */
	at_address(e, ctl->slots);
	op_regs(e, true, ALU_ADD, DX, DI);
	op_mem(e, true, 0x3b, CX, AT(DX, DP_HIT_SLOT_HEAD + offsetof(struct dp_hit_slot, owner)));
}

/* The same, and on if that is so. */
static void slot(struct calls *c)
{
	size_t from = c->e->len;

	dp_direct_slot(c->e, c->in->ctl);
	c->spare += DP_DIRECT_SLOT_MAX - (u32)(c->e->len - from);
	give_up_if(c, CC_NE);
}

/* The place of the call's number into rdx, and what stands there for number 0 into rdi. Clobbers rcx. */
static void place(struct calls *c)
{
	lea(c->e, true, DI, AT(SP, (c->nsaved + 2) * 8 + (c->in->zone ? 128 : 0)));
	op_reg(c->e, true, 0x89, DI, CX);
	op_reg(c->e, false, 0xc1, SHIFT_SHR, CX);
	dp_emit_u8(c->e, DP_KEPT_CALL_SHIFT);
	op_imm(c->e, false, ALU_AND, CX, DP_HIT_SLOT_CALLS - 1);
	lea(c->e, true, DX, (struct mem){DX, CX, 8, (s32)(DP_HIT_SLOT_HEAD + offsetof(struct dp_hit_slot, calls))});
	op_reg(c->e, true, 0xc1, SHIFT_SHL, DI);
	dp_emit_u8(c->e, DP_KEPT_CALL_BITS);
}

/* Unless it is one of the numbers that are of no interest here. */
static void give_up_unless_idle(struct calls *c)
{
	dp_emit_bytes(c->e, "\x0f\xa3\x0d", 3); /* bt %ecx,numbers(%rip) */
	at_address(c->e, c->numbers);
	give_up_if(c, CC_AE);
}

static void finish(struct calls *c)
{
	leave(c);
	dp_emit_u8(c->e, 0xc3); /* ret */
}

static void emit_begin(struct calls *c)
{
	size_t is_free;

	op_mem(c->e, false, 0x81, ALU_CMP, AT(DX, DP_HIT_SLOT_HEAD + offsetof(struct dp_hit_slot, busy)));
	dp_emit_u32(c->e, 0);
	give_up_if(c, CC_NE); /* the end will be missed, and could not give the place free */
	place(c);
	load(c->e, CX, AT(DX, 0));
	test(c->e, true, CX);
	is_free = jump_hole(c->e, CC_E);
	op_regs(c->e, true, ALU_XOR, CX, DI);
	op_imm(c->e, true, ALU_CMP, CX, 1u << DP_KEPT_CALL_BITS);
	give_up_if(c, CC_AE);
	store_imm(c->e, true, AT(DX, 0), 0); /* that call has been left without a return */
	land_here(c->e, is_free);
	load(c->e, CX, AT(SP, (c->nsaved - 1) * 8)); /* rax */
	op_imm(c->e, true, ALU_CMP, CX, DP_KEPT_CALLS);
	give_up_if(c, CC_AE);
	give_up_unless_idle(c);
	op_regs(c->e, true, ALU_OR, DI, CX);
	store(c->e, AT(DX, 0), DI);
	finish(c);
}

/* To the program's code for call rcx, with the place of the number on the stack; or on, if there is nothing to do. */
static void take_way(struct calls *c)
{
	size_t is_idle;

	dp_emit_bytes(c->e, "\x48\x8d\x3d", 3); /* lea ways(%rip),%rdi */
	at_address(c->e, c->in->calls->ways);
	dp_emit_bytes(c->e, "\x0f\xb7\x0c\x4f", 4); /* movzwl (%rdi,%rcx,2),%ecx */
	op_imm(c->e, false, ALU_CMP, CX, 1);
	give_up_if(c, CC_B);
	is_idle = jump_hole(c->e, CC_E);
	_Static_assert(DP_JIT_ALIGN == 1 << 5, "the unit of ways");
	op_reg(c->e, false, 0xc1, SHIFT_SHL, CX);
	dp_emit_u8(c->e, 5);
	op_regs(c->e, true, ALU_ADD, DI, CX);
	store(c->e, AT(SP, (c->nsaved - 1) * 8), DX);
	restore(c);
	dp_emit_bytes(c->e, "\xff\xe7", 2); /* jmp *%rdi */
	land_here(c->e, is_idle);
}

static void emit_end(struct calls *c)
{
	place(c);
	load(c->e, CX, AT(DX, 0));
	op_regs(c->e, true, ALU_XOR, CX, DI);
	op_imm(c->e, true, ALU_CMP, CX, DP_KEPT_CALLS);
	give_up_if(c, CC_AE);
	if (c->in->calls->ways)
		take_way(c);
	else
		give_up_unless_idle(c);
	store_imm(c->e, true, AT(DX, 0), 0);
	finish(c);
}

int dp_direct_calls(struct dp_emit *e, const struct dp_jit *jit)
{
	struct calls c = {.e = e, .in = jit, .numbers = dp_emit_here(e)};

	dp_emit_bytes(e, jit->calls->numbers, sizeof(jit->calls->numbers));
	while (e->len < DP_JIT_ENTRY && !e->overflow)
		dp_emit_u8(e, 0xcc);
	enter(&c);
	slot(&c);
	if (jit->calls->is_end)
		emit_end(&c);
	else
		emit_begin(&c);
	for (u32 i = 0; i < c.nholes; i++)
		land_here(e, c.give_up[i]);
	leave(&c);
	dp_emit_u8(e, 0xbf); /* mov $point,%edi */
	dp_emit_u32(e, jit->point);
	if (dp_emit_jmp(e, jit->entry, NULL))
		return -ERANGE;
	for (; c.spare; c.spare--)
		dp_emit_u8(e, 0xcc);
	return e->overflow ? -ERANGE : 0;
}
