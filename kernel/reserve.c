// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Keeps Kprobes off the instructions that stand under a probe of ours. It refuses breakpoints that are not its own, but
 * takes a jump of ours for an instruction of the kernel, copies it, and would write it back when the jump is long gone.
 * What it never probes is what a table of BUG() names (find_bug()), and every module has one: ours names the bytes of
 * our probed instructions, too. Under dp_k_lock; the kernel reads the table at any time.
 */
#include <linux/bug.h>
#include <linux/kprobes.h>

#include "kernel-priv.h"

#if defined(CONFIG_GENERIC_BUG) && defined(CONFIG_GENERIC_BUG_RELATIVE_POINTERS)

/* Near the code, since places are distances; where they do not suffice, states.c still looks before it writes. */
#define ENTRIES 65536 /* numbers of 16 bits: flags has one */
static_assert(ENTRIES * sizeof(struct bug_entry) <= DP_K_NEAR_DATA);

static struct bug_entry *table, *before; /* table: in the memory of near.c */
static u32 nbefore, used;
static u32 first[DP_INSN_MAX + 1]; /* free pieces by length; a piece's first entry has the next one, 0: the last */

static void set(u32 i, u64 addr)
{
	/* Nothing of ours is at its own entry: such a one is free. Whoever searches sees the old place or the new. */
	WRITE_ONCE(table[i].bug_addr_disp, addr ? (s32)(addr - (u64)&table[i].bug_addr_disp) : 0);
}

static u32 take(u32 n)
{
	u32 at = first[n];

	if (at) {
		first[n] = table[at].flags;
		return at;
	}
	if (used + n > ENTRIES || dp_k_near_want((u64)&table[used], (u64)&table[used + n]))
		return 0;
	at = used;
	used += n;
	return at;
}

void dp_k_reserve(struct dp_kpoint *p)
{
	u32 n = p->insn.len;

	if (p->reserved || !before)
		return;
	p->reserved = take(n);
	for (u32 i = 0; p->reserved && i < n; i++)
		set(p->reserved + i, p->addr + i);
	smp_wmb(); /* entries before their number: pairs with the kernel's walk, which tolerates either */
	WRITE_ONCE(THIS_MODULE->num_bugs, used);
}

void dp_k_unreserve(struct dp_kpoint *p)
{
	if (!p->reserved)
		return;
	for (u32 i = 0; i < p->insn.len; i++)
		set(p->reserved + i, 0);
	table[p->reserved].flags = first[p->insn.len];
	first[p->insn.len] = p->reserved;
	p->reserved = 0;
}

/* The entries that the module has anyway come first; one more, which is free, so that no piece begins at 0. */
void dp_k_reserve_init(void)
{
	struct module *mod = THIS_MODULE;

	nbefore = mod->num_bugs;
	table = (struct bug_entry *)dp_k_near.data;
	if (nbefore + 1 > ENTRIES || dp_k_near_want((u64)table, (u64)&table[nbefore + 1]))
		return;
	for (u32 i = 0; i < nbefore; i++)
		dp_k_bug_move(&table[i], &mod->bug_table[i]);
	before = mod->bug_table ? mod->bug_table : table;
	used = nbefore + 1;
	smp_wmb(); /* the same entries in both: pairs with the kernel's walk */
	WRITE_ONCE(mod->bug_table, table);
}

void dp_k_reserve_exit(void)
{
	struct module *mod = THIS_MODULE;

	if (!before)
		return;
	WRITE_ONCE(mod->num_bugs, nbefore);
	synchronize_rcu(); /* who walks a longer one has come to its end */
	WRITE_ONCE(mod->bug_table, before);
}

#else

void dp_k_reserve(struct dp_kpoint *p)
{
}

void dp_k_unreserve(struct dp_kpoint *p)
{
}

void dp_k_reserve_init(void)
{
}

void dp_k_reserve_exit(void)
{
}

#endif
