/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where the debug information of a module is: in the file itself, or in the separate file that
 * debugfile.c finds; and the file that several packages' debug files share (dwz). Opened when it is
 * first asked for.
 */
#include <dwarf.h>
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

	for (u32 i = 0; fd < 0 && dp_mod_debug_path(i, name, path, sizeof(path)); i++)
		fd = dp_open_regular(path);
	return fd;
}

static void path_of(int fd, char *path, size_t size)
{
	char link[32];
	ssize_t n;

	dp_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	path[n > 0 ? n : 0] = '\0';
}

/* As libdw puts together where a file is that debug information names: beside it where the name is not absolute. */
static void beside(int fd, const char *dir, const char *name, char *path, size_t size)
{
	char own[4096] = "";

	if (*name == '/') {
		dp_format(path, size, "%s", name);
		return;
	}
	if (!dir || *dir != '/')
		path_of(fd, own, sizeof(own));
	*(strrchr(own, '/') ? strrchr(own, '/') : own) = '\0';
	dp_format(path, size, "%s%s%s/%s", own, dir && *dir != '/' ? "/" : "", dir ? dir : "", name);
}

/*
 * libdw opens the files with the split parts by itself, and would wait for ever for somebody who writes to a pipe.
 * Whether one of them is no regular file is asked once, when the debug information is opened.
 */
static bool odd_split(Dwarf *dw, int fd)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	u8 type;

	while (!dwarf_get_units(dw, cu, &cu, NULL, &type, &die, NULL)) {
		Dwarf_Attribute attr;
		const char *name, *dir;
		char path[8300];

		if (type != DW_UT_skeleton ||
		    (!dwarf_attr(&die, DW_AT_dwo_name, &attr) && !dwarf_attr(&die, DW_AT_GNU_dwo_name, &attr)))
			continue;
		name = dwarf_formstring(&attr);
		dir = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &attr));
		for (int i = 0; name && i < 2; i++) {
			beside(fd, i ? dir : NULL, name, path, sizeof(path));
			if (dp_is_odd_file(path))
				return true;
		}
	}
	return false;
}

/*
 * What dwz moved out of the debug file: without it names and types of many entries are missing. False: it is no regular
 * file.
 */
static bool open_alt(struct dp_module *m, int fd)
{
	const char *name;
	const void *id;
	ssize_t n = dwelf_dwarf_gnu_debugaltlink(m->dw.main, &name, &id);
	char hex[2 * 64 + 1] = "", path[8300];

	if (n <= 0 || !name)
		return true;
	for (ssize_t i = 0; i < DP_MIN(n, 64); i++)
		dp_format(hex + 2 * i, 3, "%02x", ((const u8 *)id)[i]);
	dp_format(path, sizeof(path), "/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (n > 2 && n <= 64)
		m->dw.alt_fd = open_below_roots(path);
	if (m->dw.alt_fd < 0 && !strncmp(name, DEBUG_ROOT "/", strlen(DEBUG_ROOT) + 1))
		m->dw.alt_fd = open_below_roots(name + strlen(DEBUG_ROOT));
	beside(fd, NULL, name, path, sizeof(path));
	if (m->dw.alt_fd < 0)
		m->dw.alt_fd = dp_open_regular(path);
	if (m->dw.alt_fd < 0)
		return !dp_is_odd_file(path);
	m->dw.alt = dwarf_begin(m->dw.alt_fd, DWARF_C_READ);
	if (m->dw.alt)
		dwarf_setalt(m->dw.main, m->dw.alt);
	return true;
}

static bool has_info(Dwarf *dw)
{
	Dwarf_CU *cu = NULL;

	return dw && dwarf_get_units(dw, NULL, &cu, NULL, NULL, NULL, NULL) == 0;
}

/* Debug information that is there, in the file fd, with what belongs to it. NULL: it is not to be trusted. */
static Dwarf *use(struct dp_module *m, int fd)
{
	/* First of all: libdw would look for the shared file by itself as soon as it meets a name that lies there. */
	bool good = open_alt(m, fd) && !odd_split(m->dw.main, fd);
	Dwarf *dw = m->dw.main;

	if (!good) {
		dp_format(m->debug_why, sizeof(m->debug_why), "its debug information names what is no regular file");
		dwarf_end(dw);
		return m->dw.main = NULL;
	}
	m->dw.main = dp_mod_dwp_open(m, dw);
	if (m->dw.main != dw && m->dw.alt)
		dwarf_setalt(m->dw.main, m->dw.alt);
	return m->dw.main;
}

/*
 * From 0.191 on libdw also opens FILE.dwp by itself. Where that is no regular file, libdw is not told which file it
 * reads.
 */
static Dwarf *begin(Elf *elf, int fd)
{
	char own[4096], path[4200];

	path_of(fd, own, sizeof(own));
	dp_format(path, sizeof(path), "%s.dwp", own);
	if (*own && dp_is_odd_file(path))
		elf_cntl(elf, ELF_C_FDREAD);
	return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}

Dwarf *dp_mod_dwarf(struct dp_module *m)
{
	if (m->dw.tried)
		return m->dw.main;
	m->dw.tried = true;
	m->dw.alt_fd = -1;
	m->dw.main = begin(m->elf, m->fd);
	if (has_info(m->dw.main))
		return use(m, m->fd);
	if (m->dw.main)
		dwarf_end(m->dw.main);
	m->dw.main = NULL;
	if (!dp_mod_open_debug(m) && !dp_mod_fetch_debug(m))
		return NULL;
	m->dw.main = begin(m->debug.elf, m->debug.fd);
	if (has_info(m->dw.main))
		return use(m, m->debug.fd);
	if (m->dw.main)
		dwarf_end(m->dw.main);
	return m->dw.main = NULL;
}

u64 dp_module_debug_bytes(struct dp_module *m)
{
	Elf *elf = dp_mod_dwarf(m) ? dwarf_getelf(m->dw.main) : NULL;
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

bool dp_mod_frame_at(struct dp_module *m, u64 addr, Dwarf_Frame **frame)
{
	if (!m->dw.cfi_tried) {
		m->dw.cfi_tried = true;
		m->dw.eh = dwarf_getcfi_elf(m->elf);
		m->dw.frame = dp_mod_dwarf(m) ? dwarf_getcfi(m->dw.main) : NULL; /* belongs to the Dwarf */
	}
	return (m->dw.eh && !dwarf_cfi_addrframe(m->dw.eh, addr, frame)) ||
	       (m->dw.frame && !dwarf_cfi_addrframe(m->dw.frame, addr, frame));
}

void dp_mod_close_dwarf(struct dp_module *m)
{
	if (m->dw.eh)
		dwarf_cfi_end(m->dw.eh);
	if (m->dw.main)
		dwarf_end(m->dw.main);
	if (m->dw.alt) {
		dwarf_end(m->dw.alt);
		close(m->dw.alt_fd);
	}
	dp_mod_dwp_close(m);
	free(m->dw.dwp_path);
	free(m->dw.code);
}

bool dp_mod_next_unit(struct dp_module *m, Dwarf_CU **cu, Dwarf_Die *unit)
{
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_Die split;
	u8 type;

	while (dw && !dwarf_get_units(dw, *cu, cu, NULL, &type, unit, NULL)) {
		if (type == DW_UT_skeleton && dp_mod_split_of(m, *cu, &split))
			*unit = split;
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			return true;
	}
	return false;
}
