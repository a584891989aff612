/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See rpn.h. Freestanding like all of the hit path; runs verified programs only, but nothing here
 * relies on more than sizes. */
#include "abi/abi-control.h"
#include "hit/hit-rpn.h"
#include "program/work.h"

#define HEAD ((u32)sizeof(struct dp_rpn_head))
#define PREFIX 3u
#define NO_OFFSET (~0ull)

typedef u16 __attribute__((aligned(1), may_alias)) any_u16;
typedef u64 __attribute__((aligned(1), may_alias)) any_u64;

static struct dp_rpn_state *state(const struct dp_hit *h)
{
	return &h->vm->rpn;
}

static u8 *payload_of(const struct dp_hit *h)
{
	return (u8 *)h->vm->record + sizeof(struct dp_record);
}

struct dp_rpn_head *dp_rpn_head(struct dp_hit *h)
{
	return (struct dp_rpn_head *)payload_of(h);
}

/* volatile keeps the compiler from making calls of these loops. */
static void copy(u8 *to, const u8 *from, u32 n)
{
	for (u32 i = 0; i < n; i++)
		((volatile u8 *)to)[i] = from[i];
}

bool dp_rpn_begin(struct dp_hit *h)
{
	const struct dp_code_rt *prog = h->prog;
	struct dp_rpn_state *s = state(h);
	struct dp_rpn_head *head = dp_rpn_head(h);

	if (prog->max == DP_NO_LIMIT && !prog->pass) {
		/*
		 * Nothing depends on the number of hits, so it is not counted: an atomic operation costs more than most
		 * programs.
		 */
		if (prog->gate && __atomic_load_n((u64 *)prog->gate, __ATOMIC_RELAXED) & DP_GATE_REMOVED)
			return false;
	} else if (prog->gate) {
		/* Alone in its word, and read by people only: no order is needed. */
		u64 n = __atomic_fetch_add((u64 *)prog->gate, 1, __ATOMIC_RELAXED);

		if (n >= DP_GATE_REMOVED || n < prog->pass || n - prog->pass >= prog->max)
			return false;
	}
	s->base = DP_VM_STACK;
	s->depth = 0;
	s->calls = 0;
	s->handled = 0;
	s->plp = 0;
	s->trace_len = 0;
	s->trace_full = 0;
	s->ntraces = 0;
	s->heap_ready = 0;
	s->fx_ready = 0;
	s->spent = 0;
	s->code = s->parm1 = s->parm2 = 0;
	s->frames[0] = (struct dp_frame){0};
	head->major = prog->major;
	head->minor = prog->minor;
	head->cs = (u16)h->regs->cs;
	head->ss = (u16)h->regs->ss;
	head->pid = prog->logmax ? dp_hit_pid(h) : h->ctl->pid;
	head->pad = 0;
	head->ip = h->regs->ip;
	head->sp = h->regs->sp;
	h->rec_flags = DP_REC_RPN;
	h->log_len = prog->logmax < HEAD ? 0 : HEAD;
	return true;
}

enum dp_run_result dp_rpn_end(struct dp_hit *h)
{
	/* A program without a log; one that logged nothing has a record all the same. */
	if (!h->log_len)
		return DP_RUN_FILTERED;
	dp_rpn_head(h)->pad = (-h->log_len & 7) | h->core;
	return DP_RUN_LOG;
}

/* ---- log items ---- */

static u32 room(const struct dp_hit *h)
{
	return h->prog->logmax > h->log_len ? h->prog->logmax - h->log_len : 0;
}

static u32 head_of(const struct dp_hit *h)
{
	return h->prog->logmax < HEAD ? 0 : HEAD;
}

u32 dp_rpn_position(const struct dp_hit *h)
{
	return h->log_len - head_of(h);
}

u32 dp_rpn_go_back(struct dp_hit *h, u64 position)
{
	if (position > dp_rpn_position(h))
		return dp_rpn_failed(h, DP_EX_INVALID_OPERAND, DP_BAD_POSITION, position);
	if (!position)
		h->rec_flags &= ~(DP_REC_ITEMS | DP_REC_BARE);
	h->log_len = head_of(h) + (u32)position;
	return 0;
}

static u32 overflow(struct dp_hit *h)
{
	h->rec_flags |= DP_REC_TRUNCATED;
	return dp_rpn_failed(h, DP_EX_LOG_OVERFLOW, h->prog->logmax - head_of(h), 0);
}

/* The prefix of an item whose `bytes` bytes stand behind it already. */
static void end_item(struct dp_hit *h, int token, u32 count, u32 bytes)
{
	u8 *p = payload_of(h) + h->log_len;

	state(h)->plp = dp_rpn_position(h);
	p[0] = (u8)token;
	*(any_u16 *)(p + 1) = (u16)count;
	h->rec_flags |= DP_REC_ITEMS;
	h->log_len += PREFIX + bytes;
}

static u32 bad_address(struct dp_hit *h, u64 addr)
{
	h->faults++;
	if (room(h) >= PREFIX + 8) {
		*(any_u64 *)(payload_of(h) + h->log_len + PREFIX) = addr;
		end_item(h, DP_TOKEN_FAULT, 8, 8);
	}
	return dp_rpn_failed(h, DP_EX_INVALID_ADDR, addr, 0);
}

u32 dp_rpn_log_str(struct dp_hit *h, u64 len, u64 addr)
{
	u8 chunk[256]; /* not the scratch memory, which may hold a text of the program */
	u32 most, done = 0;
	int more;

	if (room(h) < PREFIX)
		return overflow(h);
	most = (u32)DP_MIN(len, (u64)(room(h) - PREFIX));
	while (done < most) {
		u32 want = DP_MIN(most - done, (u32)sizeof(chunk) - 1);
		int n = dp_hit_read_str(h, (char *)chunk, addr + done, want + 1);

		if (n < 0 && !done)
			return bad_address(h, addr);
		if (n <= 1) /* the end, or the end of what can be read */
			break;
		copy(payload_of(h) + h->log_len + PREFIX + done, chunk, (u32)n - 1);
		done += (u32)n - 1;
		if ((u32)n - 1 < want)
			break;
	}
	/* A text that ends where the room does is complete. */
	more = done == most && most < len ? dp_hit_read_str(h, (char *)chunk, addr + done, 2) : 0;
	if (more < 0 && !done)
		return bad_address(h, addr);
	end_item(h, DP_TOKEN_ASCII, done, done);
	h->work -= dp_work_of_text(done);
	return more > 1 ? overflow(h) : 0;
}

u32 dp_rpn_log_mrf(struct dp_hit *h, u64 len, u64 addr)
{
	u32 n;

	if (room(h) < PREFIX)
		return overflow(h);
	n = (u32)DP_MIN(len, (u64)(room(h) - PREFIX));
	if (n < len)
		h->rec_flags |= DP_REC_TRUNCATED;
	if (n && dp_hit_read(h, payload_of(h) + h->log_len + PREFIX, addr, n))
		return bad_address(h, addr);
	end_item(h, DP_TOKEN_MEMORY, n, n);
	h->work -= dp_work_of_memory(n);
	return 0;
}

u32 dp_rpn_log_stack(struct dp_hit *h, u32 sp, u64 n, int token)
{
	u32 prefix = token < 0 ? 0 : PREFIX, fit;
	u8 *to;

	if (room(h) < prefix)
		return overflow(h);
	fit = (u32)DP_MIN(n, (u64)((room(h) - prefix) / 8));
	to = payload_of(h) + h->log_len + prefix;
	for (u32 i = 0; i < fit; i++)
		*(any_u64 *)(to + 8 * i) = h->vm->stack[(sp + i) & (DP_VM_STACK - 1)];
	if (prefix) {
		end_item(h, token, fit, 8 * fit);
		h->work -= dp_work_of_words(fit);
	} else {
		state(h)->plp = dp_rpn_position(h);
		h->rec_flags |= DP_REC_BARE;
		h->log_len += 8 * fit;
	}
	return fit < n ? overflow(h) : 0;
}

static u64 *variables(struct dp_hit *h, int token, u64 *n)
{
	*n = token == DP_TOKEN_LOCALS ? h->prog->nlocals : h->prog->nglobals;
	return (u64 *)(token == DP_TOKEN_LOCALS ? h->prog->locals : h->prog->globals);
}

static u32 check_range(struct dp_hit *h, u64 first, u64 n, int token)
{
	u64 have;

	variables(h, token, &have);
	if (first <= have && n <= have - first)
		return 0;
	return dp_rpn_failed(h, DP_EX_INVALID_OPERAND, token == DP_TOKEN_LOCALS ? DP_BAD_LOCAL : DP_BAD_GLOBAL,
			     DP_MAX(first, have));
}

u32 dp_rpn_log_vars(struct dp_hit *h, u64 first, u64 n, int token)
{
	u64 have, *v = variables(h, token, &have);
	u32 code = check_range(h, first, n, token), fit;
	u8 *to;

	if (code)
		return code;
	if (room(h) < PREFIX)
		return overflow(h);
	fit = (u32)DP_MIN(n, (u64)((room(h) - PREFIX) / 8));
	to = payload_of(h) + h->log_len + PREFIX;
	for (u32 i = 0; i < fit; i++)
		*(any_u64 *)(to + 8 * i) = v[first + i];
	end_item(h, token, fit, 8 * fit);
	h->work -= dp_work_of_words(fit);
	return fit < n ? overflow(h) : 0;
}

/* ---- frames and exceptions ---- */

u32 dp_rpn_call(struct dp_hit *h, u32 called, u32 ret)
{
	struct dp_rpn_state *s = state(h);
	struct dp_frame *f;

	if (s->depth == DP_VM_CALLS)
		return dp_rpn_failed(h, DP_EX_CALL_STACK_OVERFLOW, DP_VM_CALLS, 0);
	if (s->calls == DP_VM_CALLS_TOTAL)
		return dp_rpn_failed(h, DP_EX_MAX_JMPS, DP_VM_CALLS_TOTAL, 0);
	s->calls++;
	f = &s->frames[++s->depth];
	*f = (struct dp_frame){.base = s->base, .called = called, .ret = ret};
	return 0;
}

u32 dp_rpn_ret(struct dp_hit *h)
{
	struct dp_rpn_state *s = state(h);

	if (!s->depth)
		return dp_rpn_failed(h, DP_EX_CALL_STACK_OVERFLOW, 0, 0);
	s->base = s->frames[s->depth].base;
	s->next = s->frames[s->depth--].ret;
	return 0;
}

/* Leave frames until one has a handler; it serves once. */
static enum dp_raised dispatch(struct dp_hit *h)
{
	struct dp_rpn_state *s = state(h);

	if (s->handled == DP_VM_HANDLED)
		return DP_RAISED_STOP; /* handlers that set themselves anew and fail for ever */
	s->handled++;
	for (;;) {
		struct dp_frame *f = &s->frames[s->depth];

		if (f->handler) {
			s->next = f->handler - 1;
			f->handler = 0;
			return DP_RAISED_HANDLED;
		}
		if (!s->depth)
			return DP_RAISED_STOP;
		s->base = f->base;
		s->depth--;
	}
}

enum dp_raised dp_rpn_raise(struct dp_hit *h, u32 sp)
{
	struct dp_rpn_state *s = state(h);
	u64 *stack = h->vm->stack;
	bool enabled = h->prog->ex_mask & s->code & 0xffff;

	s->top = sp;
	if (!enabled && !(s->code & DP_EX_NONMASKABLE))
		return DP_RAISED_IGNORED;
	h->exceptions++;
	if (h->prog->ex_mask & DP_RPN_AUTOTRACE)
		dp_rpn_trace(h);
	if (!enabled)
		return DP_RAISED_STOP;
	stack[--sp & (DP_VM_STACK - 1)] = s->parm2;
	stack[--sp & (DP_VM_STACK - 1)] = s->parm1;
	stack[--sp & (DP_VM_STACK - 1)] = s->code;
	s->top = sp;
	return dispatch(h);
}

enum dp_raised dp_rpn_spent(struct dp_hit *h, u32 sp)
{
	struct dp_rpn_state *s = state(h);

	dp_rpn_failed(h, DP_EX_MAX_WORK, h->prog->work, 0);
	s->code = DP_EX_MAX_WORK;
	if (!s->spent) {
		s->spent = 1;
		h->work = dp_work_reserve(h->prog->work);
		return dp_rpn_raise(h, sp);
	}
	h->exceptions++;
	if (h->prog->ex_mask & DP_RPN_AUTOTRACE)
		dp_rpn_trace(h);
	return DP_RAISED_STOP;
}

enum dp_raised dp_rpn_reraise(struct dp_hit *h, u32 sp)
{
	struct dp_rpn_state *s = state(h);

	s->code = h->vm->stack[sp & (DP_VM_STACK - 1)];
	s->parm1 = h->vm->stack[(sp + 1) & (DP_VM_STACK - 1)];
	s->parm2 = h->vm->stack[(sp + 2) & (DP_VM_STACK - 1)];
	h->exceptions++;
	if (h->prog->ex_mask & DP_RPN_AUTOTRACE)
		dp_rpn_trace(h);
	return dispatch(h);
}

/* ---- stack traces ---- */

static void emit(struct dp_hit *h, const void *p, u32 n)
{
	struct dp_rpn_state *s = state(h);
	u32 most = DP_MIN(h->prog->ex_logmax, (u32)DP_EX_LOG_MAX);

	/* Whole pieces; once one did not fit, nothing more does. */
	if (s->trace_full || most - s->trace_len < n) {
		s->trace_full = 1;
		return;
	}
	copy((u8 *)s->trace + s->trace_len, p, n);
	s->trace_len += n;
}

static void emit_word(struct dp_hit *h, u64 v)
{
	emit(h, &v, 8);
}

static void emit_prefix(struct dp_hit *h, int token, u32 count)
{
	u8 p[PREFIX] = {(u8)token, (u8)count, (u8)(count >> 8)};

	emit(h, p, PREFIX);
}

static void emit_vars(struct dp_hit *h, const struct dp_trace_range *range, int token)
{
	u64 have, *v = variables(h, token, &have);

	emit_prefix(h, token, range->n);
	for (u32 i = 0; i < range->n && !state(h)->trace_full; i++)
		emit_word(h, v[(u32)range->at + i]); /* checked when it was set */
}

static void emit_frame(struct dp_hit *h, u32 depth, u32 base)
{
	const struct dp_frame *f = &state(h)->frames[depth];

	emit_word(h, depth ? f->called : 0);
	emit_word(h, depth ? f->ret : NO_OFFSET);
	emit_prefix(h, DP_TOKEN_STACK, f->stack.n);
	for (u32 i = 0; i < f->stack.n && !state(h)->trace_full; i++)
		emit_word(h, h->vm->stack[(base + (u32)f->stack.at + i) & (DP_VM_STACK - 1)]);
	emit_vars(h, &f->locals, DP_TOKEN_LOCALS);
	emit_vars(h, &f->globals, DP_TOKEN_GLOBALS);
}

void dp_rpn_trace(struct dp_hit *h)
{
	struct dp_rpn_state *s = state(h);
	u32 base = s->base, d = s->depth;
	u64 handler = NO_OFFSET;

	for (u32 i = d + 1; i-- > 0;)
		if (s->frames[i].handler) {
			handler = s->frames[i].handler - 1;
			break;
		}
	if (!s->trace_len) {
		s->ntraces = 0;
		emit_prefix(h, DP_TOKEN_TRACES, 0);
	}
	s->ntraces++;
	emit_word(h, s->code);
	emit_word(h, handler);
	emit_word(h, s->parm1);
	emit_word(h, s->parm2);
	emit_prefix(h, DP_TOKEN_FRAMES, d + 1);
	for (u32 i = d + 1; i-- > 0;) {
		emit_frame(h, i, base);
		base = s->frames[i].base;
	}
}

u32 dp_rpn_trace_vars(struct dp_hit *h, u64 first, u64 n, int token)
{
	struct dp_frame *f = &state(h)->frames[state(h)->depth];
	struct dp_trace_range range = {(u32)DP_MIN(n, (u64)DP_VM_STACK), (s32)first};
	u32 code;

	if (token == DP_TOKEN_STACK) {
		f->stack = range;
		return 0;
	}
	code = check_range(h, first, n, token);
	if (!code)
		*(token == DP_TOKEN_LOCALS ? &f->locals : &f->globals) = range;
	return code;
}

u32 dp_rpn_trace_back(struct dp_hit *h, u64 position)
{
	if (position > state(h)->trace_len)
		return dp_rpn_failed(h, DP_EX_INVALID_OPERAND, DP_BAD_POSITION, position);
	state(h)->trace_len = (u32)position;
	state(h)->trace_full = 0;
	return 0;
}

bool dp_vm_trace(struct dp_hit *h)
{
	struct dp_rpn_state *s = state(h);
	struct dp_rpn_head *head = dp_rpn_head(h);

	if (s->trace_len < PREFIX)
		return false;
	*(any_u16 *)((u8 *)s->trace + 1) = (u16)s->ntraces;
	copy(payload_of(h) + HEAD, (const u8 *)s->trace, s->trace_len);
	head->major = head->minor = 0;
	h->log_len = HEAD + s->trace_len;
	head->pad = -h->log_len & 7;
	h->rec_flags = DP_REC_RPN | DP_REC_TRACE | (s->trace_full ? DP_REC_TRUNCATED : 0);
	s->trace_len = 0;
	return true;
}

/* ---- the processor ---- */

static const struct {
	u8 words, source;
	u16 at;
} states[] = {
#define DP_CPUSTATE(number, name, words, source, at) [number] = {words, DP_CPUSTATE_##source, at},
#include "program/cpustates.def"
};

static void push(struct dp_hit *h, u32 *sp, u64 v)
{
	h->vm->stack[--*sp & (DP_VM_STACK - 1)] = v;
}

u32 dp_rpn_push_state(struct dp_hit *h, u32 sp, u32 number)
{
	struct dp_rpn_state *s = state(h);
	u32 at = states[number].at, bytes = at % 8;
	u64 v;

	if (states[number].source != DP_CPUSTATE_FX) {
		push(h, &sp, dp_hit_segment(h, at));
		if (DP_RING0 && states[number].words == 2) /* the tables' registers */
			push(h, &sp, dp_hit_segment(h, at + 1));
		return sp;
	}
	if (!s->fx_ready)
		dp_hit_fxsave(h, s->fx);
	s->fx_ready = 1;
	if (states[number].words == 2)
		push(h, &sp, s->fx[at / 64 + 1]);
	v = *(const any_u64 *)((const u8 *)s->fx + at / 8);
	push(h, &sp, bytes ? v & ((1ull << (8 * bytes)) - 1) : v);
	return sp;
}

u32 dp_rpn_cpuid(struct dp_hit *h, u32 sp)
{
	u32 abcd[4];

	dp_hit_cpuid(h, (u32)h->vm->stack[sp++ & (DP_VM_STACK - 1)], abcd);
	for (u32 i = 4; i-- > 0;)
		push(h, &sp, abcd[i]);
	return sp;
}

/* ---- heap: blocks in a row, each behind a word that tells its sizes ---- */

#define USED (1ull << 63)
#define HEAP_BYTES ((u32)sizeof(((struct dp_rpn_state *)0)->heap))

static u64 block_word(u32 size, u64 asked, u64 used)
{
	return size | asked << 32 | used;
}

static u32 block_size(u64 word)
{
	return (u32)word;
}

static u32 block_asked(u64 word)
{
	return (u32)(word >> 32) & 0x7fffffff;
}

/* The block's word; NULL when the handle is not that of a live block. */
static u64 *find_block(struct dp_rpn_state *s, u64 handle)
{
	if (!s->heap_ready || handle < 8 || handle >= HEAP_BYTES)
		return NULL;
	for (u32 at = 0; at < handle; at += 8 + block_size(s->heap[at / 8]))
		if (at + 8 == handle)
			return s->heap[at / 8] & USED ? &s->heap[at / 8] : NULL;
	return NULL;
}

/* Join the free blocks behind the free block at `at`. */
static u32 join(struct dp_rpn_state *s, u32 at)
{
	u32 size = block_size(s->heap[at / 8]), next;

	for (next = at + 8 + size; next < HEAP_BYTES && !(s->heap[next / 8] & USED); next = at + 8 + size)
		size += 8 + block_size(s->heap[next / 8]);
	s->heap[at / 8] = block_word(size, 0, 0);
	return size;
}

u32 dp_rpn_heap_alloc(struct dp_hit *h, u64 asked)
{
	struct dp_rpn_state *s = state(h);
	u32 need, size, most = DP_MIN(h->prog->heap, (u32)DP_HEAP_MAX);

	if (!s->heap_ready) {
		s->heap_ready = 1;
		s->heap_used = 0;
		s->heap[0] = block_word(HEAP_BYTES - 8, 0, 0);
	}
	if (asked > most - s->heap_used)
		return dp_rpn_failed(h, DP_EX_HEAP_NOMEM, asked, 0);
	need = DP_ALIGN_UP((u32)asked, 8u);
	for (u32 at = 0; at < HEAP_BYTES; at += 8 + size) {
		size = block_size(s->heap[at / 8]);
		if (s->heap[at / 8] & USED)
			continue;
		size = join(s, at);
		if (size < need)
			continue;
		/* Both are multiples of 8: there is room for the word of the rest. */
		if (size > need) {
			s->heap[(at + 8 + need) / 8] = block_word(size - need - 8, 0, 0);
			size = need;
		}
		s->heap[at / 8] = block_word(size, asked, USED);
		for (u32 i = 0; i < size / 8; i++)
			((volatile u64 *)s->heap)[at / 8 + 1 + i] = 0;
		s->heap_used += (u32)asked;
		s->handle = at + 8;
		h->work -= dp_work_of_walk(s->handle + size);
		return 0;
	}
	return dp_rpn_failed(h, DP_EX_HEAP_NOMEM, asked, 0);
}

u32 dp_rpn_heap_free(struct dp_hit *h, u64 handle)
{
	u64 *word = find_block(state(h), handle);

	if (!word)
		return dp_rpn_failed(h, DP_EX_HEAP_INVALID_HANDLE, handle, 0);
	state(h)->heap_used -= block_asked(*word);
	h->work -= dp_work_of_walk(handle);
	*word = block_word(block_size(*word), 0, 0);
	return 0;
}

u8 *dp_rpn_heap(struct dp_hit *h, u64 handle, u64 offset, u64 bytes)
{
	const u64 *word = find_block(state(h), handle);

	if (!word) {
		state(h)->code = dp_rpn_failed(h, DP_EX_HEAP_INVALID_HANDLE, handle, offset);
		return NULL;
	}
	if (offset > block_asked(*word) || bytes > block_asked(*word) - offset) {
		state(h)->code = dp_rpn_failed(h, DP_EX_HEAP_INVALID_OFFSET, handle, offset);
		return NULL;
	}
	h->work -= dp_work_of_walk(handle);
	return (u8 *)(word + 1) + offset;
}

u32 dp_rpn_push_frames(struct dp_hit *h, u32 sp, u32 n)
{
	u64 *stack = h->vm->stack, ips[DP_FRAMES_MAX];
	u32 top = (sp - n) % DP_VM_STACK;
	u64 *frames = top + n <= DP_VM_STACK ? stack + top : ips; /* the stack may begin anew */

	for (u32 i = dp_hit_frames(h, frames, n); i < n; i++)
		((volatile u64 *)frames)[i] = 0;
	for (u32 i = 0; frames == ips && i < n; i++)
		stack[(top + i) % DP_VM_STACK] = ips[i];
	return sp - n;
}

u32 dp_rpn_call_exit(struct dp_hit *h, u32 sp, const u8 *name, u32 len, u32 nargs, u32 nresults)
{
	u64 args[DP_EXIT_WORDS_MAX], results[DP_EXIT_WORDS_MAX];
	u32 error;

	for (u32 i = 0; i < nargs; i++)
		args[i % DP_EXIT_WORDS_MAX] = h->vm->stack[(sp + nargs - 1 - i) % DP_VM_STACK];
	for (u32 i = 0; i < DP_EXIT_WORDS_MAX; i++)
		((volatile u64 *)results)[i] = 0; /* an exit that does not set them tells nothing of our stack */
	error = dp_hit_call_exit(h, name, len, nargs, nresults, args, results);
	if (error)
		return dp_rpn_failed(h, DP_EX_INVALID_OPERAND, DP_BAD_FACILITY, error);
	sp += nargs;
	for (u32 i = 0; i < nresults; i++)
		h->vm->stack[--sp % DP_VM_STACK] = results[i % DP_EXIT_WORDS_MAX];
	return 0;
}
