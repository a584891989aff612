// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The log of the event files: one ring for each processor (run.h). A full ring gives up its oldest
 * records, unless a reader takes them (trace_pipe): then the new one is lost.
 */
#include <linux/cpumask.h>
#include <linux/trace_clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "k-event.h"

#include <asm/msr.h>
#include <asm/tsc.h>

#define LEAST_KB 8u
#define MOST_KB (1u << 18)

static unsigned int buffer_kb = 1024;
module_param(buffer_kb, uint, 0400);
MODULE_PARM_DESC(buffer_kb, "log of each processor in KiB, a power of two");

static u64 ring_size;
static u32 shown_kb;           /* the size that the rings have, or will have with the first event */
struct dp_k_sink *dp_k_sinks;  /* by processor */
static DEFINE_MUTEX(log_lock); /* who reads, clears or replaces the rings */
static u32 takers;             /* under it */
static bool ready;             /* under it: the rings have their size */

static __always_inline struct dp_record *record_at(const struct dp_k_sink *s, u64 at)
{
	return (struct dp_record *)(s->data + (at & s->mask));
}

static void copy_bytes(const struct dp_k_sink *s, u64 at, u8 *to, u64 n)
{
	u64 first = min(n, ring_size - (at & s->mask));

	memcpy(to, record_at(s, at), first);
	memcpy(to + first, s->data, n - first);
}

/* All records of a processor, or those that fit into max bytes. */
static int copy_out(struct dp_k_sink *s, struct dp_k_log *log, int cpu, u64 max)
{
	struct dp_ring *r = s->ring;
	/* Pairs with the release of dp_k_commit(): the records before head are whole. */
	u64 head = smp_load_acquire(&r->head), tail = READ_ONCE(r->tail), n = min(head - tail, max), now;
	u8 *buf = kvmalloc(n ? n : 1, GFP_KERNEL);

	if (!buf)
		return -ENOMEM;
	copy_bytes(s, tail, buf, n);
	smp_rmb();                /* pairs with the barrier in give_up() */
	now = READ_ONCE(r->tail); /* what was written over meanwhile was copied in pieces */
	log->buf[cpu] = buf;
	log->at[cpu] = now - tail > n ? n : now - tail;
	log->end[cpu] = n;
	log->from[cpu] = tail;
	log->entries_written += max ? READ_ONCE(s->overwritten) : 0;
	return 0;
}

int dp_k_log_read(struct dp_k_log *log, u64 max, int only)
{
	int cpu, r = 0;

	memset(log, 0, sizeof(*log));
	log->buf = kcalloc(nr_cpu_ids, 4 * sizeof(u64), GFP_KERNEL);
	if (!log->buf)
		return -ENOMEM;
	log->at = (u64 *)log->buf + nr_cpu_ids;
	log->end = log->at + nr_cpu_ids;
	log->from = log->end + nr_cpu_ids;
	mutex_lock(&log_lock);
	for_each_possible_cpu(cpu)
		if (!r)
			r = copy_out(&dp_k_sinks[cpu], log, cpu, only < 0 || cpu == only ? max : 0);
	mutex_unlock(&log_lock);
	log->ns = trace_clock_local();
	log->stamp = rdtsc_ordered();
	if (r)
		dp_k_log_free(log);
	return r;
}

/* Stamps are converted by what both clocks showed when the log was read. */
static u64 local_ns(const struct dp_k_log *log, u64 stamp)
{
	u64 ago = log->stamp > stamp ? log->stamp - stamp : 0;

	ago = mul_u64_u32_div(ago, 1000000, tsc_khz ? tsc_khz : 1);
	return log->ns > ago ? log->ns - ago : 0;
}

/* The oldest record that was not shown yet; one that is not whole ends its processor's. */
struct dp_record *dp_k_log_next(struct dp_k_log *log)
{
	struct dp_record *best = NULL;
	int cpu, of = 0;

	for_each_possible_cpu(cpu) {
		struct dp_record *rec = (void *)(log->buf[cpu] + log->at[cpu]);
		u64 left = log->end[cpu] - log->at[cpu];

		if (left < sizeof(*rec) || rec->len < sizeof(*rec) || rec->len > left)
			continue;
		if (!best || rec->tsc < best->tsc) {
			best = rec;
			of = cpu;
		}
	}
	if (best) {
		log->at[of] += best->len;
		best->tsc = local_ns(log, best->tsc);
	}
	return best;
}

/* What was shown is taken out of the rings. Only between dp_k_take_begin() and _end(). */
void dp_k_log_taken(struct dp_k_log *log)
{
	int cpu;

	mutex_lock(&log_lock);
	for_each_possible_cpu(cpu) {
		struct dp_ring *r = dp_k_sinks[cpu].ring;
		u64 taken = log->from[cpu] + log->at[cpu];

		/* Pairs with the acquire of dp_k_more_room(): what was copied may be written over from now on. */
		if (taken > r->tail) /* else it was cleared meanwhile */
			smp_store_release(&r->tail, taken);
	}
	mutex_unlock(&log_lock);
}

void dp_k_log_free(struct dp_k_log *log)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kvfree(log->buf ? log->buf[cpu] : NULL);
	kfree(log->buf);
	log->buf = NULL;
}

static void set_overwrite(bool on)
{
	int cpu;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(dp_k_sinks[cpu].overwrite, on);
}

int dp_k_take_begin(void)
{
	int r = dp_k_ring_ready(); /* they stay as they are while records are taken */

	if (r)
		return r;
	mutex_lock(&log_lock);
	if (!takers++) {
		set_overwrite(false);
		synchronize_rcu(); /* producers that may still move the tail are through */
	}
	mutex_unlock(&log_lock);
	return 0;
}

void dp_k_take_end(void)
{
	mutex_lock(&log_lock);
	if (!--takers)
		set_overwrite(true);
	mutex_unlock(&log_lock);
}

static void clear_this(void *arg)
{
	struct dp_k_sink *s = &dp_k_sinks[raw_smp_processor_id()];

	s->ring->tail = s->head; /* what was safe still is */
	s->overwritten = 0;
}

void dp_k_log_clear(int cpu)
{
	mutex_lock(&log_lock);
	if (cpu < 0)
		on_each_cpu(clear_this, NULL, 1);
	else
		smp_call_function_single(cpu, clear_this, NULL, 1); /* one that is off has nobody who would mind */
	mutex_unlock(&log_lock);
}

static void free_rings(struct dp_ring **rings)
{
	int cpu;

	for_each_possible_cpu(cpu)
		vfree(rings[cpu]);
	kfree(rings);
}

static struct dp_ring **new_rings(u64 size)
{
	struct dp_ring **rings = kcalloc(nr_cpu_ids, sizeof(*rings), GFP_KERNEL);
	int cpu;

	if (!rings)
		return NULL;
	for_each_possible_cpu(cpu) {
		rings[cpu] = vzalloc(PAGE_SIZE + size);
		if (!rings[cpu]) {
			free_rings(rings);
			return NULL;
		}
	}
	return rings;
}

/* Empty ones, of that size, in the place of those that are there: these are in rings afterwards. */
static void exchange_rings(struct dp_ring **rings, u64 size)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct dp_ring *old = dp_k_sinks[cpu].ring;

		dp_k_sinks[cpu] = (struct dp_k_sink){
		    .ring = rings[cpu], .data = (u8 *)rings[cpu] + PAGE_SIZE, .mask = size - 1, .overwrite = true};
		rings[cpu] = old;
	}
	ring_size = size;
}

u32 dp_k_ring_kb(void)
{
	return READ_ONCE(shown_kb);
}

static u64 size_of(u32 kb)
{
	return roundup_pow_of_two(clamp(kb, LEAST_KB, MOST_KB)) * 1024ull;
}

/* first: unless it was done already. */
static int put_rings(u64 size, bool first)
{
	struct dp_ring **rings = new_rings(size);
	int r = 0;

	if (!rings)
		return -ENOMEM;
	mutex_lock(&log_lock);
	if (takers && !(first && ready))
		r = -EBUSY;
	else if (!(first && ready))
		exchange_rings(rings, size);
	if (!r) {
		WRITE_ONCE(shown_kb, (u32)(ring_size / 1024));
		ready = true;
	}
	mutex_unlock(&log_lock);
	free_rings(rings);
	return r;
}

int dp_k_ring_resize(u32 kb)
{
	return put_rings(size_of(kb), false);
}

int dp_k_ring_ready(void)
{
	bool is;

	mutex_lock(&log_lock);
	is = ready;
	mutex_unlock(&log_lock);
	return is ? 0 : put_rings(size_of(buffer_kb), true);
}

/* Small ones: most who load the module use no event files. */
int dp_k_ring_init(void)
{
	struct dp_ring **rings;

	dp_k_sinks = kcalloc(nr_cpu_ids, sizeof(*dp_k_sinks), GFP_KERNEL);
	rings = dp_k_sinks ? new_rings(size_of(0)) : NULL;
	if (!rings) {
		kfree(dp_k_sinks);
		return -ENOMEM;
	}
	exchange_rings(rings, size_of(0));
	free_rings(rings);
	shown_kb = (u32)(size_of(buffer_kb) / 1024);
	return 0;
}

void dp_k_ring_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		vfree(dp_k_sinks[cpu].ring);
	kfree(dp_k_sinks);
}
