// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The module: brings the parts up in their order and takes them down in the reverse. */
#include <linux/module.h>

#include "k-event.h"
#include "k-hooks.h"
#include "k-session.h"

static unsigned long lookup;
module_param(lookup, ulong, 0400);
MODULE_PARM_DESC(lookup, "address of kallsyms_lookup_name, from /proc/kallsyms");

static const struct part {
	int (*init)(void);
	void (*exit)(void);
} parts[] = {
    {dp_k_near_init, dp_k_near_exit},
    {dp_k_blacklist_init, dp_k_blacklist_exit},
    {dp_k_text_init, dp_k_text_exit},
    {dp_k_kprobes_init, dp_k_kprobes_exit},
    {dp_k_die_init, dp_k_die_exit},
    {dp_k_returns_init, dp_k_returns_exit},
    {NULL, dp_k_kprobes_quiet},
    {dp_k_modules_init, dp_k_modules_exit},
    {dp_k_debugfs_init, dp_k_debugfs_exit},
    {dp_k_hooks_init, dp_k_hooks_exit},
    {dp_k_run_init, dp_k_run_exit},
    {dp_k_ring_init, dp_k_ring_exit},
    {dp_k_events_init, dp_k_events_exit},
    {dp_k_trace_init, dp_k_trace_exit},
    {dp_k_tracepoints_init, dp_k_tracepoints_exit},
    {dp_k_device_init, dp_k_device_exit},
};

static void take_down(u32 n)
{
	while (n--)
		if (parts[n].exit)
			parts[n].exit();
}

static int __init dprobes_init(void)
{
	int r = dp_k_symbols_init(lookup);

	for (u32 i = 0; !r && i < DP_ARRAY_SIZE(parts); i++) {
		r = parts[i].init ? parts[i].init() : 0;
		if (r)
			take_down(i);
	}
	return r;
}

static void __exit dprobes_exit(void)
{
	take_down(DP_ARRAY_SIZE(parts));
}

module_init(dprobes_init);
module_exit(dprobes_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Dynamic Probes: probes in a running kernel");
MODULE_VERSION("0.1.0");
