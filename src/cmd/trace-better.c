/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines that need not be compiled, and are better off as programs: a run of programs follows what processes load later,
 * holds processes that start, follows calls that go on in other functions, and knows types.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/line-modules.h"
#include "symbols/needed.h"
#include "symbols/symbols.h"
#include "symbols/variable.h"

/* ---- lines of libraries ---- */

/* With a command: the dynamic linker loads it first of all. */
static bool is_preloaded(const char *module)
{
	const char *list = getenv("LD_PRELOAD");
	char path[4096];

	for (const char *p = list ? list : ""; *p; p += strcspn(p, ": ") + (p[strcspn(p, ": ")] != '\0')) {
		snprintf(path, sizeof(path), "/%.*s", (int)strcspn(p, ": "), p);
		if (dp_needed_is_meant(strrchr(path, '/') + 1, module) || !strcmp(path + 1, module))
			return true;
	}
	return false;
}

/* Whether one of the processes has it mapped, or the command will map it at its start. */
static bool is_mapped(struct line_finder *f, const struct line_target *t, const struct dp_location *loc)
{
	struct line_program *p = calloc(1, sizeof(*p));
	struct dp_error err = {0};
	struct dp_location place = {.kind = DP_LOC_ADDRESS};
	struct dp_maps maps;
	bool found = t->command && is_preloaded(loc->module);

	for (u32 i = 0; i < t->npids && !found; i++)
		if (!dp_maps_read(&maps, t->pids[i], NULL)) {
			found = dp_cmd_map_named(&maps, loc->module);
			dp_maps_free(&maps);
		}
	snprintf(place.module, sizeof(place.module), "%s", loc->module);
	found = found || !p || dp_cmd_find_module(f, &place, p, &err) || err.code != E_MOD_NONE;
	free(p);
	return found;
}

bool dp_cmd_lines_wait(const struct event_lines *e, const struct line_target *t)
{
	struct line_program *p = calloc(1, sizeof(*p));
	struct dp_error err = {0};
	struct line_finder f;
	const char *mapped = ""; /* lines of one module mostly follow one another: the first is looked at */
	bool waits = false;

	if (!p || t->all || (!t->npids && !t->command) || !dp_cmd_finder_open(&f, t, t->npids ? t->pids[0] : 0, &err)) {
		free(p);
		return false;
	}
	for (u32 i = 0; i < e->n && !waits; i++) {
		const struct dp_location *loc = e->v[i].parsed ? &dp_event_of_line(e->v[i].parsed)->loc : NULL;

		if (!loc || !loc->module[0] || e->v[i].optional || !strcmp(loc->module, mapped))
			continue;
		if (is_mapped(&f, t, loc))
			mapped = loc->module;
		else
			waits = dp_cmd_find_later(&f, loc->module, p, &err);
	}
	dp_cmd_finder_close(&f);
	free(p);
	return waits;
}

static bool names_library(const struct dp_location *loc)
{
	return loc->module[0] && strcmp(loc->module, "exe") && strcmp(loc->module, "main") &&
	       !dp_is_module_pattern(loc->module);
}

/* A value that the compiler shows as the line's own language does. */
#define PLAIN_NAME "([A-Za-z_][A-Za-z_0-9]*=)?"
#define PLAIN_WORD "(%[a-z0-9]+|[$]arg[0-9])"
#define PLAIN_TYPE ":[usx](8|16|32|64)"
#define PLAIN_VALUE                                                                                                   \
	"^" PLAIN_NAME "(%[a-z0-9]+|[$]comm|" PLAIN_WORD PLAIN_TYPE "|([+-][0-9]+[(])+" PLAIN_WORD "[)]+(" PLAIN_TYPE \
	"|:string))$"

static bool shows_the_same(const char *text)
{
	char word[128];
	bool same = true;
	regex_t value;
	u32 n = 0;

	if (regcomp(&value, PLAIN_VALUE, REG_EXTENDED | REG_NOSUB))
		return false;
	for (const char *p = text; same && *p; p += strcspn(p, " \t")) {
		p += strspn(p, " \t");
		snprintf(word, sizeof(word), "%.*s", (int)DP_MIN(strcspn(p, " \t"), sizeof(word) - 1), p);
		if (!strcmp(word, "if"))
			break;
		same = n++ < 2 || !*word || !regexec(&value, word, 0, NULL, 0); /* behind `p PLACE` */
	}
	regfree(&value);
	return same;
}

bool dp_cmd_lines_can_hold(const struct event_lines *e, const struct line_target *t)
{
	const char *base = t->all ? strrchr(t->all, '/') : NULL;
	struct dp_error err = {0};
	struct line_finder f;
	bool can = e->n;

	base = base ? base + 1 : t->all;
	if (!t->all && ((!t->npids && !t->command) || !dp_cmd_finder_open(&f, t, t->npids ? t->pids[0] : 0, &err)))
		return false;
	for (u32 i = 0; i < e->n && can; i++) {
		const struct dp_event *ev = e->v[i].parsed ? dp_event_of_line(e->v[i].parsed) : NULL;

		can = ev && !ev->is_watch && !ev->is_return && !e->v[i].optional && names_library(&ev->loc) &&
		      shows_the_same(e->v[i].text) &&
		      (t->all ? dp_needed_is_meant(base, ev->loc.module) : is_mapped(&f, t, &ev->loc));
	}
	if (!t->all)
		dp_cmd_finder_close(&f);
	return can;
}

/* ---- results ---- */

#define EXITS_MAX 256

/* Not in the register that $retval of a plain line is, or only known where other functions return. */
static bool is_result_hidden(struct dp_module *m, const struct dp_symbol *func)
{
	u64 exits[EXITS_MAX], to[EXITS_MAX];
	struct dp_error ignored;
	int n;

	if (dp_module_is_go(m) ? !dp_var_returns_go_word(m, func->addr) : dp_var_returns_real(m, func->addr))
		return true;
	if (dp_module_has_return(m, func)) /* as nearly all have: no need to analyse the whole file */
		return false;
	n = dp_module_exits(m, func->addr, exits, to, EXITS_MAX, &ignored);
	return n > 0 && !dp_exits_returns(exits, to, n);
}

static bool hides_result(struct line_finder *f, const struct dp_location *loc)
{
	struct line_program *p = calloc(1, sizeof(*p));
	struct dp_error ignored = {0};
	struct dp_symbol sym;
	struct dp_module *m;
	bool hides = false;

	if (p && dp_cmd_find_module(f, loc, p, &ignored) && !strcmp(p->modtype, "user") &&
	    !dp_module_open(&m, p->file, &ignored)) {
		hides = !dp_module_symbol(m, loc->symbol, &sym, &ignored) && is_result_hidden(m, &sym);
		dp_module_close(m);
	}
	free(p);
	return hides;
}

static bool asks_result(const struct event_line *line)
{
	const struct dp_event *ev = line->parsed ? dp_event_of_line(line->parsed) : NULL;

	return ev && ev->is_return && ev->has_retval && ev->loc.kind == DP_LOC_SYMBOL && !ev->loc.offset &&
	       !dp_is_module_pattern(ev->loc.module);
}

bool dp_cmd_lines_ask_hidden(const struct event_lines *e, const struct line_target *t)
{
	struct dp_error ignored = {0};
	struct line_finder f;
	bool any = false, hidden = false;

	for (u32 i = 0; i < e->n; i++)
		any |= asks_result(&e->v[i]);
	if (!any || !dp_cmd_finder_open(&f, t, t->npids ? t->pids[0] : 0, &ignored))
		return false;
	for (u32 i = 0; i < e->n && !hidden; i++)
		hidden = asks_result(&e->v[i]) && hides_result(&f, &dp_event_of_line(e->v[i].parsed)->loc);
	dp_cmd_finder_close(&f);
	return hidden;
}
