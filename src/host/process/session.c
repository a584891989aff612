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
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/session-priv.h"

#define TRIES 3
#define ROUNDS 50 /* looks for further processes that inherited probes */
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

u64 dp_rings_inode(pid_t pid, u64 at)
{
	struct dp_maps maps;
	const struct dp_map *m;
	u64 inode = 0;

	if (!dp_maps_read(&maps, pid, NULL)) {
		m = dp_maps_at(&maps, at);
		inode = m && strstr(m->path, "dprobes-rings") ? m->inode : 0;
		dp_maps_free(&maps);
	}
	return inode;
}

static void add_withdrawn(struct dp_session *s, const struct dp_withdrawn *wd)
{
	s->stats.longest_stop_ns = DP_MAX(s->stats.longest_stop_ns, wd->longest_stop_ns);
	s->stats.stops += wd->stops;
	s->stats.moved += wd->moved;
	s->stats.rescued += wd->rescued;
	s->stats.kept_bytes += wd->kept_bytes;
}

/* One pass over all processes but the session's own that have inherited these probes; returns how many were freed of probes. */
static u32 withdraw_others(struct dp_session *s, u64 control, u64 rings_at, u64 inode)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	u32 n = 0;

	while (dir && (de = readdir(dir))) {
		struct dp_withdrawn wd;
		pid_t pid = (pid_t)atoi(de->d_name);
		u64 at;

		if (pid <= 0 || pid == getpid() || pid == s->pid || dp_rings_inode(pid, rings_at) != inode)
			continue;
		at = dp_find_control(pid); /* one of ours, though not always the last one */
		/* Born in the middle of a step, perhaps. */
		if (!dp_withdraw_process(pid, at ? at : control, true, &wd, NULL)) {
			add_withdrawn(s, &wd);
			n += !wd.kept_bytes;
		}
	}
	if (dir)
		closedir(dir);
	return n;
}

/* inode: of the rings; 0: there were none yet, and so no probes that a child could have got. */
static void withdraw_all_others(struct dp_session *s, u64 control, u64 rings_at, u64 inode)
{
	for (int i = 0; inode && i < ROUNDS && withdraw_others(s, control, rings_at, inode); i++)
		;
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

/* A predecessor's probes: its own business while it lives, ours to clean when it does not. */
static int settle_predecessor(struct dp_session *s, struct dp_error *err)
{
	u64 addr = dp_find_control(s->pid);
	struct dp_withdrawn wd;
	struct dp_control ctl;
	struct dp_mem mem;
	u64 inode;
	int r;

	if (!addr)
		return 0;
	r = dp_mem_open(&mem, s->pid, err);
	if (r)
		return r;
	r = dp_mem_read(&mem, addr, &ctl, sizeof(ctl), err);
	dp_mem_close(&mem);
	if (r) /* a predecessor's last call may just have taken it away */
		return dp_find_control(s->pid) ? r : 0;
	if (dp_owner_lives(ctl.owner_pid))
		return dp_fail(err, E_TARGET_BUSY, "process %d belongs to dprobes process %u", (int)s->pid,
			       ctl.owner_pid);
	inode = dp_rings_inode(s->pid, ctl.rings);
	r = dp_withdraw_process(s->pid, addr, true, &wd, err);
	if (!r && inode)
		withdraw_all_others(s, addr, ctl.rings, inode);
	if (!r)
		dp_session_say(s, "cleaned up after an earlier dprobes: %u places restored", wd.restored);
	return r;
}

int dp_session_new(struct dp_session **out, pid_t pid, const struct dp_session_options *opt,
		   struct dp_error *err)
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
		r = settle_predecessor(s, err);
	if (r) {
		dp_process_free(&s->proc);
		free(s);
		return r;
	}
	s->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	*out = s;
	return 0;
}

int dp_session_add(struct dp_session *s, const char *text, struct dp_error *err)
{
	return dp_resolve_event(s, text, err);
}

int dp_session_arm(struct dp_session *s, struct dp_error *err)
{
	int r;

	if (!s->nprobes)
		return dp_fail(err, E_ARM_NONE, "process %d", (int)s->pid);
	for (int i = 0; i < TRIES; i++) {
		r = dp_arm(s, err);
		if (r != -dp_error_info(E_TARGET_CALL)->number)
			break; /* that one: the address space changed under the plan, perhaps */
	}
	if (!r && s->parking.pid) {
		dp_park_keep_end(&s->parking);
		r = dp_unpark(&s->parking, err);
		s->parking.pid = 0;
		if (!r && s->parking.left)
			dp_session_say(s, "the program did not wait until all probes were in place: its first events are missing");
	}
	return r;
}

/* Others trace a process for moments only, as a rule (a dump, a look at the stacks): wait a little for them. */
static int withdraw_patiently(struct dp_session *s, struct dp_withdrawn *wd, struct dp_error *err)
{
	int r;

	for (int i = 0;; i++) {
		r = dp_withdraw_process(s->pid, s->control, false, wd, err);
		if (r != -dp_error_info(E_TARGET_TRACED)->number || i == TRACED_PATIENCE)
			return r;
		usleep(10000);
	}
}

/* After an exec the memory is another program's, and nothing of ours is in it. */
static bool carries_probes(const struct dp_session *s)
{
	u64 magic = 0;
	struct iovec here = {&magic, 8}, there = {(void *)s->control, 8};

	return process_vm_readv(dp_memory_tid(s->pid), &here, 1, &there, 1, 0) == 8 && magic == DP_CONTROL_MAGIC;
}

int dp_session_remove(struct dp_session *s, struct dp_error *err)
{
	u64 begin = dp_now_ns(), inode, rings_at;
	struct dp_withdrawn wd;
	int r = 0;

	if (!s->armed)
		return 0;
	s->armed = false;
	dp_calls_end(s);
	dp_watch_end(s);
	inode = dp_rings_inode(getpid(), (u64)s->rings);
	rings_at = s->region + (u64)s->rings_off;
	if (inode && dp_rings_inode(s->pid, rings_at) == inode) {
		r = withdraw_patiently(s, &wd, err);
		if (!r)
			add_withdrawn(s, &wd);
		if (!r && wd.skipped)
			dp_session_say(s, "%u places were changed by somebody else meanwhile and left alone",
				       wd.skipped);
		if (!r && wd.kept_bytes && wd.halted.code)
			dp_session_say(s, "%llu KiB stay mapped in process %d: it was stopped to restore its code, since %s: %s",
				       (unsigned long long)wd.kept_bytes / 1024, (int)s->pid,
				       dp_error_info(wd.halted.code)->sentence, wd.halted.detail);
		else if (!r && wd.kept_bytes && wd.inside)
			dp_session_say(s, "%llu KiB stay mapped in process %d: thread %d may still be inside, at %#llx",
				       (unsigned long long)wd.kept_bytes / 1024, (int)s->pid, (int)wd.inside,
				       (unsigned long long)wd.where);
		else if (!r && wd.kept_bytes)
			dp_session_say(s, "%llu KiB stay mapped in process %d: somebody else changed bytes there",
				       (unsigned long long)wd.kept_bytes / 1024, (int)s->pid);
		/* It ended, or an execve has taken everything away since we looked. */
		if (r && (!dp_session_alive(s) || (r == -dp_error_info(E_TARGET_MEM)->number && !carries_probes(s))))
			r = 0;
	}
	withdraw_all_others(s, s->control, rings_at, inode);
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
		dp_event_free(s->probes[i].event);
		free(s->probes[i].event);
	}
	free(s->probes);
	free(s->words);
	free(s->spots);
	free(s->watched);
	free(s->watch_events);
	free(s->tried);
	dp_plan_free(&s->plan);
	dp_unwind_free(&s->unwind);
	if (s->rings)
		munmap(s->rings, s->rings_size);
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
	return s->rings ? (volatile u64 *)((u8 *)s->rings + s->words_off) : NULL;
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
	    .via = p->event->is_watch ? "watch" : NULL,
	};
}

struct dp_rings *dp_session_rings(struct dp_session *s)
{
	return s->rings;
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
	if (s->armed && !s->spawned && !carries_probes(s))
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

/* Slots whose thread is gone are given back, unless it left in the middle of a hit. */
void dp_session_tend(struct dp_session *s)
{
	u64 slots = s->region + s->slots_off;
	pid_t via = dp_memory_tid(s->pid);

	for (u32 i = 0; i < s->nslots; i++) {
		u64 at = slots + (u64)i * DP_SLOT_SIZE + DP_SLOT_HEAD, zero = 0;
		struct dp_slot_head head;
		struct iovec here = {&head, 24}, there = {(void *)at, 24};
		u32 tid;
		struct iovec tid_here = {&tid, 4};
		struct iovec tid_there = {(void *)(s->region + s->tids_off + i * 4ull), 4};
		char path[64];

		if (process_vm_readv(via, &here, 1, &there, 1, 0) != 24 || !head.owner || head.busy)
			continue;
		if (process_vm_readv(via, &tid_here, 1, &tid_there, 1, 0) != 4 || !tid)
			continue; /* its id is read from the thread itself: a successor takes the slot over */
		snprintf(path, sizeof(path), "/proc/%d/task/%u", (int)s->pid, tid);
		if (access(path, F_OK) == 0)
			continue;
		here = (struct iovec){&zero, 8};
		there = (struct iovec){(void *)at, 8};
		if (process_vm_writev(via, &here, 1, &there, 1, 0) != 8)
			return;
	}
}

int dp_session_cleanup(pid_t pid, struct dp_error *err)
{
	u64 addr = dp_find_control(pid);
	struct dp_withdrawn wd;
	int r;

	if (!addr)
		return 0;
	r = dp_withdraw_process(pid, addr, true, &wd, err);
	return r ? r : (int)wd.restored;
}
