/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From names to addresses and back. A name that is not found comes back with its neighbours; one
 * that means several things is never decided by chance.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

static size_t plain_len(const char *name)
{
	return strcspn(name, "@");
}

/* "NAME", "NAME@VERSION" and "NAME@@VERSION" against a symbol whose part before '@' already agrees.
 */
static bool version_agrees(const struct dp_module *m, const struct mod_sym *s, const char *wanted)
{
	const char *w = strchr(wanted, '@');
	const char *have = strchr(s->name, '@');

	if (!w)
		return !(s->flags & SYM_PLT);
	if (have) {
		have += strspn(have, "@");
	} else if (s->version >= 2 && s->version < m->syms.nversions) {
		have = m->syms.versions[s->version];
	}
	return have && !strcmp(have, w + strspn(w, "@"));
}

/* How good a match is; smaller is better. */
static unsigned int match_class(const struct mod_sym *s)
{
	unsigned int c = s->flags & SYM_LOCAL ? 4 : s->flags & SYM_EXPORTED ? 0 : 1;

	if (s->flags & SYM_OLD)
		c = 3;
	if (s->flags & SYM_SPLIT)
		c = 5;
	if (!(s->flags & (SYM_FUNC | SYM_IFUNC)))
		c += 8;
	return c;
}

struct matches {
	const struct mod_sym *best;
	unsigned int cls;
	unsigned int places; /* different addresses in the best class */
	char where[120];
};

static void consider(struct matches *f, const struct mod_sym *s)
{
	unsigned int c = match_class(s);
	size_t used;

	if (f->best && c > f->cls)
		return;
	if (!f->best || c < f->cls) {
		f->best = s;
		f->cls = c;
		f->places = 1;
		dp_format(f->where, sizeof(f->where), "0x%llx", (unsigned long long)s->addr);
		return;
	}
	if (s->addr == f->best->addr)
		return;
	f->places++;
	used = strlen(f->where);
	if (used + 24 < sizeof(f->where))
		dp_format(f->where + used, sizeof(f->where) - used, ", 0x%llx", (unsigned long long)s->addr);
}

static void find_exact(const struct dp_module *m, const char *name, struct matches *f)
{
	size_t len = plain_len(name);

	for (u32 i = m->syms.first[dp_mod_name_slot(&m->syms, name)]; i; i = m->syms.next[i - 1]) {
		const struct mod_sym *s = &m->syms.v[i - 1];

		if (!strncmp(s->name, name, len) && plain_len(s->name) == len && version_agrees(m, s, name))
			consider(f, s);
	}
}

/*
 * .lto_priv.N (link-time optimisation keeps files' own functions apart), .constprop.N, .isra.N, .part.N, and several of
 * them.
 */
bool dp_mod_is_suffix_of_compiler(const char *s)
{
	static const char *const suffixes[] = {".lto_priv.", ".constprop.", ".isra.", ".part."};

	while (*s) {
		size_t i = 0, n;

		while (i < DP_ARRAY_SIZE(suffixes) && strncmp(s, suffixes[i], strlen(suffixes[i])) != 0)
			i++;
		if (i == DP_ARRAY_SIZE(suffixes))
			return false;
		s += strlen(suffixes[i]);
		n = strspn(s, "0123456789");
		if (!n)
			return false;
		s += n;
	}
	return true;
}

/* What the compiler has renamed, or made of a function for some callers, where nothing has the name itself. */
static void find_renamed(const struct dp_module *m, const char *name, struct matches *f)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < m->syms.n; i++) {
		const char *s = m->syms.v[i].name;

		if (!strncmp(s, name, n) && s[n] == '.' && dp_mod_is_suffix_of_compiler(s + n))
			consider(f, &m->syms.v[i]);
	}
}

const char *dp_mod_sym_demangled(struct dp_module *m, size_t i)
{
	struct mod_syms *s = &m->syms;

	if (strncmp(s->v[i].name, "_Z", 2) || s->v[i].flags & SYM_PLT)
		return NULL;
	if (!s->demangled)
		s->demangled = calloc(s->n, sizeof(char *));
	if (!s->demangled)
		return NULL;
	if (!s->demangled[i])
		s->demangled[i] = dp_mod_demangle(s->v[i].name);
	return s->demangled[i];
}

static void find_demangled(struct dp_module *m, const char *name, struct matches *f)
{
	bool plain = dp_mod_is_identifier(name);

	for (size_t i = 0; i < m->syms.n; i++) {
		const char *d = plain && !strstr(m->syms.v[i].name, name) ? NULL : dp_mod_sym_demangled(m, i);

		if (d && dp_mod_demangled_agrees(d, name))
			consider(f, &m->syms.v[i]);
	}
}

#define LAST_PARTS 3 /* so many are named */

/* Behind the namespaces, classes or package of a function's name as people write it. */
static bool has_last_part(const char *full, size_t n, const char *part)
{
	size_t len = strlen(part);

	return n > len && !memcmp(full + n - len, part, len) && (full[n - len - 1] == '.' || full[n - len - 1] == ':');
}

struct last_part {
	const char *full;
	size_t n;
};

/* In the order of their lengths: what is nested less is meant more often. Each name once. */
static u32 keep_short(struct last_part *v, u32 kept, const char *full, size_t n)
{
	u32 at = 0;

	while (at < kept && v[at].n <= n) {
		if (v[at].n == n && !memcmp(v[at].full, full, n))
			return kept;
		at++;
	}
	if (at == LAST_PARTS)
		return kept;
	kept = DP_MIN(kept + 1, (u32)LAST_PARTS);
	memmove(&v[at + 1], &v[at], (kept - at - 1) * sizeof(*v));
	v[at] = (struct last_part){full, n};
	return kept;
}

/* The functions whose name ends in it, as one can type them. */
static void last_parts(struct dp_module *m, const char *name, char *text, size_t size)
{
	struct last_part v[LAST_PARTS];
	u32 kept = 0;

	*text = '\0';
	if (strpbrk(name, ".:(*?[ "))
		return;
	for (size_t i = 0; i < m->syms.n; i++) {
		const struct mod_sym *s = &m->syms.v[i];
		const char *d = s->flags & SYM_FUNC ? dp_mod_sym_demangled(m, i) : NULL, *full = d ? d : s->name;
		size_t n = d ? dp_mod_without_params(d) : plain_len(full);

		if (s->flags & SYM_FUNC && !(s->flags & SYM_PLT) && has_last_part(full, n, name))
			kept = keep_short(v, kept, full, n);
	}
	for (u32 i = 0; i < kept && strlen(text) + v[i].n + 8 < size; i++)
		dp_format(text + strlen(text), size - strlen(text), "%s%.*s", i ? " or " : "", (int)v[i].n, v[i].full);
}

static int none(struct dp_module *m, const char *name, struct dp_error *err)
{
	struct dp_near near = {0};
	char text[sizeof(err->hint) - 16];
	int rc = dp_fail(err, E_SYM_NONE, "%s in %s%s", name, m->base, m->has_symtab ? "" : " (which is stripped)");

	if (err)
		last_parts(m, name, text, sizeof(text));
	if (err && *text) {
		dp_error_hint(err, "did you mean %s?", text);
		return rc;
	}
	for (size_t i = 0; err && i < m->syms.n; i++)
		if (m->syms.v[i].flags & (SYM_FUNC | SYM_IFUNC) && !(m->syms.v[i].flags & SYM_PLT))
			dp_near_try(&near, name, m->syms.v[i].name);
	dp_near_text(&near, text, sizeof(text));
	if (*text)
		dp_error_hint(err, "did you mean %s?", text);
	else if (!m->has_symtab && m->debug_why[0])
		dp_error_hint(err, "give it its debug symbols: %s", m->debug_why);
	return rc;
}

/* In the symbols of the name, where all others are not known. */
static enum mod_sought seek(struct dp_module *m, const char *name, struct matches *f)
{
	enum mod_sought sought = m->syms_loaded ? MOD_SOUGHT_UNKNOWN : dp_mod_seek(m, name);

	for (size_t i = 0; sought == MOD_SOUGHT_FOUND && i < m->syms.n; i++)
		if (plain_len(m->syms.v[i].name) == strlen(name) && version_agrees(m, &m->syms.v[i], name))
			consider(f, &m->syms.v[i]);
	if (!m->syms_loaded)
		m->syms.n = 0; /* those found stay where they are */
	return sought;
}

int dp_module_symbol(struct dp_module *m, const char *name, struct dp_symbol *out, struct dp_error *err)
{
	struct matches f = {0};
	const struct mod_range *r;
	bool renamed;
	int rc;

	if (seek(m, name, &f) == MOD_SOUGHT_NOTHING && !err)
		return -dp_error_info(E_SYM_NONE)->number;
	rc = f.best ? 0 : dp_mod_load_syms(m, err);
	if (rc)
		return rc;
	if (!f.best && !dp_mod_index_names(&m->syms))
		return dp_fail(err, E_FILE_MEMORY, "%s", m->path);
	if (!f.best)
		find_exact(m, name, &f);
	if (!f.best)
		find_demangled(m, name, &f);
	renamed = !f.best;
	if (!f.best)
		find_renamed(m, name, &f);
	if (!f.best)
		return none(m, name, err);
	if (f.places > 1) {
		rc = dp_fail(err, E_SYM_AMBIGUOUS, "%s means %u places in %s", name, f.places, m->base);
		if (renamed) /* clones of one function */
			dp_error_hint(err, "`%.100s.*` means all of them; or give an address: %s%s", name, f.where,
				      f.places > 6 ? ", ..." : "");
		else
			dp_error_hint(err, "give an address: %s%s", f.where, f.places > 6 ? ", ..." : "");
		return rc;
	}
	dp_mod_sym_public(f.best, out);
	if (!out->size && out->is_func && !dp_mod_load_funcs(m, NULL)) { /* whose symbols may take the place of best */
		r = dp_mod_func_at(m, out->addr);
		out->size = r ? r->hi - out->addr : 0;
	}
	return 0;
}

/* The best symbol of the given kind that covers addr; nested ones are rare, so a short walk back is
 * enough. */
static const struct mod_sym *covering(const struct dp_module *m, u64 addr, u32 kind)
{
	size_t i = dp_mod_sym_after(m, addr);
	const struct mod_sym *found = NULL;

	for (unsigned int steps = 0; i-- > 0 && steps < 64; steps++) {
		const struct mod_sym *s = &m->syms.v[i];

		if (found && s->addr != found->addr)
			break;
		if (s->flags & kind && (addr == s->addr || addr - s->addr < s->size))
			found = s; /* the best one comes first of its address, so last in this walk */
	}
	return found;
}

bool dp_module_symbol_at(struct dp_module *m, u64 addr, struct dp_symbol *out)
{
	const struct mod_range *r;
	const struct mod_sym *s;

	if (dp_mod_load_syms(m, NULL) || dp_mod_load_funcs(m, NULL))
		return false;
	r = dp_mod_func_at(m, addr);
	if (r && r->sym != NO_SYM) {
		dp_mod_sym_public(&m->syms.v[r->sym], out);
		if (!out->size)
			out->size = r->hi - r->lo;
		return true;
	}
	s = covering(m, addr, r ? SYM_FUNC | SYM_IFUNC : SYM_DATA | SYM_FUNC | SYM_IFUNC | SYM_LABEL);
	if (s) {
		dp_mod_sym_public(s, out);
		return true;
	}
	if (!r)
		return false;
	*out = (struct dp_symbol){"", r->lo, r->hi - r->lo, .is_func = true};
	return true;
}

static bool pattern_matches(struct dp_module *m, size_t i, const char *pattern)
{
	const char *name = m->syms.v[i].name;
	size_t len = plain_len(name);
	const char *d;
	char buf[512];

	if (!strcmp(pattern, "*"))
		return true;
	if (!name[len] || m->syms.v[i].flags & SYM_PLT || len >= sizeof(buf)) {
		if (!fnmatch(pattern, name, 0))
			return true;
	} else {
		memcpy(buf, name, len);
		buf[len] = '\0';
		if (!fnmatch(pattern, buf, 0))
			return true;
	}
	if (!strchr(pattern, ':') && !strchr(pattern, '('))
		return false;
	d = dp_mod_sym_demangled(m, i);
	if (!d)
		return false;
	if (!fnmatch(pattern, d, 0))
		return true;
	len = dp_mod_without_params(d);
	if (len >= sizeof(buf))
		return false;
	memcpy(buf, d, len);
	buf[len] = '\0';
	return !fnmatch(pattern, buf, 0);
}

/* The name under which a function is reported: the best one that matches. */
static bool name_for(struct dp_module *m, const struct mod_range *r, const char *pattern, struct dp_symbol *out)
{
	if (r->sym == NO_SYM) {
		*out = (struct dp_symbol){"", r->lo, r->hi - r->lo, .is_func = true};
		return !pattern;
	}
	for (size_t i = r->sym; i < m->syms.n && m->syms.v[i].addr == r->lo; i++) {
		if (!(m->syms.v[i].flags & (SYM_FUNC | SYM_IFUNC)))
			continue;
		if (pattern && !pattern_matches(m, i, pattern))
			continue;
		dp_mod_sym_public(&m->syms.v[i], out);
		if (!out->size)
			out->size = r->hi - r->lo;
		return true;
	}
	return false;
}

int dp_module_each_func(struct dp_module *m, const char *pattern, int (*fn)(const struct dp_symbol *sym, void *arg),
			void *arg)
{
	bool parts = pattern && strstr(pattern, ".cold");
	bool stubs = pattern && strstr(pattern, "@plt");
	struct dp_symbol sym;
	int rc;

	/* All functions includes those without names: the analysis tells which of these are none.
	 */
	if (dp_mod_load_syms(m, NULL) || dp_mod_load_funcs(m, NULL) || (!pattern && dp_module_analyse(m, NULL)))
		return 0;
	for (size_t i = 0; i < m->funcs.n; i++) {
		const struct mod_range *r = &m->funcs.v[i];

		if (r->flags & DP_FUNC_PART && !parts)
			continue;
		if (r->sym != NO_SYM && m->syms.v[r->sym].flags & SYM_PLT && !stubs)
			continue;
		if (!name_for(m, r, pattern, &sym))
			continue;
		rc = fn(&sym, arg);
		if (rc)
			return rc;
	}
	return 0;
}
