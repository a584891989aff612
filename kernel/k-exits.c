// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Exit facilities: functions of modules that programs call by name. A hit looks the name up; what has gone is not
 * found.
 */
#include <linux/mutex.h>
#include <linux/string.h>

#include "dprobes/exits.h"
#include "k-exits.h"
#include "program/code.h"
#include "run.h"

#define MOST 32

static_assert(DP_EXIT_WORDS == DP_EXIT_WORDS_MAX && DP_EXIT_NAME == DP_EXIT_NAME_MAX);
static_assert(sizeof(dp_exit_word) == sizeof(u64));

static DEFINE_MUTEX(lock);          /* protects changes of exits */
static struct dp_exit *exits[MOST]; /* hits read it with preemption off; dp_k_grace() waits for them */

/* With the lock, or preemption off. */
static __always_inline struct dp_exit *find(const u8 *name, u32 len)
{
	for (u32 i = 0; i < MOST; i++) {
		/* Pairs with the release in dp_register_exit(). */
		struct dp_exit *e = __atomic_load_n(&exits[i], __ATOMIC_ACQUIRE);

		if (e && dp_vm_same((const u8 *)e->name, name, len))
			return e;
	}
	return NULL;
}

HIT u32 dp_hit_call_exit(struct dp_hit *h, const u8 *name, u32 len, u32 nargs, u32 nresults, const u64 *args,
			 u64 *results)
{
	struct dp_exit *e = find(name, len);
	int r;

	if (!e)
		return ENOENT;
	if (e->nargs != nargs || e->nresults != nresults)
		return EPROTO;
	r = e->handler(e, (struct pt_regs *)h->regs, (const dp_exit_word *)args, (dp_exit_word *)results);
	return r < 0 ? -(u32)r : r;
}

/* ---- control side ---- */

int dp_k_exits_check(const struct dp_program *prog, struct dp_error *err)
{
	struct dp_op_view op;
	u32 nargs, nresults;
	int r = 0;

	mutex_lock(&lock);
	for (u32 at = 0; at < prog->len && !r && !dp_op_decode(prog->code, prog->len, at, &op); at += op.len) {
		const struct dp_exit *e;
		int len;

		if (op.info->rule != DP_RULE_EXIT)
			continue;
		len = (int)dp_op_operand(&op, DP_KIND_TEXT);
		dp_op_exit(&op, &nargs, &nresults);
		e = find(op.text, len);
		if (!e)
			r = dp_fail(err, E_EXIT_NONE, "\"%.*s\"", len, (const char *)op.text);
		else if (e->nargs != nargs || e->nresults != nresults)
			r = dp_fail(err, E_EXIT_SIGNATURE, "\"%s\" takes %u words and gives %u, not %u and %u", e->name,
				    e->nargs, e->nresults, nargs, nresults);
	}
	mutex_unlock(&lock);
	return r;
}

static bool is_sound(const struct dp_exit *e)
{
	size_t len = e->name ? strnlen(e->name, DP_EXIT_NAME) : 0;

	return len && len < DP_EXIT_NAME && e->handler && e->nargs <= DP_EXIT_WORDS && e->nresults <= DP_EXIT_WORDS;
}

int dp_register_exit(struct dp_exit *e)
{
	struct dp_exit **place = NULL;
	const struct dp_exit *same;
	int r = 0;

	if (!is_sound(e))
		return -EINVAL;
	mutex_lock(&lock);
	for (u32 i = 0; i < MOST; i++)
		if (!exits[i])
			place = place ?: &exits[i];
	same = find((const u8 *)e->name, strlen(e->name));
	if (same)
		r = same == e ? -EINVAL : -EEXIST;
	else if (!place)
		r = -ENOSPC;
	else
		smp_store_release(place, e); /* pairs with the acquire in find() */
	mutex_unlock(&lock);
	return r;
}
EXPORT_SYMBOL_GPL(dp_register_exit);

/* Whether something was taken out. */
static bool take_out(const struct dp_exit *e, const struct module *mod)
{
	bool found = false;

	mutex_lock(&lock);
	for (u32 i = 0; i < MOST; i++)
		if (exits[i] && (exits[i] == e || (mod && (within_module((unsigned long)exits[i], mod) ||
							   within_module((unsigned long)exits[i]->handler, mod))))) {
			WRITE_ONCE(exits[i], NULL);
			found = true;
		}
	mutex_unlock(&lock);
	if (found)
		dp_k_grace(NULL);
	return found;
}

void dp_unregister_exit(struct dp_exit *e)
{
	take_out(e, NULL);
}
EXPORT_SYMBOL_GPL(dp_unregister_exit);

void dp_k_exits_gone(const struct module *mod)
{
	if (take_out(NULL, mod))
		pr_warn("dprobes: %s has left exit facilities behind\n", mod->name);
}
