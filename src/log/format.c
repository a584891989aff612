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

const char *dp_task_name(struct dp_formatter *f, u32 tid, u64 ns)
{
	struct dp_task *t = task_slot(f, tid);
	u32 ours = tid;
	char comm[16];

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

/* ---- fields ---- */

void dp_view_init(struct dp_view *v, const struct dp_record *rec, const struct dp_layout *layout)
{
	v->rec = rec;
	v->layout = layout;
	v->payload = (const u8 *)(rec + 1);
	v->size = rec->len > sizeof(*rec) ? rec->len - sizeof(*rec) : 0;
}

static bool faulted(const struct dp_view *v, unsigned i)
{
	u64 mask;

	if (!v->layout->has_faultmask || v->size < 8)
		return false;
	memcpy(&mask, v->payload, 8);
	return mask >> DP_MIN(i, 63u) & 1;
}

static u64 load(const u8 *p, unsigned size, bool is_signed)
{
	u64 bits = 0;
	unsigned shift = 64 - 8 * size;

	memcpy(&bits, p, size); /* little endian, like the target */
	return is_signed && size < 8 ? (u64)((s64)(bits << shift) >> shift) : bits;
}

static struct dp_value string_value(const struct dp_view *v, u32 descriptor)
{
	u32 off = descriptor & 0xffff, len = descriptor >> 16;
	struct dp_value out = {DP_VALUE_OK};

	if (!len) {
		out.state = DP_VALUE_FAULT;
	} else if (off > v->size || len > v->size - off) {
		out.state = DP_VALUE_CUT;
	} else {
		out.text = (const char *)v->payload + off;
		out.len = len - 1;
		if (out.text[len - 1])
			out.len = len; /* shortened: its end is missing */
	}
	return out;
}

struct dp_value dp_view_value(const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	unsigned size = field->size <= 8 ? field->size : 8;
	size_t off = field->offset + (size_t)at * size;
	struct dp_value out = {DP_VALUE_OK};

	if (off + size > v->size) {
		out.state = DP_VALUE_CUT;
		return out;
	}
	out.bits = load(v->payload + off, size, dp_field_is_signed(field));
	if (field->type == DP_FIELD_STRING)
		return string_value(v, (u32)out.bits);
	/* The mask has one bit for all fields from 63 on; among those only a zero can be a fault.
	 */
	if (faulted(v, i) && (i < 63 || !out.bits))
		out.state = DP_VALUE_FAULT;
	return out;
}

bool dp_view_ret_addr(const struct dp_view *v, u64 *addr)
{
	size_t off = v->layout->has_faultmask ? 8 : 0;

	if (!v->layout->has_ret_addr || v->size < off + 8)
		return false;
	memcpy(addr, v->payload + off, 8);
	return true;
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
