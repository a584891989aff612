/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes record`: a trace whose output is a recording (log/recording.h). */
#include "cmd/cmd.h"
#include "cmd/cmd-trace.h"

int dp_cmd_record(int argc, char **argv)
{
	struct trace t = {.status = CMD_OK, .format = DP_FORMAT_RECORDING};
	bool done = false;

	t.status = dp_cmd_trace_parse(&t, VERB_RECORD, argc, argv, &done);
	if (!t.status && !done && !t.out_path)
		t.status = dp_ui_fail(E_CMD_MISSING, "name the file: -o run.dpt", "nowhere to record to");
	if (t.status != CMD_OK || done)
		return dp_cmd_trace_drop(&t);
	return dp_cmd_trace_run(&t);
}
