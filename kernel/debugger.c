// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * `exit 1`: a program hands the hit over to the kernel's own debugger (kgdb, kdb), which is found through the lookup,
 * as its parts are not offered to modules. Nobody is left waiting for a debugger that is not there: that is asked when
 * a program comes, and again at each hit.
 */
#include <linux/sched/signal.h>

#include "kernel-priv.h"

static bool allow_debugger;
module_param(allow_debugger, bool, 0444);
MODULE_PARM_DESC(allow_debugger, "programs may enter the kernel's debugger (exit 1)");

/* A line to a debugger is set up, and gdb is connected to it, or kdb asks there. */
static __always_inline bool is_ready(void)
{
	return READ_ONCE(*dp_k_sym.kgdb_line) && (READ_ONCE(*dp_k_sym.kgdb_connected) ||
						  (dp_k_sym.kdb && dp_k_sym.kdb_mode && READ_ONCE(*dp_k_sym.kdb_mode)));
}

int dp_k_debugger_check(struct dp_error *err)
{
	if (!allow_debugger)
		return dp_fail(err, E_KERNEL_DEBUGGER, "exit 1");
	if (!dp_k_sym.kgdb_enter || !dp_k_sym.kgdb_connected || !dp_k_sym.kgdb_line) {
		dp_fail(err, E_KERNEL_DEBUGGER, "exit 1: this kernel has none");
		dp_error_hint(err, "boot a kernel that was built with CONFIG_KGDB and CONFIG_KALLSYMS_ALL");
	} else if (!is_ready()) {
		dp_fail(err, E_KERNEL_DEBUGGER, "exit 1: no debugger is connected");
		dp_error_hint(
		    err,
		    "name its line in /sys/module/kgdboc/parameters/kgdboc, enter it once (SysRq g), let gdb connect "
		    "and continue");
	} else {
		return 0;
	}
	return -dp_error_info(E_KERNEL_DEBUGGER)->number;
}

/*
 * The registers are those of the hit, not of a breakpoint of the debugger's: what it shows is the probed function. It
 * stops the other processors, and comes back when it is told to continue; with what it has written to the registers.
 */
HIT void dp_k_debugger_enter(struct pt_regs *regs)
{
	unsigned long ss = *dp_k_ss(regs);

	if (!is_ready())
		return;
	if (!user_mode(regs))
		*dp_k_ss(regs) = __KERNEL_DS;     /* a jump's slot keeps its point there */
	dp_k_sym.kgdb_enter(0, SIGTRAP, 0, regs); /* as after a step: none of its own breakpoints */
	*dp_k_ss(regs) = ss;
}
