// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* See k-session.h. */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "k-session.h"
#include "log/rings.h"
#include "program/code.h"

#define MOST_PROBES 65536

/* ---- the hit ---- */

static HIT int on_probe(struct dp_kprobe *kp, struct pt_regs *regs)
{
	struct dp_k_session_probe *p = container_of(kp, struct dp_k_session_probe, rp.kp);
	unsigned long ip = dp_regs_ip(regs);

	if (!dp_k_session_wants(p)) {
		dp_k_pass(&p->run);
		return 0;
	}
	dp_k_run(&p->run, regs, 0);
	return dp_regs_ip(regs) != ip; /* a program may send control elsewhere */
}

static HIT int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	struct dp_k_session_probe *p = container_of(ri->rp, struct dp_k_session_probe, rp);

	dp_regs_spare(regs) = (unsigned long)ri->ret_addr; /* for `rp`; not used otherwise */
	if (dp_k_session_wants(p))
		dp_k_run(&p->run, regs, (u64)ri->ret_addr);
	else
		dp_k_pass(&p->run);
	return 0;
}

static HIT void on_watch(struct dp_kwatch *w, struct pt_regs *regs, void *addr)
{
	struct dp_k_session_probe *p = container_of(w, struct dp_k_session_probe, watch);

	if (dp_k_session_wants(p))
		dp_k_run_watch(&p->run, w, &p->last, regs);
	else
		dp_k_pass(&p->run);
}

struct dp_k_session *dp_k_session_of(const struct dp_registered *s)
{
	struct dp_kretprobe *rp = container_of(s->kp, struct dp_kretprobe, kp);

	if (s->type == 'r' ? rp->handler != on_return : s->kp->pre_handler != on_probe)
		return NULL;
	return container_of(rp, struct dp_k_session_probe, rp)->session;
}

struct dp_k_session *dp_k_session_of_watch(const struct dp_kwatch *w)
{
	return w->handler == on_watch ? container_of(w, struct dp_k_session_probe, watch)->session : NULL;
}

/* ---- adding ---- */

int dp_k_session_add(struct dp_k_session *s, struct dp_k_session_probe *p)
{
	if (s->nprobes == s->cap) {
		u32 cap = max(64u, s->cap * 2);
		void *v = s->cap < MOST_PROBES
			      ? dp_resize(s->probes, s->cap * sizeof(*s->probes), cap * sizeof(*s->probes))
			      : NULL;

		if (!v)
			return -ENOMEM;
		s->probes = v;
		s->cap = cap;
	}
	p->session = s;
	s->probes[s->nprobes++] = p;
	return 0;
}

void dp_k_session_probe_free(struct dp_k_session_probe *p)
{
	if (!p)
		return;
	dp_k_user_close(p);
	dp_k_code_free(&p->code);
	dp_k_prog_free(&p->run);
	dp_program_free(&p->prog);
	kfree(p);
}

/* ---- arming ---- */

static int make_area(struct dp_k_session *s, u64 ring_size, u32 nwords, const u64 *words)
{
	u64 words_off = PAGE_ALIGN(dp_rings_size(nr_cpu_ids, nr_cpu_ids, s->nprobes, ring_size));
	int cpu;

	s->size = PAGE_ALIGN(words_off + nwords * sizeof(*words));
	if (s->size >> PAGE_SHIFT > totalram_pages() / 2)
		return -ENOMEM;
	s->area = vmalloc_user(s->size);
	s->sinks = kcalloc(nr_cpu_ids, sizeof(*s->sinks), GFP_KERNEL);
	if (!s->area || !s->sinks)
		return -ENOMEM;
	dp_rings_init(&s->g, nr_cpu_ids, nr_cpu_ids, s->nprobes, ring_size);
	s->g.owner_pid = s->pid;
	memcpy(s->area, &s->g, sizeof(s->g));
	if (nwords)
		memcpy(s->area + words_off, words, nwords * sizeof(*words));
	for_each_possible_cpu(cpu) {
		struct dp_k_sink *k = &s->sinks[cpu];

		k->ring = s->area + s->g.rings_off + cpu * s->g.ring_stride;
		k->data = (u8 *)k->ring + PAGE_SIZE;
		k->mask = ring_size - 1;
	}
	return 0;
}

/* A program may send control elsewhere: it sets ip, or lets a debugger set it. */
static bool sets_ip(const struct dp_program *prog)
{
	struct dp_op_view op;

	if (dp_program_exits_to(prog, DP_EXIT_KDB))
		return true;
	for (u32 at = 0; at < prog->len && !dp_op_decode(prog->code, prog->len, at, &op); at += op.len) {
		const struct dp_register *reg = op.opcode == DP_OP_POP_R
						    ? dp_register_by_number((u32)dp_op_operand(&op, DP_KIND_REGW))
						    : NULL;

		if (reg && reg->reg_word == offsetof(struct dp_regs, ip) / 8)
			return true;
	}
	return false;
}

static void make_ready(struct dp_k_session *s, u32 i, u64 words)
{
	struct dp_k_session_probe *p = s->probes[i];
	struct dp_k_prog *run = &p->run;

	dp_k_prog_init(run, &p->prog, i);
	run->probe_flags = p->is_return ? DP_PROBE_RETURN : 0;
	run->stacks = s->stacks;
	run->sinks = s->sinks;
	run->counts = s->area + s->g.counts_off + i * sizeof(struct dp_counts);
	run->counts_stride = s->g.counts_stride;
	/* Of every kind of program: the interpreter trusts that variables are where the verifier let it look. */
	run->rt.locals = p->prog.nlocals ? words + 8ull * p->locals : 0;
	run->rt.globals = p->prog.nglobals ? words + 8ull * p->globals : 0;
	run->rt.gate = p->prog.rpn.ex_mask ? words + 8ull * p->gate : 0;
	if (i && dp_k_compiles_alike(run, &s->probes[i - 1]->run))
		run->rt.compiled = s->probes[i - 1]->run.rt.compiled;
	else
		dp_k_compile(run, &p->code);
	if (p->is_return)
		p->rp.handler = on_return;
	else
		p->rp.kp.pre_handler = on_probe;
	p->rp.kp.flags = DP_KPROBE_FLAG_AGAIN | (sets_ip(&p->prog) ? 0 : DP_KPROBE_FLAG_STAYS);
}

/* The kernel's probes of a kind, one behind the other. */
static int collect(struct dp_k_session *s, bool is_return, struct dp_kprobe **v)
{
	int n = 0;

	for (u32 i = 0; i < s->nprobes; i++)
		if (s->probes[i]->is_return == is_return && !s->probes[i]->inode && !s->probes[i]->watch.len &&
		    !dp_k_is_traced(s->probes[i]))
			v[n++] = &s->probes[i]->rp.kp;
	return n;
}

static void unwatch(struct dp_k_session *s)
{
	for (u32 i = 0; i < s->nprobes; i++)
		dp_unregister_kwatch(&s->probes[i]->watch);
}

static int watch(struct dp_k_session *s, struct dp_error *err)
{
	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_k_session_probe *p = s->probes[i];

		if (!p->watch.len)
			continue;
		p->watch.handler = on_watch;
		if (copy_from_kernel_nofault(&p->last, p->watch.addr, p->watch.len))
			p->last = 0;
		if (dp_register_kwatch(&p->watch)) {
			char held[160];

			dp_fail(err, dp_error_by_name(p->watch.refusal), "%s at %px; this module watches %s", p->place,
				(void *)p->watch.addr, dp_k_watch_holders(held, sizeof(held)));
			unwatch(s);
			return -dp_error_info(err->code)->number;
		}
	}
	return 0;
}

int dp_k_session_arm(struct dp_k_session *s, struct dp_dev_arm *arm, const u64 *words, struct dp_error *err)
{
	struct dp_kprobe **v = dp_alloc(s->nprobes * sizeof(*v));
	int n, r = v ? make_area(s, arm->ring_size, arm->nwords, words) : -ENOMEM;

	if (r) {
		dp_free(v);
		return dp_fail(err, E_ARM_NOMEM, "the log");
	}
	arm->size = s->size;
	arm->words_off = PAGE_ALIGN(s->g.size);
	for (u32 i = 0; i < s->nprobes; i++)
		make_ready(s, i, (u64)s->area + arm->words_off);
	n = collect(s, false, v);
	r = n ? dp_k_register(v, n, 'k', err) : 0;
	if (!r) {
		n = collect(s, true, v);
		r = n ? dp_k_register(v, n, 'r', err) : 0;
	}
	for (u32 i = 0; i < s->nprobes && !r; i++)
		if (s->probes[i]->inode)
			r = dp_k_user_arm(s->probes[i], err);
	if (!r)
		r = dp_k_tracepoints_arm(s, err);
	if (!r)
		r = watch(s, err);
	dp_free(v);
	smp_store_release(&s->armed, true); /* pairs with the acquire in device_mmap() */
	if (r) {
		dp_k_session_disarm(s); /* those that are not there do no harm */
		s->armed = false;
	}
	return r;
}

/* The hit path counts recursion elsewhere; nothing else writes to that count of the first ring. */
void dp_k_session_sync(struct dp_k_session *s)
{
	for (u32 i = 0; s->armed && i < s->nprobes; i++) {
		const struct dp_kretprobe *rp = &s->probes[i]->rp;

		if (s->probes[i]->watch.len) {
			dp_k_counts(&s->probes[i]->run, 0)->v[DP_COUNT_MISSED] = s->probes[i]->watch.nmissed;
			continue;
		}
		dp_k_counts(&s->probes[i]->run, 0)->v[DP_COUNT_MISSED] = rp->kp.nmissed + (s->probes[i]->is_return
											       ? (u32)rp->nmissed
											       : 0);
	}
}

void dp_k_session_disarm(struct dp_k_session *s)
{
	struct dp_kprobe **v;

	if (!s->armed || s->disarmed)
		return;
	s->disarmed = true;
	for (u32 i = 0; i < s->nprobes; i++)
		dp_k_user_disarm(s->probes[i]);
	dp_k_tracepoints_disarm(s);
	unwatch(s);
	v = dp_alloc(s->nprobes * sizeof(*v));
	for (u32 i = 0; !v && i < s->nprobes; i++) { /* slower, but without memory */
		struct dp_kprobe *kp = &s->probes[i]->rp.kp;

		if (!s->probes[i]->inode && !dp_k_is_traced(s->probes[i]))
			dp_k_unregister(&kp, 1);
	}
	if (v)
		dp_k_unregister(v, collect(s, false, v));
	if (v)
		dp_k_unregister(v, collect(s, true, v));
	dp_free(v);
	dp_k_session_sync(s);
}

void dp_k_session_free(struct dp_k_session *s)
{
	dp_k_session_disarm(s);
	for (u32 i = 0; i < s->nprobes; i++)
		dp_k_session_probe_free(s->probes[i]);
	dp_free(s->probes);
	dp_free(s->calls);
	dp_k_stacks_free(s->stacks);
	dp_k_family_end(s);
	kfree(s->pids);
	kfree(s->sinks);
	vfree(s->area);
	kfree(s);
}
