/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A function may be there several times: under its name, as what the compiler has made of it for some callers, and
 * inlined into others. Whoever asks for its calls means all of these.
 */
#include <ctype.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/copies.h"
#include "symbols/kept.h"
#include "symbols/module-priv.h"

static bool add(struct dp_func_copies *c, u64 addr, u32 *count)
{
	u32 n = c->functions + c->inlined;

	for (u32 i = 0; i < n; i++)
		if (c->at[i] == addr)
			return true;
	if (n == c->room) {
		u32 room = DP_MAX(2 * c->room, 16u);
		u64 *at = realloc(c->at, room * sizeof(*at));

		if (!at)
			return false;
		c->at = at;
		c->room = room;
	}
	c->at[n] = addr;
	++*count;
	return true;
}

/* ---- clones ---- */

/* A name without .constprop.N, .isra.N and .part.N behind it: the length. */
static size_t stem_len(const char *s)
{
	static const char *const suffixes[] = {".constprop", ".isra", ".part"};
	size_t n = strlen(s), end, i, len;

	for (;; n = end - len) {
		for (end = n; end && isdigit((unsigned char)s[end - 1]);)
			end--;
		if (end == n || !end || s[--end] != '.')
			return n;
		for (i = 0; i < DP_ARRAY_SIZE(suffixes); i++) {
			len = strlen(suffixes[i]);
			if (end > len && !memcmp(s + end - len, suffixes[i], len))
				break;
		}
		if (i == DP_ARRAY_SIZE(suffixes))
			return n;
	}
}

bool dp_symbol_is_clone(const struct dp_symbol *sym)
{
	return stem_len(sym->name) != strlen(sym->name);
}

static bool is_function(const struct mod_sym *s)
{
	return s->flags & SYM_FUNC && !(s->flags & (SYM_PLT | SYM_SPLIT));
}

/* What a function of that stem is in the module; parts: the rests of functions whose beginning is inlined. */
static bool add_clones(const struct dp_module *m, const char *of, size_t stem, bool parts, struct dp_func_copies *c)
{
	for (size_t i = 0; i < m->syms.n; i++) {
		const char *s = m->syms.v[i].name;

		if (!is_function(&m->syms.v[i]) || strncmp(s, of, stem) != 0 || s[stem] != '.')
			continue;
		if (stem_len(s) == stem && !strstr(s + stem, ".part.") == !parts &&
		    !add(c, m->syms.v[i].addr, &c->functions))
			return false;
	}
	return true;
}

/* Of several places that have the name: the stem that all of them have; NULL: they are different functions. */
static const char *common_stem(struct dp_module *m, const char *name, size_t *stem)
{
	const char *of = NULL;
	size_t n = strlen(name);

	for (size_t i = 0; i < m->syms.n; i++) {
		const char *s = m->syms.v[i].name, *d;

		if (!is_function(&m->syms.v[i]))
			continue;
		d = dp_mod_sym_demangled(m, i);
		if (!(d && dp_mod_demangled_agrees(d, name)) &&
		    !(!strncmp(s, name, n) && s[n] == '.' && dp_mod_is_suffix_of_compiler(s + n)))
			continue;
		if (of && (stem_len(s) != *stem || strncmp(s, of, *stem) != 0))
			return NULL;
		of = s;
		*stem = stem_len(s);
	}
	return of;
}

static int out_of_memory(struct dp_error *err)
{
	return dp_fail(err, E_ARM_NOMEM, "places of a function");
}

static int find_functions(struct dp_module *m, const char *name, struct dp_func_copies *c, struct dp_error *err)
{
	int r = dp_module_symbol(m, name, &c->sym, err);
	bool found = !r, few, whole;
	const char *of;
	size_t stem;

	if (found && !add(c, c->sym.addr, &c->functions))
		return out_of_memory(err);
	if ((r && err->code != E_SYM_AMBIGUOUS) || (found && (!c->sym.is_func || c->sym.is_ifunc)))
		return r;
	if (strchr(name, '@') || stem_len(name) != strlen(name)) /* that very one */
		return r;
	/* Where the name itself is found, its clones are beside it; else all symbols are known by now. */
	few = found && !m->syms_loaded && dp_mod_seek(m, name) == MOD_SOUGHT_FOUND;
	if (!few && dp_mod_load_syms(m, err))
		return out_of_memory(err);
	of = found ? c->sym.name : common_stem(m, name, &stem);
	if (!of)
		return r;
	if (found)
		stem = stem_len(of);
	whole = add_clones(m, of, stem, false, c) && (c->functions || add_clones(m, of, stem, true, c));
	if (few)
		m->syms.n = 0;
	if (!whole)
		return out_of_memory(err);
	if (!found && c->functions)
		dp_module_symbol_at(m, c->at[0], &c->sym);
	return c->functions ? 0 : r;
}

/* ---- inlined copies ---- */

struct named {
	const char *name, *last; /* as the user wrote it; its last part, behind "::" */
	struct dp_func_copies *copies;
	struct mod_addrs inlined; /* all names of functions that are (dp_mod_note_inlined) */
	bool failed;
};

static int add_copy(Dwarf_Die *instance, void *arg)
{
	struct named *want = arg;
	Dwarf_Addr low;

	if (!dwarf_entrypc(instance, &low) && low && !add(want->copies, low, &want->copies->inlined))
		want->failed = true;
	return want->failed ? DWARF_CB_ABORT : DWARF_CB_OK;
}

const char *dp_mod_last_part(const char *name)
{
	const char *last = name;
	int depth = 0;

	for (const char *p = name; *p; p++) {
		depth += (*p == '<') - (*p == '>');
		if (!depth && p[0] == ':' && p[1] == ':')
			last = p + 2;
	}
	return last;
}

/* A name with "::" is compared with what the linker's name means. */
static bool is_named(Dwarf_Die *func, const struct named *want)
{
	const char *name = dwarf_diename(func);
	Dwarf_Attribute attr;
	bool same;
	char *d;

	if (!name || strcmp(name, want->last))
		return false;
	if (want->last == want->name)
		return true;
	if (!dwarf_attr_integrate(func, DW_AT_linkage_name, &attr) || !dwarf_formstring(&attr))
		return false;
	d = dp_mod_demangle(dwarf_formstring(&attr));
	same = d && dp_mod_demangled_agrees(d, want->name);
	free(d);
	return same;
}

static void add_copies_of(Dwarf_Die *func, struct named *want)
{
	const char *name = dwarf_func_inline(func) ? dwarf_diename(func) : NULL;

	if (!name)
		return;
	want->failed |= !dp_mod_note_inlined(&want->inlined, name);
	if (is_named(func, want))
		dwarf_func_inline_instances(func, add_copy, want);
}

/* dwarf_getfuncs() looks inside of functions, too, which takes most of its time. */
static void inlined_below(Dwarf_Die *die, u32 depth, struct named *want)
{
	Dwarf_Die d;

	if (depth > 32 || dwarf_child(die, &d))
		return;
	do {
		switch (dwarf_tag(&d)) {
		case DW_TAG_subprogram:
			add_copies_of(&d, want);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			inlined_below(&d, depth + 1, want);
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&d, &d));
}

static bool find_inlined(struct dp_module *m, const char *name, struct dp_func_copies *c)
{
	struct named want = {name, dp_mod_last_part(name), c, {NULL}, false};
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	if (dp_mod_is_never_inlined(m, want.last))
		return true;
	while (dp_mod_next_unit(m, &cu, &unit))
		inlined_below(&unit, 0, &want);
	if (!want.failed)
		dp_mod_keep_inlined(m, &want.inlined);
	free(want.inlined.v);
	return !want.failed;
}

int dp_module_copies(struct dp_module *m, const char *name, bool inlined, struct dp_func_copies *c,
		     struct dp_error *err)
{
	struct dp_error none = {0};
	int r;

	memset(c, 0, sizeof(*c));
	r = find_functions(m, name, c, &none);
	if ((!r || none.code == E_SYM_NONE) && inlined && !find_inlined(m, name, c))
		r = out_of_memory(&none);
	if (r && none.code == E_SYM_NONE && c->inlined) {
		dp_module_symbol_at(m, c->at[0], &c->sym);
		return 0;
	}
	if (r)
		dp_func_copies_free(c);
	if (r && err)
		*err = none;
	return r;
}

static void append(char *buf, size_t size, u32 n, const char *one, const char *several)
{
	size_t used = strlen(buf);
	bool first = used && buf[used - 1] == ' ';

	if (n)
		dp_format(buf + used, size - used, "%s%u %s", first ? "" : ", ", n, n == 1 ? one : several);
}

bool dp_func_copies_text(const struct dp_func_copies *c, const char *name, char *buf, size_t size)
{
	bool itself = c->functions && (!dp_symbol_is_clone(&c->sym) || !strcmp(c->sym.name, name));
	u32 n = c->functions + c->inlined;

	*buf = '\0';
	if (n == 1 && itself)
		return false;
	if (n == 1 && c->functions) {
		dp_format(buf, size, "is %.150s here", c->sym.name);
		return true;
	}
	dp_format(buf, size, "has %u place%s: %s", n, n == 1 ? "" : "s", itself ? "itself" : "");
	append(buf, size, c->functions - itself, "clone", "clones");
	append(buf, size, c->inlined, "inlined copy", "inlined copies");
	return true;
}

void dp_func_copies_free(struct dp_func_copies *c)
{
	free(c->at);
	memset(c, 0, sizeof(*c));
}
