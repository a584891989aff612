/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The guard of a driver: a process of its own that answers for files whose opening the kernel holds (fanotify), so that
 * nobody waits for a driver that is stopped or dead. It tells the driver whom it holds. It lets each go on when the
 * driver is done with him, and all when the driver has done nothing for three seconds. Messages go through a pair of
 * sockets; each is one structure.
 */
#ifndef DP_RUN_GUARD_H
#define DP_RUN_GUARD_H

#include <sys/types.h>

#include "base/base.h"

#define GUARD_NAME "dprobes-guard"
#define GUARD_HELD_MS 3000   /* the most that anybody is held by a driver that does nothing, */
#define GUARD_QUEUE_MS 15000 /* or by one that works on others, or slowly */

enum guard_op {
	/* to the guard */
	GUARD_MARK = 1, /* hold those that open this file (sent along), for these events; a reply comes */
	GUARD_UNMARK,
	/* the driver works on this process (0: on none), which must not wait; but for the one with this number */
	GUARD_BUSY,
	GUARD_EXPECT, /* a copy of the command that is about to become another program */
	GUARD_DONE,   /* the one with this number may go on */
	GUARD_PASSED, /* a process has been passed on to this other guard, which may be killed before it lets it go */
	/* from it */
	GUARD_HELLO, /* it is ready, or (error) cannot work */
	GUARD_REPLY, /* to a mark */
	/* these held: in an open; or frozen at the start of a program; or (not frozen) just starting, not held */
	GUARD_CAUGHT,
	GUARD_LET_GO, /* somebody went on without the driver having had him */
};

struct guard_message {
	u32 op;
	s32 error;
	s32 pid, tid;
	bool in_exec, frozen;
	bool caught; /* with GUARD_DONE: it is not only let go, the driver has stopped it */
	u64 number;
	u64 dev, ino; /* of the file that is opened */
	u64 events;
	char why[80]; /* with GUARD_HELLO: why no start can be held; "" */
};

/* A message, and a descriptor (or -1) with it; -EAGAIN, -EPIPE, ... */
int dp_guard_send(int fd, const struct guard_message *m, int with);
/* 0; *with is a descriptor or -1. -EAGAIN: there is none; -EPIPE: the other one is gone. */
int dp_guard_receive(int fd, struct guard_message *m, int *with);

/*
 * Now and then: a process that is stopped, or looked at with a debugger, while it traces others, which wait for it. It
 * is told to go on after some seconds, and ended if it does not: they go on then.
 */
struct dp_guard_look {
	u64 since, continued;
};
void dp_guard_look(pid_t of, struct dp_guard_look *l);

/* The guard itself, of that driver. Returns its exit status. */
int dp_guard_main(int control, int driver);
/* Whoever ends the guard when the pipe has been silent for too long, and lets those go on that a dead one has left. */
int dp_keeper_main(int pipe);

#endif
