/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * For one function of a large program not all symbols are put in order: where functions begin and end is told by
 * symbols without their names, and a name is looked for in the tables as they are in the file. What comes out is what
 * symtab.c and sym-funcs.c say, which are asked where this is not enough.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

#define TABLES 4
#define SOUGHT 12       /* names looked for one by one; then all are put in order */
#define PLACES 64       /* of a name in the tables of names */
#define MADE 0x80000000 /* bare.at: of m->names */

struct table {
	u32 section, names_section;
	u64 offset, names_offset; /* in the file */
	u64 n, names_size;
	bool exported;
	u32 begin; /* number of its first symbol among those of all tables */
};

struct tables {
	struct table v[TABLES];
	u32 n;
};

struct names { /* a part of a table of names */
	u64 lo, hi;
	const u8 *p;
};

struct bare {
	u64 addr, size;
	u32 flags;
	u32 at; /* number among the symbols of all tables */
};

struct bares {
	struct bare *v;
	size_t n, cap;
};

static bool is_plain(const struct dp_module *m, const GElf_Shdr *sh)
{
	return sh->sh_type != SHT_NOBITS && !(sh->sh_flags & SHF_COMPRESSED) && sh->sh_offset <= m->file_size &&
	       sh->sh_size <= m->file_size - sh->sh_offset;
}

/* Symbol tables of the file itself, with one that has all its functions. */
static bool list_tables(struct dp_module *m, struct tables *r)
{
	bool complete = false;
	Elf_Scn *scn = NULL;
	GElf_Shdr sh, names;
	u64 go;

	if (!m->nshdrs || dp_mod_find_go(m, &go))
		return false;
	while ((scn = elf_nextscn(m->elf, scn))) {
		struct table *t = &r->v[r->n];

		if (!gelf_getshdr(scn, &sh) || (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM))
			continue;
		if (r->n == TABLES || !gelf_getshdr(elf_getscn(m->elf, sh.sh_link), &names) ||
		    names.sh_type != SHT_STRTAB || !is_plain(m, &sh) || !is_plain(m, &names) || !names.sh_size ||
		    m->file[names.sh_offset + names.sh_size - 1] || sh.sh_size / sizeof(Elf64_Sym) >= MADE / TABLES)
			return false;
		complete |= sh.sh_type == SHT_SYMTAB;
		*t = (struct table){(u32)elf_ndxscn(scn), sh.sh_link, sh.sh_offset, names.sh_offset};
		t->exported = sh.sh_type == SHT_DYNSYM;
		t->n = sh.sh_size / sizeof(Elf64_Sym);
		t->names_size = names.sh_size;
		t->begin = r->n ? t[-1].begin + (u32)t[-1].n : 0;
		r->n++;
	}
	return complete;
}

static const struct table *table_of(const struct tables *r, u32 at)
{
	u32 i = r->n - 1;

	while (i && at < r->v[i].begin)
		i--;
	return &r->v[i];
}

/* Where the text stands in the names, from the first place at or behind `from`; names_size: nowhere. */
static u64 next_place(struct dp_module *m, const struct table *t, u64 from, const char *text, u64 len, struct names *at)
{
	while (from + len <= t->names_size) {
		u64 i;

		if (from < at->lo || from + len > at->hi) {
			at->lo = from;
			at->hi = DP_MIN(t->names_size, from + MOD_PART);
			at->p = dp_mod_part(m, m->file + t->names_offset + from, at->hi - from);
		}
		i = at->lo + dp_mod_find(at->p, at->hi - at->lo, from - at->lo, text, len);
		if (i < at->hi)
			return i;
		from = at->hi - len + 1;
	}
	return t->names_size;
}

/* As symtab.c adds it. */
static bool add_named(struct dp_module *m, const struct table *t, u32 at)
{
	GElf_Versym version = 0;
	Elf_Scn *scn = NULL;
	GElf_Sym s;
	GElf_Shdr sh;

	memcpy(&s, m->file + t->offset + (at - t->begin) * sizeof(s), sizeof(s));
	while (t->exported && (scn = elf_nextscn(m->elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_GNU_versym &&
		    !gelf_getversym(elf_getdata(scn, NULL), (int)(at - t->begin), &version))
			version = 0;
	return dp_mod_add_symbol(m, &s, elf_strptr(m->elf, t->names_section, s.st_name), t->exported, version);
}

/* ---- functions ---- */

struct splits {
	struct dp_range *v; /* of names: one that begins there is that of a part of a function */
	size_t n, cap;
};

static bool find_splits(struct dp_module *m, const struct table *t, struct splits *s)
{
	const u8 *names = m->file + t->names_offset;
	u64 len = strlen(MOD_SPLIT_NAME);
	struct names at = {0};

	s->n = 0;
	for (u64 i = 0; (i = next_place(m, t, i, MOD_SPLIT_NAME, len, &at)) < t->names_size; i++) {
		const u8 *before = memrchr(at.p, 0, i - at.lo);
		u64 begin = before ? at.lo + (u64)(before + 1 - at.p) : 0;

		if (!before && (before = memrchr(names, 0, at.lo)))
			begin = (u64)(before + 1 - names);
		if (!MOD_PUSH(s, {begin, i}))
			return false;
	}
	return true;
}

static bool is_split(const struct splits *s, u64 name)
{
	size_t k = s->n ? DP_COUNT_BELOW(s->v, s->n, hi, name) : 0;

	return k < s->n && name >= s->v[k].lo;
}

/* What is not in code is no function, and nothing arrives there. The only name that is empty is the first one. */
static bool read_bare(struct dp_module *m, const struct table *t, u32 i, const Elf64_Sym *s,
		      const struct splits *splits, struct bares *out)
{
	u64 size;
	u32 f;

	if (s->st_shndx == SHN_UNDEF || !s->st_name || s->st_name >= t->names_size || !dp_mod_in_code(m, s->st_value))
		return true;
	f = dp_mod_symbol_flags(m, s, t->exported, &size);
	if (f & SYM_FUNC && is_split(splits, s->st_name))
		f |= SYM_SPLIT;
	return !f || MOD_PUSH(out, {s->st_value, size, f, t->begin + i});
}

#define PART_SYMS (MOD_PART / sizeof(Elf64_Sym))

static const Elf64_Sym *part_of(struct dp_module *m, const struct table *t, u64 first, u64 *n)
{
	*n = DP_MIN(t->n - first, (u64)PART_SYMS);
	return (const Elf64_Sym *)dp_mod_part(m, m->file + t->offset + first * sizeof(Elf64_Sym),
					      *n * sizeof(Elf64_Sym));
}

static bool read_bares(struct dp_module *m, const struct table *t, struct splits *splits, struct bares *out)
{
	u64 n;

	if (!find_splits(m, t, splits))
		return false;
	for (u64 first = 0; first < t->n; first += n) {
		const Elf64_Sym *s = part_of(m, t, first, &n);

		for (u64 i = 0; i < n; i++)
			if (!read_bare(m, t, (u32)(first + i), &s[i], splits, out))
				return false;
	}
	return true;
}

/* Stubs have names that were made for them. */
static bool add_stubs(struct dp_module *m, struct bares *out)
{
	bool ok = dp_mod_add_plt(m);

	for (size_t i = 0; ok && i < m->syms.n; i++) {
		const struct mod_sym *s = &m->syms.v[i];

		ok = MOD_PUSH(out, {s->addr, s->size, s->flags, MADE | (u32)(m->nnames - m->syms.n + i)});
	}
	m->syms.n = 0;
	return ok;
}

static bool add_range(struct dp_module *m, u64 addr, u64 size, u32 flags)
{
	return MOD_PUSH(&m->bounds, {addr, size ? addr + size : 0, flags & SYM_SPLIT ? DP_FUNC_PART : 0, 0});
}

/* Symbols at one address that do not agree on what is there: the best name comes first, and each name counts once. */
static bool add_by_name(struct dp_module *m, const struct tables *r, const struct bare *b, size_t n)
{
	bool ok = true;

	m->syms.n = 0;
	for (size_t i = 0; ok && i < n; i++) {
		if (b[i].at & MADE)
			ok = MOD_PUSH(&m->syms, {m->names[b[i].at & ~MADE], b[i].addr, b[i].size, b[i].flags, 0});
		else
			ok = add_named(m, table_of(r, b[i].at), b[i].at);
	}
	ok = ok && dp_mod_order_syms(&m->syms);
	for (size_t i = 0; ok && i < m->syms.n; i++)
		if (m->syms.v[i].flags & (SYM_FUNC | SYM_IFUNC))
			ok = add_range(m, m->syms.v[i].addr, m->syms.v[i].size, m->syms.v[i].flags);
	m->syms.n = 0;
	return ok;
}

/* All symbols of one address. */
static bool add_group(struct dp_module *m, const struct tables *r, const struct bare *b, size_t n)
{
	const struct bare *func = NULL;

	if (!MOD_PUSH(&m->marks, b->addr))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!(b[i].flags & (SYM_FUNC | SYM_IFUNC)))
			continue;
		if (func && (func->size != b[i].size || (func->flags ^ b[i].flags) & SYM_SPLIT))
			return add_by_name(m, r, b, n);
		func = &b[i];
	}
	return !func || add_range(m, func->addr, func->size, func->flags);
}

static bool collect(struct dp_module *m, const struct tables *r)
{
	struct splits splits = {0};
	struct bares b = {0};
	bool ok = true;

	for (u32 i = 0; ok && i < r->n; i++)
		ok = read_bares(m, &r->v[i], &splits, &b);
	ok = ok && add_stubs(m, &b) && DP_SORT_BY(b.v, b.n, addr);
	for (size_t i = 0, end; ok && i < b.n; i = end) {
		for (end = i + 1; end < b.n && b.v[end].addr == b.v[i].addr; end++)
			;
		ok = add_group(m, r, b.v + i, end - i);
	}
	free(splits.v);
	free(b.v);
	return ok;
}

bool dp_mod_load_bounds(struct dp_module *m)
{
	struct tables r = {0};

	if (m->bounds_loaded || m->syms_loaded || !list_tables(m, &r))
		return m->bounds_loaded;
	m->bounds_loaded = collect(m, &r) && dp_mod_unite_funcs(m, &m->bounds);
	if (!m->bounds_loaded)
		dp_mod_free_bounds(m);
	return m->bounds_loaded;
}

void dp_mod_free_bounds(struct dp_module *m)
{
	free(m->bounds.v);
	free(m->marks.v);
	m->bounds = (struct mod_ranges){0};
	m->marks = (struct mod_addrs){0};
}

/* ---- one name ---- */

bool dp_mod_is_identifier(const char *name)
{
	size_t n = 0;

	while (isalnum((unsigned char)name[n]) || name[n] == '_')
		n++;
	return n && !name[n] && !isdigit((unsigned char)*name);
}

/* Puts the symbols whose names begin at one of the places into m->syms. */
static bool add_at(struct dp_module *m, const struct table *t, const u64 *places, u32 n)
{
	u64 k;

	for (u64 first = 0; n && first < t->n; first += k) {
		const Elf64_Sym *s = part_of(m, t, first, &k);

		for (u64 i = 0; i < k; i++)
			for (u32 p = 0; p < n; p++)
				if (s[i].st_name == places[p] && s[i].st_shndx != SHN_UNDEF &&
				    !add_named(m, t, t->begin + (u32)(first + i)))
					return false;
	}
	return true;
}

enum mod_sought dp_mod_seek(struct dp_module *m, const char *name)
{
	enum mod_sought sought = MOD_SOUGHT_NOTHING;
	u64 len = strlen(name), places[PLACES], digits;
	struct tables r = {0};
	char mangled[24];

	if (m->nsought == SOUGHT || !dp_mod_is_identifier(name) || !list_tables(m, &r))
		return MOD_SOUGHT_UNKNOWN;
	m->nsought++;
	m->syms.n = 0;
	dp_format(mangled, sizeof(mangled), "%llu", (unsigned long long)len);
	digits = strlen(mangled);
	for (u32 i = 0; i < r.n; i++) {
		const struct table *t = &r.v[i];
		const u8 *names = m->file + t->names_offset;
		struct names part = {0};
		u32 n = 0;

		for (u64 at = 0; (at = next_place(m, t, at, name, len, &part)) < t->names_size; at++) {
			if (at >= digits && !memcmp(names + at - digits, mangled, digits))
				sought = MOD_SOUGHT_UNKNOWN;
			if (names[at + len] && names[at + len] != '@' && names[at + len] != '.')
				continue;
			if (n == PLACES)
				return MOD_SOUGHT_UNKNOWN;
			places[n++] = at;
		}
		if (!add_at(m, t, places, n))
			return MOD_SOUGHT_UNKNOWN;
	}
	if (!m->syms.n)
		return sought;
	return dp_mod_order_syms(&m->syms) ? MOD_SOUGHT_FOUND : MOD_SOUGHT_UNKNOWN;
}
