/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which process carries which probes. A process has one session, with the probes of all modules
 * that it maps; when that set changes the session is made anew, and its variables and counts are
 * carried over. Children that inherited the probes of their parent belong to the parent's session.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "run/run-idle.h"
#include "run/run-priv.h"
#include "run/run-select.h"
#include "run/run-recover.h"
#include "run/run-trace.h"

#define RING_BYTES (1 << 20) /* of a processor's log, where nobody wants another size */

static struct run_target *find_target(struct dp_run *run, pid_t pid)
{
	struct run_target *t = run->by_pid[(u32)pid % RUN_BY_PID];

	while (t && t->pid != pid)
		t = t->next_same;
	return t;
}

/*
 * The guard lets everybody with that number go on: it must be the process that we know, not a later one, which waits
 * for its own turn.
 */
static pid_t be_busy_with(const struct run_target *t)
{
	bool lives = t->pid && dp_process_started(t->pid) == t->started;

	return dp_run_busy_with(lives ? t->pid : 0);
}

/* ---- the end of a session ---- */

static void add_counts(struct run_target *t)
{
	for (u32 i = 0; i < t->nprobes; i++) {
		const struct run_probe *p = &t->probes[i];
		struct dp_counts c;

		if (!p->m)
			continue;
		dp_reader_counts(t->reader, i, &c);
		for (u32 k = 0; k < DP_NCOUNTS; k++)
			p->m->done[p->index].v[k] += c.v[k];
	}
}

static void save_modules(struct dp_run *run, const struct run_range *ranges, u32 n)
{
	for (u32 i = 0; i < n; i++)
		dp_run_save_module(run, ranges[i].m);
}

/* Take the probes out, show what is left, keep the counts. The ranges stay, for whoever carries the
 * variables over. */
static void end_session(struct dp_run *run, struct run_target *t)
{
	if (!t->session)
		return;
	dp_run_withdraw(run, t);
	dp_run_drain(run, t, true);
	dp_run_end_requests(run, t);
	add_counts(t);
	dp_run_log_commit(run);
	save_modules(run, t->ranges, t->nranges);
	dp_reader_close(t->reader);
	dp_tracee_free(t->session);
	free(t->session);
	free(t->probes);
	t->reader = NULL;
	t->session = NULL;
	t->probes = NULL;
	t->nprobes = 0;
	t->rings_inode = 0;
	t->is_withdrawn = false;
}

void dp_run_target_end(struct dp_run *run, struct run_target *t)
{
	struct run_target **p = &run->targets, **same = &run->by_pid[(u32)t->pid % RUN_BY_PID];
	pid_t before = be_busy_with(t);

	dp_run_withdraw(run, t);
	dp_run_end_bodies(run, t, NULL);
	for (u32 i = 0; t->session && i < t->nranges; i++)
		if (!t->ranges[i].left_out)
			dp_run_keep_ended(
			    run, t->ranges[i].m,
			    dp_run_ended_new(t->ranges[i].m, dp_tracee_words(t->session) + t->ranges[i].locals,
					     &(struct dp_agg_view){t->pid, true, dp_run_symbol_of, t, dp_run_file_of,
								   .apart = dp_run_apart(t)}));
	dp_run_end_kept(run, t);
	end_session(run, t);
	dp_run_busy_with(before);
	while (*p && *p != t)
		p = &(*p)->next;
	if (*p)
		*p = t->next;
	while (*same && *same != t)
		same = &(*same)->next_same;
	if (*same)
		*same = t->next_same;
	dp_run_unsave_target(run, t);
	dp_run_free_ranges(t->ranges, t->nranges);
	dp_run_order_forget(run, t);
	free(t->heirs);
	free(t);
}

/* ---- a new session ---- */

/* All probes of a module; when one is refused, the session is of no use. */
static int add_module(struct run_target *t, struct dp_tracee *s, const struct run_range *range, bool adopt,
		      struct dp_error *err)
{
	int r = dp_run_check_build(s, &range->m->unit, err);

	for (u32 i = 0; i < range->m->unit.nprobes && !r; i++) {
		if (!adopt)
			range->at[i] = t->nprobes;
		r = dp_run_add_probe(s, range, i, err);
		if (r)
			break;
		t->probes[range->at[i]] = (struct run_probe){range->m, i};
		t->nprobes = DP_MAX(t->nprobes, range->at[i] + 1);
	}
	return r;
}

/* adopt: all as it is in these ranges, which are of the same modules. */
static int set_slots(struct run_target *t, const struct run_wanted *w, const struct run_range *ranges, bool adopt)
{
	struct run_range *v = calloc(w->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	dp_run_free_ranges(t->ranges, t->nranges);
	t->ranges = v;
	t->nranges = w->n;
	t->nwords = RUN_GLOBALS;
	for (u32 i = 0; i < w->n; i++) {
		const struct run_range *was = NULL;
		u32 *at;

		if (!dp_run_place_range(&v[i], w->v[i], t->nwords, t->pid))
			return -ENOMEM;
		for (u32 k = 0; adopt && k < w->n && !was; k++)
			was = ranges[k].m == w->v[i] && ranges[k].generation == w->v[i]->generation ? &ranges[k] : NULL;
		if (adopt && !was)
			return -ENOENT;
		at = v[i].at;
		if (was) {
			v[i] = *was;
			v[i].at = at;
			memcpy(at, was->at, was->ngates * sizeof(*at));
		}
		t->nwords = DP_MAX(t->nwords, v[i].gates + v[i].room_gates);
	}
	return 0;
}

/* Set the probes, or (adopt) go on with those that a killed driver has set. */
static int start_session(struct dp_run *run, struct run_target *t, struct dp_tracee *s, const u64 *words, u32 nwords,
			 bool adopt, struct dp_error *err)
{
	const struct dp_apart none = {0, 0};
	int r = dp_tracee_set_words(s, words, nwords, err);

	if (!r && !adopt) {
		dp_run_save_target(run, t, t->ranges, t->nranges, words, none, nwords);
		r = dp_tracee_arm(s, err);
	} else if (!r && !dp_tracee_adopt(s)) {
		r = -ENOENT;
	}
	if (!r && adopt)
		dp_reader_settle(dp_tracee_rings(s), run->old_epoch);
	if (!r)
		r = dp_reader_open(&t->reader, dp_tracee_rings(s), err);
	if (r)
		return r;
	if (run->journal || ((run->recorder || run->ends_recording) && t->pid))
		dp_reader_keep(t->reader);
	t->rings_inode = dp_tracee_rings_inode(s);
	if (!adopt) /* else it is the one that was written down */
		dp_run_save_target(run, t, t->ranges, t->nranges, dp_tracee_words(s), dp_tracee_apart(s), nwords);
	return 0;
}

static void drop_session(struct run_target *t, struct dp_tracee *s)
{
	dp_tracee_free(s);
	free(s);
	free(t->probes);
	t->probes = NULL;
	t->nprobes = 0;
}

static bool any_left_in(const struct run_target *t)
{
	for (u32 i = 0; i < t->nranges; i++)
		if (!t->ranges[i].left_out)
			return true;
	return false;
}

/*
 * The programs that are not left out, added and armed. refused: the range whose program is why it failed; NULL: nobody
 * says.
 */
static int try_session(struct dp_run *run, struct run_target *t, const struct dp_session_options *opt, const u64 *words,
		       u32 nwords, struct run_range **refused, struct dp_error *err)
{
	struct dp_tracee *s = calloc(1, sizeof(*s));
	u32 n = 0;
	int r;

	*refused = NULL;
	for (u32 i = 0; i < t->nranges; i++) {
		n += t->ranges[i].ngates;
		for (u32 k = 0; opt->adopt && k < t->ranges[i].ngates; k++)
			n = DP_MAX(n, t->ranges[i].at[k] + 1);
	}
	t->probes = calloc(n + 1, sizeof(*t->probes));
	if (!s || !t->probes) {
		free(s);
		free(t->probes);
		t->probes = NULL;
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)t->pid);
	}
	if (t->pid && !n && !opt->adopt)
		r = dp_idle_open(s, t->pid, err);
	else
		r = dp_recover_open(s, t->pid, NULL, opt, err);
	for (u32 i = 0; i < t->nranges && !r; i++) {
		if (t->ranges[i].left_out)
			continue;
		*refused = &t->ranges[i];
		r = add_module(t, s, &t->ranges[i], opt->adopt, err);
	}
	if (!r) {
		*refused = NULL;
		r = start_session(run, t, s, words, nwords, opt->adopt, err);
	}
	if (r)
		drop_session(t, s);
	else
		t->session = s;
	if (!r && t->pid)
		dp_task_comm((u32)t->pid, t->comm);
	return r;
}

/*
 * All were added, but the probes cannot be set together. Whose fault is it? Without one of them, the newest first, it
 * may go.
 */
static int try_without_one(struct dp_run *run, struct run_target *t, const struct dp_session_options *opt,
			   const u64 *words, u32 nwords, const struct dp_error *why)
{
	struct run_range *refused;
	struct dp_error err;

	/* Errors of the process hold for any probes. */
	if (strncmp(dp_error_info(why->code)->name, "E-SITE", 6) && strncmp(dp_error_info(why->code)->name, "E-ARM", 5))
		return -ENOENT;
	for (u32 i = t->nranges; i-- > 0;) {
		if (t->ranges[i].left_out)
			continue;
		t->ranges[i].left_out = true;
		if (any_left_in(t) && !try_session(run, t, opt, words, nwords, &refused, &err)) {
			dp_run_leave_out(&t->ranges[i], t->pid, why);
			return 0;
		}
		t->ranges[i].left_out = false;
	}
	return -ENOENT;
}

static int build_session(struct dp_run *run, struct run_target *t, const struct run_wanted *w, const u64 *old,
			 const struct run_range *ranges, u32 nranges, bool adopt, struct dp_error *err)
{
	struct dp_session_options opt = {
	    .ring_size = run->ring_size ? run->ring_size : RING_BYTES, .adopt = adopt, .grows = t->pid};
	struct run_range *refused;
	u32 nwords;
	u64 *words;
	int r = set_slots(t, w, ranges, adopt);

	if (r == -ENOENT)
		return r;
	nwords = t->nwords;
	if (r)
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)t->pid);
	opt.only = t->pid ? NULL : run->only;
	opt.nonly = t->pid ? 0 : run->nonly;
	opt.below = run->follows ? dp_pids_started : NULL;
	opt.strict_reads = opt.skip_refused = true;
	opt.note = opt.left = run->note;
	opt.arg = run->note_arg;
	for (u32 i = 0; i < w->n; i++) {
		opt.strict_reads &= !(w->v[i]->flags & DP_RUN_LOAD);
		opt.skip_refused &= !!(w->v[i]->flags & DP_RUN_SKIP);
		opt.allow_trap |= !!(w->v[i]->flags & DP_RUN_ALLOW_TRAP);
		opt.children |= !!(w->v[i]->flags & DP_RUN_CHILDREN);
		opt.share_globals |= t->pid && w->v[i]->unit.nglobals;
	}
	if (!opt.skip_refused && t->pid)
		opt.note = NULL;
	if (opt.share_globals && !dp_run_open_globals(run))
		return dp_fail(err, E_RPN_MEMORY, "global variables");
	opt.globals_fd = run->globals_fd;
	t->shares = opt.share_globals;
	t->allows_trap = opt.allow_trap;
	words = calloc(nwords, sizeof(*words));
	if (!words)
		return dp_fail(err, E_RPN_MEMORY, "process %d", (int)t->pid);
	dp_run_fill_words(t, old, ranges, nranges, words);
	for (struct run_target *of = run->targets; of && !t->pid; of = of->next)
		if (of->pid)
			dp_run_tell_values(run, t, words, of, false);
	if (!adopt)
		dp_run_begin_all(run, t, old ? ranges : NULL, old ? nranges : 0, words);
	while ((r = try_session(run, t, &opt, words, nwords, &refused, err)) && refused) {
		dp_run_leave_out(refused, t->pid, err);
		if (!any_left_in(t))
			break;
	}
	if (r && !refused && !adopt && !try_without_one(run, t, &opt, words, nwords, err))
		r = 0;
	free(words);
	return r;
}

/* A target without a session gets one; words from the one before. */
static void renew(struct dp_run *run, struct run_target *t, const struct run_wanted *w, const u64 *old,
		  const struct run_range *ranges, u32 nranges)
{
	struct dp_error err = {0};

	if (!w->n || !build_session(run, t, w, old, ranges, nranges, false, &err))
		return;
	for (u32 i = 0; i < t->nranges; i++)
		if (!t->ranges[i].left_out)
			dp_run_leave_out(&t->ranges[i], t->pid, &err);
	dp_run_unsave_target(run, t);
}

/* Give the process exactly these modules' probes. */
static void rearm(struct dp_run *run, struct run_target *t, const struct run_wanted *w)
{
	const struct dp_apart none = {0, 0};
	struct run_range *ranges;
	u32 nranges, nold = RUN_GLOBALS;
	pid_t before = be_busy_with(t);
	u64 *old = NULL;

	run->rearmed = true;
	if (w->n && dp_run_change(run, t, w)) {
		dp_run_tell_kernel(run, t, false);
		dp_run_busy_with(before);
		return;
	}
	ranges = t->ranges;
	nranges = t->nranges;
	nold = DP_MAX(nold, t->nwords);
	if (t->session) {
		dp_run_tell_kernel(run, t, true);
		dp_tracee_remove(t->session, NULL); /* from now on the words stand still */
		old = dp_run_read_words(t, nold);
		if (old)
			dp_run_save_target(run, t, ranges, nranges, old, none, nold);
		dp_run_keep_words(t, old, none, ranges, nranges, w);
		end_session(run, t);
	}
	t->ranges = NULL;
	t->nranges = 0;
	renew(run, t, w, old, ranges, nranges);
	for (u32 i = 0; t->session && i < t->nranges; i++)
		dp_run_forget_kept(t, t->ranges[i].m);
	dp_run_tell_kernel(run, t, false);
	free(old);
	dp_run_free_ranges(ranges, nranges);
	dp_run_busy_with(before);
}

/* ---- looking around ---- */

#define SCAN_NS 200000000ull      /* between two scans, at least; more where they would take */
#define SHARE 500                 /* more than so small a share of a processor, */
#define SHARE_ALONE 20            /* or that, where nothing but scans finds who starts; */
#define SCAN_MAX_NS 2000000000ull /* at most */

static struct run_target *new_target(struct dp_run *run, pid_t pid, u64 started)
{
	struct run_target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->pid = pid;
	t->started = started;
	t->next = run->targets;
	t->next_same = run->by_pid[(u32)pid % RUN_BY_PID];
	run->targets = run->by_pid[(u32)pid % RUN_BY_PID] = t;
	return t;
}

/* As a rule they are of the process itself. Else all are looked at, of which there may be a thousand. */
static struct run_target *target_of_rings(struct dp_run *run, pid_t pid, u64 inode)
{
	struct run_target *t = find_target(run, pid);

	if (!inode)
		return NULL;
	if (t && t->rings_inode == inode)
		return t;
	t = run->targets;
	while (t && t->rings_inode != inode)
		t = t->next;
	return t;
}

/* A process that has the session's rings: its own one, or one that has inherited them. */
static void note_user(struct run_target *t, pid_t pid)
{
	t->in_use = true;
	for (u32 i = 0; i < t->nheirs; i++)
		if (t->heirs[i] == pid)
			return;
	if (pid != t->pid && dp_grow((void **)&t->heirs, &t->room_heirs, t->nheirs, sizeof(*t->heirs)))
		t->heirs[t->nheirs++] = pid;
}

#define SEVERAL (~0ull)

/* Whose rings are mapped there. Returns those that the process has inherited; 0: none, or SEVERAL. */
static u64 note_rings(struct dp_run *run, const struct dp_maps *maps, pid_t pid)
{
	u64 inherited = 0;

	for (size_t i = 0; i < maps->n; i++) {
		struct run_target *t = strstr(maps->v[i].path, "dprobes-rings")
					   ? target_of_rings(run, pid, maps->v[i].inode)
					   : NULL;

		if (!t)
			continue;
		note_user(t, pid);
		if (t->pid != pid)
			inherited = inherited && inherited != t->rings_inode ? SEVERAL : t->rings_inode;
	}
	return inherited;
}

/*
 * False: there is something more to do, or to find out, at the next scan. rings: of the session that it inherited, as
 * note_rings() finds it.
 */
static bool look_at(struct dp_run *run, pid_t pid, bool force, bool caught, u64 *rings)
{
	struct run_wanted w;
	struct run_target *t;
	struct dp_maps maps;
	u64 started;

	*rings = 0;
	if (dp_maps_read(&maps, pid, NULL))
		return true;
	*rings = note_rings(run, &maps, pid);
	dp_run_find_wanted(run, &maps, pid, &w);
	dp_maps_free(&maps);
	t = find_target(run, pid);
	if (!w.n && !t)
		return *rings != SEVERAL;
	started = dp_process_started(pid);
	if (t && t->started != started) { /* another process with the same id */
		dp_run_target_end(run, t);
		t = NULL;
	}
	if (!t && *rings)
		return *rings != SEVERAL;
	if (!t && (!w.n || !started))
		return false;
	if (!caught && (!t || !t->session || !dp_tracee_alive(t->session)) &&
	    dp_run_is_caught(pid)) { /* it is held: its turn comes */
		if (t)
			t->seen = true;
		return false;
	}
	if (!t)
		t = new_target(run, pid, started);
	if (!t)
		return false;
	t->seen = true;
	if (t->session && !dp_tracee_alive(t->session)) { /* it runs another program now */
		struct run_wanted none;

		none.n = 0;
		rearm(run, t, &none);
		dp_run_end_kept(run, t);
	}
	if (!dp_run_as_wanted(t, &w) || (force && !t->session && w.n)) {
		rearm(run, t, &w);
		return false;
	}
	return w.n && !*rings;
}

/* The kernel is one target more, which is always there. */
static void look_at_kernel(struct dp_run *run, bool force)
{
	struct run_target *t = find_target(run, 0);
	struct run_wanted w;

	dp_run_find_wanted_in_kernel(run, &w);
	if (!t && w.n)
		t = new_target(run, 0, 0);
	if (!t)
		return;
	t->seen = true;
	if (!dp_run_as_wanted(t, &w) || (force && !t->session && w.n))
		rearm(run, t, &w);
}

void dp_run_mapped_anew(struct dp_run *run, const struct run_module *m, pid_t pid)
{
	struct run_target *t = find_target(run, pid);

	for (u32 i = 0; t && i < t->nranges; i++)
		t->ranges[i].stale |= t->ranges[i].m == m;
}

void dp_run_look_at(struct dp_run *run, pid_t pid)
{
	u64 rings;

	look_at(run, pid, true, true, &rings);
}

/* Who is chosen may change without its memory, and so may the time from which a command counts as begun. */
static bool may_trust_sizes(const struct dp_run *run)
{
	bool trusts = !run->chosen;

	for (const struct run_module *m = run->modules; m; m = m->next)
		trusts &= !(m->flags & DP_RUN_LATER);
	return trusts;
}

/* It needs no look. What it has inherited may be over, though. */
static bool is_same(struct dp_run *run, pid_t pid)
{
	struct run_target *t, *of;
	u64 rings;

	if (!dp_seen_same(run, pid, &rings))
		return false;
	of = target_of_rings(run, pid, rings);
	if (rings && !of)
		return false;
	if (of)
		note_user(of, pid);
	t = find_target(run, pid);
	if (t)
		t->seen = t->in_use = true;
	return true;
}

static void scan_process(struct dp_run *run, pid_t pid, bool force, bool trusts)
{
	u64 rings;

	if (!is_same(run, pid) && look_at(run, pid, force, false, &rings) && trusts)
		dp_seen_note(run, pid, find_target(run, pid), rings);
}

/* Those that have inherited the probes of a session that was adopted have its new owner, too. */
static void tell_heirs(struct dp_run *run)
{
	for (struct run_target *t = run->targets; t; t = t->next) {
		if (t->adopted && t->session && t->session->ops->adopted)
			t->session->ops->adopted(t->session->session, t->heirs, t->nheirs);
		t->adopted = false;
	}
}

void dp_run_scan(struct dp_run *run, bool force)
{
	u64 began = dp_clock_now(CLOCK_THREAD_CPUTIME_ID), share = run->no_watch ? SHARE_ALONE : SHARE, rest;
	bool trusts = may_trust_sizes(run);
	DIR *dir = opendir("/proc");
	struct run_target *next;
	struct dirent *e;

	for (struct run_target *t = run->targets; t; t = t->next) {
		t->seen = t->in_use = false;
		t->nheirs = 0;
	}
	run->rearmed = false;
	dp_seen_begin(run, force || !trusts);
	while (dir && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != (int)getpid())
			scan_process(run, (pid_t)atoi(e->d_name), force, trusts);
	if (dir)
		closedir(dir);
	look_at_kernel(run, force);
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->nheirs)
			dp_run_tell_kernel(run, t, false);
	tell_heirs(run);
	/* Gone, and no child of theirs goes on with the probes; or nothing is wanted there any
	 * more. */
	for (struct run_target *t = run->targets; t; t = next) {
		next = t->next;
		if ((!t->seen && !t->in_use) || (t->seen && !t->nranges && !t->kept))
			dp_run_target_end(run, t);
	}
	rest = (dp_clock_now(CLOCK_THREAD_CPUTIME_ID) - began) * share;
	run->scan_due_ns = dp_now_ns() + (run->rearmed ? SCAN_NS : DP_MIN(DP_MAX(rest, SCAN_NS), SCAN_MAX_NS));
}

void dp_run_forget(struct dp_run *run, struct run_module *m)
{
	struct run_target *next;

	for (struct run_target *t = run->targets; t; t = next) {
		struct run_wanted w;
		bool has = false;

		w.n = 0;
		next = t->next;
		for (u32 i = 0; i < t->nranges; i++) {
			has |= t->ranges[i].m == m;
			if (t->ranges[i].m != m)
				w.v[w.n++] = t->ranges[i].m;
		}
		if (has && !w.n) {
			dp_run_target_end(run, t);
			continue;
		}
		if (has)
			rearm(run, t, &w);
		dp_run_forget_kept(t, m);
	}
}

/* ---- going on with what a killed driver had ---- */

/* Somebody who maps the rings: the target itself, or else a child that has inherited its probes. 0: nobody is left. */
static pid_t find_orphan(const struct run_orphan *h)
{
	DIR *dir;
	struct dirent *e;
	pid_t found = 0;

	if (!h->pid || dp_process_started(h->pid) == h->started)
		return h->pid;
	dir = h->inode ? opendir("/proc") : NULL;
	while (dir && !found && (e = readdir(dir))) {
		pid_t pid = (pid_t)atoi(e->d_name);
		struct dp_maps maps;

		if (pid <= 0 || dp_maps_read(&maps, pid, NULL))
			continue;
		for (size_t i = 0; i < maps.n; i++)
			if (maps.v[i].inode == h->inode && strstr(maps.v[i].path, "dprobes-rings"))
				found = pid;
		dp_maps_free(&maps);
	}
	if (dir)
		closedir(dir);
	return found;
}

/*
 * The session cannot be gone on with: log what its rings hold, add up its counts, and take its variables. Its probes
 * are taken out when the next session is made.
 */
static void inherit(struct dp_run *run, struct run_target *t, struct run_orphan *h)
{
	struct dp_ring_map copy = {.at = NULL};
	bool same = true;
	u64 *words;
	u32 n = 0;

	for (u32 i = 0; i < h->nranges; i++)
		for (u32 k = 0; k < h->ranges[i].ngates; k++)
			n = DP_MAX(n, h->ranges[i].at[k] + 1);
	t->probes = calloc(n + 1, sizeof(*t->probes));
	for (u32 i = 0; t->probes && i < h->nranges; i++) {
		const struct run_range *s = &h->ranges[i];

		for (u32 k = 0; s->generation == s->m->generation && k < s->ngates; k++)
			t->probes[s->at[k]] = (struct run_probe){s->m, k};
		same &= s->generation == s->m->generation;
	}
	t->nprobes = n;
	if (t->pid && t->probes && same && dp_rings_copy(t->pid, h->inode, n, h->nwords, &copy, &words)) {
		dp_reader_settle(&copy, run->old_epoch);
		if (!dp_reader_open(&t->reader, &copy, NULL)) {
			dp_run_drain(run, t, true);
			add_counts(t);
			memcpy(h->words, words, h->nwords * sizeof(u64));
			dp_run_log_commit(run);
			save_modules(run, h->ranges, h->nranges);
		}
		dp_reader_close(t->reader);
		t->reader = NULL;
	}
	if (copy.at)
		munmap(copy.at, copy.size);
	free(t->probes);
	t->probes = NULL;
	t->nprobes = 0;
}

static void keep_as_ended(struct dp_run *run, struct run_target *t, const struct run_orphan *h)
{
	const struct dp_agg_view view = {t->pid, true, dp_run_symbol_of, t, dp_run_file_of};

	for (u32 i = 0; i < h->nranges; i++)
		if (h->ranges[i].generation == h->ranges[i].m->generation)
			dp_run_keep_ended(run, h->ranges[i].m,
					  dp_run_ended_new(h->ranges[i].m, h->words + h->ranges[i].locals, &view));
}

/* All of it as it is. Whether other probes are wanted now is seen at the next scan. */
static bool take_session(struct dp_run *run, struct run_target *t, const struct run_orphan *h)
{
	struct dp_error err = {0};
	struct run_wanted w;

	if (!t->pid || !(run->journal || run->ends_recording) || h->nranges > RUN_WANTED_MAX)
		return false;
	for (w.n = 0; w.n < h->nranges; w.n++)
		w.v[w.n] = h->ranges[w.n].m;
	t->adopted = !build_session(run, t, &w, h->words, h->ranges, h->nranges, true, &err);
	return t->adopted;
}

static void adopt_target(struct dp_run *run, struct run_orphan *h, pid_t pid)
{
	struct run_target *t = new_target(run, pid, pid ? dp_process_started(pid) : 0);
	struct run_wanted w;
	struct dp_maps maps;
	pid_t before;

	w.n = 0;
	if (!t)
		return;
	before = dp_run_busy_with(pid);
	if (take_session(run, t, h)) {
		dp_run_busy_with(before);
		return;
	}
	if (run->ends_recording) {
		/* Nothing is to follow. */
	} else if (!pid) {
		dp_run_find_wanted_in_kernel(run, &w);
	} else if (!dp_maps_read(&maps, pid, NULL)) {
		dp_run_find_wanted(run, &maps, pid, &w);
		dp_maps_free(&maps);
	}
	dp_run_free_ranges(t->ranges, t->nranges);
	t->ranges = NULL;
	t->nranges = 0;
	inherit(run, t, h);
	if (run->ends_recording && pid)
		keep_as_ended(run, t, h);
	renew(run, t, &w, h->words, h->ranges, h->nranges);
	dp_run_busy_with(before);
}

void dp_run_adopt(struct dp_run *run)
{
	struct run_orphan *h;

	while ((h = run->orphans)) {
		struct run_target gone = {.pid = h->pid};
		pid_t pid = find_orphan(h);

		if (pid || !h->pid)
			adopt_target(run, h, pid);
		if (pid != h->pid)
			dp_run_unsave_target(run, &gone);
		run->orphans = h->next;
		dp_run_free_orphan(h);
	}
}
