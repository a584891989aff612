/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Options of probe programs. A table of all of them with the verbs that take each, since one letter
 * means different things behind different verbs. As Dynamic Probes has it, values may follow a "="
 * of their own: --group = 1,2.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/probes.h"
#include "log/log-rpn.h"

#define V(verb) (1u << PROBES_##verb)
#define LOADS (V(INSERT) | V(APPLY))
#define SOURCE (V(INSERT) | V(BUILD))

enum {
	O_DEFINE = 1,
	O_SYM,
	O_GROUP,
	O_TYPE,
	O_LOG,
	O_TARGET,
	O_OUTFILE,
	O_NAME,
	O_INDEX,
	O_PID,
	O_LIST,
	O_INTERVAL,
	O_JIT,
	O_JSON,
	O_FORMAT,
	O_HELP,
	O_NOTHING,
	O_FLAG = 0x10000, /* and above: sets a flag of the driver */
};

static const struct option {
	const char *name;
	char letter;
	u32 verbs;
	int id;
	const char *value, *about;
} options[] = {
    {"define", 'D', SOURCE | V(REMOVE), O_DEFINE, "KEY=VALUE", "define a macro of the preprocessor"},
    {"sym", 's', SOURCE, O_SYM, "FILE", "take symbols from FILE instead of the module"},
    {"group", 'u', LOADS, O_GROUP, "LIST", "only probes of these groups, such as 1,3-5"},
    {"type", 't', LOADS, O_TYPE, "LIST", "only probes of these types"},
    {"merge", 'm', LOADS, O_FLAG | DP_DRIVER_MERGE, NULL, "add to the probes that the module has"},
    {"replace", 'c', LOADS, O_FLAG | DP_DRIVER_REPLACE, NULL, "take the place of the probes that the module has"},
    {"dont-verify-opcodes", 0, LOADS, O_FLAG | DP_DRIVER_NO_OPCODES, NULL, "do not compare opcode = with the code"},
    {"stop-cpus", 0, LOADS, O_NOTHING, NULL, "accepted; nothing needs to be stopped"},
    {"log", 'l', LOADS, O_LOG, "WORDS", "PROCNAME PID UID SSESP CSEIP TSC CPU, or ALL"},
    {"log-target", 0, LOADS, O_TARGET, "TARGET", "KLOG: to the system log too; CONSOLE, COM1, COM2"},
    {"unformatted-output", 'f', LOADS, O_FLAG | DP_RPN_LOG_UNFORMATTED, NULL, "log the data as bare hex"},
    {"json", 0, LOADS, O_JSON, NULL, "log as JSON, one object a line"},
    {"json", 0, V(VARS), O_JSON, NULL, "only aggregates, as JSON, one object a line"},
    {"format", 0, LOADS, O_FORMAT, "FORMAT", "log as text, json or csv"},
    {"format", 0, V(VARS), O_FORMAT, "FORMAT", "json or csv: only aggregates, in that format"},
    {"pid", 'p', LOADS, O_PID, "PID", "only in this process"},
    {"jit", 0, LOADS, O_JIT, "on|off|auto", "compile programs to machine code; auto, the default: where it pays"},
    {"uprobes", 0, LOADS, O_FLAG | DP_DRIVER_UPROBES, NULL,
     "by the kernel's module: all processes that map the file, now and later"},
    {"children", 0, LOADS, O_FLAG | DP_DRIVER_CHILDREN, NULL, "watchpoints: also in processes that are forked"},
    {"allow-trap", 0, LOADS, O_FLAG | DP_DRIVER_ALLOW_TRAP, NULL, "use breakpoints where no jump fits"},
    {"outfile", 'o', V(BUILD), O_OUTFILE, "FILE", "write the object to FILE (default: .ppdf for .rpn)"},
    {"list", 0, V(BUILD), O_LIST, NULL, "print the program as it was understood, write nothing"},
    {"name", 'n', V(REMOVE) | V(QUERY) | V(VARS), O_NAME, "MODULE", "the module, as its program names it"},
    {"all", 'a', V(REMOVE) | V(QUERY) | V(VARS), O_FLAG | DP_DRIVER_ALL, NULL, "all modules"},
    {"extended", 'x', V(QUERY), O_FLAG | DP_DRIVER_EXTENDED, NULL, "with the programs"},
    {"index", 'i', V(VARS), O_INDEX, "I1-I2", "only variables I1 to I2"},
    {"local", 0, V(VARS), O_FLAG | DP_DRIVER_LOCAL, NULL, "only local variables"},
    {"global", 0, V(VARS), O_FLAG | DP_DRIVER_GLOBAL, NULL, "only global variables"},
    {"reset", 0, V(VARS), O_FLAG | DP_DRIVER_RESET, NULL, "set them to zero instead"},
    {"interval", 0, V(VARS), O_INTERVAL, "SEC", "again and again, until Ctrl-C"},
    {"help", 'h', ~0u, O_HELP, NULL, "show this"},
};

static const struct verb {
	enum probes_verb verb;
	const char *name, *option;
	char letter;
	const char *synopsis, *about;
} verbs[] = {
    {PROBES_INSERT, "insert", "insert", 'i', "FILE.rpn",
     "put the probes of a probe program in place, and keep them there"},
    {PROBES_REMOVE, "remove", "remove", 'r', "FILE.rpn | --name MODULE | --all", "take probes out"},
    {PROBES_QUERY, "query", "query", 'q', "[--name MODULE | --all]", "show what is inserted"},
    {PROBES_VARS, "vars", "getvars", 'g', "[--name MODULE | --all]", "show or reset the variables of probe programs"},
    {PROBES_BUILD, "build", "build-ppdf", 'b', "FILE.rpn", "assemble into an object with offsets instead of symbols"},
    {PROBES_APPLY, "apply", "apply-ppdf", 'p', "FILE.ppdf", "insert an object"},
};

void dp_probes_help(enum probes_verb verb)
{
	const struct verb *v = NULL;

	for (size_t i = 0; i < DP_ARRAY_SIZE(verbs); i++)
		if (verbs[i].verb == verb)
			v = &verbs[i];
	if (!v)
		return;
	printf("usage: dprobes %s %s [OPTIONS]\n       dprobes --%s %s [OPTIONS]   (short: -%c)\n\n", v->name,
	       v->synopsis, v->option, v->synopsis, v->letter);
	if (verb == PROBES_VARS)
		printf("Variables of a program at a place: `dprobes vars -p PID PLACE`, `dprobes vars "
		       "FILE PLACE`.\n\n");
	printf("%c%s.\n\nOptions:\n", v->about[0] - 'a' + 'A', v->about + 1);
	for (size_t i = 0; i < DP_ARRAY_SIZE(options); i++) {
		char left[64];

		if (!(options[i].verbs & 1u << verb))
			continue;
		snprintf(left, sizeof(left), "--%s %s", options[i].name, options[i].value ? options[i].value : "");
		if (options[i].letter)
			printf("  -%c, %-28s %s\n", options[i].letter, left, options[i].about);
		else
			printf("      %-28s %s\n", left, options[i].about);
	}
}

/* ---- values ---- */

struct parser {
	struct probes_args *a;
	char **argv;
	int argc, next;
	const char *inner; /* behind "--option=" or a letter */
};

/* The value of an option; NULL when there is none. A "=" may stand before it. */
static const char *value_of(struct parser *p)
{
	const char *v = p->inner;

	p->inner = NULL;
	if (v && *v == '=')
		v++;
	if (v && *v)
		return v;
	if (p->next < p->argc && !strcmp(p->argv[p->next], "="))
		p->next++;
	if (p->next >= p->argc)
		return NULL;
	v = p->argv[p->next++];
	return *v == '=' ? v + 1 : v;
}

int dp_probes_define(struct probes_args *a, const char *text)
{
	struct dp_rpn_define *v = realloc(a->defines, (a->ndefines + 1) * sizeof(*v));
	char *key = strdup(text), *eq = key ? strchr(key, '=') : NULL;

	if (v)
		a->defines = v;
	if (!v || !key) {
		free(key);
		return dp_ui_fail(E_RPN_MEMORY, NULL, "-D");
	}
	if (eq)
		*eq++ = '\0';
	v[a->ndefines++] = (struct dp_rpn_define){key, eq ? eq : "1"};
	return *key ? 0 : dp_ui_fail(E_CMD_VALUE, "write -D KEY=VALUE", "-D without a name");
}

/* KEY=VALUE, or KEY = VALUE in words of their own. */
static int take_define(struct parser *p, const char *text)
{
	struct probes_args *a = p->a;
	int r = dp_probes_define(a, text);
	const char **value = r ? NULL : &a->defines[a->ndefines - 1].value;

	if (r || strchr(text, '=') || p->next >= p->argc || p->argv[p->next][0] != '=')
		return r;
	*value = p->argv[p->next++] + 1;
	if (!**value)
		*value = p->next < p->argc ? p->argv[p->next++] : "";
	return 0;
}

/* The words behind --log, as long as they are some. */
static int take_log(struct parser *p, const char *first)
{
	static const struct {
		const char *name;
		u32 bits;
	} words[] = {
	    {"PROCNAME", DP_RPN_LOG_PROCNAME}, {"PID", DP_RPN_LOG_PID},    {"UID", DP_RPN_LOG_UID},
	    {"SSESP", DP_RPN_LOG_SSESP},       {"PSW", DP_RPN_LOG_SSESP},  {"NIP", DP_RPN_LOG_SSESP},
	    {"CSEIP", DP_RPN_LOG_CSEIP},       {"UPSW", DP_RPN_LOG_CSEIP}, {"TSC", DP_RPN_LOG_TSC},
	    {"CPU", DP_RPN_LOG_CPU},           {"ALL", DP_RPN_LOG_ALL},
	};
	const char *word = first; /* of the command line; text is in it */
	bool any = false;

	for (const char *text = first; text;) {
		size_t n = strcspn(text, ", ");
		u32 bits = 0;

		for (size_t i = 0; i < DP_ARRAY_SIZE(words); i++)
			if (strlen(words[i].name) == n && !strncmp(words[i].name, text, n))
				bits = words[i].bits;
		if (!bits && (word == first || text != word || text[n]))
			return dp_ui_fail(E_CMD_VALUE, "give PROCNAME, PID, UID, SSESP, CSEIP, TSC, CPU or ALL",
					  "--log %s", text);
		if (!bits)
			return 0; /* the word is something else */
		if (any && text == p->argv[p->next])
			p->next++;
		any = true;
		p->a->fields |= bits;
		text += n + strspn(text + n, ", ");
		if (!*text)
			text = word = p->next < p->argc ? p->argv[p->next] : NULL;
	}
	return 0;
}

static int take_target(struct parser *p, const char *text)
{
	static const struct {
		const char *name;
		u32 flag;
	} targets[] = {{"KLOG", DP_DRIVER_SYSLOG},
		       {"CONSOLE", DP_DRIVER_CONSOLE},
		       {"COM1", DP_DRIVER_SERIAL1},
		       {"COM2", DP_DRIVER_SERIAL2}};

	for (size_t i = 0; i < DP_ARRAY_SIZE(targets); i++)
		if (!strcmp(text, targets[i].name)) {
			p->a->flags |= targets[i].flag;
			return 0;
		}
	return dp_ui_fail(
	    E_CMD_VALUE,
	    "give KLOG, CONSOLE, COM1 or COM2, or leave --log-target out: `dprobes log` shows the driver's log",
	    !strcmp(text, "LTT") || !strcmp(text, "EVL") ? "--log-target %s does not exist any more"
							 : "--log-target %s: no such target",
	    text);
}

static int take_jit(struct parser *p, const char *text)
{
	p->a->flags &= ~(u32)(DP_DRIVER_JIT_ON | DP_DRIVER_JIT_OFF);
	if (!strcmp(text, "on"))
		p->a->flags |= DP_DRIVER_JIT_ON;
	else if (!strcmp(text, "off"))
		p->a->flags |= DP_DRIVER_JIT_OFF;
	else if (strcmp(text, "auto"))
		return dp_ui_fail(E_CMD_VALUE, "give on, off or auto", "--jit %s", text);
	return 0;
}

static int take_format(struct probes_args *a, const char *text)
{
	enum dp_format format;

	if (!dp_cmd_parse_format(text, &format))
		return CMD_USAGE;
	a->flags = dp_driver_with_format(a->flags, format);
	return 0;
}

static int take_index(struct parser *p, const char *whole)
{
	const char *text = whole;
	char *end;

	p->a->lo = (u32)strtoul(text, &end, 0);
	p->a->hi = p->a->lo;
	if (end != text && *end == '-') {
		text = end + 1;
		p->a->hi = (u32)strtoul(text, &end, 0);
	}
	if (end == text || *end || p->a->hi < p->a->lo)
		return dp_ui_fail(E_CMD_VALUE, "write I or I1-I2", "--index %s", whole);
	return 0;
}

static int take(struct parser *p, const struct option *o)
{
	struct probes_args *a = p->a;
	const char *v = o->value ? value_of(p) : NULL;

	if (o->value && !v)
		return dp_ui_fail(E_CMD_MISSING, NULL, "--%s needs %s", o->name, o->value);
	if (!o->value && p->inner)
		return dp_ui_fail(E_CMD_VALUE, NULL, "--%s takes no value", o->name);
	if (o->id & O_FLAG) {
		u32 flag = (u32)o->id & ~(u32)O_FLAG;

		if (flag == DP_RPN_LOG_UNFORMATTED)
			a->fields |= flag;
		else
			a->flags |= flag;
		return 0;
	}
	switch (o->id) {
	case O_DEFINE:
		return take_define(p, v);
	case O_SYM:
		a->sym = v;
		return 0;
	case O_GROUP:
		a->groups = v;
		return 0;
	case O_TYPE:
		a->types = v;
		return 0;
	case O_LOG:
		return take_log(p, v);
	case O_TARGET:
		return take_target(p, v);
	case O_OUTFILE:
		a->outfile = v;
		return 0;
	case O_NAME:
		a->name = v;
		return 0;
	case O_INDEX:
		return take_index(p, v);
	case O_PID:
		return dp_cmd_parse_pid(v, &a->pid) ? 0 : CMD_USAGE;
	case O_INTERVAL:
		return dp_cmd_parse_seconds(v, &a->interval) ? 0 : CMD_USAGE;
	case O_JIT:
		return take_jit(p, v);
	case O_JSON:
		a->flags = dp_driver_with_format(a->flags, DP_FORMAT_JSON);
		return 0;
	case O_FORMAT:
		return take_format(a, v);
	case O_LIST:
		a->list = true;
		return 0;
	case O_HELP:
		a->help = true;
		return 0;
	default:
		return 0; /* nothing to do */
	}
}

/* ---- the command line ---- */

static int long_option(struct parser *p, const char *arg)
{
	size_t n = strcspn(arg, "=");

	for (size_t i = 0; p->a->verb == PROBES_NONE && i < DP_ARRAY_SIZE(verbs); i++)
		if (strlen(verbs[i].option) == n && !strncmp(verbs[i].option, arg, n)) {
			p->a->verb = verbs[i].verb;
			return 0;
		}
	for (size_t i = 0; i < DP_ARRAY_SIZE(options); i++)
		if (strlen(options[i].name) == n && !strncmp(options[i].name, arg, n) &&
		    (options[i].verbs & 1u << p->a->verb)) {
			p->inner = arg[n] ? arg + n : NULL;
			return take(p, &options[i]);
		}
	return dp_ui_fail(E_CMD_OPTION, NULL, "--%s", arg);
}

static int letters(struct parser *p, const char *arg)
{
	while (*arg) {
		const struct option *o = NULL;
		bool is_verb = false;
		int r;

		for (size_t i = 0; p->a->verb == PROBES_NONE && i < DP_ARRAY_SIZE(verbs); i++)
			if (verbs[i].letter == *arg) {
				p->a->verb = verbs[i].verb;
				is_verb = true;
			}
		for (size_t i = 0; !is_verb && i < DP_ARRAY_SIZE(options); i++)
			if (options[i].letter == *arg && (options[i].verbs & 1u << p->a->verb))
				o = &options[i];
		if (!is_verb && !o)
			return dp_ui_fail(E_CMD_OPTION, NULL, "-%c", *arg);
		arg++;
		if (is_verb)
			continue;
		p->inner = o->value && *arg ? arg : NULL;
		r = take(p, o);
		if (r || o->value)
			return r;
	}
	return 0;
}

int dp_probes_parse(struct probes_args *a, int argc, char **argv)
{
	struct parser p = {a, argv, argc, 0, NULL};
	const char *jit = getenv("DPROBES_JIT"); /* what holds without --jit */
	int r = jit && *jit ? take_jit(&p, jit) : 0;

	a->hi = ~0u;
	while (p.next < argc && !r) {
		const char *arg = argv[p.next++];

		if (arg[0] == '-' && arg[1] == '-' && arg[2])
			r = long_option(&p, arg + 2);
		else if (arg[0] == '-' && arg[1])
			r = letters(&p, arg + 1);
		else if (a->file)
			r = dp_ui_fail(E_CMD_EXTRA, "give one file at a time", "%s", arg);
		else
			a->file = arg;
	}
	if (r || a->help)
		return r;
	if (!a->file && a->verb != PROBES_QUERY && a->verb != PROBES_VARS &&
	    !(a->verb == PROBES_REMOVE && (a->name || a->flags & DP_DRIVER_ALL)))
		return dp_ui_fail(E_CMD_MISSING,
				  a->verb == PROBES_REMOVE ? "give the file of a probe program, --name MODULE, or --all"
							   : "give the file of a probe program",
				  "no file");
	if (a->verb == PROBES_REMOVE && !!a->file + !!a->name + !!(a->flags & DP_DRIVER_ALL) > 1)
		return dp_ui_fail(E_CMD_EXTRA, "leave all but one of them out", "a file, --name and --all together");
	if (a->file && (a->verb == PROBES_QUERY || a->verb == PROBES_VARS))
		return dp_ui_fail(E_CMD_EXTRA, "name the module with --name", "%s", a->file);
	if (a->flags & DP_DRIVER_MERGE && a->flags & DP_DRIVER_REPLACE)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both --merge and --replace");
	return 0;
}

void dp_probes_args_free(struct probes_args *a)
{
	for (u32 i = 0; i < a->ndefines; i++)
		free((char *)a->defines[i].key);
	free(a->defines);
}
