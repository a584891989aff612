/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The part of the reference that only RPN programs use. Written from doc/dprobes.lang.md, in another way than
 * src/hit/hit-rpn.c: log and traces are byte strings that are cut at the end, frames and heap blocks are lists of
 * values.
 */
#include <errno.h>
#include <string.h>

#include "reference-priv.h"

#define HEAD ((u32)sizeof(struct dp_rpn_head))

void ref_begin(struct ref *r)
{
	struct machine *m = r->m;
	struct dp_rpn_head head = {.major = r->p->rpn.major,
				   .minor = r->p->rpn.minor,
				   .cs = (u16)m->regs.cs,
				   .ss = (u16)m->regs.ss,
				   .pid = m->ctl.pid,
				   .ip = m->regs.ip,
				   .sp = m->regs.sp};
	u64 max = r->p->rpn.max == DP_MAXHITS_NONE ? ~0ull : r->p->rpn.max, hit = m->gate;

	if (r->p->rpn.pass || max != ~0ull)
		m->gate++;
	if (hit >> 63 || hit < r->p->rpn.pass || (max != ~0ull && hit - r->p->rpn.pass >= max)) {
		r->passed = r->stop = true;
		return;
	}
	r->base = DP_VM_STACK;
	r->depth = 0;
	memset(r->frames, 0, sizeof(r->frames));
	for (u32 i = 0; i <= DP_VM_CALLS; i++)
		r->frames[i].handler = -1;
	m->hit.rec_flags = DP_REC_RPN;
	memcpy(ref_payload(r), &head, sizeof(head));
	m->hit.log_len = r->p->logmax ? HEAD : 0;
}

/* ---- exceptions ---- */

static void unwind(struct ref *r)
{
	r->m->hit.exceptions++;
	if (r->p->rpn.ex_mask & DP_RPN_AUTOTRACE)
		ref_trace(r);
}

static void dispatch(struct ref *r)
{
	if (r->handled++ >= DP_VM_HANDLED) {
		r->stop = true;
		return;
	}
	while (r->frames[r->depth].handler < 0) {
		if (!r->depth) {
			r->stop = true;
			return;
		}
		r->base = r->frames[r->depth].base;
		r->depth--;
	}
	r->goes_to = r->frames[r->depth].handler;
	r->frames[r->depth].handler = -1;
	r->before = r->top;
	ref_spend(r, DP_WORK_HANDLED + r->p->len);
}

void ref_raise(struct ref *r, u32 code, u64 parm1, u64 parm2)
{
	bool enabled = r->p->rpn.ex_mask & code;

	if (!r->p->rpn.ex_mask) {
		r->m->hit.exceptions++;
		r->stop = true;
		r->filtered = !r->m->hit.log_len;
		return;
	}
	r->raised = true;
	r->code = code;
	r->parm1 = parm1;
	r->parm2 = parm2;
	r->top = r->before;
	if (!enabled && code > 0xfff)
		return;
	unwind(r);
	if (!enabled) {
		r->stop = true;
		return;
	}
	ref_push(r, parm2);
	ref_push(r, parm1);
	ref_push(r, code);
	dispatch(r);
}

bool ref_spend(struct ref *r, u32 work)
{
	r->work -= work;
	if (!work || r->work >= 0)
		return true;
	if (!r->spent || !r->p->rpn.ex_mask) {
		r->spent = true;
		r->work = dp_work_reserve(r->m->work);
		ref_raise(r, DP_EX_MAX_WORK, r->m->work, 0);
		return false;
	}
	r->raised = r->stop = true;
	r->code = DP_EX_MAX_WORK;
	r->parm1 = r->m->work;
	r->parm2 = 0;
	unwind(r);
	return false;
}

/* ---- log ---- */

static u32 head_of(const struct ref *r)
{
	return r->p->logmax ? HEAD : 0;
}

static u32 room(const struct ref *r)
{
	return r->p->logmax + head_of(r) - r->m->hit.log_len;
}

static void append(struct ref *r, const void *p, u32 n)
{
	memcpy(ref_payload(r) + r->m->hit.log_len, p, n);
	r->m->hit.log_len += n;
}

static void item(struct ref *r, int token, u32 count, const void *p, u32 bytes)
{
	u8 prefix[3] = {(u8)token, (u8)count, (u8)(count / 256)};

	r->plp = r->m->hit.log_len - head_of(r);
	r->m->hit.rec_flags |= DP_REC_ITEMS;
	append(r, prefix, 3);
	append(r, p, bytes);
}

static void overflow(struct ref *r)
{
	r->before = r->top; /* operands are gone */
	r->m->hit.rec_flags |= DP_REC_TRUNCATED;
	ref_raise(r, DP_EX_LOG_OVERFLOW, r->p->logmax, 0);
}

static void bad_address(struct ref *r, u64 addr)
{
	r->before = r->top;
	r->m->hit.faults++;
	if (room(r) >= 11)
		item(r, -1, 8, &addr, 8);
	ref_raise(r, DP_EX_INVALID_ADDR, addr, 0);
}

static void log_str(struct ref *r, u64 len, u64 addr)
{
	u8 text[DP_RECORD_MAX] = {0};
	u32 n = 0, most;
	char two[2];

	if (room(r) < 3) {
		overflow(r);
		return;
	}
	most = len < room(r) - 3 ? (u32)len : room(r) - 3;
	for (; n < most; n++) { /* one character at a time */
		if (dp_hit_read_str(&r->m->hit, two, addr + n, 2) < 0) {
			if (!n) {
				bad_address(r, addr);
				return;
			}
			break;
		}
		if (!two[0])
			break;
		text[n] = (u8)two[0];
	}
	two[0] = 0;
	if (n == most && most < len && dp_hit_read_str(&r->m->hit, two, addr + n, 2) < 0) {
		if (!n) {
			bad_address(r, addr);
			return;
		}
		two[0] = 0;
	}
	item(r, DP_TOKEN_ASCII, n, text, n);
	r->work -= dp_work_of_text(n);
	if (n == most && most < len && two[0]) /* a text that ends just there is whole */
		overflow(r);
}

static void log_mrf(struct ref *r, u64 len, u64 addr)
{
	u8 bytes[DP_RECORD_MAX];
	u32 n;

	if (room(r) < 3) {
		overflow(r);
		return;
	}
	n = len < room(r) - 3 ? (u32)len : room(r) - 3;
	if (n < len)
		r->m->hit.rec_flags |= DP_REC_TRUNCATED;
	if (n && dp_hit_read(&r->m->hit, bytes, addr, n))
		bad_address(r, addr);
	else {
		item(r, DP_TOKEN_MEMORY, n, bytes, n);
		r->work -= dp_work_of_memory(n);
	}
}

static void log_words(struct ref *r, const u64 *v, u64 n, int token)
{
	u32 prefix = token < 0 ? 0 : 3, fit;

	if (room(r) < prefix) {
		overflow(r);
		return;
	}
	fit = (room(r) - prefix) / 8 < n ? (room(r) - prefix) / 8 : (u32)n;
	if (prefix) {
		item(r, token, fit, v, 8 * fit);
		r->work -= dp_work_of_words(fit);
	} else {
		r->plp = r->m->hit.log_len - head_of(r);
		r->m->hit.rec_flags |= DP_REC_BARE;
		append(r, v, 8 * fit);
	}
	if (fit < n)
		overflow(r);
}

static bool in_range(struct ref *r, u64 first, u64 n, bool local)
{
	u64 have = local ? r->p->nlocals : r->p->nglobals;

	if (first <= have && n <= have - first)
		return true;
	ref_raise(r, DP_EX_INVALID_OPERAND, local ? 1 : 2, first > have ? first : have);
	return false;
}

static void log_popped(struct ref *r, u64 n, int token)
{
	u64 words[1024];

	for (u32 i = 0; i < DP_VM_STACK; i++)
		words[i] = r->stack[(r->top - 1 - i) % DP_VM_STACK];
	r->top -= (u32)n;
	log_words(r, words, n, token);
}

bool ref_log(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	struct dp_rpn_head *head = (struct dp_rpn_head *)ref_payload(r);
	bool local = opcode == DP_OP_LOG_LV;
	u64 x, y;

	switch (opcode) {
	case DP_OP_SETMIN:
		head->minor = (u16)op->v[0];
		return true;
	case DP_OP_SETMIN_S:
		head->minor = (u16)ref_pop(r);
		return true;
	case DP_OP_SETMAJ:
		head->major = (u16)op->v[0];
		return true;
	case DP_OP_SETMAJ_S:
		head->major = (u16)ref_pop(r);
		return true;
	case DP_OP_LOG_STR:
	case DP_OP_LOG_MRF:
		y = ref_pop(r);
		x = ref_pop(r);
		(opcode == DP_OP_LOG_STR ? log_str : log_mrf)(r, x, y);
		return true;
	case DP_OP_LOG:
		log_popped(r, (u64)op->v[0], -1);
		return true;
	case DP_OP_LOG_S:
		log_popped(r, ref_pop(r), DP_TOKEN_WORDS);
		return true;
	case DP_OP_LOG_LV:
	case DP_OP_LOG_GV:
		y = ref_pop(r);
		x = ref_pop(r);
		r->before = r->top;
		if (in_range(r, x, y, local))
			log_words(r, (local ? r->m->locals : r->m->globals) + x, y,
				  local ? DP_TOKEN_LOCALS : DP_TOKEN_GLOBALS);
		return true;
	case DP_OP_PUSH_LP:
		ref_push(r, r->m->hit.log_len - head_of(r));
		return true;
	case DP_OP_PUSH_PLP:
		ref_push(r, r->plp);
		return true;
	case DP_OP_POP_LP:
		x = ref_pop(r);
		if (x > r->m->hit.log_len - head_of(r))
			ref_raise(r, DP_EX_INVALID_OPERAND, 5, x);
		else
			r->m->hit.log_len = head_of(r) + (u32)x;
		if (!x)
			r->m->hit.rec_flags &= ~(u32)(DP_REC_ITEMS | DP_REC_BARE);
		return true;
	}
	return false;
}

/* ---- stack traces: complete first, then cut between pieces ---- */

static void piece(struct ref *r, const void *p, u32 n)
{
	if (r->trace_full || r->trace_len + n > r->p->rpn.ex_logmax) {
		r->trace_full = true;
		return;
	}
	memcpy(r->trace + r->trace_len, p, n);
	r->trace_len += n;
}

static void word(struct ref *r, u64 v)
{
	piece(r, &v, 8);
}

static void counted(struct ref *r, int token, u32 n)
{
	u8 prefix[3] = {(u8)token, (u8)n, (u8)(n / 256)};

	piece(r, prefix, 3);
}

void ref_trace(struct ref *r)
{
	u32 base = r->base;
	s64 handler = -1;

	for (u32 i = 0; i <= r->depth; i++)
		if (r->frames[i].handler >= 0)
			handler = r->frames[i].handler;
	if (!r->trace_len) {
		r->ntraces = 0;
		counted(r, 2, 0);
	}
	r->ntraces++;
	word(r, r->code);
	word(r, (u64)handler);
	word(r, r->parm1);
	word(r, r->parm2);
	counted(r, 3, r->depth + 1);
	for (s32 d = (s32)r->depth; d >= 0; d--) {
		const struct ref_frame *f = &r->frames[d];

		word(r, d ? f->called : 0);
		word(r, d ? f->ret : ~0ull);
		counted(r, 4, f->n[0]);
		for (u32 i = 0; i < f->n[0]; i++)
			word(r, r->stack[(DP_VM_STACK - 1 - (base + f->at[0] + i)) % DP_VM_STACK]);
		for (u32 k = 1; k < 3; k++) {
			counted(r, 4 + (int)k, f->n[k]);
			for (u32 i = 0; i < f->n[k]; i++)
				word(r, (k == 1 ? r->m->locals : r->m->globals)[f->at[k] + i]);
		}
		base = f->base;
	}
}

static void set_trace(struct ref *r, u32 k)
{
	struct ref_frame *f = &r->frames[r->depth];
	u64 n = ref_pop(r), first = ref_pop(r);

	if (k && !in_range(r, first, n, k == 1))
		return;
	f->n[k] = n > DP_VM_STACK ? DP_VM_STACK : (u32)n;
	f->at[k] = (u32)first;
}

/* ---- heap: blocks in order of their places; a gap that is free needs room for its own word ---- */

#define ARENA (2 * DP_HEAP_MAX)

static s32 block_of(const struct ref *r, u64 handle)
{
	for (u32 i = 0; i < r->nblocks; i++)
		if (r->blocks[i].at == handle)
			return (s32)i;
	return -1;
}

static void allocate(struct ref *r)
{
	u64 asked = ref_pop(r), live = 0;
	u32 at = 8, size, i, limit = r->p->rpn.heap;

	for (i = 0; i < r->nblocks; i++)
		live += r->blocks[i].asked;
	if (asked > limit - live) {
		ref_raise(r, DP_EX_HEAP_NOMEM, asked, 0);
		return;
	}
	size = ((u32)asked + 7) / 8 * 8;
	for (i = 0; i < r->nblocks; i++) {
		u32 next = r->blocks[i].at;

		if (next - 8 > at - 8 && next - 8 - at >= size)
			break;
		at = next + (r->blocks[i].asked + 7) / 8 * 8 + 8;
	}
	if (at > ARENA || at + size > ARENA || r->nblocks == REF_BLOCKS) {
		if (r->nblocks == REF_BLOCKS)
			ref_complain(r, "more blocks than the reference has");
		ref_raise(r, DP_EX_HEAP_NOMEM, asked, 0);
		return;
	}
	memmove(&r->blocks[i + 1], &r->blocks[i], (r->nblocks - i) * sizeof(r->blocks[0]));
	r->blocks[i] = (struct ref_block){at, (u32)asked};
	r->nblocks++;
	memset(r->heap + at, 0, size);
	r->work -= dp_work_of_walk(at + size);
	ref_push(r, at);
}

static void heap_access(struct ref *r, u32 width, u32 n, bool store)
{
	u64 offset = ref_pop(r), handle = ref_pop(r), v;
	s32 i = block_of(r, handle);

	if (i < 0) {
		ref_raise(r, DP_EX_HEAP_INVALID_HANDLE, handle, offset);
		return;
	}
	if (offset > r->blocks[i].asked || (u64)n * width > r->blocks[i].asked - offset) {
		ref_raise(r, DP_EX_HEAP_INVALID_OFFSET, handle, offset);
		return;
	}
	r->work -= dp_work_of_walk(handle);
	for (u32 k = 0; k < n; k++) {
		if (store) {
			v = ref_pop(r);
			memcpy(r->heap + handle + offset + (n - 1 - k) * width, &v, width);
		} else {
			v = 0;
			memcpy(&v, r->heap + handle + offset + k * width, width);
			ref_push(r, v);
		}
	}
}

/* ---- words from the base or the top ---- */

static u64 *relative(struct ref *r, u32 from, s64 i)
{
	return &r->stack[(DP_VM_STACK - 1 - (from + (u32)i)) % DP_VM_STACK];
}

static u32 top_index(const struct ref *r)
{
	return DP_VM_STACK - r->top;
}

static bool relative_access(struct ref *r, u32 opcode, const struct dp_op_view *op)
{
	static const u16 ops[2][6] = {
	    {DP_OP_PUSH_SBP, DP_OP_POP_SBP, DP_OP_COPY_SBP, DP_OP_PUSH_SBP_S, DP_OP_POP_SBP_S, DP_OP_COPY_SBP_S},
	    {DP_OP_PUSH_TSP, DP_OP_POP_TSP, DP_OP_COPY_TSP, DP_OP_PUSH_TSP_S, DP_OP_POP_TSP_S, DP_OP_COPY_TSP_S},
	};

	for (u32 w = 0; w < 2; w++)
		for (u32 k = 0; k < 6; k++) {
			s64 i = k < 3 ? op->v[0] : 0;
			u64 v = 0;

			if (ops[w][k] != opcode)
				continue;
			if (k % 3 == 1)
				v = ref_pop(r);
			if (k >= 3)
				i = (s64)ref_pop(r);
			if (k % 3 == 2)
				v = r->stack[(r->top - 1) % DP_VM_STACK];
			if (k % 3 == 0)
				ref_push(r, *relative(r, w ? top_index(r) : r->base, i));
			else
				*relative(r, w ? top_index(r) : r->base, i) = v;
			return true;
		}
	return false;
}

/* ---- the processor: what fxsave writes, as the tests' machine does, by the manual's layout ---- */

static u64 area_bytes(u32 at, u32 n)
{
	u64 v = 0;

	for (u32 i = n; i-- > 0;)
		v = v << 8 | (u8)(at + i + (at + i) / 256);
	return v;
}

static u64 state_word(u32 number)
{
	switch (number) {
	case 0x46:
		return area_bytes(0, 2); /* fcw */
	case 0x47:
		return area_bytes(2, 2); /* fsw */
	case 0x48:
		return area_bytes(4, 1); /* ftw */
	case 0x49:
		return area_bytes(8, 8); /* fip */
	case 0x4b:
		return area_bytes(16, 8); /* fdp */
	case 0x55:
		return area_bytes(24, 4); /* mxcsr */
	case 0x19:
		return 0x74; /* fs_base */
	case 0x1a:
		return 0x75; /* gs_base */
	default:
		return 0x70 + number - 1; /* ds, es, fs, gs */
	}
}

bool ref_machine(struct ref *r, u32 opcode, const struct dp_op_view *op, u32 *next)
{
	struct ref_frame *f = &r->frames[r->depth];
	u64 x = 0;

	if (relative_access(r, opcode, op))
		return true;
	if (opcode >= DP_OP_PUSH_HEAP8 && opcode <= DP_OP_PUSH_HEAP64) {
		heap_access(r, 1u << (opcode - DP_OP_PUSH_HEAP8), (u32)op->v[0], false);
		return true;
	}
	if (opcode >= DP_OP_POP_HEAP8 && opcode <= DP_OP_POP_HEAP64) {
		heap_access(r, 1u << (opcode - DP_OP_POP_HEAP8), (u32)op->v[0], true);
		return true;
	}
	switch (opcode) {
	case DP_OP_PUSH_STATE:
		ref_push(r, state_word((u32)op->v[0]));
		return true;
	case DP_OP_PUSH_STATE2:
		x = (u64)op->v[0];
		x = x < 0x4d ? 32 + 16 * (x - 0x3e) : x < 0x55 ? 160 + 16 * (x - 0x4d) : 288 + 16 * (x - 0x56);
		ref_push(r, area_bytes((u32)x + 8, 8));
		ref_push(r, area_bytes((u32)x, 8));
		return true;
	case DP_OP_PUSH_CPUID:
		x = (u32)ref_pop(r);
		for (u32 i = 4; i-- > 0;)
			ref_push(r, (u32)(x + i));
		return true;
	case DP_OP_PUSH_PPID:
		ref_raise(r, DP_EX_INVALID_OPERAND, 6, 1);
		return true;
	case DP_OP_PUSH_NS:
		ref_push(r, 1000000);
		return true;
	case DP_OP_PUSH_TEXT: {
		char words[DP_SCRATCH_SIZE] = "";
		u64 word;

		memcpy(words, r->scratch, strnlen(r->scratch, sizeof(words)));
		for (u32 i = 0; i < (u32)op->v[0]; i++) {
			memcpy(&word, words + 8 * i, 8);
			ref_push(r, word);
		}
		return true;
	}
	case DP_OP_PUSH_CHAIN:
		ref_chain(r, (u32)op->v[0], (u32)op->v[1], (u32)op->v[2]);
		return true;
	case DP_OP_FIND_LV:
		ref_find(r, (u32)op->v[0], (u32)op->v[1], (u32)op->v[2], (u32)op->v[3]);
		return true;
	case DP_OP_FOLD_LV:
		ref_fold(r, (u32)op->v[0] & ~(u32)DP_FOLD_APART);
		return true;
	case DP_OP_BEGIN:
		ref_begin(r);
		return true;
	case DP_OP_CALL:
		if (op->v[0] < *next && !ref_spend(r, *next - (u32)op->v[0]))
			return true;
		if (r->depth == DP_VM_CALLS) {
			ref_raise(r, DP_EX_CALL_STACK_OVERFLOW, DP_VM_CALLS, 0);
		} else if (r->calls == DP_VM_CALLS_TOTAL) {
			ref_raise(r, DP_EX_MAX_JMPS, DP_VM_CALLS_TOTAL, 0);
		} else {
			r->calls++;
			r->frames[++r->depth] = (struct ref_frame){r->base, -1, (u32)op->v[0], *next, {0}, {0}};
			r->work += op->v[0] > *next ? (u32)op->v[0] - *next : 0;
			*next = (u32)op->v[0];
		}
		return true;
	case DP_OP_RET:
		if (!r->depth) {
			ref_raise(r, DP_EX_CALL_STACK_OVERFLOW, 0, 0);
		} else {
			r->base = f->base;
			r->work -= *next > f->ret ? *next - f->ret : 0;
			*next = f->ret;
			r->depth--;
		}
		return true;
	case DP_OP_REMOVE:
		r->m->gate |= 1ull << 63;
		r->stop = true;
		return true;
	case DP_OP_EXIT_TO:
		r->m->hit.rec_flags |= DP_REC_EXIT;
		r->stop = true;
		return true;
	case DP_OP_CALL_EXIT:
	case DP_OP_CALL_EXIT_N: /* nobody has registered any */
		ref_raise(r, DP_EX_INVALID_OPERAND, DP_BAD_FACILITY, ENOENT);
		return true;
	case DP_OP_SAVE_SBP:
		ref_push(r, r->base);
		return true;
	case DP_OP_RESTORE_SBP:
		r->base = (u32)ref_pop(r);
		return true;
	case DP_OP_SAVE_TSP:
		ref_push(r, top_index(r));
		return true;
	case DP_OP_RESTORE_TSP:
		r->top = DP_VM_STACK - (u32)ref_pop(r);
		return true;
	case DP_OP_SX:
		f->handler = op->v[0];
		return true;
	case DP_OP_UX:
		f->handler = -1;
		return true;
	case DP_OP_RX:
		r->code = r->stack[(r->top - 1) % DP_VM_STACK];
		r->parm1 = r->stack[(r->top - 2) % DP_VM_STACK];
		r->parm2 = r->stack[(r->top - 3) % DP_VM_STACK];
		r->raised = true;
		unwind(r);
		dispatch(r);
		return true;
	case DP_OP_PUSH_X:
		ref_push(r, r->parm2);
		ref_push(r, r->parm1);
		ref_push(r, r->code);
		return true;
	case DP_OP_LOG_ST:
		ref_trace(r);
		return true;
	case DP_OP_PURGE_ST:
		r->trace_len = 0;
		r->trace_full = false;
		return true;
	case DP_OP_TRACE_PV:
		set_trace(r, 0);
		return true;
	case DP_OP_TRACE_LV:
		set_trace(r, 1);
		return true;
	case DP_OP_TRACE_GV:
		set_trace(r, 2);
		return true;
	case DP_OP_PUSH_STP:
		ref_push(r, r->trace_len);
		return true;
	case DP_OP_POP_STP:
		x = ref_pop(r);
		if (x > r->trace_len) {
			ref_raise(r, DP_EX_INVALID_OPERAND, 5, x);
		} else {
			r->trace_len = (u32)x;
			r->trace_full = false;
		}
		return true;
	case DP_OP_MALLOC:
		allocate(r);
		return true;
	case DP_OP_FREE:
		x = ref_pop(r);
		if (block_of(r, x) < 0) {
			ref_raise(r, DP_EX_HEAP_INVALID_HANDLE, x, 0);
		} else {
			s32 i = block_of(r, x);

			r->work -= dp_work_of_walk(x);
			r->nblocks--;
			memmove(&r->blocks[i], &r->blocks[i + 1], (r->nblocks - (u32)i) * sizeof(r->blocks[0]));
		}
		return true;
	}
	return false;
}
