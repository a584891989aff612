/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines that are found in the modules of a target by what these have: static probes, system calls, functions of a
 * pattern. And the programs of modules, to which lines are added.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cmd/line-modules.h"
#include "cmd/line-programs.h"
#include "lang/dpcc/dpcc.h"
#include "lang/dpcc/syscalls.h"
#include "symbols/needed.h"
#include "symbols/statics.h"

/* ---- programs of modules ---- */

bool dp_cmd_program_has(const struct line_program *p, u32 line)
{
	for (u32 i = 0; i < p->n; i++)
		if (p->numbers[i] == line)
			return true;
	return false;
}

struct line_program *dp_cmd_program_of(struct line_programs *out, const struct line_program *wanted)
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

bool dp_cmd_add_to_program(struct line_program *p, const struct event_lines *e, u32 i, struct dp_error *err)
{
	u32 *numbers = realloc(p->numbers, (p->n + 1) * sizeof(*numbers));
	const struct event_line *line = &e->v[i];
	char *whole = NULL;
	bool good;

	if (!numbers)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	p->numbers = numbers;
	if (line->added &&
	    asprintf(&whole, "%.*s%s%s", (int)line->added_at, line->text, line->added, line->text + line->added_at) < 0)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	good = !dp_cc_lines_add(p->lines, whole ? whole : line->text, line->ends, err);
	free(whole);
	if (good)
		numbers[p->n++] = i;
	return good;
}

/* ---- static probes: in all modules that have some that match ---- */

/* What is called for each module: its file, and what MODNAME has. */
struct statics {
	const struct event_lines *e;
	u32 line;
	struct line_programs *out;
	const struct dp_location *loc;
	const char *program;    /* the file that the user means by the command's name, too */
	u32 found, here;        /* functions of the module at hand, where they are looked for, */
	u32 modules, functions; /* and of all */
	bool met;               /* a module that is meant, whatever it has */
	bool waits;             /* it is loaded later */
	bool any;               /* a module that is meant has static probes */
	struct dp_near near;    /* names of such as are like the pattern */
	struct dp_error *err;
	bool failed;
};

struct calls_here {
	const char *pattern;
	u32 fit, left_out;
};

static bool see_call(void *arg, const struct dp_call_site *site)
{
	struct calls_here *here = arg;

	if (!dp_syscall_may_be(site->makes, here->pattern))
		return false;
	*(site->fits ? &here->fit : &here->left_out) += 1;
	return site->fits; /* one is enough */
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

static int count_function(const struct dp_symbol *sym, void *arg)
{
	*(u32 *)arg += !sym->is_ifunc;
	return 0;
}

static u32 functions_in(struct dp_module *m, const char *pattern)
{
	u32 n = 0;

	dp_module_each_func(m, pattern, count_function, &n);
	return n;
}

/* Static probes, instructions that call the system, or functions, in modules that are a pattern. */
static bool has_static(struct statics *s, struct dp_module *m)
{
	const struct dp_location *loc = s->loc;
	const char *pattern = loc->symbol;
	const struct dp_static *v;
	u32 n = loc->kind == DP_LOC_STATIC ? dp_module_statics(m, &v) : 0;

	if (loc->kind == DP_LOC_CALL)
		return has_calls(m, pattern);
	if (loc->kind != DP_LOC_STATIC) {
		s->here = functions_in(m, pattern);
		return s->here;
	}
	for (u32 i = 0; i < n; i++)
		if (dp_static_matches(&v[i], pattern))
			return true;
	for (u32 i = 0; i < n; i++)
		dp_near_try(&s->near, strrchr(pattern, ':') ? strrchr(pattern, ':') + 1 : pattern, v[i].name);
	s->any |= n && s->loc->module[0];
	return false;
}

static void add_statics(struct statics *s, const char *file, const char *module)
{
	struct line_program *wanted = calloc(1, sizeof(*wanted)), *p = NULL;

	s->found++;
	if (wanted) {
		wanted->modtype = "user";
		wanted->waits = s->waits;
		snprintf(wanted->file, sizeof(wanted->file), "%s", file);
		snprintf(wanted->module, sizeof(wanted->module), "%s", module);
		p = dp_cmd_program_of(s->out, wanted);
	}
	if (!p) {
		dp_fail(s->err, E_EVENT_MEMORY, "lines");
	} else if (!dp_cmd_program_has(p, s->line)) { /* a library may have two names: it is met twice */
		s->failed |= !dp_cmd_add_to_program(p, s->e, s->line, s->err);
		s->modules++;
		s->functions += s->here;
	}
	s->failed |= !p;
	free(wanted);
}

/* The module's name as the user gives it: a path, a name (without its version, too), a pattern, or none. */
static bool is_meant(const struct statics *s, const char *path, const char *also)
{
	const char *name = s->loc->module, *base = dp_base_name(path);
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
	s->met = true;
	if (has_static(s, m))
		add_statics(s, real, real);
	dp_module_close(m);
	return s->failed;
}

static void add_process_statics(struct statics *s, struct line_finder *f)
{
	struct dp_process *proc = &f->process;
	bool any = false;
	struct dp_error why;
	struct dp_image *only = s->loc->module[0] ? dp_process_image(proc, s->loc->module, &why) : NULL;

	for (size_t i = 0; i < proc->nimages && !s->failed; i++) {
		const struct dp_image *im = &proc->images[i];
		const struct dp_map *map = dp_maps_at(&proc->maps, im->lo);
		const char *path = map && *map->path == '/' ? map->path : dp_module_path(im->mod);
		char file[4096];

		if (only ? im != only : !is_meant(s, path, NULL))
			continue;
		any = true;
		if (!has_static(s, im->mod))
			continue;
		dp_process_image_file(proc, im, file, sizeof(file));
		add_statics(s, file, path);
	}
	s->met |= any;
	if (!any)
		*s->err = why;
}

/* Of a file that is loaded later. */
static void add_later_statics(struct statics *s, const struct line_program *later)
{
	struct dp_module *m;

	if (dp_module_open(&m, later->file, s->err))
		return;
	s->waits = true;
	if (has_static(s, m))
		add_statics(s, later->file, later->module);
	dp_module_close(m);
}

static void fail_none(const struct statics *s, struct dp_error *err)
{
	const struct dp_location *loc = s->loc;
	u32 one;

	dp_fail(err,
		loc->kind == DP_LOC_CALL     ? E_CALLS_NONE
		: loc->kind == DP_LOC_STATIC ? E_STATIC_NONE
					     : E_SYM_NONE,
		"%.80s%s%.100s", loc->module, loc->module[0] ? ":" : "", loc->symbol);
	if (loc->kind == DP_LOC_CALL && !dp_syscalls_matching(loc->symbol, &one, 1))
		dp_syscall_near(loc->symbol, err);
	if (loc->kind == DP_LOC_STATIC && (s->near.n || s->any))
		dp_near_hint(&s->near, "", err);
	else if (loc->kind == DP_LOC_STATIC && s->met && loc->module[0] && !dp_is_module_pattern(loc->module))
		dp_error_hint(err, "this build of %.60s has no static probes; packages of distributions often have",
			      loc->module);
}

static void look_for_statics(struct statics *s, struct line_finder *f)
{
	const char *typed = f->target->all ? f->target->all : f->target->command ? f->target->command[0] : NULL;
	char path[4096];

	s->program = typed ? dp_base_name(typed) : NULL;
	if (f->is_read)
		add_process_statics(s, f);
	else if (!add_file_statics(s, f->program))
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

static bool no_process(const struct dp_location *loc, struct dp_error *err)
{
	dp_fail(err, E_CMD_MISSING, "%.80s: no process to probe", loc->symbol);
	if (loc->kind == DP_LOC_CALL)
		dp_error_hint(err, "name one with -p; `dprobes kernel load`, and the calls of all processes are seen");
	return false;
}

bool dp_cmd_add_static_line(struct line_finder *f, const struct event_lines *e, u32 i, const struct dp_location *loc,
			    struct line_programs *out, bool *met, struct dp_error *err)
{
	struct statics s = {.e = e, .line = i, .out = out, .loc = loc, .err = err};
	struct dp_location any = {.kind = DP_LOC_STATIC};
	struct dp_error first;

	if (!f->is_read && !f->program[0] && loc->module[0] == '/')
		add_file_statics(&s, loc->module);
	else if (!f->is_read && !f->program[0])
		return no_process(loc, err);
	else
		look_for_statics(&s, f);
	first = *err;
	if (!s.found && !s.failed && loc->module[0] && loc->kind == DP_LOC_STATIC) { /* the provider, in any module */
		snprintf(any.symbol, sizeof(any.symbol), "%.200s:%.300s", loc->module, loc->symbol);
		s.loc = &any;
		look_for_statics(&s, f);
		s.loc = loc;
		if (!s.found && first.code)
			*err = first;
	}
	if (!s.found && (!err->code || dp_is_module_pattern(loc->module)))
		fail_none(&s, err);
	*met = s.met || !loc->module[0];
	if (s.found && loc->kind == DP_LOC_CALL && !f->target->quiet)
		tell_unseen(loc->symbol);
	if (s.functions && !s.failed && !f->target->quiet)
		dp_ui_note("%s:%s: %u function%s in %u module%s", dp_ui_clean(loc->module), dp_ui_clean(loc->symbol),
			   s.functions, s.functions == 1 ? "" : "s", s.modules, s.modules == 1 ? "" : "s");
	return s.found && !s.failed;
}

bool dp_cmd_add_static_later(const struct event_lines *e, u32 i, const struct dp_location *loc,
			     const struct line_program *later, struct line_programs *out, struct dp_error *err)
{
	struct statics s = {.e = e, .line = i, .out = out, .loc = loc, .err = err};

	add_later_statics(&s, later);
	if (!s.found && !err->code)
		fail_none(&s, err);
	return s.found && !s.failed;
}
