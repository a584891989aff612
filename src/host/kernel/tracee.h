/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is traced: a process or the kernel. One of the two is set. */
#ifndef DP_TRACEE_H
#define DP_TRACEE_H

#include "host/kernel/kernel.h"
#include "host/process/process.h"

struct tracee {
	struct dp_session *process;
	struct dp_kernel *kernel;
};

static inline bool tracee_any(const struct tracee *t)
{
	return t->process || t->kernel;
}

/* The functions of both hosts, see process.h. Those that are called at the end may be called for none. */
int tracee_add(struct tracee *t, const char *text, struct dp_error *err);
int tracee_add_program(struct tracee *t, const struct dp_session_program *p, struct dp_error *err);
int tracee_symbol(struct tracee *t, const char *symbol, u64 *addr, struct dp_error *err);
int tracee_set_words(struct tracee *t, const u64 *values, u32 n, struct dp_error *err);
volatile u64 *tracee_words(struct tracee *t);
int tracee_arm(struct tracee *t, struct dp_error *err);
int tracee_remove(struct tracee *t, struct dp_error *err);
void tracee_free(struct tracee *t);
u32 tracee_nprobes(const struct tracee *t);
void tracee_probe(const struct tracee *t, u32 i, struct dp_probe_info *out);
const struct dp_ring_map *tracee_rings(const struct tracee *t); /* after arm */
bool tracee_alive(struct tracee *t);
void tracee_tend(struct tracee *t);
void tracee_tend_pages(struct tracee *t); /* dp_session_tend_pages(); of the kernel, nothing */
void tracee_rest(struct tracee *t, u64 ns); /* dp_session_rest(); of the kernel, a sleep */

#endif
