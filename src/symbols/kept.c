/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See kept.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/kept.h"

#define PREFIX "code-"
#define KEEP_MOST (512u << 20) /* bytes of all files; beyond that the oldest go */
#define KEEP_AGE 5000000000ll  /* ns; of files that were changed later, nothing is kept */

const char *dp_module_keep_in;

bool dp_kept_identify(struct dp_module *m, const char *magic, bool own, struct kept_of *out)
{
	struct stat by, of, debug;

	memset(out, 0, sizeof(*out));
	if (!dp_module_keep_in || !m->build_id[0] || stat("/proc/self/exe", &by) || fstat(m->fd, &of))
		return false;
	if (!own && dp_mod_open_debug(m) && !fstat(m->debug.fd, &debug))
		out->debug = dp_mod_file_id(&debug);
	dp_format(out->magic, sizeof(out->magic), "%s", magic);
	memcpy(out->build_id, m->build_id, sizeof(out->build_id));
	out->by = dp_mod_file_id(&by);
	out->of = dp_mod_file_id(&of);
	return true;
}

static bool path_of(const struct kept_of *of, const char *kind, char *path, size_t size)
{
	return (size_t)snprintf(path, size, "%s/" PREFIX "%s-%llx-%llx%s", dp_module_keep_in, of->build_id,
				(unsigned long long)of->of.dev, (unsigned long long)of->of.ino, kind) < size;
}

int dp_module_open_kept(const char *path, u64 *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022) {
		close(fd);
		return -1;
	}
	*size = (u64)st.st_size;
	return fd;
}

static bool is_same(const struct kept_of *a, const struct kept_of *b)
{
	return !memcmp(a->magic, b->magic, sizeof(a->magic)) &&
	       !memcmp(a->build_id, b->build_id, sizeof(a->build_id)) && dp_mod_same_file(&a->by, &b->by) &&
	       dp_mod_same_file(&a->of, &b->of) && dp_mod_same_file(&a->debug, &b->debug);
}

void *dp_kept_map(const struct kept_of *want, const char *kind, u64 *size)
{
	char path[PATH_MAX];
	int fd = path_of(want, kind, path, sizeof(path)) ? dp_module_open_kept(path, size) : -1;
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (*size >= sizeof(*want))
		p = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p != MAP_FAILED && is_same(p, want))
		return p;
	if (p != MAP_FAILED)
		munmap(p, *size);
	return NULL;
}

bool dp_kept_is_at_rest(const struct dp_module *m, const struct kept_of *now)
{
	return dp_mod_same_file(&now->of, &m->id) && m->age > KEEP_AGE &&
	       (s64)(m->id.changed + (u64)m->age - now->debug.changed) > KEEP_AGE;
}

/* The oldest go until there is room. */
static void make_room(void)
{
	char path[PATH_MAX], oldest[PATH_MAX];
	u64 total, when, age;
	struct dirent *e;
	struct stat st;
	DIR *d;

	do {
		d = opendir(dp_module_keep_in);
		total = 0;
		when = ~0ull;
		while (d && (e = readdir(d))) {
			if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 ||
			    (size_t)snprintf(path, sizeof(path), "%s/%s", dp_module_keep_in, e->d_name) >=
				sizeof(path) ||
			    lstat(path, &st) || !S_ISREG(st.st_mode))
				continue;
			total += (u64)st.st_blocks * 512;
			age = dp_mod_file_id(&st).modified;
			if (age < when) {
				when = age;
				memcpy(oldest, path, sizeof(oldest));
			}
		}
		if (d)
			closedir(d);
	} while (total > KEEP_MOST && !unlink(oldest));
}

void dp_module_make_keep_in(void)
{
	const char *slash = strrchr(dp_module_keep_in, '/');
	char around[PATH_MAX];

	if ((size_t)snprintf(around, sizeof(around), "%.*s", (int)(slash - dp_module_keep_in), dp_module_keep_in) <
	    sizeof(around))
		mkdir(around, 0700);
	mkdir(dp_module_keep_in, 0700);
}

bool dp_kept_begin(const struct kept_of *of, const char *kind, struct kept_file *file)
{
	if (!path_of(of, kind, file->path, sizeof(file->path)))
		return false;
	dp_module_make_keep_in();
	snprintf(file->other, sizeof(file->other), "%s.%d", file->path, (int)getpid());
	file->fd = open(file->other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return file->fd >= 0;
}

void dp_kept_end(struct kept_file *file, bool good)
{
	/* On the disk before it has its name: what a crash has left of it must not be believed. */
	good = good && !fdatasync(file->fd);
	good &= !close(file->fd);
	if (!good || rename(file->other, file->path))
		unlink(file->other);
	else
		make_room();
}
