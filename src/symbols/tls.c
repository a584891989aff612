/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Thread-local variables: how a module's block of the running thread is found, as text of the Dynamic Probes language.
 * The executable's lies right below the thread pointer. A library's is found the way that its own code finds it: by a
 * word that the dynamic linker has put into the library for it.
 */
#include "symbols/vars-priv.h"

struct tls_word { /* filled in by a relocation */
	u64 at;
	u64 block_to_value; /* TPOFF: the word minus this is the block's distance from the thread pointer */
	bool is_distance;
};

static bool is_executable(const struct dp_module *m, GElf_Phdr *tls)
{
	bool is_exe = !m->dyn;
	GElf_Phdr ph;
	size_t n = 0;

	elf_getphdrnum(m->elf, &n);
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(m->elf, (int)i, &ph))
			continue;
		is_exe |= ph.p_type == PT_INTERP;
		if (ph.p_type == PT_TLS)
			*tls = ph;
	}
	return is_exe;
}

/* The symbol of a relocation is one of this module's own thread-local variables, or none: the block itself. */
static bool own_symbol(Elf_Data *syms, const GElf_Rela *rela, u64 *value)
{
	GElf_Sym sym;

	*value = 0;
	if (!GELF_R_SYM(rela->r_info))
		return true;
	if (!syms || !gelf_getsym(syms, (int)GELF_R_SYM(rela->r_info), &sym) || sym.st_shndx == SHN_UNDEF)
		return false;
	*value = sym.st_value;
	/* Another module may have a variable of this name that comes first. */
	return GELF_ST_BIND(sym.st_info) == STB_LOCAL || GELF_ST_VISIBILITY(sym.st_other) != STV_DEFAULT;
}

static bool find_in(struct dp_module *m, Elf_Scn *scn, const GElf_Shdr *sh, struct tls_word *found)
{
	Elf_Data *data = elf_getdata(scn, NULL), *syms = NULL;
	Elf_Scn *link = sh->sh_link ? elf_getscn(m->elf, sh->sh_link) : NULL;
	GElf_Rela rela;
	u64 value;

	if (link)
		syms = elf_getdata(link, NULL);
	for (int i = 0; data && sh->sh_entsize && i < (int)(sh->sh_size / sh->sh_entsize); i++) {
		u32 type;

		if (!gelf_getrela(data, i, &rela))
			break;
		type = (u32)GELF_R_TYPE(rela.r_info);
		if ((type != R_X86_64_TPOFF64 && type != R_X86_64_DTPMOD64) || !own_symbol(syms, &rela, &value))
			continue;
		*found = (struct tls_word){rela.r_offset, value + (u64)rela.r_addend, type == R_X86_64_TPOFF64};
		if (found->is_distance)
			return true;
	}
	return found->at;
}

static bool find_word(struct dp_module *m, struct tls_word *found)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	bool any = false;

	while (!found->is_distance && (scn = elf_nextscn(m->elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_RELA && sh.sh_flags & SHF_ALLOC)
			any |= find_in(m, scn, &sh, found);
	return any;
}

const char *dp_mod_tls_code(struct dp_module *m, char *buf, size_t size)
{
	struct tls_word word = {0};
	GElf_Phdr tls = {0};

	if (is_executable(m, &tls)) {
		if (!tls.p_memsz)
			return "the module has no thread-local variables";
		dp_format(buf, size, "push r,fs_base;add;push d,%lld;sub",
			  (long long)DP_ALIGN_UP(tls.p_memsz, DP_MAX(tls.p_align, (u64)1)));
		return NULL;
	}
	if (!find_word(m, &word))
		return "its library looks thread-local variables up in a way that is not known here";
	if (word.is_distance)
		dp_format(buf, size, "push d,.base+%llu;push mem,u64;push d,%llu;sub;add;push r,fs_base;add",
			  (unsigned long long)word.at, (unsigned long long)word.block_to_value);
	else /* glibc: the thread's table of blocks, 16 bytes for each module */
		dp_format(buf, size,
			  "push r,fs_base;push d,8;add;push mem,u64;push d,.base+%llu;push mem,u64;"
			  "shl 4;add;push mem,u64;add",
			  (unsigned long long)word.at);
	return NULL;
}
