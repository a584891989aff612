/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is asked of a session becomes probes: at code (resolve.c), or of memory (process-watch.c, process-calls.c). */
#include <stdlib.h>
#include <string.h>

#include "host/process/session-priv.h"

/* Memory that an argument of each call leads to, or one place. */
static int add_watchpoint(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_location *loc = &dp_event_of_line(line)->loc;

	return loc->kind == DP_LOC_SYMBOL && strchr(loc->symbol, '(') ? dp_call_resolve(s, line, err)
								      : dp_watch_resolve(s, line, err);
}

int dp_session_add(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_event *ev = dp_event_of_line(line);
	int r = ev->is_watch ? add_watchpoint(s, line, err) : dp_resolve_code(s, line, err);

	if (r && err && err->column < 0)
		err->column = ev->loc.column;
	return r;
}

/*
 * The records of the last probe stand for instructions that were carried out: they wait for those that may fault. One
 * that only exceptions make tells of the program, and has nothing to wait for.
 */
static void confirm_spots(struct dp_session *s)
{
	struct dp_insn in;

	for (u32 i = s->nspots; i-- > 0 && s->spots[i].owner == s->nprobes - 1;) {
		struct dp_spot *sp = &s->spots[i];
		u64 left = sp->text->hi - sp->site.addr;

		sp->confirm = dp_insn_decode(&in, sp->text->bytes + (sp->site.addr - sp->text->lo), left) > 0 &&
			      dp_insn_traits(&in) & DP_INSN_MAY_FAULT;
	}
}

/* The last probe takes a free place, or one further on. */
static bool move_last(struct dp_session *s, u32 index)
{
	u32 from = s->nprobes - 1;

	if (index == from)
		return true;
	while (s->nprobes <= index) {
		struct dp_probe *none = dp_add_probe(s);

		if (!none)
			return false;
		none->fresh = false;
	}
	s->probes[index] = s->probes[from];
	memset(&s->probes[from], 0, sizeof(*s->probes));
	for (u32 i = s->nspots; i-- > 0 && s->spots[i].owner == from;)
		s->spots[i].owner = index;
	for (u32 i = 0; i < s->watch.n; i++)
		if (s->watch.v[i].owner == from)
			s->watch.v[i].owner = index;
	while (s->nprobes && !s->probes[s->nprobes - 1].event)
		s->nprobes--;
	return true;
}

int dp_session_add_spec(struct dp_session *s, const struct dp_probe_spec *spec, struct dp_error *err)
{
	struct dp_event *ev = dp_event_of_spec(spec);
	struct dp_probe *p;
	int r;

	if (!ev)
		return dp_fail(err, E_ARM_NOMEM, "probe");
	r = ev->is_watch ? dp_watch_add(s, ev, err) : dp_add_at_code(s, ev, spec->opcode, err);
	if (r)
		return r;
	p = &s->probes[s->nprobes - 1];
	p->locals = spec->locals;
	p->globals = spec->globals;
	p->gate = spec->gate;
	p->jit = spec->jit;
	s->stops |= dp_program_exits_to(&ev->prog, DP_EXIT_KDB);
	if (!spec->log_on_fault && ev->prog.logmax)
		confirm_spots(s);
	if (spec->index != DP_NEXT_INDEX && !move_last(s, spec->index))
		return dp_fail(err, E_ARM_NOMEM, "probe %u", spec->index);
	return 0;
}
