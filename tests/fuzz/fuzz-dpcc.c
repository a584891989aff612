/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Handlers in C with changed words through dpcc: nothing may crash or go on for ever, and what is accepted must
 * assemble. Usage: fuzz-dpcc [SECONDS [SEED [ONLY]]]; 0 seconds = endless; ONLY: one number of a run. With DP_SHORT_RUN
 * it is a test that lasts seconds.
 */
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/machine.h"
#include "lang/dpcc/dpcc.h"
#include "samples.h"

#define TEXT_MAX (256u << 10)

static struct sample texts[400], modules[16];
static u32 ntexts, kinds[400]; /* of each text: the probed program that it is about */
static u64 state, seed;
static char probed[3][200];

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static u64 below(u64 n)
{
	return next_random(&state) % n;
}

struct span {
	const u8 *p;
	size_t n;
};

/* The word, number, text or sign at this place. */
static struct span word_at(const u8 *p, const u8 *end)
{
	const u8 *to = p;

	while (to < end && (isalnum(*to) || *to == '_' || *to == '$' || *to == '@'))
		to++;
	if (to == p && to < end && *to == '"')
		for (to++; to < end && *to != '"' && *to != '\n'; to++)
			;
	return (struct span){p, to > p ? (size_t)(to - p) : p < end};
}

static struct span any_word(void)
{
	const struct sample *s = &texts[below(ntexts)];
	const u8 *p = s->bytes + below(s->n);

	while (p > s->bytes && isalnum(p[-1]))
		p--;
	return word_at(p, s->bytes + s->n);
}

static struct span any_line(void)
{
	const struct sample *s = &texts[below(ntexts)];
	const u8 *p = s->bytes + below(s->n), *end;

	while (p > s->bytes && p[-1] != '\n')
		p--;
	end = memchr(p, '\n', (size_t)(s->bytes + s->n - p));
	return (struct span){p, end ? (size_t)(end + 1 - p) : (size_t)(s->bytes + s->n - p)};
}

static size_t put(u8 *out, size_t n, size_t at, size_t gone, struct span in, u32 times)
{
	gone = DP_MIN(gone, n - at);
	if (!in.n || n - gone + in.n * times > TEXT_MAX)
		times = 0;
	memmove(out + at + in.n * times, out + at + gone, n - at - gone);
	for (u32 i = 0; i < times; i++)
		memcpy(out + at + i * in.n, in.p, in.n);
	return n - gone + in.n * times;
}

static size_t change(u8 *out, size_t n)
{
	static const char *const odd[] = {"((",
					  "{",
					  "}",
					  "[",
					  "*",
					  "&",
					  "-",
					  "!",
					  "~",
					  "(char)",
					  "->x",
					  ".",
					  "0x7fffffffffffffff",
					  "1e999",
					  "-1",
					  "0",
					  "sizeof",
					  "struct",
					  "\"",
					  "'",
					  "\\",
					  "/*",
					  "#define A A\n",
					  "log(",
					  "@max(",
					  "$argv",
					  "?:",
					  ",",
					  ";",
					  "\n"};
	u64 k = below(2) ? 1 : 1 + below(6);

	for (u64 i = 0; i < k && n; i++) {
		size_t at = below(n);
		struct span here, in;
		u8 c;

		while (at && isalnum(out[at - 1]))
			at--;
		here = word_at(out + at, out + n);
		switch (below(8)) {
		case 0:
			n = put(out, n, at, here.n, (struct span){0}, 0);
			break;
		case 1:
			while (at && out[at - 1] != '\n')
				at--;
			n = put(out, n, at, 0, any_line(), 1);
			break;
		case 2:
			in.p = (const u8 *)odd[below(DP_ARRAY_SIZE(odd))];
			in.n = strlen((const char *)in.p);
			n = put(out, n, at, below(2) ? here.n : 0, in, below(60) ? 1 : 3000);
			break;
		case 3:
			c = (u8)(below(4) ? 32 + below(95) : below(256));
			n = put(out, n, at, 1, (struct span){&c, 1}, 1);
			break;
		case 4: /* declared, used or opened twice */
			in = any_line();
			n = put(out, n, at, 0, in, 2);
			break;
		default:
			n = put(out, n, at, here.n, any_word(), 1);
			break;
		}
	}
	return n;
}

static void one(u64 i)
{
	static u8 out[TEXT_MAX + 1];
	static const struct dp_rpn_define shop = {"SHOP", "\"shop\""};
	struct dpcc_options opt = {.defines = &shop, .ndefines = 1};
	struct dpcc_result res;
	struct dp_rpn_unit u;
	struct dp_error err = {0};
	const struct sample *s;
	char path[220];
	size_t n;
	FILE *f;

	state = seed * 1000003 + i;
	next_random(&state);
	do
		s = &texts[below(ntexts)];
	while (kinds[s - texts] == 1 && below(8)); /* those are wrong already */
	opt.module = probed[kinds[s - texts]];
	memcpy(out, s->bytes, s->n);
	n = change(out, s->n);
	snprintf(path, sizeof(path), "%s/changed.dpc", samples_dir());
	f = fopen(path, "we");
	if (!f || fwrite(out, 1, n, f) != n || fclose(f))
		abort();
	if (dp_cc_compile(path, &opt, &res, &err)) {
		if (err.code == DP_OK)
			abort(); /* refused without a reason */
		return;
	}
	fuzz_counts[2]++;
	if (dp_rpn_parse(&u, res.text, "generated", ".", NULL, 0, &err)) {
		printf("# %s %s\n%s\n", dp_error_info(err.code)->name, err.detail, res.text);
		fflush(stdout);
		abort();
	}
	dp_rpn_free(&u);
	free(res.text);
}

static bool compile(u32 i, const char *source)
{
	char command[900];

	snprintf(probed[i], sizeof(probed[i]), "%s/probed%u", samples_dir(), i);
	snprintf(command, sizeof(command), "cc -w -g -O2 -o %s %s -ldl -lpthread", probed[i], source);
	return !system(command);
}

int main(int argc, char **argv)
{
	static const char *const places[] = {CASES "/cases/*.dpc", CASES "/errors/*.dpc",
					     CASES "/../../examples/dpcc/*.dpc"};
	struct fuzz_args args = fuzz_args(argc, argv, 1500);
	u64 at = 0;
	bool good;

	seed = args.seed;
	for (size_t i = 0; i < DP_ARRAY_SIZE(places); i++) {
		glob_t g = {0};

		if (!glob(places[i], 0, NULL, &g))
			for (size_t k = 0; k < g.gl_pathc && ntexts < DP_ARRAY_SIZE(texts); k++)
				if (sample_read(&texts[ntexts], g.gl_pathv[k]) && texts[ntexts].n < TEXT_MAX / 4)
					kinds[ntexts++] = (u32)i;
		globfree(&g);
	}
	if (!samples_make(modules, DP_ARRAY_SIZE(modules))) {
		puts("1..1\nok 1 - handlers with changed words # SKIP there is no compiler for the probed program");
		return 0;
	}
	if (!compile(0, CASES "/../process/targets/obey.c") || !compile(1, CASES "/errors/probed.c") ||
	    !compile(2, CASES "/../../examples/dpcc/shop.c")) {
		puts("1..1\nnot ok 1 - the probed programs cannot be compiled");
		return 1;
	}
	good = ntexts > 50 && fuzz_run(one, args.first, args.seconds, args.times, &at);
	if (!good)
		printf("# again: fuzz-dpcc 0 %llu %llu\n", (unsigned long long)seed, (unsigned long long)at);
	printf("1..1\n%s 1 - %llu handlers with changed words of %u: %llu compiled, all of these assemble\n",
	       good ? "ok" : "not ok", good ? (unsigned long long)fuzz_counts[1] : 0, ntexts,
	       good ? (unsigned long long)fuzz_counts[2] : 0);
	samples_end();
	return good ? 0 : 1;
}
