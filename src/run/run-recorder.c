/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A run whose records are a recording tells its journal (run-journal.h) what is in it, and gives room in the rings back
 * only then; what its programs are and where writes run-state.c, as for a driver. run-recover-programs.c is what a
 * successor does with both. The kernel's rings end with their owner, and nothing is noted of them.
 */
#include <unistd.h>

#include "run/run-chunks.h"
#include "run/run-journal.h"
#include "run/run-merge.h"
#include "run/run-output.h"
#include "run/run-priv.h"

const struct dp_journal *dp_run_record(struct dp_run *run, struct dp_output *out, const struct dp_chunks *chunks)
{
	char dir[220];

	if (!dp_output_is_file(out) || out->fd == STDOUT_FILENO)
		return NULL;
	run->recorder = dp_journal_open(out->name, chunks && chunks->in_memory);
	run->recorded = dp_run_recorded;
	run->recording = out;
	run->chunks = chunks;
	if (run->recorder) {
		dp_journal_of_programs(run->recorder, dir, sizeof(dir));
		dp_run_state_begin(run, dir);
	}
	return run->recorder;
}

static void withhold(u32 source, struct dp_reader_mark mark, void *arg)
{
	const struct dp_run *run = arg;
	const struct run_target *t = run->numbered[source];

	if (t && t->pid && t->reader)
		dp_reader_withhold(t->reader, mark);
}

void dp_run_recorded(struct dp_run *run)
{
	struct dp_journal_point *p;
	u64 epoch;

	if (!run->recorder || !run->formatter)
		return;
	dp_formatter_commit(run->formatter);
	fflush(run->recording->f); /* a failure is told at the end */
	if (run->recording->error)
		return;
	p = dp_journal_next(run->recorder, &epoch);
	dp_journal_fill(p, run->recording, run->chunks);
	if (run->merge)
		dp_merge_each(run->merge, withhold, run);
	for (const struct run_target *t = run->targets; t; t = t->next)
		if (t->pid && t->reader) {
			dp_reader_propose(t->reader, epoch);
			dp_reader_clock(t->reader, &p->tsc, &p->ns);
		}
	dp_journal_publish(run->recorder);
	for (const struct run_target *t = run->targets; t; t = t->next)
		if (t->pid && t->reader)
			dp_reader_release(t->reader);
}

void dp_run_recorded_all(struct dp_run *run)
{
	if (!run)
		return;
	run->state[0] = '\0';
	dp_journal_close(run->recorder);
	run->recorder = NULL;
}
