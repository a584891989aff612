/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Operands of static probes: `8@%rdi -4@-20(%rbp) 8@16(%rax,%rbx,8) 4@$5 8@counter+8(%rip)`, in the syntax of the GNU
 * assembler, with the size in front, negative where the value is signed. What is not understood is refused.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"
#include "program/code.h"
#include "symbols/statics.h"

struct operand {
	const char *p, *end;
	char *code;
	size_t used;
	struct dp_module *mod;
	const char *why;
};

static bool fails(struct operand *o, const char *why)
{
	o->why = why;
	return false;
}

static bool put(struct operand *o, const char *fmt, ...) DP_PRINTF(2, 3);
static bool put(struct operand *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->code + o->used, STATIC_CODE - o->used, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= STATIC_CODE - o->used)
		return fails(o, "it is too long");
	o->used += (size_t)n;
	return true;
}

static bool at(const struct operand *o, char c)
{
	return o->p < o->end && *o->p == c;
}

static bool take(struct operand *o, char c)
{
	if (!at(o, c))
		return false;
	o->p++;
	return true;
}

/* A number as the assembler writes it; false: none is here, and nothing was read. */
static bool number(struct operand *o, s64 *v)
{
	const char *q = o->p;
	bool negative = false;
	char *behind;
	u64 sum;

	while (q < o->end && (*q == '-' || *q == '+'))
		negative ^= *q++ == '-';
	if (q == o->end || !isdigit((unsigned char)*q))
		return false;
	sum = strtoull(q, &behind, 0);
	*v = (s64)(negative ? -sum : sum);
	o->p = behind;
	return true;
}

/* %REG: pushed as a whole register is, part says which bits are meant. */
static bool reg(struct operand *o, struct dp_register_part *part)
{
	u32 n = 0;

	o->p++;
	while (o->p + n < o->end && isalnum((unsigned char)o->p[n]))
		n++;
	if (n > 2 && (o->p[0] == 'x' || o->p[0] == 'y' || o->p[0] == 'z') && !memcmp(o->p + 1, "mm", 2))
		return fails(o, "it is in a vector register, which cannot be read");
	if (!dp_register_find(o->p, n, part))
		return fails(o, "there is no such register");
	o->p += n;
	return true;
}

/* A name of the module's data, as an address. */
static bool symbol(struct operand *o, u64 *addr)
{
	char name[256];
	struct dp_symbol sym;
	struct dp_error ignored;
	size_t n = 0;

	while (o->p + n < o->end && (isalnum((unsigned char)o->p[n]) || strchr("_.$@", o->p[n])))
		n++;
	if (!n || n >= sizeof(name))
		return fails(o, "this form of operand is not supported");
	memcpy(name, o->p, n);
	name[n] = '\0';
	o->p += n;
	if (dp_module_symbol(o->mod, name, &sym, &ignored))
		return fails(o, "the module has no such symbol, or more than one");
	*addr = sym.addr;
	return true;
}

static bool is_instruction_pointer(const struct dp_register_part *part)
{
	struct dp_register_part ip;

	return dp_register_find(DP_NAME_IP, strlen(DP_NAME_IP), &ip) && part->reg == ip.reg;
}

/* (%base,%index,scale): their sum is added to what was pushed. */
static bool indexed(struct operand *o, bool has_symbol)
{
	struct dp_register_part part;
	s64 scale = 1;

	if (at(o, '%')) {
		if (!reg(o, &part))
			return false;
		if (is_instruction_pointer(&part)) /* the symbol is the address already */
			return has_symbol && take(o, ')') ? true
							  : fails(o, "only a name can be relative to %" DP_NAME_IP);
		if (part.width != 64)
			return fails(o, "the base must be a 64-bit register");
		if (!put(o, "push r,%s;add;", part.reg->names[0]))
			return false;
	}
	if (take(o, ',')) {
		if (!at(o, '%') || !reg(o, &part) || part.width != 64)
			return fails(o, "the index must be a 64-bit register");
		if (take(o, ',') && !number(o, &scale))
			return fails(o, "the scale is not a number");
		if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
			return fails(o, "the scale must be 1, 2, 4 or 8");
		if (!put(o, "push r,%s;push d,%lld;mul;add;", part.reg->names[0], (long long)scale))
			return false;
	}
	return take(o, ')') ? true : fails(o, "a parenthesis is missing");
}

/* DISPLACEMENT, NAME+N, both with (..) behind them or without: an address, pushed. */
static bool address(struct operand *o)
{
	s64 disp = 0, more;
	u64 addr = 0;
	bool has_symbol;

	number(o, &disp);
	take(o, '+');
	has_symbol = o->p < o->end && !at(o, '(');
	if (has_symbol && !symbol(o, &addr))
		return false;
	while (o->p < o->end && (at(o, '+') || at(o, '-')) && number(o, &more))
		disp += more;
	if (has_symbol ? !put(o, "push d,.base+%lld;", (long long)(addr + (u64)disp))
		       : !put(o, "push d,%lld;", (long long)disp))
		return false;
	return take(o, '(') ? indexed(o, has_symbol) : true;
}

static bool extend(struct operand *o, int size)
{
	u32 bits = 8 * (u32)abs(size);

	return bits == 64 || put(o, "%cx%u;", size < 0 ? 's' : 'z', bits);
}

static bool value(struct operand *o, int size)
{
	struct dp_register_part part;
	s64 v;
	u64 addr;

	if (at(o, '%'))
		return reg(o, &part) && put(o, "push r,%s;", part.reg->names[0]) &&
		       (!part.shift || put(o, "shr,%u;", part.shift)) && extend(o, size);
	if (take(o, '$')) {
		if (number(o, &v))
			return put(o, "push d,%lld;", (long long)v) && extend(o, size);
		if (!symbol(o, &addr))
			return false;
		v = 0;
		number(o, &v);
		return put(o, "push d,.base+%lld;", (long long)(addr + (u64)v));
	}
	return address(o) && put(o, "push mem,u%d;", 8 * abs(size)) && (size > 0 || extend(o, size));
}

/* The operand of that number; false: there are not so many. */
static bool find(struct operand *o, const char *args, u32 n)
{
	for (const char *p = args + strspn(args, " "); *p; p += strspn(p, " ")) {
		const char *end = p + strcspn(p, " ");

		if (!--n) {
			o->p = p;
			o->end = end;
			return true;
		}
		p = end;
	}
	return false;
}

int dp_cc_static_operand(struct dp_module *m, const struct dp_static *s, u32 n, char code[STATIC_CODE], int *size,
			 const char **why)
{
	struct operand o = {.code = code, .mod = m, .why = "this form of operand is not supported"};
	const char *start;
	s64 bytes = 8;

	if (!n || !find(&o, s->args, n))
		return 1;
	start = o.p;
	if (!number(&o, &bytes) || !at(&o, '@')) {
		if (o.p > start && at(&o, 'f')) {
			*why = "floating-point arguments cannot be read";
			return -1;
		}
		o.p = start; /* without a size: the whole is the operand */
		bytes = 8;
	} else {
		o.p++;
	}
	*why = "this size is not supported";
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != -1 && bytes != -2 && bytes != -4 &&
	    bytes != -8)
		return -1;
	*size = (int)bytes;
	if (value(&o, *size) && o.p == o.end)
		return 0;
	*why = o.why;
	return -1;
}
