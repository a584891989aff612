/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The tokens of the source, one after the other; it knows no grammar. */
#include "lang/dpcc/dpcc-priv.h"

struct tok *dp_cc_peek(struct dpcc *c)
{
	return &c->toks[c->at];
}

struct tok *dp_cc_next_tok(struct dpcc *c)
{
	struct tok *t = dp_cc_peek(c);

	if (t->kind != TOK_END)
		c->at++;
	return t;
}

bool dp_cc_accept(struct dpcc *c, const char *text)
{
	if (!dp_cc_tok_is(dp_cc_peek(c), text))
		return false;
	c->at++;
	return true;
}

struct tok *dp_cc_expect(struct dpcc *c, const char *text)
{
	if (!dp_cc_tok_is(dp_cc_peek(c), text))
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "'%s' is missing here", text);
	return dp_cc_next_tok(c);
}

const char *dp_cc_parse_word(struct dpcc *c)
{
	struct tok *t = dp_cc_peek(c);

	if (t->kind != TOK_WORD)
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "a name is missing here");
	c->at++;
	return dp_cc_text(c, t->at, t->len);
}

/* Over a ( ) or { } that begins here. */
void dp_cc_skip_brackets(struct dpcc *c)
{
	const struct tok *start = dp_cc_peek(c);
	u32 depth = 0;

	do {
		const struct tok *t = dp_cc_peek(c);

		if (t->kind == TOK_END)
			dp_cc_fail(c, start, E_DPCC_SYNTAX, "the closing bracket is missing");
		depth += dp_cc_tok_is(t, "(") || dp_cc_tok_is(t, "{") || dp_cc_tok_is(t, "[");
		depth -= dp_cc_tok_is(t, ")") || dp_cc_tok_is(t, "}") || dp_cc_tok_is(t, "]");
		c->at++;
	} while (depth);
}

/* Over an expression up to one of these, outside of brackets. */
void dp_cc_skip_expression(struct dpcc *c, const char *const *ends)
{
	u32 choices = 0;

	for (;;) {
		const struct tok *t = dp_cc_peek(c);

		for (u32 i = 0; ends[i]; i++)
			if (dp_cc_tok_is(t, ends[i]) && (*ends[i] != ':' || !choices))
				return;
		if (t->kind == TOK_END || dp_cc_tok_is(t, ")") || dp_cc_tok_is(t, "}") || dp_cc_tok_is(t, "]") ||
		    dp_cc_tok_is(t, ";"))
			return;
		choices += dp_cc_tok_is(t, "?");
		choices -= dp_cc_tok_is(t, ":") && choices;
		if (dp_cc_tok_is(t, "(") || dp_cc_tok_is(t, "[") || dp_cc_tok_is(t, "{"))
			dp_cc_skip_brackets(c);
		else
			c->at++;
	}
}
