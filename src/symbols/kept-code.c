/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the analysis has found out about a module's code is kept in a file between commands (dp_module_keep_in): where
 * control may arrive, and the functions, as analysis.h has them. The next command maps that file, of which one function
 * needs a few pages, instead of looking through the module.
 *
 * A wrong answer can kill a process. See kept.h; and where the pieces of the file lie is not read but computed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/kept.h"

#define PAGE 4096u

struct kept_text {
	u64 lo, hi, nfuncs, gap;
};

struct kept_head {
	struct kept_of of; /* the debug file with its symbols */
	u64 rewound, ntaken;
	u32 complete, ntexts;
	struct kept_text texts[]; /* behind them functions, the four bitmaps of each, and what data points to */
};

/* ---- where the pieces lie ---- */

struct piece {
	u64 off, size;
	void *p; /* of the module */
};

#define PIECES 5 /* of a text */

static u64 place(struct piece *v, u64 off, u64 size, void *p)
{
	*v = (struct piece){DP_ALIGN_UP(off, (u64)PAGE), size, p};
	return v->off + size;
}

/* Of text i, which begins behind `off` bytes; returns the end. */
static u64 place_text(const struct kept_head *h, u32 i, const struct dp_code_text *ct, u64 off, struct piece v[PIECES])
{
	u64 map = (h->texts[i].hi - h->texts[i].lo) / 8 + 1;

	off = place(&v[0], off, h->texts[i].nfuncs * sizeof(*ct->funcs), ct->funcs);
	off = place(&v[1], off, map, ct->targets);
	off = place(&v[2], off, map, ct->pointed);
	off = place(&v[3], off, map, ct->led);
	return place(&v[4], off, map, ct->starts);
}

static u64 head_size(u32 ntexts)
{
	return sizeof(struct kept_head) + ntexts * sizeof(struct kept_text);
}

/* ---- read ---- */

static bool are_functions(const struct dp_func *f, u64 n, const struct kept_text *t)
{
	u64 at = t->lo;

	for (u64 i = 0; i < n; at = f[i++].hi)
		if (f[i].lo < at || f[i].hi <= f[i].lo || f[i].hi > t->hi)
			return false;
	return true;
}

/* The module's texts lie where they are said to lie, and all pieces in the file. */
static bool agrees(const struct dp_module *m, const struct kept_head *h, u64 size)
{
	u64 end = head_size(m->an.ntexts);
	struct piece v[PIECES];

	if (h->ntexts != m->an.ntexts || end > size)
		return false;
	for (u32 i = 0; i < h->ntexts; i++) {
		const struct dp_code_text *ct = &m->an.texts[i];
		const struct kept_text *t = &h->texts[i];

		if (t->lo != ct->t.lo || t->hi != ct->t.hi || t->nfuncs > t->hi - t->lo)
			return false;
		end = place_text(h, i, ct, end, v);
		if (end > size || !are_functions((const void *)((const u8 *)h + v[0].off), t->nfuncs, t))
			return false;
	}
	end = DP_ALIGN_UP(end, (u64)PAGE);
	return end <= size && h->ntaken == (size - end) / sizeof(u64) && size == end + h->ntaken * sizeof(u64);
}

static void take_text(struct dp_code_text *ct, const struct kept_head *h, u32 i, const struct piece v[PIECES])
{
	u8 *base = (u8 *)h;

	ct->funcs = (struct dp_func *)(base + v[0].off);
	ct->targets = base + v[1].off;
	ct->pointed = base + v[2].off;
	ct->led = base + v[3].off;
	ct->starts = base + v[4].off;
	ct->gap = h->texts[i].gap;
	ct->t.nfuncs = (u32)h->texts[i].nfuncs;
	dp_mod_point_text(ct);
}

static bool identify(struct dp_module *m, struct kept_of *of)
{
	return dp_mod_code_bytes(m) >= MOD_KEEP_FROM && dp_kept_identify(m, "dpcode1", dp_mod_own_symtab(m), of);
}

bool dp_mod_load_kept(struct dp_module *m)
{
	u64 size = 0, end = head_size(m->an.ntexts);
	struct piece v[PIECES];
	struct kept_of want;
	struct kept_head *h;

	h = identify(m, &want) ? dp_kept_map(&want, KEPT_CODE, &size) : NULL;
	if (h && (size < head_size(0) || !agrees(m, h, size))) {
		munmap(h, size);
		h = NULL;
	}
	if (!h)
		return false;
	for (u32 i = 0; i < h->ntexts; i++) {
		end = place_text(h, i, &m->an.texts[i], end, v);
		take_text(&m->an.texts[i], h, i, v);
	}
	m->taken = (struct mod_addrs){(u64 *)((u8 *)h + DP_ALIGN_UP(end, (u64)PAGE)), h->ntaken, h->ntaken};
	m->taken_sorted = true;
	m->an.rewound = h->rewound;
	m->an.prepared = true;
	m->an.complete = h->complete;
	m->kept = (struct mod_kept){h, size, h->complete};
	return true;
}

/* ---- write ---- */

static bool is_zero(const u8 *p, u64 n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

/* What is zero is a hole. */
static bool put(int fd, const struct piece *v)
{
	const u8 *p = v->p;

	for (u64 at = 0, end; at < v->size; at = end) {
		end = DP_MIN(v->size, at + PAGE);
		if (is_zero(p + at, end - at))
			continue;
		while (end < v->size && !is_zero(p + end, DP_MIN(v->size - end, (u64)PAGE)))
			end = DP_MIN(v->size, end + PAGE);
		for (u64 i = at; i < end;) {
			ssize_t n = pwrite(fd, p + i, end - i, (off_t)(v->off + i));

			if (n <= 0)
				return false;
			i += (u64)n;
		}
	}
	return true;
}

static bool write_all(const struct dp_module *m, const struct kept_head *h, int fd)
{
	u64 end = head_size(h->ntexts);
	struct piece head = {0, end, (void *)h}, v[PIECES], taken;
	bool good = true;

	for (u32 i = 0; i < h->ntexts && good; i++) {
		end = place_text(h, i, &m->an.texts[i], end, v);
		for (u32 k = 0; k < PIECES && good; k++)
			good = put(fd, &v[k]);
	}
	end = place(&taken, end, m->taken.n * sizeof(u64), m->taken.v);
	return good && put(fd, &taken) && put(fd, &head) && !ftruncate(fd, (off_t)end);
}

/* That much was not known before. */
static bool is_worth_keeping(const struct dp_module *m)
{
	return m->collected && !m->analyse_rc && m->an.prepared && !m->an.short_of_memory &&
	       (!m->kept.head || m->an.complete > m->kept.complete);
}

static void write_file(const struct dp_module *m, const struct kept_head *h)
{
	struct kept_file file;

	if (dp_kept_begin(&h->of, KEPT_CODE, &file))
		dp_kept_end(&file, write_all(m, h, file.fd));
}

void dp_mod_keep_code(struct dp_module *m)
{
	struct kept_of now;
	struct kept_head *h;

	if (!is_worth_keeping(m) || !identify(m, &now) || !dp_kept_is_at_rest(m, &now))
		return;
	h = calloc(1, head_size(m->an.ntexts));
	if (!m->taken_sorted)
		m->taken_sorted = dp_sort_by(m->taken.v, m->taken.n, sizeof(*m->taken.v), 0);
	if (h && m->taken_sorted) {
		h->of = now;
		h->rewound = m->an.rewound;
		h->ntaken = m->taken.n;
		h->complete = m->an.complete;
		h->ntexts = m->an.ntexts;
		for (u32 i = 0; i < h->ntexts; i++) {
			const struct dp_code_text *ct = &m->an.texts[i];

			h->texts[i] = (struct kept_text){ct->t.lo, ct->t.hi, ct->t.nfuncs, ct->gap};
		}
		write_file(m, h);
	}
	free(h);
}

void dp_mod_forget_kept(struct dp_module *m)
{
	if (m->kept.head)
		munmap(m->kept.head, m->kept.size);
	m->kept = (struct mod_kept){NULL};
}
