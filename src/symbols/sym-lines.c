/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From FILE:LINE and FUNCTION:LINE to addresses and back. A line's code may stand in many places: each function or
 * inlined copy that holds some of it counts once, at its lowest address.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "symbols/sym-lines.h"
#include "symbols/module-priv.h"

#define ROWS_MAX 4096

static const char *decl_file(Dwarf_Die *die);

struct row {
	u64 addr;
	Dwarf_Die cu;
};

struct search {
	struct dp_module *m;
	const char *file;
	u32 line, best, before; /* nearest lines with code: at or after the wanted one, before it */
	bool file_known;
	struct dp_near near; /* names of other files that are like it */
	struct row *rows;    /* of the best line */
	u32 nrows;
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool dp_line_parse(const char *text, u32 *file_len, u32 *line)
{
	const char *colon = strrchr(text, ':');
	unsigned long v;
	char *end;

	if (!colon || colon == text || colon[-1] == ':' || colon[1] < '0' || colon[1] > '9')
		return false;
	v = strtoul(colon + 1, &end, 10);
	if (*end || !v || v > 10000000)
		return false;
	*file_len = (u32)(colon - text);
	*line = (u32)v;
	return true;
}

/* The whole path, or its end from a slash on. */
static bool is_file(const char *path, const char *wanted)
{
	size_t n = strlen(path), w = strlen(wanted);

	return n >= w && !strcmp(path + n - w, wanted) && (n == w || path[n - w - 1] == '/' || *wanted == '/');
}

static void take_row(struct search *s, Dwarf_Die *cu, u64 addr, u32 line)
{
	if (!dp_mod_in_code(s->m, addr)) /* of a function that the linker left out */
		return;
	if (line < s->line) {
		s->before = DP_MAX(s->before, line);
		return;
	}
	if (s->best && line > s->best)
		return;
	if (line != s->best)
		s->nrows = 0;
	s->best = line;
	if (s->nrows < ROWS_MAX)
		s->rows[s->nrows++] = (struct row){addr, *cu};
}

/* A row at which a statement begins; false: it is none, or says too little. */
static bool read_row(Dwarf_Lines *lines, size_t i, Dwarf_Addr *addr, int *line)
{
	Dwarf_Line *l = dwarf_onesrcline(lines, i);
	bool stmt, end;

	return !dwarf_linebeginstatement(l, &stmt) && stmt && !dwarf_lineendsequence(l, &end) && !end &&
	       !dwarf_lineno(l, line) && *line > 0 && !dwarf_lineaddr(l, addr);
}

static void search_unit(struct search *s, Dwarf_Die *cu)
{
	const char *last = NULL;
	bool matches = false;
	Dwarf_Lines *lines;
	Dwarf_Files *files;
	size_t n, nfiles;

	/* The table's files first: most units do not know the wanted one. */
	if (dwarf_getsrcfiles(cu, &files, &nfiles))
		return;
	for (size_t i = 0; i < nfiles && !matches; i++) {
		const char *name = dwarf_filesrc(files, i, NULL, NULL);

		matches = name && is_file(name, s->file);
		if (name && !matches)
			dp_near_try(&s->near, base_of(s->file), base_of(name));
	}
	if (!matches || dwarf_getsrclines(cu, &lines, &n))
		return;
	s->file_known = true;
	for (size_t i = 0; i < n; i++) {
		const char *name = dwarf_linesrc(dwarf_onesrcline(lines, i), NULL, NULL);
		Dwarf_Addr addr;
		int line;

		if (name != last) {
			last = name;
			matches = name && is_file(name, s->file);
		}
		if (matches && read_row(lines, i, &addr, &line))
			take_row(s, cu, addr, (u32)line);
	}
}

#define NESTED_MAX 32

/* The function whose code holds addr, below namespaces and the like. */
static bool function_below(Dwarf_Die *die, u64 addr, u32 depth, Dwarf_Die *func)
{
	Dwarf_Die d;

	if (depth > NESTED_MAX || dwarf_child(die, &d))
		return false;
	do {
		switch (dwarf_tag(&d)) {
		case DW_TAG_subprogram:
			if (dwarf_haspc(&d, addr) > 0) {
				*func = d;
				return true;
			}
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_enumeration_type:
		case DW_TAG_union_type:
			if (function_below(&d, addr, depth + 1, func))
				return true;
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

/* The block or inlined copy inside of *die that holds addr becomes *die; false: none does. */
static bool step_inside(Dwarf_Die *die, u64 addr)
{
	Dwarf_Die d;

	if (dwarf_child(die, &d))
		return false;
	do {
		int tag = dwarf_tag(&d);

		if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) && dwarf_haspc(&d, addr) > 0) {
			*die = d;
			return true;
		}
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

/* The function that holds addr, and what inside of it does, outermost first; 0: none is known. */
static int chain_at(Dwarf_Die *cu, u64 addr, Dwarf_Die chain[NESTED_MAX])
{
	int depth = 1;

	if (!function_below(cu, addr, 0, &chain[0]))
		return 0;
	while (depth < NESTED_MAX) {
		chain[depth] = chain[depth - 1];
		if (!step_inside(&chain[depth], addr))
			break;
		depth++;
	}
	return depth;
}

/*
 * libdw looks for scopes in what has addresses, and not in namespaces. Rust's functions are there:
 * they are walked into here.
 */
int dp_mod_scopes(Dwarf_Die *cu, u64 addr, Dwarf_Die **scopes)
{
	Dwarf_Die chain[NESTED_MAX];
	int n = dwarf_getscopes(cu, addr, scopes), depth;

	if (n > 0)
		return n;
	depth = chain_at(cu, addr, chain);
	if (!depth)
		return n;
	*scopes = calloc((size_t)depth, sizeof(**scopes));
	for (int i = 0; *scopes && i < depth; i++)
		(*scopes)[i] = chain[depth - 1 - i];
	return *scopes ? depth : -1;
}

/* The innermost function or inlined copy that addr belongs to, and the function that holds its
 * code; false: none is known. */
bool dp_mod_function_of(Dwarf_Die *cu, u64 addr, Dwarf_Die *func, Dwarf_Die *outer)
{
	Dwarf_Die chain[NESTED_MAX], *scopes = NULL, *parents = NULL;
	int n = chain_at(cu, addr, chain), np = 0;
	bool found = false, whole = false;

	if (n) {
		*outer = chain[0];
		while (dwarf_tag(&chain[n - 1]) == DW_TAG_lexical_block)
			n--;
		*func = chain[n - 1];
		return true;
	}
	n = dp_mod_scopes(cu, addr, &scopes); /* a function inside of another one */
	for (int i = 0; i < n && !found; i++) {
		int tag = dwarf_tag(&scopes[i]);

		found = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
		if (found)
			*func = scopes[i];
	}
	/* Behind an inlined copy the scopes are those of its source: look at what contains it. */
	if (found)
		np = dwarf_getscopes_die(func, &parents);
	for (int i = 0; i < np && !whole; i++) {
		whole = dwarf_tag(&parents[i]) == DW_TAG_subprogram;
		if (whole)
			*outer = parents[i];
	}
	free(scopes);
	free(parents);
	return whole;
}

/* Whether a function begins between the wanted line and the one that was found. */
static bool begins_between(const struct search *s, Dwarf_Die *func)
{
	int decl;

	return !dwarf_decl_line(func, &decl) && decl > (int)s->line && decl <= (int)s->best;
}

bool dp_mod_is_unoptimised(Dwarf_Die *func)
{
	Dwarf_Attribute attr;
	Dwarf_Die child;
	Dwarf_Op *op;
	size_t n;

	if (dwarf_tag(func) != DW_TAG_subprogram || dwarf_child(func, &child))
		return false;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter && dwarf_tag(&child) != DW_TAG_variable)
			continue;
		if (!dwarf_attr(&child, DW_AT_location, &attr) || dwarf_whatform(&attr) != DW_FORM_exprloc)
			return false; /* in registers, or here and there */
		return !dwarf_getlocation(&attr, &op, &n) && n && op[0].atom == DW_OP_fbreg;
	} while (!dwarf_siblingof(&child, &child));
	return false;
}

/* The second row of a function's lines: where an unoptimised one has stored its parameters. */
u64 dp_mod_after_prologue(Dwarf_Die *cu, u64 low)
{
	Dwarf_Lines *lines;
	size_t n;
	u64 best = 0;

	if (dwarf_getsrclines(cu, &lines, &n))
		return low;
	for (size_t i = 0; i < n; i++) {
		Dwarf_Line *l = dwarf_onesrcline(lines, i);
		Dwarf_Addr addr;
		bool stmt, end;

		if (!dwarf_lineaddr(l, &addr) && addr > low && (!best || addr < best) &&
		    !dwarf_linebeginstatement(l, &stmt) && stmt && !dwarf_lineendsequence(l, &end) && !end)
			best = addr;
	}
	return best ? best : low;
}

static int by_address(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/*
 * One address for each function and copy; those of functions that only begin behind the wanted line
 * are none of its.
 */
static u32 choose(struct search *s, u64 *addrs, u32 max)
{
	Dwarf_Off *keys = calloc(s->nrows + 1, sizeof(*keys));
	u32 n = 0;

	qsort(s->rows, s->nrows, sizeof(*s->rows), by_address);
	for (u32 i = 0; keys && i < s->nrows && n < max; i++) {
		u64 addr = s->rows[i].addr;
		Dwarf_Addr low;
		Dwarf_Off key = 0;
		Dwarf_Die func, outer;
		u32 k = 0;

		if (dp_mod_function_of(&s->rows[i].cu, addr, &func, &outer)) {
			bool entry = !dwarf_lowpc(&func, &low) && low == addr;

			key = dwarf_dieoffset(&func);
			if (begins_between(s, &func) || begins_between(s, &outer))
				continue;
			if (entry && dp_mod_is_unoptimised(&func))
				addr = dp_mod_after_prologue(&s->rows[i].cu, addr);
		}
		while (k < n && (key ? keys[k] != key : addrs[k] != addr))
			k++;
		if (k < n)
			continue;
		keys[n] = key;
		addrs[n++] = addr;
	}
	free(keys);
	return n;
}

static int find_in_file(struct dp_module *m, const char *file, u32 line, u64 *addrs, u32 max, u32 *used,
			struct dp_error *err)
{
	struct search s = {.m = m, .file = file, .line = line};
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	u32 n;
	int r;

	if (!dw)
		return dp_mod_no_debug(m, err);
	s.rows = calloc(ROWS_MAX, sizeof(*s.rows));
	if (!s.rows)
		return dp_fail(err, E_FILE_MEMORY, "%.150s", m->base);
	while (dp_mod_next_unit(m, &cu, &die))
		search_unit(&s, &die);
	n = choose(&s, addrs, max);
	*used = s.best;
	free(s.rows);
	if (n)
		return (int)n;
	if (!s.file_known) {
		r = dp_fail(err, E_LINE_FILE, "%.100s in %.100s", file, m->base);
		dp_near_hint(&s.near, "", err);
		return r;
	}
	r = dp_fail(err, E_LINE_CODE, "%.100s:%u in %.100s", file, line, m->base);
	if (s.before && s.best)
		dp_error_hint(err, "the nearest lines with code are %u and %u", s.before, s.best);
	else if (s.before || s.best)
		dp_error_hint(err, "the nearest line with code is %u", s.before | s.best);
	return r;
}

/* A function by its debug information: where it is written, and its last line with code. */
struct written {
	const char *file;
	u32 first, last;
	int (*fn)(u32 line, void *arg); /* called for each of its lines; NULL: nothing is */
	void *arg;
};

static int note_line(const struct dp_module_row *row, void *arg)
{
	struct written *w = arg;

	if (row->inlined[0] || strcmp(row->file, w->file) != 0)
		return 0;
	w->last = DP_MAX(w->last, row->line);
	return w->fn && row->line > w->first ? w->fn(row->line - w->first, w->arg) : 0;
}

static int find_function(struct dp_module *m, const char *name, struct written *w, struct dp_error *err)
{
	Dwarf_Die cu, func, outer;
	struct dp_symbol sym;
	int first, r = dp_module_symbol(m, name, &sym, err);

	if (r)
		return r;
	if (!dp_mod_unit_at(m, sym.addr, &cu) || !dp_mod_function_of(&cu, sym.addr, &func, &outer))
		return dp_mod_no_debug(m, err);
	w->file = decl_file(&outer);
	if (!w->file || dwarf_decl_line(&outer, &first) || first <= 0)
		return dp_mod_no_debug(m, err);
	w->first = w->last = (u32)first;
	return dp_module_each_line(m, sym.addr, sym.addr + sym.size, note_line, w, err);
}

/* A line counted from the one in which the function begins. */
static int find_in_function(struct dp_module *m, const char *name, u32 line, u64 *addrs, u32 max, u32 *used,
			    struct dp_error *err)
{
	struct written w = {0};
	int r = find_function(m, name, &w, err);

	if (r)
		return r;
	if (line <= w.last - w.first)
		r = find_in_file(m, w.file, w.first + line, addrs, max, used, err);
	if (r > 0 && *used <= w.last) {
		*used -= w.first;
		return r;
	}
	r = dp_fail(err, E_LINE_CODE, "%.100s:%u in %.100s", name, line, m->base);
	dp_error_hint(err, "%.60s begins at line %u of %.100s, and its last line with code is %.60s:%u", name, w.first,
		      strrchr(w.file, '/') ? strrchr(w.file, '/') + 1 : w.file, name, w.last - w.first);
	return r;
}

int dp_module_each_line_of(struct dp_module *m, const char *name, int (*fn)(u32 line, void *arg), void *arg,
			   struct dp_error *err)
{
	struct written w = {.fn = fn, .arg = arg};

	return find_function(m, name, &w, err);
}

int dp_module_each_line_row(struct dp_module *m, int (*fn)(const char *file, u32 line, void *arg), void *arg)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Lines *lines;
	Dwarf_Die cu;
	size_t n;
	int r = 0;

	while (!r && dp_mod_next_unit(m, &unit, &cu)) {
		if (dwarf_getsrclines(&cu, &lines, &n))
			continue;
		for (size_t i = 0; i < n && !r; i++) {
			const char *file = dwarf_linesrc(dwarf_onesrcline(lines, i), NULL, NULL);
			Dwarf_Addr addr;
			int line;

			if (file && read_row(lines, i, &addr, &line) && dp_mod_in_code(m, addr))
				r = fn(file, (u32)line, arg);
		}
	}
	return r;
}

int dp_module_line(struct dp_module *m, const char *file, u32 line, u64 *addrs, u32 max, u32 *used,
		   struct dp_error *err)
{
	struct dp_error e = {0};
	int r = find_in_file(m, file, line, addrs, max, used, &e);

	if (e.code == E_LINE_FILE && !strpbrk(file, "./"))
		return find_in_function(m, file, line, addrs, max, used, err);
	if (r < 0 && err)
		*err = e;
	return r;
}

bool dp_module_line_at(struct dp_module *m, u64 addr, const char **file, u32 *line)
{
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_Line *l;
	Dwarf_Die cu;
	int v;

	if (!dw || !dp_mod_unit_at(m, addr, &cu))
		return false;
	l = dwarf_getsrc_die(&cu, addr);
	if (!l || dwarf_lineno(l, &v) || v <= 0)
		return false;
	*file = dwarf_linesrc(l, NULL, NULL);
	*line = (u32)v;
	return *file != NULL;
}

#define SOUGHT_ONE_BY_ONE 16 /* addresses */

/* In order, and none touches the next. Returns their number. */
static size_t join_ranges(struct dp_range *v, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++)
		if (out && v[i].lo <= v[out - 1].hi)
			v[out - 1].hi = DP_MAX(v[out - 1].hi, v[i].hi);
		else
			v[out++] = v[i];
	return out;
}

/* Where units have code, by what dwarf_haspc() goes by. */
static void list_code(struct mod_dwarf *d)
{
	struct dp_range *v = NULL;
	Dwarf_CU *cu = NULL;
	size_t n = 0, cap = 0;
	Dwarf_Die die;

	while (!dwarf_get_units(d->main, cu, &cu, NULL, NULL, &die, NULL)) {
		Dwarf_Addr base, lo, hi;

		for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &lo, &hi)) > 0;) {
			if (!dp_grow((void **)&v, &cap, n, sizeof(*v))) {
				free(v);
				return;
			}
			v[n++] = (struct dp_range){lo, hi};
		}
	}
	if (!v || !DP_SORT_BY(v, n, lo)) {
		free(v);
		return;
	}
	d->code = v;
	d->ncode = join_ranges(v, n);
}

/*
 * A program may have debug information of few of its functions. Who looks for that of all of them need not go through
 * all units for each.
 */
static bool may_have_unit(struct mod_dwarf *d, u64 addr)
{
	size_t n;

	if (d->nsought++ == SOUGHT_ONE_BY_ONE)
		list_code(d);
	n = d->code ? DP_COUNT_UP_TO(d->code, d->ncode, lo, addr) : 0;
	return !d->code || (n && addr < d->code[n - 1].hi);
}

/* Compilers may leave out .debug_aranges: look at the units' own ranges then. */
bool dp_mod_unit_at(struct dp_module *m, u64 addr, Dwarf_Die *out)
{
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	u8 type;

	if (!dw || !may_have_unit(&m->dw, addr))
		return false;
	if (dwarf_addrdie(dw, addr, &die) && dwarf_haspc(&die, addr) > 0) {
		/* The first unit must have been seen for this. */
		dwarf_get_units(dw, NULL, &cu, NULL, NULL, NULL, NULL);
		*out = dp_mod_split_of(m, die.cu, &split) ? split : die;
		return true;
	}
	cu = NULL;
	while (!dwarf_get_units(dw, cu, &cu, NULL, &type, &die, NULL))
		if ((type == DW_UT_compile || type == DW_UT_skeleton) && dwarf_haspc(&die, addr) > 0) {
			*out = dp_mod_split_of(m, cu, &split) ? split : die;
			return true;
		}
	return false;
}

/* dwarf_decl_file() ends the process where the table of files is damaged. */
static const char *decl_file(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Files *files;
	Dwarf_Word index;
	Dwarf_Die unit;
	size_t n;

	if (!dwarf_attr_integrate(die, DW_AT_decl_file, &attr) || dwarf_formudata(&attr, &index) ||
	    !dwarf_cu_die(attr.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, &n) ||
	    index >= n)
		return NULL;
	return dwarf_filesrc(files, index, NULL, NULL);
}

/* ---- the lines of a function ---- */

struct line_of { /* a line in one function or inlined copy */
	const char *file;
	u32 line;
	Dwarf_Off scope;
};

/*
 * The function or inlined copy at addr that the line is written in: of those that hold the address
 * and begin in this file at or before the line, the last one.
 */
static bool scope_of_line(Dwarf_Die *cu, u64 addr, const struct line_of *l, Dwarf_Die *scope)
{
	Dwarf_Die inner, outer, *parents = NULL;
	int n, best = 0, decl;

	if (!dp_mod_function_of(cu, addr, &inner, &outer))
		return false;
	n = dwarf_getscopes_die(&inner, &parents);
	for (int i = 0; i < n; i++) {
		int tag = dwarf_tag(&parents[i]);
		const char *file = decl_file(&parents[i]);

		if ((tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) || !file || strcmp(file, l->file) ||
		    dwarf_decl_line(&parents[i], &decl) || decl > (int)l->line || decl <= best)
			continue;
		best = decl;
		*scope = parents[i];
	}
	free(parents);
	return best > 0;
}

static bool seen(const struct line_of *v, u32 n, const struct line_of *l)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].line == l->line && v[i].scope == l->scope && !strcmp(v[i].file, l->file))
			return true;
	return false;
}

int dp_module_each_line(struct dp_module *m, u64 lo, u64 hi, int (*fn)(const struct dp_module_row *row, void *arg),
			void *arg, struct dp_error *err)
{
	struct line_of *v;
	Dwarf_Lines *lines;
	Dwarf_Die cu, scope;
	size_t n;
	u32 nseen = 0;
	int r = 0;

	if (!dp_mod_unit_at(m, lo, &cu) || dwarf_getsrclines(&cu, &lines, &n))
		return dp_mod_no_debug(m, err);
	v = calloc(ROWS_MAX, sizeof(*v));
	if (!v)
		return dp_fail(err, E_FILE_MEMORY, "%.150s", m->base);
	for (size_t i = 0; i < n && nseen < ROWS_MAX && !r; i++) {
		Dwarf_Line *l = dwarf_onesrcline(lines, i);
		struct line_of now = {0};
		const char *inlined = "";
		Dwarf_Addr addr;
		int line;

		if (!read_row(lines, i, &addr, &line) || addr < lo || addr >= hi || !dwarf_linesrc(l, NULL, NULL))
			continue;
		now.file = dwarf_linesrc(l, NULL, NULL);
		now.line = (u32)line;
		if (scope_of_line(&cu, addr, &now, &scope)) {
			now.scope = dwarf_dieoffset(&scope);
			if (dwarf_tag(&scope) == DW_TAG_inlined_subroutine && dwarf_diename(&scope))
				inlined = dwarf_diename(&scope);
		}
		if (seen(v, nseen, &now))
			continue;
		v[nseen++] = now;
		r = fn(&(struct dp_module_row){now.file, now.line, addr, inlined}, arg);
	}
	free(v);
	return r;
}
