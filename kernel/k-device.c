// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The character device: what its openers ask for is copied, checked and handed to sessions. Nothing
 * that comes through here is trusted but that its sender is root; programs are verified again.
 */
#include <linux/kallsyms.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "k-event.h"
#include "k-exits.h"
#include "k-session.h"
#include "program/program-image.h"
#include "program/opcode.h"

#define RING_MIN DP_RECORD_MAX
#define RING_MAX (1ull << 30)
#define WORDS_MAX (1u << 20)
#define PIDS_MAX 65536
#define ROWS_MAX 256

static void copy_name(char *to, size_t size, enum dp_code code)
{
	strscpy(to, code ? dp_error_info(code)->name : "", size);
}

/* Returns r; tells the sender why. */
static int tell(u64 to, int r, const struct dp_error *err)
{
	struct dp_dev_error *e;

	if (!r || !to)
		return r;
	e = kzalloc(sizeof(*e), GFP_KERNEL);
	if (!e)
		return r;
	copy_name(e->code, sizeof(e->code), err->code);
	e->column = err->column;
	strscpy(e->detail, err->detail, sizeof(e->detail));
	strscpy(e->hint, err->hint, sizeof(e->hint));
	if (copy_to_user((void __user *)to, e, sizeof(*e)))
		r = -EFAULT;
	kfree(e);
	return r;
}

static bool allow_crash;
module_param(allow_crash, bool, 0444);
MODULE_PARM_DESC(allow_crash, "programs may make the kernel panic (exit 2)");

/* ---- adding ---- */

static void *copy_in(u64 from, u64 n)
{
	void *p = dp_alloc(n);

	if (p && copy_from_user(p, (const void __user *)from, n)) {
		dp_free(p);
		return NULL;
	}
	return p;
}

static int read_program(struct dp_program *p, const struct dp_dev_probe *d, struct dp_error *err)
{
	void *image;
	int r;

	if (d->image_size > DP_IMAGE_MAX)
		return dp_fail(err, E_PROG_LIMIT, "%u bytes", d->image_size);
	image = copy_in(d->image, d->image_size);
	if (!image)
		return dp_fail(err, E_PROG_MEMORY, "a program");
	r = dp_program_image_read(p, image, d->image_size, err);
	dp_free(image);
	if (r)
		return r;
	p->in_kernel = true;
	p->is_watch = d->flags & DP_DEV_WATCH;
	if (p->layout.fixed_size > DP_K_LOGMAX) /* records end with the task's name here */
		return dp_fail(err, E_EVENT_BIG, "%u bytes, at most %u", p->layout.fixed_size, (u32)DP_K_LOGMAX);
	if (dp_program_verify(p, d->flags & DP_DEV_RETURN, err))
		return -dp_error_info(err->code)->number;
	if (dp_k_locked_down(p, err))
		return -dp_error_info(E_KERNEL_LOCKDOWN)->number;
	r = dp_k_exits_check(p, err);
	if (r)
		return r;
	if (!allow_crash && dp_program_exits_to(p, DP_EXIT_CRASHDUMP))
		return dp_fail(err, E_KERNEL_CRASH, "exit %u", DP_EXIT_CRASHDUMP);
	if (!dp_program_exits_to(p, DP_EXIT_KDB))
		return 0;
	if (!(d->flags & DP_DEV_USER))
		return dp_k_debugger_check(err);
	dp_fail(err, E_PROG_KERNEL, "exit %u, in code of processes", DP_EXIT_KDB);
	dp_error_hint(err, "insert it without --uprobes: there it stops the process for gdb");
	return -dp_error_info(E_PROG_KERNEL)->number;
}

/* The address, 0 when it is in a module that is not loaded. What cannot be probed is told now. */
static int find_place(struct dp_k_session_probe *p, struct dp_dev_probe *d, struct dp_error *err)
{
	struct dp_kprobe *kp = &p->rp.kp;
	enum dp_outcome how;
	enum dp_code why;
	u8 opcode;
	int r = 0;
	u64 at;

	if (d->place[0])
		strscpy(p->place, d->place, sizeof(p->place));
	if (d->flags & DP_DEV_USER) {
		d->addr = d->offset;
		p->waits = d->flags & DP_DEV_WAITS && !p->is_return;
		return dp_k_user_open(p, d->fd, d->offset, err);
	}
	if (d->place[0]) {
		if (!strchr(p->place, ':') && dp_k_ambiguous(p->place))
			return dp_fail(err, E_KERNEL_AMBIGUOUS, "%s", p->place);
		r = dp_k_resolve(p->place, &d->addr, err);
		if (r < 0)
			return r;
	}
	if (d->offset > 1 << 20 || d->offset < -(1 << 20) || (r && d->offset < 0))
		return dp_fail(err, E_SITE_NOFUNC, "%s%+lld", p->place, d->offset);
	if (d->place[0] && d->offset >= 0) {
		kp->symbol_name = p->place;
		kp->offset = (u32)d->offset;
	} else {
		kp->addr = (void *)(d->addr + d->offset);
	}
	if (r) {
		d->addr = 0;
		return 0;
	}
	d->addr += d->offset;
	at = d->addr;
	r = dp_k_judge(&at, &how, &why, &opcode, err);
	if (r && d->place[0] && dp_k_resolve(d->place, &at, NULL) > 0) { /* it began to go meanwhile */
		d->addr = 0;
		return 0;
	}
	if (!r && d->opcode >= 0 && d->opcode != opcode)
		r = dp_fail(err, E_RPN_OPCODE, "0x%02x, expected 0x%02x", opcode, d->opcode);
	return r;
}

static int find_tracepoint(struct dp_k_session_probe *p, struct dp_dev_probe *d, struct dp_error *err)
{
	strscpy(p->place, d->place, sizeof(p->place));
	d->addr = 0;
	p->is_tracepoint = d->flags & DP_DEV_TRACEPOINT;
	p->is_call = !p->is_tracepoint;
	p->call = (s32)d->offset;
	if (p->is_call && (d->offset < -1 || d->offset >= DP_K_CALLS))
		return dp_fail(err, E_TRACEPOINT_NONE, "system call %lld", d->offset);
	if (p->is_tracepoint && p->is_return)
		return dp_fail(err, E_TRACEPOINT_NONE, "%s returns from nowhere", p->place);
	return p->is_call ? 0 : dp_k_tracepoint_check(p, err);
}

/* Memory that is to be watched: what can be known of it before the registers are asked for. */
static int find_memory(struct dp_k_session_probe *p, struct dp_dev_probe *d, struct dp_error *err)
{
	if (d->place[0]) {
		strscpy(p->place, d->place, sizeof(p->place));
		if (dp_k_resolve(p->place, &d->addr, err))
			return dp_fail(err, E_KERNEL_SYMBOL, "%s", p->place);
	}
	if (!d->watch_len || d->watch_len > 8)
		return dp_fail(err, E_WATCH_ARGUMENT, "%u bytes", d->watch_len);
	d->addr += d->offset;
	p->watch.addr = (void *)d->addr;
	p->watch.len = d->watch_len;
	p->watch.type = d->watch_type;
	return 0;
}

static int add(struct dp_k_session *s, struct dp_dev_probe __user *to)
{
	struct dp_dev_probe *d = memdup_user(to, sizeof(*d));
	struct dp_k_session_probe *p;
	struct dp_error err = {.column = -1};
	int r;

	if (IS_ERR(d))
		return PTR_ERR(d);
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	d->place[sizeof(d->place) - 1] = '\0';
	r = p ? 0 : dp_fail(&err, E_ARM_NOMEM, "a probe");
	if (!r && s->armed)
		r = dp_fail(&err, E_KPROBE_ARGUMENT, "the session is armed already");
	if (!r) {
		p->is_return = d->flags & DP_DEV_RETURN;
		p->rp.maxactive = d->maxactive;
		p->locals = d->locals;
		p->globals = d->globals;
		p->gate = d->gate;
		r = read_program(&p->prog, d, &err);
	}
	if (!r)
		r = d->flags & DP_DEV_WATCH                        ? find_memory(p, d, &err)
		    : d->flags & (DP_DEV_TRACEPOINT | DP_DEV_CALL) ? find_tracepoint(p, d, &err)
								   : find_place(p, d, &err);
	d->index = s->nprobes;
	if (!r && copy_to_user(to, d, sizeof(*d)))
		r = -EFAULT;
	if (!r && dp_k_session_add(s, p))
		r = dp_fail(&err, E_ARM_NOMEM, "%u probes", s->nprobes);
	if (r)
		dp_k_session_probe_free(p);
	r = tell(d->error, r, &err);
	kfree(d);
	return r;
}

static int unwind(struct dp_k_session *s, const struct dp_dev_unwind __user *from)
{
	struct dp_error err = {.column = -1};
	struct dp_dev_unwind d;

	if (copy_from_user(&d, from, sizeof(d)))
		return -EFAULT;
	if (s->area) /* armed, or it was */
		return -EINVAL;
	return tell(d.error, dp_k_stacks_add(&s->stacks, &d, &err), &err);
}

/* ---- arming ---- */

/* For whose hits the session is, and for those of whom they start. */
static int follow(struct dp_k_session *s, struct dp_dev_follow __user *to)
{
	struct dp_error err = {.column = -1};
	struct dp_dev_follow d;
	s32 *pids;
	int r;

	if (copy_from_user(&d, to, sizeof(d)))
		return -EFAULT;
	d.live = dp_k_session_lives(s);
	if (!d.npids)
		return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
	if (s->pids || d.npids > PIDS_MAX || (s->area && !s->family))
		return -EINVAL;
	pids = memdup_user((const void __user *)d.pids, d.npids * sizeof(*pids));
	if (IS_ERR(pids))
		return PTR_ERR(pids);
	r = dp_k_family_add(s, pids, d.npids, &err);
	kfree(pids);
	return tell(d.error, r, &err);
}

/* For whose hits the session is. Before anything is armed. */
static int take_pids(struct dp_k_session *s, const struct dp_dev_arm *a)
{
	s32 *pids;

	if (a->npids > PIDS_MAX || (a->npids && s->family))
		return -EINVAL;
	if (s->family)
		return 0;
	pids = a->npids ? memdup_user((const void __user *)a->pids, a->npids * sizeof(*pids)) : NULL;
	if (IS_ERR(pids))
		return PTR_ERR(pids);
	if (pids)
		sort(pids, a->npids, sizeof(*pids), dp_k_by_id, NULL);
	kfree(s->pids);
	s->pids = pids;
	s->npids = a->npids;
	return 0;
}

static int arm(struct dp_k_session *s, struct dp_dev_arm __user *to)
{
	struct dp_error err = {.column = -1};
	struct dp_dev_arm a;
	u64 *words;
	int r = 0;

	if (copy_from_user(&a, to, sizeof(a)))
		return -EFAULT;
	if (s->area || !s->nprobes || a.nwords > WORDS_MAX || !is_power_of_2(a.ring_size) || a.ring_size < RING_MIN ||
	    a.ring_size > RING_MAX)
		return -EINVAL;
	for (u32 i = 0; i < s->nprobes; i++) {
		const struct dp_k_session_probe *p = s->probes[i];

		if ((p->prog.nlocals && (u64)p->locals + p->prog.nlocals > a.nwords) ||
		    (p->prog.nglobals && (u64)p->globals + p->prog.nglobals > a.nwords) ||
		    (p->prog.rpn.ex_mask && p->gate >= a.nwords))
			return -EINVAL;
	}
	r = take_pids(s, &a);
	if (r)
		return r;
	words = copy_in(a.words, a.nwords * sizeof(*words));
	if (!words)
		return -EFAULT;
	r = dp_k_session_arm(s, &a, words, &err);
	dp_free(words);
	if (!r && copy_to_user(to, &a, sizeof(a)))
		r = -EFAULT;
	return tell(a.error, r, &err);
}

/* ---- questions ---- */

static enum dp_dev_how how_of(const struct dp_registered *s)
{
	if (!s || s->kp->flags & DP_KPROBE_FLAG_GONE)
		return s ? DP_DEV_GONE : DP_DEV_OFF;
	if (s->pending)
		return DP_DEV_PENDING;
	if (s->own)
		return DP_DEV_FTRACE;
	return s->k.point->state == DP_POINT_JUMP   ? DP_DEV_JUMP
	       : s->k.point->state == DP_POINT_TRAP ? DP_DEV_TRAP
						    : DP_DEV_OFF;
}

static int state(struct dp_k_session *s, struct dp_dev_state __user *to)
{
	const struct dp_registered *p;
	struct dp_dev_state d;

	if (copy_from_user(&d, to, sizeof(d)))
		return -EFAULT;
	if (d.index >= s->nprobes)
		return -EINVAL;
	if (s->probes[d.index]->inode) {
		d.how = s->probes[d.index]->user_armed ? DP_DEV_UPROBE
			: s->armed && !s->disarmed     ? DP_DEV_GONE
						       : DP_DEV_OFF;
		d.addr = s->probes[d.index]->offset;
		copy_name(d.why, sizeof(d.why), DP_OK);
		return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
	}
	if (dp_k_is_traced(s->probes[d.index])) {
		d.how = s->armed ? s->probes[d.index]->trace_state : DP_DEV_OFF;
		d.addr = 0;
		copy_name(d.why, sizeof(d.why), DP_OK);
		return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
	}
	if (s->probes[d.index]->watch.len) {
		d.how = !s->armed || s->disarmed                                ? DP_DEV_OFF
			: s->probes[d.index]->watch.flags & DP_KWATCH_FLAG_GONE ? DP_DEV_GONE
										: DP_DEV_JUMP;
		d.addr = (u64)s->probes[d.index]->watch.addr;
		d.why[0] = '\0';
		return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
	}
	mutex_lock(&dp_k_lock);
	p = dp_kprobes_find(&dp_k_kprobes, &s->probes[d.index]->rp.kp);
	d.how = how_of(p);
	d.addr = (u64)s->probes[d.index]->rp.kp.addr;
	copy_name(d.why, sizeof(d.why), d.how == DP_DEV_TRAP && p->k.point->no_jump ? p->k.point->why : DP_OK);
	mutex_unlock(&dp_k_lock);
	return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
}

static int judge(struct dp_dev_judge __user *to)
{
	struct dp_error err = {.column = -1};
	struct dp_dev_judge d;
	unsigned long size = 0, offset;
	enum dp_outcome how;
	enum dp_code why;
	u8 opcode;
	int r;

	if (copy_from_user(&d, to, sizeof(d)))
		return -EFAULT;
	dp_k_sym.size_offset(d.addr, &size, &offset);
	d.size = size;
	r = dp_k_judge(&d.addr, &how, &why, &opcode, &err);
	d.how = r                          ? DP_DEV_OFF
		: how == DP_OUTCOME_JUMP   ? DP_DEV_JUMP
		: how == DP_OUTCOME_FTRACE ? DP_DEV_FTRACE
					   : DP_DEV_TRAP;
	copy_name(d.why, sizeof(d.why), r ? err.code : why);
	if (copy_to_user(to, &d, sizeof(d)))
		return -EFAULT;
	return tell(d.error, r, &err);
}

static int symbol(struct dp_dev_symbol __user *to)
{
	struct dp_dev_symbol d = {};
	char text[KSYM_SYMBOL_LEN];
	unsigned long size, offset;

	if (get_user(d.addr, &to->addr))
		return -EFAULT;
	if (dp_k_sym.size_offset(d.addr, &size, &offset)) {
		sprint_symbol_no_offset(text, d.addr);
		strscpy(d.name, text, sizeof(d.name));
		d.offset = offset;
	}
	return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
}

static void fill_row(struct dp_dev_row *row, const struct dp_registered *s)
{
	const struct dp_k_session *session = dp_k_session_of(s);
	const struct dp_kprobe *kp = s->kp;
	bool ours = session || dp_k_is_event(s);

	memset(row, 0, sizeof(*row));
	row->addr = s->pending ? 0 : (u64)kp->addr;
	row->type = ours && s->type == 'k' ? 'p' : s->type;
	row->how = how_of(s);
	row->flags = (kp->flags & DP_KPROBE_FLAG_DISABLED ? DP_DEV_LIST_DISABLED : 0) |
		     (dp_k_is_passed_by(s) ? DP_DEV_LIST_PATCHED : 0);
	row->pid = session ? session->pid : ours ? 0 : -1;
	if (kp->symbol_name && (s->pending || row->how == DP_DEV_GONE))
		snprintf(row->place, sizeof(row->place), "%s+0x%x", kp->symbol_name, kp->offset);
	else
		snprintf(row->place, sizeof(row->place), "%pS", kp->addr);
}

static void fill_user_row(struct dp_dev_row *row, const struct dp_k_session_probe *p)
{
	*row = (struct dp_dev_row){
	    .addr = p->offset, .type = p->is_return ? 'r' : 'p', .how = DP_DEV_UPROBE, .pid = p->session->pid};
	strscpy(row->place, p->place, sizeof(row->place));
}

struct rows {
	struct dp_dev_row *v;
	u32 at, start, n, most;
};

/* The next row, NULL: it is before those that are wanted, or behind them. */
static struct dp_dev_row *next_row(struct rows *to)
{
	return to->n == to->most || to->at++ < to->start ? NULL : &to->v[to->n++];
}

static void fill_trace_row(void *arg, const struct dp_k_session_probe *p)
{
	struct dp_dev_row *row = next_row(arg);

	if (!row)
		return;
	*row = (struct dp_dev_row){.type = p->is_call ? 's' : 't', .how = p->trace_state, .pid = p->session->pid};
	strscpy(row->place, p->place, sizeof(row->place));
}

static void fill_watch_row(void *arg, const struct dp_kwatch *w)
{
	const struct dp_k_session *session = dp_k_session_of_watch(w);
	struct dp_dev_row *row = next_row(arg);

	if (!row)
		return;
	*row = (struct dp_dev_row){.addr = (u64)w->addr,
				   .type = 'w',
				   .how = DP_DEV_WATCHES,
				   .pid = session                  ? session->pid
					  : dp_k_is_event_watch(w) ? 0
								   : -1};
	snprintf(row->place, sizeof(row->place), "%pS", w->addr);
}

static int list(struct dp_dev_list __user *to)
{
	const struct dp_k_session_probe *p;
	struct dp_registered *s;
	struct dp_dev_row *rows;
	struct dp_dev_list d;
	struct rows all;
	u32 at = 0, n = 0;
	int r = 0;

	if (copy_from_user(&d, to, sizeof(d)))
		return -EFAULT;
	d.n = min_t(u32, d.n, ROWS_MAX);
	rows = kvcalloc(d.n + 1, sizeof(*rows), GFP_KERNEL);
	if (!rows)
		return -ENOMEM;
	mutex_lock(&dp_k_lock);
	for (s = dp_k_kprobes.first; s; s = s->next) {
		if (n == d.n)
			break;
		if (!dp_k_unwind_is_own(s->kp) && at++ >= d.start)
			fill_row(&rows[n++], s);
	}
	list_for_each_entry(p, &dp_k_user_probes, user_list) {
		if (n == d.n)
			break;
		if (at++ >= d.start)
			fill_user_row(&rows[n++], p);
	}
	mutex_unlock(&dp_k_lock);
	all = (struct rows){rows, at, d.start, n, d.n};
	dp_k_tracepoints_each(fill_trace_row, &all);
	dp_k_watches_each(fill_watch_row, &all);
	n = d.n = all.n;
	if (copy_to_user((void __user *)d.rows, rows, n * sizeof(*rows)) || copy_to_user(to, &d, sizeof(d)))
		r = -EFAULT;
	kvfree(rows);
	return r;
}

static int hello(struct dp_dev_hello __user *to)
{
	struct dp_dev_hello d = {DP_DEV_ABI, DP_ABI, nr_cpu_ids};

	return copy_to_user(to, &d, sizeof(d)) ? -EFAULT : 0;
}

/* ---- the file ---- */

static int device_open(struct inode *inode, struct file *f)
{
	struct dp_k_session *s;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	mutex_init(&s->lock);
	s->pid = current->tgid;
	f->private_data = s;
	return nonseekable_open(inode, f);
}

static long device_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct dp_k_session *s = f->private_data;
	void __user *to = (void __user *)arg;
	long r = 0;

	mutex_lock(&s->lock);
	switch (cmd) {
	case DP_DEV_HELLO:
		r = hello(to);
		break;
	case DP_DEV_ADD:
		r = add(s, to);
		break;
	case DP_DEV_UNWIND:
		r = unwind(s, to);
		break;
	case DP_DEV_FOLLOW:
		r = follow(s, to);
		break;
	case DP_DEV_ARM:
		r = arm(s, to);
		break;
	case DP_DEV_STATE:
		r = state(s, to);
		break;
	case DP_DEV_JUDGE:
		r = judge(to);
		break;
	case DP_DEV_SYMBOL:
		r = symbol(to);
		break;
	case DP_DEV_LIST:
		r = list(to);
		break;
	case DP_DEV_SYNC:
		dp_k_session_sync(s);
		break;
	case DP_DEV_DISARM:
		dp_k_session_disarm(s);
		break;
	default:
		r = -ENOTTY;
	}
	mutex_unlock(&s->lock);
	return r;
}

/* Without the session's lock, under which ioctl touches memory of the caller, whose mappings are locked here. */
static int device_mmap(struct file *f, struct vm_area_struct *vma)
{
	const struct dp_k_session *s = f->private_data;

	/*
	 * Pairs with the release in dp_k_session_arm(). What is there then goes with the session, which the mapping
	 * keeps.
	 */
	if (!smp_load_acquire(&s->armed) || vma->vm_pgoff)
		return -EINVAL;
	return remap_vmalloc_range(vma, s->area, 0);
}

/* The last descriptor and mapping are gone, whatever became of who had them. */
static int device_release(struct inode *inode, struct file *f)
{
	dp_k_session_free(f->private_data);
	return 0;
}

static const struct file_operations device_fops = {.owner = THIS_MODULE,
						   .open = device_open,
						   .unlocked_ioctl = device_ioctl,
						   .mmap = device_mmap,
						   .release = device_release};

static struct miscdevice device = {.minor = MISC_DYNAMIC_MINOR, .name = "dprobes", .fops = &device_fops, .mode = 0600};

int dp_k_device_init(void)
{
	return misc_register(&device);
}

void dp_k_device_exit(void)
{
	misc_deregister(&device);
}
