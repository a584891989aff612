/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The machine that runs verified programs at a hit, and the services it may use there. */
#ifndef DP_VM_H
#define DP_VM_H

#include "abi/abi-machine.h"

struct dp_regs;

/*
 * Run a verified program. The payload goes to vm->record behind the header. Registers in
 * h->regs may be changed. Never faults, loops at most prog->jmpmax times, does no more than prog->work.
 */
static inline enum dp_run_result dp_vm_run(struct dp_hit *h);

/*
 * The same from any instruction on: with the stack's index (DP_VM_STACK at first), the jumps done so far, and the code
 * of an exception that the instruction before pc has just raised (0: none), whose parameters are in the state.
 */
enum dp_run_result dp_vm_go(struct dp_hit *h, const u8 *pc, u32 sp, u32 jumps, u32 raise);

/* What a program became that was compiled (prog->compiled); does what dp_vm_go() does from the first instruction on. */
typedef enum dp_run_result dp_vm_compiled(struct dp_hit *h);

static inline enum dp_run_result dp_vm_run(struct dp_hit *h)
{
	h->log_len = 0;
	h->rec_flags = 0;
	h->faults = 0;
	h->exceptions = 0;
	h->work = h->prog->work;
	h->core = 0;
	if (h->prog->compiled)
		return ((dp_vm_compiled *)h->prog->compiled)(h);
	return dp_vm_go(h, (const u8 *)h->prog->code, DP_VM_STACK, 0, 0);
}

/*
 * After a run: put the stack trace, if the program made one, in the place of the record. False when there is none.
 * The record must have been committed before.
 */
bool dp_vm_trace(struct dp_hit *h);

/*
 * Texts in the scratch memory: read one there (false: nothing could be read, it is empty then), put the thread's name
 * there, compare what is there with a text, or with a shell pattern.
 */
bool dp_vm_text(struct dp_hit *h, u64 addr, u32 size);
void dp_vm_comm(struct dp_hit *h);
bool dp_vm_same(const u8 *s, const u8 *text, u32 len);
bool dp_vm_match(const u8 *s, const u8 *pat, u32 len);

/*
 * Guarded access to the probed program's memory; each host brings its own. dp_hit_read and
 * dp_hit_write return 0 or -EFAULT and move all or nothing visible to the program;
 * dp_hit_read_str copies up to size - 1 bytes, ends them with NUL, and returns the length
 * including the NUL (a longer string is cut), or -EFAULT when not even the first byte is readable.
 */
int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len);
int dp_hit_write(struct dp_hit *h, u64 dst, const void *src, u32 len);
int dp_hit_read_str(struct dp_hit *h, char *dst, u64 src, u32 size);

/* Thread name (at most 16 bytes with NUL) by a system call; for programs that ask for it by name. */
void dp_hit_comm(struct dp_hit *h, char *dst16);

/* Whether the byte can be written; it is not changed. */
bool dp_hit_writable(struct dp_hit *h, u64 addr);

/* The process's id as it knows it. */
u32 dp_hit_pid(struct dp_hit *h);

/*
 * The thread's real user id, and the parent's process id, by a system call in a process; for programs that ask for them
 * by name. They change at any time. -1: a filter of system calls is in force that does not let the call through.
 */
s64 dp_hit_uid(struct dp_hit *h);
s64 dp_hit_ppid(struct dp_hit *h);

/* CLOCK_MONOTONIC, by the time stamp counter. */
u64 dp_hit_ns(struct dp_hit *h);

/* The area that fxsave writes, with the program's floating point and vector registers. */
void dp_hit_fxsave(struct dp_hit *h, void *area512);
/*
 * Selectors of ds, es, fs, gs, then the bases of fs and gs; in a kernel also tr, ldtr, gdtr (base, limit), idtr, cr0,
 * cr2, cr3, cr4, dr0 to dr3, dr6, dr7.
 */
u64 dp_hit_segment(struct dp_hit *h, u32 which);
void dp_hit_cpuid(struct dp_hit *h, u32 leaf, u32 abcd[4]);

/*
 * The call chain at the hit: the probed instruction, then where each caller goes on, outwards, at most n. Returns their
 * number; fewer where the chain ends or is not known further.
 */
u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n);

/* What the first n of them are known by: dp_chain_digest(). */
u64 dp_hit_chain(struct dp_hit *h, u32 n);

/* The processor at this moment. */
u32 dp_hit_cpu(struct dp_hit *h);

/* Add n to what this processor keeps apart for that word of an aggregate; false: it keeps nothing apart. */
#if DP_RING0
static inline bool dp_hit_add_apart(struct dp_hit *h, u64 *word, u64 n)
{
	return false;
}
#else
bool dp_hit_add_apart(struct dp_hit *h, const u64 *word, u64 n);
#endif

/*
 * The registers of user mode: in a kernel those that the task will return with (a thread of the kernel has none:
 * zeroes).
 */
#if DP_RING0
struct dp_regs *dp_hit_user(struct dp_hit *h);
u64 dp_hit_task(struct dp_hit *h);
u32 dp_hit_own_tid(struct dp_hit *h); /* the thread's id as its process knows it */
u64 dp_hit_cgroup(struct dp_hit *h);  /* its inode number in a mounted cgroup2 */
u64 dp_hit_in(u16 port, u32 bytes);
void dp_hit_out(u16 port, u32 bytes, u64 v);
u64 dp_hit_msr(struct dp_hit *h, u32 number);                        /* 0: there is none */
bool dp_hit_segment_base(struct dp_hit *h, u64 selector, u64 *base); /* false: no such segment */
#else
static inline struct dp_regs *dp_hit_user(struct dp_hit *h)
{
	return h->regs;
}
#endif

/*
 * Calls an exit facility that a module, or a library in the process, has registered under that name (len bytes). 0, or
 * a positive errno: ENOENT when there is none, EPROTO when it takes or gives another number of words, else what it
 * has returned itself.
 */
u32 dp_hit_call_exit(struct dp_hit *h, const u8 *name, u32 len, u32 nargs, u32 nresults, const u64 *args, u64 *results);

/*
 * What `exit N` hands over to (DP_EXIT_*). In a process: a core dump is made and the process goes on, or it stops once
 * the hit's records are written (rec_flags). In a kernel that allows it: a panic, from which one does not
 * come back, or its debugger, behind the hit's records.
 */
void dp_hit_exit(struct dp_hit *h, u32 facility);

#endif
