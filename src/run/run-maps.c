/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a recording tells of a process: the files with code that are mapped in it. */
#include <string.h>

#include "run/run-priv.h"
#include "run/run-trace.h"
#include "symbols/symbols.h"

static void put(struct dp_line *to, const void *p, size_t n)
{
	dp_line_bytes(to, p, n);
}

static void put_map(struct dp_line *to, const struct dp_image *img)
{
	const char *path = dp_module_path(img->mod);
	struct dp_recording_map m = {
	    .lo = img->lo, .hi = img->hi, .bias = img->bias, .path = dp_recording_text_size(path)};

	dp_format(m.build_id, sizeof(m.build_id), "%s", dp_module_build_id(img->mod));
	put(to, &m, sizeof(m));
	dp_recording_put_text(to, path);
}

void dp_recording_put_process(struct dp_line *to, const struct dp_process *p, u32 pid, const char *comm)
{
	struct dp_recording_source s = {.pid = pid, .nmaps = p ? (u32)p->nimages : 0};

	dp_format(s.comm, sizeof(s.comm), "%s", comm);
	put(to, &s, sizeof(s));
	for (u32 i = 0; i < s.nmaps; i++)
		put_map(to, &p->images[i]);
}

void dp_run_put_process(const struct dp_run *run, u32 pid, struct dp_line *to)
{
	const struct run_target *t = run->targets;
	char comm[16] = "";

	while (t && ((u32)t->pid != pid || !t->session))
		t = t->next;
	if (pid && !dp_task_comm(pid, comm) && t)
		dp_format(comm, sizeof(comm), "%s", t->comm);
	dp_recording_put_process(to, pid && t ? dp_tracee_process(t->session) : NULL, pid, comm);
}
