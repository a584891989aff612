/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* System calls as places: the instructions of a module that make them, or the kernel, which tells them by number. */
#include <string.h>

#include "lang/dpcc/dpcc-unit.h"
#include "lang/dpcc/syscalls.h"

#define CALLS_MAX 1500 /* of the system, in a module; each is two probes */

bool dp_cc_unit_is_call(const struct place_def *d)
{
	const char *p = d->location;

	return *p == 's' && (!p[1] || strchr(" =?%", p[1])) && (p[1] != '%' || !strcmp(p, "s%return"));
}

struct calls {
	const char *pattern;
	char which; /* '=', '?' or 0 */
	struct dp_call_site v[CALLS_MAX];
	u32 n, left_out;
};

static bool note_call(void *arg, const struct dp_call_site *site)
{
	struct calls *calls = arg;

	if (!dp_syscall_may_be(site->makes, calls->pattern))
		return false;
	if (!site->fits || calls->n == CALLS_MAX) {
		calls->left_out++;
		return false;
	}
	if (calls->which && (calls->which == '=') != (site->number >= 0))
		return false;
	calls->v[calls->n] = *site;
	if (calls->which != '=')
		calls->v[calls->n].number = -1;
	calls->n++;
	return false;
}

static bool is_same_call(const struct dp_call_site *a, const struct dp_call_site *b)
{
	return a->number == b->number && a->is_function_call == b->is_function_call;
}

/* One program for all places that are like this one. Behind a call that does not return may be another function. */
static void same_calls(struct unit *u, const struct place_def *d, const struct calls *calls,
		       const struct dp_call_site *like, bool is_return)
{
	struct dpcc *c = &u->c;
	struct made made = {.program = NULL};
	u64 offset;

	if (is_return && like->number >= 0 && !dp_syscall_returns((u32)like->number))
		return;
	for (u32 i = 0; i < calls->n; i++) {
		u64 pc = calls->v[i].addr + (is_return ? calls->v[i].len : 0);
		struct target target = {.pc = pc,
					.is_call = true,
					.is_return = is_return,
					.is_one_call = like->number >= 0,
					.is_function_call = like->is_function_call,
					.call = (u32)like->number};

		if (!is_same_call(&calls->v[i], like) || !dp_module_addr_to_offset(c->mod, pc, &offset))
			continue;
		if (made.program) {
			dp_cc_unit_repeat(u, d, target, offset, &made);
			continue;
		}
		dp_cc_unit_probe(u, d, target, "", dp_cc_format(c, "0x%llx", (unsigned long long)offset));
		dp_cc_unit_made(u, &made);
	}
}

static bool is_first(const struct calls *calls, u32 at)
{
	for (u32 i = 0; i < at; i++)
		if (is_same_call(&calls->v[i], &calls->v[at]))
			return false;
	return true;
}

static void kernel_call(struct unit *u, const struct place_def *d, struct target target, const char *name, s32 number)
{
	target.is_call = true;
	dp_cc_unit_probe(u, d, target, "", dp_cc_format(&u->c, "\"%s\" %d", name, number));
}

/* In the kernel, which tells each call by its number. */
static void kernel_calls_place(struct unit *u, const struct place_def *d, const struct calls *calls, bool is_return)
{
	u32 numbers[DP_SYSCALLS_MAX], n = dp_syscalls_matching(calls->pattern, numbers, DP_SYSCALLS_MAX);
	bool is_one = calls->which == '=';

	if (calls->which == '?')
		return;
	if (!is_one && !strcmp(calls->pattern, "*")) {
		kernel_call(u, d, (struct target){.is_return = is_return}, "*", -1);
		return;
	}
	for (u32 i = 0; i < n; i++)
		kernel_call(u, d, (struct target){.is_return = is_return, .is_one_call = is_one, .call = numbers[i]},
			    dp_syscall_name_of(numbers[i]), (s32)numbers[i]);
}

void dp_cc_unit_calls(struct unit *u, const struct place_def *d, const struct tok *where)
{
	struct dpcc *c = &u->c;
	struct calls *calls = dp_cc_alloc(c, sizeof(*calls));
	const char *p = d->location + 1;
	u32 len;
	bool is_return;

	calls->which = *p == '=' || *p == '?' ? *p++ : 0;
	p += *p == ' ';
	len = (u32)strcspn(p, "%");
	is_return = p[len];
	calls->pattern = len ? dp_cc_text(c, p, len) : "*";
	if (c->by_name) {
		kernel_calls_place(u, d, calls, is_return);
		return;
	}
	if (c->mod)
		dp_module_each_syscall(c->mod, note_call, calls);
	if (!calls->n && !calls->which)
		dp_cc_fail(c, where, E_CALLS_NONE, "%.80s", c->mod ? dp_module_base(c->mod) : "the kernel");
	if (calls->left_out && is_return && calls->which != '=')
		dp_cc_unit_note(u, "%s: %u instruction%s that call%s the system cannot be probed",
				dp_module_base(c->mod), calls->left_out, calls->left_out == 1 ? "" : "s",
				calls->left_out == 1 ? "s" : "");
	for (u32 i = 0; i < calls->n; i++)
		if (is_first(calls, i))
			same_calls(u, d, calls, &calls->v[i], is_return);
}
