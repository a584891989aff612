/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whole files: pragmas say which handler runs where; each place becomes one or more instructions of
 * the module, and each of these a probe definition of its own, because a variable is somewhere else
 * at each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/gen.h"
#include "symbols/lines.h"

#define FILE_MAX_BYTES (1u << 20)
#define PLACES_MAX 256

struct place_def { /* one PROBEPOINT_LOCATION */
	struct place_def *next;
	const char *location, *handler;
	const struct rpn_line *line;
	const char *options; /* lines of the probe definition */
};

struct unit {
	struct dpcc c;
	const char *modname, *options;
	enum dp_rpn_modtype modtype;
	u64 major, jmpmax, logmax;
	bool base_used;
	struct place_def *places;
	u32 nprobes;
};

/* The simulated C run-time library, in the language itself. */
static const char prelude[] =
    "unsigned long strlen(const char *s) { unsigned long n = 0; while (s[n]) n++; return n; }\n"
    "unsigned long strnlen(const char *s, unsigned long m) { unsigned long n = 0; while (n < m && "
    "s[n]) n++; return n; }\n"
    "int strncmp(const char *a, const char *b, unsigned long n) { unsigned long i; for (i = 0; i < "
    "n; i++) {"
    " unsigned char x = a[i], y = b[i]; if (x != y) return x - y; if (!x) return 0; } return 0; }\n"
    "int strcmp(const char *a, const char *b) { return strncmp(a, b, ~0ul); }\n"
    "int memcmp(const void *p, const void *q, unsigned long n) { const unsigned char *a = p, *b = "
    "q; unsigned long i;"
    " for (i = 0; i < n; i++) if (a[i] != b[i]) return a[i] - b[i]; return 0; }\n"
    "void *memcpy(void *p, const void *q, unsigned long n) { char *a = p; const char *b = q; "
    "unsigned long i = 0;"
    " for (; i + 8 <= n; i += 8) *(unsigned long *)(a + i) = *(const unsigned long *)(b + i);"
    " for (; i < n; i++) a[i] = b[i]; return p; }\n"
    "void *memset(void *p, int v, unsigned long n) { char *a = p; unsigned long i; for (i = 0; i < "
    "n; i++) a[i] = v; return p; }\n"
    "char *strcpy(char *a, const char *b) { unsigned long i = 0; do a[i] = b[i]; while (b[i++]); "
    "return a; }\n"
    "char *strncpy(char *a, const char *b, unsigned long n) { unsigned long i = 0; for (; i < n && "
    "b[i]; i++) a[i] = b[i];"
    " for (; i < n; i++) a[i] = 0; return a; }\n"
    "char *strcat(char *a, const char *b) { strcpy(a + strlen(a), b); return a; }\n"
    "char *strchr(const char *s, int v) { for (;; s++) { if (*s == (char)v) return (char *)s; if "
    "(!*s) return 0; } return 0; }\n"
    "char *strrchr(const char *s, int v) { char *r = 0; for (;; s++) { if (*s == (char)v) r = "
    "(char *)s; if (!*s) return r; }"
    " return 0; }\n"
    "char *strstr(const char *s, const char *w) { unsigned long n = strlen(w); for (;; s++) { if "
    "(!strncmp(s, w, n))"
    " return (char *)s; if (!*s) return 0; } return 0; }\n"
    "long atol(const char *s) { long v = 0; int neg = 0; while (*s == ' ' || *s == '\\t') s++;"
    " if (*s == '-' || *s == '+') neg = *s++ == '-'; while (*s >= '0' && *s <= '9') v = v * 10 + "
    "(*s++ - '0');"
    " return neg ? -v : v; }\n"
    "int atoi(const char *s) { return atol(s); }\n"
    "int isdigit(int v) { return v >= '0' && v <= '9'; }\n"
    "int isalpha(int v) { return (v | 32) >= 'a' && (v | 32) <= 'z'; }\n"
    "int isspace(int v) { return v == ' ' || (v >= 9 && v <= 13); }\n"
    "int toupper(int v) { return v >= 'a' && v <= 'z' ? v - 32 : v; }\n"
    "int tolower(int v) { return v >= 'A' && v <= 'Z' ? v + 32 : v; }\n"
    "int abs(int v) { return v < 0 ? -v : v; }\n"
    "long labs(long v) { return v < 0 ? -v : v; }\n";

bool dpcc_is_source(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".dpc");
}

/* ---- pragmas ---- */

static struct tok pragma_token(const struct rpn_line *line, const char *at)
{
	return (struct tok){.kind = TOK_WORD, .at = at, .len = 1, .line = line};
}

/* NAME(value) or NAME value: the value without quotes. */
static const char *pragma_value(struct unit *u, const struct rpn_line *line, const char **p)
{
	struct tok where = pragma_token(line, *p);
	struct rpn_token t = rpn_token(*p);
	bool paren = rpn_is(&t, "(");
	const char *value;
	size_t n;

	if (paren)
		t = rpn_token(t.at + 1);
	if (t.kind == RPN_TEXT && !t.bad) {
		char *buf = dpcc_alloc(&u->c, t.len + 1);

		rpn_text(&t, buf, t.len);
		value = buf;
		n = t.len;
	} else {
		n = strcspn(t.at, paren ? ")" : " \t");
		value = dpcc_text(&u->c, t.at, n);
	}
	*p = t.at + n;
	t = rpn_token(*p);
	if (!*value || (paren && !rpn_is(&t, ")")))
		dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "write NAME(value)");
	if (paren)
		*p = t.at + 1;
	return value;
}

static u64 pragma_number(struct unit *u, const struct rpn_line *line, const char **p, u64 max)
{
	struct tok where = pragma_token(line, *p);
	const char *value = pragma_value(u, line, p);
	char *end;
	u64 v = strtoull(value, &end, 0);

	if (*end || v > max)
		dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "a number up to %llu is needed here",
			  (unsigned long long)max);
	return v;
}

static void add_place(struct unit *u, const char *location, const struct rpn_line *line)
{
	struct place_def *d = dpcc_alloc(&u->c, sizeof(*d)), **last = &u->places;

	while (*last)
		last = &(*last)->next;
	*d = (struct place_def){.location = location, .line = line, .options = u->options};
	*last = d;
	u->options = "";
}

static void set_modtype(struct unit *u, const struct rpn_line *line, const char **p)
{
	static const char *const names[] = {"user", "kernel", "kmod"};
	struct tok where = pragma_token(line, *p);
	const char *value = pragma_value(u, line, p);

	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strcmp(value, names[i])) {
			u->modtype = (enum dp_rpn_modtype)i;
			return;
		}
	dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "MODTYPE is user, kernel or kmod");
}

static const char *const probe_options[][2] = {
    {"PASSCOUNT", "ignore"}, {"IGNORE", "ignore"}, {"MAXHITS", "maxhits"}, {"MINOR", "minor"},
    {"GROUP", "group"},      {"TYPE", "type"},     {"EX_MASK", "ex_mask"}, {"OPCODE", "opcode"},
};

static void one_pragma(struct unit *u, const struct rpn_line *line, const char **p)
{
	struct rpn_token t = rpn_token(*p);
	struct tok where = pragma_token(line, t.at);

	*p = t.at + t.len;
	if (rpn_is(&t, "MODNAME")) {
		u->modname = pragma_value(u, line, p);
	} else if (rpn_is(&t, "MODTYPE")) {
		set_modtype(u, line, p);
	} else if (rpn_is(&t, "PROBEPOINT_LOCATION")) {
		add_place(u, pragma_value(u, line, p), line);
	} else if (rpn_is(&t, "PROBEPOINT_HANDLER")) {
		const char *handler = pragma_value(u, line, p);
		bool any = false;

		for (struct place_def *d = u->places; d; d = d->next)
			if (!d->handler) {
				d->handler = handler;
				any = true;
			}
		if (!any)
			dpcc_fail(&u->c, &where, E_DPCC_PRAGMA,
				  "a PROBEPOINT_LOCATION must come before its handler");
	} else if (rpn_is(&t, "MAJOR")) {
		u->major = pragma_number(u, line, p, 65535);
	} else if (rpn_is(&t, "JMPMAX")) {
		u->jmpmax = pragma_number(u, line, p, 65535);
	} else if (rpn_is(&t, "LOGMAX")) {
		u->logmax = pragma_number(u, line, p, 1024);
		u->c.logs = true;
	} else if (rpn_is(&t, "KEYS")) {
		u->c.keys = (u32)pragma_number(u, line, p, DP_LOCALS_MAX);
	} else {
		for (u32 i = 0; i < DP_ARRAY_SIZE(probe_options); i++)
			if (rpn_is(&t, probe_options[i][0])) {
				u64 v = pragma_number(u, line, p, 0x7fffffff);

				u->options =
				    dpcc_format(&u->c, "%s%s = %llu\n", u->options,
						probe_options[i][1], (unsigned long long)v);
				return;
			}
		dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "unknown pragma '%.*s'", (int)t.len, t.at);
	}
}

static void pragmas(struct unit *u)
{
	for (u32 i = 0; i < u->c.src.n; i++) {
		const struct rpn_line *line = &u->c.src.lines[i];
		const char *p = line->text + 7;

		if (strncmp(line->text, "#pragma", 7))
			continue;
		/* Several may stand on a line, with the word again or without. */
		for (;;) {
			struct rpn_token t = rpn_token(p);

			if (t.kind == RPN_END)
				break;
			if (*t.at == '#' || rpn_is(&t, "pragma") || rpn_is(&t, ",")) {
				p = t.at + t.len;
				continue;
			}
			one_pragma(u, line, &p);
		}
	}
}

/* ---- one probed instruction ---- */

static void start_pass(struct unit *u, u64 pc, bool is_return)
{
	struct dpcc *c = &u->c;

	c->target = (struct target){pc, is_return};
	c->scope = NULL;
	c->funcs = NULL;
	c->func = NULL;
	c->debug_types = NULL;
	c->literals = NULL;
	c->literal_bytes = 0;
	c->nfields = 0;
	c->label = c->depth = 0;
	c->at = 0;
	memset(c->helper, 0, sizeof(c->helper));
}

static struct function *parse_all(struct unit *u, const struct place_def *d)
{
	struct dpcc *c = &u->c;
	struct tok where = pragma_token(d->line, d->line->text);
	struct function *handler;
	bool more = true;

	dpcc_parse(c);
	handler = find_func(c, d->handler);
	if (!handler || !handler->defined || handler->is_prelude)
		dpcc_fail(c, &where, E_DPCC_NAME, "there is no handler '%.60s'", d->handler);
	if (handler->nparams)
		dpcc_fail(c, &where, E_DPCC_TYPE, "the handler '%.60s' must take no parameters",
			  d->handler);
	handler->used = true;
	while (more) {
		more = false;
		for (struct function *f = c->funcs; f; f = f->next) {
			if (!f->used || f->body)
				continue;
			if (!f->defined)
				dpcc_fail(c, &where, E_DPCC_NAME,
					  "the function '%.60s' is declared, but not defined",
					  f->name);
			dpcc_parse_body(c, f);
			more = true;
		}
	}
	return handler;
}

/* ---- what is known at a place ---- */

static const char *where_it_is(const struct dp_var *v)
{
	if (v->npieces != 1)
		return "in pieces";
	switch (v->pieces[0].kind) {
	case DP_PIECE_MEMORY:
		return "in memory";
	case DP_PIECE_REGISTER:
		return v->pieces[0].code;
	default:
		return "a value";
	}
}

static int show_var(const char *name, int r, const struct dp_var *v, const struct dp_error *err,
		    void *arg)
{
	struct dpcc *c = arg;
	Dwarf_Die type = v->type;
	const char *why = strstr(err->detail, ": ");

	buf_put(c, &c->all, "  $%-16s ", name);
	if (r)
		buf_put(c, &c->all, "not available: %s%s%s\n", why ? why + 2 : err->detail,
			err->hint[0] ? "; " : "", err->hint);
	else
		buf_put(c, &c->all, "%s, %s\n",
			v->has_type ? type_name(c, debug_type(c, &type)) : "of unknown type",
			where_it_is(v));
	return 0;
}

static void show_vars(struct unit *u, u64 addr)
{
	struct dpcc *c = &u->c;
	struct dp_symbol sym = {.name = ""};
	const char *file;
	u32 line;

	dp_module_symbol_at(c->mod, addr, &sym);
	buf_put(c, &c->all, "%s+0x%llx", sym.name, (unsigned long long)(addr - sym.addr));
	if (dp_module_line_at(c->mod, addr, &file, &line))
		buf_put(c, &c->all, " (%s:%u)", strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
			line);
	buf_put(c, &c->all, "\n");
	if (dp_var_each(c->mod, addr, show_var, c) < 0)
		dpcc_fail(c, NULL, E_LINE_NODEBUG, "%.150s", dp_module_base(c->mod));
}

static void one_probe(struct unit *u, const struct place_def *d, u64 addr, const char *offset,
		      bool at_return, bool is_return)
{
	struct dpcc *c = &u->c;
	struct dp_symbol sym;
	struct function *handler;

	start_pass(u, addr, is_return);
	if (c->opt->vars_at) {
		show_vars(u, addr);
		return;
	}
	handler = parse_all(u, d);
	if (c->opt->tree) {
		dpcc_tree(c);
		u->nprobes++;
		return;
	}
	if (dp_module_symbol_at(c->mod, addr, &sym) && *sym.name)
		buf_put(c, &c->all, "\n// %s at %s+0x%llx\n", d->location, sym.name,
			(unsigned long long)(addr - sym.addr));
	else
		buf_put(c, &c->all, "\n// %s\n", d->location);
	buf_put(c, &c->all, "offset = %s\n%s", offset, at_return ? "at = return\n" : "");
	if (!strstr(d->options, "minor = "))
		buf_put(c, &c->all, "minor = %u\n", u->nprobes + 1);
	buf_put(c, &c->all, "%s", d->options);
	gen_program(c, handler);
	u->nprobes++;
}

static void probe_at(struct unit *u, const struct place_def *d, u64 addr, bool is_return)
{
	struct tok where = pragma_token(d->line, d->line->text);
	char text[32];
	u64 offset;

	if (!dp_module_addr_to_offset(u->c.mod, addr, &offset))
		dpcc_fail(&u->c, &where, E_SITE_NOTEXT, "0x%llx is in no segment of the module",
			  (unsigned long long)addr);
	dp_format(text, sizeof(text), "0x%llx", (unsigned long long)offset);
	one_probe(u, d, addr, text, false, is_return);
}

/* ---- places ---- */

static void note(struct unit *u, const char *fmt, ...) DP_PRINTF(2, 3);

static void note(struct unit *u, const char *fmt, ...)
{
	va_list ap;

	if (!u->c.opt->notes)
		return;
	va_start(ap, fmt);
	vfprintf(u->c.opt->notes, fmt, ap);
	va_end(ap);
	fputc('\n', u->c.opt->notes);
}

struct matches {
	u64 v[PLACES_MAX];
	u32 n;
};

static int add_match(const struct dp_symbol *sym, void *arg)
{
	struct matches *m = arg;

	if (m->n < PLACES_MAX && !sym->is_ifunc)
		m->v[m->n++] = sym->addr;
	return 0;
}

static void lines_place(struct unit *u, const struct place_def *d, const struct tok *where,
			u32 file_len, u32 line)
{
	const char *file = dpcc_text(&u->c, d->location, file_len);
	u64 addrs[DP_LINE_COPIES_MAX];
	struct dp_error err = {0};
	u32 used;
	int n = dp_module_line(u->c.mod, file, line, addrs, DP_LINE_COPIES_MAX, &used, &err);

	if (n < 0)
		dpcc_refail(&u->c, where, &err);
	if (used != line)
		note(u, "%s has no code: line %u is taken", d->location, used);
	if (n > 1)
		note(u, "%s has %d places", d->location, n);
	for (int i = 0; i < n; i++)
		probe_at(u, d, addrs[i], false);
}

static void returns_place(struct unit *u, const struct place_def *d, const struct tok *where,
			  const char *name)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	u64 exits[PLACES_MAX];
	int n;

	if (dp_module_symbol(u->c.mod, name, &sym, &err))
		dpcc_refail(&u->c, where, &err);
	n = dp_module_exits(u->c.mod, sym.addr, exits, PLACES_MAX, &err);
	if (n < 0)
		dpcc_refail(&u->c, where, &err);
	if (!n)
		dpcc_fail(&u->c, where, E_FUNC_EXITS, "%s never returns", name);
	for (int i = 0; i < n; i++)
		probe_at(u, d, exits[i], true);
}

/* NAME, NAME+N: the function itself and, for the name alone, its inlined copies. */
static void function_place(struct unit *u, const struct place_def *d, const struct tok *where,
			   const char *name, u64 offset)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	u64 copies[PLACES_MAX];
	int n = offset ? 0 : dp_var_copies(u->c.mod, name, copies, PLACES_MAX);

	if (n < 1) {
		if (dp_module_symbol(u->c.mod, name, &sym, &err))
			dpcc_refail(&u->c, where, &err);
		copies[0] = sym.addr + offset;
		n = 1;
	}
	if (n > 1)
		note(u, "%s has %d places, inlined copies among them", name, n);
	for (int i = 0; i < n; i++)
		probe_at(u, d, copies[i], false);
}

static void resolve(struct unit *u, const struct place_def *d)
{
	struct tok where = pragma_token(d->line, d->line->text);
	char *name = dpcc_text(&u->c, d->location, strlen(d->location)), *end, *sign;
	u32 file_len, line;
	u64 offset = 0;

	if (!d->handler)
		dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "a PROBEPOINT_HANDLER for %.60s is missing",
			  d->location);
	if (dp_line_parse(name, &file_len, &line)) {
		lines_place(u, d, &where, file_len, line);
		return;
	}
	end = strchr(name, '%');
	if (end && !strcmp(end, "%return")) {
		*end = '\0';
		returns_place(u, d, &where, name);
		return;
	}
	if (strpbrk(name, "*?[")) {
		struct matches m = {.n = 0};

		dp_module_each_func(u->c.mod, name, add_match, &m);
		if (!m.n)
			dpcc_fail(&u->c, &where, E_SYM_NONE, "no function matches %s", name);
		note(u, "%s matches %u functions", name, m.n);
		for (u32 i = 0; i < m.n; i++)
			probe_at(u, d, m.v[i], false);
		return;
	}
	sign = strrchr(name, '+');
	if (sign && sign != name) {
		offset = strtoull(sign + 1, &end, 0);
		if (!*end && end != sign + 1)
			*sign = '\0';
		else
			offset = 0;
	}
	if (*name >= '0' && *name <= '9') { /* an offset in the file */
		offset = strtoull(name, &end, 0);
		if (*end || !dp_module_offset_to_addr(u->c.mod, offset, &offset))
			dpcc_fail(&u->c, &where, E_DPCC_PRAGMA, "%s is no place in the module",
				  name);
		probe_at(u, d, offset, false);
		return;
	}
	function_place(u, d, &where, name, offset);
}

/* ---- the file ---- */

static char *read_all(struct dpcc *c, const char *path)
{
	bool is_stdin = !strcmp(path, "-");
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	char *text = dpcc_alloc(c, FILE_MAX_BYTES + 1);
	size_t n;

	if (!f)
		dpcc_fail(c, NULL, E_RPN_FILE, "%.150s: %s", path, strerror(errno));
	n = fread(text, 1, FILE_MAX_BYTES + 1, f);
	if (!is_stdin)
		fclose(f);
	if (n > FILE_MAX_BYTES || memchr(text, '\0', n))
		dpcc_fail(c, NULL, E_RPN_FILE, "%.150s: too large, or not a text", path);
	return text;
}

static void preprocess(struct unit *u, const char *path)
{
	struct dpcc *c = &u->c;
	struct rpn_pre_options opt = {true, true, c->opt->ignore_errors, c->opt->dirs,
				      c->opt->ndirs};
	char *text = read_all(c, path), *dir = dpcc_text(c, path, strlen(path)),
	     *slash = strrchr(dir, '/');
	struct tok *user, *all;
	u32 nuser;

	if (slash)
		*slash = '\0';
	if (rpn_preprocess_with(&c->src, text, strcmp(path, "-") ? path : "standard input",
				slash ? dir : ".", c->opt->defines, c->opt->ndefines, &opt,
				c->err) ||
	    rpn_preprocess(&c->prelude, prelude, "prelude", ".", NULL, 0, c->err))
		longjmp(c->out, 1);
	dpcc_lex(c, &c->src);
	user = c->toks;
	nuser = c->ntoks;
	dpcc_lex(c, &c->prelude);
	all = dpcc_alloc(c, (c->ntoks + nuser) * sizeof(*all));
	memcpy(all, c->toks, (c->ntoks - 1) * sizeof(*all));
	memcpy(all + c->ntoks - 1, user, nuser * sizeof(*all));
	c->prelude_end = c->ntoks - 1;
	c->toks = all;
	c->ntoks += nuser - 1;
}

static void header(struct unit *u, struct buf *out)
{
	static const char *const types[] = {"user", "kernel", "kmod"};
	struct dpcc *c = &u->c;
	const char *id = dp_module_build_id(c->mod);

	buf_put(c, out, "name = \"%s\"\nmodtype = %s\n", u->modname, types[u->modtype]);
	if (*id)
		buf_put(c, out, "build_id = %s\n", id);
	buf_put(c, out, "major = %llu\njmpmax = %llu\nlogmax = %llu\nex_logmax = 1024\n",
		(unsigned long long)u->major, (unsigned long long)u->jmpmax,
		c->aggregates && !c->logs ? 0ull : (unsigned long long)u->logmax);
	if (c->nlocals)
		buf_put(c, out, "vars = %u\n", c->nlocals);
	if (c->nglobals)
		buf_put(c, out, "gvars = %u\n", c->nglobals);
	for (const struct var *s = c->statics; s; s = s->next)
		if (s->init)
			buf_put(c, out, "init = %d %lld\n", s->slot, (long long)s->init->value);
	for (const struct aggregate *a = c->aggregates; a; a = a->next) {
		buf_put(c, out, "aggregate = \"%s\" %s %u", a->a.name,
			dp_rpn_aggregate_kind(a->a.kind), a->a.index);
		if (a->a.kind == DP_AGG_LINEAR)
			buf_put(c, out, " %u", a->a.step);
		if (a->a.nparts)
			buf_put(c, out, " by");
		for (u32 i = 0; i < a->a.nparts; i++)
			buf_put(c, out, " %s", dp_rpn_key_kind(a->a.parts[i]));
		if (a->a.nparts)
			buf_put(c, out, " %u", a->a.keys);
		buf_put(c, out, "\n");
	}
	if (c->decls.n)
		buf_add(c, out, c->decls.s, c->decls.n);
}

static void compile(struct unit *u, const char *path)
{
	struct dpcc *c = &u->c;
	struct buf out = {0};
	struct dp_error err = {0};
	const char *file;

	if (c->opt->vars_at) {
		static const struct rpn_line none = {(char *)"", "PLACE", 1};

		u->modname = path;
		add_place(u, c->opt->vars_at, &none);
		u->places->handler = "";
	} else {
		preprocess(u, path);
		pragmas(u);
	}
	if (!u->modname)
		dpcc_fail(c, NULL, E_DPCC_PRAGMA, "%.100s: #pragma MODNAME(\"PATH\") is missing",
			  path);
	if (!u->places)
		dpcc_fail(c, NULL, E_DPCC_PRAGMA,
			  "%.100s: #pragma PROBEPOINT_LOCATION(\"PLACE\") is missing", path);
	file = c->opt->module ? c->opt->module : u->modname;
	if (dp_module_open(&c->mod, file, &err))
		dpcc_refail(c, NULL, &err);
	for (const struct place_def *d = u->places; d; d = d->next)
		resolve(u, d);
	if (c->opt->tree || c->opt->vars_at) {
		buf_add(c, &out, c->all.s ? c->all.s : "", c->all.n);
	} else {
		header(u, &out);
		buf_add(c, &out, c->all.s, c->all.n);
	}
	c->res->text = strdup(out.s);
	if (!c->res->text)
		dpcc_fail(c, NULL, E_RPN_MEMORY, "the compiler");
}

int dpcc_compile(const char *path, const struct dpcc_options *opt, struct dpcc_result *res,
		 struct dp_error *err)
{
	struct dp_error own = {0};
	struct unit *u = calloc(1, sizeof(*u));
	struct chunk {
		struct chunk *next;
	} * chunk, *after;

	memset(res, 0, sizeof(*res));
	if (!u)
		return dp_fail(err, E_RPN_MEMORY, "the compiler");
	u->c.opt = opt;
	u->c.res = res;
	u->c.err = err ? err : &own;
	u->c.err->code = DP_OK;
	u->options = "";
	u->major = 1;
	u->jmpmax = 10000;
	u->logmax = 1024;
	if (!setjmp(u->c.out))
		compile(u, path);
	rpn_source_free(&u->c.src);
	rpn_source_free(&u->c.prelude);
	dp_module_close(u->c.mod);
	for (chunk = (struct chunk *)u->c.chunks; chunk; chunk = after) {
		after = chunk->next;
		free(chunk);
	}
	own.code = u->c.err->code;
	free(u);
	return own.code ? -dp_error_info(own.code)->number : 0;
}
