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
				dp_ui_progress(path, k, c->texts[i]->nfuncs);
			see_function(c, c->texts[i], &c->texts[i]->funcs[k]);
		}
	}
	dp_ui_progress_end();
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

static void print_head(int width)
{
	printf("%s%-*s %9s %6s %6s %6s  %10s %6s %6s %6s  %s%s\n", dp_ui_style(stdout, UI_BOLD), width, "FILE",
	       "FUNCTIONS", "JUMP%", "TRAP%", "REF%", "INSNS", "JUMP%", "TRAP%", "REF%", "WHY NOT",
	       dp_ui_style(stdout, UI_PLAIN));
}

static void print_row(const struct coverage *c, const char *path, int width)
{
	const struct tally *e = &c->entries, *i = &c->insns;
	int top[TOP], n = top_reasons(c, top);

	printf("%-*s %9llu %6.2f %6.2f %6.2f  %10llu %6.2f %6.2f %6.2f  ", width, dp_ui_clean(dp_base_name(path)),
	       e->total, percent(e->jump, e->total), percent(e->trap, e->total), percent(e->refused, e->total),
	       i->total, percent(i->jump, i->total), percent(i->trap, i->total), percent(i->refused, i->total));
	for (int k = 0; k < n; k++)
		printf("%s%s %.2f", k ? ", " : "", dp_error_info((enum dp_code)top[k])->name,
		       percent(c->reasons[top[k]], i->total));
	putchar('\n');
}

static void json_tally(struct dp_json *j, const char *name, const struct tally *t)
{
	const struct {
		const char *name;
		unsigned long long n;
	} members[] = {{"total", t->total}, {"jump", t->jump}, {"trap", t->trap}, {"refused", t->refused}};

	dp_json_key(j, name);
	dp_json_open(j, '{');
	for (u32 i = 0; i < DP_ARRAY_SIZE(members); i++) {
		dp_json_key(j, members[i].name);
		dp_json_unsigned(j, members[i].n);
	}
	dp_json_close(j, '}');
}

/* One object on each line. */
static void print_json(const struct coverage *c, const char *path)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_key(&j, "file");
	dp_json_string(&j, path);
	json_tally(&j, "functions", &c->entries);
	json_tally(&j, "instructions", &c->insns);
	dp_json_key(&j, "reasons");
	dp_json_open(&j, '{');
	for (int code = 1; code < DP_NCODES; code++) {
		if (!c->reasons[code])
			continue;
		dp_json_key(&j, dp_error_info((enum dp_code)code)->name);
		dp_json_unsigned(&j, c->reasons[code]);
	}
	dp_json_close(&j, '}');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

struct wanted {
	const char **files;
	int n;
	bool json;
};

static int take(void *arg, int id, const char *value)
{
	struct wanted *w = arg;

	if (id == CMD_OPT_OPERAND)
		w->files[w->n++] = value;
	else
		w->json = true;
	return CMD_OK;
}

static int cover_all(const struct wanted *w)
{
	int width = 12, status = CMD_OK;
	struct coverage c;

	for (int i = 0; i < w->n; i++)
		width = DP_MAX(width, (int)strlen(dp_base_name(w->files[i])));
	if (!w->json)
		print_head(width);
	for (int i = 0; i < w->n; i++) {
		if (cover(&c, w->files[i])) {
			dp_ui_error(&c.err, NULL);
			status = dp_ui_status(c.err.code);
			continue;
		}
		if (w->json)
			print_json(&c, w->files[i]);
		else
			print_row(&c, w->files[i], width);
		fflush(stdout);
	}
	return status;
}

int dp_cmd_coverage(int argc, char **argv)
{
	struct wanted w = {.files = calloc((size_t)argc + 1, sizeof(char *))};
	bool done = false;
	int r;

	if (!w.files)
		return dp_ui_fail(E_FILE_MEMORY, NULL, "coverage");
	r = dp_cmd_options(VERB_COVERAGE, argc, argv, take, &w, NULL, &done);
	if (!r && !done)
		r = w.n ? cover_all(&w) : dp_ui_fail(E_CMD_MISSING, NULL, "the file to look at");
	free(w.files);
	return r;
}
