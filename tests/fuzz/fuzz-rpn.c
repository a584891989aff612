/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probe programs out of shuffled pieces, objects with changed bytes, records with random contents: nothing may crash,
 * and what is accepted must be what it was after listing, saving and loading.
 * Usage: fuzz-rpn [SECONDS [SEED]]; 0 seconds = endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/machine.h"
#include "lang/rpn/rpn.h"
#include "log/log-rpn.h"

static u64 state, texts, accepted, objects, loaded, records;

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static const char *const lines[] = {
    "name = a",
    "name = \"b c\"",
    "modtype = user",
    "modtype = kmod",
    "major = 3",
    "jmpmax = 20",
    "logmax = 100",
    "vars = 3",
    "gvars = 2",
    "ex_logmax = 90",
    "autostacktrace = yes",
    "heapmax = 100",
    "id = 7",
    "offset = f",
    "offset = f+4",
    "offset = \"g(int)\" - 0x10",
    "offset = 0x123",
    "address = 77",
    "opcode = 0x55",
    "minor = 1",
    "group = 2",
    "type = 3",
    "ignore = 1",
    "maxhits = -1",
    "logonfault = no",
    "ex_mask = 0x1fff",
    "heap = 40",
    "at = return",
    "a:",
    "b: nop",
    "jmp a",
    "jz b",
    "call a",
    "ret",
    "sx b",
    "ux",
    "rx",
    "loop a",
    "push d, 5",
    "push d, 'x'",
    "push d, sym+4",
    "push d, m:sym - 3",
    "push d, (1+2)*3 << 2",
    "push r, eax",
    "push r, ah",
    "pop r, al",
    "pop r, r8d",
    "pop u, rip",
    "push lv, 1",
    "push lv",
    "pop gv, 1",
    "inc lv,0",
    "dec gv",
    "add",
    "sub",
    "div",
    "dup 3",
    "dup",
    "ros 2",
    "push tsp, -2",
    "pop sbp, 4",
    "copy tsp",
    "save tsp",
    "restore tsp",
    "malloc",
    "free",
    "push heap,u8, 3",
    "pop heap u64, 1",
    "log 2",
    "log",
    "log mrf",
    "log str",
    "log lv",
    "log st",
    "purge st",
    "trace pv",
    "push stp",
    "pop lp",
    "setmin 4",
    "setmaj",
    "push mem u8",
    "pop mem,u64",
    "vfy rw",
    "exit",
    "exit",
    "exit 3",
    "abort",
    "remove",
    "streq \"a\\\"b\\x01\"",
    "strcomm",
    "bits 3, 4",
    "needr,eq di, 4",
    "#define X 3",
    "#define F(a, b) a + b",
    "#define G(a) F(a, F(1, a))",
    "push d, F(X, 2)",
    "push d, G(G(X))",
    "#define X X",
    "#define Y Z",
    "#define Z Y Y",
    "push d, Y",
    "#undef X",
    "#if X > 2 && defined(F)",
    "#ifdef Q",
    "#ifndef Q",
    "#elif 1",
    "#else",
    "#endif",
    "#endif",
    "#error no",
    "#include \"nothing\"",
    "/* open",
    "close */",
    "// comment",
    "push d, \\",
    "nop; nop; exit",
    "x = \"",
    "push d, '",
    "push d, 9999999999999999999999",
    "frob",
};

static size_t make_text(char *out, size_t size)
{
	size_t n = 0;
	u32 k = 3 + below(40);
	bool sane = below(2);

	if (sane) /* many more get far when the frame is right */
		n = (size_t)snprintf(
		    out, size, "name = a\nlogmax = 200\njmpmax = 9\nvars = 4\ngvars = 4\noffset = f\na: b2: nop\n");
	for (u32 i = 0; i < k && n + 200 < size; i++) {
		const char *line = lines[sane && below(8) ? 28 + below(60) : below(DP_ARRAY_SIZE(lines))];

		n += (size_t)snprintf(out + n, size - n, "%s\n", line);
	}
	if (sane)
		n += (size_t)snprintf(out + n, size - n, "b%s: exit\n", below(3) ? "" : "x");
	for (u32 i = 0; n && below(3) == 0 && i < 3; i++)
		out[below((u32)n)] = " \n\"'#(),;:=+-0aA\\/*"[below(20)];
	return n;
}

static bool same(const struct dp_rpn_unit *a, const struct dp_rpn_unit *b)
{
	if (a->nprobes != b->nprobes || strcmp(a->name, b->name) || a->modtype != b->modtype)
		return false;
	for (u32 i = 0; i < a->nprobes; i++)
		if (a->probes[i].prog.len != b->probes[i].prog.len || a->probes[i].nrelocs != b->probes[i].nrelocs ||
		    memcmp(a->probes[i].prog.code, b->probes[i].prog.code, a->probes[i].prog.len) ||
		    memcmp(&a->probes[i].prog.rpn, &b->probes[i].prog.rpn, sizeof(a->probes[i].prog.rpn)))
			return false;
	return true;
}

static const char *try_object(const struct dp_rpn_unit *u)
{
	struct dp_rpn_unit back;
	struct dp_error err;
	const char *what = NULL;
	u8 *bytes;
	size_t size;

	if (dp_rpn_save(u, (void **)&bytes, &size, &err))
		return "cannot be saved";
	if (dp_rpn_load(&back, bytes, size, &err)) {
		free(bytes);
		return "cannot be loaded again";
	}
	if (!same(u, &back))
		what = "is another one when loaded again";
	dp_rpn_free(&back);
	for (u32 i = 0; i < 8 && !what; i++) {
		u32 at = below((u32)size);
		u8 old = bytes[at];

		bytes[at] = below(2) ? (u8)below(256) : old ^ (u8)(1 << below(8));
		objects++;
		if (!dp_rpn_load(&back, bytes, size - (below(10) == 0 ? below((u32)size) : 0), &err)) {
			loaded++;
			if (dp_rpn_verify(&back, &err))
				what = "was loaded, but does not pass the verifier";
			dp_rpn_free(&back);
		}
		if (below(2))
			bytes[at] = old;
	}
	free(bytes);
	return what;
}

static const char *try_text(const char *text)
{
	struct dp_rpn_unit u, again;
	struct dp_error err;
	const char *what;
	char *list = NULL;
	size_t n;
	FILE *f;

	texts++;
	if (dp_rpn_parse(&u, text, "fuzz", ".", NULL, 0, &err))
		return NULL;
	accepted++;
	f = open_memstream(&list, &n);
	dp_rpn_list(&u, f);
	fclose(f);
	what = try_object(&u);
	if (!what && dp_rpn_parse(&again, list, "list", ".", NULL, 0, &err)) {
		what = "its listing does not assemble";
		printf("# %s\n# %s\n", err.detail, list);
	} else if (!what) {
		what = same(&u, &again) ? NULL : "its listing is another program";
		if (what)
			printf("# %s\n", list);
		dp_rpn_free(&again);
	}
	free(list);
	dp_rpn_free(&u);
	return what;
}

/* A record that a probed program has overwritten. */
static void try_record(void)
{
	struct dp_rpn_context c = {.module = "m", .comm = "c\n", .fields = (u32)next_random(&state)};
	u32 len = below(300) & ~7u;
	struct dp_record *rec = malloc(len + 8);
	struct dp_line line = {0};

	for (u32 i = 0; i < len + 8; i++)
		((u8 *)rec)[i] = below(3) ? (u8)below(9) : (u8)below(256);
	if (len >= sizeof(*rec)) {
		rec->len = (u16)len;
		rec->flags = DP_REC_RPN | (u16)(below(2) ? DP_REC_TRACE : 0);
		for (u32 f = 0; f < DP_NFORMATS; f++) {
			if (!dp_format_of_programs((enum dp_format)f))
				continue;
			dp_line_reset(&line);
			dp_rpn_log(&line, (enum dp_format)f, rec, &c);
		}
		records++;
	}
	dp_line_free(&line);
	free(rec);
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	u64 most = 5000; /* texts, so that a busy machine changes nothing */
	long seconds = 0;
#else
	u64 most = ~0ull;
	long seconds = argc > 1 ? atol(argv[1]) : 10;
#endif
	u64 master = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	time_t end = time(NULL) + seconds;
	const char *what = NULL;
	static char text[16384];

	do {
		u64 seed = argc > 2 && !texts ? master : next_random(&master) | 1;

		state = seed;
		text[make_text(text, sizeof(text))] = '\0';
		what = try_text(text);
		if (what)
			printf("# %s, seed 0x%llx\n# %s\n", what, (unsigned long long)seed, text);
		for (u32 i = 0; i < 4; i++)
			try_record();
	} while (!what && texts < most && (!seconds || time(NULL) < end));
	printf("# %llu texts, %llu accepted; %llu changed objects, %llu loaded; %llu records\n",
	       (unsigned long long)texts, (unsigned long long)accepted, (unsigned long long)objects,
	       (unsigned long long)loaded, (unsigned long long)records);
	ok(!what, "probe programs, objects and records of any content are taken or refused");
	ok(accepted > 20 && loaded > 20, "enough of them were taken");
	return done();
}
