/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where the debug information of the running kernel and of its modules is: the file of a debug package, or of who has
 * built the kernel here, or what a server of DEBUGINFOD_URLS has. The build-id decides whether a file is the right one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "symbols/module-priv.h"
#include "symbols/vars.h"

struct search {
	const char *module; /* NULL: the kernel itself */
	char build_id[80], release[65];
	char name[256]; /* of a module's file, below the kernel's directory: kernel/drivers/net/dummy.ko */
	char own[4096]; /* that file */
	char why[160];  /* a file that is there is not taken; "" */
	struct dp_module *found;
};

static bool is_it(struct search *s, const char *path)
{
	struct dp_module *m;
	struct dp_error ignored;
	bool good;

	if (access(path, F_OK) ||
	    (s->module ? dp_kernel_module_open(&m, path, &ignored) : dp_module_open(&m, path, &ignored)))
		return false;
	good = !strcmp(dp_module_build_id(m), s->build_id);
	if (!good)
		dp_format(s->why, sizeof(s->why), "%.100s is of another build", path);
	good = good && dp_module_debug_bytes(m);
	if (good)
		s->found = m;
	else
		dp_module_close(m);
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

static bool by_build_id(struct search *s)
{
	char name[128];

	dp_format(name, sizeof(name), "/.build-id/%.2s/%s.debug", s->build_id, s->build_id + 2);
	return in_roots(s, name);
}

static bool kernel_by_name(struct search *s)
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
	if (by_build_id(s))
		return true;
	for (size_t i = 0; i < DP_ARRAY_SIZE(files); i++) {
		dp_format(name, sizeof(name), files[i], s->release);
		if (is_it(s, name))
			return true;
	}
	return false;
}

/* The package has it where the module is; who has built it here, in the module itself. */
static bool module_by_name(struct search *s)
{
	static const char *const below_roots[] = {"/lib/modules/%s/%s", "/lib/modules/%s/%s.debug",
						  "/usr/lib/modules/%s/%s", "/usr/lib/modules/%s/%s.debug"};
	char name[512];

	for (size_t i = 0; s->name[0] && i < DP_ARRAY_SIZE(below_roots); i++) {
		dp_format(name, sizeof(name), below_roots[i], s->release, s->name);
		if (in_roots(s, name))
			return true;
	}
	return by_build_id(s) || (s->own[0] && is_it(s, s->own));
}

static bool from_server(struct search *s)
{
	char path[4096];

	return dp_debuginfod_find(s->module ? s->module : "the kernel", s->build_id, path, sizeof(path), s->why,
				  sizeof(s->why)) &&
	       is_it(s, path);
}

static void advise(const struct search *s, struct dp_error *err)
{
	char path[128], package[200];

	dp_format(path, sizeof(path), "/boot/vmlinuz-%s", s->release);
	if (dp_package_of(path, package, sizeof(package)))
		dp_error_hint(err, "install %.80s-dbg, or set DEBUGINFOD_URLS=https://debuginfod.debian.net", package);
	else
		dp_error_hint(err,
			      "install the debug package of the kernel (/usr/lib/debug/%s-%.64s), or set "
			      "DEBUGINFOD_URLS",
			      s->module ? "lib/modules" : "boot/vmlinux", s->release);
}

/* What the list of modules says of its file. */
static void find_own_file(struct search *s)
{
	const char *below;
	char *ko;

	if (!dp_kernel_module_file(s->module, s->own, sizeof(s->own)))
		return;
	below = strstr(s->own, s->release);
	if (below)
		dp_format(s->name, sizeof(s->name), "%s", below + strlen(s->release) + 1);
	ko = strstr(s->name, ".ko.");
	if (ko)
		ko[3] = '\0'; /* that of the package is not compressed */
}

/* Of the kernel or the module as it runs, else as it would be loaded. */
static bool find_build_id(struct search *s)
{
	struct dp_module *m;
	struct dp_error ignored;

	if (s->module && !dp_kernel_module_loaded(s->module)) {
		if (!s->own[0] || dp_kernel_module_open(&m, s->own, &ignored))
			return false;
		dp_format(s->build_id, sizeof(s->build_id), "%s", dp_module_build_id(m));
		dp_module_close(m);
	} else if (!dp_kernel_build_id(s->module, s->build_id, sizeof(s->build_id))) {
		return false;
	}
	return strlen(s->build_id) >= 3;
}

int dp_kernel_debug_open(const char *module, struct dp_module **m, struct dp_error *err)
{
	struct search s = {.module = module};
	const char *what = module ? module : "the kernel";
	struct utsname name;

	*m = NULL;
	if (uname(&name))
		return dp_fail(err, E_LINE_NODEBUG, "%.60s", what);
	dp_format(s.release, sizeof(s.release), "%s", name.release);
	if (module)
		find_own_file(&s);
	if (!find_build_id(&s))
		return dp_fail(err, E_LINE_NODEBUG, "%.60s has no build-id%s", what,
			       module && !s.own[0] ? ", and no file in /lib/modules" : "");
	if ((module ? module_by_name(&s) : kernel_by_name(&s)) || from_server(&s)) {
		*m = s.found;
		return 0;
	}
	if (s.why[0])
		dp_fail(err, E_LINE_NODEBUG, "%.60s: %.200s", what, s.why);
	else
		dp_fail(err, E_LINE_NODEBUG, "%.60s, build %.40s", what, s.build_id);
	advise(&s, err);
	return -dp_error_info(E_LINE_NODEBUG)->number;
}
