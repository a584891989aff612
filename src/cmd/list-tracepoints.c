/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes funcs 't PATTERN'`: tracepoints of the kernel and its modules, with their arguments. Changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/tracepoints.h"

struct listing {
	struct dp_tracepoints all;
	const char *system, *name, *module;
	bool json;
	bool is_open; /* the row of a tracepoint, to which its arguments are added */
	struct dp_json *j;
	u64 n;
};

static void end_row(struct listing *l)
{
	if (!l->is_open)
		return;
	l->is_open = false;
	if (l->json) {
		dp_json_close(l->j, ']');
		dp_json_close(l->j, '}');
		dp_ui_json_end(l->j);
		*l->j->line = (struct dp_line){0};
	} else {
		putchar('\n');
	}
}

static void begin_row(void *arg, const char *place, const char *file, u32 line)
{
	struct listing *l = arg;
	char system[64];
	const char *name = dp_tracepoint_split(place, system, sizeof(system));

	end_row(l);
	l->is_open = true;
	l->n++;
	if (!l->json) {
		printf("%-40s", dp_ui_clean(place));
		return;
	}
	dp_json_open(l->j, '{');
	dp_json_put_string(l->j, "tracepoint", name);
	dp_json_put_string_or_null(l->j, "system", *system ? system : NULL);
	dp_json_put_string_or_null(l->j, "module", *l->module ? l->module : NULL);
	dp_json_key(l->j, "arguments");
	dp_json_open(l->j, '[');
}

static void add_argument(void *arg, const struct dpcc_var *v)
{
	struct listing *l = arg;

	if (!l->json) {
		printf(" $%s (%s)", dp_ui_clean(v->name), dp_ui_clean(v->type ? v->type : "?"));
		return;
	}
	dp_json_open(l->j, '{');
	dp_json_put_string(l->j, "name", v->name);
	dp_json_put_string_or_null(l->j, "type", v->type);
	dp_json_close(l->j, '}');
}

/* Those of the kernel itself ("") or of one module: what it knows of their arguments is read once. */
static int list_module(struct listing *l, struct dp_error *err)
{
	char place[256];
	struct dpcc_options opt = {.vars_at = place,
				   .vars_of = *l->module ? DP_RPN_KMOD : DP_RPN_KERNEL,
				   .take_place = begin_row,
				   .take_var = add_argument,
				   .take_arg = l};
	struct dpcc_result res;
	int r;

	snprintf(place, sizeof(place), "t %.64s%s%.128s", l->system, *l->system ? ":" : "", l->name);
	r = dp_cc_compile(l->module, &opt, &res, err);
	end_row(l);
	if (!r)
		dp_cc_result_free(&res);
	return r;
}

/* Of all with this module the first. */
static bool is_first(const struct listing *l, u32 at)
{
	for (u32 i = 0; i < at; i++)
		if (!strcmp(l->all.v[i].module, l->all.v[at].module) &&
		    dp_tracepoint_matches(&l->all.v[i], l->system, l->name))
			return false;
	return dp_tracepoint_matches(&l->all.v[at], l->system, l->name);
}

static int list_all(struct listing *l, struct dp_error *err)
{
	int r = dp_tracepoints_read(&l->all, err);

	if (!r && !l->json)
		printf("%s%-40s %s%s\n", dp_ui_style(stdout, UI_BOLD), "TRACEPOINT", "ARGUMENTS",
		       dp_ui_style(stdout, UI_PLAIN));
	for (u32 i = 0; !r && i < l->all.n && !ferror(stdout); i++) {
		if (!is_first(l, i))
			continue;
		l->module = l->all.v[i].module;
		r = list_module(l, err);
	}
	if (!r && !l->n)
		r = dp_tracepoints_none(&l->all, l->system, l->name, err);
	dp_tracepoints_free(&l->all);
	return r;
}

int dp_cmd_funcs_tracepoints(const char *text, bool json)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};
	struct listing l = {.json = json, .j = &j};
	struct dp_error err = {.column = -1};
	char system[64];

	l.name = dp_tracepoint_split(*text ? text : "*", system, sizeof(system));
	l.system = system;
	if (list_all(&l, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	if (!fflush(stdout))
		fprintf(dp_ui_notes(), "%llu tracepoint%s\n", (unsigned long long)l.n, l.n == 1 ? "" : "s");
	return CMD_OK;
}
