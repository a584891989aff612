/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The modules of a process: which files are mapped with execute permission, opened from where they
 * really are (other mount namespaces, deleted files), and how far they were moved. Never stops or
 * changes the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "symbols/module-priv.h"
#include "symbols/sym-process-priv.h"

#define PF_KTHREAD 0x00200000
#define PROCESS_CLOCK 2u /* of all threads of a process: the number's lowest bits, behind its id */

/* State letter and flags from /proc/PID/stat; false when there is no such process. */
static bool read_stat(pid_t pid, char *state, unsigned int *flags)
{
	char path[64], buf[512], *p;
	FILE *f;
	size_t n;

	dp_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(buf, 1, sizeof(buf) - 1, f);
	fclose(f);
	buf[n] = '\0';
	p = strrchr(buf, ')'); /* a command name may hold anything, even brackets */
	return p && sscanf(p + 1, " %c %*d %*d %*d %*d %*d %u", state, flags) == 2;
}

/* The number of the process's clock is computed as the C library does it; that asks the kernel whether it is right. */
u64 dp_process_ran_ns(pid_t pid)
{
	struct timespec ran;

	if (clock_gettime((clockid_t)(~(u32)pid << 3 | PROCESS_CLOCK), &ran))
		return 0;
	return (u64)ran.tv_sec * 1000000000 + (u64)ran.tv_nsec;
}

static u64 started_of(pid_t pid)
{
	char path[64], buf[1024], *p;
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	p = strrchr(buf, ')');
	for (int i = 0; p && i < 20; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* Our own is asked for with each record. */
u64 dp_process_started(pid_t pid)
{
	static _Thread_local pid_t own;
	static _Thread_local u64 began;

	if (pid != getpid())
		return started_of(pid);
	if (own != pid)
		began = started_of(pid);
	own = pid;
	return began;
}

/*
 * One that was killed has its start time still, but no memory: that goes first, before its files are closed and its
 * locks end. (It is seen by its size, as an executable is not for other users to see.)
 */
bool dp_process_lives(pid_t pid, u64 started)
{
	char path[64], size = '0';
	int fd;

	dp_format(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, &size, 1) != 1)
		size = '0';
	close(fd);
	return size != '0' && dp_process_started(pid) == started;
}

static char boot_id[40];

static void read_boot_id(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, boot_id, 36) < 0)
		boot_id[0] = '\0';
	if (fd >= 0)
		close(fd);
}

void dp_boot_id(char out[40])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_boot_id);
	memcpy(out, boot_id, sizeof(boot_id));
}

int dp_proc_why(pid_t pid, int error, struct dp_error *err)
{
	unsigned int flags = 0;
	char state = '?';

	if (!read_stat(pid, &state, &flags))
		return dp_fail(err, E_PROC_NONE, "%d", (int)pid);
	if (flags & PF_KTHREAD)
		return dp_fail(err, E_PROC_KTHREAD, "%d", (int)pid);
	if (state == 'Z' || state == 'X' || state == 'x')
		return dp_fail(err, E_PROC_DEAD, "%d", (int)pid);
	if (!error || error == ESRCH || error == ENOENT)
		return dp_fail(err, E_PROC_DEAD, "%d has no memory any more", (int)pid);
	return dp_fail(err, E_PROC_PERM, "%d: %s", (int)pid, strerror(error));
}

/* ELF class of the running program; the file may be gone, so it is opened through the link. */
static int check_class(pid_t pid, struct dp_error *err)
{
	unsigned char e[20] = {0};
	char path[64];
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%d/exe", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return dp_proc_why(pid, errno, err);
	n = read(fd, e, sizeof(e));
	close(fd);
	if (n == sizeof(e) && !memcmp(e, ELFMAG, SELFMAG) && (e[EI_CLASS] != ELFCLASS64 || e[18] != EM_X86_64 || e[19]))
		return dp_fail(err, E_PROC_32BIT, "%d", (int)pid);
	return 0;
}

static bool is_module_map(const struct dp_map *map)
{
	return map->x && map->inode && map->path[0] == '/' && strncmp(map->path, "/dev/", 5) &&
	       strncmp(map->path, "/SYSV", 5);
}

/* How far the module was moved, from the executable segment that this mapping shows. */
static bool find_bias(const struct dp_module *m, const struct dp_map *map, u64 *bias)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		const struct mod_seg *s = &m->segs[i];
		u64 page = DP_ALIGN_DOWN(s->offset, 4096ull);

		if (!s->x || map->offset < page || map->offset >= s->offset + s->filesz)
			continue;
		*bias = map->lo - (DP_ALIGN_DOWN(s->addr, 4096ull) + (map->offset - page));
		return true;
	}
	return false;
}

static bool has_image(const struct dp_process *p, const struct dp_image *im)
{
	for (size_t i = 0; i < p->nimages; i++)
		if (p->images[i].mod == im->mod && p->images[i].bias == im->bias)
			return true;
	return false;
}

/* One that this look has found, or the one before. */
static struct dp_image *image_of_file(struct dp_process *p, const struct dp_map *map)
{
	struct dp_image *before = p->old ? image_of_file(p->old, map) : NULL;

	if (before)
		return before;
	for (size_t i = 0; i < p->nimages; i++)
		if (p->images[i].inode == map->inode && p->images[i].dev_major == map->dev_major &&
		    p->images[i].dev_minor == map->dev_minor)
			return &p->images[i];
	return NULL;
}

static struct dp_module *module_of(struct dp_process *p, const struct dp_map *map)
{
	struct dp_image *img = image_of_file(p, map);
	struct dp_module *m = NULL;
	struct stat st;
	int fd;

	if (img) {
		img->mod->refs++;
		return img->mod;
	}
	if (dp_map_identify(p->pid, map, &st) && (m = dp_mod_shared(&st, map->path)))
		return m;
	fd = dp_map_open(p->pid, map);
	if (fd < 0)
		return NULL;
	dp_module_share_fd(&m, fd, map->path, NULL);
	close(fd);
	return m;
}

/* The first word of a file of the process's in /proc; empty when it cannot be read. */
static void read_word(pid_t pid, const char *file, const char *ends, char *buf, size_t size)
{
	char path[64];
	FILE *f;

	dp_format(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	buf[f ? fread(buf, 1, size - 1, f) : 0] = '\0';
	if (f)
		fclose(f);
	buf[strcspn(buf, ends)] = '\0';
}

/* Whether that path leads to the file, by links too, inside the root directory of the process. resolve: RESOLVE_*. */
static bool leads_to(const struct dp_process *p, const struct dp_image *img, const char *name, u64 resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | resolve};
	struct statx st;
	char path[64];
	int root, fd, r;

	dp_format(path, sizeof(path), "/proc/%d/root", (int)p->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	r = statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st);
	if (fd >= 0)
		close(fd);
	if (root >= 0)
		close(root);
	return !r && st.stx_ino == img->inode && (st.stx_dev_major == img->dev_major || !img->dev_major);
}

/* Under which name the program was started, if that was a link to it. */
static void find_called(struct dp_process *p, const struct dp_image *exe)
{
	const char *file = dp_module_path(exe->mod), *base = dp_module_base(exe->mod);
	char called[PATH_MAX], beside[PATH_MAX], *name;

	read_word(p->pid, "cmdline", " ", called, sizeof(called)); /* a blank: of a title set by the program */
	if (!*dp_base_name(called) || !strcmp(dp_base_name(called), base))
		return;
	/* The path that it was called by, or a name in the same directory, which $PATH has found. */
	dp_format(beside, sizeof(beside), "%.*s%s", (int)(base - file), file, dp_base_name(called));
	/*
	 * The name is the program's own word: a way to a file system that may never answer is not gone. The kernel
	 * mostly knows the way already (it cannot say so before 5.12).
	 */
	name = *called == '/' ? called : beside;
	if (leads_to(p, exe, name, RESOLVE_CACHED) || leads_to(p, exe, name, RESOLVE_NO_XDEV))
		dp_format(p->called, sizeof(p->called), "%s", dp_base_name(called));
}

static bool add_image(struct dp_process *p, const struct dp_map *map, const char *exe)
{
	struct dp_module *m = module_of(p, map);
	struct dp_image *v, img = {.mod = m};
	u64 hi = 0;

	if (!m)
		return true;
	if (!find_bias(m, map, &img.bias)) {
		dp_module_close(m);
		return true;
	}
	for (size_t i = 0; i < p->nimages; i++)
		if (p->images[i].mod == m && p->images[i].bias == img.bias) {
			dp_module_close(m);
			return true;
		}
	for (size_t i = 0; i < m->nsegs; i++)
		hi = DP_MAX(hi, m->segs[i].addr + m->segs[i].memsz);
	img.lo = dp_module_lowest(m) + img.bias;
	img.hi = DP_ALIGN_UP(hi, 4096ull) + img.bias;
	img.inode = map->inode;
	img.dev_major = map->dev_major;
	img.dev_minor = map->dev_minor;
	img.is_exe = !strcmp(map->path, exe);
	v = reallocarray(p->images, p->nimages + 1, sizeof(*v));
	if (!v) {
		dp_module_close(m);
		return false;
	}
	p->images = v;
	v[p->nimages++] = img;
	if (img.is_exe && p->old && has_image(p->old, &img))
		memcpy(p->called, p->old->called, sizeof(p->called));
	else if (img.is_exe)
		find_called(p, &img);
	return true;
}

void dp_process_exe(pid_t pid, char *buf, size_t size)
{
	char path[64];
	ssize_t n;

	dp_format(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	dp_strip_deleted(buf);
}

/* How well a line HIERARCHY:CONTROLLERS:PATH tells in which group a process is. */
static int rank_of_group(const char *line)
{
	return !strncmp(line, "0::", 3) ? 3 : strstr(line, ":name=systemd:") ? 2 : 1;
}

void dp_process_cgroup(pid_t pid, char *buf, size_t size)
{
	char path[64], line[PATH_MAX + 256];
	int best = 0;
	FILE *f;

	buf[0] = '\0';
	dp_format(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strchr(line, '/');
		int rank = rank_of_group(line);

		if (!at || rank <= best)
			continue;
		best = rank;
		dp_format(buf, size, "%.*s", (int)strcspn(at, "\n"), at);
	}
	if (f)
		fclose(f);
}

int dp_process_read(struct dp_process *p, pid_t pid, struct dp_error *err)
{
	char exe[PATH_MAX];
	int rc;

	*p = (struct dp_process){.pid = dp_memory_tid(pid)};
	rc = dp_maps_read(&p->maps, pid, err);
	if (!rc)
		rc = check_class(p->pid, err);
	if (rc)
		goto fail;
	dp_process_exe(p->pid, exe, sizeof(exe));
	for (size_t i = 0; i < p->maps.n; i++) {
		if (is_module_map(&p->maps.v[i]) && !add_image(p, &p->maps.v[i], exe)) {
			rc = dp_fail(err, E_FILE_MEMORY, "%d", (int)pid);
			goto fail;
		}
	}
	return 0;
fail:
	dp_process_free(p);
	return rc;
}

int dp_process_renew(struct dp_process *p, struct dp_error *err)
{
	struct dp_process now = {.pid = dp_memory_tid(p->pid), .old = p};
	struct dp_image *gone;
	char exe[PATH_MAX];
	int rc = dp_maps_read(&now.maps, p->pid, err);

	dp_process_exe(p->pid, exe, sizeof(exe));
	for (size_t i = 0; i < now.maps.n && !rc; i++)
		if (is_module_map(&now.maps.v[i]) && !add_image(&now, &now.maps.v[i], exe))
			rc = dp_fail(err, E_FILE_MEMORY, "%d", (int)p->pid);
	gone = rc ? NULL : reallocarray(p->gone, p->ngone + p->nimages + 1, sizeof(*gone));
	if (!rc && !gone)
		rc = dp_fail(err, E_FILE_MEMORY, "%d", (int)p->pid);
	if (rc) {
		dp_process_free(&now);
		return rc;
	}
	p->gone = gone;
	for (size_t i = 0; i < p->nimages; i++)
		if (has_image(&now, &p->images[i]))
			dp_module_close(p->images[i].mod);
		else
			p->gone[p->ngone++] = p->images[i];
	free(p->images);
	dp_maps_free(&p->maps);
	p->pid = now.pid;
	p->maps = now.maps;
	p->images = now.images;
	memcpy(p->called, now.called, sizeof(p->called));
	p->nimages = now.nimages;
	return 0;
}

void dp_process_forget(struct dp_process *p, bool (*used)(void *arg, const struct dp_image *image), void *arg)
{
	size_t n = 0;

	for (size_t i = 0; i < p->ngone; i++)
		if (used(arg, &p->gone[i]))
			p->gone[n++] = p->gone[i];
		else
			dp_module_close(p->gone[i].mod);
	p->ngone = n;
}

void dp_process_free(struct dp_process *p)
{
	for (size_t i = 0; i < p->ngone; i++)
		dp_module_close(p->gone[i].mod);
	free(p->gone);
	for (size_t i = 0; i < p->nimages; i++)
		dp_module_close(p->images[i].mod);
	free(p->images);
	dp_maps_free(&p->maps);
	*p = (struct dp_process){0};
}

static bool is_named(const struct dp_image *img, const char *name)
{
	const char *soname = dp_mod_soname(img->mod);

	return !strcmp(soname ? soname : dp_module_base(img->mod), name);
}

static bool is_single(const struct dp_process *p, const struct dp_image *img)
{
	for (size_t i = 0; i < p->nimages; i++)
		if (&p->images[i] != img && p->images[i].mod == img->mod)
			return false;
	return true;
}

/* Those that img is linked to; whether any was not known to stay before. */
static bool mark_needed(struct dp_process *p, const struct dp_image *img)
{
	const char *name;
	bool any = false;

	for (u32 n = 0; (name = dp_mod_needed(img->mod, n)); n++)
		for (size_t i = 0; i < p->nimages; i++) {
			struct dp_image *to = &p->images[i];

			if (to->stays || !is_named(to, name) || !is_single(p, to))
				continue;
			to->stays = any = true;
		}
	return any;
}

static bool is_file(int fd, const struct dp_map *map)
{
	struct stat st;

	return map->inode && !fstat(fd, &st) && st.st_ino == map->inode;
}

/* Only what can be had again from the file: libelf may have read it instead, or names may be made up. */
static void rest(struct dp_module *m, const struct dp_maps *own)
{
	const struct dp_map *names = own && m->syms.n ? dp_maps_at(own, (u64)(uintptr_t)m->syms.v[0].name) : NULL;

	madvise((void *)m->file, m->file_size, MADV_DONTNEED);
	if (names && !names->w && (is_file(m->fd, names) || (m->debug.elf && is_file(m->debug.fd, names))))
		madvise((void *)(uintptr_t)names->lo, names->hi - names->lo, MADV_DONTNEED);
}

void dp_process_rest(struct dp_process *p, bool names)
{
	struct dp_maps own;
	bool known = names && !dp_maps_read(&own, getpid(), NULL);

	for (size_t i = 0; i < p->nimages; i++)
		rest(p->images[i].mod, known ? &own : NULL);
	if (known)
		dp_maps_free(&own);
}

void dp_process_find_lasting(struct dp_process *p)
{
	bool more = true;

	for (size_t i = 0; i < p->nimages; i++) {
		struct dp_image *img = &p->images[i];

		img->stays = (img->is_exe || !strncmp(dp_module_base(img->mod), "ld-", 3)) && is_single(p, img);
	}
	while (more) {
		more = false;
		for (size_t i = 0; i < p->nimages; i++)
			more |= p->images[i].stays && mark_needed(p, &p->images[i]);
	}
}

struct dp_image *dp_process_image_at(struct dp_process *p, u64 addr)
{
	for (size_t i = 0; i < p->nimages; i++)
		if (addr >= p->images[i].lo && addr < p->images[i].hi)
			return &p->images[i];
	return NULL;
}

/* "libc" for libc.so.6, "libpython" for libpython3.11.so.1.0, "libc" for libc-2.31.so */
static bool short_name(const char *base, const char *name)
{
	size_t n = strlen(name);
	const char *rest = base + n;

	if (strncmp(base, name, n) || !n)
		return false;
	if (!strncmp(rest, ".so", 3))
		return true;
	if (*rest == '-')
		rest++;
	rest += strspn(rest, "0123456789.");
	return !strncmp(rest, "so", 2) && rest[-1] == '.';
}

/* Debian's redis-server is a link to redis-check-rdb: the name that the program was started by
 * counts too. */
static bool started_as(pid_t pid, const char *name)
{
	char buf[PATH_MAX];

	read_word(pid, "cmdline", " ", buf, sizeof(buf)); /* a blank: of a title set by the program */
	if (!strcmp(buf, name) || !strcmp(dp_base_name(buf), name))
		return true;
	read_word(pid, "comm", "\n", buf, sizeof(buf));
	return !strcmp(buf, name);
}

const char *dp_process_image_name(const struct dp_process *p, const struct dp_image *img)
{
	return img->is_exe && *p->called ? p->called : dp_module_base(img->mod);
}

/* redis, of redis-server */
static bool begins_as(const char *called, const char *name)
{
	size_t n = strlen(name);

	return n && !strncmp(called, name, n) && called[n] == '-';
}

static bool name_matches(const struct dp_process *p, const struct dp_image *img, const char *name, int how)
{
	const char *soname;

	switch (how) {
	case 0:
		return !strcmp(dp_module_path(img->mod), name) || !strcmp(dp_module_base(img->mod), name);
	case 1:
		return img->is_exe && (!strcmp(name, "exe") || started_as(p->pid, name));
	case 2:
		return name[0] == '/' && leads_to(p, img, name, 0);
	case 3:
		soname = dp_mod_soname(img->mod);
		return soname && !strcmp(soname, name);
	case 4:
		return short_name(dp_module_base(img->mod), name);
	case 5:
		return img->is_exe && !strcmp(name, "main");
	default:
		return img->is_exe && begins_as(dp_process_image_name(p, img), name);
	}
}

bool dp_is_module_pattern(const char *name)
{
	return strpbrk(name, "*?");
}

bool dp_process_image_matches(const struct dp_process *p, const struct dp_image *img, const char *pattern)
{
	return !fnmatch(pattern, strchr(pattern, '/') ? dp_module_path(img->mod) : dp_process_image_name(p, img), 0);
}

struct dp_image *dp_process_image(struct dp_process *p, const char *name, struct dp_error *err)
{
	struct dp_near near = {0};
	char text[sizeof(err->hint) - 16];

	for (int how = 0; how <= 6; how++)
		for (size_t i = 0; i < p->nimages; i++)
			if (name_matches(p, &p->images[i], name, how))
				return &p->images[i];
	dp_fail(err, E_MOD_NONE, "%s in process %d", name, (int)p->pid);
	for (size_t i = 0; i < p->nimages; i++)
		dp_near_try(&near, name, dp_process_image_name(p, &p->images[i]));
	dp_near_text(&near, text, sizeof(text));
	if (*text)
		dp_error_hint(err, "did you mean %s?", text);
	return NULL;
}

void dp_process_image_file(const struct dp_process *p, const struct dp_image *im, char *path, size_t size)
{
	const struct dp_map *map = dp_maps_at(&p->maps, im->lo);

	if (!map || !dp_map_path(p->pid, map, path, size))
		dp_format(path, size, "%s", dp_module_path(im->mod));
}
