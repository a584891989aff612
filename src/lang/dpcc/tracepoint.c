/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Names of a tracepoint's record, as /sys/kernel/tracing shows them: most of them are members of its arguments, and are
 * taken from there.
 */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

/* A token of its own text. */
static struct tok *token_of(struct dpcc *c, const struct tok *t, const char *name)
{
	struct rpn_line *line = dp_cc_alloc(c, sizeof(*line));
	struct tok *word = dp_cc_alloc(c, sizeof(*word));

	*line = *t->line;
	*word = *t;
	word->kind = TOK_WORD;
	word->at = name;
	word->len = strlen(name);
	return word;
}

/* The member of a structure that an argument points to; NULL: it points to none, or that has none of this name. */
static struct node *member_of(struct dpcc *c, const struct tok *t, const char *argument, const char *name)
{
	struct node *n = dp_cc_node_new(c, N_PROBE, t);
	struct dp_error ignored;

	n->probe = dp_cc_alloc(c, sizeof(*n->probe));
	n->text = argument;
	n->in_target = true;
	if (dp_cc_btf_variable(c, argument, n->probe, &n->type, &ignored) || n->type->kind != TY_PTR ||
	    n->type->of->kind != TY_STRUCT)
		return NULL;
	return dp_cc_member(c, dp_cc_deref(c, n, t), token_of(c, t, name));
}

static struct node *prefixed(struct dpcc *c, const struct tok *t, const char *name)
{
	const char *argument;
	struct node *n = NULL;

	for (u32 i = 1; !n && (argument = dp_cc_btf_parameter(c, i)); i++) {
		size_t len = strlen(argument);

		if (!strncmp(name, argument, len) && name[len] == '_' && name[len + 1])
			n = member_of(c, t, argument, name + len + 1);
	}
	return n;
}

struct node *dp_cc_tracepoint_field(struct dpcc *c, const struct tok *t, const char *name)
{
	struct node *n, *found = NULL;
	const char *argument;

	for (u32 i = 1; (argument = dp_cc_btf_parameter(c, i)); i++)
		if (!strcmp(argument, name)) /* one that cannot be read */
			return NULL;
	n = prefixed(c, t, name);
	for (u32 i = 1; !n && (argument = dp_cc_btf_parameter(c, i)); i++) {
		struct node *here = member_of(c, t, argument, name);

		if (here && found)
			return NULL;
		found = here ? here : found;
	}
	return n ? n : found;
}

_Noreturn void dp_cc_no_tracepoint_word(struct dpcc *c, const struct tok *t, const char *name)
{
	char arguments[200] = "";
	struct dp_near near = {.n = 0};
	struct dp_error err = {0};
	const char *argument;
	size_t used = 0;

	for (u32 i = 1; (argument = dp_cc_btf_parameter(c, i)); i++) {
		dp_near_try(&near, name, argument);
		if (used + strlen(argument) + 3 < sizeof(arguments))
			used += (size_t)snprintf(arguments + used, sizeof(arguments) - used, " $%s", argument);
	}
	if (!used)
		dp_cc_fail(c, t, E_VAR_NONE, "$%.60s: the kernel's BTF does not know the arguments of %.60s", name,
			   c->target.tracepoint->name);
	dp_fail(&err, E_VAR_NONE, "$%.60s: the arguments of %.60s are%s", name, c->target.tracepoint->name, arguments);
	dp_error_hint(&err, "`dprobes funcs 't %.60s'` shows their types; $ARGUMENT->MEMBER is what one points to",
		      c->target.tracepoint->name);
	dp_near_hint(&near, "$", &err);
	dp_cc_refail(c, t, &err);
}
