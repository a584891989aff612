/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The `dpcc` command: a file of handlers in C to a probe program. Arguments and messages only. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "lang/dpcc/dpcc.h"
#include "symbols/symbols.h"

#define DEFINES_MAX 256
#define DIRS_MAX 64

struct args {
	struct dp_rpn_define defines[DEFINES_MAX];
	const char *dirs[DIRS_MAX];
	struct dpcc_options opt;
	const char *file;
	char *outfile;
};

static void help(void)
{
	printf("usage: dpcc [-achp] [-I DIR] [-D NAME[=VALUE]] [-o OUTFILE] [-m MODULE] FILE.dpc\n\n"
	       "Compile probe handlers, written in C with the probed program's own variables, to a "
	       "probe\n"
	       "program (.rpn) for `dprobes -i`. The program must have debug information.\n\n"
	       "  -a          show the syntax tree instead\n"
	       "  -c          put comments into the probe program\n"
	       "  -D NAME=V   define a macro\n"
	       "  -I DIR      where #include looks\n"
	       "  -m MODULE   read symbols and variables from this file, not from that of MODNAME\n"
	       "  -o OUTFILE  write to this file; `-`: to standard output. Default: FILE.rpn\n"
	       "  -p          ignore errors of the preprocessor\n"
	       "  -h, -?      this text\n\n"
	       "dpcc(1) describes the language. `dprobes -i FILE.dpc` compiles and inserts.\n");
}

static int usage(const char *what)
{
	return dp_ui_fail(E_CMD_OPTION, "`dpcc -h` shows the options", "%s", what);
}

/* -1: go on. */
static int parse(struct args *a, int argc, char **argv)
{
	int o;

	opterr = 0;
	while ((o = getopt(argc, argv, "achpI:D:o:m:v:")) != -1) {
		char *eq;

		switch (o) {
		case 'a':
			a->opt.tree = true;
			break;
		case 'c':
			a->opt.comments = true;
			break;
		case 'p':
			a->opt.ignore_errors = true;
			break;
		case 'h':
			help();
			return CMD_OK;
		case 'I':
			if (a->opt.ndirs == DIRS_MAX)
				return usage("too many -I");
			a->dirs[a->opt.ndirs++] = optarg;
			break;
		case 'D':
			if (a->opt.ndefines == DEFINES_MAX)
				return usage("too many -D");
			eq = strchr(optarg, '=');
			if (eq)
				*eq = '\0';
			a->defines[a->opt.ndefines++] = (struct dp_rpn_define){optarg, eq ? eq + 1 : NULL};
			break;
		case 'o':
			a->outfile = optarg;
			break;
		case 'v':
			a->opt.vars_at = optarg;
			break;
		case 'm':
			a->opt.module = optarg;
			break;
		default:
			if (optopt == '?') {
				help();
				return CMD_OK;
			}
			return usage(argv[optind - 1]);
		}
	}
	if (argc - optind != 1)
		return dp_ui_fail(E_CMD_MISSING, "`dpcc -h` shows the options", "one FILE.dpc is needed");
	a->file = argv[optind];
	return -1;
}

static int write_result(const struct args *a, const char *text)
{
	const char *dot = strrchr(a->file, '.');
	int n = dot && !strchr(dot, '/') ? (int)(dot - a->file) : (int)strlen(a->file);
	char path[4096];
	bool is_report = a->opt.tree || a->opt.vars_at;
	bool to_stdout = a->outfile ? !strcmp(a->outfile, "-") : is_report || !strcmp(a->file, "-");
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "%.*s.rpn", n, a->file);
	if (a->outfile)
		snprintf(path, sizeof(path), "%s", a->outfile);
	f = to_stdout ? stdout : fopen(path, "we");
	good = f && fputs(text, f) >= 0;
	if (f)
		good = !(to_stdout ? fflush(f) : fclose(f)) && good;
	return good ? CMD_OK
		    : dp_ui_fail(E_OUT_WRITE, NULL, "%s: %s", to_stdout ? "standard output" : path, strerror(errno));
}

static void slow(const char *what)
{
	fprintf(stderr, "dpcc: %s\n", dp_ui_clean(what));
}

int main(int argc, char **argv)
{
	struct args *a = calloc(1, sizeof(*a));
	struct dp_error err = {0};
	struct dpcc_result res;
	int status;

	if (!a)
		return CMD_FAILED;
	a->opt.notes = stderr;
	dp_module_slow = slow;
	a->opt.defines = a->defines;
	a->opt.dirs = a->dirs;
	status = parse(a, argc, argv);
	if (status < 0 && dp_cc_compile(a->file, &a->opt, &res, &err)) {
		dp_ui_error(&err, res.line[0] ? res.line : NULL);
		status = dp_ui_status(err.code);
	} else if (status < 0) {
		status = write_result(a, res.text);
		free(res.text);
	}
	free(a);
	return status;
}
