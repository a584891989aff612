/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See jit-programs.h. */
#include "jit-programs.h"
#include "machine.h"

u64 jit_random = 88172645463325252ull;
bool jit_behind_calls, jit_reads;

u32 jit_below(u32 n)
{
	return (u32)(next_random(&jit_random) % n);
}

#define PUT(c, op, ...) dp_asm_put(c, (enum dp_opcode)(op), (s64[]){__VA_ARGS__ __VA_OPT__(, ) 0}, NULL)

static u8 any_slot(bool with_sp)
{
	static const u8 slots[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 19};

	return slots[jit_below(DP_ARRAY_SIZE(slots) - !with_sp)];
}

u64 jit_any_value(void)
{
	static const u64 v[] = {0,           1,          0x7f,       0x80,       0xff,
				0x8000,      0xffff,     0x7fffffff, 0x80000000, 0xffffffff,
				0x100000000, 1ull << 63, ~0ull,      ~0ull - 1,  0x1234567890abcdef};

	return jit_below(4) ? v[jit_below(DP_ARRAY_SIZE(v))] : next_random(&jit_random);
}

/* ---- memory ---- */

u64 jit_any_pointer(void)
{
	return MEMORY_BASE + jit_below(MEMORY_SIZE - 64);
}

static s64 any_displacement(void)
{
	return jit_below(30) ? (s64)jit_below(64) : (s64)(s32)jit_any_value();
}

static void put_address(struct dp_asm *c)
{
	if (jit_below(4))
		PUT(c, DP_OP_PUSHR, any_slot(false));
	else
		PUT(c, DP_OP_PUSH_D, (s64)jit_any_pointer());
}

/* What is there, or behind a pointer there. */
static void put_read(struct dp_asm *c, bool event)
{
	put_address(c);
	for (u32 n = jit_below(3); event && n > 0; n--)
		PUT(c, DP_OP_LD64, any_displacement());
	if (event) {
		PUT(c, DP_OP_LD8 + jit_below(4), any_displacement());
		return;
	}
	for (u32 n = jit_below(3); n > 0; n--) {
		if (jit_below(2)) {
			PUT(c, DP_OP_PUSH_D, any_displacement());
			PUT(c, jit_below(5) ? DP_OP_ADD : DP_OP_SUB);
		}
		PUT(c, n > 1 ? DP_OP_PUSH_MEM64 : DP_OP_PUSH_MEM8 + (s64)jit_below(4));
	}
}

static void put_memory_field(struct dp_asm *c, u32 at, u32 room)
{
	u32 n = 1 + jit_below(room < 30 ? room : 30);

	if (jit_below(3) == 0) {
		PUT(c, DP_OP_LOGM, any_slot(false), any_displacement(), n, at, 0);
	} else if (jit_below(3) == 0) {
		put_address(c);
		PUT(c, DP_OP_LOGM_S, any_displacement(), n, at, 0);
	} else if (room >= 8) {
		put_read(c, true);
		PUT(c, DP_OP_LOG8 + (s64)jit_below(4), at, 0);
	}
}

/* ---- programs of events ---- */

static void put_condition(struct dp_asm *c, bool with_sp)
{
	s64 k = (s64)jit_any_value();

	if (jit_reads && jit_below(2)) {
		put_read(c, true);
		k = (s64)(k & 0xff);
		dp_asm_put(c, DP_OP_NEED_EQ + jit_below(6), &k, NULL);
		return;
	}

	if (jit_below(2)) {
		dp_asm_put(c, DP_OP_NEEDR_EQ + jit_below(6), (s64[]){any_slot(with_sp), k}, NULL);
		return;
	}
	if (jit_below(5))
		dp_asm_put(c, DP_OP_PUSHR + jit_below(7), (s64[]){any_slot(with_sp)}, NULL);
	else
		dp_asm_put(c, DP_OP_PUSH_D, (s64[]){(s64)jit_any_value()}, NULL);
	if (jit_below(3))
		dp_asm_put(c, DP_OP_NEED_EQ + jit_below(6), &k, NULL);
	else
		dp_asm_put(c, DP_OP_NEED, &k, NULL);
}

void jit_make_event(struct dp_program *p, bool in_return)
{
	struct dp_asm c = {0};
	u32 n = jit_below(3), size = jit_below(100);

	for (u32 i = 0; i < n; i++)
		put_condition(&c, !in_return);
	dp_asm_put(&c, jit_below(2) ? DP_OP_REC : DP_OP_RECM, (s64[]){size + 16}, NULL);
	n = size ? jit_below(9) : 0;
	for (u32 i = 0; i < n && jit_reads && jit_below(2); i++) {
		u32 at = jit_below(size);

		put_memory_field(&c, at + 8, size - at);
	}
	for (u32 i = 0; i < n; i++)
		dp_asm_put(&c, DP_OP_LOGR8 + jit_below(4), (s64[]){any_slot(!in_return), jit_below(size) + 8}, NULL);
	if (in_return)
		dp_asm_put(&c, DP_OP_LOGRET, (s64[]){8}, NULL);
	dp_asm_put(&c, DP_OP_EXIT, (s64[]){0}, NULL);
	*p = (struct dp_program){.code = c.bytes, .len = c.len, .logmax = 512};
}

/* ---- programs of the Dynamic Probes language ---- */

static u32 nwords; /* of the frame of the function that is being made, behind its base */

static void put_word(struct dp_asm *c)
{
	static const u16 ops[] = {DP_OP_ADD, DP_OP_SUB, DP_OP_AND, DP_OP_OR, DP_OP_XOR},
			 alone[] = {DP_OP_NEG, DP_OP_NOT,  DP_OP_ZX8,  DP_OP_ZX16, DP_OP_ZX32,
				    DP_OP_SX8, DP_OP_SX16, DP_OP_SX32, DP_OP_SHL,  DP_OP_SHR};
	bool is_const = jit_below(4) == 0;

	if (is_const)
		PUT(c, DP_OP_PUSH_D, (s64)jit_any_value());
	else if (jit_behind_calls && jit_below(3) == 0)
		PUT(c, DP_OP_PUSH_R, (s64)dp_register_by_word(DP_REG_WORD(orig_ax))->number);
	else if (nwords && jit_below(3) == 0)
		PUT(c, DP_OP_PUSH_SBP, -1 - (s64)jit_below(nwords));
	else if (jit_reads && jit_below(2))
		put_read(c, false);
	else
		PUT(c, DP_OP_PUSHR + jit_below(7), any_slot(true));
	for (u32 n = jit_below(3); n > 0; n--) {
		if (jit_below(2)) {
			PUT(c, alone[jit_below(DP_ARRAY_SIZE(alone))], jit_below(64));
			continue;
		}
		PUT(c, DP_OP_PUSH_D, (s64)(s32)jit_any_value());
		if (!is_const && jit_below(4) == 0) { /* the constant below */
			PUT(c, DP_OP_XCHG);
			PUT(c, ops[jit_below(DP_ARRAY_SIZE(ops))]);
		} else {
			PUT(c, ops[jit_below(DP_ARRAY_SIZE(ops))]);
		}
	}
}

/* Go on by a condition, else abort. */
static void put_gate(struct dp_asm *c)
{
	u32 jump, over;

	put_word(c);
	switch (jit_below(3)) {
	case 0:
		PUT(c, DP_OP_PUSH_D, (s64)jit_any_value());
		PUT(c, DP_OP_EQ + jit_below(10));
		if (jit_below(3) == 0)
			PUT(c, jit_below(2) ? DP_OP_LNOT : DP_OP_BOOL);
		jump = PUT(c, jit_below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
		break;
	case 1:
		PUT(c, jit_below(2) ? DP_OP_LNOT : DP_OP_BOOL);
		jump = PUT(c, jit_below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
		break;
	default:
		jump = PUT(c, DP_OP_JLT + jit_below(6), c->len);
	}
	if (jit_below(2)) { /* jump over the abort, or to it */
		PUT(c, DP_OP_ROS, jit_below(2));
		PUT(c, DP_OP_ABORT);
		dp_asm_land(c, jump);
	} else {
		over = PUT(c, DP_OP_JMP, c->len);
		dp_asm_land(c, jump);
		PUT(c, DP_OP_ABORT);
		dp_asm_land(c, over);
	}
}

static void put_item(struct dp_asm *c)
{
	u32 n = jit_below(5);

	for (u32 i = 0; i < n; i++)
		put_word(c);
	if (jit_below(2)) {
		PUT(c, DP_OP_LOG, n);
	} else {
		PUT(c, DP_OP_PUSH_D, n);
		PUT(c, DP_OP_LOG_S);
	}
}

/* Of which the table has some: what only the hit knows, or what is known beforehand. */
static void put_key(struct dp_asm *c)
{
	if (jit_behind_calls && jit_below(2)) {
		PUT(c, DP_OP_PUSH_R, (s64)dp_register_by_word(DP_REG_WORD(orig_ax))->number);
	} else if (jit_below(2)) {
		PUT(c, DP_OP_PUSH_D, jit_below(8) ? (s64)jit_below(6) : (s64)jit_any_value());
	} else if (jit_below(8)) {
		PUT(c, DP_OP_PUSHR, any_slot(false));
		PUT(c, DP_OP_PUSH_D, 7);
		PUT(c, DP_OP_AND);
	} else {
		put_word(c);
	}
}

static s64 any_way(u32 kind)
{
	return kind | (dp_fold_can_be_apart(kind) && jit_below(4) ? DP_FOLD_APART : 0);
}

static void put_count(struct dp_asm *c)
{
	PUT(c, DP_OP_PUSH_D, 0);
	put_key(c);
	PUT(c, DP_OP_FIND_LV, 1, JIT_WORDS, JIT_KEYS, 1);
	PUT(c, DP_OP_FOLD_LV, any_way(DP_AGG_COUNT));
}

static void put_sum(struct dp_asm *c)
{
	put_word(c);
	put_key(c);
	put_key(c);
	PUT(c, DP_OP_FIND_LV, 2, JIT_SUMS, JIT_KEYS, 2);
	PUT(c, DP_OP_FOLD_LV, any_way(DP_AGG_SUM));
}

static void put_fold(struct dp_asm *c)
{
	static const u8 kinds[] = {DP_AGG_SUM, DP_AGG_HIST, DP_AGG_QUANTILES, DP_AGG_COUNT,
				   DP_AGG_MIN, DP_AGG_MAX,  DP_AGG_LAST};

	put_word(c);
	if (jit_below(2)) { /* else most are large, or negative */
		PUT(c, DP_OP_PUSH_D, 0xff);
		PUT(c, DP_OP_AND);
	}
	PUT(c, DP_OP_PUSH_D, jit_below(30) ? JIT_FOLDED : (s64)JIT_LOCALS - 1);
	PUT(c, DP_OP_FOLD_LV, any_way(kinds[jit_below(DP_ARRAY_SIZE(kinds))]));
}

/* Ways that come together as they have parted, mostly. */
static void put_detour(struct dp_asm *c)
{
	u32 jump, again;

	put_word(c);
	PUT(c, DP_OP_PUSH_D, (s64)jit_any_value());
	PUT(c, DP_OP_EQ);
	jump = PUT(c, jit_below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
	PUT(c, DP_OP_ROS, 1);
	if (nwords && jit_below(3) == 0) {
		PUT(c, DP_OP_PUSH_D, (s64)jit_below(2));
		PUT(c, DP_OP_POP_SBP, -1 - (s64)jit_below(nwords));
	}
	if (jit_below(8) == 0)
		PUT(c, DP_OP_PUSH_D, 0);
	PUT(c, DP_OP_PUSH_D, (s64)jit_below(100));
	PUT(c, DP_OP_PUSH_D, 7);
	PUT(c, DP_OP_XCHG);
	PUT(c, DP_OP_SHR_S);
	again = PUT(c, DP_OP_JZ, c->len);
	PUT(c, DP_OP_ROS, 1);
	PUT(c, DP_OP_PUSH_D, (s64)jit_below(2));
	dp_asm_land(c, again);
	dp_asm_land(c, jump);
	if (jit_below(2))
		PUT(c, DP_OP_LOG, 1);
	else
		PUT(c, DP_OP_ROS, 1);
}

static void add_key(u64 *table, u32 nparts, u32 words, const u64 *key)
{
	u32 step = 1 + nparts + words, place;
	u64 hash = 0, *at;

	if (jit_below(5) == 0)
		return;
	for (u32 i = 0; i < nparts; i++)
		hash = dp_table_hash(hash, i, key[i]);
	place = dp_table_place(hash, JIT_KEYS);
	while (table[1 + step * place])
		place = (place + 1) % JIT_KEYS;
	at = &table[1 + step * place];
	*at++ = jit_below(20) ? DP_TABLE_VALID : DP_TABLE_LEFT;
	for (u32 i = 0; i < nparts; i++)
		*at++ = key[i];
	*at = jit_below(100);
}

void jit_fill_tables(u64 *locals)
{
	if (jit_below(2)) { /* there is a smallest or a largest value */
		locals[JIT_FOLDED] = jit_any_value();
		locals[JIT_FOLDED + 1] = 1;
	}
	for (u64 key = 0; key < 6; key++)
		add_key(locals + JIT_WORDS, 1, 1, &key);
	for (u64 i = 0; i < JIT_KEYS - 4; i++)
		add_key(locals + JIT_SUMS, 2, 2, (const u64[]){i % 4, i / 4});
}

/* What is done either way leaves something behind. */
static void put_two_ways(struct dp_asm *c)
{
	u32 jump, over;

	put_word(c);
	if (jit_below(2)) {
		PUT(c, DP_OP_PUSH_D, (s64)jit_any_value());
		PUT(c, DP_OP_EQ + jit_below(10));
	}
	jump = PUT(c, jit_below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
	PUT(c, DP_OP_ROS, 1);
	put_item(c);
	over = PUT(c, DP_OP_JMP, c->len);
	dp_asm_land(c, jump);
	if (jit_below(2)) /* asked once more */
		dp_asm_land(c, PUT(c, jit_below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len));
	PUT(c, DP_OP_ROS, 1);
	if (jit_below(2))
		PUT(c, DP_OP_INC_LV, jit_below(8));
	put_item(c);
	dp_asm_land(c, over);
}

/* Conditions between which exceptions are handled, should there be any. */
static void put_handled_gates(struct dp_asm *c)
{
	u32 handler = PUT(c, DP_OP_SX, c->len), over;

	for (u32 n = jit_below(4); n > 0; n--)
		put_gate(c);
	PUT(c, DP_OP_UX);
	over = PUT(c, DP_OP_JMP, c->len);
	dp_asm_land(c, handler);
	PUT(c, DP_OP_ABORT);
	dp_asm_land(c, over);
}

static void put_body(struct dp_asm *c)
{
	u32 effects = jit_below(3);

	while (effects-- > 0)
		PUT(c, jit_below(2) ? DP_OP_INC_LV : DP_OP_DEC_LV, jit_below(8));
	for (u32 n = jit_below(4); n > 0; n--)
		put_gate(c);
	if (jit_below(4) == 0)
		put_handled_gates(c);
	if (jit_below(3) == 0)
		PUT(c, DP_OP_INC_LV, jit_below(8));
	if (jit_below(4) == 0)
		put_detour(c);
	if (jit_below(4) == 0)
		put_count(c);
	if (jit_below(6) == 0)
		put_sum(c);
	if (jit_below(4) == 0)
		put_fold(c);
	if (jit_below(16) == 0)
		put_gate(c);
	if (jit_below(3) == 0)
		PUT(c, DP_OP_SETMIN, jit_below(65536));
	for (u32 items = jit_below(3); items > 0; items--) {
		if (nwords && jit_below(2)) {
			put_word(c);
			PUT(c, jit_below(2) ? DP_OP_POP_SBP : DP_OP_COPY_SBP, -1 - (s64)jit_below(nwords));
		}
		if (jit_below(4) == 0)
			put_two_ways(c);
		else
			put_item(c);
	}
}

/* In a function with words of its own, as dpcc makes them. */
static void put_function(struct dp_asm *c)
{
	u32 call, jump;

	PUT(c, DP_OP_PUSH_D, 0);
	call = PUT(c, DP_OP_CALL, c->len);
	if (jit_below(2)) {
		PUT(c, DP_OP_PUSH_LP);
		jump = PUT(c, DP_OP_JZ, c->len);
		PUT(c, DP_OP_EXIT);
		dp_asm_land(c, jump);
		PUT(c, DP_OP_ABORT);
	} else {
		PUT(c, jit_below(20) ? DP_OP_EXIT : DP_OP_ABORT);
	}
	dp_asm_land(c, call);
	PUT(c, DP_OP_SAVE_TSP);
	PUT(c, DP_OP_RESTORE_SBP);
	nwords = jit_below(4);
	PUT(c, DP_OP_PUSH_D, 0);
	PUT(c, DP_OP_DUP, nwords);
	put_body(c);
	PUT(c, DP_OP_SAVE_SBP);
	PUT(c, DP_OP_PUSH_D, 0);
	PUT(c, DP_OP_ADD);
	PUT(c, DP_OP_RESTORE_TSP);
	PUT(c, DP_OP_RET);
	nwords = 0;
}

void jit_make_plain(struct dp_program *p)
{
	struct dp_asm c = {0};

	PUT(&c, DP_OP_BEGIN);
	if (jit_below(2)) {
		put_function(&c);
	} else {
		put_body(&c);
		PUT(&c, jit_below(20) ? DP_OP_EXIT : DP_OP_ABORT);
	}
	*p = (struct dp_program){.code = c.bytes,
				 .len = c.len,
				 .logmax = jit_below(10) ? 200 : 0,
				 .jmpmax = jit_below(10) ? 20 : jit_below(3),
				 .nlocals = JIT_LOCALS,
				 .rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT,
					 .max = DP_MAXHITS_NONE,
					 .major = (u16)jit_below(9),
					 .minor = (u16)jit_below(9)}};
}
