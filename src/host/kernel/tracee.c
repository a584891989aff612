/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hands over to the host whose turn it is. Nothing else. */
#include <time.h>

#include "host/kernel/tracee.h"
#include "symbols/kallsyms.h"

int tracee_add(struct tracee *t, const char *text, struct dp_error *err)
{
	return t->kernel ? dp_kernel_add(t->kernel, text, err) : dp_session_add(t->process, text, err);
}

int tracee_arm(struct tracee *t, struct dp_error *err)
{
	return t->kernel ? dp_kernel_arm(t->kernel, err) : dp_session_arm(t->process, err);
}

int tracee_remove(struct tracee *t, struct dp_error *err)
{
	if (t->kernel)
		return dp_kernel_remove(t->kernel, err);
	return t->process ? dp_session_remove(t->process, err) : 0;
}

int tracee_add_program(struct tracee *t, const struct dp_session_program *p, struct dp_error *err)
{
	return t->kernel ? dp_kernel_add_program(t->kernel, p, err) : dp_session_add_program(t->process, p, err);
}

int tracee_symbol(struct tracee *t, const char *symbol, u64 *addr, struct dp_error *err)
{
	return t->kernel ? dp_kallsyms_find(symbol, addr, err) : dp_session_symbol(t->process, symbol, addr, err);
}

int tracee_set_words(struct tracee *t, const u64 *values, u32 n, struct dp_error *err)
{
	return t->kernel ? dp_kernel_set_words(t->kernel, values, n, err)
			 : dp_session_set_words(t->process, values, n, err);
}

volatile u64 *tracee_words(struct tracee *t)
{
	return t->kernel ? dp_kernel_words(t->kernel) : dp_session_words(t->process);
}

void tracee_free(struct tracee *t)
{
	dp_kernel_close(t->kernel);
	dp_session_free(t->process);
}

u32 tracee_nprobes(const struct tracee *t)
{
	return t->kernel ? dp_kernel_nprobes(t->kernel) : dp_session_nprobes(t->process);
}

void tracee_probe(const struct tracee *t, u32 i, struct dp_probe_info *out)
{
	if (t->kernel)
		dp_kernel_probe(t->kernel, i, out);
	else
		dp_session_probe(t->process, i, out);
}

const struct dp_ring_map *tracee_rings(const struct tracee *t)
{
	return t->kernel ? dp_kernel_rings(t->kernel) : dp_session_rings(t->process);
}

bool tracee_alive(struct tracee *t)
{
	return t->kernel || dp_session_alive(t->process);
}

void tracee_tend_pages(struct tracee *t)
{
	if (!t->kernel)
		dp_session_tend_pages(t->process);
}

void tracee_rest(struct tracee *t, u64 ns)
{
	if (t->kernel)
		nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
	else
		dp_session_rest(t->process, ns);
}

void tracee_tend(struct tracee *t)
{
	if (t->kernel)
		dp_kernel_tend(t->kernel);
	else
		dp_session_tend(t->process);
}
