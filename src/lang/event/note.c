/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Operands of static probes (SystemTap's notes): `8@%rdi -4@-20(%rbp) 8@16(%rax,%rbx,8) 4@$5 8@counter+8(%rip)`, in the
 * syntax of the GNU assembler, with the size in front, negative where the value is signed. Notes stand in files that
 * anybody may have made.
 */
#include "lang/event/event-priv.h"

struct operand {
	const char *p, *end;
};

/* The operand of that number, from 1; false: there are not so many. */
static bool find_operand(const char *note, u64 n, struct operand *o)
{
	for (const char *p = note; *p;) {
		const char *start;

		while (*p == ' ')
			p++;
		start = p;
		while (*p && *p != ' ')
			p++;
		if (p > start && !--n) {
			*o = (struct operand){start, p};
			return true;
		}
	}
	return false;
}

static u32 count_operands(const char *note)
{
	struct operand o;
	u32 n = 0;

	while (n < EV_ARGN_MAX && find_operand(note, n + 1, &o))
		n++;
	return n;
}

static int unknown(struct dp_event_line *l, const struct ev_fetch *f, const struct operand *o, const char *why)
{
	return dp_ev_fail(l, f->start, E_EVENT_OPERAND, "`%.*s`: %s", (int)DP_MIN(o->end - o->p, 80), o->p, why);
}

/* A number as the assembler writes it, with a sign; false: there is none, and nothing was read. */
static bool read_number(const char **p, const char *end, s64 *v)
{
	const char *q = *p;
	bool negative = false;
	u64 sum = 0;

	while (q < end && (*q == '-' || *q == '+'))
		negative ^= *q++ == '-';
	if (q == end || !dp_ev_is_digit(*q))
		return false;
	if (end - q > 2 && q[0] == '0' && q[1] == 'x') {
		for (q += 2; q < end; q++) {
			u32 digit = dp_ev_is_digit(*q)		 ? (u32)(*q - '0')
				    : *q >= 'a' && *q <= 'f' ? (u32)(*q - 'a' + 10)
							     : 16u;

			if (digit == 16)
				break;
			sum = sum << 4 | digit;
		}
	} else {
		while (q < end && dp_ev_is_digit(*q))
			sum = sum * 10 + (u32)(*q++ - '0');
	}
	*v = (s64)(negative ? -sum : sum);
	*p = q;
	return true;
}

static bool read_register(const char **p, const char *end, struct dp_register_part *part)
{
	const char *q = *p;
	u32 n = 0;

	if (q == end || *q != '%')
		return false;
	q++;
	while (q + n < end && dp_ev_is_word(q[n]))
		n++;
	*p = q + n;
	return dp_register_find(q, n, part);
}

/* A name of the program, with an offset; of static data as well. */
static int read_symbol(struct dp_event_line *l, struct ev_fetch *f, const char **p, const char *end)
{
	const char *q = *p;
	s64 more;
	int ret;

	while (q < end && (dp_ev_is_word(*q) || *q == '.' || *q == '$' || *q == '@'))
		q++;
	f->base = EV_SYMBOL;
	f->text_len = (u16)(q - *p);
	ret = dp_ev_keep(l, *p, (u32)(q - *p), &f->text);
	while (!ret && q < end && (*q == '+' || *q == '-') && read_number(&q, end, &more))
		f->value += (u64)more;
	*p = q;
	return ret;
}

/* (%base,%index,scale) */
static bool read_index(struct ev_fetch *f, const char **p, const char *end)
{
	struct dp_register_part base, index;
	bool has_base;
	s64 scale = 1;
	const char *q = *p + 1;

	has_base = read_register(&q, end, &base);
	if (has_base && (base.width != 64 || f->base == EV_SYMBOL) && !(base.reg->reg_word == DP_REG_WORD(ip)))
		return false;
	if (has_base && base.reg->reg_word == DP_REG_WORD(ip)) {
		*p = q + 1;
		return q < end && *q == ')' && f->base == EV_SYMBOL; /* the symbol is the address */
	}
	if (has_base) {
		f->base = EV_REG;
		f->reg_word = (u8)base.reg->reg_word;
		f->width = 64;
	} else if (f->base != EV_SYMBOL) {
		f->base = EV_CONST;
		f->value = 0;
	}
	if (q < end && *q == ',') {
		q++;
		if (!read_register(&q, end, &index) || index.width != 64)
			return false;
		if (q < end && *q == ',') {
			q++;
			if (!read_number(&q, end, &scale))
				return false;
		}
		if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
			return false;
		f->index_word = (u8)index.reg->reg_word;
		f->scale = (u8)scale;
	}
	*p = q + 1;
	return q < end && *q == ')';
}

/* Memory: disp(...), symbol(%rip), symbol. */
static int read_memory(struct dp_event_line *l, struct ev_fetch *f, const struct operand *o, const char *p)
{
	s64 disp = 0;
	int ret = 0;

	f->base = EV_CONST;
	read_number(&p, o->end, &disp);
	while (p < o->end && *p == '+')
		p++;
	if (p < o->end && *p != '(')
		ret = read_symbol(l, f, &p, o->end);
	if (ret)
		return ret;
	if (p < o->end && (*p != '(' || !read_index(f, &p, o->end)))
		return unknown(l, f, o, "no such place in memory is known");
	if (p != o->end || disp != (s32)disp)
		return unknown(l, f, o, "no such place in memory is known");
	f->nderef = 1;
	f->deref[0] = (s32)disp;
	return 0;
}

static int read_operand(struct dp_event_line *l, struct ev_fetch *f, const struct operand *o, const char *p)
{
	struct dp_register_part part;
	s64 value;

	if (p < o->end && *p == '%') {
		if (p + 3 < o->end && ((p[1] == 'x' && p[2] == 'm') || (p[1] == 'y' && p[2] == 'm')))
			return unknown(l, f, o, "it is in a vector register, which programs cannot read");
		if (!read_register(&p, o->end, &part) || p != o->end)
			return unknown(l, f, o, "there is no such register");
		f->base = EV_REG;
		f->reg_word = (u8)part.reg->reg_word;
		f->width = part.width;
		f->shift = part.shift;
		return 0;
	}
	if (p < o->end && *p == '$') {
		p++;
		f->base = EV_CONST;
		if (read_number(&p, o->end, &value) && p == o->end) {
			f->value = (u64)value;
			return 0;
		}
		return p < o->end ? read_symbol(l, f, &p, o->end) : unknown(l, f, o, "a number is missing");
	}
	return read_memory(l, f, o, p);
}

int dp_ev_note_argument(struct dp_event_line *l, struct ev_fetch *f, u64 n)
{
	const char *note = l->env ? l->env->note : NULL;
	struct operand o;
	const char *p;
	s64 size = 8;

	if (!n || n > EV_ARGN_MAX)
		return dp_ev_fail(l, f->start, E_EVENT_ARGN, "%llu", (unsigned long long)n);
	f->note_size = 8;
	if (!note) { /* the place is not known yet */
		f->base = EV_CONST;
		return 0;
	}
	if (!find_operand(note, n, &o))
		return dp_ev_fail(l, f->start, E_EVENT_ARGN, "the probe has %u", count_operands(note));
	p = o.p;
	if (read_number(&p, o.end, &size)) {
		if (p < o.end && *p == 'f')
			return unknown(l, f, &o, "floating point");
		if (p < o.end && *p == '@') {
			p++;
		} else { /* it has no size: that was the operand */
			p = o.p;
			size = 8;
		}
	}
	if (size != 1 && size != 2 && size != 4 && size != 8 && size != -1 && size != -2 && size != -4 && size != -8)
		return unknown(l, f, &o, "there is no such size");
	f->note_size = (s8)size;
	return read_operand(l, f, &o, p);
}

