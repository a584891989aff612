/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Packages of split debug information: PROGRAM.dwp, into which dwp collects the .dwo files of a
 * program. libdw (elfutils 0.188) reads .dwo files only, so each unit that is asked for is taken out into one
 * in memory, and what the program's own debug information says of the file's name is changed, in our
 * copy of it, to the descriptor under which it is open. Nothing is written to disk.
 */
#include <dwarf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/dwp-priv.h"

const char *const dp_dwp_section_names[DWP_SECTIONS] = {
    [DWP_INFO] = ".debug_info.dwo",         [DWP_TYPES] = ".debug_types.dwo",
    [DWP_ABBREV] = ".debug_abbrev.dwo",     [DWP_LINE] = ".debug_line.dwo",
    [DWP_LOC] = ".debug_loc.dwo",           [DWP_LOCLISTS] = ".debug_loclists.dwo",
    [DWP_RNGLISTS] = ".debug_rnglists.dwo", [DWP_STR_OFFSETS] = ".debug_str_offsets.dwo",
    [DWP_STR] = ".debug_str.dwo",           [DWP_CU_INDEX] = ".debug_cu_index",
    [DWP_TU_INDEX] = ".debug_tu_index",
};

#define COLUMNS_MAX 16

/* What a column holds, by its number in the index; -1: nothing that is needed. */
static int section_of(u32 version, u32 number)
{
	static const signed char before[] = {-1, DWP_INFO, DWP_TYPES, DWP_ABBREV, DWP_LINE, DWP_LOC, DWP_STR_OFFSETS};
	static const signed char five[] = {-1,           DWP_INFO,        -1, DWP_ABBREV,  DWP_LINE,
					   DWP_LOCLISTS, DWP_STR_OFFSETS, -1, DWP_RNGLISTS};

	if (version == 5)
		return number < DP_ARRAY_SIZE(five) ? five[number] : -1;
	return number < DP_ARRAY_SIZE(before) ? before[number] : -1;
}

/* false: damaged. */
static bool read_index(struct dwp_bytes b, struct dwp_index *x)
{
	const u8 *p = b.p;
	u64 need;

	*x = (struct dwp_index){0};
	if (!b.n)
		return true;
	if (b.n < 16)
		return false;
	x->version = mod_load32(p) & 0xffff; /* 2: a word; 5: half of one */
	x->columns = mod_load32(p + 4);
	x->rows = mod_load32(p + 8);
	x->slots = mod_load32(p + 12);
	if ((x->version != 2 && x->version != 5) || x->columns > COLUMNS_MAX || x->rows > x->slots ||
	    x->slots & (x->slots - 1))
		return false;
	need = 16 + 12 * (u64)x->slots + 4 * x->columns + 8 * (u64)x->columns * x->rows;
	if (need > b.n)
		return false;
	x->signatures = p + 16;
	x->numbers = x->signatures + 8 * (u64)x->slots;
	x->heads = x->numbers + 4 * (u64)x->slots;
	x->offsets = x->heads + 4 * x->columns;
	x->sizes = x->offsets + 4 * (u64)x->columns * x->rows;
	return true;
}

u32 dp_dwp_row(const struct dwp_index *x, u64 signature)
{
	u32 mask = x->slots - 1, slot = (u32)signature & mask, step = ((u32)(signature >> 32) & mask) | 1, row;

	for (u32 i = 0; i < x->slots; i++, slot = (slot + step) & mask) {
		row = mod_load32(x->numbers + 4 * (u64)slot);
		if (!row)
			return 0;
		if (mod_load64(x->signatures + 8 * (u64)slot) == signature)
			return row <= x->rows ? row : 0;
	}
	return 0;
}

bool dp_dwp_part(const struct dwp *d, const struct dwp_index *x, u32 row, enum dwp_section s, struct dwp_bytes *part)
{
	*part = (struct dwp_bytes){NULL, 0};
	for (u32 i = 0; i < x->columns; i++) {
		u64 at = 4 * ((u64)(row - 1) * x->columns + i);
		u64 offset = mod_load32(x->offsets + at), size = mod_load32(x->sizes + at);

		if (section_of(x->version, mod_load32(x->heads + 4 * i)) != (int)s)
			continue;
		if (offset > d->sec[s].n || size > d->sec[s].n - offset)
			return false;
		*part = (struct dwp_bytes){d->sec[s].p + offset, size};
		return true;
	}
	return true;
}

/* A section's data, uncompressed; it lives as long as the Elf. */
static Elf_Data *data_of(Elf_Scn *scn, const GElf_Shdr *sh)
{
	if (sh->sh_type == SHT_NOBITS)
		return NULL;
	if (sh->sh_flags & SHF_COMPRESSED && elf_compress(scn, 0, 0) < 0)
		return NULL;
	return elf_rawdata(scn, NULL);
}

static bool read_sections(struct dwp *d)
{
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;

	if (elf_kind(d->elf) != ELF_K_ELF || gelf_getclass(d->elf) != ELFCLASS64 || elf_getshdrstrndx(d->elf, &names))
		return false;
	while ((scn = elf_nextscn(d->elf, scn))) {
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(d->elf, names, sh.sh_name) : NULL;
		Elf_Data *data;

		for (int i = 0; name && i < DWP_SECTIONS; i++) {
			if (strcmp(name, dp_dwp_section_names[i]))
				continue;
			data = data_of(scn, &sh);
			if (!data || (data->d_size && !data->d_buf))
				return false;
			d->sec[i] = (struct dwp_bytes){data->d_buf, data->d_size};
		}
	}
	return d->sec[DWP_CU_INDEX].n && read_index(d->sec[DWP_CU_INDEX], &d->units) &&
	       read_index(d->sec[DWP_TU_INDEX], &d->types);
}

/* ---- finding it ---- */

static bool try_path(struct dp_module *m, const char *path)
{
	int fd = dp_open_regular(path);

	if (fd < 0)
		return false;
	m->dw.dwp = calloc(1, sizeof(*m->dw.dwp));
	m->dw.dwp_path = strdup(path);
	if (!m->dw.dwp || !m->dw.dwp_path) {
		free(m->dw.dwp);
		m->dw.dwp = NULL;
		close(fd);
		return false;
	}
	m->dw.dwp->fd = fd;
	m->dw.dwp->window = -1;
	return true;
}

/* Beside a file: FILE.dwp, and for FILE.debug the name without that, too. */
static bool try_beside(struct dp_module *m, const char *file)
{
	size_t n = strlen(file);
	char path[4200];

	dp_format(path, sizeof(path), "%.4000s.dwp", file);
	if (try_path(m, path))
		return true;
	if (n <= 6 || strcmp(file + n - 6, ".debug"))
		return false;
	dp_format(path, sizeof(path), "%.*s.dwp", (int)DP_MIN(n - 6, (size_t)4000), file);
	return try_path(m, path);
}

static bool below_roots(struct dp_module *m, const char *name)
{
	char path[8192];

	for (u32 i = 0; dp_mod_debug_path(i, name, path, sizeof(path)); i++)
		if (try_path(m, path))
			return true;
	return false;
}

static bool find_file(struct dp_module *m, int debug_fd)
{
	char name[4300], link[32], target[4096], *real = realpath(m->path, NULL);
	bool found = try_beside(m, m->path) || (real && strcmp(real, m->path) && try_beside(m, real));
	ssize_t n;

	dp_format(link, sizeof(link), "/proc/self/fd/%d", debug_fd);
	n = found ? -1 : readlink(link, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = '\0';
		found = try_beside(m, target);
	}
	if (!found && strlen(m->build_id) > 2) {
		dp_format(name, sizeof(name), "/.build-id/%.2s/%s.dwp", m->build_id, m->build_id + 2);
		found = below_roots(m, name);
	}
	if (!found && real) {
		dp_format(name, sizeof(name), "%.4000s.dwp", real);
		found = below_roots(m, name);
	}
	free(real);
	return found;
}

/* ---- other names for the .dwo files ---- */

static const char *const changed_sections[] = {".debug_info", ".debug_str", ".debug_line_str", ".debug_str_offsets"};

struct rename {
	struct dwp *d;
	Dwarf *dw;
	u64 path_at[2]; /* of the new name in .debug_str, .debug_line_str */
	u8 *index;      /* .debug_str_offsets */
	u64 index_size;
};

/* Copies of the sections that are changed: the mapped file is not ours to write. */
static bool copy_sections(struct rename *r)
{
	Elf *elf = r->d->skeletons;
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;

	if (elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
		size_t i = 0, more = strlen(r->d->window_path) + 2;
		Elf_Data *data, *raw;
		u8 *copy;

		while (name && i < DP_ARRAY_SIZE(changed_sections) && strcmp(name, changed_sections[i]))
			i++;
		if (!name || i == DP_ARRAY_SIZE(changed_sections) || r->d->ncopies == DP_ARRAY_SIZE(r->d->copies))
			continue;
		raw = data_of(scn, &sh);
		data = raw ? elf_getdata(scn, NULL) : NULL;
		if (!data || (data->d_size && !data->d_buf) || !(copy = malloc(data->d_size + more)))
			return false;
		if (data->d_size)
			memcpy(copy, data->d_buf, data->d_size);
		r->d->copies[r->d->ncopies++] = copy;
		if (i == 1 || i == 2) { /* strings: the new name stands behind them */
			copy[data->d_size] = '\0';
			memcpy(copy + data->d_size + 1, r->d->window_path, more - 1);
			r->path_at[i - 1] = data->d_size + 1;
			data->d_size += more;
		} else if (i == 3) {
			r->index = copy;
			r->index_size = data->d_size;
		}
		data->d_buf = copy;
		if (raw != data)
			*raw = *data;
	}
	return true;
}

static bool uleb(const u8 *p, u64 *v)
{
	*v = 0;
	for (int i = 0; i < 5; i++) {
		*v |= (u64)(p[i] & 0x7f) << 7 * i;
		if (!(p[i] & 0x80))
			return true;
	}
	return false;
}

/* attr points into our copy of .debug_info; libdw has seen that its value lies inside. */
static bool rename_unit(struct rename *r, Dwarf_Die *die, u32 offset_size)
{
	static const u8 width[] = {1, 2, 3, 4};
	Dwarf_Attribute attr, base_attr;
	u64 entry = 0, base = 0;
	Dwarf_Word word;
	u8 *at;
	u32 form;

	if (!dwarf_attr(die, DW_AT_dwo_name, &attr) && !dwarf_attr(die, DW_AT_GNU_dwo_name, &attr))
		return false;
	at = (u8 *)(uintptr_t)attr.valp;
	form = dwarf_whatform(&attr);
	if (form == DW_FORM_strp || form == DW_FORM_line_strp) {
		u64 to = r->path_at[form == DW_FORM_line_strp];

		if (!to)
			return false;
		memcpy(at, &to, offset_size);
		return true;
	}
	if (form >= DW_FORM_strx1 && form <= DW_FORM_strx4)
		memcpy(&entry, at, width[form - DW_FORM_strx1]);
	else if (form != DW_FORM_strx || !uleb(at, &entry))
		return false;
	if (dwarf_attr(die, DW_AT_str_offsets_base, &base_attr) && !dwarf_formudata(&base_attr, &word))
		base = word;
	if (!r->path_at[0] || base > r->index_size || entry >= (r->index_size - base) / offset_size)
		return false;
	memcpy(r->index + base + entry * offset_size, &r->path_at[0], offset_size);
	return true;
}

/* The same debug information once more, with new names. NULL: it has no such units. */
static Dwarf *renamed(struct dp_module *m, int fd)
{
	struct rename r = {.d = m->dw.dwp};
	Dwarf_CU *cu = NULL;
	u8 type, offset_size;
	Dwarf_Die die;
	bool any = false;
	u64 id;

	r.d->skeletons = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!r.d->skeletons || !copy_sections(&r))
		return NULL;
	r.dw = dwarf_begin_elf(r.d->skeletons, DWARF_C_READ, NULL);
	while (r.dw && !dwarf_get_units(r.dw, cu, &cu, NULL, &type, &die, NULL))
		if (type == DW_UT_skeleton && !dwarf_cu_info(cu, NULL, NULL, NULL, NULL, &id, NULL, &offset_size) &&
		    dp_dwp_row(&r.d->units, id) && (offset_size == 4 || offset_size == 8))
			any |= rename_unit(&r, &die, offset_size);
	if (any)
		return r.dw;
	if (r.dw)
		dwarf_end(r.dw);
	return NULL;
}

static bool has_skeletons(Dwarf *dw)
{
	Dwarf_CU *cu = NULL;
	u8 type;

	while (!dwarf_get_units(dw, cu, &cu, NULL, &type, NULL, NULL))
		if (type == DW_UT_skeleton)
			return true;
	return false;
}

Dwarf *dp_mod_dwp_open(struct dp_module *m, Dwarf *dw)
{
	int fd = m->debug.elf && dwarf_getelf(dw) == m->debug.elf ? m->debug.fd : m->fd;
	struct dwp *d;
	Dwarf *other = NULL;

	if (!has_skeletons(dw) || !find_file(m, fd))
		return dw;
	d = m->dw.dwp;
	d->elf = elf_begin(d->fd, ELF_C_READ_MMAP, NULL);
	if (!d->elf || !read_sections(d)) {
		m->dw.dwp_why = "its index cannot be read";
	} else if ((d->window = fcntl(d->fd, F_DUPFD_CLOEXEC, 3)) >= 0) {
		dp_format(d->window_path, sizeof(d->window_path), "/proc/self/fd/%d", d->window);
		d->asked = calloc(d->units.rows + 1ull, sizeof(*d->asked));
		other = d->asked ? renamed(m, fd) : NULL;
		if (!other)
			m->dw.dwp_why = "it has none of the program's units: it belongs to another build";
	}
	if (!other) {
		dp_mod_dwp_close(m);
		return dw;
	}
	dwarf_end(dw);
	return other;
}

bool dp_mod_split_of(struct dp_module *m, Dwarf_CU *cu, Dwarf_Die *split)
{
	struct dwp *d = m->dw.dwp;
	u8 type;
	u64 id;
	u32 row;
	int fd;

	if (dwarf_cu_info(cu, NULL, &type, NULL, NULL, &id, NULL, NULL) || type != DW_UT_skeleton)
		return false;
	row = d ? dp_dwp_row(&d->units, id) : 0;
	if (row && !d->asked[row - 1]) {
		fd = dp_dwp_unit_file(d, row, &m->dw.dwp_why);
		if (fd >= 0 && dup3(fd, d->window, O_CLOEXEC) < 0)
			m->dw.dwp_why = "there are too many open files";
		if (fd >= 0)
			close(fd);
		d->asked[row - 1] = true;
	}
	/* libdw looks once for each unit, and keeps what it finds. */
	if (dwarf_cu_info(cu, NULL, NULL, NULL, split, NULL, NULL, NULL))
		return false;
	if (row)
		dup3(d->fd, d->window, O_CLOEXEC); /* gives the unit's memory back when libdw does */
	return dwarf_tag(split) != 0;
}

void dp_mod_dwp_close(struct dp_module *m)
{
	struct dwp *d = m->dw.dwp;

	if (!d)
		return;
	if (d->skeletons)
		elf_end(d->skeletons);
	if (d->elf)
		elf_end(d->elf);
	if (d->window >= 0)
		close(d->window);
	close(d->fd);
	for (u32 i = 0; i < d->ncopies; i++)
		free(d->copies[i]);
	free(d->asked);
	free(d);
	m->dw.dwp = NULL;
}
