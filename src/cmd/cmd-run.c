/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes run`: the lines of a recipe with the user's values in them, and then `dprobes trace`. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd-trace.h"
#include "cmd/recipes.h"

#define NAME_COLUMNS 18

struct run_args {
	const char *name;   /* NULL: none */
	const char **given; /* PARAMETER=VALUE */
	char **passed;      /* options of trace, as --NAME or --NAME=VALUE; [0] is left to the command's name */
	int ngiven, npassed;
	bool show, json;
	char **command;
};

static int take_option(void *arg, int id, const char *value)
{
	struct run_args *a = arg;
	const struct cmd_option *o = NULL;
	char *word;

	if (id == OPT_SHOW) {
		a->show = true;
		return CMD_OK;
	}
	a->json |= id == OPT_JSON;
	if (id == CMD_OPT_OPERAND) {
		if (!a->name)
			a->name = value;
		else
			a->given[a->ngiven++] = value;
		return CMD_OK;
	}
	while ((o = dp_cmd_option_after(VERB_RUN, o)) && (int)o->id != id)
		;
	if (!o || asprintf(&word, value ? "--%s=%s" : "--%s", o->name, value) < 0)
		return dp_ui_fail(E_FILE_MEMORY, NULL, "options");
	a->passed[++a->npassed] = word;
	return CMD_OK;
}

static void json_recipe(const char *name, const struct recipe *r)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "recipe", name);
	dp_json_put_string(&j, "title", r->title);
	dp_json_put_string_or_null(&j, "needs", r->needs);
	dp_json_put_string_or_null(&j, "example", r->example);
	dp_json_key(&j, "parameters");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < r->nparams; i++) {
		dp_json_open(&j, '{');
		dp_json_put_string(&j, "name", r->params[i].name);
		dp_json_put_string_or_null(&j, "value", r->params[i].value);
		dp_json_put_string(&j, "about", r->params[i].about);
		dp_json_close(&j, '}');
	}
	dp_json_close(&j, ']');
	dp_json_key(&j, "lines");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < r->nlines; i++) {
		dp_json_open(&j, '{');
		dp_json_put_string(&j, "text", r->lines[i].text);
		dp_json_put_bool(&j, "optional", r->lines[i].optional);
		dp_json_close(&j, '}');
	}
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static int list_all(bool json)
{
	struct recipe_names names;
	struct dp_error err;
	struct recipe r;

	dp_recipe_names(&names);
	for (u32 i = 0; i < names.n; i++) {
		if (dp_recipe_open(&r, names.v[i], &err))
			dp_ui_error(&err, NULL);
		else if (json)
			json_recipe(names.v[i], &r);
		else
			printf("%-*s  %s\n", NAME_COLUMNS, dp_ui_clean(names.v[i]), dp_ui_clean(r.title));
		dp_recipe_free(&r);
	}
	dp_recipe_names_free(&names);
	return CMD_OK;
}

static const char *recipe_name(int i, void *arg)
{
	const struct recipe_names *names = arg;

	return (u32)i < names->n ? names->v[i] : NULL;
}

static int tell(struct dp_error *err, const char *name)
{
	struct recipe_names names = {NULL};
	const char *near;

	if (err->code == E_CMD_RECIPE) {
		dp_recipe_names(&names);
		near = dp_ui_nearest(name, recipe_name, &names);
		if (near)
			dp_error_hint(err, "did you mean `dprobes run %.60s`?", near);
	}
	dp_ui_error(err, NULL);
	dp_recipe_names_free(&names);
	return dp_ui_status(err->code);
}

/* As the shell takes it back. */
static void put_quoted(const char *s)
{
	if (*s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%") == strlen(s)) {
		printf(" %s", s);
		return;
	}
	printf(" '");
	for (; *s; s++)
		printf(*s == '\'' ? "'\\''" : "%c", *s);
	putchar('\'');
}

static int show(const struct recipe *r, const struct run_args *a, char *const *lines)
{
	struct dp_error err;
	char *text = dp_recipe_fill(r, r->source, &err);

	if (!text)
		return tell(&err, a->name);
	dp_ui_put_text(stdout, text);
	free(text);
	printf("\n# The same, but for lines that begin with ? (they are left out where there is no such place):\n"
	       "# dprobes trace");
	for (int i = 1; i <= a->npassed; i++)
		put_quoted(dp_ui_clean(a->passed[i]));
	if (!a->npassed && !a->command)
		printf(" -p PID");
	for (u32 i = 0; i < r->nlines; i++) {
		printf(" \\\n#    ");
		put_quoted(dp_ui_clean(lines[i]));
	}
	if (a->command)
		printf(" --");
	for (char **word = a->command; word && *word; word++)
		put_quoted(dp_ui_clean(*word));
	putchar('\n');
	return CMD_OK;
}

/* The lines, filled in; the trace takes the options and the command. */
static int trace(const struct recipe *r, struct run_args *a, char *const *lines)
{
	struct trace t = {.status = CMD_OK};
	struct dp_error err;
	int n = a->npassed + 1;

	for (u32 i = 0; i < r->nlines; i++) {
		if (dp_event_lines_add(&t.lines, lines[i], "", &err)) {
			dp_event_lines_free(&t.lines);
			return tell(&err, a->name);
		}
		t.lines.v[i].optional = r->lines[i].optional;
	}
	a->passed[0] = "run";
	if (a->command)
		a->passed[n++] = "--";
	for (char **word = a->command; word && *word; word++)
		a->passed[n++] = *word;
	a->passed[n] = NULL;
	return dp_cmd_trace_events(&t, VERB_RUN, n, a->passed);
}

static int run(struct recipe *r, struct run_args *a)
{
	char *lines[RECIPE_LINES] = {NULL};
	struct dp_error err = {0};
	bool good = true;
	int status;

	for (int i = 0; good && i < a->ngiven; i++)
		good = !dp_recipe_set(r, a->given[i], &err);
	/* What is not given yet is shown as it stands in the file. */
	for (u32 i = 0; good && a->show && i < r->nparams; i++)
		if (!r->params[i].value && asprintf(&r->params[i].value, "{{%s}}", r->params[i].name) < 0)
			r->params[i].value = NULL;
	for (u32 i = 0; good && i < r->nlines; i++) {
		lines[i] = dp_recipe_fill(r, r->lines[i].text, &err);
		good = lines[i];
	}
	if (!good)
		status = tell(&err, a->name);
	else
		status = a->show ? show(r, a, lines) : trace(r, a, lines);
	for (u32 i = 0; i < r->nlines; i++)
		free(lines[i]);
	return status;
}

int dp_cmd_run(int argc, char **argv)
{
	struct run_args a = {.given = calloc((size_t)argc + 1, sizeof(char *)),
			     .passed = calloc((size_t)argc + 3, sizeof(char *))};
	struct dp_error err = {0};
	bool done = false;
	struct recipe r;
	int status;

	if (!a.given || !a.passed)
		status = dp_ui_fail(E_FILE_MEMORY, NULL, "options");
	else
		status = dp_cmd_options(VERB_RUN, argc, argv, take_option, &a, &a.command, &done);
	if (status || done)
		goto out;
	if (!a.name) {
		status = a.npassed > a.json || a.command || a.show
			     ? dp_ui_fail(E_CMD_MISSING, "`dprobes run` lists the recipes", "no recipe")
			     : list_all(a.json);
		goto out;
	}
	status = dp_recipe_open(&r, a.name, &err) ? tell(&err, a.name) : run(&r, &a);
	dp_recipe_free(&r);
out:
	for (int i = 1; i <= a.npassed; i++)
		free(a.passed[i]);
	free(a.given);
	free(a.passed);
	return status;
}
