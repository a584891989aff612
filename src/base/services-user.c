/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Host services of base.h for programs that run on libc. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define PAGE 4096ull
#define LARGE (2ull << 20)
#define MANY_PAGES (16 * PAGE)

/* Whole pages: what realloc() is to move must stay one mapping. */
static void advise(const void *p, size_t size, int advice)
{
	uintptr_t lo = (uintptr_t)p & ~(PAGE - 1);

	madvise((void *)lo, DP_ALIGN_UP((uintptr_t)p + size, PAGE) - lo, advice); /* without it all works, too */
}

/* Much memory in large pages: some hundred faults instead of ten thousands, each of which may cost a microsecond. */
static void *in_large_pages(void *p, size_t size)
{
	if (p && size >= 2 * LARGE)
		advise(p, size, MADV_HUGEPAGE);
	return p;
}

void dp_map_ahead(const void *p, size_t size)
{
	advise(p, size, MADV_POPULATE_READ);
}

void *dp_alloc(size_t size)
{
	return in_large_pages(calloc(1, size ? size : 1), size);
}

/* Aligned to large pages where it takes several of them. */
void *dp_alloc_whole(size_t size)
{
	size_t room = DP_ALIGN_UP(size + !size, PAGE), spare = room >= LARGE ? LARGE - PAGE : 0;
	char *p = mmap(NULL, room + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before = spare ? DP_ALIGN_UP((uintptr_t)p, LARGE) - (uintptr_t)p : 0;

	if (p == MAP_FAILED)
		return NULL;
	if (before)
		munmap(p, before);
	if (spare > before)
		munmap(p + before + room, spare - before);
	if (spare)
		advise(p + before, room, MADV_HUGEPAGE);
	advise(p + before, room, MADV_POPULATE_WRITE);
	return p + before;
}

void dp_free_whole(void *p, size_t size)
{
	if (p)
		munmap(p, DP_ALIGN_UP(size + !size, PAGE));
}

void *dp_resize(void *old, size_t old_size, size_t new_size)
{
	char *p = in_large_pages(realloc(old, new_size ? new_size : 1), new_size);

	if (p && new_size > old_size)
		memset(p + old_size, 0, new_size - old_size);
	return p;
}

bool dp_grow(void **v, size_t *cap, size_t n, size_t elem)
{
	size_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return true;
	p = in_large_pages(reallocarray(*v, want, elem), want * elem);
	if (!p)
		return false;
	/* Of what has large pages perhaps half is never used, and the rest takes few faults. */
	if (want * elem >= MANY_PAGES && want * elem < 2 * LARGE)
		advise((char *)p + n * elem, (want - n) * elem, MADV_POPULATE_WRITE);
	*v = p;
	*cap = want;
	return true;
}

struct sort_key {
	u64 key;
	size_t from;
};

static u64 key_of(const void *v, size_t i, size_t size, size_t at)
{
	u64 key;

	memcpy(&key, (const char *)v + i * size + at, sizeof(key));
	return key;
}

#define DIGIT 11
#define DIGITS (1u << DIGIT)

/* By one digit after the other, the lowest first. Returns where the result is. */
static struct sort_key *sort_keys(struct sort_key *a, struct sort_key *b, size_t n, u64 varied)
{
	for (u32 shift = 0; shift < 64 && varied >> shift; shift += DIGIT) {
		size_t place[DIGITS] = {0}, sum = 0;
		struct sort_key *t = a;

		if (!(varied >> shift & (DIGITS - 1)))
			continue;
		for (size_t i = 0; i < n; i++)
			place[a[i].key >> shift & (DIGITS - 1)]++;
		for (u32 d = 0; d < DIGITS; d++) {
			size_t count = place[d];

			place[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			b[place[a[i].key >> shift & (DIGITS - 1)]++] = a[i];
		a = b;
		b = t;
	}
	return a;
}

bool dp_sort_by(void *v, size_t n, size_t size, size_t at)
{
	struct sort_key *keys, *sorted;
	u64 last = 0, varied = 0;
	bool ordered = true;
	size_t room;
	char *copy;

	for (size_t i = 0; i < n; i++) {
		u64 key = key_of(v, i, size, at);

		ordered = ordered && key >= last;
		varied |= i ? key ^ last : 0;
		last = key;
	}
	if (ordered)
		return true;
	if (n > SIZE_MAX / 2 / (2 * sizeof(*keys) + size))
		return false;
	room = n * (2 * sizeof(*keys) + size);
	keys = room < PAGE ? malloc(room) : dp_alloc_whole(room);
	if (keys) {
		copy = (char *)(keys + 2 * n);
		for (size_t i = 0; i < n; i++)
			keys[i] = (struct sort_key){key_of(v, i, size, at), i};
		sorted = sort_keys(keys, keys + n, n, varied);
		memcpy(copy, v, n * size);
		for (size_t i = 0; i < n; i++)
			memcpy((char *)v + i * size, copy + sorted[i].from * size, size);
	}
	if (room < PAGE)
		free(keys);
	else
		dp_free_whole(keys, room);
	return keys != NULL;
}

/* O_PATH finds out what the file is without opening it, and pins it: what is opened is what was looked at. */
int dp_open_regular(const char *path)
{
	int at = open(path, O_PATH | O_CLOEXEC), fd = -1, error;
	struct stat st;
	char link[32];

	if (at < 0)
		return -1;
	if (fstat(at, &st) || !S_ISREG(st.st_mode)) {
		errno = EINVAL;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	error = errno;
	close(at);
	errno = error;
	return fd;
}

void dp_allow_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur >= lim.rlim_max)
		return;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

bool dp_is_odd_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode);
}

void dp_free(void *p)
{
	free(p);
}

int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
	return vsnprintf(buf, size, fmt, ap);
}
