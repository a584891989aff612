/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Parses the options of all subcommands but those of probe programs (probes-args.c), by the table of commands.c. */
#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/built.h"
#include "cmd/cmd.h"
#include "run/run-select.h"

/* Beside the ids of options, and CMD_OPT_OPERAND. */
enum {
	OPT_END = 0,
	OPT_REST = -2,  /* "--" was seen: argv[next] and what follows is not for us */
	OPT_ERROR = -3, /* told already */
	OPT_HELPED = -4,
};

struct cmd_args {
	enum cmd_verb verb;
	int argc;
	char **argv;
	int next;          /* index of the next argument */
	const char *in;    /* rest of a cluster of short options */
	const char *value; /* of the option or operand just returned */
};

static int unknown_option(struct cmd_args *a, const char *shown, const char *name)
{
	dp_cmd_unknown_option(a->verb, shown, name);
	return OPT_ERROR;
}

/* Give the option its value: glued on, or the next argument. */
static int finish(struct cmd_args *a, const struct cmd_option *o, const char *glued)
{
	a->value = glued;
	if (!o->value && glued) {
		dp_ui_fail(E_CMD_VALUE, NULL, "--%s takes no value, got '%s'", o->name, glued);
		return OPT_ERROR;
	}
	if (o->value && !glued) {
		if (a->next >= a->argc) {
			dp_ui_fail(E_CMD_MISSING, NULL, "--%s needs %s", o->name, o->value);
			return OPT_ERROR;
		}
		a->value = a->argv[a->next++];
	}
	if (o->id != OPT_HELP)
		return o->id;
	dp_cmd_print_help(a->verb);
	return OPT_HELPED;
}

static int long_option(struct cmd_args *a, const char *arg)
{
	size_t n = strcspn(arg, "=");
	const struct cmd_option *o = dp_cmd_option_named(a->verb, arg, n);
	char name[48], shown[64];

	if (o)
		return finish(a, o, arg[n] ? arg + n + 1 : NULL);
	snprintf(name, sizeof(name), "%.*s", (int)n, arg);
	snprintf(shown, sizeof(shown), "--%s", name);
	return unknown_option(a, shown, name);
}

static int short_option(struct cmd_args *a)
{
	char letter = *a->in++, name[] = {letter, '\0'}, shown[] = {'-', letter, '\0'};
	const struct cmd_option *o = dp_cmd_option_lettered(a->verb, letter);
	const char *rest = *a->in ? a->in : NULL;

	if (!o || o->value || !rest)
		a->in = NULL; /* the rest of the cluster is the value */
	return o ? finish(a, o, o->value ? rest : NULL) : unknown_option(a, shown, name);
}

/* The next option's id, or one of the above. */
static int next(struct cmd_args *a)
{
	const char *arg;

	if (a->in)
		return short_option(a);
	if (a->next >= a->argc)
		return OPT_END;
	arg = a->argv[a->next++];
	if (!strcmp(arg, "--"))
		return OPT_REST;
	if (arg[0] == '-' && arg[1] == '-')
		return long_option(a, arg + 2);
	if (arg[0] == '-' && arg[1]) {
		a->in = arg + 1;
		return short_option(a);
	}
	a->value = arg;
	return CMD_OPT_OPERAND;
}

int dp_cmd_options(enum cmd_verb verb, int argc, char **argv, int (*take)(void *arg, int id, const char *value),
		   void *arg, char ***command, bool *done)
{
	struct cmd_args args = {.verb = verb, .argc = argc, .argv = argv, .next = 1};
	int id, r = CMD_OK;

	while (!r && (id = next(&args)) != OPT_END && id != OPT_REST) {
		if (id == OPT_HELPED) {
			*done = true;
			return CMD_OK;
		}
		r = id == OPT_ERROR ? CMD_USAGE : take(arg, id, args.value);
	}
	if (r || id == OPT_END)
		return r;
	if (command) {
		*command = argv + args.next;
		return **command ? CMD_OK : dp_ui_fail(E_CMD_MISSING, "give the program behind --", "no command");
	}
	while (!r && args.next < argc)
		r = take(arg, CMD_OPT_OPERAND, argv[args.next++]);
	return r;
}

static int take_word(void *arg, int id, const char *value)
{
	struct cmd_words *w = arg;

	if (id == OPT_PID)
		return dp_cmd_parse_process(value, &w->pid) ? CMD_OK : CMD_USAGE;
	if (id != CMD_OPT_OPERAND)
		w->has[id] = true;
	else if (w->n == w->most)
		return dp_ui_fail(E_CMD_EXTRA, w->hint, "%s", value);
	else
		w->v[w->n++] = (char *)value;
	return CMD_OK;
}

bool dp_cmd_words(enum cmd_verb verb, int argc, char **argv, struct cmd_words *w, int *status)
{
	bool done = false;

	*status = dp_cmd_options(verb, argc, argv, take_word, w, NULL, &done);
	return !*status && !done;
}

volatile sig_atomic_t dp_cmd_stop;

static void on_signal(int sig)
{
	dp_cmd_stop = sig;
}

bool dp_cmd_int_ignored;

void dp_cmd_catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	for (size_t i = 0; i < DP_ARRAY_SIZE(signals); i++) {
		struct sigaction old;

		if (sigaction(signals[i], NULL, &old))
			continue;
		/*
		 * What the parent had ignored (nohup) stays ignored, but for SIGINT: shells ignore it for all that a
		 * script runs in the background, and then nobody could end it but by SIGTERM.
		 */
		if (signals[i] == SIGINT)
			dp_cmd_int_ignored = old.sa_handler == SIG_IGN;
		else if (old.sa_handler == SIG_IGN)
			continue;
		sigaction(signals[i], &sa, NULL);
	}
}

static bool is_number(const char *text)
{
	return strspn(text, "0123456789-+") == strlen(text);
}

static bool parse_pid(const char *text, pid_t *pid)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v <= 0 || v > 0x7fffffff) {
		dp_ui_fail(E_CMD_VALUE, "`pidof NAME` shows the ids of a program's processes",
			   "'%s' is not a process id", text);
		return false;
	}
	*pid = (pid_t)v;
	return true;
}

bool dp_cmd_parse_processes(const char *text, struct dp_select *s)
{
	u32 before = s->nnames;
	pid_t pid;

	if (!dp_select_add(s, text)) {
		dp_ui_fail(E_FILE_MEMORY, NULL, "processes");
		return false;
	}
	if (s->nnames == before) {
		dp_ui_fail(E_CMD_VALUE, "give ids and names, such as nginx,1234", "'%s' names no process", text);
		return false;
	}
	for (u32 i = before; i < s->nnames; i++)
		if (is_number(s->names[i]) && !parse_pid(s->names[i], &pid))
			return false;
	return true;
}

/* Several have the name: which ones. */
static void tell_several(const char *text, const struct dp_pids *pids)
{
	char ids[80] = "";
	size_t n = 0;

	for (u32 i = 0; i < pids->n && n + 16 < sizeof(ids); i++)
		n += (size_t)snprintf(ids + n, sizeof(ids) - n, "%s%d", i ? ", " : "", (int)pids->v[i]);
	dp_ui_fail(E_SELECT_SEVERAL, NULL, "'%s' is the name of %u: %s%s", text, pids->n, ids,
		   n + 16 < sizeof(ids) ? "" : ", ...");
}

bool dp_cmd_parse_process(const char *text, pid_t *pid)
{
	struct dp_select s = {0};
	struct dp_pids pids = {0};
	struct dp_error err = {0};
	bool good;

	if (is_number(text))
		return parse_pid(text, pid);
	good = dp_cmd_parse_processes(text, &s);
	if (good && dp_select_find(&s, &pids, &err)) {
		dp_ui_error(&err, NULL);
		good = false;
	}
	if (good && pids.n > 1)
		tell_several(text, &pids);
	if (good && pids.n == 1)
		*pid = pids.v[0];
	good = good && pids.n == 1;
	dp_pids_free(&pids);
	dp_select_free(&s);
	return good;
}

bool dp_cmd_parse_user(const char *text, uid_t *user)
{
	struct passwd *p = getpwnam(text);
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (p)
		*user = p->pw_uid;
	else if (end != text && !*end && v < ~0u)
		*user = (uid_t)v;
	else
		dp_ui_fail(dp_built_static ? E_CMD_STATIC : E_CMD_VALUE, "give a name or a number",
			   dp_built_static ? "user '%s' is not in /etc/passwd" : "there is no user '%s'", text);
	return p || (end != text && !*end && v < ~0u);
}

bool dp_cmd_home_folder(const char *variable, const char *usual, const char *inside, char *path, size_t size)
{
	const char *base = getenv(variable), *home = getenv("HOME");

	if (base && *base == '/')
		return (size_t)snprintf(path, size, "%s/%s", base, inside) < size;
	return home && *home == '/' && (size_t)snprintf(path, size, "%s/%s/%s", home, usual, inside) < size;
}

u64 dp_cmd_bytes(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 0);
	unsigned shift = 0;

	if (*end == 'k' || *end == 'K')
		shift = 10, end++;
	else if (*end == 'm' || *end == 'M')
		shift = 20, end++;
	else if (*end == 'g' || *end == 'G')
		shift = 30, end++;
	return end == text || *end || text[0] == '-' || v > ~0ull >> shift ? 0 : v << shift;
}

bool dp_cmd_parse_time(const char *text, u64 *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
	char *end;
	double v = strtod(text, &end);

	for (size_t i = 0; i < DP_ARRAY_SIZE(units) && end != text && v >= 0 && v < 1e9; i++)
		if (!strcmp(end, units[i].name)) {
			*ns = (u64)(v * units[i].ns);
			return true;
		}
	return false;
}

bool dp_cmd_parse_seconds(const char *text, double *seconds)
{
	char *end;

	errno = 0;
	*seconds = strtod(text, &end);
	if (!strcmp(end, "s"))
		end++;
	else if (!strcmp(end, "m") && ++end)
		*seconds *= 60;
	if (errno || end == text || *end || !isfinite(*seconds) || *seconds <= 0 || *seconds > 1e9) {
		dp_ui_fail(E_CMD_VALUE, "give seconds, such as 10 or 0.5", "'%s' is not a duration", text);
		return false;
	}
	return true;
}

bool dp_cmd_parse_budget(const char *text, bool may_be_off, u32 *budget)
{
	bool digits = text[0] >= '0' && text[0] <= '9'; /* no hexadecimal number, infinity or sign */
	char *end;
	double v;

	*budget = 0;
	if (may_be_off && !strcmp(text, "off"))
		return true;
	v = strtod(text, &end);
	if (!strcmp(end, "%"))
		end++;
	if (digits && strcspn(text, "xX") == strlen(text) && !*end && v >= 0.01 && v <= 100) {
		*budget = (u32)(v * 100 + 0.5);
		return true;
	}
	dp_ui_fail(E_CMD_VALUE,
		   may_be_off ? "give a percentage from 0.01 to 100, such as 0.5%, or off"
			      : "give a percentage from 0.01 to 100, such as 0.5%",
		   "'%s' is not a budget", text);
	return false;
}

bool dp_cmd_parse_count(const char *text, u64 *count)
{
	char *end;

	*count = strtoull(text, &end, 0);
	if (end != text && !*end && text[0] != '-' && *count)
		return true;
	dp_ui_fail(E_CMD_VALUE, "give a number such as 1000", "'%s' is not a number from 1 on", text);
	return false;
}

const char *dp_cmd_distrusted(const struct stat *st)
{
	if (geteuid() != 0)
		return NULL;
	if (st->st_uid != 0)
		return "it belongs to another user";
	return st->st_mode & (S_IWOTH | (st->st_gid ? S_IWGRP : 0)) ? "others may write it" : NULL;
}

struct formats { /* that may be named */
	const char *wanted;
	bool has_wanted;
	char hint[200];
};

static void take_format(void *arg, const char *name, const char *help)
{
	struct formats *f = arg;
	size_t n = strlen(f->hint);

	f->has_wanted |= !strcmp(name, f->wanted);
	snprintf(f->hint + n, sizeof(f->hint) - n, "%s%s", n ? ", " : "there are ", name);
}

bool dp_cmd_parse_format(const char *text, enum cmd_kind kind, enum dp_format *format)
{
	bool known = dp_format_find(text, format);
	const char *missing = known ? dp_format_missing(*format) : NULL;
	struct formats f = {.wanted = text};

	if (missing) {
		dp_ui_fail(dp_built_static ? E_CMD_STATIC : E_CMD_PART,
			   "record, and use `dprobes report` of an installed dprobes on the file", "format %s: %s",
			   text, missing);
		return false;
	}
	dp_cmd_each_format(kind, take_format, &f);
	if (f.has_wanted)
		return true;
	dp_ui_fail(E_CMD_VALUE, f.hint, known ? "'%s' is a format of event lines only" : "'%s' is no output format",
		   text);
	return false;
}
