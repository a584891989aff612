/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See reference.h. Written from the formulas of opcodes.def; shares only the decoder with the interpreter. */
#include <string.h>

#include "reference-priv.h"

void ref_push(struct ref *r, u64 v)
{
	r->stack[r->top++ % DP_VM_STACK] = v;
}

u64 ref_pop(struct ref *r)
{
	return r->stack[--r->top % DP_VM_STACK];
}

void ref_complain(struct ref *r, const char *what)
{
	r->complaint = what;
	r->stop = true;
}

u8 *ref_payload(struct ref *r)
{
	return (u8 *)r->m->vm->record + sizeof(struct dp_record);
}

static void store(struct ref *r, s64 at, const void *v, u32 n)
{
	if (at < 0 || at + n > r->p->layout.fixed_size || at + n > r->p->logmax)
		ref_complain(r, "store outside the fixed part");
	else
		memcpy(ref_payload(r) + at, v, n);
}

static void take_mark(struct ref *r, s64 field)
{
	u64 mask;

	r->m->hit.rec_flags |= DP_REC_FAULTED;
	r->mark = false;
	if (field == 255)
		return;
	if (!r->p->layout.has_faultmask)
		ref_complain(r, "mark without a fault mask");
	memcpy(&mask, ref_payload(r), 8);
	mask |= 1ull << (field > 63 ? 63 : field);
	memcpy(ref_payload(r), &mask, 8);
}

static bool load(struct ref *r, u64 addr, void *v, u32 n)
{
	memset(v, 0, n);
	if (!dp_hit_read(&r->m->hit, v, addr, n))
		return true;
	memset(v, 0, n);
	r->m->hit.faults++;
	return false;
}

/* Append n bytes (NUL included) and store the descriptor. */
static void append(struct ref *r, s64 at, const char *text, u32 n)
{
	u32 d = r->m->hit.log_len | n << 16;

	if (r->m->hit.log_len + n > r->p->logmax)
		ref_complain(r, "text outside the log budget");
	else
		memcpy(ref_payload(r) + r->m->hit.log_len, text, n);
	store(r, at, &d, 4);
	r->m->hit.log_len += n;
}

static u32 room(struct ref *r, s64 keep)
{
	s64 n = (s64)r->p->logmax - r->m->hit.log_len - keep;

	return n > 0 ? (u32)n : 0;
}

static void log_known(struct ref *r, s64 at, s64 keep, const char *text, u32 len)
{
	char copy[DP_RECORD_MAX];
	u32 n = room(r, keep);

	if (len + 1 > n)
		r->m->hit.rec_flags |= DP_REC_TRUNCATED;
	memcpy(copy, text, len);
	if (!n) {
		append(r, at, copy, 0);
		return;
	}
	len = len + 1 > n ? n - 1 : len;
	copy[len] = '\0';
	append(r, at, copy, len + 1);
}

static void log_string(struct ref *r, s64 at, s64 keep, u64 addr)
{
	char copy[DP_RECORD_MAX];
	u32 space = room(r, keep);
	int n = -1;

	if (!r->mark && space < 2) {
		r->m->hit.rec_flags |= DP_REC_TRUNCATED;
		append(r, at, copy, 0);
		return;
	}
	if (!r->mark) {
		n = dp_hit_read_str(&r->m->hit, copy, addr, space);
		r->m->hit.faults += n < 0;
	}
	r->mark = false;
	if (n < 0)
		r->m->hit.rec_flags |= DP_REC_FAULTED;
	else if ((u32)n == space)
		r->m->hit.rec_flags |= DP_REC_TRUNCATED;
	append(r, at, copy, n < 0 ? 0 : (u32)n);
	r->work -= n < 0 ? 0 : dp_work_of_text((u32)n);
}

static void load_scratch(struct ref *r, u64 addr, u32 n)
{
	int got;

	r->scratch[0] = '\0';
	if (r->mark)
		return;
	if (n == 1) {
		char c;

		r->mark = !load(r, addr, &c, 1);
		return;
	}
	got = dp_hit_read_str(&r->m->hit, r->scratch, addr, n);
	if (got < 0) {
		r->mark = true;
		r->m->hit.faults++;
		r->scratch[0] = '\0';
	} else {
		r->work -= dp_work_of_text((u32)got);
	}
}

/* By recursion, unlike the interpreter; bounded by steps, since it can take forever. */
static bool matches(const char *s, const u8 *p, const u8 *end, u32 *steps)
{
	bool yes = false;
	const u8 *q;

	if (p == end)
		return !*s;
	if (++*steps > 200000)
		return false;
	if (*p == '*')
		return matches(s, p + 1, end, steps) || (*s && matches(s + 1, p, end, steps));
	if (!*s)
		return false;
	if (*p == '?')
		return matches(s + 1, p + 1, end, steps);
	if (*p == '\\' && p + 1 < end)
		return p[1] == (u8)*s && matches(s + 1, p + 2, end, steps);
	if (*p != '[')
		return *p == (u8)*s && matches(s + 1, p + 1, end, steps);
	q = p + 1;
	if (q < end && (*q == '!' || *q == '^'))
		q++;
	for (const u8 *first = q;; q++) {
		if (q >= end)
			return *s == '[' && matches(s + 1, p + 1, end, steps);
		if (*q == ']' && q != first)
			break;
		if (q + 2 < end && q[1] == '-' && q[2] != ']') {
			yes |= (u8)*s >= q[0] && (u8)*s <= q[2];
			q += 2;
		} else {
			yes |= (u8)*s == *q;
		}
	}
	return yes != (p[1] == '!' || p[1] == '^') && matches(s + 1, q + 1, end, steps);
}

static void jump(struct ref *r, const struct dp_op_view *op, bool taken, u32 *next)
{
	u32 to = (u32)dp_op_operand(op, DP_KIND_JUMP);

	if (!taken || (to < *next && !ref_spend(r, *next - to)))
		return;
	if (r->jumps == r->p->jmpmax) {
		ref_raise(r, DP_EX_MAX_JMPS, r->p->jmpmax, 0);
		return;
	}
	r->jumps++;
	*next = to;
}

static u64 bit(struct ref *r, u32 opcode, u64 a, u64 n)
{
	u64 result = 0;
	bool up = opcode == DP_OP_PBL || opcode == DP_OP_PBL_S, down = opcode == DP_OP_PBR || opcode == DP_OP_PBR_S;
	bool cut_above = opcode == DP_OP_PZL || opcode == DP_OP_PZL_S;

	if (n < 1 || n > 64) {
		ref_raise(r, DP_EX_INVALID_OPERAND, 3, n);
		return 0;
	}
	for (u64 i = 1; i <= 64; i++) { /* bit by bit, numbered from 1 */
		u64 source = up && i > n ? n : down && i < n ? n : i;
		bool zero = !up && !down && (cut_above ? i > n : i < n);

		if (!zero && (a >> (source - 1) & 1))
			result |= 1ull << (i - 1);
	}
	return result;
}

static u64 rotated(u64 a, u32 left)
{
	for (left %= 64; left; left--)
		a = a << 1 | a >> 63;
	return a;
}

/* Variables; i is the index. kind: 0 push, 1 pop, 2 move, 3 inc, 4 dec. */
static void variable(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	bool local = opcode >= DP_OP_PUSH_LV;
	u32 which = opcode - (local ? DP_OP_PUSH_LV : DP_OP_PUSH_GV), kind = which / 2;
	u64 *array = local ? r->m->locals : r->m->globals, i, v = 0;
	u32 n = local ? r->p->nlocals : r->p->nglobals;

	if (kind == 1)
		v = ref_pop(r);
	i = which % 2 ? ref_pop(r) : (u64)op->v[0];
	if (kind == 2) {
		v = ref_pop(r);
		ref_push(r, v);
	}
	if (i >= n) {
		if (which % 2)
			ref_raise(r, DP_EX_INVALID_OPERAND, local ? 1 : 2, i);
		else
			ref_complain(r, "variable out of range");
		return;
	}
	if (kind == 0)
		ref_push(r, array[i]);
	else
		array[i] = kind < 3 ? v : kind == 3 ? array[i] + 1 : array[i] - 1;
}

static u64 narrow(u64 v, u32 bytes, bool is_signed)
{
	u32 away = 64 - 8 * bytes;

	return is_signed ? (u64)((s64)(v << away) >> away) : v << away >> away;
}

static bool holds(u32 which, u64 v, u64 c)
{
	switch (which) {
	case 0:
		return v == c;
	case 1:
		return v != c;
	case 2:
		return (s64)v < (s64)c;
	case 3:
		return (s64)v >= (s64)c;
	case 4:
		return v < c;
	default:
		return v >= c;
	}
}

static u64 compared(u32 which, u64 x, u64 y)
{
	s64 a = (s64)x, b = (s64)y;

	switch (which) {
	case 0:
		return x == y;
	case 1:
		return x != y;
	case 2:
		return a < b;
	case 3:
		return a <= b;
	case 4:
		return a > b;
	case 5:
		return a >= b;
	case 6:
		return x < y;
	case 7:
		return x <= y;
	case 8:
		return x > y;
	default:
		return x >= y;
	}
}

static void divide(struct ref *r, bool is_signed)
{
	u64 y = ref_pop(r), x = ref_pop(r);

	if (!y) {
		ref_raise(r, DP_EX_DIV_BY_ZERO, 0, 0);
	} else if (!is_signed) {
		ref_push(r, x % y);
		ref_push(r, x / y);
	} else if (y == ~0ull) {
		ref_push(r, 0);
		ref_push(r, -x);
	} else {
		ref_push(r, (u64)((s64)x % (s64)y));
		ref_push(r, (u64)((s64)x / (s64)y));
	}
}

static u64 shifted(u32 opcode, u64 a, u64 n)
{
	if (opcode == DP_OP_SAR_S)
		return (u64)((s64)a >> (n > 63 ? 63 : n));
	if (n > 63)
		return 0;
	return opcode == DP_OP_SHL || opcode == DP_OP_SHL_S ? a << n : a >> n;
}

static bool arithmetic(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	u64 x, y;

	if (op->info->pops == 2 && op->info->pushes == 1) {
		y = ref_pop(r);
		x = ref_pop(r);
		if (opcode >= DP_OP_EQ && opcode <= DP_OP_GEU) {
			ref_push(r, compared(opcode - DP_OP_EQ, x, y));
			return true;
		}
		switch (opcode) {
		case DP_OP_ADD:
			ref_push(r, x + y);
			return true;
		case DP_OP_SUB:
			ref_push(r, x - y);
			return true;
		case DP_OP_MUL:
			ref_push(r, x * y);
			return true;
		case DP_OP_AND:
			ref_push(r, x & y);
			return true;
		case DP_OP_OR:
			ref_push(r, x | y);
			return true;
		case DP_OP_XOR:
			ref_push(r, x ^ y);
			return true;
		case DP_OP_ROL_S:
			ref_push(r, rotated(y, x % 64));
			return true;
		case DP_OP_ROR_S:
			ref_push(r, rotated(y, 64 - x % 64));
			return true;
		case DP_OP_SHL_S:
		case DP_OP_SHR_S:
		case DP_OP_SAR_S:
			ref_push(r, shifted(opcode, y, x));
			return true;
		case DP_OP_PBL_S:
		case DP_OP_PBR_S:
		case DP_OP_PZL_S:
		case DP_OP_PZR_S:
			x = bit(r, opcode, x, y);
			if (!r->raised)
				ref_push(r, x);
			return true;
		}
		ref_push(r, x);
		ref_push(r, y);
		return false;
	}
	if (op->info->pops != 1 || op->info->pushes != 1)
		return false;
	x = ref_pop(r);
	switch (opcode) {
	case DP_OP_NEG:
		ref_push(r, ~x + 1);
		return true;
	case DP_OP_NOT:
		ref_push(r, ~x);
		return true;
	case DP_OP_BOOL:
		ref_push(r, x ? 1 : 0);
		return true;
	case DP_OP_LNOT:
		ref_push(r, x ? 0 : 1);
		return true;
	case DP_OP_ROL:
		ref_push(r, rotated(x, (u32)op->v[0]));
		return true;
	case DP_OP_ROR:
		ref_push(r, rotated(x, 64 - (u32)op->v[0]));
		return true;
	case DP_OP_SHL:
	case DP_OP_SHR:
		ref_push(r, shifted(opcode, x, (u64)op->v[0]));
		return true;
	case DP_OP_PBL:
	case DP_OP_PBR:
	case DP_OP_PZL:
	case DP_OP_PZR:
		ref_push(r, bit(r, opcode, x, (u64)op->v[0]));
		return true;
	case DP_OP_ZX8:
	case DP_OP_ZX16:
	case DP_OP_ZX32:
		ref_push(r, narrow(x, 1u << (opcode - DP_OP_ZX8), false));
		return true;
	case DP_OP_SX8:
	case DP_OP_SX16:
	case DP_OP_SX32:
		ref_push(r, narrow(x, 1u << (opcode - DP_OP_SX8), true));
		return true;
	case DP_OP_BITS:
		ref_push(r, x >> op->v[0] & (op->v[1] == 64 ? ~0ull : (1ull << op->v[1]) - 1));
		return true;
	}
	ref_push(r, x);
	return false;
}

static bool memory(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	u64 v = 0, addr;
	u32 n;

	if (opcode >= DP_OP_PUSH_MEM8 && opcode <= DP_OP_PUSH_MEM64) {
		addr = ref_pop(r);
		if (load(r, addr, &v, 1u << (opcode - DP_OP_PUSH_MEM8)))
			ref_push(r, v);
		else
			ref_raise(r, DP_EX_INVALID_ADDR, addr, 0);
		return true;
	}
	if (opcode >= DP_OP_POP_MEM8 && opcode <= DP_OP_POP_MEM64) {
		v = ref_pop(r);
		addr = ref_pop(r);
		if (dp_hit_write(&r->m->hit, addr, &v, 1u << (opcode - DP_OP_POP_MEM8))) {
			r->m->hit.faults++;
			ref_raise(r, DP_EX_INVALID_ADDR, addr, 0);
		}
		return true;
	}
	if (opcode >= DP_OP_LD8 && opcode <= DP_OP_LD64) {
		n = 1u << (opcode - DP_OP_LD8);
		addr = ref_pop(r) + (u64)op->v[0];
		if (!r->mark)
			r->mark = !load(r, addr, &v, n);
		ref_push(r, v);
		return true;
	}
	if (opcode == DP_OP_VFY_RW) {
		addr = ref_pop(r);
		ref_push(r, dp_hit_read(&r->m->hit, &v, addr, 1) || !dp_hit_writable(&r->m->hit, addr));
		return true;
	}
	if (opcode == DP_OP_VFY_R) {
		ref_push(r, dp_hit_read(&r->m->hit, &v, ref_pop(r), 1) != 0);
		return true;
	}
	return false;
}

static void log_memory(struct ref *r, const struct dp_op_view *op, u64 addr)
{
	u8 bytes[DP_RECORD_MAX] = {0};
	u32 n = (u32)dp_op_operand(op, DP_KIND_LEN);
	bool good;

	r->work -= dp_work_of_memory(n);
	good = !r->mark && load(r, addr + (u64)dp_op_operand(op, DP_KIND_DISP), bytes, n);

	store(r, dp_op_operand(op, DP_KIND_OFF), bytes, n);
	if (!good)
		take_mark(r, dp_op_operand(op, DP_KIND_FIELD));
}

static bool logging(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	const u64 *regs = (const u64 *)&r->m->regs;
	s64 at = dp_op_operand(op, DP_KIND_OFF), keep = dp_op_operand(op, DP_KIND_KEEP);
	u64 v = 0;
	bool mark;
	char name[16];

	switch (opcode) {
	case DP_OP_REC:
	case DP_OP_RECM:
		r->m->hit.log_len = (u32)op->v[0];
		r->mark = false;
		if (opcode == DP_OP_RECM)
			memset(ref_payload(r), 0, 8);
		return true;
	case DP_OP_LOGR8:
	case DP_OP_LOGR16:
	case DP_OP_LOGR32:
	case DP_OP_LOGR64:
		store(r, at, &regs[op->v[0]], 1u << (opcode - DP_OP_LOGR8));
		return true;
	case DP_OP_LOG8:
	case DP_OP_LOG16:
	case DP_OP_LOG32:
	case DP_OP_LOG64:
		v = ref_pop(r);
		store(r, at, &v, 1u << (opcode - DP_OP_LOG8));
		if (r->mark)
			take_mark(r, dp_op_operand(op, DP_KIND_FIELD));
		return true;
	case DP_OP_LOGM: /* does not look at the mark */
		mark = r->mark;
		r->mark = false;
		log_memory(r, op, regs[op->v[0]]);
		r->mark = mark;
		return true;
	case DP_OP_LOGM_S:
		log_memory(r, op, ref_pop(r));
		return true;
	case DP_OP_LOGSTR:
		mark = r->mark;
		r->mark = false;
		log_string(r, at, keep, regs[op->v[0]] + (u64)op->v[1]);
		r->mark = mark;
		return true;
	case DP_OP_LOGSTR_S:
		log_string(r, at, keep, ref_pop(r) + (u64)op->v[0]);
		return true;
	case DP_OP_LOGCOMM:
		dp_hit_comm(&r->m->hit, name);
		log_known(r, at, keep, name, (u32)strnlen(name, 15));
		memcpy(r->scratch, name, 16); /* passes through the same memory */
		return true;
	case DP_OP_LOGTEXT:
		log_known(r, at, keep, (const char *)op->text, (u32)op->v[2]);
		return true;
	case DP_OP_LOGRET:
		if (!load(r, r->m->regs.sp, &v, 8))
			r->m->hit.rec_flags |= DP_REC_FAULTED;
		store(r, at, &v, 8);
		return true;
	}
	return false;
}

static bool needs(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	const u64 *regs = (const u64 *)&r->m->regs;
	bool good;

	if (opcode == DP_OP_NEED)
		good = ref_pop(r) && !r->mark;
	else if (opcode >= DP_OP_NEEDR_EQ && opcode <= DP_OP_NEEDR_GEU)
		good = holds(opcode - DP_OP_NEEDR_EQ, regs[op->v[0]], (u64)op->v[1]);
	else if (opcode >= DP_OP_NEED_EQ && opcode <= DP_OP_NEED_GEU)
		good = holds(opcode - DP_OP_NEED_EQ, ref_pop(r), (u64)op->v[0]) && !r->mark;
	else
		return false;
	if (!good)
		r->stop = r->filtered = true;
	return true;
}

static u32 register_word(struct ref *r, const struct dp_op_view *op)
{
	const struct dp_register *reg = dp_register_by_number((u32)op->v[0]);

	if (!reg || ((op->opcode == DP_OP_POP_R || op->opcode == DP_OP_POP_U) && !reg->writable)) {
		ref_complain(r, "bad register");
		return 0;
	}
	return reg->reg_word;
}

/* The rest: flow, stack, registers, texts. */
static void other(struct ref *r, const struct dp_op_view *op, u32 *next)
{
	u64 *regs = (u64 *)&r->m->regs, x, y;
	u32 steps = 0, reg_word;

	switch (op->opcode) {
	case DP_OP_NOP:
		return;
	case DP_OP_JMP:
		jump(r, op, true, next);
		return;
	case DP_OP_JLT:
	case DP_OP_JLE:
	case DP_OP_JGT:
	case DP_OP_JGE:
	case DP_OP_JZ:
	case DP_OP_JNZ:
		ref_push(r, x = ref_pop(r));
		jump(r, op,
		     op->opcode == DP_OP_JLT   ? (s64)x < 0
		     : op->opcode == DP_OP_JLE ? (s64)x <= 0
		     : op->opcode == DP_OP_JGT ? (s64)x > 0
		     : op->opcode == DP_OP_JGE ? (s64)x >= 0
		     : op->opcode == DP_OP_JZ  ? !x
					       : x != 0,
		     next);
		return;
	case DP_OP_LOOP: {
		u32 fall = *next;

		jump(r, op, true, next);
		if (r->stop || r->raised)
			return;
		ref_push(r, x = ref_pop(r) - 1);
		if (!x)
			*next = fall;
		return;
	}
	case DP_OP_ABORT:
		r->trace_len = 0;
		r->filtered = true;
		r->stop = true;
		return;
	case DP_OP_EXIT:
		r->stop = true;
		return;
	case DP_OP_DIV:
	case DP_OP_IDIV:
		divide(r, op->opcode == DP_OP_IDIV);
		return;
	case DP_OP_XCHG:
		x = ref_pop(r);
		y = ref_pop(r);
		ref_push(r, x);
		ref_push(r, y);
		return;
	case DP_OP_DUP:
		x = ref_pop(r);
		for (s64 i = 0; i < op->v[0]; i++)
			ref_push(r, x);
		return;
	case DP_OP_DUP_S:
		x = ref_pop(r);
		y = ref_pop(r);
		y = y > 1023 ? 1023 : y;
		r->work -= dp_work_of_words((u32)y);
		for (y++; y; y--)
			ref_push(r, x);
		return;
	case DP_OP_ROS:
		r->top -= (u32)op->v[0];
		return;
	case DP_OP_PUSH_PROCID:
		ref_push(r, dp_hit_cpu(&r->m->hit));
		return;
	case DP_OP_PUSH_U:
	case DP_OP_PUSH_R:
		ref_push(r, regs[register_word(r, op)]);
		return;
	case DP_OP_POP_U:
	case DP_OP_POP_R:
		reg_word = register_word(r, op);
		x = ref_pop(r);
		regs[reg_word] = reg_word == DP_REG_WORD(flags) ? (regs[reg_word] & ~0xcd5ull) | (x & 0xcd5) : x;
		return;
	case DP_OP_PUSH_D:
		ref_push(r, (u64)op->v[0]);
		return;
	case DP_OP_PUSH_PID:
		ref_push(r, r->m->ctl.pid);
		return;
	case DP_OP_PUSH_TID:
		ref_push(r, r->m->hit.tid);
		return;
	case DP_OP_PUSH_UID:
		ref_push(r, 4294967294);
		return;
	case DP_OP_PUSH_WID:
		ref_push(r, -64ull);
		return;
	case DP_OP_PUSH_FRAMES:
		for (u32 i = (u32)op->v[0]; i-- > 0;)
			ref_push(r, i < DP_MIN(((u32)op->v[0] + 1) / 2, 5u) ? regs[DP_REG_WORD(ip)] + 0x100 * i : 0);
		return;
	case DP_OP_PUSHR:
		ref_push(r, regs[op->v[0]]);
		return;
	case DP_OP_PUSHR_U8:
	case DP_OP_PUSHR_U16:
	case DP_OP_PUSHR_U32:
		ref_push(r, narrow(regs[op->v[0]], 1u << (op->opcode - DP_OP_PUSHR_U8), false));
		return;
	case DP_OP_PUSHR_S8:
	case DP_OP_PUSHR_S16:
	case DP_OP_PUSHR_S32:
		ref_push(r, narrow(regs[op->v[0]], 1u << (op->opcode - DP_OP_PUSHR_S8), true));
		return;
	case DP_OP_STR:
		load_scratch(r, ref_pop(r), (u32)op->v[0]);
		return;
	case DP_OP_STRCOMM:
		dp_hit_comm(&r->m->hit, r->scratch);
		return;
	case DP_OP_STREQ:
		ref_push(r, strlen(r->scratch) == (u64)op->v[0] && !memcmp(r->scratch, op->text, (u64)op->v[0]));
		return;
	case DP_OP_STRGLOB:
		ref_push(r, matches(r->scratch, op->text, op->text + op->v[0], &steps));
		return;
	}
	ref_complain(r, "opcode that the reference does not know");
}

enum dp_run_result reference_run(struct machine *m, const struct dp_program *p, const char **complaint,
				 const u8 **trace, u32 *trace_len, bool *trace_cut)
{
	static struct ref r; /* large */
	struct dp_op_view op;
	u32 at = 0, next;

	memset(&r, 0, sizeof(r));
	r.m = m;
	r.p = p;
	r.work = m->work;
	/* The machine's memory before the first hit; see machine_init. */
	memset(r.stack, 0xa5, sizeof(r.stack));
	memset(r.scratch, 0xa5, sizeof(r.scratch));
	m->hit.log_len = m->hit.rec_flags = m->hit.faults = m->hit.exceptions = 0;
	while (!r.stop) {
		if (dp_op_decode(p->code, p->len, at, &op) < 0) {
			ref_complain(&r, "control left the instructions");
			break;
		}
		next = at + op.len;
		r.before = r.top;
		r.raised = false;
		r.goes_to = -1;
		if (!ref_spend(&r, dp_op_work(&op)))
			; /* it is not begun */
		else if (op.opcode >= DP_OP_PUSH_GV && op.opcode <= DP_OP_DEC_LV_S)
			variable(&r, op.opcode, &op);
		else if (!arithmetic(&r, op.opcode, &op) && !memory(&r, op.opcode, &op) &&
			 !logging(&r, op.opcode, &op) && !needs(&r, op.opcode, &op) &&
			 !(p->rpn.ex_mask && (ref_log(&r, op.opcode, &op) || ref_machine(&r, op.opcode, &op, &next))))
			other(&r, &op, &next);
		at = r.goes_to >= 0 ? (u32)r.goes_to : next;
	}
	*complaint = r.complaint;
	*trace = p->rpn.ex_mask ? r.trace : NULL;
	*trace_len = r.passed || r.trace_len < 3 ? 0 : r.trace_len;
	*trace_cut = r.trace_full;
	r.trace[1] = (u8)r.ntraces;
	r.trace[2] = (u8)(r.ntraces / 256);
	if (r.passed)
		return DP_RUN_PASSED;
	if (p->rpn.ex_mask && !r.filtered && !m->hit.log_len)
		return DP_RUN_FILTERED;
	return r.filtered ? DP_RUN_FILTERED : DP_RUN_LOG;
}
