/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The two worlds of rules.c by one set of names: those of the module. */
#ifndef TESTS_CONFORM_H
#define TESTS_CONFORM_H

#ifdef __KERNEL__
#include <linux/kprobes.h>

#include "test.h"

#define PLACE(name) "dptest:" name
#define REFUSAL(kp) ((kp)->refusal ? (kp)->refusal : "")
#else
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tap.h"

#define PLACE(name) "exe:" name
#define REFUSAL(kp) dp_kprobe_error() /* begins with the code */
#define noinline __attribute__((noinline))
#define dp_register_kprobe register_kprobe
#define dp_register_kprobes register_kprobes
#define dp_unregister_kprobe unregister_kprobe
#define dp_unregister_kprobes unregister_kprobes
#define dp_disable_kprobe disable_kprobe
#define dp_enable_kprobe enable_kprobe
#define dp_register_kretprobe register_kretprobe
#define dp_register_kretprobes register_kretprobes
#define dp_unregister_kretprobe unregister_kretprobe
#define dp_unregister_kretprobes unregister_kretprobes
#define dp_disable_kretprobe disable_kretprobe
#define dp_enable_kretprobe enable_kretprobe
#define dp_register_jprobe register_jprobe
#define dp_register_jprobes register_jprobes
#define dp_unregister_jprobe unregister_jprobe
#define dp_disable_jprobe disable_jprobe
#define dp_enable_jprobe enable_jprobe
#define dp_jprobe_return jprobe_return
#define dp_wait_for_kprobe_optimizer() ((void)0) /* jumps are made before the call returns */
#endif

#include "engine/kprobe-names.h"

/* worlds.c */
unsigned int conform_cpus(void);
void *conform_task(void);                     /* what ri->task is in this thread */
int conform_foreign(void *addr, int present); /* somebody else's breakpoint there; 0 */

/* rules.c */
void conform(void);

/* conform-places.S: known bytes */
long c_add(long a, long b);      /* lea (%rdi,%rsi),%rax; ret: 4 and 1 bytes */
long c_wide(long a, long b);     /* a + b + 4096; the first instruction has 10 bytes */
long c_region(long a, long b);   /* a + b + 1; a jump at its start covers three instructions */
long c_load(const long *p);      /* mov (%rdi),%rax; ret: 3 and 1 bytes */
long c_sum(long n);              /* 1 + ... + n, by recursion */
long c_calls(long a, long b);    /* c_add(a, b) + 1 */
long c_through(void (*f)(void)); /* calls f; 5 */
long c_many(long a, long b, long c, long d, long e, long f, long g, long h); /* a + g - h */
extern char c_calls_back[];                                                  /* where c_add() returns to in c_calls() */

#endif
