/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See trace-later.h. Knows nothing of targets. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/trace-later.h"

static bool is_needed(const struct trace *t)
{
	return dp_select_is_open(&t->select) && !dp_format_of_programs(t->format) && t->format != DP_FORMAT_RECORDING;
}

/* Where large files may lie; else in memory. */
static int open_nameless(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("dprobes-recording", MFD_CLOEXEC);
}

int dp_cmd_later_begin(struct trace_later *l, struct trace *t, struct dp_error *err)
{
	bool is_directory = dp_format_is_directory(t->format);
	int r, copy;

	*l = (struct trace_later){.fd = -1};
	if (!is_needed(t))
		return 0;
	l->report.format = t->format;
	l->report.path = is_directory ? t->out_path : NULL;
	l->report.graph = t->run.graph;
	l->report.color = !t->out_path && dp_ui_color(stdout);
	r = dp_output_open(&l->report.out, is_directory ? "/dev/null" : t->out_path, &dp_cmd_stop, err);
	if (r)
		return r;
	l->fd = open_nameless();
	copy = l->fd < 0 ? -1 : fcntl(l->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (copy < 0) {
		r = dp_fail(err, E_OUT_OPEN, "a file for what is recorded: %s", strerror(errno));
		dp_output_close(&l->report.out, NULL);
		return r;
	}
	snprintf(l->path, sizeof(l->path), "/dev/fd/%d", copy); /* which the trace closes */
	t->out_path = l->path;
	t->format = DP_FORMAT_RECORDING;
	return 0;
}

static int show(struct trace_later *l, struct dp_error *err)
{
	char path[32];
	int r;

	dp_cmd_stop = 0; /* it has ended the trace; the next one ends this */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", l->fd);
	r = dp_recording_open(&l->report.from, path, err);
	if (r) {
		dp_output_close(&l->report.out, NULL);
		return r;
	}
	r = dp_report_run(&l->report, err);
	if (r && err->code == E_OUT_WRITE && dp_output_unwanted(&l->report.out))
		r = 0; /* `| head` has seen enough */
	dp_recording_close(l->report.from);
	return r;
}

int dp_cmd_later_end(struct trace_later *l, const struct trace *t, struct dp_error *err)
{
	int r;

	if (l->fd < 0)
		return 0;
	if (!t->run.was_armed)
		dp_output_drop(&l->report.out);
	r = t->run.was_armed ? show(l, err) : dp_output_close(&l->report.out, err);
	close(l->fd);
	return r;
}
