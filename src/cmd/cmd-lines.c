/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes lines` and `dprobes vars FILE PLACE`: which source lines of a function can be probed,
 * and which of the program's variables can be read at a place. By debug information; changes
 * nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/sym-lines.h"

/* ---- which file, and what in it ---- */

struct subject {
	struct dp_module *mod;
	const char *name;
	char file[4096];
	struct dp_process process; /* with a PID */
	bool is_process;
	bool is_kernel;
	bool json;
	char kmod[64]; /* of the kernel; "" for itself */
};

static int open_process(struct subject *s, pid_t pid, char *text)
{
	struct dp_error err = {0};
	struct dp_image *image;
	char *module;

	if (dp_process_read(&s->process, pid, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	s->is_process = true;
	s->name = dp_cmd_split_module(text, &module);
	image = dp_process_image(&s->process, module ? module : "exe", &err);
	if (!image) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	s->mod = image->mod;
	dp_process_image_file(&s->process, image, s->file, sizeof(s->file));
	return CMD_OK;
}

static int open_file(struct subject *s, const char *path, const char *name)
{
	struct dp_error err = {0};

	s->name = name;
	snprintf(s->file, sizeof(s->file), "%s", path);
	if (!dp_module_open(&s->mod, path, &err))
		return CMD_OK;
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}

static void subject_close(struct subject *s)
{
	if (s->is_process)
		dp_process_free(&s->process);
	else if (s->mod)
		dp_module_close(s->mod);
}

/* False: the subcommand ends with *status. */
static bool parse(struct subject *s, enum cmd_verb verb, int argc, char **argv, int *status)
{
	struct cmd_words w = {.most = 2};
	int most;

	if (!dp_cmd_words(verb, argc, argv, &w, status))
		return false;
	s->json = dp_cmd_has(&w, OPT_JSON);
	s->is_kernel = !w.pid && w.n == 1 && verb == VERB_VARS_PLACE && dp_cmd_kernel_word(w.v[0]);
	if (s->is_kernel) {
		s->name = dp_cmd_kernel_split(w.v[0], s->kmod, sizeof(s->kmod));
		return true;
	}
	most = w.pid ? 1 : 2;
	if (w.n > most)
		*status = dp_ui_fail(E_CMD_EXTRA, NULL, "%s", w.v[most]);
	else if (w.n < most)
		*status = dp_ui_fail(E_CMD_MISSING, "`--help` shows examples", "%s",
				     !w.n && !w.pid ? "no process or file" : "no function or place");
	else
		*status = w.pid ? open_process(s, w.pid, w.v[0]) : open_file(s, w.v[0], w.v[1]);
	return !*status;
}

/* ---- lines ---- */

struct lines {
	struct dp_module *mod;
	bool json;
	struct cmd_outcomes count;
};

static void json_line(const struct dp_module_row *row, enum dp_outcome o, const struct dp_error *why)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "file", row->file);
	dp_json_put_unsigned(&j, "line", row->line);
	dp_cmd_json_address(&j, "address", row->addr);
	dp_json_put_string_or_null(&j, "inlined", *row->inlined ? row->inlined : NULL);
	dp_cmd_json_outcome(&j, o, why->code, why->detail[0] ? why->detail : dp_error_info(why->code)->sentence);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static int print_line(const struct dp_module_row *row, void *arg)
{
	struct lines *l = arg;
	struct dp_error err = {0};
	enum dp_outcome o = dp_cmd_judge(l->mod, row->addr, &err);
	const char *slash = strrchr(row->file, '/');
	char where[300];

	if (l->json) {
		dp_cmd_count_outcome(&l->count, o);
		json_line(row, o, &err);
		return ferror(stdout);
	}
	if (!l->count.n)
		printf("%s%-28s %-16s %-7s %s%s\n", dp_ui_style(stdout, UI_BOLD), "LINE", "ADDRESS", "OUTCOME",
		       "INLINED FROM  WHY", dp_ui_style(stdout, UI_PLAIN));
	dp_cmd_count_outcome(&l->count, o);
	snprintf(where, sizeof(where), "%s:%u", slash ? slash + 1 : row->file, row->line);
	printf("%-28s %016llx %s%s%s", dp_ui_clean(where), (unsigned long long)row->addr, dp_cmd_outcome_style(o),
	       dp_outcome_name(o), dp_ui_style(stdout, UI_PLAIN));
	if (*row->inlined)
		printf("%*s %s", 7 - (int)strlen(dp_outcome_name(o)), "", dp_ui_clean(row->inlined));
	if (o != DP_OUTCOME_JUMP)
		printf("  %s: %s", dp_error_info(err.code)->name,
		       err.detail[0] ? dp_ui_clean(err.detail) : dp_error_info(err.code)->sentence);
	putchar('\n');
	return ferror(stdout);
}

int dp_cmd_lines(int argc, char **argv)
{
	struct subject s = {0};
	struct lines l = {0};
	struct dp_symbol sym;
	struct dp_error err = {0};
	int status;

	if (!parse(&s, VERB_LINES, argc, argv, &status))
		goto out;
	l.mod = s.mod;
	l.json = s.json;
	if (dp_module_symbol(s.mod, s.name, &sym, &err) ||
	    dp_module_each_line(s.mod, sym.addr, sym.addr + DP_MAX(sym.size, 1ull), print_line, &l, &err) < 0) {
		dp_ui_error(&err, NULL);
		status = dp_ui_status(err.code);
		goto out;
	}
	dp_cmd_print_outcomes(&l.count, "lines");
out:
	subject_close(&s);
	return status;
}

/* ---- variables ---- */

static void json_place(void *arg, const char *place, const char *file, u32 line)
{
	struct dp_json *j = arg;

	dp_json_open(j, '{');
	dp_json_put_string(j, "place", place);
	dp_json_put_string_or_null(j, "file", file);
	dp_json_key(j, "line");
	file ? dp_json_unsigned(j, line) : dp_json_null(j);
	dp_json_key(j, "variables");
	dp_json_open(j, '[');
}

static void json_var(void *arg, const struct dpcc_var *v)
{
	struct dp_json *j = arg;

	dp_json_open(j, '{');
	dp_json_put_string(j, "name", v->name);
	dp_json_put_string_or_null(j, "type", v->type);
	dp_json_put_string_or_null(j, "where", v->where);
	if (!v->where) {
		dp_json_put_string(j, "reason", v->why);
		dp_json_put_string(j, "hint", v->hint);
	}
	dp_json_close(j, '}');
}

static void json_end(struct dp_json *j)
{
	dp_json_close(j, ']');
	dp_json_close(j, '}');
	dp_ui_json_end(j);
}

int dp_cmd_source_vars(int argc, char **argv)
{
	struct subject s = {0};
	struct dp_line line = {0};
	struct dp_json json = {.line = &line};
	struct dpcc_options opt = {.notes = dp_ui_notes()};
	struct dpcc_result res;
	struct dp_error err = {0};
	int status;

	if (!parse(&s, VERB_VARS_PLACE, argc, argv, &status))
		goto out;
	opt.vars_at = s.name;
	if (s.json) {
		opt.take_place = json_place;
		opt.take_var = json_var;
		opt.take_arg = &json;
	}
	opt.vars_of = !s.is_kernel ? DP_RPN_USER : *s.kmod ? DP_RPN_KMOD : DP_RPN_KERNEL;
	if (dp_cc_compile(s.is_kernel ? s.kmod : s.file, &opt, &res, &err)) {
		dp_ui_error(&err, NULL);
		status = dp_ui_status(err.code);
	} else {
		s.json ? json_end(&json) : dp_ui_put_text(stdout, res.text);
		free(res.text);
	}
	dp_line_free(&line);
out:
	subject_close(&s);
	return status;
}
