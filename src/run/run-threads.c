/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Translates thread ids of another pid namespace, by reading /proc/PID/task/TID/status. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run/run-threads.h"

#define SCAN_AGAIN_S 1 /* at most so often is all of /proc searched */

struct pair {
	u32 theirs, ours;
};

struct dp_threads {
	char ns[64]; /* what /proc/PID/ns/pid points to */
	struct pair *v;
	size_t n, room;
	time_t scanned;
};

static bool ns_of(const char *pid, char ns[64])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", pid);
	n = readlink(path, ns, 63);
	if (n <= 0)
		return false;
	ns[n] = '\0';
	return true;
}

struct dp_threads *dp_threads_new(pid_t pid)
{
	char text[16], own[64], its[64];
	struct dp_threads *t;

	snprintf(text, sizeof(text), "%d", pid);
	if (!ns_of("self", own) || !ns_of(text, its) || !strcmp(own, its))
		return NULL;
	t = dp_alloc(sizeof(*t));
	if (t)
		memcpy(t->ns, its, sizeof(its));
	return t;
}

void dp_threads_free(struct dp_threads *t)
{
	if (!t)
		return;
	dp_free(t->v);
	dp_free(t);
}

static bool read_small(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

/* The last number of the line "NSpid: 4711 12 1" is the id in the innermost namespace. */
static bool innermost(const char *status, u32 *id)
{
	const char *line = strstr(status, "\nNSpid:"), *end;

	if (!line)
		return false;
	line++;
	end = line + strcspn(line, "\n");
	while (end > line && end[-1] != '\t' && end[-1] != ' ')
		end--;
	*id = (u32)strtoul(end, NULL, 10);
	return *id != 0;
}

static void add_thread(struct dp_threads *t, const char *pid, const char *tid)
{
	char path[96], status[4096];
	u32 theirs;

	snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/status", pid, tid);
	if (!read_small(path, status, sizeof(status)) || !innermost(status, &theirs))
		return;
	if (t->n == t->room) {
		size_t room = t->room * 2 + 64;
		struct pair *v = dp_resize(t->v, t->room * sizeof(*v), room * sizeof(*v));

		if (!v)
			return;
		t->v = v;
		t->room = room;
	}
	t->v[t->n++] = (struct pair){theirs, (u32)strtoul(tid, NULL, 10)};
}

static void add_process(struct dp_threads *t, const char *pid)
{
	char path[64], ns[64];
	struct dirent *e;
	DIR *dir;

	if (!ns_of(pid, ns) || strcmp(ns, t->ns) != 0)
		return;
	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			add_thread(t, pid, e->d_name);
	closedir(dir);
}

void dp_threads_scan(struct dp_threads *t)
{
	struct dirent *e;
	DIR *dir = opendir("/proc");

	if (!dir)
		return;
	t->n = 0;
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			add_process(t, e->d_name);
	closedir(dir);
}

static u32 find(const struct dp_threads *t, u32 theirs)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].theirs == theirs)
			return t->v[i].ours;
	return 0;
}

bool dp_threads_comm(void *arg, u32 *tid, char buf[16])
{
	struct dp_threads *t = arg;
	struct timespec now;
	char path[64], comm[32];
	u32 ours = find(t, *tid);

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!ours && now.tv_sec - t->scanned >= SCAN_AGAIN_S) {
		t->scanned = now.tv_sec;
		dp_threads_scan(t);
		ours = find(t, *tid);
	}
	if (!ours)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/comm", ours);
	if (!read_small(path, comm, sizeof(comm)))
		return false;
	snprintf(buf, 16, "%.*s", (int)strcspn(comm, "\n"), comm);
	*tid = ours;
	return true;
}

bool dp_threads_has(const struct dp_threads *t, u32 tid)
{
	return t->n == 0 || find(t, tid) != 0;
}

/* Asked rarely, and a wrong "no" would let two threads into one ring: always look afresh. */
bool dp_threads_alive(u32 tid, void *arg)
{
	struct dp_threads *t = arg;

	dp_threads_scan(t);
	return dp_threads_has(t, tid);
}
