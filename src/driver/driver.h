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
#include "run/run.h"

#define DP_DRIVER_DIR_ENV "DPROBES_DIR" /* overrides where the socket and the log are */

struct dp_driver_reply {
	u32 code; /* enum dp_code */
	u32 detail_len, hint_len, text_len;
};

/* The directory: created with access for its user only. E_DRV_DIR. */
int dp_driver_dir(char *buf, size_t size, struct dp_error *err);

/*
 * Send a request. start: begin a driver when there is none; without it E_DRV_NONE is the answer
 * then, unless one was killed: its successor goes on with what it had. The reply's text is allocated (free() it), also
 * when an error is returned.
 */
int dp_driver_ask(const struct dp_run_request *rq, const char *name, const char *file, const void *object, bool start,
		  char **text, struct dp_error *err);

/*
 * What dp_run_metrics() tells of the driver that runs; none is started, and one that is stuck is not waited for. The
 * text is allocated, also when an error is returned. E_DRV_NONE, E_DRV_TALK.
 */
int dp_driver_metrics(char **text, struct dp_error *err);

/*
 * The driver's socket, and the lock that is held as long as its descriptor is open in somebody. listener -1: another
 * driver holds it. E_DRV_DIR, E_DRV_START.
 */
int dp_driver_listen(const char *dir, int *listener, int *lock, struct dp_error *err);

/*
 * The driver that runs gives its place, and what is inserted, to one of the file that calls this: the probes stay where
 * they are. Returns when the successor has them. The text (free() it) says what it took over. E_DRV_NONE;
 * E_DRV_VERSION: the successor could not go on with these probes, so the driver goes on itself.
 */
int dp_driver_hand_over(char **text, struct dp_error *err);

/* As sd_notify(3) does; without a service manager that asked for it, nothing. */
void dp_driver_notify(const char *text);

/*
 * The driver itself, on a socket that listens, and with its lock (dp_driver_listen()). stays: also when nothing is
 * inserted. Returns its exit status.
 */
int dp_driver_main(int listener, int lock, const char *dir, bool stays);

#endif
