/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that are wanted at several places: one is compiled, and the others are copies of it. Nothing in a copy is of
 * its place, except the words of its event.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "lang/dpcc/dpcc-unit.h"

bool dp_cc_unit_is_alike(const struct target *a, const struct target *b)
{
	return a->is_return == b->is_return && a->is_jump == b->is_jump && a->passing == b->passing &&
	       !a->copy_of == !b->copy_of;
}

/* In the text: for those who want nothing else. */
static void put_again(struct unit *u, const struct place_def *d, u64 offset, const char *program)
{
	struct dpcc *c = &u->c;

	dp_cc_buf_put(c, &c->all, "\noffset = 0x%llx\n", (unsigned long long)offset);
	u->nprobes++;
	if (!strstr(d->options, "minor = "))
		dp_cc_buf_put(c, &c->all, "minor = %u\n", u->nprobes);
	dp_cc_buf_put(c, &c->all, "%s", d->options);
	dp_cc_put_event(c);
	dp_cc_buf_add(c, &c->all, program, strlen(program));
}

static void add_copy(struct unit *u, u64 offset, u32 probe)
{
	struct dpcc *c = &u->c;
	struct dpcc_result *res = c->res;
	struct dpcc_copy *v;

	if (res->ncopies == u->copies_room) {
		u->copies_room = DP_MAX(2 * u->copies_room, 64u);
		v = realloc(res->copies, u->copies_room * sizeof(*v));
		if (!v)
			dp_cc_fail(c, NULL, E_RPN_MEMORY, "the compiler");
		res->copies = v;
	}
	v = &res->copies[res->ncopies];
	*v = (struct dpcc_copy){probe, offset, c->event ? strdup(dp_cc_event_words(c)) : NULL};
	if (c->event && !v->event)
		dp_cc_fail(c, NULL, E_RPN_MEMORY, "the compiler");
	res->ncopies++;
}

void dp_cc_unit_repeat(struct unit *u, const struct place_def *d, struct target target, u64 offset,
		       const struct made *made)
{
	struct dpcc *c = &u->c;

	c->target = target;
	c->event = made->event;
	if (c->opt->takes_copies)
		add_copy(u, offset, made->probe);
	else
		put_again(u, d, offset, made->program);
}

void dp_cc_unit_made(struct unit *u, struct made *made)
{
	struct dpcc *c = &u->c;

	made->program = dp_cc_text(c, c->all.s + c->program_at, c->all.n - c->program_at);
	made->event = c->event;
	made->probe = u->nprobes - 1;
}

void dp_cc_unit_merge(struct unit *u, struct target target, bool is_entry, u64 offset, size_t text)
{
	struct dpcc *c = &u->c;
	const char *program = c->all.s + c->program_at;
	size_t n = c->all.n - c->program_at;
	u64 hash = dp_hash(0, program, n);
	struct made_text **head = &u->texts[hash % MADE_HEADS], *t = *head;

	if (!c->opt->takes_copies || c->by_name || c->opt->tree || c->opt->vars_at)
		return;
	while (t &&
	       (t->hash != hash || t->made.is_entry != is_entry || !dp_cc_unit_is_alike(&t->made.target, &target) ||
		strlen(t->made.program) != n || memcmp(t->made.program, program, n) != 0))
		t = t->next;
	if (t) {
		c->all.n = text;
		u->nprobes--;
		add_copy(u, offset, t->made.probe);
		return;
	}
	t = dp_cc_alloc(c, sizeof(*t));
	*t = (struct made_text){.next = *head, .hash = hash, .made = {.target = target, .is_entry = is_entry}};
	dp_cc_unit_made(u, &t->made);
	*head = t;
}
