/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The common half of the formats: finds a record's event, reads its fields with every bound
 * checked, and knows the names of tasks.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "log/format-priv.h"

#define LOOK_AGAIN_NS 1000000000u /* a thread may change its name, an id may be used again */

int dp_formatter_new(struct dp_formatter **out, enum dp_format format, FILE *to,
		     const struct dp_format_env *env)
{
	struct dp_formatter *f = dp_alloc(sizeof(*f));

	if (f)
		f->tasks = dp_alloc(DP_TASKS * sizeof(*f->tasks));
	if (!f || !f->tasks) {
		dp_free(f);
		return -ENOMEM;
	}
	f->format = format;
	f->out = to;
	f->env = *env;
	*out = f;
	return 0;
}

void dp_formatter_free(struct dp_formatter *f)
{
	if (!f)
		return;
	dp_line_free(&f->line);
	dp_free(f->tasks);
	dp_free(f);
}

/* ---- tasks ---- */

static bool read_comm(u32 tid, char buf[16])
{
	char path[40];
	ssize_t n;
	int fd;

	dp_format(path, sizeof(path), "/proc/%u/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, 16);
	close(fd);
	if (n <= 0)
		return false;
	buf[n - 1] = '\0'; /* the line's end; a name has at most 15 bytes */
	return true;
}

static struct dp_task *task_slot(struct dp_formatter *f, u32 tid)
{
	struct dp_task *t = &f->tasks[tid % DP_TASKS];

	if (t->tid != tid) {
		memset(t, 0, sizeof(*t));
		t->tid = tid;
	}
	return t;
}

const char *dp_task_name(struct dp_formatter *f, const struct dp_record *rec, u64 ns)
{
	u32 tid = rec->tid, ours = tid;
	struct dp_task *t = task_slot(f, tid);
	const char *told = dp_view_comm(rec);
	char comm[16];

	if (told) {
		memcpy(t->comm, told, sizeof(t->comm));
		t->comm[sizeof(t->comm) - 1] = '\0';
		return t->comm;
	}
	if (!t->looked_ns || ns - t->looked_ns > LOOK_AGAIN_NS) {
		t->looked_ns = ns ? ns : 1;
		/* The name of a thread that has ended stays, though it can no longer be looked up.
		 */
		if (f->env.comm ? f->env.comm(f->env.comm_arg, &ours, comm) : read_comm(tid, comm)) {
			comm[15] = '\0';
			memcpy(t->comm, comm, sizeof(comm));
			t->ours = ours;
			t->known = true;
		}
	}
	return t->known ? t->comm : "<...>";
}

u32 dp_task_id(struct dp_formatter *f, u32 tid)
{
	struct dp_task *t = task_slot(f, tid);

	return t->ours ? t->ours : tid;
}

void dp_formatter_learn(struct dp_formatter *f, pid_t tid, const char *comm)
{
	struct dp_task *t = task_slot(f, (u32)tid);

	dp_format(t->comm, sizeof(t->comm), "%s", comm);
	t->known = true;
}

/* ---- the door ---- */

void dp_formatter_record(struct dp_formatter *f, const struct dp_record *rec, u64 ns)
{
	const struct dp_event_info *ev;

	if (rec->event >= f->env.nevents || (rec->flags & DP_REC_PAD))
		return;
	ev = &f->env.events[rec->event];
	dp_line_reset(&f->line);
	if (f->format == DP_FORMAT_JSON)
		dp_format_json(f, rec, ns, ev);
	else
		dp_format_text(f, rec, ns, ev);
	if (!f->line.broken)
		fwrite_unlocked(f->line.text, 1, f->line.n, f->out);
}

void dp_formatter_head(struct dp_formatter *f)
{
	if (f->format != DP_FORMAT_TEXT)
		return;
	fputs("# tracer: dprobes\n"
	      "#\n"
	      "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
	      "#              | |       |          |         |\n",
	      f->out);
}
