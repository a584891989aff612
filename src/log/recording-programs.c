/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a recording has of probe programs: descriptions of their records, and their tables. Whoever made the file may
 * have written anything into it; see recording-read.h.
 */
#include <stdlib.h>

#include "lang/rpn/rpn-fields.h"
#include "lang/rpn/rpn.h"
#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/recording-priv.h"

/* ---- programs ---- */

static void free_probe(struct dp_rpn_probe *p)
{
	if (!p)
		return;
	dp_rf_free(p->rf);
	free(p->described);
	free(p);
}

/* NULL, and *code: it is damaged, or there is no memory. */
static struct dp_rpn_probe *make_probe(const char *description, enum dp_code *code)
{
	struct dp_rpn_probe *p = calloc(1, sizeof(*p));
	const char *bad = NULL;

	*code = E_REC_MEMORY;
	if (!p || !*description)
		return p;
	p->described = strdup(description);
	p->rf = p->described ? dp_rf_parse(description, &bad) : NULL;
	if (p->rf)
		return p;
	if (p->described)
		*code = E_REC_DAMAGED;
	free_probe(p);
	return NULL;
}

static void free_unit(struct dp_rpn_unit *u)
{
	if (!u)
		return;
	free_probe(u->probes);
	free(u->aggregates);
	free(u);
}

static bool is_sound(const struct dp_recording_program *p)
{
	return p->aggregate == sizeof(struct dp_rpn_aggregate) && p->modtype <= DP_RPN_KMOD &&
	       p->nlocals <= DP_LOCALS_MAX && p->naggregates <= DP_LOCALS_MAX && p->name <= DP_RPN_NAME_MAX;
}

static enum dp_code fill_unit(struct dp_rpn_unit *u, const struct dp_recording_program *p,
			      struct dp_recording_cursor *c)
{
	const void *aggregates = dp_recording_take(c, p->naggregates * sizeof(*u->aggregates));
	const char *name = dp_recording_take_long(c, p->name), *description = dp_recording_take_long(c, p->description);
	enum dp_code code = 0;

	if (!aggregates || !name || !*name || !description)
		return E_REC_DAMAGED;
	memcpy(u->name, name, p->name);
	u->modtype = (enum dp_rpn_modtype)p->modtype;
	u->id = p->id;
	u->nlocals = p->nlocals;
	u->aggregates = calloc(p->naggregates + 1, sizeof(*u->aggregates));
	u->probes = make_probe(description, &code);
	if (!u->aggregates || !u->probes)
		return u->aggregates ? code : E_REC_MEMORY;
	u->nprobes = 1;
	u->naggregates = p->naggregates;
	memcpy(u->aggregates, aggregates, p->naggregates * sizeof(*u->aggregates));
	for (u32 i = 0; i < u->naggregates; i++)
		if (!dp_rpn_aggregate_is_sound(&u->aggregates[i], u->nlocals))
			return E_REC_DAMAGED;
	return 0;
}

enum dp_code dp_recording_take_program(struct dp_recording_programs *p, struct dp_recording_cursor *c)
{
	const struct dp_recording_program *from = dp_recording_take(c, sizeof(*from));
	struct dp_rpn_unit *u;
	enum dp_code code;

	if (!from || !is_sound(from) || from->index > p->nunits || from->index >= DP_RECORDING_PROGRAMS)
		return E_REC_DAMAGED;
	if (from->index < p->nunits) /* told once more */
		return 0;
	if (!dp_grow((void **)&p->units, &p->units_room, p->nunits, sizeof(*p->units)))
		return E_REC_MEMORY;
	u = calloc(1, sizeof(*u));
	code = u ? fill_unit(u, from, c) : E_REC_MEMORY;
	if (code)
		free_unit(u);
	else
		p->units[p->nunits++] = u;
	return code;
}

/* ---- probes ---- */

/* As dp_rpn_events() tells of a program. */
static void tell_event(const struct dp_rpn_unit *u, const struct dp_rpn_probe *probe, struct dp_event_info *ev)
{
	static const struct dp_layout nothing;
	const struct dp_rf_event *e = probe->rf ? probe->rf->event : NULL;

	*ev = (struct dp_event_info){.group = "", .name = "", .symbol = "", .layout = &nothing};
	if (!e)
		return;
	ev->group = e->group;
	ev->name = e->name;
	ev->symbol = e->symbol;
	ev->offset = e->offset;
	ev->is_return = e->is_return;
	ev->function = e->offset ? 0 : dp_rpn_function(u->name, e->symbol);
}

/* Up to that event: those between are of no program. */
static bool make_room(struct dp_recording_programs *p, u32 index)
{
	while (p->nprobes <= index) {
		if (!dp_grow((void **)&p->probes, &p->probes_room, p->nprobes, sizeof(*p->probes)))
			return false;
		p->probes[p->nprobes++] = (struct dp_recording_hit){.probe = NULL};
	}
	return true;
}

enum dp_code dp_recording_take_probe(struct dp_recording_programs *p, u32 nevents, struct dp_recording_cursor *c,
				     struct dp_event_info *ev)
{
	const struct dp_recording_probe *from = dp_recording_take(c, sizeof(*from));
	const char *description = from ? dp_recording_take_long(c, from->description) : NULL;
	struct dp_recording_hit hit;
	enum dp_code code;

	if (!description || from->index > nevents || from->index >= DP_RECORDING_EVENTS || from->program >= p->nunits)
		return E_REC_DAMAGED;
	if (from->index < nevents)
		return 0;
	hit = (struct dp_recording_hit){make_probe(description, &code), p->units[from->program], from->offset};
	if (!hit.probe)
		return code;
	tell_event(hit.unit, hit.probe, ev);
	if (!dp_recording_is_word(ev->group) || !dp_recording_is_word(ev->name) || !make_room(p, from->index)) {
		code = dp_recording_is_word(ev->group) && dp_recording_is_word(ev->name) ? E_REC_MEMORY : E_REC_DAMAGED;
		free_probe(hit.probe);
		return code;
	}
	p->probes[from->index] = hit;
	return 0;
}

/* ---- tables ---- */

static void free_words(struct dp_recording_programs *p, struct dp_recording_tables_read *t)
{
	if (t->words)
		p->nwords -= p->units[t->program]->nlocals;
	free(t->words);
	t->words = NULL;
}

static bool is_of_table(const struct dp_rpn_unit *u, u32 only)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (u->aggregates[i].index == only)
			return true;
	return only == DP_AGG_ALL;
}

static enum dp_code take_words(struct dp_recording_programs *p, const struct dp_recording_tables *from,
			       struct dp_recording_cursor *c, struct dp_recording_tables_read *to)
{
	u32 n = p->units[from->program]->nlocals;

	if (p->nwords + n > DP_RECORDING_WORDS)
		return E_REC_DAMAGED;
	to->words = calloc(n + 1, sizeof(*to->words));
	if (!to->words)
		return E_REC_MEMORY;
	p->nwords += n;
	for (u32 i = 0; i < from->nruns; i++) {
		const struct dp_recording_run *run = dp_recording_take(c, sizeof(*run));
		const u64 *words = run ? dp_recording_take(c, (size_t)run->n * sizeof(*words)) : NULL;

		if (!words || run->first > n || run->n > n - run->first)
			return E_REC_DAMAGED;
		memcpy(to->words + run->first, words, run->n * sizeof(*words));
	}
	return 0;
}

void dp_recording_forget_tables(struct dp_recording_programs *p, struct dp_recording_list *l)
{
	while (l->n)
		free_words(p, &l->v[--l->n]);
}

enum dp_code dp_recording_take_tables(struct dp_recording_programs *p, u32 source, bool second,
				      struct dp_recording_cursor *c, const struct dp_recording_tables_read **printed)
{
	const struct dp_recording_tables *from = dp_recording_take(c, sizeof(*from));
	struct dp_recording_list *list = second ? &p->now : &p->last;
	struct dp_recording_tables_read *to = &p->printed;
	enum dp_code code;
	bool whole;

	if (!from || from->program >= p->nunits || !is_of_table(p->units[from->program], from->only))
		return E_REC_DAMAGED;
	whole = from->only == DP_AGG_ALL;
	if (!whole && !second)
		return 0;
	if (whole && !from->number)
		dp_recording_forget_tables(p, list);
	if (whole && !dp_grow((void **)&list->v, &list->room, list->n, sizeof(*list->v)))
		return E_REC_MEMORY;
	if (whole)
		to = &list->v[list->n];
	else
		free_words(p, to);
	*to = (struct dp_recording_tables_read){.source = source,
						.program = from->program,
						.only = from->only,
						.taken_out = from->taken_out,
						.ended = from->ended};
	code = take_words(p, from, c, to);
	if (code)
		free_words(p, to);
	else if (whole)
		list->n++;
	else
		*printed = to;
	return code;
}

void dp_recording_free_programs(struct dp_recording_programs *p)
{
	dp_recording_forget_tables(p, &p->last);
	dp_recording_forget_tables(p, &p->now);
	free_words(p, &p->printed);
	for (u32 i = 0; i < p->nprobes; i++)
		free_probe(p->probes[i].probe);
	for (u32 i = 0; i < p->nunits; i++)
		free_unit(p->units[i]);
	free(p->units);
	free(p->last.v);
	free(p->now.v);
	free(p->probes);
}
