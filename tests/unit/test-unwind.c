/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The walk up a thread's stack in a hit (hit/hit-unwind.c), over tables of the test's own: rows and frames that the
 * thread has found before are found again, and forgotten when the tables are others; what lies above the thread's own
 * stack is read with guards. A second walk, which keeps nothing, says which frames there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "hit/hit-priv.h"

#define CODE 0x400000ull
#define ROWS 200u /* of 16 bytes of code each: more than a slot keeps */
#define STACK 1024u
#define WORLD (void *)0x7e0000000000ull /* places of frames depend on addresses: a seed is to give the same again */
#define GAP 12u                         /* functions without rows, between two modules and behind the second one */
#define DEPTH 64u                       /* frames asked for, at most */

struct world {
	u8 *slot;
	struct dp_unwind *tables;
	struct dp_unwind_row rows[ROWS];
	struct dp_control ctl;
	struct dp_regs regs;
	struct dp_hit h;
	u64 stack[STACK];
};

static u64 loadable;     /* bytes of the stack */
static u64 refused_from; /* blocks from that address on cannot be read with guards */
static u32 reads;

u64 dp_stack_end(const struct dp_hit *h)
{
	return h->regs->sp + loadable;
}

int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	const struct world *w = (const struct world *)((const u8 *)h - offsetof(struct world, h));

	reads++;
	if (src >= refused_from)
		return -1;
	for (u32 i = 0; i < len; i++) { /* around the stack there is nothing */
		u64 at = src + i - (u64)w->stack;

		((u8 *)dst)[i] = at < sizeof(w->stack) ? ((const u8 *)w->stack)[at] : 0;
	}
	return 0;
}

/* Each function of the tables has a frame of so many words. */
static void lay_out(struct world *w, s32 words)
{
	for (u32 i = 0; i < ROWS; i++)
		w->rows[i] = (struct dp_unwind_row){.pc = 16 * i, .cfa = words, .kind = DP_UNWIND_SP};
}

static int setup(void **state)
{
	struct world *w = mmap(WORLD, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(w != MAP_FAILED);
	w->slot = calloc(1, DP_HIT_SLOT_SIZE);
	w->tables = calloc(1, sizeof(*w->tables) + 2 * sizeof(struct dp_unwind_module));
	w->tables->n = 1;
	w->tables->digest = 7;
	w->tables->modules[0] = (struct dp_unwind_module){
	    .lo = CODE, .hi = CODE + 16 * ROWS, .rows = (u64)w->rows, .n = ROWS};
	w->ctl.unwind = (u64)w->tables;
	w->regs.ip = CODE + 7;
	w->regs.sp = (u64)w->stack;
	w->h.ctl = &w->ctl;
	w->h.regs = &w->regs;
	w->h.vm = (struct dp_vm *)(w->slot + DP_HIT_SLOT_VM);
	for (u32 i = 0; i < STACK; i++) /* each word could be a return address */
		w->stack[i] = CODE + 16 * (i % ROWS) + 8;
	w->stack[STACK - 1] = 0;
	loadable = sizeof(w->stack);
	refused_from = ~0ull;
	reads = 0;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	free(w->tables);
	free(w->slot);
	munmap(w, sizeof(*w));
	return 0;
}

static struct dp_known *known_of(struct world *w)
{
	return (struct dp_known *)(w->slot + DP_HIT_SLOT_KNOWN);
}

static u32 kept_frames(struct world *w)
{
	u32 n = 0;

	for (u32 i = 0; i < DP_KNOWN_CHAINS; i++)
		n += known_of(w)->chains[i].at != 0;
	return n;
}

static void check_walk(struct world *w, u32 words)
{
	u64 ips[60];

	assert_int_equal(dp_hit_frames(&w->h, ips, 60), 60);
	assert_int_equal(ips[0], CODE + 7);
	for (u32 i = 1; i < 60 && i * words <= STACK; i++)
		assert_int_equal(ips[i], w->stack[i * words - 1]);
}

static void rows_are_kept(void **state)
{
	struct world *w = *state;

	lay_out(w, 1);
	check_walk(w, 1);
	lay_out(w, 2);                            /* nobody has told the thread of it */
	for (u32 i = 0; i < DP_KNOWN_CHAINS; i++) /* it has to look for rows */
		known_of(w)->chains[i].at = 0;
	check_walk(w, 1);
	assert_int_equal(reads, 0);
}

static void other_tables_have_other_rows(void **state)
{
	struct world *w = *state;

	for (s32 words = 1; words < 9; words++) {
		lay_out(w, words);
		w->tables->digest++;
		check_walk(w, (u32)words);
		check_walk(w, (u32)words);
	}
}

static void other_tables_leave_no_frames(void **state)
{
	struct world *w = *state;
	u64 ips[60];

	lay_out(w, 1);
	for (u32 i = 0; i < STACK - 60; i++, w->regs.sp += 8, loadable -= 8)
		dp_hit_frames(&w->h, ips, 60);
	assert_int_equal(kept_frames(w), DP_KNOWN_CHAINS);
	w->tables->digest++;
	assert_int_equal(dp_hit_frames(&w->h, ips, 1), 1);
	assert_int_equal(kept_frames(w), 1);
}

/* More rows than are kept: each place is used again and again. */
static void places_are_used_again(void **state)
{
	struct world *w = *state;
	u64 ips[STACK];

	lay_out(w, 1);
	for (u32 round = 0; round < 3; round++) {
		assert_int_equal(dp_hit_frames(&w->h, ips, STACK), STACK);
		for (u32 i = 1; i < STACK; i++)
			assert_int_equal(ips[i], w->stack[i - 1]);
	}
}

static void above_the_stack_guards_read(void **state)
{
	struct world *w = *state;

	lay_out(w, 3);
	loadable = 200;
	check_walk(w, 3);
	assert_true(reads > 0);
	reads = 0;
	loadable = sizeof(w->stack);
	check_walk(w, 3);
	assert_int_equal(reads, 0);
	loadable = 200; /* frames above it are kept, and are not to be used */
	check_walk(w, 3);
	assert_true(reads > 0);
}

static void a_thread_without_tables_has_one_frame(void **state)
{
	struct world *w = *state;
	u64 ips[4];

	lay_out(w, 1);
	check_walk(w, 1);
	w->ctl.unwind = 0;
	assert_int_equal(dp_hit_frames(&w->h, ips, 4), 1);
	assert_int_equal(kept_frames(w), 0);
}

/* ---- the judge: a walk by what abi-unwind.h says of rows, which keeps nothing ---- */

struct judge {
	const struct world *w;
	u64 ip, sp, frame;
	u64 saved_at;      /* where the frame register was saved; 0: it is that of the hit */
	bool by_frame;     /* the hit's frame register has decided where a frame is */
	bool needs[STACK]; /* words that have decided which frames there are */
};

static u32 steps[DP_UNWIND_SIGNAL + 1]; /* of all judges, by kind */

static bool judge_look(const struct judge *j, u64 addr, u64 *v)
{
	u64 sp = j->w->regs.sp, at = addr - (u64)j->w->stack;
	bool on_stack = addr >= sp && addr < (sp + loadable) / 8 * 8;

	if (addr % 8 || (!on_stack && addr / 512 * 512 >= refused_from))
		return false;
	*v = at < sizeof(j->w->stack) ? j->w->stack[at / 8] : 0;
	return true;
}

static void judge_needs(struct judge *j, u64 addr)
{
	u64 at = addr - (u64)j->w->stack;

	if (at < sizeof(j->w->stack))
		j->needs[at / 8] = true;
}

static u64 judge_frame(struct judge *j)
{
	if (j->saved_at)
		judge_needs(j, j->saved_at);
	else
		j->by_frame = true;
	return j->frame;
}

static const struct dp_unwind_row *judge_row(const struct judge *j, u64 at)
{
	const struct dp_unwind *t = j->w->tables;
	const struct dp_unwind_row *rows, *row = NULL;

	for (u64 m = 0; m < t->n; m++) {
		rows = (const struct dp_unwind_row *)t->modules[m].rows;
		for (u64 i = 0; at >= t->modules[m].lo && at < t->modules[m].hi && i < t->modules[m].n; i++)
			if (t->modules[m].lo + rows[i].pc <= at)
				row = &rows[i];
	}
	return row && row->kind != DP_UNWIND_END ? row : NULL;
}

/* Where the frame's upper end is. */
static bool judge_top(struct judge *j, const struct dp_unwind_row *row, u64 at, u64 *top)
{
	s64 bytes = row->cfa * 8;

	switch (row->kind) {
	case DP_UNWIND_SP:
		*top = j->sp + (u64)bytes;
		return true;
	case DP_UNWIND_FRAME:
		*top = judge_frame(j) + (u64)bytes;
		return true;
	case DP_UNWIND_ALIGN:
		*top = j->w->regs.r10 + (u64)bytes;
		return j->ip == j->w->regs.ip;
	case DP_UNWIND_FRAME_WORD:
		judge_needs(j, judge_frame(j) + (u64)bytes);
		return judge_look(j, j->frame + (u64)bytes, top);
	default: /* DP_UNWIND_PLT */
		*top = j->sp + (at % 16 < (u64)row->cfa ? 8 : 16);
		return true;
	}
}

static bool judge_signal(struct judge *j)
{
	u64 registers = j->sp + offsetof(ucontext_t, uc_mcontext.gregs);

	judge_needs(j, registers + 8 * REG_RSP);
	judge_needs(j, registers + 8 * REG_RIP);
	j->saved_at = registers + 8 * REG_RBP;
	return judge_look(j, registers + 8 * REG_RBP, &j->frame) && judge_look(j, registers + 8 * REG_RSP, &j->sp) &&
	       judge_look(j, registers + 8 * REG_RIP, &j->ip);
}

static bool judge_step(struct judge *j, const struct dp_unwind_row *row, u64 at)
{
	u64 top;

	steps[row->kind]++;
	if (row->kind == DP_UNWIND_SIGNAL)
		return judge_signal(j);
	if (!judge_top(j, row, at, &top) || top <= j->sp || !judge_look(j, top - 8, &j->ip))
		return false;
	judge_needs(j, top - 8);
	j->sp = top;
	if (!row->frame)
		return true;
	j->saved_at = row->frame == DP_UNWIND_AT_FRAME ? judge_frame(j) : top + (u64)(row->frame * 8ll);
	return judge_look(j, j->saved_at, &j->frame);
}

static void judge_begin(struct judge *j, const struct world *w)
{
	*j = (struct judge){.w = w, .ip = w->regs.ip, .sp = w->regs.sp, .frame = w->regs.bp};
}

static u32 judge_walk(struct judge *j, const struct world *w, u64 *ips, u32 n)
{
	const struct dp_unwind_row *row;
	u32 found = 0, behind = 0; /* behind: 1 where ip is behind a call */
	u64 at;

	judge_begin(j, w);
	while (found < n && j->ip) {
		at = j->ip - behind;
		ips[found++] = j->ip;
		row = judge_row(j, at);
		if (!row || !judge_step(j, row, at))
			break;
		behind = row->kind != DP_UNWIND_SIGNAL;
	}
	return found;
}

/* How many frames the walk and the judge find; 0: they differ, or the walk stores behind them. */
static u32 judged(struct world *w, u32 n)
{
	u64 ips[DEPTH + 1], want[DEPTH];
	struct judge j;
	u32 found = judge_walk(&j, w, want, n);

	ips[n] = 12345;
	return dp_hit_frames(&w->h, ips, n) == found && !memcmp(ips, want, found * 8) && ips[n] == 12345 ? found : 0;
}

/* ---- what is kept is used where it is right, and only there ---- */

static void as_many_as_are_asked_for(void **state)
{
	static const u8 numbers[] = {3, 60, 5, 60, 1, 7, 8, 9, 10, 16, 17, 60, 3};
	struct world *w = *state;
	u64 ips[DEPTH], turn = 0;

	lay_out(w, 1);
	for (u32 i = 0; i < DP_ARRAY_SIZE(numbers); i++) {
		memset(ips, 0, sizeof(ips));
		assert_int_equal(dp_hit_frames(&w->h, ips, numbers[i]), numbers[i]);
		assert_int_equal(ips[0], CODE + 7);
		assert_memory_equal(&ips[1], w->stack, (numbers[i] - 1u) * 8);
		assert_int_equal(ips[numbers[i]], 0);
		if (i > 1) /* all of them are known */
			assert_int_equal(known_of(w)->turn, turn);
		turn = known_of(w)->turn;
	}
}

/* How frames of four words are found; the caller's frame register is in the third one, and points at the next third. */
static const struct dp_unwind_row ways[][3] = {
    {{0, 4, 0, DP_UNWIND_SP}, {0, 4, 0, DP_UNWIND_SP}, {0, 4, 0, DP_UNWIND_SP}},
    {{0, 4, -2, DP_UNWIND_SP}, {0, 4, -2, DP_UNWIND_SP}, {0, 4, -2, DP_UNWIND_SP}},
    {{0, 2, -2, DP_UNWIND_FRAME}, {0, 2, -2, DP_UNWIND_FRAME}, {0, 2, -2, DP_UNWIND_FRAME}},
    {{0, 4, -2, DP_UNWIND_SP}, {0, 4, DP_UNWIND_AT_FRAME, DP_UNWIND_SP}, {0, 2, DP_UNWIND_AT_FRAME, DP_UNWIND_FRAME}},
};

static void lay_out_way(struct world *w, u32 way)
{
	for (u32 i = 0; i < ROWS; i++) {
		w->rows[i] = ways[way][i % 3];
		w->rows[i].pc = 16 * i;
	}
	for (u32 i = 2; i + 4 < STACK; i += 4)
		w->stack[i] = (u64)&w->stack[i + 4];
	w->regs.bp = (u64)&w->stack[2];
	w->tables->digest++;
}

/* Walk until there is nothing more to be kept. */
static void learn(struct world *w, u32 n)
{
	u64 turn;

	for (u32 i = 0; i < 64; i++) {
		turn = known_of(w)->turn;
		assert_true(judged(w, n));
		if (known_of(w)->turn == turn)
			return;
	}
	fail_msg("nothing is kept for good");
}

/* What a walk finds from what is kept, with no rows at all. */
static u32 walk_blindly(struct world *w, u64 *ips, u32 n)
{
	struct dp_known before = *known_of(w);
	u32 found;

	memset(known_of(w)->rows, 0, sizeof(before.rows));
	w->tables->n = 0;
	found = dp_hit_frames(&w->h, ips, n);
	w->tables->n = 1;
	*known_of(w) = before;
	return found;
}

/* One word changes. Returns whether the walk finds others than first. */
static bool change_word(struct world *w, u32 i, const u64 *first, u32 n)
{
	u64 ips[DEPTH], old = w->stack[i];
	struct judge j;
	u32 found;

	learn(w, n);
	w->stack[i] = i % 4 == 2 ? old + 32 : old ^ 16;
	judge_walk(&j, w, ips, n);
	if (!j.needs[i]) {
		assert_int_equal(walk_blindly(w, ips, n), n);
		assert_memory_equal(ips, first, n * 8);
	}
	assert_true(judged(w, n));
	found = dp_hit_frames(&w->h, ips, n);
	w->stack[i] = old;
	return found != n || memcmp(ips, first, n * 8);
}

static void changed_words_are_seen(void **state)
{
	enum { N = 40 };
	/* Return addresses, and frame registers on which the place of a frame depends that is asked for. */
	static const u32 want[] = {N - 1, N - 1, N - 1 + N - 2, N - 1 + 12 + 12};
	struct world *w = *state;
	u64 first[N];
	u32 seen;

	for (u32 way = 0; way < DP_ARRAY_SIZE(ways); way++) {
		lay_out_way(w, way);
		learn(w, N);
		assert_int_equal(dp_hit_frames(&w->h, first, N), N);
		seen = 0;
		for (u32 i = 0; i < 4 * N + 4; i++)
			seen += change_word(w, i, first, N);
		assert_int_equal(seen, want[way]);
	}
}

static void the_frame_register_is_seen(void **state)
{
	struct world *w = *state;
	u64 ips[20], first[20];
	struct judge j;

	for (u32 way = 0; way < DP_ARRAY_SIZE(ways); way++) {
		lay_out_way(w, way);
		learn(w, 20);
		judge_walk(&j, w, first, 20);
		w->regs.bp += 32;
		if (!j.by_frame) {
			assert_int_equal(walk_blindly(w, ips, 20), 20);
			assert_memory_equal(ips, first, sizeof(first));
		}
		assert_true(judged(w, 20));
	}
}

/* The same words at the same distances from it are not enough where the frame register says where they are. */
static void the_stack_pointer_is_seen(void **state)
{
	struct world *w = *state;

	lay_out(w, 2);
	for (u32 i = 0; i < ROWS; i++)
		w->rows[i].kind = DP_UNWIND_FRAME;
	for (u32 i = 0; i < STACK; i++)
		w->stack[i] = CODE + 8;
	w->regs.bp = (u64)&w->stack[600];
	for (u32 i = 0; i < 400; i++) {
		w->regs.sp = (u64)&w->stack[i % 200];
		w->stack[601] = CODE + 8 + i / 200 * 16;
		assert_true(judged(w, 3));
	}
}

/*
 * It is behind a call at 0, by which empty places are marked: neither what is forgotten nor what was not found is taken
 * for its caller's.
 */
static void return_address_1_ends_a_chain(void **state)
{
	struct world *w = *state;

	lay_out(w, 1);
	for (u32 i = 1; i < ROWS; i += 2)
		w->rows[i].kind = DP_UNWIND_FRAME; /* the frame register is 0: there is no caller */
	for (u32 i = 0; i < 16 * ROWS; i++) {
		w->regs.sp = (u64)&w->stack[i / 4];
		for (u32 again = 0; again < 4; again++) {
			w->stack[i / 4] = again < 2 ? CODE + 1 + i : 1;
			assert_true(judged(w, again % 2 ? 4 : 1));
		}
		w->tables->digest += i % 3 == 0;
	}
}

/* ---- random walks ---- */

#define WALKS 200000u
#define SEED 0x2545f4914f6cdd1dull
#define ENTRIES 4u

static u64 seed;
static u64 limit;               /* the stack can be loaded up to there */
static u64 *changed, unchanged; /* a word of the stack, and what it was before; NULL: none */
static struct {
	u64 ip, sp, frame;
} entries[ENTRIES]; /* where chains begin that can be walked */

static u32 below(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 11) % n;
}

static u64 any_code(void)
{
	return CODE + below(16 * (ROWS + 2 * GAP));
}

/* A place that lies a few words above that one. */
static u64 place_above(struct world *w, u64 addr, u32 words)
{
	u64 i = (addr - (u64)w->stack) / 8 + 1 + below(words);

	return (u64)&w->stack[DP_MIN(i, STACK - 1)];
}

static u64 any_word(struct world *w, u32 i)
{
	switch (below(16)) {
	case 0:
		return below(3);
	case 1:
		return (u64)&w->stack[below(STACK)] + below(2) * below(8);
	case 2:
		return seed >> below(64);
	case 3 ... 6:
		return place_above(w, (u64)&w->stack[i], 12);
	default:
		return any_code();
	}
}

/* variety: how many kinds there are */
static struct dp_unwind_row any_row(u32 variety)
{
	static const u8 kinds[] = {DP_UNWIND_SP,    DP_UNWIND_FRAME,  DP_UNWIND_SP,        DP_UNWIND_FRAME,
				   DP_UNWIND_PLT,   DP_UNWIND_SP,     DP_UNWIND_END,       DP_UNWIND_SP,
				   DP_UNWIND_ALIGN, DP_UNWIND_SIGNAL, DP_UNWIND_FRAME_WORD};
	static const s8 frames[] = {0, -2, 0, DP_UNWIND_AT_FRAME, 0, -3, -2, DP_UNWIND_AT_FRAME, -1, -9, 2};
	struct dp_unwind_row row = {.kind = kinds[below(DP_MIN(variety, DP_ARRAY_SIZE(kinds)))]};

	row.frame = frames[below(DP_MIN(variety, DP_ARRAY_SIZE(frames)))];
	row.cfa = row.kind == DP_UNWIND_PLT ? (s32)below(17) : below(64) ? 1 + (s32)below(4) : (s32)below(4) - 3;
	return row;
}

static void put(struct world *w, u64 addr, u64 v)
{
	u64 at = addr - (u64)w->stack;

	if (at < sizeof(w->stack) && !(at % 8))
		w->stack[at / 8] = v;
}

/* Where a walk goes on, with what it has by then. */
static u64 code_of_caller(const struct judge *j, u64 sp, u64 frame)
{
	const struct dp_unwind_row *row;
	u64 code = 0;

	for (u32 i = 0; i < 8; i++) {
		code = any_code();
		row = judge_row(j, code - 1);
		if (row && row->kind != DP_UNWIND_ALIGN && (row->kind != DP_UNWIND_FRAME || frame >= sp))
			break;
	}
	return code;
}

/* What a step by this row reads is such that it leads to a caller, and often to another one. */
static void lay_caller(struct world *w, struct judge *j, const struct dp_unwind_row *row, u64 at)
{
	u64 top, frame = j->frame, code = any_code(), registers = j->sp + offsetof(ucontext_t, uc_mcontext.gregs);

	if (row->kind == DP_UNWIND_SIGNAL) { /* the last word looks like a call, and is none */
		top = place_above(w, below(3) ? registers + 8 * NGREG : (u64)w->stack, below(2) ? 4 : STACK);
		put(w, registers + 8 * REG_RBP, place_above(w, top, 12));
		put(w, registers + 8 * REG_RSP, top);
		put(w, registers + 8 * REG_RIP, code);
		put(w, top - 8, code);
		return;
	}
	if (row->kind == DP_UNWIND_FRAME_WORD)
		put(w, j->frame + (u64)(row->cfa * 8ll), place_above(w, j->sp + 8, 6));
	if (!judge_top(j, row, at, &top))
		return;
	if (row->frame) {
		frame = place_above(w, top, 6);
		put(w, row->frame == DP_UNWIND_AT_FRAME ? j->frame : top + (u64)(row->frame * 8ll), frame);
	}
	put(w, top - 8, code_of_caller(j, top, frame));
}

static void lay_chain(struct world *w)
{
	const struct dp_unwind_row *row;
	struct judge j;
	u64 at = w->regs.ip;

	judge_begin(&j, w);
	for (u32 i = 0; i < DEPTH && (row = judge_row(&j, at)); i++) {
		lay_caller(w, &j, row, at);
		if (!judge_step(&j, row, at))
			return;
		at = j.ip - (row->kind != DP_UNWIND_SIGNAL);
	}
}

/* The stack can be loaded up to limit, wherever the stack pointer is. */
static void set_sp(struct world *w, u64 sp)
{
	w->regs.sp = sp;
	loadable = limit > sp ? limit - sp : 0;
}

static void enter(struct world *w, u32 i)
{
	w->regs.ip = entries[i].ip;
	w->regs.bp = entries[i].frame;
	set_sp(w, entries[i].sp);
}

static void any_tables(struct world *w)
{
	u32 variety = 1 + below(below(3) ? 8 : 14), half = ROWS / 2;
	u64 lo = CODE + 16 * (half + GAP);

	for (u32 i = 0; i < ROWS; i++) {
		w->rows[i] = any_row(variety);
		w->rows[i].pc = 16 * (i % half) + below(3);
	}
	w->tables->modules[0] = (struct dp_unwind_module){CODE, CODE + 16 * half, (u64)w->rows, half};
	w->tables->modules[1] = (struct dp_unwind_module){lo, lo + 16 * half, (u64)&w->rows[half], half};
	w->tables->n = 2;
	w->tables->digest++;
}

static void any_stack(struct world *w)
{
	limit = (u64)&w->stack[STACK];
	refused_from = ~0ull;
	changed = NULL;
	for (u32 i = 0; i < STACK; i++)
		w->stack[i] = any_word(w, i);
	for (u32 i = 0; i < ENTRIES; i++) {
		entries[i].ip = any_code();
		entries[i].sp = (u64)&w->stack[i * STACK / ENTRIES + below(8)] + (below(16) ? 0 : below(8));
		entries[i].frame = below(8) ? place_above(w, entries[i].sp, 6) : below(2) ? 0 : seed;
		enter(w, i);
		lay_chain(w);
	}
}

/* Every other time it is as it was before. */
static void change_any_word(struct world *w)
{
	if (changed) {
		*changed = unchanged;
		changed = NULL;
		return;
	}
	changed = (u64 *)place_above(w, DP_ALIGN_DOWN(w->regs.sp, 8) - 8, 64);
	unchanged = *changed;
	*changed = any_word(w, (u32)(changed - w->stack));
}

static void change(struct world *w, u32 *n)
{
	switch (below(10)) {
	case 0:
		w->regs.ip = entries[below(ENTRIES)].ip;
		break;
	case 1:
		w->regs.bp = below(2) ? entries[below(ENTRIES)].frame : place_above(w, w->regs.sp, 12);
		w->regs.r10 = place_above(w, w->regs.sp, 8);
		break;
	case 2:
		limit = (u64)&w->stack[STACK] - (below(2) ? 0 : below(sizeof(w->stack)));
		set_sp(w, below(2) ? w->regs.sp : entries[below(ENTRIES)].sp);
		refused_from = below(2) ? ~0ull : (u64)&w->stack[below(STACK)];
		break;
	case 3:
		*n = 1 + below(DEPTH);
		break;
	case 4 ... 6:
		enter(w, below(ENTRIES));
		break;
	default:
		change_any_word(w);
	}
}

static struct {
	u32 walks, deep;          /* with all frames from what is kept: of more than one; of more than a place has */
	u32 ends, by_frame, full; /* places */
} used;

static void count_kept(struct world *w)
{
	for (const struct dp_known_frames *k = known_of(w)->chains; k < known_of(w)->chains + DP_KNOWN_CHAINS; k++) {
		used.ends += k->at && k->is_end;
		used.by_frame += k->at && k->by_frame;
		used.full += k->at && k->nsaved == DP_KNOWN_SAVED;
	}
}

static void any_walk(struct world *w, u32 *n, u32 walk)
{
	u64 turn = known_of(w)->turn, digest = known_of(w)->of;
	u32 found;

	for (u32 changes = below(2) + !below(4); changes; changes--)
		change(w, n);
	found = judged(w, *n);
	if (!found)
		fail_msg("walk %u of seed %#llx, for %u frames", walk, SEED, *n);
	/* Of each frame that is not known a place is taken, where frames can be kept. */
	if (known_of(w)->turn == turn && known_of(w)->of == digest && !(w->regs.sp % 8) && loadable) {
		used.walks += found > 1;
		used.deep += found > DP_KNOWN_FRAMES + 1;
	}
}

static void a_judge_finds_the_same(void **state)
{
	struct world *w = *state;
	u32 n = DEPTH;

	seed = SEED;
	for (u32 walk = 0; walk < WALKS; walk++) {
		if (!below(256) || !walk) {
			count_kept(w);
			any_tables(w);
			if (below(4) || !walk)
				any_stack(w);
		}
		any_walk(w, &n, walk);
	}
	for (u32 kind = DP_UNWIND_SP; kind <= DP_UNWIND_SIGNAL; kind++)
		assert_true(steps[kind] > WALKS / 100);
	assert_true(used.walks > WALKS / 4 && used.deep > WALKS / 50);
	assert_true(used.ends > 100 && used.by_frame > 100 && used.full > 10);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(rows_are_kept),
	    TEST(other_tables_have_other_rows),
	    TEST(other_tables_leave_no_frames),
	    TEST(places_are_used_again),
	    TEST(above_the_stack_guards_read),
	    TEST(a_thread_without_tables_has_one_frame),
	    TEST(as_many_as_are_asked_for),
	    TEST(changed_words_are_seen),
	    TEST(the_frame_register_is_seen),
	    TEST(the_stack_pointer_is_seen),
	    TEST(return_address_1_ends_a_chain),
	    TEST(a_judge_finds_the_same),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
