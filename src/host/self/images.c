/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The modules of this process: what the dynamic linker has loaded, opened as ELF files when
 * something in them is probed. Images are never freed: points refer to their code. Under the lock.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/self/self-priv.h"
#include "symbols/symbols.h"

static struct self_image *images; /* in the order of the dynamic linker; those that are gone at the end */

static void extent(const struct dl_phdr_info *info, u64 *lo, u64 *hi)
{
	*lo = ~0ull;
	*hi = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD)
			continue;
		*lo = DP_MIN(*lo, DP_ALIGN_DOWN(info->dlpi_addr + ph->p_vaddr, 4096ull));
		*hi = DP_MAX(*hi, DP_ALIGN_UP(info->dlpi_addr + ph->p_vaddr + ph->p_memsz, 4096ull));
	}
}

static const char *path_of(const struct dl_phdr_info *info, char *buf, bool first)
{
	ssize_t n;

	if (info->dlpi_name && info->dlpi_name[0])
		return info->dlpi_name;
	if (!first)
		return NULL;
	n = readlink("/proc/self/exe", buf, PATH_MAX - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? buf : NULL;
}

struct walk {
	struct self_image **end;
	bool first, no_memory;
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *w = arg;
	char buf[PATH_MAX];
	bool first = w->first;
	const char *path = path_of(info, buf, first), *slash;
	struct self_image *im;
	u64 lo, hi;

	w->first = false;
	if (!path || !strncmp(path, "linux-vdso", 10))
		return 0;
	extent(info, &lo, &hi);
	for (im = images; im; im = im->next)
		if (im->lo == lo && im->hi == hi && im->bias == info->dlpi_addr && !strcmp(im->path, path)) {
			im->seen = true;
			return 0;
		}
	im = calloc(1, sizeof(*im));
	if (im)
		im->path = strdup(path);
	if (!im || !im->path) {
		free(im);
		w->no_memory = true;
		return 1;
	}
	slash = strrchr(im->path, '/');
	im->name = slash ? slash + 1 : im->path;
	im->lo = lo;
	im->hi = hi;
	im->bias = info->dlpi_addr;
	im->is_exe = first;
	im->seen = true;
	*w->end = im;
	w->end = &im->next;
	return 0;
}

/* Look again. Images that are gone are told to the manager. */
int dp_self_images_refresh(void)
{
	struct walk w = {&images, true, false};

	for (struct self_image *im = images; im; im = im->next) {
		im->seen = false;
		w.end = &im->next;
	}
	dl_iterate_phdr(visit, &w);
	if (w.no_memory)
		return -ENOMEM;
	for (struct self_image *im = images; im; im = im->next)
		if (!im->seen && im->hi) {
			dp_mgr_gone(&dp_self_manager, im->lo, im->hi);
			im->lo = im->hi = 0;
		}
	return 0;
}

struct self_image *dp_self_image_at(u64 addr)
{
	for (struct self_image *im = images; im; im = im->next)
		if (addr >= im->lo && addr < im->hi)
			return im;
	return NULL;
}

int dp_self_image_module(struct self_image *im, struct dp_error *err)
{
	int r = im->mod ? 0 : dp_module_open(&im->mod, im->is_exe ? "/proc/self/exe" : im->path, err);

	im->broken = r;
	return r;
}

/* "libc" for libc.so.6, "libpython" for libpython3.11.so.1.0; "exe"; a file name; a path */
static bool is_named(const struct self_image *im, const char *name, size_t n)
{
	const char *rest;

	if (strlen(im->path) == n && !strncmp(im->path, name, n))
		return true;
	if (im->is_exe && n == 3 && !strncmp(name, "exe", 3))
		return true;
	if (strncmp(im->name, name, n) || !n)
		return false;
	rest = im->name + n;
	if (!*rest || !strncmp(rest, ".so", 3))
		return true;
	if (*rest == '-')
		rest++;
	rest += strspn(rest, "0123456789.");
	return !strncmp(rest, "so", 2) && rest[-1] == '.';
}

static struct self_image *image_named(const char *name, size_t len)
{
	for (struct self_image *im = images; im; im = im->next)
		if (im->hi && is_named(im, name, len))
			return im;
	return NULL;
}

/* Which implementation the dynamic linker has chosen. */
static int resolve_ifunc(const char *name, u64 *addr, struct dp_error *err)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	if (!p)
		return dp_fail(err, E_SYM_IFUNC, "%s", name);
	*addr = (u64)p;
	return 0;
}

static int lookup_in(struct self_image *im, const char *name, u64 *addr, struct dp_error *err)
{
	struct dp_symbol s;
	int r = dp_self_image_module(im, err);

	if (!r)
		r = dp_module_symbol(im->mod, name, &s, err);
	if (r)
		return r;
	if (s.is_ifunc)
		return resolve_ifunc(name, addr, err);
	*addr = s.addr + im->bias;
	return 0;
}

/* A path or a name that can only be a file's: one that is not loaded may come. */
int dp_self_lookup(const char *name, u64 *addr, struct dp_error *err)
{
	const char *colon = strchr(name, ':');
	struct self_image *im;
	int r = -ENOENT;

	*addr = 0;
	if (colon && colon[1] == ':') /* a C++ name */
		colon = NULL;
	if (colon) {
		im = image_named(name, (size_t)(colon - name));
		if (im)
			return lookup_in(im, colon + 1, addr, err);
		*addr = 1;
		return dp_fail(err, E_MOD_NONE, "%.*s", (int)(colon - name), name);
	}
	for (im = images; im; im = im->next) {
		if (!im->hi)
			continue;
		r = lookup_in(im, name, addr, err);
		if (!r || r == -ENOTUNIQ)
			return r;
	}
	return dp_fail(err, E_SYM_NONE, "%s", name);
}

/* "exe:work+0x12", or the number. */
void dp_self_describe(u64 addr, char *buf, size_t size)
{
	struct self_image *im = dp_self_image_at(addr);
	struct dp_symbol s;

	if (im && !dp_self_image_module(im, NULL) && dp_module_symbol_at(im->mod, addr - im->bias, &s) && s.name[0])
		dp_format(buf, size, "%s:%s+0x%llx", im->is_exe ? "exe" : im->name, s.name,
			  (unsigned long long)(addr - im->bias - s.addr));
	else
		dp_format(buf, size, "0x%llx", (unsigned long long)addr);
}
