/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Instructions as text, and what only a hit can answer refused where no hit is. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"

/* What only a hit can answer, and what that is called. */
static const struct {
	const char *begin, *what;
} of_hits[] = {
    {"push r,", "registers"},
    {"pop r,", "registers"},
    {"push mem,", "memory of the program"},
    {"pop mem,", "memory of the program"},
    {"str ", "memory of the program"},
    {"vfy ", "memory of the program"},
    {"log str", "memory of the program"},
    {"log mrf", "memory of the program"},
    {"push frames", "call chains"},
    {"push chain", "call chains"},
    {"push tid", "threads"},
    {"push tv", "threads"},
    {"call T_", "threads"},
    {"push procid", "processors"},
    {"exit ", "facilities"},
    {"call_exit ", "facilities"},
    {"remove", "probes"},
};

static void check_body(struct dpcc *c, const char *instruction)
{
	if (!c->target.body || c->in_helpers)
		return;
	for (u32 i = 0; i < DP_ARRAY_SIZE(of_hits); i++)
		if (!strncmp(instruction, of_hits[i].begin, strlen(of_hits[i].begin)))
			dp_cc_fail(c, c->here, E_DPCC_BODY, "this needs %s", of_hits[i].what);
}

/* Instructions, separated by semicolons. */
void dp_cc_emit(struct dpcc *c, const char *fmt, ...)
{
	char text[512], *p = text, *end;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (;; p = end + 1) {
		end = strchr(p, ';');
		check_body(c, p);
		dp_cc_buf_add(c, c->code, "\t", 1);
		dp_cc_buf_add(c, c->code, p, end ? (size_t)(end - p) : strlen(p));
		dp_cc_buf_add(c, c->code, "\n", 1);
		if (!end)
			return;
	}
}

int dp_cc_new_label(struct dpcc *c)
{
	return (int)c->label++;
}

void dp_cc_put_label(struct dpcc *c, int label)
{
	dp_cc_buf_put(c, c->code, "L%d:\n", label);
}

void dp_cc_gen_normalise(struct dpcc *c, const struct type *t)
{
	if (t->size < 8)
		dp_cc_emit(c, "%s%u", t->is_unsigned ? "zx" : "sx", (u32)t->size * 8);
}
