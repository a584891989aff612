/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the parts of the test module share: TAP lines in the kernel's log, and functions to probe.
 */
#ifndef TESTS_KERNEL_TEST_H
#define TESTS_KERNEL_TEST_H

#include <linux/kernel.h>
#include <linux/module.h>

#include "../../kernel/compat.h"
#include "dprobes/kernel.h"

/* One line for each: "tap: ok NAME", which the guest's script turns into the host's result. */
#define ok(good, fmt, ...) pr_info("tap: %sok - " fmt "\n", (good) ? "" : "not ", ##__VA_ARGS__)

/* targets.S: called with the C convention, with known bytes. */
long t_add(long a, long b);    /* lea (%rdi,%rsi),%rax; ret */
long t_wide(long a, long b);   /* begins with an instruction of 7 bytes */
long t_short(long a, long b);  /* begins with three short ones */
long t_region(long a, long b); /* a + b + 1; a jump at its start covers 8 bytes */
long t_loop(long n);           /* the sum of 1..n; its third instruction is a branch target */
long t_calls(long a);          /* t_add(a, a) + 1 by a direct call */
long t_indirect(long a);       /* the same through memory */
long t_privileged(long a);     /* interrupts off, cr3 read, on again */
long t_percpu(void);           /* the processor's number, through gs and rip */
long t_fault(const long *p);   /* reads *p, or -14: with an entry in the exception table */
long t_gpf(u64 addr);          /* reads an address; faults when it is not canonical */
long t_many(long, long, long, long, long, long, long, long, long, long); /* weighted sum */
/* Places in them: a name of their own would make them functions. */
#define T_WIDE_2ND ((char *)t_wide + 10)
#define T_REGION_INSIDE ((char *)t_region + 5) /* of its third instruction */
#define T_REGION_BEHIND ((char *)t_region + 8)
#define T_FAULT_INSN ((char *)t_fault + 5)
#define T_GPF_INSN ((char *)t_gpf + 5)
#define T_GPF_END ((char *)t_gpf + 9)
void t_stub(void); /* counts t_stub_hits: for the function tracer's direct calls */
extern int t_stub_hits;
long t_landing(long a); /* a + 2, with a landing pad behind its first instruction */
#define T_LANDING_PAD ((char *)t_landing + 4)
long t_branchy(long n); /* every kind of branch */
extern const long t_branchy_len;

void conform(void); /* ../conform/rules.c */
void test_kprobes(void);
void test_returns(void);
void test_exits_for(int seconds);
void test_hooks(void);
void test_refused(void);
void test_neighbours(void);
void test_ftrace(void);
void test_watch(void);
void test_many(int seconds, const char *what);
void test_hold(const char *what, bool begin);
void bench(const char *what);

/* The address of a symbol, through a parameter of the module. */
unsigned long find(const char *name);

/* The five bytes of the function tracer in a function; landing pads come before them. */
unsigned long tracers_bytes(const void *function);

/* Wait until kprobes, the kernel's and ours, are jumps or what else they will be. */
void settle(void);

/* A hit counter for handlers. */
extern atomic_t hits;
int count_hit(struct dp_kprobe *p, struct pt_regs *regs);

#endif
