/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where the symbol table of a stripped file is: a separate file under /usr/lib/debug, found by
 * build-id or by name, the compressed copy inside the file (.gnu_debugdata), or, for debug
 * information and if the user has set DEBUGINFOD_URLS, what a server has.
 */
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/built.h"
#include "symbols/module-priv.h"

#define DEBUG_ROOT "/usr/lib/debug"
#define DEBUG_PATH_ENV "DPROBES_DEBUG_PATH" /* further directories, separated by colons, first */
#define DEBUGINFOD "libdebuginfod.so.1"

bool dp_mod_debug_path(u32 i, const char *name, char *buf, size_t size)
{
	const char *dirs = getenv(DEBUG_PATH_ENV), *end;

	for (; dirs && *dirs; dirs = end + !!*end) {
		end = dirs + strcspn(dirs, ":");
		if (end > dirs && !i--) {
			dp_format(buf, size, "%.*s%s", (int)(end - dirs), dirs, name);
			return true;
		}
	}
	dp_format(buf, size, DEBUG_ROOT "%s", name);
	return !i;
}

static u32 crc_of(const u8 *p, size_t n)
{
	u32 crc = ~0u;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* A debug file of another build would give wrong addresses: its build-id, or else its checksum,
 * must agree. */
static bool belongs(const struct dp_module *m, Elf *elf, const GElf_Word *crc)
{
	const void *mine = NULL, *other = NULL;
	ssize_t a = dwelf_elf_gnu_build_id(m->elf, &mine);
	ssize_t b = dwelf_elf_gnu_build_id(elf, &other);
	size_t n;
	const u8 *p;

	if (a > 0 && b > 0)
		return a == b && !memcmp(mine, other, (size_t)a);
	if (!crc)
		return false;
	p = (const u8 *)elf_rawfile(elf, &n);
	return p && crc_of(p, n) == *crc;
}

static bool try_file(struct dp_module *m, const char *path, const GElf_Word *crc)
{
	int fd = dp_open_regular(path);
	Elf *elf;

	if (fd < 0 && errno == EINVAL)
		dp_format(m->debug_why, sizeof(m->debug_why), "%.100s is no regular file", path);
	if (fd < 0)
		return false;
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && belongs(m, elf, crc)) {
		m->debug = (struct mod_debug){fd, elf};
		return true;
	}
	dp_format(m->debug_why, sizeof(m->debug_why), "%.100s %s", path,
		  elf && elf_kind(elf) == ELF_K_ELF ? "belongs to another build" : "is no ELF file");
	if (elf)
		elf_end(elf);
	close(fd);
	return false;
}

static bool try_roots(struct dp_module *m, const char *name, const GElf_Word *crc)
{
	char path[8192];

	for (u32 i = 0; dp_mod_debug_path(i, name, path, sizeof(path)); i++)
		if (try_file(m, path, crc))
			return true;
	return false;
}

static bool try_debuglink(struct dp_module *m)
{
	static const char *const forms[] = {"%s/%s", "%s/.debug/%s"};
	GElf_Word crc;
	const char *name = dwelf_elf_gnu_debuglink(m->elf, &crc);
	char *dir, *slash, path[4096];
	bool found = false;

	/* The name of a file, not a way to one: a file shall not make others be opened all over the machine. */
	if (!name || !*name || strchr(name, '/'))
		return false;
	dir = realpath(m->path, NULL);
	if (!dir)
		return false;
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; !found && i < DP_ARRAY_SIZE(forms); i++) {
		dp_format(path, sizeof(path), forms[i], dir, name);
		found = try_file(m, path, &crc);
	}
	dp_format(path, sizeof(path), "%s/%s", dir, name);
	found = found || try_roots(m, path, &crc);
	free(dir);
	return found;
}

bool dp_mod_open_debug(struct dp_module *m)
{
	char name[128];

	if (m->debug.elf || m->debug_tried)
		return m->debug.elf;
	m->debug_tried = true;
	if (strlen(m->build_id) > 2) {
		dp_format(name, sizeof(name), "/.build-id/%.2s/%s.debug", m->build_id, m->build_id + 2);
		if (try_roots(m, name, NULL))
			return true;
	}
	return try_debuglink(m);
}

static struct {
	const char *name; /* of the module; NULL: the user knows */
	time_t since;     /* seconds of the monotonic clock */
} fetching;

void (*dp_module_slow)(const char *what);

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* The library calls this while it waits: a moment later the user is told for what. */
static int waiting(void *client, long a, long b)
{
	if (fetching.name && seconds() - fetching.since > 1) {
		char what[200];

		dp_format(what, sizeof(what), "fetching debug information of %.100s (DEBUGINFOD_URLS)", fetching.name);
		fetching.name = NULL;
		if (dp_module_slow)
			dp_module_slow(what);
	}
	return 0;
}

bool dp_debuginfod_there(void)
{
	void *lib = dlopen(DEBUGINFOD, RTLD_NOW);

	if (lib)
		dlclose(lib);
	return lib;
}

/*
 * Ask the servers of DEBUGINFOD_URLS, through the library that other tools ask through, so that
 * what one of them has fetched is there for all. The library is optional.
 */
bool dp_debuginfod_find(const char *what, const char *build_id, char *path, size_t size, char *why, size_t why_size)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *lib = urls && *urls && *build_id ? dlopen(DEBUGINFOD, RTLD_NOW) : NULL;
	void *(*begin)(void) = lib ? (void *(*)(void))dlsym(lib, "debuginfod_begin") : NULL;
	void (*end)(void *) = lib ? (void (*)(void *))dlsym(lib, "debuginfod_end") : NULL;
	int (*find)(void *, const unsigned char *, int, char **) =
	    lib ? (int (*)(void *, const unsigned char *, int, char **))dlsym(lib, "debuginfod_find_debuginfo") : NULL;
	void (*progress)(void *, int (*)(void *, long, long)) =
	    lib ? (void (*)(void *, int (*)(void *, long, long)))dlsym(lib, "debuginfod_set_progressfn") : NULL;
	void *client = begin && end && find ? begin() : NULL;
	char *found = NULL;
	int fd;

	if (urls && *urls && *build_id && !client)
		dp_format(why, why_size,
			  dp_built_static ? "DEBUGINFOD_URLS is set, but a static dprobes asks no servers"
					  : "DEBUGINFOD_URLS is set, but " DEBUGINFOD " is not installed");
	fetching.name = what;
	fetching.since = seconds();
	if (client && progress)
		progress(client, waiting);
	/* Length 0: the id is text. */
	fd = client ? find(client, (const unsigned char *)build_id, 0, &found) : -1;
	if (fd >= 0)
		close(fd);
	else if (client)
		dp_format(why, why_size, "the servers of DEBUGINFOD_URLS: %s",
			  fd == -ENOENT ? "they do not have it" : strerror(-fd));
	if (fd >= 0)
		dp_format(path, size, "%s", found);
	free(found);
	if (client)
		end(client);
	return fd >= 0; /* the library stays: it may have threads */
}

bool dp_mod_fetch_debug(struct dp_module *m)
{
	char path[4096];

	return dp_debuginfod_find(m->base, m->build_id, path, sizeof(path), m->debug_why, sizeof(m->debug_why)) &&
	       try_file(m, path, NULL);
}

int dp_mod_no_debug(struct dp_module *m, struct dp_error *err)
{
	int r = dp_fail(err, E_LINE_NODEBUG, m->debug_why[0] ? "%.80s: %.150s" : "%.80s%s", m->base, m->debug_why);

	/* Once for a module: it reads the lists of all packages, and each place of a pattern may fail. */
	if (!m->advice_known)
		dp_package_advice(m->path, m->build_id, m->advice, sizeof(m->advice));
	m->advice_known = true;
	if (!m->debug_why[0] && m->advice[0])
		dp_error_hint(err, "%s", m->advice);
	else if (!m->debug_why[0] && m->build_id[0] && m->build_id[1] && m->build_id[2])
		dp_error_hint(err,
			      "compile it with -g, or install its debug symbols: " DEBUG_ROOT
			      "/.build-id/%.2s/%s.debug is not there",
			      m->build_id, m->build_id + 2);
	return r;
}

void dp_mod_close_debug(struct dp_module *m)
{
	if (m->mini)
		dwfl_end(m->mini);
	if (m->debug.elf)
		elf_end(m->debug.elf);
	if (m->debug.fd >= 0)
		close(m->debug.fd);
}

/* libdwfl would look for separate debug files on its own, even in the network: it shall not. */
static int no_debuginfo(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, const char *file,
			const char *link, GElf_Word crc, char **found)
{
	return -1;
}

bool dp_mod_read_mini(struct dp_module *m)
{
	static const Dwfl_Callbacks callbacks = {
	    .find_elf = dwfl_build_id_find_elf,
	    .find_debuginfo = no_debuginfo,
	    .section_address = dwfl_offline_section_address,
	};
	bool there = false, ok = true;
	size_t names;
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	Dwfl_Module *mod;
	GElf_Addr bias;
	int fd, n;

	if (!m->nshdrs || elf_getshdrstrndx(m->elf, &names))
		return true;
	while (!there && (scn = elf_nextscn(m->elf, scn))) {
		const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(m->elf, names, sh.sh_name) : NULL;

		there = name && !strcmp(name, ".gnu_debugdata");
	}
	if (!there || !(m->mini = dwfl_begin(&callbacks)))
		return true;
	fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 3); /* libdwfl closes it */
	mod = dwfl_report_offline(m->mini, m->base, m->path, fd);
	if (!mod) {
		close(fd);
		return true;
	}
	dwfl_report_end(m->mini, NULL, NULL);
	n = dwfl_module_getsymtab(mod);
	if (!dwfl_module_getelf(mod, &bias))
		return true;
	for (int i = 1; ok && i < n; i++) {
		GElf_Sym s;
		GElf_Addr addr;
		GElf_Word shndx;
		const char *name = dwfl_module_getsym_info(mod, i, &s, &addr, &shndx, NULL, NULL);

		if (!name || s.st_shndx == SHN_UNDEF || GELF_ST_TYPE(s.st_info) == STT_TLS)
			continue;
		s.st_value = addr - bias;
		m->has_symtab = true;
		ok = dp_mod_add_symbol(m, &s, name, false, 0);
	}
	return ok;
}
