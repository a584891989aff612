/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where the code of a module calls the system. */
#include <string.h>

#include "symbols/module-priv.h"

static bool jump_fits(struct dp_module *m, u64 addr, bool *is_code)
{
	const struct dp_text *text;
	struct dp_error err = {0};
	struct dp_site site;
	int r = dp_module_text(m, addr, &text, &err);

	if (!r)
		r = dp_site_judge(text, addr, &site, &err);
	*is_code = err.code != E_SITE_MIDINSN && err.code != E_SITE_NOTEXT && err.code != E_SITE_NOFUNC;
	return !r && site.outcome == DP_OUTCOME_JUMP;
}

struct calls {
	u64 *v;
	u32 n, max, left_out;
};

static void scan(struct dp_module *m, u64 lo, u64 size, struct calls *c)
{
	const u8 *p = dp_mod_at(m, lo, size, NULL);

	for (u64 i = 0; p && i + DP_SYSCALL_LEN <= size; i++) {
		bool is_code, fits;

		if (!dp_code_is_syscall(p + i) || dp_code_is_sigreturn(p, i))
			continue;
		fits = jump_fits(m, lo + i, &is_code);
		if (!is_code)
			continue;
		if (fits && c->n < c->max && jump_fits(m, lo + i + DP_SYSCALL_LEN, &is_code))
			c->v[c->n++] = lo + i;
		else
			c->left_out++;
		if (c->max == 1 && c->n) /* whether there is one */
			return;
	}
}

u32 dp_module_syscalls(struct dp_module *m, u64 *addrs, u32 max, u32 *left_out)
{
	struct calls c = {.v = addrs, .max = max};

	for (size_t i = 0; m->nshdrs && i < m->nsecs; i++)
		if (m->secs[i].x)
			scan(m, m->secs[i].addr, m->secs[i].size, &c);
	for (size_t i = 0; !m->nshdrs && i < m->nsegs; i++)
		if (m->segs[i].x)
			scan(m, m->segs[i].addr, m->segs[i].filesz, &c);
	*left_out = c.left_out;
	return c.n;
}
