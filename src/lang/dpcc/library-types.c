/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Types of the libraries of C++, Rust and Go whose structure is not what a user means by them: texts with a length,
 * vectors, pointers that own. Their parts are found by the members' names, however deep these lie.
 */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

#define DEPTH 8

static const struct library_type {
	const char *type; /* its name up to the parameters */
	const char *first, *second;
} texts[] =
    {
	{"basic_string<char", "_M_p", "_M_string_length"},
	{"string", "str", "len"},       /* Go */
	{"&str", "data_ptr", "length"}, /* Rust */
	{"String", "pointer", "len"},
},
  vectors[] = {{"vector", "_M_start", "_M_finish"}},
  owners[] = {
      {"unique_ptr", "_M_head_impl", NULL},
      {"shared_ptr", "_M_ptr", NULL},
};

/* The first scalar member of this name, also of members. */
static struct member *find(struct dpcc *c, struct type *t, const char *name, u64 *offset, u32 depth)
{
	if (t->lazy)
		dp_cc_debug_complete(c, t);
	for (struct member *m = t->members; m && depth < DEPTH; m = m->next) {
		struct member *inner = NULL;

		if (!strcmp(m->name, name) && dp_cc_type_is_scalar(m->type)) {
			*offset += m->offset;
			return m;
		}
		*offset += m->offset;
		if (m->type->kind == TY_STRUCT)
			inner = find(c, m->type, name, offset, depth + 1);
		if (inner)
			return inner;
		*offset -= m->offset;
	}
	return NULL;
}

struct node *dp_cc_inside(struct dpcc *c, struct node *of, const struct member *m, u64 offset)
{
	struct node *n = dp_cc_node_new(c, N_MEMBER, of->tok);

	n->member = dp_cc_alloc(c, sizeof(*m));
	*n->member = *m;
	n->member->offset = offset;
	n->a = of;
	n->type = m->type;
	n->in_target = of->in_target;
	return n;
}

/* NULL: it has none. */
static struct node *part(struct dpcc *c, struct node *of, const char *name)
{
	u64 offset = 0;
	struct member *m = find(c, of->type, name, &offset, 0);

	return m ? dp_cc_inside(c, of, m, offset) : NULL;
}

static bool parts(struct dpcc *c, struct node *n, const struct library_type *of, u32 many, struct node **first,
		  struct node **second)
{
	const char *name = n->type->kind == TY_STRUCT ? n->type->name : NULL;

	for (u32 i = 0; name && i < many; i++) {
		size_t len = strlen(of[i].type);

		if (strncmp(name, of[i].type, len) != 0 || (name[len] && name[len] != ',' && name[len] != '<'))
			continue;
		*first = part(c, n, of[i].first);
		*second = of[i].second ? part(c, n, of[i].second) : NULL;
		if (*first && (*first)->type->kind == TY_PTR && (!of[i].second || *second))
			return true;
	}
	return false;
}

bool dp_cc_library_text(struct dpcc *c, struct node *n, struct node **text, struct node **length)
{
	return parts(c, n, texts, DP_ARRAY_SIZE(texts), text, length);
}

bool dp_cc_library_vector(struct dpcc *c, struct node *n, struct node **begin, struct node **end)
{
	return parts(c, n, vectors, DP_ARRAY_SIZE(vectors), begin, end);
}

/* Where an interface of Go has its type: a word of it, or of what that points to. */
struct node *dp_cc_go_interface(struct dpcc *c, struct node *n, s64 *type_at)
{
	const char *name = n->type->kind == TY_STRUCT ? n->type->name : NULL;
	struct type *table;
	struct node *word;
	u64 offset = 0;

	*type_at = -1;
	if (name && !strcmp(name, "runtime.eface"))
		return part(c, n, "_type");
	word = name && !strcmp(name, "runtime.iface") ? part(c, n, "tab") : NULL;
	table = word && word->type->kind == TY_PTR ? word->type->of : NULL;
	if (!table || (!find(c, table, "_type", &offset, 0) && !find(c, table, "Type", &offset, 0)))
		return NULL;
	*type_at = (s64)offset;
	return word;
}

struct node *dp_cc_library_owned(struct dpcc *c, struct node *n)
{
	struct node *pointer, *none;

	return parts(c, n, owners, DP_ARRAY_SIZE(owners), &pointer, &none) ? pointer : NULL;
}
