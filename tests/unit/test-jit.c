/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compiled programs against the interpreter: random programs and registers, run both ways; what the ring, the counts
 * and the registers hold afterwards must be the same. Then what makes the code leave the hit to the general entry, and
 * threads that are interrupted all the time.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/time.h>
#include <unistd.h>

#include "abi/abi-point.h"
#include "abi/abi-ring.h"
#include "arch/compile.h"
#include "host/measure/measure.h"
#include "machine.h"

#define CODE_SIZE 65536u
#define NCPUS 64u
#define RING_SIZE 65536u
#define EVENTS 4u
#define PAGE 4096u
#define POINT 7
#define HIT_ADDR 0x4321f0ull
#define ARITHMETIC 0x8d5ull /* flags that count */

/* What a detour reads its target from, and what stands at the program's stack pointer. */
u64 jit_target, jit_return_to, jit_fallbacks;
u32 jit_fallback_point;
void jit_entry(void);
typedef void hit_fn(const struct dp_regs *in, struct dp_regs *out);
hit_fn hit_plain, hit_zone;

/* Load the registers, do what a detour does, save the registers; out->sp is the program's stack pointer at the hit. */
#define HARNESS(name, down, up)                                                                    \
	__asm__(".text\n.globl " name "\n" name ":\n"                                              \
		"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rsi\n"    \
		"push jit_return_to(%rip)\n"                                                       \
		"mov %rsp, 152(%rsi); push 144(%rdi); popfq\n"                                     \
		"mov (%rdi), %r15; mov 8(%rdi), %r14; mov 16(%rdi), %r13; mov 24(%rdi), %r12\n"    \
		"mov 32(%rdi), %rbp; mov 40(%rdi), %rbx; mov 48(%rdi), %r11; mov 56(%rdi), %r10\n" \
		"mov 64(%rdi), %r9; mov 72(%rdi), %r8; mov 80(%rdi), %rax; mov 88(%rdi), %rcx\n"   \
		"mov 96(%rdi), %rdx; mov 104(%rdi), %rsi; mov 112(%rdi), %rdi\n" down              \
		"push %rdi; mov $7, %edi; call *jit_target(%rip); pop %rdi\n" up                   \
		"pushfq; push %rdi; mov 24(%rsp), %rdi\n"                                          \
		"mov %r15, (%rdi); mov %r14, 8(%rdi); mov %r13, 16(%rdi); mov %r12, 24(%rdi)\n"    \
		"mov %rbp, 32(%rdi); mov %rbx, 40(%rdi); mov %r11, 48(%rdi); mov %r10, 56(%rdi)\n" \
		"mov %r9, 64(%rdi); mov %r8, 72(%rdi); mov %rax, 80(%rdi); mov %rcx, 88(%rdi)\n"   \
		"mov %rdx, 96(%rdi); mov %rsi, 104(%rdi)\n"                                        \
		"pop %rax; mov %rax, 112(%rdi); pop %rax; mov %rax, 144(%rdi); add $16, %rsp\n"    \
		"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n")

HARNESS("hit_plain", "", "");
HARNESS("hit_zone", "lea -128(%rsp), %rsp\n", "lea 128(%rsp), %rsp\n");
/* The general entry, for these tests: only tells that it was called. */
__asm__(".text\n.globl jit_entry\njit_entry: mov %edi, jit_fallback_point(%rip); pushfq\n"
	"lock incq jit_fallbacks(%rip); popfq; ret\n");

static struct dp_control ctl;
static u8 *code;
static u64 state = 88172645463325252ull;

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static struct dp_ring *ring_of(u32 cpu)
{
	return (struct dp_ring *)(ctl.ring0 + cpu * ctl.ring_stride);
}

static u8 *data_of(u32 cpu)
{
	return (u8 *)ring_of(cpu) + PAGE;
}

static u64 counted(u32 event, enum dp_count what)
{
	u64 sum = 0;

	for (u32 c = 0; c <= NCPUS; c++)
		sum += ((struct dp_counts *)(ctl.counts + c * ctl.counts_stride))[event].v[what];
	return sum;
}

static u64 logged(void)
{
	u64 sum = 0;

	for (u32 c = 0; c < NCPUS; c++)
		sum += ring_of(c)->head;
	return sum;
}

/* Where the thread's id stands in its control block; 0: not found. */
static s32 find_tid(void)
{
	u8 *tp = __builtin_thread_pointer();
	u32 tid = (u32)gettid();

	for (s32 at = 0; at < 2048; at += 4)
		if (!memcmp(tp + at, &tid, 4))
			return at;
	return 0;
}

/* False: this machine cannot run compiled programs. */
static bool make_world(void)
{
	u64 stride = PAGE + RING_SIZE, counts = DP_ALIGN_UP((NCPUS + 1) * EVENTS * sizeof(struct dp_counts), PAGE);
	u8 *all;

	if (!__rseq_size || !find_tid())
		return false;
	/* Everything within reach of the code, and the code within reach of the entry. */
	all = mmap((void *)((u64)jit_entry & ~0xffffffull) + (512u << 20), CODE_SIZE + counts + NCPUS * stride,
		   PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return false;
	code = all;
	ctl.rseq_off = (s32)__rseq_offset;
	ctl.tid_off = find_tid();
	ctl.counts = (u64)all + CODE_SIZE;
	ctl.counts_stride = EVENTS * sizeof(struct dp_counts);
	ctl.ring0 = ctl.counts + counts;
	ctl.ring_stride = stride;
	ctl.ring_size = RING_SIZE;
	ctl.ncpus = NCPUS;
	ctl.tids = (u64)all + CODE_SIZE - 64;
	ctl.pid = *(u32 *)ctl.tids = 4711;
	return true;
}

/*
 * The ways to the processor's number and the thread that work on this machine, each with what stands for it in the
 * figures.
 */
static const struct way {
	u32 caps;
	const char *name;
} ways[] = {
    {DP_CAP_RDPID | DP_CAP_RDFSBASE, "rdpid"},
    {DP_CAP_LSL | DP_CAP_FS_WORD, "segment limit"},
    {DP_CAP_RDTSCP | DP_CAP_RDFSBASE, "rdtscp"},
};

static bool can(const struct way *w)
{
	u32 have = dp_measure_machine()->caps | DP_CAP_FS_WORD;

	ctl.caps = DP_CAP_RSEQ | DP_CAP_TIDOFF | w->caps;
	return (have & w->caps) == w->caps && dp_jit_usable(&ctl);
}

static u64 compiled_locals[8];

/* For hits behind a system call whose number is kept: in the code's page, and the code in front of the program's. */
static u64 *kept;
static u32 number;

/* push kept(%rip); jmp to the entry: what is left on the stack by the code that has looked the number up. */
static void emit_push_kept(u64 at)
{
	struct dp_emit e;

	dp_emit_init(&e, (u8 *)at, DP_JIT_STUB, at);
	dp_emit_bytes(&e, "\xff\x35", 2);
	dp_emit_u32(&e, (u32)((u64)(kept + 1) - (at + 6)));
	kept[1] = (u64)kept;
	dp_emit_u8(&e, 0xe9);
	dp_emit_u32(&e, (u32)((u64)code + DP_JIT_ENTRY - (at + 11)));
}

static int compile(const struct dp_program *p, bool flags, bool zone, bool shared)
{
	struct dp_code_rt rt;
	struct dp_jit jit = {.ctl = &ctl,
			     .entry = (u64)jit_entry,
			     .point = POINT,
			     .event = 1,
			     .addr = HIT_ADDR,
			     .flags = flags,
			     .zone = zone,
			     .shared = shared,
			     .is_way = kept != NULL,
			     .number = number,
			     .rt = &rt};
	u64 stub = (u64)code + DP_JIT_MAX;
	struct dp_emit e;
	int r;

	jit_target = shared || kept ? stub : (u64)code + DP_JIT_ENTRY;
	dp_program_to_rt(p, &rt);
	rt.locals = (u64)compiled_locals;
	dp_emit_init(&e, code, DP_JIT_MAX, (u64)code);
	r = dp_jit_compile(&e, p->code, p->len, &jit);
	if (!r && kept)
		emit_push_kept(stub);
	if (r || !shared)
		return r;
	dp_emit_init(&e, (u8 *)stub, DP_JIT_STUB, stub);
	jit.stub_to = (u64)code + DP_JIT_ENTRY;
	return dp_jit_compile(&e, NULL, 0, &jit);
}

/* ---- random programs ---- */

static u8 any_slot(bool with_sp)
{
	static const u8 slots[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 19};

	return slots[below(DP_ARRAY_SIZE(slots) - !with_sp)];
}

static u64 any_value(void)
{
	static const u64 v[] = {0,           1,          0x7f,       0x80,       0xff,
				0x8000,      0xffff,     0x7fffffff, 0x80000000, 0xffffffff,
				0x100000000, 1ull << 63, ~0ull,      ~0ull - 1,  0x1234567890abcdef};

	return below(4) ? v[below(DP_ARRAY_SIZE(v))] : next_random(&state);
}

static void put_condition(struct dp_asm *c, bool with_sp)
{
	s64 k = (s64)any_value();

	if (below(2)) {
		dp_asm_put(c, DP_OP_NEEDR_EQ + below(6), (s64[]){any_slot(with_sp), k}, NULL);
		return;
	}
	if (below(5))
		dp_asm_put(c, DP_OP_PUSHR + below(7), (s64[]){any_slot(with_sp)}, NULL);
	else
		dp_asm_put(c, DP_OP_PUSH_D, (s64[]){(s64)any_value()}, NULL);
	if (below(3))
		dp_asm_put(c, DP_OP_NEED_EQ + below(6), &k, NULL);
	else
		dp_asm_put(c, DP_OP_NEED, &k, NULL);
}

static void make_program(struct dp_program *p, bool in_return)
{
	struct dp_asm c = {0};
	u32 n = below(3), size = below(100);

	for (u32 i = 0; i < n; i++)
		put_condition(&c, !in_return);
	dp_asm_put(&c, below(2) ? DP_OP_REC : DP_OP_RECM, (s64[]){size + 16}, NULL);
	n = size ? below(9) : 0;
	for (u32 i = 0; i < n; i++)
		dp_asm_put(&c, DP_OP_LOGR8 + below(4), (s64[]){any_slot(!in_return), below(size) + 8}, NULL);
	if (in_return)
		dp_asm_put(&c, DP_OP_LOGRET, (s64[]){8}, NULL);
	dp_asm_put(&c, DP_OP_EXIT, (s64[]){0}, NULL);
	*p = (struct dp_program){.code = c.bytes, .len = c.len, .logmax = 512};
}

/* ---- programs of the Dynamic Probes language ---- */

#define PUT(c, op, ...) dp_asm_put(c, op, (s64[]){__VA_ARGS__ __VA_OPT__(, ) 0}, NULL)

static u32 nwords; /* of the frame of the function that is being made, behind its base */

static void put_word(struct dp_asm *c)
{
	static const u16 ops[] = {DP_OP_ADD, DP_OP_SUB, DP_OP_AND, DP_OP_OR, DP_OP_XOR},
			 alone[] = {DP_OP_NEG, DP_OP_NOT,  DP_OP_ZX8,  DP_OP_ZX16, DP_OP_ZX32,
				    DP_OP_SX8, DP_OP_SX16, DP_OP_SX32, DP_OP_SHL,  DP_OP_SHR};
	bool is_const = below(4) == 0;

	if (is_const)
		PUT(c, DP_OP_PUSH_D, (s64)any_value());
	else if (kept && below(3) == 0)
		PUT(c, DP_OP_PUSH_R, (s64)dp_register_by_word(DP_REG_WORD(orig_ax))->number);
	else if (nwords && below(3) == 0)
		PUT(c, DP_OP_PUSH_SBP, -1 - (s64)below(nwords));
	else
		PUT(c, DP_OP_PUSHR + below(7), any_slot(true));
	for (u32 n = below(3); n > 0; n--) {
		if (below(2)) {
			PUT(c, alone[below(DP_ARRAY_SIZE(alone))], below(64));
			continue;
		}
		PUT(c, DP_OP_PUSH_D, (s64)(s32)any_value());
		if (!is_const && below(4) == 0) { /* the constant below */
			PUT(c, DP_OP_XCHG);
			PUT(c, ops[below(DP_ARRAY_SIZE(ops))]);
		} else {
			PUT(c, ops[below(DP_ARRAY_SIZE(ops))]);
		}
	}
}

/* Go on by a condition, else abort. */
static void put_gate(struct dp_asm *c)
{
	u32 jump, over;

	put_word(c);
	switch (below(3)) {
	case 0:
		PUT(c, DP_OP_PUSH_D, (s64)any_value());
		PUT(c, DP_OP_EQ + below(10));
		if (below(3) == 0)
			PUT(c, below(2) ? DP_OP_LNOT : DP_OP_BOOL);
		jump = PUT(c, below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
		break;
	case 1:
		PUT(c, below(2) ? DP_OP_LNOT : DP_OP_BOOL);
		jump = PUT(c, below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
		break;
	default:
		jump = PUT(c, DP_OP_JLT + below(6), c->len);
	}
	if (below(2)) { /* jump over the abort, or to it */
		PUT(c, DP_OP_ROS, below(2));
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
	u32 n = below(5);

	for (u32 i = 0; i < n; i++)
		put_word(c);
	if (below(2)) {
		PUT(c, DP_OP_LOG, n);
	} else {
		PUT(c, DP_OP_PUSH_D, n);
		PUT(c, DP_OP_LOG_S);
	}
}

/* What is done either way leaves something behind. */
static void put_two_ways(struct dp_asm *c)
{
	u32 jump, over;

	put_word(c);
	if (below(2)) {
		PUT(c, DP_OP_PUSH_D, (s64)any_value());
		PUT(c, DP_OP_EQ + below(10));
	}
	jump = PUT(c, below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len);
	PUT(c, DP_OP_ROS, 1);
	put_item(c);
	over = PUT(c, DP_OP_JMP, c->len);
	dp_asm_land(c, jump);
	if (below(2)) /* asked once more */
		dp_asm_land(c, PUT(c, below(2) ? DP_OP_JZ : DP_OP_JNZ, c->len));
	PUT(c, DP_OP_ROS, 1);
	if (below(2))
		PUT(c, DP_OP_INC_LV, below(8));
	put_item(c);
	dp_asm_land(c, over);
}

/* Conditions between which exceptions are handled, should there be any. */
static void put_handled_gates(struct dp_asm *c)
{
	u32 handler = PUT(c, DP_OP_SX, c->len), over;

	for (u32 n = below(4); n > 0; n--)
		put_gate(c);
	PUT(c, DP_OP_UX);
	over = PUT(c, DP_OP_JMP, c->len);
	dp_asm_land(c, handler);
	PUT(c, DP_OP_ABORT);
	dp_asm_land(c, over);
}

static void put_body(struct dp_asm *c)
{
	u32 effects = below(3);

	while (effects-- > 0)
		PUT(c, below(2) ? DP_OP_INC_LV : DP_OP_DEC_LV, below(8));
	for (u32 n = below(4); n > 0; n--)
		put_gate(c);
	if (below(4) == 0)
		put_handled_gates(c);
	if (below(3) == 0)
		PUT(c, DP_OP_INC_LV, below(8));
	if (below(3) == 0)
		PUT(c, DP_OP_SETMIN, below(65536));
	for (u32 items = below(3); items > 0; items--) {
		if (nwords && below(2)) {
			put_word(c);
			PUT(c, below(2) ? DP_OP_POP_SBP : DP_OP_COPY_SBP, -1 - (s64)below(nwords));
		}
		if (below(4) == 0)
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
	if (below(2)) {
		PUT(c, DP_OP_PUSH_LP);
		jump = PUT(c, DP_OP_JZ, c->len);
		PUT(c, DP_OP_EXIT);
		dp_asm_land(c, jump);
		PUT(c, DP_OP_ABORT);
	} else {
		PUT(c, below(20) ? DP_OP_EXIT : DP_OP_ABORT);
	}
	dp_asm_land(c, call);
	PUT(c, DP_OP_SAVE_TSP);
	PUT(c, DP_OP_RESTORE_SBP);
	nwords = below(4);
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

static void make_plain(struct dp_program *p)
{
	struct dp_asm c = {0};

	PUT(&c, DP_OP_BEGIN);
	if (below(2)) {
		put_function(&c);
	} else {
		put_body(&c);
		PUT(&c, below(20) ? DP_OP_EXIT : DP_OP_ABORT);
	}
	*p = (struct dp_program){.code = c.bytes,
				 .len = c.len,
				 .logmax = below(10) ? 200 : 0,
				 .jmpmax = below(10) ? 20 : below(3),
				 .nlocals = 8,
				 .rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT,
					 .max = DP_MAXHITS_NONE,
					 .major = (u16)below(9),
					 .minor = (u16)below(9)}};
}

static bool is_rpn(const struct dp_program *p)
{
	return p->rpn.ex_mask;
}

/* Bytes of the payload that the program writes; the others are whatever was there. */
static void mark_written(const struct dp_program *p, u8 *mask)
{
	struct dp_op_view in;

	for (u32 at = 0; !dp_op_decode(p->code, p->len, at, &in); at += in.len)
		switch (in.opcode) {
		case DP_OP_RECM:
			memset(mask, 1, 8);
			break;
		case DP_OP_LOGRET:
			memset(mask + in.v[0], 1, 8);
			break;
		case DP_OP_LOGR8:
			mask[in.v[1]] = 1;
			break;
		case DP_OP_LOGR16:
			memset(mask + in.v[1], 1, 2);
			break;
		case DP_OP_LOGR32:
			memset(mask + in.v[1], 1, 4);
			break;
		case DP_OP_LOGR64:
			memset(mask + in.v[1], 1, 8);
			break;
		}
}

/* The record that was just committed, wherever; NULL: none, or more than one. */
static const struct dp_record *take_record(void)
{
	const struct dp_record *rec = NULL;

	for (u32 c = 0; c < NCPUS; c++) {
		struct dp_ring *ring = ring_of(c);

		if (ring->head == ring->tail)
			continue;
		if (rec)
			return NULL;
		rec = (const struct dp_record *)(data_of(c) + (ring->tail & (RING_SIZE - 1)));
		if (rec->cpu != c || ring->head - ring->tail != rec->len)
			return NULL;
		ring->tail = ring->head;
	}
	return rec;
}

static bool same_registers(const struct dp_regs *a, const struct dp_regs *b, bool flags)
{
	return !memcmp(a, b, offsetof(struct dp_regs, orig_ax)) && (!flags || !((a->flags ^ b->flags) & ARITHMETIC));
}

static bool same_record(const struct machine *m, const struct dp_program *p)
{
	const struct dp_record *rec = take_record();
	u8 mask[512] = {0};

	if (!rec || rec->len != DP_ALIGN_UP(sizeof(*rec) + m->hit.log_len, 8) || rec->event != 1 ||
	    rec->flags != m->hit.rec_flags || rec->tid != (u32)gettid())
		return false;
	if (is_rpn(p))
		memset(mask, 1, sizeof(mask));
	else
		mark_written(p, mask);
	for (u32 i = 0; i < m->hit.log_len; i++)
		if (mask[i] && ((const u8 *)(rec + 1))[i] != machine_payload(m)[i])
			return false;
	return true;
}

static void empty_rings(u64 at)
{
	for (u32 c = 0; c < NCPUS; c++)
		ring_of(c)->head = ring_of(c)->tail = at;
}

static u32 ncompiled;

/* Whether the number is kept any longer, if one was. */
static bool is_kept(void)
{
	return kept && *kept;
}

/* One program, compiled and interpreted. Returns what went wrong, NULL for nothing. */
static const char *compare(bool in_return, bool plain)
{
	static const u64 zeros[DP_ARRAY_SIZE(compiled_locals)];
	bool flags = below(2), zone = below(2), shared = !kept && below(2), log;
	struct dp_regs in, out;
	struct dp_program p;
	const char *wrong = NULL;
	struct machine m;
	u64 before[2] = {counted(1, DP_COUNT_RECORDED), counted(1, DP_COUNT_FILTERED)}, fallbacks = jit_fallbacks;

	number = below(4);
	if (kept)
		*kept = 1;
	if (plain)
		make_plain(&p);
	else
		make_program(&p, in_return);
	if (plain && dp_program_verify(&p, false, NULL)) {
		free(p.code);
		return "not verified";
	}
	memset(compiled_locals, 0, sizeof(compiled_locals));
	if (compile(&p, flags, zone, shared) && (!shared || compile(&p, flags, zone, false))) { /* it knows its place */
		free(p.code);
		return plain ? NULL : "not compiled";
	}
	machine_init(&m);
	for (u32 i = 0; i < 15; i++)
		((u64 *)&in)[i] = any_value();
	in.flags = 0x202 | (next_random(&state) & ARITHMETIC);
	jit_return_to = next_random(&state);
	memcpy(m.stack, &jit_return_to, 8);
	(zone ? hit_zone : hit_plain)(&in, &out);
	ncompiled++;
	m.regs = in;
	m.regs.cs = 0x33;
	m.regs.ss = 0x2b;
	m.regs.flags = 0;
	m.gate = 0;
	m.regs.ip = HIT_ADDR;
	m.regs.orig_ax = number;
	m.regs.sp = in_return ? STACK_BASE : out.sp;
	m.hit.flags = in_return ? DP_PROBE_RETURN : 0;
	log = machine_run(&m, &p) == DP_RUN_LOG;
	if (jit_fallbacks != fallbacks) {
		/* At the ring's end, or where an unusual way is taken. */
		if (take_record() || counted(1, DP_COUNT_RECORDED) != before[0] ||
		    counted(1, DP_COUNT_FILTERED) != before[1] || memcmp(compiled_locals, zeros, sizeof(zeros)) ||
		    (kept && !is_kept()))
			wrong = "done and left to the entry";
		else if (!same_registers(&in, &out, flags))
			wrong = "registers, left to the entry";
		empty_rings(0);
	} else if (!same_registers(&in, &out, flags)) {
		wrong = "registers";
	} else if (counted(1, DP_COUNT_RECORDED) - before[0] != log ||
		   counted(1, DP_COUNT_FILTERED) - before[1] != !log) {
		wrong = "counts";
	} else if (is_kept()) {
		wrong = "the number is still kept";
	} else if (memcmp(compiled_locals, m.locals, sizeof(compiled_locals))) {
		wrong = "variables";
	} else if (log ? !same_record(&m, &p) : take_record() != NULL) {
		wrong = "record";
	}
	if (wrong) {
		char text[2048];

		dp_program_disasm(&p, text, sizeof(text));
		printf("# %s: flags %d zone %d shared %d\n# %s\n", wrong, flags, zone, shared, text);
	}
	machine_free(&m);
	free(p.code);
	return wrong;
}

static void test_random(void)
{
	u32 bad = 0, n = 200000;

	for (u32 i = 0; i < n && bad < 3; i++)
		bad += compare(i % 3 == 0, false) != NULL;
	ok(!bad, "%u random programs do the same compiled and interpreted", n);
	ncompiled = 0;
	for (u32 i = 0; i < n && bad < 3; i++)
		bad += compare(false, true) != NULL;
	ok(!bad, "%u random plain programs of the Dynamic Probes language, too", n);
	ok(ncompiled > n / 2, "most of these need no slot");
	kept = (u64 *)(ctl.tids - 64);
	for (u32 i = 0; i < n / 4 && bad < 3; i++)
		bad += compare(false, true) != NULL;
	kept = NULL;
	ok(!bad, "%u of them behind a system call whose number is kept", n / 4);
	printf("# figure: %u of %u plain programs were compiled\n", ncompiled, n + n / 4);
	printf("# figure: %llu of %u compiled programs were left to the entry: no room before the ring's end, or an "
	       "unusual way\n",
	       (unsigned long long)jit_fallbacks, n);
}

/* ---- what is left to the general entry ---- */

static void assemble_or_die(struct dp_program *p, const char *text)
{
	memset(p, 0, sizeof(*p));
	if (!assemble(p, text))
		exit(1);
	p->logmax = 512;
}

#define RECORD_TWO "rec 16; logr64 di, @0; logr64 si, @8; exit"

/* Whether a hit now changes nothing and goes to the entry, with its point. */
static bool left_to_entry(const char *text, bool shared)
{
	struct dp_regs in = {.di = 1, .si = 2, .cx = 3, .dx = 4, .ax = 5, .r8 = 6, .r9 = 7, .flags = 0x246}, out;
	u64 fallbacks = jit_fallbacks, heads = logged();
	struct dp_program p;

	assemble_or_die(&p, text);
	if (compile(&p, true, true, shared))
		return false;
	jit_fallback_point = 0;
	hit_zone(&in, &out);
	free(p.code);
	return jit_fallbacks == fallbacks + 1 && jit_fallback_point == POINT && logged() == heads &&
	       same_registers(&in, &out, true);
}

static void test_fallbacks(bool shared)
{
	u64 before = counted(1, DP_COUNT_RECORDED) + counted(1, DP_COUNT_FILTERED);
	u64 lost = counted(1, DP_COUNT_LOST), heads;

	empty_rings(0);
	ok(!left_to_entry(RECORD_TWO, shared), "a usual hit is done by the code%s", shared ? " that points share" : "");
	for (u32 c = 0; c < NCPUS; c++)
		ring_of(c)->tail = ring_of(c)->head - RING_SIZE + 8;
	heads = logged();
	ok(!left_to_entry(RECORD_TWO, shared) && counted(1, DP_COUNT_LOST) == lost + 1 && logged() == heads,
	   "no room in the ring: counted as lost, and nothing is written");
	empty_rings(RING_SIZE * 5 - 8);
	ok(left_to_entry(RECORD_TWO, shared), "a record across the ring's end: left to the entry");
	empty_rings(RING_SIZE * 5 - 40);
	ok(!left_to_entry(RECORD_TWO, shared), "a record that ends with the ring is done by the code");
	ctl.ncpus = 0;
	ok(left_to_entry(RECORD_TWO, shared), "a processor without a ring: left to the entry");
	ok(left_to_entry("needr,eq di, 77; rec 0; exit", shared), "the same where nothing is logged");
	ctl.ncpus = NCPUS;
	ok(counted(1, DP_COUNT_RECORDED) + counted(1, DP_COUNT_FILTERED) == before + 2,
	   "none of these was counted twice");
}

static void test_refused(void)
{
	static const char *const texts[] = {
	    "rec 8; pushr di; ld64 +0; log64 @0, #0; exit",
	    "push d, 1; pop r, ax; rec 0; exit",
	    "abort",
	    "rec 8; rec 16; exit",
	    "needr,eq flags, 1; rec 0; exit",
	    "pushr cs; need; rec 0; exit",
	    "rec 8; logcomm @0, 0; exit",
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(texts); i++) {
		struct dp_program p;

		assemble_or_die(&p, texts[i]);
		ok(compile(&p, false, false, false) == -EOPNOTSUPP && compile(&p, true, true, true) == -EOPNOTSUPP,
		   "left to the interpreter: %s", texts[i]);
		free(p.code);
	}
}

/* ---- interruptions ---- */

#define THREADS 4
#define CALLS 400000u

static void on_tick(int sig)
{
	struct dp_regs in = {.di = 11, .si = ~11ull, .flags = 0x202}, out;

	(void)sig;
	hit_zone(&in, &out);
}

static volatile bool stop_reading;
static u64 read_records, torn;

/* Takes records as a reader does. */
static void read_all(void)
{
	for (u32 c = 0; c < NCPUS; c++) {
		struct dp_ring *ring = ring_of(c);
		u64 head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), at = ring->tail;

		for (; at < head; at += 64, read_records++) {
			u64 w[5];

			for (u32 i = 0; i < 5; i++)
				w[i] = *(u64 *)(data_of(c) + ((at + 8 * i) & (RING_SIZE - 1)));
			torn += w[0] != (64 | 1ull << 32) || w[3] != ~w[4];
		}
		__atomic_store_n(&ring->tail, at, __ATOMIC_RELEASE);
	}
}

static void *reader(void *arg)
{
	while (!stop_reading)
		read_all();
	return arg;
}

static void *caller(void *arg)
{
	for (u64 i = 0; i < CALLS; i++) {
		struct dp_regs in = {.di = i, .si = ~i, .flags = 0x202}, out;

		if (i % 64 == 0)
			sched_yield(); /* mostly, the reader keeps up */
		hit_zone(&in, &out);
	}
	return arg;
}

static void test_interrupted(bool shared)
{
	struct itimerval it = {{0, 200}, {0, 200}};
	u64 before = counted(1, DP_COUNT_RECORDED), lost = counted(1, DP_COUNT_LOST);
	pthread_t t[THREADS], r;
	struct dp_program p;

	empty_rings(0);
	stop_reading = false;
	read_records = torn = 0;
	/* 64 bytes, so that no record lies across the ring's end. */
	assemble_or_die(&p, "rec 40; logr64 di, @0; logr64 si, @8; exit");
	compile(&p, true, true, shared);
	jit_fallbacks = 0;
	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &it, NULL);
	pthread_create(&r, NULL, reader, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, caller, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	signal(SIGALRM, SIG_IGN);
	stop_reading = true;
	pthread_join(r, NULL);
	read_all();
	ok(read_records == counted(1, DP_COUNT_RECORDED) - before, "as many records as were counted");
	ok(!torn, "all of them whole");
	lost = counted(1, DP_COUNT_LOST) - lost;
	ok(read_records + jit_fallbacks + lost >= THREADS * CALLS,
	   "and with those left to the entry, and those without room, every hit");
	printf("# figure: %llu records of %d threads under a timer, %llu hits left to the entry, %llu without room\n",
	       (unsigned long long)read_records, THREADS, (unsigned long long)jit_fallbacks, (unsigned long long)lost);
	free(p.code);
}

int main(void)
{
	if (!make_world()) {
		printf("ok 1 - compiled programs # SKIP the C library registers no restartable sequences\n1..1\n");
		return 0;
	}
	for (u32 i = 0; i < DP_ARRAY_SIZE(ways); i++) {
		if (!can(&ways[i])) {
			ok(true, "the processor's number by: %s # SKIP wrong or not there on this machine",
			   ways[i].name);
			continue;
		}
		printf("# the processor's number by: %s\n", ways[i].name);
		test_random();
		test_refused();
		for (int shared = 0; shared < 2; shared++) {
			test_fallbacks(shared);
			test_interrupted(shared);
		}
	}
	return done();
}
