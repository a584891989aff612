/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Debug registers: the kernel of a virtual machine lets them be set, and on some hypervisors no access ever raises an
 * exception. So one access is made, and the kernel's count of it looked at.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/measure/measure.h"

#define TRIES 3

static volatile u64 word __attribute__((aligned(8)));

__attribute__((noinline, noclone)) static void code(void)
{
	word = word + 1;
}

static void access_once(enum dp_watch_type type)
{
	if (type == DP_WATCH_X)
		code();
	else
		word = 1;
}

int dp_measure_watch_open(struct perf_event_attr *a, enum dp_watch_type type, u64 addr, u32 len, int tid)
{
	a->type = PERF_TYPE_BREAKPOINT;
	a->size = sizeof(*a);
	a->bp_addr = addr;
	a->bp_len = type == DP_WATCH_X ? sizeof(long) : len;
	a->bp_type = type == DP_WATCH_X ? HW_BREAKPOINT_X : type == DP_WATCH_W ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
	a->exclude_kernel = 1;
	a->exclude_hv = 1;
	return (int)syscall(SYS_perf_event_open, a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static enum dp_measured try_once(enum dp_watch_type type, int *e)
{
	struct perf_event_attr a = {0};
	u64 count = 0;
	ssize_t n;
	int fd;

	fd = dp_measure_watch_open(&a, type, type == DP_WATCH_X ? (u64)code : (u64)&word, sizeof(word), 0);
	if (fd < 0) {
		*e = errno;
		return DP_UNKNOWN;
	}
	access_once(type);
	n = read(fd, &count, sizeof(count));
	*e = errno;
	close(fd);
	return n != sizeof(count) ? DP_UNKNOWN : count ? DP_WORKS : DP_DEAD;
}

enum dp_measured dp_measure_watch(enum dp_watch_type type, int *e)
{
	static u8 known[DP_WATCH_RW + 1]; /* whoever tries at the same time sets the same value */
	enum dp_measured m = (enum dp_measured)__atomic_load_n(&known[type], __ATOMIC_RELAXED);
	int number = 0;

	if (m == DP_UNKNOWN) {
		m = try_once(type, &number);
		for (u32 i = 1; i < TRIES && m == DP_DEAD; i++)
			m = try_once(type, &number);
		__atomic_store_n(&known[type], (u8)m, __ATOMIC_RELAXED);
	}
	if (e)
		*e = number;
	return m;
}

int dp_measure_watch_check(enum dp_watch_type type, struct dp_error *err)
{
	static const char *const kinds[] = {
	    [DP_WATCH_X] = "execution", [DP_WATCH_W] = "a write", [DP_WATCH_RW] = "a read or write"};

	if (type == DP_WATCH_IO || dp_measure_watch(type, NULL) != DP_DEAD)
		return 0;
	return dp_fail(err, E_WATCH_DEAD, "a register of our own was set for %s, and did not fire", kinds[type]);
}
