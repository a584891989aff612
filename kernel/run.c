// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What of run.h is rare at a hit, and what goes before. */
#include <linux/security.h>
#include <linux/slab.h>

#include "run.h"
#include "program/code.h"
#include "program/opcode.h"

DEFINE_PER_CPU(struct dp_vm *, dp_k_vm);
const struct dp_control dp_k_control; /* processes have one; nothing in it means anything here */

static __always_inline struct dp_record *record_at(struct dp_k_sink *s, u64 at)
{
	return (struct dp_record *)(s->data + (at & s->mask));
}

/*
 * Room for n bytes by giving up the oldest records, a sixteenth of the ring at a time: the next ones then find room
 * without coming here. Only where nobody maps the ring.
 */
static HIT void give_up(struct dp_k_sink *s, u64 tail, u32 n)
{
	u64 most = (s->mask + 1) / 16 * 15;

	while (tail != s->head && s->head - tail + n > most) {
		tail += record_at(s, tail)->len;
		s->overwritten++;
	}
	/* Known to be gone before it is written over: pairs with the barrier in copy_out(). */
	WRITE_ONCE(s->ring->tail, tail);
	smp_wmb();
}

HIT bool dp_k_more_room(struct dp_k_sink *s, u32 n)
{
	u64 size = s->mask + 1;

	/* The room was read before it is written again: pairs with the reader's release. A tail only goes on. */
	s->safe = min(smp_load_acquire(&s->ring->tail) + size, (s->head & ~s->mask) + size);
	return s->head + n <= s->safe;
}

HIT bool dp_k_put_slowly(struct dp_k_sink *s, const u64 *head, const u64 *payload, u32 n)
{
	const u64 *comm = (const u64 *)current->comm;
	u64 at = s->head, used = at - smp_load_acquire(&s->ring->tail); /* pairs as in dp_k_more_room() */

	if (used > s->mask + 1 - n) {
		if (!s->overwrite)
			return false;
		give_up(s, at - used, n);
	}
	for (u32 i = 0; i < n / 8; i++, at += 8)
		*(u64 *)record_at(s, at) = i < 3 ? head[i] : i < n / 8 - 2 ? payload[i - 3] : comm[i - (n / 8 - 2)];
	s->head = at;
	smp_store_release(&s->ring->head, at); /* pairs with the reader's acquire */
	return true;
}

HIT void dp_k_unusual(const struct dp_k_prog *p, struct dp_hit *h, struct dp_counts *counts, u32 cpu, bool passed,
		      struct dp_k_waiting *w)
{
	bool exits = h->rec_flags & DP_REC_EXIT;

	counts->v[DP_COUNT_FAULTS] += h->faults;
	counts->v[DP_COUNT_EXCEPTIONS] += h->exceptions;
	/* A record beside the one that counts. */
	if (p->rt.ex_mask && !passed && dp_vm_trace(h)) {
		if (w)
			dp_k_waiting_hold(w, h);
		else
			dp_k_put(p, h, cpu);
	}
	if (unlikely(exits))
		dp_k_debugger_enter((struct pt_regs *)h->regs);
}

HIT void dp_k_interpret(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr)
{
	dp_k_run_waiting(p, regs, ret_addr, NULL);
}

/* ---- the control side ---- */

void dp_k_prog_init(struct dp_k_prog *p, const struct dp_program *prog, u32 event)
{
	dp_program_to_rt(prog, &p->rt);
	p->rt.code = (u64)prog->code;
	p->rt.logmax = min_t(u32, p->rt.logmax, DP_K_LOGMAX);
	kfree(p->plain);
	p->plain = dp_k_plain_make(prog, event);
	p->event = event;
	p->ret_at = prog->layout.has_ret_addr ? 8 * prog->layout.has_faultmask : -1;
}

void dp_k_prog_free(struct dp_k_prog *p)
{
	kfree(p->plain);
}

/* Changes the kernel or a process, or talks to hardware; its own variables and records are neither. */
static bool changes(const struct dp_program *prog)
{
	struct dp_op_view op;

	for (u32 at = 0; at < prog->len && !dp_op_decode(prog->code, prog->len, at, &op); at += op.len)
		switch (op.opcode) {
		case DP_OP_POP_R:
		case DP_OP_POP_U:
		case DP_OP_POP_MEM8:
		case DP_OP_POP_MEM16:
		case DP_OP_POP_MEM32:
		case DP_OP_POP_MEM64:
		case DP_OP_PUSH_IO8:
		case DP_OP_PUSH_IO16:
		case DP_OP_PUSH_IO32:
		case DP_OP_POP_IO8:
		case DP_OP_POP_IO16:
		case DP_OP_POP_IO32:
		case DP_OP_PUSH_MSR:
		case DP_OP_EXIT_TO:
			return true;
		}
	return false;
}

int dp_k_locked_down(const struct dp_program *prog, struct dp_error *err)
{
	if (!dp_k_sym.locked_down)
		return 0;
	if (dp_k_sym.locked_down(LOCKDOWN_KPROBES))
		return dp_fail(err, E_KERNEL_LOCKDOWN, "for confidentiality: it allows no probes");
	/* Who may write through /dev/mem may do this. */
	if (changes(prog) && dp_k_sym.locked_down(LOCKDOWN_DEV_MEM))
		return dp_fail(err, E_KERNEL_LOCKDOWN,
			       "for integrity: the program changes registers or memory, or talks to hardware");
	return 0;
}

int dp_k_by_id(const void *a, const void *b)
{
	s32 x = *(const s32 *)a, y = *(const s32 *)b;

	return x < y ? -1 : x > y;
}

int dp_k_run_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu(dp_k_vm, cpu) = kvzalloc(sizeof(struct dp_vm), GFP_KERNEL);
		if (!per_cpu(dp_k_vm, cpu)) {
			dp_k_run_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void dp_k_run_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kvfree(per_cpu(dp_k_vm, cpu));
}
