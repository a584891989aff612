/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Processes that wait at their entry point, or where a thread has loaded a library, until probes are in place: stopped
 * by us, or without a tracer. Should nobody come for them any more they go on by themselves after three seconds, and
 * whoever brings them there may be killed at any moment: nothing that needs a tracer is left in their code.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/arch.h"
#include "host/process/process-priv.h"

#define PAGE 4096ull
#define LOOK_US 100ull           /* between looks at a process that is to stop, at first, */
#define LOOK_MAX_US 1000ull      /* and at most */
#define ARRIVAL_US 50ull         /* at least, between looks at a process on its way to its entry point, */
#define ARRIVAL_FIRST_US 2000ull /* and at most before the first one */
#define ARRIVAL_MS 2000          /* a library's initialiser may do whatever it likes on that way */
#define LET_GO_MS 200            /* until a thread that is to be let go has stopped for it */
#define OWED_MOST 64             /* such threads that did not */
#define RETURN_LOOKS 1000        /* at a thread that is on its way back to where it waits */
#define WAIT_NS 3000000000ull    /* nobody waits for longer when everybody who could let him go is gone */
#define PAUSES_TRIED 2000        /* to find out how long one takes, */
#define PAUSES_TRIES 5           /* so many times: the best is not disturbed */
#define CALLS_MOST 40            /* system calls in which a linker loads a library; it takes a dozen */
#define SYSCALL_STOP (SIGTRAP | 0x80)

static int gone(pid_t pid, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_GONE, "process %d", (int)pid);
}

static int stuck(pid_t pid, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_STUCK, "process %d on its way to its entry point", (int)pid);
}

/*
 * The next report of the thread, as waitpid() has it. A stop for a signal is only looked at: one that
 * was waited for takes the signal along if we die. 0; -EAGAIN (WNOHANG) nothing yet; -ESRCH it ended.
 */
static int look(pid_t tid, int options, int *status)
{
	siginfo_t si = {0};

	if (waitid(P_PID, (id_t)tid, &si, WEXITED | WNOWAIT | __WALL | options))
		return -ESRCH;
	if (!si.si_pid)
		return -EAGAIN;
	*status = si.si_status << 8 | 0x7f;
	if (si.si_code == CLD_TRAPPED && !(si.si_status >> 8))
		return 0;
	return waitpid(tid, status, __WALL) == tid && WIFSTOPPED(*status) ? 0 : -ESRCH;
}

/* The next stop of the thread, at the latest after that many milliseconds. 0; -ESRCH it ended,
 * -ETIMEDOUT. */
static int wait_stop(pid_t tid, u32 ms, int *status)
{
	u64 begin = dp_now_ns(), waited = 0;
	sigset_t before;
	int r;

	dp_hear_stops(&before);
	while ((r = look(tid, WNOHANG, status)) == -EAGAIN && waited < ms * 1000000ull) {
		dp_await_stop(DP_MIN(DP_MAX(waited / 2000, LOOK_US), LOOK_MAX_US));
		waited = dp_now_ns() - begin;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static int signal_of(int status)
{
	return status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
}

static void note_parked(const struct dp_parking *p, bool held)
{
	if (p)
		dp_note_parked(p->pid, p->at, p->size, held ? p->tid : 0);
	else
		dp_note_parked(0, 0, 0, 0);
}

static pid_t owed[OWED_MOST];

/*
 * Let a thread go that may be running. One that sleeps in the kernel for longer than we can wait is let go when it
 * wakes.
 */
static void let_go(pid_t tid)
{
	int status, r = ptrace(PTRACE_INTERRUPT, tid, 0, 0) ? -ESRCH : wait_stop(tid, LET_GO_MS, &status);

	if (!r)
		ptrace(PTRACE_DETACH, tid, 0, (long)signal_of(status));
	for (u32 i = 0; r == -ETIMEDOUT && i < OWED_MOST; i++)
		if (!owed[i]) {
			owed[i] = tid;
			break;
		}
}

void dp_catch_settle(void)
{
	int status, r;

	for (u32 i = 0; i < OWED_MOST; i++) {
		if (!owed[i])
			continue;
		r = look(owed[i], WNOHANG, &status);
		if (!r)
			ptrace(PTRACE_DETACH, owed[i], 0, (long)signal_of(status));
		if (r != -EAGAIN)
			owed[i] = 0;
	}
}

/* The time of one differs by a factor of 50 among processors, and by one of 1,000 in an emulator. */
static u32 pauses(void)
{
	static u32 n;
	u64 least = ~0ull;

	for (u32 i = 0; !n && i < PAUSES_TRIES; i++) {
		u64 begin = dp_now_ns();

		dp_stub_pause(PAUSES_TRIED);
		least = DP_MIN(least, dp_now_ns() - begin);
	}
	if (!n)
		n = (u32)DP_MIN(WAIT_NS * PAUSES_TRIED / DP_MAX(least, 1ull), (u64)INT32_MAX);
	return n;
}

/* Code that waits once, or for as long as its word changes. */
static void emit_wait(struct dp_emit *e, bool once)
{
	u32 n = pauses();
	u8 code[DP_STUB_WAIT];

	memcpy(code, once ? dp_stub_wait_once : dp_stub_wait, once ? DP_STUB_WAIT_ONCE : DP_STUB_WAIT);
	memcpy(code + (once ? DP_STUB_WAIT_ONCE_PAUSES : DP_STUB_WAIT_PAUSES), &n, sizeof(n));
	dp_emit_bytes(e, code, once ? DP_STUB_WAIT_ONCE : DP_STUB_WAIT);
}

/* Where the process is going to wait: behind a code segment's end, as much as is left of the page. */
static int find_place(struct dp_parking *p, const struct dp_mem *mem, size_t *room, struct dp_error *err)
{
	struct dp_maps maps;
	int r = dp_maps_read(&maps, p->pid, err);

	if (r)
		return r;
	p->at = dp_find_slack(&maps, mem);
	dp_maps_free(&maps);
	if (!p->at)
		return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid);
	p->at += DP_SLACK_PARK;
	*room = DP_MIN(PAGE - (p->at & (PAGE - 1)), (u64)DP_PARK_MAX);
	return 0;
}

/* The waiting code, and behind it the program's first instructions and the way to those that follow. */
static int make_code(struct dp_parking *p, const u8 *first, size_t avail, bool once, struct dp_emit *e,
		     struct dp_error *err)
{
	struct dp_outline o = {.code = first, .start = p->entry};
	struct dp_insn in;
	int r;

	p->word = once ? 0 : p->at + DP_STUB_WAIT_WORD;
	emit_wait(e, once);
	do {
		if (dp_insn_decode(&in, first + o.len, avail - o.len) < 0)
			return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid);
		o.len += in.len;
	} while (o.len < DP_JUMP_LEN && dp_insn_traits(&in) & DP_INSN_FALLS);
	/* The whole program may be one short jump. */
	r = o.len < DP_JUMP_LEN ? dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid)
				: dp_outline_emit(e, &o, err);
	if (!r && e->overflow)
		r = dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid);
	return r;
}

static u64 usual = ARRIVAL_US * 1000; /* so long the process before was on its way, and so as a rule is the next one */
static struct dp_parking *way;        /* who was sent there last, and has not been met yet */

static void interrupt(struct dp_parking *p)
{
	ptrace(PTRACE_INTERRUPT, p->pid, 0, 0);
	p->asked = true;
}

/* A stop on its way, or there. */
static int take_stop(struct dp_parking *p, int status, struct dp_error *err)
{
	struct user_regs_struct regs;

	p->asked = false;
	if (ptrace(PTRACE_GETREGS, p->pid, 0, &regs))
		return gone(p->pid, err);
	p->there = !signal_of(status) && dp_user_ip(&regs) - p->at < p->size;
	return 0;
}

static int send_on(struct dp_parking *p, int status, struct dp_error *err)
{
	u64 now = dp_now_ns();

	p->due = now + DP_MAX((now - p->since) / 8, ARRIVAL_US * 1000);
	return ptrace(PTRACE_CONT, p->pid, 0, (long)signal_of(status)) ? gone(p->pid, err) : 0;
}

/* Until the thread is in the waiting code: looked at again and again, since a tracer that waits for a
 * trap there would leave the trap behind when it is killed. */
static int await_arrival(struct dp_parking *p, struct dp_error *err)
{
	u64 now = dp_now_ns(), due = p->since + DP_MIN(usual * 3 / 4, ARRIVAL_FIRST_US * 1000);
	bool knows = now < due; /* since when it is there */
	int status, r = 0;

	for (; !r && !p->there; now = dp_now_ns(), due = p->due) {
		if (!p->asked && due > now + 1000)
			usleep((useconds_t)((due - now) / 1000));
		if (!p->asked)
			interrupt(p);
		r = wait_stop(p->pid, ARRIVAL_MS, &status);
		if (r == -ETIMEDOUT) {
			let_go(p->pid);
			return stuck(p->pid, err);
		}
		r = r ? gone(p->pid, err) : take_stop(p, status, err);
		if (r || p->there)
			continue;
		if (!signal_of(status) && dp_now_ns() - p->since > ARRIVAL_MS * 1000000ull)
			return stuck(p->pid, err);
		r = send_on(p, status, err);
	}
	if (!r && knows)
		usual = dp_now_ns() - p->since;
	return r;
}

/* One that has come is stopped: it needs no processor while it waits. */
static void look_at_way(void)
{
	int status;

	if (way->there || (!way->asked && dp_now_ns() < way->due))
		return;
	if (!way->asked)
		interrupt(way);
	else if (!look(way->pid, WNOHANG, &status) && !take_stop(way, status, NULL) && !way->there)
		send_on(way, status, NULL);
}

/*
 * From a stop before the first instruction of the program, where its libraries are loaded, on the way to the
 * waiting code in its place. The code is complete before the jump to it stands there.
 */
static int divert(struct dp_parking *p, const struct dp_mem *mem, struct dp_error *err)
{
	u8 code[DP_PARK_MAX], first[DP_JUMP_LEN + 16] = {0}, jump[DP_JUMP_LEN];
	size_t avail = DP_MIN(sizeof(first), PAGE - (p->entry & (PAGE - 1))), room = 0;
	struct dp_emit e;
	int r = find_place(p, mem, &room, err);

	if (!r)
		r = dp_mem_read(mem, p->entry, first, avail, err);
	if (r)
		return r;
	dp_emit_init(&e, code, room, p->at);
	r = make_code(p, first, avail, false, &e, err);
	if (r) {
		dp_emit_init(&e, code, room, p->at);
		r = make_code(p, first, avail, true, &e, err);
	}
	if (!r)
		r = dp_jump_make(jump, p->entry, p->at) ? 0 : dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid);
	p->size = (u32)e.len;
	if (!r)
		r = dp_mem_read(mem, p->at, p->saved, p->size, err);
	if (!r)
		r = dp_mem_write(mem, p->at, code, p->size, err);
	if (!r)
		r = dp_mem_write(mem, p->entry, jump, DP_JUMP_LEN, err);
	_Static_assert(DP_JUMP_LEN <= sizeof(p->first), "what is put back");
	memcpy(p->first, first, DP_JUMP_LEN);
	p->since = dp_now_ns();
	p->due = p->since + usual;
	if (!r && ptrace(PTRACE_CONT, p->pid, 0, 0))
		r = gone(p->pid, err);
	return r;
}

static int send_there(struct dp_parking *p, pid_t pid, struct dp_error *err)
{
	struct dp_mem mem;
	int r = dp_mem_open(&mem, pid, err);

	memset(p, 0, sizeof(*p));
	p->pid = p->tid = pid;
	if (!r) {
		p->entry = dp_passed(pid, AT_ENTRY);
		r = divert(p, &mem, err);
		dp_mem_close(&mem);
	}
	if (r)
		ptrace(PTRACE_DETACH, pid, 0, 0);
	way = p;
	dp_note_way(r ? 0 : pid, look_at_way);
	return r;
}

static int arrived(struct dp_parking *p, bool hold, struct dp_error *err)
{
	struct dp_mem mem;
	int r = await_arrival(p, err), back = dp_mem_open(&mem, p->pid, r ? NULL : err);

	if (dp_is_on_way(p->pid))
		dp_note_way(0, NULL);
	/* From here on the waiting code does not need the jump; and one that has not come by now never sees it. */
	if (!back) {
		back = dp_mem_write(&mem, p->entry, p->first, DP_JUMP_LEN, r ? NULL : err);
		dp_mem_close(&mem);
	}
	r = r ?: back;
	note_parked(r ? NULL : p, hold);
	if (r || !hold)
		ptrace(PTRACE_DETACH, p->pid, 0, 0);
	return r;
}

int dp_park(struct dp_parking *p, pid_t pid, bool hold, struct dp_error *err)
{
	return send_there(p, pid, err) ?: arrived(p, hold, err);
}

int dp_catch_arrived(struct dp_parking *p, struct dp_error *err)
{
	return arrived(p, true, err);
}

/* ---- whoever waits longer ---- */

static void *keep(void *arg)
{
	struct dp_parking *p = arg;
	struct dp_mem mem;

	if (dp_mem_open(&mem, p->pid, NULL))
		return NULL;
	for (u32 beat = 1; !__atomic_load_n(&p->kept, __ATOMIC_RELAXED); beat++) {
		if (dp_mem_write(&mem, p->word, &beat, sizeof(beat), NULL))
			break;
		for (u32 i = 0; i < 20 && !__atomic_load_n(&p->kept, __ATOMIC_RELAXED); i++)
			usleep(10000);
	}
	dp_mem_close(&mem);
	return NULL;
}

void dp_park_keep(struct dp_parking *p)
{
	p->kept = false;
	p->keeps = p->word && !pthread_create(&p->keeper, NULL, keep, p);
}

void dp_park_keep_end(struct dp_parking *p)
{
	if (!p->keeps)
		return;
	__atomic_store_n(&p->kept, true, __ATOMIC_RELAXED);
	pthread_join(p->keeper, NULL);
	p->keeps = false;
}

int dp_unpark(struct dp_parking *p, void (*ready)(void *arg), void *arg, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_mem mem;
	bool waits = false, held = dp_parked_held(p->pid) == p->tid;
	int status = 0, r = 0;

	note_parked(NULL, false);
	if (!held && ptrace(PTRACE_SEIZE, p->tid, 0, 0))
		return gone(p->pid, err);
	/*
	 * Arming may have sent the thread into code of ours, from which it comes back by itself: to the waiting code,
	 * which must still be there then. One that does not come has gone on with the program, or is slow; the code
	 * stays for it.
	 */
	for (u32 i = 0;; i++) {
		if (((!held || i) && (ptrace(PTRACE_INTERRUPT, p->tid, 0, 0) || look(p->tid, 0, &status))) ||
		    ptrace(PTRACE_GETREGS, p->tid, 0, &regs))
			return gone(p->pid, err);
		waits = dp_user_ip(&regs) - p->at < p->size;
		if (waits || i == RETURN_LOOKS)
			break;
		if (ptrace(PTRACE_CONT, p->tid, 0, (long)signal_of(status)))
			return gone(p->pid, err);
		usleep(ARRIVAL_US);
	}
	p->left = !waits;
	if (waits) {
		dp_user_ip(&regs) = p->entry;
		r = ptrace(PTRACE_SETREGS, p->tid, 0, &regs) ? gone(p->pid, err) : dp_mem_open(&mem, p->pid, err);
		if (!r) {
			r = dp_mem_write(&mem, p->at, p->saved, p->size, err);
			dp_mem_close(&mem);
		}
	}
	if (ready)
		ready(arg);
	ptrace(PTRACE_DETACH, p->tid, 0, (long)signal_of(status));
	return r;
}

#define CS_64BIT 0x33

/*
 * Whether the stopped thread is still loading its program: it has no thread area yet. A program without a loader is at
 * its entry, as is one that another dprobes has held there before us.
 */
static bool is_loading(pid_t pid)
{
	struct user_regs_struct regs;

	return !ptrace(PTRACE_GETREGS, pid, 0, &regs) && regs.cs == CS_64BIT &&
	       (dp_user_ip(&regs) == dp_passed(pid, AT_ENTRY) || (!regs.fs_base && dp_passed(pid, AT_BASE)));
}

/* Whoever has held it before us is about to leave it. */
static bool seize_patiently(pid_t pid)
{
	u64 end = dp_now_ns() + DP_CATCH_MS * 1000000ull;
	bool alone = false;

	while (ptrace(PTRACE_SEIZE, pid, 0, 0)) {
		if (errno != EPERM || alone || dp_now_ns() > end)
			return false;
		alone = !dp_tracer_of(pid, pid); /* gone between the attempt and the question: one more */
		if (!alone)
			usleep(LOOK_US);
	}
	return true;
}

/* ---- libraries that a running program loads ---- */

/* The descriptor that the stopped thread has just got by opening a file; -1: it has not. */
static int just_opened(pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) || dp_user_result(&regs) > 1 << 24)
		return -1;
	return dp_user_call(&regs) == SYS_openat || dp_user_call(&regs) == SYS_open ||
		       dp_user_call(&regs) == SYS_openat2
		   ? (int)dp_user_result(&regs)
		   : -1;
}

/*
 * Until the thread has closed the file again, by which time a linker has mapped all of it, but calls nothing in it yet.
 * 0: it is stopped there, and has mapped code. Stops at system calls leave nothing behind if we are killed.
 */
static int await_mapped(pid_t tid, pid_t pid, int fd, struct dp_error *err)
{
	struct __ptrace_syscall_info info, entry = {.op = PTRACE_SYSCALL_INFO_NONE};
	bool mapped = false;
	long sig = 0;
	int status, r;

	for (u32 i = 0; fd >= 0 && i < 2 * CALLS_MOST; i++) {
		if (ptrace(PTRACE_SYSCALL, tid, 0, sig))
			return gone(pid, err);
		r = wait_stop(tid, DP_CATCH_MS, &status);
		if (r == -ETIMEDOUT)
			let_go(tid);
		if (r)
			return gone(pid, err);
		sig = signal_of(status);
		if (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP)
			continue;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) < (long)sizeof(info.op))
			break;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
			entry = info;
			continue;
		}
		if (entry.op != PTRACE_SYSCALL_INFO_ENTRY || info.exit.is_error)
			continue;
		if (entry.entry.nr == SYS_mmap && (int)entry.entry.args[4] == fd)
			mapped |= entry.entry.args[2] & PROT_EXEC;
		if (entry.entry.nr == SYS_close && (int)entry.entry.args[0] == fd) {
			if (mapped)
				return 0;
			break;
		}
	}
	ptrace(PTRACE_DETACH, tid, 0, sig);
	return dp_fail(err, E_TARGET_GONE, "process %d loads no library", (int)pid);
}

/* From the end of a system call to the waiting code, and back behind the call. */
static int park_here(struct dp_parking *p, pid_t tid, pid_t pid, struct dp_error *err)
{
	struct user_regs_struct regs;
	u8 code[DP_PARK_MAX];
	struct dp_emit e;
	struct dp_mem mem;
	size_t room = 0;
	int r = dp_mem_open(&mem, pid, err);

	*p = (struct dp_parking){.pid = pid, .tid = tid};
	if (r)
		goto out;
	r = ptrace(PTRACE_GETREGS, tid, 0, &regs) ? gone(pid, err) : find_place(p, &mem, &room, err);
	if (r)
		goto close;
	p->entry = dp_user_ip(&regs);
	dp_emit_init(&e, code, room, p->at);
	emit_wait(&e, true);
	dp_emit_bytes(&e, dp_stub_far, DP_STUB_FAR);
	dp_emit_u64(&e, p->entry); /* to the linker */
	p->size = (u32)e.len;
	r = e.overflow ? dp_fail(err, E_TARGET_NOROOM, "process %d", (int)pid)
		       : dp_mem_read(&mem, p->at, p->saved, p->size, err);
	if (!r)
		r = dp_mem_write(&mem, p->at, code, p->size, err);
	if (!r) {
		dp_user_ip(&regs) = p->at;
		dp_user_call(&regs) = (u64)-1; /* no call is under way that could be begun anew */
		r = ptrace(PTRACE_SETREGS, tid, 0, &regs) ? gone(pid, err) : 0;
	}
	/* Not held: others who have probes in the process may be about to change them, and wait for its threads. */
	note_parked(r ? NULL : p, false);
close:
	dp_mem_close(&mem);
out:
	ptrace(PTRACE_DETACH, tid, 0, 0);
	return r;
}

int dp_catch_begin(struct dp_parking *p, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err)
{
	int status, r;

	if (!seize_patiently(pid) || ptrace(PTRACE_INTERRUPT, pid, 0, 0)) {
		go(arg);
		return dp_fail(err, E_TARGET_PERM, "process %d: %s", (int)pid, strerror(errno));
	}
	/* A frozen one stops for us, too; it is the stop that holds it from now on. */
	r = wait_stop(pid, DP_CATCH_MS, &status);
	go(arg);
	if (r == -ETIMEDOUT)
		let_go(pid);
	if (r)
		return gone(pid, err);
	if (!signal_of(status) && is_loading(pid))
		return send_there(p, pid, err);
	ptrace(PTRACE_DETACH, pid, 0, (long)signal_of(status));
	return dp_fail(err, E_TARGET_STUCK, "process %d has begun already", (int)pid);
}

int dp_catch_start(struct dp_parking *p, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err)
{
	return dp_catch_begin(p, pid, go, arg, err) ?: dp_catch_arrived(p, err);
}

int dp_catch_load(struct dp_parking *p, pid_t tid, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err)
{
	int status, r;

	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD)) {
		go(arg);
		return dp_fail(err, E_TARGET_PERM, "process %d: %s", (int)pid, strerror(errno));
	}
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	go(arg);
	r = wait_stop(tid, DP_CATCH_MS, &status);
	if (r == -ETIMEDOUT)
		let_go(tid);
	if (r)
		return gone(pid, err);
	if (tid == pid && is_loading(pid) && !signal_of(status))
		return dp_park(p, pid, false, err);
	if (signal_of(status)) { /* its handler comes first; the library is found later */
		ptrace(PTRACE_DETACH, tid, 0, (long)signal_of(status));
		return gone(pid, err);
	}
	return await_mapped(tid, pid, just_opened(tid), err) ?: park_here(p, tid, pid, err);
}
