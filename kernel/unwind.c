// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stack traces of the kernel across calls whose return is probed. Its unwinder asks ftrace_graph_ret_addr() about each
 * return address that it finds, since function graph tracing replaces them, too. A probe of our own stands there as
 * long as there are return probes, and puts the caller's address in the place of a landing. It is called inside other
 * hits as well: handlers take stack traces.
 *
 * Where the kernel prints a stack, it asks only about addresses that it takes for code: BPF's compiler tells it of code
 * that is made at run time, and so do we of the landings.
 */
#include "abi/abi-limits.h"
#include "arch/arch.h"
#include "kernel-priv.h"

enum { TASK, INDEX, FOUND, AT }; /* its arguments */

/* Several return probes of one call have a landing each, and one place on the stack. */
HIT int dp_k_unwind_pre(struct dp_kprobe *kp, struct pt_regs *regs)
{
	u64 addr = dp_regs_arg(regs, FOUND);

	for (u32 n = 0; n < DP_K_LANDINGS; n++) {
		u64 back = dp_k_return_behind(addr, dp_regs_arg(regs, TASK), dp_regs_arg(regs, AT));

		if (!back)
			break;
		addr = back;
	}
	dp_regs_arg(regs, FOUND) = addr;
	return 0;
}

/* ---- the control side ---- */

static DEFINE_MUTEX(lock); /* before dp_k_lock */
static struct dp_kprobe asked;
static bool there;
static struct bpf_ksym landings;

static void name_landings(void)
{
	if (!dp_k_sym.ksym_add || !dp_k_sym.ksym_del)
		return;
	landings = (struct bpf_ksym){
	    .start = dp_k_near.landings, .end = dp_k_near.programs, .name = "dp_return_landing"};
	INIT_LIST_HEAD(&landings.lnode);
	dp_k_sym.ksym_add(&landings);
}

static void forget_landings(void)
{
	if (!landings.start)
		return;
	dp_k_sym.ksym_del(&landings);
	synchronize_rcu(); /* who looks for a name may still see it */
	landings.start = 0;
}

static int ask(void)
{
	struct dp_kprobe *kp = &asked;
	struct dp_error err;

	asked = (struct dp_kprobe){
	    .symbol_name = "ftrace_graph_ret_addr", .pre_handler = dp_k_unwind_pre, .flags = DP_KPROBE_FLAG_STAYS};
	return dp_kprobes_register(&dp_k_kprobes, &kp, 1, 'k', &err);
}

static void begin(void)
{
	there = !ask();
	if (there)
		name_landings();
	else
		pr_notice_once("dprobes: stack traces end where a return is probed: %s\n",
			       asked.refusal ? asked.refusal : "no unwinder that could be told");
}

static void end(void)
{
	struct dp_kprobe *kp = &asked;

	forget_landings();
	dp_kprobes_unregister(&dp_k_kprobes, &kp, 1);
	there = false;
}

/* Return probes are about to come: nobody takes the probe away until dp_k_unwind_end(). */
void dp_k_unwind_begin(void)
{
	mutex_lock(&lock);
	if (there && asked.flags & DP_KPROBE_FLAG_GONE) /* all probes were removed */
		end();
	if (!there)
		begin();
}

void dp_k_unwind_end(void)
{
	mutex_unlock(&lock);
}

/* Return probes have gone: may it, too? At the module's end it must. */
void dp_k_unwind_look(bool last)
{
	bool wanted = false;

	mutex_lock(&lock);
	mutex_lock(&dp_k_lock);
	for (struct dp_registered *s = dp_k_kprobes.first; s; s = s->next)
		wanted |= s->type == 'r';
	wanted |= dp_k_returns.closed != NULL; /* calls under way */
	mutex_unlock(&dp_k_lock);
	if (there && (last || !wanted))
		end();
	mutex_unlock(&lock);
}

bool dp_k_unwind_is_own(const struct dp_kprobe *kp)
{
	return kp == &asked;
}
