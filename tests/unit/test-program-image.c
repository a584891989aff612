/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Images of programs: what is written is read back the same; cut short anywhere, or with any byte of the head changed,
 * an image is refused or read within its bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/code.h"
#include "program/program-image.h"

static int number;

static void ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
}

static struct dp_program sample(void)
{
	static struct dp_field fields[2] = {{.name = "a", .type = DP_FIELD_U64, .size = 8},
					    {.name = "b", .type = DP_FIELD_U32, .size = 4, .offset = 8}};
	struct dp_asm code = {0};

	DP_PUT(&code, REC, 12);
	DP_PUT(&code, EXIT);
	return (struct dp_program){
	    .code = code.bytes,
	    .len = code.len,
	    .jmpmax = 1,
	    .logmax = 100,
	    .nlocals = 3,
	    .nglobals = 4,
	    .is_watch = true,
	    .rpn = {.ex_mask = 5, .heap = 6, .ex_logmax = 7, .major = 8, .minor = 9, .pass = 10, .max = 11},
	    .layout = {.nfields = 2, .fixed_size = 12, .has_faultmask = 1, .has_ret_addr = 1, .fields = fields}};
}

static bool same(const struct dp_program *a, const struct dp_program *b)
{
	return a->len == b->len && !memcmp(a->code, b->code, a->len) && a->jmpmax == b->jmpmax &&
	       a->logmax == b->logmax && a->nlocals == b->nlocals && a->nglobals == b->nglobals &&
	       a->is_watch == b->is_watch && !memcmp(&a->rpn, &b->rpn, sizeof(a->rpn)) &&
	       a->layout.nfields == b->layout.nfields && a->layout.fixed_size == b->layout.fixed_size &&
	       a->layout.has_faultmask == b->layout.has_faultmask && a->layout.has_ret_addr == b->layout.has_ret_addr &&
	       !memcmp(a->layout.fields, b->layout.fields, a->layout.nfields * sizeof(*a->layout.fields));
}

/* In memory of its own and no larger than n, so that the address sanitizer and valgrind see reads behind it. */
static int read_at_most(struct dp_program *out, const u8 *image, u32 n, struct dp_error *err)
{
	u8 *own = malloc(n);
	int r;

	memcpy(own, image, n);
	r = dp_program_image_read(out, own, n, err);
	free(own);
	return r;
}

static void damaged(const u8 *image, u32 size)
{
	u32 cut = 0, wild = 0, refused = 0;
	struct dp_program p;
	struct dp_error err;
	u8 *bad = malloc(size);

	for (u32 n = 1; n < size; n++)
		cut += read_at_most(&p, image, n, &err) == 0;
	ok(!cut, "an image that is cut short is refused");
	for (u32 i = 0; i < sizeof(struct dp_program_image) * 8; i++) {
		memcpy(bad, image, size);
		bad[i / 8] ^= (u8)(1 << i % 8);
		if (read_at_most(&p, bad, size, &err)) {
			refused++;
			continue;
		}
		wild += dp_program_image_size(&p) != size;
		dp_program_free(&p);
	}
	ok(!wild, "with a bit of its head changed, it is refused or as long as it was");
	ok(refused > 32 * 3, "magic, size and length are checked");
	free(bad);
}

int main(void)
{
	struct dp_program p = sample(), back;
	u32 size = dp_program_image_size(&p);
	u8 *image = calloc(1, size + 8);
	struct dp_error err;

	dp_program_image_write(&p, image);
	ok(!dp_program_image_read(&back, image, size, &err) && same(&p, &back), "what is written is read back");
	dp_program_free(&back);
	ok(!dp_program_image_read(&back, image, size + 8, &err) && same(&p, &back), "something else may follow");
	dp_program_free(&back);
	damaged(image, size);
	((struct dp_program_image *)image)->nfields = DP_FIELDS_MAX + 1;
	ok(dp_program_image_read(&back, image, size, &err) == -E2BIG && err.code == E_PROG_LIMIT, "too many fields");
	free(image);
	free(p.code);
	printf("1..%d\n", number);
	return 0;
}
