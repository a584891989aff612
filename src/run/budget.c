/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See budget.h. The rules:
 *	- Two turns above the budget, or one far above it: the costliest units go, until what is left fits with a
 *	  margin.
 *	- A unit that is out waits, each time twice as long, and then comes back for one turn, a trial. Trials are paid
 *	  from what was saved of the budget before, so that on average they do not exceed it, and begin together, twice
 *	  a second at most.
 *	- After a trial it stays in if it fits with a larger margin, else it goes again.
 */
#include <stdlib.h>

#include "run/budget.h"

#define SECOND 1000000000ull
#define WAIT_FIRST SECOND
#define WAIT_MOST (60 * SECOND)
#define TURN (SECOND / 10) /* one of this length saves one share */
#define TRIALS_APART (SECOND / 2)
#define FAR 3.0        /* times the budget: at once */
#define LEFT 0.9       /* of the budget, that may be left when units go, */
#define BACK 0.8       /* and with those that stay after a trial */
#define SAVED_MOST 600 /* shares: of a minute; so many are owed at most, too */

void dp_budget_begin(struct dp_budget *b, double share, struct dp_budget_unit *v, u32 n, u64 seed)
{
	*b = (struct dp_budget){.share = share, .v = v, .n = n, .random = seed | 1};
}

u64 dp_budget_out_ns(const struct dp_budget_unit *u, u64 now_ns)
{
	return u->out_ns + (u->state == DP_BUDGET_OUT ? now_ns - u->since_ns : 0);
}

/* xorshift: trials are to come at any phase of what the process does. */
static u64 next_random(struct dp_budget *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random;
}

static void go(struct dp_budget *b, struct dp_budget_unit *u, u64 now)
{
	bool was_quiet = u->state == DP_BUDGET_IN && now - u->since_ns > 4 * u->wait_ns;

	u->wait_ns = !u->wait_ns || was_quiet ? WAIT_FIRST : DP_MIN(2 * u->wait_ns, (u64)WAIT_MOST);
	u->wake_ns = now + u->wait_ns * 3 / 4 + next_random(b) % (u->wait_ns / 2);
	u->state = DP_BUDGET_OUT;
	u->since_ns = now;
	u->times++;
}

static void come(struct dp_budget_unit *u, enum dp_budget_state state, u64 now)
{
	if (u->state == DP_BUDGET_OUT)
		u->out_ns += now - u->since_ns;
	u->state = state;
	u->since_ns = now;
}

static const struct dp_budget_unit *units; /* for qsort(); one thread at a time uses this */

static int costliest_first(const void *a, const void *b)
{
	double x = units[*(const u32 *)a].ratio, y = units[*(const u32 *)b].ratio;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int longest_wait_first(const void *a, const void *b)
{
	u64 x = units[*(const u32 *)a].wake_ns, y = units[*(const u32 *)b].wake_ns;

	return x > y ? 1 : x < y ? -1 : 0;
}

/* The units of that state, but for those that stay in any case; free() it. NULL: no memory. */
static u32 *pick(const struct dp_budget *b, enum dp_budget_state state, int (*order)(const void *, const void *),
		 u32 *n)
{
	u32 *v = malloc((b->n + 1ull) * sizeof(*v));

	*n = 0;
	for (u32 i = 0; v && i < b->n; i++)
		if (b->v[i].state == state && !b->v[i].fixed)
			v[(*n)++] = i;
	units = b->v;
	if (v)
		qsort(v, *n, sizeof(*v), order);
	return v;
}

/* What the turn has cost, as shares of the processor time; *in: the part of those that are no trials. */
static double take_costs(struct dp_budget *b, u64 cpu_ns, double *in)
{
	double sum = 0;

	*in = 0;
	for (u32 i = 0; i < b->n; i++) {
		struct dp_budget_unit *u = &b->v[i];

		if (u->fixed || u->state == DP_BUDGET_OUT)
			continue;
		u->ratio = u->cost_ns > 0 ? DP_MIN(u->cost_ns / (double)DP_MAX(cpu_ns, 1ull), 1.0) : 0;
		sum += u->ratio;
		if (u->state == DP_BUDGET_IN)
			*in += u->ratio;
	}
	return DP_MIN(sum, 1.0);
}

/* Those with the least costs first: they come back together as far as they fit. */
static bool end_trials(struct dp_budget *b, double *in, u64 now)
{
	u32 n, *v = pick(b, DP_BUDGET_TRIAL, costliest_first, &n);

	for (u32 i = n; v && i-- > 0;) {
		struct dp_budget_unit *u = &b->v[v[i]];

		if (*in + u->ratio <= BACK * b->share) {
			*in += u->ratio;
			come(u, DP_BUDGET_IN, now);
		} else {
			go(b, u, now);
		}
	}
	free(v);
	return n;
}

static bool take_out(struct dp_budget *b, double in, u64 now)
{
	u32 n, *v;
	bool any = false;

	b->above = in > b->share ? b->above + 1 : 0;
	if (b->above < 2 && in <= FAR * b->share)
		return false;
	v = pick(b, DP_BUDGET_IN, costliest_first, &n);
	for (u32 i = 0; v && i < n && in > LEFT * b->share; i++) {
		in -= b->v[v[i]].ratio;
		go(b, &b->v[v[i]], now);
		any = true;
	}
	free(v);
	b->above = 0;
	return any;
}

/* The first one that is due, when what it is going to cost is saved; others with it, as far as they are cheap. */
static bool begin_trials(struct dp_budget *b, u64 now)
{
	double sum = 0;
	bool any = false;
	u32 n, *v;

	if (now - b->trials_ns < TRIALS_APART || now < b->rest_ns)
		return false;
	v = pick(b, DP_BUDGET_OUT, longest_wait_first, &n);

	for (u32 i = 0; v && i < n; i++) {
		struct dp_budget_unit *u = &b->v[v[i]];

		if (u->wake_ns > now)
			break;
		if (sum + u->ratio > b->saved || (any && sum + u->ratio > b->share))
			continue;
		sum += u->ratio;
		come(u, DP_BUDGET_TRIAL, now);
		b->trials_ns = now;
		any = true;
	}
	free(v);
	return any;
}

/* As much as a minute saves, or what the costliest unit's trial takes. */
static double saved_most(const struct dp_budget *b)
{
	double most = SAVED_MOST * b->share;

	for (u32 i = 0; i < b->n; i++)
		if (b->v[i].state == DP_BUDGET_OUT)
			most = DP_MAX(most, b->v[i].ratio);
	return most;
}

bool dp_budget_judge(struct dp_budget *b, u64 now_ns, u64 turn_ns, u64 cpu_ns)
{
	double in, ratio = take_costs(b, cpu_ns, &in), most = saved_most(b);
	bool changes;

	b->saved += (b->share - ratio) * (double)turn_ns / (double)TURN;
	b->saved = DP_MAX(DP_MIN(b->saved, most), -SAVED_MOST * b->share);
	changes = end_trials(b, &in, now_ns);
	changes |= take_out(b, in, now_ns);
	return changes | begin_trials(b, now_ns);
}
