/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where the bytes of an ELF file that is open are: by address, by the name of a section. */
#include <string.h>

#include "symbols/module-priv.h"

const u8 *dp_mod_at(const struct dp_module *m, u64 addr, u64 need, u64 *avail)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		const struct mod_seg *s = &m->segs[i];
		u64 rest;

		if (addr < s->addr || addr - s->addr >= s->filesz)
			continue;
		rest = s->filesz - (addr - s->addr);
		if (rest < need)
			return NULL;
		if (avail)
			*avail = rest;
		return m->file + s->offset + (addr - s->addr);
	}
	return NULL;
}

const struct mod_sec *dp_mod_section(const struct dp_module *m, const char *name)
{
	for (size_t i = 0; i < m->nsecs; i++)
		if (!strcmp(m->secs[i].name, name))
			return &m->secs[i];
	return NULL;
}

const struct dp_range *dp_mod_code_at(const struct dp_module *m, u64 addr)
{
	for (size_t i = 0; i < m->code.n; i++)
		if (addr - m->code.v[i].lo < m->code.v[i].hi - m->code.v[i].lo)
			return &m->code.v[i];
	return NULL;
}
