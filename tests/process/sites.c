/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Print an event line for every instruction a jump fits on, of the functions that match. The first
 * argument is the module's name in the lines, the third what stands behind the location, the fourth prints only
 * every Nth function, from the one with number K on. Usage: sites MODULE FILE ARGUMENTS N[+K] PATTERN...
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/insn.h"
#include "arch/site.h"
#include "symbols/symbols.h"

struct run {
	struct dp_module *m;
	char **argv;
	unsigned long every, phase, matched;
	unsigned long jump, other;
	u64 done; /* functions are seen by rising address, aliases at the same one once */
};

static int each(const struct dp_symbol *sym, void *arg)
{
	struct run *r = arg;
	const struct dp_text *t;
	struct dp_site site;
	struct dp_insn in;
	u64 at;
	bool wanted = false, reached = true;
	int n;

	for (char **p = r->argv + 5; *p; p++)
		wanted |= !fnmatch(*p, sym->name, 0);
	if (!wanted || sym->is_ifunc || sym->addr == r->done || dp_module_text(r->m, sym->addr, &t, NULL))
		return 0;
	r->done = sym->addr;
	if (r->matched++ % r->every != r->phase)
		return 0;
	for (u64 a = sym->addr; a < sym->addr + sym->size && a < t->hi; a += (u64)n) {
		n = dp_insn_decode(&in, t->bytes + (a - t->lo), t->hi - a);
		if (n < 0)
			break;
		/* Padding that nothing runs may lie under the jump of the instruction before it. */
		reached |= dp_text_is_target(t, a);
		if (!reached && dp_insn_traits(&in) & DP_INSN_NOP)
			continue;
		reached = dp_insn_traits(&in) & DP_INSN_FALLS;
		if (dp_site_judge(t, a, &site, NULL) || site.outcome != DP_OUTCOME_JUMP ||
		    !dp_module_addr_to_offset(r->m, a, &at)) {
			r->other++;
			continue;
		}
		r->jump++;
		printf("p %s:0x%llx %s\n", r->argv[1], (unsigned long long)at, r->argv[3]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct run r = {.argv = argv};
	struct dp_error err = {0};

	if (argc < 6)
		return 2;
	r.every = strtoul(argv[4], argv, 10);
	r.phase = **argv == '+' ? strtoul(*argv, NULL, 10) : 0;
	if (dp_module_open(&r.m, argv[2], &err)) {
		fprintf(stderr, "%s: %s\n", argv[2], err.detail);
		return 1;
	}
	dp_module_each_func(r.m, NULL, each, &r);
	fprintf(stderr, "%lu functions, %lu instructions with a jump, %lu without\n", r.matched, r.jump, r.other);
	dp_module_close(r.m);
	return 0;
}
