/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Names for the stubs that call imported functions: "malloc@plt". A stub is known by the slot of
 * the global offset table that it jumps through, so that every linker's layout is understood.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

struct slot {
	u64 where;
	const char *name;
};

struct slots {
	struct slot *v;
	size_t n, cap;
};

static int by_where(const void *a, const void *b)
{
	u64 x = ((const struct slot *)a)->where, y = ((const struct slot *)b)->where;

	return x < y ? -1 : x > y;
}

static bool collect_slots(struct dp_module *m, struct slots *s)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh, symsh;

	while ((scn = elf_nextscn(m->elf, scn))) {
		Elf_Data *d, *symd;
		Elf_Scn *sym;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_RELA || !(sh.sh_flags & SHF_ALLOC))
			continue;
		sym = elf_getscn(m->elf, sh.sh_link);
		if (!sym || !gelf_getshdr(sym, &symsh) || !(symd = elf_getdata(sym, NULL)))
			continue;
		d = elf_getdata(scn, NULL);
		for (size_t i = 0; d && i < d->d_size / sizeof(GElf_Rela); i++) {
			GElf_Rela r;
			GElf_Sym y;
			const char *name;

			if (!gelf_getrela(d, (int)i, &r) ||
			    (GELF_R_TYPE(r.r_info) != R_X86_64_JUMP_SLOT &&
			     GELF_R_TYPE(r.r_info) != R_X86_64_GLOB_DAT) ||
			    !gelf_getsym(symd, (int)GELF_R_SYM(r.r_info), &y))
				continue;
			name = elf_strptr(m->elf, symsh.sh_link, y.st_name);
			if (name && *name && !MOD_PUSH(s, {r.r_offset, name}))
				return false;
		}
	}
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_where);
	return true;
}

static bool add_stub(struct dp_module *m, u64 addr, u64 size, const char *name)
{
	size_t len = strlen(name) + sizeof("@plt");
	char *made = malloc(len);

	if (!made || !dp_grow((void **)&m->names, &m->names_cap, m->nnames, sizeof(char *))) {
		free(made);
		return false;
	}
	dp_format(made, len, "%s@plt", name);
	m->names[m->nnames++] = made;
	return MOD_PUSH(&m->syms, {made, addr, size, SYM_FUNC | SYM_LOCAL | SYM_PLT, 0});
}

static bool scan_section(struct dp_module *m, const struct mod_sec *sec, const struct slots *s)
{
	u64 unit = !strcmp(sec->name, ".plt.got") ? 8 : 16;
	const u8 *p = m->file + sec->offset;
	struct dp_insn in;
	int n;

	for (u64 off = 0; off < sec->size; off += (u64)n) {
		struct slot key = {0}, *hit;
		u64 begin = off & ~(unit - 1);

		n = dp_insn_decode(&in, p + off, sec->size - off);
		if (n < 0) {
			n = 1;
			continue;
		}
		if (in.cls != DP_INSN_JMP_IND || !in.rip_relative)
			continue;
		key.where = sec->addr + off + in.len + (u64)in.disp;
		hit = s->n ? bsearch(&key, s->v, s->n, sizeof(*s->v), by_where) : NULL;
		if (hit && !add_stub(m, sec->addr + begin, unit, hit->name))
			return false;
	}
	return true;
}

bool dp_mod_add_plt(struct dp_module *m)
{
	struct slots s = {0};
	bool ok = collect_slots(m, &s);

	for (size_t i = 0; ok && i < m->nsecs; i++)
		if (m->secs[i].x && !strncmp(m->secs[i].name, ".plt", 4))
			ok = scan_section(m, &m->secs[i], &s);
	free(s.v);
	return ok;
}
