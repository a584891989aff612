/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes coverage`: how many functions and instructions of files could carry a probe, and what
 * keeps the others from it. Asks the site judge about every instruction; probes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/coverage.h"
#include "symbols/symbols.h"

#define MAX_TEXTS 64
#define TOP 4 /* reasons shown */

struct tally {
	unsigned long long total, jump, trap, refused;
};

struct coverage {
	struct dp_module *m;
	const struct dp_text *texts[MAX_TEXTS];
	int ntexts;
	struct tally entries, insns;
	unsigned long long reasons[DP_NCODES]; /* of instructions without a jump */
	struct dp_error err;
	int rc;
};

static void count(struct tally *t, const struct dp_site *site)
{
	t->total++;
	switch (site->outcome) {
	case DP_OUTCOME_JUMP:
		t->jump++;
		break;
	case DP_OUTCOME_REFUSED:
		t->refused++;
		break;
	default:
		t->trap++;
	}
}

static int see_entry(const struct dp_symbol *sym, void *arg)
{
	struct coverage *c = arg;
	const struct dp_text *t;
	struct dp_site site;
	int i;

	c->rc = dp_module_text(c->m, sym->addr, &t, &c->err);
	if (c->rc)
		return c->rc;
	for (i = 0; i < c->ntexts && c->texts[i] != t; i++)
		;
	if (i == c->ntexts && i < MAX_TEXTS)
		c->texts[c->ntexts++] = t;
	dp_site_judge(t, sym->addr, &site, NULL);
	count(&c->entries, &site);
	return 0;
}

static void see_function(struct coverage *c, const struct dp_text *t, const struct dp_func *f)
{
	struct dp_site site;
	struct dp_insn in;
	int n;

	for (u64 a = f->lo; a < f->hi; a += (u64)n) {
		n = dp_insn_decode(&in, t->bytes + (a - t->lo), f->hi - a);
		if (n < 0)
			return;
		dp_site_judge(t, a, &site, NULL);
		count(&c->insns, &site);
		if (site.outcome != DP_OUTCOME_JUMP)
			c->reasons[site.why]++;
	}
}

static int cover(struct coverage *c, const char *path)
{
	memset(c, 0, sizeof(*c));
	c->rc = dp_module_open(&c->m, path, &c->err);
	if (c->rc)
		return c->rc;
	dp_module_each_func(c->m, NULL, see_entry, c);
	for (int i = 0; !c->rc && i < c->ntexts; i++) {
		for (u32 k = 0; k < c->texts[i]->nfuncs; k++) {
			if (!(k & 1023))
				ui_progress(path, k, c->texts[i]->nfuncs);
			see_function(c, c->texts[i], &c->texts[i]->funcs[k]);
		}
	}
	ui_progress_end();
	dp_module_close(c->m);
	return c->rc;
}

static double percent(unsigned long long part, unsigned long long of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

/* The most frequent reasons: code numbers, most frequent first; returns how many. */
static int top_reasons(const struct coverage *c, int *top)
{
	int n = 0;

	for (int code = 1; code < DP_NCODES; code++) {
		int at = n;

		if (!c->reasons[code])
			continue;
		while (at > 0 && c->reasons[top[at - 1]] < c->reasons[code])
			at--;
		if (at >= TOP)
			continue;
		n = n < TOP ? n + 1 : TOP;
		for (int i = n - 1; i > at; i--)
			top[i] = top[i - 1];
		top[at] = code;
	}
	return n;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_head(int width)
{
	printf("%s%-*s %9s %6s %6s %6s  %10s %6s %6s %6s  %s%s\n", ui_style(stdout, UI_BOLD), width,
	       "FILE", "FUNCTIONS", "JUMP%", "TRAP%", "REF%", "INSNS", "JUMP%", "TRAP%", "REF%",
	       "WHY NOT", ui_style(stdout, UI_PLAIN));
}

static void print_row(const struct coverage *c, const char *path, int width)
{
	const struct tally *e = &c->entries, *i = &c->insns;
	int top[TOP], n = top_reasons(c, top);

	printf("%-*s %9llu %6.2f %6.2f %6.2f  %10llu %6.2f %6.2f %6.2f  ", width, ui_clean(base_of(path)),
	       e->total, percent(e->jump, e->total), percent(e->trap, e->total),
	       percent(e->refused, e->total), i->total, percent(i->jump, i->total),
	       percent(i->trap, i->total), percent(i->refused, i->total));
	for (int k = 0; k < n; k++)
		printf("%s%s %.2f", k ? ", " : "", dp_error_info((enum dp_code)top[k])->name,
		       percent(c->reasons[top[k]], i->total));
	putchar('\n');
}

static void json_tally(const char *name, const struct tally *t)
{
	printf("\"%s\":{\"total\":%llu,\"jump\":%llu,\"trap\":%llu,\"refused\":%llu}", name,
	       t->total, t->jump, t->trap, t->refused);
}

/* One object on each line. */
static void print_json(const struct coverage *c, const char *path)
{
	bool first = true;

	printf("{\"file\":");
	ui_json_string(path);
	putchar(',');
	json_tally("functions", &c->entries);
	putchar(',');
	json_tally("instructions", &c->insns);
	printf(",\"reasons\":{");
	for (int code = 1; code < DP_NCODES; code++) {
		if (!c->reasons[code])
			continue;
		printf("%s\"%s\":%llu", first ? "" : ",", dp_error_info((enum dp_code)code)->name,
		       c->reasons[code]);
		first = false;
	}
	printf("}}\n");
}

static const struct cmd_option options[] = {
    {"json", 'j', NULL, "one JSON object for each file"},
    {NULL},
};

static const struct cmd_spec spec = {
    .name = "coverage",
    .synopsis = "[--json] FILE...",
    .about =
	"Count how many functions and instructions of files can be probed by a jump, only by a\n"
	"breakpoint (trap), or not at all (ref), and the most frequent reasons.",
    .options = options,
    .more = "Example:\n  dprobes coverage /usr/bin/redis-server",
};

int cmd_coverage(int argc, char **argv)
{
	struct cmd_args args;
	struct coverage c;
	const char **files = calloc((size_t)argc + 1, sizeof(char *));
	int nfiles = 0, width = 12, status = CMD_OK, id;
	bool json = false;

	if (!files)
		return ui_fail(E_FILE_MEMORY, NULL, "coverage");
	cmd_args_init(&args, &spec, argc, argv);
	while ((id = cmd_args_next(&args)) != CMD_OPT_END && id != CMD_OPT_REST) {
		if (id == CMD_OPT_ERROR || id == CMD_OPT_HELP) {
			free(files);
			return id == CMD_OPT_HELP ? CMD_OK : CMD_USAGE;
		}
		if (id == CMD_OPT_OPERAND)
			files[nfiles++] = args.value;
		else
			json = true;
	}
	while (id == CMD_OPT_REST && args.next < argc)
		files[nfiles++] = argv[args.next++];
	if (!nfiles) {
		free(files);
		return ui_fail(E_CMD_MISSING, NULL, "the file to look at");
	}
	for (int i = 0; i < nfiles; i++)
		width = DP_MAX(width, (int)strlen(base_of(files[i])));
	if (!json)
		print_head(width);
	for (int i = 0; i < nfiles; i++) {
		if (cover(&c, files[i])) {
			ui_error(&c.err, NULL);
			status = ui_status(c.err.code);
			continue;
		}
		if (json)
			print_json(&c, files[i]);
		else
			print_row(&c, files[i], width);
		fflush(stdout);
	}
	free(files);
	return status;
}
