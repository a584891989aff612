/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See ask-kernel.h. The module is asked what it would do; nothing is changed. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"
#include "abi/abi-device.h"
#include "host/kernel/kernel.h"
#include "symbols/kallsyms.h"

static int told(const struct dp_error *err)
{
	dp_ui_error(err, NULL);
	return dp_ui_status(err->code);
}

bool dp_cmd_kernel_word(const char *text)
{
	return !strncmp(text, "kernel:", 7) || !strncmp(text, "kmod(", 5);
}

const char *dp_cmd_kernel_split(const char *text, char *module, size_t size)
{
	const char *colon = strchr(text, ':');

	snprintf(module, size, "%.*s", text[1] == 'm' ? (int)strcspn(text + 5, "):") : 0, text + 5);
	return colon && colon[1] ? colon + 1 : "*";
}

/* ---- list ---- */

static const char *const hows[] = {[DP_DEV_OFF] = "-",         [DP_DEV_TRAP] = "trap",     [DP_DEV_JUMP] = "jump",
				   [DP_DEV_PENDING] = "-",     [DP_DEV_GONE] = "-",        [DP_DEV_FTRACE] = "ftrace",
				   [DP_DEV_UPROBE] = "uprobe", [DP_DEV_WATCHES] = "watch", [DP_DEV_TRACED] = "tpoint"};

/* As json_row() in cmd-list.c has it. */
static void json_row(const struct dp_dev_row *row)
{
	const struct {
		bool is;
		const char *name;
	} states[] = {{row->how == DP_DEV_GONE, "gone"},
		      {row->flags & DP_DEV_LIST_DISABLED, "disabled"},
		      {row->how == DP_DEV_PENDING, "pending"},
		      {row->flags & DP_DEV_LIST_PATCHED, "patched"}};
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_cmd_json_address(&j, "address", row->addr);
	dp_json_key(&j, "type");
	dp_json_text(&j, (const char *)&row->type, 1);
	dp_json_put_string(&j, "place", row->place);
	dp_json_put_string(&j, "how", row->how < DP_ARRAY_SIZE(hows) ? hows[row->how] : "?");
	dp_json_put_string(&j, "who", row->pid > 0 ? "dprobes" : row->pid ? "module" : "event files");
	dp_cmd_json_owner(&j, row->pid);
	dp_json_key(&j, "state");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < DP_ARRAY_SIZE(states); i++)
		if (states[i].is)
			dp_json_string(&j, states[i].name);
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static void print_row(const struct dp_dev_row *row, int wplace)
{
	char who[40] = "module";

	if (row->pid > 0)
		snprintf(who, sizeof(who), "dprobes %d", row->pid);
	else if (!row->pid)
		strcpy(who, "event files");
	printf("%016llx  %-4c  %-*s  %-6s  %-16s%s%s%s%s\n", (unsigned long long)row->addr, row->type, wplace,
	       dp_ui_clean(row->place), row->how < DP_ARRAY_SIZE(hows) ? hows[row->how] : "?", who,
	       row->how == DP_DEV_GONE ? "  [GONE]" : "", row->flags & DP_DEV_LIST_DISABLED ? "  [DISABLED]" : "",
	       row->how == DP_DEV_PENDING ? "  [PENDING]" : "", row->flags & DP_DEV_LIST_PATCHED ? "  [PATCHED]" : "");
}

int dp_cmd_list_kernel(bool json)
{
	struct dp_error err = {.column = -1};
	struct dp_dev_row *rows = NULL;
	struct dp_kernel *k;
	int r = dp_kernel_open(&k, NULL, &err), wplace = 5;
	u32 n = 0;

	if (r)
		return told(&err);
	r = dp_kernel_list(k, &rows, &n, &err);
	dp_kernel_close(k);
	if (r)
		return told(&err);
	for (u32 i = 0; i < n; i++)
		wplace = DP_MIN(DP_MAX(wplace, (int)strlen(rows[i].place)), 60);
	if (n && !json)
		printf("%-16s  TYPE  %-*s  HOW     %-16s  STATE\n", "ADDRESS", wplace, "PLACE", "WHO");
	for (u32 i = 0; i < n; i++)
		json ? json_row(&rows[i]) : print_row(&rows[i], wplace);
	free(rows);
	return CMD_OK;
}

/* ---- funcs ---- */

struct listing {
	struct dp_kernel *k;
	const char *prefix;
	bool not_jump_only, json;
	struct cmd_outcomes count;
};

static void json_names(struct dp_json *j, const struct listing *l, const struct dp_ksym *sym)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "function", sym->name);
	dp_json_put_string(j, "symbol", sym->name);
	dp_json_key(j, "module");
	dp_json_text(j, l->prefix, strlen(l->prefix) - 1); /* without its colon */
}

static void json_func(const struct listing *l, const struct dp_ksym *sym, u64 size, enum dp_outcome how,
		      enum dp_code why)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	json_names(&j, l, sym);
	dp_cmd_json_address(&j, "address", sym->addr);
	dp_json_put_unsigned(&j, "size", size);
	dp_json_put_bool(&j, "ifunc", false);
	dp_cmd_json_outcome(&j, how, why, dp_error_info(why)->sentence);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

/* Of a module that is not loaded. */
static void json_waiting(const struct listing *l, const struct dp_ksym *sym)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	json_names(&j, l, sym);
	dp_json_put_string_or_null(&j, "address", NULL);
	dp_json_put_unsigned(&j, "size", sym->size);
	dp_json_put_bool(&j, "ifunc", false);
	dp_json_put_string(&j, "outcome", "waits");
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static int print_waiting(const struct dp_ksym *sym, void *arg)
{
	struct listing *l = arg;

	l->count.n++;
	if (l->json)
		json_waiting(l, sym);
	else
		printf("%16s %7llu %-7s %s%s\n", "-", (unsigned long long)sym->size, "waits", dp_ui_clean(l->prefix),
		       dp_ui_clean(sym->name));
	return ferror(stdout);
}

static int print_func(const struct dp_ksym *sym, void *arg)
{
	struct dp_error err = {.column = -1};
	struct listing *l = arg;
	enum dp_outcome how;
	enum dp_code why;
	u64 size;

	dp_kernel_judge(l->k, sym->addr, &size, &how, &why, &err);
	dp_cmd_count_outcome(&l->count, how);
	if (l->not_jump_only && how == DP_OUTCOME_JUMP)
		return 0;
	if (l->json) {
		json_func(l, sym, size, how, why);
		return ferror(stdout);
	}
	printf("%016llx %7llu %s%-7s%s %s%s", (unsigned long long)sym->addr, (unsigned long long)size,
	       dp_cmd_outcome_style(how), dp_outcome_name(how), dp_ui_style(stdout, UI_PLAIN), dp_ui_clean(l->prefix),
	       dp_ui_clean(sym->name));
	if (how != DP_OUTCOME_JUMP)
		printf("  %s: %s", dp_error_info(why)->name, dp_error_info(why)->sentence);
	putchar('\n');
	return ferror(stdout);
}

int dp_cmd_funcs_kernel(const char *text, bool not_jump_only, bool json)
{
	struct listing l = {.not_jump_only = not_jump_only, .json = json};
	struct dp_error err = {.column = -1};
	char module[64], prefix[80] = "kernel:";
	const char *pattern = dp_cmd_kernel_split(text, module, sizeof(module));
	int r = dp_kernel_open(&l.k, NULL, &err);
	bool waits;

	if (r)
		return told(&err);
	if (*module)
		snprintf(prefix, sizeof(prefix), "kmod(%s):", module);
	l.prefix = prefix;
	if (!json)
		dp_cmd_print_funcs_head();
	waits = *module && !dp_kernel_module_loaded(module);
	r = waits ? dp_kernel_module_each(module, pattern, print_waiting, &l, &err)
		  : dp_kallsyms_each(*module ? module : NULL, pattern, print_func, &l, &err);
	dp_kernel_close(l.k);
	if (r < 0)
		return told(&err);
	if (!l.count.n)
		return dp_ui_fail(E_CMD_NOMATCH, NULL, "'%s' in %s", pattern, *module ? module : "the kernel");
	if (waits)
		fprintf(dp_ui_notes(), "%llu functions: %s is not loaded; probes wait for it\n",
			(unsigned long long)l.count.n, module);
	else
		dp_cmd_print_outcomes(&l.count, "functions");
	return CMD_OK;
}

/* ---- explain ---- */

static void json_explained(const char *text, u64 addr, enum dp_outcome how, const struct dp_error_info *info,
			   const char *detail)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "place", text);
	dp_cmd_json_address(&j, "address", addr);
	dp_json_put_string(&j, "outcome", dp_outcome_name(how));
	if (how != DP_OUTCOME_JUMP) {
		dp_json_put_string(&j, "code", info->name);
		dp_json_put_string(&j, "message", info->sentence);
		dp_json_put_string(&j, "detail", detail);
		dp_json_put_string(&j, "explanation", info->explanation);
	}
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

int dp_cmd_explain_kernel(const char *text, bool json)
{
	struct dp_error err = {.column = -1};
	char module[64], name[DP_DEV_PLACE_MAX + 70], *end;
	const char *symbol = dp_cmd_kernel_split(text, module, sizeof(module)), *plus = strrchr(symbol, '+');
	u64 addr, offset = plus ? strtoull(plus + 1, &end, 0) : 0, size;
	const struct dp_error_info *info;
	struct dp_kernel *k;
	enum dp_outcome how;
	enum dp_code why;

	if (plus && (end == plus + 1 || *end))
		return dp_ui_fail(E_CMD_VALUE, "write FUNCTION+OFFSET", "%s", text);
	snprintf(name, sizeof(name), "%s%s%.*s", module, *module ? ":" : "",
		 plus ? (int)(plus - symbol) : (int)DP_DEV_PLACE_MAX, symbol);
	if (dp_kernel_open(&k, NULL, &err))
		return told(&err);
	if (dp_kallsyms_find(name, &addr, &err)) {
		dp_kernel_close(k);
		return told(&err);
	}
	dp_kernel_judge(k, addr + offset, &size, &how, &why, &err);
	dp_kernel_close(k);
	info = dp_error_info(why);
	if (json) {
		json_explained(text, addr + offset, how, info, err.detail);
		return CMD_OK;
	}
	printf("%s, 0x%llx: %s\n", text, (unsigned long long)(addr + offset), dp_outcome_name(how));
	if (how != DP_OUTCOME_JUMP)
		printf("%s: %s%s%s\n\n  %s\n", info->name, info->sentence, err.detail[0] ? ": " : "", err.detail,
		       info->explanation);
	return CMD_OK;
}
