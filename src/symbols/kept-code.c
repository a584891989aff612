/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the analysis has found out about a module's code is kept in a file between commands (dp_module_keep_in): where
 * control may arrive, and the functions, as analysis.h has them. The next command maps that file, of which one function
 * needs a few pages, instead of looking through the module.
 *
 * A wrong answer can kill a process. So what is kept belongs to one file, by its identity and times, to its debug file,
 * and to one build of dprobes; it must be the user's, and nobody else may write to it; and where its pieces lie is not
 * read but computed. It is never written to, but replaced as a whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/module-priv.h"

#define MAGIC "dpcode1"
#define PREFIX "code-"
#define KEEP_MOST (512u << 20) /* bytes of all files; beyond that the oldest go */
#define KEEP_AGE 5000000000ll  /* ns; of files that were changed later, nothing is kept */
#define PAGE 4096u

const char *dp_module_keep_in;

struct kept_text {
	u64 lo, hi, nfuncs, gap;
};

struct kept_head {
	char magic[8];
	struct mod_file_id by, of, debug; /* dprobes, the module, and its debug file; all 0: it has none */
	char build_id[80];
	u64 rewound, ntaken;
	u32 complete, ntexts;
	struct kept_text texts[]; /* behind them functions, the four bitmaps of each, and what data points to */
};

/* False: nothing about this module is kept. */
static bool identify(struct dp_module *m, struct kept_head *h)
{
	struct stat by, of, debug;

	memset(h, 0, sizeof(*h));
	if (!m->build_id[0] || stat("/proc/self/exe", &by) || fstat(m->fd, &of))
		return false;
	if (!dp_mod_own_symtab(m) && dp_mod_open_debug(m) && !fstat(m->debug.fd, &debug))
		h->debug = dp_mod_file_id(&debug);
	memcpy(h->magic, MAGIC, sizeof(h->magic));
	memcpy(h->build_id, m->build_id, sizeof(h->build_id));
	h->by = dp_mod_file_id(&by);
	h->of = dp_mod_file_id(&of);
	return true;
}

static bool path_of(const struct kept_head *h, char *path, size_t size)
{
	return (size_t)snprintf(path, size, "%s/" PREFIX "%s-%llx-%llx", dp_module_keep_in, h->build_id,
				(unsigned long long)h->of.dev, (unsigned long long)h->of.ino) < size;
}

/* ---- where the pieces lie ---- */

struct piece {
	u64 off, size;
	void *p; /* of the module */
};

#define PIECES 5 /* of a text */

static u64 place(struct piece *v, u64 off, u64 size, void *p)
{
	*v = (struct piece){DP_ALIGN_UP(off, (u64)PAGE), size, p};
	return v->off + size;
}

/* Of text i, which begins behind `off` bytes; returns the end. */
static u64 place_text(const struct kept_head *h, u32 i, const struct dp_code_text *ct, u64 off, struct piece v[PIECES])
{
	u64 map = (h->texts[i].hi - h->texts[i].lo) / 8 + 1;

	off = place(&v[0], off, h->texts[i].nfuncs * sizeof(*ct->funcs), ct->funcs);
	off = place(&v[1], off, map, ct->targets);
	off = place(&v[2], off, map, ct->pointed);
	off = place(&v[3], off, map, ct->led);
	return place(&v[4], off, map, ct->starts);
}

static u64 head_size(u32 ntexts)
{
	return sizeof(struct kept_head) + ntexts * sizeof(struct kept_text);
}

/* ---- read ---- */

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

static struct kept_head *map_file(const char *path, u64 *size)
{
	int fd = dp_module_open_kept(path, size);
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (*size >= head_size(0))
		p = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static bool are_functions(const struct dp_func *f, u64 n, const struct kept_text *t)
{
	u64 at = t->lo;

	for (u64 i = 0; i < n; at = f[i++].hi)
		if (f[i].lo < at || f[i].hi <= f[i].lo || f[i].hi > t->hi)
			return false;
	return true;
}

/* The module's texts lie where they are said to lie, and all pieces in the file. */
static bool agrees(const struct dp_module *m, const struct kept_head *h, u64 size)
{
	u64 end = head_size(m->an.ntexts);
	struct piece v[PIECES];

	if (h->ntexts != m->an.ntexts || end > size)
		return false;
	for (u32 i = 0; i < h->ntexts; i++) {
		const struct dp_code_text *ct = &m->an.texts[i];
		const struct kept_text *t = &h->texts[i];

		if (t->lo != ct->t.lo || t->hi != ct->t.hi || t->nfuncs > t->hi - t->lo)
			return false;
		end = place_text(h, i, ct, end, v);
		if (end > size || !are_functions((const void *)((const u8 *)h + v[0].off), t->nfuncs, t))
			return false;
	}
	end = DP_ALIGN_UP(end, (u64)PAGE);
	return end <= size && h->ntaken == (size - end) / sizeof(u64) && size == end + h->ntaken * sizeof(u64);
}

static void take_text(struct dp_code_text *ct, const struct kept_head *h, u32 i, const struct piece v[PIECES])
{
	u8 *base = (u8 *)h;

	ct->funcs = (struct dp_func *)(base + v[0].off);
	ct->targets = base + v[1].off;
	ct->pointed = base + v[2].off;
	ct->led = base + v[3].off;
	ct->starts = base + v[4].off;
	ct->gap = h->texts[i].gap;
	ct->t.nfuncs = (u32)h->texts[i].nfuncs;
	dp_mod_point_text(ct);
}

bool dp_mod_load_kept(struct dp_module *m)
{
	u64 size = 0, end = head_size(m->an.ntexts);
	char path[PATH_MAX];
	struct piece v[PIECES];
	struct kept_head want, *h;

	if (!dp_module_keep_in || dp_mod_code_bytes(m) < MOD_KEEP_FROM || !identify(m, &want) ||
	    !path_of(&want, path, sizeof(path)))
		return false;
	h = map_file(path, &size);
	if (!h)
		return false;
	if (memcmp(h->magic, want.magic, sizeof(h->magic)) || memcmp(h->build_id, want.build_id, sizeof(h->build_id)) ||
	    !dp_mod_same_file(&h->by, &want.by) || !dp_mod_same_file(&h->of, &want.of) ||
	    !dp_mod_same_file(&h->debug, &want.debug) || !agrees(m, h, size)) {
		munmap(h, size);
		return false;
	}
	for (u32 i = 0; i < h->ntexts; i++) {
		end = place_text(h, i, &m->an.texts[i], end, v);
		take_text(&m->an.texts[i], h, i, v);
	}
	m->taken = (struct mod_addrs){(u64 *)((u8 *)h + DP_ALIGN_UP(end, (u64)PAGE)), h->ntaken, h->ntaken};
	m->taken_sorted = true;
	m->an.rewound = h->rewound;
	m->an.prepared = true;
	m->an.complete = h->complete;
	m->kept = (struct mod_kept){h, size, h->complete};
	return true;
}

/* ---- write ---- */

static bool is_zero(const u8 *p, u64 n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

/* What is zero is a hole. */
static bool put(int fd, const struct piece *v)
{
	const u8 *p = v->p;

	for (u64 at = 0, end; at < v->size; at = end) {
		end = DP_MIN(v->size, at + PAGE);
		if (is_zero(p + at, end - at))
			continue;
		while (end < v->size && !is_zero(p + end, DP_MIN(v->size - end, (u64)PAGE)))
			end = DP_MIN(v->size, end + PAGE);
		for (u64 i = at; i < end;) {
			ssize_t n = pwrite(fd, p + i, end - i, (off_t)(v->off + i));

			if (n <= 0)
				return false;
			i += (u64)n;
		}
	}
	return true;
}

static bool write_all(const struct dp_module *m, const struct kept_head *h, int fd)
{
	u64 end = head_size(h->ntexts);
	struct piece head = {0, end, (void *)h}, v[PIECES], taken;
	bool good = true;

	for (u32 i = 0; i < h->ntexts && good; i++) {
		end = place_text(h, i, &m->an.texts[i], end, v);
		for (u32 k = 0; k < PIECES && good; k++)
			good = put(fd, &v[k]);
	}
	end = place(&taken, end, m->taken.n * sizeof(u64), m->taken.v);
	return good && put(fd, &taken) && put(fd, &head) && !ftruncate(fd, (off_t)end);
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

static void write_file(const struct dp_module *m, const struct kept_head *h)
{
	char path[PATH_MAX - 16], other[PATH_MAX];
	bool good;
	int fd;

	if (!path_of(h, path, sizeof(path)))
		return;
	dp_module_make_keep_in();
	snprintf(other, sizeof(other), "%s.%d", path, (int)getpid());
	fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	/* On the disk before it has its name: what a crash has left of it must not be believed. */
	good = write_all(m, h, fd) && !fdatasync(fd);
	good &= !close(fd);
	if (!good || rename(other, path))
		unlink(other);
	else
		make_room();
}

/* That much was not known before. */
static bool is_worth_keeping(const struct dp_module *m)
{
	return dp_module_keep_in && m->collected && !m->analyse_rc && m->an.prepared && !m->an.short_of_memory &&
	       (!m->kept.head || m->an.complete > m->kept.complete) && dp_mod_code_bytes(m) >= MOD_KEEP_FROM;
}

/*
 * The module is what it was when it was opened, and neither it nor its debug file had been changed a moment before:
 * what is changed then may be changed again and have the same times, which move by ticks, or once a page for who writes
 * through a mapping.
 */
static bool is_at_rest(const struct dp_module *m, const struct kept_head *now)
{
	return dp_mod_same_file(&now->of, &m->id) && m->age > KEEP_AGE &&
	       (s64)(m->id.changed + (u64)m->age - now->debug.changed) > KEEP_AGE;
}

void dp_mod_keep_code(struct dp_module *m)
{
	struct kept_head *h, now;

	if (!is_worth_keeping(m) || !identify(m, &now) || !is_at_rest(m, &now))
		return;
	h = calloc(1, head_size(m->an.ntexts));
	if (!m->taken_sorted)
		m->taken_sorted = dp_sort_by(m->taken.v, m->taken.n, sizeof(*m->taken.v), 0);
	if (h && m->taken_sorted) {
		*h = now;
		h->rewound = m->an.rewound;
		h->ntaken = m->taken.n;
		h->complete = m->an.complete;
		h->ntexts = m->an.ntexts;
		for (u32 i = 0; i < h->ntexts; i++) {
			const struct dp_code_text *ct = &m->an.texts[i];

			h->texts[i] = (struct kept_text){ct->t.lo, ct->t.hi, ct->t.nfuncs, ct->gap};
		}
		write_file(m, h);
	}
	free(h);
}

void dp_mod_forget_kept(struct dp_module *m)
{
	if (m->kept.head)
		munmap(m->kept.head, m->kept.size);
	m->kept = (struct mod_kept){NULL};
}
