/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A hit of a watchpoint in a process: a SIGTRAP that the kernel raises for an access to watched memory. The programs
 * run on the thread's slot as at any other hit; what they change in the registers takes effect when the handler
 * returns.
 */
#include "abi/abi-offsets.h"
#include "abi/abi-page.h"
#include "abi/abi-point.h"
#include "abi/abi-watch.h"
#include "arch/arch.h"
#include "hit/hit-priv.h"
#include "program/opcode.h"

void dp_context_of(const struct dp_regs *regs, u64 uc[DP_CTX_WORDS])
{
	for (u32 i = 0; i < sizeof(dp_context_words); i++)
		if (dp_context_words[i])
			uc[dp_context_words[i]] = ((const u64 *)regs)[i];
}

u8 *dp_find_hit_slot(const struct dp_control *ctl)
{
	u64 key = dp_thread_pointer(ctl) | 1, at;

	at = key * 0x5851f42d >> 16 & (ctl->nslots - 1);
	for (u32 tries = 0; tries < DP_HIT_SLOT_TRIES; tries++, at = (at + 1) & (ctl->nslots - 1)) {
		u8 *base = (u8 *)ctl->slots + (at << DP_HIT_SLOT_SHIFT);
		u64 *owner = &((struct dp_hit_slot *)(base + DP_HIT_SLOT_HEAD))->owner, nobody = 0;

		/*
		 * Only this thread puts its key there, so a plain look is enough to find its own. Taking a free one
		 * pairs with the store that gives it back.
		 */
		if (__atomic_load_n(owner, __ATOMIC_RELAXED) == key ||
		    __atomic_compare_exchange_n(owner, &nobody, key, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return base;
	}
	return NULL;
}

void dp_watch_begin(struct dp_hit *h, struct dp_watch_regs *regs, void *slot_base, const struct dp_control *ctl)
{
	struct dp_hit_slot *slot = (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);

	if (!slot->ready)
		dp_hit_prepare(slot, ctl);
	h->regs = &regs->regs;
	h->vm = (struct dp_vm *)((u8 *)slot_base + DP_HIT_SLOT_VM);
	h->ctl = ctl;
	h->tid = dp_hit_tid(slot, ctl);
	h->faults = 0;
	h->aside = false;
	h->near = DP_NEAR_OFF;
}

void dp_watch_hit(struct dp_watch_regs *regs, const struct dp_watch_rt *w, void *slot_base,
		  const struct dp_control *ctl)
{
	struct dp_hit_slot *slot = (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);
	struct dp_hit h;
	u64 *last;

	if (!w) {
		dp_page_swept(regs, slot_base, ctl);
		return;
	}
	dp_watch_begin(&h, regs, slot_base, ctl);
	h.aside = w->type == DP_WATCH_RW;
	last = w->addr ? (u64 *)w->last : &slot->call_last;
	regs->addr = w->addr ? w->addr : slot->call_addr;
	regs->old = regs->now = 0;
	if (w->type != DP_WATCH_X && !dp_hit_read(&h, &regs->now, regs->addr, w->len))
		/* Each value is told once as the new one, and once as the old one, whoever comes between. */
		regs->old = __atomic_exchange_n(last, regs->now, __ATOMIC_RELAXED);
	if (dp_hit_probes(&h, slot, w->first, w->n))
		dp_hit_stop(slot, DP_STOPPED_BEHIND);
}

u64 dp_home_of(const struct dp_control *ctl, u64 ip)
{
	const struct dp_redirect *r = (const struct dp_redirect *)ctl->homes;
	u32 i = dp_redirects_below(r, ctl->nhomes, ip);

	return i < ctl->nhomes && r[i].pc - ip < DP_RELOC_MAX ? r[i].to & ~DP_HOME_BEHIND : ip;
}

void dp_watch_run(u8 *slot_base, const struct dp_watch_rt *w, u64 *uc, const struct dp_control *ctl)
{
	struct dp_watch_regs *regs = (struct dp_watch_regs *)(slot_base + DP_HIT_SLOT_STACK_TOP - 256);
	u64 *context = &((struct dp_hit_slot *)(slot_base + DP_HIT_SLOT_HEAD))->context;
	u64 *r = (u64 *)&regs->regs, home = dp_home_of(ctl, uc[DP_CTX_IP]);

	_Static_assert(sizeof(*regs) <= 256, "room for the registers");
	for (u32 i = 0; i < sizeof(dp_context_words); i++)
		if (dp_context_words[i])
			r[i] = uc[dp_context_words[i]];
	regs->regs.ip = home;
	dp_regs_spare(&regs->regs) = ~0ull;
	regs->regs.cs = DP_CTX_USER_CODE;
	regs->regs.ss = DP_CTX_USER_STACK;
	*(volatile u64 *)context = (u64)uc; /* frames.c goes on there */
	dp_watch_call(regs, w, slot_base, ctl);
	*(volatile u64 *)context = 0;
	if (regs->regs.ip == home) /* goes on where it was, in the detour */
		regs->regs.ip = uc[DP_CTX_IP];
	for (u32 i = 0; i < sizeof(dp_context_words); i++)
		if (dp_context_words[i] && i != DP_REG_WORD(flags))
			uc[dp_context_words[i]] = r[i];
	uc[DP_CTX_FLAGS] = (uc[DP_CTX_FLAGS] & ~DP_CTX_FLAGS_OWN) | (r[DP_REG_WORD(flags)] & DP_CTX_FLAGS_OWN);
}

void dp_on_watch(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl)
{
	u32 index = DP_WATCH_INDEX(si->perf.data);
	const struct dp_watch_rt *w = (const struct dp_watch_rt *)ctl->watches + index;
	struct dp_hit_slot *slot;
	u64 ip = uc[DP_CTX_IP], next = ip;
	u32 element;
	u8 *base;

	if (index >= ctl->nwatches)
		return;
	if (ip >= ctl->copies_lo && ip < ctl->copies_hi) { /* by an instruction of the program, in a copy (page.c) */
		next = dp_copy_next(ctl, (u32)((ip - ctl->copies_lo) / DP_COPY_CODE), &element);
	} else if (ip >= ctl->region_lo && ip < ctl->region_hi) {
		/* By a program of ours that cannot read memory in a way that debug registers do not see. */
		dp_hit_passed_by(ctl, w->first, w->n, DP_COUNT_OWN);
		return;
	}
	base = si->perf.flags & DP_PERF_ASYNC ? NULL : dp_find_hit_slot(ctl);
	slot = (struct dp_hit_slot *)(base + DP_HIT_SLOT_HEAD);
	if (!base || slot->busy || (!w->addr && !slot->call_sp)) {
		dp_hit_passed_by(ctl, w->first, w->n, DP_COUNT_MISSED);
		return;
	}
	/* As in hit-entry.S: a hit from a signal handler that interrupts this one is missed. */
	*(volatile u32 *)&slot->busy = DP_HIT_SLOT_TAKEN;
	uc[DP_CTX_IP] = next;
	dp_watch_run(base, w, uc, ctl);
	if (uc[DP_CTX_IP] == next)
		uc[DP_CTX_IP] = ip;
	*(volatile u32 *)&slot->busy = 0;
}
