/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls from entries and returns: a simulated program knows the truth. Its threads call, return, leave many calls at
 * once (longjmp), call at the end of a function (tail calls), and change between coroutines; records may be missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "log/calls.h"
#include "log/stacks.h"

#define FUNCTIONS 12
#define THREADS 3
#define STACKS 4
#define DEEP 40

static struct dp_field sp_field = {.name = "sp", .type = DP_FIELD_X64, .size = 8};
static struct dp_layout with_sp = {.nfields = 1, .fields = &sp_field}, without = {.nfields = 0};
static struct dp_event_info events[2 * FUNCTIONS + 1];
static char names[FUNCTIONS][16];

static struct {
	u32 function, tid;
	u64 sp, begin;
} truth[THREADS][STACKS][DEEP];
static u32 depth[THREADS][STACKS], on[THREADS];

static struct dp_calls *calls;
static u64 now, seed;
static u32 returned, left, open_at_end, bad;
static bool wild;                     /* there is no truth */
static u32 want_function, want_ended; /* the call that is to end by the next record */

static u32 pick(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed % n);
}

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 d)
{
	u32 t = tid - 100, s, n;

	if (wild)
		return;
	s = on[t];
	n = depth[t][s];
	bad += c->begin_ns != now || events[c->event].function != c->function;
	if (parent && n > 1) /* the call around it, of the same stack */
		bad += parent->sp != truth[t][s][n - 2].sp || parent->begin_ns != truth[t][s][n - 2].begin;
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 d, u64 ns, enum dp_call_end how)
{
	returned += how == DP_CALL_RETURNED;
	left += how == DP_CALL_LEFT;
	open_at_end += how == DP_CALL_OPEN;
	if (how == DP_CALL_RETURNED)
		bad += outer[d].function != want_function || ns != now;
}

static void begin(const struct dp_layout *layout)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	static struct dp_format_env env;

	for (u32 i = 0; i < FUNCTIONS; i++) {
		dp_format(names[i], sizeof(names[i]), "f%u", i);
		for (u32 k = 0; k < 2; k++)
			events[2 * i + k] = (struct dp_event_info){
			    .symbol = names[i], .is_return = k, .layout = layout, .function = 0x1000 + 16 * i};
	}
	events[2 * FUNCTIONS] = (struct dp_event_info){.symbol = "alone", .layout = layout, .function = 0x9000};
	env = (struct dp_format_env){.events = events, .nevents = 2 * FUNCTIONS + 1};
	memset(depth, 0, sizeof(depth));
	memset(on, 0, sizeof(on));
	now = returned = left = open_at_end = bad = want_ended = 0;
	calls = dp_calls_new(&env, &ops, NULL);
	assert_non_null(calls);
	assert_true(dp_calls_any(calls));
}

static enum dp_call_role record(u32 event, u32 t, u64 sp)
{
	struct {
		struct dp_record rec;
		u64 sp;
	} r = {.rec = {.len = sizeof(r), .event = event, .tid = t + 100}, .sp = sp};
	struct dp_sink_record sr = {.rec = &r.rec, .tid = t + 100, .ns = now, .event = &events[event]};

	dp_view_init(&sr.view, &r.rec, events[event].layout);
	want_function = (u32)events[event].function;
	return dp_calls_take(calls, &sr);
}

/* Stacks of coroutines lie side by side. */
static u64 stack_top(u32 t, u32 s)
{
	return s ? 0x100000 * (t + 1) + 0x10000 * s : 0x7fff00000000 - 0x1000000ull * t;
}

static void call(u32 t, bool seen)
{
	u32 s = on[t], n = depth[t][s], f = pick(FUNCTIONS);
	u64 above = n ? truth[t][s][n - 1].sp : stack_top(t, s);

	truth[t][s][n].function = f;
	truth[t][s][n].sp = above - 16 - 16 * pick(8);
	truth[t][s][n].begin = ++now;
	depth[t][s]++;
	if (seen)
		assert_int_equal(record(2 * f, t, truth[t][s][n].sp), DP_CALL_ENTRY);
}

static void ret(u32 t)
{
	u32 s = on[t], n = --depth[t][s];

	++now;
	want_ended++;
	assert_int_equal(record(2 * truth[t][s][n].function + 1, t, truth[t][s][n].sp), DP_CALL_RETURN);
}

/* Some calls are over without a return; the next record of this stack comes from those that are left. */
static void jump(u32 t)
{
	u32 s = on[t], n = depth[t][s];

	if (n > 2) {
		depth[t][s] = n - 1 - pick(n - 2);
		ret(t);
	}
}

/* A function ends by calling another one, which has its stack pointer. */
static void tail(u32 t)
{
	u32 s = on[t], n = depth[t][s] - 1;

	ret(t);
	truth[t][s][n].function = pick(FUNCTIONS);
	truth[t][s][n].begin = ++now;
	depth[t][s]++;
	assert_int_equal(record(2 * truth[t][s][n].function, t, truth[t][s][n].sp), DP_CALL_ENTRY);
}

static void change(u32 t)
{
	on[t] = pick(STACKS);
}

static void a_program_is_followed(void **state)
{
	for (seed = 1; seed < 400;) {
		u64 first = seed;
		u32 open = 0;

		begin(&with_sp);
		for (int i = 0; i < 2000; i++) {
			u32 t = pick(THREADS), n = depth[t][on[t]], what = pick(100);

			if (what < 4)
				change(t);
			else if (what < 6)
				jump(t);
			else if (what < 10 && n)
				tail(t);
			else if (what < 55 && n < DEEP)
				call(t, true);
			else if (n)
				ret(t);
		}
		assert_int_equal(bad, 0);
		assert_int_equal(returned, want_ended);
		for (u32 t = 0; t < THREADS; t++)
			for (u32 s = 0; s < STACKS; s++)
				open += depth[t][s];
		dp_calls_end(calls);
		assert_true(open_at_end >= open);
		assert_int_equal(dp_calls_dropped(calls), 0);
		dp_calls_free(calls);
		seed = first + 1;
	}
}

/* Returns whose entries are missing are told as such; no call ends that did not. */
static void missing_entries_are_known(void **state)
{
	begin(&with_sp);
	seed = 77;
	call(0, true);
	call(0, false);
	wild = true; /* the call around it is another one here */
	call(0, true);
	wild = false;
	ret(0);
	depth[0][0]--;
	assert_int_equal(record(2 * truth[0][0][1].function + 1, 0, truth[0][0][1].sp), DP_CALL_ORPHAN);
	ret(0);
	assert_int_equal(bad, 0);
	assert_int_equal(left, 0);
	assert_int_equal(record(2 * FUNCTIONS, 0, 1), DP_CALL_POINT);
	dp_calls_free(calls);
}

static void without_a_stack_pointer_the_last_one_returns(void **state)
{
	begin(&without);
	assert_int_equal(record(0, 0, 0), DP_CALL_ENTRY); /* f0 { f1 { f0 { */
	assert_int_equal(record(2, 0, 0), DP_CALL_ENTRY);
	assert_int_equal(record(0, 0, 0), DP_CALL_ENTRY);
	assert_int_equal(record(1, 0, 0), DP_CALL_RETURN);
	assert_int_equal(left, 0);
	assert_int_equal(record(1, 0, 0), DP_CALL_RETURN); /* f1 was left */
	assert_int_equal(left, 1);
	assert_int_equal(record(3, 0, 0), DP_CALL_ORPHAN);
	dp_calls_free(calls);
}

/* What a target can write must not lead anywhere. */
static void wild_records_are_harmless(void **state)
{
	begin(&with_sp);
	wild = true;
	seed = 4711;
	for (int i = 0; i < 300000; i++) {
		u64 sp = pick(4) ? (u64)pick(64) << pick(58) : ~(u64)0 - pick(9000);

		now = pick(3) ? now + 1 : pick(1000);
		record(pick(2 * FUNCTIONS + 1), pick(50), sp);
	}
	dp_calls_end(calls);
	dp_calls_free(calls);
	wild = false;
}

static void stacks_are_a_tree(void **state)
{
	struct dp_stacks s = {0};
	u32 a, b;

	assert_true(dp_stacks_init(&s));
	for (u32 i = 0; i < 5000; i++) {
		char name[16];

		dp_format(name, sizeof(name), "f%u", i % 100);
		a = dp_stacks_child(&s, 0, dp_stacks_name(&s, name));
		dp_format(name, sizeof(name), "g%u", i % 2500);
		b = dp_stacks_child(&s, a, dp_stacks_name(&s, name));
		s.nodes[b].self++;
	}
	assert_false(s.broken);
	assert_int_equal(s.nnames, 1 + 100 + 2500);
	assert_int_equal(s.n, 1 + 100 + 2500);
	dp_stacks_sum(&s);
	assert_int_equal(s.nodes[0].total, 5000);
	assert_int_equal(s.nodes[1].total, 50);
	dp_stacks_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_program_is_followed),
	    cmocka_unit_test(missing_entries_are_known),
	    cmocka_unit_test(without_a_stack_pointer_the_last_one_returns),
	    cmocka_unit_test(wild_records_are_harmless),
	    cmocka_unit_test(stacks_are_a_tree),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
