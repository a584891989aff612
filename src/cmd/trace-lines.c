/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See trace-lines.h. Nothing of a target is changed here: its modules are read, as the compiler reads them. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/trace-lines.h"
#include "lang/dpcc/dpcc.h"
#include "lang/dpcc/syscalls.h"
#include "symbols/needed.h"
#include "symbols/statics.h"
#include "symbols/sym-lines.h"

bool dp_cmd_lines_need_compiler(const struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++)
		if (!e->v[i].parsed && (dp_cc_line_is_body(e->v[i].text) || dp_cc_line_says_more(e->v[i].text)))
			return true;
	return false;
}

/* ---- which module ---- */

struct finder {
	const struct line_target *target;
	struct dp_process process; /* with a PID */
	bool is_read;
	char program[4096]; /* of a command */
};

static bool tell(const struct event_line *line, struct dp_error *err)
{
	struct dp_error told = *err;

	snprintf(told.detail, sizeof(told.detail), "%s%.250s", line->where, err->detail);
	if (line->added && told.column > (int)line->added_at) /* as the user has written it */
		told.column -= DP_MIN((int)strlen(line->added), told.column - (int)line->added_at);
	dp_ui_error(&told, line->text);
	return false;
}

/* The program that a command starts, as execvp() finds it. */
static bool find_program(const char *name, char *path, size_t size)
{
	const char *dirs = getenv("PATH");

	snprintf(path, size, "%s", name);
	if (strchr(name, '/'))
		return !access(path, R_OK);
	for (const char *p = dirs ? dirs : "/bin:/usr/bin"; *p; p += strcspn(p, ":") + (p[strcspn(p, ":")] == ':')) {
		snprintf(path, size, "%.*s/%s", (int)strcspn(p, ":"), p, name);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

static bool finder_open(struct finder *f, struct dp_error *err)
{
	char path[4096];

	if (f->target->pid) {
		f->is_read = !dp_process_read(&f->process, f->target->pid, err);
		return f->is_read;
	}
	if (f->target->all && realpath(f->target->all, f->program))
		return true;
	if (!f->target->all && !f->target->command)
		return true;
	if (f->target->all || !find_program(f->target->command[0], path, sizeof(path)) || !realpath(path, f->program)) {
		dp_fail(err, E_FILE_OPEN, "%.150s", f->target->all ? f->target->all : f->target->command[0]);
		return false;
	}
	return true;
}

struct wanted { /* what a line without a module names */
	const struct dp_location *loc;
	struct dp_error *err;
};

/* How many lines are of a module that the process has. */
static u32 modules_in(const struct event_lines *e, pid_t pid)
{
	struct dp_error err;
	struct dp_event ev;
	struct dp_maps maps;
	u32 n = 0, behind;

	if (dp_maps_read(&maps, pid, NULL))
		return 0;
	for (u32 i = 0; i < e->n; i++) {
		bool found = false;

		if (dp_cc_line_is_body(e->v[i].text) || dp_event_head(&ev, e->v[i].text, &behind, &err))
			continue;
		for (size_t k = 0; k < maps.n && !found; k++) {
			const char *base = strrchr(maps.v[k].path, '/');

			found = maps.v[k].x && base &&
				(!ev.loc.module[0] || dp_needed_is_meant(base + 1, ev.loc.module) ||
				 !strcmp(maps.v[k].path, ev.loc.module));
		}
		n += found;
	}
	dp_maps_free(&maps);
	return n;
}

pid_t dp_cmd_lines_process(const struct event_lines *e, const pid_t *pids, u32 n)
{
	pid_t best = pids[0];
	u32 most = 0;

	for (u32 i = 0; i < n && most < e->n; i++) {
		u32 k = modules_in(e, pids[i]);

		if (k > most)
			best = pids[i];
		most = DP_MAX(most, k);
	}
	return best;
}

static bool module_has(struct dp_module *m, const struct dp_location *loc, struct dp_error *err)
{
	u64 addrs[DP_LINE_COPIES_MAX];
	struct dp_symbol sym;
	u32 used;

	if (loc->kind == DP_LOC_LINE)
		return dp_module_line(m, loc->symbol, (u32)loc->offset, addrs, DP_LINE_COPIES_MAX, &used, err) > 0;
	return loc->kind != DP_LOC_SYMBOL || !dp_module_symbol(m, loc->symbol, &sym, err);
}

static bool file_has(void *arg, const char *path)
{
	const struct wanted *w = arg;
	struct dp_module *m;
	struct dp_error ignored;
	bool has;

	if (dp_module_open(&m, path, &ignored))
		return false;
	has = module_has(m, w->loc, &ignored);
	dp_module_close(m);
	return has;
}

/* For a line that may be left out. What a pattern matches is the compiler's business. */
static bool file_may_have(const char *path, const struct dp_location *loc, struct dp_error *err)
{
	struct wanted w = {loc, err};

	return strpbrk(loc->symbol, "*?[") || file_has(&w, path);
}

/* The executable, else another module that has the name; which one must be clear. */
static struct dp_image *image_with(struct finder *f, const struct dp_location *loc, struct dp_error *err)
{
	struct dp_image *found = NULL, *exe = dp_process_image(&f->process, "exe", err);
	struct dp_error ignored;

	if (!exe || module_has(exe->mod, loc, err))
		return exe;
	for (size_t i = 0; i < f->process.nimages; i++) {
		struct dp_image *im = &f->process.images[i];

		if (im == exe || !module_has(im->mod, loc, &ignored))
			continue;
		if (found && loc->kind == DP_LOC_LINE) {
			dp_fail(err, E_LINE_COPIES, "%.80s is in %.60s and in %.60s", loc->symbol,
				dp_module_base(found->mod), dp_module_base(im->mod));
			dp_error_hint(err, "name the module: %.60s:%.80s:%lld", dp_module_base(found->mod), loc->symbol,
				      (long long)loc->offset);
			return NULL;
		}
		found = found ? found : im;
	}
	return found;
}

static bool of_process(struct finder *f, const struct dp_location *loc, struct line_program *p, struct dp_error *err)
{
	struct dp_image *im = loc->module[0] ? dp_process_image(&f->process, loc->module, err)
					     : image_with(f, loc, err);
	const struct dp_map *map = im ? dp_maps_at(&f->process.maps, im->lo) : NULL;

	if (!im)
		return false;
	snprintf(p->file, sizeof(p->file), "%s", dp_module_path(im->mod));
	snprintf(p->module, sizeof(p->module), "%s", map && *map->path == '/' ? map->path : dp_module_path(im->mod));
	return true;
}

static bool of_command(struct finder *f, const struct dp_location *loc, struct line_program *p, struct dp_error *err)
{
	const char *base = strrchr(f->program, '/') + 1, *typed = f->target->all;
	struct wanted w = {loc, err};

	typed = typed ? typed : f->target->command[0];
	typed = strrchr(typed, '/') ? strrchr(typed, '/') + 1 : typed;
	snprintf(p->file, sizeof(p->file), "%s", f->program);
	if (!loc->module[0]) {
		struct dp_module *m;
		bool has;

		if (dp_module_open(&m, f->program, err))
			return false;
		has = module_has(m, loc, err);
		dp_module_close(m);
		return has || dp_needed_each(f->program, file_has, &w, p->file, sizeof(p->file));
	}
	if (loc->module[0] == '/') {
		snprintf(p->file, sizeof(p->file), "%s", loc->module);
		return true;
	}
	if (!strcmp(loc->module, base) || !strcmp(loc->module, typed) || !strcmp(loc->module, "exe") ||
	    dp_needed_is_meant(base, loc->module) || dp_needed_find(f->program, loc->module, p->file, sizeof(p->file)))
		return true;
	dp_fail(err, E_MOD_NONE, "%.80s is no library that %.80s needs", loc->module, base);
	dp_error_hint(err, "give the path of a library that is loaded later: /PATH/%.80s:...", loc->module);
	return false;
}

static bool in_parentheses(const char *text, const char *word, char *out, size_t size)
{
	size_t n = strlen(word), len = strlen(text);

	if (strncmp(text, word, n) || text[n] != '(' || text[len - 1] != ')')
		return false;
	snprintf(out, size, "%.*s", (int)(len - n - 2), text + n + 1);
	return true;
}

/* Processes that map one file may have others of the same name: those are not meant. */
static bool is_file_of_all(const struct finder *f, const char *file)
{
	char real[4096];

	return realpath(file, real) && !strcmp(real, f->program);
}

static bool find_module(struct finder *f, const struct dp_location *loc, struct line_program *p, struct dp_error *err)
{
	bool found = true;

	p->modtype = "user";
	if (!strcmp(loc->module, "kernel")) {
		p->modtype = "kernel";
		strcpy(p->module, "vmlinux");
		return true;
	}
	if (in_parentheses(loc->module, "kmod", p->module, sizeof(p->module))) {
		p->modtype = "kmod";
		return true;
	}
	p->uprobes = in_parentheses(loc->module, "user", p->file, sizeof(p->file));
	if (p->uprobes)
		found = true;
	else if (f->is_read)
		found = of_process(f, loc, p, err);
	else if (f->program[0])
		found = of_command(f, loc, p, err);
	else if (loc->module[0] == '/')
		snprintf(p->file, sizeof(p->file), "%s", loc->module);
	else
		found = false;
	if (!found && !err->code)
		dp_fail(err, E_CMD_MISSING, "%.80s: no process to probe", loc->module);
	if (found && !p->module[0])
		snprintf(p->module, sizeof(p->module), "%s", p->file);
	if (found && f->target->all && !is_file_of_all(f, p->file)) {
		dp_fail(err, E_CMD_EXTRA, "%.80s is not the file of --all", p->file);
		dp_error_hint(err, "with --all, lines with names, tables or a body are of that file alone");
		return false;
	}
	return found;
}

/* ---- static probes: in all modules that have some that match ---- */

/* What is called for each module: its file, and what MODNAME has. */
struct statics {
	const struct event_lines *e;
	u32 line;
	struct line_programs *out;
	const struct dp_location *loc;
	const char *program; /* the file that the user means by the command's name, too */
	u32 found;
	struct dp_error *err;
	bool failed;
};

static bool add_to(struct line_program *p, const struct event_lines *e, u32 i, struct dp_error *err);
static struct line_program *program_of(struct line_programs *out, const struct line_program *wanted);

struct calls_here {
	const char *pattern;
	u32 fit, left_out;
};

static bool see_call(void *arg, u64 addr, s32 number, bool fits)
{
	struct calls_here *here = arg;

	(void)addr;
	if (!dp_syscall_may_be(number, here->pattern))
		return false;
	*(fits ? &here->fit : &here->left_out) += 1;
	return fits; /* one is enough */
}

static bool has_calls(struct dp_module *m, const char *pattern)
{
	struct calls_here here = {.pattern = pattern};

	dp_module_each_syscall(m, see_call, &here);
	if (!here.fit && here.left_out)
		dp_ui_note("%s: none of its %u instructions that make such calls can be probed", dp_module_base(m),
			   here.left_out);
	return here.fit;
}

/* Static probes, or instructions that call the system. */
static bool has_static(struct dp_module *m, const struct dp_location *loc)
{
	const char *pattern = loc->symbol;
	const struct dp_static *v;
	u32 n = loc->kind == DP_LOC_STATIC ? dp_module_statics(m, &v) : 0;

	if (loc->kind == DP_LOC_CALL)
		return has_calls(m, pattern);
	for (u32 i = 0; i < n; i++)
		if (dp_static_matches(&v[i], pattern))
			return true;
	return false;
}

static void add_statics(struct statics *s, const char *file, const char *module)
{
	struct line_program *wanted = calloc(1, sizeof(*wanted)), *p = NULL;

	s->found++;
	if (wanted) {
		wanted->modtype = "user";
		snprintf(wanted->file, sizeof(wanted->file), "%s", file);
		snprintf(wanted->module, sizeof(wanted->module), "%s", module);
		p = program_of(s->out, wanted);
	}
	if (!p)
		dp_fail(s->err, E_EVENT_MEMORY, "lines");
	/* A library may have two names: it is met twice. */
	else if (!p->n || p->numbers[p->n - 1] != s->line)
		s->failed |= !add_to(p, s->e, s->line, s->err);
	s->failed |= !p;
	free(wanted);
}

/* The module's name as the user gives it: a path, a name (without its version, too), a pattern, or none. */
static bool is_meant(const struct statics *s, const char *path, const char *also)
{
	const char *name = s->loc->module, *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t n = strlen(name);

	return !*name || (!strncmp(name, base, n) && base[n] == '.') || !strcmp(name, path) ||
	       dp_needed_is_meant(base, name) || !fnmatch(name, base, 0) || (also && dp_needed_is_meant(also, name));
}

static bool add_file_statics(void *arg, const char *path)
{
	struct statics *s = arg;
	const char *typed = s->program;
	struct dp_error ignored;
	struct dp_module *m;
	char real[4096];

	s->program = NULL;
	if (!is_meant(s, path, typed) || !realpath(path, real) || dp_module_open(&m, real, &ignored))
		return false;
	if (has_static(m, s->loc))
		add_statics(s, real, real);
	dp_module_close(m);
	return s->failed;
}

static void add_process_statics(struct statics *s, struct finder *f)
{
	struct dp_process *proc = &f->process;
	bool any = false;
	struct dp_error why;
	struct dp_image *only = s->loc->module[0] ? dp_process_image(proc, s->loc->module, &why) : NULL;

	for (size_t i = 0; i < proc->nimages && !s->failed; i++) {
		const struct dp_image *im = &proc->images[i];
		const struct dp_map *map = dp_maps_at(&proc->maps, im->lo);
		const char *path = map && *map->path == '/' ? map->path : dp_module_path(im->mod);

		any |= only ? im == only : is_meant(s, path, NULL);
		if ((only ? im == only : is_meant(s, path, NULL)) && has_static(im->mod, s->loc))
			add_statics(s, dp_module_path(im->mod), path);
	}
	if (!any)
		*s->err = why;
}

static void look_for_statics(struct statics *s, struct finder *f)
{
	const char *typed = f->target->all ? f->target->all : f->target->command ? f->target->command[0] : NULL;
	char path[4096];

	s->program = typed && strrchr(typed, '/') ? strrchr(typed, '/') + 1 : typed;
	if (f->is_read)
		add_process_statics(s, f);
	else if (!add_file_statics(s, f->program) && !f->target->all)
		dp_needed_each(f->program, add_file_statics, s, path, sizeof(path));
}

/* Calls that the kernel's own code in the process answers (the vDSO), most of the time, without being called. */
static void tell_unseen(const char *pattern)
{
	static const char *const names[] = {"clock_gettime", "gettimeofday", "getcpu", "time", "clock_getres"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(names); i++)
		if (strcmp(pattern, "*") && !fnmatch(pattern, names[i], 0)) {
			dp_ui_note("%s is mostly answered by the vDSO, without a system call, and not seen then: "
				   "p libc:%s sees all calls by the C library",
				   names[i], names[i]);
			return;
		}
}

static bool add_static_line(struct finder *f, const struct event_lines *e, u32 i, const struct dp_location *loc,
			    struct line_programs *out, struct dp_error *err)
{
	struct statics s = {.e = e, .line = i, .out = out, .loc = loc, .err = err};
	struct dp_location any = {.kind = DP_LOC_STATIC};
	struct dp_error first;

	if (!f->is_read && !f->program[0] && loc->module[0] == '/')
		add_file_statics(&s, loc->module);
	else if (!f->is_read && !f->program[0])
		return !dp_fail(err, E_CMD_MISSING, "%.80s: no process to probe", loc->symbol);
	else
		look_for_statics(&s, f);
	first = *err;
	if (!s.found && !s.failed && loc->module[0] && loc->kind == DP_LOC_STATIC) { /* the provider, in any module */
		snprintf(any.symbol, sizeof(any.symbol), "%.200s:%.300s", loc->module, loc->symbol);
		s.loc = &any;
		look_for_statics(&s, f);
		if (!s.found && first.code)
			*err = first;
	}
	if (!s.found && !err->code)
		dp_fail(err, loc->kind == DP_LOC_CALL ? E_CALLS_NONE : E_STATIC_NONE, "%.80s%s%.100s", loc->module,
			loc->module[0] ? ":" : "", loc->symbol);
	if (s.found && loc->kind == DP_LOC_CALL && !f->target->quiet)
		tell_unseen(loc->symbol);
	return s.found && !s.failed;
}

/* ---- programs ---- */

static struct line_program *program_of(struct line_programs *out, const struct line_program *wanted)
{
	struct line_program *v;

	for (u32 i = 0; i < out->n; i++)
		if (!strcmp(out->v[i].module, wanted->module) && out->v[i].uprobes == wanted->uprobes)
			return &out->v[i];
	v = realloc(out->v, (out->n + 1) * sizeof(*v));
	if (!v)
		return NULL;
	out->v = v;
	v[out->n] = *wanted;
	v[out->n].lines = dp_cc_lines_new(wanted->module, wanted->modtype);
	return v[out->n].lines ? &v[out->n++] : NULL;
}

static bool add_to(struct line_program *p, const struct event_lines *e, u32 i, struct dp_error *err)
{
	u32 *numbers = realloc(p->numbers, (p->n + 1) * sizeof(*numbers));
	const struct event_line *line = &e->v[i];
	char *whole = NULL;
	bool good;

	if (!numbers)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	p->numbers = numbers;
	numbers[p->n++] = i;
	if (!line->added)
		return !dp_cc_lines_add(p->lines, line->text, err);
	if (asprintf(&whole, "%.*s%s%s", (int)line->added_at, line->text, line->added, line->text + line->added_at) < 0)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	good = !dp_cc_lines_add(p->lines, whole, err);
	free(whole);
	return good;
}

static bool add_line(struct finder *f, const struct event_lines *e, u32 i, struct line_programs *out)
{
	const struct event_line *line = &e->v[i];
	struct line_program *wanted = calloc(1, sizeof(*wanted)), *p;
	struct dp_error err = {0};
	struct dp_event ev;
	bool good = false;
	u32 behind;

	if (!wanted || dp_event_head(&ev, line->text, &behind, &err))
		goto out;
	if (ev.is_static || ev.is_call) {
		good = add_static_line(f, e, i, &ev.loc, out, &err);
		if (!good && !err.column)
			dp_error_column(&err, ev.loc.column);
		goto out;
	}
	if (!find_module(f, &ev.loc, wanted, &err)) {
		if (err.column < 0 || !err.column)
			dp_error_column(&err, ev.loc.column);
		goto out;
	}
	if (line->optional && !file_may_have(wanted->file, &ev.loc, &err))
		goto out;
	p = program_of(out, wanted);
	good = p ? add_to(p, e, i, &err) : !dp_fail(&err, E_EVENT_MEMORY, "lines");
out:
	free(wanted);
	if (!good && line->optional)
		return true;
	return good || tell(line, &err);
}

static bool compile(struct line_program *p, const struct event_lines *e, const struct line_target *t)
{
	struct dpcc_options opt = {.defines = t->defines,
				   .ndefines = t->ndefines,
				   .module = p->file[0] ? p->file : NULL,
				   .all_places = t->allow_trap,
				   .takes_copies = true,
				   .notes = t->quiet ? NULL : dp_ui_notes()};
	struct dp_error err = {0};
	struct dpcc_result res;
	u32 wrong;
	int r = dp_cc_lines_compile(p->lines, &opt, &res, &wrong, &err);

	if (r && wrong != ~0u)
		return tell(&e->v[p->numbers[wrong]], &err);
	if (!r) {
		r = dp_rpn_parse(&p->unit, res.text, "line", ".", NULL, 0, &err);
		p->compiled = !r;
		for (u32 i = 0; !r && i < res.ncopies; i++)
			r = dp_rpn_copy_probe(&p->unit, res.copies[i].probe, res.copies[i].offset, res.copies[i].event,
					      &err);
		dp_cc_result_free(&res);
	}
	if (r)
		dp_ui_error(&err, res.line[0] ? res.line : NULL);
	return !r;
}

static bool all_bodies(const struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++)
		if (!dp_cc_line_is_body(e->v[i].text))
			return false;
	return true;
}

/* Of several modules each has variables of its own, and runs the bodies on them. */
static void tell_bodies(const struct event_lines *e, const struct line_programs *out)
{
	for (u32 i = 0; out->n > 1 && i < e->n; i++)
		if (dp_cc_line_is_body(e->v[i].text) && *e->v[i].text != 'b') {
			dp_ui_note(
			    "the lines are of %u modules, which have variables of their own: %.40s runs for each",
			    out->n, dp_ui_clean(e->v[i].text));
			return;
		}
}

bool dp_cmd_lines_compile(const struct event_lines *e, const struct line_target *t, struct line_programs *out)
{
	struct finder f = {.target = t};
	struct dp_error err = {0};
	bool good = finder_open(&f, &err);

	if (!good)
		dp_ui_error(&err, NULL);
	for (u32 i = 0; good && i < e->n; i++)
		if (!dp_cc_line_is_body(e->v[i].text))
			good = add_line(&f, e, i, out);
	if (good && !out->n) {
		dp_fail(&err, E_ARM_NONE, "the program has no place of the %u line%s", e->n, e->n == 1 ? "" : "s");
		if (all_bodies(e))
			dp_error_hint(&err, "begin, end and timers need a line with a place beside them");
		dp_ui_error(&err, NULL);
		good = false;
	}
	/* Variables are for the bodies of all lines; each module has its own. */
	for (u32 i = 0; good && i < e->n; i++)
		for (u32 k = 0; good && dp_cc_line_is_body(e->v[i].text) && k < out->n; k++)
			good = add_to(&out->v[k], e, i, &err) || tell(&e->v[i], &err);
	if (good && !t->quiet)
		tell_bodies(e, out);
	for (u32 i = 0; good && i < out->n; i++)
		good = compile(&out->v[i], e, t);
	if (f.is_read)
		dp_process_free(&f.process);
	return good;
}

void dp_cmd_lines_free(struct line_programs *p)
{
	for (u32 i = 0; i < p->n; i++) {
		dp_cc_lines_free(p->v[i].lines);
		free(p->v[i].numbers);
		if (p->v[i].compiled)
			dp_rpn_free(&p->v[i].unit);
	}
	free(p->v);
}
