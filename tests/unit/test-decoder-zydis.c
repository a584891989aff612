/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The decoder against an independent one (Zydis) over every instruction of large real binaries, and
 * over random bytes. Prints how many were compared and how fast the decoder is.
 */
#ifndef HAVE_ZYDIS
#include <stdio.h>

int main(void)
{
	printf("ok 1 - decoder against Zydis # SKIP built without Zydis (Debian: "
	       "libzydis-dev)\n1..1\n");
	return 0;
}
#else

#include "../fuzz/decoder-judge.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIB "/usr/lib/x86_64-linux-gnu/"
#define RANDOM_STRINGS 20000000u
#define SHOWN 10 /* mismatches printed for one test */

static const char *const files[] = {
    LIB "libc.so.6",
    LIB "libcrypto.so.3",
    LIB "libstdc++.so.6",
    LIB "libm.so.6",
    LIB "libLLVM-14.so.1",
    LIB "libLLVM-15.so.1",
    LIB "libclang-cpp.so.14",
    "/usr/bin/python3.11",
    LIB "libLLVM.so.19.1",
    "/usr/bin/python3.13",
    "/usr/lib/go-1.24/bin/go",
    "/usr/bin/redis-server",
    "/usr/bin/bash",
    "/usr/bin/git",
    "/usr/bin/gdb",
    "/usr/sbin/nginx",
    "/usr/lib/go-1.19/bin/go",
    LIB "libgo.so.21",
};

static unsigned int tests;
static int failed;
static u64 total, total_files, total_mismatches, total_undecodable;

static void result(bool ok, const char *name)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", ++tests, name);
	failed |= !ok;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *grouped(u64 n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i, o = 0;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = digits[i];
	}
	buf[o] = 0;
	return buf;
}

struct image {
	u8 *bytes;
	size_t size;
};

static bool map_file(const char *path, struct image *im)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		close(fd);
		return false;
	}
	im->size = (size_t)st.st_size;
	im->bytes = mmap(NULL, im->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return im->bytes != MAP_FAILED;
}

/* The next executable section after *i; NULL at the end. */
static const u8 *next_text(const struct image *im, unsigned int *i, size_t *size)
{
	const Elf64_Ehdr *eh = (const void *)im->bytes;
	const Elf64_Shdr *sh = (const void *)(im->bytes + eh->e_shoff);

	for (; *i < eh->e_shnum; ++*i) {
		const Elf64_Shdr *s = &sh[*i];

		if (s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_EXECINSTR))
			continue;
		if (s->sh_offset > im->size || s->sh_size > im->size - s->sh_offset)
			continue;
		++*i;
		*size = s->sh_size;
		return im->bytes + s->sh_offset;
	}
	return NULL;
}

/* Walk one section; returns the number of mismatches. */
static u64 walk(const u8 *code, size_t size, u64 *count, u64 *undecodable)
{
	u64 mismatches = 0;
	size_t at = 0;

	while (at < size) {
		unsigned int len;
		const char *what = judge_decode(code + at, size - at, &len);

		if (what && mismatches++ < SHOWN)
			judge_print(what, code + at, DP_MIN(size - at, (size_t)16));
		*undecodable += len == 0;
		*count += len != 0;
		at += len ? len : 1;
	}
	return mismatches;
}

static void test_file(const char *path)
{
	u64 count = 0, undecodable = 0, mismatches = 0;
	struct image im;
	char name[200], a[32], b[32];
	unsigned int i = 0;
	const u8 *code;
	size_t size;

	if (!map_file(path, &im)) {
		printf("ok %u - %s # SKIP not on this machine\n", ++tests, path);
		return;
	}
	while ((code = next_text(&im, &i, &size)))
		mismatches += walk(code, size, &count, &undecodable);
	munmap(im.bytes, im.size);
	snprintf(name, sizeof(name), "%s: %s instructions, %s undecodable bytes, %llu mismatches", path,
		 grouped(count, a), grouped(undecodable, b), (unsigned long long)mismatches);
	result(!mismatches && count > 1000, name);
	total += count;
	total_files++;
	total_mismatches += mismatches;
	total_undecodable += undecodable;
}

static void print_categories(const char *where)
{
	unsigned int i;

	for (i = 0; i < JUDGE_NCATEGORIES; i++)
		printf("# figure: decoder differs from Zydis on purpose in %s: %llu %s\n", where,
		       (unsigned long long)judge_category_counts[i], judge_category_names[i]);
}

/* Random strings; the categories of decoder-judge.h are counted, everything else must agree. */
static void test_random(void)
{
	u64 state = 0x9e3779b97f4a7c15ull, valid = 0, mismatches = 0, i;
	const char *seed = getenv("DP_SEED");
	char name[120], a[32], b[32];

	if (seed)
		state = strtoull(seed, NULL, 0) | 1;
	for (i = 0; i < RANDOM_STRINGS; i++) {
		u8 code[16];
		unsigned int len;
		const char *what;

		judge_random(&state, code);
		what = judge_decode(code, sizeof(code), &len);
		valid += len != 0;
		if (what && mismatches++ < SHOWN)
			judge_print(what, code, sizeof(code));
	}
	snprintf(name, sizeof(name), "%s random strings, %s valid, %llu mismatches", grouped(RANDOM_STRINGS, a),
		 grouped(valid, b), (unsigned long long)mismatches);
	result(!mismatches && valid > RANDOM_STRINGS / 10, name);
	printf("# figure: decoder %s\n", name);
}

/* Time per instruction of our decoder alone, best of three. */
static void measure(const char *path)
{
	double best = 1e9;
	struct image im;
	int round;

	if (!map_file(path, &im))
		return;
	for (round = 0; round < 3; round++) {
		unsigned int section = 0;
		double start = seconds();
		const u8 *code;
		size_t size, at;
		u64 count = 0;

		while ((code = next_text(&im, &section, &size))) {
			for (at = 0; at < size; count++) {
				struct dp_insn in;
				int n = dp_insn_decode(&in, code + at, size - at);

				at += n > 0 ? (size_t)n : 1;
			}
		}
		best = DP_MIN(best, (seconds() - start) / (double)DP_MAX(count, 1ull));
	}
	munmap(im.bytes, im.size);
	printf("# figure: decoder %.1f ns an instruction (%s)\n", best * 1e9, path);
}

int main(void)
{
	char a[32], b[32];
	size_t i;

	for (i = 0; i < DP_ARRAY_SIZE(files); i++)
		test_file(files[i]);
	printf("# figure: decoder %s instructions in %llu files, %llu mismatches, %s undecodable "
	       "bytes\n",
	       grouped(total, a), (unsigned long long)total_files, (unsigned long long)total_mismatches,
	       grouped(total_undecodable, b));
	print_categories("real code");
	test_random();
	print_categories("real code and random strings");
	measure(LIB "libc.so.6");
	measure(LIB "libLLVM-14.so.1");
	measure(LIB "libLLVM.so.19.1");
	printf("1..%u\n", tests);
	return failed;
}
#endif
