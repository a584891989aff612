/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whole files: pragmas say which handler runs where; place.c makes probe definitions of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lang/dpcc/dpcc-unit.h"
#include "symbols/sym-lines.h"

#define FILE_MAX_BYTES (1u << 20)

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

bool dp_cc_is_source(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".dpc");
}

/* ---- pragmas ---- */

/* NAME(value) or NAME value: the value without quotes. */
static const char *pragma_value(struct unit *u, const struct rpn_line *line, const char **p)
{
	struct tok where = dp_cc_pragma_token(line, *p);
	struct rpn_token t = dp_rpn_token(*p);
	bool paren = dp_rpn_is(&t, "(");
	const char *value;
	size_t n;

	if (paren)
		t = dp_rpn_token(t.at + 1);
	if (t.kind == RPN_TEXT && !t.bad) {
		char *buf = dp_cc_alloc(&u->c, t.len + 1);

		dp_rpn_text(&t, buf, t.len);
		value = buf;
		n = t.len;
	} else {
		n = strcspn(t.at, paren ? ")" : " \t");
		value = dp_cc_text(&u->c, t.at, n);
	}
	*p = t.at + n;
	t = dp_rpn_token(*p);
	if (!*value || (paren && !dp_rpn_is(&t, ")")))
		dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "write NAME(value)");
	if (paren)
		*p = t.at + 1;
	return value;
}

static u64 pragma_number(struct unit *u, const struct rpn_line *line, const char **p, u64 max)
{
	struct tok where = dp_cc_pragma_token(line, *p);
	const char *value = pragma_value(u, line, p);
	char *end;
	u64 v = strtoull(value, &end, 0);

	if (*end || v > max)
		dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "a number of at most %llu is needed here",
			   (unsigned long long)max);
	return v;
}

static void add_place(struct unit *u, const char *location, const struct rpn_line *line)
{
	struct place_def *d = dp_cc_alloc(&u->c, sizeof(*d)), **last = &u->places;

	while (*last)
		last = &(*last)->next;
	*d = (struct place_def){.location = location, .line = line, .options = u->options};
	*last = d;
	u->options = "";
}

static void set_modtype(struct unit *u, const struct rpn_line *line, const char **p)
{
	static const char *const names[] = {"user", "kernel", "kmod"};
	struct tok where = dp_cc_pragma_token(line, *p);
	const char *value = pragma_value(u, line, p);

	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (!strcmp(value, names[i])) {
			u->modtype = (enum dp_rpn_modtype)i;
			return;
		}
	dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "MODTYPE must be user, kernel or kmod");
}

static const char *const probe_options[][2] = {
    {"PASSCOUNT", "ignore"}, {"IGNORE", "ignore"}, {"MAXHITS", "maxhits"}, {"MINOR", "minor"},
    {"GROUP", "group"},      {"TYPE", "type"},     {"EX_MASK", "ex_mask"}, {"OPCODE", "opcode"},
};

static void one_pragma(struct unit *u, const struct rpn_line *line, const char **p)
{
	struct rpn_token t = dp_rpn_token(*p);
	struct tok where = dp_cc_pragma_token(line, t.at);

	*p = t.at + t.len;
	if (dp_rpn_is(&t, "MODNAME")) {
		u->modname = pragma_value(u, line, p);
		if (strlen(u->modname) >= DP_RPN_NAME_MAX)
			dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "the name of a module can have at most %d characters",
				   DP_RPN_NAME_MAX - 1);
	} else if (dp_rpn_is(&t, "MODTYPE")) {
		set_modtype(u, line, p);
	} else if (dp_rpn_is(&t, "PROBEPOINT_LOCATION")) {
		add_place(u, pragma_value(u, line, p), line);
	} else if (dp_rpn_is(&t, "PROBEPOINT_HANDLER")) {
		const char *handler = pragma_value(u, line, p);
		bool any = false;

		for (struct place_def *d = u->places; d; d = d->next)
			if (!d->handler) {
				d->handler = handler;
				any = true;
			}
		if (!any)
			dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "a PROBEPOINT_LOCATION must come before its handler");
	} else if (dp_rpn_is(&t, "MAJOR")) {
		u->major = pragma_number(u, line, p, 65535);
	} else if (dp_rpn_is(&t, "JMPMAX")) {
		u->jmpmax = pragma_number(u, line, p, 65535);
	} else if (dp_rpn_is(&t, "LOGMAX")) {
		u->logmax = pragma_number(u, line, p, 1024);
		u->c.logs = true;
	} else if (dp_rpn_is(&t, "THREADS")) {
		u->c.threads = (u32)pragma_number(u, line, p, DP_LOCALS_MAX);
	} else if (dp_rpn_is(&t, "KEYS")) {
		u->c.keys = (u32)pragma_number(u, line, p, DP_LOCALS_MAX);
	} else {
		for (u32 i = 0; i < DP_ARRAY_SIZE(probe_options); i++)
			if (dp_rpn_is(&t, probe_options[i][0])) {
				u64 v = pragma_number(u, line, p, 0x7fffffff);

				u->options = dp_cc_format(&u->c, "%s%s = %llu\n", u->options, probe_options[i][1],
							  (unsigned long long)v);
				return;
			}
		dp_cc_fail(&u->c, &where, E_DPCC_PRAGMA, "unknown pragma '%.*s'", (int)t.len, t.at);
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
			struct rpn_token t = dp_rpn_token(p);

			if (t.kind == RPN_END)
				break;
			if (*t.at == '#' || dp_rpn_is(&t, "pragma") || dp_rpn_is(&t, ",")) {
				p = t.at + t.len;
				continue;
			}
			one_pragma(u, line, &p);
		}
	}
}

/* ---- the file ---- */

static char *read_all(struct dpcc *c, const char *path)
{
	bool is_stdin = !strcmp(path, "-");
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	char *text = dp_cc_alloc(c, FILE_MAX_BYTES + 1);
	size_t n;

	if (!f)
		dp_cc_fail(c, NULL, E_RPN_FILE, "%.150s: %s", path, strerror(errno));
	n = fread(text, 1, FILE_MAX_BYTES + 1, f);
	if (!is_stdin)
		fclose(f);
	if (n > FILE_MAX_BYTES || memchr(text, '\0', n))
		dp_cc_fail(c, NULL, E_RPN_FILE, "%.150s: too large, or not a text", path);
	return text;
}

static void preprocess(struct unit *u, const char *path)
{
	struct dpcc *c = &u->c;
	struct rpn_pre_options opt = {true, true, c->opt->ignore_errors, c->opt->dirs, c->opt->ndirs};
	const char *text = c->opt->text ? c->opt->text : read_all(c, path);
	char *dir = dp_cc_text(c, path, strlen(path)), *slash = strrchr(dir, '/');
	char *both = dp_cc_alloc(c, sizeof(prelude) + strlen(dp_cc_prelude_float));
	struct tok *user, *all;
	u32 nuser;

	memcpy(both, prelude, sizeof(prelude));
	memcpy(both + sizeof(prelude) - 1, dp_cc_prelude_float, strlen(dp_cc_prelude_float));

	if (slash)
		*slash = '\0';
	if (dp_rpn_preprocess_with(&c->src, text, strcmp(path, "-") ? path : "standard input", slash ? dir : ".",
				   c->opt->defines, c->opt->ndefines, &opt, c->err) ||
	    dp_rpn_preprocess(&c->prelude, both, "prelude", ".", NULL, 0, c->err))
		longjmp(c->out, 1);
	dp_cc_file_lines(c);
	dp_cc_lex(c, &c->src);
	user = c->toks;
	nuser = c->ntoks;
	dp_cc_lex(c, &c->prelude);
	all = dp_cc_alloc(c, (c->ntoks + nuser) * sizeof(*all));
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
	const char *id = c->mod && !c->by_name ? dp_module_identity(c->mod) : "";

	dp_cc_buf_put(c, out, "name = ");
	dp_cc_put_quoted(c, out, u->modname);
	dp_cc_buf_put(c, out, "\nmodtype = %s\n", types[u->modtype]);
	if (*id)
		dp_cc_buf_put(c, out, "build_id = %s\n", id);
	dp_cc_buf_put(c, out, "major = %llu\njmpmax = %llu\nlogmax = %llu\nex_logmax = 1024\n",
		      (unsigned long long)u->major, (unsigned long long)u->jmpmax,
		      c->aggregates && !c->logs ? 0ull : (unsigned long long)u->logmax);
	if (c->nlocals)
		dp_cc_buf_put(c, out, "vars = %u\n", c->nlocals);
	if (c->nglobals)
		dp_cc_buf_put(c, out, "gvars = %u\n", c->nglobals);
	for (const struct var *s = c->statics; s; s = s->next)
		if (s->init)
			dp_cc_buf_put(c, out, "init = %d %lld\n", s->first_word, (long long)s->init->value);
	for (const struct known *k = c->knowns; k; k = k->next) {
		dp_cc_buf_put(c, out, "known = %u %s", k->k.index, dp_rpn_known_name(k->k.what));
		if (k->k.how == DP_KNOWN_KEY)
			dp_cc_buf_put(c, out, " key");
		if (k->k.how >= DP_KNOWN_SAME) {
			dp_cc_buf_put(c, out, k->k.how == DP_KNOWN_SAME ? " == " : " ~ ");
			dp_cc_put_quoted(c, out, k->k.text);
		}
		dp_cc_buf_put(c, out, "\n");
	}
	for (const struct aggregate *a = c->aggregates; a; a = a->next) {
		char text[160];

		dp_rpn_aggregate_text(&a->a, text, sizeof(text));
		dp_cc_buf_put(c, out, "aggregate = \"%s\" %s\n", a->a.name, text);
	}
	if (c->decls.n)
		dp_cc_buf_add(c, out, c->decls.s, c->decls.n);
}

/* Tracepoints can be probed without what BTF knows of their arguments. */
static bool is_traced_only(const struct unit *u)
{
	for (const struct place_def *d = u->places; d; d = d->next)
		if (!dp_cc_unit_is_moment(d) && !dp_cc_unit_is_tracepoint(d))
			return false;
	return true;
}

/* Of a module of the kernel, whose debug file may know what BTF does not. */
static bool is_known_without_btf(struct unit *u)
{
	const char *path = dp_cc_format(&u->c, "/sys/kernel/btf/%s", u->modname);

	return is_traced_only(u) || (!u->c.opt->module && access(path, R_OK) && dp_cc_unit_has_debug(u));
}

/* What tells of the probed code: the module, a debug file of the kernel, or BTF. */
static void open_subject(struct unit *u)
{
	struct dpcc *c = &u->c;
	struct dp_error err = {0};

	c->by_name = u->modtype != DP_RPN_USER;
	if (u->modtype == DP_RPN_KMOD || (u->modtype == DP_RPN_KERNEL && !c->opt->module)) {
		if (u->modtype == DP_RPN_KMOD)
			dp_cc_btf_open(c, u->modname, is_known_without_btf(u));
		else
			dp_cc_btf_open(c, "", is_traced_only(u));
		return;
	}
	if (dp_module_open(&c->mod, c->opt->module ? c->opt->module : u->modname, &err))
		dp_cc_refail(c, NULL, &err);
	dp_cc_unit_tell_much(u, c->mod);
}

static void compile(struct unit *u, const char *path)
{
	struct dpcc *c = &u->c;
	struct buf out = {0};

	if (c->opt->vars_at) {
		static const struct rpn_line none = {(char *)"", "PLACE", 1};

		u->modname = path;
		u->modtype = c->opt->vars_of;
		add_place(u, c->opt->vars_at, &none);
		u->places->handler = "";
	} else {
		preprocess(u, path);
		pragmas(u);
	}
	if (!u->modname)
		dp_cc_fail(c, NULL, E_DPCC_PRAGMA, "%.100s: #pragma MODNAME(\"PATH\") is missing", path);
	if (!u->places)
		dp_cc_fail(c, NULL, E_DPCC_PRAGMA, "%.100s: #pragma PROBEPOINT_LOCATION(\"PLACE\") is missing", path);
	open_subject(u);
	c->idle_lines = dp_cc_unit_idle_lines(u);
	for (const struct place_def *d = u->places; d; d = d->next)
		if (!dp_cc_unit_is_moment(d))
			dp_cc_unit_place(u, d);
	if (!u->nprobes && u->modtype != DP_RPN_USER && !c->opt->vars_at)
		dp_cc_fail(c, NULL, E_DPCC_PRAGMA,
			   "%.100s: bodies of begin, end and timers need a probe beside them in the kernel", path);
	for (const struct place_def *d = u->places; d; d = d->next) /* aggregates of all probes are known */
		if (dp_cc_unit_is_moment(d))
			dp_cc_unit_place(u, d);
	if (c->opt->tree || c->opt->vars_at) {
		dp_cc_buf_add(c, &out, c->all.s ? c->all.s : "", c->all.n);
	} else {
		header(u, &out);
		dp_cc_buf_add(c, &out, c->all.s, c->all.n);
	}
	c->res->text = strdup(out.s);
	if (!c->res->text)
		dp_cc_fail(c, NULL, E_RPN_MEMORY, "the compiler");
}

void dp_cc_result_free(struct dpcc_result *res)
{
	for (u32 i = 0; i < res->ncopies; i++)
		free(res->copies[i].event);
	free(res->copies);
	free(res->text);
	res->copies = NULL;
	res->text = NULL;
	res->ncopies = 0;
}

static int compile_once(const char *path, const struct dpcc_options *opt, bool keeps_tables_small,
			struct dpcc_result *res, struct dp_error *err)
{
	struct unit *u = calloc(1, sizeof(*u));
	struct chunk {
		struct chunk *next;
	} * chunk, *after;

	memset(res, 0, sizeof(*res));
	if (!u)
		return dp_fail(err, E_RPN_MEMORY, "the compiler");
	u->c.opt = opt;
	u->c.parse_assign = dp_cc_parse_assign;
	u->c.keeps_tables_small = keeps_tables_small;
	u->c.res = res;
	u->c.err = err;
	err->code = DP_OK;
	u->options = "";
	u->major = 1;
	u->jmpmax = 10000;
	u->logmax = 1024;
	if (!setjmp(u->c.out))
		compile(u, path);
	dp_rpn_source_free(u->c.owner.lines ? &u->c.owner : &u->c.src);
	dp_rpn_source_free(&u->c.prelude);
	dp_module_close(u->debug ? u->debug : u->c.mod);
	dp_cc_btf_close(&u->c);
	dp_tracepoints_free(&u->c.tracepoints);
	for (chunk = (struct chunk *)u->c.chunks; chunk; chunk = after) {
		after = chunk->next;
		free(chunk);
	}
	if (err->code)
		dp_cc_result_free(res);
	free(u);
	return err->code ? -dp_error_info(err->code)->number : 0;
}

int dp_cc_compile(const char *path, const struct dpcc_options *opt, struct dpcc_result *res, struct dp_error *err)
{
	struct dp_error own = {0};
	int r;

	err = err ? err : &own;
	r = compile_once(path, opt, false, res, err);
	return r && err->code == E_DPCC_LIMIT ? compile_once(path, opt, true, res, err) : r;
}
