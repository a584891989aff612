/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See run-freezer.h. The directory's name says who holds whom, so that what a dead one has left is found without any
 * notes: by those who know the holder by the same id. In other namespaces of ids somebody else may have it, or nobody.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/process/hold.h"
#include "run/run-freezer.h"
#include "symbols/symbols.h"

#define MAGIC 0x63677270
/* Then the holder's id, when it began, the id of the process, and the namespace in which these are ids. */
#define NAME "dprobes-held-"
#define NAME_MAX_LEN 96
#define DEPTH 32 /* of directories that are looked through */
#define TRIES 20 /* to empty a directory in which processes are born */

#define ALL_FIELDS 4

struct holding { /* what the name of a directory says */
	int holder, pid;
	unsigned long long began, namespace;
};

static const char *why = "not asked yet";
static int root = -1; /* of the hierarchy, as far as we may see it */

/* ---- the hierarchy ---- */

static bool is_hierarchy(int fd)
{
	struct statfs st;

	return fd >= 0 && !fstatfs(fd, &st) && st.f_type == MAGIC;
}

/* Where it is mounted, writable and whole, for the process with that id in /proc; -1: nowhere. */
static int open_mounted(const char *id)
{
	char path[64], line[4096], from[1024], at[1024], how[256], full[1200];
	int fd = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/mountinfo", id);
	f = fopen(path, "re");
	while (f && fd < 0 && fgets(line, sizeof(line), f)) {
		const char *type = strstr(line, " - ");

		if (!type || strncmp(type, " - cgroup2 ", 11) ||
		    sscanf(line, "%*s %*s %*s %1023s %1023s %255s", from, at, how) != 3 || strcmp(from, "/") ||
		    strncmp(how, "rw", 2))
			continue;
		snprintf(full, sizeof(full), "/proc/%s/root%s", id, at);
		fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && !is_hierarchy(fd)) { /* something is mounted over it */
			close(fd);
			fd = -1;
		}
	}
	if (f)
		fclose(f);
	return fd;
}

/*
 * A mount that nobody else sees and that goes with us. Only where there is none: in the first namespace of cgroups a
 * mount without options resets those of the whole system.
 */
static int mount_privately(void)
{
	int fd = -1, fs = (int)syscall(SYS_fsopen, "cgroup2", 1 /* close on exec */);

	if (fs >= 0 && !syscall(SYS_fsconfig, fs, 6 /* create */, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, fs, 1 /* close on exec */, 0);
	if (fs >= 0)
		close(fs);
	return fd;
}

const char *dp_run_freezer_why(void)
{
	if (root >= 0 || (why && strcmp(why, "not asked yet")))
		return why;
	root = open_mounted("self");
	if (root < 0)
		root = open_mounted("1");
	if (root < 0)
		root = mount_privately();
	why = root >= 0 ? NULL : "no cgroup version 2 can be used";
	return why;
}

/* ---- one process ---- */

static int write_at(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int write_pid(int dir, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return write_at(dir, "cgroup.procs", text);
}

/* The directory in which the process is; false: it is not known. */
static bool read_own(pid_t pid, char *line, int size)
{
	char path[64];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, size, f))
		found = !strncmp(line, "0::/", 4);
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return found;
}

bool dp_run_is_held(pid_t pid)
{
	char line[4200];

	return read_own(pid, line, sizeof(line)) && strstr(line, "/" NAME);
}

void dp_run_path_unheld(char *path)
{
	char *held = strstr(path, "/" NAME);

	if (held)
		held[held == path] = '\0';
}

/* Of a process with that line: the directory in which it is when nobody holds it. */
static int open_unheld(char *line)
{
	char *at = line + 4;
	int fd;

	if (!strncmp(at, "..", 2))
		return -EXDEV;
	dp_run_path_unheld(line + 3);
	fd = openat(root, *at ? at : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_own(pid_t pid, bool *held)
{
	char line[4200];

	if (!read_own(pid, line, sizeof(line)))
		return -ESRCH;
	*held = strstr(line, "/" NAME);
	return open_unheld(line);
}

static void name_of(char *buf, size_t size, pid_t holder, pid_t pid)
{
	snprintf(buf, size, NAME "%d-%llu-%d-%llu", (int)holder, (unsigned long long)dp_process_started(holder),
		 (int)pid, (unsigned long long)dp_pid_namespace());
}

bool dp_run_is_held_or_awaited(pid_t pid, pid_t guard)
{
	char line[4200], name[NAME_MAX_LEN];
	bool awaited;
	int parent;

	if (!read_own(pid, line, sizeof(line)))
		return false;
	if (strstr(line, "/" NAME))
		return true;
	parent = dp_run_freezer_why() ? -ENOSYS : open_unheld(line);
	if (parent < 0)
		return false;
	name_of(name, sizeof(name), guard, pid);
	awaited = !faccessat(parent, name, F_OK, 0);
	close(parent);
	return awaited;
}

int dp_run_freeze(struct run_hold *h, pid_t pid)
{
	char name[NAME_MAX_LEN];
	int dir, r;

	*h = (struct run_hold){pid, -1, -1};
	if (dp_run_freezer_why())
		return -ENOSYS;
	h->parent = open_own(pid, &h->waits);
	if (h->parent < 0)
		return h->parent;
	name_of(name, sizeof(name), getpid(), pid);
	r = mkdirat(h->parent, name, 0700) && errno != EEXIST ? -errno : 0;
	dir = r ? -1 : openat(h->parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!r && dir < 0)
		r = -errno;
	if (!r)
		r = write_at(dir, "cgroup.freeze", "1");
	if (!r) {
		h->events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
		r = h->events < 0 ? -errno : h->waits ? 0 : write_pid(dir, pid);
	}
	if (dir >= 0)
		close(dir);
	if (r)
		dp_run_thaw(h, false);
	return r;
}

enum run_hold_state dp_run_hold_state(const struct run_hold *h)
{
	char text[256] = "";

	if (pread(h->events, text, sizeof(text) - 1, 0) <= 0 || strstr(text, "populated 0"))
		return RUN_HOLD_EMPTY;
	return strstr(text, "frozen 1") ? RUN_HOLD_FROZEN : RUN_HOLD_MOVING;
}

/* All that are in the directory go one up, where they go on, and it is removed. */
static void empty(int parent, const char *name)
{
	int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; dir >= 0 && i < TRIES; i++) {
		int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC), pid;
		FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

		while (f && fscanf(f, "%d", &pid) == 1)
			write_pid(parent, pid);
		if (f)
			fclose(f);
		/* Those that cannot be moved any more go on where they are. */
		write_at(dir, "cgroup.freeze", "0");
		if (!unlinkat(parent, name, AT_REMOVEDIR) || errno != EBUSY)
			break;
		usleep(1000);
	}
	if (dir >= 0)
		close(dir);
}

/* Whose directory that is, and which process it is for. Other releases do not name the namespace: it is ours then. */
static bool read_name(const char *name, int fields, struct holding *h)
{
	h->namespace = dp_pid_namespace();
	return sscanf(name, NAME "%d-%llu-%d-%llu", &h->holder, &h->began, &h->pid, &h->namespace) >= fields;
}

/* By an id that we know, and is no more. */
static bool is_left(const struct holding *h)
{
	return h->namespace == dp_pid_namespace() && !dp_process_lives(h->holder, h->began);
}

static bool waits_for(const struct holding *h, pid_t pid, pid_t but)
{
	return h->pid == pid && h->namespace == dp_pid_namespace() && h->holder != but &&
	       dp_process_lives(h->holder, h->began);
}

/* Into the first directory that somebody else has ready for it, who is returned; 0: nobody has. */
static pid_t pass_on(int parent, pid_t pid, pid_t but)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	pid_t passed = 0;
	struct dirent *e;
	struct stat st;

	while (dir && !passed && (e = readdir(dir))) {
		struct holding h;

		if (!read_name(e->d_name, ALL_FIELDS, &h) || !waits_for(&h, pid, but))
			continue;
		to = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (to >= 0 && !fstat(to, &st) && st.st_uid == geteuid() && !write_pid(to, pid))
			passed = h.holder;
		if (to >= 0)
			close(to);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return passed;
}

pid_t dp_run_pass_on(pid_t pid, pid_t guard)
{
	pid_t passed;
	bool held;
	int parent = dp_run_freezer_why() ? -ENOSYS : open_own(pid, &held);

	if (parent < 0)
		return 0;
	passed = held ? 0 : pass_on(parent, pid, guard);
	close(parent);
	return passed;
}

bool dp_run_take_over(struct run_hold *h)
{
	char line[4200], name[NAME_MAX_LEN];
	struct holding by;
	const char *at;
	bool taken;
	int dir;

	if (!read_own(h->pid, line, sizeof(line)) || !(at = strstr(line, "/" NAME)) ||
	    !read_name(at + 1, ALL_FIELDS, &by) || !is_left(&by))
		return false;
	name_of(name, sizeof(name), getpid(), h->pid);
	dir = openat(h->parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	taken = dir >= 0 && !write_pid(dir, h->pid);
	if (dir >= 0)
		close(dir);
	return taken;
}

pid_t dp_run_thaw(struct run_hold *h, bool pass)
{
	char name[NAME_MAX_LEN];
	pid_t passed = 0;

	name_of(name, sizeof(name), getpid(), h->pid);
	if (h->parent >= 0) {
		passed = !h->waits && pass ? pass_on(h->parent, h->pid, getpid()) : 0;
		if (!h->waits && !passed)
			write_pid(h->parent, h->pid);
		empty(h->parent, name);
		close(h->parent);
	}
	if (h->events >= 0)
		close(h->events);
	h->parent = h->events = -1;
	return passed;
}

/* ---- what the dead have left ---- */

bool dp_run_is_ours(pid_t pid)
{
	char path[64], exe[4096], own[4096];
	ssize_t n, k = readlink("/proc/self/exe", own, sizeof(own));

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe));
	return n > 0 && n == k && !memcmp(exe, own, (size_t)n);
}

static u32 look_through(int parent, u32 depth)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	u32 found = 0;

	while (dir && (e = readdir(dir))) {
		struct holding h;
		int child;

		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		if (read_name(e->d_name, ALL_FIELDS - 1, &h)) { /* whatever release of dprobes it is */
			if (!is_left(&h))
				continue;
			empty(parent, e->d_name);
			found++;
		} else if (depth) {
			child = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (child < 0)
				continue;
			found += look_through(child, depth - 1);
			close(child);
		}
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return found;
}

u32 dp_run_thaw_all(void)
{
	return dp_run_freezer_why() ? 0 : look_through(root, DEPTH);
}
