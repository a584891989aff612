// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What rules.c needs of the world that it runs in. */
#include "conform.h"

#ifdef __KERNEL__

#include <linux/sched.h>

static struct kprobe theirs;

unsigned int conform_cpus(void)
{
	return num_possible_cpus();
}

void *conform_task(void)
{
	return current;
}

static int their_pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

/* The post handler keeps it a breakpoint. */
static void their_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

int conform_foreign(void *addr, int present)
{
	if (!present) {
		unregister_kprobe(&theirs);
		return 0;
	}
	theirs = (struct kprobe){.addr = addr, .pre_handler = their_pre, .post_handler = their_post};
	return register_kprobe(&theirs);
}

#else

#include <fcntl.h>
#include <unistd.h>

unsigned int conform_cpus(void)
{
	return (unsigned int)sysconf(_SC_NPROCESSORS_CONF);
}

struct task_struct *dp_current(void);

void *conform_task(void)
{
	return dp_current();
}

int conform_foreign(void *addr, int present)
{
	static unsigned char was;
	int fd = open("/proc/self/mem", O_RDWR), r;
	unsigned char byte = 0xcc;

	if (fd < 0)
		return -1;
	if (present)
		was = *(unsigned char *)addr;
	r = pwrite(fd, present ? &byte : &was, 1, (off_t)(unsigned long)addr) == 1 ? 0 : -1;
	close(fd);
	return r;
}

#endif
