/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the files of the hit path in a process share among themselves. */
#ifndef DP_HIT_PRIV_H
#define DP_HIT_PRIV_H

#include "hit/hit.h"
#include "hit/vm.h"

/* entry.S */
int dp_commit(struct dp_slot_head *slot, const struct dp_control *ctl, u64 *record, u64 bytes);
int dp_count_cpu(struct dp_slot_head *slot, const struct dp_control *ctl, u64 offset);
void dp_init_cs(struct dp_slot_head *slot);

/* hit.c; called from entry.S too */
u32 dp_hit(struct dp_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl);
void dp_missed(u32 index, const struct dp_control *ctl, void *slot_base);
u32 dp_hit_tid(struct dp_slot_head *slot, const struct dp_control *ctl);

/* signal.c; called from entry.S */
void dp_on_signal(int sig, void *info, void *ucontext, const struct dp_control *ctl);

static inline s64 dp_syscall(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	s64 ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#endif
