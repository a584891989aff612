/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From a record's items to names and values, by the description that came with the program. The
 * bytes may be anything: they were written where the probed program can write, too.
 */
#include <stdio.h>
#include <string.h>

#include "log/log-fields.h"
#include "program/opcode.h"

#define DEPTH_MAX 32
#define ELEMENTS_MAX 256
#define ARGS_MAX 64
#define OUTPUT_MAX (256u << 10) /* of one record: arrays of arrays can be long */

struct show {
	struct dp_sink *s;
	const struct dp_rf *rf;
};

static void give(struct show *s, const struct dp_sink_value *v)
{
	s->s->ops->value(s->s, v);
}

static void give_bytes(struct show *s, enum dp_sink_kind kind, const void *p, size_t n)
{
	give(s, &(struct dp_sink_value){.kind = kind, .text = p, .len = n});
}

static void give_missing(struct show *s, enum dp_sink_missing why, u64 bits)
{
	give(s, &(struct dp_sink_value){.kind = DP_SINK_MISSING, .missing = why, .bits = bits});
}

static u64 word_at(const u8 *p, size_t n)
{
	u64 v = 0;

	memcpy(&v, p, DP_MIN(n, (size_t)8));
	return v;
}

static void text(struct show *s, const u8 *p, size_t n)
{
	const u8 *end = n ? memchr(p, '\0', n) : NULL;

	give_bytes(s, DP_SINK_TEXT, p, end ? (size_t)(end - p) : n);
}

/* ---- values ---- */

static void value(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n, u32 depth);

/* size: 4, 8, or 16, of which the processor's extended format takes 10. */
static void real(struct show *s, const u8 *p, u32 size)
{
	long double x = 0;
	double d;
	float f;
	char buf[64];

	if (size == 4) {
		memcpy(&f, p, 4);
		snprintf(buf, sizeof(buf), "%.9g", (double)f);
	} else if (size == 8) {
		memcpy(&d, p, 8);
		snprintf(buf, sizeof(buf), "%.17g", d);
	} else {
		memcpy(&x, p, 10);
		snprintf(buf, sizeof(buf), "%.21Lg", x);
	}
	give_bytes(s, DP_SINK_DIGITS, buf, strlen(buf));
}

static void complex(struct show *s, const u8 *p, u32 size)
{
	const struct dp_sink_ops *ops = s->s->ops;

	ops->group(s->s, DP_GROUP_COMPLEX);
	ops->member(s->s, NULL);
	real(s, p, size / 2);
	ops->member(s->s, NULL);
	real(s, p + size / 2, size / 2);
	ops->group_end(s->s, DP_GROUP_COMPLEX);
}

/* An integer of 128 bits, in decimal digits. */
static void wide(struct show *s, const u8 *p, bool is_signed)
{
	unsigned __int128 v;
	char digits[42];
	size_t n = sizeof(digits) - 1;

	memcpy(&v, p, sizeof(v));
	is_signed = is_signed && v >> 127;
	if (is_signed)
		v = -v;
	do {
		digits[--n] = (char)('0' + (unsigned)(v % 10));
		v /= 10;
	} while (v);
	if (is_signed)
		digits[--n] = '-';
	give_bytes(s, DP_SINK_DIGITS, digits + n, sizeof(digits) - 1 - n);
}

static s64 extended(u64 v, u32 bits)
{
	return bits < 64 ? (s64)(v << (64 - bits)) >> (64 - bits) : (s64)v;
}

static void number(struct show *s, enum dp_sink_kind kind, u64 v, bool hex)
{
	give(s, &(struct dp_sink_value){.kind = kind, .bits = v, .hex = hex});
}

static void flags_text(const struct dp_rf_layout *e, u64 v, char *buf, size_t size)
{
	u64 done = 0;
	size_t n = 0;

	v &= e->size < 8 ? (1ull << e->size * 8) - 1 : ~0ull;
	for (u32 i = 0; i < e->n && n < size; i++) {
		const struct dp_rf_member *m = &e->members[i];

		if (m->mask & done || (v & m->mask) != (u64)m->value || (!m->mask && v))
			continue;
		n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "|" : "", m->name);
		done |= m->mask;
	}
	if (n < size && (v & ~done || !n))
		snprintf(buf + n, size - n, n ? "|0x%llx" : v ? "0x%llx" : "%llx", (unsigned long long)(v & ~done));
}

static const char *name_of(const struct dp_rf_layout *e, u64 v)
{
	u32 bits = e->size * 8;

	for (u32 i = 0; i < e->n; i++)
		if (extended((u64)e->members[i].value, bits) == extended(v, bits))
			return e->members[i].name;
	return NULL;
}

bool dp_layout_name(const struct dp_rf_layout *e, u64 v, char *buf, size_t size)
{
	const char *name = e->is_flags ? NULL : name_of(e, v);

	if (e->is_flags)
		flags_text(e, v, buf, size);
	else if (name)
		snprintf(buf, size, "%s", name);
	else if (e->is_hex)
		snprintf(buf, size, "0x%llx", (unsigned long long)v);
	else if (e->is_half)
		snprintf(buf, size, "%lld", (long long)extended(v, e->size * 4));
	return e->is_flags || name || e->is_hex || e->is_half;
}

static void enumerator(struct show *s, const struct dp_rf_layout *e, u64 v)
{
	const char *name = name_of(e, v);
	char text[400];

	if (e->is_flags) {
		flags_text(e, v, text, sizeof(text));
		name = text;
	}
	if (name)
		give_bytes(s, DP_SINK_NAME, name, strlen(name));
	else if (e->is_hex)
		number(s, DP_SINK_UNSIGNED, e->size < 8 ? v & ((1ull << e->size * 8) - 1) : v, true);
	else
		number(s, DP_SINK_SIGNED, (u64)extended(v, e->is_half ? e->size * 4 : e->size * 8), false);
}

static void scalar(struct show *s, const struct dp_rf_type *t, u64 v, u32 bits)
{
	if (t->kind == DP_RF_LAYOUT)
		enumerator(s, &s->rf->layouts[t->layout], v);
	else if (t->kind == DP_RF_CHAR)
		number(s, DP_SINK_BYTE, (u8)v, false);
	else if (t->kind == DP_RF_BOOL)
		number(s, DP_SINK_BOOL, v, false);
	else if (t->kind == DP_RF_FLOAT && t->size <= sizeof(v))
		real(s, (const u8 *)&v, t->size);
	else if (t->kind == DP_RF_SIGNED)
		number(s, DP_SINK_SIGNED, (u64)extended(v, bits), false);
	else if (t->kind == DP_RF_CODE)
		number(s, DP_SINK_CODE, v, true);
	else if (t->kind == DP_RF_OCTAL)
		give(s, &(struct dp_sink_value){.kind = DP_SINK_UNSIGNED, .bits = v, .octal = true});
	else
		number(s, DP_SINK_UNSIGNED, v, t->kind == DP_RF_HEX || t->kind == DP_RF_POINTER);
}

static void members(struct show *s, const struct dp_rf_layout *l, const u8 *p, size_t n, u32 depth)
{
	s->s->ops->group(s->s, DP_GROUP_STRUCT);
	for (u32 i = 0; i < l->n; i++) {
		const struct dp_rf_member *m = &l->members[i];
		size_t rest = m->offset < n ? n - m->offset : 0;

		s->s->ops->member(s->s, m->name);
		if (m->bits && rest) {
			u64 v = word_at(p + m->offset, rest) >> m->shift;

			scalar(s, &m->type, m->bits < 64 ? v & ((1ull << m->bits) - 1) : v, m->bits);
		} else {
			value(s, &m->type, m->type.ndims, p + (rest ? m->offset : 0), rest, depth + 1);
		}
	}
	s->s->ops->group_end(s->s, DP_GROUP_STRUCT);
}

/* Which of the layout's variants it is by the number at p. NULL: none. Numbers of 128 bits have small values. */
static const struct dp_rf_member *variant_of(const struct dp_rf_layout *l, const u8 *p)
{
	u32 size = DP_MIN(l->which_size, 8u), bits = size * 8;
	bool is_large = l->which_size > size && word_at(p + size, size);
	const struct dp_rf_member *other = NULL;

	for (u32 i = 0; i < l->n; i++) {
		const struct dp_rf_member *m = &l->members[i];

		if (m->is_default)
			other = m;
		else if (!is_large && extended((u64)m->value, bits) == extended(word_at(p, size), bits))
			return m;
	}
	return other;
}

/* One of several contents: its name, and what it has. A number that is no variant's is shown alone. */
static void variant(struct show *s, const struct dp_rf_layout *l, const u8 *p, size_t n, u32 depth)
{
	const struct dp_rf_member *m;
	size_t rest;

	if (n < l->which_size || l->which > n - l->which_size) {
		give_missing(s, DP_MISSING_REST, 0);
		return;
	}
	m = variant_of(l, p + l->which);
	if (!m) {
		number(s, DP_SINK_UNSIGNED, word_at(p + l->which, l->which_size), true);
		return;
	}
	if (m->is_bare) {
		give_bytes(s, DP_SINK_NAME, m->name, strlen(m->name));
		return;
	}
	rest = m->offset < n ? n - m->offset : 0;
	s->s->ops->group(s->s, DP_GROUP_STRUCT);
	s->s->ops->member(s->s, m->name);
	value(s, &m->type, m->type.ndims, p + (rest ? m->offset : 0), rest, depth + 1);
	s->s->ops->group_end(s->s, DP_GROUP_STRUCT);
}

/* Who called: up to the end of the chain. */
static void frames(struct show *s, const u8 *p, size_t n)
{
	struct dp_sink_value v = {.kind = DP_SINK_ADDRESS};

	s->s->ops->group(s->s, DP_GROUP_STACK);
	for (size_t i = 0; 8 * i + 8 <= n && (!i || word_at(p + 8 * i, 8)); i++) {
		v.bits = word_at(p + 8 * i, 8);
		v.behind_call = i > 0;
		s->s->ops->member(s->s, NULL);
		give(s, &v);
	}
	s->s->ops->group_end(s->s, DP_GROUP_STACK);
}

static void elements(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n, u32 depth)
{
	u32 count = t->dims[ndims - 1];
	u64 size = t->size;

	for (u32 i = 0; i + 1 < ndims; i++)
		size *= t->dims[i];
	s->s->ops->group(s->s, DP_GROUP_ARRAY);
	for (u32 i = 0; i < count; i++) {
		u64 at = size * i;

		s->s->ops->member(s->s, NULL);
		if (at >= n || i == ELEMENTS_MAX) {
			give_missing(s, DP_MISSING_REST, 0);
			break;
		}
		value(s, t, ndims - 1, p + at, n - at, depth + 1);
	}
	s->s->ops->group_end(s->s, DP_GROUP_ARRAY);
}

/* A value at p, of which n bytes are there. */
static void value(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n, u32 depth)
{
	u32 size = t->size;

	if (depth > DEPTH_MAX || s->s->line->n > OUTPUT_MAX || !n) {
		give_missing(s, DP_MISSING_REST, 0);
	} else if (t->kind == DP_RF_FRAME) {
		frames(s, p, n);
	} else if (ndims == 1 && t->kind == DP_RF_CHAR) {
		text(s, p, DP_MIN(n, (size_t)t->dims[0]));
	} else if (ndims) {
		elements(s, t, ndims, p, n, depth);
	} else if (t->kind == DP_RF_STRING) {
		text(s, p, n);
	} else if (t->kind == DP_RF_BYTES) {
		give_bytes(s, DP_SINK_BYTES, p, n);
	} else if (t->kind == DP_RF_LAYOUT && s->rf->layouts[t->layout].is_variants) {
		variant(s, &s->rf->layouts[t->layout], p, n, depth);
	} else if (t->kind == DP_RF_LAYOUT && !s->rf->layouts[t->layout].is_enum) {
		members(s, &s->rf->layouts[t->layout], p, n, depth);
	} else if (n < size) {
		give_missing(s, DP_MISSING_REST, 0); /* the record ended */
	} else if (t->kind == DP_RF_COMPLEX) {
		complex(s, p, size);
	} else if (size == 16 && t->kind == DP_RF_FLOAT) {
		real(s, p, size);
	} else if (size == 16) {
		wide(s, p, t->kind == DP_RF_SIGNED);
	} else {
		scalar(s, t, word_at(p, size), size * 8);
	}
}

/* ---- printf ---- */

struct arg {
	const u8 *p;
	size_t n;
	int token;
};

static void format_arg(struct dp_line *l, const char *spec, size_t len, const struct arg *a)
{
	char fmt[40], out[400], conv = spec[len - 1], plain[32];
	size_t n = 0;

	if (!a || a->token == DP_TOKEN_FAULT) {
		dp_line_str(l, "(fault)");
		return;
	}
	/* Flags, width and precision stay; length modifiers go, all numbers have 64 bits. */
	for (size_t i = 0; i + 1 < len && n < sizeof(plain) - 1; i++)
		if (!strchr("hlzjt", spec[i]))
			plain[n++] = spec[i];
	plain[n] = '\0';
	if (n > 12) /* no one wants a width of millions */
		snprintf(plain, sizeof(plain), "%%");
	if (conv == 's') {
		const u8 *end = a->n ? memchr(a->p, '\0', a->n) : NULL;
		size_t size = end ? (size_t)(end - a->p) : a->n;

		snprintf(fmt, sizeof(fmt), "%ss", plain);
		if (strcmp(plain, "%") || size > 255) {
			char copy[256];

			memcpy(copy, a->p, DP_MIN(size, sizeof(copy) - 1));
			copy[DP_MIN(size, sizeof(copy) - 1)] = '\0';
			snprintf(out, sizeof(out), fmt, copy);
		} else {
			memcpy(out, a->p, size);
			out[size] = '\0';
		}
	} else if (conv == 'c') {
		snprintf(fmt, sizeof(fmt), "%sc", plain);
		snprintf(out, sizeof(out), fmt, (int)word_at(a->p, a->n));
	} else if (conv == 'p') {
		snprintf(out, sizeof(out), "0x%llx", (unsigned long long)word_at(a->p, a->n));
	} else {
		snprintf(fmt, sizeof(fmt), "%sll%c", plain, conv);
		snprintf(out, sizeof(out), fmt, (unsigned long long)word_at(a->p, a->n));
	}
	dp_line_str(l, out);
}

/* The bytes of texts come from the probed program: what a terminal would obey is shown as it is
 * written in C. */
static void printf_line(struct show *s, const char *fmt, const struct arg *args, u32 nargs)
{
	struct dp_line out = {0};
	u32 next = 0;

	for (const char *p = fmt; *p; p++) {
		const char *end = p + 1;

		if (*p != '%') {
			dp_line_char(&out, *p);
			continue;
		}
		end += strspn(end, "-+ #0123456789.hlzjt");
		if (*end == '%' && end == p + 1)
			dp_line_char(&out, '%');
		else if (*end && strchr("diuxXocps", *end)) {
			format_arg(&out, p, (size_t)(end - p) + 1, next < nargs ? &args[next] : NULL);
			next++;
		}
		p = *end ? end : end - 1;
	}
	if (out.n && out.text[out.n - 1] == '\n')
		out.n--;
	give_bytes(s, DP_SINK_MESSAGE, out.text ? out.text : "", out.n);
	dp_line_free(&out);
}

/* ---- items ---- */

struct items {
	const u8 *p;
	size_t n;
};

/* The next item; 0 at the end, -1 when what is left is none. */
static int next_item(struct items *it, struct arg *a)
{
	size_t count;

	if (!it->n)
		return 0;
	if (it->n < 3)
		return -1;
	a->token = (s8)it->p[0];
	count = it->p[1] | (size_t)it->p[2] << 8;
	if (a->token >= DP_TOKEN_STACK && a->token <= DP_TOKEN_WORDS)
		count *= 8;
	if (count > it->n - 3)
		return -1;
	a->p = it->p + 3;
	a->n = count;
	it->p += 3 + count;
	it->n -= 3 + count;
	return 1;
}

static bool is_mark(const struct dp_rf *rf, const struct arg *a, u32 *field)
{
	u64 w = a->token == DP_TOKEN_WORDS && a->n >= 8 ? word_at(a->p, 8) : 0;

	*field = (u32)(w & ~DP_FIELD_MARK_MASK);
	return (w & DP_FIELD_MARK_MASK) == DP_FIELD_MARK && *field < rf->nfields;
}

static void field_end(struct show *s)
{
	if (s->s->ops->field_end)
		s->s->ops->field_end(s->s);
}

static void one_field(struct show *s, const struct dp_rf_member *f, const struct arg *args, u32 nargs, u32 i)
{
	if (f->type.kind == DP_RF_NOTHING)
		return;
	s->s->ops->field(s->s, f->type.kind == DP_RF_PRINTF ? (s->s->program ? NULL : "text") : f->name, i);
	if (f->type.kind == DP_RF_PRINTF)
		printf_line(s, f->name, args, nargs);
	else if (!nargs)
		give_missing(s, DP_MISSING_NOTHING, 0);
	else if (args[0].token == DP_TOKEN_FAULT && args[0].n == 8)
		give_missing(s, DP_MISSING_FAULT_AT, word_at(args[0].p, 8));
	else if (f->type.kind == DP_RF_STRING)
		text(s, args[0].p, args[0].n);
	else if (f->type.kind == DP_RF_BYTES)
		give_bytes(s, DP_SINK_BYTES, args[0].p, args[0].n);
	else
		value(s, &f->type, f->type.ndims, args[0].p, args[0].n, 0);
	field_end(s);
}

static void unnamed(struct show *s, const struct arg *a, u32 i)
{
	s->s->ops->field(s->s, "data", i);
	give_bytes(s, DP_SINK_BYTES, a->p, a->n);
	field_end(s);
}

static void show_all(struct show *s, const u8 *p, size_t n)
{
	struct items it = {p, n}, ahead;
	struct arg a, args[ARGS_MAX];
	u32 order = 0, field, other, shown = 0;

	while (next_item(&it, &a) > 0) {
		u32 nargs = 0;

		if (!is_mark(s->rf, &a, &field)) {
			if (order < s->rf->nfields && s->rf->fields[order].type.kind != DP_RF_PRINTF)
				one_field(s, &s->rf->fields[order++], &a, 1, shown++);
			else
				unnamed(s, &a, shown++);
			continue;
		}
		order = s->rf->nfields; /* from now on only what is marked has a name */
		if (a.n > 8)
			args[nargs++] = (struct arg){a.p + 8, a.n - 8, a.token};
		for (ahead = it; (a.n == 8 || s->rf->fields[field].type.kind == DP_RF_PRINTF) &&
				 next_item(&ahead, &a) > 0 && !is_mark(s->rf, &a, &other);
		     it = ahead) {
			if (nargs < ARGS_MAX)
				args[nargs++] = a;
			if (s->rf->fields[field].type.kind != DP_RF_PRINTF) {
				it = ahead;
				break;
			}
			a.n = 8; /* go on until the next mark */
		}
		one_field(s, &s->rf->fields[field], args, nargs, shown++);
	}
}

bool dp_fields_parse(const u8 *items, size_t n)
{
	struct items it = {items, n};
	struct arg a;
	int r;

	while ((r = next_item(&it, &a)) > 0)
		;
	return !r;
}

void dp_walk_described(struct dp_sink *s, const struct dp_rpn_context *c, const u8 *items, size_t n)
{
	struct show show = {s, c->rf};

	show_all(&show, items, n);
}
