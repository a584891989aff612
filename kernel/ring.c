// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The log: one ring for each processor, in the layout of the process host's. Hits do not nest, so
 * each has one producer. A full ring gives up its oldest records, unless a reader takes them
 * (trace_pipe): then the new one is lost.
 */
#include <linux/cpumask.h>
#include <linux/trace_clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "event.h"

static unsigned int buffer_kb = 1024;
module_param(buffer_kb, uint, 0400);
MODULE_PARM_DESC(buffer_kb, "log of each processor in KiB, a power of two");

static u64 ring_size;
static DEFINE_PER_CPU(struct dp_ring *, ring);
static DEFINE_PER_CPU(u64, overwritten); /* records */
static int takers;                       /* readers that take records */
bool dp_k_tracing = true;

static __always_inline u8 *data_of(struct dp_ring *r)
{
	return (u8 *)r + PAGE_SIZE;
}

static __always_inline struct dp_record *record_at(struct dp_ring *r, u64 at)
{
	return (struct dp_record *)(data_of(r) + (at & (ring_size - 1)));
}

HIT bool dp_k_commit(struct dp_record *rec)
{
	struct dp_ring *r = __this_cpu_read(ring);
	u64 head = r->head, tail = READ_ONCE(r->tail), mask = ring_size - 1;
	const u64 *words = (const u64 *)rec;

	rec->cpu = raw_smp_processor_id();
	rec->tsc = trace_clock_local();
	while (unlikely(head - tail + rec->len > ring_size)) {
		if (READ_ONCE(takers))
			return false;
		tail += record_at(r, tail)->len;
		__this_cpu_inc(overwritten);
		/* Known to be gone before it is written over: pairs with the barrier in copy_out().
		 */
		WRITE_ONCE(r->tail, tail);
		smp_wmb();
	}
	for (u32 i = 0; i < rec->len; i += 8)
		*(u64 *)(data_of(r) + ((head + i) & mask)) = words[i / 8];
	smp_store_release(&r->head, head + rec->len); /* pairs with the acquire in copy_out() */
	return true;
}

static void copy_bytes(struct dp_ring *r, u64 at, u8 *to, u64 n)
{
	u64 first = min(n, ring_size - (at & (ring_size - 1)));

	memcpy(to, record_at(r, at), first);
	memcpy(to + first, data_of(r), n - first);
}

/* All records of a processor, or those that fit into max bytes. */
static int copy_out(struct dp_ring *r, struct dp_k_log *log, int cpu, u64 max)
{
	u64 head = smp_load_acquire(&r->head), tail = READ_ONCE(r->tail), n = min(head - tail, max),
	    now;
	u8 *buf = kvmalloc(n ? n : 1, GFP_KERNEL);

	if (!buf)
		return -ENOMEM;
	copy_bytes(r, tail, buf, n);
	smp_rmb();
	now = READ_ONCE(r->tail); /* what was written over meanwhile was copied in pieces */
	log->buf[cpu] = buf;
	log->at[cpu] = now - tail > n ? n : now - tail;
	log->end[cpu] = n;
	log->from[cpu] = tail;
	log->entries_written += per_cpu(overwritten, cpu);
	return 0;
}

int dp_k_log_read(struct dp_k_log *log, u64 max)
{
	int cpu, r = 0;

	memset(log, 0, sizeof(*log));
	log->buf = kcalloc(nr_cpu_ids, 4 * sizeof(u64), GFP_KERNEL);
	if (!log->buf)
		return -ENOMEM;
	log->at = (u64 *)log->buf + nr_cpu_ids;
	log->end = log->at + nr_cpu_ids;
	log->from = log->end + nr_cpu_ids;
	for_each_possible_cpu(cpu) if (!r) r = copy_out(per_cpu(ring, cpu), log, cpu, max);
	if (r)
		dp_k_log_free(log);
	return r;
}

/* The oldest record that was not shown yet; one that is not whole ends its processor's. */
const struct dp_record *dp_k_log_next(struct dp_k_log *log)
{
	const struct dp_record *best = NULL;
	int cpu, of = 0;

	for_each_possible_cpu(cpu)
	{
		const struct dp_record *rec = (const void *)(log->buf[cpu] + log->at[cpu]);
		u64 left = log->end[cpu] - log->at[cpu];

		if (left < sizeof(*rec) || rec->len < sizeof(*rec) || rec->len > left)
			continue;
		if (!best || rec->tsc < best->tsc) {
			best = rec;
			of = cpu;
		}
	}
	if (best)
		log->at[of] += best->len;
	return best;
}

/* What was shown is taken out of the rings. Only between dp_k_take_begin() and _end(). */
void dp_k_log_taken(struct dp_k_log *log)
{
	int cpu;

	for_each_possible_cpu(cpu)
	    smp_store_release(&per_cpu(ring, cpu)->tail, log->from[cpu] + log->at[cpu]);
}

void dp_k_log_free(struct dp_k_log *log)
{
	int cpu;

	for_each_possible_cpu(cpu) kvfree(log->buf ? log->buf[cpu] : NULL);
	kfree(log->buf);
	log->buf = NULL;
}

void dp_k_take_begin(void)
{
	WRITE_ONCE(takers, 1);
	synchronize_rcu(); /* producers that may still move the tail are through */
}

void dp_k_take_end(void)
{
	WRITE_ONCE(takers, 0);
}

static void clear_this(void *arg)
{
	struct dp_ring *r = __this_cpu_read(ring);

	r->tail = r->head;
	__this_cpu_write(overwritten, 0);
}

void dp_k_log_clear(void)
{
	on_each_cpu(clear_this, NULL, 1);
}

int dp_k_ring_init(void)
{
	int cpu;

	ring_size = roundup_pow_of_two(clamp(buffer_kb, 8u, 1u << 18)) * 1024ull;
	for_each_possible_cpu(cpu)
	{
		per_cpu(ring, cpu) = vmalloc_user(PAGE_SIZE + ring_size);
		if (!per_cpu(ring, cpu)) {
			dp_k_ring_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void dp_k_ring_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) vfree(per_cpu(ring, cpu));
}
