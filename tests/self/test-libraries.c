/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Every instruction of three libraries is probed, one batch after the other, while work runs
 * through them: the results must be those of before. First as many as possible as jumps, then all
 * as breakpoints with post handlers here and there.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "dprobes/kprobes.h"
#include "symbols/symbols.h"
#include "tap.h"

#define BATCH 3000

static unsigned long hits;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	hits++;
}

/* ---- the work: each returns a checksum ---- */

static unsigned long sum(const void *p, size_t n)
{
	unsigned long s = 14695981039346656037ul;

	for (size_t i = 0; i < n; i++)
		s = (s ^ ((const unsigned char *)p)[i]) * 1099511628211ul;
	return s;
}

static unsigned char text[6000];

static void make_text(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)("probes in place "[i % 16] + (i * i / 7 % 5 == 0));
}

static unsigned long work_zlib(void *h)
{
	int (*compress2)(unsigned char *, unsigned long *, const unsigned char *, unsigned long,
			 int) = dlsym(h, "compress2");
	int (*uncompress)(unsigned char *, unsigned long *, const unsigned char *, unsigned long) = dlsym(h,
													  "uncompress");
	unsigned long (*adler)(unsigned long, const unsigned char *, unsigned) = dlsym(h, "adler32");
	unsigned char packed[8192], back[sizeof(text)];
	unsigned long n, m, s = 0;

	for (int level = 1; level <= 9; level += 4) {
		n = sizeof(packed);
		m = sizeof(back);
		if (compress2(packed, &n, text, sizeof(text), level) || uncompress(back, &m, packed, n) ||
		    memcmp(back, text, sizeof(text)))
			return 0;
		s = s * 31 + sum(packed, n);
	}
	return s + adler(1, text, sizeof(text));
}

static unsigned long work_lzma(void *h)
{
	int (*encode)(unsigned, int, const void *, const unsigned char *, size_t, unsigned char *, size_t *,
		      size_t) = dlsym(h, "lzma_easy_buffer_encode");
	int (*decode)(unsigned long *, unsigned, const void *, const unsigned char *, size_t *, size_t, unsigned char *,
		      size_t *, size_t) = dlsym(h, "lzma_stream_buffer_decode");
	unsigned char packed[8192], back[sizeof(text)];
	unsigned long limit = ~0ul;
	size_t n = 0, in = 0, m = 0;

	if (encode(0, 4, NULL, text, sizeof(text), packed, &n, sizeof(packed)) ||
	    decode(&limit, 0, NULL, packed, &in, n, back, &m, sizeof(back)) || memcmp(back, text, sizeof(text)))
		return 0;
	return sum(packed, n);
}

static unsigned long work_libm(void *h)
{
	static const char *const names[] = {"sin",    "cos",    "tan", "exp",   "log",   "atan",  "sinh", "cbrt",
					    "lgamma", "tgamma", "erf", "expm1", "log1p", "asinh", "j0",   "exp2"};
	double v[16 * 20];
	int n = 0;

	for (int i = 0; i < 16; i++) {
		double (*f)(double) = dlsym(h, names[i]);

		for (int k = 1; k <= 20; k++)
			v[n++] = f ? f(k * 0.37) : 0;
	}
	return sum(v, sizeof(v));
}

/* ---- the probes ---- */

static struct kprobe kps[BATCH], *all[BATCH];

struct tally {
	unsigned long sites, jumps, refused, wrong, failed, batches;
};

static void run_batch(int n, unsigned long (*work)(void *), void *h, unsigned long want, struct tally *t)
{
	if (!n)
		return;
	t->batches++;
	if (register_kprobes(all, n)) {
		t->failed++;
		printf("# %s\n", dp_kprobe_error());
		return;
	}
	for (int i = 0; i < n; i++)
		t->jumps += !!(kps[i].flags & KPROBE_FLAG_OPTIMIZED);
	t->sites += (unsigned long)n;
	t->wrong += work(h) != want;
	unregister_kprobes(all, n);
}

static void probe_text(const struct dp_text *tx, unsigned long bias, bool spread, unsigned long (*work)(void *),
		       void *h, unsigned long want, struct tally *t)
{
	unsigned long free_from = 0;
	struct dp_site site;
	int n = 0, len;
	struct dp_insn in;

	for (unsigned f = 0; f < tx->nfuncs; f++)
		for (u64 a = tx->funcs[f].lo; a < tx->funcs[f].hi; a += (u64)len) {
			len = dp_insn_decode(&in, tx->bytes + (a - tx->lo), tx->funcs[f].hi - a);
			if (len < 0)
				break;
			if (spread && a < free_from)
				continue;
			if (dp_site_judge(tx, a, &site, NULL)) {
				t->refused++;
				continue;
			}
			free_from = a + (site.outcome == DP_OUTCOME_JUMP ? DP_MAX(site.win.len, 5) : len);
			kps[n] = (struct kprobe){.addr = (kprobe_opcode_t *)(a + bias), .pre_handler = pre};
			if (!spread && in.cls != DP_INSN_XBEGIN && (a / 4) % 3 == 0)
				kps[n].post_handler = post;
			all[n] = &kps[n];
			if (++n == BATCH) {
				run_batch(n, work, h, want, t);
				n = 0;
			}
		}
	run_batch(n, work, h, want, t);
}

static void test_library(const char *name, unsigned long (*work)(void *))
{
	void *h = dlopen(name, RTLD_NOW);
	struct link_map *lm = NULL;
	struct dp_module *m = NULL;
	const struct dp_text *tx;
	struct dp_symbol s;
	unsigned long want;

	if (!h || dlinfo(h, RTLD_DI_LINKMAP, &lm) || dp_module_open(&m, lm->l_name, NULL)) {
		ok(1, "%s is not here # SKIP", name);
		return;
	}
	want = work(h);
	/* Any function: the code that matters is all in one range. */
	if (!want ||
	    dp_module_symbol(m,
			     work == work_libm   ? "cbrt"
			     : work == work_zlib ? "compress2"
						 : "lzma_crc64",
			     &s, NULL) ||
	    dp_module_text(m, s.addr, &tx, NULL)) {
		ok(0, "%s: the work itself", name);
		return;
	}
	for (int spread = 1; spread >= 0; spread--) {
		struct tally t = {0};

		hits = 0;
		probe_text(tx, lm->l_addr, spread, work, h, want, &t);
		ok(!t.wrong && !t.failed && t.sites > 1000 && hits,
		   "%s, %s: %lu sites in %lu batches, %lu as jumps, %lu refused, %lu hits, %lu "
		   "wrong, %lu failed",
		   name, spread ? "spread" : "every instruction", t.sites, t.batches, t.jumps, t.refused, hits, t.wrong,
		   t.failed);
		ok(work(h) == want, "and afterwards");
	}
	dp_module_close(m);
}

int main(void)
{
	make_text();
	test_library("libz.so.1", work_zlib);
	test_library("liblzma.so.5", work_lzma);
	test_library("libm.so.6", work_libm);
	return tap_done();
}
