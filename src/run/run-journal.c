/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See run-journal.h. The head and the members are mapped, so that a point is written in a few stores and is there when
 * we are killed; their pages are allocated first, since a store into a file that has no room is a signal.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "host/process/hold.h"
#include "host/process/process.h"
#include "run/run-chunks.h"
#include "run/run-journal.h"
#include "run/run-output.h"
#include "symbols/symbols.h"

#define MAGIC 0x316c6e726a727064ull
#define PATIENCE 1000      /* times 10 ms */
#define SPARE (1ull << 30) /* bytes that stay free where chunks are kept, or an eighth of all */
#define PREFIX ".recording-"
#define STATE ".state"

struct dp_journal {
	struct dp_journal_head *head;
	struct dp_journal_member *members;
	int fd;
	char path[160];
};

/* ---- files ---- */

static bool name_journal(char *buf, size_t size, pid_t owner, u64 started)
{
	char dir[100];

	if (!dp_record_dir(dir, sizeof(dir)))
		return false;
	snprintf(buf, size, "%s/" PREFIX "%d-%llu", dir, (int)owner, (unsigned long long)started);
	return true;
}

static int make_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void remove_directory(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
}

/* The journal and all that belongs to it. */
static void remove_files(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	size_t n = strlen(name);
	char dir[200], other[500];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, name, n) && e->d_name[n] == '.') {
			snprintf(other, sizeof(other), "%s%s", dir, e->d_name);
			if (unlink(other) && errno == EISDIR)
				remove_directory(other);
		}
	if (d)
		closedir(d);
	unlink(path); /* last: it leads to the others */
}

static void *map_journal(int fd)
{
	void *at = mmap(NULL, DP_JOURNAL_EVENTS_AT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* ---- the recorder's own ---- */

bool dp_journal_place(struct dp_journal_head *h, const char *path)
{
	char *slash;
	struct stat st;
	bool good;

	if (!realpath(path, h->path))
		return false;
	slash = strrchr(h->path, '/');
	*slash = '\0';
	good = !stat(*h->path ? h->path : "/", &st);
	*slash = '/';
	h->dir_dev = st.st_dev;
	h->dir_inode = st.st_ino;
	return good;
}

struct dp_journal *dp_journal_open(const char *path, bool in_memory)
{
	u64 started = dp_process_started(getpid());
	struct dp_journal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->fd = -1;
	if (!name_journal(j->path, sizeof(j->path), getpid(), started))
		goto none;
	j->fd = make_file(j->path);
	if (j->fd < 0 || posix_fallocate(j->fd, 0, DP_JOURNAL_MEMBERS_AT) || ftruncate(j->fd, DP_JOURNAL_EVENTS_AT))
		goto none;
	j->head = map_journal(j->fd);
	if (!j->head || !dp_journal_place(j->head, path))
		goto none;
	j->members = (void *)((char *)j->head + DP_JOURNAL_MEMBERS_AT);
	j->head->abi = DP_ABI;
	j->head->size = sizeof(*j->head);
	j->head->pid_namespace = dp_pid_namespace();
	j->head->owner = getpid();
	j->head->owner_started = started;
	j->head->in_memory = in_memory;
	dp_boot_id(j->head->boot);
	__atomic_store_n(&j->head->magic, MAGIC, __ATOMIC_RELEASE); /* pairs with our death: the head is whole */
	return j;
none:
	if (j->fd >= 0)
		unlink(j->path);
	dp_journal_close(j);
	return NULL;
}

void dp_journal_of_programs(struct dp_journal *j, char *dir, size_t size)
{
	snprintf(dir, size, "%s" STATE, j->path);
	j->head->begun_ns = dp_now_ns();
}

/* As a whole or not at all. */
void dp_journal_describe(struct dp_journal *j, const void *bytes, size_t n)
{
	char path[180], new[180];
	int fd;

	snprintf(path, sizeof(path), "%s.head", j->path);
	snprintf(new, sizeof(new), "%s.new", j->path);
	fd = make_file(new);
	if (fd >= 0 && write(fd, bytes, n) == (ssize_t)n)
		rename(new, path);
	if (fd >= 0)
		close(fd);
}

bool dp_journal_add(struct dp_journal *j, u32 index, pid_t pid, const u32 *events, u32 nevents)
{
	struct dp_journal_member out = {.pid = pid, .nevents = nevents, .started = dp_process_started(pid)};
	u64 at = DP_JOURNAL_MEMBERS_AT + index * sizeof(out);
	struct stat st;

	if (index >= DP_JOURNAL_MEMBERS || posix_fallocate(j->fd, (off_t)at, sizeof(out)) || fstat(j->fd, &st) ||
	    pwrite(j->fd, events, nevents * sizeof(*events), st.st_size) != (ssize_t)(nevents * sizeof(*events)))
		return false;
	out.events_at = (u64)st.st_size;
	j->members[index] = out;
	j->head->nmembers = DP_MAX(j->head->nmembers, index + 1);
	return true;
}

struct dp_journal_point *dp_journal_next(struct dp_journal *j, u64 *epoch)
{
	*epoch = j->head->epoch + 1;
	return &j->head->point[*epoch & 1];
}

void dp_journal_note_lost(struct dp_journal *j, u32 index, u64 lost)
{
	j->members[index].lost[(j->head->epoch + 1) & 1] = lost;
}

void dp_journal_fill(struct dp_journal_point *p, const struct dp_output *out, const struct dp_chunks *chunks)
{
	struct stat st;

	*p = (struct dp_journal_point){.size = out->written, .number = 1};
	if (!fstat(out->fd, &st)) {
		p->dev = st.st_dev;
		p->inode = st.st_ino;
	}
	if (chunks)
		dp_chunks_point(chunks, p);
}

void dp_journal_publish(struct dp_journal *j)
{
	/* Pairs with our death, after which a successor finds this point with all that was stored before. */
	__atomic_store_n(&j->head->epoch, j->head->epoch + 1, __ATOMIC_RELEASE);
}

void dp_journal_close(struct dp_journal *j)
{
	if (!j)
		return;
	if (j->head) {
		remove_files(j->path);
		munmap(j->head, DP_JOURNAL_EVENTS_AT);
	}
	if (j->fd >= 0)
		close(j->fd);
	free(j);
}

/* ---- chunks ---- */

static void name_chunk(const struct dp_journal *j, u32 number, char *buf, size_t size)
{
	snprintf(buf, size, "%s.%u", j->path, number);
}

int dp_journal_chunk(const struct dp_journal *j, u32 number)
{
	char path[180];

	if (!j || dp_journal_is_full(j))
		return -1;
	name_chunk(j, number, path, sizeof(path));
	return make_file(path);
}

void dp_journal_drop_chunk(const struct dp_journal *j, u32 number)
{
	char path[180];

	name_chunk(j, number, path, sizeof(path));
	unlink(path);
}

bool dp_journal_is_full(const struct dp_journal *j)
{
	struct statvfs v;

	return fstatvfs(j->fd, &v) || (u64)v.f_bavail * v.f_frsize < DP_MIN((u64)v.f_blocks * v.f_frsize / 8, SPARE);
}

/* ---- a successor's ---- */

static bool is_sound(const struct dp_journal_head *h)
{
	char boot[40];

	dp_boot_id(boot);
	return h->magic == MAGIC && h->abi == DP_ABI && h->size == sizeof(*h) && !memcmp(h->boot, boot, sizeof(boot)) &&
	       h->pid_namespace == dp_pid_namespace() && h->nmembers <= DP_JOURNAL_MEMBERS &&
	       strnlen(h->path, sizeof(h->path)) < sizeof(h->path) && h->path[0] == '/';
}

/* One successor at a time: they hold several journals, in any order, so none waits for good. */
static bool lock(int fd)
{
	int r;

	for (u32 i = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) && i < PATIENCE; i++)
		usleep(10000);
	return !r;
}

static bool open_left(struct dp_journal_left *l)
{
	struct stat a, b;

	l->head = NULL;
	l->fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (l->fd < 0)
		return false;
	/* Another one may have been quicker, and removed it. */
	if (!lock(l->fd) || fstat(l->fd, &a) || stat(l->path, &b) || a.st_ino != b.st_ino || !S_ISREG(a.st_mode) ||
	    a.st_uid != geteuid() || a.st_size < (off_t)DP_JOURNAL_EVENTS_AT)
		goto none;
	l->head = map_journal(l->fd);
	if (l->head && is_sound(l->head)) {
		snprintf(l->state, sizeof(l->state), "%s" STATE, l->path);
		l->members = (void *)((char *)l->head + DP_JOURNAL_MEMBERS_AT);
		return true;
	}
none:
	dp_journal_release(l);
	return false;
}

bool dp_journal_find(struct dp_journal_left *l, pid_t owner, u64 owner_started)
{
	return name_journal(l->path, sizeof(l->path), owner, owner_started) && open_left(l);
}

void dp_journal_each(void (*fn)(struct dp_journal_left *l, void *arg), void *arg)
{
	struct dp_journal_left l;
	unsigned long long started;
	char dir[100], rest;
	struct dirent *e;
	DIR *d;
	int pid;

	d = dp_record_dir(dir, sizeof(dir)) ? opendir(dir) : NULL;
	while (d && (e = readdir(d))) {
		if (sscanf(e->d_name, PREFIX "%d-%llu%c", &pid, &started, &rest) != 2 || dp_process_lives(pid, started))
			continue;
		snprintf(l.path, sizeof(l.path), "%s/%.60s", dir, e->d_name);
		if (open_left(&l))
			fn(&l, arg);
	}
	if (d)
		closedir(d);
}

void dp_journal_release(struct dp_journal_left *l)
{
	if (l->head)
		munmap(l->head, DP_JOURNAL_EVENTS_AT);
	l->head = NULL;
	if (l->fd >= 0)
		close(l->fd); /* and its lock */
	l->fd = -1;
}

int dp_journal_part(const struct dp_journal_left *l, const char *name)
{
	char path[220];

	snprintf(path, sizeof(path), "%s.%s", l->path, name);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

void dp_journal_forget(const struct dp_journal_left *l)
{
	remove_files(l->path);
}
