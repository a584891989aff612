/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes funcs`: the functions of a file or of a process, and for each the outcome that a probe
 * at its entry would get, with the reason where it is not a jump. Changes nothing anywhere.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"
#include "lang/dpcc/syscalls.h"
#include "symbols/statics.h"
#include "symbols/sym-lines.h"

struct listing {
	struct dp_module *mod;
	u64 bias;
	const char *prefix; /* "libc.so.6:" or "" */
	const char *module; /* "libc.so.6" */
	bool not_jump_only;
	bool json;
	bool statics; /* static probes, not functions */
	bool calls;   /* system calls */
	struct cmd_outcomes count;
};

enum dp_outcome dp_cmd_judge(struct dp_module *mod, u64 addr, struct dp_error *err)
{
	const struct dp_text *text;
	struct dp_site site = {.outcome = DP_OUTCOME_REFUSED};

	if (dp_module_text(mod, addr, &text, err))
		return DP_OUTCOME_REFUSED;
	if (!dp_site_judge(text, addr, &site, err) && site.outcome != DP_OUTCOME_JUMP)
		*err = (struct dp_error){.code = site.why};
	return site.outcome;
}

const char *dp_cmd_outcome_style(enum dp_outcome o)
{
	return dp_ui_style(stdout, o == DP_OUTCOME_JUMP ? UI_GREEN : o != DP_OUTCOME_REFUSED ? UI_YELLOW : UI_RED);
}

void dp_cmd_json_address(struct dp_json *j, const char *key, u64 addr)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)addr);
	dp_json_put_string(j, key, text);
}

void dp_cmd_json_outcome(struct dp_json *j, enum dp_outcome o, enum dp_code why, const char *reason)
{
	dp_json_put_string(j, "outcome", dp_outcome_name(o));
	if (o == DP_OUTCOME_JUMP)
		return;
	dp_json_put_string(j, "code", dp_error_info(why)->name);
	dp_json_put_string(j, "reason", reason);
}

static void json_func(struct listing *l, const struct dp_symbol *sym, const char *name, enum dp_outcome o,
		      enum dp_code why, const char *reason)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "function", name);
	dp_json_put_string(&j, "symbol", sym->name);
	dp_json_put_string(&j, "module", l->module);
	dp_cmd_json_address(&j, "address", sym->addr + l->bias);
	dp_json_put_unsigned(&j, "size", sym->size);
	dp_json_put_bool(&j, "ifunc", sym->is_ifunc);
	dp_cmd_json_outcome(&j, o, why, reason);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static int print_func(const struct dp_symbol *sym, void *arg)
{
	struct listing *l = arg;
	struct dp_error err = {0};
	enum dp_outcome o = dp_cmd_judge(l->mod, sym->addr, &err);
	const struct dp_error_info *why = dp_error_info(err.code);
	const char *text = err.detail[0] ? err.detail : why->sentence;
	char buf[2 * DP_SHOWN_MAX];
	const char *name = sym->name[0] ? dp_symbol_shown(sym->name, true, buf, sizeof(buf)) : "?";

	dp_cmd_count_outcome(&l->count, o);
	if (l->not_jump_only && o == DP_OUTCOME_JUMP)
		return 0;
	if (l->json) {
		json_func(l, sym, name, o, err.code, text);
		return ferror(stdout);
	}
	printf("%016llx %7llu %s%-7s%s %s%s", (unsigned long long)(sym->addr + l->bias), (unsigned long long)sym->size,
	       dp_cmd_outcome_style(o), dp_outcome_name(o), dp_ui_style(stdout, UI_PLAIN), dp_ui_clean(l->prefix),
	       dp_ui_clean(name));
	if (sym->is_ifunc)
		fputs("  (chooses an implementation at start)", stdout);
	if (o != DP_OUTCOME_JUMP)
		printf("  %s: %s", why->name, dp_ui_clean(text));
	putchar('\n');
	return ferror(stdout); /* `| head` has seen enough */
}

void dp_cmd_count_outcome(struct cmd_outcomes *c, enum dp_outcome o)
{
	c->n++;
	c->by_outcome[o]++;
}

void dp_cmd_print_outcomes(const struct cmd_outcomes *c, const char *what)
{
	FILE *notes;

	if (fflush(stdout) || ferror(stdout))
		return; /* not all of them were looked at */
	notes = dp_ui_notes();
	fprintf(notes, "%llu %s: %llu jump, %llu trap, ", (unsigned long long)c->n, what,
		(unsigned long long)c->by_outcome[DP_OUTCOME_JUMP], (unsigned long long)c->by_outcome[DP_OUTCOME_TRAP]);
	if (c->by_outcome[DP_OUTCOME_FTRACE])
		fprintf(notes, "%llu ftrace, ", (unsigned long long)c->by_outcome[DP_OUTCOME_FTRACE]);
	fprintf(notes, "%llu refused\n", (unsigned long long)c->by_outcome[DP_OUTCOME_REFUSED]);
}

void dp_cmd_print_funcs_head(void)
{
	printf("%s%-16s %7s %-7s %s%s\n", dp_ui_style(stdout, UI_BOLD), "ADDRESS", "SIZE", "OUTCOME", "FUNCTION  WHY",
	       dp_ui_style(stdout, UI_PLAIN));
}

/* ---- static probes ---- */

/* u PATTERN or s PATTERN, as events have it; NULL: it is not of this kind. */
static char *pattern_of(char kind, char *text)
{
	if (!text || text[0] != kind || (text[1] && text[1] != ' '))
		return NULL;
	text += 1 + strspn(text + 1, " ");
	return text;
}

static void print_statics_head(void)
{
	printf("%s%-16s %-7s %s%s\n", dp_ui_style(stdout, UI_BOLD), "ADDRESS", "OUTCOME", "STATIC PROBE  ARGUMENTS",
	       dp_ui_style(stdout, UI_PLAIN));
}

static void json_static(struct listing *l, const struct dp_static *s, enum dp_outcome o, const struct dp_error *why)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "provider", s->provider);
	dp_json_put_string(&j, "probe", s->name);
	dp_json_put_string(&j, "module", l->module);
	dp_cmd_json_address(&j, "address", s->addr + l->bias);
	dp_json_put_string(&j, "arguments", s->args);
	dp_json_put_bool(&j, "semaphore", s->semaphore);
	dp_cmd_json_outcome(&j, o, why->code, why->detail[0] ? why->detail : dp_error_info(why->code)->sentence);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

/* What the notes say is printable: it was checked. */
static void print_static(struct listing *l, const struct dp_static *s)
{
	struct dp_error err = {0};
	enum dp_outcome o = dp_cmd_judge(l->mod, s->addr, &err);

	dp_cmd_count_outcome(&l->count, o);
	if (l->not_jump_only && o == DP_OUTCOME_JUMP)
		return;
	if (l->json) {
		json_static(l, s, o, &err);
		return;
	}
	printf("%016llx %s%-7s%s %s%s:%s  %s%s", (unsigned long long)(s->addr + l->bias), dp_cmd_outcome_style(o),
	       dp_outcome_name(o), dp_ui_style(stdout, UI_PLAIN), dp_ui_clean(l->prefix), s->provider, s->name, s->args,
	       s->semaphore ? "  (semaphore)" : "");
	if (o != DP_OUTCOME_JUMP)
		printf("  %s", dp_error_info(err.code)->name);
	putchar('\n');
}

static void list_statics(struct listing *l, const char *pattern)
{
	const struct dp_static *v;
	u32 n = dp_module_statics(l->mod, &v);

	for (u32 i = 0; i < n && !ferror(stdout); i++)
		if (!pattern || !*pattern || dp_static_matches(&v[i], pattern))
			print_static(l, &v[i]);
}

/* ---- system calls: the names that there are, and the instructions by which a module calls the system ---- */

static void json_numbered(u32 number)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};
	struct dp_syscall_arg arg;
	int known = dp_syscall_arg(number, 0, &arg);

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "call", dp_syscall_name_of(number));
	dp_json_put_unsigned(&j, "number", number);
	dp_json_key(&j, "arguments");
	if (known < 0) {
		dp_json_null(&j); /* not known: $arg1 to $arg6 */
	} else {
		dp_json_open(&j, '[');
		for (u32 k = 0; k < DP_SYSCALL_ARGS && dp_syscall_arg(number, k, &arg) > 0; k++)
			dp_json_string(&j, arg.name);
		dp_json_close(&j, ']');
	}
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static void print_numbered(u32 number)
{
	struct dp_syscall_arg arg;
	int known = 1;

	printf("%-6u %-23s", number, dp_syscall_name_of(number));
	for (u32 k = 0; k < DP_SYSCALL_ARGS && known > 0; k++) {
		known = dp_syscall_arg(number, k, &arg);
		if (known)
			printf(" $%s", known > 0 ? arg.name : "arg1 to $arg6");
	}
	putchar('\n');
}

static int print_calls(const char *pattern, bool json)
{
	u32 numbers[DP_SYSCALLS_MAX], n = dp_syscalls_matching(pattern, numbers, DP_SYSCALLS_MAX);

	if (!n)
		return dp_ui_fail(E_CALLS_NONE, NULL, "%s", pattern);
	if (!json)
		printf("%s%-6s %-24s %s%s\n", dp_ui_style(stdout, UI_BOLD), "NUMBER", "CALL", "ARGUMENTS",
		       dp_ui_style(stdout, UI_PLAIN));
	for (u32 i = 0; i < n; i++)
		(json ? json_numbered : print_numbered)(numbers[i]);
	return CMD_OK;
}

static void json_call(struct listing *l, u64 addr, const char *call, enum dp_outcome o, const struct dp_symbol *sym)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string_or_null(&j, "call", call);
	dp_json_put_string(&j, "module", l->module);
	dp_cmd_json_address(&j, "address", addr + l->bias);
	dp_json_put_string_or_null(&j, "symbol", sym ? sym->name : NULL);
	dp_json_put_unsigned(&j, "offset", sym ? addr - sym->addr : 0);
	dp_json_put_string(&j, "outcome", dp_outcome_name(o));
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static bool print_call(void *arg, const struct dp_call_site *site)
{
	const char *call = site->number < 0 ? NULL : dp_syscall_name_of((u32)site->number);
	struct listing *l = arg;
	u64 addr = site->addr;
	enum dp_outcome o = site->fits ? DP_OUTCOME_JUMP : DP_OUTCOME_REFUSED;
	struct dp_symbol sym;
	bool named = dp_module_symbol_at(l->mod, addr, &sym) && *sym.name;
	char name[300];

	dp_cmd_count_outcome(&l->count, o);
	if (l->not_jump_only && site->fits)
		return false;
	if (l->json) {
		json_call(l, addr, call, o, named ? &sym : NULL);
		return ferror(stdout);
	}
	printf("%016llx %s%-7s%s %-20s %s", (unsigned long long)(addr + l->bias), dp_cmd_outcome_style(o),
	       dp_outcome_name(o), dp_ui_style(stdout, UI_PLAIN), call ? call : "?", dp_ui_clean(l->prefix));
	if (named)
		printf("%s+0x%llx", dp_ui_clean(dp_symbol_shown(sym.name, true, name, sizeof(name))),
		       (unsigned long long)(addr - sym.addr));
	else
		putchar('?');
	putchar('\n');
	return ferror(stdout);
}

static void list_module(struct listing *l, const char *pattern)
{
	if (l->calls)
		dp_module_each_syscall(l->mod, print_call, l);
	else if (l->statics)
		list_statics(l, pattern);
	else
		dp_module_each_func(l->mod, pattern, print_func, l);
}

static void print_head(const struct listing *l)
{
	if (l->json)
		return;
	if (l->calls)
		printf("%s%-16s %-7s %-20s %s%s\n", dp_ui_style(stdout, UI_BOLD), "ADDRESS", "OUTCOME", "CALL", "WHERE",
		       dp_ui_style(stdout, UI_PLAIN));
	else
		l->statics ? print_statics_head() : dp_cmd_print_funcs_head();
}

static int finish(const struct listing *l, const char *pattern, const char *where)
{
	if (!l->count.n && l->calls)
		return dp_ui_fail(E_CALLS_NONE, "the libraries of the program may: dprobes funcs -p PID s", "%s",
				  where);
	if (!l->count.n && l->statics)
		return dp_ui_fail(E_STATIC_NONE, "not all programs and libraries have some", "%s in %s",
				  pattern && *pattern ? pattern : "none", where);
	if (!l->count.n && pattern)
		return dp_ui_fail(E_CMD_NOMATCH, NULL, "'%s' in %s", pattern, where);
	dp_cmd_print_outcomes(&l->count, l->calls     ? "instructions that call the system"
					 : l->statics ? "static probes"
						      : "functions");
	return CMD_OK;
}

static int list_file(struct listing *l, const char *path, const char *pattern)
{
	struct dp_error err = {0};
	int status;

	if (dp_module_open(&l->mod, path, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	l->prefix = "";
	l->module = dp_module_base(l->mod);
	print_head(l);
	list_module(l, pattern);
	status = finish(l, pattern, path);
	dp_module_close(l->mod);
	return status;
}

char *dp_cmd_split_module(char *text, char **module)
{
	char *colon = strchr(text, ':');
	u32 len, line;

	*module = NULL;
	if (!colon || colon[1] == ':' || dp_line_parse(text, &len, &line))
		return text;
	*colon = '\0';
	*module = text;
	return colon + 1;
}

/* The module is shown by the name that the user gave it, if any: files may have several. */
static void list_image(struct listing *l, const struct dp_process *process, const struct dp_image *image,
		       const char *name, const char *pattern)
{
	char prefix[300];

	l->module = name ? name : dp_process_image_name(process, image);
	snprintf(prefix, sizeof(prefix), "%s:", l->module);
	l->mod = image->mod;
	l->bias = image->bias;
	l->prefix = prefix;
	list_module(l, pattern);
}

static int list_process(struct listing *l, pid_t pid, char *text)
{
	struct dp_process process;
	struct dp_error err = {0};
	const char *pattern = NULL;
	struct dp_image *only = NULL;
	char *module = NULL, where[64];
	int status = CMD_FAILED;

	if (dp_process_read(&process, pid, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (text)
		pattern = dp_cmd_split_module(text, &module);
	if (pattern && !*pattern)
		pattern = NULL;
	if (module && !strcmp(module, "*"))
		module = NULL;
	if (module)
		only = dp_process_image(&process, module, &err);
	if (module && !only) {
		dp_ui_error(&err, NULL);
		goto out;
	}
	print_head(l);
	for (size_t i = 0; i < process.nimages && !ferror(stdout); i++)
		if (!only || only == &process.images[i])
			list_image(l, &process, &process.images[i], module, pattern);
	snprintf(where, sizeof(where), "process %d", pid);
	status = finish(l, pattern, only ? dp_module_base(only->mod) : where);
out:
	dp_process_free(&process);
	return status;
}

int dp_cmd_funcs(int argc, char **argv)
{
	struct cmd_words w = {.most = 2, .hint = "put the pattern in quotes"};
	struct listing l = {0};
	char *pattern, *statics, *calls;
	int status;

	if (!dp_cmd_words(VERB_FUNCS, argc, argv, &w, &status))
		return status;
	l.not_jump_only = dp_cmd_has(&w, OPT_NOT_JUMP);
	l.json = dp_cmd_has(&w, OPT_JSON);
	if (w.pid && w.n > 1)
		return dp_ui_fail(E_CMD_EXTRA, w.hint, "%s", w.v[1]);
	pattern = w.pid ? w.v[0] : w.n > 1 ? w.v[1] : NULL;
	statics = pattern_of('u', pattern);
	calls = pattern_of('s', pattern);
	l.statics = statics;
	l.calls = calls;
	pattern = statics ? statics : pattern;
	if (calls && strchr(calls, ':')) { /* MODULE: of which the instructions are shown */
		pattern = calls;
		calls = strrchr(calls, ':') + 1;
	} else if (calls) {
		pattern = NULL;
	}
	if (calls && *calls && strcmp(calls, "*"))
		return print_calls(calls, l.json);
	if (!w.pid && w.n == 1 && pattern_of('t', w.v[0]))
		return dp_cmd_funcs_tracepoints(pattern_of('t', w.v[0]), l.json);
	if (w.pid)
		return list_process(&l, w.pid, pattern);
	if (!w.n)
		return dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a file", "no process or file");
	if (w.n == 1 && dp_cmd_kernel_word(w.v[0]))
		return dp_cmd_funcs_kernel(w.v[0], l.not_jump_only, l.json);
	return list_file(&l, w.v[0], pattern);
}
