/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The libraries that a program will map when it starts, by the names in the file, and those that it may load later:
 * found before it does. As the dynamic linker looks for them, without its cache.
 */
#include <dirent.h>
#include <elf.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "symbols/module-priv.h"
#include "symbols/needed.h"

#define LIBRARIES_MAX 256

static const char usual[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib:"
			    "/usr/local/lib";

struct search {
	const char *name; /* NULL: see fn */
	bool (*fn)(void *arg, const char *path);
	void *arg;
	char seen[LIBRARIES_MAX][256];
	u32 n;
	bool done;
	char *out;
	size_t size;
};

bool dp_needed_is_meant(const char *file, const char *name)
{
	size_t n = strlen(name);

	return !strcmp(file, name) || (!strncmp(file, name, n) && (!strncmp(file + n, ".so", 3) || file[n] == '-'));
}

static bool search_file(struct search *s, const char *path);

/* Whether the file is in one of them: it hides those of the same name in directories that come later. */
static bool in_directories(struct search *s, const char *dirs, const char *origin, const char *file)
{
	char path[4096];

	for (const char *p = dirs; p && *p; p += strcspn(p, ":") + (p[strcspn(p, ":")] == ':')) {
		size_t n = strcspn(p, ":");

		if (!strncmp(p, "$ORIGIN", 7))
			snprintf(path, sizeof(path), "%s%.*s/%s", origin, (int)n - 7, p + 7, file);
		else
			snprintf(path, sizeof(path), "%.*s/%s", (int)n, p, file);
		if (!access(path, R_OK)) {
			s->done = search_file(s, path);
			return true;
		}
	}
	return false;
}

struct run_path {
	const char *before, *behind; /* LD_LIBRARY_PATH: DT_RPATH, DT_RUNPATH */
	const char *origin;
};

static bool library(struct search *s, const struct run_path *of, const char *file)
{
	for (u32 i = 0; i < s->n; i++)
		if (!strcmp(s->seen[i], file))
			return false;
	if (s->n == LIBRARIES_MAX || strlen(file) >= sizeof(s->seen[0]))
		return false;
	strcpy(s->seen[s->n++], file);
	if (strchr(file, '/')) /* a path, of one that has no name of its own */
		return search_file(s, file);
	(void)(in_directories(s, of->before, of->origin, file) ||
	       in_directories(s, getenv("LD_LIBRARY_PATH"), of->origin, file) ||
	       in_directories(s, of->behind, of->origin, file) || in_directories(s, usual, of->origin, file));
	return s->done;
}

static bool walk_dynamic(struct search *s, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh, const char *origin)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	struct run_path of = {.before = NULL, .origin = origin};
	GElf_Dyn dyn;

	for (int pass = 0; data && pass < 2; pass++)
		for (size_t i = 0; i < sh->sh_size / sizeof(Elf64_Dyn) && gelf_getdyn(data, (int)i, &dyn); i++) {
			const char *text = elf_strptr(elf, sh->sh_link, dyn.d_un.d_val);

			if (!pass && text && (dyn.d_tag == DT_RUNPATH || dyn.d_tag == DT_RPATH))
				*(dyn.d_tag == DT_RPATH ? &of.before : &of.behind) = text;
			if (pass && dyn.d_tag == DT_NEEDED && text && library(s, &of, text))
				return true;
		}
	return false;
}

static bool found(struct search *s, const char *path)
{
	const char *base = dp_base_name(path);

	if (s->name ? !dp_needed_is_meant(base, s->name) : !s->fn(s->arg, path))
		return false;
	snprintf(s->out, s->size, "%s", path);
	return true;
}

static bool search_file(struct search *s, const char *path)
{
	char real[4096], origin[4096];
	int fd = realpath(path, real) ? dp_open_regular(real) : -1;
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	bool done = s->n && (found(s, path) || found(s, real));
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	if (done)
		snprintf(s->out, s->size, "%s", real);
	snprintf(origin, sizeof(origin), "%s", real);
	*(strrchr(origin, '/') ? strrchr(origin, '/') : origin) = '\0';
	while (!done && elf && (scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_DYNAMIC)
			done = walk_dynamic(s, elf, scn, &sh, origin);
	if (elf)
		elf_end(elf);
	if (fd >= 0)
		close(fd);
	return done;
}

bool dp_needed_find(const char *program, const char *name, char *path, size_t size)
{
	struct search s = {.name = name, .out = path, .size = size};

	elf_version(EV_CURRENT);
	return search_file(&s, program);
}

bool dp_needed_each(const char *program, bool (*fn)(void *arg, const char *path), void *arg, char *path, size_t size)
{
	struct search s = {.fn = fn, .arg = arg, .out = path, .size = size};

	elf_version(EV_CURRENT);
	return search_file(&s, program);
}

/* ---- libraries that may be loaded later ---- */

/* A shared object, open; -1: it is none. */
static int open_library(const char *path)
{
	int fd = dp_open_regular(path);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	GElf_Ehdr eh;
	bool good = elf && gelf_getehdr(elf, &eh) && eh.e_type == ET_DYN;

	elf_end(elf);
	if (fd >= 0 && !good)
		close(fd);
	return good ? fd : -1;
}

/* The latest version of those that have the name. */
static int open_latest(const char *dir, const char *name)
{
	DIR *d = opendir(dir);
	char best[256] = "", path[4096 + 256];
	struct dirent *e;
	int fd = -1, other;

	while (d && (e = readdir(d))) {
		if (!dp_needed_is_meant(e->d_name, name) || (*best && strverscmp(e->d_name, best) <= 0))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		other = open_library(path);
		if (other < 0)
			continue;
		if (fd >= 0)
			close(fd);
		fd = other;
		snprintf(best, sizeof(best), "%s", e->d_name);
	}
	if (d)
		closedir(d);
	return fd;
}

static bool is_file(const char *path, const struct stat *file)
{
	struct stat st;

	return !stat(path, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

/* Under which names the open file is known. Closes it. */
static bool name_library(int fd, const char *root, struct dp_library *lib)
{
	char link[32];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, lib->path, sizeof(lib->path) - 1);
	lib->path[n > 0 ? n : 0] = '\0';
	n = fstat(fd, &st) ? -1 : n;
	close(fd);
	snprintf(lib->file, sizeof(lib->file), "%s", lib->path);
	if (n > 0 && !is_file(lib->file, &st))
		n = snprintf(lib->file, sizeof(lib->file), "%s%s", root, lib->path);
	return n > 0 && n < (ssize_t)sizeof(lib->file) && is_file(lib->file, &st);
}

bool dp_library_find(const char *root, const char *dirs, const char *name, struct dp_library *lib)
{
	const char *lists[] = {dirs, usual};
	char path[4096];
	int fd = -1;

	elf_version(EV_CURRENT);
	if (*name == '/') {
		snprintf(path, sizeof(path), "%s%s", root, name);
		fd = open_library(path);
	}
	for (u32 i = 0; i < DP_ARRAY_SIZE(lists) && fd < 0 && !strchr(name, '/'); i++)
		for (const char *p = lists[i]; *p && fd < 0; p += strcspn(p, ":") + (p[strcspn(p, ":")] == ':')) {
			snprintf(path, sizeof(path), "%s%.*s", root, (int)strcspn(p, ":"), p);
			if (*p == '/')
				fd = open_latest(path, name);
		}
	return fd >= 0 && name_library(fd, root, lib);
}
