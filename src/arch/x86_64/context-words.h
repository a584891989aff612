/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between the context of a signal handler and struct pt_regs, whose declaration the includer brings. */
#ifndef DP_CONTEXT_WORDS_H
#define DP_CONTEXT_WORDS_H

#include <ucontext.h>

#include "arch/x86_64/machine.h"

/* Each stands for the register itself. */
#define dp_context_ip(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#define dp_context_sp(uc) ((uc)->uc_mcontext.gregs[REG_RSP])
#define dp_context_trap(uc) ((uc)->uc_mcontext.gregs[REG_TRAPNO]) /* what the processor raised */

static DP_ALWAYS void dp_context_take(const ucontext_t *uc, struct pt_regs *r)
{
	const greg_t *g = uc->uc_mcontext.gregs;

	*r = (struct pt_regs){g[REG_R15], g[REG_R14], g[REG_R13], g[REG_R12], g[REG_RBP], g[REG_RBX], g[REG_R11],
			      g[REG_R10], g[REG_R9],  g[REG_R8],  g[REG_RAX], g[REG_RCX], g[REG_RDX], g[REG_RSI],
			      g[REG_RDI], -1ul,       g[REG_RIP], 0x33,       g[REG_EFL], g[REG_RSP], 0x2b};
}

static DP_ALWAYS void dp_context_put(const struct pt_regs *r, ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;

	g[REG_R15] = (greg_t)r->r15;
	g[REG_R14] = (greg_t)r->r14;
	g[REG_R13] = (greg_t)r->r13;
	g[REG_R12] = (greg_t)r->r12;
	g[REG_RBP] = (greg_t)r->bp;
	g[REG_RBX] = (greg_t)r->bx;
	g[REG_R11] = (greg_t)r->r11;
	g[REG_R10] = (greg_t)r->r10;
	g[REG_R9] = (greg_t)r->r9;
	g[REG_R8] = (greg_t)r->r8;
	g[REG_RAX] = (greg_t)r->ax;
	g[REG_RCX] = (greg_t)r->cx;
	g[REG_RDX] = (greg_t)r->dx;
	g[REG_RSI] = (greg_t)r->si;
	g[REG_RDI] = (greg_t)r->di;
	g[REG_RIP] = (greg_t)r->ip;
	g[REG_EFL] = (greg_t)r->flags;
	g[REG_RSP] = (greg_t)r->sp;
}

#endif
