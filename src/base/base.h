/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The one header that kernel-clean code (arch, engine, hit, program, lang/event) may include for
 * types and host services. It must not include any libc header.
 */
#ifndef DP_BASE_H
#define DP_BASE_H

#ifdef __KERNEL__
#define DP_RING0 1 /* the probed code may use privileged instructions */
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/printk.h> /* of va_list, wherever this kernel has it */
#else
#define DP_RING0 0
#include <linux/errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

/* The compiler may emit calls to these anyway; each host and the blob provide them. */
void *memcpy(void *restrict dst, const void *restrict src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
#endif

#define DP_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define DP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DP_MAX(a, b) ((a) > (b) ? (a) : (b))
#define DP_ALIGN_UP(x, n) (((x) + (n)-1) & ~((__typeof__(x))(n)-1))
#define DP_ALIGN_DOWN(x, n) ((x) & ~((__typeof__(x))(n)-1))
#define DP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

struct dp_range { /* addresses from lo to below hi */
	u64 lo, hi;
};

/*
 * How many of the n elements of an array have a key below x. They are size bytes apart and ascend by the key, a u64
 * that stands `at` bytes behind the begin of each.
 */
static inline size_t dp_count_below(const void *v, size_t n, size_t size, size_t at, u64 x)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (*(const u64 *)((const u8 *)v + mid * size + at) < x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static inline size_t dp_count_up_to(const void *v, size_t n, size_t size, size_t at, u64 x)
{
	return x + 1 ? dp_count_below(v, n, size, at, x + 1) : n;
}

/* The same with the member that is the key: how many are below x, and how many are not above it. */
#define DP_COUNT_BELOW(v, n, key, x) dp_count_below(v, n, sizeof(*(v)), offsetof(__typeof__(*(v)), key), x)
#define DP_COUNT_UP_TO(v, n, key, x) dp_count_up_to(v, n, sizeof(*(v)), offsetof(__typeof__(*(v)), key), x)

/*
 * Services that each host provides to the control side (never to the hit path).
 * dp_alloc returns zeroed memory or NULL; dp_resize keeps the first old_size bytes and zeroes
 * the rest (NULL on failure, the old block stays); dp_free accepts NULL.
 * dp_vformat has the contract of vsnprintf.
 */
void *dp_alloc(size_t size);
void *dp_resize(void *old, size_t old_size, size_t new_size);
void dp_free(void *p);
int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap);
int dp_format(char *buf, size_t size, const char *fmt, ...) DP_PRINTF(3, 4);

#ifndef __KERNEL__
/* Of a mapped file: these bytes are about to be read, all of them. Spares a page fault for each few pages. */
void dp_map_ahead(const void *p, size_t size);

/*
 * Much zeroed memory, all of which will be used: it takes few page faults, each of which may cost microseconds. Given
 * back by dp_free_whole() with the same size.
 */
void *dp_alloc_whole(size_t size);
void dp_free_whole(void *p, size_t size);

/* Make room for one more element than n in an array of *cap; false, and nothing has changed, when memory is short. */
bool dp_grow(void **v, size_t *cap, size_t n, size_t elem);

/*
 * Sort an array by a u64 key that stands `at` bytes behind the begin of each element, upwards; equal ones keep their
 * order. Takes time by the number of elements alone. False, and nothing has changed, when memory is short.
 */
bool dp_sort_by(void *v, size_t n, size_t size, size_t at);
#define DP_SORT_BY(v, n, key) dp_sort_by(v, n, sizeof(*(v)), offsetof(__typeof__(*(v)), key))

/*
 * Open a file for reading whose path somebody else has named (a target, a file's own texts): never waits and never
 * touches what is not a regular file, since opening a pipe blocks and opening a device may do something. -1 with errno;
 * EINVAL: it is no regular file.
 */
int dp_open_regular(const char *path);
/* Something is there under this name, and dp_open_regular would not open it because of what it is. */
bool dp_is_odd_file(const char *path);
/* From now on as many descriptors may be open as the system allows, in this process and in those that it starts. */
void dp_allow_descriptors(void);
#endif

#endif
