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

/* hit.c: run the programs of n probes, and count what became of each. */
void dp_hit_probes(struct dp_hit *h, struct dp_slot_head *slot, u32 first, u32 n);
/* Count one hit that ran no program: DP_COUNT_MISSED, or DP_COUNT_OWN. */
void dp_hit_passed_by(const struct dp_control *ctl, u32 first, u32 n, enum dp_count what);
void dp_hit_prepare(struct dp_slot_head *slot, const struct dp_control *ctl);

/* watch.c */
struct dp_siginfo;
void dp_on_watch(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl);
void dp_watch_hit(struct dp_watch_regs *regs, const struct dp_watch_rt *w, void *slot_base, const struct dp_control *ctl);

/* entry.S: dp_watch_hit(), with the stack pointer at regs. */
void dp_watch_call(struct dp_watch_regs *regs, const struct dp_watch_rt *w, void *slot_base,
		   const struct dp_control *ctl);

/* struct siginfo of the kernel: the parts that are looked at */
struct dp_siginfo {
	s32 signo, err, code, pad;
	union {
		struct {
			u32 pid, uid;
			u64 value;
		} sent;
		struct { /* code TRAP_PERF */
			u64 addr, data;
			u32 type, flags;
		} perf;
	};
};

/* Words of struct ucontext of x86-64: the general registers begin behind flags, link and stack. */
enum dp_uc {
	DP_UC_R8 = 5, DP_UC_R9, DP_UC_R10, DP_UC_R11, DP_UC_R12, DP_UC_R13, DP_UC_R14, DP_UC_R15, DP_UC_DI, DP_UC_SI,
	DP_UC_BP, DP_UC_BX, DP_UC_DX, DP_UC_AX, DP_UC_CX, DP_UC_SP, DP_UC_IP, DP_UC_FLAGS,
};

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
