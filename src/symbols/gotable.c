/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Go's own function table (pclntab): every Go program carries it, stripped or not. Gives function
 * starts, names, and the places at which a recovered panic resumes. Layouts of Go 1.2, 1.16, 1.18
 * and 1.20 on.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

#define MAGIC_12 0xfffffffb
#define MAGIC_116 0xfffffffa
#define MAGIC_118 0xfffffff0
#define MAGIC_120 0xfffffff1

struct table {
	const u8 *p; /* the header */
	u64 size;
	u32 magic;
	u64 nfuncs;
	u64 text;    /* function offsets count from here; 0 in old layouts */
	u64 names;   /* offset of the names */
	u64 funcs;   /* offset of the table of functions; functions' data count from here too */
	bool narrow; /* entries are pairs of u32, else of u64 */
};

static bool is_header(const u8 *p, u64 avail)
{
	u32 magic;

	if (avail < 72)
		return false;
	magic = mod_load32(p);
	return (magic == MAGIC_12 || magic == MAGIC_116 || magic == MAGIC_118 || magic == MAGIC_120) && !p[4] &&
	       !p[5] && p[6] == 1 && p[7] == 8;
}

/* Without a section of that name: some builds put the table into a read-only section, and strip may
 * drop headers. */
static bool search(const struct dp_module *m, u64 *addr)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		const struct mod_seg *s = &m->segs[i];

		if (s->x)
			continue;
		for (u64 off = (0 - s->addr) & 15; off + 72 <= s->filesz; off += 16) {
			if (!is_header(m->file + s->offset + off, s->filesz - off))
				continue;
			*addr = s->addr + off;
			return true;
		}
	}
	return false;
}

bool dp_mod_find_go(const struct dp_module *m, u64 *addr)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	struct dp_module *w = (struct dp_module *)m; /* the answer is remembered: one search per file */

	for (size_t i = 0; i < DP_ARRAY_SIZE(names); i++) {
		const struct mod_sec *s = dp_mod_section(m, names[i]);

		if (s && is_header(m->file + s->offset, s->size)) {
			*addr = s->addr;
			return true;
		}
	}
	/* Programs that are not Go's must not pay for a search through all their data. */
	if (m->nshdrs && !dp_mod_section(m, ".note.go.buildid") && !dp_mod_section(m, ".go.buildinfo"))
		return false;
	if (!m->go_known) {
		w->is_go = search(m, &w->go_addr);
		w->go_known = true;
	}
	*addr = m->go_addr;
	return m->is_go;
}

static u64 field(const struct table *t, unsigned int i)
{
	return mod_load64(t->p + 8 + 8 * i);
}

static bool open_table(const struct dp_module *m, struct table *t)
{
	const struct mod_sec *text = dp_mod_section(m, ".text");
	u64 addr, unit;

	if (!dp_mod_find_go(m, &addr) || !(t->p = dp_mod_at(m, addr, 72, &t->size)))
		return false;
	t->magic = mod_load32(t->p);
	t->nfuncs = field(t, 0);
	switch (t->magic) {
	case MAGIC_12:
		t->funcs = 16; /* names and function data count from the header */
		break;
	case MAGIC_116:
		t->names = field(t, 2);
		t->funcs = field(t, 6);
		break;
	default:
		t->text = field(t, 2);
		t->names = field(t, 3);
		t->funcs = field(t, 7);
		t->narrow = true;
		if (!dp_mod_in_code(m, t->text)) /* left to the dynamic linker, or no longer recorded */
			t->text = text ? text->addr : 0;
		if (!t->text)
			return false;
	}
	unit = t->narrow ? 8 : 16;
	return t->funcs < t->size && t->nfuncs < (t->size - t->funcs) / unit && t->names < t->size;
}

static u64 entry_at(const struct table *t, u64 i, u64 *data)
{
	const u8 *p = t->p + t->funcs + i * (t->narrow ? 8 : 16);
	u64 base = t->magic == MAGIC_12 ? 0 : t->funcs;

	*data = base + (t->narrow ? mod_load32(p + 4) : mod_load64(p + 8));
	return t->narrow ? t->text + mod_load32(p) : mod_load64(p);
}

/* The per-function record: entry (4 or 8 bytes), name, args, offset of the call of deferreturn. */
static bool add_func(struct dp_module *m, const struct table *t, u64 i, bool want_sym)
{
	u64 data, next_data, lo = entry_at(t, i, &data), skip = t->narrow ? 4 : 8, name, resume;
	u64 hi = i + 1 < t->nfuncs ? entry_at(t, i + 1, &next_data) : 0;

	if (!dp_mod_in_code(m, lo) || data > t->size - 24)
		return true;
	if (!MOD_PUSH(&m->ranges, {lo, hi > lo ? hi : 0, DP_FUNC_GO | DP_FUNC_OPEN, NO_SYM}))
		return false;
	resume = mod_load32(t->p + data + skip + 8);
	if (resume && hi > lo && resume < hi - lo && !MOD_PUSH(&m->pads, lo + resume))
		return false;
	name = t->names + mod_load32(t->p + data + skip);
	if (!want_sym || name >= t->size || !t->p[name] || !memchr(t->p + name, 0, t->size - name))
		return true;
	return MOD_PUSH(&m->syms, {(const char *)t->p + name, lo, 0, SYM_FUNC | SYM_LOCAL, 0});
}

bool dp_mod_read_go(struct dp_module *m, bool want_syms)
{
	struct table t = {0};

	if (!open_table(m, &t))
		return true;
	for (u64 i = 0; i < t.nfuncs; i++)
		if (!add_func(m, &t, i, want_syms))
			return false;
	return true;
}

bool dp_module_is_go(const struct dp_module *m)
{
	u64 addr;

	return dp_mod_find_go(m, &addr);
}
