/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is known at a place: its variables, with types and where they are, for `dprobes vars`. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "lang/dpcc/dpcc-unit.h"
#include "symbols/sym-lines.h"
#include "symbols/variable.h"

static const char *where_it_is(const struct dp_var *v)
{
	if (v->npieces != 1)
		return "in pieces";
	switch (v->pieces[0].kind) {
	case DP_PIECE_MEMORY:
		return "in memory";
	case DP_PIECE_REGISTER:
		return v->pieces[0].code;
	default:
		return "a value";
	}
}

static void put_var(struct dpcc *c, const struct dpcc_var *v)
{
	dp_cc_buf_put(c, &c->all, "  $%-16s ", v->name);
	if (v->where)
		dp_cc_buf_put(c, &c->all, "%s, %s\n", v->type ? v->type : "of unknown type", v->where);
	else
		dp_cc_buf_put(c, &c->all, "not available: %s%s%s\n", v->why, *v->hint ? "; " : "", v->hint);
}

static void show_var(struct dpcc *c, const char *name, int r, const struct dp_var *v, struct type *type,
		     const struct dp_error *err)
{
	const char *why = strstr(err->detail, ": ");
	bool reference = !r && type && dp_cc_probed_is_reference(c, v);
	struct dpcc_var shown = {
	    .name = dp_cc_one_line(c, name), .why = why ? why + 2 : err->detail, .hint = err->hint};
	char text[2 * DP_SHOWN_MAX];

	if (!r && type) {
		snprintf(text, sizeof(text), "%s%s", dp_cc_one_line(c, dp_cc_type_name(c, reference ? type->of : type)),
			 reference ? " &" : "");
		shown.type = text;
	}
	if (!r)
		shown.where = where_it_is(v);
	if (c->opt->take_var)
		c->opt->take_var(c->opt->take_arg, &shown);
	else
		put_var(c, &shown);
}

/* Where this is; file NULL: no line is known. */
static void show_place(struct dpcc *c, const char *place, const char *file, u32 line)
{
	if (c->opt->take_place) {
		c->opt->take_place(c->opt->take_arg, place, file, line);
		return;
	}
	dp_cc_buf_put(c, &c->all, "%s", place);
	if (file)
		dp_cc_buf_put(c, &c->all, " (%s:%u)", file, line);
	dp_cc_buf_put(c, &c->all, "\n");
}

static int show_module_var(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg)
{
	struct dpcc *c = arg;
	Dwarf_Die type = v->type;

	show_var(c, name, r, v, !r && v->has_type ? dp_cc_debug_type(c, &type) : NULL, err);
	return 0;
}

static void show_parameter(struct dpcc *c, const char *name)
{
	struct dp_error err = {0};
	struct type *type = NULL;
	struct dp_var v;
	int r = dp_cc_btf_variable(c, name, &v, &type, &err);

	show_var(c, name, r, &v, type, &err);
}

void dp_cc_unit_show_vars(struct unit *u)
{
	struct dpcc *c = &u->c;
	u64 addr = c->target.pc;
	struct dp_symbol sym = {.name = ""};
	char text[DP_SHOWN_MAX], place[DP_SHOWN_MAX + 32];
	struct dp_error why;
	const char *file;
	u32 line;

	if (!c->mod) {
		if (c->target.tracepoint)
			dp_tracepoint_text(c->target.tracepoint, place);
		else
			dp_format(place, sizeof(place), "%s+0x%llx", c->target.func, (unsigned long long)addr);
		show_place(c, place, NULL, 0);
		dp_cc_btf_each_parameter(c, show_parameter);
		return;
	}
	dp_module_symbol_at(c->mod, addr, &sym);
	dp_format(place, sizeof(place), "%s+0x%llx",
		  dp_cc_one_line(c, dp_symbol_shown(sym.name, false, text, sizeof(text))),
		  (unsigned long long)(addr - sym.addr));
	if (!dp_module_line_at(c->mod, addr, &file, &line))
		show_place(c, place, NULL, 0);
	else
		show_place(c, place, dp_cc_one_line(c, dp_base_name(file)), line);
	if (dp_var_each(c->mod, addr, c->target.copy_of, show_module_var, c, &why) < 0)
		dp_cc_refail(c, NULL, &why);
}
