/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Files of the kernel's modules, by the list that depmod makes: what is known of one that is not loaded yet. They may
 * be compressed.
 */
#include <elfutils/libdwfl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "symbols/module-priv.h"

bool dp_kernel_module_loaded(const char *module)
{
	char path[128];

	dp_format(path, sizeof(path), "/sys/module/%.80s/initstate", module); /* what is built in has none */
	return !access(path, F_OK);
}

/* "kernel/net/nf-conntrack.ko.xz: ..." is of the module nf_conntrack. */
static bool is_of(const char *line, size_t len, const char *module)
{
	const char *base = line;

	for (size_t i = 0; i < len; i++)
		if (line[i] == '/')
			base = line + i + 1;
	for (; *module; module++, base++)
		if (*base != *module && !(*base == '-' && *module == '_'))
			return false;
	return !strncmp(base, ".ko", 3);
}

/* The file; false: there is none. */
static bool find_file(const char *module, char *path, size_t size)
{
	char dir[128], list[160], *line = NULL;
	struct utsname name;
	bool found = false;
	size_t room = 0;
	FILE *f = NULL;

	if (!uname(&name)) {
		dp_format(dir, sizeof(dir), "/lib/modules/%.65s", name.release);
		dp_format(list, sizeof(list), "%s/modules.dep", dir);
		f = fopen(list, "re");
	}
	while (f && !found && getline(&line, &room, f) > 0) {
		size_t len = strcspn(line, ":\n");

		found = is_of(line, len, module);
		if (found)
			dp_format(path, size, *line == '/' ? "%s%.*s" : "%s/%.*s", *line == '/' ? "" : dir, (int)len,
				  line);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

bool dp_kernel_module_file(const char *module, char *path, size_t size)
{
	return find_file(module, path, size);
}

bool dp_kernel_module_has_file(const char *module)
{
	char path[4096];

	return find_file(module, path, sizeof(path));
}

static int nowhere(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, const char *file, const char *link,
		   GElf_Word crc, char **found)
{
	return -1;
}

/* NULL: it cannot be read. dwfl_end() it. */
static Dwfl *open_file(const char *path, Dwfl_Module **mod)
{
	static const Dwfl_Callbacks callbacks = {
	    .find_elf = dwfl_build_id_find_elf,
	    .find_debuginfo = nowhere,
	    .section_address = dwfl_offline_section_address,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);

	*mod = dwfl ? dwfl_report_offline(dwfl, "", path, -1) : NULL;
	if (*mod)
		return dwfl;
	dwfl_end(dwfl);
	return NULL;
}

int dp_kernel_module_open(struct dp_module **m, const char *path, struct dp_error *err)
{
	Dwfl_Module *mod;
	Dwfl *dwfl = open_file(path, &mod);
	GElf_Addr bias;
	Elf *elf = dwfl ? dwfl_module_getelf(mod, &bias) : NULL;
	int fd = elf ? dp_kernel_module_link(elf) : -1, r;

	*m = NULL;
	dwfl_end(dwfl);
	if (fd < 0)
		return dp_fail(err, E_ELF_BAD, "%.200s is no module of the kernel", path);
	r = dp_module_open_fd(m, fd, path, err);
	close(fd);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dp_ksym *)a)->name, ((const struct dp_ksym *)b)->name);
}

/* The name by which the module's loader calls a function that has one of its own, too. */
static bool is_alias(Dwfl_Module *mod, int all, const char *name, const GElf_Sym *s)
{
	bool found = false;

	if (strcmp(name, "init_module") != 0 && strcmp(name, "cleanup_module") != 0)
		return false;
	for (int i = 1; i < all && !found; i++) {
		GElf_Sym other;
		const char *own = dwfl_module_getsym(mod, i, &other, NULL);

		found = own && strcmp(own, name) != 0 && other.st_value == s->st_value &&
			GELF_ST_TYPE(other.st_info) == STT_FUNC;
	}
	return found;
}

/* A function, and no part of one that has been split off. */
static bool is_wanted(const char *name, const GElf_Sym *s, const char *pattern)
{
	return name && *name && GELF_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF &&
	       !strstr(name, ".cold") && !fnmatch(pattern, name, 0) && !dp_ksym_is_front(name, pattern);
}

int dp_kernel_module_each(const char *module, const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg),
			  void *arg, struct dp_error *err)
{
	char path[4096];
	Dwfl_Module *mod;
	Dwfl *dwfl = find_file(module, path, sizeof(path)) ? open_file(path, &mod) : NULL;
	int all = dwfl ? dwfl_module_getsymtab(mod) : 0, r = 0;
	struct dp_ksym *v = calloc((size_t)DP_MAX(all, 1), sizeof(*v));
	size_t n = 0;

	if (!v) {
		r = dp_fail(err, E_FILE_MEMORY, "%.80s", module);
	} else if (!dwfl) {
		r = dp_fail(err, E_KERNEL_SYMBOL, "%.80s is not loaded, and has no file in /lib/modules", module);
		dp_error_hint(err, "name a function, which waits for the module: kmod(%.60s):FUNCTION", module);
	}
	for (int i = 1; i < all && v; i++) {
		GElf_Sym s;
		const char *name = dwfl_module_getsym(mod, i, &s, NULL);

		if (is_wanted(name, &s, pattern) && !is_alias(mod, all, name, &s))
			v[n++] = (struct dp_ksym){.name = name, .module = module, .size = s.st_size};
	}
	if (n)
		qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n && !r; i++)
		if ((!i || strcmp(v[i].name, v[i - 1].name) != 0) &&
		    (i + 1 == n || strcmp(v[i].name, v[i + 1].name) != 0))
			r = fn(&v[i], arg);
	free(v);
	dwfl_end(dwfl);
	return r;
}

void *dp_kernel_module_section(const char *module, const char *section, size_t *size)
{
	char path[4096];
	Dwfl_Module *mod;
	Dwfl *dwfl = find_file(module, path, sizeof(path)) ? open_file(path, &mod) : NULL;
	GElf_Addr bias;
	Elf *elf = dwfl ? dwfl_module_getelf(mod, &bias) : NULL;
	Elf_Scn *scn = NULL;
	Elf_Data *data = NULL;
	void *copy = NULL;
	size_t names;

	if (elf && elf_getshdrstrndx(elf, &names))
		elf = NULL;
	while (elf && !data && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;

		if (name && !strcmp(name, section))
			data = elf_rawdata(scn, NULL);
	}
	if (data && data->d_size)
		copy = malloc(data->d_size);
	if (copy)
		memcpy(copy, data->d_buf, data->d_size);
	*size = copy ? data->d_size : 0;
	dwfl_end(dwfl);
	return copy;
}
