/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Names that the source declares: which scopes are open, and what a name means in them. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

void dp_cc_open_scope(struct dpcc *c)
{
	struct scope *s = dp_cc_alloc(c, sizeof(*s));

	s->up = c->scope;
	c->scope = s;
	if (++c->depth > 200)
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_LIMIT, "blocks are nested too deeply");
}

void dp_cc_close_scope(struct dpcc *c)
{
	c->scope = c->scope->up;
	c->depth--;
}

struct var *dp_cc_find_var(struct dpcc *c, const struct tok *t)
{
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct var *v = s->vars; v; v = v->next)
			if (dp_cc_tok_is(t, v->name))
				return v;
	return NULL;
}

bool dp_cc_is_declared(const struct dpcc *c, const char *name)
{
	for (const struct scope *s = c->scope; s; s = s->up)
		for (const struct var *v = s->vars; v; v = v->next)
			if (!strcmp(v->name, name))
				return true;
	return false;
}

bool dp_cc_find_constant(struct dpcc *c, const struct tok *t, s64 *v)
{
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct constant *k = s->constants; k; k = k->next)
			if (dp_cc_tok_is(t, k->name)) {
				*v = k->value;
				return true;
			}
	return false;
}

struct function *dp_cc_find_func(struct dpcc *c, const char *name)
{
	for (struct function *f = c->funcs; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}
