/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Takes the source apart: "key = value" lines by the table of rpn-keys.c, everything else is for the assembler. The
 * first offset, address, watchpoint, tracepoint or call ends the header; each begins a probe.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/event/event.h"
#include "lang/rpn/rpn-parse-priv.h"
#include "lang/rpn/rpn-fields.h"

/* The place with its length and access, in the language of event lines. */
static int end_watch(struct rpn_parser *p)
{
	struct dp_rpn_probe *probe = p->probe;
	char line[DP_RPN_NAME_MAX + 32], len[16] = "";
	struct dp_event ev = {0};
	struct dp_error why = {0};
	int r;

	if (probe->place != DP_RPN_WATCH)
		return p->watch_len || p->access
			   ? dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "length and access belong to a watchpoint")
			   : 0;
	if (probe->at_return || probe->has_opcode)
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "memory has no return and no opcode");
	if (p->watch_len)
		snprintf(len, sizeof(len), ":%u", p->watch_len);
	snprintf(line, sizeof(line), "w %s%s%s%s", probe->symbol, len, p->access ? ":" : "",
		 p->access ? p->access : "");
	if (strlen(line + 2) >= sizeof(probe->symbol))
		return dp_rpn_bad_value(p, probe->symbol);
	r = dp_event_parse(&ev, line, &why);
	dp_event_free(&ev);
	if (r)
		return dp_rpn_fail(p->err, p->line, why.code, "%.180s", why.detail);
	strcpy(probe->symbol, line + 2);
	probe->prog.is_watch = true;
	p->watch_len = 0;
	p->access = NULL;
	return 0;
}

static int describe(struct rpn_parser *p, struct dp_rpn_probe *probe)
{
	const char *bad;

	if (!probe->described)
		return 0;
	if (p->u->nprobes && probe != p->u->probes) /* which has them all: mistakes are found, and tables find theirs */
		dp_rf_drop_unused(probe->described);
	probe->rf = dp_rf_parse(probe->described, &bad);
	return probe->rf ? 0
			 : dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "'%.*s'",
				       (int)DP_MIN(strcspn(bad, "\n"), (size_t)150), bad);
}

/* The program of the definition that ends here: the header's limits, then the verifier. */
static int end_probe(struct rpn_parser *p)
{
	struct dp_rpn_probe *probe = p->probe;
	struct dp_program *prog = probe ? &probe->prog : NULL;
	struct dp_error why = {0};
	u32 at;
	int r;

	if (!probe)
		return 0;
	if (dp_rpn_is_body(probe) && (probe->at_return || probe->has_opcode))
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "a body has no return and no opcode");
	if (probe->place == DP_RPN_TRACEPOINT && (probe->at_return || probe->has_opcode))
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "a tracepoint has no return and no opcode");
	if (probe->place == DP_RPN_LINE && probe->at_return)
		return dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "a line has no return");
	r = end_watch(p);
	if (r)
		return r;
	if (dp_rpn_asm_empty(p->as))
		return dp_rpn_fail(p->err, p->line, E_RPN_NOCODE, "the probe of line %u", probe->line);
	r = dp_rpn_asm_finish(p->as, probe, p->err);
	if (!r)
		r = describe(p, probe);
	if (r)
		return r;
	prog->jmpmax = p->jmpmax + (p->suspended >= 0 && p->jmpmax < DP_JMPMAX); /* one is the gate's */
	prog->logmax = p->logmax;
	prog->nlocals = (u16)p->u->nlocals;
	prog->nglobals = (u16)p->u->nglobals;
	prog->rpn.ex_logmax = p->ex_logmax;
	prog->rpn.heap = DP_MIN(prog->rpn.heap, p->heapmax);
	if (!prog->rpn.major)
		prog->rpn.major = p->u->major;
	if (p->autotrace)
		prog->rpn.ex_mask |= DP_RPN_AUTOTRACE;
	prog->in_kernel = p->u->modtype != DP_RPN_USER;
	r = dp_program_verify_at(prog, probe->at_return, &at, &why);
	if (r) {
		const char *text;
		const struct rpn_line *line = dp_rpn_asm_line(p->as, at, &text);
		int n = text ? (int)strcspn(text, "\n") : 0;

		while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
			n--;
		if (line && n && at != ~0u)
			dp_rpn_fail(p->err, line, why.code, "'%.*s' (%.120s)", DP_MIN(n, 50), text, why.detail);
		else
			dp_rpn_fail(p->err, line ? line : p->line, why.code, "%.180s", why.detail);
	}
	dp_rpn_asm_free(p->as);
	p->as = NULL;
	p->probe = NULL;
	return r;
}

/* key: offset, address, watchpoint, tracepoint, call or run. */
static int begin_probe(struct rpn_parser *p, const struct rpn_token *key, const char *value)
{
	struct dp_rpn_unit *u = p->u;
	bool is_body = dp_rpn_is(key, "run");
	struct dp_rpn_probe *v, **all = is_body ? &u->bodies : &u->probes;
	u32 *n = is_body ? &u->nbodies : &u->nprobes, most = is_body ? DP_RPN_BODIES_MAX : DP_RPN_PROBES_MAX;
	int r = end_probe(p);

	if (r)
		return r;
	if (!u->nprobes && !u->nbodies && p->may_suspend) {
		if (u->nlocals == DP_LOCALS_MAX)
			return dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "no variable is left for suspend and resume");
		p->suspended = (int)u->nlocals++;
	}
	if (*n == most)
		return dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "more than %u of this kind", most);
	v = realloc(*all, (*n + 1) * sizeof(*v));
	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "probe");
	*all = v;
	p->probe = &v[(*n)++];
	memset(p->probe, 0, sizeof(*p->probe));
	p->probe->line = p->line->line;
	p->probe->prog.rpn.ex_mask = DP_RPN | DP_EX_DEFAULT;
	p->probe->prog.rpn.max = DP_MAXHITS_NONE;
	p->probe->prog.rpn.heap = DP_HEAP_MAX;
	p->probe->described = p->layouts ? strdup(p->layouts) : NULL;
	p->as = dp_rpn_asm_new(p->suspended);
	if (!p->as || (p->layouts && !p->probe->described))
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "probe");
	if (is_body)
		return dp_rpn_set_moment(p, value);
	if (dp_rpn_is(key, "tracepoint") || dp_rpn_is(key, "call"))
		return dp_rpn_set_traced(p, value, dp_rpn_is(key, "call"));
	return dp_rpn_is(key, "watchpoint") ? dp_rpn_set_memory(p, value)
					    : dp_rpn_set_place(p, value, dp_rpn_is(key, "address"));
}

static int unknown_keyword(struct rpn_parser *p, const struct rpn_token *key, const char *const *places, size_t nplaces)
{
	struct dp_near near = {.n = 0};
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)key->len, key->at);
	for (size_t i = 0; i < nplaces; i++)
		dp_near_try(&near, name, places[i]);
	for (size_t i = 0; i < dp_rpn_nkeywords; i++)
		dp_near_try(&near, name, dp_rpn_keywords[i].name);
	dp_rpn_fail(p->err, p->line, E_RPN_KEYWORD, "'%.*s'", (int)DP_MIN(key->len, 100u), key->at);
	dp_near_hint(&near, "", p->err);
	return -dp_error_info(E_RPN_KEYWORD)->number;
}

static int key_value(struct rpn_parser *p, const struct rpn_token *key, char *value)
{
	static const char *const places[] = {"offset", "address", "watchpoint", "tracepoint", "call", "run"};
	size_t n;

	while (*value == ' ' || *value == '\t')
		value++;
	for (n = strlen(value); n && (value[n - 1] == ' ' || value[n - 1] == '\t');)
		value[--n] = '\0';
	for (size_t i = 0; i < DP_ARRAY_SIZE(places); i++)
		if (dp_rpn_is(key, places[i])) {
			p->key = places[i];
			return begin_probe(p, key, value);
		}
	for (size_t i = 0; i < dp_rpn_nkeywords; i++) {
		if (!dp_rpn_is(key, dp_rpn_keywords[i].name))
			continue;
		if (!(p->probe ? dp_rpn_keywords[i].probe : dp_rpn_keywords[i].header))
			return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "'%s' %s", dp_rpn_keywords[i].name,
					   p->probe ? "belongs to the header" : "belongs to a probe");
		p->key = dp_rpn_keywords[i].name;
		return dp_rpn_keywords[i].take(p, value);
	}
	return unknown_keyword(p, key, places, DP_ARRAY_SIZE(places));
}

/* A statement of a line; statements are separated by semicolons. */
static int statement(struct rpn_parser *p, char *s)
{
	struct rpn_token key = dp_rpn_token(s), eq = dp_rpn_token(key.at + key.len);

	if (key.kind == RPN_END)
		return 0;
	if (key.kind == RPN_WORD && dp_rpn_is(&eq, "="))
		return key_value(p, &key, s + (eq.at + 1 - s));
	if (!p->probe)
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "'%.100s' before the first probe", s);
	return dp_rpn_asm_statement(p->as, s, p->line, p->err);
}

static int take_line(struct rpn_parser *p, char *s)
{
	int r = 0;

	while (!r && s) {
		char quote = 0, *end = s;

		for (; *end && (quote || *end != ';'); end++) {
			if (quote && *end == '\\' && end[1])
				end++;
			else if (quote ? *end == quote : *end == '"' || *end == '\'')
				quote = quote ? 0 : *end;
		}
		if (*end)
			*end++ = '\0';
		else
			end = NULL;
		r = statement(p, s);
		s = end;
	}
	return r;
}

/* Does a statement of the line suspend or resume? */
static bool suspends(const char *text)
{
	bool first = true;

	for (struct rpn_token t = dp_rpn_token(text); t.kind != RPN_END; t = dp_rpn_token(t.at + t.len)) {
		struct rpn_token next = dp_rpn_token(t.at + t.len);

		if (first && (dp_rpn_is(&t, "suspend") || dp_rpn_is(&t, "resume")) &&
		    (next.kind == RPN_END || dp_rpn_is(&next, ";")))
			return true;
		first = dp_rpn_is(&t, ";") || dp_rpn_is(&t, ":");
	}
	return false;
}

static int parse_lines(struct rpn_parser *p, struct rpn_source *src)
{
	struct rpn_line none = {NULL, src->nfiles ? src->files[0] : "", 1};
	int r = 0;

	p->line = &none;
	p->suspended = -1;
	for (u32 i = 0; i < src->n; i++)
		p->may_suspend |= suspends(src->lines[i].text);
	for (u32 i = 0; i < src->n && !r; i++) {
		p->line = &src->lines[i];
		r = take_line(p, src->lines[i].text);
	}
	if (!r)
		r = end_probe(p);
	if (!r && !p->u->name[0])
		r = dp_rpn_fail(p->err, p->line, E_RPN_HEADER, "no name");
	if (!r && !p->u->nprobes && (!p->u->nbodies || p->u->modtype != DP_RPN_USER))
		r = dp_rpn_fail(p->err, p->line, E_RPN_HEADER, "no probe");
	return r;
}

int dp_rpn_parse(struct dp_rpn_unit *u, const char *source, const char *name, const char *dir,
		 const struct dp_rpn_define *defines, u32 ndefines, struct dp_error *err)
{
	struct rpn_parser p = {.u = u, .err = err, .heapmax = DP_HEAP_MAX};
	struct rpn_source src;
	int r;

	memset(u, 0, sizeof(*u));
	u->major = 1;
	r = dp_rpn_preprocess(&src, source, name, dir, defines, ndefines, err);
	if (r)
		return r;
	r = parse_lines(&p, &src);
	for (u32 i = 0; i < u->ninits && !r; i++)
		if (u->inits[i].index >= u->nlocals)
			r = dp_rpn_fail(err, NULL, E_RPN_VALUE, "init = %u: there are %u variables", u->inits[i].index,
					u->nlocals);
	for (u32 i = 0; i < u->nknowns && !r; i++)
		if (u->knowns[i].index + dp_rpn_known_words(u->knowns[i].how) > u->nlocals)
			r = dp_rpn_fail(err, NULL, E_RPN_VALUE, "known = %u: there are %u variables",
					u->knowns[i].index, u->nlocals);
	for (u32 i = 0; i < u->naggregates && !r; i++) {
		if (u->aggregates[i].index + dp_rpn_aggregate_words(&u->aggregates[i]) > u->nlocals)
			r = dp_rpn_fail(err, NULL, E_RPN_VALUE, "aggregate = \"%s\": there are %u variables",
					u->aggregates[i].name, u->nlocals);
	}
	dp_rpn_asm_free(p.as);
	free(p.layouts);
	dp_rpn_source_free(&src);
	if (r)
		dp_rpn_free(u);
	return r;
}

void dp_rpn_probe_free(struct dp_rpn_probe *p)
{
	dp_program_free(&p->prog);
	free(p->relocs);
	free(p->described);
	dp_rf_free(p->rf);
}

void dp_rpn_free(struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->nprobes; i++)
		dp_rpn_probe_free(&u->probes[i]);
	for (u32 i = 0; i < u->nbodies; i++)
		dp_rpn_probe_free(&u->bodies[i]);
	free(u->probes);
	free(u->bodies);
	free(u->inits);
	free(u->knowns);
	free(u->aggregates);
	memset(u, 0, sizeof(*u));
}
