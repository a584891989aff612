/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where the code of a module calls the system. */
#include <string.h>

#include "symbols/module-priv.h"

static bool jump_fits(struct dp_module *m, u64 addr, bool *is_code)
{
	const struct dp_text *text;
	struct dp_error err = {0};
	struct dp_site site = {.outcome = DP_OUTCOME_REFUSED};
	int r = dp_module_text(m, addr, &text, &err);

	if (!r)
		r = dp_site_judge(text, addr, &site, &err);
	*is_code = err.code != E_SITE_MIDINSN && err.code != E_SITE_NOTEXT && err.code != E_SITE_NOFUNC;
	return !r && site.outcome == DP_OUTCOME_JUMP;
}

static bool scan(struct dp_module *m, u64 lo, u64 size, dp_each_call *each, void *arg)
{
	const u8 *p = dp_mod_at(m, lo, size, NULL);

	for (u64 i = 0; p && i + DP_SYSCALL_LEN <= size; i++) {
		bool is_code, fits;

		if (!dp_code_is_syscall(p + i) || dp_code_is_sigreturn(p, i))
			continue;
		fits = jump_fits(m, lo + i, &is_code);
		if (is_code && each(arg, lo + i, fits && jump_fits(m, lo + i + DP_SYSCALL_LEN, &is_code)))
			return true;
	}
	return false;
}

void dp_module_each_syscall(struct dp_module *m, dp_each_call *each, void *arg)
{
	bool ends = false;

	for (size_t i = 0; m->nshdrs && i < m->nsecs && !ends; i++)
		if (m->secs[i].x)
			ends = scan(m, m->secs[i].addr, m->secs[i].size, each, arg);
	for (size_t i = 0; !m->nshdrs && i < m->nsegs && !ends; i++)
		if (m->segs[i].x)
			ends = scan(m, m->segs[i].addr, m->segs[i].filesz, each, arg);
}
