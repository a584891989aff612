/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How text shows the parts of a record: " name=value" in the layout of the kprobe-based event tracer, "  name = value"
 * on a line of its own for probe programs. Kernel-clean: the kernel's trace files show values by it, too.
 */
#include "log/sink.h"

static void put_clean(struct dp_line *l, const char *text, size_t n)
{
	dp_line_clean(l, text, n, "");
}

static void put_label(struct dp_line *l, const char *name)
{
	put_clean(l, name, DP_MIN(strlen(name), (size_t)300)); /* names come from the debug information */
	dp_line_str(l, " = ");
}

void dp_put_field(struct dp_sink *s, const char *name, unsigned i)
{
	struct dp_line *l = s->line;

	dp_line_bytes(l, "  ", s->program ? 2 : 1);
	if (!name || (!name[0] && !s->program))
		return;
	if (s->program) {
		put_label(l, name);
		return;
	}
	if (*s->dim)
		dp_line_str(l, s->dim);
	dp_line_str(l, name);
	dp_line_char(l, '=');
	if (*s->plain)
		dp_line_str(l, s->plain);
}

void dp_put_group(struct dp_sink *s, enum dp_sink_group what)
{
	s->apart = what == DP_GROUP_COMPLEX ? " + " : s->program ? ", " : ",";
	if (what != DP_GROUP_COMPLEX)
		dp_line_char(s->line, '{');
	dp_sink_deeper(s);
}

void dp_put_member(struct dp_sink *s, const char *name)
{
	if (dp_sink_next(s))
		dp_line_str(s->line, name && *s->apart == ',' ? ", " : s->apart); /* a structure's have names */
	if (name && *name)
		put_label(s->line, name);
}

void dp_put_group_end(struct dp_sink *s, enum dp_sink_group what)
{
	dp_line_char(s->line, what == DP_GROUP_COMPLEX ? 'i' : '}');
	s->apart = s->program ? ", " : ","; /* a complex number is the innermost group */
	s->depth--;
}

/* A negative number in hexadecimal has the width of its type. */
static void put_hex(struct dp_line *l, const struct dp_sink_value *v)
{
	u64 bits = v->bits;

	if (v->bytes && v->bytes < 8)
		bits &= ((u64)1 << 8 * v->bytes) - 1;
	dp_line_hex(l, bits);
}

/* As C writes it: 0644. */
static void put_octal(struct dp_line *l, u64 bits)
{
	char digits[24];
	u32 at = sizeof(digits);

	do
		digits[--at] = (char)('0' + (bits & 7));
	while (bits >>= 3);
	if (digits[at] != '0')
		digits[--at] = '0';
	dp_line_bytes(l, digits + at, sizeof(digits) - at);
}

static void put_byte(struct dp_line *l, char c)
{
	if (c >= ' ' && c < 0x7f)
		dp_line_c_string(l, &c, 1, '\'');
	else
		dp_line_signed(l, (s8)c);
}

static void put_address(struct dp_sink *s, const struct dp_sink_value *v)
{
	char buf[DP_SINK_SYMBOL];

	s->symbol(s, v->bits, v->behind_call, buf, sizeof(buf));
	put_clean(s->line, buf, strlen(buf));
}

static void put_code(struct dp_sink *s, const struct dp_sink_value *v)
{
	char buf[DP_SINK_SYMBOL];

	dp_line_hex(s->line, v->bits);
	s->symbol(s, v->bits, false, buf, sizeof(buf));
	if (buf[0] == '0' && buf[1] == 'x') /* no name is known */
		return;
	dp_line_str(s->line, " <");
	put_clean(s->line, buf, DP_MIN(strlen(buf), (size_t)380));
	dp_line_char(s->line, '>');
}

static void put_lines(struct dp_line *l, const char *text, size_t size)
{
	for (size_t i = 0, n; i < size; i += n + 1) {
		for (n = 0; i + n < size && text[i + n] != '\n';)
			n++;
		if (i)
			dp_line_str(l, "\n  ");
		dp_line_clean(l, text + i, n, "\t");
	}
}

static void put_missing(struct dp_line *l, const struct dp_sink_value *v)
{
	static const char *const why[] = {[DP_MISSING_FAULT] = "(fault)",
					  [DP_MISSING_CUT] = "(cut)",
					  [DP_MISSING_REST] = "...",
					  [DP_MISSING_NOTHING] = "(nothing)"};

	if (v->missing != DP_MISSING_FAULT_AT) {
		dp_line_str(l, why[v->missing]);
		return;
	}
	dp_line_str(l, "(fault at ");
	dp_line_hex(l, v->bits);
	dp_line_char(l, ')');
}

void dp_put_value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct dp_line *l = s->line;
	char c = (char)v->bits;

	switch (v->kind) {
	case DP_SINK_UNSIGNED:
	case DP_SINK_SIGNED:
		if (v->hex)
			put_hex(l, v);
		else if (v->octal)
			put_octal(l, v->bits);
		else if (v->kind == DP_SINK_SIGNED)
			dp_line_signed(l, (s64)v->bits);
		else
			dp_line_dec(l, v->bits, 0, ' ');
		break;
	case DP_SINK_BOOL:
		dp_line_str(l, v->bits ? "true" : "false");
		break;
	case DP_SINK_CHAR:
		dp_line_c_string(l, &c, 1, '\'');
		break;
	case DP_SINK_BYTE:
		put_byte(l, c);
		break;
	case DP_SINK_CODE:
		put_code(s, v);
		break;
	case DP_SINK_ADDRESS:
		put_address(s, v);
		break;
	case DP_SINK_DIGITS:
		dp_line_bytes(l, v->text, v->len);
		break;
	case DP_SINK_TEXT:
		dp_line_c_string(l, v->text, v->len, '"');
		break;
	case DP_SINK_BYTES:
		dp_line_bytes_hex(l, v->text, v->len);
		break;
	case DP_SINK_NAME:
		put_clean(l, v->text, v->len);
		break;
	case DP_SINK_MESSAGE:
		put_lines(l, v->text, v->len);
		break;
	case DP_SINK_MISSING:
		put_missing(l, v);
		break;
	}
}
