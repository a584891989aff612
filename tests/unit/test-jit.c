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
#include <ucontext.h>
#include <unistd.h>

#include "abi/abi-apart.h"
#include "abi/abi-point.h"
#include "abi/abi-ring.h"
#include "abi/abi-stretch.h"
#include "arch/arch.h"
#include "arch/compile.h"
#include "host/measure/measure.h"
#include "jit-programs.h"
#include "machine.h"

#define CODE_SIZE 65536u
#define NCPUS 64u
#define NRINGS (2 * NCPUS) /* with those that threads share */
#define NSLOTS 1024u
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
static u8 *memory;          /* at MEMORY_BASE, as a machine has it */
static bool guarded = true; /* it can be loaded from */

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

	for (u32 c = 0; c < NRINGS; c++)
		sum += ((struct dp_counts *)(ctl.counts + c * ctl.counts_stride))[event].v[what];
	return sum;
}

static u64 logged(void)
{
	u64 sum = 0;

	for (u32 c = 0; c < NRINGS; c++)
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

/* The number of the first slot that this thread looks at. */
static u32 own_slot(void)
{
	return ((u64)__builtin_thread_pointer() | 1) * 0x5851f42d >> 16 & (NSLOTS - 1);
}

static struct dp_hit_slot *slot_of(u32 index)
{
	return (struct dp_hit_slot *)(ctl.slots + (u64)index * DP_HIT_SLOT_SIZE + DP_HIT_SLOT_HEAD);
}

/* What the general entry does at a thread's first hit. False: another thread has the slot. */
static bool claim_slot(void)
{
	u64 key = (u64)__builtin_thread_pointer() | 1, nobody = 0;

	if (!__atomic_compare_exchange_n(&slot_of(own_slot())->owner, &nobody, key, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return false;
	((u32 *)ctl.tids)[own_slot()] = (u32)gettid();
	slot_of(own_slot())->rseq = (u64)__builtin_thread_pointer() + (u64)__rseq_offset;
	return true;
}

static struct dp_stretches *stretches(void)
{
	return (struct dp_stretches *)ctl.stretches;
}

/* False: this machine cannot run compiled programs. */
static bool make_world(void)
{
	u64 stride = PAGE + RING_SIZE, counts = DP_ALIGN_UP(NRINGS * EVENTS * sizeof(struct dp_counts), PAGE);
	u64 slots = (u64)NSLOTS * DP_HIT_SLOT_SIZE;
	const u64 page = MEMORY_BASE;
	u8 *all;

	if (!__rseq_size || !find_tid())
		return false;
	/* Everything within reach of the code, and the code within reach of the entry. */
	all = mmap((void *)((u64)jit_entry & ~0xffffffull) + (512u << 20),
		   CODE_SIZE + counts + NRINGS * stride + slots + NSLOTS * DP_LOAD_STRIDE + sizeof(struct dp_stretches),
		   PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
	ctl.nrings = NRINGS;
	ctl.slots = ctl.ring0 + NRINGS * stride;
	ctl.nslots = NSLOTS;
	ctl.loads = ctl.slots + slots;
	ctl.stretches = ctl.loads + NSLOTS * DP_LOAD_STRIDE;
	stretches()->tables[0] = (struct dp_stretch_table){.n = 1,
							   .v = {{page, page + MEMORY_SIZE, page + MEMORY_SIZE}}};
	ctl.tids = (u64)all + CODE_SIZE - 4 * (NSLOTS + 16);
	ctl.pid = ((u32 *)ctl.tids)[NSLOTS] = 4711;
	memory = mmap((void *)page, MEMORY_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return memory != MAP_FAILED && claim_slot();
}

/*
 * The ways to the processor's number, the thread and a ring that work on this machine, each with what stands for it in
 * the figures.
 */
static const struct way {
	u32 caps;
	const char *name;
} ways[] = {
    {DP_CAP_RSEQ | DP_CAP_TIDOFF | DP_CAP_RDPID | DP_CAP_RDFSBASE, "rdpid"},
    {DP_CAP_RSEQ | DP_CAP_TIDOFF | DP_CAP_LSL | DP_CAP_FS_WORD, "segment limit"},
    {DP_CAP_RSEQ | DP_CAP_TIDOFF | DP_CAP_RDTSCP | DP_CAP_RDFSBASE, "rdtscp"},
    {DP_CAP_RDPID | DP_CAP_RDFSBASE, "rdpid, threads share rings"},
    {DP_CAP_TIDOFF | DP_CAP_RDPID | DP_CAP_FS_WORD, "rdpid, threads with a control block share rings"},
    {DP_CAP_LSL | DP_CAP_FS_WORD, "segment limit, threads share rings"},
    {DP_CAP_RDTSCP | DP_CAP_RDFSBASE, "rdtscp, threads share rings"},
    {DP_CAP_RSEQ | DP_CAP_RDTSCP | DP_CAP_RDFSBASE, "rdtscp, threads without a control block share rings"},
};

static bool shares_rings(void)
{
	return !(ctl.caps & DP_CAP_RSEQ) || !(ctl.caps & DP_CAP_TIDOFF);
}

static bool can(const struct way *w)
{
	u32 have = dp_measure_machine()->caps | DP_CAP_FS_WORD | DP_CAP_TIDOFF | DP_CAP_RSEQ;

	ctl.caps = w->caps;
	return (have & w->caps) == w->caps && dp_jit_usable(&ctl);
}

#define LOCALS_SIZE (JIT_LOCALS * 8ul)

/* What processors add stands behind them, mostly. */
static u64 *compiled_locals;

static void choose_apart(void)
{
	u64 stride = dp_apart_stride(JIT_LOCALS);

	ctl.apart = jit_below(4) ? stride : 0;
	if (!compiled_locals)
		compiled_locals = calloc(NCPUS + 1, stride);
}

/* All that was added, in the words themselves. */
static void settle(void)
{
	struct dp_apart apart = {ctl.apart, (u32)DP_MIN(sysconf(_SC_NPROCESSORS_CONF), (long)NCPUS)};

	for (u32 i = 0; ctl.apart && i < JIT_LOCALS; i++) {
		u64 value = dp_apart_read(compiled_locals + i, apart);

		dp_apart_clear(compiled_locals + i, apart);
		compiled_locals[i] = value;
	}
}

/* For hits behind a system call whose number is kept: in the slot, and the code in front of the program's. */
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
			     .loads = guarded,
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
		case DP_OP_LOG8:
		case DP_OP_LOG16:
		case DP_OP_LOG32:
		case DP_OP_LOG64:
			memset(mask + in.v[0], 1, in.info->op.size);
			break;
		case DP_OP_LOGM:
			memset(mask + in.v[3], 1, (size_t)in.v[2]);
			break;
		case DP_OP_LOGM_S:
			memset(mask + in.v[2], 1, (size_t)in.v[1]);
			break;
		}
}

/* The record that was just committed, wherever; NULL: none, or more than one. */
static const struct dp_record *take_record(void)
{
	const struct dp_record *rec = NULL;

	for (u32 c = 0; c < NRINGS; c++) {
		struct dp_ring *ring = ring_of(c);

		if (ring->owner)
			return NULL;
		if (ring->head == ring->tail)
			continue;
		if (rec || (c >= NCPUS) != shares_rings())
			return NULL;
		rec = (const struct dp_record *)(data_of(c) + (ring->tail & (RING_SIZE - 1)));
		if (rec->cpu != c % NCPUS || ring->head - ring->tail != rec->len)
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
	for (u32 c = 0; c < NRINGS; c++)
		ring_of(c)->head = ring_of(c)->tail = at;
}

static u32 ncompiled;

/* Whether the number is kept any longer, if one was. */
static bool is_kept(void)
{
	return kept && *kept;
}

/* Pointers, mostly: what a program reads it may follow. */
static void fill_memory(u8 *machine)
{
	for (u32 i = 0; i < MEMORY_SIZE / 8; i++)
		((u64 *)memory)[i] = jit_below(8) ? jit_any_pointer() : jit_any_value();
	memcpy(machine, memory, MEMORY_SIZE);
}

/* One program, compiled and interpreted. Returns what went wrong, NULL for nothing. */
static const char *compare(bool in_return, bool plain)
{
	u64 locals[JIT_LOCALS] = {0};
	bool flags = jit_below(2), zone = jit_below(2), shared = !kept && jit_below(2), log;
	struct dp_regs in, out;
	struct dp_program p;
	const char *wrong = NULL;
	struct machine m;
	u64 before[2] = {counted(1, DP_COUNT_RECORDED), counted(1, DP_COUNT_FILTERED)}, fallbacks = jit_fallbacks;

	number = jit_below(4);
	if (kept)
		*kept = 1;
	if (plain)
		jit_make_plain(&p);
	else
		jit_make_event(&p, in_return);
	if (plain && dp_program_verify(&p, false, NULL)) {
		free(p.code);
		return "not verified";
	}
	jit_fill_tables(locals);
	choose_apart();
	memcpy(compiled_locals, locals, LOCALS_SIZE);
	if (compile(&p, flags, zone, shared) && (!shared || compile(&p, flags, zone, false))) { /* it knows its place */
		free(p.code);
		return plain || jit_reads ? NULL : "not compiled";
	}
	machine_init(&m);
	memcpy(m.locals, locals, sizeof(locals));
	for (u32 i = 0; i < 15; i++)
		((u64 *)&in)[i] = jit_reads && jit_below(8) ? jit_any_pointer() : jit_any_value();
	if (jit_reads)
		fill_memory(m.memory);
	in.flags = 0x202 | (next_random(&jit_random) & ARITHMETIC);
	jit_return_to = next_random(&jit_random);
	memcpy(m.stack, &jit_return_to, 8);
	(zone ? hit_zone : hit_plain)(&in, &out);
	settle();
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
		    counted(1, DP_COUNT_FILTERED) != before[1] || memcmp(compiled_locals, locals, sizeof(locals)) ||
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
	} else if (memcmp(compiled_locals, m.locals, LOCALS_SIZE)) {
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

/* Programs that read memory, of which most is in a stretch. */
static void test_loads(u32 n)
{
	u64 before = jit_fallbacks;
	u32 bad = 0, made = ncompiled;

	jit_reads = true;
	for (u32 i = 0; i < n && bad < 3; i++)
		bad += compare(i % 6 == 0, i % 2) != NULL;
	jit_reads = false;
	ok(!bad, "%u of both kinds that read memory", n);
	made = ncompiled - made;
	before = jit_fallbacks - before;
	jit_fallbacks -= before;
	ncompiled -= made;
	ok(shares_rings() || before < made / 2, "most of what they read is loaded");
	printf("# figure: of %u compiled programs that read memory %llu were left to the entry\n", made,
	       (unsigned long long)before);
}

static void assemble_or_die(struct dp_program *p, const char *text)
{
	memset(p, 0, sizeof(*p));
	if (!assemble(p, text))
		exit(1);
	p->logmax = 512;
}

/* The sum of a pair in the table; NULL: it is not there. */
static u64 *sum_of(u64 a, u64 b)
{
	u64 *at = &compiled_locals[JIT_SUMS + 1];

	for (u32 i = 0; i < JIT_KEYS; i++, at += 5)
		if (at[0] && at[1] == a && at[2] == b)
			return at + 3;
	return NULL;
}

static void add_pair(u64 a, u64 b)
{
	u32 place = dp_table_place(dp_table_hash(dp_table_hash(0, 0, a), 1, b), JIT_KEYS);
	u64 *table = &compiled_locals[JIT_SUMS + 1];

	while (table[5 * place])
		place = (place + 1) % JIT_KEYS;
	memcpy(&table[5 * place], (const u64[]){DP_TABLE_VALID, a, b}, 24);
}

/* Keys of two words, of a table that is full: few lie too far from where their search begins. */
static void test_pairs(void)
{
	char text[160];
	struct dp_program p;
	u32 bad = 0, left = 0;

	snprintf(text, sizeof(text), "begin; pushr dx; pushr di; pushr si; find lv, 2, %u, %u, 2; fold lv, %u; abort",
		 JIT_SUMS, JIT_KEYS, DP_AGG_SUM);
	assemble_or_die(&p, text);
	p.nlocals = JIT_LOCALS;
	p.rpn = (struct dp_rpn_params){.ex_mask = DP_RPN | DP_EX_DEFAULT, .max = DP_MAXHITS_NONE};
	choose_apart();
	memset(compiled_locals, 0, LOCALS_SIZE);
	for (u64 i = 0; i < JIT_KEYS; i++)
		add_pair(i % 4, i / 4);
	bad += compile(&p, true, true, false) != 0;
	for (u64 i = 0; i < JIT_KEYS && !bad; i++) {
		struct dp_regs in = {.di = i % 4, .si = i / 4, .dx = 100 + i, .flags = 0x246}, out;
		u64 fallbacks = jit_fallbacks, *sum = sum_of(i % 4, i / 4);

		hit_zone(&in, &out);
		left += jit_fallbacks != fallbacks;
		bad += jit_fallbacks == fallbacks ? sum[0] != 100 + i || sum[1] != 1 : sum[1] != 0;
	}
	free(p.code);
	ok(!bad && left < JIT_KEYS / 3, "sums by keys of two words: %u of %u are left to the entry", left, JIT_KEYS);
}

static void test_random(void)
{
	u32 bad = 0, n = shares_rings() ? 40000 : 200000;

	for (u32 i = 0; i < n && bad < 3; i++)
		bad += compare(i % 3 == 0, false) != NULL;
	ok(!bad, "%u random programs do the same compiled and interpreted", n);
	ncompiled = 0;
	jit_fallbacks = 0;
	for (u32 i = 0; i < n && bad < 3; i++)
		bad += compare(false, true) != NULL;
	ok(!bad, "%u random plain programs of the Dynamic Probes language, too", n);
	ok(ncompiled > n / 2, "most of these need no slot");
	kept = slot_of(own_slot())->calls;
	jit_behind_calls = true;
	for (u32 i = 0; i < n / 4 && bad < 3; i++)
		bad += compare(false, true) != NULL;
	kept = NULL;
	jit_behind_calls = false;
	ok(!bad, "%u of them behind a system call whose number is kept", n / 4);
	test_loads(n / 4);
	test_pairs();
	printf("# figure: %u of %u plain programs were compiled\n", ncompiled, n + n / 4);
	printf("# figure: %llu of %u compiled programs were left to the entry: no room before the ring's end, or an "
	       "unusual way\n",
	       (unsigned long long)jit_fallbacks, n);
}

/* ---- what is left to the general entry ---- */

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
	for (u32 c = 0; c < NRINGS; c++)
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
	/* Threads that share rings can be counted without it. */
	if (!shares_rings() || ctl.caps & (DP_CAP_RDPID | DP_CAP_LSL))
		ok(left_to_entry("needr,eq di, 77; rec 0; exit", shared), "the same where nothing is logged");
	ctl.ncpus = NCPUS;
	ok(counted(1, DP_COUNT_RECORDED) + counted(1, DP_COUNT_FILTERED) == before + 2,
	   "none of these was counted twice");
}

#define READ_ONE "rec 8; pushr di; ld64 +0; log64 @0, #0; exit"

/* Whether the code does a hit that reads 8 bytes at the address; it leaves no trace of the load. */
static bool loads(u64 address, bool shared)
{
	struct dp_regs in = {.di = address, .flags = 0x246}, out;
	const u64 *word = (const u64 *)(ctl.loads + own_slot() * DP_LOAD_STRIDE);
	u64 area = (u64)__builtin_thread_pointer() + (u64)__rseq_offset;
	u64 fallbacks = jit_fallbacks, recorded = counted(1, DP_COUNT_RECORDED);
	struct dp_program p;
	bool done;

	assemble_or_die(&p, READ_ONE);
	empty_rings(0);
	if (compile(&p, true, true, shared))
		return false;
	hit_zone(&in, &out);
	free(p.code);
	done = counted(1, DP_COUNT_RECORDED) == recorded + 1;
	return done != (jit_fallbacks == fallbacks + 1) && !*word && !*(const u64 *)(area + 8) &&
	       same_registers(&in, &out, true) && done;
}

static void test_loaded(bool shared)
{
	struct dp_stretch *v = stretches()->tables[0].v, all = v[0];
	struct dp_hit_slot *slot = slot_of(own_slot());
	const u64 lo = MEMORY_BASE, hi = lo + MEMORY_SIZE;

	ok(loads(lo, shared) && loads(hi - 8, shared), "what lies in a stretch is loaded");
	slot->wants = 0;
	ok(!loads(hi - 7, shared) && slot->wants, "what reaches beyond it is left to the entry, which looks for it");
	ok(!loads(lo - 1, shared) && !loads(0, shared) && !loads(~0ull - 3, shared),
	   "so is what lies elsewhere, or nowhere");
	v[0].hi = 0;
	ok(!loads(lo, shared), "what was taken back is not loaded");
	v[1] = all;
	slot->hints[DP_STRETCH_HINTS - 1] = sizeof(v[0]);
	ok(loads(lo + 8, shared), "one of several stretches that the thread has met is found");
	stretches()->state = DP_STRETCH_SECOND;
	ok(!loads(lo, shared), "the table that is not in force is not looked at");
	stretches()->state = 0;
	slot->hints[DP_STRETCH_HINTS - 1] = 0;
	v[0] = all;
	slot->rseq = 0;
	ok(!loads(lo, shared), "a thread without an area loads nothing");
	slot->rseq = (u64)__builtin_thread_pointer() + (u64)__rseq_offset;
}

/* ---- signals while memory is loaded ---- */

static struct {
	u8 *at, byte; /* where a breakpoint stands, and what stood there */
	u32 faults, traps;
	bool told; /* at each fault the thread's word had the sequence that it was in */
} signals;

static u64 *own_word(void)
{
	return (u64 *)(ctl.loads + own_slot() * DP_LOAD_STRIDE);
}

/* In the middle of the load: the kernel has sent the thread out of its sequence. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct dp_rseq_cs *cs = (const struct dp_rseq_cs *)*own_word();
	bool inside = (u64)cs >= (u64)code && (u64)cs < (u64)code + DP_JIT_MAX;

	signals.told &= inside && cs->abort_ip == (u64)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	signals.faults++;
	mprotect(memory, MEMORY_SIZE, PROT_READ | PROT_WRITE);
}

/* A handler whose own hit has loaded, and is done. */
static void on_trap(int sig, siginfo_t *info, void *context)
{
	greg_t *ip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	*signals.at = signals.byte;
	if (*ip == (greg_t)signals.at + 1) /* else it was in a sequence */
		*ip = (greg_t)signals.at;
	signals.traps++;
	*own_word() = 0;
}

/* The hit is done by the code, whatever comes at that instruction. */
static bool loads_in_spite_of(u8 *at)
{
	struct dp_regs in = {.di = MEMORY_BASE, .flags = 0x246}, out;
	u64 recorded = counted(1, DP_COUNT_RECORDED);

	signals.at = at;
	signals.byte = *at;
	signals.faults = 0;
	signals.told = true;
	*at = 0xcc;
	mprotect(memory, MEMORY_SIZE, PROT_NONE);
	hit_zone(&in, &out);
	*at = signals.byte;
	mprotect(memory, MEMORY_SIZE, PROT_READ | PROT_WRITE);
	return counted(1, DP_COUNT_RECORDED) == recorded + 1 && signals.faults == 1 && signals.told && !*own_word() &&
	       same_registers(&in, &out, true);
}

/* The code's last instruction. */
static bool goes_to_entry(const u8 *at)
{
	s32 rel;

	memcpy(&rel, at + 1, 4);
	return *at == 0xe9 && at + 5 + rel == (const u8 *)jit_entry;
}

/* A signal at each instruction of the code. */
static void test_handlers(void)
{
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER},
			 trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
	u8 *at = code + DP_JIT_ENTRY;
	struct dp_program p;
	struct dp_insn in;
	u32 bad = 0;

	assemble_or_die(&p, READ_ONE);
	empty_rings(0);
	if (!compile(&p, true, true, false)) {
		sigaction(SIGSEGV, &fault, NULL);
		sigaction(SIGTRAP, &trap, NULL);
		signals.traps = 0;
		for (int n; (n = dp_insn_decode(&in, at, DP_INSN_MAX)) > 0 && !goes_to_entry(at); at += n)
			bad += !loads_in_spite_of(at);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
	}
	free(p.code);
	ok(!bad && signals.traps > 60, "a handler that loads itself may come at any of %u instructions", signals.traps);
}

static u32 taken_rings(void)
{
	u32 n = 0;

	for (u32 c = 0; c < NRINGS; c++)
		n += ring_of(c)->owner != 0;
	return n;
}

static void test_shared_rings(bool shared)
{
	u32 *id = (u32 *)ctl.tids + own_slot(), own = *id;
	struct dp_hit_slot *slot = slot_of(own_slot());
	u64 key = slot->owner, before = counted(1, DP_COUNT_RECORDED), heads;

	empty_rings(RING_SIZE * 5 - 8);
	ok(left_to_entry(RECORD_TWO, shared) && !taken_rings(), "a ring where the record does not fit is given back");
	empty_rings(0);
	for (u32 c = 0; c < NRINGS; c++)
		ring_of(c)->tail = ring_of(c)->head - RING_SIZE + 8;
	ok(!left_to_entry(RECORD_TWO, shared) && !taken_rings(), "so is one that has no room");
	empty_rings(0);
	for (u32 c = NCPUS; c < NRINGS; c++)
		ring_of(c)->owner = 0x80000001;
	ok(left_to_entry(RECORD_TWO, shared) && taken_rings() == NCPUS, "a ring that another holds is left alone");
	ok(!left_to_entry("needr,eq di, 77; rec 0; exit", shared), "nothing is logged: no ring is taken");
	for (u32 c = NCPUS; c < NRINGS; c++)
		ring_of(c)->owner = 0;
	if (ctl.caps & DP_CAP_TIDOFF)
		return;
	*id = 0;
	ok(left_to_entry(RECORD_TWO, shared) && !taken_rings(), "a thread without an id is left to the entry");
	*id = own;
	slot->owner = key + 16;
	ok(left_to_entry(RECORD_TWO, shared) && !taken_rings(), "a thread whose slot is another one, too");
	slot->owner = key;
	heads = logged();
	ok(!left_to_entry(RECORD_TWO, shared) && logged() != heads && counted(1, DP_COUNT_RECORDED) == before + 1,
	   "and then its hit is done by the code");
}

static void test_refused(void)
{
	static const char *const texts[] = {
	    READ_ONE,
	    "push d, 1; pop r, ax; rec 0; exit",
	    "abort",
	    "rec 8; rec 16; exit",
	    "needr,eq flags, 1; rec 0; exit",
	    "pushr cs; need; rec 0; exit",
	    "rec 8; logcomm @0, 0; exit",
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(texts); i++) {
		struct dp_program p;

		guarded = i > 0; /* the first would do otherwise */
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
	for (u32 c = 0; c < NRINGS; c++) {
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
	bool claimed = claim_slot(); /* else all are left to the entry */

	for (u64 i = 0; i < CALLS; i++) {
		struct dp_regs in = {.di = i, .si = ~i, .flags = 0x202}, out;

		if (i % 64 == 0)
			sched_yield(); /* mostly, the reader keeps up */
		hit_zone(&in, &out);
	}
	if (claimed)
		slot_of(own_slot())->owner = 0;
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
	ok(!taken_rings(), "no ring is left taken");
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
			if (shares_rings())
				test_shared_rings(shared);
			else
				test_loaded(shared);
			if (!shared && !shares_rings())
				test_handlers();
			test_interrupted(shared);
		}
	}
	return done();
}
