/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* One probe: the handler of its place is translated for it. */
#include <string.h>

#include "lang/dpcc/dpcc-unit.h"

struct tok dp_cc_pragma_token(const struct rpn_line *line, const char *at)
{
	return (struct tok){.kind = TOK_WORD, .at = at, .len = 1, .line = line};
}

static void start_pass(struct unit *u, struct target target)
{
	struct dpcc *c = &u->c;

	c->target = target;
	c->scope = NULL;
	c->funcs = NULL;
	c->func = NULL;
	c->debug_types = NULL;
	c->literals = NULL;
	c->literal_bytes = 0;
	c->nfields = 0;
	c->thread_uses = NULL;
	c->line = 0;
	c->event = NULL;
	c->counts = c->traces = c->no_result = c->is_of_place = false;
	c->label = c->depth = 0;
	c->at = 0;
	memset(c->helper, 0, sizeof(c->helper));
}

static struct function *parse_all(struct unit *u, const struct place_def *d)
{
	struct dpcc *c = &u->c;
	struct tok where = dp_cc_pragma_token(d->line, d->line->text);
	struct function *handler;
	bool more = true;

	dp_cc_parse(c);
	handler = dp_cc_find_func(c, d->handler);
	if (!handler || !handler->defined || handler->is_prelude)
		dp_cc_fail(c, &where, E_DPCC_NAME, "there is no handler '%.60s'", d->handler);
	if (handler->nparams)
		dp_cc_fail(c, &where, E_DPCC_TYPE, "the handler '%.60s' must take no parameters", d->handler);
	handler->used = true;
	while (more) {
		more = false;
		for (struct function *f = c->funcs; f; f = f->next) {
			if (!f->used || f->body)
				continue;
			if (!f->defined)
				dp_cc_fail(c, &where, E_DPCC_NAME, "the function '%.60s' is declared, but not defined",
					   f->name);
			dp_cc_parse_body(c, f);
			more = true;
		}
	}
	return handler;
}

bool dp_cc_unit_is_watch(const struct place_def *d)
{
	return d->location[0] == 'w' && d->location[1] == ' ';
}

void dp_cc_unit_probe(struct unit *u, const struct place_def *d, struct target target, const char *where,
		      const char *offset)
{
	struct dpcc *c = &u->c;
	bool by_call = target.is_call && c->by_name;
	struct function *handler;

	start_pass(u, target);
	if (c->opt->vars_at) {
		dp_cc_unit_show_vars(u);
		return;
	}
	handler = parse_all(u, d);
	if (c->opt->tree) {
		dp_cc_tree(c);
		u->nprobes++;
		return;
	}
	if (c->no_result)
		return;
	/* Exits of a module's function are instructions of their own; the kernel host finds them itself. */
	dp_cc_buf_put(c, &c->all, "\n// %s%s%s\n%s = %s\n%s", d->location, *where ? " at " : "", where,
		      dp_cc_unit_is_watch(d) ? "watchpoint"
		      : target.body          ? "run"
		      : target.tracepoint    ? "tracepoint"
		      : by_call              ? "call"
					     : "offset",
		      offset, (target.func || by_call) && target.is_return ? "at = return\n" : "");
	if (!strstr(d->options, "minor = "))
		dp_cc_buf_put(c, &c->all, "minor = %u\n", u->nprobes + 1);
	dp_cc_buf_put(c, &c->all, "%s", d->options);
	dp_cc_gen_program(c, handler);
	u->nprobes++;
}
