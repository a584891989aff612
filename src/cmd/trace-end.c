/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the user is told at the end of a trace, whose probes are out by then. */
#include "cmd/cmd-trace.h"
#include "cmd/cmd.h"

void dp_cmd_trace_take_status(struct trace *t)
{
	int status;

	if (t->run.n && dp_tracee_status(&t->run.v[0]->tracee, &status) && !t->status)
		t->status = dp_ui_status_of(status);
}

static void tell_end(struct trace *t)
{
	int status;

	if (t->run.n && dp_tracee_status(&t->run.v[0]->tracee, &status))
		dp_ui_tell_ended(t->command[0], status);
}

/* Whatever was lost is told, in quiet mode too. */
void dp_cmd_trace_tell_losses(struct trace *t)
{
	u64 lost, unread, damaged;
	struct dp_error err;

	dp_trace_losses(&t->run, &lost, &unread);
	if (lost)
		dp_ui_note("%llu events were lost because the log had no room: record less, add a "
			   "condition (if ...), or enlarge the log with --buffer",
			   (unsigned long long)lost);
	for (u32 i = 0; i < t->run.n; i++)
		if (t->run.v[i]->reader && dp_reader_damage(t->run.v[i]->reader, &damaged, &err)) {
			dp_cmd_trace_tell(t, &err, NULL);
			unread = 0;
		}
	if (unread)
		dp_ui_note("%llu recorded events could not be read back", (unsigned long long)unread);
}

static void tell_followed(struct trace *t)
{
	const struct dp_follow_run *f = &t->follow;
	struct dp_keep_counts kept;

	if (f->joined)
		dp_ui_note("%u process%s joined while the trace ran; up to the first %s of each is missing", f->joined,
			   f->joined == 1 ? "" : "es", t->select.tree ? "20 ms" : "0.1 s");
	if (f->strangers)
		dp_ui_note(
		    "%u process%s that the traced program started ran without probes; --tree probes them as well",
		    f->strangers, f->strangers == 1 ? "" : "es");
	if (t->run.keep && !t->rule.asks) {
		dp_keep_counts(t->run.keep, &kept);
		dp_cmd_keep_if_tell(t, &kept);
	}
	if (t->run.is_full)
		dp_ui_note("%llu events shown; later ones were only counted", (unsigned long long)t->run.shown);
}

void dp_cmd_trace_tell_end(struct trace *t)
{
	tell_end(t);
	tell_followed(t);
}
