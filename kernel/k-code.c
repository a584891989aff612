// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * How this host writes code and waits: bytes are stored through a second mapping of their page (the
 * text itself is never writable), an interrupt serialises every processor, and the scheduler tells
 * when nobody can be inside any more. Control side, under the lock.
 */
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/stop_machine.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <asm/sync_core.h>

#include "kernel-priv.h"

static bool stop;
module_param_named(stop_machine, stop, bool, 0444);
MODULE_PARM_DESC(stop_machine, "write code while all processors are stopped");

/* The mapping that the last write used: patches come sorted by address more often than not. */
static struct {
	u64 page;
	void *at;
} alias;

static void drop_alias(void)
{
	if (alias.at)
		vunmap(alias.at);
	alias.at = NULL;
	alias.page = 0;
}

static struct page *page_of(u64 addr)
{
	if (dp_k_sym.core_text(addr))
		return virt_to_page((void *)(unsigned long)addr);
	return vmalloc_to_page((void *)(unsigned long)addr);
}

static u8 *writable(u64 addr)
{
	u64 page = addr & PAGE_MASK;

	if (alias.page != page) {
		struct page *p = page_of(addr);

		drop_alias();
		if (!p)
			return NULL;
		alias.at = vmap(&p, 1, VM_MAP, PAGE_KERNEL);
		if (!alias.at)
			return NULL;
		alias.page = page;
	}
	return (u8 *)alias.at + (addr & ~PAGE_MASK);
}

struct store {
	u8 *to;
	u8 byte;
};

static int store_stopped(void *arg)
{
	struct store *s = arg;

	WRITE_ONCE(*s->to, s->byte);
	return 0;
}

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	const u8 *b = bytes;

	for (u32 i = 0; i < n; i++) {
		struct store s = {writable(addr + i), b[i]};

		if (!s.to)
			return dp_fail(err, E_ARM_NOMEM, "a mapping of 0x%llx", addr + i);
		if (READ_ONCE(*s.to) == s.byte)
			continue;
		if (stop)
			stop_machine(store_stopped, &s, NULL);
		else
			WRITE_ONCE(*s.to, s.byte);
	}
	return 0;
}

int dp_k_fill(u64 addr, const void *bytes, u32 n)
{
	const u8 *b = bytes;

	while (n) {
		u32 part = min_t(u32, n, PAGE_SIZE - (addr & ~PAGE_MASK));
		u8 *to = writable(addr);

		if (!to)
			return -ENOMEM;
		memcpy(to, b, part);
		addr += part;
		b += part;
		n -= part;
	}
	return 0;
}

static void serialise_here(void *unused)
{
	sync_core();
}

static int serialise(void *arg, struct dp_error *err)
{
	drop_alias();
	on_each_cpu(serialise_here, NULL, 1);
	return 0;
}

static void breathe(void *arg)
{
	cond_resched();
}

static void nothing(struct work_struct *w)
{
}

static DEFINE_PER_CPU(struct work_struct, turn);

/*
 * A hit runs its handlers with preemption off. When work that was queued now has run on a
 * processor, that processor has been rescheduled: hits that had begun there have ended. RCU would
 * not do: a jump may be hit where it does not watch.
 */
void dp_k_grace(void *arg)
{
	int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu)
		schedule_work_on(cpu, per_cpu_ptr(&turn, cpu));
	for_each_online_cpu(cpu)
		flush_work(per_cpu_ptr(&turn, cpu));
	cpus_read_unlock();
}

/*
 * Every task has given up the processor of its own accord or has been in user space, so none stands
 * preempted inside a region; idle tasks, which that does not count, were switched away from.
 */
void dp_k_settle(void *arg)
{
	synchronize_rcu_tasks();
	dp_k_grace(NULL);
}

static int refresh(void *arg, struct dp_space *space)
{
	int r = dp_space_busy(space, 0, dp_k_near.slots);

	return r ? r : dp_space_busy(space, dp_k_near.landings, ~0ull);
}

static int map(void *arg, u64 lo, u64 hi, struct dp_error *err)
{
	return dp_k_near_want(lo, hi) ? dp_fail(err, E_ARM_NOMEM, "room for slots") : 0;
}

static int fill(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	return dp_k_fill(addr, bytes, n) ? dp_fail(err, E_ARM_NOMEM, "a mapping of a slot") : 0;
}

static bool is_covered(void *arg, u64 addr, u32 n)
{
	return dp_k_kprobe_covers(addr, n);
}

static int peek(void *arg, u64 addr, void *bytes, u32 n)
{
	return copy_from_kernel_nofault(bytes, (const void *)(unsigned long)addr, n);
}

void dp_k_code_init(struct dp_mgr_host *host)
{
	int cpu;

	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&turn, cpu), nothing);
	*host = (struct dp_mgr_host){
	    .code = {write_code, serialise, breathe, NULL},
	    .locate = dp_k_locate,
	    .refresh = refresh,
	    .map = map,
	    .fill = fill,
	    .peek = peek,
	    .is_covered = is_covered,
	    .grace = dp_k_grace,
	    .settle = dp_k_settle,
	    .entry = (u64)dp_k_entry,
	    .entry_tagged = (u64)dp_k_entry_tagged,
	    .whole_list = &dp_k_whole_list,
	    .near = true,
	};
}

void dp_k_code_exit(void)
{
	drop_alias();
}
