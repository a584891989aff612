/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See record.h. A file is: a page with the head, a page with the control block, and then the tables. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/process/hold.h"
#include "host/process/record.h"
#include "host/process/session-priv.h"

#define MAGIC 0x3143455254535044ull
#define PAGE 4096u
#define KEPT 64 /* records of processes that have ended: their children may live on with the probes */

struct head {
	u64 magic;
	u32 abi, size;
	char boot[40];
	u64 pid_namespace;
	s32 pid, owner;
	u64 started, owner_started;
	struct dp_file_id file;
	u64 rings_size, ring_size, words_off;
	u32 ncpus, nrings, nprobes, pad;
	struct dp_blob_head blob;
};

_Static_assert(sizeof(struct head) <= PAGE && sizeof(struct dp_control) <= PAGE,
	       "a page each: written as a whole or not at all");

/* ---- where ---- */

/* Of the session with this region. */
static void name_record(char *buf, size_t size, const char *dir, pid_t pid, u64 started, u64 region)
{
	snprintf(buf, size, "%.99s/%d-%llu-%llx", dir, (int)pid, (unsigned long long)started,
		 (unsigned long long)region);
}

static void own_record(const struct dp_session *s, const char *dir, char *path, size_t size)
{
	name_record(path, size, dir, s->pid, s->record_started, s->block.ctl.region_lo);
}

/*
 * Whether nothing can be read there. Asked of every process when a session ends, and so by one system call: a list of
 * mappings takes a hundred times as long.
 */
static bool is_nothing_at(pid_t pid, u64 addr)
{
	char byte, path[40];
	struct iovec here = {&byte, 1}, there = {(void *)addr, 1};
	struct stat st;

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) == 1)
		return false;
	if (errno != ESRCH)
		return errno == EFAULT;
	/* A thread of the kernel, or one whose main thread has ended: others may be left (a link for each). */
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return !stat(path, &st) && st.st_nlink == 3;
}

bool dp_is_rings(const struct dp_map *map)
{
	return map->shared && !strncmp(map->path, "/memfd:dprobes-rings", 20);
}

struct dp_file_id dp_map_file(const struct dp_map *map)
{
	return (struct dp_file_id){makedev(map->dev_major, map->dev_minor), map->inode};
}

struct dp_file_id dp_rings_at(pid_t pid, u64 addr)
{
	struct dp_file_id id = {0, 0};
	const struct dp_map *m;
	struct dp_maps maps;

	if (is_nothing_at(pid, addr) || dp_maps_read(&maps, pid, NULL))
		return id;
	m = dp_maps_at(&maps, addr);
	if (m && dp_is_rings(m))
		id = dp_map_file(m);
	dp_maps_free(&maps);
	return id;
}

/* ---- writing ---- */

static void fill_head(const struct dp_session *s, struct head *h)
{
	*h = (struct head){.magic = MAGIC,
			   .abi = DP_ABI,
			   .size = sizeof(*h),
			   .pid_namespace = dp_pid_namespace(),
			   .pid = s->pid,
			   .owner = getpid(),
			   .started = s->record_started,
			   .owner_started = dp_process_started(getpid()),
			   .file = s->rings_file,
			   .rings_size = s->rings.size,
			   .ring_size = s->rings.g.ring_size,
			   .words_off = s->words_off,
			   .ncpus = s->rings.g.ncpus,
			   .nrings = s->rings.g.nrings,
			   .nprobes = s->rings.g.nprobes,
			   .blob = s->block.head};
	dp_boot_id(h->boot);
}

static bool put(int fd, const void *p, u64 n, u64 at)
{
	for (u64 done = 0; done < n;) {
		ssize_t r = pwrite(fd, (const u8 *)p + done, n - done, (off_t)(at + done));

		if (r <= 0)
			return false;
		done += (u64)r;
	}
	return true;
}

/* By one call: a process that starts waits meanwhile. From where the tables are, which may be many megabytes. */
static bool put_all(int fd, struct dp_session *s)
{
	struct dp_block_table t[DP_BLOCK_TABLES];
	u8 pages[2 * PAGE] = {0};
	struct iovec v[1 + DP_BLOCK_TABLES] = {{pages, sizeof(pages)}};
	u64 at = 0, done;
	struct head h;
	ssize_t n;

	fill_head(s, &h);
	if (!h.started)
		return false;
	memcpy(pages, &h, sizeof(h));
	memcpy(pages + PAGE, &s->block.ctl, sizeof(s->block.ctl));
	dp_block_tables(&s->block, t);
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++)
		v[1 + i] = (struct iovec){*t[i].v, (size_t)t[i].n * t[i].size};
	n = pwritev(fd, v, DP_ARRAY_SIZE(v), 0);
	if (n <= 0)
		return false;
	for (u32 i = 0; i < DP_ARRAY_SIZE(v); i++) { /* what it has left out */
		done = DP_MIN(v[i].iov_len, (u64)n - DP_MIN((u64)n, at));
		if (!put(fd, (const u8 *)v[i].iov_base + done, v[i].iov_len - done, at + done))
			return false;
		at += v[i].iov_len;
	}
	return true;
}

static bool is_dead(const struct head *h)
{
	return dp_process_started(h->pid) != h->started && dp_process_started(h->owner) != h->owner_started;
}

static bool get(int fd, void *p, u64 n, u64 at)
{
	for (u64 done = 0; done < n;) {
		ssize_t r = pread(fd, (u8 *)p + done, n - done, (off_t)(at + done));

		if (r <= 0)
			return false;
		done += (u64)r;
	}
	return true;
}

/* A record of this boot, version and namespace; -1: it is none. */
static int open_record(const char *path, int flags, struct head *h)
{
	char boot[40];
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);

	dp_boot_id(boot);
	if (fd >= 0 && (!get(fd, h, sizeof(*h), 0) || h->magic != MAGIC || h->abi != DP_ABI || h->size != sizeof(*h) ||
			memcmp(h->boot, boot, sizeof(boot)) || h->pid_namespace != dp_pid_namespace())) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Call fn for the records, until it returns true. Their number. */
static u32 each_record(const char *dir, bool (*fn)(const char *path, void *arg), void *arg)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	char path[300];
	bool done = false;
	u32 n = 0;

	while (d && !done && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof(path), "%.99s/%.60s", dir, de->d_name);
		done = fn && fn(path, arg);
	}
	if (d)
		closedir(d);
	return n;
}

static bool sweep_one(const char *path, void *arg)
{
	struct head h;
	int fd = open_record(path, O_RDONLY, &h);

	(void)arg;
	if (fd < 0 || is_dead(&h))
		unlink(path);
	if (fd >= 0)
		close(fd);
	return false;
}

/*
 * Records that nobody needs any more go. Whoever looks for them reads all, so that is done again when there may be
 * twice as many as were left the last time.
 */
static void sweep(const char *dir)
{
	static u32 n, most;

	if (++n <= most)
		return;
	n = each_record(dir, NULL, NULL);
	if (n > KEPT) {
		each_record(dir, sweep_one, NULL);
		n = each_record(dir, NULL, NULL);
	}
	most = DP_MAX(2 * n, (u32)KEPT);
}

static void close_record(struct dp_session *s)
{
	if (s->record_fd >= 0)
		close(s->record_fd);
	s->record_fd = -1;
}

void dp_record_keep_open(struct dp_session *s, bool open)
{
	s->record_stays = open;
	if (!open)
		close_record(s);
}

void dp_record_write(struct dp_session *s)
{
	char dir[100], path[160], new[160];
	bool good;
	int fd;

	if (!dp_record_dir(dir, sizeof(dir)))
		return;
	s->record_started = dp_process_started(s->pid);
	if (!s->recorded)
		sweep(dir);
	own_record(s, dir, path, sizeof(path));
	snprintf(new, sizeof(new), "%s/.%d-%d", dir, (int)s->pid, (int)getpid());
	fd = open(new, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	good = fd >= 0 && put_all(fd, s) && !rename(new, path);
	close_record(s);
	if (good && s->record_stays)
		s->record_fd = fd;
	else if (fd >= 0)
		close(fd);
	if (!good) {
		unlink(new);
		unlink(path); /* rather none than an old one */
	}
	s->recorded = good;
}

/* The rings first: with them, and without a control block that says where they are, nobody is taken for an heir. */
void dp_record_renew(struct dp_session *s)
{
	struct head h;

	if (s->record_fd >= 0)
		fill_head(s, &h);
	if (s->record_fd < 0 || !put(s->record_fd, &h, sizeof(h), 0) ||
	    !put(s->record_fd, &s->block.ctl, sizeof(s->block.ctl), PAGE))
		dp_record_write(s);
}

/* Another session may stand in the same place by now, with a record of that name; -1: it is not ours, or is gone. */
static int open_own(const char *path, int flags)
{
	struct head h;
	int fd = open_record(path, flags, &h);

	if (fd < 0 || (h.owner == getpid() && h.owner_started == dp_process_started(getpid())))
		return fd;
	close(fd);
	return -1;
}

void dp_record_update(struct dp_session *s)
{
	char dir[100], path[160];
	int fd = s->record_fd;
	bool good;

	if (!s->recorded || (fd < 0 && !dp_record_dir(dir, sizeof(dir))))
		return;
	if (fd < 0) {
		own_record(s, dir, path, sizeof(path));
		fd = open_own(path, O_RDWR);
	}
	good = fd >= 0 && put(fd, &s->block.ctl, sizeof(s->block.ctl), PAGE);
	if (fd >= 0 && fd != s->record_fd)
		close(fd);
	if (!good)
		dp_record_end(s, true);
}

void dp_record_end(struct dp_session *s, bool forget)
{
	char dir[100], path[160];
	int fd;

	close_record(s);
	if (!s->recorded)
		return;
	s->recorded = false;
	if (!forget || !dp_record_dir(dir, sizeof(dir)))
		return;
	own_record(s, dir, path, sizeof(path));
	fd = open_own(path, O_RDONLY);
	if (fd < 0)
		return;
	unlink(path);
	close(fd);
}

/* ---- reading ---- */

static bool read_tables(int fd, struct dp_block *b)
{
	struct dp_block_table t[DP_BLOCK_TABLES];
	u64 at = 2 * PAGE;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	dp_block_tables(b, t);
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++) {
		u64 bytes = (u64)t[i].n * t[i].size;

		*t[i].v = at + bytes <= (u64)st.st_size ? calloc((size_t)t[i].n + 1, t[i].size) : NULL;
		if (!*t[i].v || !get(fd, *t[i].v, bytes, at))
			return false;
		at += bytes;
	}
	return true;
}

static bool read_known(struct dp_known *k, int fd, const struct head *h, const char *path)
{
	struct dp_block *b = &k->block;

	*k = (struct dp_known){.pid = h->pid,
			       .owner = h->owner,
			       .started = h->started,
			       .owner_started = h->owner_started,
			       .file = h->file,
			       .words_off = h->words_off};
	k->rings.size = h->rings_size;
	snprintf(k->path, sizeof(k->path), "%.159s", path);
	b->head = h->blob;
	if (!get(fd, &b->ctl, sizeof(b->ctl), PAGE)) {
		b->ctl = (struct dp_control){0};
		return false;
	}
	if (h->file.inode && !dp_ring_map_lay_out(&k->rings, h->ncpus, h->nrings, h->nprobes, h->ring_size))
		return false;
	if (!read_tables(fd, b))
		return false;
	if (b->ctl.state == DP_STATE_EMPTY) /* nothing was patched yet */
		b->ctl.npatches = 0;
	return !dp_block_check(b, NULL);
}

struct search {
	pid_t pid;
	struct dp_maps maps;
	struct dp_known *v;
	u32 n;
	size_t cap;
	bool others; /* only those of other processes: inherited by fork */
	u64 own;     /* region of which nothing is asked; 0: none */
};

/* As every region is mapped. The kernel's own mappings, "[vdso]" and the like, are no region. */
static bool may_be_region(const struct dp_map *m)
{
	return m->x && !m->inode && strncmp(m->path, "[v", 2) != 0;
}

bool dp_maps_may_have_owners(const struct dp_maps *maps)
{
	bool any = false;

	for (size_t i = 0; i < maps->n; i++)
		any |= may_be_region(&maps->v[i]) || dp_is_rings(&maps->v[i]);
	return any;
}

/* A region begins with it, as its first word has it. */
static bool is_region(const struct search *s, const struct dp_map *m)
{
	u64 magic = 0;

	return may_be_region(m) && dp_process_peek(dp_memory_tid(s->pid), m->lo, &magic, sizeof(magic)) &&
	       magic == DP_BLOB_MAGIC;
}

/* What this record is about stands in the process. */
static bool stands_there(const struct search *s, const struct head *h, u64 region)
{
	const struct dp_map *m = dp_maps_at(&s->maps, region);

	return m && m->lo == region && is_region(s, m) && (h->pid == s->pid || h->file.inode);
}

static bool maps_file(const struct dp_maps *maps, u64 at, struct dp_file_id id)
{
	const struct dp_map *m = dp_maps_at(maps, at);

	return m && m->shared && dp_same_file(id, dp_map_file(m));
}

/* Add it to those that were found, if it is about what stands in the process. */
static bool look_at(const char *path, void *arg)
{
	struct search *s = arg;
	struct dp_control c;
	struct head h;
	int fd = open_record(path, O_RDONLY, &h);
	bool its_own = fd >= 0 && h.pid == s->pid && h.started == dp_process_started(s->pid);

	if (fd >= 0 && its_own != s->others && get(fd, &c, sizeof(c), PAGE) && c.region_lo != s->own &&
	    (its_own || maps_file(&s->maps, c.rings, h.file)) && stands_there(s, &h, c.region_lo) &&
	    dp_grow((void **)&s->v, &s->cap, s->n, sizeof(*s->v))) {
		if (read_known(&s->v[s->n], fd, &h, path))
			s->n++;
		else
			dp_block_free(&s->v[s->n].block);
	}
	if (fd >= 0)
		close(fd);
	return false;
}

static bool is_found(const struct search *s, u64 region)
{
	for (u32 i = 0; i < s->n; i++)
		if (s->v[i].block.ctl.region_lo == region)
			return true;
	return false;
}

/* As the process has it; of a dprobes that runs. */
static bool read_claim(const struct search *s, struct dp_known *k, u64 region)
{
	struct dp_mem mem;
	u64 at;

	*k = (struct dp_known){.pid = s->pid, .started = dp_process_started(s->pid)};
	if (dp_mem_open(&mem, s->pid, NULL))
		return false;
	at = dp_control_of(&mem, region);
	if (at && !dp_block_read(&k->block, &mem, at, NULL))
		k->owner = dp_owner_of(&k->block.ctl);
	dp_mem_close(&mem);
	if (!k->owner)
		return false;
	k->owner_started = dp_process_started(k->owner);
	k->file = dp_rings_at(s->pid, k->block.ctl.rings);
	return true;
}

/*
 * Whose record we cannot read: another user's, or of a dprobes without a directory. What stands in the process must do.
 * It is complete as long as nobody else changes the process (hold.h), and whoever can change it may change the process
 * in any way without us.
 */
static void look_for_claims(struct search *s)
{
	for (size_t i = 0; i < s->maps.n; i++) {
		u64 region = s->maps.v[i].lo;

		if (region == s->own || !is_region(s, &s->maps.v[i]) || is_found(s, region) ||
		    !dp_grow((void **)&s->v, &s->cap, s->n, sizeof(*s->v)))
			continue;
		if (read_claim(s, &s->v[s->n], region))
			s->n++;
		else
			dp_block_free(&s->v[s->n].block);
	}
}

/* Names of records tell the regions, so of the process's own only those are opened that may be about it. */
struct dp_knowns dp_records_of_others(pid_t pid, u64 own)
{
	struct search s = {.pid = pid, .own = own};
	char dir[100], path[160];
	u32 rings = 0, passed = 0;
	bool has_dir;
	u64 started;

	if (dp_maps_read(&s.maps, pid, NULL))
		return (struct dp_knowns){NULL, 0};
	if (!dp_maps_may_have_owners(&s.maps)) {
		dp_maps_free(&s.maps);
		return (struct dp_knowns){NULL, 0};
	}
	has_dir = dp_record_dir(dir, sizeof(dir));
	started = dp_process_started(pid);
	for (size_t i = 0; i < s.maps.n && has_dir; i++) {
		rings += !strncmp(s.maps.v[i].path, "/memfd:dprobes-rings", 20);
		if (!may_be_region(&s.maps.v[i]))
			continue;
		if (s.maps.v[i].lo == own) {
			passed++;
			continue;
		}
		name_record(path, sizeof(path), dir, pid, started, s.maps.v[i].lo);
		look_at(path, &s);
	}
	s.others = true;
	if (rings > s.n + passed)
		each_record(dir, look_at, &s);
	look_for_claims(&s);
	dp_maps_free(&s.maps);
	return (struct dp_knowns){s.v, s.n};
}

struct dp_knowns dp_records_of(pid_t pid)
{
	return dp_records_of_others(pid, 0);
}

void dp_knowns_free(struct dp_knowns *k)
{
	for (u32 i = 0; i < k->n; i++)
		dp_block_free(&k->v[i].block);
	free(k->v);
	*k = (struct dp_knowns){NULL, 0};
}

/* Another session may stand in the same place by now, with a record of that name. */
void dp_known_forget(const struct dp_known *k)
{
	struct head h;
	int fd = k->path[0] ? open_record(k->path, O_RDONLY, &h) : -1;

	if (fd < 0)
		return;
	if (h.owner == k->owner && h.owner_started == k->owner_started && h.file.inode == k->file.inode &&
	    h.file.dev == k->file.dev)
		unlink(k->path);
	close(fd);
}

/* Its tables are what they were: head and control block have another owner now. */
void dp_record_take(struct dp_session *s, const struct dp_known *k)
{
	char dir[100], path[160];
	struct head h;
	int fd = -1;

	s->record_started = dp_process_started(s->pid);
	if (dp_record_dir(dir, sizeof(dir))) {
		own_record(s, dir, path, sizeof(path));
		fd = strcmp(path, k->path) ? -1 : open_record(path, O_RDWR, &h);
	}
	if (fd >= 0) {
		fill_head(s, &h);
		s->recorded = h.started && put(fd, &h, sizeof(h), 0) &&
			      put(fd, &s->block.ctl, sizeof(s->block.ctl), PAGE);
		close(fd);
	}
	if (!s->recorded)
		dp_record_write(s);
}

bool dp_known_owner_lives(const struct dp_known *k)
{
	return k->owner == DP_OWNER_UNSEEN || (k->owner != getpid() && dp_process_lives(k->owner, k->owner_started));
}

/* The executable of another user's process is not to be seen, but its name is. */
bool dp_owner_lives(u32 pid)
{
	char name[256], path[64];
	ssize_t n;

	dp_format(path, sizeof(path), "/proc/%u/exe", pid);
	n = readlink(path, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = '\0';
	if (n < 0 && errno == EACCES && dp_status_field((pid_t)pid, (pid_t)pid, "Name", name, sizeof(name)) < 0)
		return false;
	return pid != (u32)getpid() && strstr(name, "dprobes") &&
	       dp_process_lives((pid_t)pid, dp_process_started((pid_t)pid));
}

pid_t dp_owner_of(const struct dp_control *ctl)
{
	pid_t id = dp_id_in_namespace(ctl->owner_pid, ctl->owner_ns);

	return id > 0 && !dp_owner_lives((u32)id) ? 0 : id;
}
