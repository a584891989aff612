/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interpreter. Runs programs that the verifier passed, so operands, jump targets and places in
 * the record are right; what only a hit can know (addresses, divisors, indexes from the stack, the
 * budgets) is checked here. Freestanding: no calls but the services of vm.h, no writable data, no
 * absolute addresses (the dispatch table holds distances between labels).
 *
 * One block for each line of opcodes.def: made from the line where that says what the opcode computes (vm-blocks.h),
 * here where it is like no other, in their order. The stack index counts down, is masked at each use, and so wraps: no
 * depth of the stack can leave it.
 */
#include "hit/hit-rpn.h"
#include "hit/vm-blocks.h"

#define DP_NOINLINE __attribute__((__noinline__))
#define DP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NO_FIELD 0xff
#define MASK_FIELDS 63 /* fields from here on share the last bit of the fault mask */

static inline u8 *payload_of(const struct dp_hit *h)
{
	return (u8 *)h->vm->record + sizeof(struct dp_record);
}

/* ---- faults ---- */

/* A read that may fail: false and zeroes then. */
static DP_NOINLINE bool fetch(struct dp_hit *h, void *dst, u64 addr, u32 len)
{
	if (!dp_hit_read(h, dst, addr, len))
		return true;
	for (u32 i = 0; i < len; i++)
		((volatile u8 *)dst)[i] = 0;
	h->faults++;
	return false;
}

/* Field f of the open record could not be read. */
static DP_NOINLINE void mark_field(struct dp_hit *h, u32 f)
{
	h->rec_flags |= DP_REC_FAULTED;
	if (f != NO_FIELD)
		*(any_u64 *)payload_of(h) |= 1ull << DP_MIN(f, MASK_FIELDS);
}

/* ---- strings: the descriptor at `at`, the text behind what was logged so far ---- */

/* A host may have lowered logmax below the fixed part: then there is no room, not much of it. */
static u32 text_room(struct dp_hit *h, u32 keep)
{
	u64 taken = (u64)h->log_len + keep;

	return h->prog->logmax > taken ? (u32)(h->prog->logmax - taken) : 0;
}

static void end_text(struct dp_hit *h, u32 at, u32 len)
{
	*(any_u32 *)(payload_of(h) + at) = h->log_len | len << 16;
	h->log_len += len;
}

/* faulted: the address itself could not be read. */
static DP_NOINLINE void log_string(struct dp_hit *h, u64 addr, u32 at, u32 keep, bool faulted)
{
	u32 room = text_room(h, keep);
	int n = 0;

	if (room < 2 && !faulted) {
		h->rec_flags |= DP_REC_TRUNCATED;
	} else {
		if (!faulted) {
			n = dp_hit_read_str(h, (char *)payload_of(h) + h->log_len, addr, room);
			if (n < 0)
				h->faults++;
		}
		if (n <= 0) {
			h->rec_flags |= DP_REC_FAULTED;
			n = 0;
		} else if ((u32)n == room) {
			h->rec_flags |= DP_REC_TRUNCATED;
		}
		h->work -= dp_work_of_text((u32)n);
	}
	end_text(h, at, (u32)n);
}

/* A text that we have; len without its NUL. */
static DP_NOINLINE void log_text(struct dp_hit *h, const u8 *text, u32 len, u32 at, u32 keep)
{
	u32 room = text_room(h, keep);
	u8 *to = payload_of(h) + h->log_len;

	if (len + 1 > room) {
		h->rec_flags |= DP_REC_TRUNCATED;
		len = room ? room - 1 : 0;
	}
	if (room) {
		for (u32 i = 0; i < len; i++)
			((volatile u8 *)to)[i] = text[i];
		to[len] = 0;
		len++;
	}
	end_text(h, at, len);
}

static DP_NOINLINE void log_comm(struct dp_hit *h, u32 at, u32 keep)
{
	const u8 *name = (const u8 *)h->vm->scratch;
	u32 len = 0;

	dp_vm_comm(h);
	while (name[len])
		len++;
	log_text(h, name, len, at, keep);
}

/* ---- arithmetic with corners ---- */

/* Signed division; the one quotient that does not fit wraps instead of trapping. */
static inline void divide_signed(s64 a, s64 b, u64 *rest, u64 *quotient)
{
	*quotient = b == -1 ? -(u64)a : (u64)(a / b);
	*rest = b == -1 ? 0 : (u64)(a % b);
}

/* The blocks of opcodes are no statements to clang-format. */
/* clang-format off */

/* Raise what a function of rpn.h returned; the parameters are in the state already. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		u32 code_ = (call);                                                                \
		if (DP_UNLIKELY(code_)) {                                                          \
			h->vm->rpn.code = code_;                                                   \
			goto exception;                                                            \
		}                                                                                  \
	} while (0)

/* Log items take their operands off the stack first: the program may go on after an overflow. */
#define LOG_ITEM(id, call)                                                                         \
	OP(id)                                                                                     \
	u64 x = TOP(1), y = TOP(0);                                                                \
	DROP(2);                                                                                   \
	TRY(call);                                                                                 \
	END

/* A question that a filter of system calls may forbid. */
#define ASK(id, question, number)                                                                  \
	OP(id)                                                                                     \
	s64 answer = (question);                                                                   \
	if (answer < 0)                                                                            \
		RAISE(DP_EX_INVALID_OPERAND, DP_BAD_ASK, number);                                  \
	PUSH((u64)answer);                                                                         \
	END

/* What only the host in the kernel has; the verifier lets none of these pass elsewhere. */
#define NO_HOST(id) OP(id) goto op_ILLEGAL; }
#if DP_RING0
#define KERNEL_ONLY(id, ...) OP(id) __VA_ARGS__ END
#else
#define KERNEL_ONLY(id, ...) NO_HOST(id)
#endif

/* Go on in the handler that was found. */
#define HANDLE                                                                                     \
	do {                                                                                       \
		pc = (const u8 *)h->prog->code + h->vm->rpn.next;                                  \
		SPEND(DP_WORK_HANDLED + h->prog->len);                                             \
	} while (0)

#define OFFSET_HERE ((u32)(pc - (const u8 *)h->prog->code))

/* Copies of this function would make the distances between labels wrong. */
#ifdef __clang__
__attribute__((__noinline__))
#else
__attribute__((__noinline__, __noclone__))
#endif
enum dp_run_result dp_vm_go(struct dp_hit *h, const u8 *pc, u32 sp, u32 jumps, u32 raise)
{
	static const s32 labels[256] = {
#define DP_OPCODE(number, id, ...) [number] = (s32)(&&op_##id - &&op_ILLEGAL),
#define DP_OPCODE2(...)
#include "program/opcodes.def"
	    [DP_PREFIX] = (s32)(&&op_PREFIX - &&op_ILLEGAL),
	};
	static const s32 more_labels[256] = {
#define DP_OPCODE(...)
#define DP_OPCODE2(number, id, ...) [number] = (s32)(&&op_##id - &&op_ILLEGAL),
#include "program/opcodes.def"
	};
	static const u8 word_of[] = {
#define DP_REGISTER(number, member, ...) [number] = DP_REG_WORD(member),
#include "program/registers.def"
	};
	u8 *const payload = payload_of(h);
	u64 *const stack = h->vm->stack;
	u64 *const r = (u64 *)h->regs;
	bool mark = false; /* a load failed and no store has taken note of it */
	enum dp_raised raised;

	if (DP_UNLIKELY(raise)) {
		h->vm->rpn.code = raise;
		goto exception;
	}
	NEXT;

op_PREFIX:
	goto *(&&op_ILLEGAL + more_labels[*pc++]);

	/* What the table says. */
#define DP_OPCODE(number, id, text, operands, pops, pushes, rule, work, operation, ...) BLOCK(id, pops, operation)
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"

	/* ---- flow ---- */
	OP(NOP) END
	OP(JMP) COUNT_JUMP; pc += a->to; END
	OP(LOOP)
	COUNT_JUMP;
	if (--TOP(0))
		pc += a->to;
	END
	OP(CALL)
	SPEND_BACK;
	TRY(dp_rpn_call(h, (u32)(OFFSET_HERE + a->to), OFFSET_HERE));
	h->work += DP_MAX(a->to, 0); /* what the return leads back over is not all executed */
	pc += a->to;
	END
	OP(RET)
	u32 from = OFFSET_HERE;
	TRY(dp_rpn_ret(h));
	h->work -= from > h->vm->rpn.next ? from - h->vm->rpn.next : 0;
	pc = (const u8 *)h->prog->code + h->vm->rpn.next;
	END
	OP(ABORT) h->vm->rpn.trace_len = 0; goto filtered; }
	OP(REMOVE)
	if (h->prog->gate)
		__atomic_fetch_or((u64 *)h->prog->gate, DP_GATE_REMOVED, __ATOMIC_RELAXED);
	goto stop;
	}
	OP(EXIT) goto stop; }
	OP(EXIT_TO)
	h->rec_flags |= DP_REC_EXIT;
	dp_hit_exit(h, a->n);
	goto stop;
	}

	/* ---- logging ---- */
	OP(SETMIN) dp_rpn_head(h)->minor = a->n; END
	OP(SETMIN_S) dp_rpn_head(h)->minor = (u16)TOP(0); DROP(1); END
	OP(SETMAJ) dp_rpn_head(h)->major = a->n; END
	OP(SETMAJ_S) dp_rpn_head(h)->major = (u16)TOP(0); DROP(1); END
	LOG_ITEM(LOG_STR, dp_rpn_log_str(h, x, y))
	LOG_ITEM(LOG_MRF, dp_rpn_log_mrf(h, x, y))
	OP(LOG)
	SPEND(dp_work_of_words(a->n));
	DROP(a->n);
	TRY(dp_rpn_log_stack(h, sp - a->n, a->n, -1));
	END
	OP(LOG_S)
	u64 n = TOP(0);
	DROP(1 + (u32)n);
	TRY(dp_rpn_log_stack(h, sp - (u32)n, n, DP_TOKEN_WORDS));
	END
	LOG_ITEM(LOG_LV, dp_rpn_log_vars(h, x, y, DP_TOKEN_LOCALS))
	LOG_ITEM(LOG_GV, dp_rpn_log_vars(h, x, y, DP_TOKEN_GLOBALS))
	OP(PUSH_LP) PUSH(dp_rpn_position(h)); END
	OP(PUSH_PLP) PUSH(h->vm->rpn.plp); END
	OP(POP_LP) TRY(dp_rpn_go_back(h, TOP(0))); DROP(1); END

	/* ---- arithmetic, logic, bits ---- */
	OP(DIV)
	u64 x = TOP(1), y = TOP(0);
	if (DP_UNLIKELY(!y))
		RAISE(DP_EX_DIV_BY_ZERO, 0, 0);
	TOP(1) = x % y;
	TOP(0) = x / y;
	END
	OP(IDIV)
	if (DP_UNLIKELY(!TOP(0)))
		RAISE(DP_EX_DIV_BY_ZERO, 0, 0);
	u64 rest, quotient;
	divide_signed((s64)TOP(1), (s64)TOP(0), &rest, &quotient);
	TOP(1) = rest;
	TOP(0) = quotient;
	END

	/* ---- stack ---- */
	OP(XCHG)
	u64 x = TOP(0);
	TOP(0) = TOP(1);
	TOP(1) = x;
	END
	OP(DUP)
	u64 x = TOP(0);
	SPEND(dp_work_of_words(a->n));
	DROP(1);
	for (u32 i = 0; i < a->n; i++)
		PUSH(x);
	END
	OP(DUP_S)
	u64 x = TOP(0), n = TOP(1);
	h->work -= dp_work_of_words((u32)DP_MIN(n, DP_VM_STACK - 1ull));
	DROP(2);
	/* More copies than the stack has words change nothing but the index. */
	for (u64 i = 0; i < DP_MIN(n, DP_VM_STACK - 1ull) + 1; i++)
		PUSH(x);
	END
	OP(ROS) DROP(a->n); END
	OP(SAVE_SBP) PUSH(h->vm->rpn.base); END
	OP(RESTORE_SBP) h->vm->rpn.base = (u32)TOP(0); DROP(1); END
	OP(SAVE_TSP) u32 was = sp; PUSH(was); END
	OP(RESTORE_TSP) sp = (u32)TOP(0); END

	/* ---- registers and the like ---- */
	OP(PUSH_D) PUSH(a->c); END
	KERNEL_ONLY(PUSH_TASK, PUSH(dp_hit_task(h));)
	OP(PUSH_PID) PUSH(dp_hit_pid(h)); END
	OP(PUSH_PROCID) PUSH(dp_hit_cpu(h)); END
	OP(PUSH_WID) PUSH(-64ull); END

	/* ---- memory ---- */
	OP(VFY_R)
	u8 byte;
	TOP(0) = dp_hit_read(h, &byte, TOP(0), 1) != 0;
	END
	OP(VFY_RW)
	u8 byte;
	TOP(0) = dp_hit_read(h, &byte, TOP(0), 1) != 0 || !dp_hit_writable(h, TOP(0));
	END
	KERNEL_ONLY(SEG2LIN, u64 base; if (!dp_hit_segment_base(h, TOP(1), &base)) RAISE(DP_EX_SEG_FAULT, TOP(1), 0);
		    base += TOP(0); DROP(1); TOP(0) = base;)
	KERNEL_ONLY(PUSH_IO8, TOP(0) = dp_hit_in((u16)TOP(0), 1);)
	KERNEL_ONLY(PUSH_IO16, TOP(0) = dp_hit_in((u16)TOP(0), 2);)
	KERNEL_ONLY(PUSH_IO32, TOP(0) = dp_hit_in((u16)TOP(0), 4);)
	KERNEL_ONLY(POP_IO8, dp_hit_out((u16)TOP(1), 1, TOP(0)); DROP(2);)
	KERNEL_ONLY(POP_IO16, dp_hit_out((u16)TOP(1), 2, TOP(0)); DROP(2);)
	KERNEL_ONLY(POP_IO32, dp_hit_out((u16)TOP(1), 4, TOP(0)); DROP(2);)
	NO_HOST(CALL_KMOD)

	/* ---- exceptions and stack traces ---- */
	OP(SX)
	h->vm->rpn.frames[h->vm->rpn.depth].handler = (u32)(OFFSET_HERE + a->to) + 1;
	END
	OP(UX) h->vm->rpn.frames[h->vm->rpn.depth].handler = 0; END
	OP(RX)
	if (dp_rpn_reraise(h, sp) != DP_RAISED_HANDLED)
		goto stop;
	HANDLE;
	END
	OP(PUSH_X) PUSH(h->vm->rpn.parm2); PUSH(h->vm->rpn.parm1); PUSH(h->vm->rpn.code); END
	OP(LOG_ST) dp_rpn_trace(h); END
	OP(PURGE_ST) h->vm->rpn.trace_len = h->vm->rpn.trace_full = 0; END
	OP(TRACE_LV) TRY(dp_rpn_trace_vars(h, TOP(1), TOP(0), DP_TOKEN_LOCALS)); DROP(2); END
	OP(TRACE_GV) TRY(dp_rpn_trace_vars(h, TOP(1), TOP(0), DP_TOKEN_GLOBALS)); DROP(2); END
	OP(TRACE_PV) dp_rpn_trace_vars(h, TOP(1), TOP(0), DP_TOKEN_STACK); DROP(2); END
	OP(PUSH_STP) PUSH(h->vm->rpn.trace_len); END
	OP(POP_STP) TRY(dp_rpn_trace_back(h, TOP(0))); DROP(1); END

	/* ---- heap ---- */
	OP(MALLOC)
	TRY(dp_rpn_heap_alloc(h, TOP(0)));
	TOP(0) = h->vm->rpn.handle;
	END
	OP(FREE) TRY(dp_rpn_heap_free(h, TOP(0))); DROP(1); END

	/* ---- events: into the record ---- */
	OP(REC) h->log_len = a->size; mark = false; END
	OP(RECM)
	h->log_len = a->size;
	*(any_u64 *)payload = 0;
	mark = false;
	END
	OP(LOGM)
	h->work -= dp_work_of_memory(a->n);
	if (!fetch(h, payload + a->at, r[a->reg] + (s64)a->d, a->n))
		mark_field(h, a->f);
	END
	OP(LOGM_S)
	u64 addr = TOP(0) + (s64)a->d;
	h->work -= dp_work_of_memory(a->n);
	DROP(1);
	if (DP_UNLIKELY(mark)) {
		for (u32 i = 0; i < a->n; i++)
			((volatile u8 *)payload)[a->at + i] = 0;
		mark_field(h, a->f);
		mark = false;
	} else if (!fetch(h, payload + a->at, addr, a->n)) {
		mark_field(h, a->f);
	}
	END
	OP(LOGSTR) log_string(h, r[a->reg] + (s64)a->d, a->at, a->rest, false); END
	OP(LOGSTR_S)
	log_string(h, TOP(0) + (s64)a->d, a->at, a->rest, mark);
	mark = false;
	DROP(1);
	END
	OP(LOGCOMM) log_comm(h, a->at, a->rest); END
	OP(LOGRET)
	if (!fetch(h, payload + a->at, h->regs->sp, 8))
		h->rec_flags |= DP_REC_FAULTED;
	END

	/* ---- events: operands of conditions ---- */

	/* ---- events: conditions ---- */
	/* ---- behind the prefix ---- */
	OP(STR)
	if (mark)
		h->vm->scratch[0] = 0;
	else if (!dp_vm_text(h, TOP(0), a->n)) {
		h->faults++;
		mark = true;
	}
	DROP(1);
	END
	OP(STRCOMM) dp_vm_comm(h); END
	OP(STREQ)
	PUSH(dp_vm_same((const u8 *)h->vm->scratch, pc, a->t));
	pc += a->t;
	END
	OP(STRGLOB)
	SPEND(dp_work_of_pattern(a->t));
	PUSH(dp_vm_match((const u8 *)h->vm->scratch, pc, a->t));
	pc += a->t;
	END
	OP(LOGTEXT)
	log_text(h, pc, a->t, a->at, a->rest);
	pc += a->t;
	END
	OP(PUSH_STATE) sp = dp_rpn_push_state(h, sp, a->reg); END
	KERNEL_ONLY(PUSH_MSR, u64 v = dp_hit_msr(h, (u32)TOP(0)); TOP(0) = v >> 32; PUSH((u32)v);)
	OP(PUSH_STATE2) sp = dp_rpn_push_state(h, sp, a->reg); END
	OP(PUSH_CPUID) sp = dp_rpn_cpuid(h, sp); END
	OP(PUSH_TID) PUSH(h->tid); END
	OP(CALL_EXIT)
	const u8 *name = pc;
	pc += a->name;
	TRY(dp_rpn_call_exit(h, sp, name, a->name, 0, 0));
	END
	OP(CALL_EXIT_N)
	const u8 *name = pc;
	pc += a->name;
	TRY(dp_rpn_call_exit(h, sp, name, a->name, a->args, a->results));
	sp += (u32)a->args - a->results;
	END
	ASK(PUSH_UID, dp_hit_uid(h), 0)
	ASK(PUSH_PPID, dp_hit_ppid(h), 1)
	KERNEL_ONLY(PUSH_CGROUP, PUSH(dp_hit_cgroup(h));)
	KERNEL_ONLY(PUSH_TV, PUSH(dp_rpn_thread_value(h, a->i, a->processes, a->keys));)
	OP(PUSH_NS) PUSH(dp_hit_ns(h)); END
	OP(PUSH_FRAMES) SPEND(a->n * DP_WORK_FRAME); sp = dp_rpn_push_frames(h, sp, a->n); END
	OP(PUSH_CHAIN) SPEND(a->n * DP_WORK_FRAME); PUSH(dp_rpn_chain(h, a->n, a->i, a->keys)); END
	OP(PUSH_TEXT) SPEND(dp_work_of_memory(64 * a->n)); sp = dp_rpn_push_text(h, sp, a->n); END
	OP(FIND_LV)
	u64 at = dp_rpn_find(h, sp, a->k, a->i, a->keys, a->words);
	DROP(a->k);
	PUSH(at);
	END
	OP(FOLD_LV) TRY(dp_rpn_fold(h, a->kind, TOP(0), TOP(1))); DROP(2); END
	OP(BEGIN)
	if (!dp_rpn_begin(h))
		return DP_RUN_PASSED;
	END

spent:
	if (h->prog->ex_mask) {
		raised = dp_rpn_spent(h, sp);
		goto raised;
	}
	goto op_ILLEGAL;
exception:
	if (h->prog->ex_mask) {
		raised = dp_rpn_raise(h, sp);
	raised:
		if (raised == DP_RAISED_STOP)
			goto stop;
		sp = h->vm->rpn.top;
		if (raised == DP_RAISED_HANDLED)
			HANDLE;
		NEXT;
	}
op_ILLEGAL: /* numbers that the verifier does not let pass */
	h->exceptions++;
	return h->log_len ? DP_RUN_LOG : DP_RUN_FILTERED;
stop:
	return DP_UNLIKELY(h->prog->ex_mask) ? dp_rpn_end(h) : DP_RUN_LOG;
filtered:
	return DP_RUN_FILTERED;
}
/* clang-format on */
