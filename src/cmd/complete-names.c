/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Names of a program for the completion of shells: modules, functions, source lines, static probes, variables. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/complete.h"
#include "cmd/names-cache.h"
#include "lang/dpcc/syscalls.h"
#include "run/run-select.h"
#include "symbols/kallsyms.h"
#include "symbols/statics.h"
#include "symbols/sym-lines.h"
#include "symbols/tracepoints.h"
#include "symbols/vars.h"

static const char *value_of(const struct complete_line *l, enum cmd_verb verb, enum cmd_option_id id)
{
	for (u32 i = 1; i + 1 < l->n; i++) {
		const char *w = l->words[i];
		const struct cmd_option *o = NULL;
		size_t n = strcspn(w, "=");

		if (!strncmp(w, "--", 2))
			o = dp_cmd_option_named(verb, w + 2, n - DP_MIN(n, 2ul));
		else if (w[0] == '-' && w[1])
			o = dp_cmd_option_lettered(verb, w[1]);
		if (!o || o->id != id || !o->value)
			continue;
		if (w[1] == '-')
			return w[n] ? w + n + 1 : l->words[i + 1];
		return w[2] ? w + 2 : l->words[i + 1];
	}
	return NULL;
}

static pid_t first_process(const char *who)
{
	struct dp_select s = {0};
	struct dp_pids pids = {0};
	struct dp_error err;
	pid_t pid = 0;

	if (who && dp_select_add(&s, who) && !dp_select_find(&s, &pids, &err) && pids.n)
		pid = pids.v[0];
	dp_pids_free(&pids);
	dp_select_free(&s);
	return pid;
}

struct complete_subject dp_complete_subject(const struct complete_line *l, enum cmd_verb verb)
{
	struct complete_subject s = {first_process(value_of(l, verb, OPT_PID)), NULL};

	if (verb == VERB_TRACE || verb == VERB_RECORD)
		s.file = value_of(l, verb, OPT_ALL);
	else if (l->n > 2 && l->words[1][0] != '-')
		s.file = l->words[1];
	return s;
}

/* The part of a file's name by which its functions are named: libc.so.6 is libc. */
static void short_name(char *buf, size_t size, const char *path)
{
	const char *base = strrchr(path, '/'), *so;

	base = base ? base + 1 : path;
	so = strstr(base, ".so");
	snprintf(buf, size, "%.*s", so && (!so[3] || so[3] == '.') ? (int)(so - base) : (int)strlen(base), base);
}

/* Whether a file is called so: as it is, by its last part, or as short_name() has it. */
static bool is_called(const char *path, const char *name)
{
	const char *base = strrchr(path, '/');
	char own[256];

	short_name(own, sizeof(own), path);
	return !strcmp(name, path) || !strcmp(name, base ? base + 1 : path) || !strcmp(name, own);
}

/* The module of that name; "": the executable, which is also exe and main. */
static struct dp_module *open_module(const struct complete_subject *s, const char *name)
{
	bool is_exe = !*name || !strcmp(name, "exe") || !strcmp(name, "main");
	struct dp_module *m = NULL;
	struct dp_maps maps;
	char exe[64], path[4096];
	ssize_t n;

	if (!s->pid)
		return s->file && (is_exe || is_called(s->file, name)) && !dp_module_open(&m, s->file, NULL) ? m : NULL;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)s->pid);
	n = readlink(exe, path, sizeof(path) - 1);
	path[DP_MAX(n, 0l)] = '\0';
	if (dp_maps_read(&maps, s->pid, NULL))
		return NULL;
	for (size_t i = 0; i < maps.n && !m; i++) {
		const struct dp_map *map = &maps.v[i];
		int fd;

		if (!map->x || map->path[0] != '/' || !(is_exe ? !strcmp(map->path, path) : is_called(map->path, name)))
			continue;
		fd = dp_map_open(s->pid, map);
		if (fd >= 0 && dp_module_open_fd(&m, fd, map->path, NULL))
			m = NULL;
		if (fd >= 0)
			close(fd);
	}
	dp_maps_free(&maps);
	return m;
}

/* The first colon that is none of a name in C++; NULL: there is none. */
static const char *lone_colon(const char *text)
{
	for (text = strchr(text, ':'); text && text[1] == ':'; text = strchr(text, ':'))
		text += strspn(text, ":");
	return text;
}

/*
 * The module of a place, which begins with its name, or else is in the executable; *rest: what follows the name. NULL:
 * it cannot be opened.
 */
static struct dp_module *open_place(const struct complete_subject *s, const char *place, const char **rest)
{
	const char *colon = lone_colon(place);
	char name[256];
	struct dp_module *m;

	*rest = place;
	if (colon) {
		snprintf(name, sizeof(name), "%.*s", (int)(colon - place), place);
		m = *name ? open_module(s, name) : NULL;
		if (m) {
			*rest = colon + 1;
			return m;
		}
	}
	return open_module(s, "");
}

static void put_modules(struct candidates *c, const struct complete_subject *s)
{
	struct dp_maps maps;
	char own[256], seen[256] = "";

	dp_complete_put(c, "kernel:", "functions of the kernel");
	if (!s->pid || dp_maps_read(&maps, s->pid, NULL))
		return;
	for (size_t i = 0; i < maps.n; i++) {
		if (!maps.v[i].x || maps.v[i].path[0] != '/')
			continue;
		short_name(own, sizeof(own) - 1, maps.v[i].path);
		strcat(own, ":");
		if (strcmp(own, seen) != 0)
			dp_complete_put(c, own, maps.v[i].path);
		memcpy(seen, own, sizeof(seen));
	}
	dp_maps_free(&maps);
}

static void put_name(void *c, const char *name)
{
	dp_complete_put(c, name, NULL);
}

static int put_function(const struct dp_ksym *sym, void *c)
{
	dp_complete_put(c, sym->name, NULL);
	return 0;
}

static void put_kernel(struct candidates *c)
{
	dp_kallsyms_each(NULL, "*", put_function, c, NULL); /* names alone do, where the addresses are hidden */
}

static void put_statics(struct candidates *c, struct dp_module *m)
{
	const struct dp_static *v;
	char name[256];

	for (u32 i = 0, n = dp_module_statics(m, &v); i < n; i++) {
		snprintf(name, sizeof(name), "%s__%s", v[i].provider, v[i].name);
		dp_complete_put(c, name, v[i].args);
	}
}

static void put_calls(struct candidates *c)
{
	u32 numbers[DP_SYSCALLS_MAX], n = dp_syscalls_matching("*", numbers, DP_SYSCALLS_MAX);

	for (u32 i = 0; i < n; i++)
		dp_complete_put(c, dp_syscall_name_of(numbers[i]), NULL);
}

struct lines_of { /* what is offered of a module's lines */
	struct candidates *c;
	char file[256]; /* offered last, with a colon */
};

static void put_line(void *arg, const char *line)
{
	dp_complete_put(((struct lines_of *)arg)->c, line, NULL);
}

static void put_file(void *arg, const char *line)
{
	struct lines_of *l = arg;
	int n = (int)(strchrnul(line, ':') - line) + 1;

	if (!strncmp(line, l->file, (size_t)n))
		return;
	snprintf(l->file, sizeof(l->file), "%.*s", n, line);
	dp_complete_put(l->c, l->file, "source file");
}

static int put_line_of(u32 line, void *arg)
{
	char word[16];

	snprintf(word, sizeof(word), "%u", line);
	dp_complete_put(arg, word, "line of the function");
	return 0;
}

/* FILE:LINE, where a colon is there, and the files, where none is; FUNCTION:LINE. */
static void put_lines(struct candidates *c, struct dp_module *m)
{
	const char *colon = lone_colon(c->word);
	struct lines_of l = {.c = c};
	char function[256];

	if (!colon) {
		dp_lines_each(m, c->word, true, put_file, &l);
		return;
	}
	snprintf(function, sizeof(function), "%.*s", (int)(colon - c->word), c->word);
	if (strchr(function, '.')) {
		dp_lines_each(m, c->word, false, put_line, &l);
	} else {
		dp_complete_keep(c, (size_t)(colon - c->word) + 1);
		dp_module_each_line_of(m, function, put_line_of, c, NULL);
	}
}

static void put_tracepoints(struct candidates *c)
{
	struct dp_tracepoints all;
	struct dp_error ignored;
	char text[DP_TRACEPOINT_TEXT];

	dp_tracepoints_read(&all, &ignored);
	for (u32 i = 0; i < all.n; i++)
		dp_complete_put(c, dp_tracepoint_text(&all.v[i], text), NULL);
	dp_tracepoints_free(&all);
}

void dp_complete_place(struct candidates *c, const struct complete_subject *s, char kind)
{
	const char *rest;
	struct dp_module *m;

	if (kind == 's') {
		put_calls(c);
		return;
	}
	if (kind == 't') {
		put_tracepoints(c);
		return;
	}
	if (!strncmp(c->word, "kernel:", 7)) {
		dp_complete_keep(c, 7);
		put_kernel(c);
		return;
	}
	if (!lone_colon(c->word))
		put_modules(c, s);
	m = open_place(s, c->word, &rest);
	dp_complete_keep(c, (size_t)(rest - c->word));
	if (m && kind == 'u')
		put_statics(c, m);
	else if (m)
		dp_names_each(m, c->word, put_name, c);
	if (m && kind == 'p')
		put_lines(c, m);
	dp_module_close(m);
}

static int put_variable(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg)
{
	char word[256];

	snprintf(word, sizeof(word), "$%s", name);
	dp_complete_put(arg, word, r ? "not available at this place" : "variable");
	return 0;
}

static void put_variables(struct candidates *c, const struct complete_subject *s, const char *place)
{
	char text[256];
	const char *rest;
	struct dp_symbol sym;
	struct dp_module *m;
	u32 file_len, line, used;
	u64 pc = 0;

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(place, " +%"), place);
	m = open_place(s, text, &rest);
	if (m && dp_line_parse(rest, &file_len, &line)) {
		text[rest - text + file_len] = '\0';
		if (dp_module_line(m, rest, line, &pc, 1, &used, NULL) <= 0)
			pc = 0;
	} else if (m && !dp_module_symbol(m, rest, &sym, NULL)) {
		pc = sym.addr;
	}
	if (pc)
		dp_var_each(m, pc, NULL, put_variable, c, NULL);
	dp_module_close(m);
}

/* What is known of a system call; the names of its arguments where the place is one call. */
static void put_call_words(struct candidates *c, const char *place)
{
	const char *colon = strrchr(place, ':');
	struct dp_syscall_arg arg;
	char name[64], word[32];
	u32 number;

	dp_complete_put(c, "$ret", "what the kernel gives");
	dp_complete_put(c, "$error", "the name of the error");
	dp_complete_put(c, "$call", "the name of the call");
	dp_complete_put(c, "$duration", "nanoseconds of the call");
	place = colon ? colon + 1 : place;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(place, " "), place);
	if (strpbrk(name, "*?[\\") || !dp_syscalls_matching(name, &number, 1))
		return;
	for (u32 i = 0; dp_syscall_arg(number, i, &arg) > 0; i++) {
		snprintf(word, sizeof(word), "$%s", arg.name);
		dp_complete_put(c, word, "argument");
	}
}

static void complete_value_of_event(struct candidates *c, const struct complete_subject *s, char kind,
				    const char *place)
{
	static const char *const known[] = {
	    "$args",        "$arg1", "$arg2", "$comm",      "$pid",    "$tid", "$ppid",  "$uid",  "$goid",
	    "$thread_name", "$cpu",  "$time", "$backtrace", "$caller", "$ip",  "$stack", "count", "sum(",
	    "avg(",         "min(",  "max(",  "hist(",      "lhist(",  "by",   "if",     "top",   "quantiles("};

	for (size_t i = 0; i < DP_ARRAY_SIZE(known); i++)
		dp_complete_put(c, known[i], NULL);
	if (kind == 'r') {
		dp_complete_put(c, "$retval", "what the function returns");
		dp_complete_put(c, "$duration", "nanoseconds of the call");
	}
	if (kind == 's')
		put_call_words(c, place);
	if (c->word[0] == '$' && (kind == 'p' || kind == 'r'))
		put_variables(c, s, place);
}

void dp_complete_event(struct candidates *c, const struct complete_subject *s)
{
	const char *blank = strchr(c->word, ' '), *last = strrchr(c->word, ' '), *place, *dollar;
	char kind = c->word[0];

	if (!blank) {
		dp_complete_put(c, "p ", "entry of a function, an instruction or a line");
		dp_complete_put(c, "r ", "return of a function");
		dp_complete_put(c, "u ", "static probe");
		dp_complete_put(c, "s ", "system call");
		dp_complete_put(c, "t ", "tracepoint of the kernel");
		dp_complete_put(c, "w ", "watchpoint");
		return;
	}
	place = blank + strspn(blank, " ");
	dp_complete_keep(c, (size_t)(last + 1 - c->word));
	dollar = last < place ? NULL : strrchr(c->word, '$');
	if (dollar) /* hist($x, by $x,$y, NAME=$x */
		dp_complete_keep(c, (size_t)(dollar - c->word));
	if (last < place)
		dp_complete_place(c, s, kind);
	else
		complete_value_of_event(c, s, kind, place);
}
