/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The driver of user space: a process, one per user, that keeps probe programs in place when the
 * command has returned. It is started on demand, ends when nothing is inserted any more, applies
 * each program to the processes that map its module, now and later, and drains their log rings. The
 * command talks to it through a socket in the driver's directory.
 */
#ifndef DP_DRIVER_H
#define DP_DRIVER_H

#include <sys/types.h>

#include "base/error.h"

#define DP_DRIVER_DIR_ENV "DPROBES_DIR" /* overrides where the socket and the log are */

/* A driver with this set ends, with its probes, when this process has ended. */
#define DP_DRIVER_OWNER_ENV "DPROBES_OWNER"

enum dp_driver_op { DP_DRIVER_INSERT = 1, DP_DRIVER_REMOVE, DP_DRIVER_QUERY, DP_DRIVER_VARS };

enum dp_driver_flags {
	DP_DRIVER_ALL = 0x1,
	DP_DRIVER_MERGE =
	    0x2, /* insert: add to what is inserted; a probe at the same place is replaced */
	DP_DRIVER_REPLACE = 0x4,  /* insert: in the place of what is inserted */
	DP_DRIVER_EXTENDED = 0x8, /* query */
	DP_DRIVER_LOCAL = 0x10,   /* variables */
	DP_DRIVER_GLOBAL = 0x20,
	DP_DRIVER_RESET = 0x40,
	DP_DRIVER_NO_OPCODES = 0x80, /* insert: do not verify them */
	DP_DRIVER_ALLOW_TRAP = 0x100,
	DP_DRIVER_JSON = 0x200,
	DP_DRIVER_SYSLOG = 0x400,
	DP_DRIVER_AGGREGATES = 0x800, /* variables: only these */
	DP_DRIVER_LATER = 0x1000,     /* insert: the process will map the module */
	DP_DRIVER_JIT_ON = 0x2000, /* insert: compile whatever can be; neither of these: where it pays */
	DP_DRIVER_JIT_OFF = 0x4000,
	DP_DRIVER_UPROBES = 0x8000,   /* insert: probes of a file, in all processes, by the kernel's uprobes */
	DP_DRIVER_CONSOLE = 0x10000,  /* insert: records go to the kernel's log and its console, too; */
	DP_DRIVER_SERIAL1 = 0x20000,  /* to the first serial port; */
	DP_DRIVER_SERIAL2 = 0x40000,  /* to the second one */
	DP_DRIVER_CHILDREN = 0x80000, /* insert: watchpoints are inherited by forked processes, too */
};

struct dp_driver_request {
	u32 size; /* of all that is sent, this included: name, file and object follow */
	u32 op, flags;
	u32 fields; /* insert: enum dp_rpn_log_fields */
	s32 pid;    /* insert: only this process; 0: all that map the module */
	u32 lo, hi; /* variables */
	u32 name_len, file_len, object_len;
};

struct dp_driver_reply {
	u32 code; /* enum dp_code */
	u32 detail_len, hint_len, text_len;
};

/* The directory: created with access for its user only. E_DRV_DIR. */
int dp_driver_dir(char *buf, size_t size, struct dp_error *err);

/*
 * Send a request. start: begin a driver when there is none; without it E_DRV_NONE is the answer
 * then, unless one was killed: its successor goes on with what it had. The reply's text is allocated (free() it), also when an error is returned.
 */
int dp_driver_ask(const struct dp_driver_request *rq, const char *name, const char *file,
		  const void *object, bool start, char **text, struct dp_error *err);

/* The driver itself, on a socket that listens already. Returns its exit status. */
int dp_driver_main(int listener, const char *dir);

#endif
