/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The analysis of code and the site judge: small hand-assembled functions with known answers, what
 * compilers make of switches, and whole binaries against another disassembler.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/analysis.h"
#include "symbols/symbols.h"

#define CODE 0x1000
#define DATA 0x4000

static int tests, failures;

static void report(bool yes, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", yes ? "" : "not ", ++tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	failures += !yes;
}

/* The condition comes first: messages show what it has found out. */
#define ok(cond, ...)                      \
	do {                               \
		bool yes_ = (cond);        \
		report(yes_, __VA_ARGS__); \
	} while (0)

static void skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tests, name, why);
}

/* ---- hand-assembled functions ---- */

struct world {
	u8 code[256], data[128];
	size_t ncode, ndata;
	struct dp_func funcs[4];
	u8 targets[256], starts[256];
	struct dp_code_text text;
	struct dp_code_data range;
	struct dp_analysis an;
};

static size_t unhex(const char *hex, u8 *out)
{
	size_t n = 0;
	unsigned int b;

	for (; *hex; hex++) {
		if (*hex == ' ')
			continue;
		sscanf(hex, "%2x", &b);
		out[n++] = (u8)b;
		hex++;
	}
	return n;
}

/* Functions are given as offsets: lo, hi, lo, hi, ..., -1. */
static void raw(struct world *w, const char *code, const int *bounds, const char *data)
{
	u32 n = 0;

	memset(w, 0, sizeof(*w));
	w->ncode = unhex(code, w->code);
	w->ndata = unhex(data ? data : "", w->data);
	for (; bounds[0] >= 0; bounds += 2)
		w->funcs[n++] = (struct dp_func){CODE + (u64)bounds[0], CODE + (u64)bounds[1]};
	w->text.funcs = w->funcs;
	w->text.targets = w->targets;
	w->text.starts = w->starts;
	w->text.t = (struct dp_text){CODE, CODE + w->ncode, w->code, w->targets, w->funcs, n};
	w->text.t.starts = w->starts;
	w->range = (struct dp_code_data){DATA, DATA + w->ndata, w->data};
	w->an = (struct dp_analysis){.texts = &w->text, .ntexts = 1, .data = &w->range, .ndata = 1};
}

static void analyse(struct world *w)
{
	dp_code_know(&w->an, DP_CODE_ALL);
	dp_code_release(&w->an);
}

static void build(struct world *w, const char *code, const int *bounds, const char *data)
{
	raw(w, code, bounds, data);
	analyse(w);
}

struct expect {
	const char *name;
	const char *code;
	int funcs[9];
	int at; /* offset of the site */
	enum dp_outcome outcome;
	enum dp_code why;
	int start, len, ninsns, bounds; /* of the window, for JUMP */
	const char *data;
};

#define ONE(hi)           \
	{                 \
		0, hi, -1 \
	}

static const struct expect cases[] = {
    {"one long instruction", "b801000000 c3", ONE(6), 0, DP_OUTCOME_JUMP, 0, 0, 5, 1, 0},
    {"several instructions", "55 4889e5 53 4883ec08 c9 c3", ONE(11), 0, DP_OUTCOME_JUMP, 0, 0, 5, 3, 0x12},
    {"four bytes and then five", "4883ec08 4889c3 c3", ONE(8), 0, DP_OUTCOME_JUMP, 0, 0, 7, 2, 0x10},
    /* 0: push rbp; 1: mov rbp,rsp; 4: nop; 5: jmp 1 */
    {"a branch into the middle", "55 4889e5 90 ebfa c3", ONE(8), 0, DP_OUTCOME_TRAP, E_SITE_TARGET},
    {"a branch to the start", "55 4889e5 90 ebf9 c3", ONE(8), 0, DP_OUTCOME_JUMP, 0, 0, 5, 3, 0x12},
    /* another function jumps there: hot and cold parts do */
    {"a branch into the middle from another function",
     "55 4889e5 53 5b c3 90 ebf7",
     {0, 7, 8, 10, -1},
     0,
     DP_OUTCOME_TRAP,
     E_SITE_TARGET},
    {"a branch from bytes of no function", "55 4889e5 53 5b c3 ebf8", {0, 7, -1}, 0, DP_OUTCOME_TRAP, E_SITE_TARGET},
    /* 0: jcc +1 -> 3; 2: nop; 3: nop; 4: nop; 5: ret */
    {"a branch over the next instruction", "7401 90 90 90 c3", ONE(6), 0, DP_OUTCOME_TRAP, E_SITE_TARGET},
    {"a conditional branch is displaced", "7410 4889e5 c3", ONE(6), 0, DP_OUTCOME_JUMP, 0, 0, 5, 2, 4},
    {"a call as the last one", "55 e800000000 5d c3", ONE(8), 0, DP_OUTCOME_JUMP, 0, 0, 6, 2, 2},
    {"nothing behind a call", "ffd0 4889c3 c3", ONE(6), 0, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"the return of a call is no middle", "e800000000 5d c3", ONE(7), 0, DP_OUTCOME_JUMP, 0, 0, 5, 1, 0},
    {"a call at its return address", "ffd0 ffd0 4889c3 c3", ONE(8), 4, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"ret with padding behind the function", "c3 90 90 90 90 90 90", ONE(1), 0, DP_OUTCOME_JUMP, 0, 0, 1, 1, 0},
    {"ret with int3 behind the function", "c3 cccccccc", ONE(1), 0, DP_OUTCOME_JUMP, 0, 0, 1, 1, 0},
    {"ret with too little padding", "c3 909090 c3", {0, 1, 4, 5, -1}, 0, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"ret with zeros up to an aligned function",
     "4889f8 c3 00000000 00000000 00000000 00000000 c3",
     {0, 4, 16, 17, -1},
     0,
     DP_OUTCOME_JUMP,
     0,
     0,
     4,
     2,
     8},
    {"ret with zeros up to something else",
     "4889f8 c3 00000000 00000000 00000000 00000000 c3",
     {0, 4, -1},
     0,
     DP_OUTCOME_TRAP,
     E_SITE_SHORT},
    {"ret with zeros that are read as data",
     "c3 000000 00000000 00000000 00000000 8b05ebffffff c3",
     {0, 1, 16, 23, -1},
     0,
     DP_OUTCOME_TRAP,
     E_SITE_SHORT},
    {"ret with padding that somebody jumps to",
     "c3 90909090 90 ebfc",
     {0, 1, 6, 8, -1},
     0,
     DP_OUTCOME_TRAP,
     E_SITE_SHORT},
    {"ret with alignment inside the function", "31c0 c3 90909090 31c0 ebf7", ONE(11), 2, DP_OUTCOME_JUMP, 0, 2, 1, 1,
     0},
    {"ret with alignment that ends at a loop", "31c0 c3 9090 31c0 ebfc", ONE(9), 2, DP_OUTCOME_JUMP, 0, 0, 3, 2, 4},
    {"code behind ret is left alone", "c3 31c0 31c0 c3", ONE(6), 0, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"padding that control falls into", "4889e5 90909090", ONE(3), 0, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"the end of the text", "31c0 c3", ONE(3), 0, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"a window that begins earlier", "4883ec08 5b c3", ONE(6), 5, DP_OUTCOME_JUMP, 0, 0, 6, 3, 0x10},
    {"a window that begins earlier, with pops", "5b 415c 415d 5d c3", ONE(7), 6, DP_OUTCOME_JUMP, 0, 1, 6, 4, 0x14},
    /* 0: pop rbx; 1: pop r12; 3: pop r13; 5: pop rbp; 6: ret; 7: jmp 6 */
    {"no earlier window across a target", "5b 415c 415d 5d c3 ebfd", ONE(9), 6, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"no earlier window across a call", "55 53 ffd0 c3", ONE(5), 4, DP_OUTCOME_TRAP, E_SITE_SHORT},
    {"in the middle of an instruction", "b801000000 c3", ONE(6), 2, DP_OUTCOME_REFUSED, E_SITE_MIDINSN},
    {"outside of functions", "90 c3", {1, 2, -1}, 0, DP_OUTCOME_REFUSED, E_SITE_NOFUNC},
    {"ud2", "0f0b 90909090", ONE(2), 0, DP_OUTCOME_REFUSED, E_SITE_INSN},
    {"int3", "cc 90909090", ONE(5), 0, DP_OUTCOME_REFUSED, E_SITE_INSN},
    {"hlt", "f4 90909090", ONE(5), 0, DP_OUTCOME_REFUSED, E_SITE_INSN},
    {"no window over ud2", "31c0 0f0b 90909090 90", ONE(9), 0, DP_OUTCOME_TRAP, E_SITE_INSN},
    {"bytes that are no instruction", "06 06060606", ONE(5), 0, DP_OUTCOME_REFUSED, E_SITE_BADINSN},
    /* cmpl $0,(rdi); je over the lock prefix; lock cmpxchg [rdi],esi: one byte into an instruction
     */
    {"a branch behind a lock prefix", "833f00 7401 f00fb137 c3", ONE(10), 5, DP_OUTCOME_TRAP, E_SITE_TARGET},
    /* lea rdx,[rip+x] -> DATA; movslq rax,[rdx+rdi*4]; add rax,rdx; jmp rax; case 14: nop.. ; case
       19 */
    {"a jump table's targets", "488d15f92f0000 486304ba 4801d0 ffe0 31c0 31c9 c3", ONE(21), 16, DP_OUTCOME_TRAP,
     E_SITE_TARGET, .data = "10d0ffff 12d0ffff ffffff7f"},
    {"code of a switch that no table names", "488d15f92f0000 486304ba 4801d0 ffe0 31c0 31c9 c3", ONE(21), 16,
     DP_OUTCOME_JUMP, 0, 16, 5, 3, 0x14, .data = "10d0ffff ffffff7f"},
    {"the same with a table that is none", "488d15f92f0000 486304ba 4801d0 ffe0 31c0 31c9 c3", ONE(21), 16,
     DP_OUTCOME_TRAP, E_SITE_UNPROVEN, .data = "ffffff7f"},
    {"a computed jump into code", "488d0505000000 4801f8 ffe0 31c0 31c9 c3", ONE(17), 12, DP_OUTCOME_TRAP,
     E_SITE_UNPROVEN},
    {"one long instruction in an unproven function", "488d050a000000 4801f8 ffe0 b801000000 c3", ONE(18), 12,
     DP_OUTCOME_JUMP, 0, 12, 5, 1, 0},
    {"a tail call through memory is proven", "31c0 4889f7 ff6718", ONE(8), 0, DP_OUTCOME_JUMP, 0, 0, 5, 2, 4},
    {"a tail call through a register is proven", "31c0 488b07 ffe0", ONE(7), 0, DP_OUTCOME_JUMP, 0, 0, 5, 2, 4},
    {"a table of pointers is proven", "31c0 488d0df72f0000 ff24f9", ONE(12), 0, DP_OUTCOME_JUMP, 0, 0, 9, 2, 4,
     .data = "0000000000000000"},
};

static bool window_is(const struct dp_site *s, const struct expect *e)
{
	return s->win.start == CODE + (u64)e->start && s->win.len == e->len && s->win.ninsns == e->ninsns &&
	       s->win.bounds == e->bounds;
}

static void check_case(const struct expect *e)
{
	struct world w;
	struct dp_error err;
	struct dp_site s;
	bool good;

	build(&w, e->code, e->funcs, e->data);
	/* With and without the bitmap of instruction starts the answer is the same. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			w.text.t.starts = NULL;
		dp_site_judge(&w.text.t, CODE + (u64)e->at, &s, &err);
		good = s.outcome == e->outcome && s.why == e->why && (s.outcome != DP_OUTCOME_JUMP || window_is(&s, e));
		if (!good || pass)
			break;
	}
	ok(good, "%s", e->name);
	if (!good)
		printf("# %s %s, window +%d len %u insns %u bounds %#x\n", dp_outcome_name(s.outcome),
		       dp_error_info(s.why)->name, (int)(s.win.start - CODE), s.win.len, s.win.ninsns, s.win.bounds);
}

static void test_neighbours(void)
{
	static const int one[] = ONE(6);
	struct dp_error err;
	struct dp_site s;
	struct world w;

	build(&w, "b801000000 c3", one, NULL);
	dp_site_judge(&w.text.t, CODE + 2, &s, &err);
	ok(strstr(err.detail, "0x1000") && strstr(err.detail, "0x1005"),
	   "the message names the neighbouring instructions");
}

static void test_liveness(void)
{
	/* 0: push rbp; mov rbp,rsp; xor eax,eax; pop rbp; ret */
	static const int one[] = ONE(8);
	struct dp_site s;
	struct world w;

	build(&w, "55 4889e5 31c0 5d c3", one, NULL);
	dp_site_judge(&w.text.t, CODE, &s, NULL);
	ok(s.flags_dead && !s.red_zone, "at the entry flags are dead and no red zone is live");
	dp_site_judge(&w.text.t, CODE + 1, &s, NULL);
	ok(s.flags_dead && s.red_zone, "before an instruction that overwrites them, flags are dead");
	dp_site_judge(&w.text.t, CODE + 6, &s, NULL);
	ok(!s.flags_dead && s.red_zone, "inside, flags and red zone may be live");
	dp_site_judge(&w.text.t, CODE + 7, &s, NULL);
	ok(!s.flags_dead && s.red_zone, "before ret flags may be live: some routines end in popf; ret");
	w.funcs[0].flags |= DP_FUNC_GO;
	dp_site_judge(&w.text.t, CODE + 1, &s, NULL);
	ok(!s.red_zone, "Go has no red zone");
	w.funcs[0].flags = DP_FUNC_PART;
	dp_site_judge(&w.text.t, CODE, &s, NULL);
	ok(s.red_zone, "the start of a cold part is no entry");
	w.funcs[0].flags = 0;
	/* pushf at the entry, as in a routine that is entered asynchronously */
	build(&w, "55 4889e5 9c 31c0 9d 5d c3", one, NULL);
	dp_site_judge(&w.text.t, CODE, &s, NULL);
	ok(!s.flags_dead, "an entry that saves the flags has live flags");
}

static void test_fallen(void)
{
	static const int two[] = {0, 3, 3, 9, -1};
	struct dp_site s;
	struct world w;

	build(&w, "4889e5 b801000000 c3", two, NULL);
	dp_site_judge(&w.text.t, CODE + 3, &s, NULL);
	ok(s.outcome == DP_OUTCOME_JUMP && !s.flags_dead && s.red_zone, "a function that the one before it falls into");
}

static void test_parts(void)
{
	/* 0: js 8; ret; 8: xor eax,eax; jmp 2 (ret) */
	static const int two[] = {0, 3, 8, 12, -1};
	/* the same, and a third function calls it */
	static const int three[] = {0, 3, 8, 12, 12, 18, -1};
	struct world w;

	raw(&w, "7806 c3 9090909090 31c0 ebf6", two, NULL);
	w.funcs[1].flags = DP_FUNC_NAMELESS;
	analyse(&w);
	ok(w.funcs[1].flags & DP_FUNC_PART, "what one function jumps to, without a name, is its part");
	raw(&w, "7806 c3 9090909090 31c0 ebf6 e8f7ffffff c3", three, NULL);
	w.funcs[1].flags = DP_FUNC_NAMELESS;
	analyse(&w);
	ok(!(w.funcs[1].flags & DP_FUNC_PART), "what is called is a function");
}

static void test_guards(void)
{
	static const int one[] = ONE(16);
	static const struct dp_span guard = {CODE + 5, CODE + 10};
	struct dp_site s;
	struct world w;

	build(&w, "b801000000 b801000000 4889f8 31c0 c3", one, NULL);
	w.text.t.guards = &guard;
	w.text.t.nguards = 1;
	dp_site_judge(&w.text.t, CODE, &s, NULL);
	ok(s.outcome == DP_OUTCOME_JUMP, "before a restartable sequence");
	dp_site_judge(&w.text.t, CODE + 5, &s, NULL);
	ok(s.outcome == DP_OUTCOME_REFUSED && s.why == E_SITE_RSEQ, "inside a restartable sequence");
	dp_site_judge(&w.text.t, CODE + 10, &s, NULL);
	ok(s.outcome == DP_OUTCOME_JUMP && s.win.start == CODE + 10, "behind a restartable sequence");
}

static void test_upto(void)
{
	static const int one[] = ONE(12);
	struct dp_window win;
	struct world w;

	build(&w, "b801000000 5b 5d 4889f8 31c0 c3", one, NULL);
	ok(!dp_window_build(&w.text.t, CODE, CODE + 6, &win, NULL) && win.len == 7 && win.ninsns == 3 && win.falls &&
	       !win.bounds,
	   "a window that has to reach a later instruction");
}

static int leaves(void *arg, const struct dp_func *f)
{
	return 0;
}

/* arg: words of a table at address 0x100, up to one that is 0. */
static int pointer(void *arg, u64 addr, u64 *value)
{
	*value = arg ? ((const u64 *)arg)[(addr - 0x100) / 8] : 0;
	return *value != 0;
}

static void test_exits(void)
{
	/* 0: test edi,edi; je 9; jmp 20; 9: js 16; ret; nop x4; 16: part: xor; jmp 11 (ret); 20:
	 * ret */
	static const int three[] = {0, 12, 16, 20, 20, 21, -1};
	static const int apart[] = {0, 5, 16, 17, -1}; /* test edi,edi; js 16; ret; 16: ret */
	const struct dp_exit_env env = {leaves, pointer, NULL};
	u64 v[8];
	struct dp_error err = {0};
	struct world w;
	int n;

	build(&w, "85ff 7405 e90c000000 7805 c3 90909090 31c0 ebf7 c3", three, NULL);
	w.funcs[1].flags |= DP_FUNC_PART;
	n = dp_code_exits(&w.an, CODE, &env, v, 8, &err);
	ok(n == 2 && v[0] == CODE + 4 && v[1] == CODE + 11, "exits: ret and tail call, not the cold part");
	n = dp_code_exits(&w.an, CODE, &env, v, 1, &err);
	ok(n < 0 && err.code == E_FUNC_EXITS, "more exits than there is room for");
	build(&w, "85ff 780c c3 90909090909090909090 90 c3", apart, NULL);
	n = dp_code_exits(&w.an, CODE, &env, v, 8, &err);
	ok(n < 0 && strstr(err.detail, "conditional"), "a conditional tail call is no exit: %s", err.detail);
	w.funcs[0].flags |= DP_FUNC_UNPROVEN;
	n = dp_code_exits(&w.an, CODE, &env, v, 8, &err);
	ok(n < 0 && err.code == E_FUNC_EXITS, "no exits of an unproven function");
}

/* A part without a name that may as well be a function which this one alone jumps to. */
static void test_exits_of_part(void)
{
	/*
	 * 0: test edi,edi; je 9; jmp 16; 9: ret; 16: test edi,edi; jg 25; 20: js 23; nop; 23: ret (no jump fits);
	 * nop; 25: mov (%rcx),%eax; jmp 20
	 */
	static const int two[] = {0, 10, 16, 29, -1};
	static const struct {
		const char *what, *code;
		u32 flags;
		int n;
		u64 first, second;
		bool alone;
	} cases[] = {
	    {"where no jump fits in a part that is like a function, the jump to it is the exit",
	     "85ff 7405 e907000000 c3 909090909090 85ff 7f05 7801 90 c3 90 8b01 ebf7", DP_FUNC_NAMELESS, 2, 4, 9, true},
	    {"a part that goes back is none", "85ff 7405 e907000000 c3 909090909090 85ff 7f05 7801 90 c3 90 75ee ebf7",
	     DP_FUNC_NAMELESS, 2, 9, 23, false},
	    {"nor is one that begins with a frame",
	     "85ff 7405 e907000000 c3 909090909090 85ff 7f05 7801 90 c3 90 8b01 ebf7", DP_FUNC_NAMELESS | DP_FUNC_PART,
	     2, 9, 23, false},
	    {"nor one to which a conditional jump leads",
	     "85ff 740c e907000000 c3 909090909090 85ff 7f05 7801 90 c3 90 8b01 ebf7", DP_FUNC_NAMELESS, 2, 9, 23,
	     false},
	};
	u64 v[8], to[8];
	struct dp_exit_env env = {leaves, pointer, NULL, to};
	struct world w;

	for (size_t i = 0; i < DP_ARRAY_SIZE(cases); i++) {
		int n;

		raw(&w, cases[i].code, two, NULL);
		w.funcs[1].flags = cases[i].flags;
		analyse(&w);
		n = dp_code_exits(&w.an, CODE, &env, v, 8, NULL);
		ok(n == cases[i].n && v[0] == CODE + cases[i].first && v[1] == CODE + cases[i].second &&
		       to[0] == (cases[i].alone ? CODE + 16 : 0),
		   "exits: %s (%d: %d %d, to 0x%x)", cases[i].what, n, (int)(v[0] - CODE), (int)(v[1] - CODE),
		   (unsigned)to[0]);
	}
}

/* 0: jmp *0x100(,%rax,8); 7: ret; 16: another function: xor; ret; 24: a part: xor; ret */
static void test_exits_by_table(void)
{
	static const int three[] = {0, 8, 16, 19, 24, 27, -1};
	static const struct {
		const char *what;
		u64 words[6];
		int n;
	} cases[] = {
	    {"a table of labels of the function: the jump is none", {CODE + 7, CODE + 7}, 1},
	    {"one that begins with the function's part has the part's exits, too",
	     {CODE + 24, CODE + 24, CODE + 26, CODE + 7},
	     2},
	    {"and one that has it later", {CODE + 7, CODE + 26, CODE + 7}, 2},
	    {"a table of functions: the jump is one", {CODE + 16, CODE + 7}, 2},
	    {"of a part alone it is not known whose it is", {CODE + 24}, 2},
	    {"what stands behind the table's end is not looked at", {CODE + 7, CODE + 18, CODE + 24, CODE + 7}, 1},
	    {"no code: the jump is one", {1}, 2},
	};
	u64 v[8];
	struct world w;

	for (size_t i = 0; i < DP_ARRAY_SIZE(cases); i++) {
		struct dp_exit_env env = {leaves, pointer, (void *)cases[i].words};
		int n;

		build(&w, "ff24c500010000 c3 9090909090909090 31c0 c3 9090909090 31c0 c3", three, NULL);
		w.funcs[2].flags |= DP_FUNC_PART;
		n = dp_code_exits(&w.an, CODE, &env, v, 8, NULL);
		ok(n == cases[i].n, "exits: %s (%d)", cases[i].what, n);
	}
}

struct seen_call {
	struct dp_text_call last;
	int n;
};

static void see_call(const struct dp_text_call *call, void *arg)
{
	struct seen_call *seen = arg;

	seen->last = *call;
	seen->n++;
}

/* What registers hold before a system call, with a constant stored by a byte in between. */
static void test_calls(void)
{
	/* xor edi,edi; lea 0x40(%rip),%rsi; mov $14,%eax; movb $0,0x66(%rsp); shlb 0x67(%rsp); syscall; ret */
	static const int one[] = ONE(26), joined[] = ONE(12);
	struct seen_call seen = {.n = 0};
	struct world w;

	build(&w, "31ff 488d3540000000 b80e000000 c644246600 d0642467 0f05 c3", one, NULL);
	dp_text_find_calls(&w.text.t, see_call, &seen);
	ok(seen.n == 1 && seen.last.number == 14 && !seen.last.first && seen.last.load == CODE + 2 && !seen.last.joined,
	   "a constant that is stored in memory, and a shift there, change no register (%d: call %d)", seen.n,
	   (int)seen.last.number);
	/* test edi,edi; js 11; mov $202,%eax; syscall; 11: ret */
	build(&w, "85ff 7807 b8ca000000 0f05 c3", joined, NULL);
	dp_text_find_calls(&w.text.t, see_call, &seen);
	ok(seen.n == 2 && seen.last.number == 202 && seen.last.joined, "control arrives behind a call without it");
}

/* ---- compilers ---- */

static const char switches[] =
    "extern int f(int), g(int), h(int);\n"
    "int dense(int a) { switch (a) { case 0: return f(1); case 1: return g(2); case 2: return "
    "h(a);\n"
    " case 3: return f(a) + 1; case 4: return 9 * g(a); case 5: return f(g(a)); } return 0; }\n"
    "int two(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) {\n"
    " switch (p[i]) { case 1: s += f(s); break; case 2: s ^= g(s); break; case 3: s = h(s); "
    "break;\n"
    "  case 4: s -= f(1); break; case 5: s *= 7; break; case 6: s = f(s + 1); break; }\n"
    " switch (p[i + 1] & 7) { case 1: s += g(s); break; case 2: s ^= h(s); break; case 3: s = f(s "
    "+ 2); break;\n"
    "  case 4: s -= g(1); break; case 5: s *= 9; break; case 7: s = f(s - 1); break; } }\n return "
    "s; }\n"
    "int closed(unsigned a) { switch (a) { case 0: return f(2); case 1: return g(1); case 2: "
    "return h(1);\n"
    " case 3: return f(9); case 5: return f(7); case 6: return g(g(1)); default: "
    "__builtin_unreachable(); } }\n"
    "int threaded(const unsigned char *p) { static const void *const t[] = {&&a, &&b, &&c, &&d}; "
    "int s = 0;\n"
    " goto *t[*p++]; a: s += f(s); goto *t[*p++]; b: s -= g(s); goto *t[*p++]; c: s ^= h(s); goto "
    "*t[*p++];\n"
    " d: return s; }\n"
    "int relative(const unsigned char *p) { static const int t[] = {&&a - &&a, &&b - &&a, &&c - "
    "&&a, &&d - &&a};\n"
    " int s = 0; goto *(&&a + t[*p++]); a: s += f(s); goto *(&&a + t[*p++]); b: s -= g(s);\n"
    " goto *(&&a + t[*p++]); c: s ^= h(s); goto *(&&a + t[*p++]); d: return s; }\n"
    "int f(int a) { __asm__ volatile(\"\"); return a; }\n"
    "int g(int a) { __asm__ volatile(\"\"); return a + 1; }\n"
    "int h(int a) { __asm__ volatile(\"\"); return a + 2; }\n"
    "int main(int n, char **v) { return dense(n) + two(&n, n) + closed(n) + threaded((void *)v[0]) "
    "+\n"
    " relative((void *)v[0]); }\n";

static bool run(const char *fmt, ...)
{
	char cmd[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	return system(cmd) == 0;
}

/*
 * The compiler's own labels (.L12, .LBB3_4) are kept by the assembler and looked up in the full
 * file; the stripped copy is what is analysed. Each label that occurs in a table has to be a
 * target.
 */
static void compare_labels(const char *dir, const char *name, bool *proven, int *labels, int *missing)
{
	char cmd[512], line[512], path[256];
	const struct dp_text *t = NULL;
	struct dp_module *m = NULL;
	FILE *nm;

	snprintf(path, sizeof(path), "%s/stripped", dir);
	snprintf(cmd, sizeof(cmd), "nm %s/full", dir);
	*proven = !dp_module_open(&m, path, NULL);
	nm = popen(cmd, "r");
	while (*proven && nm && fgets(line, sizeof(line), nm)) {
		unsigned long long addr;
		char kind, sym[400];

		if (sscanf(line, "%llx %c %399s", &addr, &kind, sym) != 3 || kind != 't')
			continue;
		if (strncmp(sym, ".L", 2) || !strncmp(sym, ".LF", 3) || !strncmp(sym, ".LV", 3) ||
		    !strncmp(sym, ".Lfunc", 6) || !strncmp(sym, ".Ltmp", 5))
			continue;
		if (dp_module_text(m, addr, &t, NULL) || !dp_text_func(t, addr))
			continue;
		if (dp_text_func(t, addr)->flags & DP_FUNC_UNPROVEN)
			*proven = false;
		++*labels;
		/* LLVM names every block; those that are fallen into only need not be targets. */
		if (!dp_text_is_target(t, addr) && strncmp(sym, ".LBB", 4)) {
			printf("# %s: %s at %#llx is no target\n", name, sym, addr);
			++*missing;
		}
	}
	if (nm)
		pclose(nm);
	dp_module_close(m);
}

static void test_compilers(const char *dir)
{
	static const char *const cc[] = {"gcc", "clang"};
	static const char *const flags[] = {"-O0", "-O1", "-O2", "-O3", "-Os"};
	static const char *const models[] = {"-fPIE -pie", "-fno-pie -no-pie"};

	for (size_t i = 0; i < 2; i++) {
		bool proven = true;
		int labels = 0, missing = 0;

		if (!run("%s --version > /dev/null 2>&1", cc[i])) {
			skip(cc[i], "not installed");
			continue;
		}
		for (size_t k = 0; k < 5 * 2; k++) {
			char name[64];
			bool p;

			snprintf(name, sizeof(name), "%s %s %s", cc[i], flags[k / 2], models[k % 2]);
			if (!run("cd %s && %s -w %s %s -x c -S -o s.s s.c && %s %s -Wa,-L -o full "
				 "s.s && "
				 "strip -o stripped full",
				 dir, cc[i], flags[k / 2], models[k % 2], cc[i], models[k % 2])) {
				printf("# %s does not compile\n", name);
				proven = false;
				continue;
			}
			compare_labels(dir, name, &p, &labels, &missing);
			if (!p)
				printf("# %s: unproven\n", name);
			/* Without optimisation a computed address may be kept in the stack frame.
			 */
			proven = proven && (p || k / 2 == 0);
		}
		ok(proven, "%s: every switch is followed", cc[i]);
		ok(labels > 100 && !missing, "%s: all %d labels are targets", cc[i], labels);
	}
}

/* ---- whole binaries ---- */

struct sweep {
	struct dp_module *m;
	unsigned long insns, jumps, bad;
	u8 *seen; /* bit: objdump says that a branch goes there */
	u64 size;
};

static void read_objdump(struct sweep *s, const char *path)
{
	char cmd[512], line[1024];
	const struct dp_text *t = NULL;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "objdump -d --no-show-raw-insn %s 2> /dev/null", path);
	f = popen(cmd, "r");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long at, to;
		char word[3][32];
		int n = sscanf(line, " %llx: %31s %31s %31s", &at, word[0], word[1], word[2]);
		const char *op = n > 1 ? word[0] : "", *arg = word[1];

		if (n > 2 && (!strcmp(op, "bnd") || !strcmp(op, "notrack")))
			op = word[1], arg = word[2];
		if (n < 3 || (op[0] != 'j' && strncmp(op, "call", 4) && strncmp(op, "loop", 4)))
			continue;
		/* objdump loses its way in data; believe it where an instruction is known to begin
		 */
		if ((!t || at < t->lo || at >= t->hi) && dp_module_text(s->m, at, &t, NULL))
			continue;
		if (!(t->starts[(at - t->lo) >> 3] >> ((at - t->lo) & 7) & 1))
			continue;
		if (sscanf(arg, "%llx", &to) == 1 && to < s->size)
			s->seen[to >> 3] |= (u8)(1u << (to & 7));
	}
	if (f)
		pclose(f);
}

static bool seen(const struct sweep *s, u64 a)
{
	return a < s->size && s->seen[a >> 3] >> (a & 7) & 1;
}

static void check_window(struct sweep *s, const struct dp_text *t, const struct dp_func *f, const struct dp_site *site)
{
	u64 end = site->win.start + DP_MAX((u64)site->win.len, (u64)DP_JUMP_LEN);

	for (u64 a = site->win.start + 1; a < end; a++)
		if (seen(s, a) || (dp_text_func(t, a) && dp_text_func(t, a) != f))
			s->bad++;
	if (site->addr < site->win.start || site->addr >= site->win.start + site->win.len)
		s->bad++;
	if (site->win.start < f->lo || site->win.start + site->win.len > f->hi)
		s->bad++;
}

static int sweep_func(const struct dp_symbol *sym, void *arg)
{
	struct sweep *s = arg;
	const struct dp_func *f;
	const struct dp_text *t;
	struct dp_site site;

	if (dp_module_text(s->m, sym->addr, &t, NULL) || !(f = dp_text_func(t, sym->addr)))
		return 0;
	for (u64 a = f->lo; a < f->hi; a++) {
		if (!(t->starts[(a - t->lo) >> 3] >> ((a - t->lo) & 7) & 1))
			continue;
		s->insns++;
		dp_site_judge(t, a, &site, NULL);
		if (site.outcome != DP_OUTCOME_JUMP)
			continue;
		s->jumps++;
		check_window(s, t, f, &site);
	}
	return 0;
}

static void test_binary(const char *path)
{
	struct sweep s = {.size = 64 << 20};

	if (access(path, R_OK) || !run("objdump --version > /dev/null 2>&1")) {
		skip(path, "no such file, or no objdump");
		return;
	}
	s.seen = calloc(1, s.size / 8);
	ok(!dp_module_open(&s.m, path, NULL), "open %s", path);
	dp_module_analyse(s.m, NULL);
	read_objdump(&s, path);
	dp_module_each_func(s.m, NULL, sweep_func, &s);
	ok(s.insns > 1000 && !s.bad, "%s: no branch into any of %lu windows", path, s.jumps);
	ok((double)s.jumps > 0.92 * (double)s.insns, "%s: %.2f %% of %lu instructions get a jump", path,
	   100.0 * (double)s.jumps / (double)s.insns, s.insns);
	dp_module_close(s.m);
	free(s.seen);
}

int main(void)
{
	char dir[] = "/tmp/dp-test-site-XXXXXX", path[64];
	char self[512] = "";
	FILE *f;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	for (size_t i = 0; i < DP_ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
	test_neighbours();
	test_liveness();
	test_fallen();
	test_parts();
	test_guards();
	test_upto();
	test_exits();
	test_exits_of_part();
	test_exits_by_table();
	test_calls();
	if (mkdtemp(dir)) {
		snprintf(path, sizeof(path), "%s/s.c", dir);
		f = fopen(path, "w");
		fputs(switches, f);
		fclose(f);
		test_compilers(dir);
		run("rm -rf %s", dir);
	}
	test_binary("/usr/bin/redis-server");
	test_binary("/bin/bash");
	test_binary("/lib/x86_64-linux-gnu/libc.so.6");
	test_binary(self);
	printf("1..%d\n", tests);
	return failures != 0;
}
