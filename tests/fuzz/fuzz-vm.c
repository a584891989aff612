/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random programs. Those that the verifier lets pass run on the interpreter and on the reference; both must
 * end, leave the same registers, memory, variables and record behind, and touch nothing else.
 * Usage: fuzz-vm [SECONDS [SEED]]; 0 seconds = endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reference.h"

static u64 state;
static u64 traced, made, passed, logged, filtered, raised, faulted;
static u64 ran[65536];

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static u64 any_word(void)
{
	static const u64 interesting[] = {0, 1, 2, 7, 8, 63, 64, 65, 255, 1024, MEMORY_BASE, MEMORY_BASE + 0x100,
					  MEMORY_BASE + MEMORY_SIZE - 4, STACK_BASE, 1ull << 63, ~0ull, ~0ull >> 1};

	if (below(4) == 0)
		return next_random(&state);
	return interesting[below(DP_ARRAY_SIZE(interesting))] + (below(4) ? 0 : below(16));
}

/* ---- making programs ---- */

static struct dp_field fields[8];

static void make_rpn(struct dp_program *p)
{
	struct dp_rpn_params *r = &p->rpn;

	r->ex_mask = DP_RPN | (below(2) ? 0xffff : next_random(&state) & 0xffff) | (below(3) ? 0 : DP_RPN_AUTOTRACE);
	r->heap = below(3) ? DP_HEAP_MAX : below(200);
	r->ex_logmax = below(3) ? below(DP_EX_LOG_MAX + 1) : below(120);
	r->major = (u16)below(65536);
	r->minor = (u16)below(65536);
	r->pass = below(10) ? 0 : 1;
	r->max = below(20) ? ~0ull : 0;
	p->logmax = below(5) ? below(400) : 0;
	p->jmpmax = below(3) ? below(50) : below(2000);
	p->nlocals = (u16)below(below(2) ? 9 : 41);
	p->nglobals = (u16)below(9);
}

static void make_layout(struct dp_program *p)
{
	struct dp_layout *l = &p->layout;
	u32 at;

	if (below(2)) {
		make_rpn(p);
		return;
	}
	memset(fields, 0, sizeof(fields));
	l->has_faultmask = below(2);
	l->nfields = (u16)below(8);
	l->fields = fields;
	at = 8u * l->has_faultmask;
	for (u32 i = 0; i < l->nfields; i++) {
		fields[i] = (struct dp_field){.type = DP_FIELD_U32, .size = 4, .offset = (u16)at};
		at += 4;
	}
	l->fixed_size = (u16)(at + below(16));
	p->logmax = below(3) ? l->fixed_size + below(64) : (u32)DP_LOGMAX;
	p->jmpmax = below(3) ? below(50) : below(2000);
	p->nlocals = (u16)below(9);
	p->nglobals = (u16)below(9);
}

static s64 make_operand(const struct dp_program *p, char kind, const u32 *starts, u32 n, u32 opcode)
{
	const struct dp_layout *l = &p->layout;

	if (below(200) == 0) /* wrong on purpose */
		return (s64)any_word();
	switch (kind) {
	case DP_KIND_SLOT:
		return below(DP_NSLOTS);
	case DP_KIND_REG:
	case DP_KIND_REGW:
		return dp_register_at(below(21))->number;
	case DP_KIND_WORD:
		return (s64)any_word();
	case DP_KIND_DISP:
		return (s64)below(64) - 32;
	case DP_KIND_JUMP: /* the offset of an instruction, those to come included */
		return starts[p->rpn.ex_mask ? 1 + below(n - 1) : below(n)];
	case DP_KIND_NUM:
		return below(5);
	case DP_KIND_INDEX:
		return (s64)below(12) - 6;
	case DP_KIND_STATE:
		return opcode == DP_OP_PUSH_STATE ? 1 + below(4) : 0x4d + below(8);
	case DP_KIND_EXITTO:
		return DP_EXIT_COREDUMP;
	case DP_KIND_LOCAL:
		return below(p->nlocals + !p->nlocals);
	case DP_KIND_GLOBAL:
		return below(p->nglobals + !p->nglobals);
	case DP_KIND_COUNT:
		return below(4);
	case DP_KIND_BIT:
		return below(64) + 1;
	case DP_KIND_AMOUNT:
		return below(64);
	case DP_KIND_WIDTH:
		return below(64) + 1;
	case DP_KIND_OFF:
		return l->fixed_size ? below(l->fixed_size) & ~(below(2) ? 3u : 0u) : 0;
	case DP_KIND_LEN:
		if (opcode == DP_OP_REC || opcode == DP_OP_RECM)
			return l->fixed_size;
		return 1 + below(opcode == DP_OP_STR ? 40 : 16);
	case DP_KIND_FIELD:
		return l->has_faultmask && l->nfields && below(3) ? below(l->nfields) : 255;
	case DP_KIND_KEEP:
		return below(3) ? 0 : below(60);
	default:
		return below(10);
	}
}

/* Most opcodes belong to one of the two kinds of programs. */
static bool fits(u32 opcode, bool rpn)
{
	u8 rule = dp_opcode_info(opcode)->rule;

	return rpn ? rule != DP_RULE_BEGIN && rule < DP_RULE_KERNEL && (rule < DP_RULE_OPEN || rule > DP_RULE_SPAN)
		   : rule < DP_RULE_BEGIN;
}

static u32 any_opcode(bool rpn)
{
	static u32 kinds[2][256], counts[2];
	u32 *all = kinds[rpn], n = counts[rpn], i = 0;

	if (!n) {
		while (dp_opcode_next(&i, &all[n]))
			n += fits(all[n], rpn);
		counts[rpn] = n;
	}
	/* Words on the stack keep programs alive. */
	return below(3) ? all[below(n)] : below(2) ? DP_OP_PUSH_D : DP_OP_PUSHR;
}

#define OPS_MAX 60

/* Two passes, the first one for the lengths, so that jumps can go anywhere. */
static void make_program(struct dp_program *p)
{
	struct dp_asm code = {0};
	u32 ops[OPS_MAX], starts[OPS_MAX + 1], n = 3 + below(OPS_MAX - 5), open = below(8);
	u64 again;

	make_layout(p);
	for (u32 i = 0; i < n; i++)
		ops[i] = any_opcode(p->rpn.ex_mask != 0);
	if (p->rpn.ex_mask)
		ops[0] = DP_OP_BEGIN;
	else if (open < n)
		ops[open] = p->layout.has_faultmask ? DP_OP_RECM : DP_OP_REC;
	ops[n - 1] = below(5) ? DP_OP_EXIT : DP_OP_JMP;
	memset(starts, 0, sizeof(starts));
	again = state;
	for (int pass = 0; pass < 2; pass++) {
		state = again;
		code.len = 0;
		for (u32 i = 0; i < n; i++) {
			const struct dp_opcode_info *info = dp_opcode_info(ops[i]);
			char text[32];
			s64 v[DP_OPERANDS_MAX + 1] = {0};

			starts[i] = code.len;
			for (u32 k = 0; info->operands[k]; k++)
				v[k] = make_operand(p, info->operands[k], starts, n, ops[i]);
			for (u32 k = 0; k < sizeof(text); k++)
				text[k] = "ab*?[]-!\\helo"[below(13)];
			for (u32 k = 0; info->operands[k]; k++)
				if (info->operands[k] == DP_KIND_TEXT)
					v[k] &= 15;
			dp_asm_put(&code, (enum dp_opcode)ops[i], v, text);
		}
	}
	if (below(10) == 0 && code.len) /* a flipped byte */
		code.bytes[below(code.len)] ^= (u8)(1u << below(8));
	p->code = code.bytes;
	p->len = code.len;
}

/* ---- running them ---- */

static void furnish(struct machine *m, u64 seed)
{
	u64 *r = (u64 *)&m->regs;
	u64 saved = state;

	state = seed;
	machine_init(m);
	for (u32 i = 0; i < DP_NSLOTS; i++)
		r[i] = any_word();
	if (below(4))
		m->regs.sp = STACK_BASE + 8 * below(60);
	for (u32 i = 0; i < 8; i++) {
		m->locals[i] = any_word();
		m->globals[i] = any_word();
	}
	for (u32 i = 0; i < 64; i++) {
		u64 v = any_word();

		memcpy(m->memory + 8 * i, &v, 8);
	}
	memcpy(m->memory + 0x100, "hello", 6);
	m->gate = below(3);
	m->comm = below(2) ? "hello" : "a-name-of-fifteen";
	state = saved;
}

/* What the first run left behind that the second did not, or outside of what it may touch. */
static const char *compare(const struct machine *a, const struct machine *b, const struct dp_program *p)
{
	u8 *x = (u8 *)a->vm->record;
	const u8 *y = (const u8 *)b->vm->record;
	u32 head = p->rpn.ex_mask ? sizeof(struct dp_rpn_head) : 0;
	u32 end = sizeof(struct dp_record) + p->logmax + head;

	if (memcmp(&a->regs, &b->regs, sizeof(a->regs)))
		return "registers differ";
	if (a->gate != b->gate)
		return "counts of hits differ";
	if (memcmp(a->locals, b->locals, sizeof(a->locals)) || memcmp(a->globals, b->globals, sizeof(a->globals)))
		return "variables differ";
	if (memcmp(a->memory, b->memory, MEMORY_SIZE) || memcmp(a->stack, b->stack, STACK_SIZE))
		return "memory differs";
	if (a->hit.log_len != b->hit.log_len || a->hit.rec_flags != b->hit.rec_flags ||
	    a->hit.faults != b->hit.faults || a->hit.exceptions != b->hit.exceptions)
		return "lengths, flags or counts differ";
	if (head && a->hit.log_len) /* the end of a record is padded when it is committed */
		((struct dp_rpn_head *)(x + sizeof(struct dp_record)))->pad = 0;
	if (memcmp(x + sizeof(struct dp_record), y + sizeof(struct dp_record), a->hit.log_len))
		return "records differ";
	for (u32 i = 0; i < DP_RECORD_MAX; i++)
		if ((i < sizeof(struct dp_record) || i >= end) && x[i] != 0xa5)
			return "memory around the payload was written";
	if (a->hit.log_len > p->logmax + head)
		return "the log budget was exceeded";
	return NULL;
}

static const char *compare_traces(struct machine *m, const u8 *trace, u32 len)
{
	const u8 *have = (const u8 *)m->vm->record + sizeof(struct dp_record) + sizeof(struct dp_rpn_head);

	if (!dp_vm_trace(&m->hit))
		return len ? "a stack trace is missing" : NULL;
	traced++;
	if (m->hit.log_len - sizeof(struct dp_rpn_head) != len)
		return "stack traces have different lengths";
	return memcmp(have, trace, len) ? "stack traces differ" : NULL;
}

static const char *try_program(struct dp_program *p)
{
	static struct machine a, b;
	enum dp_run_result ra, rb;
	const char *what, *complaint;
	const u8 *trace;
	u32 trace_len;
	u64 seed = next_random(&state);

	furnish(&a, seed);
	furnish(&b, seed);
	ra = machine_run(&a, p);
	rb = reference_run(&b, p, &complaint, &trace, &trace_len);
	what = complaint ? complaint : ra != rb ? "results differ" : ra == DP_RUN_PASSED ? NULL : compare(&a, &b, p);
	if (!what && p->rpn.ex_mask && ra != DP_RUN_PASSED)
		what = compare_traces(&a, trace, trace_len);
	logged += ra == DP_RUN_LOG;
	filtered += ra != DP_RUN_LOG;
	raised += a.hit.exceptions;
	faulted += a.hit.faults != 0;
	machine_free(&a);
	machine_free(&b);
	return what;
}

static void count_opcodes(const struct dp_program *p)
{
	struct dp_op_view op;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &op); at += op.len)
		ran[op.opcode]++;
}

/* One program; false when something is wrong. */
static bool round_of(u64 seed)
{
	struct dp_program p = {0};
	const char *what = NULL;
	static char text[65536];

	state = seed;
	make_program(&p);
	made++;
	if (!dp_program_verify(&p, true, NULL)) {
		passed++;
		count_opcodes(&p);
		for (u32 i = 0; i < 4 && !what; i++)
			what = try_program(&p);
	}
	if (what) {
		dp_program_disasm(&p, text, sizeof(text));
		printf("# %s, seed 0x%llx, jmpmax %u, logmax %u, fixed %u\n# %s\n", what, (unsigned long long)seed,
		       p.jmpmax, p.logmax, p.layout.fixed_size, text);
	}
	p.layout.fields = NULL;
	dp_program_free(&p);
	return !what;
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	long seconds = 4;
#else
	long seconds = argc > 1 ? atol(argv[1]) : 10;
#endif
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	time_t end = time(NULL) + seconds;
	bool good = argc <= 2 || round_of(seed); /* a given seed is tried by itself first */
	u64 master = seed;
	u32 i = 0, opcode, missing = 0;

	while (good && (!seconds || time(NULL) < end))
		for (u32 k = 0; k < 500 && good; k++)
			good = round_of(next_random(&master) | 1);
	while (dp_opcode_next(&i, &opcode))
		missing += !ran[opcode] && dp_opcode_info(opcode)->rule != DP_RULE_KERNEL;
	printf("# %llu programs, %llu passed the verifier and ran four times: %llu logged, %llu filtered, %llu ended by "
	       "exceptions, %llu with faults, %llu stack traces; %u opcodes never came up\n",
	       (unsigned long long)made, (unsigned long long)passed, (unsigned long long)logged,
	       (unsigned long long)filtered, (unsigned long long)raised, (unsigned long long)faulted, (unsigned long long)traced, missing);
	ok(good, "verified random programs do on the interpreter what they do on the reference");
	ok(passed > 100, "enough of them were verified");
#ifdef DP_SHORT_RUN
	ok(!missing, "every opcode was among them");
#endif
	return done();
}
