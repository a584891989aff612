/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where functions begin and end: symbols, unwind tables and Go's table united into ranges that are
 * sorted and do not overlap. A start is believed from any source; the end is the farthest that any
 * source gives, but never beyond the next start.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

static u64 code_end(const struct dp_module *m, u64 addr)
{
	const struct dp_range *code = dp_mod_code_at(m, addr);

	return code ? code->hi : addr;
}

static bool collect(struct dp_module *m)
{
	for (size_t i = 0; i < m->syms.n; i++) {
		const struct mod_sym *s = &m->syms.v[i];
		u32 flags = s->flags & SYM_SPLIT ? DP_FUNC_PART : 0;

		if (!(s->flags & (SYM_FUNC | SYM_IFUNC)))
			continue;
		if (!MOD_PUSH(&m->funcs, {s->addr, s->size ? s->addr + s->size : 0, flags, (u32)i}))
			return false;
	}
	return true;
}

/* One entry per start; the first one of a start carries the best symbol: symbols come in their order, then the rest. */
static void unite(struct mod_ranges *f)
{
	size_t out = 0;

	for (size_t i = 0; i < f->n; i++) {
		struct mod_range *last = out ? &f->v[out - 1] : NULL;
		u32 part;

		if (!last || last->lo != f->v[i].lo) {
			f->v[out++] = f->v[i];
			continue;
		}
		/* A name without ".cold" outweighs what the unwind table seems to say. */
		part = last->sym != NO_SYM ? last->flags & DP_FUNC_PART : f->v[i].flags & DP_FUNC_PART;
		if (last->hi && !(last->flags & DP_FUNC_OPEN) && f->v[i].flags & DP_FUNC_OPEN) {
			last->flags |= f->v[i].flags & DP_FUNC_GO; /* an exact end is better */
		} else {
			last->hi = DP_MAX(last->hi, f->v[i].hi);
			last->flags = (last->flags | f->v[i].flags) & ~(u32)DP_FUNC_PART;
			last->flags |= part;
		}
	}
	f->n = out;
}

static void bound(const struct dp_module *m, struct mod_ranges *f)
{
	for (size_t i = 0; i < f->n; i++) {
		struct mod_range *r = &f->v[i];
		u64 limit = code_end(m, r->lo);

		if (i + 1 < f->n)
			limit = DP_MIN(limit, f->v[i + 1].lo);
		if (!r->hi) {
			r->hi = limit;
			r->flags |= DP_FUNC_OPEN;
		}
		r->hi = DP_MIN(r->hi, limit);
	}
}

/*
 * In functions that make threads the rules by which to unwind end in front of the system call (clone3 in glibc), since
 * the child comes out of it without a caller. Where such a function has no name either, it goes on to the next start.
 */
static void extend_clones(const struct dp_module *m, struct mod_ranges *f)
{
	for (size_t i = 0; i < f->n; i++) {
		struct mod_range *r = &f->v[i];
		u64 limit = i + 1 < f->n ? f->v[i + 1].lo : code_end(m, r->lo), avail = 0;
		const u8 *p = r->sym == NO_SYM ? dp_mod_at(m, r->lo, r->hi - r->lo, &avail) : NULL;

		if (p && avail >= limit - r->lo && limit - r->hi >= DP_SYSCALL_LEN &&
		    dp_code_is_syscall(p + (r->hi - r->lo)) && dp_code_is_clone(p, r->hi - r->lo)) {
			r->hi = limit;
			r->flags |= DP_FUNC_OPEN;
		}
	}
}

bool dp_mod_unite_funcs(struct dp_module *m, struct mod_ranges *f)
{
	if (!m->frames_read && !dp_mod_read_eh_frame(m))
		return false;
	m->frames_read = true;
	for (size_t i = 0; i < m->ranges.n; i++)
		if (!MOD_PUSH(f, m->ranges.v[i]))
			return false;
	if (!DP_SORT_BY(f->v, f->n, lo))
		return false;
	unite(f);
	bound(m, f);
	extend_clones(m, f);
	return true;
}

int dp_mod_load_funcs(struct dp_module *m, struct dp_error *err)
{
	int rc;

	if (m->funcs_loaded)
		return 0;
	rc = dp_mod_load_syms(m, err);
	if (rc)
		return rc;
	if (!collect(m) || !dp_mod_unite_funcs(m, &m->funcs))
		return dp_fail(err, E_FILE_MEMORY, "%s", m->path);
	m->funcs_loaded = true;
	return 0;
}

const struct mod_range *dp_mod_func_at(const struct dp_module *m, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(m->funcs.v, m->funcs.n, lo, addr);

	return n && addr < m->funcs.v[n - 1].hi ? &m->funcs.v[n - 1] : NULL;
}
