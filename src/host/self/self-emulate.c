/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Branches carried out in C (arch/x86_64/emulate.h), with memory read by a system call. */
#include <sys/syscall.h>

#include "host/self/self-priv.h"

struct vec {
	void *base;
	unsigned long len;
};

HIT bool dp_self_read(u64 addr, void *buf, u32 n)
{
	struct vec to = {buf, n}, from = {(void *)addr, n};
	s64 pid = dp_call_system(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return dp_call_system(SYS_process_vm_readv, (u64)pid, (u64)&to, 1, (u64)&from, 1, 0) == (s64)n;
}

#define EMULATE_READ dp_self_read
#include "arch/emulate.h"

HIT bool dp_self_address_of(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *addr)
{
	return address_of(in, next, r, addr);
}

HIT bool dp_self_emulate(const struct dp_kpoint *p, struct pt_regs *regs)
{
	return dp_emulate(&p->insn, p->addr, regs);
}
