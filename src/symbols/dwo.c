/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One unit of a package of split debug information (.dwp) as a file of its own, as the compiler wrote
 * it: the unit's parts of the sections, the type units that it refers to, and of the package's strings those
 * that occur. All of the package is untrusted.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/dwp-priv.h"

#define UNIT_BYTES_MAX (512u << 20) /* of a unit's file; more is no sane package */
#define ENTRIES_MAX 1000            /* of an abbreviation */

struct out_bytes {
	u8 *v;
	size_t n, cap;
};

struct table { /* of string offsets: the package's, and where it went */
	const u8 *from;
	u64 base;
};

struct image {
	const struct dwp *d;
	struct out_bytes sec[DWP_CUT + 1];
	struct table *tables;
	size_t ntables, tables_cap;
	bool *taken; /* type units, by row */
	u32 *queue;  /* rows of those that are not looked through yet */
	u32 nqueue;
	u64 total;
	const char *why;
};

static bool fail(struct image *im, const char *why)
{
	im->why = why;
	return false;
}

static bool room(struct image *im, struct out_bytes *b, u64 more)
{
	size_t cap;
	u8 *v;

	im->total += more;
	if (im->total > UNIT_BYTES_MAX)
		return fail(im, "it is damaged: a unit does not end");
	if (b->n + more <= b->cap)
		return true;
	cap = DP_MAX(b->cap * 2, b->n + more + 256);
	v = realloc(b->v, cap);
	if (!v)
		return fail(im, "memory is short");
	b->v = v;
	b->cap = cap;
	return true;
}

static bool put(struct image *im, enum dwp_section s, const void *p, u64 n)
{
	struct out_bytes *b = &im->sec[s];

	if (!room(im, b, n))
		return false;
	if (n)
		memcpy(b->v + b->n, p, n);
	b->n += n;
	return true;
}

static void set32(struct out_bytes *b, u64 at, u32 v)
{
	memcpy(b->v + at, &v, 4);
}

/* ---- strings ---- */

/* Strings are taken in the order of the table, and their offsets are written anew. */
static bool put_entries(struct image *im, struct dwp_bytes t, u64 at, u32 width)
{
	const struct dwp_bytes *all = &im->d->sec[DWP_STR];
	u64 was;

	for (; t.n - at >= width; at += width) {
		u64 now = im->sec[DWP_STR].n;
		const u8 *s, *end;

		was = width == 8 ? mod_load64(t.p + at) : mod_load32(t.p + at);
		s = was < all->n ? all->p + was : NULL;
		end = s ? memchr(s, 0, all->n - was) : NULL;
		if (!end) { /* what is not used may be anything */
			s = (const u8 *)"";
			end = s;
		}
		if (now >> 32)
			return fail(im, "it is damaged: a unit does not end");
		if (!put(im, DWP_STR, s, (u64)(end - s) + 1) || !put(im, DWP_STR_OFFSETS, &now, width))
			return false;
	}
	return true;
}

/* A table of string offsets, once: *base is what stands for it in units. */
static bool put_table(struct image *im, struct dwp_bytes t, u32 version, u64 *base)
{
	u32 head = 0, width = 4;

	for (size_t i = im->ntables; i-- > 0;)
		if (im->tables[i].from == t.p) {
			*base = im->tables[i].base;
			return true;
		}
	if (version >= 5 && t.n >= 8) {
		width = mod_load32(t.p) == 0xffffffff ? 8 : 4;
		head = width == 8 ? 16 : 8;
		if (t.n < head)
			return fail(im, "it is damaged: a table of strings is cut short");
	}
	*base = im->sec[DWP_STR_OFFSETS].n + head;
	if (!dp_grow((void **)&im->tables, &im->tables_cap, im->ntables, sizeof(*im->tables)))
		return fail(im, "memory is short");
	im->tables[im->ntables++] = (struct table){t.p, *base};
	return put(im, DWP_STR_OFFSETS, t.p, head) && put_entries(im, t, head, width);
}

/* ---- abbreviations ---- */

static bool uleb(const u8 **p, const u8 *end, u64 *v)
{
	*v = 0;
	for (u32 shift = 0; *p < end; shift += 7) {
		u8 b = *(*p)++;

		if (shift < 64)
			*v |= (u64)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return true;
	}
	return false;
}

/* To the end of the abbreviation at *p, whose code is *code; 0: the end of the table. *last: where its
 * closing zeros stand. */
static bool pass_abbreviation(const u8 **p, const u8 *end, u64 *code, const u8 **last)
{
	u64 tag, name, form, skip;

	if (!uleb(p, end, code))
		return false;
	if (!*code)
		return true;
	if (!uleb(p, end, &tag) || *p == end)
		return false;
	(*p)++; /* children */
	for (u32 i = 0; i < ENTRIES_MAX; i++) {
		*last = *p;
		if (!uleb(p, end, &name) || !uleb(p, end, &form))
			return false;
		if (!name && !form)
			return true;
		if (form == DW_FORM_implicit_const && !uleb(p, end, &skip))
			return false;
	}
	return false;
}

/*
 * The abbreviations of a type unit whose strings stand in a table of its own. Readers take the file's first
 * table where the unit does not name one, so the unit's first entry gets an attribute more, with its value here:
 * the unit itself stays as it is.
 */
static bool put_abbreviations(struct image *im, struct dwp_bytes a, u64 root, u64 base)
{
	const u8 *p = a.p, *end = a.p + a.n, *last = NULL, *here;
	u8 more[16];
	u64 code;

	for (;;) {
		here = p;
		if (!pass_abbreviation(&p, end, &code, &last))
			return fail(im, "it is damaged: an abbreviation is cut short");
		if (!code)
			return put(im, DWP_ABBREV, here, 1);
		if (code == root) {
			u32 n = 0;

			more[n++] = DW_AT_str_offsets_base;
			more[n++] = DW_FORM_implicit_const;
			for (u32 i = 0; i < 5; i++) /* signed: 35 bits hold 32 */
				more[n++] = (u8)((base >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
			if (!put(im, DWP_ABBREV, here, (u64)(last - here)) || !put(im, DWP_ABBREV, more, n) ||
			    !put(im, DWP_ABBREV, last, (u64)(p - last)))
				return false;
			root = 0;
		} else if (!put(im, DWP_ABBREV, here, (u64)(p - here))) {
			return false;
		}
	}
}

/* ---- units ---- */

/* Where a unit's header has the offset of its abbreviations, and how long the header is. false: it is none
 * that can be read; 64-bit offsets, which no compiler writes here, among them. */
static bool read_header(struct dwp_bytes u, bool is_type, u32 *version, u32 *abbrev_at, u32 *header)
{
	if (u.n < 24 || mod_load32(u.p) >= 0xfffffff0 || (u64)mod_load32(u.p) + 4 > u.n)
		return false;
	*version = u.p[4] | (u32)u.p[5] << 8;
	if (*version == 5) {
		*abbrev_at = 8;
		*header = is_type ? 24 : 20;
	} else if (*version == 4) {
		*abbrev_at = 6;
		*header = is_type ? 23 : 11;
	} else {
		return false;
	}
	return true;
}

static bool put_type(struct image *im, u32 row, struct dwp_bytes *unit)
{
	const struct dwp *d = im->d;
	const struct dwp_index *x = &d->types;
	enum dwp_section s = x->version == 5 ? DWP_INFO : DWP_TYPES;
	struct dwp_bytes a, t;
	u32 version, abbrev_at, header;
	u64 base, root, at = im->sec[s].n, own;
	const u8 *p;

	if (!dp_dwp_part(d, x, row, s, unit) || !dp_dwp_part(d, x, row, DWP_ABBREV, &a) ||
	    !dp_dwp_part(d, x, row, DWP_STR_OFFSETS, &t))
		return fail(im, "it is damaged: a part of it lies beyond its section");
	if (!read_header(*unit, true, &version, &abbrev_at, &header))
		return fail(im, "it is damaged: the header of a type cannot be read");
	unit->n = (u64)mod_load32(unit->p) + 4;
	p = unit->p + header;
	if (!uleb(&p, unit->p + unit->n, &root))
		return fail(im, "it is damaged: the header of a type cannot be read");
	own = mod_load32(unit->p + abbrev_at);
	if (own > a.n)
		return fail(im, "it is damaged: a part of it lies beyond its section");
	a = (struct dwp_bytes){a.p + own, a.n - own};
	own = im->sec[DWP_ABBREV].n;
	if (!put_table(im, t, version, &base) || !put_abbreviations(im, a, root, base) || !put(im, s, unit->p, unit->n))
		return false;
	set32(&im->sec[s], at + abbrev_at, (u32)own);
	return true;
}

/* Units refer to types by their signatures: eight bytes anywhere in them. What only looks like one does no
 * harm. */
static void find_types(struct image *im, struct dwp_bytes u)
{
	for (u64 i = 0; i + 8 <= u.n; i++) {
		u32 row = dp_dwp_row(&im->d->types, mod_load64(u.p + i));

		if (row && !im->taken[row - 1]) {
			im->taken[row - 1] = true;
			im->queue[im->nqueue++] = row;
		}
	}
}

static bool put_types(struct image *im, struct dwp_bytes unit)
{
	const struct dwp_index *x = &im->d->types;

	if (!x->rows)
		return true;
	im->taken = calloc(x->rows, sizeof(*im->taken));
	im->queue = calloc(x->rows, sizeof(*im->queue));
	if (!im->taken || !im->queue)
		return fail(im, "memory is short");
	find_types(im, unit);
	for (u32 i = 0; i < im->nqueue; i++) {
		if (!put_type(im, im->queue[i], &unit))
			return false;
		find_types(im, unit);
	}
	return true;
}

static bool put_unit(struct image *im, u32 row)
{
	static const enum dwp_section whole[] = {DWP_LINE, DWP_LOC, DWP_LOCLISTS, DWP_RNGLISTS};
	const struct dwp *d = im->d;
	struct dwp_bytes unit, part;
	u32 version, abbrev_at, header;
	u64 base;

	if (!dp_dwp_part(d, &d->units, row, DWP_INFO, &unit))
		return fail(im, "it is damaged: a part of it lies beyond its section");
	if (!read_header(unit, false, &version, &abbrev_at, &header))
		return fail(im, "it is damaged: the header of a unit cannot be read");
	unit.n = (u64)mod_load32(unit.p) + 4;
	if (!put(im, DWP_INFO, unit.p, unit.n))
		return false;
	for (u32 i = 0; i < DP_ARRAY_SIZE(whole); i++) {
		if (!dp_dwp_part(d, &d->units, row, whole[i], &part))
			return fail(im, "it is damaged: a part of it lies beyond its section");
		if (!put(im, whole[i], part.p, part.n))
			return false;
	}
	if (!dp_dwp_part(d, &d->units, row, DWP_ABBREV, &part) || !put(im, DWP_ABBREV, part.p, part.n) ||
	    !dp_dwp_part(d, &d->units, row, DWP_STR_OFFSETS, &part))
		return im->why ? false : fail(im, "it is damaged: a part of it lies beyond its section");
	return put_table(im, part, version, &base) && put_types(im, unit);
}

/* ---- the file ---- */

static bool write_all(int fd, const void *p, u64 n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w <= 0)
			return false;
		p = (const u8 *)p + w;
		n -= (u64)w;
	}
	return true;
}

static bool write_file(struct image *im, int fd)
{
	Elf64_Ehdr eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = ET_REL,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_ehsize = sizeof(eh),
			 .e_shentsize = sizeof(Elf64_Shdr)};
	Elf64_Shdr sh[DWP_CUT + 3] = {{0}};
	char names[512] = "";
	u64 at = sizeof(eh);
	u32 n = 1, name = 1;

	for (u32 i = 0; i <= DWP_CUT; i++) {
		u32 len = (u32)strlen(dp_dwp_section_names[i]) + 1;

		if (!im->sec[i].n)
			continue;
		sh[n++] = (Elf64_Shdr){.sh_name = name,
				       .sh_type = SHT_PROGBITS,
				       .sh_offset = at,
				       .sh_size = im->sec[i].n,
				       .sh_addralign = 1};
		memcpy(names + name, dp_dwp_section_names[i], len);
		name += len;
		at += im->sec[i].n;
	}
	memcpy(names + name, ".shstrtab", 10);
	sh[n] = (Elf64_Shdr){
	    .sh_name = name, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = name + 10, .sh_addralign = 1};
	eh.e_shstrndx = (Elf64_Half)n;
	eh.e_shnum = (Elf64_Half)(n + 1);
	eh.e_shoff = (at + name + 10 + 7) & ~7ull;
	if (!write_all(fd, &eh, sizeof(eh)))
		return false;
	for (u32 i = 0; i <= DWP_CUT; i++)
		if (!write_all(fd, im->sec[i].v, im->sec[i].n))
			return false;
	return write_all(fd, names, eh.e_shoff - at) && write_all(fd, sh, sizeof(*sh) * eh.e_shnum);
}

int dp_dwp_unit_file(const struct dwp *d, u32 row, const char **why)
{
	struct image im = {.d = d};
	int fd = -1;

	if (put_unit(&im, row)) {
		fd = memfd_create("dwo", MFD_CLOEXEC);
		if (fd < 0 || !write_file(&im, fd)) {
			im.why = "memory is short";
			if (fd >= 0)
				close(fd);
			fd = -1;
		}
	}
	for (u32 i = 0; i <= DWP_CUT; i++)
		free(im.sec[i].v);
	free(im.tables);
	free(im.taken);
	free(im.queue);
	if (fd < 0)
		*why = im.why;
	return fd;
}
