/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A file of a kernel module as an executable has one: with an address for each section, and the relocations of what
 * describes the code carried out, so that its lines and variables can be read. What it does not know (where the kernel
 * puts the module, symbols of the kernel) does not matter for that.
 */
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "symbols/module-priv.h"

#define FIRST_ADDRESS 0x10000
#define ALIGN_MAX 0x10000

struct section {
	GElf_Shdr sh; /* as in the new file */
	Elf_Data *data;
};

struct linking {
	Elf *elf; /* the module's */
	struct section *v;
	size_t n;
	u8 *out;
	size_t size;
};

static bool is_relocation(const struct section *s)
{
	return s->sh.sh_type == SHT_RELA || s->sh.sh_type == SHT_REL || s->sh.sh_type == SHT_GROUP;
}

static bool has_bytes(const struct section *s)
{
	return s->data && s->data->d_buf && s->sh.sh_type != SHT_NOBITS && !is_relocation(s);
}

static bool read_sections(struct linking *l)
{
	u64 addr = FIRST_ADDRESS;

	if (elf_getshdrnum(l->elf, &l->n) || l->n < 2)
		return false;
	l->v = calloc(l->n, sizeof(*l->v));
	for (size_t i = 1; l->v && i < l->n; i++) {
		struct section *s = &l->v[i];
		Elf_Scn *scn = elf_getscn(l->elf, i);

		if (!scn || !gelf_getshdr(scn, &s->sh) || s->sh.sh_addralign > ALIGN_MAX ||
		    s->sh.sh_addralign & (s->sh.sh_addralign - 1))
			return false;
		if (s->sh.sh_flags & SHF_COMPRESSED && (elf_compress(scn, 0, 0) < 0 || !gelf_getshdr(scn, &s->sh)))
			return false;
		s->data = elf_getdata(scn, NULL);
		if (s->data)
			s->sh.sh_size = s->data->d_size;
		if (!(s->sh.sh_flags & SHF_ALLOC))
			continue;
		addr = DP_ALIGN_UP(addr, DP_MAX(s->sh.sh_addralign, (u64)1));
		s->sh.sh_addr = addr;
		addr += s->sh.sh_size;
	}
	return l->v;
}

/* The file: its head, a segment for each section in memory, the sections, and their heads. */
static bool copy_sections(struct linking *l)
{
	size_t at = sizeof(Elf64_Ehdr) + l->n * sizeof(Elf64_Phdr);

	for (size_t i = 1; i < l->n; i++) {
		struct section *s = &l->v[i];

		at = DP_ALIGN_UP(at, (size_t)DP_MAX(s->sh.sh_addralign, (u64)1));
		s->sh.sh_offset = at;
		at += has_bytes(s) ? s->data->d_size : 0;
	}
	at = DP_ALIGN_UP(at, sizeof(u64));
	l->size = at + l->n * sizeof(Elf64_Shdr);
	l->out = calloc(1, l->size);
	for (size_t i = 1; l->out && i < l->n; i++)
		if (has_bytes(&l->v[i]))
			memcpy(l->out + l->v[i].sh.sh_offset, l->v[i].data->d_buf, l->v[i].data->d_size);
	return l->out;
}

/* A symbol's address; of those that are defined elsewhere 0. */
static u64 address_of(const struct linking *l, const GElf_Sym *sym)
{
	if (sym->st_shndx && sym->st_shndx < l->n)
		return l->v[sym->st_shndx].sh.sh_addr + sym->st_value;
	return sym->st_shndx == SHN_ABS ? sym->st_value : 0;
}

static void move_symbols(const struct linking *l, const struct section *s)
{
	for (size_t i = 0; i < s->data->d_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym *sym = (Elf64_Sym *)(l->out + s->sh.sh_offset) + i;

		sym->st_value = address_of(l, sym);
	}
}

static void relocate_one(const struct linking *l, const struct section *to, const GElf_Rela *rela, u64 symbol)
{
	u64 value = symbol + (u64)rela->r_addend, place = to->sh.sh_addr + rela->r_offset;
	size_t size = 4;

	switch (GELF_R_TYPE(rela->r_info)) {
	case R_X86_64_64:
		size = 8;
		break;
	case R_X86_64_PC64:
		size = 8;
		value -= place;
		break;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		value -= place;
		break;
	case R_X86_64_32:
	case R_X86_64_32S:
		break;
	default:
		return;
	}
	if (rela->r_offset <= to->data->d_size && size <= to->data->d_size - rela->r_offset)
		memcpy(l->out + to->sh.sh_offset + rela->r_offset, &value, size);
}

static void relocate(const struct linking *l, const struct section *by)
{
	const struct section *to = by->sh.sh_info < l->n ? &l->v[by->sh.sh_info] : NULL;
	const struct section *symbols = by->sh.sh_link < l->n ? &l->v[by->sh.sh_link] : NULL;
	GElf_Rela rela;
	GElf_Sym sym;

	if (!to || !symbols || !has_bytes(to) || !symbols->data || !by->data)
		return;
	for (int i = 0; gelf_getrela(by->data, i, &rela); i++)
		if (gelf_getsym(symbols->data, (int)GELF_R_SYM(rela.r_info), &sym))
			relocate_one(l, to, &rela, address_of(l, &sym));
}

static void put_heads(const struct linking *l)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)l->out;
	Elf64_Phdr *ph = (Elf64_Phdr *)(eh + 1);
	Elf64_Shdr *sh = (Elf64_Shdr *)(l->out + l->size) - l->n;
	size_t names = 0;
	GElf_Ehdr old;

	elf_getshdrstrndx(l->elf, &names);
	*eh = *gelf_getehdr(l->elf, &old);
	eh->e_type = ET_EXEC;
	eh->e_phoff = sizeof(*eh);
	eh->e_phentsize = sizeof(*ph);
	eh->e_shoff = l->size - l->n * sizeof(*sh);
	eh->e_shnum = (u16)l->n;
	eh->e_shstrndx = (u16)names;
	for (size_t i = 1; i < l->n; i++) {
		const struct section *s = &l->v[i];

		if (is_relocation(s))
			continue;
		sh[i] = s->sh;
		if (!(s->sh.sh_flags & SHF_ALLOC) || !s->sh.sh_size)
			continue;
		ph[eh->e_phnum++] = (Elf64_Phdr){
		    .p_type = s->sh.sh_type == SHT_NOTE ? PT_NOTE : PT_LOAD,
		    .p_flags = PF_R | (s->sh.sh_flags & SHF_WRITE ? PF_W : 0u) |
			       (s->sh.sh_flags & SHF_EXECINSTR ? PF_X : 0u),
		    .p_offset = s->sh.sh_offset,
		    .p_vaddr = s->sh.sh_addr,
		    .p_filesz = has_bytes(s) ? s->sh.sh_size : 0,
		    .p_memsz = s->sh.sh_size,
		    .p_align = 4,
		};
	}
}

static int put_file(const struct linking *l)
{
	int fd = memfd_create("dprobes", MFD_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < l->size) {
		ssize_t n = write(fd, l->out + done, l->size - done);

		if (n <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)n;
	}
	return fd;
}

int dp_kernel_module_link(Elf *elf)
{
	struct linking l = {.elf = elf};
	GElf_Ehdr eh;
	int fd = -1;

	if (gelf_getehdr(elf, &eh) && eh.e_type == ET_REL && eh.e_machine == EM_X86_64 &&
	    eh.e_ident[EI_CLASS] == ELFCLASS64 && read_sections(&l) && l.n < SHN_LORESERVE && copy_sections(&l)) {
		for (size_t i = 1; i < l.n; i++)
			if (l.v[i].sh.sh_type == SHT_RELA)
				relocate(&l, &l.v[i]);
		for (size_t i = 1; i < l.n; i++)
			if (l.v[i].sh.sh_type == SHT_SYMTAB && has_bytes(&l.v[i]))
				move_symbols(&l, &l.v[i]);
		put_heads(&l);
		fd = put_file(&l);
	}
	free(l.out);
	free(l.v);
	return fd;
}
