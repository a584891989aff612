/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The session's life: from looking at a process to leaving it as it was. See process.h. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/hold.h"
#include "host/process/session-priv.h"
#include "log/log-guard.h"

#define TRIES 3
#define MOVED_TRIES 20      /* where a module was unmapped: 0.2 s */
#define ROUNDS 50           /* looks for further processes that inherited probes */
#define TRACED_PATIENCE 300 /* times 10 ms */

void dp_session_say(struct dp_session *s, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!s->opt.note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->opt.note(s->opt.arg, text);
}

int dp_session_map_rings(struct dp_session *s, int fd, u64 size, struct dp_error *err)
{
	struct stat st;
	void *p;

	dp_session_unmap_rings(s);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || fstat(fd, &st)) {
		if (p != MAP_FAILED)
			munmap(p, size);
		return dp_fail(err, E_TARGET_CALL, "the log rings: %s", strerror(errno));
	}
	s->rings = (struct dp_ring_map){.at = p, .size = size};
	s->rings_file = (struct dp_file_id){st.st_dev, st.st_ino};
	if (dp_guard_add(p, size))
		return 0;
	dp_session_unmap_rings(s);
	return dp_fail(err, E_ARM_NOMEM, "the log rings");
}

void dp_session_unmap_rings(struct dp_session *s)
{
	if (!s->rings.at)
		return;
	dp_guard_drop(s->rings.at);
	munmap(s->rings.at, s->rings.size);
	s->rings = (struct dp_ring_map){.at = NULL};
	s->rings_file = (struct dp_file_id){0, 0};
}

static void add_withdrawn(struct dp_session *s, const struct dp_withdrawn *wd)
{
	s->stats.longest_stop_ns = DP_MAX(s->stats.longest_stop_ns, wd->longest_stop_ns);
	s->stats.stops += wd->stops;
	s->stats.moved += wd->moved;
	s->stats.rescued += wd->rescued;
	s->stats.kept_bytes += wd->kept_bytes;
}

/* Whose probes are to be taken out of processes. */
struct heritage {
	pid_t but;                    /* not of this one */
	const struct dp_block *known; /* NULL: what each of them says counts */
	u64 rings_at;
	struct dp_file_id file;
	bool only; /* of those that have this very block */
};

/*
 * A process that says itself whose probes it carries: those of somebody who lives are not touched, whatever the
 * process that led us here says.
 */
static u64 ownerless(pid_t pid, u64 rings_at)
{
	u64 v[DP_OWNERS_MAX], found = 0;
	u32 n = dp_find_controls(pid, v);
	struct dp_mem mem;

	if (!n || dp_mem_open(&mem, pid, NULL))
		return 0;
	for (u32 i = 0; i < n && !found; i++) {
		struct dp_block b = {.points = NULL};

		if (!dp_block_read(&b, &mem, v[i], NULL) && b.ctl.rings == rings_at && !dp_owner_lives(b.ctl.owner_pid))
			found = v[i];
		dp_block_free(&b);
	}
	dp_mem_close(&mem);
	return found;
}

/* Of one process that has inherited them, which nobody else changes meanwhile. */
static bool withdraw_inherited(struct dp_session *s, pid_t pid, const struct heritage *h)
{
	u64 at = h->known ? h->known->ctl.self : ownerless(pid, h->rings_at);
	u64 own = h->known ? dp_control_of_process(pid, h->known->ctl.region_lo) : 0;
	bool is_other = own && own != at;
	struct dp_withdrawn wd;

	if (h->known && h->only && own != at)
		return false;
	/* Born in a change before that one: the patches that it has are not the known ones. */
	if (is_other)
		at = ownerless(pid, h->rings_at);
	/* Born in the middle of a step, perhaps. */
	if (!at || dp_withdraw_process(pid, is_other ? NULL : h->known, at, true, &wd, NULL))
		return false;
	add_withdrawn(s, &wd);
	return !wd.kept_bytes;
}

static bool is_heir(pid_t pid, const struct heritage *h)
{
	return dp_same_file(dp_rings_at(pid, h->rings_at), h->file);
}

/*
 * One pass over all processes that have inherited these probes; returns how many were freed of them, and how many not.
 */
static u32 withdraw_others(struct dp_session *s, const struct heritage *h, u32 *left)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	u32 n = 0;

	while (dir && (de = readdir(dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 0 || pid == getpid() || pid == h->but || !is_heir(pid, h))
			continue;
		if (!dp_process_hold(pid, NULL)) {
			/* Somebody else may have taken them out, and put others in the same place. */
			n += is_heir(pid, h) && withdraw_inherited(s, pid, h);
			dp_process_release(pid);
		}
		*left += is_heir(pid, h);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* Without rings there were no probes yet that a child could have got. False: one keeps something of them. */
static bool withdraw_all_others(struct dp_session *s, const struct heritage *h)
{
	u32 left = 0;

	for (int i = 0; h->file.inode && i < ROUNDS; i++) {
		left = 0;
		if (!withdraw_others(s, h, &left))
			break;
	}
	return !left;
}

void dp_withdraw_inheritors(struct dp_session *s, const struct dp_block *before)
{
	const struct heritage h[2] = {{s->pid, before, before->ctl.rings, s->rings_file, true},
				      {s->pid, &s->block, before->ctl.rings, s->rings_file, false}};

	for (int i = 0; i < 2; i++)
		withdraw_all_others(s, &h[i]);
}

bool dp_owner_lives(u32 pid)
{
	char exe[256], path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	return n > 0 && pid != (u32)getpid() && strstr(exe, "dprobes");
}

static int busy(const struct dp_session *s, u32 owner, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_BUSY,
		       "process %d has probes of dprobes process %u, and no record of them can be read", (int)s->pid,
		       owner);
}

/* Whose probes were taken out of the process: they are to be taken out of others as well. */
struct settled {
	struct {
		struct heritage h;
		const struct dp_known *gone; /* nothing of it is left in the process; NULL: something is, or none */
	} v[2 * DP_OWNERS_MAX];
	u32 n;
};

static int clean_up(struct dp_session *s, const struct heritage *h, u64 at, const struct dp_known *k,
		    struct settled *done, struct dp_error *err)
{
	struct dp_withdrawn wd;
	int r = dp_withdraw_process(s->pid, h->known, at, true, &wd, err);

	if (r)
		return r;
	if (done->n < DP_ARRAY_SIZE(done->v)) {
		done->v[done->n].h = *h;
		done->v[done->n++].gone = wd.kept_bytes ? NULL : k;
	}
	dp_session_say(s, "cleaned up after an earlier dprobes: %u places restored", wd.restored);
	return 0;
}

/* Nobody has written down what stands there: another user, another machine's files, a dprobes without a directory. */
static int settle_claim(struct dp_session *s, u64 addr, struct settled *done, struct dp_error *err)
{
	struct heritage h = {.but = s->pid};
	struct dp_block b = {.points = NULL};
	struct dp_mem mem;
	int r = dp_mem_open(&mem, s->pid, err);

	if (r)
		return r;
	r = dp_block_read(&b, &mem, addr, err);
	h.rings_at = b.ctl.rings;
	if (r) /* a predecessor's last call may just have taken it away */
		r = dp_block_there(s->pid, addr) ? r : 0;
	else if (dp_owner_lives(b.ctl.owner_pid))
		r = busy(s, b.ctl.owner_pid, err);
	else {
		h.file = dp_rings_at(s->pid, h.rings_at);
		r = clean_up(s, &h, addr, NULL, done, err);
	}
	dp_mem_close(&mem);
	dp_block_free(&b);
	return r;
}

static bool is_known(const struct dp_knowns *known, u64 addr)
{
	for (u32 i = 0; i < known->n; i++) {
		const struct dp_control *c = &known->v[i].block.ctl;

		if (addr >= c->region_lo && addr < c->region_hi)
			return true;
	}
	return false;
}

/* What a predecessor has left: its own business while it lives, ours to clean when it does not. */
static int settle_known(struct dp_session *s, const struct dp_known *k, struct settled *done, struct dp_error *err)
{
	const struct heritage h = {s->pid, &k->block, k->block.ctl.rings, k->file, false};

	return dp_known_owner_lives(k) ? 0 : clean_up(s, &h, k->block.ctl.self, k, done, err);
}

/* The children too, and only then the records are forgotten: as long as there is something to be taken out by them. */
static void settle_children(struct dp_session *s, struct settled *done)
{
	for (u32 i = 0; i < done->n; i++)
		if (!withdraw_all_others(s, &done->v[i].h))
			done->v[i].gone = NULL;
	if (!done->n || dp_process_hold(s->pid, NULL))
		return;
	for (u32 i = 0; i < done->n; i++)
		if (done->v[i].gone)
			dp_known_forget(done->v[i].gone);
	dp_process_release(s->pid);
}

/*
 * While nobody else changes the process: what its records say now holds until the end of that. Not so of children: a
 * child is taken after its parent, which may be among them.
 */
static int settle_predecessors(struct dp_session *s, struct dp_error *err)
{
	struct settled done = {.n = 0};
	struct dp_knowns known;
	u64 v[DP_OWNERS_MAX];
	int r = dp_process_hold(s->pid, err);
	u32 n;

	if (r)
		return r;
	n = dp_find_controls(s->pid, v); /* first: what stands there has been written down before */
	known = dp_records_of(s->pid);
	for (u32 i = 0; i < n && !r; i++)
		r = is_known(&known, v[i]) ? 0 : settle_claim(s, v[i], &done, err);
	for (u32 i = 0; i < known.n && !r; i++)
		r = settle_known(s, &known.v[i], &done, err);
	if (!r)
		dp_withdraw_call(s->pid);
	dp_process_release(s->pid);
	settle_children(s, &done);
	dp_knowns_free(&known);
	return r;
}

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
	if (opt)
		s->opt = *opt;
	r = dp_process_read(&s->proc, pid, err);
	if (!r && !s->opt.adopt)
		r = settle_predecessors(s, err);
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
	char tracer[16] = "0";

	dp_status_field(pid, pid, "TracerPid", tracer, sizeof(tracer));
	return dp_owner_lives((u32)atoi(tracer));
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

int dp_session_arm(struct dp_session *s, struct dp_error *err)
{
	int r = 0;

	if (!s->nprobes && !s->parking.pid)
		return dp_fail(err, E_ARM_NONE, "process %d", (int)s->pid);
	for (u32 i = 0; i < MOVED_TRIES && s->nprobes; i++) {
		r = arm_alone(s, err);
		if (r == -dp_error_info(E_ARM_MOVED)->number)
			usleep(i * 1000); /* until the program has loaded the module again */
		else if (r != -dp_error_info(E_TARGET_CALL)->number || i >= TRIES)
			break; /* that one: the address space changed under the plan, perhaps */
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
		dp_session_say(s, "%u places were unmapped while they were probed: hits there ended with that",
			       wd->absent);
	if (wd->skipped)
		dp_session_say(s, "%u places were changed by somebody else meanwhile and left alone", wd->skipped);
	if (wd->kept_bytes && wd->halted.code)
		dp_session_say(s,
			       "%llu KiB stay mapped in process %d: it was stopped to restore its code, since %s: %s",
			       kib, (int)s->pid, dp_error_info(wd->halted.code)->sentence, wd->halted.detail);
	else if (wd->kept_bytes && wd->inside)
		dp_session_say(s, "%llu KiB stay mapped in process %d: thread %d may still be inside, at %#llx", kib,
			       (int)s->pid, (int)wd->inside, (unsigned long long)wd->where);
	else if (wd->kept_bytes)
		dp_session_say(s, "%llu KiB stay mapped in process %d: somebody else changed bytes there", kib,
			       (int)s->pid);
}

int dp_session_remove(struct dp_session *s, struct dp_error *err)
{
	struct heritage h = {s->pid, &s->block, s->region + (u64)s->rings_off, s->rings_file, false};
	struct dp_withdrawn wd = {.kept_bytes = 0};
	u64 begin = dp_now_ns();
	bool held, all;
	int r = 0;

	if (!s->armed)
		return 0;
	s->armed = false;
	dp_parts_end(s);
	if (dp_same_file(dp_rings_at(s->pid, h.rings_at), h.file)) {
		r = withdraw_patiently(s, &wd, err);
		if (!r)
			add_withdrawn(s, &wd);
		if (!r)
			tell_withdrawn(s, &wd);
		/* It ended, or an execve has taken everything away since we looked. */
		if (r && (!dp_session_alive(s) ||
			  (r == -dp_error_info(E_TARGET_MEM)->number && !dp_block_there(s->pid, s->control))))
			r = 0;
	}
	all = withdraw_all_others(s, &h);
	held = !dp_process_hold(s->pid, NULL);
	dp_record_end(s, !r && !wd.kept_bytes && all);
	if (held)
		dp_process_release(s->pid);
	dp_watch_count(s);
	s->stats.remove_ns = dp_now_ns() - begin;
	return r;
}

void dp_session_free(struct dp_session *s)
{
	if (!s)
		return;
	dp_park_keep_end(&s->parking);
	dp_session_remove(s, NULL);
	for (u32 i = 0; i < s->nprobes; i++) {
		if (s->probes[i].event)
			dp_event_free(s->probes[i].event);
		free(s->probes[i].event);
	}
	free(s->probes);
	free(s->words);
	free(s->spots);
	free(s->watch.v);
	free(s->late.tried);
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

int dp_session_set_words(struct dp_session *s, const u64 *values, u32 n, struct dp_error *err)
{
	u64 *copy = malloc((n + 1) * sizeof(*copy));

	if (!copy)
		return dp_fail(err, E_ARM_NOMEM, "%u words", n);
	if (n)
		memcpy(copy, values, n * sizeof(*copy));
	free(s->words);
	s->words = copy;
	s->nwords = n;
	return 0;
}

volatile u64 *dp_session_words(struct dp_session *s)
{
	return s->rings.at ? (volatile u64 *)((u8 *)s->rings.at + s->words_off) : NULL;
}

u32 dp_session_nprobes(const struct dp_session *s)
{
	return s->nprobes;
}

void dp_session_probe(const struct dp_session *s, u32 i, struct dp_probe_info *out)
{
	const struct dp_probe *p = &s->probes[i];

	*out = (struct dp_probe_info){
	    .event = p->event,
	    .symbol = p->symbol,
	    .offset = p->offset,
	    .addr = p->addr,
	    .module = p->module,
	    .outcome = p->outcome,
	    .reason = p->reason,
	    .nsites = p->nsites,
	    .ncompiled = p->ncompiled,
	    .via = p->event && p->event->is_watch ? "watch" : NULL,
	};
}

const struct dp_ring_map *dp_session_rings(const struct dp_session *s)
{
	return &s->rings;
}

struct dp_process *dp_session_process(struct dp_session *s)
{
	return &s->proc;
}

pid_t dp_session_pid(const struct dp_session *s)
{
	return s->pid;
}

bool dp_session_alive(struct dp_session *s)
{
	struct pollfd p = {s->pidfd, POLLIN, 0};
	int status;

	if (s->reaped)
		return false;
	if (s->spawned && waitpid(s->pid, &status, WNOHANG) == s->pid) {
		s->exit_status = status;
		s->reaped = true;
		return false;
	}
	/* A program that was started for this is waited for, whatever it becomes. */
	if (s->armed && !s->spawned && !dp_block_there(s->pid, s->control))
		return false;
	if (s->pidfd >= 0)
		return poll(&p, 1, 0) == 0;
	return kill(s->pid, 0) == 0 || errno == EPERM;
}

bool dp_session_status(const struct dp_session *s, int *status)
{
	if (s->reaped)
		*status = s->exit_status;
	return s->reaped;
}

void dp_session_stats(const struct dp_session *s, struct dp_session_stats *out)
{
	*out = s->stats;
}

/* ---- slots that nobody comes back to ---- */

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
		       (was_overtaken(s, slots, i) || !dp_hit_may_return(via, v->frame, &s->block));
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

void dp_session_tend(struct dp_session *s)
{
	struct dp_hit_slot_state *slots = calloc(s->nslots, sizeof(*slots));
	u64 first = s->region + s->slots_off + DP_HIT_SLOT_HEAD;
	pid_t via = dp_memory_tid(s->pid);

	if (!s->seen)
		s->seen = calloc(s->nslots, sizeof(*s->seen));
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		if (!dp_hit_slot_read(via, first + (u64)i * DP_HIT_SLOT_SIZE, s->region + s->tids_off + i * 4ull,
				      &slots[i]))
			slots[i] = (struct dp_hit_slot_state){.idle = false};
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		if (is_free(s, via, slots, i) && !give_back(s, via, i, first + (u64)i * DP_HIT_SLOT_SIZE))
			break;
	for (u32 i = 0; s->seen && slots && i < s->nslots; i++)
		s->seen[i] = (struct dp_slot_seen){
		    .left = slots[i].left, .given_up = slots[i].given_up, .ended = slots[i].given_up && slots[i].idle};
	free(slots);
}
