/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The file behind a mapping, whatever its name leads to by now. Never waits, and opens nothing but regular files. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/symbols.h"

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

int dp_map_open(pid_t pid, const struct dp_map *map)
{
	char path[PATH_MAX + 64];
	int fd;

	/* Exact but privileged. */
	dp_format(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)map->lo,
		  (unsigned long long)map->hi);
	fd = open_same(path, map);
	if (fd >= 0 || map->path[0] != '/')
		return fd;
	dp_format(path, sizeof(path), "/proc/%d/root%s", (int)pid, map->path);
	fd = open_same(path, map);
	if (fd >= 0)
		return fd;
	dp_format(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return open_same(path, map);
}
