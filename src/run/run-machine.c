/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-machine.h: the services of hit/vm.h. dpcc lets bodies ask for little of this; what comes by itself fails. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "hit/vm.h"
#include "host/process/process.h"
#include "log/format.h"
#include "run/run-machine.h"

static struct run_machine *machine_of(struct dp_hit *h)
{
	return (struct run_machine *)((char *)h - offsetof(struct run_machine, hit));
}

int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	struct run_machine *m = machine_of(h);

	if (len != 1 || !m->ask(m, src))
		return -EFAULT;
	*(u8 *)dst = 0;
	return 0;
}

int dp_hit_write(struct dp_hit *h, u64 dst, const void *src, u32 len)
{
	return -EFAULT;
}

int dp_hit_read_str(struct dp_hit *h, char *dst, u64 src, u32 size)
{
	return -EFAULT;
}

void dp_hit_comm(struct dp_hit *h, char *dst16)
{
	memset(dst16, 0, 16);
	if (!dp_task_comm((u32)machine_of(h)->pid, dst16)) /* it has ended */
		snprintf(dst16, 16, "%s", machine_of(h)->comm);
}

bool dp_hit_writable(struct dp_hit *h, u64 addr)
{
	return false;
}

u32 dp_hit_pid(struct dp_hit *h)
{
	return h->ctl->pid;
}

static s64 status_number(pid_t pid, const char *name)
{
	size_t n = strlen(name);
	char path[40], line[256];
	s64 v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && v < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ':')
			sscanf(line + n + 1, "%lld", (long long *)&v);
	if (f)
		fclose(f);
	return v;
}

s64 dp_hit_uid(struct dp_hit *h)
{
	return status_number(machine_of(h)->pid, "Uid");
}

s64 dp_hit_ppid(struct dp_hit *h)
{
	return status_number(machine_of(h)->pid, "PPid");
}

u64 dp_hit_ns(struct dp_hit *h)
{
	return dp_now_ns();
}

void dp_hit_fxsave(struct dp_hit *h, void *area512)
{
	memset(area512, 0, 512);
}

u64 dp_hit_segment(struct dp_hit *h, u32 which)
{
	return 0;
}

void dp_hit_cpuid(struct dp_hit *h, u32 leaf, u32 abcd[4])
{
	memset(abcd, 0, 4 * sizeof(*abcd));
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	return 0;
}

u64 dp_hit_chain(struct dp_hit *h, u32 n)
{
	return 0;
}

bool dp_hit_add_apart(struct dp_hit *h, const u64 *word, u64 n)
{
	return false;
}

/* Bodies that would call one are refused. */
u32 dp_hit_call_exit(struct dp_hit *h, const u8 *name, u32 len, u32 nargs, u32 nresults, const u64 *args, u64 *results)
{
	return ENOENT;
}

u32 dp_hit_cpu(struct dp_hit *h)
{
	return 0;
}

void dp_hit_exit(struct dp_hit *h, u32 facility)
{
}
