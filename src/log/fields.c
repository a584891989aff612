/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From a record's items to names and values, by the description that came with the program. The
 * bytes may be anything: they were written where the probed program can write, too.
 */
#include <stdio.h>
#include <string.h>

#include "log/fields.h"
#include "program/opcode.h"

#define DEPTH_MAX 32
#define ELEMENTS_MAX 256
#define ARGS_MAX 64
#define OUTPUT_MAX (256u << 10) /* of one record: arrays of arrays can be long */

struct show {
	struct dp_line *l;
	const struct dp_rf *rf;
	bool json;
	const struct dp_rpn_context *c;
};

static void put(struct dp_line *l, const char *fmt, ...) DP_PRINTF(2, 3);

static void put(struct dp_line *l, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dp_line_str(l, text);
}

/* Names come from the debug information. */
static void label(struct dp_line *l, const char *name)
{
	dp_line_clean(l, name, DP_MIN(strlen(name), (size_t)300), "");
	dp_line_str(l, " = ");
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

	n = end ? (size_t)(end - p) : n;
	if (s->json)
		dp_line_json_string(s->l, (const char *)p, n);
	else
		dp_line_c_string(s->l, (const char *)p, n, '"');
}

static void hex(struct show *s, const u8 *p, size_t n)
{
	dp_line_str(s->l, s->json ? "\"" : "");
	for (size_t i = 0; i < n; i++)
		put(s->l, "%02x", p[i]);
	dp_line_str(s->l, s->json ? "\"" : "");
}

/* ---- values ---- */

static void value(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n,
		  u32 depth);

static void character(struct show *s, u8 c)
{
	char one = (char)c;

	if (s->json)
		put(s->l, "%d", (s8)c);
	else if (c >= ' ' && c < 0x7f)
		dp_line_c_string(s->l, &one, 1, '\'');
	else
		put(s->l, "%d", (s8)c);
}

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
	/* JSON has no infinities. */
	if (s->json && strpbrk(buf, "in"))
		put(s->l, "\"%s\"", buf);
	else
		dp_line_str(s->l, buf);
}

static void complex(struct show *s, const u8 *p, u32 size)
{
	dp_line_str(s->l, s->json ? "[" : "");
	real(s, p, size / 2);
	dp_line_str(s->l, s->json ? "," : " + ");
	real(s, p + size / 2, size / 2);
	dp_line_str(s->l, s->json ? "]" : "i");
}

/* An integer of 128 bits, in decimal digits. */
static void wide(struct show *s, const u8 *p, bool is_signed)
{
	unsigned __int128 v;
	char digits[40];
	size_t n = sizeof(digits) - 1;

	memcpy(&v, p, sizeof(v));
	is_signed = is_signed && v >> 127;
	if (is_signed)
		v = -v;
	digits[n] = '\0';
	do {
		digits[--n] = (char)('0' + (unsigned)(v % 10));
		v /= 10;
	} while (v);
	put(s->l, "%s%s", is_signed ? "-" : "", digits + n);
}

static s64 extended(u64 v, u32 bits)
{
	return bits < 64 ? (s64)(v << (64 - bits)) >> (64 - bits) : (s64)v;
}

static void enumerator(struct show *s, const struct dp_rf_layout *e, u64 v)
{
	for (u32 i = 0; i < e->n; i++)
		if (extended((u64)e->members[i].value, e->size * 8) == extended(v, e->size * 8)) {
			if (s->json)
				dp_line_json_string(s->l, e->members[i].name,
						    strlen(e->members[i].name));
			else
				dp_line_clean(s->l, e->members[i].name, strlen(e->members[i].name), "");
			return;
		}
	put(s->l, "%lld", (long long)extended(v, e->size * 8));
}

static void code_pointer(struct show *s, u64 v)
{
	char buf[512];

	put(s->l, "0x%llx", (unsigned long long)v);
	if (s->c->symbolize && s->c->symbolize(s->c->symbolize_arg, v, buf, sizeof(buf)))
		put(s->l, " <%.380s>", buf);
}

static void scalar(struct show *s, const struct dp_rf_type *t, u64 v, u32 bits)
{
	if (t->kind == DP_RF_LAYOUT)
		enumerator(s, &s->rf->layouts[t->layout], v);
	else if (t->kind == DP_RF_CHAR)
		character(s, (u8)v);
	else if (t->kind == DP_RF_BOOL)
		dp_line_str(s->l, v ? "true" : "false");
	else if (t->kind == DP_RF_FLOAT && t->size <= sizeof(v))
		real(s, (const u8 *)&v, t->size);
	else if (t->kind == DP_RF_SIGNED)
		put(s->l, "%lld", (long long)extended(v, bits));
	else if (t->kind == DP_RF_CODE && !s->json)
		code_pointer(s, v);
	else if ((t->kind == DP_RF_HEX || t->kind == DP_RF_POINTER) && !s->json)
		put(s->l, "0x%llx", (unsigned long long)v);
	else
		put(s->l, "%llu", (unsigned long long)v);
}

static void members(struct show *s, const struct dp_rf_layout *l, const u8 *p, size_t n, u32 depth)
{
	dp_line_char(s->l, '{');
	for (u32 i = 0; i < l->n; i++) {
		const struct dp_rf_member *m = &l->members[i];
		size_t rest = m->offset < n ? n - m->offset : 0;

		dp_line_str(s->l, i ? (s->json ? "," : ", ") : "");
		if (s->json) {
			dp_line_json_string(s->l, m->name, strlen(m->name));
			dp_line_char(s->l, ':');
		} else if (*m->name) {
			label(s->l, m->name);
		}
		if (m->bits && rest) {
			u64 v = word_at(p + m->offset, rest) >> m->shift;

			scalar(s, &m->type, m->bits < 64 ? v & ((1ull << m->bits) - 1) : v,
			       m->bits);
		} else {
			value(s, &m->type, m->type.ndims, p + (rest ? m->offset : 0), rest,
			      depth + 1);
		}
	}
	dp_line_char(s->l, '}');
}

/* Who called: up to the end of the chain. */
static void frames(struct show *s, const u8 *p, size_t n)
{
	char buf[512];

	dp_line_char(s->l, s->json ? '[' : '{');
	for (size_t i = 0; 8 * i + 8 <= n && (!i || word_at(p + 8 * i, 8)); i++) {
		dp_symbol_text(s->c->symbolize, s->c->symbolize_arg, word_at(p + 8 * i, 8), i > 0, buf, sizeof(buf));
		dp_line_str(s->l, !i ? "" : s->json ? "," : ", ");
		if (s->json)
			dp_line_json_string(s->l, buf, strlen(buf));
		else
			dp_line_clean(s->l, buf, strlen(buf), "");
	}
	dp_line_char(s->l, s->json ? ']' : '}');
}

static void elements(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n,
		     u32 depth)
{
	u32 count = t->dims[ndims - 1];
	u64 size = t->size;

	for (u32 i = 0; i + 1 < ndims; i++)
		size *= t->dims[i];
	dp_line_char(s->l, s->json ? '[' : '{');
	for (u32 i = 0; i < count; i++) {
		u64 at = size * i;

		dp_line_str(s->l, i ? (s->json ? "," : ", ") : "");
		if (at >= n || i == ELEMENTS_MAX) {
			dp_line_str(s->l, s->json ? "null" : "...");
			break;
		}
		value(s, t, ndims - 1, p + at, n - at, depth + 1);
	}
	dp_line_char(s->l, s->json ? ']' : '}');
}

/* A value at p, of which n bytes are there. */
static void value(struct show *s, const struct dp_rf_type *t, u32 ndims, const u8 *p, size_t n,
		  u32 depth)
{
	u32 size = t->size;

	if (depth > DEPTH_MAX || s->l->n > OUTPUT_MAX || !n) {
		dp_line_str(s->l, s->json ? "null" : "...");
	} else if (t->kind == DP_RF_FRAME) {
		frames(s, p, n);
	} else if (ndims == 1 && t->kind == DP_RF_CHAR) {
		text(s, p, DP_MIN(n, (size_t)t->dims[0]));
	} else if (ndims) {
		elements(s, t, ndims, p, n, depth);
	} else if (t->kind == DP_RF_STRING) {
		text(s, p, n);
	} else if (t->kind == DP_RF_BYTES) {
		hex(s, p, n);
	} else if (t->kind == DP_RF_LAYOUT && !s->rf->layouts[t->layout].is_enum) {
		members(s, &s->rf->layouts[t->layout], p, n, depth);
	} else if (n < size) {
		dp_line_str(s->l, s->json ? "null" : "..."); /* the record ended */
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
			format_arg(&out, p, (size_t)(end - p) + 1,
				   next < nargs ? &args[next] : NULL);
			next++;
		}
		p = *end ? end : end - 1;
	}
	if (out.n && out.text[out.n - 1] == '\n')
		out.n--;
	if (s->json)
		dp_line_json_string(s->l, out.text ? out.text : "", out.n);
	else
		for (size_t i = 0, n; i < out.n; i += n + 1) {
			const char *line = out.text + i, *end = memchr(line, '\n', out.n - i);

			n = end ? (size_t)(end - line) : out.n - i;
			if (i)
				dp_line_str(s->l, "\n  ");
			dp_line_clean(s->l, line, n, "\t");
		}
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

static void begin(struct show *s, const char *name, bool first)
{
	if (!s->json) {
		dp_line_str(s->l, "  ");
		if (name)
			label(s->l, name);
		return;
	}
	dp_line_str(s->l, first ? "" : ",");
	dp_line_str(s->l, name ? "{\"name\":" : "{\"text\":");
	if (name) {
		dp_line_json_string(s->l, name, strlen(name));
		dp_line_str(s->l, ",\"value\":");
	}
}

static void one_field(struct show *s, const struct dp_rf_member *f, const struct arg *args,
		      u32 nargs, bool first)
{
	begin(s, f->type.kind == DP_RF_PRINTF ? NULL : f->name, first);
	if (f->type.kind == DP_RF_PRINTF)
		printf_line(s, f->name, args, nargs);
	else if (!nargs)
		dp_line_str(s->l, s->json ? "null" : "(nothing)");
	else if (args[0].token == DP_TOKEN_FAULT && args[0].n == 8)
		put(s->l, s->json ? "null,\"fault\":%llu" : "(fault at 0x%llx)",
		    (unsigned long long)word_at(args[0].p, 8));
	else if (f->type.kind == DP_RF_STRING || f->type.kind == DP_RF_BYTES)
		f->type.kind == DP_RF_STRING ? text(s, args[0].p, args[0].n)
					     : hex(s, args[0].p, args[0].n);
	else
		value(s, &f->type, f->type.ndims, args[0].p, args[0].n, 0);
	dp_line_str(s->l, s->json ? "}" : "\n");
}

static void unnamed(struct show *s, const struct arg *a, bool first)
{
	begin(s, "data", first);
	hex(s, a->p, a->n);
	dp_line_str(s->l, s->json ? "}" : "\n");
}

static bool show_all(struct show *s, const u8 *p, size_t n)
{
	struct items it = {p, n}, ahead;
	struct arg a, args[ARGS_MAX];
	u32 order = 0, field, other;
	bool first = true;
	int r;

	while ((r = next_item(&it, &a)) > 0) {
		u32 nargs = 0;

		if (!is_mark(s->rf, &a, &field)) {
			if (order < s->rf->nfields &&
			    s->rf->fields[order].type.kind != DP_RF_PRINTF)
				one_field(s, &s->rf->fields[order++], &a, 1, first);
			else
				unnamed(s, &a, first);
			first = false;
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
		one_field(s, &s->rf->fields[field], args, nargs, first);
		first = false;
	}
	return !r;
}

static bool show(struct dp_line *l, const struct dp_rpn_context *c, const u8 *p, size_t n, bool json)
{
	struct show s = {l, c->rf, json, c};
	size_t start = l->n;

	if (json)
		dp_line_char(l, '[');
	if (!show_all(&s, p, n)) {
		l->n = start;
		return false;
	}
	if (json)
		dp_line_char(l, ']');
	return true;
}

bool dp_fields_text(struct dp_line *l, const struct dp_rpn_context *c, const u8 *items, size_t n)
{
	return show(l, c, items, n, false);
}

bool dp_fields_json(struct dp_line *l, const struct dp_rpn_context *c, const u8 *items, size_t n)
{
	return show(l, c, items, n, true);
}
