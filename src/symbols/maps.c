/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The memory map of a process, as /proc/PID/maps tells it. Opens nothing of what it finds there. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "symbols/sym-process-priv.h"

#define MODE 5u     /* "r-xp " */
#define CHUNK 4096u /* as much as the kernel writes at once */

/* Octal escapes: the kernel writes a newline in a path as \012. */
static void unescape(char *s)
{
	char *out = s;

	while (*s) {
		if (!strncmp(s, "\\012", 4)) {
			*out++ = '\n';
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

/* Up to this character, which is passed; *line is NULL when the line is another. */
static u64 take_number(char **line, int base, char end)
{
	char *behind;
	u64 v;

	if (!*line)
		return 0;
	v = strtoull(*line, &behind, base);
	*line = behind != *line && *behind == end ? behind + 1 : NULL;
	return v;
}

/* By hand: many of these lines are read for each process that is probed. */
static bool parse_line(char *line, struct dp_map *map)
{
	const char *mode;

	*map = (struct dp_map){0};
	map->lo = take_number(&line, 16, '-');
	map->hi = take_number(&line, 16, ' ');
	mode = line;
	if (!line || strlen(line) < MODE || line[MODE - 1] != ' ')
		return false;
	line += MODE;
	map->offset = take_number(&line, 16, ' ');
	map->dev_major = (unsigned)take_number(&line, 16, ':');
	map->dev_minor = (unsigned)take_number(&line, 16, ' ');
	map->inode = take_number(&line, 10, ' ');
	if (!line)
		return false;
	map->r = mode[0] == 'r';
	map->w = mode[1] == 'w';
	map->x = mode[2] == 'x';
	map->shared = mode[3] == 's';
	line += strspn(line, " ");
	line[strcspn(line, "\n")] = '\0';
	map->deleted = map->inode && dp_strip_deleted(line);
	unescape(line);
	map->path = strdup(line);
	return map->path != NULL;
}

/* A thread that has ended has no executable any more. */
static bool has_memory(pid_t tid)
{
	char path[64], exe[8];

	dp_format(path, sizeof(path), "/proc/%d/exe", (int)tid);
	return readlink(path, exe, sizeof(exe)) >= 0 || errno != ENOENT;
}

pid_t dp_memory_tid(pid_t pid)
{
	struct dirent *e;
	char path[64];
	pid_t tid = pid;
	DIR *dir;

	if (has_memory(pid))
		return pid;
	dp_format(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && tid == pid && (e = readdir(dir)))
		if (e->d_name[0] != '.' && has_memory((pid_t)atoi(e->d_name)))
			tid = (pid_t)atoi(e->d_name);
	if (dir)
		closedir(dir);
	return tid;
}

/* As that thread's file shows them. 0, or the errno why not, also when there are some lines already. */
static int read_lines(struct dp_maps *maps, pid_t tid)
{
	char path[64], chunk[CHUNK], *line = NULL;
	size_t size = 0, cap = 0;
	struct dp_map map;
	int error = 0;
	FILE *f;

	dp_format(path, sizeof(path), "/proc/%d/maps", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return errno;
	setvbuf(f, chunk, _IOFBF, sizeof(chunk));
	while (getline(&line, &size, f) > 0) {
		if (!parse_line(line, &map))
			continue;
		if (maps->n == cap) {
			size_t want = cap ? 2 * cap : 128;
			struct dp_map *v = reallocarray(maps->v, want, sizeof(*v));

			if (!v) {
				free(map.path);
				error = ENOMEM;
				break;
			}
			maps->v = v;
			cap = want;
		}
		maps->v[maps->n++] = map;
	}
	/* The process may have ended, or dropped its permissions, between the lines. */
	if (!error && ferror(f))
		error = errno;
	free(line);
	fclose(f);
	return error;
}

int dp_maps_read(struct dp_maps *maps, pid_t pid, struct dp_error *err)
{
	pid_t tid = pid;
	int error, rc = 0;

	*maps = (struct dp_maps){0};
	error = read_lines(maps, pid);
	/* The main thread may have ended before others. */
	if (!maps->n && (!error || error == ESRCH || error == ENOENT))
		tid = dp_memory_tid(pid);
	if (tid != pid)
		error = read_lines(maps, tid);
	if (error == ENOMEM)
		rc = dp_fail(err, E_FILE_MEMORY, "/proc/%d/maps", (int)pid);
	else if (error || !maps->n)
		rc = dp_proc_why(pid, error, err);
	if (rc)
		dp_maps_free(maps);
	return rc;
}

void dp_maps_free(struct dp_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->v[i].path);
	free(maps->v);
	*maps = (struct dp_maps){0};
}

const struct dp_map *dp_maps_at(const struct dp_maps *maps, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(maps->v, maps->n, lo, addr);

	return n && addr < maps->v[n - 1].hi ? &maps->v[n - 1] : NULL;
}
