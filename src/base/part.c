/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/part.h"

bool dp_own_path(const char *built, const char *installed, char *path, size_t size)
{
	char exe[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	size_t dir;

	if (n <= 0)
		return false;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	*slash = '\0';
	dir = (size_t)(slash - exe);
	if (dir >= 8 && !strcmp(slash - 8, "/src/cmd"))
		return (size_t)snprintf(path, size, "%.*s%s", (int)(dir - 3), exe, built) < size;
	return (size_t)snprintf(path, size, "%s/%s", exe, installed) < size;
}

const void *dp_part_load(const char *name, const char *dir, const char **why)
{
	char built[PATH_MAX], installed[PATH_MAX], path[2 * PATH_MAX];
	const struct dp_part *part = NULL;
	void *lib;

	snprintf(built, sizeof(built), "%s/dprobes-%s.so", dir, name);
	snprintf(installed, sizeof(installed), "../lib/dprobes/dprobes-%s.so", name);
	*why = "/proc/self/exe cannot be read";
	if (!dp_own_path(built, installed, path, sizeof(path)))
		return NULL;
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (lib)
		part = dlsym(lib, "dp_part_exported");
	if (!part) {
		*why = dlerror();
	} else if (strcmp(part->version, DP_VERSION) != 0) {
		*why = "it belongs to another version of dprobes";
		part = NULL;
	}
	return part ? part->offers : NULL;
}
