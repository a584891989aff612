/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is known at every hit beside the program's variables: $pid $tid $ppid $uid $cpu $time $comm ($thread_name) $exe
 * $cgroup $ip $caller $backtrace, words of the call ($argN, $stackN, $stack), and, where a function returns, what was
 * kept of the call's beginning.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "abi/abi-record.h"
#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"
#include "lang/dpcc/syscalls.h"
#include "symbols/statics.h"

#define CALLS_LEAST 16        /* so few are of no use */
#define CALLS_MAX 2048        /* calls in progress, of one line; */
#define CALLS_RESULT 128      /* of one that keeps no values: a place is free again when its call has ended */
#define CALLS_WORDS_MAX 10240 /* fewer where many values are kept, so that other lines have room, */
#define CALLS_WORDS_ALL 16384 /* and where many lines look at whole calls: they share this */

/* ---- simple ones ---- */

static const struct {
	const char *name, *builtin;
} words[] = {
    {"pid", "pid"},    {"tid", "tid"},        {"cpu", "cpu"}, {"uid", "$uid"},
    {"ppid", "$ppid"}, {"time", "timestamp"}, {"ip", "here"}, {"caller", "caller"},
};

/* A text of the program, or the thread's name, and a constant one or, behind ~, a pattern as the shell has them. */
struct node *dp_cc_compare_text(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b)
{
	struct node *n = dp_cc_builtin(c, t, "$matches");

	if (!dp_cc_is_comm(a) && dp_cc_known_text(a) < 0) {
		a = dp_cc_to_value(c, a);
		if (a->type->kind != TY_PTR || a->type->of->kind != TY_INT || a->type->of->size != 1)
			dp_cc_fail(c, t, E_DPCC_TYPE, "%s is not a text", dp_cc_type_name(c, a->type));
	}
	if (b->len > 256)
		dp_cc_fail(c, b->tok, E_DPCC_LIMIT, "a text to compare with can have at most 256 characters");
	n->op = op;
	n->a = a;
	n->b = b;
	return n;
}

/* ---- words of the call ---- */

static bool numbered(const char *name, const char *prefix, u64 *number)
{
	size_t n = strlen(prefix);
	char *end;

	if (strncmp(name, prefix, n) || name[n] < '0' || name[n] > '9')
		return false;
	*number = strtoull(name + n, &end, 10);
	return !*end && *number < 4096;
}

static struct node *probe_value(struct dpcc *c, const struct tok *t, const char *name, const char *code)
{
	struct node *n = dp_cc_node_new(c, N_PROBE, t);
	struct dp_var v = {.npieces = 1};

	n->text = name;
	n->type = &dp_cc_type_ulong;
	n->in_target = true;
	v.pieces[0].kind = DP_PIECE_VALUE;
	dp_format(v.pieces[0].code, DP_PIECE_CODE, "%s", code);
	n->probe = dp_cc_keep_var(c, &v);
	return n;
}

static struct node *stack_word(struct dpcc *c, const struct tok *t, const char *name, u64 i)
{
	return probe_value(
	    c, t, name,
	    dp_cc_format(c, "push r," DP_NAME_SP ";push d,%llu;add;push mem,u64;", (unsigned long long)i * 8));
}

struct node *dp_cc_static_argument(struct dpcc *c, const struct tok *t, u32 i)
{
	static struct type *const types[2][9] = {
	    {[1] = &dp_cc_type_uchar, [2] = &dp_cc_type_ushort, [4] = &dp_cc_type_uint, [8] = &dp_cc_type_ulong},
	    {[1] = &dp_cc_type_schar, [2] = &dp_cc_type_short, [4] = &dp_cc_type_int, [8] = &dp_cc_type_long},
	};
	char code[STATIC_CODE];
	const char *why = "";
	struct node *n;
	int size, r = dp_cc_static_operand(c->mod, c->target.note, i, code, &size, &why);

	if (r > 0)
		return NULL;
	if (r < 0)
		dp_cc_fail(c, t, E_STATIC_OPERAND, "argument %u of %.60s, `%.80s`: %s", i, c->target.note->name,
			   c->target.note->args, why);
	n = probe_value(c, t, dp_cc_format(c, "arg%u", i), code);
	n->type = types[size < 0][size < 0 ? -size : size];
	return n;
}

static struct node *static_argument(struct dpcc *c, const struct tok *t, u64 i)
{
	struct node *n = dp_cc_static_argument(c, t, (u32)i);

	if (!n)
		dp_cc_fail(c, t, E_EVENT_ARGN, "%.60s:%.60s has the arguments `%.100s`", c->target.note->provider,
			   c->target.note->name, c->target.note->args);
	return n;
}

/* The Nth parameter by the debug information; else by the calling convention, where C's holds. */
static struct node *argument(struct dpcc *c, const struct tok *t, const char *name, u64 i)
{
	const char *real;

	if (!i)
		dp_cc_fail(c, t, E_EVENT_ARGN, "arguments are counted from 1");
	if (c->target.note)
		return static_argument(c, t, i);
	if (c->target.watched || c->target.is_return)
		dp_cc_fail(c, t, E_EVENT_ARGN, "$%s is known only at the function's entry", name);
	real = c->mod || c->target.tracepoint ? dp_cc_parameter_name(c, (u32)i) : NULL;
	if (c->target.copy_of) { /* where it is not known there, the copy is left out */
		struct node *n = real ? dp_cc_variable(c, t, real, false) : NULL;

		c->no_result |= !n;
		return n ? n : probe_value(c, t, name, dp_cc_format(c, "push r,%s;", dp_name_of_arg(0)));
	}
	if (real) /* which may be called "arg1" */
		return dp_cc_variable(c, t, real, true);
	if (c->target.tracepoint && dp_cc_btf_parameter(c, 1))
		dp_cc_no_tracepoint_word(c, t, name);
	if (c->target.tracepoint) /* in front of them is a word that is not its own */
		i++;
	if (c->mod && dp_module_is_go(c->mod))
		dp_cc_fail(c, t, E_EVENT_ARGN, "Go has its own calling convention: $argN needs debug information");
	if (!dp_cc_at_entry(c))
		dp_cc_fail(c, t, E_EVENT_ARGN, "$%s is known only at the function's entry", name);
	if (i <= DP_NAME_ARGS)
		return probe_value(c, t, name, dp_cc_format(c, "push r,%s;", dp_name_of_arg((u32)i - 1)));
	if (c->target.tracepoint) /* where its return address is gone already */
		i--;
	return stack_word(c, t, name, i - DP_NAME_ARGS);
}

/* ---- system calls ---- */

static struct type *names_of(struct dpcc *c, struct type **known, const char *(*next)(u32 i, u32 *number))
{
	struct type *t = *known ? *known : dp_cc_alloc(c, sizeof(*t));
	struct enumerator **last = &t->enums;
	const char *name;
	u32 number;

	if (*known)
		return t;
	*t = dp_cc_type_int;
	t->name = "system";
	for (u32 i = 0; (name = next(i, &number)); i++) {
		*last = dp_cc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, name, number};
		last = &(*last)->next;
	}
	return *known = t;
}

static struct node *named(struct dpcc *c, struct node *value, struct type *names)
{
	struct node *n = dp_cc_node_new(c, N_CAST, value->tok);

	n->a = value;
	n->type = names;
	return n;
}

/* Argument i, from 0, of the function that is called at this instruction, by C's convention. */
static struct node *passed(struct dpcc *c, const struct tok *t, const char *name, u32 i)
{
	if (i < DP_NAME_ARGS)
		return probe_value(c, t, name, dp_cc_format(c, "push r,%s;", dp_name_of_arg(i)));
	return stack_word(c, t, name, i - DP_NAME_ARGS);
}

/* In front of the instruction, and not in the function that it calls. */
static bool is_passed(const struct dpcc *c)
{
	return c->target.is_function_call && !c->target.is_return;
}

/* Also behind the call: the kernel keeps the registers. */
static struct node *call_argument(struct dpcc *c, const struct tok *t, const char *name, u64 i)
{
	if (i < 1 || i > DP_SYSCALL_ARGS)
		dp_cc_fail(c, t, E_EVENT_ARGN, "a system call has at most %d arguments", DP_SYSCALL_ARGS);
	if (is_passed(c))
		return passed(c, t, name, DP_CANCEL_ARG + (u32)i - 1);
	return probe_value(c, t, name, dp_cc_format(c, "push r,%s;", dp_name_of_call_arg((u32)i - 1)));
}

/* $nr, $call, $argN of the call; $ret, $retval, $error behind it. */
static struct node *call_word(struct dpcc *c, const struct tok *t, const char *name)
{
	bool is_kept = !strcmp(name, "__kept");
	struct node *n = NULL;
	u64 i;

	if (is_kept && (c->by_name || c->target.is_function_call || c->target.is_one_call)) {
		n = dp_cc_node_number(c, t, ~0ull, &dp_cc_type_long);
	} else if (is_kept) {
		n = probe_value(c, t, name, "push r," DP_NAME_KEPT_CALL ";");
	} else if (c->target.is_one_call && !strcmp(name, "nr")) {
		n = dp_cc_node_new(c, N_NUM, t);
		n->value = c->target.call;
	} else if (numbered(name, "arg", &i)) {
		n = call_argument(c, t, name, i);
	} else if (!strcmp(name, "nr") && !c->target.is_return) {
		const char *reg = is_passed(c) ? dp_name_of_arg(DP_CANCEL_NUMBER) : DP_NAME_CALL;

		n = probe_value(c, t, name, dp_cc_format(c, "push r,%s;sx32;", reg));
	} else if ((!strcmp(name, "ret") || !strcmp(name, "retval")) && c->target.is_return) {
		n = probe_value(c, t, name, DP_NAME_CALL);
		n->probe->pieces[0].kind = DP_PIECE_REGISTER; /* it can be another one */
	} else if (!strcmp(name, "error") && c->target.is_return) {
		return named(c, probe_value(c, t, name, "push r," DP_NAME_CALL ";neg;"),
			     names_of(c, &c->error_names, dp_syscall_error));
	} else if (!strcmp(name, "call")) {
		n = dp_cc_context(c, t, "nr");
		return n ? named(c, dp_cc_to_value(c, n), names_of(c, &c->call_names, dp_syscall_name)) : NULL;
	}
	if (n)
		n->type = &dp_cc_type_long;
	return n;
}

#define OPTION_OF_LEVEL "option of level"

/* The type of a set in syscall-flags.def. */
static struct type *set_of(struct dpcc *c, const char *set)
{
	struct type *t;
	struct enumerator **last;
	const char *name;
	s64 value;
	u64 mask;

	for (t = c->call_sets; t; t = t->next)
		if (!strcmp(t->name, set))
			return t;
	t = dp_cc_alloc(c, sizeof(*t));
	*t = dp_cc_type_int;
	t->name = dp_cc_text(c, set, strlen(set));
	t->next = c->call_sets;
	c->call_sets = t;
	t->is_option = !strcmp(set, DP_SYSCALL_OPTION);
	if (t->is_option)
		return t;
	t->is_hex = !strcmp(set, DP_SYSCALL_REQUEST);
	t->is_half = !strcmp(set, OPTION_OF_LEVEL);
	if (t->is_half)
		t->size = sizeof(u64);
	last = &t->enums;
	for (u32 i = 0; (name = dp_syscall_flag(t->is_half ? DP_SYSCALL_OPTION : set, i, &value, &mask)); i++) {
		*last = dp_cc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, name, value, mask};
		t->is_flags |= mask != 0xffffffff;
		last = &(*last)->next;
	}
	t->is_octal = !strcmp(set, DP_SYSCALL_OCTAL);
	t->is_unsigned = t->is_flags || t->is_octal || t->is_hex || t->is_half;
	return t;
}

static struct node *joined(struct dpcc *c, const char *op, struct node *a, struct node *b)
{
	struct node *n = dp_cc_node_new(c, N_BINARY, a->tok);

	n->op = op;
	n->a = a;
	n->b = b;
	n->type = &dp_cc_type_ulong;
	return n;
}

/* An option together with its level: only that has a name. The option alone is the number that conditions compare. */
struct node *dp_cc_call_shown(struct dpcc *c, struct node *value)
{
	struct node *level = value->type->is_option ? dp_cc_context(c, value->tok, "arg2") : NULL;

	if (!level)
		return value;
	level = joined(c, "<<", named(c, level, &dp_cc_type_ulong),
		       dp_cc_node_number(c, value->tok, 32, &dp_cc_type_ulong));
	value = named(c, named(c, value, &dp_cc_type_uint), &dp_cc_type_ulong);
	return named(c, joined(c, "|", level, value), set_of(c, OPTION_OF_LEVEL));
}

/* __set("SET", E) */
struct node *dp_cc_call_set(struct dpcc *c, struct node *value, const char *set)
{
	return named(c, dp_cc_to_value(c, value), set_of(c, set));
}

static struct type *type_of_kind(struct dpcc *c, char kind)
{
	return kind == 's'   ? dp_cc_type_ptr(c, &dp_cc_type_char)
	       : kind == 'd' ? &dp_cc_type_int
	       : kind == 'l' ? &dp_cc_type_long
			     : &dp_cc_type_ulong;
}

/* By name; six words where they are not known. arg->op: in hexadecimal. */
void dp_cc_call_arguments(struct dpcc *c, struct node *n)
{
	struct node **last = &n->a;

	for (u32 i = 0; i < DP_SYSCALL_ARGS; i++) {
		struct node *arg = dp_cc_node_new(c, N_COMMA, n->tok);
		struct dp_syscall_arg of = {.kind = 'x'};
		int r = c->target.is_one_call ? dp_syscall_arg(c->target.call, i, &of) : -1;

		if (!r)
			break;
		arg->text = r > 0 ? dp_cc_text(c, of.name, strlen(of.name)) : dp_cc_format(c, "arg%u", i + 1);
		arg->op = strchr("xp", of.kind) ? "x" : NULL;
		arg->a = dp_cc_context(c, n->tok, dp_cc_format(c, "arg%u", i + 1));
		if (arg->a)
			arg->a = named(c, arg->a, of.set[0] ? set_of(c, of.set) : type_of_kind(c, of.kind));
		if (!arg->a)
			continue;
		*last = arg;
		last = &arg->next;
	}
}

/* ---- what was kept when the call began ---- */

/* How many words each line that looks at whole calls can have. */
static u32 words_of_a_line(struct dpcc *c)
{
	if (!c->call_lines)
		for (u32 i = 0; i < c->ntoks; i++)
			c->call_lines += dp_cc_tok_is(&c->toks[i], "__call_begin") ||
					 dp_cc_tok_is(&c->toks[i], "__call_begin_untimed");
	return DP_MIN(CALLS_WORDS_MAX,
		      CALLS_WORDS_ALL / DP_MAX(c->call_lines - DP_MIN(c->idle_lines, c->call_lines), 1u));
}

/* k->n: it is not. */
static u32 kept_at(const struct call *k, const char *name)
{
	u32 i = 0;

	while (i < k->n && strcmp(k->names[i], name) != 0)
		i++;
	return i;
}

static struct node **append(struct dpcc *c, const struct tok *t, struct node *v, struct node **last)
{
	*last = dp_cc_node_new(c, N_COMMA, t);
	(*last)->a = v;
	return &(*last)->next;
}

static struct node **keep(struct dpcc *c, struct call *k, const struct tok *t, const char *name, struct node **last)
{
	u64 number;
	struct node *v = c->target.is_call                ? call_word(c, t, name)
			 : numbered(name, "arg", &number) ? argument(c, t, name, number)
							  : dp_cc_variable(c, t, name, false);

	u32 i = kept_at(k, name);

	if (i < k->n)
		return k->is_known && v && dp_cc_type_same(v->type, k->types[i]) ? append(c, t, v, last) : last;
	if (k->is_known) /* where its words are is settled */
		return last;
	if (!v || (!dp_cc_type_is_scalar(v->type) && !dp_cc_is_real(v->type)) || v->type->size > 8)
		return last;
	if (k->n == CALL_VALUES_MAX)
		dp_cc_fail(c, t, E_DPCC_LIMIT, "a line can keep %d values of a call", CALL_VALUES_MAX);
	k->names[k->n] = name;
	k->types[k->n++] = v->type;
	return append(c, t, v, last);
}

static struct node **keep_all(struct dpcc *c, struct call *k, const struct tok *t, struct node **last)
{
	const char *name;

	for (u32 i = 1; (name = dp_cc_parameter_name(c, i)); i++)
		last = keep(c, k, t, name, last);
	return last;
}

static u32 keep_listed(struct dpcc *c, struct call *k, struct node *n)
{
	struct node **last = &n->a;
	u32 kept = 0;

	while (dp_cc_accept(c, ",")) {
		struct tok *t = dp_cc_next_tok(c);
		const char *name = dp_cc_text(c, t->at + 1, t->len - 1);

		last = !strcmp(name, "args") ? keep_all(c, k, t, last) : keep(c, k, t, name, last);
	}
	for (const struct node *v = n->a; v; v = v->next)
		kept++;
	return kept;
}

/* __call_begin(LINE, $NAME...): keep the time, and those of the variables that are known here. */
void dp_cc_parse_call_begin(struct dpcc *c, struct node *n)
{
	struct call *k = dp_cc_call_of(c, n->value);

	/* Another instruction of the line: it keeps the same. */
	if (k && keep_listed(c, k, n) != k->n && !c->target.is_call)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE,
			   "the parameters must be known, and of the same types, in each function that the line means");
	if (k)
		return;
	k = dp_cc_alloc(c, sizeof(*k));
	k->line = n->value;
	k->next = c->calls;
	c->calls = k;
	keep_listed(c, k, n);
	k->is_known = true;
	k->passes = c->target.passing == PASS_BEGIN;
	k->words = 1 + k->n + k->passes;
	k->calls = DP_MIN(CALLS_MAX, (u32)(words_of_a_line(c) / dp_table_words(CALL_KEYS, 1, k->words)));
	if (k->passes && !k->n)
		k->calls = DP_MIN(k->calls, CALLS_RESULT);
	if (k->calls < CALLS_LEAST)
		dp_cc_fail(c, n->tok, E_DPCC_LIMIT, "%u lines look at whole calls: there is not enough room for them",
			   c->call_lines);
	k->index = c->nlocals;
	c->nlocals += (u32)dp_table_words(CALL_KEYS, k->calls, k->words);
	if (c->nlocals > DP_LOCALS_MAX)
		dp_cc_fail(c, n->tok, E_DPCC_LIMIT, "there is no room for another line that looks at whole calls");
	k->losses = dp_cc_loss(c, n->tok, dp_cc_format(c, "calls of line %llu", (unsigned long long)k->line));
}

/* A variable of the handler; NULL: it has none of that name. */
static struct node *own_variable(struct dpcc *c, const struct tok *t, const char *name)
{
	const struct rpn_line nowhere = {(char *)name, "", 0};
	const struct tok word = {.kind = TOK_WORD, .at = nowhere.text, .len = (u32)strlen(name), .line = &nowhere};
	struct var *var = c->func ? dp_cc_find_var(c, &word) : NULL;
	struct node *n;

	if (!var)
		return NULL;
	n = dp_cc_node_new(c, N_VAR, t);
	n->var = var;
	n->type = var->type;
	return n;
}

/* By the variable of the handler that holds what __call_end() gave. */
static struct node *kept(struct dpcc *c, const struct tok *t, const char *name)
{
	struct node *n, *where = c->calls ? own_variable(c, t, "__call") : NULL;
	const struct call *k = where ? c->calls : NULL;
	bool began = !strcmp(name, "__began");
	u32 i = 0;

	if (!k)
		return NULL;
	for (; k; k = k->next) {
		if (k->line != c->line)
			continue;
		for (i = 0; !began && i < k->n && strcmp(k->names[i], name); i++)
			;
		if (began || i < k->n)
			break;
	}
	if (!k)
		return NULL;
	n = dp_cc_builtin(c, t, "$kept");
	if (!began)
		n->type = k->types[i];
	n->a = dp_cc_node_new(c, N_COMMA, t);
	n->a->a = where;
	n->value = began ? 0 : i + 1;
	n->in_target = true;
	return n;
}

/* ---- goroutines, and what no hit knows ---- */

static _Noreturn void refuse_in(struct dpcc *c, const struct tok *t, enum dp_code code, const char *name,
				const char *why, const char *hint)
{
	struct dp_error err = {0};

	dp_fail(&err, code, "$%s: %s", name, why);
	dp_error_hint(&err, "%s", hint);
	dp_cc_refail(c, t, &err);
}

static _Noreturn void refuse(struct dpcc *c, const struct tok *t, const char *name, const char *why, const char *hint)
{
	refuse_in(c, t, E_EVENT_VAR, name, why, hint);
}

/*
 * The id in the structure that a register is to point to. What stands there need not be one (a signal's handler, code
 * of another language, an older Go): a goroutine's stack, whose ends come first there, is the one that we are on. Else
 * the id is read at 0, which raises.
 */
static struct node *goroutine(struct dpcc *c, const struct tok *t)
{
	bool is_go = c->mod && !c->by_name && dp_module_is_go(c->mod);
	struct type *g = is_go ? dp_cc_debug_named(c, DW_TAG_structure_type, "runtime.g") : NULL;
	struct member *m;

	if (!is_go)
		refuse(c, t, "goid", "this is not Go code", "$tid is the thread");
	if (g && g->lazy)
		dp_cc_debug_complete(c, g);
	for (m = g ? g->members : NULL; m && strcmp(m->name, "goid");)
		m = m->next;
	if (!m || m->type->size != 8)
		refuse(c, t, "goid", "there is no debug information for the Go runtime",
		       "build the program without -ldflags=-w, or use $tid");
	return probe_value(c, t, "goid",
			   dp_cc_format(c,
					"push r," DP_NAME_GOROUTINE ";push mem,u64;push r," DP_NAME_SP
					";leu;push r," DP_NAME_SP ";push r," DP_NAME_GOROUTINE
					";push d,8;add;push mem,u64;ltu;and;neg;push r," DP_NAME_GOROUTINE
					";push d,%llu;add;and;push mem,u64;",
					(unsigned long long)m->offset));
}

static void refuse_unknown(struct dpcc *c, const struct tok *t, const char *name)
{
	if (dp_rpn_known_what(name, strlen(name)) >= 0)
		refuse(c, t, name, "hits in the kernel cannot read it", "$comm is the thread's name, $pid its process");
}

/* ---- in bodies that belong to no hit ---- */

struct node *dp_cc_body_word(struct dpcc *c, const struct tok *t, const char *name, bool needed)
{
	static const char *const known[] = {"pid", "ppid", "uid", "comm", "exe", "cgroup", "time"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(known); i++)
		if (!strcmp(name, known[i]))
			return dp_cc_context(c, t, name);
	if (needed && dp_cc_is_declared(c, name))
		refuse_in(c, t, E_DPCC_BODY, name, "it is a variable of the bodies", "write it without $");
	if (needed)
		dp_cc_fail(c, t, E_DPCC_BODY, "$%.60s", name);
	return NULL;
}

/* ---- all of them ---- */

void dp_cc_context_near(struct dp_near *near, const char *name)
{
	static const char *const others[] = {"comm",  "thread_name", "exe",      "cgroup", "backtrace",
					     "stack", "retval",      "duration", "args",   "goid"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		dp_near_try(near, name, words[i].name);
	for (u32 i = 0; i < DP_ARRAY_SIZE(others); i++)
		dp_near_try(near, name, others[i]);
}

struct node *dp_cc_context(struct dpcc *c, const struct tok *t, const char *name)
{
	struct node *n = c->target.is_call && !strcmp(name, "nr") ? own_variable(c, t, "__number") : NULL;
	u64 number;

	if (!n)
		n = kept(c, t, name);
	if (n)
		return n;
	if (c->target.is_call)
		n = call_word(c, t, name);
	if (n)
		return n;
	if (c->target.is_call && (numbered(name, "arg", &number) || !strcmp(name, "nr")))
		return NULL;
	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		if (!strcmp(name, words[i].name))
			return dp_cc_builtin(c, t, words[i].builtin);
	if (!strcmp(name, "comm") || !strcmp(name, "thread_name"))
		return dp_cc_builtin(c, t, "$comm");
	if (!strcmp(name, "backtrace")) { /* expr.c reads its length */
		n = dp_cc_builtin(c, t, "$backtrace");
		n->value = DP_FRAMES_USUAL;
		return n;
	}
	if (!strcmp(name, "cgroup") && c->by_name)
		return dp_cc_builtin(c, t, "$cgroup_id");
	if (dp_rpn_known_what(name, strlen(name)) >= 0 && !c->by_name)
		return dp_cc_builtin(c, t, dp_cc_format(c, "$%s", name));
	if (numbered(name, "arg", &number))
		return argument(c, t, name, number);
	if (numbered(name, "stack", &number))
		return stack_word(c, t, name, number);
	if (!strcmp(name, "stack"))
		return probe_value(c, t, name, "push r," DP_NAME_SP ";");
	if (!strcmp(name, "goid"))
		return goroutine(c, t);
	refuse_unknown(c, t, name);
	return NULL;
}
