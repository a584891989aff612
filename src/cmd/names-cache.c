/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See names-cache.h. A file of it has one name a line, sorted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/names-cache.h"

#define WORTH_KEEPING 5000 /* functions; fewer are read faster than looked up */
#define TEXT_MOST (256u << 20)

struct names {
	char **v;
	size_t n, room;
};

static int add(const struct dp_symbol *sym, void *arg)
{
	struct names *names = arg;

	if (!*sym->name || strpbrk(sym->name, "\n\t"))
		return 0;
	if (names->n == names->room) {
		size_t room = names->room ? names->room * 2 : 1024;
		char **v = realloc(names->v, room * sizeof(*v));

		if (!v)
			return 1;
		names->v = v;
		names->room = room;
	}
	names->v[names->n++] = (char *)sym->name;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Where the names of the file are kept; the folders are made. False: nowhere. */
static bool place(const struct dp_module *m, char *path, size_t size)
{
	const char *id = dp_module_build_id(m);

	if (!*id || !dp_cmd_home_folder("XDG_CACHE_HOME", ".cache", "", path, size) ||
	    strlen(path) + 64 + strlen(id) > size)
		return false;
	mkdir(path, 0700);
	strcat(path, "dprobes");
	mkdir(path, 0700);
	strcat(path, "/names-");
	strcat(path, id);
	return true;
}

/* The file whole, ended by a NUL; NULL: there is none, or it is not ours. */
static char *read_kept(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char *text = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size < TEXT_MOST)
		text = malloc((size_t)st.st_size + 1);
	if (text && read(fd, text, (size_t)st.st_size) != st.st_size) {
		free(text);
		text = NULL;
	}
	if (text)
		text[st.st_size] = '\0';
	close(fd);
	return text;
}

static void keep(const char *path, const struct names *names)
{
	char other[4200];
	bool good = true;
	FILE *f;

	snprintf(other, sizeof(other), "%s.%d", path, (int)getpid());
	f = fopen(other, "wxe");
	if (!f)
		return;
	for (size_t i = 0; i < names->n; i++)
		good &= fprintf(f, "%s\n", names->v[i]) > 0;
	good &= !fclose(f);
	if (!good || rename(other, path))
		unlink(other);
}

static void give_kept(char *text, const char *prefix, void (*take)(void *arg, const char *name), void *arg)
{
	size_t n = strlen(prefix);

	for (char *end; *text; text = end + 1) {
		end = strchrnul(text, '\n');
		if (!strncmp(text, prefix, n)) {
			bool last = !*end;

			*end = '\0';
			take(arg, text);
			if (last)
				return;
		} else if (!*end || strncmp(text, prefix, n) > 0) {
			return; /* they are sorted */
		}
	}
}

void dp_names_each(struct dp_module *m, const char *prefix, void (*take)(void *arg, const char *name), void *arg)
{
	struct names names = {0};
	size_t n = strlen(prefix);
	char path[4096], *text;
	bool placed = place(m, path, sizeof(path));

	text = placed ? read_kept(path) : NULL;
	if (text) {
		give_kept(text, prefix, take, arg);
		free(text);
		return;
	}
	dp_module_each_func(m, "*", add, &names);
	qsort(names.v, names.n, sizeof(*names.v), by_name);
	for (size_t i = 0; i < names.n; i++)
		if (!strncmp(names.v[i], prefix, n) && (!i || strcmp(names.v[i], names.v[i - 1]) != 0))
			take(arg, names.v[i]);
	if (placed && names.n >= WORTH_KEEPING)
		keep(path, &names);
	free(names.v);
}
