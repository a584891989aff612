/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The engine's view of a process that is being traced: writes, serialisation, looking after threads. */
#ifndef DP_PUBLISH_HOST_H
#define DP_PUBLISH_HOST_H

#include "host/process/process-priv.h"

struct dp_publish_host {
	struct dp_host host;
	struct dp_tracer *tracer;
	struct dp_mem *mem;
	struct dp_remote *remote;
	bool registered; /* membarrier was registered for this process */
};

void dp_publish_host_init(struct dp_publish_host *ph, struct dp_tracer *t, struct dp_mem *mem, struct dp_remote *r);

#endif
