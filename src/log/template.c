/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See template.h. Knows where a record has its numbers, and no format. */
#include "log/digits.h"
#include "log/template.h"

/* In the place of a type: */
#define SINKS 254 /* what the sink puts itself, and */
#define LAST 255  /* no field: the line's end */

struct part {
	u32 text;   /* where the text in front of the field begins, */
	u32 len;    /* and its length */
	u16 offset; /* of the field in the payload */
	u8 type;    /* enum dp_field_type, of a number as it is shown */
	u16 field;
};

struct dp_template {
	const struct dp_layout *layout;
	struct dp_line texts;
	size_t least;  /* bytes of the payload up to the last number */
	size_t most;   /* bytes of a line's texts and numbers */
	bool is_unfit; /* for any record */
	u32 nparts;
	struct part parts[]; /* one for each field at most, and the end */
};

/* ---- making one ---- */

static void add(struct dp_template *t, struct part p)
{
	u32 before = t->nparts ? t->parts[t->nparts - 1].text + t->parts[t->nparts - 1].len : 0;

	if (t->nparts > t->layout->nfields) { /* a field came twice */
		t->is_unfit = true;
		return;
	}
	p.text = before;
	p.len = (u32)t->texts.n - before;
	t->most += p.len + DP_TEXT_BLOCK + DP_DIGITS_ROOM;
	t->parts[t->nparts++] = p;
}

static u8 type_of(const struct dp_field *f, bool has_hex)
{
	static const u8 sizes[] = {1, 2, 4, 8};
	u8 width = f->type % 4;

	if (f->type > DP_FIELD_X64 || f->count || f->size != sizes[width])
		return SINKS;
	if (has_hex && (dp_field_is_hex(f) || !f->name[0]))
		return (u8)(DP_FIELD_X8 + width);
	return dp_field_is_signed(f) ? f->type : (u8)(DP_FIELD_U8 + width);
}

bool dp_template_has_number(const struct dp_field *f)
{
	return type_of(f, false) != SINKS;
}

void dp_template_field(struct dp_template *t, unsigned i, bool has_hex)
{
	const struct dp_field *f = &t->layout->fields[i];
	struct part p = {.offset = f->offset, .type = type_of(f, has_hex), .field = (u16)i};

	if (p.type != SINKS)
		t->least = DP_MAX(t->least, (size_t)f->offset + f->size);
	add(t, p);
}

struct dp_template *dp_template_new(struct dp_sink *s, const struct dp_sink_record *r)
{
	u32 nfields = r->view.layout->nfields;
	struct dp_template *t = dp_alloc(sizeof(*t) + (nfields + 1) * sizeof(t->parts[0]));
	struct dp_line *line = s->line;

	if (!t)
		return NULL;
	t->layout = r->view.layout;
	t->least = t->layout->has_faultmask ? sizeof(u64) : 0;
	dp_sink_begin_event(s);
	s->line = &t->texts;
	t->is_unfit |= !s->ops->lay_out(s, t, r);
	add(t, (struct part){.type = LAST});
	s->line = line;
	if (dp_line_reserve(&t->texts, DP_TEXT_BLOCK) && !t->texts.broken)
		return t;
	dp_template_free(t);
	return NULL;
}

void dp_template_free(struct dp_template *t)
{
	if (!t)
		return;
	dp_line_free(&t->texts);
	dp_free(t);
}

/* ---- using it ---- */

static bool is_as_it_should_be(const struct dp_template *t, const struct dp_sink_record *r)
{
	u64 faults = 0;

	if (t->is_unfit || r->rec->flags & DP_REC_TRUNCATED || r->view.size < t->least)
		return false;
	if (t->layout->has_faultmask)
		memcpy(&faults, r->view.payload, sizeof(faults));
	return !faults;
}

#define LOAD(type)                                                                      \
	({                                                                              \
		type value;                                                             \
		memcpy(&value, at, sizeof(value)); /* little endian, like the target */ \
		value;                                                                  \
	})

static char *put_number(char *to, u8 type, const u8 *at)
{
	switch (type) {
	case DP_FIELD_U8:
		return dp_put_unsigned(to, LOAD(u8));
	case DP_FIELD_U16:
		return dp_put_unsigned(to, LOAD(u16));
	case DP_FIELD_U32:
		return dp_put_unsigned(to, LOAD(u32));
	case DP_FIELD_U64:
		return dp_put_unsigned(to, LOAD(u64));
	case DP_FIELD_S8:
		return dp_put_signed(to, LOAD(s8));
	case DP_FIELD_S16:
		return dp_put_signed(to, LOAD(s16));
	case DP_FIELD_S32:
		return dp_put_signed(to, LOAD(s32));
	case DP_FIELD_S64:
		return dp_put_signed(to, LOAD(s64));
	case DP_FIELD_X8:
		return dp_put_hex(to, LOAD(u8));
	case DP_FIELD_X16:
		return dp_put_hex(to, LOAD(u16));
	case DP_FIELD_X32:
		return dp_put_hex(to, LOAD(u32));
	default:
		return dp_put_hex(to, LOAD(u64));
	}
}

bool dp_template_put(const struct dp_template *t, struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_line *l = s->line;
	char *to;

	if (!is_as_it_should_be(t, r))
		return false;
	dp_sink_begin_event(s);
	s->ops->start(s, r);
	if (!dp_line_reserve(l, t->most))
		return true;
	to = l->text + l->n;
	for (const struct part *p = t->parts;; p++) {
		to = dp_put_text(to, t->texts.text + p->text, p->len);
		if (p->type == LAST)
			break;
		if (p->type != SINKS) {
			to = put_number(to, p->type, r->view.payload + p->offset);
			continue;
		}
		l->n = (size_t)(to - l->text);
		if (s->ops->named)
			s->ops->named(s);
		dp_walk_value(s, &r->view, p->field);
		if (!dp_line_reserve(l, t->most))
			return true;
		to = l->text + l->n;
	}
	l->n = (size_t)(to - l->text);
	return true;
}
