/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Kernel uprobes through perf_event_open, for the target only: counted, or sampled into a ring that is drained. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "contender-perf.h"

#define RING_PAGES 256 /* 1 MiB, as ours */
#define X86_REGS_DI_SI_DX_CX (1ull << 5 | 1ull << 4 | 1ull << 3 | 1ull << 2)

struct perf {
	int fd[2];
	int n;
	struct perf_event_mmap_page *ring;
	bench_u64 records, lost;
};

int bench_uprobe_type(char *why)
{
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (!f || fscanf(f, "%d", &type) != 1)
		snprintf(why, WHY_SIZE, "the kernel has no uprobe events (no uprobe in /sys/bus/event_source)");
	if (f)
		fclose(f);
	return type;
}

int bench_uprobe_open(const struct bench_target *t, const struct bench_place *p, bool is_return,
		      struct perf_event_attr *attr, char *why)
{
	int type = bench_uprobe_type(why), fd;

	if (type < 0)
		return -1;
	attr->type = (unsigned)type;
	attr->size = sizeof(*attr);
	attr->config = is_return;
	attr->uprobe_path = (bench_u64)p->path;
	attr->probe_offset = p->offset;
	fd = (int)syscall(SYS_perf_event_open, attr, t->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		snprintf(why, WHY_SIZE, "perf_event_open of a uprobe: %s", strerror(errno));
	return fd;
}

static void detach(struct bench_contender *c)
{
	struct perf *s = c->state;

	if (s->ring)
		munmap(s->ring, (RING_PAGES + 1) * 4096);
	for (int i = 0; i < s->n; i++)
		close(s->fd[i]);
	free(s);
	c->state = NULL;
}

/* text: a letter for each event, e for the entry, r for the return. */
static int attach_count(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	struct perf *s = calloc(1, sizeof(*s));

	c->state = s;
	for (const char *k = c->text; *k; k++) {
		struct perf_event_attr attr = {0};

		s->fd[s->n] = bench_uprobe_open(t, p, *k == 'r', &attr, why);
		if (s->fd[s->n] < 0) {
			detach(c);
			return -1;
		}
		s->n++;
	}
	return 0;
}

static bench_u64 count_hits(struct bench_contender *c)
{
	struct perf *s = c->state;
	bench_u64 sum = 0, v;

	for (int i = 0; i < s->n; i++)
		if (read(s->fd[i], &v, sizeof(v)) == sizeof(v))
			sum += v;
	return sum;
}

static int attach_ring(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	struct perf *s = calloc(1, sizeof(*s));
	struct perf_event_attr attr = {
	    .sample_period = 1,
	    .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
	    .wakeup_watermark = RING_PAGES * 4096 / 2,
	    .watermark = 1,
	};

	if (c->text[0] == 'a') {
		attr.sample_type |= PERF_SAMPLE_REGS_USER;
		attr.sample_regs_user = X86_REGS_DI_SI_DX_CX;
	}
	c->state = s;
	s->fd[0] = bench_uprobe_open(t, p, false, &attr, why);
	if (s->fd[0] < 0) {
		free(s);
		return -1;
	}
	s->n = 1;
	s->ring = mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd[0], 0);
	if (s->ring == MAP_FAILED) {
		snprintf(why, WHY_SIZE, "the ring of a perf event: %s", strerror(errno));
		s->ring = NULL;
		detach(c);
		return -1;
	}
	return 0;
}

static void drain_ring(struct bench_contender *c)
{
	struct perf *s = c->state;
	/* Pairs with the kernel's release of data_head. */
	bench_u64 head = __atomic_load_n(&s->ring->data_head, __ATOMIC_ACQUIRE), tail = s->ring->data_tail;
	const char *data = (const char *)s->ring + s->ring->data_offset;

	while (tail < head) {
		const struct perf_event_header *h = (const void *)(data + (tail & (s->ring->data_size - 1)));
		bench_u64 lost;

		if (h->type == PERF_RECORD_SAMPLE) {
			s->records++;
		} else if (h->type == PERF_RECORD_LOST) {
			/* header, id, lost: 24 bytes that may go over the end */
			memcpy(&lost, data + ((tail + 16) & (s->ring->data_size - 1)), 8);
			s->lost += lost;
		}
		tail += h->size;
	}
	/* Pairs with the kernel's acquire: we have read what it may now overwrite. */
	__atomic_store_n(&s->ring->data_tail, tail, __ATOMIC_RELEASE);
}

static bench_u64 ring_hits(struct bench_contender *c)
{
	struct perf *s = c->state;

	drain_ring(c);
	return s->records + s->lost;
}

static bench_u64 ring_lost(struct bench_contender *c)
{
	return ((struct perf *)c->state)->lost;
}

struct bench_contender bench_perf[] = {
    {.name = "uprobe, perf count",
     .job = JOB_HIT,
     .attach = attach_count,
     .detach = detach,
     .hits = count_hits,
     .text = "e",
     .hits_per_call = 1},
    {.name = "uretprobe, perf count",
     .job = JOB_PAIR,
     .attach = attach_count,
     .detach = detach,
     .hits = count_hits,
     .text = "r",
     .hits_per_call = 1},
    {.name = "uprobe, perf ring (no arguments)",
     .job = JOB_RECORD,
     .attach = attach_ring,
     .detach = detach,
     .drain = drain_ring,
     .hits = ring_hits,
     .lost = ring_lost,
     .text = "",
     .hits_per_call = 1},
    {.name = "uprobe, perf ring, 4 registers",
     .job = JOB_RECORD,
     .attach = attach_ring,
     .detach = detach,
     .drain = drain_ring,
     .hits = ring_hits,
     .lost = ring_lost,
     .text = "a",
     .hits_per_call = 1},
};
const size_t bench_perf_n = sizeof(bench_perf) / sizeof(bench_perf[0]);
