/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The machine of the hit path, run by the control side for bodies that belong to no hit: the same interpreter, with
 * services that know no thread, no registers and no memory.
 */
#ifndef DP_RUN_MACHINE_H
#define DP_RUN_MACHINE_H

#include <sys/types.h>

#include "abi/abi-control.h"
#include "abi/abi-machine.h"

struct run_machine {
	struct dp_hit hit;
	struct dp_regs regs;
	struct dp_code_rt prog;
	struct dp_control ctl;
	struct dp_vm vm;
	pid_t pid;
	const char *comm; /* of a process that has ended */
	/* The program reads a byte of an address: what it asks for (enum dp_control_op). False: that is no question. */
	bool (*ask)(struct run_machine *m, u64 addr);
	void *arg;
};

#endif
