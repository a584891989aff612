/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DWARF location expressions as text of the Dynamic Probes language. Both are stack machines: most
 * operators have a counterpart. What is needed of the frame (its canonical address) comes from the
 * unwind tables.
 */
#include <dwarf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "symbols/locations-priv.h"

bool dp_loc_fail(struct out *o, const char *why)
{
	if (!o->p->why)
		o->p->why = why;
	return false;
}

bool dp_loc_put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->text + o->n, o->size - o->n, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n + 2 > o->size - o->n)
		return dp_loc_fail(o, "its location is too complicated");
	o->n += (size_t)n;
	o->text[o->n++] = ';';
	o->text[o->n] = '\0';
	return true;
}

static bool put_register(struct out *o, u64 number, s64 offset)
{
	bool is_vector;
	const char *name = dp_name_of_dwarf(number, &is_vector);

	if (o->caller_pc)
		return dp_loc_caller_register(o, number, offset);
	if (!name || is_vector)
		return dp_loc_fail(o, "it depends on a register that programs cannot read");
	return dp_loc_put(o, "push r,%s", name) && (!offset || dp_loc_put(o, "push d,%lld;add", (long long)offset));
}

/* ---- the frame ---- */

static bool put_cfa(struct out *o)
{
	struct dp_module *m = o->p->m;
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n;
	bool good;

	/* The call is under way in the caller, not over. */
	if (!dp_mod_frame_at(m, o->caller_pc ? o->caller_pc - 1 : o->p->pc, &frame))
		return dp_loc_fail(o, "the unwind tables do not know the frame here");
	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		good = dp_loc_fail(o, "the unwind tables do not know the frame here");
	else
		good = dp_loc_expression(o, NULL, ops, n);
	free(frame);
	return good;
}

bool dp_loc_frame(struct out *o)
{
	u64 caller_pc = o->caller_pc;
	bool good;

	o->caller_pc = 0;
	good = put_cfa(o);
	o->caller_pc = caller_pc;
	return good;
}

static bool put_frame_base(struct out *o)
{
	Dwarf_Die *func = o->caller_pc ? &o->caller : &o->p->func;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!o->p->has_func || !dwarf_attr_integrate(func, DW_AT_frame_base, &attr))
		return dp_loc_fail(o, "the function's frame base is not known");
	if (dwarf_getlocation_addr(&attr, o->caller_pc ? o->caller_pc - 1 : o->p->pc, &ops, &n, 1) != 1 || !n)
		return dp_loc_fail(o, "the function's frame base is not known here");
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
		return put_register(o, ops[0].atom - DW_OP_reg0, 0);
	return dp_loc_expression(o, &attr, ops, n);
}

static bool put_tls(struct out *o)
{
	char code[200];
	const char *why = dp_mod_tls_code(o->p->m, code, sizeof(code));

	return why ? dp_loc_fail(o, why) : dp_loc_put(o, "%s", code);
}

/* ---- operators ---- */

bool dp_loc_put_deref(struct out *o, u64 size)
{
	switch (size) {
	case 1:
	case 2:
	case 4:
	case 8:
		return dp_loc_put(o, "push mem,u%llu", (unsigned long long)size * 8);
	default:
		return dp_loc_fail(o, "its location is read from memory in an unusual width");
	}
}

static const struct {
	u8 atom;
	const char *code;
} simple[] = {
    {DW_OP_dup, "push tsp,0"},
    {DW_OP_drop, "ros 1"},
    {DW_OP_over, "push tsp,1"},
    {DW_OP_swap, "xchg"},
    {DW_OP_and, "and"},
    {DW_OP_or, "or"},
    {DW_OP_xor, "xor"},
    {DW_OP_plus, "add"},
    {DW_OP_minus, "sub"},
    {DW_OP_mul, "mul"},
    {DW_OP_neg, "neg"},
    {DW_OP_not, "not"},
    {DW_OP_div, "idiv;xchg;ros 1"},
    {DW_OP_mod, "div;ros 1"},
    {DW_OP_shl, "xchg;shl"},
    {DW_OP_shr, "xchg;shr"},
    {DW_OP_shra, "xchg;sar"},
    {DW_OP_eq, "eq"},
    {DW_OP_ne, "ne"},
    {DW_OP_lt, "lt"},
    {DW_OP_le, "le"},
    {DW_OP_gt, "gt"},
    {DW_OP_ge, "ge"},
    {DW_OP_abs, "push tsp,0;push d,63;xchg;sar;push tsp,0;push tsp,2;xor;xchg;sub;xchg;ros 1"},
    {DW_OP_nop, "nop"},
};

/* Operators whose operand stands in another section. */
static bool put_indexed(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *op)
{
	Dwarf_Attribute value;
	Dwarf_Addr addr;
	Dwarf_Word word;

	if (!attr || dwarf_getlocation_attr(attr, op, &value))
		return dp_loc_fail(o, "its location cannot be read");
	if (op->atom == DW_OP_addrx || op->atom == DW_OP_GNU_addr_index)
		return dwarf_formaddr(&value, &addr) ? dp_loc_fail(o, "its address cannot be read")
						     : dp_loc_put(o, "push d,.base+%lld", (long long)addr);
	if (dwarf_formudata(&value, &word))
		return dp_loc_fail(o, "its location cannot be read");
	return dp_loc_put(o, "push d,%lld", (long long)word);
}

/* The whole register, also by the operators that tell of its type: of a vector register the low word is meant. */
static bool single_register(const Dwarf_Op *op, u64 *number)
{
	bool numbered = op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31;

	*number = numbered ? (u64)op->atom - DW_OP_reg0 : op->number;
	return numbered || op->atom == DW_OP_regx || op->atom == DW_OP_regval_type || op->atom == DW_OP_GNU_regval_type;
}

/* The value of something when the function was entered: there, or by what its callers knew. */
static bool put_entry_value(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *op)
{
	Dwarf_Attribute block;
	bool is_register, is_vector;
	Dwarf_Op *ops;
	u64 number = 0;
	Dwarf_Addr low;
	size_t n;

	if (!attr || dwarf_getlocation_attr(attr, op, &block) || dwarf_getlocation(&block, &ops, &n) || !n)
		return dp_loc_fail(o, "its location cannot be read");
	is_register = n == 1 && single_register(&ops[0], &number);
	if (o->p->has_func && !o->caller_pc && !dwarf_lowpc(&o->p->func, &low) && low == o->p->pc) {
		if (is_register && dp_name_of_dwarf(number, &is_vector) && is_vector)
			return dp_loc_put(o, "push r,%s;xchg;ros 1", dp_name_of_dwarf(number, &is_vector));
		return is_register ? put_register(o, number, 0) : dp_loc_expression(o, attr, ops, n);
	}
	if (!o->p->has_func || !is_register)
		return dp_loc_fail(o, "it is computed from a value at the function's entry that nothing keeps");
	return dp_loc_entry_value(o, number);
}

static bool operator(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *op)
{
	u8 a = op->atom;

	if (a >= DW_OP_lit0 && a <= DW_OP_lit31)
		return dp_loc_put(o, "push d,%d", a - DW_OP_lit0);
	if (a >= DW_OP_breg0 && a <= DW_OP_breg31)
		return put_register(o, a - DW_OP_breg0, (s64)op->number);
	for (size_t i = 0; i < DP_ARRAY_SIZE(simple); i++)
		if (simple[i].atom == a)
			return dp_loc_put(o, "%s", simple[i].code);
	switch (a) {
	case DW_OP_addr:
		return dp_loc_put(o, "push d,.base+%lld", (long long)op->number);
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return dp_loc_put(o, "push d,%lld", (long long)op->number);
	case DW_OP_plus_uconst:
		return dp_loc_put(o, "push d,%lld;add", (long long)op->number);
	case DW_OP_pick:
		return dp_loc_put(o, "push tsp,%u", (u32)op->number & 0xff);
	case DW_OP_bregx:
		return put_register(o, op->number, (s64)op->number2);
	case DW_OP_fbreg:
		return put_frame_base(o) && dp_loc_put(o, "push d,%lld;add", (long long)op->number);
	case DW_OP_call_frame_cfa:
		return put_cfa(o);
	case DW_OP_deref:
		return dp_loc_put_deref(o, 8);
	case DW_OP_deref_size:
		return dp_loc_put_deref(o, op->number);
	case DW_OP_form_tls_address:
	case DW_OP_GNU_push_tls_address:
		return put_tls(o);
	case DW_OP_addrx:
	case DW_OP_GNU_addr_index:
	case DW_OP_constx:
	case DW_OP_GNU_const_index:
		return put_indexed(o, attr, op);
	case DW_OP_entry_value:
	case DW_OP_GNU_entry_value:
		return put_entry_value(o, attr, op);
	case DW_OP_implicit_pointer:
	case DW_OP_GNU_implicit_pointer:
		return dp_loc_fail(o, "it points to something that the compiler has removed");
	default:
		return dp_loc_fail(o, "its location uses an operator that is not known here");
	}
}

bool dp_loc_expression(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n)
{
	bool good = o->nesting < NESTING_MAX || dp_loc_fail(o, "its location is too complicated");

	o->nesting++;
	for (size_t i = 0; i < n && good; i++)
		good = operator(o, attr, &ops[i]);
	o->nesting--;
	return good;
}

/* ---- pieces ---- */

static struct dp_piece *add_piece(struct dp_var *v, enum dp_piece_kind kind, u32 offset, u32 size)
{
	struct dp_piece *piece = v->npieces < DP_VAR_PIECES ? &v->pieces[v->npieces] : NULL;

	if (!piece)
		return NULL;
	v->npieces++;
	memset(piece, 0, sizeof(*piece));
	piece->kind = kind;
	piece->offset = offset;
	piece->size = size;
	return piece;
}

/* In a vector register: as two values, since programs read it as two words. */
static bool vector_pieces(struct dp_var *v, const char *name, u32 offset, u32 size)
{
	struct dp_piece *low = add_piece(v, DP_PIECE_VALUE, offset, size ? DP_MIN(size, 8u) : 8);
	struct dp_piece *high;

	if (!low)
		return false;
	dp_format(low->code, sizeof(low->code), "push r,%s;xchg;ros 1;", name);
	if (size && size <= 8)
		return true;
	high = add_piece(v, DP_PIECE_VALUE, offset + 8, size ? size - 8 : 8);
	if (high)
		dp_format(high->code, sizeof(high->code), "push r,%s;ros 1;", name);
	return high != NULL;
}

static bool register_piece(struct var_place *p, struct dp_var *v, u64 number, u32 offset, u32 size)
{
	struct dp_piece *piece;
	bool is_vector;
	const char *name = dp_name_of_dwarf(number, &is_vector);

	if (!name) {
		p->why = "it is in a register that programs cannot read";
		return false;
	}
	if (is_vector)
		return vector_pieces(v, name, offset, size);
	piece = add_piece(v, DP_PIECE_REGISTER, offset, size);
	if (piece)
		dp_format(piece->code, sizeof(piece->code), "%s", name);
	return piece != NULL;
}

static bool constant_pieces(struct var_place *p, Dwarf_Attribute *attr, const Dwarf_Op *op, struct dp_var *v,
			    u32 offset)
{
	Dwarf_Block block;

	if (dwarf_getlocation_implicit_value(attr, op, &block)) {
		p->why = "its value cannot be read";
		return false;
	}
	for (u64 at = 0; at < block.length; at += 8) {
		u32 n = (u32)DP_MIN(block.length - at, (u64)8);
		struct dp_piece *piece = add_piece(v, DP_PIECE_VALUE, offset + (u32)at, n);
		u64 word = 0;

		if (!piece)
			return false;
		memcpy(&word, block.data + at, n);
		dp_format(piece->code, sizeof(piece->code), "push d,%lld;", (long long)word);
	}
	return true;
}

/* ops: one simple location, without the piece operator behind it. */
static bool one_piece(struct var_place *p, Dwarf_Attribute *attr, Dwarf_Op *ops, size_t n, struct dp_var *v, u32 offset,
		      u32 size)
{
	struct dp_piece *piece;
	struct out o = {.p = p};
	bool is_value;

	if (!n)
		return add_piece(v, DP_PIECE_GONE, offset, size) != NULL;
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
		return register_piece(p, v, ops[0].atom - DW_OP_reg0, offset, size);
	if (n == 1 && ops[0].atom == DW_OP_regx)
		return register_piece(p, v, ops[0].number, offset, size);
	if (n == 1 && ops[0].atom == DW_OP_implicit_value)
		return constant_pieces(p, attr, ops, v, offset);
	is_value = ops[n - 1].atom == DW_OP_stack_value;
	piece = add_piece(v, is_value ? DP_PIECE_VALUE : DP_PIECE_MEMORY, offset, size);
	if (!piece)
		return false;
	o.text = piece->code;
	o.size = sizeof(piece->code);
	/* A single entry value is a value, whatever follows it or not. */
	return dp_loc_expression(&o, attr, ops, is_value ? n - 1 : n);
}

bool dp_var_locate(struct var_place *p, Dwarf_Attribute *attr, Dwarf_Op *ops, size_t n, struct dp_var *v)
{
	size_t start = 0;
	u32 offset = 0;

	v->npieces = 0;
	p->why = NULL;
	if (!n) {
		p->why = "it has been optimised away here";
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (ops[i].atom == DW_OP_bit_piece) {
			p->why = "it is spread over parts of registers";
			return false;
		}
		if (ops[i].atom != DW_OP_piece)
			continue;
		if (!one_piece(p, attr, ops + start, i - start, v, offset, (u32)ops[i].number))
			break;
		offset += (u32)ops[i].number;
		start = i + 1;
	}
	if ((start == n && !p->why) || (!p->why && !start && one_piece(p, attr, ops, n, v, 0, 0)))
		return true;
	if (!p->why)
		p->why = "it is in too many pieces";
	return false;
}
