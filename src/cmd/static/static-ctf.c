/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In the place of log/sinks/sink-ctf.c in the static dprobes. */
#include "log/format.h"
#include "log/sinks.h"

static const char *missing(void)
{
	return "babeltrace2 writes it, and loads its own parts as shared libraries";
}

const struct dp_sink_ops dp_sink_ctf = {
    .missing = missing,
    .is_directory = true,
};

const char *dp_format_ctf_writer(void)
{
	return NULL;
}
