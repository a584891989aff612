/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the part that writes the Common Trace Format offers (base/part.h). */
#ifndef DP_CTF_H
#define DP_CTF_H

#include "log/sink.h"

struct dp_ctf_part {
	const struct dp_sink_ops *ops;
	const char *(*version)(void); /* of babeltrace2 */
};

#endif
