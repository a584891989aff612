/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is judged by a look around one function is what the analysis of the whole module says: every instruction's site,
 * the function's bounds and flags, and its exits, in real binaries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/module-priv.h"
#include "ok.h"

#define GROUP 12 /* functions of one opened file: with more the whole is analysed */
#define GROUPS 10
#define EXITS 256
#define FLAGS (DP_FUNC_UNPROVEN | DP_FUNC_GO | DP_FUNC_PART | DP_FUNC_FALLEN | DP_FUNC_NAMELESS)

struct sweep {
	struct dp_module *whole, *part;
	const char *path;
	unsigned long funcs, insns, differ;
	u32 groups, partial; /* opened files, and those of which not everything had to be analysed */
};

static bool same_site(const struct dp_site *a, const struct dp_site *b)
{
	return a->outcome == b->outcome && a->why == b->why && a->flags_dead == b->flags_dead &&
	       a->red_zone == b->red_zone && !memcmp(&a->win, &b->win, sizeof(a->win));
}

static void differs(struct sweep *s, u64 addr, const char *what)
{
	if (s->differ++ < 10)
		printf("# %s: %s at 0x%llx\n", s->path, what, (unsigned long long)addr);
}

static void compare_exits(struct sweep *s, u64 lo)
{
	u64 a[EXITS], b[EXITS];
	int n = dp_module_exits(s->whole, lo, a, NULL, EXITS, NULL),
	    m = dp_module_exits(s->part, lo, b, NULL, EXITS, NULL);

	if (n != m || (n > 0 && memcmp(a, b, (size_t)n * sizeof(*a))))
		differs(s, lo, "exits");
}

static void compare(struct sweep *s, u64 addr)
{
	const struct dp_text *t, *u;
	const struct dp_func *f, *g;
	struct dp_site x, y;

	if (dp_module_text(s->part, addr, &u, NULL) || dp_module_text(s->whole, addr, &t, NULL))
		return;
	f = dp_text_func(t, addr);
	g = dp_text_func(u, addr);
	if (!f || !g || f->lo != g->lo || f->hi != g->hi || (f->flags ^ g->flags) & FLAGS) {
		differs(s, addr, "function");
		return;
	}
	s->funcs++;
	for (u64 a = f->lo; a < f->hi; a++) {
		bool begins = t->starts[(a - t->lo) >> 3] >> ((a - t->lo) & 7) & 1;

		s->insns += begins;
		if (dp_site_judge(t, a, &x, NULL) != dp_site_judge(u, a, &y, NULL) || !same_site(&x, &y))
			differs(s, a, "site");
	}
	compare_exits(s, f->lo);
}

/* Functions from all over the file, and some neighbours. */
static void sweep(const char *path)
{
	struct sweep s = {.path = path};
	size_t n;

	if (access(path, R_OK)) {
		printf("ok %d - %s # SKIP no such file\n", ++tests, path);
		return;
	}
	if (dp_module_open(&s.whole, path, NULL) || dp_module_analyse(s.whole, NULL)) {
		ok(false, "open %s", path);
		return;
	}
	n = s.whole->funcs.n;
	for (size_t i = 0; n && i < GROUPS; i++, s.groups++) {
		if (dp_module_open(&s.part, path, NULL))
			break;
		for (size_t k = 0; k < GROUP; k++)
			compare(&s, s.whole->funcs.v[(i * n / GROUPS + k * k * k) % n].lo);
		s.partial += !s.part->an.complete;
		dp_module_close(s.part);
	}
	ok(!s.differ && s.groups == GROUPS, "%s: the same for %lu instructions of %lu functions", path, s.insns,
	   s.funcs);
	/* Without names, tables may only be understood when all of the code has been seen. */
	ok(s.partial || !dp_module_has_symtab(s.whole), "%s: in %u cases of %u without a look at everything", path,
	   s.partial, s.groups);
	dp_module_close(s.whole);
}

int main(void)
{
	static const char *const paths[] = {"/usr/bin/redis-server",
					    "/bin/bash",
					    "/usr/bin/gdb",
					    "/usr/bin/node",
					    "/usr/bin/python3",
					    "/lib/x86_64-linux-gnu/libc.so.6",
					    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"};
	char self[512] = "";

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	for (size_t i = 0; i < DP_ARRAY_SIZE(paths); i++)
		sweep(paths[i]);
	sweep(self);
	printf("1..%d\n", tests);
	return failures != 0;
}
