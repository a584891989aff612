// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* See run.h. All of it is hit path but the beginning and the end. */
#include <linux/slab.h>

#include "run.h"
#include "program/opcode.h"

#include <asm/msr.h>

static DEFINE_PER_CPU(struct dp_vm *, vm);
static const struct dp_control control; /* processes have one; nothing in it means anything here */

static __always_inline struct dp_record *record_at(struct dp_k_sink *s, u64 at)
{
	return (struct dp_record *)(s->data + (at & s->mask));
}

/* Room for n bytes by giving up the oldest records. Only where nobody maps the ring. */
static HIT u64 give_up(struct dp_k_sink *s, u64 tail, u32 n)
{
	while (s->head - tail + n > s->mask + 1) {
		tail += record_at(s, tail)->len;
		s->overwritten++;
	}
	/* Known to be gone before it is written over: pairs with the barrier in copy_out(). */
	WRITE_ONCE(s->ring->tail, tail);
	smp_wmb();
	return tail;
}

static __always_inline bool put(struct dp_k_sink *s, const u64 *words, u32 n)
{
	/* The room was read before it is written again: pairs with the reader's release. */
	u64 head = s->head, used = head - smp_load_acquire(&s->ring->tail);

	if (unlikely(used > s->mask + 1 - n)) {
		if (!s->overwrite)
			return false;
		give_up(s, head - used, n);
	}
	if (likely((head & s->mask) + n <= s->mask + 1)) {
		u64 *to = (u64 *)record_at(s, head);

		for (u32 i = 0; i < n / 8; i++)
			to[i] = words[i];
	} else {
		for (u32 i = 0; i < n; i += 8)
			*(u64 *)(s->data + ((head + i) & s->mask)) = words[i / 8];
	}
	s->head = head + n;
	smp_store_release(&s->ring->head, head + n); /* pairs with the reader's acquire */
	return true;
}

static __always_inline bool commit(const struct dp_k_prog *p, struct dp_hit *h, u32 cpu)
{
	struct dp_record *rec = (struct dp_record *)h->vm->record;
	u8 *payload = (u8 *)(rec + 1);
	u32 n = DP_ALIGN_UP(h->log_len, 8u), flags = h->rec_flags;

	if (n != h->log_len)
		memset(payload + h->log_len, 0, n - h->log_len);
	memcpy(payload + n, current->comm, DP_COMM_SIZE); /* tasks that are gone cannot be asked */
	n += DP_COMM_SIZE;
	flags |= DP_REC_COMM;
	rec->len = (u16)(sizeof(*rec) + n);
	rec->flags = (u16)flags;
	rec->event = p->event;
	rec->tid = current->pid;
	rec->cpu = cpu;
	rec->tsc = rdtsc_ordered();
	return put(&p->sinks[cpu], (const u64 *)rec, rec->len);
}

HIT void dp_k_run(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr)
{
	u32 cpu = raw_smp_processor_id();
	struct dp_counts *counts = dp_k_counts(p, cpu);
	struct dp_hit h = {.regs = (struct dp_regs *)regs,
			   .vm = __this_cpu_read(vm),
			   .ctl = &control,
			   .prog = &p->rt,
			   .tid = current->pid,
			   .flags = p->probe_flags};
	enum dp_run_result r = dp_vm_run(&h);
	enum dp_count outcome = DP_COUNT_FILTERED;

	if (likely(r == DP_RUN_LOG)) {
		if (p->ret_at >= 0)
			memcpy((u8 *)h.vm->record + sizeof(struct dp_record) + p->ret_at, &ret_addr, 8);
		outcome = commit(p, &h, cpu) ? DP_COUNT_RECORDED : DP_COUNT_LOST;
	} else if (r == DP_RUN_PASSED) {
		outcome = DP_COUNT_PASSED;
	}
	counts->v[outcome]++;
	if (unlikely(h.faults | h.exceptions)) {
		counts->v[DP_COUNT_FAULTS] += h.faults;
		counts->v[DP_COUNT_EXCEPTIONS] += h.exceptions;
	}
	/* A record beside the one that counts. */
	if (unlikely(p->rt.ex_mask) && r != DP_RUN_PASSED && dp_vm_trace(&h))
		commit(p, &h, cpu);
}

/* ---- the control side ---- */

void dp_k_prog_init(struct dp_k_prog *p, const struct dp_program *prog)
{
	dp_program_to_rt(prog, &p->rt);
	p->rt.code = (u64)prog->code;
	p->rt.logmax = min_t(u32, p->rt.logmax, DP_LOGMAX - DP_COMM_SIZE);
	p->ret_at = prog->layout.has_ret_addr ? 8 * prog->layout.has_faultmask : -1;
}

int dp_k_run_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
	{
		per_cpu(vm, cpu) = kvzalloc(sizeof(struct dp_vm), GFP_KERNEL);
		if (!per_cpu(vm, cpu)) {
			dp_k_run_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void dp_k_run_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) kvfree(per_cpu(vm, cpu));
}
