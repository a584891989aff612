/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The names of a module's functions that have been inlined somewhere, kept between commands: as a number for each,
 * which others may have, too. Of most functions that people name there is no inlined copy, and it takes all of the
 * debug information to find that out.
 */
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "symbols/kept.h"
#include "symbols/vars.h"

#define KEEP_FROM (256u << 10) /* bytes of debug information; less is read faster */

struct kept_inlined {
	struct kept_of of;
	u64 n, numbers[]; /* sorted */
};

static u64 number_of(const char *name)
{
	return dp_hash(DP_HASH_BEGIN, name, strlen(name));
}

static bool has_own_info(const struct dp_module *m)
{
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;

	while (!elf_getshdrstrndx(m->elf, &names) && (scn = elf_nextscn(m->elf, scn))) {
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(m->elf, names, sh.sh_name) : NULL;

		if (name && !strcmp(name, ".debug_info"))
			return true;
	}
	return false;
}

/* What may be fetched is not known beforehand. */
static bool identify(struct dp_module *m, struct kept_of *of)
{
	bool own = has_own_info(m);

	return dp_kept_identify(m, "dpinln1", own, of) && (own || of->debug.ino);
}

static int by_number(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

bool dp_mod_is_never_inlined(struct dp_module *m, const char *name)
{
	struct kept_inlined *k;
	struct kept_of want;
	u64 size, number = number_of(name);
	bool never;

	k = identify(m, &want) ? dp_kept_map(&want, KEPT_INLINED, &size) : NULL;
	if (!k)
		return false;
	never = size >= sizeof(*k) && k->n == (size - sizeof(*k)) / sizeof(u64) &&
		!bsearch(&number, k->numbers, k->n, sizeof(u64), by_number);
	munmap(k, size);
	return never;
}

bool dp_mod_note_inlined(struct mod_addrs *all, const char *name)
{
	return MOD_PUSH(all, number_of(name));
}

/* The names may be in files that come and go by themselves: what dwz has moved out, and split parts. */
static bool is_whole(struct dp_module *m)
{
	Dwarf_CU *cu = NULL;
	const void *id;
	const char *name;
	Dwarf_Die die;
	u8 type;

	if (dwelf_dwarf_gnu_debugaltlink(m->dw.main, &name, &id) > 0 && !m->dw.alt)
		return false;
	while (!dwarf_get_units(m->dw.main, cu, &cu, NULL, &type, &die, NULL))
		if (type == DW_UT_skeleton)
			return false;
	return true;
}

static void sort_once_each(struct mod_addrs *all)
{
	size_t n = 0;

	qsort(all->v, all->n, sizeof(*all->v), by_number);
	for (size_t i = 0; i < all->n; i++)
		if (!n || all->v[n - 1] != all->v[i])
			all->v[n++] = all->v[i];
	all->n = n;
}

void dp_mod_keep_inlined(struct dp_module *m, struct mod_addrs *all)
{
	struct kept_inlined head = {.n = 0};
	struct kept_file file;
	size_t size;
	bool good;

	if (!m->dw.main || dp_module_debug_bytes(m) < KEEP_FROM || !identify(m, &head.of) ||
	    !dp_kept_is_at_rest(m, &head.of) || !is_whole(m) || !dp_kept_begin(&head.of, KEPT_INLINED, &file))
		return;
	if (all->n)
		sort_once_each(all);
	head.n = all->n;
	size = all->n * sizeof(*all->v);
	good = write(file.fd, &head, sizeof(head)) == sizeof(head) && write(file.fd, all->v, size) == (ssize_t)size;
	dp_kept_end(&file, good);
}
