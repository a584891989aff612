// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * See k-unwind.h. The tables come from whoever may open the device; what is read on the task's stack by them is memory
 * of the process, read without page faults, and becomes numbers in a record or a key and nothing else.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "arch/unwind.h"
#include "k-unwind.h"
#include "kernel-priv.h"

#define MODULES_MAX 4096
#define BYTES_MAX (256ull << 20)

/* ---- the hit ---- */

static bool word_at(void *stack, u64 addr, u64 *v)
{
	return !(addr & 7) && addr < TASK_SIZE_MAX && !copy_from_user_nofault(v, (const void __user *)addr, sizeof(*v));
}

HIT u32 dp_k_stacks_walk(const struct dp_k_stacks *s, const struct pt_regs *regs, u64 *ips, u32 n)
{
	const struct dp_regs *r = (const struct dp_regs *)regs;
	struct dp_unwind_at f = {r->ip, r->sp, dp_regs_frame(r)};
	const struct dp_unwind *tables = NULL;
	u64 align = dp_regs_align(r);
	bool exact = true; /* ip is that of an instruction, not behind a call */
	u32 found = 0;

	for (u32 i = 0; i < s->n && !tables; i++)
		if (s->v[i].pid == current->tgid)
			tables = s->v[i].tables;
	while (found < n && f.ip) {
		const struct dp_unwind_row *row;
		u64 at = f.ip - !exact;

		ips[found++] = f.ip;
		row = dp_unwind_row_at(tables, at);
		exact = row && row->kind == DP_UNWIND_SIGNAL;
		if (!row || !dp_unwind_caller(&f, row, at, f.ip == r->ip ? &align : NULL, word_at, NULL))
			break;
	}
	return found;
}

/* ---- control side ---- */

static void free_tables(struct dp_unwind *u)
{
	for (u64 i = 0; u && i < u->n; i++)
		kvfree((void *)(unsigned long)u->modules[i].rows);
	kvfree(u);
}

void dp_k_stacks_free(struct dp_k_stacks *s)
{
	for (u32 i = 0; s && i < s->n; i++)
		free_tables(s->v[i].tables);
	kfree(s);
}

/* The rows of one module come in the place of their address elsewhere. */
static int copy_rows(struct dp_unwind_module *m, u64 *bytes)
{
	u64 size = m->n * sizeof(struct dp_unwind_row), from = m->rows;
	void *rows;

	m->rows = 0;
	if (!m->n || m->n > U32_MAX || m->hi < m->lo || m->hi - m->lo > U32_MAX || *bytes + size > BYTES_MAX)
		return -EINVAL;
	rows = kvmalloc(size, GFP_KERNEL_ACCOUNT);
	if (!rows)
		return -ENOMEM;
	m->rows = (u64)rows;
	*bytes += size;
	return copy_from_user(rows, (const void __user *)from, size) ? -EFAULT : 0;
}

static int copy_tables(const struct dp_dev_unwind *d, struct dp_unwind **out, u64 *bytes)
{
	u64 size = d->nmodules * sizeof(struct dp_unwind_module);
	struct dp_unwind *u;
	int r = 0;

	if (!d->nmodules || d->nmodules > MODULES_MAX)
		return -EINVAL;
	u = kvzalloc(sizeof(*u) + size, GFP_KERNEL_ACCOUNT);
	if (!u)
		return -ENOMEM;
	if (copy_from_user(u->modules, (const void __user *)d->modules, size)) {
		kvfree(u);
		return -EFAULT;
	}
	while (u->n < d->nmodules && !r)
		r = copy_rows(&u->modules[u->n++], bytes); /* one that failed has rows of ours, or none */
	if (r)
		free_tables(u);
	else
		*out = u;
	return r;
}

int dp_k_stacks_add(struct dp_k_stacks **s, const struct dp_dev_unwind *d, struct dp_error *err)
{
	struct dp_unwind *tables;
	int r;

	if (!*s)
		*s = kzalloc(sizeof(**s), GFP_KERNEL);
	if (!*s)
		return dp_fail(err, E_ARM_NOMEM, "unwind tables");
	if ((*s)->n == DP_K_STACKS)
		return -EINVAL;
	r = copy_tables(d, &tables, &(*s)->bytes);
	if (r)
		return r == -ENOMEM ? dp_fail(err, E_ARM_NOMEM, "unwind tables") : r;
	(*s)->v[(*s)->n].tables = tables;
	(*s)->v[(*s)->n++].pid = d->pid;
	return 0;
}
