/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that is watched by its pages, any number of bytes. The kernel marks them (userfaultfd in its asynchronous
 * write-protect mode): the first store to a page faults, and the kernel opens the page by itself, for whoever stores,
 * system calls too. Performance events of page faults raise a SIGTRAP in the thread, filtered by a BPF program to the
 * watched pages; hit/page.c takes it and closes the page again. The marks and the events are bound to descriptors of
 * ours: when we end in whatever way, nothing is watched any more, and no store can fail at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-pagemap.h"
#include "host/process/arm-priv.h"
#include "host/process/owners.h"

#define PAGE 4096ull
#define STACK_SPAN (1024 * 1024ull) /* around a stack pointer, within its mapping */

/* Newer than the headers of some systems. */
#define USER_MODE_ONLY 1 /* userfaultfd(): what an ordinary process may ask for; marks do not depend on it */
#define FEATURE_WP_UNPOPULATED (1ull << 13) /* pages that are not there yet, too */
#define FEATURE_WP_ASYNC (1ull << 15)

/* ---- what can be watched ---- */

static int refuse(struct dp_error *err, const char *hint, const char *what, u64 addr)
{
	int r = dp_fail(err, E_WATCH_PAGES, "%s, at 0x%llx", what, (unsigned long long)addr);

	dp_error_hint(err, "%s", hint);
	return r;
}

/* The mappings as they are now. */
static int check_maps(const struct dp_maps *maps, const struct dp_range *v, u32 n, struct dp_error *err)
{
	for (u32 i = 0; i < n; i++) {
		for (u64 at = v[i].lo; at < v[i].hi;) {
			const struct dp_map *m = dp_maps_at(maps, at);

			if (!m)
				return refuse(err, "look at /proc/PID/maps", "no memory is mapped", at);
			if (!m->w || m->x)
				return refuse(err, "watch data",
					      m->x ? "memory with code is there" : "nobody can write there", at);
			if (m->shared)
				return refuse(err, "watch up to four words of it by registers, without --pages",
					      "the memory is shared with other processes or a file", at);
			if (!strcmp(m->path, "[stack]"))
				return refuse(err, "watch variables that are not on a stack", "a stack is there", at);
			at = m->hi;
		}
	}
	return 0;
}

/* A thread's stack, and the words that the kernel and the C library keep for it. */
static int check_thread(const struct dp_session *s, pid_t tid, const struct dp_range *v, u32 n, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_maps maps;
	const struct dp_map *m;
	u64 lo, hi;
	int r = 0;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) || dp_maps_read(&maps, s->pid, NULL))
		return 0; /* it is not stopped: another look comes, or it has ended */
	m = dp_maps_at(&maps, dp_user_sp(&regs));
	lo = m ? DP_MAX(m->lo, dp_user_sp(&regs) - STACK_SPAN) : 0;
	hi = m ? DP_MIN(m->hi, dp_user_sp(&regs) + STACK_SPAN) : 0;
	for (u32 i = 0; i < n && !r; i++) {
		if (v[i].lo < hi && lo < v[i].hi)
			r = refuse(err, "watch variables that are not on a stack", "the stack of a thread is there",
				   dp_user_sp(&regs));
		else if (v[i].lo < regs.fs_base + PAGE && regs.fs_base - PAGE < v[i].hi)
			r = refuse(err, "watch other memory", "the C library's words of a thread are there",
				   regs.fs_base);
	}
	dp_maps_free(&maps);
	return r;
}

/* ---- events of the kernel ---- */

#define INSN(c, d, s, o, i)                                                              \
	{                                                                                \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (s32)(i) \
	}

/* A program that lets a page fault count when it is in one of the ranges. */
static int load_filter(const struct dp_range *v, u32 n)
{
	struct bpf_insn code[DP_PAGES_RANGES * 5 + 8];
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_PERF_EVENT};
	u32 len = 0;
	/* struct bpf_perf_event_data: the registers, the period, the address */
	const s16 where = 21 * 8 + 8;

	code[len++] = (struct bpf_insn)INSN(BPF_LDX | BPF_MEM | BPF_DW, 2, 1, where, 0);
	code[len++] = (struct bpf_insn)INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
	for (u32 i = 0; i < n; i++) {
		code[len++] = (struct bpf_insn)INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 2, 0, 0);
		code[len++] = (struct bpf_insn)INSN(BPF_LD | BPF_IMM | BPF_DW, 4, 0, 0, v[i].lo);
		code[len++] = (struct bpf_insn)INSN(0, 0, 0, 0, v[i].lo >> 32);
		code[len++] = (struct bpf_insn)INSN(BPF_ALU64 | BPF_SUB | BPF_X, 3, 4, 0, 0);
		code[len++] = (struct bpf_insn)INSN(BPF_JMP | BPF_JLT | BPF_K, 3, 0, (n - 1 - i) * 5 + 1,
						    v[i].hi - v[i].lo);
	}
	code[len++] = (struct bpf_insn)INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	code[len++] = (struct bpf_insn)INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	a.insns = (u64)code;
	a.insn_cnt = len;
	a.license = (u64) "Dual MIT/GPL";
	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

/* Off at first. -1: errno. */
static int open_event(u64 region, pid_t tid, int filter, bool by_call)
{
	struct perf_event_attr a = {
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_PAGE_FAULTS,
	    .size = sizeof(a),
	    .sample_period = 1,
	    .sample_type = PERF_SAMPLE_ADDR,
	    .exclude_kernel = !by_call,
	    .exclude_user = by_call,
	    .exclude_hv = 1,
	    .disabled = 1,
	    .sigtrap = 1,
	    .remove_on_exec = 1,
	    .inherit = 1,
	    .inherit_thread = 1,
	    .sig_data = DP_WATCH_DATA(DP_PAGE_MAGIC, region, by_call ? DP_PAGE_BY_CALL : 0),
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC), e;

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, filter)) {
		e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

static int fail_event(const char *what, struct dp_error *err)
{
	int e = errno, r = dp_fail(err, E_WATCH_PAGES, "%s: %s", what, strerror(e));

	if (e == EACCES || e == EPERM)
		dp_error_hint(err, "run as root");
	return r;
}

/*
 * Whether a filter keeps signals back, tried on ourselves: kernels before 6.10 send them all the same, for every page
 * fault.
 */
int dp_pages_can(struct dp_error *err)
{
	sigset_t traps, before;
	int filter = load_filter(NULL, 0), fd = -1, r = 0;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (filter < 0)
		r = fail_event("the filter of page faults", err);
	sigemptyset(&traps);
	sigaddset(&traps, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &traps, &before);
	if (!r)
		fd = open_event(0, 0, filter, false);
	if (!r && fd < 0)
		r = fail_event("events of page faults", err);
	if (!r && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		r = fail_event("events of page faults", err);
	if (!r && page != MAP_FAILED)
		*(volatile char *)page = 1;
	if (fd >= 0)
		close(fd);
	if (sigtimedwait(&traps, NULL, &(struct timespec){0, 0}) == SIGTRAP && !r)
		r = refuse(err, "use Linux 6.10 or later", "signals of page faults cannot be filtered", (u64)page);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (filter >= 0)
		close(filter);
	if (page != MAP_FAILED)
		munmap(page, PAGE);
	return r;
}

/* Its events, off; it is stopped, and has none yet. */
static int open_events(struct dp_session *s, pid_t tid, struct dp_error *err)
{
	struct dp_range v[DP_PAGES_RANGES];
	u32 n = dp_pages_ranges(s, v);
	int r;

	if (!n)
		return 0;
	r = check_thread(s, tid, v, n, err);
	for (int by_call = 0; by_call < 2 && !r; by_call++) {
		int fd;

		if (by_call && s->pages.no_calls)
			break;
		if (!dp_grow((void **)&s->pages.events, &s->pages.cap_events, s->pages.nevents,
			     sizeof(*s->pages.events)))
			return dp_fail(err, E_ARM_NOMEM, "watchpoint");
		fd = open_event(s->region, tid, s->pages.filter, by_call);
		if (fd < 0 && errno == ESRCH)
			return 0;
		if (fd < 0 && by_call && (errno == EACCES || errno == EPERM)) {
			s->pages.no_calls = true;
			dp_session_say(s, "stores by system calls are not reported: "
					  "that takes root, or kernel.perf_event_paranoid below 2");
			break;
		}
		if (fd < 0)
			return fail_event("events of page faults", err);
		s->pages.events[s->pages.nevents++] = fd;
	}
	return r;
}

static int watch_thread(struct dp_session *s, pid_t tid, struct dp_error *err)
{
	size_t n = s->pages.nevents;
	int r = open_events(s, tid, err);

	for (; n < s->pages.nevents && !r; n++)
		if (ioctl(s->pages.events[n], PERF_EVENT_IOC_ENABLE, 0) && errno != ESRCH)
			r = fail_event("events of page faults", err);
	return r;
}

static void close_events(struct dp_session *s)
{
	while (s->pages.nevents)
		close(s->pages.events[--s->pages.nevents]);
}

/*
 * Whether the memory can be watched, and the kernel has what it takes, tried with one thread. The events stay off:
 * there is no handler yet.
 */
static int prepare(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	struct dp_range v[DP_PAGES_RANGES];
	u32 n = dp_pages_ranges(s, v);
	int r;

	if (!n)
		return 0;
	if (dp_owners_watch_pages(&a->mem, &a->now))
		return dp_fail(err, E_TARGET_BUSY, "another dprobes watches pages of process %d", (int)s->pid);
	if (a->caps.seccomp)
		return dp_fail(err, E_WATCH_PAGES, "process %d has a filter of system calls, which a hit would meet",
			       (int)s->pid);
	r = check_maps(&a->now, v, n, err);
	if (!r)
		r = dp_pages_can(err);
	if (r)
		return r;
	s->pages.filter = load_filter(v, n);
	if (s->pages.filter < 0)
		return fail_event("the filter of page faults", err);
	r = open_events(s, a->tracer.v[0].tid, err);
	close_events(s);
	return r;
}

/* ---- the marks ---- */

/* Close the pages of r that are open, telling at most n stretches of them; how far: *end. -1: errno. */
static int close_some(const struct dp_session *s, u64 lo, u64 hi, struct dp_stretch *v, u32 n, u64 *end)
{
	struct dp_scan a = {.size = sizeof(a),
			    .flags = DP_SCAN_CLOSES | DP_SCAN_CHECKS,
			    .start = lo,
			    .end = hi,
			    .vec = (u64)v,
			    .vec_len = n,
			    .mask = DP_PAGE_WRITTEN,
			    .result = DP_PAGE_WRITTEN};
	int found = ioctl(s->pages.map, DP_PAGEMAP_SCAN, &a);

	*end = a.walk_end;
	return found;
}

static int mark(struct dp_session *s, const struct dp_range *v, u32 n, struct dp_error *err)
{
	struct uffdio_api api = {
	    .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC};
	char path[64];
	u64 end;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)dp_memory_tid(s->pid));
	s->pages.map = open(path, O_RDONLY | O_CLOEXEC);
	if (s->pages.map < 0)
		return fail_event(path, err);
	if (ioctl(s->pages.marks, UFFDIO_API, &api))
		return refuse(err, "use Linux 6.10 or later", "the kernel does not open marked pages by itself",
			      v[0].lo);
	for (u32 i = 0; i < n; i++) {
		struct uffdio_register reg = {.range = {v[i].lo, v[i].hi - v[i].lo}, .mode = UFFDIO_REGISTER_MODE_WP};

		if (ioctl(s->pages.marks, UFFDIO_REGISTER, &reg) || close_some(s, v[i].lo, v[i].hi, NULL, 0, &end))
			return refuse(err, "watch other memory, or look whether the program uses userfaultfd on it",
				      strerror(errno), v[i].lo);
	}
	return 0;
}

/*
 * Two descriptors: marks belong to the process that asks for them, so it asks, and hands over; and its own view of them
 * it keeps.
 */
static int borrow(struct arming *a, struct dp_error *err)
{
	static const char name[] = "/proc/self/pagemap";
	struct dp_session *s = a->s;
	u64 scratch = a->remote.table + 3072;
	struct dp_call calls[] = {
	    {SYS_open, {scratch, O_RDONLY | DP_PAGEMAP_FLAGS}, 0},
	    {SYS_userfaultfd, {O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY}, 0},
	};
	struct dp_call give_back = {SYS_close, {0}, 0};
	int r = dp_mem_write(&a->mem, scratch, name, sizeof(name), err);

	if (!r)
		r = dp_remote_calls(&a->remote, calls, 2, err);
	if (r)
		return r;
	if (calls[0].ret >= 0)
		a->ctl->pagemap = (s32)calls[0].ret;
	r = dp_arm_put_control(a, err); /* a successor closes it */
	if (calls[1].ret >= 0) {
		s->pages.marks = (int)syscall(SYS_pidfd_getfd, s->pidfd, (int)calls[1].ret, 0);
		if (!r && s->pages.marks < 0)
			r = fail_event("pidfd_getfd", err);
		give_back.arg[0] = (u64)calls[1].ret;
		dp_remote_calls(&a->remote, &give_back, 1, NULL);
	}
	for (u32 i = 0; i < 2 && !r; i++) {
		errno = (int)-calls[i].ret;
		if (calls[i].ret < 0)
			r = fail_event(i ? "userfaultfd" : name, err);
	}
	return r;
}

int dp_session_can_watch_pages(struct dp_error *err)
{
	return dp_pages_can(err);
}

/* What stands in [lo, hi) now, as what was seen last. */
static int see(struct dp_session *s, const struct dp_mem *mem, u64 lo, u64 hi, struct dp_error *err)
{
	u8 buf[16384];

	for (u32 i = 0; i < s->watch.n; i++) {
		const struct dp_watched *w = &s->watch.v[i];
		u64 from = DP_MAX(lo, w->addr), to = DP_MIN(hi, w->addr + w->len);
		u64 shadow = s->region + s->pages.shadows_off + w->shadow;

		if (!w->paged || (i && s->watch.v[i - 1].group == w->group))
			continue;
		for (u64 n; from < to; from += n) {
			int r;

			n = DP_MIN(to - from, (u64)sizeof(buf));
			r = dp_mem_read(mem, from, buf, n, err);
			if (!r)
				r = dp_mem_write(mem, shadow + (from - w->addr), buf, n, err);
			if (r)
				return r;
		}
	}
	return 0;
}

/* The pages are marked; the values before the first hit. */
static int fill(struct arming *a, struct dp_error *err)
{
	struct dp_range v[DP_PAGES_RANGES];
	u32 n = dp_pages_ranges(a->s, v);
	int r;

	if (!n)
		return 0;
	if (dp_session_symbol(a->s, "__libc_single_threaded", &a->ctl->single, NULL))
		a->ctl->single = 0;
	r = borrow(a, err);
	if (!r)
		r = mark(a->s, v, n, err);
	return r ? r : see(a->s, &a->mem, 0, ~0ull, err);
}

/* With all events there: the last look at what was stored meanwhile; open pages are closed, and the first hits come. */
static int ready(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	struct dp_range v[DP_PAGES_RANGES];
	struct dp_stretch found[64];
	u32 n = dp_pages_ranges(s, v);
	int r = 0;

	for (u32 i = 0; i < n && !r; i++) {
		u64 at = v[i].lo, end;
		int k;

		while (!r && at < v[i].hi && (k = close_some(s, at, v[i].hi, found, DP_ARRAY_SIZE(found), &end)) > 0) {
			for (int j = 0; j < k && !r; j++)
				r = see(s, &a->mem, found[j].start, found[j].end, err);
			at = DP_MAX(end, at + PAGE);
		}
	}
	return r;
}

bool dp_pages_close(struct dp_session *s)
{
	struct dp_range v[DP_PAGES_RANGES];
	u32 n = s->armed && s->pages.map > 0 ? dp_pages_ranges(s, v) : 0;
	u64 end;

	for (u32 i = 0; i < n; i++)
		close_some(s, v[i].lo, v[i].hi, NULL, 0, &end);
	return n;
}

static void end(struct dp_session *s)
{
	/* The kernel opens all pages when the last descriptor of the marks is closed. */
	int *fds[] = {&s->pages.marks, &s->pages.map, &s->pages.filter};

	for (size_t i = 0; i < s->pages.nevents; i++)
		ioctl(s->pages.events[i], PERF_EVENT_IOC_DISABLE, 0);
	close_events(s);
	for (u32 i = 0; i < DP_ARRAY_SIZE(fds); i++) {
		if (*fds[i] > 0)
			close(*fds[i]);
		*fds[i] = 0;
	}
	free(s->pages.events);
	s->pages.events = NULL;
	s->pages.cap_events = 0;
}

const struct dp_part dp_pages_part = {
    .steps = {[DP_PART_PREPARE] = prepare, [DP_PART_FILL] = fill, [DP_PART_READY] = ready},
    .thread = watch_thread,
    .end = end,
};
