/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes insert|remove|query|vars|build|apply` and the same in the command line of Dynamic Probes
 * (-i, -r, -q, -g, -b, -p). Programs are read here, so that errors are told at once; the driver
 * does the rest.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/probes.h"
#include "host/process/process.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/kallsyms.h"
#include "symbols/sym-lines.h"

static bool told(const struct dp_error *err)
{
	dp_ui_error(err, NULL);
	return false;
}

static bool read_object(const char *path, struct dp_rpn_unit *u, bool *is_object)
{
	FILE *f = fopen(path, "re");
	static char bytes[8 << 20];
	struct dp_error err = {0};
	size_t n;

	*is_object = false;
	if (!f)
		return true; /* the other reader will tell */
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	*is_object = dp_rpn_is_object(bytes, n);
	return !*is_object || !dp_rpn_load(u, bytes, n, &err) || told(&err);
}

static bool is_source(const struct probes_args *a)
{
	return a->text || dp_cc_is_source(a->file);
}

/* A file for dpcc, compiled on the fly. */
static bool compile(const struct probes_args *a, struct dp_rpn_unit *u)
{
	struct dpcc_options opt = {.defines = a->defines,
				   .ndefines = a->ndefines,
				   .module = a->sym,
				   .notes = dp_ui_notes(),
				   .text = a->text,
				   .lines = a->lines,
				   .nlines = a->nlines};
	struct dp_error err = {0};
	struct dpcc_result res;
	int r;

	if (dp_cc_compile(a->file, &opt, &res, &err)) {
		dp_ui_error(&err, res.line[0] ? res.line : NULL);
		return false;
	}
	r = dp_rpn_parse(u, res.text, a->file, ".", NULL, 0, &err);
	free(res.text);
	return !r || told(&err);
}

bool dp_probes_read(const struct probes_args *a, struct dp_rpn_unit *u)
{
	struct dp_error err = {0};
	bool is_object = false;

	if (!a->text && strcmp(a->file, "-") && !read_object(a->file, u, &is_object))
		return false;
	if (!is_object && a->verb == VERB_APPLY) {
		dp_ui_fail(E_RPN_OBJECT, NULL, "%s", a->file);
		return false;
	}
	if (!is_object && is_source(a)) {
		if (!compile(a, u))
			return false;
	} else if (!is_object && dp_rpn_read(u, a->file, a->defines, a->ndefines, &err)) {
		return told(&err);
	}
	if ((a->groups || a->types) && dp_rpn_select(u, a->groups, a->types, &err)) {
		dp_rpn_free(u);
		return told(&err);
	}
	return true;
}

/* An object holds one place for each probe: a line must have one. */
static int resolve_line(struct dp_module *mod, struct dp_rpn_probe *p, struct dp_error *err)
{
	u64 addrs[DP_LINE_COPIES_MAX], offset;
	u32 used;
	int n = dp_module_line(mod, p->symbol, (u32)p->offset, addrs, DP_LINE_COPIES_MAX, &used, err);

	if (n < 0)
		return n;
	if (n > 1 || !dp_module_addr_to_offset(mod, addrs[0], &offset))
		return dp_fail(err, E_LINE_COPIES, "%.100s:%u has %d places in %.60s", p->symbol, used, n,
			       dp_module_base(mod));
	p->place = DP_RPN_OFFSET;
	p->offset = (s64)offset;
	p->symbol[0] = '\0';
	return 0;
}

static int resolve_probe(struct dp_module *mod, struct dp_rpn_probe *p, struct dp_error *err)
{
	struct dp_symbol sym;
	const struct dp_text *text;
	u64 offset, addr;
	int r;

	if (p->place == DP_RPN_LINE)
		return resolve_line(mod, p, err);
	if (p->place != DP_RPN_SYMBOL)
		return 0;
	r = dp_module_symbol(mod, p->symbol, &sym, err);
	if (r)
		return r;
	if (sym.is_ifunc)
		return dp_fail(err, E_SYM_IFUNC, "%.150s", p->symbol);
	addr = sym.addr + (u64)p->offset;
	if (!dp_module_addr_to_offset(mod, addr, &offset))
		return dp_fail(err, E_SITE_NOTEXT, "%.150s is in no segment of %.60s", p->symbol, dp_module_base(mod));
	/* The object can say which byte must stand there, even when the program does not. */
	if (!p->has_opcode && !p->at_return && !dp_module_text(mod, addr, &text, NULL)) {
		p->has_opcode = true;
		p->opcode = text->bytes[addr - text->lo];
	}
	p->place = DP_RPN_OFFSET;
	p->offset = (s64)offset;
	p->symbol[0] = '\0';
	return 0;
}

/*
 * The running kernel knows its symbols. The compiler has taken lines and variables from the file: the program is for
 * that build of the kernel alone.
 */
static bool resolve_in_kernel(const struct probes_args *a, struct dp_rpn_unit *u)
{
	struct dp_module *mod;
	struct dp_error err = {0};

	if (!a->sym) {
		if (!dp_kernel_build_id(u->modtype == DP_RPN_KMOD ? u->name : NULL, u->build_id, sizeof(u->build_id)))
			u->build_id[0] = '\0';
		return true;
	}
	if (!is_source(a)) {
		dp_fail(&err, E_RPN_WORLD, "--sym for %.150s", u->name);
		return told(&err);
	}
	if (dp_module_open(&mod, a->sym, &err))
		return told(&err);
	snprintf(u->build_id, sizeof(u->build_id), "%s", dp_module_identity(mod));
	dp_module_close(mod);
	return true;
}

bool dp_probes_resolve(const struct probes_args *a, struct dp_rpn_unit *u)
{
	const char *path = a->sym ? a->sym : u->name;
	struct dp_module *mod = NULL;
	struct dp_error err = {0};
	int r;

	if (u->modtype != DP_RPN_USER)
		return resolve_in_kernel(a, u);
	if (!a->sym && path[0] != '/') {
		dp_ui_fail(E_CMD_MISSING, "write name = with the whole path, or give the module with --sym",
			   "%s is not a path", path);
		return false;
	}
	r = dp_module_open(&mod, path, &err);
	if (r)
		return told(&err);
	snprintf(u->build_id, sizeof(u->build_id), "%s", dp_module_identity(mod));
	for (u32 i = 0; i < u->nprobes && !r; i++)
		r = resolve_probe(mod, &u->probes[i], &err);
	dp_module_close(mod);
	return !r || told(&err);
}

/* ---- requests ---- */

/* Not in the format of records, for people. */
static bool tells_text(const struct probes_args *a, u32 op)
{
	bool done = op == DP_RUN_INSERT || op == DP_RUN_REMOVE;

	return done ? !(a->flags & DP_RUN_TELL_JSON) : dp_run_format(a->flags) == DP_FORMAT_TEXT;
}

static int ask(const struct probes_args *a, u32 op, const char *name, const void *object, size_t size, bool start)
{
	struct dp_run_request rq = {.op = op,
				    .flags = a->flags | (op == DP_RUN_INSERT && !a->strict_reads ? DP_RUN_LOAD : 0),
				    .fields = a->fields,
				    .budget = a->budget,
				    .pid = a->pid,
				    .lo = a->lo,
				    .hi = a->hi,
				    .object_len = (u32)size};
	struct dp_error err = {0};
	char *text = NULL;
	int r = dp_driver_ask(&rq, name, a->file ? a->file : "", object, start, &text, &err);

	if (text)
		tells_text(a, op) ? dp_ui_put_text(stdout, text) : (void)fputs(text, stdout);
	if (!r && (op == DP_RUN_QUERY || op == DP_RUN_REMOVE) && (!text || !*text)) /* the driver lingers on */
		dp_ui_note("nothing is inserted");
	free(text);
	if (!r)
		return CMD_OK;
	/* Nothing is inserted: there is nothing to show or to remove, which is what --all wanted.
	 */
	if (err.code == E_DRV_NONE && !*name) {
		dp_ui_note("nothing is inserted");
		return CMD_OK;
	}
	dp_ui_error(&err, NULL);
	return dp_ui_status(err.code);
}

#define BUDGET_USUAL 500 /* of what is inserted into all processes */

/* The kernel and its uprobes know no budget. False: told already. */
static bool set_budget(struct probes_args *a, const struct dp_rpn_unit *u)
{
	bool in_kernel = u->modtype != DP_RPN_USER || a->flags & DP_RUN_UPROBES;

	const char *usual = getenv("DPROBES_BUDGET"); /* what holds without --budget */

	if (a->budget && in_kernel)
		dp_ui_fail(E_BUDGET_PROBE, NULL, "%s: its probes are the kernel's", u->name);
	if (a->has_budget || in_kernel || a->pid)
		return !a->budget || !in_kernel;
	a->budget = BUDGET_USUAL;
	return !usual || !*usual || dp_cmd_parse_budget(usual, true, &a->budget);
}

static int insert(struct probes_args *a)
{
	struct dp_rpn_unit u = {0};
	struct dp_error err = {0};
	void *bytes = NULL;
	size_t size = 0;
	int status = CMD_FAILED;

	if (!dp_probes_read(a, &u))
		return CMD_FAILED;
	if (!set_budget(a, &u)) {
		dp_rpn_free(&u);
		return CMD_FAILED;
	}
	if (!a->sym || dp_probes_resolve(a, &u)) {
		if (dp_rpn_save(&u, &bytes, &size, &err))
			dp_ui_error(&err, NULL);
		else
			status = ask(a, DP_RUN_INSERT, u.name, bytes, size, true);
	}
	free(bytes);
	dp_rpn_free(&u);
	return status;
}

/* Probes that a driver left behind which did not end well: whoever looks at the process next takes
 * them out. */
static void clean_up(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		pid_t pid = (pid_t)atoi(e->d_name);
		struct dp_session *s = NULL;
		struct dp_maps maps;
		bool has = false;

		if (!isdigit((unsigned char)e->d_name[0]) || pid == getpid() || dp_maps_read(&maps, pid, NULL))
			continue;
		for (size_t i = 0; i < maps.n; i++)
			has |= strstr(maps.v[i].path, "dprobes-rings") != NULL;
		dp_maps_free(&maps);
		if (has && !dp_session_new(&s, pid, NULL, NULL))
			dp_session_free(s);
	}
	if (dir)
		closedir(dir);
}

static int remove_probes(const struct probes_args *a)
{
	struct dp_rpn_unit u = {0};
	const char *name = a->name;
	int status;

	if (a->flags & DP_RUN_ALL) {
		status = ask(a, DP_RUN_REMOVE, "", NULL, 0, false);
		clean_up();
		return status;
	}
	if (!name && !dp_probes_read(a, &u))
		return CMD_FAILED;
	status = ask(a, DP_RUN_REMOVE, name ? name : u.name, NULL, 0, false);
	if (!name)
		dp_rpn_free(&u);
	return status;
}

/* a.rpn becomes a.ppdf. */
static void default_outfile(const char *file, char *out, size_t size)
{
	const char *dot = strrchr(file, '.');
	size_t n = dot && !strchr(dot, '/') ? (size_t)(dot - file) : strlen(file);

	snprintf(out, size, "%.*s.ppdf", (int)n, file);
}

static bool write_file(const char *path, const void *bytes, size_t size)
{
	FILE *f = fopen(path, "we");
	bool good = f && fwrite(bytes, 1, size, f) == size;

	good = f && !fclose(f) && good;
	if (!good)
		dp_ui_fail(E_OUT_WRITE, NULL, "%s: %s", path, strerror(errno));
	return good;
}

static void tell_built(const struct probes_args *a, const char *path, const struct dp_rpn_unit *u)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	if (!(a->flags & DP_RUN_TELL_JSON)) {
		printf("%s: %u probe%s for build %s\n", path, u->nprobes, u->nprobes == 1 ? "" : "s",
		       u->build_id[0] ? u->build_id : "(the module has no build-id)");
		return;
	}
	dp_json_open(&j, '{');
	dp_json_put_string(&j, "object", path);
	dp_json_put_string(&j, "module", u->name);
	dp_json_put_unsigned(&j, "probes", u->nprobes);
	dp_json_put_string_or_null(&j, "build_id", u->build_id[0] ? u->build_id : NULL);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static int build(const struct probes_args *a)
{
	struct dp_rpn_unit u = {0};
	struct dp_error err = {0};
	char path[4096];
	void *bytes = NULL;
	size_t size = 0;
	bool good = false;

	if (!dp_probes_read(a, &u))
		return CMD_FAILED;
	if (a->list) {
		dp_rpn_list(&u, stdout);
		dp_rpn_free(&u);
		return CMD_OK;
	}
	default_outfile(a->file, path, sizeof(path));
	if (dp_probes_resolve(a, &u)) {
		if (dp_rpn_save(&u, &bytes, &size, &err))
			dp_ui_error(&err, NULL);
		else
			good = write_file(a->outfile ? a->outfile : path, bytes, size);
	}
	if (good)
		tell_built(a, a->outfile ? a->outfile : path, &u);
	free(bytes);
	dp_rpn_free(&u);
	return good ? CMD_OK : CMD_FAILED;
}

static int show_vars(const struct probes_args *a, const char *name)
{
	struct timespec pause = {(time_t)a->interval, (long)((a->interval - (double)(time_t)a->interval) * 1e9)};
	int status = CMD_OK;

	if (!a->interval)
		return ask(a, DP_RUN_VARS, name, NULL, 0, false);
	dp_cmd_catch_signals();
	while (!dp_cmd_stop && status == CMD_OK && !ferror(stdout)) {
		dp_ui_time_line();
		status = ask(a, DP_RUN_VARS, name, NULL, 0, false);
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
	return status;
}

static int run(struct probes_args *a)
{
	const char *name = a->name ? a->name : "";

	switch (a->verb) {
	case VERB_INSERT:
	case VERB_APPLY:
		return insert(a);
	case VERB_REMOVE:
		return remove_probes(a);
	case VERB_QUERY:
		return ask(a, DP_RUN_QUERY, name, NULL, 0, false);
	case VERB_VARS:
		return show_vars(a, name);
	case VERB_BUILD:
		return build(a);
	default:
		return dp_ui_fail(E_CMD_MISSING, "`dprobes --help` shows the subcommands", "nothing to do");
	}
}

static int run_args(struct probes_args *a, int argc, char **argv)
{
	int r = dp_probes_parse(a, argc, argv);

	if (!r && a->help)
		dp_cmd_print_help(a->verb);
	else if (!r)
		r = run(a);
	dp_probes_args_free(a);
	return r;
}

int dp_cmd_probes(int argc, char **argv)
{
	struct probes_args a = {.verb = VERB_NONE};

	return run_args(&a, argc - 1, argv + 1);
}

static int cmd_verb(enum cmd_verb verb, int argc, char **argv)
{
	struct probes_args a = {.verb = verb};

	return run_args(&a, argc - 1, argv + 1);
}

int dp_cmd_insert(int argc, char **argv)
{
	return cmd_verb(VERB_INSERT, argc, argv);
}

int dp_cmd_remove(int argc, char **argv)
{
	return cmd_verb(VERB_REMOVE, argc, argv);
}

int dp_cmd_query(int argc, char **argv)
{
	return cmd_verb(VERB_QUERY, argc, argv);
}

int dp_cmd_vars(int argc, char **argv)
{
	if (argc > 1 && (argv[1][0] != '-' || !strncmp(argv[1], "-p", 2) || !strncmp(argv[1], "--pid", 5)))
		return dp_cmd_source_vars(argc, argv);
	return cmd_verb(VERB_VARS, argc, argv);
}

int dp_cmd_build(int argc, char **argv)
{
	return cmd_verb(VERB_BUILD, argc, argv);
}

int dp_cmd_apply(int argc, char **argv)
{
	return cmd_verb(VERB_APPLY, argc, argv);
}
