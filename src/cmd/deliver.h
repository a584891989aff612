/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Output that goes neither to the screen nor to a file: to a collector (--format otlp), to the journal. */
#ifndef DP_CMD_DELIVER_H
#define DP_CMD_DELIVER_H

#include "log/format.h"
#include "run/run-output.h"

struct delivery {
	const char *endpoint; /* of --endpoint; NULL: the environment's */
	struct dp_sender *sender;
	struct dp_journald *journald;
};

/*
 * What the output is diverted to, where the format and the options want that; out_path NULL: no -o was given. patient:
 * see send.h. Returns CMD_OK, or the exit status (told already).
 */
int dp_cmd_deliver(struct delivery *d, enum dp_format format, const char *out_path, bool patient,
		   struct dp_output *out);

/* Behind the end of the output. Returns the exit status: status, or that something was not delivered (told). */
int dp_cmd_delivered(struct delivery *d, bool quiet, int status);

#endif
