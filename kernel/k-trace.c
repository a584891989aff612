// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The log as text: trace shows what is there, trace_pipe takes it. Layouts of the first event
 * tracer and of today's. */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "k-event.h"
#include "log/sink.h"

#define PIPE_PIECE 16384 /* bytes of each ring that are formatted at once */

struct opened {
	struct dp_line text;
	size_t at;
};

static DEFINE_MUTEX(pipe_lock); /* a record goes to one of the readers */

/* ---- one record ---- */

static void put_address(struct dp_line *l, u64 addr, bool offset)
{
	char buf[KSYM_SYMBOL_LEN];

	if (offset)
		sprint_symbol(buf, addr);
	else
		sprint_symbol_no_offset(buf, addr);
	dp_line_str(l, buf);
}

static void name_address(struct dp_sink *s, u64 addr, bool behind_call, char *buf, size_t size)
{
	BUILD_BUG_ON(DP_SINK_SYMBOL < KSYM_SYMBOL_LEN);
	if (behind_call)
		snprintf(buf, size, "%pB", (void *)(unsigned long)addr);
	else
		sprint_symbol(buf, addr);
}

static void put_head(struct dp_line *l, const struct dp_record *rec)
{
	const char *comm = dp_view_comm(rec);
	size_t before = l->n, n = comm ? strnlen(comm, DP_COMM_SIZE) : 0;

	for (size_t i = n; i < DP_COMM_SIZE; i++)
		dp_line_char(l, ' ');
	for (size_t i = 0; i < n; i++)
		dp_line_char(l, comm[i] < ' ' || comm[i] > '~' ? '?' : comm[i]);
	dp_line_char(l, '-');
	dp_line_dec(l, rec->tid, 0, ' ');
	while (l->n < before + DP_COMM_SIZE + 8 && !l->broken)
		dp_line_char(l, ' ');
	dp_line_str(l, "[");
	dp_line_dec(l, rec->cpu, 3, '0');
	dp_line_str(l, "] ");
	dp_line_dec(l, rec->tsc / 1000000000, 5, ' ');
	dp_line_char(l, '.');
	dp_line_dec(l, rec->tsc / 1000 % 1000000, 6, '0');
	dp_line_str(l, ": ");
}

/* "do_sys_open: @do_sys_open+0 0x5", for a return "sys_open: <-do_sys_open+0": the name, else the
 * function or its caller. */
static void put_first(struct dp_line *l, const struct dp_k_event *e, u64 ret)
{
	if (e->ev.is_named)
		dp_line_str(l, e->ev.name);
	else if (e->ev.is_return)
		put_address(l, ret - 1, false);
	else
		dp_line_str(l, e->symbol);
	dp_line_str(l, e->ev.is_return ? ": <-" : ": @");
	dp_line_str(l, e->symbol);
	dp_line_char(l, '+');
	if (e->ev.loc.offset > 0)
		dp_line_hex(l, (u64)e->ev.loc.offset);
	else
		dp_line_char(l, '0');
}

static u64 place_of(struct dp_k_event *e)
{
	u64 addr;

	if (e->rp.kp.symbol_name && e->rp.kp.addr && e->at_for != e->rp.kp.addr &&
	    !dp_k_resolve(e->symbol, &addr, NULL)) {
		e->at = addr + e->rp.kp.offset;
		e->at_for = e->rp.kp.addr;
	}
	return e->at;
}

/* "name: (vfs_read+0x0/0x120) arg1=1" and "name: (ksys_read+0x5c/0xd0 <- vfs_read) arg1=1" */
static void put_today(struct dp_line *l, struct dp_k_event *e, u64 ret)
{
	dp_line_str(l, e->ev.name);
	dp_line_str(l, ": (");
	if (e->ev.is_return) {
		put_address(l, ret, true);
		dp_line_str(l, " <- ");
		put_address(l, (u64)e->rp.kp.addr, false);
	} else {
		put_address(l, place_of(e), true);
	}
	dp_line_char(l, ')');
}

static void begin_record(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_k_event *e = (struct dp_k_event *)r->event;
	u64 ret = 0;

	dp_view_ret_addr(&r->view, &ret);
	if (e->plain)
		put_first(s->line, e, ret);
	else
		put_today(s->line, e, ret);
}

static void end_record(struct dp_sink *s, const struct dp_sink_record *r)
{
	if (r->rec->flags & DP_REC_TRUNCATED)
		dp_line_str(s->line, " (shortened)");
	dp_line_char(s->line, '\n');
}

static const struct dp_sink_ops trace_text = {
    .begin = begin_record,
    .field = dp_put_field,
    .group = dp_put_group,
    .member = dp_put_member,
    .group_end = dp_put_group_end,
    .value = dp_put_value,
    .end = end_record,
};

static void put_record(struct dp_line *l, struct dp_record *rec)
{
	struct dp_sink s = {.ops = &trace_text, .line = l, .symbol = name_address, .dim = "", .plain = ""};
	struct dp_sink_record r = {.rec = rec};
	struct dp_k_event *e;

	list_for_each_entry(e, &dp_k_events, list)
		if (e->id == rec->event)
			r.event = e;
	put_head(l, rec);
	if (!r.event) {
		dp_line_str(l, "(an event that was deleted)\n");
		return;
	}
	dp_view_init(&r.view, rec, &((const struct dp_k_event *)r.event)->ev.prog.layout);
	dp_walk_event(&s, &r);
}

/* ---- trace ---- */

static const char head[] = "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
			   "#              | |       |          |         |\n";

/* Of a file in per_cpu/cpuN its number, -1: of all. */
static int cpu_of(const struct inode *inode)
{
	return (int)(long)inode->i_private - 1;
}

static int trace_open(struct inode *inode, struct file *f)
{
	struct dp_record *rec;
	struct dp_k_log log;
	struct dp_line body = {};
	struct opened *o;
	u64 n = 0;
	char first[80];
	int r;

	if (f->f_mode & FMODE_WRITE && f->f_flags & O_TRUNC)
		dp_k_log_clear(cpu_of(inode));
	o = kzalloc(sizeof(*o), GFP_KERNEL);
	if (!o)
		return -ENOMEM;
	r = f->f_mode & FMODE_READ ? dp_k_log_read(&log, U64_MAX, cpu_of(inode)) : 1;
	if (r < 0) {
		kfree(o);
		return r;
	}
	if (!r) {
		mutex_lock(&dp_k_events_lock);
		for (; (rec = dp_k_log_next(&log)); n++)
			put_record(&body, rec);
		mutex_unlock(&dp_k_events_lock);
		snprintf(first, sizeof(first),
			 "# tracer: nop\n#\n# entries-in-buffer/entries-written: %llu/%llu   #P:%u\n#\n", n,
			 n + log.entries_written, num_online_cpus());
		dp_line_str(&o->text, first);
		dp_line_str(&o->text, head);
		dp_line_bytes(&o->text, body.text, body.n);
		dp_line_free(&body);
		dp_k_log_free(&log);
	}
	f->private_data = o;
	return 0;
}

static ssize_t trace_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	struct opened *o = f->private_data;

	return simple_read_from_buffer(buf, n, pos, o->text.text, o->text.n);
}

static ssize_t trace_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	return n; /* opening it for writing has emptied it */
}

static int trace_release(struct inode *inode, struct file *f)
{
	struct opened *o = f->private_data;

	dp_line_free(&o->text);
	kfree(o);
	return 0;
}

static const struct file_operations trace_fops = {.owner = THIS_MODULE,
						  .open = trace_open,
						  .read = trace_read,
						  .write = trace_write,
						  .llseek = default_llseek,
						  .release = trace_release};

/* ---- trace_pipe ---- */

static int pipe_open(struct inode *inode, struct file *f)
{
	struct opened *o = kzalloc(sizeof(*o), GFP_KERNEL);
	int r = o ? dp_k_take_begin() : -ENOMEM;

	if (r)
		kfree(o);
	else
		f->private_data = o;
	return r;
}

static int pipe_fill(struct opened *o, int cpu)
{
	struct dp_record *rec;
	struct dp_k_log log;
	int r;

	mutex_lock(&pipe_lock);
	r = dp_k_log_read(&log, PIPE_PIECE, cpu);
	if (r)
		goto out;
	dp_line_reset(&o->text);
	o->at = 0;
	mutex_lock(&dp_k_events_lock);
	while ((rec = dp_k_log_next(&log)))
		put_record(&o->text, rec);
	mutex_unlock(&dp_k_events_lock);
	dp_k_log_taken(&log);
	dp_k_log_free(&log);
out:
	mutex_unlock(&pipe_lock);
	return r;
}

static ssize_t pipe_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	struct opened *o = f->private_data;
	int r;

	while (o->at == o->text.n) {
		r = pipe_fill(o, cpu_of(file_inode(f)));
		if (r)
			return r;
		if (o->text.n)
			break;
		if (f->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (signal_pending(current))
			return -EINTR;
		msleep_interruptible(20);
	}
	n = min(n, o->text.n - o->at);
	if (copy_to_user(buf, o->text.text + o->at, n))
		return -EFAULT;
	o->at += n;
	return n;
}

static int pipe_release(struct inode *inode, struct file *f)
{
	struct opened *o = f->private_data;

	dp_k_take_end();
	dp_line_free(&o->text);
	kfree(o);
	return 0;
}

static const struct file_operations pipe_fops = {
    .owner = THIS_MODULE, .open = pipe_open, .read = pipe_read, .release = pipe_release};

/* ---- buffer_size_kb ---- */

static int size_get(void *data, u64 *v)
{
	*v = dp_k_ring_kb() * (data ? num_possible_cpus() : 1);
	return 0;
}

static int size_set(void *data, u64 kb)
{
	struct dp_k_event *e;
	int r = !kb || kb > U32_MAX ? -EINVAL : 0;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		if (!r && e->on)
			r = -EBUSY;
	if (!r)
		r = dp_k_ring_resize((u32)kb);
	mutex_unlock(&dp_k_events_lock);
	return r;
}
DEFINE_DEBUGFS_ATTRIBUTE(size_fops, size_get, size_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(total_fops, size_get, NULL, "%llu\n");

/* ---- all of them ---- */

static struct dentry *per_cpu_dir;
static struct dentry *files[4];

static void log_files(struct dentry *dir, struct dentry **trace, struct dentry **pipe, int cpu)
{
	void *of = (void *)(long)(cpu + 1); /* cpu_of() */

	*trace = debugfs_create_file("trace", 0600, dir, of, &trace_fops);
	*pipe = debugfs_create_file("trace_pipe", 0400, dir, of, &pipe_fops);
}

int dp_k_trace_init(void)
{
	struct dentry *unused;
	char name[16];
	int cpu;

	log_files(dp_k_top, &files[0], &files[1], -1);
	files[2] = debugfs_create_file("buffer_size_kb", 0600, dp_k_top, NULL, &size_fops);
	files[3] = debugfs_create_file("buffer_total_size_kb", 0400, dp_k_top, (void *)1, &total_fops);
	per_cpu_dir = debugfs_create_dir("per_cpu", dp_k_top);
	for_each_possible_cpu(cpu) {
		snprintf(name, sizeof(name), "cpu%d", cpu);
		log_files(debugfs_create_dir(name, per_cpu_dir), &unused, &unused, cpu);
	}
	dp_k_chosen_init();
	return 0;
}

void dp_k_trace_exit(void)
{
	dp_k_chosen_exit();
	debugfs_remove_recursive(per_cpu_dir);
	for (u32 i = 0; i < DP_ARRAY_SIZE(files); i++)
		debugfs_remove(files[i]);
}
