/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random programs. Those that the verifier lets pass run on the interpreter and on the reference; both must
 * end, leave the same registers, memory, variables and record behind, and touch nothing else.
 * Usage: fuzz-vm [SECONDS [SEED [PROGRAMS]]]; 0 seconds = endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "programs.h"
#include "reference.h"

static u64 traced, made, passed, logged, filtered, raised, faulted;
static u64 ran[65536];

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

static const char *compare_traces(struct machine *m, const u8 *trace, u32 len, bool cut)
{
	const u8 *have = (const u8 *)m->vm->record + sizeof(struct dp_record) + sizeof(struct dp_rpn_head);

	if (!dp_vm_trace(&m->hit))
		return len ? "a stack trace is missing" : NULL;
	traced++;
	if (m->hit.log_len - sizeof(struct dp_rpn_head) != len)
		return "stack traces have different lengths";
	if (!(m->hit.rec_flags & DP_REC_TRUNCATED) == cut)
		return "one stack trace is cut";
	return memcmp(have, trace, len) ? "stack traces differ" : NULL;
}

static const char *try_program(struct dp_program *p)
{
	static struct machine a, b;
	enum dp_run_result ra, rb;
	const char *what, *complaint;
	const u8 *trace;
	u32 trace_len;
	bool trace_cut;
	u64 seed = next_random(&state);

	furnish(&a, seed);
	furnish(&b, seed);
	ra = machine_run(&a, p);
	rb = reference_run(&b, p, &complaint, &trace, &trace_len, &trace_cut);
	what = complaint ? complaint : ra != rb ? "results differ" : ra == DP_RUN_PASSED ? NULL : compare(&a, &b, p);
	if (!what && p->rpn.ex_mask && ra != DP_RUN_PASSED)
		what = compare_traces(&a, trace, trace_len, trace_cut);
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
	make_program(&p, PROGRAMS_ALL);
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
	u64 master = seed, most = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	u32 i = 0, opcode, missing = 0;

	while (good && (most ? made < most : !seconds || time(NULL) < end))
		for (u32 k = 0; k < 500 && good; k++)
			good = round_of(next_random(&master) | 1);
	while (dp_opcode_next(&i, &opcode))
		missing += !ran[opcode] && dp_opcode_info(opcode)->rule < DP_RULE_KERNEL;
	printf(
	    "# %llu programs, %llu passed the verifier and ran four times: %llu logged, %llu filtered, %llu ended by "
	    "exceptions, %llu with faults, %llu stack traces; %u opcodes never came up\n",
	    (unsigned long long)made, (unsigned long long)passed, (unsigned long long)logged,
	    (unsigned long long)filtered, (unsigned long long)raised, (unsigned long long)faulted,
	    (unsigned long long)traced, missing);
	ok(good, "verified random programs do on the interpreter what they do on the reference");
	ok(passed > 100, "enough of them were verified");
#ifdef DP_SHORT_RUN
	ok(!missing, "every opcode was among them");
#endif
	return done();
}
