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

static void list_codes(void)
{
	for (int i = 1; i < DP_NCODES; i++) {
		const struct dp_error_info *info = dp_error_info((enum dp_code)i);

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

struct explained {
	int n, status;
};

static int explain(void *arg, int id, const char *code)
{
	struct explained *e = arg;
	enum dp_code known = dp_error_by_name(code);

	if (e->n++)
		putchar('\n');
	if (dp_cmd_kernel_word(code))
		e->status = dp_cmd_explain_kernel(code);
	else if (known != DP_OK)
		print_code(dp_error_info(known));
	else
		e->status = unknown_code(code);
	return CMD_OK;
}

int dp_cmd_explain(int argc, char **argv)
{
	struct explained e = {.status = CMD_OK};
	bool done = false;
	int r = dp_cmd_options(VERB_EXPLAIN, argc, argv, explain, &e, NULL, &done);

	if (!r && !done && !e.n)
		list_codes();
	return r ? r : e.status;
}
