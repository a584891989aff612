/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is judged by a look around one function is what the analysis of the whole module says: every instruction's site,
 * the function's bounds and flags, and its exits, in real binaries. So are functions and names that are looked for
 * without putting all symbols in order, and what an earlier command has kept.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/module-priv.h"
#include "ok.h"

#define GROUP 12 /* functions of one opened file: with more the whole is analysed */
#define GROUPS 10
#define EXITS 256
#define FLAGS (DP_FUNC_UNPROVEN | DP_FUNC_GO | DP_FUNC_PART | DP_FUNC_FALLEN | DP_FUNC_NAMELESS)

static char folder[64]; /* where analyses are kept */

struct sweep {
	struct dp_module *whole, *part;
	const char *path;
	unsigned long funcs, insns, differ;
	u32 groups, partial; /* opened files, and those of which not everything had to be analysed */
	u32 kept;            /* those of which was known what an earlier one had found out */
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

/* Without names, functions are where they are with them. */
static bool compare_bounds(const char *path)
{
	struct dp_module *m = NULL, *whole = NULL;
	size_t n = 0;
	bool loaded;

	if (dp_module_open(&m, path, NULL) || dp_module_open(&whole, path, NULL) || dp_mod_load_funcs(whole, NULL))
		return false;
	loaded = dp_mod_load_bounds(m);
	for (; n < DP_MIN(m->bounds.n, whole->funcs.n); n++) {
		const struct mod_range *a = &m->bounds.v[n], *b = &whole->funcs.v[n];

		if (a->lo != b->lo || a->hi != b->hi || a->flags != b->flags ||
		    (a->sym == NO_SYM) != (b->sym == NO_SYM))
			break;
	}
	ok(!loaded || (n == m->bounds.n && n == whole->funcs.n), "%s: the same %zu functions without names", path, n);
	dp_module_close(m);
	dp_module_close(whole);
	return loaded;
}

/* A name that is looked for without the others leads where it leads with them. */
static void compare_names(const char *path, struct dp_module *whole, bool alone)
{
	unsigned long same = 0, few = 0, differ = 0;
	struct dp_symbol a = {0}, b = {0};
	struct dp_module *m = NULL;

	for (size_t i = 0; i < whole->syms.n; i += whole->syms.n / 40 + 1) {
		const char *name = whole->syms.v[i].name;
		int r, q;

		dp_module_close(m);
		m = NULL;
		if (strchr(name, '@') || dp_module_open(&m, path, NULL))
			continue;
		r = dp_module_symbol(m, name, &a, NULL);
		few += !m->syms_loaded;
		q = dp_module_symbol(whole, name, &b, NULL);
		if (r != q ||
		    (!r && (strcmp(a.name, b.name) || a.addr != b.addr || a.size != b.size || a.is_func != b.is_func ||
			    a.is_ifunc != b.is_ifunc || a.is_exported != b.is_exported || a.is_data != b.is_data)))
			printf("# %s: %s\n", path, name), differ++;
		else
			same++;
	}
	dp_module_close(m);
	ok(!differ && (few || !alone), "%s: %lu names lead to the same, %lu without all others", path, same, few);
}

/* What one probe takes: no names but its own, and few functions are decoded. */
static void count_work(const char *path, const char *name)
{
	u32 walked = 0, all = 0;
	const struct dp_text *t;
	struct dp_symbol sym;
	struct dp_module *m;

	if (access(path, R_OK) || dp_module_open(&m, path, NULL)) {
		printf("ok %d - one probe in %s # SKIP no such file\n", ++tests, path);
		return;
	}
	if (!dp_module_has_symtab(m)) {
		printf("ok %d - one probe in %s # SKIP it has no names\n", ++tests, path);
		dp_module_close(m);
		return;
	}
	ok(!dp_module_symbol(m, name, &sym, NULL) && !dp_module_text(m, sym.addr, &t, NULL) && !m->syms_loaded &&
	       !m->funcs_loaded && dp_module_symbol(m, "no_such_name", &sym, NULL) && !m->syms_loaded,
	   "%s: other names than %s are not put in order", path, name);
	for (u32 i = 0; i < m->an.ntexts; i++) {
		const struct dp_code_text *ct = &m->an.texts[i];

		for (u32 k = 0; k < ct->t.nfuncs; k++, all++)
			walked += !!(ct->funcs[k].flags & DP_FUNC_WALKED);
	}
	ok(walked && walked <= all / 50, "%s: %u of %u functions are walked", path, walked, all);
	dp_module_close(m);
}

/* Vectors find what a loop over bytes finds, at any offset and length. */
static void compare_scans(void)
{
	static const struct dp_range span = {0x400000, 0x400100};
	unsigned long differ = 0;
	u8 p[700];

	srand(1);
	for (u32 round = 0; round < 20000; round++) {
		u64 n = (u64)rand() % sizeof(p), i = 0, from = n ? (u64)rand() % n : 0, value = 0x4000f8 + rand() % 16;

		for (u64 k = 0; k < n; k++)
			p[k] = "ab.c"[rand() & 3];
		if (n > 8 && rand() & 1)
			memcpy(p + (u64)rand() % (n - 8), &value, 8);
		for (i = from; i + 8 <= n && mod_load64(p + i) - span.lo >= span.hi - span.lo; i += 8)
			;
		differ += dp_mod_next_word(p, n, from, &span) != (i + 8 <= n ? i : n);
		for (i = from; i + 5 <= n && memcmp(p + i, ".cab.", 5) != 0; i++)
			;
		differ += dp_mod_find(p, n, from, ".cab.", 5) != (i + 5 <= n ? i : n);
	}
	ok(!differ, "words and texts are found by vectors as by bytes");
}

/* Functions from all over the file, and some neighbours. */
static void compare_groups(struct sweep *s)
{
	size_t n = s->whole->funcs.n;

	s->groups = s->partial = s->kept = 0;
	for (size_t i = 0; n && i < GROUPS; i++, s->groups++) {
		if (dp_module_open(&s->part, s->path, NULL))
			break;
		for (size_t k = 0; k < GROUP; k++)
			compare(s, s->whole->funcs.v[(i * n / GROUPS + k * k * k) % n].lo);
		s->partial += !s->part->an.complete;
		s->kept += !!s->part->kept.head;
		dp_module_close(s->part);
	}
}

/*
 * The first one keeps what it has found out, or all of it once that is known; the others begin with it. Little code is
 * looked through each time.
 */
static void compare_kept(struct sweep *s)
{
	bool much = dp_mod_code_bytes(s->whole) >= MOD_KEEP_FROM;
	struct dp_module *all;

	while (dp_mod_age(&s->whole->id) < 6000000000) /* of one that was just built nothing would be kept */
		sleep(1);
	dp_module_keep_in = folder;
	s->funcs = s->insns = 0;
	compare_groups(s);
	ok(!s->differ && s->kept == (much ? GROUPS - 1 : 0),
	   "%s: the same for %lu instructions of %lu functions with what was kept", s->path, s->insns, s->funcs);
	if (!dp_module_open(&all, s->path, NULL)) {
		dp_module_analyse(all, NULL);
		dp_module_close(all);
	}
	s->funcs = s->insns = 0;
	compare_groups(s);
	ok(!s->differ && (!much || (s->kept == GROUPS && !s->partial)),
	   "%s: the same for %lu instructions of %lu functions when all was", s->path, s->insns, s->funcs);
	dp_module_keep_in = NULL;
}

static void sweep(const char *path)
{
	struct sweep s = {.path = path};

	if (access(path, R_OK)) {
		printf("ok %d - %s # SKIP no such file\n", ++tests, path);
		return;
	}
	if (dp_module_open(&s.whole, path, NULL) || dp_module_analyse(s.whole, NULL)) {
		ok(false, "open %s", path);
		return;
	}
	compare_names(path, s.whole, compare_bounds(path));
	compare_groups(&s);
	ok(!s.differ && s.groups == GROUPS, "%s: the same for %lu instructions of %lu functions", path, s.insns,
	   s.funcs);
	/* Without names, tables may only be understood when all of the code has been seen. */
	ok(s.partial || !dp_module_has_symtab(s.whole), "%s: in %u cases of %u without a look at everything", path,
	   s.partial, s.groups);
	compare_kept(&s);
	dp_module_close(s.whole);
}

/* ---- what is not believed ---- */

#define OF "/lib/x86_64-linux-gnu/libc.so.6"

/* The only file in the folder; false: there is none. */
static bool kept_file(char *path, size_t size)
{
	DIR *d = opendir(folder);
	const struct dirent *e;
	bool found = false;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			found = (size_t)snprintf(path, size, "%s/%s", folder, e->d_name) < size;
	if (d)
		closedir(d);
	return found;
}

static void clear(void)
{
	char path[512];

	while (kept_file(path, sizeof(path)) && !unlink(path))
		;
}

/* Whether a command that asks for one function of the file begins with what was kept. */
static bool begins_with_kept(const char *path, u64 addr)
{
	const struct dp_text *t;
	struct dp_module *m;
	bool kept;

	if (dp_module_open(&m, path, NULL))
		return false;
	kept = !dp_module_text(m, addr, &t, NULL) && m->kept.head;
	dp_module_close(m);
	return kept;
}

static u64 some_function(const char *path)
{
	struct dp_symbol sym = {0};
	struct dp_module *m;

	if (dp_module_open(&m, path, NULL))
		return 0;
	dp_module_symbol(m, "getppid", &sym, NULL);
	dp_module_close(m);
	return sym.addr;
}

/* The file's bytes from `at` on become others; or it ends there. */
static void spoil(const char *path, off_t at, bool cut)
{
	int fd = open(path, O_RDWR);
	u8 bytes[16] = {0};

	if (cut ? ftruncate(fd, at) : pread(fd, bytes, sizeof(bytes), at) < 0)
		printf("# %s cannot be spoiled\n", path);
	for (u32 i = 0; i < sizeof(bytes); i++)
		bytes[i] ^= 0x55;
	if (!cut && pwrite(fd, bytes, sizeof(bytes), at) < 0)
		printf("# %s cannot be spoiled\n", path);
	close(fd);
}

static void test_unbelieved(u64 addr)
{
	static const struct {
		off_t at;
		bool cut;
		const char *what;
	} cases[] = {{0, false, "another kind of file"},
		     {16, false, "another build"},
		     {56, false, "another file"},
		     {96, false, "another debug file"},
		     {130, false, "another build-id"},
		     {4096, false, "functions that do not follow one another"},
		     {100, true, "a short file"},
		     {8192, true, "a file that was cut off"},
		     {1 << 30, true, "a file that is too long"}};
	char path[512], other[520];

	for (size_t i = 0; i < DP_ARRAY_SIZE(cases); i++) {
		bool first = begins_with_kept(OF, addr), second = begins_with_kept(OF, addr);

		if (kept_file(path, sizeof(path)))
			spoil(path, cases[i].at, cases[i].cut);
		ok(!first && second && !begins_with_kept(OF, addr), "not believed: %s", cases[i].what);
		ok(begins_with_kept(OF, addr), "and it is replaced");
		clear();
	}
	begins_with_kept(OF, addr);
	ok(kept_file(path, sizeof(path)) && !chmod(path, 0660) && !begins_with_kept(OF, addr),
	   "not believed: a file that others may write to");
	ok(kept_file(path, sizeof(path)) && snprintf(other, sizeof(other), "%s.x", folder) > 0 &&
	       !rename(path, other) && !symlink(other, path) && !begins_with_kept(OF, addr),
	   "not believed: a link");
	unlink(other);
	clear();
}

/* A file that has just been changed may be changed again in the same tick of its times. */
static void test_changed(u64 addr)
{
	char copy[80], command[200];

	snprintf(copy, sizeof(copy), "%s.so", folder);
	snprintf(command, sizeof(command), "cp " OF " %s", copy);
	ok(!system(command) && !begins_with_kept(copy, addr) && !begins_with_kept(copy, addr),
	   "nothing is kept of a file that has just been made");
	sleep(6);
	ok(!begins_with_kept(copy, addr) && begins_with_kept(copy, addr), "some seconds later it is");
	ok(!chmod(copy, 0700) && !begins_with_kept(copy, addr), "not when it was changed since");
	unlink(copy);
	clear();
}

static void test_trust(void)
{
	u64 addr = some_function(OF);

	dp_module_keep_in = folder;
	clear();
	if (!addr) {
		printf("ok %d - what is not believed # SKIP no such file\n", ++tests);
		return;
	}
	test_unbelieved(addr);
	test_changed(addr);
	dp_module_keep_in = NULL;
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
	snprintf(folder, sizeof(folder), "/tmp/dp-kept-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	for (size_t i = 0; i < DP_ARRAY_SIZE(paths); i++)
		sweep(paths[i]);
	sweep(self);
	compare_scans();
	count_work("/usr/bin/node", "uv_run");
	test_trust();
	rmdir(folder);
	printf("1..%d\n", tests);
	return failures != 0;
}
