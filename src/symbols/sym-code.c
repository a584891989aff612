/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Hands a module's code to the analysis (arch text.h): executable ranges, function bounds, and
 * every code address that occurs outside of code. The analysis itself is not done here.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

static int by_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int by_data(const void *a, const void *b)
{
	return by_u64(&((const struct dp_code_data *)a)->lo, &((const struct dp_code_data *)b)->lo);
}

static int by_text(const void *a, const void *b)
{
	return by_u64(&((const struct dp_code_text *)a)->t.lo, &((const struct dp_code_text *)b)->t.lo);
}

struct piece {
	u64 lo, size, offset;
	bool x;
};

/* Sections where there are any, since segments may hold headers and tables beside the code. */
static bool piece_at(const struct dp_module *m, size_t i, struct piece *p)
{
	if (m->nshdrs) {
		const struct mod_sec *s = &m->secs[i];

		*p = (struct piece){s->addr, s->size, s->offset, s->x};
		return true;
	}
	*p = (struct piece){m->segs[i].addr, m->segs[i].filesz, m->segs[i].offset, m->segs[i].x};
	return m->segs[i].filesz > 0;
}

u64 dp_mod_code_bytes(const struct dp_module *m)
{
	u64 n = 0;

	for (u32 i = 0; i < m->an.ntexts; i++)
		n += m->an.texts[i].t.hi - m->an.texts[i].t.lo;
	return n;
}

void dp_mod_point_text(struct dp_code_text *ct)
{
	ct->t.targets = ct->targets;
	ct->t.funcs = ct->funcs;
	ct->t.starts = ct->starts;
}

/* Room for what will be known about the code, and its functions. */
static bool add_functions(struct dp_module *m, struct dp_code_text *ct)
{
	const struct mod_ranges *f = m->bounds_loaded ? &m->bounds : &m->funcs;
	const struct mod_range *r = f->v + DP_COUNT_BELOW(f->v, f->n, lo, ct->t.lo);
	const struct mod_range *end = f->v + DP_COUNT_BELOW(f->v, f->n, lo, ct->t.hi);
	size_t map = (ct->t.hi - ct->t.lo) / 8 + 1, nfuncs = (size_t)(end - r) + 1;

	ct->starts = dp_alloc(map); /* few are set when few functions are asked for */
	ct->room = nfuncs * sizeof(*ct->funcs) + 3 * map;
	ct->funcs = dp_alloc_whole(ct->room);
	if (!ct->funcs || !ct->starts)
		return false;
	ct->targets = (u8 *)(ct->funcs + nfuncs);
	ct->pointed = ct->targets + map;
	ct->led = ct->pointed + map;
	dp_mod_point_text(ct);
	for (; r < end; r++) {
		if (r->hi > r->lo)
			ct->funcs[ct->t.nfuncs++] = (struct dp_func){
			    r->lo, DP_MIN(r->hi, ct->t.hi), r->flags | (r->sym == NO_SYM ? DP_FUNC_NAMELESS : 0)};
	}
	return true;
}

static bool collect_pieces(struct dp_module *m)
{
	size_t n = m->nshdrs ? m->nsecs : m->nsegs;
	struct dp_code_data *data = dp_alloc((n + 1) * sizeof(*data));
	struct piece p;
	u64 code = 0;

	m->an.texts = dp_alloc((n + 1) * sizeof(*m->an.texts));
	m->an.data = data;
	if (!data || !m->an.texts)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!piece_at(m, i, &p))
			continue;
		/* More code than there are bytes in the file: made up, to take our memory. */
		if (p.x && (code += p.size) > m->file_size)
			return false;
		if (p.x)
			m->an.texts[m->an.ntexts++].t = (struct dp_text){p.lo, p.lo + p.size, m->file + p.offset};
		else
			data[m->an.ndata++] = (struct dp_code_data){p.lo, p.lo + p.size, m->file + p.offset};
	}
	qsort(data, m->an.ndata, sizeof(*data), by_data);
	qsort(m->an.texts, m->an.ntexts, sizeof(*m->an.texts), by_text);
	return true;
}

/* Where any code lies. */
static struct dp_range code_span(const struct dp_module *m)
{
	u32 n = m->an.ntexts;

	return n ? (struct dp_range){m->an.texts[0].t.lo, m->an.texts[n - 1].t.hi} : (struct dp_range){0, 0};
}

static bool take(struct dp_module *m, u64 addr)
{
	if (!dp_code_at(&m->an, addr))
		return true;
	dp_code_take(&m->an, addr);
	return MOD_PUSH(&m->taken, addr);
}

static const u8 *look_at_code(void *arg, const struct dp_code_text *ct, u64 off, u64 *end)
{
	*end = DP_MIN(*end, off + MOD_PART);
	return dp_mod_part(arg, ct->t.bytes + off, *end - off);
}

/* In a file with a fixed address, pointers in data are plain numbers. Few words are code addresses at all. */
static bool scan_words(struct dp_module *m, const struct dp_code_data *d)
{
	u64 at = DP_ALIGN_UP(d->lo, 8ull) - d->lo, size = d->hi - d->lo;
	struct dp_range span = code_span(m);

	for (; at + 8 <= size; at += MOD_PART) {
		u64 n = DP_MIN((u64)MOD_PART, size - at);
		const u8 *p = dp_mod_part(m, d->bytes + at, n);

		for (u64 i = 0; (i = dp_mod_next_word(p, n, i, &span)) < n; i += 8)
			if (!take(m, mod_load64(p + i)))
				return false;
	}
	return true;
}

static bool take_data(struct dp_module *m)
{
	const struct mod_sec *got = dp_mod_section(m, ".got.plt");

	if (!dp_mod_load_relocs(m))
		return false;
	for (size_t i = 0; i < m->relocs.n; i++)
		if (!take(m, m->relocs.v[i].value))
			return false;
	for (u32 i = 0; i < m->an.ndata; i++) {
		const struct dp_code_data *d = &m->an.data[i];

		/* The table of the lazy linker holds addresses that its relocations do not name. */
		if ((!m->dyn || (got && got->addr == d->lo)) && !scan_words(m, d))
			return false;
	}
	return true;
}

static void mark_dynamic(struct dp_module *m, const u8 *p, u64 size)
{
	for (u64 off = 0; off + 16 <= size; off += 16) {
		u64 tag = mod_load64(p + off);

		if (tag == DT_INIT || tag == DT_FINI)
			dp_code_take(&m->an, mod_load64(p + off + 8));
	}
}

static void mark_places(struct dp_module *m)
{
	bool go = dp_module_is_go(m);

	dp_code_take(&m->an, m->entry);
	for (size_t i = 0; i < m->pads.n; i++)
		dp_code_mark(&m->an, m->pads.v[i]);
	for (size_t i = 0; i < m->marks.n; i++)
		dp_code_mark(&m->an, m->marks.v[i]);
	for (size_t i = 0; !m->bounds_loaded && i < m->syms.n; i++) {
		const struct mod_sym *s = &m->syms.v[i];

		if (s->flags & (SYM_FUNC | SYM_IFUNC | SYM_LABEL | SYM_DATA))
			dp_code_mark(&m->an, s->addr);
		/* Up to Go 1.17 a recovered function calls this again by stepping back. */
		if (go && s->flags & SYM_FUNC && !strcmp(s->name, "runtime.deferreturn"))
			m->an.rewound = s->addr;
	}
	for (size_t i = 0; i < m->nsecs; i++)
		if (m->secs[i].type == SHT_DYNAMIC)
			mark_dynamic(m, m->file + m->secs[i].offset, m->secs[i].size);
}

/*
 * Restartable sequences: struct rseq_cs { u32 version, flags; u64 start, length, abort; }. The
 * signature in front of the abort handler must stay as well, and control arrives at the handler.
 */
static u32 read_rseq(struct dp_module *m, const struct mod_sec *sec, struct dp_span *v)
{
	u32 n = 0;

	for (u64 off = 0; off + 32 <= sec->size; off += 32) {
		const u8 *p = m->file + sec->offset + off;
		const struct mod_reloc *start = dp_mod_reloc_at(m, sec->addr + off + 8);
		const struct mod_reloc *abort = dp_mod_reloc_at(m, sec->addr + off + 24);
		u64 lo = start ? start->value : mod_load64(p + 8);
		u64 handler = abort ? abort->value : mod_load64(p + 24);

		dp_code_mark(&m->an, lo);
		dp_code_mark(&m->an, handler);
		v[n++] = (struct dp_span){lo, lo + mod_load64(p + 16)};
		v[n++] = (struct dp_span){handler - 4, handler};
	}
	return n;
}

/* Places where hooks are passed (struct hook_site): an instruction that may become a jump. */
static u32 read_hooks(struct dp_module *m, const struct mod_sec *sec, struct dp_span *v)
{
	u32 n = 0;

	for (u64 off = 0; off + 16 <= sec->size; off += 16) {
		u64 at = sec->addr + off, both = mod_load64(m->file + sec->offset + off);
		u64 code = at + (u64)(s64)(s32)both, armed = at + 4 + (u64)((s64)both >> 32);

		dp_code_mark(&m->an, armed);
		v[n++] = (struct dp_span){code, code + 5};
	}
	return n;
}

static bool read_guards(struct dp_module *m)
{
	const struct mod_sec *rseq = dp_mod_section(m, "__rseq_cs"), *hooks = dp_mod_section(m, "dprobes_hooks");
	u64 most = (rseq ? rseq->size / 16 : 0) + (hooks ? hooks->size / 16 : 0);
	u32 n, first_hook;

	if (!most)
		return true;
	if (!dp_mod_load_relocs(m))
		return false;
	m->guards = dp_alloc(most * sizeof(*m->guards));
	if (!m->guards)
		return false;
	n = first_hook = rseq ? read_rseq(m, rseq, m->guards) : 0;
	n += hooks ? read_hooks(m, hooks, m->guards + n) : 0;
	for (u32 i = 0; i < m->an.ntexts; i++) {
		m->an.texts[i].t.guards = m->guards;
		m->an.texts[i].t.nguards = n;
		m->an.texts[i].t.nhooks = n - first_hook;
	}
	return true;
}

/* The list of functions learns which of them are parts of others. */
static void copy_flags(struct dp_module *m)
{
	for (size_t i = 0; i < m->funcs.n; i++) {
		struct dp_code_text *ct = dp_code_at(&m->an, m->funcs.v[i].lo);
		const struct dp_func *f = ct ? dp_text_func(&ct->t, m->funcs.v[i].lo) : NULL;

		if (f && f->lo == m->funcs.v[i].lo)
			m->funcs.v[i].flags |= f->flags & DP_FUNC_PART;
	}
}

/* Everything that is to be told before code is looked at; the functions are known. */
static bool collect_known(struct dp_module *m)
{
	for (u32 i = 0; i < m->an.ntexts; i++)
		if (!add_functions(m, &m->an.texts[i]))
			return false;
	if (!take_data(m) || !read_guards(m))
		return false;
	mark_places(m);
	return true;
}

/* All that, or what an earlier command has made of it. */
static int collect(struct dp_module *m, struct dp_error *err)
{
	bool good = m->collected || m->an.texts || collect_pieces(m),
	     kept = good && !m->collected && dp_mod_load_kept(m);
	int rc = m->collected || kept || m->funcs_loaded || dp_mod_load_bounds(m) ? 0 : dp_mod_load_funcs(m, err);

	if (rc)
		return rc;
	if (!m->collected) {
		m->collected = true;
		m->an.absolute = !m->dyn;
		m->an.look = look_at_code;
		m->an.look_arg = m;
		if (!good || !(kept ? read_guards(m) : collect_known(m)))
			m->analyse_rc = -ENOMEM;
	}
	return m->analyse_rc ? dp_fail(err, E_FILE_MEMORY, "%s", m->path) : 0;
}

int dp_module_analyse(struct dp_module *m, struct dp_error *err)
{
	int rc = dp_mod_load_funcs(m, err);

	rc = rc ? rc : collect(m, err);
	if (rc || m->analysed)
		return rc;
	m->analysed = true;
	for (u32 i = 0; i < m->an.ntexts && !m->an.complete; i++)
		dp_map_ahead(m->an.texts[i].t.bytes, m->an.texts[i].t.hi - m->an.texts[i].t.lo);
	m->analyse_rc = dp_code_know(&m->an, DP_CODE_ALL);
	dp_code_release(&m->an);
	copy_flags(m);
	return m->analyse_rc ? dp_fail(err, E_FILE_MEMORY, "%s", m->path) : 0;
}

void dp_mod_free_code(struct dp_module *m)
{
	dp_mod_keep_code(m);
	dp_code_release(&m->an);
	for (u32 i = 0; i < m->an.ntexts && !m->kept.head; i++) {
		dp_free(m->an.texts[i].starts);
		dp_free_whole(m->an.texts[i].funcs, m->an.texts[i].room);
	}
	if (!m->kept.head)
		free(m->taken.v);
	dp_mod_forget_kept(m);
	dp_free(m->an.texts);
	dp_free((void *)m->an.data);
	dp_free(m->guards);
}

int dp_module_text(struct dp_module *m, u64 addr, const struct dp_text **text, struct dp_error *err)
{
	struct dp_code_text *ct;
	int rc = collect(m, err);

	if (rc)
		return rc;
	if (dp_code_know(&m->an, addr))
		return dp_fail(err, E_FILE_MEMORY, "%s", m->path);
	ct = dp_code_at(&m->an, addr);
	if (!ct)
		return dp_fail(err, E_SITE_NOTEXT, "0x%llx in %s", (unsigned long long)addr, m->base);
	*text = &ct->t;
	return 0;
}

/* Is there a code address in data that lies inside the function, behind its start? */
static bool middle_is_taken(struct dp_module *m, const struct dp_func *f)
{
	size_t n;

	m->taken_sorted = m->taken_sorted || dp_sort_by(m->taken.v, m->taken.n, sizeof(*m->taken.v), 0);
	if (!m->taken_sorted) /* memory is short */
		return true;
	n = dp_count_up_to(m->taken.v, m->taken.n, sizeof(*m->taken.v), 0, f->lo);
	return n < m->taken.n && m->taken.v[n] < f->hi;
}

/* For the exits: an indirect jump leaves where nothing but calls leads into the function. */
static int leaves(void *arg, const struct dp_func *f)
{
	return middle_is_taken(arg, f) ? -EOPNOTSUPP : 0;
}

static int pointer_at(void *arg, u64 addr, u64 *value)
{
	struct dp_module *m = arg;
	const struct mod_reloc *r = dp_mod_load_relocs(m) ? dp_mod_reloc_at(m, addr) : NULL;
	const u8 *p = m->dyn ? NULL : dp_mod_at(m, addr, 8, NULL);

	if (!m->relocs_loaded)
		return -ENOMEM;
	*value = r ? r->value : p ? mod_load64(p) : 0;
	return r || p;
}

int dp_module_exits(struct dp_module *m, u64 addr, u64 *exits, u64 *to, int max, struct dp_error *err)
{
	struct dp_exit_env env = {leaves, pointer_at, m, to};
	int rc = collect(m, err);

	return rc ? rc : dp_code_exits(&m->an, addr, &env, exits, max, err);
}

bool dp_module_has_return(const struct dp_module *m, const struct dp_symbol *func)
{
	u64 avail = 0;
	const u8 *p = dp_mod_at(m, func->addr, 1, &avail);
	u64 end = p ? DP_MIN(func->size, avail) : 0;
	struct dp_insn in;

	for (u64 off = 0; off < end && dp_insn_decode(&in, p + off, end - off) > 0; off += in.len)
		if (in.cls == DP_INSN_RET)
			return true;
	return false;
}

int dp_exits_returns(u64 *exits, const u64 *to, int n)
{
	int left = 0;

	for (int i = 0; i < n; i++)
		if (!to[i])
			exits[left++] = exits[i];
	return left;
}
