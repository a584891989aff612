/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Registers by what they are for. Each stands for the register itself: it can be read and set. Of struct dp_regs and of
 * struct pt_regs (the kernel's, and the library's of the same layout) through a pointer.
 */
#ifndef DP_REGS_H
#define DP_REGS_H

#define dp_regs_ip(r) ((r)->ip)
#define dp_regs_sp(r) ((r)->sp)
#define dp_regs_result(r) ((r)->ax)
#define dp_regs_frame(r) ((r)->bp)
/* For perf events: the frame register, the stack pointer, the program counter, in this order. */
#define DP_PERF_REGS (1ull << 6 | 1ull << 7 | 1ull << 8)
#define dp_regs_align(r) ((r)->r10)     /* the frame of a function that aligns its stack, where it begins and ends */
#define dp_regs_spare(r) ((r)->orig_ax) /* free at a hit: return probes keep the return address there for programs */

/* Argument n of a call, 0 to 5; of a system call the fourth is another. */
#define dp_regs_arg(r, n)        \
	(*((n) == 0   ? &(r)->di \
	   : (n) == 1 ? &(r)->si \
	   : (n) == 2 ? &(r)->dx \
	   : (n) == 3 ? &(r)->cx \
	   : (n) == 4 ? &(r)->r8 \
		      : &(r)->r9))

/* At the instruction that calls the system: the number of the call; the other one is argument 3. */
#define dp_regs_call(r) ((u32)(r)->ax)
#define dp_regs_call_arg(r, n) ((n) == 3 ? (r)->r10 : dp_regs_arg(r, n))

/* Of struct user_regs_struct, as ptrace gives it. */
#define dp_user_ip(r) ((r)->rip)
#define dp_user_sp(r) ((r)->rsp)
#define dp_user_thread(r) ((r)->fs_base)
#define dp_user_result(r) ((r)->rax)
#define dp_user_call(r) ((r)->orig_rax) /* number of the system call that the thread is in; negative: none */

/* The thread is to make this system call, when it comes to the instruction for one. */
#define dp_user_set_args(r, v)     \
	do {                       \
		(r)->rdi = (v)[0]; \
		(r)->rsi = (v)[1]; \
		(r)->rdx = (v)[2]; \
		(r)->r10 = (v)[3]; \
		(r)->r8 = (v)[4];  \
		(r)->r9 = (v)[5];  \
	} while (0)

/*
 * What the pieces of code that a thread is sent to take back from its stack, as initialisers: dp_stub_call,
 * load-code.S, and the service of hit-entry.S.
 */
#define dp_user_words_call(r) \
	(r)->rcx, (r)->rax, (r)->rdx, (r)->rsi, (r)->rdi, (r)->r8, (r)->r9, (r)->r10, (r)->r11, (r)->eflags, (r)->rip
#define dp_user_words_load(r) (r)->rbp, (r)->rbx, (r)->rax, dp_user_words_rest(r)
#define dp_user_words_rest(r) \
	(r)->rcx, (r)->rdx, (r)->rsi, (r)->rdi, (r)->r8, (r)->r9, (r)->r10, (r)->r11, (r)->eflags, (r)->rip
#define dp_user_words_service(r)                                                                                    \
	(r)->rax, (r)->rcx, (r)->rdx, (r)->rbx, (r)->rsi, (r)->rdi, (r)->r8, (r)->r9, (r)->r10, (r)->r11, (r)->r12, \
	    (r)->eflags, (r)->rip

#endif
