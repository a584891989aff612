/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Finds processes by what /proc tells of them. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/text.h"
#include "run/run-select.h"
#include "symbols/symbols.h"

#define PATH 4096

/* ---- what is asked for ---- */

static bool add_name(struct dp_select *s, const char *name, size_t n)
{
	char **v = realloc(s->names, (s->nnames + 1) * sizeof(*v));

	if (!v)
		return false;
	s->names = v;
	v[s->nnames] = strndup(name, n);
	s->nnames += v[s->nnames] != NULL;
	return v[s->nnames - 1];
}

bool dp_select_add(struct dp_select *s, const char *list)
{
	for (;;) {
		size_t n = strcspn(list, ",");

		if (n && !add_name(s, list, n))
			return false;
		if (!list[n])
			return true;
		list += n + 1;
	}
}

void dp_select_free(struct dp_select *s)
{
	for (u32 i = 0; i < s->nnames; i++)
		free(s->names[i]);
	free(s->names);
	s->names = NULL;
	s->nnames = 0;
}

static bool has_filter(const struct dp_select *s)
{
	return s->file || s->by_user || s->comm || s->cgroup || s->container || s->unit;
}

bool dp_select_any(const struct dp_select *s)
{
	return s->nnames || has_filter(s);
}

bool dp_select_is_file_alone(const struct dp_select *s)
{
	struct dp_select other = *s;

	other.file = NULL;
	return s->file && !s->tree && !dp_select_any(&other);
}

bool dp_select_is_open(const struct dp_select *s)
{
	return s->tree || (s->file && !s->nnames);
}

int dp_select_check(struct dp_select *s, struct dp_error *err)
{
	struct stat st;

	if (!s->file)
		return 0;
	if (stat(s->file, &st))
		return dp_fail(err, E_FILE_OPEN, "%s: %s", s->file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return dp_fail(err, E_FILE_OPEN, "%s is no regular file", s->file);
	s->file_inode = st.st_ino;
	s->file_dev_major = major(st.st_dev);
	s->file_dev_minor = minor(st.st_dev);
	return 0;
}

/* ---- lists of processes ---- */

bool dp_pids_add(struct dp_pids *p, pid_t pid)
{
	if (p->n == p->room) {
		u32 room = p->room * 2 + 64;
		pid_t *v = realloc(p->v, room * sizeof(*v));

		if (!v)
			return false;
		p->v = v;
		p->room = room;
	}
	p->v[p->n++] = pid;
	return true;
}

void dp_pids_free(struct dp_pids *p)
{
	free(p->v);
	*p = (struct dp_pids){0};
}

bool dp_pids_have(const struct dp_pids *p, pid_t pid)
{
	for (u32 i = 0; i < p->n; i++)
		if (p->v[i] == pid)
			return true;
	return false;
}

static int by_id(const void *a, const void *b)
{
	return *(const pid_t *)a < *(const pid_t *)b ? -1 : *(const pid_t *)a > *(const pid_t *)b;
}

/* ---- what /proc tells of a process ---- */

/* Texts of /proc/PID/NAME are the process's own to choose: at most size - 1 bytes, which end with a NUL. */
static bool read_text(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_comm(pid_t pid, char *buf, size_t size)
{
	bool good = read_text(pid, "comm", buf, size);

	buf[strcspn(buf, "\n")] = '\0';
	return good;
}

/* The last part of the path of its file; false: it has none (a thread of the kernel), or may not be looked at. */
static bool read_exe(pid_t pid, char *buf, size_t size)
{
	char text[PATH];

	dp_process_exe(pid, text, sizeof(text));
	snprintf(buf, size, "%s", dp_base_name(text));
	return *text;
}

pid_t dp_parent_of(pid_t pid)
{
	char text[512], *p;
	int ppid = 0;

	if (!read_text(pid, "stat", text, sizeof(text)))
		return 0;
	p = strrchr(text, ')'); /* the name before it may hold anything */
	if (!p || sscanf(p + 1, " %*c %d", &ppid) != 1)
		return 0;
	return ppid;
}

static bool same(const char *pattern, const char *text)
{
	return *text && !fnmatch(pattern, text, 0);
}

/* Named as people do: what it runs, as it was called, or what it calls itself. */
static bool is_named(pid_t pid, const char *pattern)
{
	char exe[PATH], text[PATH], *base;

	if (!read_exe(pid, exe, sizeof(exe)))
		return false;
	if (same(pattern, exe) || (read_comm(pid, text, sizeof(text)) && same(pattern, text)))
		return true;
	if (!read_text(pid, "cmdline", text, sizeof(text)))
		return false;
	base = strrchr(text, '/');
	return same(pattern, base ? base + 1 : text);
}

static bool is_id(const char *name)
{
	return *name && strspn(name, "0123456789") == strlen(name);
}

static bool matches_names(const struct dp_select *s, pid_t pid)
{
	if (!s->nnames)
		return true;
	for (u32 i = 0; i < s->nnames; i++)
		if (is_id(s->names[i]) ? atoi(s->names[i]) == (int)pid : is_named(pid, s->names[i]))
			return true;
	return false;
}

bool dp_select_maps_file(const struct dp_select *s, pid_t pid)
{
	struct dp_maps maps;
	bool found = false;

	if (dp_maps_read(&maps, pid, NULL))
		return false;
	for (size_t i = 0; i < maps.n; i++)
		found |= maps.v[i].x && maps.v[i].inode == s->file_inode && maps.v[i].dev_major == s->file_dev_major &&
			 maps.v[i].dev_minor == s->file_dev_minor;
	dp_maps_free(&maps);
	return found;
}

static bool is_users(const struct dp_select *s, pid_t pid)
{
	char text[4096], *line;
	unsigned uid;

	if (!read_text(pid, "status", text, sizeof(text)))
		return false;
	line = strstr(text, "\nUid:");
	return line && sscanf(line + 5, "%u", &uid) == 1 && uid == s->user;
}

/* ---- control groups: lines "0::/system.slice/nginx.service" ---- */

static bool is_below(const char *path, const char *dir)
{
	size_t n;

	dir += *dir == '/';
	path += *path == '/';
	n = strlen(dir);
	while (n && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && (!n || !path[n] || path[n] == '/');
}

/* A part of the path is the unit's directory. */
static bool has_unit(const char *path, const char *unit)
{
	size_t n = strlen(unit);

	for (const char *p = path; (p = strchr(p, '/'));) {
		p++;
		if (!strncmp(p, unit, n) && (!p[n] || p[n] == '/' || !strncmp(p + n, ".service", 8)))
			return true;
	}
	return false;
}

/* "docker-ID.scope", "cri-containerd-ID.scope", "/docker/ID", "lxc.payload.NAME", "/lxc/NAME", "machine-NAME.scope" */
static bool has_container(const char *path, const char *id)
{
	size_t n = strlen(id);

	for (const char *p = path; (p = strstr(p, id)); p++) {
		char before = p > path ? p[-1] : '/';

		if (n && (before == '/' || before == '-' || before == '.' || before == ':'))
			return true;
	}
	return false;
}

static bool in_groups(const struct dp_select *s, pid_t pid)
{
	char text[8192], *save = NULL;
	bool group = !s->cgroup, container = !s->container, unit = !s->unit;

	if (group && container && unit)
		return true;
	if (!read_text(pid, "cgroup", text, sizeof(text)))
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		path++;
		group |= s->cgroup && is_below(path, s->cgroup);
		container |= s->container && has_container(path, s->container);
		unit |= s->unit && has_unit(path, s->unit);
	}
	return group && container && unit;
}

bool dp_select_allows(const struct dp_select *s, pid_t pid)
{
	char comm[64], exe[PATH];

	if (!matches_names(s, pid))
		return false;
	if (has_filter(s) && !read_exe(pid, exe, sizeof(exe)))
		return false; /* of the kernel, or not ours to look at */
	return (!s->by_user || is_users(s, pid)) && in_groups(s, pid) &&
	       (!s->comm || (read_comm(pid, comm, sizeof(comm)) && same(s->comm, comm)));
}

static bool is_wanted(const struct dp_select *s, pid_t pid)
{
	return dp_select_allows(s, pid) && (!s->file || dp_select_maps_file(s, pid));
}

/* ---- finding ---- */

static void name_wish(const struct dp_select *s, char *buf, size_t size)
{
	int n = 0;

	for (u32 i = 0; i < s->nnames && n < (int)size; i++)
		n += snprintf(buf + n, size - (size_t)n, "%s%s", i ? "," : "-p ", s->names[i]);
#define WISH(given, option, value)    \
	if ((given) && n < (int)size) \
	n += snprintf(buf + n, size - (size_t)n, "%s%s %s", n ? " " : "", option, value)
	WISH(s->file, "--all", s->file);
	WISH(s->comm, "--comm", s->comm);
	WISH(s->cgroup, "--cgroup", s->cgroup);
	WISH(s->container, "--container", s->container);
	WISH(s->unit, "--unit", s->unit);
#undef WISH
	if (s->by_user && n < (int)size)
		snprintf(buf + n, size - (size_t)n, "%s--user %u", n ? " " : "", (unsigned)s->user);
}

/* Each id that was given is there; whatever else it must be. */
static int check_ids(const struct dp_select *s, struct dp_error *err)
{
	char text[64];

	for (u32 i = 0; i < s->nnames; i++) {
		if (!is_id(s->names[i]))
			continue;
		snprintf(text, sizeof(text), "/proc/%.20s", s->names[i]);
		if (access(text, F_OK))
			return dp_fail(err, E_PROC_NONE, "process %s", s->names[i]);
	}
	return 0;
}

static bool only_ids(const struct dp_select *s)
{
	for (u32 i = 0; i < s->nnames; i++)
		if (!is_id(s->names[i]))
			return false;
	return s->nnames && !has_filter(s);
}

/* Ids alone name what they name: threads too, and processes that nobody may look at, which is told when it is tried. */
static bool take_ids(const struct dp_select *s, struct dp_pids *pids)
{
	for (u32 i = 0; i < s->nnames; i++)
		if (!dp_pids_have(pids, atoi(s->names[i])) && !dp_pids_add(pids, atoi(s->names[i])))
			return false;
	return true;
}

static bool scan(const struct dp_select *s, struct dp_pids *pids)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	bool good = dir;

	while (good && (e = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : 0;

		if (pid > 0 && pid != getpid() && is_wanted(s, pid))
			good = dp_pids_add(pids, pid);
	}
	if (dir)
		closedir(dir);
	if (pids->n)
		qsort(pids->v, pids->n, sizeof(*pids->v), by_id);
	return good;
}

/* A name that can be typed as it is, whoever has chosen it. */
static bool is_plain(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!isgraph((unsigned char)*p))
			return false;
	return *name;
}

/* What runs, and is called nearly like that. */
static void suggest(const char *name, struct dp_error *err)
{
	DIR *dir = opendir("/proc");
	struct dp_near near = {.n = 0};
	char exe[PATH], comm[PATH];
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : 0;

		if (pid <= 0 || pid == getpid() || !read_exe(pid, exe, sizeof(exe)))
			continue;
		if (read_comm(pid, comm, sizeof(comm)) && is_plain(comm))
			dp_near_try(&near, name, comm);
		if (is_plain(exe))
			dp_near_try(&near, name, exe);
	}
	if (dir)
		closedir(dir);
	dp_near_hint(&near, "-p ", err);
}

/* A name that nobody has is told, even where others were found. */
static int check_found(const struct dp_select *s, const struct dp_pids *pids, struct dp_error *err)
{
	char wish[200];

	for (u32 i = 0; i < s->nnames; i++) {
		bool found = is_id(s->names[i]);

		for (u32 k = 0; k < pids->n && !found; k++)
			found = is_named(pids->v[k], s->names[i]);
		if (!found && !has_filter(s)) {
			dp_fail(err, E_SELECT_NONE, "no process runs, or calls itself, '%.150s'", s->names[i]);
			suggest(s->names[i], err);
			return -dp_error_info(E_SELECT_NONE)->number;
		}
	}
	if (pids->n)
		return 0;
	name_wish(s, wish, sizeof(wish));
	return dp_fail(err, E_SELECT_NONE, "%s", wish);
}

/* Without ourselves, where we are one of them, and what we have started. */
static bool without_us(struct dp_pids *pids)
{
	pid_t own = getpid();
	const struct dp_pids us = {.v = &own, .n = 1};
	struct dp_pids ours = {0};
	bool good = !dp_pids_have(pids, own) || (dp_pids_below(&us, &ours) && dp_pids_add(&ours, own));
	u32 n = 0;

	for (u32 i = 0; i < pids->n; i++)
		if (!dp_pids_have(&ours, pids->v[i]))
			pids->v[n++] = pids->v[i];
	pids->n = n;
	dp_pids_free(&ours);
	return good;
}

int dp_select_find(const struct dp_select *s, struct dp_pids *pids, struct dp_error *err)
{
	struct dp_pids below = {0};
	int r = check_ids(s, err);
	bool good;

	*pids = (struct dp_pids){0};
	if (r)
		return r;
	good = only_ids(s) ? take_ids(s, pids) : scan(s, pids);
	r = good ? check_found(s, pids, err) : dp_fail(err, E_FILE_MEMORY, "processes");
	if (r || !s->tree)
		return r;
	good = dp_pids_below(pids, &below);
	for (u32 i = 0; good && i < below.n; i++)
		good = dp_pids_add(pids, below.v[i]);
	dp_pids_free(&below);
	good = good && without_us(pids);
	return good ? 0 : dp_fail(err, E_FILE_MEMORY, "processes");
}

bool dp_same_program(pid_t a, pid_t b)
{
	char path[64];
	struct stat x, y;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)a);
	if (stat(path, &x))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)b);
	return !stat(path, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- trees ---- */

struct family {
	pid_t pid, parent;
	bool in;
};

static u32 read_families(struct family **out)
{
	DIR *dir = opendir("/proc");
	u32 n = 0, room = 0;
	struct family *v = NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : 0;

		if (pid <= 0)
			continue;
		if (n == room) {
			struct family *more = realloc(v, (room * 2 + 256) * sizeof(*v));

			if (!more)
				break;
			v = more;
			room = room * 2 + 256;
		}
		v[n++] = (struct family){pid, dp_parent_of(pid), false};
	}
	if (dir)
		closedir(dir);
	*out = v;
	return n;
}

bool dp_pids_below(const struct dp_pids *roots, struct dp_pids *below)
{
	struct family *v;
	u32 n = read_families(&v);
	bool good = true, more = true;

	*below = (struct dp_pids){0};
	while (more && good) { /* ids can be used again, so a child may have a smaller one than its parent */
		more = false;
		for (u32 i = 0; i < n && good; i++) {
			if (v[i].in || v[i].pid == getpid() || dp_pids_have(roots, v[i].pid) ||
			    (!dp_pids_have(roots, v[i].parent) && !dp_pids_have(below, v[i].parent)))
				continue;
			v[i].in = more = true;
			good = dp_pids_add(below, v[i].pid);
		}
	}
	free(v);
	return good;
}

u32 dp_pids_started(const pid_t *roots, u32 n, pid_t **below)
{
	const struct dp_pids from = {.v = (pid_t *)roots, .n = n};
	struct dp_pids found = {0};

	if (!dp_pids_below(&from, &found) || !without_us(&found))
		found.n = 0; /* no memory: those that are known */
	*below = found.v;
	return found.n;
}
