/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where the debug information of the running kernel is: the file of a debug package, or of who has built the kernel
 * here, or what a server of DEBUGINFOD_URLS has. The build-id decides whether a file is of this kernel.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "symbols/kallsyms.h"
#include "symbols/module-priv.h"
#include "symbols/vars.h"

struct search {
	char build_id[80], release[65];
	char why[160]; /* a file that is there is not taken; "" */
	char *path;
	size_t size;
};

static bool is_it(struct search *s, const char *path)
{
	struct dp_module *m;
	struct dp_error ignored;
	bool good;

	if (dp_module_open(&m, path, &ignored))
		return false;
	good = !strcmp(dp_module_build_id(m), s->build_id);
	if (!good)
		dp_format(s->why, sizeof(s->why), "%.100s is of another build", path);
	good = good && dp_module_debug_bytes(m);
	dp_module_close(m);
	if (good)
		dp_format(s->path, s->size, "%s", path);
	return good;
}

static bool in_roots(struct search *s, const char *name)
{
	char path[8192];

	for (u32 i = 0; dp_mod_debug_path(i, name, path, sizeof(path)); i++)
		if (is_it(s, path))
			return true;
	return false;
}

static bool by_name(struct search *s)
{
	static const char *const below_roots[] = {"/boot/vmlinux-%s", "/lib/modules/%s/vmlinux",
						  "/usr/lib/modules/%s/vmlinux"};
	static const char *const files[] = {"/lib/modules/%s/vmlinux", "/lib/modules/%s/build/vmlinux",
					    "/boot/vmlinux-%s"};
	char name[256];

	for (size_t i = 0; i < DP_ARRAY_SIZE(below_roots); i++) {
		dp_format(name, sizeof(name), below_roots[i], s->release);
		if (in_roots(s, name))
			return true;
	}
	dp_format(name, sizeof(name), "/.build-id/%.2s/%s.debug", s->build_id, s->build_id + 2);
	if (in_roots(s, name))
		return true;
	for (size_t i = 0; i < DP_ARRAY_SIZE(files); i++) {
		dp_format(name, sizeof(name), files[i], s->release);
		if (is_it(s, name))
			return true;
	}
	return false;
}

static void advise(const struct search *s, struct dp_error *err)
{
	char path[128], package[200];

	dp_format(path, sizeof(path), "/boot/vmlinuz-%s", s->release);
	if (dp_package_of(path, package, sizeof(package)))
		dp_error_hint(err, "install %.80s-dbg, or set DEBUGINFOD_URLS=https://debuginfod.debian.net", package);
	else
		dp_error_hint(err,
			      "install the debug package of the kernel (/usr/lib/debug/boot/vmlinux-%.64s), or set "
			      "DEBUGINFOD_URLS",
			      s->release);
}

int dp_kernel_debug_file(char *path, size_t size, struct dp_error *err)
{
	struct search s = {.path = path, .size = size};
	struct utsname name;

	if (!dp_kernel_build_id(NULL, s.build_id, sizeof(s.build_id)) || strlen(s.build_id) < 3 || uname(&name))
		return dp_fail(err, E_LINE_NODEBUG, "the kernel has no build-id");
	dp_format(s.release, sizeof(s.release), "%s", name.release);
	if (by_name(&s) || dp_debuginfod_find("the kernel", s.build_id, path, size, s.why, sizeof(s.why)))
		return 0;
	if (s.why[0])
		dp_fail(err, E_LINE_NODEBUG, "the kernel: %.200s", s.why);
	else
		dp_fail(err, E_LINE_NODEBUG, "the kernel, build %.40s", s.build_id);
	advise(&s, err);
	return -dp_error_info(E_LINE_NODEBUG)->number;
}
