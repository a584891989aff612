/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Whether debug registers fire on this machine, tried without any code of the project. */
#ifndef TESTS_LIB_FIRES_H
#define TESTS_LIB_FIRES_H

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 1: a write to a watched word is counted; 0: it is not; -1: the kernel lets nothing be watched. */
static int debug_registers_fire(void)
{
	static volatile unsigned long word __attribute__((aligned(8)));
	struct perf_event_attr a = {
	    .type = PERF_TYPE_BREAKPOINT,
	    .size = sizeof(a),
	    .bp_addr = (unsigned long)&word,
	    .bp_len = sizeof(word),
	    .bp_type = HW_BREAKPOINT_W,
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	};
	unsigned long count = 0;
	int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -1;
	word = 1;
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	close(fd);
	return count != 0;
}

#define REGISTERS_DEAD "the debug registers of this machine never fire: one of our own was set and did not"

#endif
