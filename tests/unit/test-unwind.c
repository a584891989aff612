/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The walk up a thread's stack in a hit (hit/hit-unwind.c), over tables of the test's own: rows that the thread has
 * found before are found again, and forgotten when the tables are others; what lies above the thread's own stack is
 * read with guards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "hit/hit-priv.h"

#define CODE 0x400000ull
#define ROWS 200u /* of 16 bytes of code each: more than a slot keeps */
#define STACK 1024u

struct world {
	u8 *slot;
	struct dp_unwind *tables;
	struct dp_unwind_row rows[ROWS];
	struct dp_control ctl;
	struct dp_regs regs;
	struct dp_hit h;
	u64 stack[STACK];
};

static u64 loadable; /* bytes of the stack */
static u32 reads;

u64 dp_stack_end(const struct dp_hit *h)
{
	return h->regs->sp + loadable;
}

int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	const struct world *w = (const struct world *)((const u8 *)h - offsetof(struct world, h));

	reads++;
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
	struct world *w = calloc(1, sizeof(*w));

	w->slot = calloc(1, DP_HIT_SLOT_SIZE);
	w->tables = calloc(1, sizeof(*w->tables) + sizeof(struct dp_unwind_module));
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
	reads = 0;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	free(w->tables);
	free(w->slot);
	free(w);
	return 0;
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
	lay_out(w, 2); /* nobody has told the thread of it */
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
}

static void a_thread_without_tables_has_one_frame(void **state)
{
	struct world *w = *state;
	u64 ips[4];

	lay_out(w, 1);
	check_walk(w, 1);
	w->ctl.unwind = 0;
	assert_int_equal(dp_hit_frames(&w->h, ips, 4), 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(rows_are_kept),
	    TEST(other_tables_have_other_rows),
	    TEST(places_are_used_again),
	    TEST(above_the_stack_guards_read),
	    TEST(a_thread_without_tables_has_one_frame),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
