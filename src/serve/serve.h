/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The exporter of metrics: a child process without privileges that answers HTTP requests, and asks us for what it
 * tells. All that comes from clients is read in the child, and all that it may ask of us is one question.
 */
#ifndef DP_SERVE_H
#define DP_SERVE_H

#include <sys/types.h>

#include "base/error.h"

struct dp_listener {
	int fd;
	char name[160]; /* how a client finds it; of a socket: its path */
	bool is_path;
};

/*
 * "127.0.0.1:9464", "[::1]:9464", "localhost:9464" or "unix:/PATH". Addresses that others reach are refused without
 * is_public. E_SERVE_ADDRESS, E_SERVE_PUBLIC.
 */
int dp_listener_open(struct dp_listener *l, const char *address, bool is_public, struct dp_error *err);
void dp_listener_close(struct dp_listener *l); /* a socket's file is removed */

/* What answers HTTP, with its version. NULL: this build has nothing for that. */
const char *dp_exporter_library(void);

struct dp_exporter {
	int fd;
	pid_t pid;
	u32 asked; /* the number of the question */
};

/* To be called before anything is opened that the child must not have. E_SERVE_BUILD, E_SERVE_START. */
int dp_exporter_start(struct dp_exporter *x, const struct dp_listener *l, struct dp_error *err);
/* When its descriptor is readable: takes the question. False: the child has ended. */
bool dp_exporter_asks(struct dp_exporter *x);
/*
 * Lines of JSON as dp_run_metrics() makes them, of the driver and of the command's own lines; NULL: there is no driver.
 * False: the child takes nothing.
 */
bool dp_exporter_answer(struct dp_exporter *x, const char *driver, const char *own);
void dp_exporter_end(struct dp_exporter *x);

#endif
