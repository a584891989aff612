/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Every mistake in an event line with its code, column and suggestion, and lines that are too large. */
#include <stdio.h>
#include <string.h>

#include "event-env.h"

/* ---- mistakes ---- */

static const struct {
	const char *text;
	enum dp_code code;
	int column;
	const char *hint; /* part of it, or NULL */
} mistakes[] = {
    {"", E_EVENT_KIND, 0, NULL},
    {"   ", E_EVENT_KIND, 3, NULL},
    {"q f", E_EVENT_KIND, 0, NULL},
    {"-:f", E_EVENT_KIND, 0, "nothing needs"},
    {"probe f", E_EVENT_KIND, 0, "blank"},
    {"f:x vfs_read", E_EVENT_KIND, 0, NULL},
    {"p5 f", E_EVENT_MAXACTIVE, 1, NULL},
    {"r0 f", E_EVENT_MAXACTIVE, 1, NULL},
    {"r4097:x f", E_EVENT_MAXACTIVE, 1, NULL},
    {"r99999999999999999999 f", E_EVENT_MAXACTIVE, 1, NULL},
    {"p:/x f", E_EVENT_GROUP, 2, NULL},
    {"p:a.b/x f", E_EVENT_GROUP, 3, NULL},
    {"p:1a/x f", E_EVENT_GROUP, 2, NULL},
    {"p:a/x-y f", E_EVENT_NAME, 5, NULL},
    {"p:9 f", E_EVENT_NAME, 2, NULL},
    {"p:a/b/c f", E_EVENT_NAME, 5, NULL},
    {"p:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa f", E_EVENT_NAME, 2, NULL},
    {"p", E_EVENT_LOCATION, 1, NULL},
    {"p:x  ", E_EVENT_LOCATION, 5, NULL},
    {"p libc:", E_EVENT_LOCATION, 7, NULL},
    {"p :f", E_EVENT_LOCATION, 2, NULL},
    {"p \"\"", E_EVENT_LOCATION, 3, NULL},
    {"p 0x1000+4", E_EVENT_LOCATION, 8, NULL},
    {"p \"abc", E_EVENT_QUOTE, 2, NULL},
    {"p a\"b\"", E_EVENT_QUOTE, 3, NULL},
    {"p f(int", E_EVENT_PAREN, 2, NULL},
    {"p f+", E_EVENT_OFFSET, 3, NULL},
    {"p f+x", E_EVENT_OFFSET, 3, NULL},
    {"p f+0xg", E_EVENT_OFFSET, 3, NULL},
    {"p f+99999999999999999999", E_EVENT_OFFSET, 3, NULL},
    {"p f+12abc", E_EVENT_OFFSET, 3, NULL},
    {"p 12abc", E_EVENT_NUMBER, 4, NULL},
    {"p libc:0xffffffffffffffff", E_EVENT_OFFSET, -2, NULL},
    {"p f%ret", E_EVENT_SUFFIX, 3, "%return"},
    {"p f%ax", E_EVENT_SUFFIX, 3, NULL},
    {"r f+4", E_EVENT_RETOFFSET, 2, NULL},
    {"p f+4%return", E_EVENT_RETOFFSET, 2, NULL},
    {"p /bin/x:0x100(0x200)", E_EVENT_REFCTR, 14, NULL},
    {"p f di", E_EVENT_ARG, 4, "%di"},
    {"p f eax", E_EVENT_ARG, 4, "%eax"},
    {"p f arg1", E_EVENT_ARG, 4, "$arg1"},
    {"p f retval", E_EVENT_ARG, 4, "$retval"},
    {"p f foo", E_EVENT_ARG, 4, NULL},
    {"p f a=", E_EVENT_ARG, 6, NULL},
    {"p f a=foo", E_EVENT_ARG, 6, NULL},
    {"p f %ax,%bx", E_EVENT_ARG, 7, NULL},
    {"p f #1", E_EVENT_ARG, 4, NULL},
    {"p f =%ax", E_EVENT_ARGNAME, 4, NULL},
    {"p f 1a=%ax", E_EVENT_ARGNAME, 4, NULL},
    {"p f a-b=%ax", E_EVENT_ARGNAME, 4, NULL},
    {"p f __probe_ip=%ax", E_EVENT_ARGNAME, 4, NULL},
    {"p f a=%ax a=%bx", E_EVENT_REUSE, 10, NULL},
    {"p f arg2=%ax %bx", E_EVENT_REUSE, 13, NULL},
    {"p f %axx", E_EVENT_REG, 4, "%ax"},
    {"p f %r16", E_EVENT_REG, 4, "%r"},
    {"p f %", E_EVENT_REG, 4, NULL},
    {"p f +0(%rdii)", E_EVENT_REG, 7, "%rdi"},
    {"p f r21", E_EVENT_REG, 4, NULL},
    {"p f $retvl", E_EVENT_VAR, 4, "$retval"},
    {"p f $stac", E_EVENT_VAR, 4, "$stack"},
    {"p f $com", E_EVENT_VAR, 4, "$comm"},
    {"p f $", E_EVENT_VAR, 4, NULL},
    {"p f $arg", E_EVENT_ARGN, 4, NULL},
    {"p f $arg0", E_EVENT_ARGN, 4, NULL},
    {"p f $arg129", E_EVENT_ARGN, 4, NULL},
    {"p f a0", E_EVENT_ARGN, 4, NULL},
    {"p f $stack4096", E_EVENT_STACKN, 4, NULL},
    {"p f s99999999999", E_EVENT_STACKN, 4, NULL},
    {"p f $retval", E_EVENT_RETVAL, 4, NULL},
    {"p f rv", E_EVENT_RETVAL, 4, NULL},
    {"p f rp", E_EVENT_RETADDR, 4, NULL},
    {"r f $arg1", E_EVENT_RETARG, 4, NULL},
    {"p f%return a1", E_EVENT_RETARG, 11, NULL},
    {"p f +(%ax)", E_EVENT_NUMBER, 5, NULL},
    {"p f +0x(%ax)", E_EVENT_NUMBER, 5, NULL},
    {"p f +8z(%ax)", E_EVENT_NUMBER, 6, NULL},
    {"p f @0x10000000000000000", E_EVENT_NUMBER, 5, NULL},
    {"p f +8%ax", E_EVENT_PAREN, 6, NULL},
    {"p f +8(%ax", E_EVENT_PAREN, 10, NULL},
    {"p f +8(+4(%ax):u32", E_EVENT_PAREN, 14, NULL},
    {"p f %ax)", E_EVENT_PAREN, 7, NULL},
    {"p f +8(%ax))", E_EVENT_PAREN, 11, NULL},
    {"p f +0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(%ax)))))))))))))))))", E_EVENT_DEREF, 52, NULL},
    {"p f +0x80000000(%ax)", E_EVENT_DISP, 4, NULL},
    {"p f -0x80000001(%ax)", E_EVENT_DISP, 4, NULL},
    {"p f @", E_EVENT_SYMBOL, 5, NULL},
    {"p f @(x)", E_EVENT_SYMBOL, 5, NULL},
    {"p f @nosuch", E_SYM_NONE, 4, NULL},
    {"p f if @nosuch > 3", E_SYM_NONE, 7, NULL},
    {"p f @+", E_EVENT_NUMBER, 6, NULL},
    {"p f \\", E_EVENT_IMM, 5, NULL},
    {"p f \\x", E_EVENT_IMM, 5, NULL},
    {"p f \\\"abc", E_EVENT_QUOTE, 5, NULL},
    {"p f %ax:u33", E_EVENT_TYPE, 8, "u3"},
    {"p f %ax:strng", E_EVENT_TYPE, 8, "string"},
    {"p f %ax:int", E_EVENT_TYPE, 8, NULL},
    {"p f %ax:string", E_EVENT_STRING, 8, "+0(%ax):string"},
    {"p f $stack0:string", E_EVENT_STRING, 12, NULL},
    {"p f $arg7:string", E_EVENT_STRING, 10, NULL},
    {"p f \\5:string", E_EVENT_STRING, 7, NULL},
    {"p f $comm:u32", E_EVENT_COMM, 10, NULL},
    {"p f $comm:string[2]", E_EVENT_COMM, 10, NULL},
    {"p f +0($comm)", E_EVENT_COMM, 7, NULL},
    {"p f %ax:b3", E_EVENT_BITFIELD, 8, NULL},
    {"p f %ax:b3@1/12", E_EVENT_BITFIELD, 8, NULL},
    {"p f %ax:b0@1/8", E_EVENT_BITFIELD, 8, NULL},
    {"p f %ax:b5@4/8", E_EVENT_BITFIELD, 8, NULL},
    {"p f +0(%ax):u32[0]", E_EVENT_ARRAY, 15, NULL},
    {"p f +0(%ax):u32[65]", E_EVENT_ARRAY, 15, NULL},
    {"p f +0(%ax):u32[x]", E_EVENT_ARRAY, 15, NULL},
    {"p f +0(%ax):u32[3", E_EVENT_ARRAY, 15, NULL},
    {"p f %ax:u32[3]", E_EVENT_ARRAYMEM, 8, NULL},
    {"p f $stack1:u32[3]", E_EVENT_ARRAYMEM, 12, NULL},
    {"p f \\5:u8[3]", E_EVENT_ARRAYMEM, 7, NULL},
    {"p f if", E_EVENT_IF, 6, NULL},
    {"p f %ax if  ", E_EVENT_IF, 12, NULL},
    {"p f if %ax = 3", E_EVENT_EXPR, 11, "=="},
    {"p f if 3 4", E_EVENT_EXPR, 9, NULL},
    {"p f if %ax > 20m", E_EVENT_NUMBER, 15, NULL},
    {"p f if %ax > 20mss", E_EVENT_NUMBER, 15, NULL},
    {"p f if %ax > 99999999999999s", E_EVENT_NUMBER, 13, NULL},
    {"p f +8us(%ax)", E_EVENT_NUMBER, 6, NULL},
    {"p f if %ax - 8(%di)", E_EVENT_EXPR, 13, "(+8(ARG))"},
    {"p f if 1 ? 2", E_EVENT_EXPR, 12, NULL},
    {"p f if %ax ==", E_EVENT_OPERAND, 13, NULL},
    {"p f if * 3", E_EVENT_OPERAND, 7, NULL},
    {"p f if ()", E_EVENT_OPERAND, 8, NULL},
    {"p f if (%ax", E_EVENT_PAREN, 11, NULL},
    {"p f if %ax)", E_EVENT_PAREN, 10, NULL},
    {"p f num=%di if nun > 3", E_EVENT_UNKNOWN, 15, "num"},
    {"p f if size > 3", E_EVENT_UNKNOWN, 7, NULL},
    {"p f if 'ab' == 3", E_EVENT_QUOTE, 7, NULL},
    {"p f if '", E_EVENT_QUOTE, 7, NULL},
    {"p f if %ax == \"x\"", E_EVENT_MIX, 11, NULL},
    {"p f if $comm == 3", E_EVENT_MIX, 13, NULL},
    {"p f t=\\\"a\" if t == \"a\"", E_EVENT_MIX, 16, NULL},
    {"p f if $comm < \"x\"", E_EVENT_MIX, 13, NULL},
    {"p f if $comm", E_EVENT_MIX, 7, NULL},
    {"p f if !$comm", E_EVENT_MIX, 8, NULL},
    {"p f if \"a\" == \"a\"", E_EVENT_MIX, 11, NULL},
    {"p f if \"a\" ~ $comm", E_EVENT_MIX, 11, NULL},
    {"p f if %ax ~ 3", E_EVENT_MIX, 11, NULL},
    {"p f if +0(%ax):u8[3] == 3", E_EVENT_MIX, 7, NULL},
    {"p f if 1 ? $comm : 2", E_EVENT_MIX, 11, NULL},
    {"r f if $retval < 0", E_EVENT_NEVER, 15, "$retval:s32"},
    {"r f if $retval >= 0", E_EVENT_NEVER, 15, "$retval:s32"},
    {"r f if 0 > $retval", E_EVENT_NEVER, 9, "$retval:s32"},
    {"p f if %ax > -1", E_EVENT_NEVER, 11, "%ax:s32"},
    {"p f if %al == 256", E_EVENT_NEVER, 11, NULL},
    {"p f if %ax:u32 == -1", E_EVENT_NEVER, 15, NULL},
    {"p f if %ax:s8 == 128", E_EVENT_NEVER, 14, NULL},
    {"p f if %ax:s8 >= -129", E_EVENT_NEVER, 14, NULL},
    {"p f if %ax:s64 == 0xffffffffffffffff", E_EVENT_NEVER, 15, NULL},
    {"p f if %ax / 0", E_EVENT_ZERO, 11, NULL},
    {"p f if %ax % (1 - 1)", E_EVENT_ZERO, 11, NULL},
};

static void test_mistakes(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(mistakes); i++) {
		struct dp_event ev;
		struct dp_error err = {0};
		int ret = dp_event_compile(&ev, mistakes[i].text, false, &env, &err);
		bool good = ret == -dp_error_info(mistakes[i].code)->number && err.code == mistakes[i].code &&
			    (err.column == mistakes[i].column || mistakes[i].column == -2) && err.detail[0] &&
			    (!mistakes[i].hint || strstr(err.hint, mistakes[i].hint)) && !ev.prog.code;

		if (!ok(good, "\"%s\": %s", mistakes[i].text, dp_error_info(mistakes[i].code)->name)) {
			printf("# returned %d\n", ret);
			complain(&err);
		}
		dp_event_free(&ev);
	}
}

/* ---- sizes ---- */

static void expect(const char *name, const char *text, enum dp_code want)
{
	struct dp_event ev;
	struct dp_error err = {0};
	int ret = dp_event_compile(&ev, text, false, &env, &err);

	if (!ok(want ? ret < 0 && err.code == want : !ret, "%s: %s", name, dp_error_info(want)->name))
		complain(&err);
	dp_event_free(&ev);
	ok(dp_event_compile(&ev, text, false, &env, NULL) == ret, "%s: the same without a place for the error", name);
	dp_event_free(&ev);
}

/* Begin, repeat n times, end. */
static const char *repeat(const char *begin, const char *middle, u32 n, const char *end)
{
	static char text[20000];
	u32 len = (u32)snprintf(text, sizeof(text), "%s", begin);

	while (n--)
		len += (u32)snprintf(text + len, sizeof(text) - len, "%s", middle);
	snprintf(text + len, sizeof(text) - len, "%s", end);
	return text;
}

/* @SYMBOL needs somebody who knows symbols. */
static void test_no_symbols(void)
{
	static const struct dp_event_env none = {NULL, NULL, NULL};
	struct dp_event ev;
	struct dp_error err = {0};

	ok(dp_event_compile(&ev, "p f @counter", false, &none, &err) < 0 && err.code == E_EVENT_SYMBOL &&
	       err.column == 4,
	   "no symbols known");
	ok(!dp_event_parse(&ev, "p f @counter", &err), "parsing needs none");
	ok(!dp_event_compile(&ev, "p f %ax", false, NULL, &err), "nor does a line without symbols");
	dp_event_free(&ev);
}

static void test_sizes(void)
{
	expect("128 arguments", repeat("p f", " %ax", 128, ""), DP_OK);
	expect("129 arguments", repeat("p f", " %ax", 129, ""), E_EVENT_ARGS);
	expect("the largest record", repeat("p f", " +0(%ax):u64[63]", 8, ""), DP_OK);
	expect("a larger one", repeat("p f", " +0(%ax):u64[64]", 8, ""), E_EVENT_BIG);
	expect("a long line", repeat("p f ", " ", 9000, "%ax"), E_EVENT_LONG);
	expect("16 accesses", repeat("p f ", "+0(", 16, "%ax))))))))))))))))"), DP_OK);
	expect("nested 30 deep", repeat("p f if ", "(", 30, "%ax))))))))))))))))))))))))))))))"), DP_OK);
	expect("nested too deep", repeat("p f if ", "(", 40, "%ax"), E_EVENT_DEEP);
	expect("a thousand times not", repeat("p f if ", "!", 1000, "%ax"), E_EVENT_DEEP);
	expect("a thousand choices", repeat("p f if ", "1 ? 1 : ", 1000, "%ax"), E_EVENT_DEEP);
	expect("too many operands", repeat("p f if %ax", " + %ax", 70, ""), E_EVENT_DEEP);
	expect("too many constants", repeat("p f if %ax", " + 1 * 2", 100, ""), E_EVENT_DEEP);
	expect("256 characters", repeat("p f \\\"", "x", 256, "\""), DP_OK);
	expect("257 characters", repeat("p f \\\"", "x", 257, "\""), E_EVENT_TEXT);
	expect("257 characters to compare", repeat("p f if $comm == \"", "x", 257, "\""), E_EVENT_TEXT);
	expect("long symbol", repeat("p ", "x", 511, ""), DP_OK);
	expect("too long symbol", repeat("p ", "x", 512, ""), E_EVENT_LOCATION);
	expect("too long module", repeat("p ", "x", 256, ":f"), E_EVENT_LOCATION);
	expect("argument name of 63", repeat("p f ", "x", 63, "=%ax"), DP_OK);
	expect("argument name of 64", repeat("p f ", "x", 64, "=%ax"), E_EVENT_ARGNAME);
	expect("hundreds of texts", repeat("p f", " +0(%si):string[64]", 15, ""), DP_OK);
}

int main(void)
{
	test_mistakes();
	test_sizes();
	test_no_symbols();
	return done();
}
