/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The judge of a budget: which probes are to be taken out so that hits cost no more than a share of the processor time
 * that a process uses, and which are to come back. It knows neither probes nor clocks: it is told what a turn was like,
 * and says what is to be.
 */
#ifndef DP_BUDGET_H
#define DP_BUDGET_H

#include "base/base.h"

enum dp_budget_state {
	DP_BUDGET_IN,
	DP_BUDGET_OUT,
	DP_BUDGET_TRIAL, /* in for one turn, so that it is seen whether it has cooled */
};

struct dp_budget_unit { /* probes that go together */
	/* Set by the caller before each turn's judgement: what its hits have cost in the turn. */
	double cost_ns;
	bool fixed; /* it stays in, whatever it costs; its cost is nobody's */
	/* The judge's. */
	enum dp_budget_state state;
	double ratio; /* of its cost to the processor time, when it was in last */
	u64 wait_ns;  /* from taking out to the next trial, */
	u64 wake_ns;  /* which is then */
	u64 since_ns; /* of the state */
	u32 times;    /* it has been taken out */
	u64 out_ns;   /* in all, up to since_ns */
};

struct dp_budget {
	double share; /* 0.01: one percent */
	struct dp_budget_unit *v;
	u32 n;
	double saved;  /* shares that were not used: trials are paid from it; negative after turns above the budget */
	u32 above;     /* turns above the budget, one after the other */
	u64 trials_ns; /* the last trials began then */
	u64 random;
	u64 rest_ns; /* the caller's: no trial begins before */
};

/* The units are the caller's, all zero. seed: any number. */
void dp_budget_begin(struct dp_budget *b, double share, struct dp_budget_unit *v, u32 n, u64 seed);

/*
 * A turn has ended at now_ns; it lasted turn_ns, in which the process used cpu_ns of processor time. Whether any unit
 * is to go or to come; dp_budget_is_out() tells which. What the judge says is taken as done.
 */
bool dp_budget_judge(struct dp_budget *b, u64 now_ns, u64 turn_ns, u64 cpu_ns);

static inline bool dp_budget_is_out(const struct dp_budget_unit *u)
{
	return u->state == DP_BUDGET_OUT;
}

/* How long a unit has been out so far. */
u64 dp_budget_out_ns(const struct dp_budget_unit *u, u64 now_ns);

#endif
