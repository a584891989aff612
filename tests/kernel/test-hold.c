// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Probes that stay while the module is loaded, for what a script does to them from outside. */
#include "test.h"

static struct dp_kprobe waiting = {.symbol_name = "dpvictim:victim_work", .pre_handler = count_hit};
static struct dp_kprobe init_code = {.symbol_name = "dpvictim:victim_once", .pre_handler = count_hit};
static struct dp_kretprobe returned = {.kp.symbol_name = "dpvictim:victim_work"};
static atomic_t nreturned, entered;

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_inc(&nreturned);
	return 0;
}

static int count_entry(struct dp_kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&entered);
	return 0;
}

static struct dp_kprobe hot[] = {
    {.symbol_name = "vfs_read"},         {.symbol_name = "vfs_write"},       {.symbol_name = "do_sys_openat2"},
    {.symbol_name = "kmem_cache_alloc"}, {.symbol_name = "kfree"},           {.symbol_name = "mutex_lock"},
    {.symbol_name = "_raw_spin_lock"},   {.symbol_name = "schedule"},        {.symbol_name = "try_to_wake_up"},
    {.symbol_name = "ktime_get"},        {.symbol_name = "handle_mm_fault"}, {.symbol_name = "__fput"},
};
static struct dp_kretprobe sleepy[] = {
    {.kp.symbol_name = "do_nanosleep"}, {.kp.symbol_name = "kernel_wait4"}, {.kp.symbol_name = "schedule"},
    {.kp.symbol_name = "vfs_read"},     {.kp.symbol_name = "do_exit"},
};

static void hold_module(void)
{
	waiting.flags = init_code.flags = returned.kp.flags = 0;
	returned.handler = on_return;
	ok(!dp_register_kprobe(&waiting) && waiting.flags & DP_KPROBE_FLAG_PENDING, "a probe waits for its module");
	ok(!dp_register_kprobe(&init_code) && !dp_register_kretprobe(&returned), "others wait, too");
}

static void report_module(void)
{
	ok(waiting.flags & DP_KPROBE_FLAG_GONE && init_code.flags & DP_KPROBE_FLAG_GONE &&
	       returned.kp.flags & DP_KPROBE_FLAG_GONE,
	   "they are gone with it");
	ok(dp_disable_kprobe(&waiting) == -EINVAL, "and cannot be disabled any more");
	dp_unregister_kprobe(&waiting);
	dp_unregister_kprobe(&init_code);
	dp_unregister_kretprobe(&returned);
	/* init runs before insmod returns, exit before rmmod does: 1 + 3 + 1 hits. */
	ok(atomic_read(&hits) == 5, "armed before init ran, hit until the end (%d)", atomic_read(&hits));
	ok(atomic_read(&nreturned) == 4, "and its returns (%d)", atomic_read(&nreturned));
}

static int refused(const struct dp_kprobe *kp, int r)
{
	if (r)
		pr_info("tap: # log: %s: %s\n", kp->symbol_name, kp->refusal ? kp->refusal : "");
	return r != 0;
}

static void hold_hot(void)
{
	int bad = 0;

	for (int i = 0; i < ARRAY_SIZE(hot); i++) {
		if (!find(hot[i].symbol_name))
			hot[i].symbol_name =
			    "kmem_cache_alloc_noprof"; /* the one that has another name in later kernels */
		hot[i].pre_handler = count_entry;
		bad += refused(&hot[i], dp_register_kprobe(&hot[i]));
	}
	for (int i = 0; i < ARRAY_SIZE(sleepy); i++) {
		sleepy[i].handler = on_return;
		sleepy[i].maxactive = 256;
		bad += refused(&sleepy[i].kp, dp_register_kretprobe(&sleepy[i]));
	}
	ok(!bad, "probes in hot functions, and where tasks sleep (%d refused)", bad);
}

static void report_hot(void)
{
	for (int i = 0; i < ARRAY_SIZE(hot); i++)
		dp_unregister_kprobe(&hot[i]);
	for (int i = 0; i < ARRAY_SIZE(sleepy); i++)
		dp_unregister_kretprobe(&sleepy[i]);
	ok(atomic_read(&entered) > 1000 && atomic_read(&nreturned) > 10, "they were hit (%d, %d)",
	   atomic_read(&entered), atomic_read(&nreturned));
}

void test_hold(const char *what, bool begin)
{
	if (!strcmp(what, "module"))
		begin ? hold_module() : report_module();
	if (!strcmp(what, "hot"))
		begin ? hold_hot() : report_hot();
}
