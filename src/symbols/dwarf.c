/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where the debug information of a module is: in the file itself, or in the separate file that
 * debugfile.c finds; and the file that several packages' debug files share (dwz). Opened when it is
 * first asked for.
 */
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/module-priv.h"
#include "symbols/vars.h"

#define DEBUG_ROOT "/usr/lib/debug"

/* The first of these files that is there. */
static int open_below_roots(const char *name)
{
	char path[8192];
	int fd = -1;

	for (u32 i = 0; fd < 0 && mod_debug_path(i, name, path, sizeof(path)); i++)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* What dwz moved out of the debug file: without it names and types of many entries are missing. */
static void open_alt(struct dp_module *m)
{
	const char *name;
	const void *id;
	ssize_t n = dwelf_dwarf_gnu_debugaltlink(m->dw.main, &name, &id);
	char hex[2 * 64 + 1] = "", path[256];

	if (n <= 2 || n > 64)
		return;
	for (ssize_t i = 0; i < n; i++)
		dp_format(hex + 2 * i, 3, "%02x", ((const u8 *)id)[i]);
	dp_format(path, sizeof(path), "/.build-id/%.2s/%s.debug", hex, hex + 2);
	m->dw.alt_fd = open_below_roots(path);
	if (m->dw.alt_fd < 0 && !strncmp(name, DEBUG_ROOT "/", strlen(DEBUG_ROOT) + 1))
		m->dw.alt_fd = open_below_roots(name + strlen(DEBUG_ROOT));
	if (m->dw.alt_fd < 0 && *name == '/')
		m->dw.alt_fd = open(name, O_RDONLY | O_CLOEXEC);
	if (m->dw.alt_fd < 0)
		return;
	m->dw.alt = dwarf_begin(m->dw.alt_fd, DWARF_C_READ);
	if (m->dw.alt)
		dwarf_setalt(m->dw.main, m->dw.alt);
}

static bool has_info(Dwarf *dw)
{
	Dwarf_CU *cu = NULL;

	return dw && dwarf_get_units(dw, NULL, &cu, NULL, NULL, NULL, NULL) == 0;
}

Dwarf *mod_dwarf(struct dp_module *m)
{
	if (m->dw.tried)
		return m->dw.main;
	m->dw.tried = true;
	m->dw.alt_fd = -1;
	m->dw.main = dwarf_begin_elf(m->elf, DWARF_C_READ, NULL);
	if (has_info(m->dw.main))
		return m->dw.main = mod_dwp_open(m, m->dw.main);
	if (m->dw.main)
		dwarf_end(m->dw.main);
	m->dw.main = NULL;
	if (!m->debug.elf && !mod_open_debug(m) && !mod_fetch_debug(m))
		return NULL;
	m->dw.main = dwarf_begin_elf(m->debug.elf, DWARF_C_READ, NULL);
	if (has_info(m->dw.main)) {
		m->dw.main = mod_dwp_open(m, m->dw.main);
		open_alt(m);
		return m->dw.main;
	}
	if (m->dw.main)
		dwarf_end(m->dw.main);
	return m->dw.main = NULL;
}

u64 dp_module_debug_bytes(struct dp_module *m)
{
	Elf *elf = mod_dwarf(m) ? dwarf_getelf(m->dw.main) : NULL;
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;
	u64 n = 0;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return 0;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;

		n += name && !strncmp(name, ".debug_", 7) ? sh.sh_size : 0;
	}
	return n;
}

bool mod_frame_at(struct dp_module *m, u64 addr, Dwarf_Frame **frame)
{
	if (!m->dw.cfi_tried) {
		m->dw.cfi_tried = true;
		m->dw.eh = dwarf_getcfi_elf(m->elf);
		m->dw.frame = mod_dwarf(m) ? dwarf_getcfi(m->dw.main) : NULL; /* belongs to the Dwarf */
	}
	return (m->dw.eh && !dwarf_cfi_addrframe(m->dw.eh, addr, frame)) ||
	       (m->dw.frame && !dwarf_cfi_addrframe(m->dw.frame, addr, frame));
}

void mod_close_dwarf(struct dp_module *m)
{
	if (m->dw.eh)
		dwarf_cfi_end(m->dw.eh);
	if (m->dw.main)
		dwarf_end(m->dw.main);
	if (m->dw.alt) {
		dwarf_end(m->dw.alt);
		close(m->dw.alt_fd);
	}
	mod_dwp_close(m);
	free(m->dw.dwp_path);
}
