/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Event lines changed at random: never a crash or a leak; a refusal has a code, a column inside the line and
 * a detail; what compiles is verified, runs, and stays inside its record.
 * Usage: fuzz-event [SECONDS [SEED]]; 0 seconds = endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/machine.h"
#include "lang/dpcc/dpcc.h"

static const char *const seeds[] = {
    "p do_work+0x12 %ax +8(%di):u32 +0(%si):string if $arg1 > 4096",
    "p:conn redis-server:acceptTcpHandler a1 a2 s3 r4 m0x10000",
    "r64:grp/cmd redis-server:lookupCommand found=$retval rv rp",
    "p libstdc++.so.6:std::vector<int, a<b> >::push(int const&) const+0x10 $stack3 $stack",
    "p /usr/bin/x-y:0x1234%return $comm \\\"text\" \\-12:s8 $retval:symbol",
    "p \"my prog\":\"my sym\" @counter+4:u32 @libc:environ @+0x10 @0x10000:x16[4]",
    "p SSL_* n=%eax:b3@5/32 +4(-8(+0x10(%di))):b3@5/8[3] +0(%di):string[2]",
    "p f a=+0(%si):string if a == \"hello\" && $comm ~ \"red*[a-z]?\" || !(%ax & 0xff) && %al != 'x'",
    "p f x=%di if x ? %si : -%dx:s64 * 3 / (%cx | 1) % 7 << 2 >= 1 ^ ~5",
    "r f if $retval:s32 < 0 || +0(%sp):u64 - 8 <= 0x1000",
    "s openat $path n=$flags if $ret < 0 && $error != 2",
    "s write n=\\5 $fd m=\\x1f",
    "s libc:re[ac]* hist($duration), sum($count) by $fd, $call top 5 if $ret > 0",
    "s:io/x write $ret = -5 if $path ~ \"/etc/*\"",
    "u lib*:setjmp $arg1:string count by $backtrace[3]",
    "r g $retval quantiles($duration) by $o->name { if (x) y = 1; }",
};

static const char *const pieces[] = {
    "%ax",      "$arg1",
    "$stack2",  "$retval",
    "$comm",    "@",
    "@sym",     "+0(",
    "-8(",      ")",
    "(",        ":u32",
    ":string",  ":s8",
    ":b3@1/8",  "[2]",
    "[",        "]",
    "if ",      " if ",
    "==",       "<",
    ">>",       "&&",
    "||",       "!",
    "~",        "\"",
    "\"abc\"",  "'",
    "\\",       "\\5",
    "0x",       "99999999999999999999",
    "0",        " ",
    "=",        "a=",
    ":",        "::",
    "%return",  "*",
    "?",        "/",
    "r64:",     "p",
    "operator", "<",
    "\t",       " const",
    "+",        "-",
    "1",        "kmod(x):",
    "a1",       "rv",
    "m0x10",    "s ",
    "u ",       "$ret",
    "$error",   "$duration",
    " by ",     "hist(",
    "count",    "{",
    "}",        ",",
};

static u64 state, lines, compiled, ran, translated;
static u64 codes[DP_NCODES];

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static int symbol(void *arg, const struct dp_location *probe, const char *name, u64 offset, u64 *addr,
		  struct dp_error *err)
{
	if (below(8) == 0)
		return dp_fail(err, E_SYM_NONE, "%.40s", name ? name : "an offset");
	*addr = MEMORY_BASE + (offset & 0xff);
	return 0;
}

static void mutate(char *line, u32 size)
{
	u32 n = 1 + below(6);

	while (n--) {
		u32 len = (u32)strlen(line), at = below(len + 1), other = below(len + 1), count;
		const char *piece = pieces[below(DP_ARRAY_SIZE(pieces))];

		switch (below(7)) {
		case 0: /* another character */
			if (at < len)
				line[at] = (char)(1 + below(255));
			break;
		case 1: /* one less */
			memmove(line + at, line + at + (at < len), len - at + (at == len));
			break;
		case 2: /* the end cut off */
			line[at] = '\0';
			break;
		case 3: /* a part twice */
			count = DP_MIN(len - at, below(20));
			if (len + count < size) {
				memmove(line + at + count, line + at, len - at + 1);
			}
			break;
		case 4: /* a part over another */
			count = DP_MIN(DP_MIN(len - at, len - other), below(20));
			memmove(line + at, line + other, count);
			break;
		default: /* something that means something */
			count = (u32)strlen(piece);
			if (len + count < size) {
				memmove(line + at + count, line + at, len - at + 1);
				memcpy(line + at, piece, count);
			}
		}
	}
}

static const char *run(const struct dp_event *ev)
{
	struct machine m;
	static char shown[65536];
	const char *what = NULL;
	const struct dp_record *header;

	machine_init(&m);
	m.regs.di = MEMORY_BASE;
	m.regs.si = MEMORY_BASE + 0x100;
	if (below(2))
		memcpy(m.memory, &(u64){MEMORY_BASE + 0x40}, 8);
	if (machine_run(&m, &ev->prog) == DP_RUN_LOG) {
		if (m.hit.log_len > ev->prog.logmax || m.hit.log_len < ev->prog.layout.fixed_size)
			what = "the record has a wrong length";
		show_record(&m, &ev->prog.layout, shown, sizeof(shown));
		if (strstr(shown, "(broken)"))
			what = "a text lies outside of the record";
	}
	header = (const struct dp_record *)m.vm->record;
	if (header->event != 0xa5a5a5a5 || header->tsc != 0xa5a5a5a5a5a5a5a5ull)
		what = "the header was written";
	ran++;
	machine_free(&m);
	return what;
}

/* As the compiler of handlers takes it: a handler in C, or a mistake with its place. */
static const char *translate(const char *line)
{
	struct dp_cc_lines *ls = dp_cc_lines_new("/bin/x", "user");
	struct dp_error err = {0};
	struct dp_event head;
	const char *what = NULL;
	u32 behind;
	int ret;

	if (!dp_event_head(&head, line, &behind, NULL) && behind > strlen(line))
		what = "a head that is longer than its line";
	ret = dp_cc_line_says_more(line) ? dp_cc_lines_add(ls, line, false, &err) : 0;
	translated += !ret;
	if (ret && (!err.code || ret != -dp_error_info(err.code)->number))
		what = "the compiler gives an error without its code";
	else if (ret && (err.column < 0 || err.column > (int)strlen(line)))
		what = "the compiler gives an error without its place";
	if (ret)
		codes[err.code]++;
	if (what)
		printf("# %s: %s\n", what, line);
	dp_cc_lines_free(ls);
	return what;
}

static const char *check(const char *line)
{
	static const struct dp_event_env env = {symbol, NULL, NULL};
	struct dp_event ev, shape;
	struct dp_error err = {0};
	const char *what = NULL;
	u64 saved = state;
	int parsed = dp_event_parse(&shape, line, NULL), ret = dp_event_compile(&ev, line, false, &env, &err);

	lines++;
	if (!ret) {
		compiled++;
		if (parsed)
			what = "compiles but does not parse";
		else if (memcmp(&ev.loc, &shape.loc, sizeof(ev.loc)) || strcmp(ev.name, shape.name))
			what = "parsing and compiling find another location";
		else if (dp_program_verify(&ev.prog, ev.is_return, NULL))
			what = "not verified";
		else
			what = run(&ev);
	} else {
		codes[err.code]++;
		if (ret >= 0 || !err.code || err.code >= DP_NCODES || ret != -dp_error_info(err.code)->number)
			what = "an error without its code";
		else if (err.column < 0 || err.column > (int)strlen(line))
			what = "an error without its place";
		else if (!err.detail[0])
			what = "an error without a detail";
		else if (ev.prog.code || ev.prog.layout.fields)
			what = "something is left after an error";
		else if (!strncmp(dp_error_info(err.code)->name, "E-PROG", 6))
			what = "the compiler made what the verifier refuses";
		else if (!parsed && err.code != E_SYM_NONE && err.code != E_EVENT_BIG && err.code != E_EVENT_MEMORY &&
			 err.code != E_EVENT_SYMBOL)
			what = "parses but does not compile";
	}
	dp_event_free(&ev);
	dp_event_free(&shape);
	state = saved;
	if (what)
		printf("# %s: %s (%s at %d: %s)\n", what, line, dp_error_info(err.code)->name, err.column, err.detail);
	return what;
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	long seconds = 3;
#else
	long seconds = argc > 1 ? atol(argv[1]) : 10;
#endif
	time_t end = time(NULL) + seconds;
	bool good = true;
	u32 kinds = 0;

	state = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	printf("# seed 0x%llx\n", (unsigned long long)state);
	while (good && (!seconds || time(NULL) < end || lines < 5000)) /* as many on a busy machine, too */
		for (u32 k = 0; k < 500 && good; k++) {
			char line[512], *copy;

			strcpy(line, seeds[below(DP_ARRAY_SIZE(seeds))]);
			mutate(line, sizeof(line));
			copy = strdup(line); /* of its exact length */
			good = !check(copy) && !translate(copy);
			free(copy);
		}
	for (u32 i = 0; i < DP_NCODES; i++)
		kinds += codes[i] != 0;
	printf("# %llu lines, %llu compiled, %llu ran, %u kinds of errors\n", (unsigned long long)lines,
	       (unsigned long long)compiled, (unsigned long long)ran, kinds);
	ok(good, "changed event lines are compiled or refused properly");
	ok(compiled > 100 && kinds > 20, "some of either kind were among them");
	return done();
}
