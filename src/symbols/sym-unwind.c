/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The unwind information of a module as rows that the hit path can use: where each frame's upper end is, and the
 * caller's frame pointer. libdw reads it. What does not fit into a row ends the walk there.
 */
#include <dwarf.h>
#include <stdlib.h>

#include "abi/abi-unwind.h"
#include "arch/arch.h"
#include "symbols/module-priv.h"
#include "symbols/sym-unwind.h"

#define CFA_MAX ((1 << 19) - 1) /* words: frames of 4 MiB */

struct rows {
	struct dp_unwind_row *v;
	size_t n, cap;
};

static bool fits(s64 bytes, s64 lo, s64 hi)
{
	return !(bytes & 7) && bytes / 8 >= lo && bytes / 8 <= hi;
}

/* sp + 8, and a word more from some byte of each entry on, as linkers describe the stubs of imported functions. */
static bool is_plt(const Dwarf_Op *ops, size_t n, struct dp_unwind_row *row)
{
	if (n != 9 || ops[0].atom != DW_OP_breg0 + DP_DWARF_SP || ops[0].number != 8 ||
	    ops[1].atom != DW_OP_breg0 + DP_DWARF_IP || ops[2].atom != DW_OP_lit15 || ops[3].atom != DW_OP_and ||
	    ops[4].atom < DW_OP_lit0 || ops[4].atom > DW_OP_lit15 || ops[5].atom != DW_OP_ge ||
	    ops[6].atom != DW_OP_lit3 || ops[7].atom != DW_OP_shl || ops[8].atom != DW_OP_plus)
		return false;
	row->kind = DP_UNWIND_PLT;
	row->cfa = (s32)(ops[4].atom - DW_OP_lit0);
	return true;
}

/* The frame's upper end: libdw gives register and offset as one operation. */
static bool upper_end(const Dwarf_Op *ops, size_t n, struct dp_unwind_row *row)
{
	s64 offset, reg;

	if (!n || ops[0].atom < DW_OP_breg0 || (ops[0].atom > DW_OP_breg31 && ops[0].atom != DW_OP_bregx))
		return false;
	if (is_plt(ops, n, row))
		return true;
	reg = ops[0].atom == DW_OP_bregx ? (s64)ops[0].number : ops[0].atom - DW_OP_breg0;
	offset = (s64)(ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number);
	if (!fits(offset, -CFA_MAX, CFA_MAX))
		return false;
	row->cfa = (s32)(offset / 8);
	if (n == 1 && (reg == DP_DWARF_SP || reg == DP_DWARF_FRAME || reg == DP_DWARF_ALIGN))
		row->kind = reg == DP_DWARF_SP      ? DP_UNWIND_SP
			    : reg == DP_DWARF_FRAME ? DP_UNWIND_FRAME
						    : DP_UNWIND_ALIGN;
	else if (n == 2 && reg == DP_DWARF_FRAME && ops[1].atom == DW_OP_deref)
		row->kind = DP_UNWIND_FRAME_WORD;
	else
		return false;
	return true;
}

/* Where the caller's frame register is: in its register still, or in the frame. */
static bool saved_frame(Dwarf_Frame *frame, struct dp_unwind_row *row)
{
	Dwarf_Op memory[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, DP_DWARF_FRAME, memory, &ops, &n))
		return false;
	if (!n) /* in its register still, or nobody needs it */
		return true;
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst &&
	    fits((s64)ops[1].number, INT8_MIN, -1)) {
		row->frame = (s32)((s64)ops[1].number / 8);
		return true;
	}
	/* In functions that align their stack. */
	if (n == 2 && ops[1].atom == DW_OP_breg0 + DP_DWARF_FRAME && !ops[1].number) {
		row->frame = DP_UNWIND_AT_FRAME;
		return true;
	}
	return false;
}

static bool has_caller(Dwarf_Frame *frame)
{
	Dwarf_Op memory[3], *ops;
	size_t n;

	/* Without a return address it is the outermost function of a thread. */
	return !dwarf_frame_register(frame, DP_DWARF_IP, memory, &ops, &n) && n == 2 &&
	       ops[0].atom == DW_OP_call_frame_cfa && (s64)ops[1].number == -8;
}

static void fill(Dwarf_Frame *frame, bool signal, struct dp_unwind_row *row)
{
	Dwarf_Op *ops;
	size_t n;

	if (signal)
		row->kind = DP_UNWIND_SIGNAL;
	else if (!has_caller(frame) || dwarf_frame_cfa(frame, &ops, &n) || !upper_end(ops, n, row) ||
		 !saved_frame(frame, row))
		*row = (struct dp_unwind_row){.pc = row->pc, .kind = DP_UNWIND_END};
}

static bool add(struct rows *rows, const struct dp_unwind_row *row)
{
	struct dp_unwind_row *last = rows->n ? &rows->v[rows->n - 1] : NULL;

	if (last && last->kind == row->kind && last->cfa == row->cfa && last->frame == row->frame)
		return true;
	if (last && last->pc == row->pc) {
		*last = *row;
		return true;
	}
	return MOD_PUSH(rows, *row);
}

static bool add_range(struct dp_module *m, struct rows *rows, u64 base, u64 lo, u64 hi)
{
	while (lo < hi) {
		struct dp_unwind_row row = {.pc = (u32)(lo - base), .kind = DP_UNWIND_END};
		Dwarf_Addr from, to = hi;
		Dwarf_Frame *frame;
		bool signal = false;

		if (dp_mod_frame_at(m, lo, &frame)) {
			if (dwarf_frame_info(frame, &from, &to, &signal) < 0 || to <= lo)
				to = hi;
			fill(frame, signal, &row);
			free(frame);
		}
		if (!add(rows, &row))
			return false;
		lo = to;
	}
	return true;
}

int dp_module_unwind(struct dp_module *m, struct dp_unwind_row **table, u32 *n, struct dp_error *err)
{
	struct rows rows = {0};
	struct mod_range *v;
	u64 base = dp_module_lowest(m), end = base;
	size_t count;
	bool good;
	int r = dp_mod_load_funcs(m, err);

	*table = NULL;
	*n = 0;
	if (r)
		return r;
	count = m->ranges.n;
	v = malloc((count + 1) * sizeof(*v));
	good = v;
	if (good && count)
		memcpy(v, m->ranges.v, count * sizeof(*v));
	good = good && DP_SORT_BY(v, count, lo);
	for (size_t i = 0; good && i < count; i++) {
		u64 lo = DP_MAX(v[i].lo, end), hi = i + 1 < count ? DP_MIN(v[i].hi, v[i + 1].lo) : v[i].hi;

		if (hi <= lo)
			continue;
		if (lo > end) /* code that nobody describes */
			good = add(&rows, &(struct dp_unwind_row){.pc = (u32)(end - base), .kind = DP_UNWIND_END});
		good = good && add_range(m, &rows, base, lo, hi);
		end = hi;
	}
	good = good && add(&rows, &(struct dp_unwind_row){.pc = (u32)(end - base), .kind = DP_UNWIND_END});
	free(v);
	if (!good) {
		free(rows.v);
		return dp_fail(err, E_ARM_NOMEM, "unwind table");
	}
	*table = rows.v;
	*n = (u32)rows.n;
	return 0;
}
