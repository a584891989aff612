/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Branches carried out in C (arch/x86_64/emulate.h), with memory read by a system call. */
#include <sys/syscall.h>

#include "host/self/self-priv.h"

struct vec {
	void *base;
	unsigned long len;
};

HIT bool self_read(u64 addr, void *buf, u32 n)
{
	register struct vec *remote __asm__("r10");
	register long nremote __asm__("r8") = 1;
	register long flags __asm__("r9") = 0;
	struct vec to = {buf, n}, from = {(void *)addr, n};
	long pid, r;

	__asm__ volatile("syscall" : "=a"(pid) : "a"(SYS_getpid) : "rcx", "r11", "memory");
	remote = &from;
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_process_vm_readv), "D"(pid), "S"(&to), "d"(1l), "r"(remote),
			   "r"(nremote), "r"(flags)
			 : "rcx", "r11", "memory");
	return r == (long)n;
}

#define EMULATE_READ self_read
#include "arch/x86_64/emulate.h"

HIT bool self_address_of(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *addr)
{
	return address_of(in, next, r, addr);
}

HIT bool self_emulate(const struct dp_kpoint *p, struct pt_regs *regs)
{
	return dp_emulate(&p->insn, p->addr, regs);
}
