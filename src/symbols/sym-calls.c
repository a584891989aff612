/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where the code of a module calls the system. */
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

static enum dp_code judge(struct dp_module *m, u64 addr, struct dp_site *site)
{
	const struct dp_text *text;
	struct dp_error err = {0};

	*site = (struct dp_site){.outcome = DP_OUTCOME_REFUSED};
	if (!dp_module_text(m, addr, &text, &err))
		dp_site_judge(text, addr, site, &err);
	return err.code;
}

/* Whether an instruction of a function begins there. */
static bool is_instruction(enum dp_code judged)
{
	return judged != E_SITE_MIDINSN && judged != E_SITE_NOTEXT && judged != E_SITE_NOFUNC;
}

static bool jump_fits(struct dp_module *m, u64 addr, bool *is_code)
{
	struct dp_site site;

	*is_code = is_instruction(judge(m, addr, &site));
	return site.outcome == DP_OUTCOME_JUMP;
}

struct calls {
	struct dp_call_site *v;
	u32 n;
	bool is_full;
};

static void add(struct calls *calls, struct dp_call_site call)
{
	struct dp_call_site *v = calls->n % 64 ? calls->v : realloc(calls->v, (calls->n + 64) * sizeof(*v));

	calls->is_full |= !v;
	if (!v)
		return;
	calls->v = v;
	v[calls->n++] = call;
}

static void add_if_code(struct dp_module *m, struct dp_call_site call, struct calls *calls)
{
	bool is_code, is_code_behind;

	call.fits &= jump_fits(m, call.addr, &is_code) && jump_fits(m, call.addr + call.len, &is_code_behind);
	if (is_code)
		add(calls, call);
}

/* Calls of a function of these bytes that begins at `begin`. */
static void scan_callers(struct dp_module *m, u64 lo, const u8 *p, u64 size, u64 begin, struct calls *calls)
{
	for (u64 i = 0; i + DP_JUMP_LEN <= size && !calls->is_full; i++)
		if (p[i] == DP_CALL_BYTE && dp_jump_target(p + i, lo + i) == lo + begin)
			add_if_code(m,
				    (struct dp_call_site){.addr = lo + i,
							  .len = DP_JUMP_LEN,
							  .makes = -1,
							  .number = -1,
							  .fits = true,
							  .is_function_call = true},
				    calls);
}

static void scan(struct dp_module *m, u64 lo, u64 size, struct calls *calls)
{
	const u8 *p = dp_mod_at(m, lo, size, NULL);

	for (u64 i = 0; p && i + DP_SYSCALL_LEN <= size && !calls->is_full; i++) {
		struct dp_call_site call = {
		    .addr = lo + i, .len = DP_SYSCALL_LEN, .makes = -1, .number = -1, .fits = true};
		u64 begin;

		if (!dp_code_is_syscall(p + i) || dp_code_is_sigreturn(p, i))
			continue;
		call.fits = !dp_code_is_cancel_point(p, i);
		if (!call.fits && dp_code_cancel_begin(p, i, &begin))
			scan_callers(m, lo, p, size, begin, calls);
		else
			add_if_code(m, call, calls);
	}
}

/* Whether an instruction that ends with the two bytes at `at`, and does what they do, begins k bytes before them. */
static bool is_whole(const u8 *p, u64 at, u64 k)
{
	struct dp_insn in;

	return dp_insn_decode(&in, p + at - k, k + DP_SYSCALL_LEN) == (int)k + DP_SYSCALL_LEN &&
	       (in.cls == DP_INSN_SYSCALL || in.cls == DP_INSN_INT);
}

/* Whether control may come to an instruction there. */
static bool may_begin(struct dp_module *m, u64 addr)
{
	struct dp_site site;
	enum dp_code code = judge(m, addr, &site);

	if (code == E_SITE_NOFUNC)
		return dp_code_know(&m->an, DP_CODE_GAPS) || dp_code_may_run(&m->an, addr);
	return is_instruction(code);
}

/* Functions that make threads may not be known as functions: there are no rules by which to unwind them. */
static bool is_explained(struct dp_module *m, const u8 *p, u64 at, u64 addr)
{
	bool is_call = dp_code_is_syscall(p + at);
	struct dp_site site;
	enum dp_code code;

	if ((!is_call && !dp_code_is_old_syscall(p + at)) ||
	    (is_call && (dp_code_is_sigreturn(p, at) || dp_code_is_clone(p, at))))
		return true;
	code = judge(m, addr, &site);
	if (code == E_SITE_NOTEXT || (code == E_SITE_NOFUNC && dp_code_loads_number(p, at)))
		return false;
	for (u64 k = 0; k <= at && k + DP_SYSCALL_LEN <= DP_INSN_MAX; k++)
		if (is_whole(p, at, k) && may_begin(m, addr - k))
			return !k && is_call && code != E_SITE_NOFUNC; /* it gets a guard */
	return true;
}

bool dp_module_is_cancel_point(struct dp_module *m, u64 addr)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		u64 lo = m->segs[i].addr;
		const u8 *p = m->segs[i].x && addr - lo < m->segs[i].filesz ? dp_mod_at(m, lo, m->segs[i].filesz, NULL)
									    : NULL;

		if (p)
			return dp_code_is_cancel_point(p, addr - lo);
	}
	return false;
}

bool dp_module_syscalls_known(struct dp_module *m, u64 *where)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		u64 lo = m->segs[i].addr, size = m->segs[i].filesz;
		const u8 *p = m->segs[i].x ? dp_mod_at(m, lo, size, NULL) : NULL;

		*where = lo;
		if (m->segs[i].x && !p)
			return false;
		for (u64 at = 0; p && at + DP_SYSCALL_LEN <= size; at++) {
			*where = lo + at;
			if (!is_explained(m, p, at, lo + at))
				return false;
		}
	}
	return true;
}

static int by_addr(const void *a, const void *b)
{
	const struct dp_call_site *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/*
 * Where control arrives behind a call from elsewhere, nothing tells there which call it was, or whether there was one:
 * its entry does.
 */
static void note_number(const struct dp_text_call *found, void *arg)
{
	const struct calls *calls = arg;
	struct dp_call_site key = {.addr = found->addr};
	struct dp_call_site *call = bsearch(&key, calls->v, calls->n, sizeof(key), by_addr);

	if (!call || found->number < 0 || found->number > INT32_MAX)
		return;
	call->makes = (s32)found->number;
	call->number = found->joined ? -1 : call->makes;
}

void dp_module_each_syscall(struct dp_module *m, dp_each_call *each, void *arg)
{
	struct calls calls = {NULL, 0, false};
	const struct dp_text *text, *last = NULL;
	struct dp_error err;

	for (size_t i = 0; m->nshdrs && i < m->nsecs; i++)
		if (m->secs[i].x)
			scan(m, m->secs[i].addr, m->secs[i].size, &calls);
	for (size_t i = 0; !m->nshdrs && i < m->nsegs; i++)
		if (m->segs[i].x)
			scan(m, m->segs[i].addr, m->segs[i].filesz, &calls);
	if (calls.n)
		qsort(calls.v, calls.n, sizeof(*calls.v), by_addr);
	/* All functions that have some have been asked for by now. */
	for (u32 i = 0; i < calls.n; i++)
		if (!dp_module_text(m, calls.v[i].addr, &text, &err) && text != last) {
			dp_text_find_calls(text, note_number, &calls);
			last = text;
		}
	for (u32 i = 0; i < calls.n; i++)
		if (each(arg, &calls.v[i]))
			break;
	free(calls.v);
}
