/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See line-modules.h. Files and maps are read; no process is touched. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/abi-device.h"
#include "cmd/line-modules.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/copies.h"
#include "symbols/needed.h"
#include "symbols/sym-lines.h"

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

/* A script is carried out by the program that its first line names. Path: of a script, then of that program. */
static void follow_script(char *path, size_t size)
{
	char line[512] = "", *word;
	FILE *f = fopen(path, "re");

	if (f && !fgets(line, sizeof(line), f))
		*line = '\0';
	if (f)
		fclose(f);
	word = line + 2 + strspn(line + 2, " \t");
	word[strcspn(word, " \t\n")] = '\0';
	if (!strncmp(line, "#!", 2) && *word == '/')
		snprintf(path, size, "%s", word);
}

bool dp_cmd_finder_open(struct line_finder *f, const struct line_target *target, pid_t pid, struct dp_error *err)
{
	char path[4096] = "";

	*f = (struct line_finder){.target = target};
	if (pid) {
		f->is_read = !dp_process_read(&f->process, pid, err);
		return f->is_read;
	}
	if (f->target->all && realpath(f->target->all, f->program))
		return true;
	if (!f->target->all && !f->target->command)
		return true;
	if (!f->target->all && find_program(f->target->command[0], path, sizeof(path)))
		follow_script(path, sizeof(path));
	if (f->target->all || !realpath(path, f->program)) {
		dp_fail(err, E_FILE_OPEN, "%.150s", f->target->all ? f->target->all : f->target->command[0]);
		return false;
	}
	return true;
}

void dp_cmd_finder_close(struct line_finder *f)
{
	if (f->is_read)
		dp_process_free(&f->process);
	f->is_read = false;
}

struct wanted { /* what a line without a module names */
	const struct dp_location *loc;
};

static bool module_has(struct dp_module *m, const struct dp_location *loc, struct dp_error *err)
{
	u64 addrs[DP_LINE_COPIES_MAX];
	struct dp_func_copies copies = {.at = NULL};
	u32 used;
	bool has;

	if (loc->kind == DP_LOC_LINE)
		return dp_module_line(m, loc->symbol, (u32)loc->offset, addrs, DP_LINE_COPIES_MAX, &used, err) > 0;
	has = loc->kind != DP_LOC_SYMBOL || !dp_module_copies(m, loc->symbol, false, &copies, err) ||
	      !dp_module_copies(m, loc->symbol, true, &copies, NULL); /* inlined wherever it is called */
	dp_func_copies_free(&copies);
	return has;
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

bool dp_cmd_file_may_have(const char *path, const struct dp_location *loc)
{
	struct wanted w = {.loc = loc};

	return strpbrk(loc->symbol, "*?[") || file_has(&w, path);
}

/* The executable, else another module that has the name; which one must be clear. */
static struct dp_image *image_with(struct line_finder *f, const struct dp_location *loc, struct dp_error *err)
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

static bool of_process(struct line_finder *f, const struct dp_location *loc, struct line_program *p,
		       struct dp_error *err)
{
	struct dp_image *im = loc->module[0] ? dp_process_image(&f->process, loc->module, err)
					     : image_with(f, loc, err);
	const struct dp_map *map = im ? dp_maps_at(&f->process.maps, im->lo) : NULL;

	if (!im)
		return false;
	dp_process_image_file(&f->process, im, p->file, sizeof(p->file));
	snprintf(p->module, sizeof(p->module), "%s", map && *map->path == '/' ? map->path : dp_module_path(im->mod));
	return true;
}

static bool of_command(struct line_finder *f, const struct dp_location *loc, struct line_program *p,
		       struct dp_error *err)
{
	const char *base = strrchr(f->program, '/') + 1, *typed = f->target->all;
	struct wanted w = {loc};

	typed = typed ? typed : f->target->command[0];
	typed = dp_base_name(typed);
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
	    dp_needed_is_meant(base, loc->module) ||
	    dp_needed_find(f->program, loc->module, p->file, sizeof(p->file)) || !strcmp(loc->module, "main"))
		return true;
	dp_fail(err, E_MOD_NONE, "%.80s is no library that %.80s needs", loc->module, base);
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

bool dp_cmd_is_kernel_call(const struct line_finder *f, const struct dp_location *loc)
{
	if (loc->kind != DP_LOC_CALL)
		return false;
	if (loc->module[0])
		return !strcmp(loc->module, "kernel");
	return !f->is_read && !f->program[0] && !f->target->npids && !access(DP_DEV_PATH, F_OK);
}

bool dp_cmd_find_module(struct line_finder *f, const struct dp_location *loc, struct line_program *p,
			struct dp_error *err)
{
	bool found = true;

	p->modtype = "user";
	if (!strcmp(loc->module, "kernel") || dp_cmd_is_kernel_call(f, loc)) {
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
	return found;
}

/* ---- libraries that are loaded later ---- */

static bool is_like_library(const char *module)
{
	return *module == '/' || !strncmp(module, "lib", 3) || strstr(module, ".so");
}

void dp_cmd_hint_later(const char *module, struct dp_error *err)
{
	if (err->code == E_MOD_NONE && !err->hint[0] && is_like_library(module) && *module != '/')
		dp_error_hint(err,
			      "give the path of a library that is loaded later: /PATH/%.80s:..., or use "
			      "--wait-for-modules",
			      module);
}

/* The value of a variable, as the process began. free() it; NULL: it has none. */
static char *variable_of(pid_t pid, const char *name)
{
	char path[64], *text = NULL, *found = NULL;
	size_t n = strlen(name), room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	f = fopen(path, "re");
	while (f && !found && getdelim(&text, &room, '\0', f) > 0)
		if (!strncmp(text, name, n) && text[n] == '=')
			found = strdup(text + n + 1);
	if (f)
		fclose(f);
	free(text);
	return found;
}

static bool put_directory(void *arg, const char *path)
{
	fprintf(arg, "%.*s:", (int)(strrchr(path, '/') - path), path);
	return false;
}

/* Where libraries are looked for beside the usual directories: where the others lie, too. NULL: no memory. */
static char *directories_of(struct line_finder *f)
{
	char *set = f->is_read ? variable_of(f->process.pid, "LD_LIBRARY_PATH") : NULL;
	const char *own = f->is_read ? set : getenv("LD_LIBRARY_PATH");
	char *dirs = NULL, path[4096];
	size_t n;
	FILE *to = open_memstream(&dirs, &n);

	if (to && own)
		fprintf(to, "%s:", own);
	for (size_t i = 0; to && i < f->process.maps.n; i++) {
		const struct dp_map *map = &f->process.maps.v[i];

		if (map->x && *map->path == '/')
			put_directory(to, map->path);
	}
	if (to && !f->is_read) {
		put_directory(to, f->program);
		dp_needed_each(f->program, put_directory, to, path, sizeof(path));
	}
	if (to && fclose(to)) {
		free(dirs);
		dirs = NULL;
	}
	free(set);
	return dirs;
}

static bool any_library(void *arg, const char *path)
{
	return true;
}

/* A static program loads nothing. */
static bool loads_libraries(const struct line_finder *f)
{
	char path[4096];

	if (f->is_read)
		return f->process.nimages > 1;
	return f->target->command && dp_needed_each(f->program, any_library, NULL, path, sizeof(path));
}

bool dp_cmd_find_later(struct line_finder *f, const char *module, struct line_program *p, struct dp_error *err)
{
	struct dp_library *lib;
	char root[64] = "", *dirs;
	bool found;

	if (!is_like_library(module) && !f->target->wait)
		return false;
	if (!loads_libraries(f))
		return false;
	lib = calloc(1, sizeof(*lib));
	dirs = directories_of(f);
	if (f->is_read)
		snprintf(root, sizeof(root), "/proc/%d/root", (int)f->process.pid);
	found = lib && dirs && dp_library_find(root, dirs, module, lib);
	p->modtype = "user";
	p->waits = true;
	snprintf(p->module, sizeof(p->module), "%s", found ? lib->path : "");
	snprintf(p->file, sizeof(p->file), "%s", found ? lib->file : "");
	free(dirs);
	free(lib);
	if (!found && !f->target->wait)
		dp_cmd_hint_later(module, err);
	return found || f->target->wait;
}

/* ---- several processes ---- */

const struct dp_map *dp_cmd_map_named(const struct dp_maps *maps, const char *module)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct dp_map *map = &maps->v[i];
		const char *base = strrchr(map->path, '/');

		if (map->x && base && (dp_needed_is_meant(base + 1, module) || !strcmp(map->path, module)))
			return map;
	}
	return NULL;
}

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
		if (dp_cc_line_is_body(e->v[i].text) || dp_event_head(&ev, e->v[i].text, &behind, &err))
			continue;
		n += !ev.loc.module[0] || dp_cmd_map_named(&maps, ev.loc.module);
	}
	dp_maps_free(&maps);
	return n;
}

void dp_cmd_lines_sort(const struct event_lines *e, pid_t *pids, u32 n)
{
	u32 most = 0;

	for (u32 i = 0; i < n && most < e->n; i++) {
		u32 k = modules_in(e, pids[i]);

		if (k > most) {
			pid_t first = pids[0];

			pids[0] = pids[i];
			pids[i] = first;
			most = k;
		}
	}
}
