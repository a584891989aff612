/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A trace tells its journal (run-journal.h) what is in the recording, and gives room in the rings back only then. */
#include <stdlib.h>
#include <unistd.h>

#include "run/run-journal.h"
#include "run/run-merge.h"
#include "run/run-trace.h"

void dp_trace_journal_open(struct dp_trace *t)
{
	/* The kernel's rings end with their owner. */
	if (dp_output_is_file(&t->out) && t->out.fd != STDOUT_FILENO && !(t->n && !t->v[0]->tracee.ops->rings_inode))
		t->journal = dp_journal_open(t->out.name, t->chunks && t->chunks->in_memory);
	t->described = ~0u;
}

/* All events and, once the trace is armed, how their hits come about. */
static void describe(struct dp_trace *t)
{
	const struct dp_format_env env = {.events = t->infos, .nevents = t->nevents, .recording = &t->recording};
	struct dp_formatter *f;
	char *bytes = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&bytes, &n);

	if (to && !dp_formatter_new(&f, DP_FORMAT_RECORDING, to, &env)) {
		dp_formatter_head(f);
		if (t->was_armed)
			dp_formatter_finish(f);
		dp_formatter_free(f);
	}
	if (to && !fclose(to))
		dp_journal_describe(t->journal, bytes, n);
	free(bytes);
	t->described = t->was_armed ? t->nevents : ~0u;
}

bool dp_trace_journal_add(struct dp_trace *t, u32 member)
{
	const struct dp_trace_member *m = t->v[member];

	if (!t->journal || !m->events || !dp_tracee_pid(&m->tracee))
		return false;
	if (t->described != t->nevents)
		describe(t);
	return dp_journal_add(t->journal, member, dp_tracee_pid(&m->tracee), m->events, dp_tracee_nprobes(&m->tracee));
}

static void withhold(u32 source, struct dp_reader_mark mark, void *arg)
{
	const struct dp_trace *t = arg;

	if (t->v[source]->is_journaled)
		dp_reader_withhold(t->v[source]->reader, mark);
}

void dp_trace_journal_commit(struct dp_trace *t)
{
	struct dp_journal_point *p;
	u64 epoch;

	if (!t->journal)
		return;
	if (t->described != t->nevents)
		describe(t);
	p = dp_journal_next(t->journal, &epoch);
	dp_journal_fill(p, &t->out, t->chunks);
	if (t->merge)
		dp_merge_each(t->merge, withhold, t);
	for (u32 i = 0; i < t->n; i++) {
		const struct dp_trace_member *m = t->v[i];

		if (!m->is_journaled)
			continue;
		dp_reader_propose(m->reader, epoch);
		dp_reader_clock(m->reader, &p->tsc, &p->ns);
		dp_journal_note_lost(t->journal, i, m->lost);
	}
	dp_journal_publish(t->journal);
	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->is_journaled)
			dp_reader_release(t->v[i]->reader);
}

void dp_trace_journal_close(struct dp_trace *t)
{
	if (t->chunks)
		dp_chunks_free(t->chunks); /* whose files are the journal's */
	dp_journal_close(t->journal);
	t->journal = NULL;
}
