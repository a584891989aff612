/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Command lines of probe programs. One letter means different things behind different verbs, and the verb may be an
 * option itself. As Dynamic Probes has it, values may follow a "=" of their own: --group = 1,2.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/probes.h"
#include "log/log-rpn.h"

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
	} targets[] = {{"KLOG", DP_RUN_SYSLOG},
		       {"JOURNALD", DP_RUN_JOURNALD},
		       {"CONSOLE", DP_RUN_CONSOLE},
		       {"COM1", DP_RUN_SERIAL1},
		       {"COM2", DP_RUN_SERIAL2}};

	for (size_t i = 0; i < DP_ARRAY_SIZE(targets); i++)
		if (!strcmp(text, targets[i].name)) {
			p->a->flags |= targets[i].flag;
			return 0;
		}
	return dp_ui_fail(
	    E_CMD_VALUE,
	    "give KLOG, JOURNALD, CONSOLE, COM1 or COM2, or leave it out: `dprobes log` shows the driver's log",
	    !strcmp(text, "LTT") || !strcmp(text, "EVL") ? "--log-target %s does not exist any more"
							 : "--log-target %s: no such target",
	    text);
}

static int take_jit(struct parser *p, const char *text)
{
	p->a->flags &= ~(u32)(DP_RUN_JIT_ON | DP_RUN_JIT_OFF);
	if (!strcmp(text, "on"))
		p->a->flags |= DP_RUN_JIT_ON;
	else if (!strcmp(text, "off"))
		p->a->flags |= DP_RUN_JIT_OFF;
	else if (strcmp(text, "auto"))
		return dp_ui_fail(E_CMD_VALUE, "give on, off or auto", "--jit %s", text);
	return 0;
}

static int take_format(struct probes_args *a, const char *text)
{
	enum dp_format format;

	if (!dp_cmd_parse_format(text, KIND_RECORD_FORMAT, &format))
		return CMD_USAGE;
	a->flags = dp_run_with_format(a->flags, format);
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

/* The driver's flag that an option without a value sets; 0: there is nothing to do (OPT_STOP_CPUS). */
static u32 flag_of(enum cmd_option_id id)
{
	static const u32 flags[] = {
	    [OPT_ALL] = DP_RUN_ALL,           [OPT_ALLOW_TRAP] = DP_RUN_ALLOW_TRAP, [OPT_CHILDREN] = DP_RUN_CHILDREN,
	    [OPT_EXTENDED] = DP_RUN_EXTENDED, [OPT_GLOBAL] = DP_RUN_GLOBAL,         [OPT_LOCAL] = DP_RUN_LOCAL,
	    [OPT_MERGE] = DP_RUN_MERGE,       [OPT_NO_OPCODES] = DP_RUN_NO_OPCODES, [OPT_REPLACE] = DP_RUN_REPLACE,
	    [OPT_RESET] = DP_RUN_RESET,       [OPT_UPROBES] = DP_RUN_UPROBES,
	};

	return id < DP_ARRAY_SIZE(flags) ? flags[id] : 0;
}

static int take(struct parser *p, const struct cmd_option *o)
{
	struct probes_args *a = p->a;
	const char *v = o->value ? value_of(p) : NULL;

	if (o->value && !v)
		return dp_ui_fail(E_CMD_MISSING, NULL, "--%s needs %s", o->name, o->value);
	if (!o->value && p->inner)
		return dp_ui_fail(E_CMD_VALUE, NULL, "--%s takes no value", o->name);
	switch (o->id) {
	case OPT_DEFINE:
		return take_define(p, v);
	case OPT_SYM:
		a->sym = v;
		return 0;
	case OPT_GROUP:
		a->groups = v;
		return 0;
	case OPT_TYPE:
		a->types = v;
		return 0;
	case OPT_LOG:
		return take_log(p, v);
	case OPT_LOG_TARGET:
		return take_target(p, v);
	case OPT_OUTFILE:
		a->outfile = v;
		return 0;
	case OPT_NAME:
		a->name = v;
		return 0;
	case OPT_INDEX:
		return take_index(p, v);
	case OPT_PID:
		return dp_cmd_parse_process(v, &a->pid) ? 0 : CMD_USAGE;
	case OPT_INTERVAL:
		return dp_cmd_parse_seconds(v, &a->interval) ? 0 : CMD_USAGE;
	case OPT_BUDGET:
		a->has_budget = true;
		return dp_cmd_parse_budget(v, true, &a->budget) ? 0 : CMD_USAGE;
	case OPT_RAW_UNITS:
		a->flags |= DP_RUN_RAW_UNITS;
		return 0;
	case OPT_STRICT_READS:
		a->strict_reads = true;
		return 0;
	case OPT_JIT:
		return take_jit(p, v);
	case OPT_JSON:
		a->flags = dp_run_with_format(a->flags | DP_RUN_TELL_JSON, DP_FORMAT_JSON);
		return 0;
	case OPT_FORMAT:
		return take_format(a, v);
	case OPT_LIST:
		a->list = true;
		return 0;
	case OPT_HELP:
		a->help = true;
		return 0;
	case OPT_UNFORMATTED:
		a->fields |= DP_RPN_LOG_UNFORMATTED;
		return 0;
	default:
		a->flags |= flag_of(o->id);
		return 0;
	}
}

/* ---- the command line ---- */

/* Whether an option tells what to do, by its name of so many bytes or by its letter; only the first does. */
static bool take_verb(struct probes_args *a, const char *name, size_t len, char letter)
{
	for (enum cmd_verb v = VERB_NONE + 1; a->verb == VERB_NONE && v < VERB_COUNT; v++) {
		const struct cmd_spec *spec = &dp_cmd_specs[v];

		if (!spec->old ||
		    (name ? strlen(spec->old) != len || strncmp(spec->old, name, len) : spec->old_letter != letter))
			continue;
		a->verb = v;
		return true;
	}
	return false;
}

static int long_option(struct parser *p, const char *arg)
{
	size_t n = strcspn(arg, "=");
	const struct cmd_option *o;

	if (take_verb(p->a, arg, n, 0))
		return 0;
	o = dp_cmd_option_named(p->a->verb, arg, n);
	if (!o) {
		char name[48], shown[64];

		snprintf(name, sizeof(name), "%.*s", (int)n, arg);
		snprintf(shown, sizeof(shown), "--%s", name);
		return dp_cmd_unknown_option(p->a->verb, shown, name);
	}
	p->inner = arg[n] ? arg + n : NULL;
	return take(p, o);
}

static int letters(struct parser *p, const char *arg)
{
	for (; *arg; arg++) {
		const struct cmd_option *o;
		int r;

		if (take_verb(p->a, NULL, 0, *arg))
			continue;
		o = dp_cmd_option_lettered(p->a->verb, *arg);
		if (!o)
			return dp_cmd_unknown_option(p->a->verb, (char[]){'-', *arg, '\0'}, (char[]){*arg, '\0'});
		p->inner = o->value && arg[1] ? arg + 1 : NULL;
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
	if (!a->file && a->verb != VERB_QUERY && a->verb != VERB_VARS &&
	    !(a->verb == VERB_REMOVE && (a->name || a->flags & DP_RUN_ALL)))
		return dp_ui_fail(E_CMD_MISSING,
				  a->verb == VERB_REMOVE ? "give the file of a probe program, --name MODULE, or --all"
							 : "give the file of a probe program",
				  "no file");
	if (a->verb == VERB_REMOVE && !!a->file + !!a->name + !!(a->flags & DP_RUN_ALL) > 1)
		return dp_ui_fail(E_CMD_EXTRA, "leave all but one of them out", "a file, --name and --all together");
	if (a->file && (a->verb == VERB_QUERY || a->verb == VERB_VARS))
		return dp_ui_fail(E_CMD_EXTRA, "name the module with --name", "%s", a->file);
	if (a->flags & DP_RUN_MERGE && a->flags & DP_RUN_REPLACE)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both --merge and --replace");
	return 0;
}

void dp_probes_args_free(struct probes_args *a)
{
	for (u32 i = 0; i < a->ndefines; i++)
		free((char *)a->defines[i].key);
	free(a->defines);
	free(a->text);
}
