/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The file behind a mapping, whatever its name leads to by now. Never waits, and opens nothing but regular files. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/sym-process-priv.h"

/* Device numbers are not compared: those in maps differ from stat's on btrfs and overlays. */
static int open_same(const char *path, const struct dp_map *map)
{
	int fd = dp_open_regular(path);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_ino == map->inode))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

/* Opens it under a name below /proc, which stays in path. */
static int open_by_process(pid_t pid, const struct dp_map *map, char *path, size_t size)
{
	int fd;

	/* Exact but privileged. */
	dp_format(path, size, "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)map->lo,
		  (unsigned long long)map->hi);
	fd = open_same(path, map);
	if (fd >= 0 || map->path[0] != '/')
		return fd;
	dp_format(path, size, "/proc/%d/root%s", (int)pid, map->path);
	fd = open_same(path, map);
	if (fd >= 0)
		return fd;
	dp_format(path, size, "/proc/%d/exe", (int)pid);
	return open_same(path, map);
}

bool dp_map_identify(pid_t pid, const struct dp_map *map, struct stat *st)
{
	char path[64];

	dp_format(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)map->lo,
		  (unsigned long long)map->hi);
	return !stat(path, st) && st->st_ino == map->inode;
}

int dp_map_open(pid_t pid, const struct dp_map *map)
{
	char path[PATH_MAX + 64];

	return open_by_process(pid, map, path, sizeof(path));
}

bool dp_map_path(pid_t pid, const struct dp_map *map, char *path, size_t size)
{
	struct stat mapped, named;
	int fd = open_by_process(pid, map, path, size);
	bool known = fd >= 0 && !fstat(fd, &mapped);

	if (fd >= 0)
		close(fd);
	if (known && !stat(map->path, &named) && named.st_dev == mapped.st_dev && named.st_ino == mapped.st_ino)
		dp_format(path, size, "%s", map->path);
	return known;
}
