/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interface for programs: JSON-RPC 2.0 over a socket, one object a line (doc/api.md). Each client gets a process
 * that has become the client's user before it reads a byte, and that runs `dprobes trace` for each insertion: whatever
 * is asked can do what that user can do, and nothing more.
 */
#ifndef DP_API_H
#define DP_API_H

#include <sys/types.h>

#include "base/error.h"

#define DP_API_LINES_MAX 32

struct dp_api {
	bool allows_writes;
	/* Whether lines have tables; those with mistakes have none. */
	bool (*has_tables)(const char *const *lines, u32 n);
};

/* Whether this build has it (json-c). */
bool dp_api_built(void);

/* A client that is to be accepted: the process for it is started. */
void dp_api_accept(const struct dp_api *api, int listener);

/* Those that have gone make room. */
void dp_api_reap(void);

/* One client's life, which ends with the server's; does not return. */
_Noreturn void dp_api_client(const struct dp_api *api, int fd, pid_t server);

#endif
