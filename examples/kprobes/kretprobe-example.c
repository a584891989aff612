/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A return probe: how long a function takes, and what it returns. The entry handler leaves the time
 * in the call's own data for the return handler.
 *
 *	cc kretprobe-example.c $(pkg-config --cflags --libs dprobes) && ./a.out [FUNCTION]
 */
#include <dprobes/kprobes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct my_data {
	struct timespec entry;
};

static int entry_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	clock_gettime(CLOCK_MONOTONIC, &((struct my_data *)ri->data)->entry);
	return 0;
}

static int ret_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct timespec *begin = &((struct my_data *)ri->data)->entry;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%s returned %ld and took %ld ns\n", ri->rp->kp.symbol_name,
	       (long)regs_return_value(regs),
	       (now.tv_sec - begin->tv_sec) * 1000000000l + now.tv_nsec - begin->tv_nsec);
	return 0;
}

int main(int argc, char **argv)
{
	struct kretprobe rp = {
	    .kp.symbol_name = argc > 1 ? argv[1] : "libc:usleep",
	    .handler = ret_handler,
	    .entry_handler = entry_handler,
	    .data_size = sizeof(struct my_data),
	    .maxactive = 20,
	};
	int err = register_kretprobe(&rp);

	if (err) {
		fprintf(stderr, "register_kretprobe: %d, %s\n", err, dp_kprobe_error());
		return 1;
	}
	for (int i = 1; i <= 3; i++)
		usleep((useconds_t)i * 1000);
	unregister_kretprobe(&rp);
	printf("missed %d\n", rp.nmissed);
	return 0;
}
