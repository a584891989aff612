/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The tables of opcodes and registers, and the only decoder and encoder of bytecode outside the
 * interpreter. Both walk the operand letters of the table. Checks nothing but sizes.
 */
#include "program/code.h"
#include "program/program.h"

/* Operand letters: SLOT(reg) OFF(at) becomes "s" "o". */
#define SLOT(name) "s"
#define REG(name) "r"
#define REGW(name) "R"
#define WORD(name) "w"
#define DISP(name) "d"
#define JUMP(name) "j"
#define LOCAL(name) "v"
#define GLOBAL(name) "g"
#define COUNT(name) "c"
#define BIT(name) "b"
#define AMOUNT(name) "a"
#define WIDTH(name) "x"
#define OFF(name) "o"
#define LEN(name) "l"
#define FIELD(name) "f"
#define KEEP(name) "k"
#define TEXT(name) "t"
#define NUM(name) "n"
#define INDEX(name) "i"
#define EXITTO(name) "e"
#define STATE(name) "q"

static const struct {
	u16 opcode;
	struct dp_opcode_info info;
} opcodes[] = {
#define DP_OPCODE(number, id, text, operands, pops, pushes, rule, meaning)                         \
	{DP_OP_##id, {text, "" operands, pops, pushes, DP_RULE_##rule, meaning}},
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"
};

static const struct dp_register registers[] = {
#define R false
#define RW true
#define DP_REGISTER(number, member, access, ...) {number, DP_SLOT(member), access, {__VA_ARGS__}},
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
	for (u32 i = 0; i < DP_ARRAY_SIZE(opcodes); i++)
		if (opcodes[i].opcode == opcode)
			return &opcodes[i].info;
	return NULL;
}

bool dp_opcode_next(u32 *i, u32 *opcode)
{
	if (*i >= DP_ARRAY_SIZE(opcodes))
		return false;
	*opcode = opcodes[(*i)++].opcode;
	return true;
}

/* Bytes of an operand; of a TEXT without its bytes. */
static u32 operand_size(char kind)
{
	switch (kind) {
	case DP_KIND_WORD:
		return 8;
	case DP_KIND_DISP:
	case DP_KIND_JUMP:
		return 4;
	case DP_KIND_SLOT:
	case DP_KIND_COUNT:
	case DP_KIND_BIT:
	case DP_KIND_AMOUNT:
	case DP_KIND_WIDTH:
	case DP_KIND_FIELD:
	case DP_KIND_EXITTO:
		return 1;
	default:
		return 2;
	}
}

static s64 load(const u8 *p, char kind)
{
	u64 v = 0;

	memcpy(&v, p, operand_size(kind)); /* little-endian, as the format is */
	return operand_size(kind) == 4 ? (s32)v : kind == DP_KIND_INDEX ? (s16)v : (s64)v;
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
		char kind = out->info->operands[i];

		if (len - pos < operand_size(kind))
			return -EINVAL;
		v = load(code + pos, kind);
		pos += operand_size(kind);
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

s64 dp_op_operand(const struct dp_op_view *insn, char kind)
{
	for (u32 i = 0; insn->info->operands[i]; i++)
		if (insn->info->operands[i] == kind)
			return insn->v[i];
	return 0;
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
		len += operand_size(info->operands[i]);
	for (u32 i = 0; info->operands[i]; i++) {
		x = v[i];
		if (info->operands[i] == DP_KIND_JUMP) {
			x = (s64)((u64)x - (start + len));
			c->jumps++;
		}
		append(c, &x, operand_size(info->operands[i]));
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

const struct dp_register *dp_register_by_slot(u32 slot)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(registers); i++)
		if (registers[i].slot == slot)
			return &registers[i];
	return NULL;
}

static const char *const watch_words[DP_NSLOTS_WATCH] = {
    [DP_WATCH_SLOT(addr)] = "addr", [DP_WATCH_SLOT(old)] = "old", [DP_WATCH_SLOT(now)] = "new"};

u32 dp_watch_word_find(const char *name, size_t len)
{
	for (u32 i = DP_NSLOTS; i < DP_NSLOTS_WATCH; i++)
		if (strlen(watch_words[i]) == len && !memcmp(watch_words[i], name, len))
			return i;
	return 0;
}

const char *dp_watch_word_name(u32 slot)
{
	return slot < DP_NSLOTS_WATCH ? watch_words[slot] : NULL;
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

bool dp_program_exits_to(const struct dp_program *p, u32 facility)
{
	struct dp_op_view insn;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &insn); at += insn.len)
		if (insn.opcode == DP_OP_EXIT_TO && dp_op_operand(&insn, DP_KIND_EXITTO) == facility)
			return true;
	return false;
}
