// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The files of the event tracer: kprobe_probes as the first one had it, kprobe_events and the
 * events directory as today's kernel has them, profiles and the log of errors.
 */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "k-event.h"

#define ERRORS_KEPT 8

static struct dentry *events_dir;

/* ---- the log of errors ---- */

static struct {
	u64 ns;
	int column;
	char *line, *text; /* NULL: there was no memory */
} errors[ERRORS_KEPT];
static u32 nerrors; /* ever */

void dp_k_error_log(const char *line, const struct dp_error *err)
{
	const struct dp_error_info *info = dp_error_info(err->code);
	u32 i = nerrors++ % ERRORS_KEPT;

	kfree(errors[i].line);
	kfree(errors[i].text);
	errors[i].ns = ktime_get_ns();
	errors[i].column = err->column;
	errors[i].line = kstrdup(line, GFP_KERNEL);
	errors[i].text = kasprintf(GFP_KERNEL, "%s: %s%s%s", info->name, info->sentence, err->detail[0] ? ": " : "",
				   err->detail);
}

static int error_log_show(struct seq_file *m, void *v)
{
	mutex_lock(&dp_k_events_lock);
	for (u32 i = nerrors > ERRORS_KEPT ? nerrors - ERRORS_KEPT : 0; i < nerrors; i++) {
		u32 k = i % ERRORS_KEPT;

		seq_printf(m, "[%5llu.%06llu] trace_kprobe: error: %s\n  Command: %s\n", errors[k].ns / 1000000000,
			   errors[k].ns / 1000 % 1000000, errors[k].text ?: "", errors[k].line ?: "");
		if (errors[k].column >= 0)
			seq_printf(m, "%*s\n", 12 + errors[k].column, "^");
	}
	mutex_unlock(&dp_k_events_lock);
	return 0;
}

static int error_log_open(struct inode *inode, struct file *f)
{
	if (f->f_mode & FMODE_WRITE && f->f_flags & O_TRUNC) {
		mutex_lock(&dp_k_events_lock);
		nerrors = 0;
		mutex_unlock(&dp_k_events_lock);
	}
	return single_open(f, error_log_show, NULL);
}

static ssize_t accept_all(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	return n;
}

static const struct file_operations error_log_fops = {.owner = THIS_MODULE,
						      .open = error_log_open,
						      .read = seq_read,
						      .write = accept_all,
						      .llseek = seq_lseek,
						      .release = single_release};

/* ---- definitions ---- */

void dp_k_event_show(struct seq_file *m, const struct dp_k_event *e)
{
	seq_putc(m, dp_k_event_type(e));
	if (e->ev.is_return && e->ev.maxactive)
		seq_printf(m, "%d", e->ev.maxactive);
	if (!e->plain || e->ev.is_named)
		seq_printf(m, ":%s/%s", e->ev.group, e->ev.name);
	seq_printf(m, " %s\n", e->text);
}

static int definitions_show(struct seq_file *m, void *v)
{
	bool plain = m->private;
	struct dp_k_event *e;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		if (e->plain == plain)
			dp_k_event_show(m, e);
	mutex_unlock(&dp_k_events_lock);
	return 0;
}

/* Those that are switched on are in use, but for those of kprobe_probes, which are from the start.
 */
int dp_k_events_clear(bool plain)
{
	struct dp_k_event *e, *next;
	LIST_HEAD(gone);
	int r = 0;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		if (e->plain == plain && e->on && !plain)
			r = -EBUSY;
	list_for_each_entry_safe(e, next, &dp_k_events, list)
		if (!r && e->plain == plain)
			dp_k_event_remove(e, &gone);
	mutex_unlock(&dp_k_events_lock);
	dp_k_events_reap(&gone);
	return r;
}

static int definitions_open(struct inode *inode, struct file *f)
{
	int r = 0;

	if (f->f_mode & FMODE_WRITE && f->f_flags & O_TRUNC)
		r = dp_k_events_clear(inode->i_private);
	return r ? r : single_open(f, definitions_show, inode->i_private);
}

/* "-:[GROUP/]NAME", "-:GROUP/": all that are meant, or none when one is in use. */
static int delete (char *line, bool plain)
{
	char *name = line + 2, *slash, *group = NULL;
	struct dp_k_event *e, *next;
	LIST_HEAD(gone);
	int r = -ENOENT;

	name[strcspn(name, " \t")] = '\0';
	slash = strchr(name, '/');
	if (slash) {
		*slash = '\0';
		group = name;
		name = slash + 1;
	}
	mutex_lock(&dp_k_events_lock);
	for (int pass = 0; pass < 2; pass++)
		list_for_each_entry_safe(e, next, &dp_k_events, list) {
			if (e->plain != plain || (group && strcmp(group, e->ev.group)) ||
			    (*name && strcmp(name, e->ev.name)) || r == -EBUSY)
				continue;
			r = e->on && !plain ? -EBUSY : 0;
			if (pass)
				dp_k_event_remove(e, &gone);
		}
	mutex_unlock(&dp_k_events_lock);
	dp_k_events_reap(&gone);
	return r;
}

/* Where the kernel's tracer points: at the whole of a place, group or name, not at what is wrong in
 * it. */
static int column_of(const char *line, const struct dp_error *err)
{
	int word = (int)strcspn(line, " \t"), slash = (int)strcspn(line, "/");

	switch (err->code) {
	case E_EVENT_OFFSET:
		return word + (int)strspn(line + word, " \t");
	case E_EVENT_GROUP:
		return (int)strcspn(line, ":") + 1;
	case E_EVENT_NAME:
		return slash < word ? slash + 1 : (int)strcspn(line, ":") + 1;
	default:
		return err->column;
	}
}

static int do_line(char *line, bool plain)
{
	struct dp_error err = {.column = -1};
	int r;

	line = strim(line);
	if (!*line || *line == '#')
		return 0;
	if (line[0] == '-' && line[1] == ':' && line[2])
		return delete (line, plain);
	mutex_lock(&dp_k_events_lock);
	r = dp_k_event_define(line, plain, &err);
	if (r && err.code) {
		err.column = column_of(line, &err);
		dp_k_error_log(line, &err);
	}
	mutex_unlock(&dp_k_events_lock);
	return r;
}

/* Whole lines; an empty one clears kprobe_probes, as its description has it. */
static ssize_t definitions_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	bool plain = file_inode(f)->i_private;
	char *text, *line, *rest;
	int r = 0;

	if (n > DP_K_LINE_MAX * 64)
		return -E2BIG;
	text = memdup_user_nul(buf, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	if (plain && !*strim(text))
		r = dp_k_events_clear(true);
	while (!r && (line = strsep(&rest, "\n")))
		r = do_line(line, plain);
	kfree(text);
	return r ? r : n;
}

static const struct file_operations definitions_fops = {.owner = THIS_MODULE,
							.open = definitions_open,
							.read = seq_read,
							.write = definitions_write,
							.llseek = seq_lseek,
							.release = single_release};

static int profile_show(struct seq_file *m, void *v)
{
	struct dp_k_event *e;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		seq_printf(m, "  %-44s %15llu %15llu\n", e->ev.name,
			   dp_k_event_count(e, DP_COUNT_RECORDED) + dp_k_event_count(e, DP_COUNT_LOST) +
			       dp_k_event_count(e, DP_COUNT_FILTERED),
			   dp_k_event_count(e, DP_COUNT_MISSED));
	mutex_unlock(&dp_k_events_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(profile);

/* hits = the sum of the first five */
static int counts_show(struct seq_file *m, void *v)
{
	struct dp_k_event *e;

	seq_printf(m, "%-32s %12s %12s %12s %12s %12s %8s\n", "EVENT", "RECORDED", "PASSED", "FILTERED", "MISSED",
		   "LOST", "FAULTS");
	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		seq_printf(m, "%-32s %12llu %12llu %12llu %12llu %12llu %8llu\n", e->ev.name,
			   dp_k_event_count(e, DP_COUNT_RECORDED), dp_k_event_count(e, DP_COUNT_PASSED),
			   dp_k_event_count(e, DP_COUNT_FILTERED), dp_k_event_count(e, DP_COUNT_MISSED),
			   dp_k_event_count(e, DP_COUNT_LOST), dp_k_event_count(e, DP_COUNT_FAULTS));
	mutex_unlock(&dp_k_events_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

/* ---- events/: switches. Private data: an event; or the name of a group, or NULL for all ---- */

static ssize_t say(char __user *buf, size_t n, loff_t *pos, const char *text)
{
	return simple_read_from_buffer(buf, n, pos, text, strlen(text));
}

static ssize_t enable_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	struct dp_k_event *e = file_inode(f)->i_private;

	return say(buf, n, pos, READ_ONCE(e->on) ? "1\n" : "0\n");
}

static ssize_t enable_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	struct dp_k_event *e = file_inode(f)->i_private;
	bool on;
	int r = kstrtobool_from_user(buf, n, &on);

	if (r)
		return r;
	mutex_lock(&dp_k_events_lock);
	r = dp_k_event_switch(e, on);
	mutex_unlock(&dp_k_events_lock);
	return r ? r : n;
}

static const struct file_operations enable_fops = {
    .owner = THIS_MODULE, .read = enable_read, .write = enable_write, .llseek = default_llseek};

static bool in_group(const struct dp_k_event *e, const char *group)
{
	return !group || !strcmp(group, e->ev.group);
}

static ssize_t all_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	const char *group = file_inode(f)->i_private;
	u32 on = 0, off = 0;
	struct dp_k_event *e;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		if (in_group(e, group))
			e->on ? on++ : off++;
	mutex_unlock(&dp_k_events_lock);
	return say(buf, n, pos, on && off ? "X\n" : on ? "1\n" : "0\n");
}

static ssize_t all_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	const char *group = file_inode(f)->i_private;
	struct dp_k_event *e;
	bool on;
	int r = kstrtobool_from_user(buf, n, &on);

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry(e, &dp_k_events, list)
		if (!r && in_group(e, group))
			r = dp_k_event_switch(e, on);
	mutex_unlock(&dp_k_events_lock);
	return r ? r : n;
}

static const struct file_operations all_fops = {
    .owner = THIS_MODULE, .read = all_read, .write = all_write, .llseek = default_llseek};

/* ---- events/GROUP/NAME/: filter, format, id ---- */

static ssize_t filter_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	struct dp_k_event *e = file_inode(f)->i_private;
	char *text;
	ssize_t r;

	mutex_lock(&dp_k_events_lock);
	text = kasprintf(GFP_KERNEL, "%s\n", e->filter ? e->filter : "none");
	mutex_unlock(&dp_k_events_lock);
	if (!text)
		return -ENOMEM;
	r = say(buf, n, pos, text);
	kfree(text);
	return r;
}

static ssize_t filter_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	struct dp_k_event *e = file_inode(f)->i_private;
	struct dp_error err = {.column = -1};
	char *text;
	int r;

	if (n > DP_K_LINE_MAX)
		return -E2BIG;
	text = memdup_user_nul(buf, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&dp_k_events_lock);
	r = dp_k_event_filter(e, strim(text), &err);
	if (r && err.code)
		dp_k_error_log(strim(text), &err);
	mutex_unlock(&dp_k_events_lock);
	kfree(text);
	return r ? r : n;
}

static const struct file_operations filter_fops = {
    .owner = THIS_MODULE, .read = filter_read, .write = filter_write, .llseek = default_llseek};

static const char *const type_names[] = {
    [DP_FIELD_U8] = "u8",      [DP_FIELD_U16] = "u16",
    [DP_FIELD_U32] = "u32",    [DP_FIELD_U64] = "u64",
    [DP_FIELD_S8] = "s8",      [DP_FIELD_S16] = "s16",
    [DP_FIELD_S32] = "s32",    [DP_FIELD_S64] = "s64",
    [DP_FIELD_X8] = "u8",      [DP_FIELD_X16] = "u16",
    [DP_FIELD_X32] = "u32",    [DP_FIELD_X64] = "u64",
    [DP_FIELD_CHAR] = "char",  [DP_FIELD_STRING] = "__data_loc char[]",
    [DP_FIELD_SYMBOL] = "u64", [DP_FIELD_FRAME] = "u64",
};
static const char *const type_formats[] = {
    [DP_FIELD_U8] = "%u",      [DP_FIELD_U16] = "%u",
    [DP_FIELD_U32] = "%u",     [DP_FIELD_U64] = "%Lu",
    [DP_FIELD_S8] = "%d",      [DP_FIELD_S16] = "%d",
    [DP_FIELD_S32] = "%d",     [DP_FIELD_S64] = "%Ld",
    [DP_FIELD_X8] = "0x%x",    [DP_FIELD_X16] = "0x%x",
    [DP_FIELD_X32] = "0x%x",   [DP_FIELD_X64] = "0x%Lx",
    [DP_FIELD_CHAR] = "'%c'",  [DP_FIELD_STRING] = "\\\"%s\\\"",
    [DP_FIELD_SYMBOL] = "%pS", [DP_FIELD_FRAME] = "%pS",
};

static void field_line(struct seq_file *m, const char *type, const char *name, u32 count, u32 at, u32 size, bool sign)
{
	seq_printf(m, "\tfield:%s %s", type, name);
	if (count)
		seq_printf(m, "[%u]", count);
	seq_printf(m, ";\toffset:%u;\tsize:%u;\tsigned:%d;\n", at, size, sign);
}

/* The conversions of a field: as many as it has elements. */
static void put_conversions(struct seq_file *m, const struct dp_field *f)
{
	seq_printf(m, " %s=%s", f->name, f->count ? "{" : "");
	for (u32 i = 0; i < max_t(u32, f->count, 1); i++)
		seq_printf(m, "%s%s", i ? "," : "", type_formats[f->type]);
	seq_puts(m, f->count ? "}" : "");
}

/* What they show. */
static void put_arguments(struct seq_file *m, const struct dp_field *f)
{
	bool text = f->type == DP_FIELD_STRING;

	for (u32 i = 0; i < max_t(u32, f->count, 1); i++) {
		seq_printf(m, ", %s%s", text ? "__get_str(" : "REC->", f->name);
		if (f->count)
			seq_printf(m, "[%u]", i);
		seq_puts(m, text ? ")" : "");
	}
}

static int format_show(struct seq_file *m, void *v)
{
	const struct dp_k_event *e = m->private;
	const struct dp_layout *l = &e->ev.prog.layout;
	u32 base = sizeof(struct dp_record);

	seq_printf(m, "name: %s\nID: %u\nformat:\n", e->ev.name, e->id);
	field_line(m, "unsigned short", "common_len", 0, 0, 2, false);
	field_line(m, "unsigned short", "common_flags", 0, 2, 2, false);
	field_line(m, "unsigned int", "common_type", 0, 4, 4, false);
	field_line(m, "int", "common_pid", 0, 8, 4, true);
	field_line(m, "unsigned int", "common_cpu", 0, 12, 4, false);
	field_line(m, "u64", "common_time", 0, 16, 8, false);
	seq_putc(m, '\n');
	/* Not logged: it is the same in all records of the event, and belongs behind what they have in common. */
	field_line(m, "unsigned long", l->has_ret_addr ? "__probe_func" : "__probe_ip", 0, base + l->fixed_size, 8,
		   false);
	if (l->has_ret_addr)
		field_line(m, "unsigned long", "__probe_ret_ip", 0, base + 8 * l->has_faultmask, 8, false);
	for (u32 i = 0; i < l->nfields; i++) {
		const struct dp_field *f = &l->fields[i];

		field_line(m, type_names[f->type], f->name, f->count, base + f->offset,
			   f->size * max_t(u32, f->count, 1), f->type >= DP_FIELD_S8 && f->type <= DP_FIELD_S64);
	}
	seq_printf(m, "\nprint fmt: \"%s", l->has_ret_addr ? "(%lx <- %lx)" : "(%lx)");
	for (u32 i = 0; i < l->nfields; i++)
		put_conversions(m, &l->fields[i]);
	seq_printf(m, "\", %s", l->has_ret_addr ? "REC->__probe_func, REC->__probe_ret_ip" : "REC->__probe_ip");
	for (u32 i = 0; i < l->nfields; i++)
		put_arguments(m, &l->fields[i]);
	seq_putc(m, '\n');
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(format);

static int id_show(struct seq_file *m, void *v)
{
	const struct dp_k_event *e = m->private;

	seq_printf(m, "%u\n", e->id);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(id);

/* ---- what scripts written for the kernel's own tracer look for ---- */

static const char readme[] =
    "Events at kernel functions and instructions. Write to kprobe_events (or dynamic_events):\n\n"
    "\t p[:[<group>/][<name>]] <place> [<args>] [if <condition>]\tprobe\n"
    "\t r[maxactive][:[<group>/][<name>]] <place> [<args>] [if <condition>]\treturn probe\n"
    "\t w[:[<group>/][<name>]] <memory>:<length>[:w|rw|x] [<args>] [if <condition>]\twatchpoint\n"
    "\t -:[<group>/][<name>]\tdelete\n\n"
    "\t place: [<module>:]<symbol>[+<offset>]|<memaddr>\n"
    "\t place (kretprobe): [<module>:]<symbol>[+<offset>]%return|<memaddr>\n"
    "\t memory: [<module>:]<variable>[+<offset>]|<memaddr>, 1, 2, 4 or 8 aligned bytes\n"
    "\t args: <name>=fetcharg[:type]\n"
    "\t fetcharg: "
    "(%<register>|$arg<N>|$retval|$stack<N>|$stack|$comm|@<address>|@<symbol>[+|-<offset>]),\n"
    "\t           $addr|$old|$new (watchpoint),\n"
    "\t           +|-[u]<offset>(<fetcharg>), \\imm-value, \\\"imm-string\"\n"
    "\t type: s8/16/32/64, u8/16/32/64, x8/16/32/64, char, string, ustring, symbol,\n"
    "\t       b<bit-width>@<bit-offset>/<container-size>, <type>[<array-size>]\n"
    "\t condition, and filter of an event: as in C, over args by name; ~ matches a pattern\n\n"
    "kprobe_probes takes the first tracer's short form (p do_sys_open a1 a2) and is in force at "
    "once.\n";

static ssize_t readme_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	return say(buf, n, pos, readme);
}

static const struct file_operations readme_fops = {.owner = THIS_MODULE, .read = readme_read, .llseek = default_llseek};

static ssize_t tracer_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	return say(buf, n, pos, "nop\n");
}

/* There is no other. */
static ssize_t tracer_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	char name[8] = "";

	if (n >= sizeof(name) || copy_from_user(name, buf, n))
		return -EINVAL;
	return strcmp(strim(name), "nop") ? -EINVAL : n;
}

static const struct file_operations tracer_fops = {
    .owner = THIS_MODULE, .read = tracer_read, .write = tracer_write, .llseek = default_llseek};

/* ---- directories ---- */

struct group {
	struct list_head list;
	u32 n; /* events in it */
	struct dentry *dir;
	char name[DP_NAME_MAX];
};
static LIST_HEAD(groups);
static DEFINE_MUTEX(groups_lock);

static struct group *get_group(const char *name)
{
	struct group *g;

	list_for_each_entry(g, &groups, list)
		if (!strcmp(g->name, name)) {
			g->n++;
			return g;
		}
	g = kzalloc(sizeof(*g), GFP_KERNEL);
	if (!g)
		return NULL;
	strscpy(g->name, name, sizeof(g->name));
	g->n = 1;
	g->dir = debugfs_create_dir(name, events_dir);
	debugfs_create_file("enable", 0600, g->dir, g->name, &all_fops);
	list_add(&g->list, &groups);
	return g;
}

static void put_group(const char *name)
{
	struct group *g;

	list_for_each_entry(g, &groups, list)
		if (!strcmp(g->name, name)) {
			if (--g->n)
				return;
			debugfs_remove_recursive(g->dir);
			list_del(&g->list);
			kfree(g);
			return;
		}
}

int dp_k_event_make_dir(struct dp_k_event *e)
{
	struct group *g;

	mutex_lock(&groups_lock);
	g = get_group(e->ev.group);
	if (g) {
		e->dir = debugfs_create_dir(e->ev.name, g->dir);
		debugfs_create_file("enable", 0600, e->dir, e, &enable_fops);
		debugfs_create_file("filter", 0600, e->dir, e, &filter_fops);
		debugfs_create_file("format", 0400, e->dir, e, &format_fops);
		debugfs_create_file("id", 0400, e->dir, e, &id_fops);
	}
	mutex_unlock(&groups_lock);
	return g ? 0 : -ENOMEM;
}

void dp_k_event_remove_dir(struct dp_k_event *e)
{
	if (!e->dir)
		return;
	mutex_lock(&groups_lock);
	debugfs_remove_recursive(e->dir);
	put_group(e->ev.group);
	mutex_unlock(&groups_lock);
}

int dp_k_event_files_init(void)
{
	debugfs_create_file("kprobe_probes", 0600, dp_k_top, (void *)1, &definitions_fops);
	debugfs_create_file("kprobe_events", 0600, dp_k_top, NULL, &definitions_fops);
	debugfs_create_file("dynamic_events", 0600, dp_k_top, NULL, &definitions_fops);
	debugfs_create_file("profile", 0400, dp_k_top, NULL, &counts_fops);
	debugfs_create_file("kprobe_profile", 0400, dp_k_top, NULL, &profile_fops);
	debugfs_create_file("error_log", 0600, dp_k_top, NULL, &error_log_fops);
	debugfs_create_file("README", 0400, dp_k_top, NULL, &readme_fops);
	debugfs_create_file("current_tracer", 0600, dp_k_top, NULL, &tracer_fops);
	debugfs_create_file("available_tracers", 0400, dp_k_top, NULL, &tracer_fops);
	events_dir = debugfs_create_dir("events", dp_k_top);
	debugfs_create_file("enable", 0600, events_dir, NULL, &all_fops);
	return 0;
}

void dp_k_event_files_exit(void)
{
	for (u32 i = 0; i < ERRORS_KEPT; i++) {
		kfree(errors[i].line);
		kfree(errors[i].text);
	}
	debugfs_remove_recursive(events_dir);
}
