/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A driver's place: its listening socket and its lock, which pass from one process to the next. */
#ifndef DP_DRIVER_PRIV_H
#define DP_DRIVER_PRIV_H

#include "driver/driver.h"

struct dp_driver_place {
	int listener, lock;
	bool stays; /* also when nothing is inserted */
};

/* The process becomes a driver of this file. Returns only if that fails. */
void dp_driver_become(const char *program, const struct dp_driver_place *place);

/* Whether a request can be understood; and, of one to hand over, whether the successor could go on. E_DRV_VERSION. */
int dp_driver_understands(const struct dp_run_request *rq, struct dp_error *err);

/*
 * Another process of that file takes the place when this one has ended, which it does here: every process keeps its
 * probes. Returns only when nobody could be started.
 */
void dp_driver_give_place(const char *program, const struct dp_driver_place *place);

#endif
