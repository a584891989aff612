/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes explain`: what an error code means, from the error table. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"

/* Break the text at blanks; lines begin with two blanks. */
static void print_wrapped(const char *text, int width)
{
	int column = 0;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (column && column + 1 + n > width) {
			putchar('\n');
			column = 0;
		}
		column += printf("%s%.*s", column ? " " : "  ", n, text);
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_code(const struct dp_error_info *info)
{
	printf("%s%s%s: %s\n\n", dp_ui_style(stdout, UI_BOLD), info->name, dp_ui_style(stdout, UI_PLAIN),
	       info->sentence);
	print_wrapped(info->explanation, 78);
	if (info->hint[0]) {
		printf("\n  What to do:\n");
		print_wrapped(info->hint, 78);
	}
}

static void json_code(const struct dp_error_info *info)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "code", info->name);
	dp_json_put_string(&j, "message", info->sentence);
	dp_json_put_string(&j, "explanation", info->explanation);
	dp_json_put_string(&j, "hint", info->hint);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static void list_codes(bool json)
{
	for (int i = 1; i < DP_NCODES; i++) {
		const struct dp_error_info *info = dp_error_info((enum dp_code)i);

		if (json)
			json_code(info);
		else
			printf("%-20s %s\n", info->name, info->sentence);
	}
}

static const char *code_name(int i, void *arg)
{
	return i + 1 < DP_NCODES ? dp_error_info((enum dp_code)(i + 1))->name : NULL;
}

/* "E-SITE-..." belongs to the group "E-SITE-": when nothing is near, others of the group are. */
static int unknown_code(const char *code)
{
	const char *near = dp_ui_nearest(code, code_name, NULL);
	char hint[160] = "";
	size_t n = 0, group = 0;

	if (near) {
		snprintf(hint, sizeof(hint), "did you mean %s?", near);
	} else if (!strncasecmp(code, "E-", 2)) {
		group = 2 + strcspn(code + 2, "-");
		for (int i = 1; i < DP_NCODES && n < sizeof(hint) - 40; i++) {
			const char *name = dp_error_info((enum dp_code)i)->name;

			if (!strncasecmp(name, code, group) && name[group] == '-')
				n += (size_t)snprintf(hint + n, sizeof(hint) - n, "%s%s",
						      n ? ", " : "codes of this group: ", name);
		}
	}
	return dp_ui_fail(E_CMD_CODE, hint[0] ? hint : NULL, "%s", code);
}

struct asked {
	const char **v;
	int n;
	bool json;
};

static int take(void *arg, int id, const char *value)
{
	struct asked *a = arg;

	if (id == OPT_JSON)
		a->json = true;
	else
		a->v[a->n++] = value;
	return CMD_OK;
}

static int explain(const char *code, bool json)
{
	enum dp_code known = dp_error_by_name(code);

	if (dp_cmd_kernel_word(code))
		return dp_cmd_explain_kernel(code, json);
	if (known == DP_OK)
		return unknown_code(code);
	(json ? json_code : print_code)(dp_error_info(known));
	return CMD_OK;
}

static int explain_all(const struct asked *a)
{
	int r = CMD_OK, status;

	if (!a->n)
		list_codes(a->json);
	for (int i = 0; i < a->n; i++) {
		if (i && !a->json)
			putchar('\n');
		status = explain(a->v[i], a->json);
		r = status ? status : r;
	}
	return r;
}

int dp_cmd_explain(int argc, char **argv)
{
	struct asked a = {.v = calloc((size_t)argc, sizeof(*a.v))};
	bool done = false;
	int r = a.v ? dp_cmd_options(VERB_EXPLAIN, argc, argv, take, &a, NULL, &done)
		    : dp_ui_fail(E_FILE_MEMORY, NULL, "options");

	if (!r && !done)
		r = explain_all(&a);
	free(a.v);
	return r;
}
