/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Everything that judges the interpreter, in one program, for the coverage of its branches (test_branches.py): the
 * tests of opcodes, the golden programs, random programs against the reference, and what only the cases here come to.
 */
#include <stdio.h>
#include <string.h>

#include "../unit/machine.h"
#include "hit/hit-rpn.h"

int vm_main(int argc, char **argv);
int golden_main(int argc, char **argv);
int fuzz_main(int argc, char **argv);

static u64 variables[512];

/* Run a program on a machine that was prepared; variables are those above. */
static enum dp_run_result run(struct machine *m, struct dp_program *p, const char *text)
{
	enum dp_run_result result;

	if (!assemble(p, text)) {
		ok(false, "assembles: %s", text);
		return DP_RUN_FILTERED;
	}
	dp_program_to_rt(p, &m->rt);
	m->rt.code = (u64)p->code;
	m->rt.locals = (u64)variables;
	m->rt.gate = 0; /* a program whose hits nobody counts */
	m->rt.work = m->work;
	result = dp_vm_run(&m->hit);
	dp_program_free(p);
	return result;
}

static struct dp_program rpn(u32 logmax)
{
	return (struct dp_program){.jmpmax = 10,
				   .logmax = logmax,
				   .nlocals = DP_ARRAY_SIZE(variables),
				   .rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT, .heap = 4096, .max = DP_MAXHITS_NONE}};
}

#define LV0 variables[0]

static void test_texts(struct machine *m)
{
	struct dp_program p = {.logmax = 12, .layout = {.fixed_size = 12, .has_faultmask = 1}};

	ok(run(m, &p, "recm 12; push d, 0; ld64 0; logstr 0, @8, 0; exit") == DP_RUN_LOG &&
	       m->hit.rec_flags == DP_REC_FAULTED,
	   "a text at an address that could not be read, without room: a fault, not a short text");
	memcpy(m->memory, "a\\", 3);
	p = rpn(0);
	run(m, &p, "begin; push d, 0x10000; str 9; strglob \"a\\\\\"; pop lv, 0; exit");
	ok(LV0 == 1, "a backslash at the end of a pattern means itself");
	p = rpn(400);
	memset(m->memory + MEMORY_SIZE - 255, 'x', 255);
	run(m, &p, "begin; push d, 300; push d, 0x10f01; log str; push lp; pop lv, 0; exit");
	ok(LV0 == 258, "a text that ends where memory ends is logged up to there");
	p = rpn(258);
	ok(run(m, &p, "begin; push d, 300; push d, 0x10f01; log str; push lp; pop lv, 0; exit") == DP_RUN_LOG &&
	       LV0 == 258 && !m->hit.faults,
	   "also where the room ends there too");
}

static void test_raise(struct machine *m)
{
	struct dp_program p = rpn(0);

	run(m, &p, "begin; sx L; push d, 1; push d, 0; div; exit; L: pop lv, 0; exit");
	ok(LV0 == DP_EX_DIV_BY_ZERO, "an exception goes to its handler");
	p = rpn(0);
	assemble(&p, "nop; pop lv, 0; exit");
	dp_program_to_rt(&p, &m->rt);
	m->rt.code = (u64)p.code;
	m->hit.exceptions = 0;
	m->vm->rpn.depth = 0;
	m->vm->rpn.handled = 0;
	m->vm->rpn.frames[0].handler = 0;
	ok(dp_vm_go(&m->hit, p.code, DP_VM_STACK, 0, DP_EX_INVALID_ADDR) == DP_RUN_FILTERED && m->hit.exceptions == 1 &&
	       m->vm->rpn.code == DP_EX_INVALID_ADDR,
	   "a compiled program hands over an exception");
	dp_program_free(&p);
}

static void test_questions(struct machine *m)
{
	struct dp_program p = rpn(0);

	run(m, &p, "begin; sx L; push uid; pop lv, 1; push ppid; exit; L: pop lv, 0; exit");
	ok(LV0 == DP_EX_INVALID_OPERAND && variables[1] == 4294967294, "the user is told, the parent is not");
	m->other_way = true;
	p = rpn(0);
	run(m, &p, "begin; sx L; push ppid; pop lv, 1; push uid; exit; L: pop lv, 0; exit");
	m->other_way = false;
	ok(LV0 == DP_EX_INVALID_OPERAND && variables[1] == 4711, "the parent is told, the user is not");
	p = rpn(0);
	run(m, &p,
	    "begin; sx L; call F; exit; F: sx K; push d, 1; push d, 0; div; K: rx; exit; L: pop lv, 0; push d, 5; "
	    "pop lv, 1; exit");
	ok(LV0 == DP_EX_DIV_BY_ZERO && variables[1] == 5,
	   "an exception that is raised again goes to the caller's handler");
}

static void test_gate(struct machine *m)
{
	struct dp_program p = rpn(0);
	u64 gate = DP_GATE_REMOVED;

	ok(run(m, &p, "begin; remove") == DP_RUN_FILTERED, "remove, where nobody counts");
	p = rpn(0);
	p.rpn.pass = 1;
	ok(run(m, &p, "begin; exit") == DP_RUN_FILTERED, "pass count, where nobody counts");
	p = rpn(0);
	p.rpn.max = 5;
	assemble(&p, "begin; exit");
	dp_program_to_rt(&p, &m->rt);
	m->rt.code = (u64)p.code;
	m->rt.gate = (u64)&gate;
	ok(dp_vm_run(&m->hit) == DP_RUN_PASSED, "a probe that was removed, with a limit");
	dp_program_free(&p);
}

/* Values that could not be read: their field is marked, and a condition on them does not hold. */
static void test_marks(struct machine *m)
{
	static const char *const conditions[] = {"eq", "ne", "lt", "ge", "ltu", "geu"};
	static const char *const sizes[] = {"8", "16", "32", "64"};
	struct dp_program p;
	char text[96];
	u32 good = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(conditions); i++) {
		p = (struct dp_program){.logmax = 8, .layout = {.fixed_size = 8}};
		dp_format(text, sizeof(text), "rec 8; push d, 0; ld64 0; need,%s 0; exit", conditions[i]);
		good += run(m, &p, text) == DP_RUN_FILTERED;
	}
	ok(good == DP_ARRAY_SIZE(conditions), "no condition holds for what could not be read");
	good = 0;
	for (u32 i = 0; i < DP_ARRAY_SIZE(sizes); i++) {
		p = (struct dp_program){.logmax = 16, .layout = {.fixed_size = 16, .has_faultmask = 1}};
		dp_format(text, sizeof(text), "recm 16; push d, 0; ld64 0; log%s @8, #0; push d, 1; log%s @8, #0; exit",
			  sizes[i], sizes[i]);
		good += run(m, &p, text) == DP_RUN_LOG && *(u8 *)machine_payload(m) == 1;
	}
	ok(good == DP_ARRAY_SIZE(sizes), "a field that could not be read is marked");
	p = rpn(0);
	run(m, &p, "begin; push d, 16; str 1; push d, 0x10000; str 1; streq \"\"; pop lv, 0; exit");
	ok(LV0 == 1, "a text with room for its end only");
}

static void test_memory(struct machine *m)
{
	struct dp_program p = rpn(0);

	m->read_only = true;
	run(m, &p, "begin; push d, 0x10000; vfy rw; pop lv, 0; exit");
	m->read_only = false;
	ok(LV0 == 1, "memory that can only be read");
	p = rpn(0);
	run(m, &p, "begin; sx L; push d, 64; malloc; push d, 8; add; free; exit; L: pop lv, 0; exit");
	ok(LV0 == DP_EX_HEAP_INVALID_HANDLE, "a handle in the middle of a block");
	p = rpn(0);
	run(m, &p, "begin; push d, 16; malloc; push d, 16; malloc; xchg; free; push d, 64; malloc; pop lv, 0; exit");
	ok(LV0 == 56, "a hole that is too small is passed over");
}

/* Places whose owners have ended: the key may lie behind them, and else has the first of them, which is empty then. */
static void test_left(struct machine *m)
{
	struct dp_program p = rpn(0);
	u32 at, other;

	memset(variables, 0, sizeof(variables));
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	at = (u32)LV0 - 2;
	variables[at] = DP_TABLE_LEFT;
	variables[at + 1] = 5;
	variables[at + 2] = 55;
	p = rpn(0);
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	ok(LV0 == at + 2 && variables[at] == DP_TABLE_VALID && variables[at + 1] == 77 && !variables[at + 2],
	   "a place that was left is the next key's, without what was there");
	other = at + 3 < 2 + 40 * 3 ? at + 3 : 2; /* where the key comes when its first place is taken */
	memset(variables, 0, sizeof(variables));
	variables[at] = DP_TABLE_VALID;
	p = rpn(0);
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	variables[at] = DP_TABLE_LEFT;
	variables[other + 2] = 7;
	p = rpn(0);
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	ok(LV0 == other + 2 && variables[other + 2] == 7 && variables[at] == DP_TABLE_LEFT,
	   "a key behind a place that was left is found");
	for (at = 2; at < 2 + 40 * 3; at += 3)
		variables[at] = at == 2 ? DP_TABLE_VALID : DP_TABLE_LEFT;
	p = rpn(0);
	run(m, &p, "begin; push d, 78; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	ok(LV0 != ~0ull && variables[LV0 - 2] == DP_TABLE_VALID && variables[LV0 - 1] == 78,
	   "a table in which all have been left, or belong to others");
}

static void test_tables(struct machine *m)
{
	struct dp_program p = rpn(0);

	memset(variables, 0, sizeof(variables));
	for (u32 at = 2; at < 2 + 150 * 3; at += 3) /* 150 keys, all taken by others: more than a hit looks at */
		variables[at] = DP_TABLE_VALID;
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 150, 1; pop lv, 0; exit");
	ok(LV0 == ~0ull && variables[1] == 1, "a table without room");
	variables[1] = 0;
	for (u32 at = 2; at < 2 + 40 * 3; at += 3)
		variables[at] = DP_TABLE_BUSY;
	p = rpn(0);
	run(m, &p, "begin; push d, 77; find lv, 1, 1, 40, 1; pop lv, 0; exit");
	ok(LV0 == ~0ull && variables[1] == 1, "a table whose places are all being written");
	test_left(m);
	memset(variables, 0, sizeof(variables));
	p = rpn(0);
	run(m, &p,
	    "begin; push d, 5; push d, 10; fold lv, 4; push d, 0; push d, 10; fold lv, 4; push d, -3; push d, 10; "
	    "fold lv, 4; exit");
	ok(variables[10] == 2 && variables[13] == 1, "a histogram: 0 and less, and 4 to 7");
}

/* Of the test machine a chain has 5 addresses at most, and as many as half of those that are asked for. */
static void test_chains(struct machine *m)
{
	struct dp_program p = rpn(0);

	memset(variables, 0, sizeof(variables));
	run(m, &p, "begin; push chain, 1, 1, 9; pop lv, 0; exit");
	ok(LV0 && variables[LV0] == m->regs.ip, "a chain of one");
	p = rpn(0);
	memset(variables, 0, sizeof(variables));
	run(m, &p, "begin; push chain, 3, 1, 9; push chain, 3, 1, 9; sub; pop lv, 0; exit");
	ok(!LV0 && !variables[1], "a chain has one place");
	for (u32 at = 2; at < 2 + 150 * 3; at += 3) /* all taken by others: more than a hit looks at */
		variables[at] = DP_TABLE_VALID;
	p = rpn(0);
	run(m, &p, "begin; push chain, 1, 1, 150; pop lv, 0; exit");
	ok(LV0 == ~0ull && variables[1] == 1, "no place for a chain");
	memset(variables, 0, sizeof(variables));
	p = rpn(0);
	run(m, &p, "begin; push d, 5; find lv, 2, 1, 40, 1; pop lv, 0; exit");
	ok(LV0 && LV0 != ~0ull, "a key across the end of the stack");
	m->keeps_apart = true;
	m->apart = 0;
	p = rpn(0);
	run(m, &p, "begin; push d, 5; push d, 10; fold lv, 0x101; push d, 3; push d, 20; fold lv, 1; exit");
	ok(m->apart == 6 && !variables[10] && variables[20] == 3, "what is kept apart, and what is not");
	m->keeps_apart = false;
}

static void test_more(struct machine *m)
{
	struct dp_program p = rpn(5);

	ok(run(m, &p, "begin; push d, 4; push d, 16; log mrf; exit") == DP_RUN_LOG && m->hit.faults == 1 &&
	       m->hit.log_len == sizeof(struct dp_rpn_head),
	   "a bad address, and no room to log it");
	p = rpn(3);
	ok(run(m, &p, "begin; push d, 4; push d, 16; log str; exit") == DP_RUN_LOG && m->hit.faults == 1 &&
	       m->hit.log_len == sizeof(struct dp_rpn_head),
	   "a text at a bad address, and room for none");
	p = rpn(0);
	run(m, &p,
	    "begin; push d, 8; malloc; sx L; push d, 4; free; exit; L: pop lv, 0; sx K; push d, -8; free; exit; "
	    "K: pop lv, 1; exit");
	ok(LV0 == DP_EX_HEAP_INVALID_HANDLE && variables[1] == DP_EX_HEAP_INVALID_HANDLE,
	   "handles outside of the heap");
	p = rpn(0);
	run(m, &p,
	    "begin; push d, 8; malloc; pop lv, 2; sx L; push lv, 2; push d, 9; push heap,u8, 1; exit; L: pop lv, 0; "
	    "sx K; push lv, 2; push d, 4; push heap,u64, 1; exit; K: pop lv, 1; exit");
	ok(LV0 == DP_EX_HEAP_INVALID_OFFSET && variables[1] == DP_EX_HEAP_INVALID_OFFSET,
	   "a place behind a block, and one that goes beyond it");
	p = rpn(0);
	p.jmpmax = 3000;
	p.rpn.heap = DP_HEAP_MAX;
	run(m, &p, "begin; sx K; push d, 2100; L: push d, 1; malloc; ros 1; loop L; exit; K: pop lv, 0; exit");
	ok(LV0 == DP_EX_HEAP_NOMEM, "a heap full of small blocks");
	variables[10] = 5; /* as when another thread has set the first value, and not said so yet */
	variables[11] = 0;
	p = rpn(0);
	run(m, &p, "begin; push d, 3; push d, 10; fold lv, 2; exit");
	ok(variables[10] == 3 && variables[11] == 1, "the least value, while another thread sets the first one");
}

/* The instruction behind a no-operation, with so much work left and such a word on the stack: whether it is ended. */
static bool ends_at(struct machine *m, const struct dp_asm *code, u64 word, s64 work)
{
	m->rt = (struct dp_code_rt){.code = (u64)code->bytes, .len = code->len, .jmpmax = 1, .locals = (u64)variables};
	m->hit.exceptions = 0;
	m->hit.work = work;
	m->vm->stack[DP_VM_STACK - 2] = word;
	dp_vm_go(&m->hit, code->bytes, DP_VM_STACK - 2, 0, 0);
	return m->hit.exceptions == 1 && m->hit.work < 0;
}

/* Each instruction that has a price is not begun when that is more than is left. */
static void test_spent(struct machine *m)
{
	static const u64 words[] = {0, 1, ~0ull};
	u32 i = 0, opcode, ended = 0, all = 0;

	while (dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);
		s64 v[DP_OPERANDS_MAX + 1] = {0};
		struct dp_op_view op;
		struct dp_asm code = {0};
		bool back = false, good = false;

		DP_PUT(&code, NOP);
		for (u32 k = 0; info->operands[k]; k++) {
			u8 kind = info->operands[k];

			v[k] = kind == DP_KIND_NUM || kind == DP_KIND_COUNT || kind == DP_KIND_TEXT ? 64 : 0;
			back |= kind == DP_KIND_JUMP && info->rule != DP_RULE_HANDLER;
		}
		dp_asm_put(&code, (enum dp_opcode)opcode, v,
			   "****************************************************************");
		DP_PUT(&code, EXIT);
		dp_op_decode(code.bytes, code.len, 1, &op);
		if (dp_op_work(&op)) {
			all++;
			good = ends_at(m, &code, 0, 0);
			if (good && dp_op_work(&op) > info->work)
				good = ends_at(m, &code, 0, info->work);
		}
		if (back) {
			all += !dp_op_work(&op);
			for (u32 k = 0; k < DP_ARRAY_SIZE(words); k++)
				good |= ends_at(m, &code, words[k], info->work);
		}
		if (!good && (back || dp_op_work(&op)))
			printf("# begun: %s\n", info->text);
		ended += good;
		dp_asm_free(&code);
	}
	ok(ended == all && all > 50, "%u of %u instructions with a price are not begun without it", ended, all);
}

static void test_work(struct machine *m)
{
	struct dp_program p = rpn(0);
	u32 work = m->work;

	run(m, &p, "begin; jmp M; F: ret; M: call F; push d, 5; pop lv, 0; exit");
	ok(LV0 == 5, "a return that leads forward");
	p = rpn(0);
	p.jmpmax = DP_JMPMAX;
	p.rpn.ex_mask |= DP_RPN_AUTOTRACE;
	p.rpn.ex_logmax = DP_EX_LOG_MAX;
	m->work = 20000;
	run(m, &p, "begin; sx H; L: jmp L; H: jmp H");
	ok(m->hit.exceptions == 2 && m->vm->rpn.ntraces == 2, "two exceptions for a handler that goes on, with traces");
	p = rpn(0);
	m->work = 700;
	run(m, &p, "begin; sx L; call F; exit; F: sx K; push d, 1; push d, 0; div; K: rx; exit; L: pop lv, 0; exit");
	ok(m->vm->rpn.code == DP_EX_MAX_WORK, "work for one handler is there, and not for the next one");
	m->work = work;
}

int main(int argc, char **argv)
{
	char *fuzz[] = {"fuzz-vm", "0", "1234567", "40000", NULL};
	struct machine m;

	machine_init(&m);
	test_texts(&m);
	test_raise(&m);
	test_questions(&m);
	test_gate(&m);
	test_marks(&m);
	test_memory(&m);
	test_tables(&m);
	test_chains(&m);
	test_more(&m);
	test_work(&m);
	test_spent(&m);
	machine_free(&m);
	vm_main(1, fuzz);
	golden_main(1, fuzz);
	return fuzz_main(4, fuzz);
}
