/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Descriptions of records:
 *   layout = T1 16 struct { "x" s32 @ 0, "flags" u32 @ 4 bits 3 5, "name" char[8] @ 8 }
 *   layout = T2 4 enum { "RED" 0, "GREEN" 1 }
 *   layout = T5 4 enum hex { "GET" 0x5401 }
 *   layout = T3 4 flags { "READ" 0 of 3, "WRITE" 1 of 3, "CREATE" 64 }
 *   layout = T4 8 variants u32 @ 0 { "None" is 0, "Some" s32 @ 4 is 1, "Other" s16 @ 6 }
 *   field = "*p" T1
 *   field = printf "x is %d"
 *   field = nothing
 *   field = event "group" "name" "function" 0x12 0 [ends]
 * The last one makes records look like those of an event line; its numbers: the offset, and whether it returns. With
 * `ends`, the first record ends the trace.
 * A layout refers to earlier ones only, so that none contains itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/rpn-fields.h"
#include "lang/rpn/rpn-priv.h"

#define MEMBERS_MAX 4096

struct reader {
	const char *p;
	struct dp_rf *rf;
};

static bool word(struct reader *r, const char *text)
{
	struct rpn_token t = dp_rpn_token(r->p);

	if (!dp_rpn_is(&t, text))
		return false;
	r->p = t.at + t.len;
	return true;
}

static bool number(struct reader *r, s64 *v)
{
	bool neg = word(r, "-");
	struct rpn_token t = dp_rpn_token(r->p);

	if (t.kind != RPN_NUMBER || t.bad)
		return false;
	*v = neg ? (s64)(0 - (u64)t.value) : t.value;
	r->p = t.at + t.len;
	return true;
}

static bool small(struct reader *r, u32 *v)
{
	s64 n;

	if (!number(r, &n) || n < 0 || n > 1 << 24)
		return false;
	*v = (u32)n;
	return true;
}

static char *quoted(struct reader *r)
{
	struct rpn_token t = dp_rpn_token(r->p);
	char *s;
	int n;

	if (t.kind != RPN_TEXT || t.bad)
		return NULL;
	s = calloc(1, t.len + 1);
	n = s ? dp_rpn_text(&t, s, t.len) : -1;
	if (n < 0 || strlen(s) != (size_t)n) {
		free(s);
		return NULL;
	}
	r->p = t.at + t.len;
	return s;
}

static bool layout_number(const struct rpn_token *t, u32 *number_)
{
	char *end;

	if (t->kind != RPN_WORD || *t->at != 'T' || t->len < 2)
		return false;
	*number_ = (u32)strtoul(t->at + 1, &end, 10);
	return end == t->at + t->len;
}

/* Bytes of a value of this type. */
static u64 size_of(const struct dp_rf_type *t)
{
	u64 n = t->size;

	for (u32 i = 0; i < t->ndims; i++)
		n = n < 1u << 30 ? n * t->dims[i] : n;
	return n;
}

static bool dimensions(struct reader *r, struct dp_rf_type *t)
{
	while (word(r, "[")) {
		if (t->ndims == DP_ARRAY_SIZE(t->dims) || !small(r, &t->dims[t->ndims++]) || !word(r, "]"))
			return false;
	}
	return size_of(t) < 1u << 30;
}

static bool type(struct reader *r, struct dp_rf_type *t)
{
	static const struct {
		const char *name;
		enum dp_rf_kind kind;
		u32 size;
	} names[] = {
	    {"u8", DP_RF_UNSIGNED, 1},   {"u16", DP_RF_UNSIGNED, 2},   {"u32", DP_RF_UNSIGNED, 4},
	    {"u64", DP_RF_UNSIGNED, 8},  {"s8", DP_RF_SIGNED, 1},      {"s16", DP_RF_SIGNED, 2},
	    {"s32", DP_RF_SIGNED, 4},    {"s64", DP_RF_SIGNED, 8},     {"x8", DP_RF_HEX, 1},
	    {"x16", DP_RF_HEX, 2},       {"x32", DP_RF_HEX, 4},        {"x64", DP_RF_HEX, 8},
	    {"o8", DP_RF_OCTAL, 1},      {"o16", DP_RF_OCTAL, 2},      {"o32", DP_RF_OCTAL, 4},
	    {"o64", DP_RF_OCTAL, 8},     {"char", DP_RF_CHAR, 1},      {"bool", DP_RF_BOOL, 1},
	    {"f32", DP_RF_FLOAT, 4},     {"f64", DP_RF_FLOAT, 8},      {"ptr", DP_RF_POINTER, 8},
	    {"string", DP_RF_STRING, 1}, {"u128", DP_RF_UNSIGNED, 16}, {"s128", DP_RF_SIGNED, 16},
	    {"f80", DP_RF_FLOAT, 16},    {"c64", DP_RF_COMPLEX, 8},    {"c128", DP_RF_COMPLEX, 16},
	    {"c256", DP_RF_COMPLEX, 32}, {"bytes", DP_RF_BYTES, 1},    {"frame", DP_RF_FRAME, 8},
	    {"code", DP_RF_CODE, 8},
	};
	struct rpn_token w = dp_rpn_token(r->p);
	u32 n;

	memset(t, 0, sizeof(*t));
	r->p = w.at + w.len;
	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (dp_rpn_is(&w, names[i].name)) {
			t->kind = names[i].kind;
			t->size = names[i].size;
			return dimensions(r, t);
		}
	if (!layout_number(&w, &n))
		return false;
	for (u32 i = 0; i < r->rf->nlayouts; i++)
		if (r->rf->layouts[i].number == n && r->rf->layouts[i].members) {
			t->kind = DP_RF_LAYOUT;
			t->layout = i;
			t->size = r->rf->layouts[i].size;
			return dimensions(r, t);
		}
	return false;
}

/* Behind the name of a variant: [TYPE @ OFFSET] [is NUMBER]. */
static bool variant(struct reader *r, struct dp_rf_member *m)
{
	struct rpn_token t = dp_rpn_token(r->p);

	m->is_bare = dp_rpn_is(&t, "is") || dp_rpn_is(&t, ",") || dp_rpn_is(&t, "}");
	if (!m->is_bare && (!type(r, &m->type) || !word(r, "@") || !small(r, &m->offset)))
		return false;
	m->is_default = !word(r, "is");
	return m->is_default || number(r, &m->value);
}

/* variants TYPE @ OFFSET: the number that tells which it is. */
static bool discriminant(struct reader *r, struct dp_rf_layout *l)
{
	struct dp_rf_type t;

	l->is_variants = true;
	if (!type(r, &t) || t.kind != DP_RF_UNSIGNED || t.ndims)
		return false;
	l->which_size = t.size;
	return word(r, "@") && small(r, &l->which);
}

static bool member(struct reader *r, struct dp_rf_member *m, const struct dp_rf_layout *l)
{
	s64 mask;

	m->name = quoted(r);
	if (!m->name)
		return false;
	if (l->is_enum) {
		if (!number(r, &m->value))
			return false;
		m->mask = (u64)m->value;
		if (!l->is_flags || !word(r, "of"))
			return true;
		m->mask = number(r, &mask) ? (u64)mask : 0;
		return !((u64)m->value & ~m->mask);
	}
	if (l->is_variants)
		return variant(r, m);
	if (!type(r, &m->type) || !word(r, "@") || !small(r, &m->offset))
		return false;
	if (!word(r, "bits"))
		return true;
	return small(r, &m->shift) && small(r, &m->bits) && m->bits && m->bits <= 64 && m->shift < 64 &&
	       m->shift + m->bits <= 64;
}

static void *grow(void *v, u32 n, size_t size)
{
	return n & (n - 1) ? v : realloc(v, (n ? n * 2 : 1) * size);
}

static bool enumeration(struct reader *r, struct dp_rf_layout *l)
{
	l->is_enum = word(r, "enum");
	l->is_hex = l->is_enum && word(r, "hex");
	l->is_half = l->is_enum && word(r, "half");
	return l->is_enum;
}

static bool layout(struct reader *r)
{
	struct dp_rf *rf = r->rf;
	struct rpn_token t = dp_rpn_token(r->p);
	struct dp_rf_layout *v = grow(rf->layouts, rf->nlayouts, sizeof(*v)), *l;
	struct dp_rf_member *members = NULL;
	bool good;

	if (!v)
		return false;
	rf->layouts = v;
	l = &v[rf->nlayouts++];
	memset(l, 0, sizeof(*l));
	good = layout_number(&t, &l->number);
	r->p = t.at + t.len;
	good = good && small(r, &l->size) &&
	       (word(r, "struct") || word(r, "union") || (l->is_flags = word(r, "flags")) || enumeration(r, l) ||
		(word(r, "variants") && discriminant(r, l))) &&
	       word(r, "{");
	l->is_enum |= l->is_flags;
	while (good && !word(r, "}")) {
		struct dp_rf_member *more = l->n < MEMBERS_MAX ? grow(members, l->n, sizeof(*more)) : NULL;

		good = more != NULL && (!l->n || word(r, ","));
		members = more ? more : members;
		if (good) {
			memset(&members[l->n], 0, sizeof(*members));
			/* Counted even when it is wrong: its name is freed with the others. */
			good = member(r, &members[l->n++], l);
		}
	}
	l->members = members ? members : calloc(1, sizeof(*members));
	return good && l->members;
}

static bool event(struct reader *r)
{
	struct dp_rf_event *e = r->rf->event ? NULL : calloc(1, sizeof(*e));
	s64 offset, is_return;

	if (!e)
		return false;
	r->rf->event = e;
	e->group = quoted(r);
	e->name = e->group ? quoted(r) : NULL;
	e->symbol = e->name ? quoted(r) : NULL;
	if (!e->symbol || !number(r, &offset) || !number(r, &is_return))
		return false;
	e->offset = (u64)offset;
	e->is_return = is_return;
	e->ends = word(r, "ends");
	return true;
}

static bool field(struct reader *r)
{
	struct dp_rf *rf = r->rf;
	struct dp_rf_member *v, *f;
	bool is_printf;

	if (word(r, "event"))
		return event(r);
	v = rf->nfields < MEMBERS_MAX ? grow(rf->fields, rf->nfields, sizeof(*v)) : NULL;
	if (!v)
		return false;
	rf->fields = v;
	f = &v[rf->nfields++];
	memset(f, 0, sizeof(*f));
	if (word(r, "nothing")) {
		f->type.kind = DP_RF_NOTHING;
		return (f->name = strdup("")) != NULL;
	}
	is_printf = word(r, "printf");
	f->name = quoted(r);
	if (!f->name)
		return false;
	if (!is_printf)
		return type(r, &f->type);
	f->type.kind = DP_RF_PRINTF;
	return true;
}

struct dp_rf *dp_rf_parse(const char *lines, const char **bad)
{
	struct dp_rf *rf = calloc(1, sizeof(*rf));
	char *copy = strdup(lines), *line, *save = NULL;
	bool good = rf && copy;

	*bad = lines;
	for (line = good ? strtok_r(copy, "\n", &save) : NULL; line && good; line = strtok_r(NULL, "\n", &save)) {
		struct reader r = {line, rf};
		bool is_layout = word(&r, "layout");

		*bad = lines + (line - copy);
		good = (is_layout || word(&r, "field")) && word(&r, "=") && (is_layout ? layout(&r) : field(&r)) &&
		       dp_rpn_token(r.p).kind == RPN_END;
	}
	free(copy);
	if (good)
		return rf;
	dp_rf_free(rf);
	return NULL;
}

void dp_rf_free(struct dp_rf *rf)
{
	if (!rf)
		return;
	for (u32 i = 0; i < rf->nlayouts; i++) {
		for (u32 k = 0; k < rf->layouts[i].n; k++)
			free(rf->layouts[i].members[k].name);
		free(rf->layouts[i].members);
	}
	for (u32 i = 0; i < rf->nfields; i++)
		free(rf->fields[i].name);
	if (rf->event) {
		free(rf->event->group);
		free(rf->event->name);
		free(rf->event->symbol);
	}
	free(rf->event);
	free(rf->layouts);
	free(rf->fields);
	free(rf);
}

/* ---- layouts that nothing refers to ---- */

#define REFERRED_MAX 4096

static void note_references(const char *line, bool *referred)
{
	bool quoted = false;

	for (const char *p = line; *p && *p != '\n'; p++) {
		unsigned long n = REFERRED_MAX;

		if (quoted && *p == '\\' && p[1])
			p++;
		else if (*p == '"')
			quoted = !quoted;
		else if (!quoted && *p == 'T')
			n = strtoul(p + 1, NULL, 10);
		if (n < REFERRED_MAX)
			referred[n] = true;
	}
}

/* From the last line on: a layout is referred to by what stands behind it. */
static void find_references(const char *lines, const char *end, bool *referred)
{
	unsigned int n;

	for (const char *line; end > lines; end = line) {
		for (line = end - 1; line > lines && line[-1] != '\n'; line--)
			;
		if (sscanf(line, "layout = T%u", &n) != 1)
			note_references(line, referred);
		else if (n >= REFERRED_MAX || referred[n])
			note_references(line + strcspn(line, "{\n"), referred);
	}
}

void dp_rf_drop_unused(char *lines)
{
	bool referred[REFERRED_MAX] = {false};
	char *to = lines;
	unsigned int n;

	find_references(lines, lines + strlen(lines), referred);
	for (const char *line = lines, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (sscanf(line, "layout = T%u", &n) == 1 && n < REFERRED_MAX && !referred[n])
			continue;
		memmove(to, line, (size_t)(next - line));
		to += next - line;
	}
	*to = '\0';
}
