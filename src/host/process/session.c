/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The session's life: from looking at a process to leaving it as it was. See process.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/hold.h"
#include "host/process/session-priv.h"

#define TRIES 3
#define MOVED_TRIES 20      /* where a module was unmapped: 0.2 s */
#define TRACED_PATIENCE 300 /* times 10 ms */

int dp_session_new(struct dp_session **out, pid_t pid, const struct dp_session_options *opt, struct dp_error *err)
{
	struct dp_session *s;
	int r;

	if (pid == getpid())
		return dp_fail(err, E_TARGET_SELF, "process %d", (int)pid);
	s = calloc(1, sizeof(*s));
	if (!s)
		return dp_fail(err, E_ARM_NOMEM, "session");
	s->pid = pid;
	s->pidfd = -1;
	s->record_fd = -1;
	if (opt)
		s->opt = *opt;
	r = s->opt.adopt ? dp_process_read(&s->proc, pid, err) : dp_settle_predecessors(s, err);
	if (r) {
		dp_process_free(&s->proc);
		free(s);
		return r;
	}
	s->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	*out = s;
	return 0;
}

/* A dprobes catches the program at its start, say: that is over soon. */
static bool traced_by_dprobes(pid_t pid)
{
	return dp_owner_lives((u32)dp_tracer_of(pid, pid));
}

/* One try, when nobody else changes the process. */
static int arm_alone(struct dp_session *s, struct dp_error *err)
{
	int r;

	for (int i = 0;; i++) {
		r = dp_process_hold(s->pid, err);
		if (r)
			return r;
		r = dp_arm(s, err);
		dp_process_release(s->pid);
		if (r != -dp_error_info(E_TARGET_TRACED)->number || i == TRACED_PATIENCE || !traced_by_dprobes(s->pid))
			return r;
		usleep(10000);
	}
}

static int arm_patiently(struct dp_session *s, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 0; i < MOVED_TRIES && s->nprobes; i++) {
		r = arm_alone(s, err);
		if (r == -dp_error_info(E_ARM_MOVED)->number)
			usleep(i * 1000); /* until the program has loaded the module again */
		else if (r != -dp_error_info(E_TARGET_CALL)->number || i >= TRIES)
			break; /* that one: the address space changed under the plan, perhaps */
	}
	return r;
}

int dp_session_arm(struct dp_session *s, struct dp_error *err)
{
	int r;

	if (!s->nprobes && !s->parking.pid)
		return dp_fail(err, E_ARM_NONE, "process %d", (int)s->pid);
	r = arm_patiently(s, err);
	if (r && s->stretches.guards) { /* of which somebody has probed a place, perhaps */
		dp_stretches_give_up(s, "not all of its calls can be probed at the moment");
		r = arm_patiently(s, err);
	}
	if (!r && err)
		err->code = DP_OK; /* of an earlier round */
	if (!r && s->parking.pid) {
		dp_park_keep_end(&s->parking);
		r = dp_unpark(&s->parking, NULL, NULL, err);
		s->parking.pid = 0;
		if (!r && s->parking.left)
			dp_session_say(
			    s, "the program did not wait until all probes were in place: its first events are missing");
	}
	return r;
}

/* Others trace a process for moments only, as a rule (a dump, a look at the stacks): wait a little for them. */
static int withdraw_patiently(struct dp_session *s, struct dp_withdrawn *wd, struct dp_error *err)
{
	int r;

	for (int i = 0;; i++) {
		r = dp_process_hold(s->pid, err);
		if (r)
			return r;
		r = dp_withdraw_process(s->pid, &s->block, s->control, s->changes.unsure, wd, err);
		dp_process_release(s->pid);
		if (r != -dp_error_info(E_TARGET_TRACED)->number || i == TRACED_PATIENCE)
			return r;
		usleep(10000);
	}
}

/* What is not as usual about a removal. */
static void tell_withdrawn(struct dp_session *s, const struct dp_withdrawn *wd)
{
	unsigned long long kib = wd->kept_bytes / 1024;

	if (wd->absent)
		dp_session_say(s, "%u places were unmapped while they were probed: later hits there were not seen",
			       wd->absent);
	if (wd->skipped)
		dp_session_say_left(s, "%u places were changed by another tool meanwhile and left as they are",
				    wd->skipped);
	if (wd->kept_bytes && wd->halted.code)
		dp_session_say_left(
		    s, "%llu KiB stay mapped in process %d: it was stopped to restore its code, since %s: %s", kib,
		    (int)s->pid, dp_error_info(wd->halted.code)->sentence, wd->halted.detail);
	else if (wd->kept_bytes && wd->inside)
		dp_session_say_left(s, "%llu KiB stay mapped in process %d: thread %d may still be inside, at %#llx",
				    kib, (int)s->pid, (int)wd->inside, (unsigned long long)wd->where);
	else if (wd->kept_bytes)
		dp_session_say_left(s, "%llu KiB stay mapped in process %d: another tool changed bytes there", kib,
				    (int)s->pid);
}

/* Whoever is not given the error does not tell it. */
static void tell_left(struct dp_session *s, const struct dp_error *why, struct dp_error *err)
{
	if (err)
		*err = *why;
	else
		dp_session_say_left(
		    s,
		    "not all that was put into process %d could be taken out (`dprobes clean -p %d` tries "
		    "again): %s: %s",
		    (int)s->pid, (int)s->pid, dp_error_info(why->code)->sentence, why->detail);
}

int dp_session_remove(struct dp_session *s, struct dp_error *err)
{
	struct dp_error why;
	struct dp_file_id rings = s->rings_file;
	struct dp_withdrawn wd = {.kept_bytes = 0};
	u64 begin = dp_now_ns();
	bool held, all;
	int r = 0;

	if (!s->armed)
		return 0;
	s->armed = false;
	dp_parts_end(s);
	if (dp_same_file(dp_rings_at(s->pid, s->region + s->rings_off), rings)) {
		r = withdraw_patiently(s, &wd, &why);
		if (!r)
			dp_session_add_withdrawn(s, &wd);
		wd.absent -= DP_MIN(wd.absent, dp_session_places_out(s));
		if (!r)
			tell_withdrawn(s, &wd);
		/* It ended, or an execve has taken everything away since we looked. */
		if (r && (!dp_session_alive(s) ||
			  (r == -dp_error_info(E_TARGET_MEM)->number && !dp_block_there(s->pid, s->control))))
			r = 0;
		if (r)
			tell_left(s, &why, err);
	}
	all = dp_withdraw_all_inheritors(s);
	held = !dp_process_hold(s->pid, NULL);
	dp_record_end(s, !r && !wd.kept_bytes && all);
	if (held)
		dp_process_release(s->pid);
	dp_watch_count(s);
	dp_plan_free(&s->plan); /* what is shown now knows counts and names alone */
	dp_block_free(&s->block);
	s->stats.remove_ns = dp_now_ns() - begin;
	return r;
}

void dp_session_free(struct dp_session *s)
{
	if (!s)
		return;
	dp_park_keep_end(&s->parking);
	dp_session_remove(s, NULL);
	for (u32 i = 0; i < s->nprobes; i++)
		dp_probe_free(&s->probes[i]);
	for (u32 i = 0; i < s->nshared; i++)
		dp_event_drop(s->shared[i]);
	free(s->shared);
	free(s->probes);
	free(s->words);
	dp_stretches_give_up(s, NULL);
	free(s->spots);
	free(s->idle);
	free(s->watch.v);
	free(s->late.tried);
	free(s->foretold.v);
	free(s->seen);
	dp_plan_free(&s->plan);
	dp_unwind_free(&s->unwind);
	dp_record_end(s, false);
	dp_block_free(&s->block);
	dp_session_unmap_rings(s);
	if (s->pidfd >= 0)
		close(s->pidfd);
	dp_process_free(&s->proc);
	free(s);
}

/* ---- slots that nobody comes back to ---- */

#define TEND_LOOKS 2  /* until a slot is given back */
#define FRAME_SIZE 64 /* at least what an entry takes of the program's stack */

/*
 * The thread has had a hit since our last look, in the slot that it took instead, whose frame lay where that of the
 * other one was: the program's stack has been used anew there.
 */
static bool was_overtaken(const struct dp_session *s, const struct dp_hit_slot_state *slots, u32 gone)
{
	for (u32 i = 0; i < s->nslots; i++) {
		const struct dp_hit_slot_state *v = &slots[i];

		if (v->owned && v->thread == slots[gone].thread && v->left != s->seen[i].left &&
		    v->frame - slots[gone].frame + FRAME_SIZE < 2 * FRAME_SIZE)
			return true;
	}
	return false;
}

/*
 * Whether the hit may still end: its frame leads into our code, or into other code without a file, such as a detour of
 * another session.
 */
static bool may_return(const struct dp_session *s, pid_t via, u64 frame)
{
	u64 to = dp_hit_returns_to(via, frame);
	const struct dp_map *m;
	struct dp_maps maps;
	bool may;

	if (!to || dp_maps_read(&maps, s->pid, NULL))
		return to != 0;
	m = dp_maps_at(&maps, to);
	may = m && m->x && !m->w && !m->inode;
	dp_maps_free(&maps);
	return may;
}

/*
 * Whether a slot can be given back: its thread is gone, unless it left in the middle of a hit; or its thread has given
 * it up, and the hit has ended after all, or cannot end any more. (Its last instructions still read the slot: so it is
 * looked at twice.)
 */
static bool is_free(struct dp_session *s, pid_t via, const struct dp_hit_slot_state *slots, u32 i)
{
	const struct dp_hit_slot_state *v = &slots[i];

	if (v->given_up && v->idle)
		return s->seen[i].ended;
	if (v->given_up)
		return v->entered && v->frame && s->seen[i].given_up &&
		       (was_overtaken(s, slots, i) || !may_return(s, via, v->frame));
	/* Its id is read from the thread itself: a successor takes the slot over. */
	return v->idle && v->tid && !dp_thread_is_of(s->pid, (pid_t)v->tid);
}

static bool give_back(struct dp_session *s, pid_t via, u32 i, u64 at)
{
	u8 none[4 + offsetof(struct dp_hit_slot, cs_commit)] = {0}; /* of the next owner nothing is known */
	struct iovec here = {none, sizeof(none)}, there[3];

	there[0] = (struct iovec){(void *)(s->region + s->tids_off + i * 4ull), 4};
	there[1] = (struct iovec){(void *)(at + 8), sizeof(none) - 12};
	there[2] = (struct iovec){(void *)at, 8}; /* the owner last: then somebody may take it */
	return process_vm_writev(via, &here, 1, there, 3, 0) == sizeof(none);
}

/*
 * Nothing has changed in the slots where the process has not run since the last looks: there may be a thousand of them
 * that wait for something.
 */
static bool has_rested(struct dp_session *s)
{
	u64 ns = dp_process_ran_ns(s->pid);

	if (!ns)
		return false;
	s->rests = ns == s->ran_ns ? s->rests + 1 : 0;
	s->ran_ns = ns;
	return s->rests > TEND_LOOKS;
}

void dp_session_tend(struct dp_session *s)
{
	u64 first = s->region + s->slots_off + DP_HIT_SLOT_HEAD;
	struct dp_hit_slot_state *slots;
	pid_t via;

	if (has_rested(s))
		return;
	slots = calloc(s->nslots, sizeof(*slots));
	via = dp_memory_tid(s->pid);
	if (!s->seen)
		s->seen = calloc(s->nslots, sizeof(*s->seen));
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		if (!dp_hit_slot_read(via, first + (u64)i * DP_HIT_SLOT_SIZE, s->region + s->tids_off + i * 4ull,
				      &slots[i])) {
			slots[i] = (struct dp_hit_slot_state){.idle = false};
			if (errno == ESRCH)
				break; /* the process is gone */
		}
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		if (is_free(s, via, slots, i) && !give_back(s, via, i, first + (u64)i * DP_HIT_SLOT_SIZE))
			break;
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		s->seen[i] = (struct dp_slot_seen){
		    .left = slots[i].left, .given_up = slots[i].given_up, .ended = slots[i].given_up && slots[i].idle};
	free(slots);
}
