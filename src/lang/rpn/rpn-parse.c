/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Header and probe definitions: "key = value" lines by two tables, everything else is for the
 * assembler. The first offset, address, watchpoint, tracepoint or call ends the header; each begins a probe.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/event/event.h"
#include "lang/rpn/rpn-fields.h"
#include "lang/rpn/rpn-priv.h"

struct parser {
	struct dp_rpn_unit *u;
	struct dp_rpn_probe *probe; /* NULL in the header */
	struct rpn_asm *as;         /* its program */
	const struct rpn_line *line;
	const char *key; /* the keyword whose value is read */
	struct dp_error *err;
	u32 jmpmax, logmax, ex_logmax, heapmax;
	u32 watch_len;      /* of the probe: length =, 0: not given */
	const char *access; /* and access =, as event lines name it; NULL */
	bool autotrace, has_jmpmax, has_vars, may_suspend;
	int suspended; /* the variable of `suspend` and `resume`, behind the program's own; -1: none */
	char *layouts; /* of the header: each probe has them */
};

static int bad_value(struct parser *p, const char *value)
{
	return dp_rpn_fail(p->err, p->line, E_RPN_VALUE, "%s = '%.100s'", p->key, value);
}

/* ---- values ---- */

static int number(struct parser *p, const char *value, s64 lo, s64 hi, s64 *v)
{
	const char *q = value;

	if (!dp_rpn_expression(&q, v, NULL, NULL) || dp_rpn_token(q).kind != RPN_END || *v < lo || *v > hi) {
		bad_value(p, value);
		dp_error_hint(p->err, "give a number from %lld to %lld", (long long)lo, (long long)hi);
		return -dp_error_info(E_RPN_VALUE)->number;
	}
	return 0;
}

static int unsigned_number(struct parser *p, const char *value, s64 max, u32 *out)
{
	s64 v;
	int r = number(p, value, 0, max, &v);

	if (!r)
		*out = (u32)v;
	return r;
}

/* A limit: more than the most becomes the most, as Dynamic Probes does it. */
static int limit(struct parser *p, const char *value, u32 most, u32 *out)
{
	int r = unsigned_number(p, value, 0x7fffffff, out);

	if (!r && *out > most)
		*out = most;
	return r;
}

static int yes_no(struct parser *p, const char *value, bool *out)
{
	struct rpn_token t = dp_rpn_token(value);

	if (dp_rpn_token(t.at + t.len).kind != RPN_END)
		return bad_value(p, value);
	*out = dp_rpn_is(&t, "yes") || dp_rpn_is(&t, "1") || dp_rpn_is(&t, "on");
	return *out || dp_rpn_is(&t, "no") || dp_rpn_is(&t, "0") || dp_rpn_is(&t, "off") ? 0 : bad_value(p, value);
}

/* The value as it stands, or without its quotes. */
static int text(struct parser *p, const char *value, char *out, u32 size)
{
	struct rpn_token t = dp_rpn_token(value);
	int n;

	if (t.kind == RPN_TEXT) {
		n = t.bad ? -1 : dp_rpn_text(&t, out, size - 1);
		if (n <= 0 || dp_rpn_token(t.at + t.len).kind != RPN_END)
			return bad_value(p, value);
	} else {
		n = (int)strlen(value);
		if (!n || n >= (int)size)
			return bad_value(p, value);
		memcpy(out, value, (size_t)n);
	}
	out[n] = '\0';
	return strlen(out) == (size_t)n ? 0 : bad_value(p, value);
}

/* ---- keywords of the header ---- */

static int key_name(struct parser *p, const char *value)
{
	return text(p, value, p->u->name, sizeof(p->u->name));
}

static int key_build_id(struct parser *p, const char *value)
{
	return text(p, value, p->u->build_id, sizeof(p->u->build_id));
}

static int key_modtype(struct parser *p, const char *value)
{
	static const char *const names[] = {"user", "kernel", "kmod"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strcmp(value, names[i])) {
			p->u->modtype = (enum dp_rpn_modtype)i;
			return 0;
		}
	return bad_value(p, value);
}

static int key_major(struct parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r && !v) /* that of stack traces */
		r = bad_value(p, value);
	if (!r && p->probe)
		p->probe->prog.rpn.major = (u16)v;
	else if (!r)
		p->u->major = (u16)v;
	return r;
}

static int key_id(struct parser *p, const char *value)
{
	return unsigned_number(p, value, 0xffffffff, &p->u->id);
}

static int key_jmpmax(struct parser *p, const char *value)
{
	p->has_jmpmax = true;
	return limit(p, value, DP_JMPMAX, &p->jmpmax);
}

static int key_logmax(struct parser *p, const char *value)
{
	return limit(p, value, DP_RPN_LOGMAX, &p->logmax);
}

static int key_ex_logmax(struct parser *p, const char *value)
{
	return limit(p, value, DP_EX_LOG_MAX, &p->ex_logmax);
}

static int key_vars(struct parser *p, const char *value)
{
	return unsigned_number(p, value, DP_LOCALS_MAX, &p->u->nlocals);
}

static int key_gvars(struct parser *p, const char *value)
{
	return unsigned_number(p, value, DP_GLOBALS_MAX, &p->u->nglobals);
}

static int key_heapmax(struct parser *p, const char *value)
{
	return limit(p, value, DP_HEAP_MAX, &p->heapmax);
}

static int key_autostacktrace(struct parser *p, const char *value)
{
	return yes_no(p, value, &p->autotrace);
}

/* ---- what records look like, and first values ---- */

static int append(struct parser *p, char **to, const char *key, const char *value)
{
	size_t n = *to ? strlen(*to) : 0, more = strlen(key) + strlen(value) + 5;
	char *v = n + more < 1u << 20 ? realloc(*to, n + more) : NULL;

	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "descriptions");
	snprintf(v + n, more, "%s = %s\n", key, value);
	*to = v;
	return 0;
}

static int key_layout(struct parser *p, const char *value)
{
	return append(p, p->probe ? &p->probe->described : &p->layouts, "layout", value);
}

static int key_field(struct parser *p, const char *value)
{
	return append(p, &p->probe->described, "field", value);
}

/* init = INDEX VALUE */
static int key_init(struct parser *p, const char *value)
{
	struct rpn_token index = dp_rpn_token(value);
	const char *rest = index.at + index.len;
	struct dp_rpn_init *v;
	s64 n;

	if (index.kind != RPN_NUMBER || index.bad || index.value < 0 || index.value >= DP_LOCALS_MAX ||
	    !dp_rpn_expression(&rest, &n, NULL, NULL) || dp_rpn_token(rest).kind != RPN_END)
		return bad_value(p, value);
	v = realloc(p->u->inits, (p->u->ninits + 1) * sizeof(*v));
	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "first values");
	p->u->inits = v;
	v[p->u->ninits++] = (struct dp_rpn_init){(u32)index.value, n};
	return 0;
}

/* aggregate = "NAME" KIND INDEX [STEP, of lhist] [by PART... KEYS] */
/* INDEX exe|cgroup [key | == "TEXT" | ~ "PATTERN"] */
static int key_known(struct parser *p, const char *value)
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
		return bad_value(p, value);
	if (k.how >= DP_KNOWN_SAME) {
		n = text.kind == RPN_TEXT && !text.bad ? dp_rpn_text(&text, k.text, DP_KNOWN_MAX) : -1;
		text = dp_rpn_token(text.at + text.len);
	}
	if (n < 0 || strlen(k.text) != (size_t)n || (k.how != DP_KNOWN_TEXT && text.kind != RPN_END))
		return bad_value(p, value);
	k.index = (u32)index.value;
	k.what = (u16)what;
	v = p->u->nknowns < DP_KNOWN_MAX ? realloc(p->u->knowns, (p->u->nknowns + 1) * sizeof(*v)) : NULL;
	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "known");
	p->u->knowns = v;
	v[p->u->nknowns++] = k;
	return 0;
}

static int key_aggregate(struct parser *p, const char *value)
{
	struct dp_rpn_aggregate *v = realloc(p->u->aggregates, (p->u->naggregates + 1) * sizeof(*v));

	if (!v)
		return dp_rpn_fail(p->err, p->line, E_RPN_MEMORY, "aggregates");
	p->u->aggregates = v;
	if (!dp_rpn_aggregate(value, &v[p->u->naggregates]))
		return bad_value(p, value);
	p->u->naggregates++;
	return 0;
}

/* ---- keywords of a probe ---- */

static int key_opcode(struct parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xff, &v);

	p->probe->opcode = r ? 0 : (u8)v;
	p->probe->has_opcode = true;
	return r;
}

static int number16(struct parser *p, const char *value, u16 *to)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r)
		*to = (u16)v;
	return r;
}

static int key_minor(struct parser *p, const char *value)
{
	return number16(p, value, &p->probe->prog.rpn.minor);
}

static int key_group(struct parser *p, const char *value)
{
	return number16(p, value, &p->probe->group);
}

static int key_type(struct parser *p, const char *value)
{
	return number16(p, value, &p->probe->type);
}

static int key_ignore(struct parser *p, const char *value)
{
	s64 v;
	int r = number(p, value, 0, 0x7fffffff, &v);

	if (!r)
		p->probe->prog.rpn.pass = (u64)v;
	return r;
}

static int key_maxhits(struct parser *p, const char *value)
{
	s64 v;
	int r = number(p, value, -0x7fffffff, 0x7fffffff, &v);

	/* 0: as many as can be. Less: never. */
	if (!r)
		p->probe->prog.rpn.max = v > 0 ? (u64)v : v ? 0 : DP_MAXHITS_NONE;
	return r;
}

static int key_logonfault(struct parser *p, const char *value)
{
	return yes_no(p, value, &p->probe->logonfault);
}

static int key_ex_mask(struct parser *p, const char *value)
{
	u32 v;
	int r = unsigned_number(p, value, 0xffff, &v);

	if (!r)
		p->probe->prog.rpn.ex_mask = DP_RPN | v;
	return r;
}

static int key_heap(struct parser *p, const char *value)
{
	return limit(p, value, DP_HEAP_MAX, &p->probe->prog.rpn.heap);
}

static int key_at(struct parser *p, const char *value)
{
	p->probe->at_return = !strcmp(value, "return");
	return p->probe->at_return || !strcmp(value, "entry") ? 0 : bad_value(p, value);
}

static int key_length(struct parser *p, const char *value)
{
	s64 v;
	int r = number(p, value, 1, DP_RPN_WATCH_MAX, &v);

	if (!r)
		p->watch_len = (u32)v;
	return r;
}

/* The kinds of access as Dynamic Probes lists them, and as event lines name them. */
static int key_access(struct parser *p, const char *value)
{
	static const char *const kinds[][2] = {{"execute", "x"}, {"write", "w"}, {"read or write", "rw"}, {"io", "io"}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(kinds); i++)
		if (!strcmp(value, kinds[i][0]) || !strcmp(value, kinds[i][1])) {
			p->access = kinds[i][1];
			return 0;
		}
	return bad_value(p, value);
}

static const struct keyword {
	const char *name;
	int (*take)(struct parser *p, const char *value);
	bool header, probe;
} keywords[] = {
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

/* ---- probes ---- */

/* FILE.c:LINE, with or without quotes around it. */
static bool set_line(struct dp_rpn_probe *probe, const char *value)
{
	char text[DP_RPN_NAME_MAX];
	struct rpn_token t = dp_rpn_token(value);
	int n = (int)strlen(value);
	const char *colon;
	char *end;

	if (t.kind == RPN_TEXT && !t.bad && dp_rpn_token(t.at + t.len).kind == RPN_END)
		n = dp_rpn_text(&t, text, sizeof(text) - 1);
	else if (n < (int)sizeof(text))
		memcpy(text, value, (size_t)n);
	else
		n = -1;
	if (n <= 0)
		return false;
	text[n] = '\0';
	colon = strrchr(text, ':');
	if (!colon || colon == text || colon[-1] == ':' || colon[1] < '1' || colon[1] > '9' ||
	    !memchr(text, '.', (size_t)(colon - text)))
		return false;
	probe->offset = (s64)strtoull(colon + 1, &end, 10);
	if (*end || probe->offset > 10000000)
		return false;
	memcpy(probe->symbol, text, (size_t)(colon - text));
	probe->symbol[colon - text] = '\0';
	probe->place = DP_RPN_LINE;
	return true;
}

/* SYMBOL, SYMBOL+N, SYMBOL-N, N, FILE:LINE; symbols may hold what C++, Go and assembler put in
 * them. */
static int set_place(struct parser *p, const char *value, bool absolute)
{
	struct dp_rpn_probe *probe = p->probe;
	const char *q = value;
	s64 v = 0;
	size_t n;

	if (dp_rpn_expression(&q, &v, NULL, NULL) && dp_rpn_token(q).kind == RPN_END) {
		probe->place = absolute ? DP_RPN_ADDRESS : DP_RPN_OFFSET;
		probe->offset = v;
		return 0;
	}
	if (absolute)
		return bad_value(p, value);
	if (set_line(probe, value))
		return 0;
	if (*value == '"') { /* a name that is not a word */
		struct rpn_token t = dp_rpn_token(value);
		int len = t.bad ? -1 : dp_rpn_text(&t, probe->symbol, sizeof(probe->symbol) - 1);

		if (len <= 0)
			return bad_value(p, value);
		q = t.at + t.len;
	} else {
		n = strcspn(value, " \t+-");
		if (!n || n >= sizeof(probe->symbol) || strcspn(value, "\"'\\") < n)
			return bad_value(p, value);
		memcpy(probe->symbol, value, n);
		q = value + n;
	}
	if (dp_rpn_token(q).kind != RPN_END &&
	    (!dp_rpn_expression(&q, &v, NULL, NULL) || dp_rpn_token(q).kind != RPN_END))
		return bad_value(p, value);
	probe->offset = v;
	probe->place = DP_RPN_SYMBOL;
	return 0;
}

/* [MODULE:]VARIABLE, SYMBOL+N or an address; what may stand behind it is put there at the definition's end. */
static int set_memory(struct parser *p, const char *value)
{
	char *to = p->probe->symbol;
	int r = text(p, value, to, sizeof(p->probe->symbol));

	for (const char *from = to; !r && *from; from++)
		if (*from != ' ' && *from != '\t')
			*to++ = *from;
	*to = '\0';
	p->probe->place = DP_RPN_WATCH;
	return r;
}

/* NAME; of a call NAME NUMBER. Both are of the kernel. */
static int set_traced(struct parser *p, const char *value, bool is_call)
{
	struct rpn_token name = dp_rpn_token(value);
	const char *rest = name.at + name.len;
	char *to = p->probe->symbol;
	int n = -1;

	p->probe->place = is_call ? DP_RPN_CALL : DP_RPN_TRACEPOINT;
	if (p->u->modtype == DP_RPN_USER)
		return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "'%s' belongs to programs of the kernel", p->key);
	if (!is_call)
		return text(p, value, to, sizeof(p->probe->symbol));
	if (name.kind == RPN_TEXT && !name.bad)
		n = dp_rpn_text(&name, to, sizeof(p->probe->symbol) - 1);
	if (n <= 0 || strlen(to) != (size_t)n || !dp_rpn_expression(&rest, &p->probe->offset, NULL, NULL) ||
	    dp_rpn_token(rest).kind != RPN_END || p->probe->offset < -1 || p->probe->offset > 0xffff)
		return bad_value(p, value);
	return 0;
}

/* The place with its length and access, in the language of event lines. */
static int end_watch(struct parser *p)
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
		return bad_value(p, probe->symbol);
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

static int describe(struct parser *p, struct dp_rpn_probe *probe)
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
static int end_probe(struct parser *p)
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

/* begin, end, or a number of nanoseconds. */
static int set_moment(struct parser *p, const char *value)
{
	s64 ns;
	int r;

	p->probe->place = !strcmp(value, "begin") ? DP_RPN_BEGIN : !strcmp(value, "end") ? DP_RPN_END : DP_RPN_TIMER;
	if (p->probe->place != DP_RPN_TIMER)
		return 0;
	r = number(p, value, DP_RPN_TIMER_MIN, DP_RPN_TIMER_MAX, &ns);
	p->probe->offset = r ? 0 : ns;
	return r;
}

/* key: offset, address, watchpoint, tracepoint, call or run. */
static int begin_probe(struct parser *p, const struct rpn_token *key, const char *value)
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
		return set_moment(p, value);
	if (dp_rpn_is(key, "tracepoint") || dp_rpn_is(key, "call"))
		return set_traced(p, value, dp_rpn_is(key, "call"));
	return dp_rpn_is(key, "watchpoint") ? set_memory(p, value) : set_place(p, value, dp_rpn_is(key, "address"));
}

static int unknown_keyword(struct parser *p, const struct rpn_token *key, const char *const *places, size_t nplaces)
{
	struct dp_near near = {.n = 0};
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)key->len, key->at);
	for (size_t i = 0; i < nplaces; i++)
		dp_near_try(&near, name, places[i]);
	for (size_t i = 0; i < DP_ARRAY_SIZE(keywords); i++)
		dp_near_try(&near, name, keywords[i].name);
	dp_rpn_fail(p->err, p->line, E_RPN_KEYWORD, "'%.*s'", (int)DP_MIN(key->len, 100u), key->at);
	dp_near_hint(&near, "", p->err);
	return -dp_error_info(E_RPN_KEYWORD)->number;
}

static int key_value(struct parser *p, const struct rpn_token *key, char *value)
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
	for (size_t i = 0; i < DP_ARRAY_SIZE(keywords); i++) {
		if (!dp_rpn_is(key, keywords[i].name))
			continue;
		if (!(p->probe ? keywords[i].probe : keywords[i].header))
			return dp_rpn_fail(p->err, p->line, E_RPN_PLACE, "'%s' %s", keywords[i].name,
					   p->probe ? "belongs to the header" : "belongs to a probe");
		p->key = keywords[i].name;
		return keywords[i].take(p, value);
	}
	return unknown_keyword(p, key, places, DP_ARRAY_SIZE(places));
}

/* A statement of a line; statements are separated by semicolons. */
static int statement(struct parser *p, char *s)
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

static int take_line(struct parser *p, char *s)
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

static int parse_lines(struct parser *p, struct rpn_source *src)
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
	struct parser p = {.u = u, .err = err, .heapmax = DP_HEAP_MAX};
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
