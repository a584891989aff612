/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The keywords of headers and of probes, in one table, and their values. Where a probe is, which begins one, is in
 * rpn-place.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/rpn/rpn-parse-priv.h"

int dp_rpn_bad_value(struct rpn_parser *p, const char *value)
{
	return dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "%s = '%.100s'", p->key, value);
}

/* ---- values ---- */

int dp_rpn_number_value(struct rpn_parser *p, const char *value, s64 lo, s64 hi, s64 *v)
{
	const char *q = value;

	if (!dp_rpn_expression(&q, v, NULL, NULL) || dp_rpn_token(q).kind != RPN_END || *v < lo || *v > hi) {
		dp_rpn_bad_value(p, value);
		dp_error_hint(p->err, "give a number from %lld to %lld", (long long)lo, (long long)hi);
		return -dp_error_info(E_RPN_VALUE)->number;
	}
	return 0;
}

static int unsigned_number(struct rpn_parser *p, const char *value, s64 max, u32 *out)
{
	s64 v;
	int r = dp_rpn_number_value(p, value, 0, max, &v);

	if (!r)
		*out = (u32)v;
	return r;
}

/* A limit: more than the most becomes the most, as Dynamic Probes does it. */
static int limit(struct rpn_parser *p, const char *value, u32 most, u32 *out)
{
	int r = unsigned_number(p, value, 0x7fffffff, out);

	if (!r && *out > most)
		*out = most;
	return r;
}

static int yes_no(struct rpn_parser *p, const char *value, bool *out)
{
	struct rpn_token t = dp_rpn_token(value);

	if (dp_rpn_token(t.at + t.len).kind != RPN_END)
		return dp_rpn_bad_value(p, value);
	*out = dp_rpn_is(&t, "yes") || dp_rpn_is(&t, "1") || dp_rpn_is(&t, "on");
	return *out || dp_rpn_is(&t, "no") || dp_rpn_is(&t, "0") || dp_rpn_is(&t, "off") ? 0
											 : dp_rpn_bad_value(p, value);
}

/* The value as it stands, or without its quotes. */
int dp_rpn_text_value(struct rpn_parser *p, const char *value, char *out, u32 size)
{
	struct rpn_token t = dp_rpn_token(value);
	int n;

	if (t.kind == RPN_TEXT) {
		n = t.bad ? -1 : dp_rpn_text(&t, out, size - 1);
		if (n <= 0 || dp_rpn_token(t.at + t.len).kind != RPN_END)
			return dp_rpn_bad_value(p, value);
	} else {
		n = (int)strlen(value);
		if (!n || n >= (int)size)
			return dp_rpn_bad_value(p, value);
		memcpy(out, value, (size_t)n);
	}
	out[n] = '\0';
	return strlen(out) == (size_t)n ? 0 : dp_rpn_bad_value(p, value);
}

/* ---- keywords of the header ---- */

static int key_name(struct rpn_parser *p, const char *value)
{
	return dp_rpn_text_value(p, value, p->u->name, sizeof(p->u->name));
}

static int key_build_id(struct rpn_parser *p, const char *value)
{
	return dp_rpn_text_value(p, value, p->u->build_id, sizeof(p->u->build_id));
}

static int key_modtype(struct rpn_parser *p, const char *value)
{
	static const char *const names[] = {"user", "kernel", "kmod"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strcmp(value, names[i])) {
			p->u->modtype = (enum dp_rpn_modtype)i;
			return 0;
		}
	return dp_rpn_bad_value(p, value);
}

static int key_major(struct rpn_parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r && !v) /* that of stack traces */
		r = dp_rpn_bad_value(p, value);
	if (!r && p->probe)
		p->probe->prog.rpn.major = (u16)v;
	else if (!r)
		p->u->major = (u16)v;
	return r;
}

static int key_id(struct rpn_parser *p, const char *value)
{
	return unsigned_number(p, value, 0xffffffff, &p->u->id);
}

static int key_jmpmax(struct rpn_parser *p, const char *value)
{
	p->has_jmpmax = true;
	return limit(p, value, DP_JMPMAX, &p->jmpmax);
}

static int key_logmax(struct rpn_parser *p, const char *value)
{
	return limit(p, value, DP_RPN_LOGMAX, &p->logmax);
}

static int key_ex_logmax(struct rpn_parser *p, const char *value)
{
	return limit(p, value, DP_EX_LOG_MAX, &p->ex_logmax);
}

static int key_vars(struct rpn_parser *p, const char *value)
{
	return unsigned_number(p, value, DP_LOCALS_MAX, &p->u->nlocals);
}

static int key_gvars(struct rpn_parser *p, const char *value)
{
	return unsigned_number(p, value, DP_GLOBALS_MAX, &p->u->nglobals);
}

static int key_heapmax(struct rpn_parser *p, const char *value)
{
	return limit(p, value, DP_HEAP_MAX, &p->heapmax);
}

static int key_autostacktrace(struct rpn_parser *p, const char *value)
{
	return yes_no(p, value, &p->autotrace);
}

/* ---- what records look like, and first values ---- */

static int append(struct rpn_parser *p, char **to, const char *key, const char *value)
{
	size_t n = *to ? strlen(*to) : 0, more = strlen(key) + strlen(value) + 5;
	char *v = n + more < 1u << 20 ? realloc(*to, n + more) : NULL;

	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "descriptions");
	snprintf(v + n, more, "%s = %s\n", key, value);
	*to = v;
	return 0;
}

static int key_layout(struct rpn_parser *p, const char *value)
{
	return append(p, p->probe ? &p->probe->described : &p->layouts, "layout", value);
}

static int key_field(struct rpn_parser *p, const char *value)
{
	return append(p, &p->probe->described, "field", value);
}

/* init = INDEX VALUE */
static int key_init(struct rpn_parser *p, const char *value)
{
	struct rpn_token index = dp_rpn_token(value);
	const char *rest = index.at + index.len;
	struct dp_rpn_init *v;
	s64 n;

	if (index.kind != RPN_NUMBER || index.bad || index.value < 0 || index.value >= DP_LOCALS_MAX ||
	    !dp_rpn_expression(&rest, &n, NULL, NULL) || dp_rpn_token(rest).kind != RPN_END)
		return dp_rpn_bad_value(p, value);
	v = realloc(p->u->inits, (p->u->ninits + 1) * sizeof(*v));
	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "first values");
	p->u->inits = v;
	v[p->u->ninits++] = (struct dp_rpn_init){(u32)index.value, n};
	return 0;
}

/* known = INDEX exe|cgroup [key | == "TEXT" | ~ "PATTERN"] */
static int key_known(struct rpn_parser *p, const char *value)
{
	struct rpn_token index = dp_rpn_token(value), name = dp_rpn_token(index.at + index.len),
			 how = dp_rpn_token(name.at + name.len), text = dp_rpn_token(how.at + how.len);
	int n = 0, what = dp_rpn_known_what(name.at, name.len);
	struct dp_rpn_known k = {.how = dp_rpn_is(&how, "key")  ? DP_KNOWN_KEY
					: dp_rpn_is(&how, "==") ? DP_KNOWN_SAME
					: dp_rpn_is(&how, "~")  ? DP_KNOWN_MATCH
								: DP_KNOWN_TEXT},
			    *v;

	if (index.kind != RPN_NUMBER || index.bad || index.value < 0 || index.value >= DP_LOCALS_MAX || what < 0 ||
	    (k.how == DP_KNOWN_TEXT && how.kind != RPN_END))
		return dp_rpn_bad_value(p, value);
	if (k.how >= DP_KNOWN_SAME) {
		n = text.kind == RPN_TEXT && !text.bad ? dp_rpn_text(&text, k.text, DP_KNOWN_MAX) : -1;
		text = dp_rpn_token(text.at + text.len);
	}
	if (n < 0 || strlen(k.text) != (size_t)n || (k.how != DP_KNOWN_TEXT && text.kind != RPN_END))
		return dp_rpn_bad_value(p, value);
	k.index = (u32)index.value;
	k.what = (u16)what;
	v = p->u->nknowns < DP_KNOWN_MAX ? realloc(p->u->knowns, (p->u->nknowns + 1) * sizeof(*v)) : NULL;
	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "known");
	p->u->knowns = v;
	v[p->u->nknowns++] = k;
	return 0;
}

/* aggregate = "NAME" KIND INDEX [STEP, of lhist] [by PART... KEYS] */
static int key_aggregate(struct rpn_parser *p, const char *value)
{
	struct dp_rpn_aggregate *v = realloc(p->u->aggregates, (p->u->naggregates + 1) * sizeof(*v));

	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "aggregates");
	p->u->aggregates = v;
	if (!dp_rpn_aggregate(value, &v[p->u->naggregates]))
		return dp_rpn_bad_value(p, value);
	p->u->naggregates++;
	return 0;
}

/* ---- keywords of a probe ---- */

static int key_opcode(struct rpn_parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xff, &v);

	p->probe->opcode = r ? 0 : (u8)v;
	p->probe->has_opcode = true;
	return r;
}

static int number16(struct rpn_parser *p, const char *value, u16 *to)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r)
		*to = (u16)v;
	return r;
}

static int key_minor(struct rpn_parser *p, const char *value)
{
	return number16(p, value, &p->probe->prog.rpn.minor);
}

static int key_group(struct rpn_parser *p, const char *value)
{
	return number16(p, value, &p->probe->group);
}

static int key_type(struct rpn_parser *p, const char *value)
{
	return number16(p, value, &p->probe->type);
}

static int key_ignore(struct rpn_parser *p, const char *value)
{
	s64 v;
	int r = dp_rpn_number_value(p, value, 0, 0x7fffffff, &v);

	if (!r)
		p->probe->prog.rpn.pass = (u64)v;
	return r;
}

static int key_maxhits(struct rpn_parser *p, const char *value)
{
	s64 v;
	int r = dp_rpn_number_value(p, value, -0x7fffffff, 0x7fffffff, &v);

	/* 0: as many as can be. Less: never. */
	if (!r)
		p->probe->prog.rpn.max = v > 0 ? (u64)v : v ? 0 : DP_MAXHITS_NONE;
	return r;
}

static int key_logonfault(struct rpn_parser *p, const char *value)
{
	return yes_no(p, value, &p->probe->logonfault);
}

static int key_ex_mask(struct rpn_parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r)
		p->probe->prog.rpn.ex_mask = DP_RPN | v;
	return r;
}

static int key_heap(struct rpn_parser *p, const char *value)
{
	return limit(p, value, DP_HEAP_MAX, &p->probe->prog.rpn.heap);
}

static int key_at(struct rpn_parser *p, const char *value)
{
	p->probe->at_return = !strcmp(value, "return");
	return p->probe->at_return || !strcmp(value, "entry") ? 0 : dp_rpn_bad_value(p, value);
}

static int key_length(struct rpn_parser *p, const char *value)
{
	s64 v;
	int r = dp_rpn_number_value(p, value, 1, DP_RPN_WATCH_MAX, &v);

	if (!r)
		p->watch_len = (u32)v;
	return r;
}

/* The kinds of access as Dynamic Probes lists them, and as event lines name them. */
static int key_access(struct rpn_parser *p, const char *value)
{
	static const char *const kinds[][2] = {{"execute", "x"}, {"write", "w"}, {"read or write", "rw"}, {"io", "io"}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(kinds); i++)
		if (!strcmp(value, kinds[i][0]) || !strcmp(value, kinds[i][1])) {
			p->access = kinds[i][1];
			return 0;
		}
	return dp_rpn_bad_value(p, value);
}

const struct rpn_keyword dp_rpn_keywords[] = {
    {"name", key_name, true, false},
    {"modtype", key_modtype, true, false},
    {"build_id", key_build_id, true, false},
    {"major", key_major, true, true},
    {"id", key_id, true, false},
    {"jmpmax", key_jmpmax, true, false},
    {"logmax", key_logmax, true, false},
    {"ex_logmax", key_ex_logmax, true, false},
    {"vars", key_vars, true, false},
    {"gvars", key_gvars, true, false},
    {"heapmax", key_heapmax, true, false},
    {"autostacktrace", key_autostacktrace, true, false},
    {"opcode", key_opcode, false, true},
    {"minor", key_minor, false, true},
    {"group", key_group, false, true},
    {"type", key_type, false, true},
    {"ignore", key_ignore, false, true},
    {"pass_count", key_ignore, false, true},
    {"maxhits", key_maxhits, false, true},
    {"logonfault", key_logonfault, false, true},
    {"ex_mask", key_ex_mask, false, true},
    {"heap", key_heap, false, true},
    {"at", key_at, false, true},
    {"length", key_length, false, true},
    {"access", key_access, false, true},
    {"layout", key_layout, true, true},
    {"field", key_field, false, true},
    {"init", key_init, true, false},
    {"known", key_known, true, false},
    {"aggregate", key_aggregate, true, false},
};
const u32 dp_rpn_nkeywords = DP_ARRAY_SIZE(dp_rpn_keywords);
