/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reading and writing another process's memory, code included. Through /proc/PID/mem, which breaks
 * copy-on-write for the written page; by ptrace words where the kernel restricts that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "host/process/process-priv.h"

#define PAGE 4096ull
#define AHEAD 14u /* pages; with the two that what is asked for may be in, all that there is room for */

int dp_mem_open(struct dp_mem *m, pid_t pid, struct dp_error *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)dp_memory_tid(pid));
	m->pid = pid;
	m->fd = open(path, O_RDWR | O_CLOEXEC);
	if (m->fd < 0)
		return dp_fail(err, errno == EACCES || errno == EPERM ? E_TARGET_PERM : E_TARGET_GONE, "process %d: %s",
			       (int)pid, strerror(errno));
	return 0;
}

void dp_mem_close(struct dp_mem *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

/* In pieces, where the kernel does not move all at once. */
static int move(const struct dp_mem *m, u64 addr, void *buf, size_t n, bool writes, struct dp_error *err)
{
	size_t done = 0;

	while (done < n) {
		off_t at = (off_t)(addr + done);
		char *part = (char *)buf + done;
		ssize_t r = writes ? pwrite(m->fd, part, n - done, at) : pread(m->fd, part, n - done, at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return dp_fail(err, r ? E_TARGET_MEM : E_TARGET_GONE, "%s 0x%llx of process %d: %s",
				       writes ? "writing" : "reading", (unsigned long long)at, (int)m->pid,
				       r ? strerror(errno) : "it is gone");
		done += (size_t)r;
	}
	return 0;
}

int dp_mem_read(const struct dp_mem *m, u64 addr, void *buf, size_t n, struct dp_error *err)
{
	return move(m, addr, buf, n, false, err);
}

int dp_mem_write(const struct dp_mem *m, u64 addr, const void *buf, size_t n, struct dp_error *err)
{
	return move(m, addr, (void *)buf, n, true, err);
}

static bool read_into(struct dp_mem_look *l, u64 lo, u64 hi, struct dp_error *err)
{
	bool good = !dp_mem_read(l->mem, lo, l->bytes, hi - lo, err);

	l->lo = lo;
	l->hi = good ? hi : lo;
	return good;
}

const u8 *dp_mem_look(struct dp_mem_look *l, u64 addr, u32 n, struct dp_error *err)
{
	if (addr < l->lo || addr + n > l->hi) {
		u64 lo = DP_ALIGN_DOWN(addr, PAGE), hi = DP_ALIGN_UP(addr + n, PAGE);

		l->ahead = l->hi > l->lo && lo + PAGE >= l->hi && lo <= l->hi ? DP_MIN(2 * l->ahead + 1, AHEAD) : 0;
		/* The mapping may end, and need not have whole pages of a file. */
		if (!read_into(l, lo, hi + l->ahead * PAGE, NULL) && !read_into(l, lo, hi, NULL) &&
		    !read_into(l, addr, addr + n, err))
			return NULL;
	}
	return l->bytes + (addr - l->lo);
}
