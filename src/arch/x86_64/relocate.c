/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The relocator: one copy for each form of instruction. It must not use a register or memory of its
 * own as scratch, must not touch flags, and must refuse whatever it cannot copy exactly.
 * Freestanding.
 *
 * What a copy cannot keep, and who has to know:
 *
 * A fault in a copy reports an address in the copy. Where the last jump of a relocated call faults
 * (its target is not a canonical address), the return address is on the stack already.
 *
 * A relocated call leaves an address in the copy on a shadow stack: where the thread has one, calls
 * must not be displaced.
 *
 * A call through memory reads its operand twice. One whose operand is the slot of its return
 * address would read that address; where the operand is based on rsp it is refused, through another
 * register or an index nobody can tell. Compilers emit neither.
 *
 * x87 instructions record their own address, which fnstenv and fnsave store.
 */
#include "arch/x86_64/relocate.h"

#define SIB_BASE_RSP 4
#define CALL_MEM_FIXED (5 + 6 + 15) /* bytes of its copy besides the operand's two instructions */

static bool fits_s32(u64 v)
{
	return (u64)(s64)(s32)v == v;
}

/* The memory operand is [rsp + ...]: its displacement counts from the stack pointer. */
static bool is_rsp_based(const struct dp_insn *in)
{
	return in->has_sib && dp_modrm_mod(in) != 3 && (in->sib & 7) == SIB_BASE_RSP && !(in->rex & DP_REX_B);
}

static u8 size_of_disp(s64 disp)
{
	return disp == 0 ? 0 : disp == (s8)disp ? 1 : 4;
}

/* Bytes of the displacement of a call's operand in its copy, where rsp is lower by 8. */
static u8 shifted_disp_size(const struct dp_insn *in)
{
	u8 need;

	if (!is_rsp_based(in))
		return in->disp_size;
	need = size_of_disp(in->disp + 8);
	return DP_MAX(need, in->disp_size);
}

/* Why the indirect call has no exact copy, or NULL. */
static const char *why_not_call_ind(const struct dp_insn *in)
{
	if (dp_modrm_mod(in) == 3)
		return dp_modrm_rm(in) == 4 ? "a call to the address in the stack pointer" : NULL;
	if (2 * in->len - in->disp_size + shifted_disp_size(in) > DP_RELOC_MAX - CALL_MEM_FIXED)
		return "an indirect call with too many prefixes";
	if (!is_rsp_based(in))
		return NULL;
	if (in->disp > -16 && in->disp < 0 && !(in->prefixes & (DP_PFX_FS | DP_PFX_GS)))
		return "a call through the stack slot that receives its return address";
	if (in->disp + 8 != (s32)(in->disp + 8))
		return "a call through the stack with the largest displacement";
	return NULL;
}

/* Why the branch or call, for its prefixes, has no exact copy, or NULL. */
static const char *why_not_prefixes(const struct dp_insn *in)
{
	if (in->prefixes & DP_PFX_LOCK)
		return "a locked branch always raises an exception";
	if (((in->prefixes & DP_PFX_66) && !(in->rex & DP_REX_W)) || in->rel_size == 2)
		return "a branch with an operand-size prefix differs between processors";
	return NULL;
}

/*
 * In a kernel privileged instructions run elsewhere as well, but for two: hlt waits for the interrupt
 * that the sti in front of it lets in afterwards, and behind swapgs there are no variables of the processor.
 */
static const char *why_not_privileged(const struct dp_insn *in)
{
	bool hlt = in->map == DP_MAP_ONE && in->opcode == 0xf4;
	bool swapgs = in->map == DP_MAP_0F && in->opcode == 0x01 && in->modrm == 0xf8;

	return DP_RING0 && !hlt && !swapgs ? NULL : "a privileged instruction";
}

/* Why the instruction has no exact copy whatever the distance, or NULL. */
static const char *why_not(const struct dp_insn *in)
{
	switch ((enum dp_insn_class)in->cls) {
	case DP_INSN_PLAIN:
	case DP_INSN_JMP_IND:
	case DP_INSN_RET:
		return NULL;
	case DP_INSN_JMP_REL:
	case DP_INSN_JCC_REL:
	case DP_INSN_LOOP:
	case DP_INSN_CALL_REL:
	case DP_INSN_XBEGIN:
		return why_not_prefixes(in);
	case DP_INSN_CALL_IND:
		if (why_not_prefixes(in))
			return why_not_prefixes(in);
		return why_not_call_ind(in);
	case DP_INSN_SYSCALL:
		return in->map == DP_MAP_0F && in->opcode == 0x05 ? NULL : "a system or hypervisor call";
	case DP_INSN_INT: /* int 0x80 is a system call; the others raise an exception */
		return in->opcode == 0xcd && (u8)in->imm == 0x80 ? NULL : "a software interrupt";
	case DP_INSN_FAR:
		return "a far branch";
	case DP_INSN_INT3:
		return "a breakpoint";
	case DP_INSN_UD:
		return "it always raises an exception";
	case DP_INSN_HLT:
		return why_not_privileged(in);
	}
	return "unknown class";
}

bool dp_can_relocate(const struct dp_insn *in, const u8 *code)
{
	(void)code;
	return !why_not(in);
}

/*
 * The displacement that makes a RIP-relative field, counted from `next`, mean `target`. With an
 * address-size prefix only the lower 32 bits of the sum count: every distance is in reach then.
 */
static int aim(const struct dp_insn *in, u64 target, u64 next, u32 *disp, struct dp_error *err)
{
	u64 d = target - next;

	if (!fits_s32(d) && !(in->rip_relative && (in->prefixes & DP_PFX_67)))
		return dp_fail(err, E_RELOC_RANGE, "0x%llx is referred to from 0x%llx", (unsigned long long)target,
			       (unsigned long long)next);
	*disp = (u32)d;
	return 0;
}

/* The instruction as it is, except for the displacement of a RIP-relative operand. */
static int copy_plain(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from, struct dp_error *err)
{
	u8 bytes[DP_INSN_MAX];
	u32 disp = 0;
	int rc;

	memcpy(bytes, code, in->len);
	if (in->rip_relative) {
		rc = aim(in, from + in->len + (u64)in->disp, dp_emit_here(e) + in->len, &disp, err);
		if (rc)
			return rc;
		memcpy(bytes + in->disp_off, &disp, sizeof(disp));
	}
	dp_emit_bytes(e, bytes, in->len);
	return 0;
}

/* A branch with a 32-bit displacement behind the given opcode bytes. */
static int emit_branch(struct dp_emit *e, const struct dp_insn *in, const u8 *op, size_t n, u64 target,
		       struct dp_error *err)
{
	u32 rel = 0;
	int rc = aim(in, target, dp_emit_here(e) + n + 4, &rel, err);

	if (rc)
		return rc;
	dp_emit_bytes(e, op, n);
	dp_emit_u32(e, rel);
	return 0;
}

/*
 * Of a branch's prefixes only bnd means anything to the near form; the rest (branch hints, padding)
 * is left out.
 */
static int copy_jmp(struct dp_emit *e, const struct dp_insn *in, u64 target, struct dp_error *err)
{
	static const u8 op[] = {0xf2, 0xe9};
	size_t skip = in->prefixes & DP_PFX_F2 ? 0 : 1;

	return emit_branch(e, in, op + skip, sizeof(op) - skip, target, err);
}

static int copy_jcc(struct dp_emit *e, const struct dp_insn *in, u64 target, struct dp_error *err)
{
	u8 op[] = {0xf2, 0x0f, (u8)(0x80 | (in->opcode & 15))}; /* 7x and 0f 8x: same conditions */
	size_t skip = in->prefixes & DP_PFX_F2 ? 0 : 1;

	return emit_branch(e, in, op + skip, sizeof(op) - skip, target, err);
}

int dp_emit_jmp(struct dp_emit *e, u64 target, struct dp_error *err)
{
	u8 jump[DP_JUMP_LEN];

	if (!dp_jump_make(jump, dp_emit_here(e), target))
		return dp_fail(err, E_RELOC_RANGE, "a jump from 0x%llx to 0x%llx", (unsigned long long)dp_emit_here(e),
			       (unsigned long long)target);
	dp_emit_bytes(e, jump, sizeof(jump));
	return 0;
}

/*
 * loop and jcxz have no near form: they hop over a short jump to a near one. Prefixes are kept: 67 counts in ecx, and
 * on some processors (AMD family 25) F2 and F3 turn the condition of loope and loopne.
 */
static int copy_loop(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 target, struct dp_error *err)
{
	for (u32 i = 0; i < in->opcode_off; i++)
		if (code[i] == 0x67 || code[i] == 0xf2 || code[i] == 0xf3)
			dp_emit_u8(e, code[i]);
	dp_emit_u8(e, in->opcode);
	dp_emit_u8(e, 2);
	dp_emit_bytes(e, "\xeb\x05", 2); /* not taken: past the near jump */
	return dp_emit_jmp(e, target, err);
}

static int copy_xbegin(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 target, struct dp_error *err)
{
	return emit_branch(e, in, code, in->rel_off, target, err);
}

/*
 * syscall leaves the address behind itself in rcx; the copy puts the original's there. When the
 * kernel restarts the call or a signal comes first, that move still runs afterwards.
 */
static void copy_syscall(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from)
{
	dp_emit_bytes(e, code, in->len);
	dp_emit_bytes(e, "\x48\xb9", 2); /* mov rcx, imm64 */
	dp_emit_u64(e, from + in->len);
}

/*
 * push or jmp (`reg` is the opcode's extension) with the memory operand of a call, which lies
 * `shift` bytes further from the stack pointer than in the original.
 */
static int emit_group5(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u8 reg, int shift, u64 from,
		       struct dp_error *err)
{
	static const u8 mod_of_size[] = {[0] = 0, [1] = 1, [4] = 2};
	u8 size = in->disp_size, mod = dp_modrm_mod(in);
	u32 disp = (u32)in->disp;
	int rc;

	if (shift && is_rsp_based(in)) {
		size = shifted_disp_size(in);
		mod = mod_of_size[size];
		disp += (u32)shift;
	}
	if (in->rip_relative) {
		rc = aim(in, from + in->len + (u64)in->disp, dp_emit_here(e) + in->len, &disp, err);
		if (rc)
			return rc;
	}
	dp_emit_bytes(e, code, in->opcode_off + 1u);
	dp_emit_u8(e, (u8)(mod << 6 | reg << 3 | (in->modrm & 7)));
	if (in->has_sib)
		dp_emit_u8(e, in->sib);
	dp_emit_bytes(e, &disp, size);
	return 0;
}

/*
 * Put the original's return address on the stack. The slot comes from a call, not from a push, so
 * that the processor's stack of return predictions keeps its depth: the callee's return is
 * mispredicted once, where otherwise every return of every caller would be. A call of distance zero
 * would not count; the breakpoint that makes the distance also ends speculation at the predicted
 * return.
 */
static void emit_return_address(struct dp_emit *e, u64 value)
{
	dp_emit_bytes(e, "\xe8\x01\0\0\0\xcc", 6);
	if (fits_s32(value)) {
		dp_emit_bytes(e, "\x48\xc7\x04\x24", 4); /* mov qword [rsp], simm32 */
		dp_emit_u32(e, (u32)value);
		return;
	}
	dp_emit_bytes(e, "\xc7\x04\x24", 3); /* mov dword [rsp], imm32 */
	dp_emit_u32(e, (u32)value);
	dp_emit_bytes(e, "\xc7\x44\x24\x04", 4); /* mov dword [rsp+4], imm32 */
	dp_emit_u32(e, (u32)(value >> 32));
}

static int copy_call_rel(struct dp_emit *e, const struct dp_insn *in, u64 from, u64 target, struct dp_error *err)
{
	emit_return_address(e, from + in->len);
	return copy_jmp(e, in, target, err);
}

/*
 * A call through memory first reads its operand with a push that is taken back: so a bad pointer
 * faults before anything has changed, as in the original, and only the slot that the call writes
 * anyway is written.
 */
static int copy_call_ind(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from, struct dp_error *err)
{
	int rc;

	if (dp_modrm_mod(in) != 3) {
		rc = emit_group5(e, in, code, 6, 0, from, err);
		if (rc)
			return rc;
		dp_emit_bytes(e, "\x48\x8d\x64\x24\x08", 5); /* lea rsp, [rsp+8] */
	}
	emit_return_address(e, from + in->len);
	return emit_group5(e, in, code, 4, 8, from, err);
}

static int copy_one(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from, struct dp_error *err)
{
	u64 target = from + in->len + (u64)in->rel;

	switch ((enum dp_insn_class)in->cls) {
	case DP_INSN_JMP_REL:
		return copy_jmp(e, in, target, err);
	case DP_INSN_JCC_REL:
		return copy_jcc(e, in, target, err);
	case DP_INSN_LOOP:
		return copy_loop(e, in, code, target, err);
	case DP_INSN_CALL_REL:
		return copy_call_rel(e, in, from, target, err);
	case DP_INSN_CALL_IND:
		return copy_call_ind(e, in, code, from, err);
	case DP_INSN_XBEGIN:
		return copy_xbegin(e, in, code, target, err);
	case DP_INSN_SYSCALL:
		copy_syscall(e, in, code, from);
		return 0;
	default:
		return copy_plain(e, in, code, from, err);
	}
}

int dp_relocate(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from, struct dp_error *err)
{
	const char *reason = why_not(in);
	size_t start = e->len;
	int rc;

	if (reason)
		return dp_fail(err, E_RELOC_INSN, "0x%llx: %s", (unsigned long long)from, reason);
	rc = copy_one(e, in, code, from, err);
	if (rc)
		e->len = start; /* leave no half of a copy behind */
	return rc;
}
