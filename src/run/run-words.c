/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A module's variables outlive the sessions of a target: they are carried over to the next one, and those of a module
 * that the target has unmapped are kept for when it maps it again.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run-freezer.h"
#include "run/run-priv.h"
#include "symbols/symbols.h"

bool dp_run_is_among(const struct run_wanted *w, const struct run_module *m)
{
	for (u32 i = 0; i < w->n; i++)
		if (w->v[i] == m)
			return true;
	return false;
}

/* Take what is kept of a module, the first if m is NULL; NULL: nothing is. */
static struct run_kept *take_kept(struct run_target *t, const struct run_module *m)
{
	struct run_kept *k, **p = &t->kept;

	while (*p && m && (*p)->m != m)
		p = &(*p)->next;
	k = *p;
	if (k)
		*p = k->next;
	return k;
}

bool dp_run_keeps_gate(const struct run_range *to, const struct run_range *from, u32 k)
{
	const bool *is_new = to->m->before == from->m ? to->m->is_new : from->m->is_new;

	if (k >= to->ngates || k >= from->ngates)
		return false;
	return to->m == from->m ? to->generation == from->generation : dp_run_goes_on(to->m, from->m) && !is_new[k];
}

void dp_run_forget_kept(struct run_target *t, const struct run_module *m)
{
	struct run_kept *k = take_kept(t, m);

	if (k)
		dp_run_free_ended(k->locals);
	free(k);
}

void dp_run_end_kept(struct dp_run *run, struct run_target *t)
{
	for (struct run_kept *k; (k = take_kept(t, NULL)); free(k))
		if (k->generation == k->m->generation) {
			if (k->locals)
				dp_run_end_body_words(run, t, k->m, k->locals->words);
			dp_run_keep_ended(run, k->m, k->locals);
		} else {
			dp_run_free_ended(k->locals);
		}
}

void dp_run_keep_words(struct run_target *t, volatile const u64 *old, struct dp_apart apart,
		       const struct run_range *ranges, u32 n, const struct run_wanted *w)
{
	const struct dp_agg_view view = {.pid = t->pid,
					 .ended = true,
					 .symbolize = dp_run_symbol_of,
					 .arg = t,
					 .code_file = dp_run_file_of,
					 .apart = apart};

	for (u32 i = 0; old && i < n; i++) {
		const struct run_range *s = &ranges[i];
		struct run_kept *k = s->left_out || dp_run_is_among(w, s->m)
					 ? NULL
					 : calloc(1, sizeof(*k) + s->ngates * sizeof(u64));
		if (!k)
			continue;
		*k = (struct run_kept){t->kept, s->m, s->generation, dp_run_ended_new(s->m, old + s->locals, &view)};
		for (u32 g = 0; g < s->ngates; g++)
			k->gates[g] = old[s->gates + g];
		t->kept = k;
	}
}

/* Words that a module had in the session before stay with it, as long as its probes are the same. */
static void carry_over(const u64 *old, const struct run_range *ranges, u32 n, const struct run_target *t, u64 *words)
{
	if (!old)
		return;
	memcpy(words, old, RUN_GLOBALS * sizeof(*words));
	for (u32 i = 0; i < n; i++)
		for (u32 k = 0; k < t->nranges; k++) {
			const struct run_range *from = &ranges[i], *to = &t->ranges[k];

			if (!dp_run_goes_on(to->m, from->m))
				continue;
			memcpy(words + to->locals, old + from->locals,
			       DP_MIN(from->nlocals, to->nlocals) * sizeof(*words));
			for (u32 g = 0; g < to->ngates; g++)
				if (dp_run_keeps_gate(to, from, g))
					words[to->gates + g] = old[from->gates + g];
		}
}

/* A module that the target had before goes on with its words. */
bool dp_run_bring_back(const struct run_target *t, const struct run_range *to, volatile u64 *words)
{
	bool any = false;

	for (const struct run_kept *k = t->kept; k; k = k->next) {
		if (k->m != to->m || k->generation != to->generation || !k->locals)
			continue;
		for (u32 i = 0; i < to->nlocals; i++)
			words[to->locals + i] = k->locals->words[i];
		for (u32 i = 0; i < to->ngates; i++)
			words[to->gates + i] = k->gates[i];
		any = true;
	}
	return any;
}

/* What has changed alone is written: hits may read it. */
static void put_word(volatile u64 *at, u64 value)
{
	if (*at != value)
		*at = value;
}

/* A text of so many words, the last of its bytes 0; of one that is too long the end. */
static void put_text(volatile u64 *words, u32 n, const char *text)
{
	size_t len = strlen(text), most = n * 8 - 1;
	union {
		char bytes[DP_KNOWN_TEXT_WORDS * 8];
		u64 words[DP_KNOWN_TEXT_WORDS];
	} out = {""};

	if (len > most)
		snprintf(out.bytes, most + 1, "...%s", text + len - (most - 3));
	else
		memcpy(out.bytes, text, len);
	for (u32 i = 0; i < n; i++)
		put_word(&words[i], out.words[i]);
}

static void read_known(pid_t pid, u32 what, char *buf, size_t size)
{
	buf[0] = '\0';
	if (pid && what == DP_KNOWN_EXE)
		dp_process_exe(pid, buf, size);
	if (pid && what == DP_KNOWN_CGROUP) {
		dp_process_cgroup(pid, buf, size);
		dp_run_path_unheld(buf);
	}
}

static void fill_known(const struct run_target *t, const struct run_range *r, u32 what, volatile u64 *words)
{
	const struct dp_rpn_unit *u = &r->m->unit;
	bool is_read = false;
	char path[4096];

	for (u32 i = 0; i < u->nknowns; i++) {
		const struct dp_rpn_known *k = &u->knowns[i];
		volatile u64 *at = words + r->locals + k->index;

		if (k->what != what)
			continue;
		if (!is_read)
			read_known(t->pid, what, path, sizeof(path));
		is_read = true;
		if (k->how == DP_KNOWN_SAME)
			put_word(at, !strcmp(path, k->text));
		else if (k->how == DP_KNOWN_MATCH)
			put_word(at, !fnmatch(k->text, path, 0));
		else
			put_text(at, dp_rpn_known_words(k->how), path);
	}
}

void dp_run_fill_known(const struct run_target *t, const struct run_range *r, volatile u64 *words)
{
	for (u32 what = 0; what < DP_KNOWN_WHATS; what++)
		fill_known(t, r, what, words);
}

/* The same process always runs the same program: another one has a session of its own. */
void dp_run_renew_known(struct dp_run *run)
{
	for (struct run_target *t = run->targets; t; t = t->next)
		for (u32 i = 0; t->pid && t->session && i < t->nranges; i++)
			if (!t->ranges[i].left_out && t->ranges[i].generation == t->ranges[i].m->generation)
				fill_known(t, &t->ranges[i], DP_KNOWN_CGROUP, dp_tracee_words(t->session));
}

void dp_run_fill_words(const struct run_target *t, const u64 *old, const struct run_range *ranges, u32 nranges,
		       u64 *words)
{
	for (u32 i = 0; i < t->nranges; i++)
		for (u32 k = 0; k < t->ranges[i].m->unit.ninits; k++)
			words[t->ranges[i].locals + t->ranges[i].m->unit.inits[k].index] =
			    (u64)t->ranges[i].m->unit.inits[k].value;
	carry_over(old, ranges, nranges, t, words);
	for (u32 i = 0; i < t->nranges; i++) {
		dp_run_bring_back(t, &t->ranges[i], words);
		dp_run_fill_known(t, &t->ranges[i], words);
	}
}
