/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * While a process with several threads is watched by its pages: a page is open for all of them while one makes a store
 * of which its fault has told. So instructions that have been met there get a point of their own each, which tells of
 * every store by them whether the page is open or not; threads that meet such an instruction wait for it (hit/page.c).
 * Points come in batches: a further plan, beside the one that is armed; then a control block that knows both takes the
 * place of the old one by one store to the head of the blob, and the new bytes are published.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/process/arm-priv.h"
#include "host/process/hold.h"
#include "host/process/same-site.h"

#define BATCHES (DP_COPY_ASKS + 16u)
#define SITES 256u /* in all of them */
#define WAIT_NS \
	4000000ull /* between batches that nobody has asked for: before the second, then twice as long each time */
#define PAGE 4096ull

u64 dp_extend_room(struct dp_session *s)
{
	s->late.size = dp_pages_any(s)
			   ? DP_ALIGN_UP(sizeof(struct dp_control) + dp_control_tables(s->nspots + SITES) + 128, PAGE)
			   : 0;
	return s->late.size * BATCHES;
}

static bool has_threads(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return !stat(path, &st) && st.st_nlink > 3;
}

/* ---- which instructions ---- */

static bool is_taken(const struct dp_plan *plan, u64 at, u32 len)
{
	for (u32 i = 0; i < plan->npatches; i++)
		if (plan->patches[i].start < at + len &&
		    at < plan->patches[i].start + dp_planned_reach(&plan->patches[i]))
			return true;
	return false;
}

/*
 * Instructions that were met since the last time and can have a jump; the owner of a spot is its index into copies[].
 */
static u32 find_spots(struct dp_session *s, const struct dp_copy_state_of *v, struct dp_spot *spots, u32 most)
{
	u32 n = 0;

	for (u32 i = 0; i < DP_COPIES && n < most; i++) {
		const struct dp_image *im;
		struct dp_spot *sp = &spots[n];

		if (!v[i].ready || s->late.tried[i])
			continue;
		s->late.tried[i] = 1;
		im = dp_process_image_at(&s->proc, v[i].ip);
		if (!im || dp_spot_at(sp, im, v[i].ip - im->bias, i, NULL) || sp->site.outcome != DP_OUTCOME_JUMP ||
		    is_taken(&s->plan, sp->site.win.start + sp->bias, dp_window_reach(&sp->site.win)))
			continue;
		sp->confirm = true;
		n++;
	}
	return n;
}

/* ---- the plan ---- */

/* Both, in memory of its own, sorted by the key that is so far behind the begin of each element. */
static void *join(const void *a, u32 na, const void *b, u32 nb, size_t size, size_t key)
{
	u8 *v = dp_alloc((na + nb + 1) * size);

	if (!v)
		return NULL;
	if (na)
		memcpy(v, a, na * size);
	if (nb)
		memcpy(v + na * size, b, nb * size);
	if (dp_sort_by(v, na + nb, size, key))
		return v;
	dp_free(v);
	return NULL;
}

/* The numbers of points go on where those of the session's end, and detours lie in its areas if there is room. */
static int plan_more(struct arming *a, struct dp_plan *more, struct dp_spot *spots, u32 n)
{
	struct dp_plan *plan = &a->s->plan;

	more->points = dp_alloc((plan->npoints + n) * sizeof(*more->points));
	if (!more->points)
		return -ENOMEM;
	if (plan->npoints)
		memcpy(more->points, plan->points, plan->npoints * sizeof(*more->points));
	more->npoints = plan->npoints;
	more->cap_points = plan->npoints + n;
	if (dp_others_avoid(more, a->s->pid, a->s->region, NULL, NULL, NULL) ||
	    dp_arm_mark_busy(&more->space, &a->now, &a->s->proc) || dp_plan_build(more, spots, n, a->entries, false))
		return -ENOMEM;
	dp_arm_name_files(more, &a->s->proc, spots, n);
	for (u32 i = 0; i < n; i++)
		if (spots[i].outcome == DP_OUTCOME_JUMP)
			more->points[spots[i].point].store = spots[i].owner + 1;
	for (u32 i = 0; i < more->npatches; i++)
		if (is_taken(plan, more->patches[i].start, dp_planned_reach(&more->patches[i])))
			return -EBUSY;
	return more->npatches ? 0 : -ENOENT;
}

/* Both, as the control block is to have them; the space stays where it is. */
static int plan_both(const struct dp_plan *plan, struct dp_plan *more, struct dp_plan *both)
{
	both->ndisplaced = both->cap_displaced = plan->ndisplaced + more->ndisplaced;
	both->displaced = dp_alloc((both->ndisplaced + 1ull) * sizeof(*both->displaced));
	if (!both->displaced)
		return -ENOMEM;
	if (plan->ndisplaced)
		memcpy(both->displaced, plan->displaced, plan->ndisplaced * sizeof(*both->displaced));
	if (more->ndisplaced)
		memcpy(both->displaced + plan->ndisplaced, more->displaced,
		       more->ndisplaced * sizeof(*both->displaced));
	for (u32 i = 0; i < more->npatches; i++) /* whose code is made already */
		more->patches[i].first += plan->ndisplaced;
	both->points = more->points;
	both->npoints = more->npoints;
	both->cap_points = more->cap_points;
	both->nredirects = plan->nredirects + more->nredirects;
	both->nhomes = plan->nhomes + more->nhomes;
	both->npatches = both->cap_patches = plan->npatches + more->npatches;
	both->redirects = join(plan->redirects, plan->nredirects, more->redirects, more->nredirects,
			       sizeof(*plan->redirects), offsetof(struct dp_redirect, pc));
	both->homes = join(plan->homes, plan->nhomes, more->homes, more->nhomes, sizeof(*plan->homes),
			   offsetof(struct dp_redirect, pc));
	both->patches = join(plan->patches, plan->npatches, more->patches, more->npatches, sizeof(*plan->patches),
			     offsetof(struct dp_planned, start));
	return both->redirects && both->homes && both->patches ? 0 : -ENOMEM;
}

/* ---- into the process ---- */

static int begin(struct arming *a, struct dp_error *err)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)dp_blob;
	struct dp_session *s = a->s;
	int r = dp_tracer_attach(&a->tracer, s->pid, err);

	a->tracer.handled |= SIGNAL_BIT(SIGTRAP);
	if (!r)
		r = dp_remote_init(&a->remote, &a->tracer, &a->mem, &a->now, err);
	dp_remote_serve(&a->remote, s->region, head, s->region + s->slots_off, s->nslots, false);
	return r;
}

/* In this order a successor finds everything at any moment, and whoever meets a new byte finds where it belongs. */
static int arm_more(struct arming *a, struct dp_plan *both, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 origin = s->region + s->late.off + s->late.n * s->late.size;
	bool had_segv;
	int r = dp_rebuild_control(a, both, origin, s->late.size, err);

	if (!r)
		r = dp_block_renew(&s->block, a->ctl, origin, err);
	if (!r) {
		dp_record_write(s);
		r = dp_mem_write(&a->mem, origin, a->ctl, a->ctl->size, err);
	}
	if (!r)
		r = dp_mem_write(&a->mem, s->region + offsetof(struct dp_blob_head, ctl), &origin, 8, err);
	if (r)
		return r;
	s->control = origin;
	s->late.n++;
	had_segv = a->ctl->segv_taken;
	a->tracer.handled |= had_segv ? SIGNAL_BIT(SIGSEGV) : 0;
	r = dp_arm_map_areas(a, err);
	if (!r && !had_segv && dp_plan_needs_segv(a->plan)) {
		a->ctl->segv_taken = 1;
		r = dp_arm_take_signal(a, SIGSEGV, a->ctl->old_segv, err);
	}
	if (!r)
		r = dp_arm_publish(a, err);
	if (!r)
		r = dp_remote_retire(&a->remote, err);
	if (!r)
		r = dp_arm_last_round(a, NULL, err);
	dp_arm_finish_children(a);
	return r;
}

/* From both's tables on the session knows what stands in the process. */
static void adopt_plan(struct dp_session *s, struct dp_plan *more, struct dp_plan *both)
{
	struct dp_plan old = s->plan;

	more->points = NULL; /* both's */
	both->space = more->space;
	both->code = old.code;
	both->code_len = old.code_len;
	both->cap_code = old.cap_code;
	memset(&more->space, 0, sizeof(more->space));
	s->plan = *both;
	memset(both, 0, sizeof(*both));
	old.code = NULL;
	memset(&old.space, 0, sizeof(old.space));
	dp_plan_free(&old);
}

static int extend(struct dp_session *s, struct dp_spot *spots, u32 n, const struct dp_mem *mem, struct dp_error *err)
{
	struct dp_plan more = {.space = s->plan.space}, both = {0};
	struct arming a = {.s = s, .plan = &more, .mem = *mem};
	u32 nareas = s->plan.space.nareas, before = s->late.n;
	int r = dp_maps_read(&a.now, s->pid, err);

	memset(&s->plan.space, 0, sizeof(s->plan.space));
	dp_arm_entries(&a);
	if (!r)
		r = plan_more(&a, &more, spots, n);
	if (!r)
		r = plan_both(&s->plan, &more, &both);
	if (!r)
		r = dp_arm_check_bytes(&a, err);
	if (!r && !(a.areas = dp_merge_areas(&more.space, nareas, &a.nareas)))
		r = -ENOMEM;
	both.space = more.space;
	if (!r) {
		r = begin(&a, err);
		if (!r)
			r = arm_more(&a, &both, err);
		dp_remote_end(&a.remote);
		s->stats.longest_stop_ns = DP_MAX(s->stats.longest_stop_ns, a.tracer.longest_stop_ns);
		s->stats.stops += a.tracer.stops;
		dp_tracer_detach(&a.tracer);
	}
	if (s->late.n != before) {
		s->late.nspots += n;
		adopt_plan(s, &more, &both);
	} else { /* nothing has changed */
		s->plan.space = more.space;
		memset(&more.space, 0, sizeof(more.space));
	}
	memset(&both.space, 0, sizeof(both.space));
	if (both.points == more.points)
		both.points = NULL;
	dp_plan_free(&both);
	dp_plan_free(&more);
	dp_maps_free(&a.now);
	free(a.areas);
	free(a.ctl);
	return r;
}

static int extend_alone(struct dp_session *s, struct dp_spot *spots, u32 n, const struct dp_mem *mem,
			struct dp_error *err)
{
	int r = dp_process_hold(s->pid, err);

	if (r)
		return r;
	dp_block_actions(mem, &s->block.ctl);
	r = extend(s, spots, n, mem, err);
	dp_process_release(s->pid);
	return r;
}

/* Threads that wait for what is to become of an instruction go on; those that have asked since then ring once more. */
static void answer(struct dp_session *s, const struct dp_mem *mem, const struct dp_copy_state_of *v)
{
	const u32 answered = DP_COPY_ANSWERED;

	for (u32 i = 0; i < DP_COPIES; i++)
		if (v[i].asked)
			dp_mem_write(mem,
				     s->region + s->pages.copies_off + i * sizeof(struct dp_copy) +
					 offsetof(struct dp_copy, asked),
				     &answered, 4, NULL);
	/* Pairs with the acquire of those who wait. */
	__atomic_fetch_add(&s->rings.at->answered, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &s->rings.at->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void learn(struct dp_session *s, const struct dp_mem *mem, bool asked)
{
	struct dp_copy_state_of *v = malloc(DP_COPIES * sizeof(*v));
	struct dp_spot *spots = calloc(SITES, sizeof(*spots));
	struct dp_error err = {0};
	u32 n = 0;

	if (!s->late.tried)
		s->late.tried = calloc(DP_COPIES, 1);
	if (v && spots && s->late.tried && dp_copies_read(mem, s->region + s->pages.copies_off, v)) {
		if (s->late.n < BATCHES)
			n = find_spots(s, v, spots, SITES - s->late.nspots);
		if (n && extend_alone(s, spots, n, mem, &err) && err.code && dp_session_alive(s))
			dp_session_say(
			    s, "stores by %u instructions are not reported exactly while other threads store: %s: %s",
			    n, dp_error_info(err.code)->sentence, err.detail);
		if (asked)
			answer(s, mem, v);
	}
	free(v);
	free(spots);
}

/* Now and then while armed: the instructions that were met get points of their own, where there are several threads. */
static void learn_when_due(struct dp_session *s)
{
	u64 known = 0, all = s->region + s->pages.copies_off;
	bool asked;
	struct dp_mem mem;
	u32 doorbell;

	if (!s->armed || !s->late.size)
		return;
	/* Pairs with the release in ask_for_point(). */
	doorbell = __atomic_load_n(&s->rings.at->doorbell, __ATOMIC_ACQUIRE);
	asked = doorbell != s->late.doorbell;
	if (!asked && (dp_now_ns() < s->late.at || s->late.n == BATCHES || s->late.nspots == SITES ||
		       !dp_process_peek(s->pid, all + offsetof(struct dp_copies, nready), &known, 8) ||
		       known == s->late.known || !has_threads(s->pid)))
		return;
	s->late.doorbell = doorbell;
	s->late.known = known;
	if (!dp_mem_open(&mem, s->pid, NULL)) {
		learn(s, &mem, asked);
		dp_mem_close(&mem);
	}
	s->late.at = dp_now_ns() + (WAIT_NS << DP_MIN(s->late.n, 20u));
}

void dp_session_tend_pages(struct dp_session *s)
{
	if (dp_pages_close(s))
		learn_when_due(s);
}

void dp_session_rest(struct dp_session *s, u64 ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	if (s->armed && s->late.size)
		syscall(SYS_futex, &s->rings.at->doorbell, FUTEX_WAIT, s->late.doorbell, &t, NULL, 0);
	else
		nanosleep(&t, NULL);
}
