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
#include "symbols/sym-lines.h"
#include "symbols/vars.h"

#define WORTH_KEEPING 5000    /* names; fewer are read faster than looked up */
#define QUICK_MOST (4u << 20) /* bytes of debug information whose lines are read in no time */

struct names {
	char **v;
	size_t n, room;
	const char *file; /* of the line that was noted last */
	u32 line;
};

/* 0, or 1: there is no memory. */
static int add(struct names *names, char *name)
{
	if (names->n == names->room) {
		size_t room = names->room ? names->room * 2 : 1024;
		char **v = realloc(names->v, room * sizeof(*v));

		if (!v)
			return 1;
		names->v = v;
		names->room = room;
	}
	names->v[names->n++] = name;
	return 0;
}

static int note_function(const struct dp_symbol *sym, void *arg)
{
	return *sym->name && !strpbrk(sym->name, "\n\t") ? add(arg, (char *)sym->name) : 0;
}

static int note_line(const char *file, u32 line, void *arg)
{
	const char *base = strrchr(file, '/');
	struct names *names = arg;
	char *name;

	if ((file == names->file && line == names->line) || strpbrk(file, "\n\t"))
		return 0;
	names->file = file;
	names->line = line;
	if (asprintf(&name, "%s:%u", base ? base + 1 : file, line) < 0)
		return 1;
	if (!add(names, name))
		return 0;
	free(name);
	return 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Where names of this kind of the file are kept. False: nowhere. */
static bool place(const struct dp_module *m, const char *kind, char *path, size_t size)
{
	const char *id = dp_module_build_id(m);

	return *id && dp_module_keep_in && (size_t)snprintf(path, size, "%s/%s-%s", dp_module_keep_in, kind, id) < size;
}

static FILE *open_kept(const char *path, u64 *size)
{
	int fd = dp_module_open_kept(path, size);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

static void keep(const char *path, char **names, size_t n)
{
	char other[4200];
	bool good = true;
	FILE *f;

	dp_module_make_keep_in();
	snprintf(other, sizeof(other), "%s.%d", path, (int)getpid());
	f = fopen(other, "wxe");
	if (!f)
		return;
	for (size_t i = 0; i < n; i++)
		good &= fprintf(f, "%s\n", names[i]) > 0;
	good &= !fclose(f);
	if (!good || rename(other, path))
		unlink(other);
}

struct line {
	char *text;
	size_t room;
};

/* The next line, without its end; false: there is none. */
static bool next_line(FILE *f, struct line *line)
{
	ssize_t n = getline(&line->text, &line->room, f);

	if (n > 0 && line->text[n - 1] == '\n')
		line->text[n - 1] = '\0';
	return n > 0;
}

/* To the begin of a line shortly before the first name that begins so: the names are sorted, and may be millions. */
static void seek_near(FILE *f, off_t size, const char *prefix, struct line *line)
{
	off_t lo = 0,
	      hi = size; /* the line at lo, and the first one that begins behind hi: not behind it, not before it */

	while (lo < hi) {
		off_t middle = lo + (hi - lo) / 2;

		if (fseeko(f, middle, SEEK_SET) || !next_line(f, line) || ftello(f) >= hi || !next_line(f, line) ||
		    strncmp(line->text, prefix, strlen(prefix)) >= 0)
			hi = middle;
		else
			lo = ftello(f);
	}
	fseeko(f, lo, SEEK_SET);
}

/* False: nothing is kept there. */
static bool give_from(const char *path, const char *prefix, void (*take)(void *arg, const char *name), void *arg)
{
	struct line line = {NULL, 0};
	size_t n = strlen(prefix);
	u64 size = 0;
	FILE *f = open_kept(path, &size);
	int order = -1;

	if (!f)
		return false;
	seek_near(f, (off_t)size, prefix, &line);
	while (order <= 0 && next_line(f, &line)) {
		order = strncmp(line.text, prefix, n);
		if (!order)
			take(arg, line.text);
	}
	free(line.text);
	fclose(f);
	return true;
}

/* Sorts them and hands on each one once that begins so; a path: keeps them there, where it is worth that. */
static void give(struct names *names, const char *path, const char *prefix, void (*take)(void *arg, const char *name),
		 void *arg)
{
	size_t n = strlen(prefix), kept = 0;

	if (names->n)
		qsort(names->v, names->n, sizeof(*names->v), by_name);
	for (size_t i = 0; i < names->n; i++) {
		char *name = names->v[i];

		if (kept && !strcmp(name, names->v[kept - 1]))
			continue;
		names->v[i] = names->v[kept];
		names->v[kept++] = name;
		if (!strncmp(name, prefix, n))
			take(arg, name);
	}
	if (path && kept >= WORTH_KEEPING)
		keep(path, names->v, kept);
}

void dp_names_each(struct dp_module *m, const char *prefix, void (*take)(void *arg, const char *name), void *arg)
{
	struct names names = {0};
	char path[4096];
	bool placed = place(m, "names", path, sizeof(path));

	if (placed && give_from(path, prefix, take, arg))
		return;
	dp_module_each_func(m, "*", note_function, &names);
	give(&names, placed ? path : NULL, prefix, take, arg);
	free(names.v);
}

void dp_lines_each(struct dp_module *m, const char *prefix, bool quick, void (*take)(void *arg, const char *line),
		   void *arg)
{
	struct names names = {0};
	char path[4096];
	bool placed = place(m, "lines", path, sizeof(path));

	if (placed && give_from(path, prefix, take, arg))
		return;
	if (quick && dp_module_debug_bytes(m) > QUICK_MOST)
		return;
	dp_module_each_line_row(m, note_line, &names);
	give(&names, placed ? path : NULL, prefix, take, arg);
	for (size_t i = 0; i < names.n; i++)
		free(names.v[i]);
	free(names.v);
}
