/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The successor of a recorder whose records are of programs. Their variables, what is kept of a call between entry and
 * return, the bodies of their end: a run knows all of that, so one is made of what the recorder has written down
 * (run-state.c). It takes the probes over, removes them, and gives the records, the tables and the counts to a
 * recording in memory. This goes behind what is in the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/run-recover-file.h"
#include "run/run-recover-programs.h"
#include "run/run-priv.h"
#include "run/run-rows.h"
#include "run/run-trace.h"

struct saving {
	struct dp_recover_file file;
	struct dp_run *run;
	struct dp_formatter *formatter;
	struct dp_recording_env facts;
	bool any;  /* of its processes */
	bool none; /* nothing: it was killed before it had begun */
};

/* ---- what the recording asks for ---- */

static void put_rows(void *arg, struct dp_line *to)
{
	const struct saving *s = arg;

	dp_run_put_rows(s->run, to);
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	const struct saving *s = arg;

	dp_run_put_process(s->run, source, to);
}

static u64 lasted_ns(void *arg)
{
	const struct saving *s = arg;

	return dp_now_ns() - s->file.journal->head->begun_ns;
}

static ssize_t drop_text(void *arg, const void *text, size_t n)
{
	return (ssize_t)n;
}

static void give_words(void *formatter, const struct dp_rpn_unit *u, volatile u64 *words,
		       const struct dp_agg_view *view)
{
	dp_formatter_aggregates(formatter, u, words, view);
}

/* ---- the recording ---- */

/* First all probes are out: so records, tables and counts are of the same hits. */
static void end_run(struct saving *s)
{
	struct dp_run *run = s->run;

	dp_run_adopt(run);
	s->any = run->targets;
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->session)
			dp_tracee_remove(t->session, NULL);
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->session)
			dp_run_drain(run, t, true);
	dp_run_show_known(run);
	dp_run_finish(run);
	dp_formatter_commit(s->formatter);
	dp_run_each_words(run, give_words, s->formatter);
	dp_run_stop(run);
}

static bool begin_run(struct saving *s, FILE *to)
{
	const struct dp_format_env env = {.recording = &s->facts};
	const struct dp_journal_left *l = s->file.journal;

	s->facts = (struct dp_recording_env){s, put_source, put_rows, lasted_ns, .of_programs = true};
	s->run = dp_run_new(drop_text, NULL);
	if (!s->run || dp_formatter_new(&s->formatter, DP_FORMAT_RECORDING, to, &env))
		return false;
	s->run->ends_recording = true;
	dp_run_state_read(s->run, l->state, l->head->epoch);
	dp_run_give_to(s->run, s->formatter);
	return true;
}

/* All that is left, as a recording. */
static bool make(struct saving *s, FILE *to)
{
	bool good = begin_run(s, to);

	if (good) {
		dp_formatter_head(s->formatter);
		end_run(s);
		good = !dp_formatter_finish(s->formatter);
	}
	return good;
}

static int save(struct saving *s, struct dp_error *err)
{
	struct dp_join join = {.begun = false};
	char *bytes = NULL;
	size_t n = 0;
	FILE *memory = open_memstream(&bytes, &n), *to;
	bool good = memory && make(s, memory);
	int r = 0;

	if (memory)
		good = !fclose(memory) && good;
	s->file.must = s->any;
	s->file.keeps = !s->any;
	s->none = !s->any && !s->file.journal->head->epoch;
	to = good && !s->none ? dp_recover_file_begin(&s->file, &join) : NULL;
	if (!good)
		r = dp_fail(err, E_RING_MEMORY, "%s", s->file.journal->head->path);
	else if (!to && !s->none)
		r = dp_fail(err, E_OUT_OPEN, "%s: %s", s->file.journal->head->path, strerror(errno));
	if (to && !dp_join_other(to, bytes, n))
		r = dp_fail(err, E_RING_MEMORY, "%s", s->file.path);
	if (to && !dp_recover_file_end(&s->file, to) && !r)
		r = dp_fail(err, E_OUT_WRITE, "%s: %s", s->file.path, strerror(errno));
	free(bytes);
	return r;
}

bool dp_recover_programs(struct dp_journal_left *l, void (*note)(void *arg, const char *text), void *arg)
{
	struct saving s = {.file = dp_recover_file_of(l, true)};
	struct dp_error err = {0};
	char text[PATH_MAX + 300];
	int r = save(&s, &err);

	if (r)
		snprintf(text, sizeof(text), "what a killed recorder has left was not saved: %s: %s",
			 dp_error_info(err.code)->name, err.detail);
	else if (s.any)
		snprintf(text, sizeof(text),
			 "%s: saved %llu records that a killed recorder had not read, and the tables", s.file.path,
			 (unsigned long long)dp_run_shown(s.run));
	else
		snprintf(text, sizeof(text), "%s: saved what a killed recorder had kept", s.file.path);
	if (note && !s.none)
		note(arg, text);
	dp_recording_close(s.file.before);
	dp_run_free(s.run);
	dp_formatter_free(s.formatter);
	dp_journal_forget(l);
	return !r && !s.none;
}
