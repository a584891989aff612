/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the dynamic linker will write: words of data that hold addresses at run time. Needed to know
 * which code addresses occur in data, and to read tables of pointers in position-independent files.
 */
#include <stdlib.h>

#include "symbols/module-priv.h"

static int by_where(const void *a, const void *b)
{
	u64 x = ((const struct mod_reloc *)a)->where, y = ((const struct mod_reloc *)b)->where;

	return x < y ? -1 : x > y;
}

struct source { /* the dynamic section's view, used when there are no section headers */
	u64 rela, relasz, jmprel, pltrelsz, relr, relrsz, symtab;
};

static bool symbol_value(struct dp_module *m, u64 symtab, u32 i, u64 *value)
{
	const u8 *p = symtab ? dp_mod_at(m, symtab + (u64)i * sizeof(Elf64_Sym), sizeof(Elf64_Sym), NULL) : NULL;
	Elf64_Sym s;

	if (!p)
		return false;
	memcpy(&s, p, sizeof(s));
	*value = s.st_value;
	return s.st_shndx != SHN_UNDEF;
}

static bool add_rela(struct dp_module *m, const u8 *p, u64 size, u64 symtab)
{
	for (u64 off = 0; off + sizeof(Elf64_Rela) <= size; off += sizeof(Elf64_Rela)) {
		Elf64_Rela r;
		u64 value = 0;

		memcpy(&r, p + off, sizeof(r));
		switch (ELF64_R_TYPE(r.r_info)) {
		case R_X86_64_RELATIVE:
		case R_X86_64_IRELATIVE: /* the resolver, which is called */
			value = (u64)r.r_addend;
			break;
		case R_X86_64_64:
			if (!symbol_value(m, symtab, (u32)ELF64_R_SYM(r.r_info), &value))
				continue;
			value += (u64)r.r_addend;
			break;
		case R_X86_64_GLOB_DAT:
		case R_X86_64_JUMP_SLOT:
			if (!symbol_value(m, symtab, (u32)ELF64_R_SYM(r.r_info), &value))
				continue;
			break;
		default:
			continue;
		}
		if (!MOD_PUSH(&m->relocs, {r.r_offset, value}))
			return false;
	}
	return true;
}

static bool add_word(struct dp_module *m, u64 where)
{
	const u8 *p = dp_mod_at(m, where, 8, NULL);

	return !p || MOD_PUSH(&m->relocs, {where, mod_load64(p)});
}

/* RELR: an even word is an address, an odd one a bitmap over the 63 words that follow. */
static bool add_relr(struct dp_module *m, const u8 *p, u64 size)
{
	u64 next = 0;

	for (u64 off = 0; off + 8 <= size; off += 8) {
		u64 w = mod_load64(p + off);

		if (!(w & 1)) {
			if (!add_word(m, w))
				return false;
			next = w + 8;
			continue;
		}
		for (u64 i = 0; (w >>= 1); i++)
			if (w & 1 && !add_word(m, next + 8 * i))
				return false;
		next += 63 * 8;
	}
	return true;
}

static bool from_sections(struct dp_module *m)
{
	const struct mod_sec *dynsym = dp_mod_section(m, ".dynsym");

	for (size_t i = 0; i < m->nsecs; i++) {
		const struct mod_sec *s = &m->secs[i];
		const u8 *p = m->file + s->offset;

		if (s->type == SHT_RELA && !add_rela(m, p, s->size, dynsym ? dynsym->addr : 0))
			return false;
		if (s->type == SHT_RELR && !add_relr(m, p, s->size))
			return false;
	}
	return true;
}

/* False behind the last one. */
static bool take_word(struct source *d, u64 tag, u64 v)
{
	static const struct {
		u64 tag;
		size_t at;
	} words[] = {
	    {DT_RELA, offsetof(struct source, rela)},     {DT_RELASZ, offsetof(struct source, relasz)},
	    {DT_JMPREL, offsetof(struct source, jmprel)}, {DT_PLTRELSZ, offsetof(struct source, pltrelsz)},
	    {DT_RELR, offsetof(struct source, relr)},     {DT_RELRSZ, offsetof(struct source, relrsz)},
	    {DT_SYMTAB, offsetof(struct source, symtab)},
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(words); i++)
		if (words[i].tag == tag)
			*(u64 *)((char *)d + words[i].at) = v;
	return tag != DT_NULL;
}

static void read_dynamic(struct dp_module *m, struct source *d)
{
	size_t n = 0;

	elf_getphdrnum(m->elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;
		u64 avail = 0;
		const u8 *p;

		if (!gelf_getphdr(m->elf, (int)i, &ph) || ph.p_type != PT_DYNAMIC)
			continue;
		p = dp_mod_at(m, ph.p_vaddr, 16, &avail);
		avail = DP_MIN(avail, ph.p_filesz);
		for (u64 off = 0; p && off + 16 <= avail; off += 16)
			if (!take_word(d, mod_load64(p + off), mod_load64(p + off + 8)))
				return;
	}
}

static bool from_dynamic(struct dp_module *m)
{
	struct source d = {0};
	const u8 *p;

	read_dynamic(m, &d);
	p = d.rela ? dp_mod_at(m, d.rela, d.relasz, NULL) : NULL;
	if (p && !add_rela(m, p, d.relasz, d.symtab))
		return false;
	p = d.jmprel ? dp_mod_at(m, d.jmprel, d.pltrelsz, NULL) : NULL;
	if (p && !add_rela(m, p, d.pltrelsz, d.symtab))
		return false;
	p = d.relr ? dp_mod_at(m, d.relr, d.relrsz, NULL) : NULL;
	return !p || add_relr(m, p, d.relrsz);
}

bool dp_mod_load_relocs(struct dp_module *m)
{
	if (m->relocs_loaded)
		return true;
	if (!(m->nshdrs ? from_sections(m) : from_dynamic(m)) || !DP_SORT_BY(m->relocs.v, m->relocs.n, where))
		return false;
	m->relocs_loaded = true;
	return true;
}

const struct mod_reloc *dp_mod_reloc_at(const struct dp_module *m, u64 where)
{
	struct mod_reloc key = {where, 0};

	return m->relocs.n ? bsearch(&key, m->relocs.v, m->relocs.n, sizeof(key), by_where) : NULL;
}
