/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See trace-lines.h. Nothing of a target is changed here: its modules are read, as the compiler reads them. */
#include <stdlib.h>
#include <string.h>

#include "cmd/line-modules.h"
#include "cmd/line-programs.h"
#include "host/kernel/kernel.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/needed.h"
#include "symbols/tracepoints.h"

/* A source line in the kernel, which has symbols alone: the compiler reads debug information. */
static bool is_kernel_line(const struct event_line *line)
{
	const struct dp_location *loc = &dp_event_of_line(line->parsed)->loc;

	return loc->kind == DP_LOC_LINE && dp_kernel_is_place(loc);
}

bool dp_cmd_lines_need_compiler(const struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++) {
		const struct event_line *l = &e->v[i];

		if (l->parsed ? is_kernel_line(l) : dp_cc_line_is_body(l->text) || dp_cc_line_says_more(l->text))
			return true;
	}
	return false;
}

static bool tell(const struct event_line *line, struct dp_error *err)
{
	struct dp_error told = *err;

	snprintf(told.detail, sizeof(told.detail), "%s%.250s", line->where, err->detail);
	if (line->added && told.column > (int)line->added_at) /* as the user has written it */
		told.column -= DP_MIN((int)strlen(line->added), told.column - (int)line->added_at);
	dp_ui_error(&told, line->text);
	return false;
}

void dp_cmd_tell_skipped(const struct event_line *line, const struct dp_error *err)
{
	dp_ui_note("left out: %s: %s: %s: %s", dp_ui_clean(line->text), dp_error_info(err->code)->name,
		   dp_error_info(err->code)->sentence, dp_ui_clean(err->detail));
}

/* ---- programs ---- */

/* To the program of a module that is there, or loaded later. */
static bool add_to_module(const struct line_program *wanted, const struct event_lines *e, u32 i,
			  struct line_programs *out, struct dp_error *err)
{
	struct line_program *p = dp_cmd_program_of(out, wanted);

	if (!p)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	return dp_cmd_program_has(p, i) || dp_cmd_add_to_program(p, e, i, err);
}

static bool is_of_several(const struct line_finder *f, const struct dp_location *loc)
{
	bool is_function = loc->kind == DP_LOC_SYMBOL || loc->kind == DP_LOC_PATTERN;

	return loc->kind == DP_LOC_STATIC || (loc->kind == DP_LOC_CALL && !dp_cmd_is_kernel_call(f, loc)) ||
	       (is_function && dp_is_module_pattern(loc->module));
}

/* The module is not there: the line waits for it. False: there is nothing to wait for, or the line is wrong. */
static bool wait_for(struct line_finder *f, const struct event_lines *e, u32 i, const struct dp_location *loc,
		     struct line_program *wanted, struct line_programs *out, struct dp_error *err)
{
	if (!dp_cmd_find_later(f, loc->module, wanted, err))
		return false;
	*err = (struct dp_error){0};
	e->v[i].waits = true;
	if (!wanted->file[0])
		return true;
	if (!is_of_several(f, loc))
		return add_to_module(wanted, e, i, out, err);
	return dp_cmd_add_static_later(e, i, loc, wanted, out, err);
}

/* To the programs of the kernel and of its modules, of those that have a tracepoint that matches. */
static bool add_tracepoints(const struct event_lines *e, u32 i, const struct dp_location *loc,
			    struct line_programs *out, struct dp_error *err)
{
	struct line_program *wanted = calloc(1, sizeof(*wanted));
	struct dp_tracepoints all = {.v = NULL};
	bool good = wanted && !dp_tracepoints_read(&all, err);
	u32 found = 0;

	for (u32 k = 0; good && k < all.n; k++) {
		if (!dp_tracepoint_matches(&all.v[k], loc->module, loc->symbol))
			continue;
		found++;
		wanted->modtype = all.v[k].module[0] ? "kmod" : "kernel";
		snprintf(wanted->module, sizeof(wanted->module), "%s",
			 all.v[k].module[0] ? all.v[k].module : "vmlinux");
		good = add_to_module(wanted, e, i, out, err);
	}
	if (!wanted)
		dp_fail(err, E_EVENT_MEMORY, "lines");
	else if (good && !found)
		dp_tracepoints_none(&all, loc->module, loc->symbol, err);
	dp_tracepoints_free(&all);
	free(wanted);
	return good && found;
}

/*
 * waits: for a module that is not there, if it may be one that is loaded later. Without it, the line is added where its
 * place is.
 */
static bool add_place(struct line_finder *f, const struct event_lines *e, u32 i, const struct dp_location *loc,
		      bool waits, struct line_programs *out, struct dp_error *err)
{
	bool is_several = is_of_several(f, loc), good, met = true;
	struct line_program *wanted;

	if (loc->kind == DP_LOC_TRACEPOINT)
		return add_tracepoints(e, i, loc, out, err);
	wanted = calloc(1, sizeof(*wanted));
	if (!wanted)
		return !dp_fail(err, E_EVENT_MEMORY, "lines");
	good = is_several ? dp_cmd_add_static_line(f, e, i, loc, out, &met, err)
			  : dp_cmd_find_module(f, loc, wanted, err);
	if (!good && (err->code == E_MOD_NONE || !met))
		good = waits && !e->v[i].optional && wait_for(f, e, i, loc, wanted, out, err);
	else if (good && !is_several)
		good = ((waits && !e->v[i].optional) || strcmp(wanted->modtype, "user") != 0 ||
			dp_cmd_file_may_have(wanted->file, loc)) &&
		       add_to_module(wanted, e, i, out, err);
	free(wanted);
	return good;
}

/* The others do without it. */
static bool can_skip(const struct event_line *line)
{
	return !dp_cc_line_is_body(line->text) && !line->ends;
}

/* A line that is wrong. Whether it is left out. */
static bool complain(const struct event_line *line, const struct line_target *t, struct dp_error *err)
{
	bool skips = t->skip && can_skip(line);

	if (!skips)
		tell(line, err);
	else if (!t->quiet)
		dp_cmd_tell_skipped(line, err);
	return skips;
}

/* Names are those of the processes that are there: of a program that they start, the file must be known. */
static void hint_path(const struct dp_location *loc, struct dp_error *err)
{
	if ((err->code == E_SYM_NONE || err->code == E_MOD_NONE) && loc->module[0] != '/' &&
	    strncmp(err->hint, "did you mean", 12) != 0)
		dp_error_hint(err, "give the path of a program that is started later: /PATH/%.80s:%.80s",
			      loc->module[0] ? dp_base_name(loc->module) : "PROGRAM", loc->symbol);
}

static bool add_line(struct line_finder *f, const struct event_lines *e, u32 i, const struct line_target *t,
		     struct line_programs *out)
{
	const struct event_line *line = &e->v[i];
	struct dp_error err = {0};
	struct dp_event ev;
	u32 behind;
	bool good;

	if (dp_event_head(&ev, line->text, &behind, &err))
		return line->optional || complain(line, t, &err);
	good = add_place(f, e, i, &ev.loc, true, out, &err);
	if (!good && err.column <= 0)
		dp_error_column(&err, ev.loc.column);
	if (!good && t->tree)
		hint_path(&ev.loc, &err);
	return good || line->optional || complain(line, t, &err);
}

static bool name_of_module(const struct event_line *line, char name[DP_MODULE_MAX])
{
	struct dp_error ignored;
	struct dp_event ev;
	u32 behind;

	*name = '\0';
	if (!dp_cc_line_is_body(line->text) && !dp_event_head(&ev, line->text, &behind, &ignored))
		snprintf(name, DP_MODULE_MAX, "%s", ev.loc.module);
	return *name;
}

/* What a process has of the lines: mistakes are told where no process has a line. */
static void add_what_is_here(struct line_finder *f, const struct event_lines *e, struct line_programs *out)
{
	for (u32 i = 0; i < e->n; i++) {
		struct dp_error ignored = {0};
		struct dp_event ev;
		u32 behind;

		if (!dp_cc_line_is_body(e->v[i].text) && !dp_event_head(&ev, e->v[i].text, &behind, &ignored))
			e->v[i].places += add_place(f, e, i, &ev.loc, false, out, &ignored);
	}
}

/* The files that the lines of one process are in: processes that have the same need to be looked at once. */
static u64 files_of(const struct event_lines *e, pid_t pid)
{
	char name[DP_MODULE_MAX], exe[4096];
	u64 sum = 14695981039346656037ull;
	struct dp_maps maps;

	if (dp_maps_read(&maps, pid, NULL))
		return 0;
	dp_process_exe(pid, exe, sizeof(exe));
	for (size_t i = 0; i < maps.n; i++) {
		bool is_meant = !strcmp(maps.v[i].path, exe);

		for (u32 k = 0; k < e->n && maps.v[i].x && !is_meant; k++)
			is_meant = name_of_module(&e->v[k], name) &&
				   (dp_is_module_pattern(name) || dp_cmd_map_named(&maps, name) == &maps.v[i]);
		if (is_meant && maps.v[i].x)
			sum = (sum ^ maps.v[i].inode ^ (u64)maps.v[i].dev_minor << 40) * 1099511628211ull;
	}
	dp_maps_free(&maps);
	return sum;
}

/* The lines in each of several processes: those that have a module from another file get a program of their own. */
static bool add_of_several(const struct event_lines *e, const struct line_target *t, struct line_programs *out)
{
	struct line_target quiet = *t;
	u64 *seen = calloc(t->npids, sizeof(*seen));
	struct dp_error err = {0};
	bool good = seen;
	u32 n = 0;

	for (u32 i = 0; good && i < t->npids; i++) {
		u64 files = files_of(e, t->pids[i]);
		struct line_finder f;
		u32 k = 0;

		while (k < n && seen[k] != files)
			k++;
		if (!files || k < n || !dp_cmd_finder_open(&f, &quiet, t->pids[i], &err))
			continue;
		seen[n++] = files;
		add_what_is_here(&f, e, out);
		dp_cmd_finder_close(&f);
		quiet.quiet = true; /* the first one has told */
	}
	free(seen);
	return good;
}

/* Offsets are those of this build: a process that has another one under the same name refuses them. */
static void note_build(struct line_program *p)
{
	struct dp_module *m;
	struct dp_error ignored;

	if (strcmp(p->modtype, "user") || p->uprobes || dp_module_open(&m, p->file, &ignored))
		return;
	snprintf(p->unit.build_id, sizeof(p->unit.build_id), "%s", dp_module_identity(m));
	dp_module_close(m);
}

/* By a session of the process itself. */
static bool is_in_process(const struct line_program *p)
{
	return !strcmp(p->modtype, "user") && !p->uprobes;
}

struct threads_set { /* variables of threads that lines in processes set */
	struct dpcc_thread *v;
	u32 n;
};

static bool add_thread(struct threads_set *s, const struct dp_rpn_aggregate *a)
{
	struct dpcc_thread *v;

	for (u32 i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].name, a->name)) {
			s->v[i].setters++;
			return true;
		}
	v = realloc(s->v, (s->n + 1) * sizeof(*v));
	if (!v)
		return false;
	v[s->n++] = (struct dpcc_thread){a->name, a->keys, 1};
	s->v = v;
	return true;
}

static bool find_threads_set(struct threads_set *s, const struct line_programs *out, const struct line_target *t)
{
	for (u32 i = 0; i < out->n; i++) {
		const struct line_program *p = &out->v[i];

		for (u32 k = 0; p->compiled && is_in_process(p) && k < p->unit.naggregates; k++)
			if (p->unit.aggregates[k].is_set && !add_thread(s, &p->unit.aggregates[k]))
				return false;
	}
	/* Several processes may have different files of a name: no process has two of these programs. */
	for (u32 i = 0; t->npids > 1 && i < s->n; i++)
		s->v[i].setters = 1;
	return true;
}

/*
 * out: the programs, of which those of processes are compiled first. wrong: which of the program's lines has a mistake;
 * ~0: none is to blame. False: told already.
 */
static bool compile(struct line_program *p, const struct event_lines *e, const struct line_target *t,
		    const struct line_programs *out, u32 *wrong)
{
	struct dpcc_options opt = {.defines = t->defines,
				   .ndefines = t->ndefines,
				   .module = p->file[0] ? p->file : NULL,
				   .all_places = t->allow_trap,
				   .takes_copies = true,
				   .notes = t->quiet ? NULL : dp_ui_notes()};
	struct dp_error err = {0};
	struct threads_set threads = {0};
	struct dpcc_result res;
	int r = 0;

	*wrong = ~0u;
	if (!is_in_process(p) && !find_threads_set(&threads, out, t))
		r = dp_fail(&err, E_EVENT_MEMORY, "lines");
	opt.threads = threads.v;
	opt.nthreads = threads.n;
	res.line[0] = '\0';
	if (!r)
		r = dp_cc_lines_compile(p->lines, &opt, &res, wrong, &err);
	free(threads.v);
	if (r && *wrong != ~0u) {
		complain(&e->v[p->numbers[*wrong]], t, &err);
		return false;
	}
	*wrong = ~0u;
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
	else
		note_build(p);
	return !r;
}

static bool all_bodies(const struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++)
		if (!dp_cc_line_is_body(e->v[i].text))
			return false;
	return true;
}

static bool add_executable(struct line_finder *f, struct line_programs *out, struct dp_error *err)
{
	const struct dp_location loc = {.kind = DP_LOC_SYMBOL, .module = "exe"};
	struct line_program *wanted = calloc(1, sizeof(*wanted));
	bool good = wanted && dp_cmd_find_module(f, &loc, wanted, err);

	if (!wanted || (good && !dp_cmd_program_of(out, wanted)))
		good = !dp_fail(err, E_EVENT_MEMORY, "lines");
	free(wanted);
	return good;
}

/* Bodies without a line that has a place are programs, without probes, of what the processes run. */
static bool add_executables(struct line_finder *f, const struct line_target *t, struct line_programs *out,
			    struct dp_error *err)
{
	if (!f->is_read && !f->program[0]) {
		dp_fail(err, E_CMD_MISSING, "begin, end and timers alone: no process whose variables they would use");
		dp_error_hint(err, "name one with -p, or give a command behind --");
		return false;
	}
	if (!add_executable(f, out, err))
		return false;
	for (u32 i = 1; i < t->npids; i++) {
		struct line_finder other;
		struct dp_error gone;

		if (!dp_cmd_finder_open(&other, t, t->pids[i], &gone))
			continue;
		add_executable(&other, out, &gone);
		dp_cmd_finder_close(&other);
	}
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

/* Variables are for the bodies of all lines; each module has its own. */
static bool add_bodies(const struct event_lines *e, struct line_program *p)
{
	struct dp_error err = {0};
	bool good = true;

	for (u32 i = 0; good && i < e->n; i++)
		if (dp_cc_line_is_body(e->v[i].text))
			good = dp_cmd_add_to_program(p, e, i, &err) || tell(&e->v[i], &err);
	return good;
}

static bool any_waits(const struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++)
		if (e->v[i].waits)
			return true;
	return false;
}

/* Of all lines that wait for a module of that name the first. */
static bool is_first_of_name(const struct event_lines *e, u32 line, const char *name)
{
	char other[DP_MODULE_MAX];

	for (u32 i = 0; i < line; i++)
		if (e->v[i].waits && name_of_module(&e->v[i], other) && !strcmp(name, other))
			return false;
	return true;
}

static bool was_loaded(const struct line_programs *p, const char *name)
{
	for (u32 i = 0; i < p->n; i++)
		if (p->v[i].was_in &&
		    (!strcmp(p->v[i].module, name) || dp_needed_is_meant(strrchr(p->v[i].module, '/') + 1, name)))
			return true;
	return false;
}

void dp_cmd_lines_tell_waiting(const struct event_lines *e, const struct line_programs *p, bool ended)
{
	char name[DP_MODULE_MAX];

	for (u32 i = 0; i < e->n; i++)
		if (e->v[i].waits && name_of_module(&e->v[i], name) && is_first_of_name(e, i, name) &&
		    !was_loaded(p, name))
			dp_ui_note(ended ? "%s was never loaded" : "%s is not loaded yet; its probes wait for it",
				   dp_ui_clean(name));
}

/* Programs of lines that were wrong. */
static void drop_empty(struct line_programs *out)
{
	u32 n = 0;

	for (u32 i = 0; i < out->n; i++) {
		if (out->v[i].n) {
			out->v[n++] = out->v[i];
			continue;
		}
		dp_cc_lines_free(out->v[i].lines);
		free(out->v[i].numbers);
	}
	out->n = n;
}

/* Without its line at that index. */
static bool leave_out(struct line_program *p, const struct event_lines *e, u32 index)
{
	struct dp_error ignored;
	u32 n = p->n;

	dp_cc_lines_free(p->lines);
	p->lines = dp_cc_lines_new(p->module, p->modtype);
	p->n = 0;
	for (u32 i = 0; p->lines && i < n; i++)
		if (i != index && !dp_cmd_add_to_program(p, e, p->numbers[i], &ignored))
			return false;
	for (u32 i = 0; p->lines && i < p->n; i++)
		if (!dp_cc_line_is_body(e->v[p->numbers[i]].text))
			return true;
	return false; /* bodies alone are no program */
}

/* The lines that are right, if any; those that are wrong have been told. False: the others cannot do without one. */
static bool compile_right(struct line_program *p, const struct event_lines *e, const struct line_target *t,
			  const struct line_programs *out)
{
	u32 wrong;

	while (!compile(p, e, t, out, &wrong)) {
		if (wrong == ~0u || !can_skip(&e->v[p->numbers[wrong]]))
			return false;
		if (!leave_out(p, e, wrong))
			return true;
	}
	return true;
}

static bool any_compiled(const struct line_programs *out)
{
	for (u32 i = 0; i < out->n; i++)
		if (out->v[i].compiled)
			return true;
	return false;
}

bool dp_cmd_lines_compile(const struct event_lines *e, const struct line_target *t, struct line_programs *out)
{
	struct line_target several = *t; /* what fits into one of them need not fit into all */
	struct line_finder f;
	struct dp_error err = {0};
	u32 wrong;
	bool good = dp_cmd_finder_open(&f, t, t->npids ? t->pids[0] : 0, &err);

	if (!good)
		dp_ui_error(&err, NULL);
	if (good && t->npids > 1 && !add_of_several(e, t, out))
		good = !dp_fail(&err, E_EVENT_MEMORY, "processes");
	for (u32 i = 0; good && i < e->n; i++)
		if (!dp_cc_line_is_body(e->v[i].text) && !e->v[i].places)
			good = add_line(&f, e, i, t, out);
	drop_empty(out);
	if (good && all_bodies(e) && !add_executables(&f, t, out, &err)) {
		dp_ui_error(&err, NULL);
		good = false;
	}
	if (good && !out->n && !any_waits(e)) {
		dp_fail(&err, E_ARM_NONE, "the program has no place of the %u line%s", e->n, e->n == 1 ? "" : "s");
		dp_ui_error(&err, NULL);
		good = false;
	}
	for (u32 k = 0; good && k < out->n; k++)
		good = add_bodies(e, &out->v[k]);
	if (good && !t->quiet)
		tell_bodies(e, out);
	several.skip |= t->npids > 1 && out->n > 1;
	for (u32 i = 0; good && i < 2 * out->n; i++) { /* those of processes, then the others */
		struct line_program *p = &out->v[i % out->n];

		if (is_in_process(p) == (i < out->n))
			good = several.skip ? compile_right(p, e, &several, out) : compile(p, e, t, out, &wrong);
	}
	if (good && out->n && !any_compiled(out)) {
		dp_fail(&err, E_ARM_NONE, "all %u events were left out", e->n);
		dp_ui_error(&err, NULL);
		good = false;
	}
	dp_cmd_finder_close(&f);
	return good;
}

/* ---- modules that are loaded later ---- */

static struct line_program *program_for(const struct line_programs *out, const char *path)
{
	for (u32 i = 0; i < out->n; i++)
		if (!strcmp(out->v[i].module, path))
			return &out->v[i];
	return NULL;
}

/* Of a file for which nothing can be done: so that it is not tried again. */
static void note_refused(struct line_programs *out, const char *path)
{
	struct line_program *p = program_for(out, path) ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return;
	p->modtype = "user";
	snprintf(p->module, sizeof(p->module), "%s", path);
	dp_cmd_program_of(out, p);
	free(p);
}

/* All lines that wait for a module which is mapped from a file that no program is for. One that is wrong is told. */
static void add_mapped(const struct event_lines *e, const struct line_target *t, pid_t pid, const struct dp_maps *maps,
		       struct line_programs *out)
{
	char name[DP_MODULE_MAX];
	struct line_finder f;
	struct dp_error err;
	u32 known = out->n;

	for (u32 i = 0; i < e->n; i++) {
		const struct dp_map *map = e->v[i].waits && name_of_module(&e->v[i], name)
					       ? dp_cmd_map_named(maps, name)
					       : NULL;
		struct line_program *p = map ? program_for(out, map->path) : NULL;

		if (!map || (p && p < &out->v[known]) || !dp_cmd_finder_open(&f, t, pid, &err))
			continue;
		add_line(&f, e, i, t, out);
		note_refused(out, map->path);
		dp_cmd_finder_close(&f);
	}
}

bool dp_cmd_lines_come(const struct event_lines *e, const struct line_target *t, const pid_t *pids, u32 n,
		       struct line_programs *out)
{
	u32 known = out->n;

	for (u32 i = 0; i < n && any_waits(e); i++) {
		struct dp_maps maps;

		if (dp_maps_read(&maps, pids[i], NULL))
			continue;
		add_mapped(e, t, pids[i], &maps, out);
		dp_maps_free(&maps);
	}
	for (u32 i = known; i < out->n; i++)
		if (out->v[i].n && add_bodies(e, &out->v[i]) && compile_right(&out->v[i], e, t, out) &&
		    out->v[i].compiled && !t->quiet)
			dp_ui_note("%s was loaded from a place where it was not expected: its first calls are missing",
				   dp_ui_clean(out->v[i].module));
	return out->n > known;
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
