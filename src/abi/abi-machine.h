/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The state of the machine that runs programs: interpreter and compiled code work on the same words. */
#ifndef DP_ABI_MACHINE_H
#define DP_ABI_MACHINE_H

#include "abi/abi-program.h"
#include "abi/abi-record.h"
#include "abi/abi-regs.h"

/* What the frame shows when it is traced: n from at on. */
struct dp_trace_range {
	u32 n;
	s32 at;
};

struct dp_frame {
	u32 base;    /* of the caller */
	u32 handler; /* offset in the code + 1; 0: none */
	u32 called, ret;
	struct dp_trace_range stack, locals, globals;
};

/* The state that only RPN programs have (hit-rpn.c); set up at the begin of each run. */
struct dp_rpn_state {
	u32 base;  /* index of the stack, as the top */
	u32 depth; /* frames above the outermost one */
	u32 calls, handled;
	u32 plp;       /* log position before the last item */
	u32 trace_len; /* of the stack-trace buffer */
	u32 ntraces;
	u32 heap_used; /* bytes in live blocks */
	u32 heap_ready;
	u32 top, next;  /* where stack and code go on after an exception or a return */
	u32 trace_full; /* a piece did not fit: nothing more goes in */
	u64 handle;     /* of the block just allocated */
	u32 fx_ready;
	u32 spent; /* the run has cost all that it may, and goes on for its handlers */
	u64 fx[64] __attribute__((
	    aligned(16)));      /* floating point and vector registers at this hit, once they were asked for */
	u64 code, parm1, parm2; /* the last exception */
	struct dp_frame frames[DP_VM_CALLS + 1];
	u64 trace[DP_EX_LOG_MAX / 8];
	u64 heap[2 * DP_HEAP_MAX /
		 8]; /* blocks, and a word before each: they fit when they are of at least eight bytes */
};

/* Machine state; one per slot, lives in the slot's memory, never cleared between hits. */
struct dp_vm {
	u64 stack[DP_VM_STACK];
	u64 record[DP_RECORD_MAX / 8]; /* struct dp_record, then the payload being built */
	u64 scratch[64];               /* string comparison and the like */
	struct dp_rpn_state rpn;
};

#define DP_NEAR 64    /* bytes around a word that come with it where reading is a system call */
#define DP_NEAR_OFF 1 /* not in this hit */

/* What one run can see and change. */
struct dp_hit {
	struct dp_regs *regs;
	struct dp_vm *vm;
	const struct dp_control *ctl;
	const struct dp_code_rt *prog;
	u32 log_len;   /* bytes of payload built so far */
	u32 rec_flags; /* DP_REC_* for the record */
	u32 faults;    /* memory accesses that failed */
	u32 exceptions;
	s64 work; /* that the run may still do (program/work.h); less than 0: it ends */
	u32 tid;
	u32 flags;  /* DP_PROBE_* of the probe */
	bool aside; /* reads must not be seen by debug registers */
	u32 stop;   /* not 0: a program asks that the process stops behind this hit */
	u32 core;   /* DP_CORE_* and a process: of an exit to a core dump */
	bool held;  /* records of this hit wait (struct dp_pending) */
	u64 near;   /* address of the bytes that are in line; 0: none are, DP_NEAR_OFF: none shall be */
	u64 taken;  /* bit i: the program has had byte i of them */
	u64 line[DP_NEAR / 8];
};

enum dp_run_result {
	DP_RUN_LOG,      /* commit the record (header is filled in by the caller) */
	DP_RUN_FILTERED, /* nothing to log */
	DP_RUN_PASSED,   /* not run: pass count, max hits, removed */
};

#endif
