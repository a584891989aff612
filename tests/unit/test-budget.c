/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The judge of budgets, against a simulated process: each unit has a cost that is known, and costs only while it is in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "run/budget.h"

#define UNITS 500
#define TURN 100000000ull /* of which all is processor time */

static struct dp_budget budget;
static struct dp_budget_unit v[UNITS];
static double cost[UNITS]; /* share of the processor time while it is in */
static u64 now, turns, changes, busy;
static double spent; /* shares of turns */

static void begin(double share, u32 n)
{
	memset(v, 0, sizeof(v));
	memset(cost, 0, sizeof(cost));
	now = 1000 * TURN;
	turns = changes = 0;
	spent = 0;
	busy = TURN;
	dp_budget_begin(&budget, share, v, n, 42);
}

/* One turn that lasts `n` times as long as one should; what it has cost. */
static double long_turn(u32 n)
{
	double sum = 0;

	now += n * TURN;
	turns += n;
	for (u32 i = 0; i < budget.n; i++) {
		double ratio = dp_budget_is_out(&v[i]) ? 0 : cost[i];

		v[i].cost_ns = ratio * (double)(n * busy);
		sum += v[i].fixed ? 0 : ratio;
	}
	spent += n * sum;
	changes += dp_budget_judge(&budget, now, n * TURN, n * busy);
	return sum;
}

static double turn(void)
{
	return long_turn(1);
}

static void run(u32 n)
{
	while (n--)
		turn();
}

static u32 count_out(void)
{
	u32 n = 0;

	for (u32 i = 0; i < budget.n; i++)
		n += dp_budget_is_out(&v[i]);
	return n;
}

static void below_the_budget_nothing_happens(void **state)
{
	begin(0.05, 10);
	for (u32 i = 0; i < 10; i++)
		cost[i] = 0.0049;
	run(1000);
	assert_int_equal(changes, 0);
	assert_int_equal(count_out(), 0);
}

static void one_turn_a_little_above_is_forgiven(void **state)
{
	begin(0.05, 2);
	cost[0] = 0.08;
	turn();
	assert_int_equal(count_out(), 0);
	cost[0] = 0.01;
	run(5);
	cost[0] = 0.08;
	turn();
	assert_int_equal(count_out(), 0);
	turn();
	assert_int_equal(count_out(), 1);
}

static void far_above_goes_at_once(void **state)
{
	begin(0.05, 2);
	cost[0] = 0.5;
	cost[1] = 0.02;
	turn();
	assert_true(dp_budget_is_out(&v[0]));
	assert_false(dp_budget_is_out(&v[1]));
}

static void the_costliest_go_until_the_rest_fits(void **state)
{
	double left = 0;

	begin(0.10, 5);
	cost[0] = 0.03;
	cost[1] = 0.20;
	cost[2] = 0.04;
	cost[3] = 0.05;
	cost[4] = 0.01;
	run(2);
	for (u32 i = 0; i < 5; i++)
		left += dp_budget_is_out(&v[i]) ? 0 : cost[i];
	assert_true(dp_budget_is_out(&v[1]));
	assert_true(left <= 0.10);
	assert_false(dp_budget_is_out(&v[4]));
	assert_int_equal(count_out(), 2); /* 0.20 and 0.05: 0.08 is left */
}

static void what_stays_is_never_touched(void **state)
{
	begin(0.01, 50);
	cost[7] = 0.6;
	for (u32 i = 0; i < 50; i++)
		if (i != 7)
			cost[i] = 0.0001;
	run(3000);
	assert_true(v[7].times > 3);
	for (u32 i = 0; i < 50; i++)
		if (i != 7)
			assert_int_equal(v[i].times, 0);
}

static void on_average_it_is_kept(void **state)
{
	static const double shares[] = {0.0001, 0.001, 0.01, 0.05, 0.2};

	for (size_t i = 0; i < DP_ARRAY_SIZE(shares); i++) {
		begin(shares[i], UNITS);
		for (u32 k = 0; k < UNITS; k++)
			cost[k] = k < 20 ? 0.04 / (1 + k) : 0.000008;
		run(200);
		spent = 0;
		turns = 0;
		changes = 0;
		run(10000);
		assert_true(spent / (double)turns <= 1.01 * shares[i]);
		assert_true(changes <= 2 * turns / 5);
	}
}

static bool is_trying(void)
{
	for (u32 i = 0; i < budget.n; i++)
		if (v[i].state == DP_BUDGET_TRIAL)
			return true;
	return false;
}

/* On a machine with other work a trial may last for seconds: all of it is paid for. */
static void long_trials_are_paid_for_in_full(void **state)
{
	u32 trials = 0;

	begin(0.05, 20);
	for (u32 k = 0; k < 20; k++)
		cost[k] = 0.1;
	run(200);
	spent = 0;
	turns = 0;
	for (u32 i = 0; i < 20000; i++) {
		trials += is_trying();
		long_turn(is_trying() ? 20 : 1);
	}
	assert_true(trials > 10);
	assert_true(spent / (double)turns <= 1.05 * 0.05);
}

static void no_trial_begins_while_the_caller_rests(void **state)
{
	begin(0.05, 2);
	cost[0] = 0.7;
	run(3);
	assert_true(dp_budget_is_out(&v[0]));
	budget.rest_ns = now + 1000 * TURN;
	for (u32 i = 0; i < 999; i++) {
		turn();
		assert_false(is_trying());
	}
	for (u32 i = 0; i < 100 && !is_trying(); i++)
		turn();
	assert_true(is_trying());
}

static void what_has_cooled_comes_back_and_stays(void **state)
{
	u64 before;

	begin(0.05, 3);
	cost[0] = 0.7;
	cost[1] = 0.01;
	run(100);
	assert_true(dp_budget_out_ns(&v[0], now) > 80 * TURN);
	cost[0] = 0;
	for (u32 i = 0; i < 1200 && (v[0].state != DP_BUDGET_IN); i++)
		turn();
	assert_int_equal(v[0].state, DP_BUDGET_IN);
	before = changes;
	run(1000);
	assert_int_equal(changes, before);
}

static void it_waits_longer_each_time(void **state)
{
	u32 first, second;

	begin(0.5, 1);
	cost[0] = 0.9;
	run(200);
	first = v[0].times;
	run(200);
	second = v[0].times - first;
	assert_true(first > 2 && second < first);
	run(10000);
	assert_true(v[0].times < 40); /* once a minute */
}

static void the_wait_begins_anew_after_a_quiet_time(void **state)
{
	begin(0.5, 1);
	cost[0] = 0.9;
	run(400);
	assert_true(v[0].wait_ns > 4000000000ull);
	cost[0] = 0;
	run(10000);
	assert_int_equal(v[0].state, DP_BUDGET_IN);
	cost[0] = 0.9;
	run(2);
	assert_int_equal(v[0].wait_ns, 1000000000ull);
}

static void hysteresis_keeps_a_unit_at_the_edge_quiet(void **state)
{
	begin(0.05, 1);
	for (u32 i = 0; i < 20000; i++) {
		cost[0] = i % 2 ? 0.051 : 0.047;
		turn();
	}
	assert_int_equal(changes, 0);
	cost[0] = 0.06; /* always a little too much: it does not come and go all the time */
	changes = 0;
	run(20000);
	assert_true(changes < 100);
}

static void fixed_units_stay_and_cost_nobody(void **state)
{
	begin(0.05, 3);
	v[0].fixed = true;
	cost[0] = 0.9;
	cost[1] = 0.04;
	run(1000);
	assert_int_equal(changes, 0);
	cost[2] = 0.3;
	run(2);
	assert_true(dp_budget_is_out(&v[2]) && !dp_budget_is_out(&v[0]) && !dp_budget_is_out(&v[1]));
}

static void a_process_that_does_nothing_is_no_trouble(void **state)
{
	begin(0.05, 2);
	busy = 0;
	cost[0] = 0.5;
	run(100);
	assert_int_equal(changes, 0); /* a share of nothing */
	busy = TURN;
	run(2);
	assert_int_equal(count_out(), 1);
	busy = 1;
	run(3000); /* trials go on, and are paid as shares */
	assert_true(v[0].times > 3);
}

static void figures_add_up(void **state)
{
	u64 out = 0;

	begin(0.05, 1);
	cost[0] = 0.5;
	for (u32 i = 0; i < 2000; i++) {
		bool was_out = dp_budget_is_out(&v[0]);

		turn();
		out += was_out ? TURN : 0;
		assert_int_equal(dp_budget_out_ns(&v[0], now), out);
	}
	assert_true(v[0].times > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(below_the_budget_nothing_happens),
	    cmocka_unit_test(one_turn_a_little_above_is_forgiven),
	    cmocka_unit_test(far_above_goes_at_once),
	    cmocka_unit_test(the_costliest_go_until_the_rest_fits),
	    cmocka_unit_test(what_stays_is_never_touched),
	    cmocka_unit_test(on_average_it_is_kept),
	    cmocka_unit_test(long_trials_are_paid_for_in_full),
	    cmocka_unit_test(no_trial_begins_while_the_caller_rests),
	    cmocka_unit_test(what_has_cooled_comes_back_and_stays),
	    cmocka_unit_test(it_waits_longer_each_time),
	    cmocka_unit_test(the_wait_begins_anew_after_a_quiet_time),
	    cmocka_unit_test(hysteresis_keeps_a_unit_at_the_edge_quiet),
	    cmocka_unit_test(fixed_units_stay_and_cost_nobody),
	    cmocka_unit_test(a_process_that_does_nothing_is_no_trouble),
	    cmocka_unit_test(figures_add_up),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
