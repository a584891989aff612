/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs in the kernel read variables that threads have by programs in their process. They are told here where these
 * are: in a table by the process's id, which hits read while it changes. Nobody else writes to it.
 */
#include "run/run-priv.h"

/* Where the process has the table of that name, in its own memory; 0: nowhere. */
static u64 table_in(const struct run_target *t, const char *name)
{
	u64 words = t->session ? dp_tracee_words_at(t->session) : 0;

	for (u32 i = 0; words && i < t->nranges; i++) {
		const struct run_range *r = &t->ranges[i];
		const struct dp_rpn_unit *u = &r->m->unit;

		for (u32 k = 0; !r->left_out && r->generation == r->m->generation && k < u->naggregates; k++)
			if (u->aggregates[k].is_set && !strcmp(u->aggregates[k].name, name))
				return words + 8ull * (r->locals + u->aggregates[k].index);
	}
	return 0;
}

/* False: there is no room. */
static bool put(volatile u64 *table, u32 keys, pid_t pid, u64 address)
{
	u32 place = dp_table_place(dp_table_hash(0, 0, (u64)pid), keys);
	volatile u64 *to = NULL;

	for (u32 n = 0; n < DP_TABLE_TRIES && n < keys; n++, place = place + 1 == keys ? 0 : place + 1) {
		volatile u64 *at = table + 1 + 3ull * place;

		if (at[0] == DP_TABLE_VALID && at[1] == (u64)pid) {
			at[2] = address;
			return true;
		}
		if (at[0] != DP_TABLE_VALID && !to)
			to = at;
		if (at[0] == DP_TABLE_FREE)
			break;
	}
	if (!address || !to)
		return !address;
	to[1] = (u64)pid;
	to[2] = address;
	__atomic_store_n(&to[0], DP_TABLE_VALID, __ATOMIC_RELEASE); /* pairs with a hit's reading this word first */
	return true;
}

static void tell_one(struct dp_run *run, const struct dp_rpn_aggregate *a, volatile u64 *table,
		     const struct run_target *of, bool gone)
{
	u64 address = gone ? 0 : table_in(of, a->name);
	bool good = put(table, a->keys, of->pid, address);

	for (u32 i = 0; i < of->nheirs; i++)
		good &= put(table, a->keys, of->heirs[i], address);
	if (!good && !run->told_no_room && run->note)
		run->note(run->note_arg, "programs in the kernel read no variables of processes beyond 1024");
	run->told_no_room |= !good;
}

void dp_run_tell_values(struct dp_run *run, const struct run_target *kernel, volatile u64 *words,
			const struct run_target *of, bool gone)
{
	for (u32 i = 0; i < kernel->nranges; i++) {
		const struct run_range *r = &kernel->ranges[i];
		const struct dp_rpn_unit *u = &r->m->unit;

		for (u32 k = 0; !r->left_out && r->generation == r->m->generation && k < u->naggregates; k++)
			if (u->aggregates[k].of_process)
				tell_one(run, &u->aggregates[k], words + r->locals + u->aggregates[k].index, of, gone);
	}
}

void dp_run_tell_kernel(struct dp_run *run, const struct run_target *of, bool gone)
{
	const struct run_target *kernel = run->targets;

	while (kernel && (kernel->pid || !kernel->session))
		kernel = kernel->next;
	if (kernel && of->pid)
		dp_run_tell_values(run, kernel, dp_tracee_words(kernel->session), of, gone);
}
