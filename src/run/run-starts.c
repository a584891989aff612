/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that are started, and libraries that are loaded, while probes for them are inserted: the kernel holds them
 * until we have caught them, so that not even the shortest process runs without its probes. A process of its own, the
 * guard (run-guard.h), answers the kernel and tells the driver's loop, which does what needs ptrace (run-catch.c). Here
 * is what the loop and the guard say to each other, and which files are watched.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run-priv.h"
#include "run/run-freezer.h"
#include "run/run-guard.h"
#include "run/run-starts.h"

#define PATIENCE_MS 5000 /* with the guard */
#define RESTARTS 5       /* of it, in that time: */
#define RESTARTS_NS 10000000000ull

static int control = -1; /* to the guard */
static pid_t guard;
static int guard_fd = -1;             /* pidfd of it */
static struct guard_message *waiting; /* what it has told, and what is not dealt with yet */
static u32 nwaiting, ntaken;
static pid_t busy_with, expected;
static u64 current; /* the number of the one that is being dealt with */
static u64 restarts, restarts_since;

/* ---- the guard ---- */

static void forget_guard(void)
{
	if (guard_fd >= 0) {
		syscall(SYS_pidfd_send_signal, guard_fd, SIGKILL, NULL, 0); /* or it is dead already */
		close(guard_fd);
	}
	if (control >= 0)
		close(control);
	if (guard > 0) /* or it has been met by who waited for a thread */
		waitpid(guard, NULL, 0);
	control = guard_fd = -1;
	guard = 0;
	nwaiting = ntaken = 0;
}

void dp_run_end_guard(void)
{
	struct pollfd p = {guard_fd, POLLIN, 0};

	if (control >= 0)
		close(control);
	control = -1;
	if (guard_fd >= 0)
		poll(&p, 1, PATIENCE_MS); /* it lets everybody go, waits for its keeper, and ends */
	forget_guard();
}

static pid_t become_guard(int fd)
{
	char driver[16];
	pid_t pid;

	snprintf(driver, sizeof(driver), "%d", (int)getpid());
	pid = fork();
	if (pid)
		return pid;
	setsid();
	/* Its number is 3; everything else is the driver's, its lock among it. */
	if (dup2(fd, 3) < 0)
		_exit(1);
	syscall(SYS_close_range, 4, ~0u, 0);
	execl("/proc/self/exe", GUARD_NAME, "guard", "3", driver, (char *)NULL);
	_exit(127);
}

static void send_guard(const struct guard_message *m, int with)
{
	if (control >= 0 && dp_guard_send(control, m, with))
		forget_guard(); /* it does not read any more */
}

static void enqueue(const struct guard_message *m)
{
	struct guard_message *v = realloc(waiting, (nwaiting + 1) * sizeof(*v));

	if (!v)
		return; /* the guard lets him go on */
	waiting = v;
	waiting[nwaiting++] = *m;
}

/* Until the guard says that; false: it does not, and is given up. */
static bool await(u32 op, struct guard_message *m)
{
	struct pollfd p = {control, POLLIN, 0};
	u64 end = dp_now_ns() + PATIENCE_MS * 1000000ull;
	int with, r = -EAGAIN;

	while (control >= 0 && dp_now_ns() < end) {
		r = dp_guard_receive(control, m, &with);
		if (with >= 0)
			close(with);
		if (!r && m->op == op)
			return true;
		if (!r)
			enqueue(m);
		else if (r != -EAGAIN)
			break;
		else
			poll(&p, 1, 100);
	}
	forget_guard();
	return false;
}

static bool start_guard(struct dp_run *run)
{
	struct guard_message hello;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return false;
	guard = become_guard(ends[1]);
	close(ends[1]);
	control = ends[0];
	if (guard > 0)
		guard_fd = (int)syscall(SYS_pidfd_open, guard, 0);
	if (guard < 0 || !await(GUARD_HELLO, &hello))
		return false;
	if (hello.error) {
		snprintf(run->not_held, sizeof(run->not_held), "fanotify: %s", strerror(-hello.error));
		forget_guard();
		return false;
	}
	snprintf(run->not_held, sizeof(run->not_held), "%s", hello.why);
	return true;
}

static void open_watch(struct dp_run *run)
{
	run->no_watch = !start_guard(run);
	if (run->no_watch)
		dp_run_thaw_all(); /* whom a predecessor has left: guards begin with that */
	run->watch_wake = control;
}

/* ---- what is watched ---- */

/* Whether the file is started by execve, rather than loaded by a linker. */
static bool is_program(int fd)
{
	GElf_Ehdr eh;
	GElf_Phdr ph;
	GElf_Dyn dyn;
	bool found;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	found = elf && gelf_getehdr(elf, &eh) && eh.e_type == ET_EXEC;
	for (int i = 0; elf && !found && gelf_getphdr(elf, i, &ph); i++) {
		Elf_Data *data = ph.p_type == PT_DYNAMIC
				     ? elf_getdata_rawchunk(elf, (s64)ph.p_offset, ph.p_filesz, ELF_T_DYN)
				     : NULL;

		for (int k = 0; data && !found && gelf_getdyn(data, k, &dyn); k++)
			found = dyn.d_tag == DT_FLAGS_1 && dyn.d_un.d_val & DF_1_PIE;
	}
	elf_end(elf);
	return found;
}

static bool mark(struct run_module *m)
{
	struct guard_message msg = {.op = GUARD_MARK, .events = m->watched_for};

	send_guard(&msg, m->watched_fd);
	return await(GUARD_REPLY, &msg) && !msg.error;
}

void dp_run_watch_file(struct dp_run *run, struct run_module *m, int fd)
{
	if (m->watched || !dp_run_takes_more(run, m) || run->no_watch || fd < 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (control < 0)
		open_watch(run);
	if (m->flags & DP_RUN_LATER) {
		expected = m->pid ? m->pid : run->command;
		send_guard(&(struct guard_message){.op = GUARD_EXPECT, .pid = expected}, -1);
	}
	m->watched_fd = fd;
	/* An interpreter of programs is a library that is opened by execve. */
	m->watched_for = is_program(fd) ? FAN_OPEN_EXEC_PERM : FAN_OPEN_PERM | FAN_OPEN_EXEC_PERM;
	m->watched = !run->no_watch && mark(m);
	if (!m->watched)
		close(fd);
}

bool dp_run_watches(const struct run_module *m, u64 dev, u64 ino)
{
	struct stat st;

	return m->watched && !fstat(m->watched_fd, &st) && st.st_dev == dev && st.st_ino == ino;
}

void dp_run_unwatch(struct dp_run *run, struct run_module *m)
{
	struct guard_message msg = {.op = GUARD_UNMARK, .events = m->watched_for};
	struct stat st;
	bool others = false;

	if (!m->watched)
		return;
	m->watched = false;
	for (struct run_module *o = run->modules; o && !fstat(m->watched_fd, &st); o = o->next)
		others |= dp_run_watches(o, st.st_dev, st.st_ino);
	if (!others)
		send_guard(&msg, m->watched_fd);
	close(m->watched_fd);
}

/* One that is stopped is ended by its keeper, and one that was killed leaves nobody held: a new one goes on. */
static void renew_guard(struct dp_run *run)
{
	u64 now = dp_now_ns();

	if (now - restarts_since > RESTARTS_NS) {
		restarts_since = now;
		restarts = 0;
	}
	open_watch(run);
	if (run->no_watch && !*run->not_held)
		snprintf(run->not_held, sizeof(run->not_held), "the guard cannot be started");
	if (++restarts > RESTARTS && !run->no_watch) {
		snprintf(run->not_held, sizeof(run->not_held), "the guard was ended again and again");
		forget_guard();
		run->watch_wake = -1;
		run->no_watch = true;
	}
	send_guard(&(struct guard_message){.op = GUARD_EXPECT, .pid = expected}, -1);
	for (struct run_module *m = run->modules; m; m = m->next)
		if (m->watched && (run->no_watch || !mark(m))) {
			close(m->watched_fd);
			m->watched = false;
		}
}

/* ---- who is caught ---- */

pid_t dp_run_busy_with(pid_t pid)
{
	pid_t before = busy_with;

	busy_with = pid;
	if (before != pid)
		send_guard(&(struct guard_message){.op = GUARD_BUSY, .pid = pid, .number = current}, -1);
	return before;
}

/* What the guard has told meanwhile. */
static void hear_guard(void)
{
	struct guard_message m;
	int with, r;

	while (control >= 0 && (r = dp_guard_receive(control, &m, &with)) != -EAGAIN) {
		if (with >= 0)
			close(with);
		if (r)
			forget_guard();
		else
			enqueue(&m);
	}
}

bool dp_run_is_caught(pid_t pid)
{
	hear_guard();
	for (u32 i = 0; i < nwaiting; i++)
		if (waiting[i].op == GUARD_CAUGHT && waiting[i].pid == pid)
			return true;
	return control >= 0 && dp_run_is_held_or_awaited(pid, guard);
}

bool dp_run_hear_starts(struct dp_run *run)
{
	if (control < 0 && run->watch_wake < 0)
		return false;
	dp_catch_settle();
	hear_guard();
	return true;
}

bool dp_run_next_start(struct guard_message *m)
{
	if (ntaken == nwaiting) {
		nwaiting = ntaken = 0;
		return false;
	}
	*m = waiting[ntaken];
	waiting[ntaken++].op = 0;
	return true;
}

const struct guard_message *dp_run_coming_start(void)
{
	hear_guard();
	return ntaken < nwaiting ? &waiting[ntaken] : NULL;
}

void dp_run_start_begin(const struct guard_message *c)
{
	current = c->number;
	dp_run_busy_with(c->pid);
}

void dp_run_start_done(const struct guard_message *c)
{
	send_guard(&(struct guard_message){.op = GUARD_DONE, .number = c->number, .caught = c->caught}, -1);
}

void dp_run_start_pass(const struct guard_message *c)
{
	pid_t to = dp_run_pass_on(c->pid, guard);

	if (to)
		send_guard(&(struct guard_message){.op = GUARD_PASSED, .pid = to}, -1);
}

void dp_run_start_end(void)
{
	dp_run_busy_with(0);
	current = 0;
}

void dp_run_keep_guard(struct dp_run *run)
{
	if (control < 0)
		renew_guard(run);
}
