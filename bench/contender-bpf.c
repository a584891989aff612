/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kernel uprobes with a BPF program, the cheapest way to record from one: written in raw
 * instructions, so that neither a BPF compiler nor a library is needed.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "contender-perf.h"

#define RING_SIZE (1u << 20) /* as ours */
#define PAGE 4096u

enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP };

/* struct pt_regs */
enum { CTX_CX = 88, CTX_DX = 96, CTX_SI = 104, CTX_DI = 112 };

#define LOAD(dst, src, o)                                  \
	{                                                  \
		BPF_LDX | BPF_MEM | BPF_DW, dst, src, o, 0 \
	}
#define STORE(dst, o, src)                                 \
	{                                                  \
		BPF_STX | BPF_MEM | BPF_DW, dst, src, o, 0 \
	}
#define MOVE(dst, src)                                      \
	{                                                   \
		BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0 \
	}
#define MOVE_K(dst, k)                                    \
	{                                                 \
		BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, k \
	}
#define CALL(f)                                \
	{                                      \
		BPF_JMP | BPF_CALL, 0, 0, 0, f \
	}
#define JEQ_K(dst, k, o)                                \
	{                                               \
		BPF_JMP | BPF_JEQ | BPF_K, dst, 0, o, k \
	}
#define JLE(dst, src, o)                                  \
	{                                                 \
		BPF_JMP | BPF_JLE | BPF_X, dst, src, o, 0 \
	}
#define ADD_K(dst, k)                                     \
	{                                                 \
		BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, k \
	}
#define LOAD_K64(dst, k)                                  \
	{BPF_LD | BPF_DW | BPF_IMM, dst, 0, 0, (int)(k)}, \
	{                                                 \
		0, 0, 0, 0, (int)((k) >> 32)              \
	}
#define EXIT                                   \
	{                                      \
		BPF_JMP | BPF_EXIT, 0, 0, 0, 0 \
	}

/* Time, thread, processor and four registers into the ring: 56 bytes. */
#define RECORD                                                                                                        \
	CALL(BPF_FUNC_ktime_get_ns), MOVE(R7, R0), CALL(BPF_FUNC_get_current_pid_tgid), MOVE(R8, R0),                 \
	    {BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, 0, 0}, {0, 0, 0, 0, 0}, MOVE_K(R2, 56), MOVE_K(R3, 0), \
	    CALL(BPF_FUNC_ringbuf_reserve), JEQ_K(R0, 0, 16), MOVE(R9, R0), STORE(R9, 0, R7), STORE(R9, 8, R8),       \
	    CALL(BPF_FUNC_get_smp_processor_id), STORE(R9, 16, R0), LOAD(R1, R6, CTX_DI), STORE(R9, 24, R1),          \
	    LOAD(R1, R6, CTX_SI), STORE(R9, 32, R1), LOAD(R1, R6, CTX_DX), STORE(R9, 40, R1), LOAD(R1, R6, CTX_CX),   \
	    STORE(R9, 48, R1), MOVE(R1, R9), MOVE_K(R2, BPF_RB_NO_WAKEUP), CALL(BPF_FUNC_ringbuf_submit),             \
	    MOVE_K(R0, 0), EXIT

static const struct bpf_insn record_code[] = {MOVE(R6, R1), RECORD};
static const struct bpf_insn filter_code[] = {MOVE(R6, R1), LOAD(R1, R6, CTX_DI), LOAD_K64(R2, 0x7fffffffffffull),
					      JLE(R1, R2, 26), RECORD};
static const struct bpf_insn empty_code[] = {MOVE_K(R0, 0), EXIT};

struct bpf {
	int map, prog[2], event[2], n;
	unsigned long *consumer;       /* one page, ours to write */
	const unsigned long *producer; /* one page, then the data twice */
	bench_u64 records;
};

static int sys_bpf(int cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static int load(const struct bpf_insn *code, size_t n, int map, bool is_return, char *why)
{
	struct bpf_insn v[64];
	char log[2048] = "";
	union bpf_attr attr = {0};
	int fd;

	(void)is_return;
	memcpy(v, code, n * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		if (v[i].code == (BPF_LD | BPF_DW | BPF_IMM) && v[i].src_reg == BPF_PSEUDO_MAP_FD)
			v[i].imm = map;
	attr.prog_type = BPF_PROG_TYPE_KPROBE;
	attr.insns = (bench_u64)v;
	attr.insn_cnt = (unsigned)n;
	attr.license = (bench_u64) "Dual MIT/GPL";
	fd = sys_bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0) {
		int code_of = errno;

		attr.log_buf = (bench_u64)log;
		attr.log_size = sizeof(log);
		attr.log_level = 1;
		sys_bpf(BPF_PROG_LOAD, &attr);
		if (getenv("BENCH_VERBOSE"))
			fputs(log, stderr);
		snprintf(why, WHY_SIZE, "loading a BPF program: %s", strerror(code_of));
	}
	return fd;
}

static void detach(struct bench_contender *c)
{
	struct bpf *s = c->state;

	for (int i = 0; i < s->n; i++) {
		close(s->event[i]);
		close(s->prog[i]);
	}
	if (s->consumer)
		munmap(s->consumer, PAGE);
	if (s->producer)
		munmap((void *)s->producer, PAGE + 2ul * RING_SIZE);
	if (s->map >= 0)
		close(s->map);
	free(s);
	c->state = NULL;
}

static int make_ring(struct bpf *s, char *why)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_RINGBUF, .max_entries = RING_SIZE};

	s->map = sys_bpf(BPF_MAP_CREATE, &attr);
	if (s->map < 0) {
		snprintf(why, WHY_SIZE, "creating a BPF ring buffer: %s", strerror(errno));
		return -1;
	}
	s->consumer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->map, 0);
	s->producer = mmap(NULL, PAGE + 2ul * RING_SIZE, PROT_READ, MAP_SHARED, s->map, PAGE);
	if (s->consumer == MAP_FAILED || s->producer == MAP_FAILED) {
		snprintf(why, WHY_SIZE, "mapping a BPF ring buffer: %s", strerror(errno));
		s->consumer = s->consumer == MAP_FAILED ? NULL : s->consumer;
		s->producer = s->producer == MAP_FAILED ? NULL : s->producer;
		return -1;
	}
	return 0;
}

/* A program on one event: entry or return. */
static int add(struct bpf *s, const struct bpf_insn *code, size_t n, const struct bench_target *t,
	       const struct bench_place *p, bool is_return, char *why)
{
	struct perf_event_attr attr = {.sample_period = 1, .wakeup_events = 1};
	int prog = load(code, n, s->map, is_return, why), event;

	if (prog < 0)
		return -1;
	event = bench_uprobe_open(t, p, is_return, &attr, why);
	if (event < 0) {
		close(prog);
		return -1;
	}
	s->prog[s->n] = prog;
	s->event[s->n++] = event;
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog)) {
		snprintf(why, WHY_SIZE, "attaching a BPF program: %s", strerror(errno));
		return -1;
	}
	return 0;
}

/* text: 0 nothing, f a false filter, e record at entry, r record at return. */
static int attach(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct bpf *s = calloc(1, sizeof(*s));
	int r = 0;

	setrlimit(RLIMIT_MEMLOCK, &all);
	s->map = -1;
	c->state = s;
	if (c->text[0] != '0')
		r = make_ring(s, why);
	for (const char *k = c->text; *k && !r; k++) {
		if (*k == '0')
			r = add(s, empty_code, sizeof(empty_code) / sizeof(*empty_code), t, p, false, why);
		else if (*k == 'f')
			r = add(s, filter_code, sizeof(filter_code) / sizeof(*filter_code), t, p, false, why);
		else
			r = add(s, record_code, sizeof(record_code) / sizeof(*record_code), t, p, *k == 'r', why);
	}
	if (r)
		detach(c);
	return r;
}

static void drain(struct bench_contender *c)
{
	struct bpf *s = c->state;
	unsigned long at = *s->consumer;
	/* Pairs with the kernel's release of the producer position. */
	unsigned long end = __atomic_load_n(s->producer, __ATOMIC_ACQUIRE);
	const char *data = (const char *)s->producer + PAGE;

	while (at < end) {
		/* Pairs with the kernel's release of the busy bit. */
		unsigned len = __atomic_load_n((const unsigned *)(data + (at & (RING_SIZE - 1))), __ATOMIC_ACQUIRE);

		if (len & BPF_RINGBUF_BUSY_BIT)
			break;
		s->records++;
		at += (((len & 0x3fffffff) + 7) & ~7u) + 8;
	}
	/* Pairs with the kernel's acquire of the consumer position. */
	__atomic_store_n(s->consumer, at, __ATOMIC_RELEASE);
}

static bench_u64 hits(struct bench_contender *c)
{
	drain(c);
	return ((struct bpf *)c->state)->records;
}

struct bench_contender bench_bpf[] = {
    {.name = "uprobe, empty BPF program",
     .job = JOB_HIT,
     .attach = attach,
     .detach = detach,
     .text = "0",
     .hits_per_call = 1},
    {.name = "uprobe, BPF false filter",
     .job = JOB_FILTER,
     .attach = attach,
     .detach = detach,
     .text = "f",
     .hits_per_call = 1},
    {.name = "uprobe, BPF ring buffer, 4 arguments",
     .job = JOB_RECORD,
     .attach = attach,
     .detach = detach,
     .drain = drain,
     .hits = hits,
     .text = "e",
     .hits_per_call = 1},
    {.name = "uprobe + uretprobe, BPF ring buffer",
     .job = JOB_PAIR,
     .attach = attach,
     .detach = detach,
     .drain = drain,
     .hits = hits,
     .text = "er",
     .hits_per_call = 2},
};
const size_t bench_bpf_n = sizeof(bench_bpf) / sizeof(bench_bpf[0]);
