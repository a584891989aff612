/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Files with changed bytes through everything that reads ELF and DWARF: symbols, functions, code, lines, variables,
 * call frames. Nothing may crash, read beyond its memory or go on for ever.
 * Usage: fuzz-elf [SECONDS [SEED [ONLY]]]; 0 seconds = endless; ONLY: one number of a run. With DP_SHORT_RUN it is a
 * test that lasts seconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/abi-unwind.h"
#include "../unit/machine.h"
#include "lang/dpcc/dpcc.h"
#include "samples.h"
#include "symbols/copies.h"
#include "symbols/statics.h"
#include "symbols/sym-lines.h"
#include "symbols/sym-unwind.h"
#include "symbols/variable.h"

static struct sample samples[16];
static u32 nsamples;
static u64 state, seed;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0";
}

static u64 below(u64 n)
{
	return next_random(&state) % n;
}

/* ---- changes ---- */

static u64 load(const u8 *p, u32 n)
{
	u64 v = 0;

	memcpy(&v, p, n);
	return v;
}

/* Somewhere in the file, more often where the readers look: headers, and the sections of debug information. */
static u64 spot(const struct sample *s)
{
	u64 table = load(s->bytes + 40, 8), n = load(s->bytes + 60, 2), sh, offset, size;

	switch (below(4)) {
	case 0:
		return below(s->n < 1024 ? s->n : 1024);
	case 1:
		return table < s->n ? table + below(s->n - table) : below(s->n);
	default:
		sh = table + 64 * (n ? below(n) : 0);
		if (sh + 64 > s->n)
			return below(s->n);
		offset = load(s->bytes + sh + 24, 8);
		size = load(s->bytes + sh + 32, 8);
		return size && offset < s->n && size <= s->n - offset ? offset + below(size) : below(s->n);
	}
}

static size_t change(const struct sample *s, u8 *out)
{
	static const u64 odd[] = {0,
				  1,
				  2,
				  0x7f,
				  0x80,
				  0xff,
				  0x7fff,
				  0xffff,
				  0x7fffffff,
				  0x80000000,
				  0xffffffff,
				  0xfffffff0,
				  0x7fffffffffffffff,
				  0x8000000000000000,
				  0xffffffffffffffff,
				  0xfffffffffffff000};
	u64 n = 1 + below(below(4) ? 4 : 40), v;
	size_t size = s->n;

	memcpy(out, s->bytes, size);
	for (u64 i = 0; i < n; i++) {
		u64 at = spot(s), from = spot(s);
		u32 width = 1u << below(4);

		width = (u32)DP_MIN((u64)width, size - at);
		v = below(3) ? odd[below(DP_ARRAY_SIZE(odd))] : load(out + at, width) + below(17) - 8;
		switch (below(4)) {
		case 0:
			out[at] = (u8)below(256);
			break;
		case 1:
			out[at] ^= (u8)(1 << below(8));
			break;
		case 2:
			memcpy(out + at, &v, width);
			break;
		default:
			v = below(32);
			v = DP_MIN(v, DP_MIN(size - at, size - from));
			memmove(out + at, out + from, v);
			break;
		}
	}
	return below(10) ? size : 1 + below(size);
}

/* ---- readers ---- */

struct seen {
	struct dp_module *m;
	u32 n;
};

static int on_var(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg)
{
	return 0;
}

static int on_line(const struct dp_module_row *row, void *arg)
{
	struct dp_site site;
	const struct dp_text *text;
	struct dp_error err;
	struct seen *s = arg;

	if (!dp_module_text(s->m, row->addr, &text, &err))
		dp_site_judge(text, row->addr, &site, &err);
	return ++s->n > 200;
}

static int on_func(const struct dp_symbol *sym, void *arg)
{
	static const char *const names[] = {"p", "n", "sum", "total", "head", "own", "here", "argv", "d", "nothing"};
	struct seen *s = arg;
	struct seen lines = {s->m, 0};
	struct dp_error err;
	struct dp_var v;
	struct dp_way way;
	struct dp_symbol at;
	Dwarf_Die type;
	u64 exits[32];
	const char *file;
	char shown[DP_SHOWN_MAX];
	s64 value;
	u32 line;

	dp_symbol_shown(sym->name, true, shown, sizeof(shown));
	dp_module_exits(s->m, sym->addr, exits, NULL, 32, &err);
	dp_module_symbol_at(s->m, sym->addr + below(64), &at);
	dp_module_each_line(s->m, sym->addr, sym->addr + DP_MIN(sym->size, (u64)4096), on_line, &lines, &err);
	for (u32 i = 0; i < 3; i++) {
		u64 pc = sym->addr + below(DP_MIN(sym->size, (u64)1 << 20) + 1);

		dp_module_line_at(s->m, pc, &file, &line);
		dp_var_each(s->m, pc, NULL, on_var, NULL, &err);
		dp_var_find(s->m, pc, below(3) ? NULL : "twice", names[below(DP_ARRAY_SIZE(names))], &v, &err);
		dp_variable_way(s->m, pc, "p->next->u.i", &way, &err);
		dp_var_return_type(s->m, pc, &type);
		dp_var_enumerator(s->m, pc, "GREEN", &value);
		dp_var_type(s->m, pc, 0x13, "node", &type); /* DW_TAG_structure_type */
	}
	return ++s->n > 24;
}

/* Notes of static probes, and their operands. */
static void look_at_statics(struct dp_module *m, const char *path)
{
	static const char program[] =
	    "#pragma MODNAME(\"file\") PROBEPOINT_LOCATION(\"u *\") PROBEPOINT_HANDLER(\"h\")\n"
	    "void h() { log_args(); }\n";
	struct dpcc_options opt = {.module = path, .text = program, .all_places = true};
	const struct dp_static *v;
	struct dpcc_result res;
	struct dp_error err;
	u32 n = dp_module_statics(m, &v);

	for (u32 i = 0; i < n; i++) {
		fuzz_counts[5] += dp_static_matches(&v[i], "shop:*");
		dp_module_semaphore(m, v[i].addr);
	}
	if (n && !dp_cc_compile("statics", &opt, &res, &err))
		free(res.text);
}

static void look(const char *path)
{
	struct dp_module *m;
	struct dp_error err;
	struct dp_symbol sym;
	struct dp_unwind_row *rows = NULL;
	struct dp_var v;
	struct dpcc_options opt = {.vars_at = "work", .vars_of = DP_RPN_USER};
	struct dp_func_copies copies;
	struct dpcc_result res;
	Dwarf_Die type;
	bool typed;
	u64 addrs[16], offset, size;
	u32 used, n;

	if (dp_module_open(&m, path, &err))
		return;
	fuzz_counts[2]++;
	struct seen s = {m, 0};
	dp_module_each_func(m, NULL, on_func, &s);
	fuzz_counts[3] += s.n;
	dp_module_symbol(m, below(2) ? "work" : "choose", &sym, &err);
	dp_module_line(m, "sample.c", (u32)below(40), addrs, 16, &used, &err);
	dp_var_global(m, "total", &v, &err);
	if (!dp_module_copies(m, below(2) ? "twice" : "work", true, &copies, &err))
		dp_func_copies_free(&copies);
	dp_variable_type(m, "head.next->text", &typed, &type, &size, &err);
	dp_module_addr_to_offset(m, below(65536), &offset);
	if (!dp_module_unwind(m, &rows, &n, &err))
		free(rows);
	look_at_statics(m, path);
	dp_module_close(m);
	if (!below(4) && !dp_cc_compile(path, &opt, &res, &err)) {
		fuzz_counts[4]++;
		free(res.text);
	}
}

static void put(const char *path, const u8 *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		abort();
	close(fd);
}

static void one(u64 i)
{
	const struct sample *s, *prog;
	u8 *copy;
	size_t n;

	state = seed * 1000003 + i;
	next_random(&state);
	s = &samples[below(nsamples)];
	/* A part of split debug information is read for the program before it. */
	prog = strstr(s->path, ".dwo") ? s - 1 : s;
	copy = malloc(s->n);
	n = change(s, copy);
	put(s->path, copy, n);
	free(copy);
	look(prog->path);
	put(s->path, s->bytes, s->n);
}

int main(int argc, char **argv)
{
	struct fuzz_args args = fuzz_args(argc, argv, 400);
	u64 at = 0;
	bool good;

	seed = args.seed;
	nsamples = samples_make(samples, DP_ARRAY_SIZE(samples));
	if (!nsamples) {
		puts("1..1\nok 1 - files with changed bytes # SKIP there is no compiler for the first ones");
		return 0;
	}
	good = fuzz_run(one, args.first, args.seconds, args.times, &at);
	if (!good)
		printf("# again: fuzz-elf 0 %llu %llu\n", (unsigned long long)seed, (unsigned long long)at);
	printf(
	    "1..1\n%s 1 - %llu files with changed bytes of %u: %llu opened, %llu functions, %llu lists of variables, "
	    "%llu static probes\n",
	    good ? "ok" : "not ok", (unsigned long long)fuzz_counts[1], nsamples, (unsigned long long)fuzz_counts[2],
	    (unsigned long long)fuzz_counts[3], (unsigned long long)fuzz_counts[4], (unsigned long long)fuzz_counts[5]);
	samples_end();
	return good ? 0 : 1;
}
