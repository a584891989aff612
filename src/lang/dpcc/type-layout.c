/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How records describe types: the layouts in the declarations beside the code. */
#include <stdio.h>
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

/* Declarations of the same text are one: each probed instruction makes its own types. */
static u32 declare(struct dpcc *c, const char *text)
{
	struct buf *b = &c->decls;
	char *line = b->s ? strstr(b->s, text) : NULL;
	u32 n = 0;

	if (line) {
		while (line > b->s && line[-1] != '\n')
			line--;
		sscanf(line, "layout = T%u", &n);
		return n;
	}
	dp_cc_buf_put(c, b, "layout = T%u", ++c->ntypes);
	dp_cc_buf_add(c, b, text, strlen(text));
	return c->ntypes;
}

static void put_members(struct dpcc *c, struct buf *b, struct type *t, const struct tok *at)
{
	bool first = true;

	for (struct member *m = t->members; m; m = m->next) {
		const char *type = dp_cc_type_field(c, m->type, at);

		dp_cc_buf_put(c, b, "%s", first ? " " : ", ");
		dp_cc_put_quoted(c, b, m->name);
		dp_cc_buf_put(c, b, " %s @ %llu", type, (unsigned long long)m->offset);
		if (m->bits)
			dp_cc_buf_put(c, b, " bits %u %u", m->shift, m->bits);
		first = false;
	}
}

/* What a variant has, if anything: of a tuple of one element that element. */
static bool content_of(struct dpcc *c, const struct variant *v, struct member *content)
{
	struct member *first;

	*content = v->content;
	if (content->type->lazy)
		dp_cc_debug_complete(c, content->type);
	first = content->type->members;
	if (content->type->kind == TY_STRUCT && first && !first->next && !strcmp(first->name, "__0")) {
		content->offset += first->offset;
		content->type = first->type;
		return content->type->size > 0;
	}
	return content->type->kind != TY_STRUCT || first || content->type->variants;
}

static void put_variants(struct dpcc *c, struct buf *b, const struct variant_part *p, const struct tok *at)
{
	for (const struct variant *v = p->list; v; v = v->next) {
		struct member m;
		bool has_content = content_of(c, v, &m);
		const char *type = has_content ? dp_cc_type_field(c, m.type, at) : NULL;

		dp_cc_buf_put(c, b, "%s", v == p->list ? " " : ", ");
		dp_cc_put_quoted(c, b, m.name);
		if (has_content)
			dp_cc_buf_put(c, b, " %s @ %llu", type, (unsigned long long)m.offset);
		if (!v->is_default)
			dp_cc_buf_put(c, b, " is %lld", (long long)v->number);
	}
}

/* Of the formats of 16 bytes only the processor's own is shown as a number. */
static const char *real_field(struct dpcc *c, const struct type *t)
{
	u64 one = t->is_complex ? t->size / 2 : t->size;

	if (one != 4 && one != 8 && (one != 16 || !t->name || strstr(t->name, "128")))
		return dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size);
	if (t->is_complex)
		return dp_cc_format(c, "c%llu", (unsigned long long)t->size * 8);
	return one == 16 ? "f80" : one == 8 ? "f64" : "f32";
}

const char *dp_cc_type_field(struct dpcc *c, struct type *t, const struct tok *at)
{
	struct buf b = {0};

	if (t->lazy)
		dp_cc_debug_complete(c, t);
	switch (t->kind) {
	case TY_PTR:
		return t->of->kind == TY_FUNC ? "code" : "ptr";
	case TY_FLOAT:
		return real_field(c, t);
	case TY_ARRAY:
		return dp_cc_format(c, "%s[%llu]", dp_cc_type_field(c, t->of, at), (unsigned long long)t->n);
	case TY_INT:
		if (!t->enums)
			return t->is_bool   ? "bool"
			       : t->is_char ? "char"
			       : t->size > 16 || t->size & (t->size - 1)
				   ? dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size)
				   : dp_cc_format(c, "%c%llu",
						  t->is_octal      ? 'o'
						  : t->is_unsigned ? 'u'
								   : 's',
						  (unsigned long long)t->size * 8);
		if (t->number)
			return dp_cc_format(c, "T%u", t->number);
		dp_cc_buf_put(c, &b, " %llu %s%s {", (unsigned long long)t->size, t->is_flags ? "flags" : "enum",
			      t->is_hex    ? " hex"
			      : t->is_half ? " half"
					   : "");
		for (struct enumerator *e = t->enums; e; e = e->next) {
			dp_cc_buf_put(c, &b, "%s", e == t->enums ? " " : ", ");
			dp_cc_put_quoted(c, &b, e->name);
			dp_cc_buf_put(c, &b, " %lld", (long long)e->value);
			if (t->is_flags && e->mask != (u64)e->value)
				dp_cc_buf_put(c, &b, " of %llu", (unsigned long long)e->mask);
		}
		break;
	case TY_STRUCT:
		if (!t->complete || t->is_opaque)
			return dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size);
		if (t->number)
			return dp_cc_format(c, "T%u", t->number);
		if (t->variants) {
			dp_cc_buf_put(c, &b, " %llu variants u%llu @ %llu {", (unsigned long long)t->size,
				      (unsigned long long)t->variants->discriminant->size * 8,
				      (unsigned long long)t->variants->offset);
			put_variants(c, &b, t->variants, at);
			break;
		}
		dp_cc_buf_put(c, &b, " %llu %s {", (unsigned long long)t->size, t->is_union ? "union" : "struct");
		put_members(c, &b, t, at);
		break;
	default:
		dp_cc_fail(c, at, E_DPCC_TYPE, "this cannot be logged: %s", dp_cc_type_name(c, t));
	}
	dp_cc_buf_put(c, &b, " }\n");
	t->number = declare(c, b.s);
	return dp_cc_format(c, "T%u", t->number);
}
