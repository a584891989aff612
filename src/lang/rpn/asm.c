/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The assembler: statements to bytecode, by the opcode table. What a mnemonic is, how many operands
 * it has and of which kind, all comes from there; only names that stand for several instructions
 * are known here.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/rpn-priv.h"

#define LABEL_MAX 64
#define LABELS_MAX 4096

struct label {
	char name[LABEL_MAX];
	u32 at;
};

struct fixup { /* an instruction whose target was not known yet */
	char name[LABEL_MAX];
	u32 at; /* of the displacement, which ends the instruction */
	struct rpn_line line;
};

struct rpn_asm {
	struct dp_asm code;
	struct label *labels;
	struct fixup *fixups;
	struct dp_rpn_reloc *relocs;
	struct {
		u32 at;
		struct rpn_line line;
		const char *text; /* the instruction, as it is written there */
	} * lines;
	u32 nlabels, nfixups, nrelocs, nlines;
	int suspended; /* the variable that says so; -1: nothing suspends */
	u32 gate;      /* where the program ends when it is set */
	const struct rpn_line *line;
	const char *text; /* the instruction that is assembled; lives as long as its line */
	struct dp_error *err;
};

struct operands {
	s64 v[DP_OPERANDS_MAX + 1];
	char text[DP_TEXT_OPERAND_MAX + 1];
	struct dp_register_part reg; /* of the register operand */
	char label[LABEL_MAX];
	char symbol[DP_RPN_NAME_MAX]; /* of a WORD that is an address */
};

/* Programs that are suspended end here; the one that resumes them goes on, see put_switch(). */
static void put_gate(struct rpn_asm *a)
{
	u32 go_on;

	DP_PUT(&a->code, PUSH_LV, a->suspended);
	go_on = DP_PUT(&a->code, JZ, 0);
	a->gate = DP_PUT(&a->code, ABORT);
	dp_asm_land(&a->code, go_on);
	DP_PUT(&a->code, ROS, 1);
}

struct rpn_asm *dp_rpn_asm_new(int suspended)
{
	struct rpn_asm *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->suspended = suspended;
	DP_PUT(&a->code, BEGIN);
	if (suspended >= 0)
		put_gate(a);
	return a;
}

void dp_rpn_asm_free(struct rpn_asm *a)
{
	if (!a)
		return;
	dp_asm_free(&a->code);
	free(a->labels);
	free(a->fixups);
	free(a->relocs);
	free(a->lines);
	free(a);
}

/* Room for one more element of an array that grows in powers of two. */
static void *one_more(void *v, u32 n, size_t size)
{
	if (n & (n - 1))
		return v;
	return realloc(v, (n ? n * 2 : 1) * size);
}

#define ONE_MORE(a, v, n)                                             \
	({                                                            \
		void *v_ = one_more((a)->v, (a)->n, sizeof(*(a)->v)); \
		if (v_)                                               \
			(a)->v = v_;                                  \
		v_ != NULL;                                           \
	})

/* ---- mnemonics ---- */

/* What a statement begins with, and what it stands for. */
static const char *const aliases[][2] = {
    {"exit_to", "exit"}, {"push b", "push d"}, {"push w", "push d"}, {"push q", "push d"}, {"callk", "call_kmod"},
};

/* Does the statement at p begin with the words of text? Commas between them are free. *end: behind
 * them. */
static bool begins(const char *p, const char *text, const char **end)
{
	for (;;) {
		struct rpn_token want = dp_rpn_token(text), have;

		if (dp_rpn_is(&want, ",")) {
			text = want.at + 1;
			continue;
		}
		if (want.kind == RPN_END) {
			*end = p;
			return true;
		}
		have = dp_rpn_token(p);
		if (dp_rpn_is(&have, ",")) {
			p = have.at + 1;
			have = dp_rpn_token(p);
		}
		if (have.kind == RPN_END || have.len != want.len || memcmp(have.at, want.at, want.len))
			return false;
		p = have.at + have.len;
		text = want.at + want.len;
	}
}

static u32 count_operands(const char *p)
{
	u32 n = 0, depth = 0;

	for (struct rpn_token t = dp_rpn_token(p); t.kind != RPN_END; t = dp_rpn_token(t.at + t.len)) {
		n += !n;
		depth += dp_rpn_is(&t, "(");
		depth -= depth && dp_rpn_is(&t, ")");
		n += !depth && dp_rpn_is(&t, ",");
	}
	return n;
}

/* The operands begin behind an optional comma. */
static const char *behind_comma(const char *p)
{
	struct rpn_token t = dp_rpn_token(p);

	return dp_rpn_is(&t, ",") ? t.at + 1 : p;
}

/* The opcode with the longest name that the statement begins with and that has as many operands;
 * ~0: none. */
static u32 find_opcode(const char *p, const char **rest, bool *named)
{
	struct rpn_token word = dp_rpn_token(p);
	u32 i = 0, opcode, best = ~0u;
	size_t best_len = 0;
	const char *end;

	while (word.kind == RPN_WORD && dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);

		if (info->rule == DP_RULE_BEGIN || strncmp(info->text, word.at, word.len) ||
		    !begins(p, info->text, &end))
			continue;
		*named = true;
		end = behind_comma(end);
		if ((best != ~0u && (size_t)(end - p) <= best_len) || count_operands(end) != dp_opcode_noperands(info))
			continue;
		best = opcode;
		best_len = (size_t)(end - p);
		*rest = end;
	}
	return best;
}

/* ---- operands ---- */

static int bad(struct rpn_asm *a, enum dp_code code, const char *at, u32 len)
{
	return dp_rpn_fail(a->err, a->line, code, "'%.*s'", (int)DP_MIN(len, 100u), at);
}

static void copy_word(char *to, size_t size, const struct rpn_token *t)
{
	size_t n = DP_MIN((size_t)t->len, size - 1);

	memcpy(to, t->at, n);
	to[n] = '\0';
}

/* [MODULE:]SYMBOL at *p. */
static bool symbol_word(void *arg, const char **p, s64 *value)
{
	struct operands *o = arg;
	struct rpn_token t = dp_rpn_token(*p), colon, name;
	size_t n;

	if (o->symbol[0]) /* one is enough */
		return false;
	colon = dp_rpn_token(t.at + t.len);
	name = dp_rpn_is(&colon, ":") ? dp_rpn_token(colon.at + 1) : colon;
	if (dp_rpn_is(&colon, ":") && name.kind != RPN_WORD)
		return false;
	if (dp_rpn_is(&colon, ":"))
		t.len = (u32)(name.at + name.len - t.at);
	copy_word(o->symbol, sizeof(o->symbol), &t);
	n = t.len;
	*p = t.at + n;
	*value = 0;
	return t.len < sizeof(o->symbol);
}

static int number_operand(struct rpn_asm *a, struct operands *o, u32 i, u8 kind, const char **p)
{
	const char *start = *p;
	struct rpn_token t = dp_rpn_token(start);

	if ((kind == DP_KIND_OFF && dp_rpn_is(&t, "@")) || (kind == DP_KIND_FIELD && dp_rpn_is(&t, "#")))
		*p = t.at + 1; /* as the disassembler writes them */
	if (!dp_rpn_expression(p, &o->v[i], kind == DP_KIND_WORD ? symbol_word : NULL, o))
		return bad(a, E_RPN_OPERAND, t.at, (u32)strcspn(t.at, ","));
	if (!dp_operand_fits(kind, o->v[i]))
		return bad(a, E_RPN_RANGE, start, (u32)(*p - start));
	return 0;
}

static int operand(struct rpn_asm *a, struct operands *o, u32 i, u8 kind, const char **p)
{
	struct rpn_token t = dp_rpn_token(*p);
	int n;

	switch (kind) {
	case DP_KIND_REG_WORD:
		o->v[i] = t.kind == RPN_WORD ? dp_watch_word_find(t.at, t.len) : 0;
		if (o->v[i])
			break;
		/* fall through */
	case DP_KIND_REG:
	case DP_KIND_REGW:
		if (t.kind != RPN_WORD || !dp_register_find(t.at, t.len, &o->reg))
			return bad(a, E_RPN_REGISTER, t.at, t.len);
		o->v[i] = kind == DP_KIND_REG_WORD ? o->reg.reg->reg_word : o->reg.reg->number;
		break;
	case DP_KIND_STATE:
		if (t.kind != RPN_WORD || !dp_cpustate_find(t.at, t.len))
			return bad(a, E_RPN_REGISTER, t.at, t.len);
		o->v[i] = dp_cpustate_find(t.at, t.len)->number;
		break;
	case DP_KIND_JUMP:
		if (t.kind != RPN_WORD || t.len >= LABEL_MAX)
			return bad(a, E_RPN_OPERAND, t.at, t.len);
		copy_word(o->label, sizeof(o->label), &t);
		break;
	case DP_KIND_TEXT:
		n = t.kind == RPN_TEXT && !t.bad ? dp_rpn_text(&t, o->text, DP_TEXT_OPERAND_MAX) : -1;
		if (n < 0)
			return bad(a, E_RPN_OPERAND, t.at, t.len);
		o->v[i] = n;
		break;
	default:
		return number_operand(a, o, i, kind, p);
	}
	*p = t.at + t.len;
	return 0;
}

static int all_operands(struct rpn_asm *a, const struct dp_opcode_info *info, struct operands *o, const char *p)
{
	struct rpn_token t;
	int r;

	for (u32 i = 0; info->operands[i]; i++) {
		r = operand(a, o, i, info->operands[i], &p);
		if (r)
			return r;
		t = dp_rpn_token(p);
		if (info->operands[i + 1] ? !dp_rpn_is(&t, ",") : t.kind != RPN_END)
			return bad(a, E_RPN_OPERAND, t.at, (u32)strlen(t.at));
		p = t.at + t.len;
	}
	return 0;
}

/* ---- instructions ---- */

/*
 * The names that hold addresses on i386 mean the whole register here: half an address is of no use,
 * and programs written for i386 mean the address.
 */
static bool is_whole(const struct operands *o)
{
	u32 reg_word = o->reg.reg->reg_word;

	return o->reg.width == 64 || reg_word == DP_REG_WORD(sp) || reg_word == DP_REG_WORD(ip) ||
	       reg_word == DP_REG_WORD(bp) || reg_word == DP_REG_WORD(flags);
}

/* Behind a push of the whole register: keep the part. */
static void keep_part(struct rpn_asm *a, const struct dp_register_part *r)
{
	if (r->shift)
		DP_PUT(&a->code, SHR, r->shift);
	if (r->width == 8)
		DP_PUT(&a->code, ZX8);
	else if (r->width == 16)
		DP_PUT(&a->code, ZX16);
	else
		DP_PUT(&a->code, ZX32);
}

/* Before a pop: (v -- whole). As the processor does it, 32 bits clear the upper half and less
 * leaves the rest alone. */
static void make_whole(struct rpn_asm *a, const struct dp_register_part *r)
{
	u64 mask = (r->width == 8 ? 0xffull : 0xffffull) << r->shift;

	if (r->width == 32) {
		DP_PUT(&a->code, ZX32);
		return;
	}
	if (r->shift)
		DP_PUT(&a->code, SHL, r->shift);
	DP_PUT(&a->code, PUSH_D, (s64)mask);
	DP_PUT(&a->code, AND);
	DP_PUT(&a->code, PUSH_R, r->reg->number);
	DP_PUT(&a->code, PUSH_D, (s64)~mask);
	DP_PUT(&a->code, AND);
	DP_PUT(&a->code, OR);
}

static int put_fixup(struct rpn_asm *a, const struct operands *o)
{
	if (!ONE_MORE(a, fixups, nfixups))
		return dp_rpn_fail(a->err, a->line, E_RPN_MEMORY, "the program");
	memcpy(a->fixups[a->nfixups].name, o->label, LABEL_MAX);
	a->fixups[a->nfixups].at = a->code.len - 4;
	a->fixups[a->nfixups++].line = *a->line;
	return 0;
}

static int put_reloc(struct rpn_asm *a, const struct operands *o)
{
	struct dp_rpn_reloc *r;

	if (!ONE_MORE(a, relocs, nrelocs))
		return dp_rpn_fail(a->err, a->line, E_RPN_MEMORY, "the program");
	r = &a->relocs[a->nrelocs++];
	r->at = a->code.len - 8;
	r->addend = o->v[0];
	memcpy(r->symbol, o->symbol, sizeof(r->symbol));
	return 0;
}

/* `push r` and `push u` of registers that are not in struct dp_regs are instructions of their own.
 */
static const char *state_push(const char *p, char *buf, size_t size)
{
	const struct dp_cpustate *state;
	struct dp_register_part part;
	struct rpn_token t;
	const char *end;

	if (!begins(p, "push r", &end) && !begins(p, "push u", &end))
		return p;
	t = dp_rpn_token(behind_comma(end));
	if (t.kind != RPN_WORD || dp_register_find(t.at, t.len, &part))
		return p;
	state = dp_cpustate_find(t.at, t.len);
	if (dp_watch_word_find(t.at, t.len)) {
		snprintf(buf, size, "pushr %.200s", t.at);
		return buf;
	}
	if (state)
		snprintf(buf, size, "push state%s, %s%.200s", state->words == 2 ? "2" : "", state->name, t.at + t.len);
	else if (dp_rpn_is(&t, "cpuid") || dp_rpn_is(&t, "msr"))
		snprintf(buf, size, "push %.5s%.200s", dp_rpn_is(&t, "msr") ? "msr" : "cpuid", t.at + t.len);
	return state || dp_rpn_is(&t, "cpuid") || dp_rpn_is(&t, "msr") ? buf : p;
}

/* `suspend` and `resume` set the variable that all programs of the unit look at first. */
static bool put_switch(struct rpn_asm *a, const char *text)
{
	const char *end;
	bool suspend = begins(text, "suspend", &end), known = suspend || begins(text, "resume", &end);

	if (!known || a->suspended < 0 || dp_rpn_token(end).kind != RPN_END)
		return false;
	DP_PUT(&a->code, PUSH_D, suspend);
	DP_PUT(&a->code, POP_LV, a->suspended);
	if (!suspend)
		a->code.bytes[a->gate] = DP_OP_NOP;
	return true;
}

static int note_line(struct rpn_asm *a)
{
	if (!ONE_MORE(a, lines, nlines))
		return dp_rpn_fail(a->err, a->line, E_RPN_MEMORY, "the program");
	a->lines[a->nlines].at = a->code.len;
	a->lines[a->nlines].text = a->text;
	a->lines[a->nlines++].line = *a->line;
	return 0;
}

/* What stands in front of the first comma is compared with the names, which may have several words. */
static int unknown_instruction(struct rpn_asm *a, const char *text)
{
	int r = bad(a, E_RPN_INSN, text, (u32)strlen(text));
	struct dp_near near = {.n = 0};
	u32 i = 0, opcode;
	char name[64], word[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, ","), text);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ", \t"), text); /* without a number behind it */
	while (dp_opcode_next(&i, &opcode)) {
		dp_near_try(&near, name, dp_opcode_info(opcode)->text);
		dp_near_try(&near, word, dp_opcode_info(opcode)->text);
	}
	dp_near_hint(&near, "", a->err);
	return r;
}

static int instruction(struct rpn_asm *a, const char *text)
{
	struct operands o = {0};
	const struct dp_opcode_info *info;
	char replaced[4096];
	const char *p = text, *end;
	bool named = false, is_part;
	u32 opcode;
	int r;

	for (size_t i = 0; i < DP_ARRAY_SIZE(aliases); i++)
		if (begins(p, aliases[i][0], &end)) {
			snprintf(replaced, sizeof(replaced), "%s %s", aliases[i][1], end);
			p = replaced;
			break;
		}
	a->text = text;
	r = note_line(a);
	if (r || put_switch(a, p))
		return r;
	p = state_push(p, replaced, sizeof(replaced));
	opcode = find_opcode(p, &end, &named);
	if (opcode == ~0u)
		return named ? bad(a, E_RPN_OPERANDS, text, (u32)strlen(text)) : unknown_instruction(a, text);
	info = dp_opcode_info(opcode);
	r = all_operands(a, info, &o, end);
	if (r)
		return r;
	is_part = o.reg.reg && info->op.does == DP_DOES_REGISTER && !is_whole(&o);
	if (is_part && info->op.how == DP_ACCESS_POP)
		make_whole(a, &o.reg);
	dp_asm_put(&a->code, (enum dp_opcode)opcode, o.v, o.text);
	if (is_part && info->op.how == DP_ACCESS_PUSH)
		keep_part(a, &o.reg);
	if (a->code.failed)
		return dp_rpn_fail(a->err, a->line, E_RPN_MEMORY, "the program has more than %u bytes", DP_CODE_MAX);
	if (o.label[0])
		r = put_fixup(a, &o);
	if (!r && o.symbol[0])
		r = put_reloc(a, &o);
	return r;
}

static int put_label(struct rpn_asm *a, const struct rpn_token *t)
{
	struct label *l;

	if (t->len >= LABEL_MAX || a->nlabels == LABELS_MAX)
		return bad(a, E_RPN_LABEL, t->at, t->len);
	for (u32 i = 0; i < a->nlabels; i++)
		if (dp_rpn_is(t, a->labels[i].name))
			return bad(a, E_RPN_LABEL, t->at, t->len);
	if (!ONE_MORE(a, labels, nlabels))
		return dp_rpn_fail(a->err, a->line, E_RPN_MEMORY, "the program");
	l = &a->labels[a->nlabels++];
	copy_word(l->name, sizeof(l->name), t);
	l->at = a->code.len;
	return 0;
}

int dp_rpn_asm_statement(struct rpn_asm *a, const char *text, const struct rpn_line *line, struct dp_error *err)
{
	int r;

	a->line = line;
	a->err = err;
	for (;;) {
		struct rpn_token word = dp_rpn_token(text), colon = dp_rpn_token(word.at + word.len);

		if (word.kind == RPN_END)
			return 0;
		if (word.kind != RPN_WORD || !dp_rpn_is(&colon, ":"))
			return instruction(a, word.at);
		r = put_label(a, &word);
		if (r)
			return r;
		text = colon.at + 1;
	}
}

int dp_rpn_asm_finish(struct rpn_asm *a, struct dp_rpn_probe *probe, struct dp_error *err)
{
	for (u32 i = 0; i < a->nfixups; i++) {
		const struct fixup *f = &a->fixups[i];
		const struct label *l = NULL;
		s32 distance;

		for (u32 k = 0; k < a->nlabels; k++)
			if (!strcmp(a->labels[k].name, f->name))
				l = &a->labels[k];
		if (!l)
			return dp_rpn_fail(err, &f->line, E_RPN_NOLABEL, "'%s'", f->name);
		distance = (s32)(l->at - (f->at + 4));
		memcpy(a->code.bytes + f->at, &distance, 4);
	}
	probe->prog.code = a->code.bytes;
	probe->prog.len = a->code.len;
	probe->relocs = a->relocs;
	probe->nrelocs = a->nrelocs;
	a->code = (struct dp_asm){0};
	a->relocs = NULL;
	a->nrelocs = 0;
	return 0;
}

const struct rpn_line *dp_rpn_asm_line(const struct rpn_asm *a, u32 at, const char **text)
{
	const struct rpn_line *line = NULL;

	*text = NULL;
	for (u32 i = 0; i < a->nlines && a->lines[i].at <= at; i++) {
		line = &a->lines[i].line;
		*text = a->lines[i].text;
	}
	return line;
}

bool dp_rpn_asm_empty(const struct rpn_asm *a)
{
	return !a->nlines;
}
