/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Symbol tables: reading them, from the file itself and from what belongs to it, and ordering them
 * by address and by name. Looking names up is lookup.c.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

static unsigned int underscores(const char *s)
{
	return (unsigned int)strspn(s, "_");
}

/* The smaller, the better a name for its address. */
static unsigned int rank(const struct mod_sym *s)
{
	unsigned int r;

	if (s->flags & (SYM_FUNC | SYM_IFUNC))
		r = 0;
	else
		r = s->flags & SYM_DATA ? 16 : 32;
	if (!(s->flags & SYM_EXPORTED))
		r += 4;
	if (s->flags & SYM_LOCAL)
		r += 4;
	if (s->flags & SYM_OLD)
		r += 2;
	return r;
}

static int by_addr(const void *pa, const void *pb)
{
	const struct mod_sym *a = pa, *b = pb;
	unsigned int x, y;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	x = rank(a), y = rank(b);
	if (x != y)
		return x < y ? -1 : 1;
	x = underscores(a->name), y = underscores(b->name);
	if (x != y)
		return x < y ? -1 : 1;
	if ((a->flags ^ b->flags) & SYM_WEAK)
		return a->flags & SYM_WEAK ? 1 : -1;
	x = (unsigned int)strlen(a->name), y = (unsigned int)strlen(b->name);
	if (x != y)
		return x < y ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool is_split_name(const char *name)
{
	return strstr(name, MOD_SPLIT_NAME);
}

static u32 symbol_flags(const struct dp_module *m, const GElf_Sym *s, bool exported)
{
	u32 f = exported ? SYM_EXPORTED : 0;

	switch (GELF_ST_TYPE(s->st_info)) {
	case STT_FUNC:
		f |= SYM_FUNC;
		break;
	case STT_GNU_IFUNC:
		f |= SYM_IFUNC;
		break;
	case STT_OBJECT:
	case STT_COMMON:
		f |= SYM_DATA;
		break;
	case STT_NOTYPE:
		if (!dp_mod_in_code(m, s->st_value))
			f |= SYM_DATA;
		else if (GELF_ST_BIND(s->st_info) == STB_LOCAL)
			f |= SYM_LABEL;
		else /* written in assembly without .type */
			f |= SYM_FUNC;
		break;
	default:
		return 0;
	}
	if (f & (SYM_FUNC | SYM_IFUNC) && !dp_mod_in_code(m, s->st_value))
		return 0;
	if (GELF_ST_BIND(s->st_info) == STB_LOCAL)
		f |= SYM_LOCAL;
	if (GELF_ST_BIND(s->st_info) == STB_WEAK)
		f |= SYM_WEAK;
	return f;
}

u32 dp_mod_symbol_flags(const struct dp_module *m, const GElf_Sym *s, bool exported, u64 *size)
{
	u32 f = 0;

	if (s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS)
		f = symbol_flags(m, s, exported);
	*size = s->st_size;
	if (s->st_value + *size < *size || (f & SYM_FUNC && *size && !dp_mod_in_code(m, s->st_value + *size - 1)))
		*size = 0; /* it ends nowhere in this file: the call frames may know better */
	return f & (SYM_FUNC | SYM_IFUNC | SYM_DATA | SYM_LABEL) ? f : 0;
}

bool dp_mod_add_symbol(struct dp_module *m, const GElf_Sym *s, const char *name, bool exported, u16 version)
{
	u64 size;
	u32 f = name && *name ? dp_mod_symbol_flags(m, s, exported, &size) : 0;

	if (!f)
		return true;
	if (f & SYM_FUNC && is_split_name(name))
		f |= SYM_SPLIT;
	if (version & 0x8000)
		f |= SYM_OLD;
	return MOD_PUSH(&m->syms, {name, s->st_value, size, f, version & 0x7fff});
}

static bool read_table(struct dp_module *m, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh, Elf_Data *versym)
{
	Elf_Data *d = NULL, *names = elf_getdata(elf_getscn(elf, sh->sh_link), NULL);
	bool exported = sh->sh_type == SHT_DYNSYM;

	if (names)
		dp_map_ahead(names->d_buf, names->d_size);
	while ((d = elf_getdata(scn, d))) {
		size_t n = d->d_size / sizeof(GElf_Sym);

		dp_map_ahead(d->d_buf, d->d_size);
		for (size_t i = 0; i < n; i++) {
			GElf_Versym v = 0;
			GElf_Sym s;

			if (!gelf_getsym(d, (int)i, &s) || s.st_shndx == SHN_UNDEF)
				continue;
			if (versym && !gelf_getversym(versym, (int)i, &v))
				v = 0;
			if (!dp_mod_add_symbol(m, &s, elf_strptr(elf, sh->sh_link, s.st_name), exported,
					       exported ? v : 0))
				return false;
		}
	}
	return true;
}

/* Names of the versions that the file defines. */
static bool read_versions(struct dp_module *m, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *d = elf_getdata(scn, NULL);
	int off = 0;

	m->syms.versions = calloc(0x8000, sizeof(char *));
	if (!m->syms.versions)
		return false;
	m->syms.nversions = 0x8000;
	for (u32 i = 0; d && i < sh->sh_info; i++) {
		GElf_Verdef def;
		GElf_Verdaux aux;

		if (!gelf_getverdef(d, off, &def) || !gelf_getverdaux(d, off + (int)def.vd_aux, &aux))
			break;
		m->syms.versions[def.vd_ndx & 0x7fff] = elf_strptr(m->elf, sh->sh_link, aux.vda_name);
		if (!def.vd_next)
			break;
		off += (int)def.vd_next;
	}
	return true;
}

static bool read_tables(struct dp_module *m, Elf *elf, bool main)
{
	Elf_Data *versym = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while (main && (scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			continue;
		if (sh.sh_type == SHT_GNU_versym)
			versym = elf_getdata(scn, NULL);
		if (sh.sh_type == SHT_GNU_verdef && !m->syms.versions && !read_versions(m, scn, &sh))
			return false;
	}
	scn = NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			continue;
		if (sh.sh_type == SHT_SYMTAB) {
			m->has_symtab = true;
			if (!read_table(m, elf, scn, &sh, NULL))
				return false;
		}
		if (main && sh.sh_type == SHT_DYNSYM && !read_table(m, elf, scn, &sh, versym))
			return false;
	}
	return true;
}

/* One entry for the same name at the same address; what .symtab and .dynsym know is united. */
static void unite(struct mod_syms *s)
{
	size_t out = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct mod_sym *v = &s->v[i];
		size_t k = out;
		bool same = false;

		while (!same && k-- > 0 && s->v[k].addr == v->addr)
			same = !strcmp(s->v[k].name, v->name) && s->v[k].version == v->version;
		/* .symtab knows no versions: it adds nothing to a versioned name. */
		for (k = out; !same && !v->version && k-- > 0 && s->v[k].addr == v->addr;)
			same = !strcmp(s->v[k].name, v->name);
		if (same)
			continue;
		s->v[out++] = *v;
	}
	s->n = out;
}

u32 dp_mod_name_slot(const struct mod_syms *s, const char *name)
{
	size_t n = strcspn(name, "@");
	u64 h = n, word;

	/* Long names differ at the end, or somewhere in the middle, if at all. */
	for (size_t at = 0; at + 8 <= n; at = at + 16 < n || at + 8 == n ? at + 8 : n - 8) {
		memcpy(&word, name + at, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (size_t at = 0; n < 8 && at < n; at++)
		h = (h ^ (u8)name[at]) * 0x9e3779b97f4a7c15ull;
	return (u32)(h >> 32) & s->mask;
}

bool dp_mod_index_names(struct mod_syms *s)
{
	u32 slots = 64;

	if (s->next)
		return true;
	while (slots < s->n)
		slots *= 2;
	s->mask = slots - 1;
	s->first = calloc(slots, sizeof(*s->first));
	s->next = calloc(s->n + 1, sizeof(*s->next));
	if (!s->first || !s->next) {
		free(s->first);
		free(s->next);
		s->first = s->next = NULL;
		return false;
	}
	for (size_t i = s->n; i-- > 0;) { /* a list ascends */
		u32 *slot = &s->first[dp_mod_name_slot(s, s->v[i].name)];

		s->next[i] = *slot;
		*slot = (u32)i + 1;
	}
	return true;
}

/* By address, the best name of each first. */
static bool sort_syms(struct mod_syms *s)
{
	if (!DP_SORT_BY(s->v, s->n, addr))
		return false;
	for (size_t i = 0, end; i < s->n; i = end) {
		for (end = i + 1; end < s->n && s->v[end].addr == s->v[i].addr; end++)
			;
		if (end - i > 1)
			qsort(s->v + i, end - i, sizeof(*s->v), by_addr);
	}
	return true;
}

bool dp_mod_order_syms(struct mod_syms *s)
{
	if (!sort_syms(s))
		return false;
	unite(s);
	return true;
}

int dp_mod_load_syms(struct dp_module *m, struct dp_error *err)
{
	u64 addr;
	bool ok;

	if (m->syms_loaded)
		return 0;
	ok = read_tables(m, m->elf, true);
	if (ok && !m->has_symtab && dp_mod_open_debug(m))
		ok = read_tables(m, m->debug.elf, false);
	if (ok && !m->has_symtab)
		ok = dp_mod_read_mini(m);
	if (ok && dp_mod_find_go(m, &addr))
		ok = dp_mod_read_go(m, !m->has_symtab);
	ok = ok && dp_mod_add_plt(m);
	if (!ok)
		return dp_fail(err, E_FILE_MEMORY, "%s", m->path);
	if (!dp_mod_order_syms(&m->syms))
		return dp_fail(err, E_FILE_MEMORY, "%s", m->path);
	m->syms_loaded = true;
	return 0;
}

void dp_mod_free_syms(struct dp_module *m)
{
	for (size_t i = 0; m->syms.demangled && i < m->syms.n; i++)
		free(m->syms.demangled[i]);
	for (size_t i = 0; i < m->nnames; i++)
		free(m->names[i]);
	free(m->names);
	free(m->syms.demangled);
	free(m->syms.versions);
	free(m->syms.first);
	free(m->syms.next);
	free(m->syms.v);
}

size_t dp_mod_sym_after(const struct dp_module *m, u64 addr)
{
	return DP_COUNT_UP_TO(m->syms.v, m->syms.n, addr, addr);
}

void dp_mod_sym_public(const struct mod_sym *s, struct dp_symbol *out)
{
	*out = (struct dp_symbol){s->name,
				  s->addr,
				  s->size,
				  s->flags & (SYM_FUNC | SYM_IFUNC),
				  s->flags & SYM_IFUNC,
				  s->flags & SYM_EXPORTED,
				  s->flags & SYM_DATA};
}
