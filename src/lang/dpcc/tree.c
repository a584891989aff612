/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* dpcc -a: the syntax tree of each handler and what it calls, one node a line. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

static const char *const names[] = {
    [N_NUM] = "number",     [N_STR] = "text",          [N_VAR] = "variable",  [N_PROBE] = "probed",
    [N_DEREF] = "at",       [N_MEMBER] = "member",     [N_ADDR] = "address",  [N_NEG] = "negate",
    [N_NOT] = "complement", [N_LNOT] = "not",          [N_BINARY] = "binary", [N_ANDAND] = "and",
    [N_OROR] = "or",        [N_ASSIGN] = "assign",     [N_INCDEC] = "step",   [N_COND] = "choose",
    [N_COMMA] = "comma",    [N_CAST] = "cast",         [N_CALL] = "call",     [N_BUILTIN] = "builtin",
    [N_EXPR] = "statement", [N_BLOCK] = "block",       [N_IF] = "if",         [N_WHILE] = "while",
    [N_DO] = "do",          [N_FOR] = "for",           [N_SWITCH] = "switch", [N_CASE] = "case",
    [N_BREAK] = "break",    [N_CONTINUE] = "continue", [N_RETURN] = "return", [N_TRY] = "try",
    [N_THROW] = "throw",    [N_GOTO] = "goto",         [N_LABEL] = "label",   [N_EMPTY] = "empty",
    [N_INIT] = "clear",
};

static void show(struct dpcc *c, const struct node *n, u32 depth)
{
	for (; n; n = n->next) {
		dp_cc_buf_put(c, &c->all, "%*s%s", (int)depth * 2, "", names[n->kind]);
		if (n->kind == N_NUM || n->kind == N_CASE)
			dp_cc_buf_put(c, &c->all, " %lld", (long long)n->value);
		if (n->kind == N_VAR)
			dp_cc_buf_put(c, &c->all, " %s", n->var->name);
		if (n->kind == N_PROBE)
			dp_cc_buf_put(c, &c->all, " $%s", n->text);
		if (n->kind == N_MEMBER)
			dp_cc_buf_put(c, &c->all, " %s @%llu", n->member->name, (unsigned long long)n->member->offset);
		if (n->kind == N_BINARY || n->kind == N_ASSIGN || n->kind == N_INCDEC)
			dp_cc_buf_put(c, &c->all, " %s%s", n->op, n->kind == N_ASSIGN ? "=" : "");
		if (n->kind == N_CALL)
			dp_cc_buf_put(c, &c->all, " %s", n->func->name);
		if (n->kind == N_BUILTIN || n->kind == N_LABEL || n->kind == N_GOTO)
			dp_cc_buf_put(c, &c->all, " %s", n->text);
		if (n->type)
			dp_cc_buf_put(c, &c->all, " : %s", dp_cc_type_name(c, n->type));
		dp_cc_buf_put(c, &c->all, "\n");
		show(c, n->a, depth + 1);
		show(c, n->b, depth + 1);
		show(c, n->c, depth + 1);
		show(c, n->d, depth + 1);
	}
}

void dp_cc_tree(struct dpcc *c)
{
	for (const struct function *f = c->funcs; f; f = f->next)
		if (f->used && !f->is_prelude) {
			dp_cc_buf_put(c, &c->all, "function %s at 0x%llx\n", f->name, (unsigned long long)c->target.pc);
			show(c, f->body, 1);
		}
}
