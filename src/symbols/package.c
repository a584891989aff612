/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which package of the system has a file, and what has its debug information: for advice alone. Reads the lists that
 * dpkg keeps.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

#define LISTS "/var/lib/dpkg/info"

/* "/lib/x" and "/usr/lib/x" are one file where /lib is a link. */
static bool is_file(const char *line, const char *path)
{
	size_t n = strcspn(line, "\n");

	if (strlen(path) == n && !memcmp(line, path, n))
		return true;
	return !strncmp(path, "/usr/", 5) && strlen(path + 4) == n && !memcmp(line, path + 4, n);
}

static bool lists(const char *file, const char *path)
{
	FILE *f = fopen(file, "re");
	char line[4200];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = is_file(line, path);
	if (f)
		fclose(f);
	return found;
}

bool dp_package_of(const char *path, char *name, size_t size)
{
	DIR *dir = opendir(LISTS);
	char file[sizeof(LISTS) + 300], real[4096];
	bool found = false;
	struct dirent *e;

	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	while (dir && !found && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		if (n < 6 || strcmp(e->d_name + n - 5, ".list"))
			continue;
		snprintf(file, sizeof(file), "%s/%s", LISTS, e->d_name);
		found = lists(file, real);
		if (found) /* without ":amd64" */
			snprintf(name, size, "%.*s", (int)DP_MIN(strcspn(e->d_name, ":"), n - 5), e->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

void dp_package_advice(const char *path, const char *build_id, char *text, size_t size)
{
	char name[200];
	bool is_libc;

	text[0] = '\0';
	if (!dp_package_of(path, name, sizeof(name)))
		return;
	is_libc = !strcmp(name, "libc6");
	snprintf(text, size, "install %.40s%s, or set DEBUGINFOD_URLS=https://debuginfod.debian.net (build-id %.40s)",
		 name, is_libc ? "-dbg" : "-dbgsym", build_id);
}
