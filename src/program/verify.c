/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The verifier: every program passes here once before it is armed, whoever made it; the
 * interpreter trusts what is promised here and checks only what a hit alone can know. Three
 * passes: each instruction by itself, the flow of control, then what it says of stack and record.
 */
#include "abi/abi-program.h"
#include "program/code.h"
#include "program/program.h"

#define NO_FIELD 0xff
#define DEPTH_MAX 0x7fff /* stands for "any depth" */
#define PATIENCE 8       /* visits after which a growing depth is taken as unbounded */

/* What is known before an instruction, over all paths that lead to it. */
struct state {
	u16 lo, hi; /* bounds of the stack's depth */
	u8 visits;
	u8 open;    /* the record is open on every path */
	u8 text;    /* a text was read on every path */
	u8 is_insn; /* an instruction begins here */
	u8 is_queued;
};

struct verifier {
	const struct dp_program *p;
	bool in_return;
	struct state *states; /* one for each byte of code */
	u32 *queue;
	u32 nqueued;
	u32 at; /* the instruction that is looked at */
	struct dp_error *err;
};

static int bad(struct verifier *v, const struct dp_op_view *insn, enum dp_code code, long long value)
{
	v->at = insn->at;
	return dp_fail(v->err, code, "`%s` at offset %u: %lld", insn->info->text, insn->at, value);
}

/* ---- limits and layout ---- */

static int check_limits(struct verifier *v)
{
	const struct dp_program *p = v->p;

	if (!p->code || !p->len)
		return dp_fail(v->err, E_PROG_EMPTY, "the program has no code");
	if (p->len > DP_CODE_MAX)
		return dp_fail(v->err, E_PROG_LIMIT, "%u bytes of code, at most %u", p->len, DP_CODE_MAX);
	if (p->jmpmax > DP_JMPMAX)
		return dp_fail(v->err, E_PROG_LIMIT, "jmpmax %u, at most %u", p->jmpmax, DP_JMPMAX);
	if (p->logmax > DP_LOGMAX)
		return dp_fail(v->err, E_PROG_LIMIT, "logmax %u, at most %u", p->logmax, (u32)DP_LOGMAX);
	if (p->rpn.ex_mask && (p->rpn.heap > DP_HEAP_MAX || p->rpn.ex_logmax > DP_EX_LOG_MAX ||
			       p->logmax > DP_LOGMAX - sizeof(struct dp_rpn_head)))
		return dp_fail(v->err, E_PROG_LIMIT, "heap %u, ex_logmax %u, logmax %u; at most %u, %u, %u",
			       p->rpn.heap, p->rpn.ex_logmax, p->logmax, DP_HEAP_MAX, DP_EX_LOG_MAX,
			       (u32)(DP_LOGMAX - sizeof(struct dp_rpn_head)));
	if (p->nlocals > DP_LOCALS_MAX || p->nglobals > DP_GLOBALS_MAX)
		return dp_fail(v->err, E_PROG_LIMIT, "%u local and %u global variables, at most %u", p->nlocals,
			       p->nglobals, DP_LOCALS_MAX);
	return 0;
}

static u32 type_size(u8 type)
{
	switch (type) {
	case DP_FIELD_U8:
	case DP_FIELD_S8:
	case DP_FIELD_X8:
	case DP_FIELD_CHAR:
		return 1;
	case DP_FIELD_U16:
	case DP_FIELD_S16:
	case DP_FIELD_X16:
		return 2;
	case DP_FIELD_U32:
	case DP_FIELD_S32:
	case DP_FIELD_X32:
	case DP_FIELD_STRING:
		return 4;
	case DP_FIELD_U64:
	case DP_FIELD_S64:
	case DP_FIELD_X64:
	case DP_FIELD_SYMBOL:
	case DP_FIELD_FRAME:
		return 8;
	default:
		return 0;
	}
}

/* A reader walks the payload by the layout, so the layout must stay inside the fixed part. */
int dp_layout_check(const struct dp_layout *l, u32 room, struct dp_error *err)
{
	u32 head = 8 * (!!l->has_faultmask + !!l->has_ret_addr);

	if (l->fixed_size > room || head > l->fixed_size || l->nfields > DP_FIELDS_MAX || (l->nfields && !l->fields))
		return dp_fail(err, E_PROG_LAYOUT, "fixed part of %u bytes, %u fields, logmax %u", l->fixed_size,
			       l->nfields, room);
	for (u32 i = 0; i < l->nfields; i++) {
		const struct dp_field *f = &l->fields[i];
		u32 bytes = f->size * DP_MAX(f->count, 1);

		if (!f->size || f->size != type_size(f->type) || f->count > DP_ARRAY_MAX || f->offset < head ||
		    f->offset + bytes > l->fixed_size || f->bit_width > 8 * f->size || f->name[DP_NAME_MAX - 1])
			return dp_fail(err, E_PROG_LAYOUT, "field %u at %u, %u bytes", i, f->offset, bytes);
	}
	return 0;
}

/* ---- first pass: each instruction by itself ---- */

static int check_operand(struct verifier *v, const struct dp_op_view *insn, u32 i)
{
	const struct dp_layout *l = &v->p->layout;
	const struct dp_register *reg;
	const struct dp_cpustate *state;
	s64 x = insn->v[i];

	switch (insn->info->operands[i]) {
	case DP_KIND_REG_WORD:
		return x < (s64)(v->p->is_watch ? DP_NWATCH_WORDS : DP_NREG_WORDS) ? 0 : bad(v, insn, E_PROG_REG, x);
	case DP_KIND_REG:
		return dp_register_by_number((u32)x) ? 0 : bad(v, insn, E_PROG_REG, x);
	case DP_KIND_REGW:
		reg = dp_register_by_number((u32)x);
		return reg && reg->writable ? 0 : bad(v, insn, E_PROG_REG, x);
	case DP_KIND_STATE:
		state = dp_cpustate_by_number((u32)x);
		if (state && state->source == DP_CPUSTATE_KERNEL && !v->p->in_kernel)
			return bad(v, insn, E_PROG_WORLD, x);
		return state && state->words == insn->info->pushes ? 0 : bad(v, insn, E_PROG_REG, x);
	case DP_KIND_LOCAL:
		return x < v->p->nlocals ? 0 : bad(v, insn, E_PROG_VAR, x);
	case DP_KIND_GLOBAL:
		return x < v->p->nglobals ? 0 : bad(v, insn, E_PROG_VAR, x);
	case DP_KIND_BIT:
		return x >= 1 && x <= 64 ? 0 : bad(v, insn, E_PROG_OPERAND, x);
	case DP_KIND_AMOUNT:
		return x < 64 ? 0 : bad(v, insn, E_PROG_OPERAND, x);
	case DP_KIND_WIDTH:
		return x >= 1 && x <= 64 ? 0 : bad(v, insn, E_PROG_OPERAND, x);
	case DP_KIND_LEN:
		return x >= 0 && x <= (s64)DP_LOGMAX ? 0 : bad(v, insn, E_PROG_OPERAND, x);
	case DP_KIND_EXITTO:
		if (x < DP_EXIT_KDB || x > DP_EXIT_COREDUMP_ANY)
			return bad(v, insn, E_PROG_OPERAND, x);
		if (v->p->in_kernel)
			return x >= DP_EXIT_COREDUMP ? bad(v, insn, E_PROG_KERNEL, x) : 0;
		return x == DP_EXIT_CRASHDUMP ? bad(v, insn, E_PROG_WORLD, x) : 0;
	case DP_KIND_TEXT:
		return x <= (s64)DP_LOGMAX ? 0 : bad(v, insn, E_PROG_OPERAND, x);
	case DP_KIND_FIELD:
		return x == NO_FIELD || (x < l->nfields && l->has_faultmask) ? 0 : bad(v, insn, E_PROG_RECORD, x);
	default:
		return 0;
	}
}

/* Stores stay inside the fixed part, and behind the fault mask, which only marks may change. */
static int check_store(struct verifier *v, const struct dp_op_view *insn, s64 bytes)
{
	const struct dp_layout *l = &v->p->layout;
	s64 at = dp_op_operand(insn, DP_KIND_OFF);

	if (at + bytes > l->fixed_size || (l->has_faultmask && at < 8))
		return bad(v, insn, E_PROG_RECORD, at);
	return 0;
}

/* A table in the local variables: words of a key, first word, keys, words that belong to each. */
static int check_table(struct verifier *v, const struct dp_op_view *insn, s64 k, s64 first, s64 keys, s64 words)
{
	if (k < 1 || k > DP_KEY_WORDS_MAX)
		return bad(v, insn, E_PROG_OPERAND, k);
	if (keys < 1)
		return bad(v, insn, E_PROG_OPERAND, keys);
	if ((u64)first + dp_table_words((u64)k, (u64)keys, (u64)words) > v->p->nlocals)
		return bad(v, insn, E_PROG_VAR, first);
	return 0;
}

/* The other table is in memory that nobody believes: its keys alone must be there. */
static int check_thread_value(struct verifier *v, const struct dp_op_view *insn)
{
	if (insn->v[2] < 1)
		return bad(v, insn, E_PROG_OPERAND, insn->v[2]);
	return check_table(v, insn, 1, insn->v[0], insn->v[1], 1);
}

/* Whether there is such a facility, and of this signature, the host asks. */
static int check_exit(struct verifier *v, const struct dp_op_view *insn)
{
	s64 len = dp_op_operand(insn, DP_KIND_TEXT);
	u32 args, results;

	dp_op_exit(insn, &args, &results);
	if (args > DP_EXIT_WORDS_MAX || results > DP_EXIT_WORDS_MAX)
		return bad(v, insn, E_PROG_OPERAND, DP_MAX(args, results));
	return len >= 1 && len < DP_EXIT_NAME_MAX ? 0 : bad(v, insn, E_PROG_OPERAND, len);
}

static bool needs_open(u8 rule)
{
	return rule >= DP_RULE_STORE1 && rule <= DP_RULE_SPAN;
}

static int check_rule(struct verifier *v, const struct dp_op_view *insn)
{
	const struct dp_layout *l = &v->p->layout;
	s64 len = dp_op_operand(insn, DP_KIND_LEN);
	u8 rule = insn->info->rule;

	if (insn->opcode == DP_OP_CALL_KMOD) /* by no host */
		return bad(v, insn, E_PROG_KERNEL, insn->opcode);
	if ((rule == DP_RULE_KERNEL || rule == DP_RULE_KERNEL_TV) && !v->p->in_kernel)
		return bad(v, insn, E_PROG_WORLD, insn->opcode);
	/* A record of fixed layout, or items behind a head: a program makes one of them. */
	if (v->p->rpn.ex_mask ? needs_open(rule) || rule == DP_RULE_OPEN || rule == DP_RULE_OPENMASK
			      : rule >= DP_RULE_BEGIN && rule != DP_RULE_KERNEL)
		return bad(v, insn, E_PROG_MACHINE, insn->opcode);
	if (v->p->rpn.ex_mask && (insn->at == 0) != (rule == DP_RULE_BEGIN))
		return bad(v, insn, E_PROG_MACHINE, insn->opcode);
	switch (rule) {
	case DP_RULE_OPEN:
	case DP_RULE_OPENMASK:
		if (len != l->fixed_size || !!l->has_faultmask != (insn->info->rule == DP_RULE_OPENMASK))
			return bad(v, insn, E_PROG_RECORD, len);
		return 0;
	case DP_RULE_STORE1:
		return check_store(v, insn, 1);
	case DP_RULE_STORE2:
		return check_store(v, insn, 2);
	case DP_RULE_STORE4:
		return check_store(v, insn, 4);
	case DP_RULE_RETURN8:
		if (!v->in_return)
			return bad(v, insn, E_PROG_RETURN, 0);
		return check_store(v, insn, 8);
	case DP_RULE_STORE8:
		return check_store(v, insn, 8);
	case DP_RULE_SPAN:
		return len ? check_store(v, insn, len) : bad(v, insn, E_PROG_OPERAND, len);
	case DP_RULE_SCRATCH:
		return len >= 1 && len <= DP_SCRATCH_SIZE ? 0 : bad(v, insn, E_PROG_OPERAND, len);
	case DP_RULE_PATTERN:
		len = dp_op_operand(insn, DP_KIND_TEXT);
		return len <= DP_TEXT_OPERAND_MAX ? 0 : bad(v, insn, E_PROG_OPERAND, len);
	case DP_RULE_EXIT:
		return check_exit(v, insn);
	case DP_RULE_PUSHN:
		len = dp_op_operand(insn, DP_KIND_NUM);
		return len >= 1 && len <= DP_FRAMES_MAX ? 0 : bad(v, insn, E_PROG_OPERAND, len);
	case DP_RULE_RPN_TEXT:
		len = dp_op_operand(insn, DP_KIND_NUM);
		return len * 8 <= DP_SCRATCH_SIZE ? 0 : bad(v, insn, E_PROG_OPERAND, len);
	case DP_RULE_RPN_CHAIN:
		return insn->v[0] < 1 || insn->v[0] > DP_FRAMES_MAX
			   ? bad(v, insn, E_PROG_OPERAND, insn->v[0])
			   : check_table(v, insn, 1, insn->v[1], insn->v[2], insn->v[0]);
	case DP_RULE_RPN_FIND:
		return check_table(v, insn, insn->v[0], insn->v[1], insn->v[2], insn->v[3]);
	case DP_RULE_KERNEL_TV:
		return check_thread_value(v, insn);
	case DP_RULE_RPN_FOLD:
		len = dp_op_operand(insn, DP_KIND_NUM);
		if (len & DP_FOLD_APART && dp_fold_can_be_apart(len & ~DP_FOLD_APART))
			return 0;
		return len < DP_NFOLDS ? 0 : bad(v, insn, E_PROG_OPERAND, len);
	default:
		return 0;
	}
}

static int check_each(struct verifier *v)
{
	const struct dp_program *p = v->p;
	struct dp_op_view insn;
	int ret;

	for (u32 at = 0; at < p->len; at += insn.len) {
		v->at = at;
		if (dp_op_decode(p->code, p->len, at, &insn) < 0)
			return insn.info ? dp_fail(v->err, E_PROG_CUT, "`%s` at offset %u", insn.info->text, at)
					 : dp_fail(v->err, E_PROG_OPCODE, "0x%02x at offset %u", p->code[at], at);
		v->states[at].is_insn = 1;
		for (u32 i = 0; insn.info->operands[i]; i++) {
			ret = check_operand(v, &insn, i);
			if (ret)
				return ret;
		}
		ret = check_rule(v, &insn);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- second pass: the flow ---- */

static void any_depth(struct state *s)
{
	s->lo = 0;
	s->hi = DEPTH_MAX;
}

static bool ends(u8 rule)
{
	return rule == DP_RULE_JUMP || rule == DP_RULE_END || rule == DP_RULE_RPN_END;
}

/* The state after an instruction. */
static void step(const struct dp_op_view *insn, const struct state *before, struct state *after)
{
	u32 pops, pushes;

	dp_op_effect(insn, &pops, &pushes);
	*after = *before;
	after->lo = (u16)(before->lo > pops ? before->lo - pops : 0);
	after->lo = (u16)DP_MIN(after->lo + pushes, DEPTH_MAX);
	if (before->hi != DEPTH_MAX)
		after->hi = (u16)DP_MIN((before->hi > pops ? before->hi - pops : 0) + pushes, DEPTH_MAX);
	if (insn->info->rule == DP_RULE_ANY)
		after->hi = DEPTH_MAX;
	if (insn->info->rule == DP_RULE_RPN_ANY)
		any_depth(after);
	if (insn->info->rule == DP_RULE_OPEN || insn->info->rule == DP_RULE_OPENMASK)
		after->open = 1;
	if (insn->info->rule == DP_RULE_SCRATCH || insn->info->rule == DP_RULE_COMM)
		after->text = 1;
}

/* Control may go to `at` with that state. */
static int reach(struct verifier *v, const struct dp_op_view *insn, s64 at, const struct state *from)
{
	struct state *to, old;

	v->at = insn->at;
	if (at == v->p->len)
		return dp_fail(v->err, E_PROG_END, "after `%s` at offset %u", insn->info->text, insn->at);
	/* `begin` would set the budgets anew. */
	if (at < 0 || at > v->p->len || !v->states[at].is_insn || (!at && insn->len && v->p->rpn.ex_mask))
		return bad(v, insn, E_PROG_JUMP, at);
	to = &v->states[at];
	old = *to;
	if (!to->visits) {
		to->lo = from->lo;
		to->hi = from->hi;
		to->open = from->open;
		to->text = from->text;
	} else {
		to->lo = DP_MIN(to->lo, from->lo);
		to->hi = DP_MAX(to->hi, from->hi);
		to->open &= from->open;
		to->text &= from->text;
		if (to->lo == old.lo && to->hi == old.hi && to->open == old.open && to->text == old.text)
			return 0;
		if (to->visits > PATIENCE) {
			to->lo = 0;
			to->hi = DEPTH_MAX;
		}
	}
	if (to->visits <= PATIENCE)
		to->visits++;
	if (!to->is_queued) {
		to->is_queued = 1;
		v->queue[v->nqueued++] = (u32)at;
	}
	return 0;
}

static int check_flow(struct verifier *v)
{
	const struct dp_op_view entry = {.info = dp_opcode_info(DP_OP_NOP)};
	const struct state nothing = {0};
	struct dp_op_view insn;
	struct state after;
	int ret = reach(v, &entry, 0, &nothing);

	while (!ret && v->nqueued) {
		u32 at = v->queue[--v->nqueued];
		u8 rule;

		v->states[at].is_queued = 0;
		dp_op_decode(v->p->code, v->p->len, at, &insn);
		rule = insn.info->rule;
		step(&insn, &v->states[at], &after);
		if (rule == DP_RULE_JUMP || rule == DP_RULE_BRANCH || rule == DP_RULE_CALL)
			ret = reach(v, &insn, dp_op_operand(&insn, DP_KIND_JUMP), &after);
		if (!ret && rule == DP_RULE_HANDLER) {
			struct state raised = after;

			any_depth(&raised);
			ret = reach(v, &insn, dp_op_operand(&insn, DP_KIND_JUMP), &raised);
		}
		if (rule == DP_RULE_CALL)
			any_depth(&after);
		if (!ret && !ends(rule))
			ret = reach(v, &insn, at + insn.len, &after);
	}
	return ret;
}

/* With all paths known: is the stack surely too shallow somewhere, or the record not open? */
static int check_states(struct verifier *v)
{
	struct dp_op_view insn;
	u32 pops, pushes;

	for (u32 at = 0; at < v->p->len; at += insn.len) {
		const struct state *s = &v->states[at];

		v->at = at;
		dp_op_decode(v->p->code, v->p->len, at, &insn);
		if (!s->visits)
			continue; /* never reached */
		dp_op_effect(&insn, &pops, &pushes);
		if (s->hi < pops)
			return dp_fail(v->err, E_PROG_STACK, "`%s` at offset %u needs %u words, there are %u",
				       insn.info->text, at, pops, s->hi);
		if (needs_open(insn.info->rule) && !s->open)
			return dp_fail(v->err, E_PROG_RECORD, "`%s` at offset %u: no record is open", insn.info->text,
				       at);
		if ((insn.info->rule == DP_RULE_PATTERN || insn.info->rule == DP_RULE_RPN_TEXT) && !s->text)
			return dp_fail(v->err, E_PROG_TEXT, "`%s` at offset %u", insn.info->text, at);
	}
	return 0;
}

int dp_program_verify(const struct dp_program *p, bool in_return, struct dp_error *err)
{
	u32 at;

	return dp_program_verify_at(p, in_return, &at, err);
}

int dp_program_verify_at(const struct dp_program *p, bool in_return, u32 *at, struct dp_error *err)
{
	struct verifier v = {.p = p, .in_return = in_return, .at = ~0u, .err = err};
	int ret = check_limits(&v);

	if (!ret)
		ret = dp_layout_check(&p->layout, p->logmax, err);
	*at = ~0u;
	if (ret)
		return ret;
	v.states = dp_alloc(p->len * sizeof(*v.states));
	v.queue = dp_alloc(p->len * sizeof(*v.queue));
	if (!v.states || !v.queue)
		ret = dp_fail(err, E_PROG_MEMORY, "%u bytes of code", p->len);
	if (!ret)
		ret = check_each(&v);
	if (!ret)
		ret = check_flow(&v);
	if (!ret)
		ret = check_states(&v);
	*at = v.at;
	dp_free(v.states);
	dp_free(v.queue);
	return ret;
}
