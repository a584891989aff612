/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The tables of opcodes and registers, and the only decoder and encoder of bytecode outside the
 * interpreter. Both walk the operand letters of the table. Checks nothing but sizes.
 */
#include "program/code.h"
#include "program/formulas.h"
#include "program/program.h"
#include "program/work.h"

#define ARG(kind, name) DP_KIND_##kind,

/* clang-format off */

/* Operations, as opcodes.def writes them; some differ in the interpreter alone. */
#define OWN {DP_DOES_OWN}
#define FORMULA(formula) OWN
#define CONSTANT {DP_DOES_CONSTANT}
#define BINARY(alu) {DP_DOES_BINARY, DP_ALU_##alu}
#define UNARY(alu) {DP_DOES_UNARY, DP_ALU_##alu}
#define COMPARE(cc) {DP_DOES_COMPARE, DP_CC_##cc}
#define TRUTH(cc) {DP_DOES_TRUTH, DP_CC_##cc}
#define SHIFT(way) {DP_DOES_SHIFT, DP_SHIFT_##way}
#define SHIFT_BY(way) {DP_DOES_SHIFT_BY, DP_SHIFT_##way}
#define BITS(way) {DP_DOES_BITS, DP_BITS_##way}
#define BITS_BY(way) {DP_DOES_BITS_BY, DP_BITS_##way}
#define STACK(base, access) {DP_DOES_STACK, DP_ACCESS_##access, DP_BASE_##base}
#define STACK_AT(base, access) {DP_DOES_STACK_AT, DP_ACCESS_##access, DP_BASE_##base}
#define VAR(which, access) {DP_DOES_VAR, DP_ACCESS_##access, DP_VARIABLES_##which}
#define VAR_AT(which, access) {DP_DOES_VAR_AT, DP_ACCESS_##access, DP_VARIABLES_##which}
#define REGISTER(access) {DP_DOES_REGISTER, DP_ACCESS_##access}
#define USER(access) REGISTER(access)
#define SIZED(does, access, bits, is_signed) {DP_DOES_##does, access, 0, (bits) / 8, is_signed}
#define IS_U false
#define IS_S true
#define PART(sign, bits) SIZED(PART, 0, bits, IS_##sign)
#define EXTEND(sign, bits) SIZED(EXTEND, 0, bits, IS_##sign)
#define READ_MEM(bits) SIZED(READ, 0, bits, false)
#define LOAD(bits) READ_MEM(bits)
#define WRITE_MEM(bits) SIZED(WRITE, 0, bits, false)
#define HEAP(access, bits) SIZED(HEAP, DP_ACCESS_##access, bits, false)
#define STORE(bits) SIZED(STORE, 0, bits, false)
#define STORE_REG(bits) SIZED(STORE_REG, 0, bits, false)
#define BRANCH(cc) {DP_DOES_BRANCH, DP_CC_##cc}
#define NEED(cc) {DP_DOES_NEED, DP_CC_##cc}
#define NEED_TRUTH(cc) NEED(cc)
#define NEED_REG(cc) {DP_DOES_NEED_REG, DP_CC_##cc}

/* clang-format on */

static const struct {
	u16 opcode;
	struct dp_opcode_info info;
} opcodes[] = {
#define DP_OPCODE(number, id, text, operands, pops, pushes, rule, work, operation, meaning) \
	{DP_OP_##id, {text, {operands}, pops, pushes, DP_RULE_##rule, work, operation, meaning}},
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"
};

enum {
#define DP_OPCODE(number, id, ...) PLACE_##id,
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"
};

/* Of each opcode in opcodes, from 1; 0: there is none. */
static const u16 places[2][256] = {
#define DP_OPCODE(number, id, ...) [0][number] = PLACE_##id + 1,
#define DP_OPCODE2(number, id, ...) [1][number] = PLACE_##id + 1,
#include "program/opcodes.def"
};

static const struct {
	u8 size; /* bytes; of a TEXT without its bytes */
	bool is_signed;
} operands[] = {
#define DP_OPERAND(kind, type, ...) [DP_KIND_##kind] = {sizeof(type), (type)-1 < (type)1},
#include "program/operands.def"
};

static const struct dp_register registers[] = {
#define R false
#define RW true
#define DP_REGISTER(number, member, access, ...) {number, DP_REG_WORD(member), access, {__VA_ARGS__}},
#include "program/registers.def"
#undef R
#undef RW
};

static const struct dp_cpustate states[] = {
#define DP_CPUSTATE(number, name, words, source, at) {number, words, DP_CPUSTATE_##source, name},
#include "program/cpustates.def"
};

const struct dp_cpustate *dp_cpustate_by_number(u32 number)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(states); i++)
		if (states[i].number == number)
			return &states[i];
	return NULL;
}

const struct dp_cpustate *dp_cpustate_find(const char *name, size_t len)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(states); i++)
		if (strlen(states[i].name) == len && !memcmp(states[i].name, name, len))
			return &states[i];
	return NULL;
}

const struct dp_opcode_info *dp_opcode_info(u32 opcode)
{
	u32 page = opcode >> 8, place;

	if (page && page != DP_PREFIX)
		return NULL;
	place = places[page != 0][opcode & 0xff];
	return place ? &opcodes[place - 1].info : NULL;
}

u32 dp_opcode_noperands(const struct dp_opcode_info *info)
{
	u32 n = 0;

	while (info->operands[n])
		n++;
	return n;
}

bool dp_opcode_next(u32 *i, u32 *opcode)
{
	if (*i >= DP_ARRAY_SIZE(opcodes))
		return false;
	*opcode = opcodes[(*i)++].opcode;
	return true;
}

static s64 load(const u8 *p, u8 kind)
{
	u32 away = 64 - 8 * operands[kind].size;
	u64 v = 0;

	memcpy(&v, p, operands[kind].size); /* little-endian, as the format is */
	return operands[kind].is_signed ? (s64)(v << away) >> away : (s64)v;
}

bool dp_operand_fits(enum dp_operand_kind kind, s64 v)
{
	u8 bytes[8];

	memcpy(bytes, &v, sizeof(v));
	return load(bytes, (u8)kind) == v;
}

int dp_op_decode(const u8 *code, u32 len, u32 at, struct dp_op_view *out)
{
	u32 pos = at;
	s64 v;

	memset(out, 0, sizeof(*out));
	out->at = at;
	if (pos >= len)
		return -EINVAL;
	out->opcode = code[pos++];
	if (out->opcode == DP_PREFIX) {
		if (pos >= len)
			return -EINVAL;
		out->opcode = DP_PREFIX << 8 | code[pos++];
	}
	out->info = dp_opcode_info(out->opcode);
	if (!out->info)
		return -EINVAL;
	for (u32 i = 0; out->info->operands[i]; i++) {
		u8 kind = out->info->operands[i];

		if (len - pos < operands[kind].size)
			return -EINVAL;
		v = load(code + pos, kind);
		pos += operands[kind].size;
		if (kind == DP_KIND_TEXT) {
			if (len - pos < (u64)v)
				return -EINVAL;
			out->text = code + pos;
			pos += (u32)v;
		}
		out->v[i] = v;
	}
	out->len = pos - at;
	for (u32 i = 0; out->info->operands[i]; i++)
		if (out->info->operands[i] == DP_KIND_JUMP)
			out->v[i] += pos;
	return 0;
}

s64 dp_op_operand(const struct dp_op_view *insn, enum dp_operand_kind kind)
{
	for (u32 i = 0; insn->info->operands[i]; i++)
		if (insn->info->operands[i] == kind)
			return insn->v[i];
	return 0;
}

u32 dp_op_work(const struct dp_op_view *insn)
{
	u32 work = insn->info->work, n = (u32)insn->v[0];

	switch (insn->opcode) {
	case DP_OP_DUP:
	case DP_OP_LOG:
		return work + dp_work_of_words(n);
	case DP_OP_PUSH_CHAIN:
	case DP_OP_PUSH_FRAMES:
		return work + n * DP_WORK_FRAME;
	case DP_OP_PUSH_TEXT:
		return work + dp_work_of_memory(64 * n);
	case DP_OP_STRGLOB:
		return work + dp_work_of_pattern((u32)dp_op_operand(insn, DP_KIND_TEXT));
	default:
		return work + (insn->info->op.does == DP_DOES_HEAP ? dp_work_of_words(n) : 0);
	}
}

void dp_op_exit(const struct dp_op_view *insn, u32 *args, u32 *results)
{
	*args = insn->opcode == DP_OP_CALL_EXIT_N ? (u32)insn->v[0] : 0;
	*results = insn->opcode == DP_OP_CALL_EXIT_N ? (u32)insn->v[1] : 0;
}

void dp_op_effect(const struct dp_op_view *insn, u32 *pops, u32 *pushes)
{
	u32 num = (u32)dp_op_operand(insn, DP_KIND_NUM);

	*pops = insn->info->pops;
	*pushes = insn->info->pushes;
	switch (insn->info->rule) {
	case DP_RULE_DROP:
		*pops = (u32)dp_op_operand(insn, DP_KIND_COUNT);
		break;
	case DP_RULE_COPY:
		*pushes = (u32)dp_op_operand(insn, DP_KIND_COUNT);
		break;
	case DP_RULE_RPN_POPN:
	case DP_RULE_RPN_FIND:
		*pops += num;
		break;
	case DP_RULE_EXIT:
		dp_op_exit(insn, pops, pushes);
		break;
	case DP_RULE_PUSHN:
	case DP_RULE_RPN_PUSHN:
	case DP_RULE_RPN_TEXT:
		*pushes += num;
		break;
	}
}

u64 dp_op_constant(const struct dp_op_view *insn)
{
	return insn->opcode == DP_OP_PUSH_WID ? -64ull : (u64)insn->v[0];
}

u64 dp_alu(enum dp_alu op, u64 x, u64 y)
{
	switch (op) {
#define DP_ALU(name, ...)   \
	case DP_ALU_##name: \
		return dp_alu_##name(x, y);
#include "program/formulas.def"
	}
	return 0;
}

bool dp_cc_holds(enum dp_cc cc, u64 x, u64 y)
{
	switch (cc) {
#define DP_CC(name, ...)   \
	case DP_CC_##name: \
		return dp_cc_##name(x, y);
#include "program/formulas.def"
	default:
		return false;
	}
}

static u8 *grow(struct dp_asm *c, u32 n)
{
	u32 size = DP_MAX(c->size * 2, 256u);
	u8 *bytes;

	while (size - c->len < n)
		size *= 2;
	if (!c->failed && c->size - c->len < n) {
		bytes = c->len + n > DP_CODE_MAX ? NULL : dp_resize(c->bytes, c->size, size);
		if (bytes) {
			c->bytes = bytes;
			c->size = size;
		} else {
			c->failed = true;
		}
	}
	if (c->failed)
		return NULL;
	c->len += n;
	return c->bytes + c->len - n;
}

static void append(struct dp_asm *c, const void *p, u32 n)
{
	u8 *to = grow(c, n);

	if (to && n)
		memcpy(to, p, n);
}

u32 dp_asm_put(struct dp_asm *c, enum dp_opcode op, const s64 *v, const char *text)
{
	const struct dp_opcode_info *info = dp_opcode_info(op);
	u8 prefix = DP_PREFIX, byte = (u8)op;
	u32 start = c->len, len = op > 0xff ? 2 : 1;
	s64 x;

	if (op > 0xff)
		append(c, &prefix, 1);
	append(c, &byte, 1);
	for (u32 i = 0; info->operands[i]; i++)
		len += operands[info->operands[i]].size;
	for (u32 i = 0; info->operands[i]; i++) {
		x = v[i];
		if (info->operands[i] == DP_KIND_JUMP) {
			x = (s64)((u64)x - (start + len));
			c->jumps++;
		}
		append(c, &x, operands[info->operands[i]].size);
		if (info->operands[i] == DP_KIND_TEXT)
			append(c, text, (u32)x);
	}
	return start;
}

void dp_asm_land(struct dp_asm *c, u32 at)
{
	s32 distance;

	if (c->failed)
		return;
	distance = (s32)(c->len - (at + 1 + sizeof(distance)));
	memcpy(c->bytes + at + 1, &distance, sizeof(distance));
}

void dp_asm_free(struct dp_asm *c)
{
	dp_free(c->bytes);
	memset(c, 0, sizeof(*c));
}

const struct dp_register *dp_register_at(u32 i)
{
	return i < DP_ARRAY_SIZE(registers) ? &registers[i] : NULL;
}

const struct dp_register *dp_register_by_number(u32 number)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(registers); i++)
		if (registers[i].number == number)
			return &registers[i];
	return NULL;
}

const struct dp_register *dp_register_by_word(u32 reg_word)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(registers); i++)
		if (registers[i].reg_word == reg_word)
			return &registers[i];
	return NULL;
}

static const char *const watch_words[DP_NWATCH_WORDS] = {
    [DP_WATCH_WORD(addr)] = "addr", [DP_WATCH_WORD(old)] = "old", [DP_WATCH_WORD(now)] = "new"};

u32 dp_watch_word_find(const char *name, size_t len)
{
	for (u32 i = DP_NREG_WORDS; i < DP_NWATCH_WORDS; i++)
		if (strlen(watch_words[i]) == len && !memcmp(watch_words[i], name, len))
			return i;
	return 0;
}

const char *dp_watch_word_name(u32 reg_word)
{
	return reg_word < DP_NWATCH_WORDS ? watch_words[reg_word] : NULL;
}

bool dp_register_find(const char *name, size_t len, struct dp_register_part *out)
{
	static const u8 width[6] = {64, 64, 32, 16, 8, 8};

	for (u32 i = 0; i < DP_ARRAY_SIZE(registers); i++)
		for (u32 k = 0; k < DP_ARRAY_SIZE(width); k++) {
			const char *known = registers[i].names[k];

			if (!len || strlen(known) != len || memcmp(known, name, len))
				continue;
			out->reg = &registers[i];
			out->width = width[k];
			out->shift = k == 5 ? 8 : 0;
			return true;
		}
	return false;
}

bool dp_program_uses(const struct dp_program *p, u32 opcode)
{
	struct dp_op_view insn;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &insn); at += insn.len)
		if (insn.opcode == opcode)
			return true;
	return false;
}

static bool acts(const struct dp_op_view *insn)
{
	switch (insn->opcode) {
	case DP_OP_POP_R:
	case DP_OP_POP_U:
	case DP_OP_POP_IO8:
	case DP_OP_POP_IO16:
	case DP_OP_POP_IO32:
	case DP_OP_EXIT_TO:
	case DP_OP_CALL_EXIT:
	case DP_OP_CALL_EXIT_N:
		return true;
	default:
		return insn->info->op.does == DP_DOES_WRITE;
	}
}

bool dp_program_acts(const struct dp_program *p)
{
	struct dp_op_view insn;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &insn); at += insn.len)
		if (acts(&insn))
			return true;
	return false;
}

bool dp_program_exits_to(const struct dp_program *p, u32 facility)
{
	struct dp_op_view insn;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &insn); at += insn.len)
		if (insn.opcode == DP_OP_EXIT_TO && dp_op_operand(&insn, DP_KIND_EXITTO) == facility)
			return true;
	return false;
}
