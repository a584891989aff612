/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * System calls made by a thread of the target on our behalf. The thread is sent to a piece of code with
 * all that it needs to find back on its own stack, below the red zone: if we die in the middle, it finishes
 * and goes on as if nothing had been.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "abi/abi-slot.h"
#include "host/process/process-priv.h"

#define STOP_TIMEOUT 2000000000ull /* a busy machine may take long to run a thread */
#define CALL_TIMEOUT 20000000000ull
#define JUMP_TIMEOUT 200000000ull /* by then a signal handler may have jumped out of a call */
#define PAGE 4096ull
#define HEADERS_MOST 64      /* of a program; it has some ten */
#define FROZEN_NS 5000000ull /* between looks at whether the control group is frozen */

/*
 * Behind it, the page that is being mapped or unmapped: should we die before it can be known by what is in it, a
 * successor finds it.
 */
#define NOTE_SIZE 5
#define BORROWED (DP_STUB_CALL + NOTE_SIZE)
_Static_assert(BORROWED <= DP_SLACK_PARK, "the bytes behind are in use when a program is started");

/* Bytes behind a code segment's end on its last page: mapped, executable, and nobody's. */
static u64 slack_of(const struct dp_maps *maps, const struct dp_mem *mem, u64 head)
{
	Elf64_Phdr all[HEADERS_MOST], ph;
	u64 bias = head;
	Elf64_Ehdr eh;

	if (dp_mem_read(mem, head, &eh, sizeof(eh), NULL) || memcmp(eh.e_ident, ELFMAG, SELFMAG))
		return 0;
	if (eh.e_phnum > HEADERS_MOST || dp_mem_read(mem, head + eh.e_phoff, all, eh.e_phnum * sizeof(*all), NULL))
		return 0;
	for (int k = 0; k < eh.e_phnum; k++) {
		const struct dp_map *map;
		u64 end;

		ph = all[k];
		if (ph.p_type == PT_LOAD && ph.p_offset == 0)
			bias = head - ph.p_vaddr;
		end = DP_ALIGN_UP(bias + ph.p_vaddr + ph.p_filesz, 16);
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || (end & (PAGE - 1)) == 0 ||
		    PAGE - (end & (PAGE - 1)) < DP_SLACK_SIZE)
			continue;
		map = dp_maps_at(maps, end);
		if (map && map->x && !map->w && !map->shared && map->inode && map->hi - end >= DP_SLACK_SIZE)
			return end;
	}
	return 0;
}

/* The executable, the loader or the C library, by their names: what they give is never unmapped. */
static bool is_lasting(const struct dp_maps *maps, const struct dp_map *m, u64 entry)
{
	const struct dp_map *exe = dp_maps_at(maps, entry);
	const char *base = strrchr(m->path, '/');

	if (exe && exe->inode == m->inode && exe->dev_major == m->dev_major && exe->dev_minor == m->dev_minor)
		return true;
	return base && (!strncmp(base, "/libc.so", 8) || !strncmp(base, "/ld-", 4));
}

u64 dp_find_slack(const struct dp_maps *maps, const struct dp_mem *mem)
{
	u64 entry = dp_passed(mem->pid, AT_ENTRY);

	/* Of a module that the program may unmap meanwhile only when there is no other. */
	for (u32 pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < maps->n; i++) {
			const struct dp_map *m = &maps->v[i];
			u64 slack = m->inode && !m->offset && is_lasting(maps, m, entry) == !pass
					? slack_of(maps, mem, m->lo)
					: 0;

			if (slack)
				return slack;
		}
	return 0;
}

/* What the file has at the borrowed bytes: a predecessor that was killed may have left its code there. */
static void read_original(struct dp_remote *r)
{
	const struct dp_map *m = dp_maps_at(r->maps, r->stub);
	int fd;

	memset(r->stub_saved, 0, sizeof(r->stub_saved));
	if (!m)
		return;
	fd = dp_map_open(r->mem->pid, m);
	if (fd < 0)
		return;
	if (pread(fd, r->stub_saved, sizeof(r->stub_saved), (off_t)(m->offset + (r->stub - m->lo))) < 0)
		memset(r->stub_saved, 0, sizeof(r->stub_saved));
	close(fd);
}

static int put_stub(struct dp_remote *r, u64 noted, struct dp_error *err)
{
	u8 code[BORROWED];
	int e = 0;

	if (!r->stub_in) {
		e = dp_mem_read(r->mem, r->stub, r->stub_saved, sizeof(r->stub_saved), err);
		if (!e && !memcmp(r->stub_saved, dp_stub_call, DP_STUB_CALL))
			read_original(r);
	}
	memcpy(code, dp_stub_call, DP_STUB_CALL);
	noted /= PAGE;
	memcpy(code + DP_STUB_CALL, &noted, NOTE_SIZE);
	if (!e)
		e = dp_mem_write(r->mem, r->stub, code, sizeof(code), err);
	r->stub_in |= !e;
	return e;
}

static void forget_group(struct dp_remote *r)
{
	if (r->group >= 0)
		close(r->group);
	r->group = -1;
}

void dp_remote_end(struct dp_remote *r)
{
	if (r->tracer)
		forget_group(r);
	dp_remote_retire(r, NULL);
	if (r->stub_in && !r->stuck) /* else a thread may still come back there; nobody else uses these bytes */
		dp_mem_write(r->mem, r->stub, r->stub_saved, BORROWED, NULL);
	r->stub_in = false;
}

void dp_fix_rseq(pid_t tid, const struct dp_mem *mem, struct user_regs_struct *regs)
{
	struct dp_rseq_configuration rc = {0};
	struct dp_rseq_cs cs;
	u64 ptr = 0, none = 0;

	ptrace(DP_GET_RSEQ_CONFIGURATION, tid, sizeof(rc), &rc);
	if (!rc.pointer || dp_mem_read(mem, rc.pointer + 8, &ptr, 8, NULL) || !ptr ||
	    dp_mem_read(mem, ptr, &cs, sizeof(cs), NULL))
		return;
	if (dp_user_ip(regs) - cs.start_ip < cs.post_commit_offset)
		dp_user_ip(regs) = cs.abort_ip;
	dp_mem_write(mem, rc.pointer + 8, &none, 8, NULL);
}

static char thread_state(pid_t pid, pid_t tid)
{
	char state[32] = "?";

	dp_status_field(pid, tid, "State", state, sizeof(state));
	return state[0];
}

/* A stopped thread to work with; one that sleeps feels it least. */
static struct dp_thread *pick_worker(struct dp_remote *r)
{
	struct dp_tracer *t = r->tracer;

	for (int pass = 0; pass < 2; pass++)
		for (u32 i = 0; i < t->n; i++) {
			struct dp_thread *th = &t->v[i];

			if (th->gone || th->released || th->foreign || th->sharer || th->group_stop)
				continue;
			if (pass == 0 && t->n > 1 && th->running && thread_state(t->pid, th->tid) != 'S')
				continue;
			if (dp_tracer_stop(t, th, STOP_TIMEOUT) && !t->v[i].group_stop)
				return &t->v[i];
		}
	/* All are stopped by job control: any of them can still make a call. */
	return NULL;
}

/* Whether the stopped thread is under a filter, and the filter can be suspended: nothing runs meanwhile. */
static int check_filter(struct dp_remote *r, struct dp_thread *th, struct dp_error *err)
{
	bool waits = r->tracer->n == 1 && dp_parked_at(r->tracer->pid, dp_user_ip(&th->before));
	char mode[16] = "0";

	if (waits && th->unfiltered)
		return 0;
	dp_status_field(r->tracer->pid, th->tid, "Seccomp", mode, sizeof(mode));
	r->follow.lifts = mode[0] != '0';
	th->unfiltered = waits && mode[0] == '0';
	if (r->follow.lifts && (ptrace(PTRACE_SETOPTIONS, th->tid, 0, DP_TRACE_OPTIONS | PTRACE_O_SUSPEND_SECCOMP) ||
				ptrace(PTRACE_SETOPTIONS, th->tid, 0, DP_TRACE_OPTIONS)))
		return dp_fail(err, E_TARGET_SECCOMP, "thread %d: %s", (int)th->tid, strerror(errno));
	return 0;
}

/*
 * Send the stopped thread to `code` with these words on its stack, signals blocked if asked; it comes back by itself,
 * or, at a signal up to `end`, is brought back.
 */
static int launch(struct dp_remote *r, struct dp_thread *th, struct user_regs_struct *regs, u64 code, u64 end,
		  const u64 *words, size_t n, bool block, struct dp_error *err)
{
	static const u64 all = ~0ull;
	u64 sp = dp_user_sp(regs) - 128 - n * 8;
	int e = dp_mem_write(r->mem, sp, words, n * 8, err);

	if (e)
		return e;
	th->worked = true;
	th->given_back = false;
	th->work_lo = code;
	th->work_hi = end;
	dp_user_sp(regs) = sp;
	dp_user_ip(regs) = code;
	dp_user_call(regs) = (u64)-1;
	/* In this order: should we die between the two, it goes there and restores what has not changed. */
	if (ptrace(PTRACE_SETREGS, th->tid, 0, regs) ||
	    (block && ptrace(PTRACE_SETSIGMASK, th->tid, sizeof(all), &all)))
		return dp_fail(err, E_TARGET_GONE, "thread %d: %s", (int)th->tid, strerror(errno));
	dp_tracer_resume(r->tracer, th);
	return 0;
}

static int wait_done(struct dp_remote *r, u64 timeout, bool (*done)(void *arg), void *arg, struct dp_error *err)
{
	u64 begin = dp_now_ns();

	while (!done(arg)) {
		u64 stops = r->tracer->stops;

		dp_tracer_pump(r->tracer);
		if (r->tracer->dead)
			return dp_fail(err, E_TARGET_GONE, "process %d", (int)r->tracer->pid);
		if (dp_now_ns() - begin > timeout)
			return dp_fail(err, E_TARGET_STUCK, "a call inside process %d does not end",
				       (int)r->tracer->pid);
		if (r->tracer->stops == stops)
			dp_tracer_rest(dp_now_ns() - begin, r->follow.tid != 0);
	}
	return 0;
}

/* Wait until every thread (or every one that worked for us) was seen outside of these places once. */
static int wait_outside(struct dp_remote *r, const struct dp_range *v, u32 n, bool workers, struct dp_error *err)
{
	struct dp_moves mv = {.avoid = v, .navoid = n, .slots = r->slots, .nslots = r->nslots};
	struct dp_tracer *t = r->tracer;
	u64 begin = dp_now_ns();
	u32 us = 0;

	for (u32 i = 0; i < t->n; i++)
		while ((t->v[i].worked || !workers) && !t->v[i].gone && !t->v[i].released && !t->v[i].foreign) {
			bool out = dp_tracer_stop(t, &t->v[i], STOP_TIMEOUT) &&
				   dp_move_thread(&t->v[i], r->mem, r->maps, &mv);

			if (out)
				dp_resume_unless_parked(t, &t->v[i]);
			else
				dp_tracer_resume(t, &t->v[i]);
			t->v[i].worked &= !out;
			if (out)
				break;
			r->stuck |= dp_now_ns() - begin > CALL_TIMEOUT;
			if (r->stuck)
				return dp_fail(err, E_TARGET_STUCK, "thread %d does not come back from a call",
					       (int)t->v[i].tid);
			dp_tracer_pause(t, &us);
		}
	return 0;
}

int dp_remote_leave(struct dp_remote *r, struct dp_error *err)
{
	/* No more than the loop: a thread may be in hits nearly all of the time. */
	struct dp_range code[2] = {{r->stub, r->stub + DP_STUB_CALL}, {r->service, r->service_end}};

	return wait_outside(r, code, 2, true, err);
}

int dp_remote_settle(struct dp_remote *r, u64 service_size, struct dp_error *err)
{
	struct dp_range code = {r->service, r->service + service_size};

	return wait_outside(r, &code, 1, false, err);
}

/*
 * A predecessor that was killed may have sent a thread to the borrowed bytes that has not run since. It
 * must be through before anything else happens: what it is about to map or unmap is what we are about to use.
 */
static int await_predecessor(struct dp_remote *r, struct dp_error *err)
{
	struct dp_range code = {r->stub, r->stub + DP_STUB_CALL};
	u8 now[BORROWED];
	int e;

	if (dp_mem_read(r->mem, r->stub, now, sizeof(now), NULL) || memcmp(now, dp_stub_call, DP_STUB_CALL))
		return 0;
	memcpy(&r->noted, now + DP_STUB_CALL, NOTE_SIZE);
	r->noted *= PAGE;
	e = wait_outside(r, &code, 1, false, err);
	if (!e) { /* whoever ends this puts the file's bytes there */
		read_original(r);
		r->stub_in = true;
	}
	return e;
}

bool dp_remote_left(const struct dp_maps *maps, const struct dp_mem *mem)
{
	u64 stub = dp_find_slack(maps, mem);
	u8 now[DP_STUB_CALL];

	return stub && !dp_mem_read(mem, stub, now, sizeof(now), NULL) && !memcmp(now, dp_stub_call, sizeof(now));
}

/* The ways back from calls, and out of hits that move a thread, are returns without a call. */
static int check_shadow_stack(const struct dp_tracer *t, struct dp_error *err)
{
	char features[128] = "";

	dp_status_field(t->pid, dp_memory_tid(t->pid), "x86_Thread_features", features, sizeof(features));
	return strstr(features, "shstk") ? dp_fail(err, E_TARGET_SHSTK, "process %d: %s", (int)t->pid, features) : 0;
}

/* The process's directory is looked up once, and once more when the process has gone elsewhere. */
static bool is_frozen(struct dp_remote *r)
{
	enum dp_group_state state = DP_GROUP_EMPTY;

	if (r->looked)
		state = r->group < 0 ? DP_GROUP_RUNS : dp_group_look(r->group);
	if (state != DP_GROUP_EMPTY)
		return state == DP_GROUP_FROZEN;
	forget_group(r);
	r->group = dp_group_open(r->tracer->pid);
	return r->group >= 0 && dp_group_look(r->group) == DP_GROUP_FROZEN;
}

/* A thread whose next step is not the handler of a signal, if there is one. */
static struct dp_thread *pick_quiet(struct dp_remote *r)
{
	u64 begin = dp_now_ns();
	struct dp_thread *th;

	while ((th = pick_worker(r)) && (th->signal || dp_signal_pending(th->tid)) &&
	       dp_now_ns() - begin < JUMP_TIMEOUT)
		dp_tracer_resume(r->tracer, th);
	return th;
}

static int stop_worker(struct dp_remote *r, bool quiet, struct dp_thread **th, struct user_regs_struct *regs,
		       struct dp_error *err)
{
	u64 now = dp_now_ns();

	if (now - r->looked > FROZEN_NS && is_frozen(r))
		return dp_fail_frozen(r->tracer->pid, err);
	if (now - r->looked > FROZEN_NS)
		r->looked = now;
	*th = quiet ? pick_quiet(r) : pick_worker(r);
	if (!*th)
		return dp_fail_stuck(r->tracer, err);
	if (ptrace(PTRACE_GETREGS, (*th)->tid, 0, regs))
		return dp_fail(err, E_TARGET_GONE, "thread %d: %s", (int)(*th)->tid, strerror(errno));
	return 0;
}

/* A thread that is on its way back from earlier calls comes there first: it is known then what it goes on with. */
static int get_worker(struct dp_remote *r, bool quiet, struct dp_thread **th, struct user_regs_struct *regs,
		      struct dp_error *err)
{
	int e = stop_worker(r, quiet, th, regs, err);

	while (!e && dp_tracer_at_work(*th, regs)) {
		dp_tracer_resume(r->tracer, *th);
		e = dp_remote_leave(r, err);
		if (!e)
			e = stop_worker(r, quiet, th, regs, err);
	}
	if (e)
		return e;
	dp_fix_restart((*th)->tid, regs, true);
	if (!dp_parked_at(r->tracer->pid, dp_user_ip(regs)))
		dp_fix_rseq((*th)->tid, r->mem, regs);
	(*th)->before = *regs;
	return check_filter(r, *th, err);
}

/* Under a filter with a call that it allows, which becomes the one that is meant at its entry. */
static int launch_stub(struct dp_remote *r, struct dp_call *c, bool quiet, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_thread *th;
	struct dp_call there = {0};
	int e = get_worker(r, quiet, &th, &regs, err);

	if (e)
		return e;
	u64 words[] = {dp_user_words_call(&regs)};
	if (r->follow.lifts)
		there.nr = dp_harmless_call(th->tid);
	else
		there = *c;
	dp_user_result(&regs) = (u64)there.nr;
	dp_user_set_args(&regs, there.arg);
	dp_follow_begin(&r->follow, r->tracer, th, c, 1, r->stub, r->stub + DP_STUB_CALL);
	return launch(r, th, &regs, r->stub, r->stub + DP_STUB_CALL, words, DP_ARRAY_SIZE(words), false, err);
}

int (*dp_remote_refuse)(const struct dp_call *c);

static int refused(const struct dp_call *c)
{
	return dp_remote_refuse ? dp_remote_refuse(c) : 0;
}

static const char *name_of(s64 nr)
{
	return nr == SYS_mmap ? "mmap" : nr == SYS_munmap ? "munmap" : nr == SYS_mprotect ? "mprotect" : "system call";
}

static bool stub_left(void *arg)
{
	const struct dp_remote *r = arg;

	for (u32 i = 0; i < r->tracer->n; i++)
		if (r->tracer->v[i].tid == r->follow.tid && r->tracer->v[i].given_back)
			return true;
	return dp_follow_done((void *)&r->follow);
}

/*
 * The borrowed bytes have no room for blocking signals: when the thread has left them for a signal's handler, the call
 * is made again, by one that has no signal to take first: where they come in a storm each attempt met one.
 */
int dp_remote_stub(struct dp_remote *r, s64 nr, const u64 arg[6], struct dp_error *err)
{
	struct dp_call c = {nr, {arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]}, 0};
	int no = refused(&c);
	int e = no ? dp_fail(err, E_TARGET_CALL, "%s: %s", name_of(nr), strerror(no)) : put_stub(r, arg[0], err);
	u64 begin = dp_now_ns();
	bool done = false;

	for (bool again = false; !e && !done && dp_now_ns() - begin < CALL_TIMEOUT; again = true) {
		e = launch_stub(r, &c, again, err);
		if (!e) {
			wait_done(r, JUMP_TIMEOUT, stub_left, r, NULL);
			e = dp_remote_leave(r, err);
		}
		done = dp_follow_done(&r->follow);
		dp_follow_end(&r->follow, r->tracer);
	}
	if (e)
		return e;
	if (!done)
		return dp_fail(err, r->tracer->dead ? E_TARGET_GONE : E_TARGET_STUCK, "process %d has too many signals",
			       (int)r->tracer->pid);
	return c.ret < 0 && c.ret > -4096 ? dp_fail(err, E_TARGET_CALL, "%s: %s", name_of(nr), strerror((int)-c.ret))
					  : 0;
}

/*
 * A main mapping that a predecessor did not come to mark before it was killed: nothing was written that would
 * make it known, so no session finds it.
 */
int dp_remote_unmap_left(struct dp_remote *r, struct dp_error *err)
{
	struct dp_maps maps;
	const struct dp_map *m;
	u64 magic, args[6] = {r->noted};
	int e;

	if (!r->noted || dp_mem_read(r->mem, r->noted, &magic, 8, NULL) || magic)
		return 0;
	e = dp_maps_read(&maps, r->mem->pid, err);
	if (e)
		return e;
	m = dp_maps_at(&maps, r->noted);
	if (m && m->lo == r->noted && m->x && !m->w && !m->shared && !m->inode) {
		args[1] = m->hi - m->lo;
		e = dp_remote_stub(r, SYS_munmap, args, err);
	}
	dp_maps_free(&maps);
	return e;
}

int dp_remote_init(struct dp_remote *r, struct dp_tracer *t, struct dp_mem *mem, const struct dp_maps *maps,
		   struct dp_error *err)
{
	memset(r, 0, sizeof(*r));
	r->group = -1;
	r->tracer = t;
	r->mem = mem;
	r->maps = maps;
	r->nslots = dp_owners_slots(mem, maps, r->slots);
	if (check_shadow_stack(t, err))
		return -dp_error_info(E_TARGET_SHSTK)->number;
	r->stub = dp_find_slack(maps, mem);
	if (!r->stub)
		return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)t->pid);
	return await_predecessor(r, err);
}

int dp_remote_run(struct dp_remote *r, struct dp_thread *th, u64 code, u64 data, bool (*done)(void *arg), void *arg,
		  struct dp_error *err)
{
	struct user_regs_struct regs;
	int e;

	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return dp_fail(err, E_TARGET_GONE, "thread %d: %s", (int)th->tid, strerror(errno));
	dp_fix_restart(th->tid, &regs, true);
	dp_fix_rseq(th->tid, r->mem, &regs);
	u64 words[] = {data, dp_user_words_load(&regs)};
	e = launch(r, th, &regs, code, code, words, DP_ARRAY_SIZE(words), false, err);
	return e ? e : wait_done(r, CALL_TIMEOUT, done, arg, err);
}

struct table_wait {
	const struct dp_mem *mem;
	u64 addr;
	struct dp_call *table; /* as it is there; behind the last call stands whether all are made */
	u32 n;
};

static bool table_done(void *arg)
{
	const struct table_wait *w = arg;

	return !dp_mem_read(w->mem, w->addr, w->table, (w->n + 1) * sizeof(*w->table), NULL) &&
	       w->table[w->n].arg[0] == 1;
}

void dp_remote_serve(struct dp_remote *r, u64 region, const struct dp_blob_head *head, u64 slots, u32 nslots,
		     bool there)
{
	r->slots[r->nslots++] = (struct dp_range){slots, slots + (u64)nslots * DP_HIT_SLOT_SIZE};
	r->service = region + head->service;
	r->service_end = region + head->service_end;
	r->table = region + DP_ALIGN_UP(head->end, PAGE);
	r->service_in = there;
}

static int open_service(struct dp_remote *r, struct dp_error *err)
{
	const struct dp_blob_head *own = (const struct dp_blob_head *)dp_blob;
	int e;

	if (r->service_in)
		return 0;
	if (r->service_end - r->service != own->service_end - own->service)
		return dp_fail(err, E_TARGET_CALL, "process %d has probes of another version", (int)r->tracer->pid);
	e = dp_mem_write(r->mem, r->service, dp_blob + own->service, own->service_end - own->service, err);
	r->service_in = !e;
	return e;
}

int dp_remote_retire(struct dp_remote *r, struct dp_error *err)
{
	u8 traps[512];
	int e;

	if (!r->service_in)
		return 0;
	e = dp_remote_leave(r, err);
	memset(traps, DP_TRAP_BYTE, sizeof(traps));
	for (u64 at = r->service; !e && at < r->service_end; at += sizeof(traps))
		e = dp_mem_write(r->mem, at, traps, DP_MIN(sizeof(traps), r->service_end - at), err);
	r->service_in = e != 0;
	return e;
}

/*
 * The table as the thread finds it: under a filter with calls that it allows. Behind the last one the loop sets the
 * signal mask.
 */
static void fill_table(struct dp_remote *r, const struct dp_thread *th, struct dp_call *table, const struct dp_call *v,
		       u32 n, const int *no)
{
	s64 harmless = r->follow.lifts ? dp_harmless_call(th->tid) : 0;

	memset(table, 0, (n + 1) * sizeof(*table));
	for (u32 i = 0; i < n; i++) {
		if (no[i])
			table[i].nr = SYS_getpid;
		else if (r->follow.lifts)
			table[i] = (struct dp_call){harmless, {0, 0, 0, 0, 0, v[i].arg[5]}, 0};
		else
			table[i] = v[i];
	}
	table[n].nr = -1;
}

static void follow_table(struct dp_remote *r, struct dp_thread *th, struct dp_call *own, const struct dp_call *v, u32 n,
			 u64 sp, const int *no)
{
	memcpy(own, v, n * sizeof(*own));
	for (u32 i = 0; i < n; i++)
		if (no[i])
			own[i] = (struct dp_call){SYS_getpid, {0}, 0};
	own[n] = (struct dp_call){SYS_rt_sigprocmask, {SIG_SETMASK, sp + 8, 0, 8}, 0};
	dp_follow_begin(&r->follow, r->tracer, th, own, n + 1, r->service, r->service_end);
}

static int make_calls(struct dp_remote *r, struct dp_call *v, u32 n, struct dp_error *err)
{
	struct dp_call table[33 + 1], own[33 + 1];
	struct user_regs_struct regs;
	struct dp_thread *th;
	struct table_wait wait = {r->mem, r->table, table, n};
	int e, no[32];
	u64 mask;

	_Static_assert(sizeof(struct dp_call) == 64, "the service loop steps by 64 bytes");
	if (n > 32)
		return dp_fail(err, E_TARGET_CALL, "too many calls at once");
	e = open_service(r, err);
	if (!e)
		e = get_worker(r, false, &th, &regs, err);
	if (e)
		return e;
	for (u32 i = 0; i < n; i++)
		no[i] = refused(&v[i]);
	fill_table(r, th, table, v, n, no);
	e = dp_mem_write(r->mem, r->table, table, (n + 1) * sizeof(*v), err);
	if (e)
		return e;
	if (ptrace(PTRACE_GETSIGMASK, th->tid, sizeof(mask), &mask))
		return dp_fail(err, E_TARGET_GONE, "thread %d: %s", (int)th->tid, strerror(errno));
	u64 words[] = {r->table, mask, dp_user_words_service(&regs)};
	if (r->follow.lifts)
		follow_table(r, th, own, v, n, dp_user_sp(&regs) - 128 - sizeof(words), no);
	e = launch(r, th, &regs, r->service, r->service_end, words, DP_ARRAY_SIZE(words), true, err);
	if (!e)
		e = r->follow.lifts ? wait_done(r, CALL_TIMEOUT, dp_follow_done, &r->follow, err)
				    : wait_done(r, CALL_TIMEOUT, table_done, &wait, err);
	for (u32 i = 0; !e && i < n; i++)
		v[i].ret = no[i] ? -no[i] : r->follow.lifts ? own[i].ret : table[i].ret;
	if (r->follow.lifts)
		dp_follow_end(&r->follow, r->tracer);
	return e;
}

void dp_remote_later(struct dp_remote *r, struct dp_call *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		r->later[r->nlater++] = &v[i];
}

int dp_remote_calls(struct dp_remote *r, struct dp_call *v, u32 n, struct dp_error *err)
{
	struct dp_call all[32];
	u32 k = r->nlater;
	int e = 0;

	if (!k || n + k > DP_ARRAY_SIZE(all)) {
		e = make_calls(r, v, n, err);
		return !e && k ? dp_remote_calls(r, NULL, 0, err) : e;
	}
	/* The caller's come first: a successor looks for them at the begin of the table (dp_share_clean()). */
	if (n)
		memcpy(all, v, n * sizeof(*v));
	for (u32 i = 0; i < k; i++)
		all[n + i] = *r->later[i];
	r->nlater = 0;
	e = make_calls(r, all, n + k, err);
	for (u32 i = 0; !e && i < n; i++)
		v[i].ret = all[i].ret;
	for (u32 i = 0; !e && i < k; i++)
		r->later[i]->ret = all[n + i].ret;
	return e;
}

int dp_remote_close(struct dp_remote *r, bool (*which)(const char *path, void *arg), void *arg, struct dp_error *err)
{
	char path[300];
	struct dirent *de;
	DIR *dir;
	int e = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)r->tracer->pid);
	dir = opendir(path);
	while (dir && !e && (de = readdir(dir))) {
		struct dp_call c = {SYS_close, {(u64)atoi(de->d_name)}, 0};

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)r->tracer->pid, de->d_name);
		if (which(path, arg))
			e = dp_remote_calls(r, &c, 1, err);
	}
	if (dir)
		closedir(dir);
	return e;
}
