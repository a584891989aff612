/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The guard (run-guard.h). It never waits for a process, nor for the driver. What is opened by a dynamic linker or the
 * like stays in the open until it is answered. In execve that must not be: the task holds a lock there which whoever
 * wants to trace it has to take, on most kernels. So it is frozen, which takes effect at the end of the execve
 * (run-freezer.h), and answered at once. Three watch one another: the guard ends a driver that is stopped while it
 * traces somebody; the keeper ends a guard that is stopped; the driver starts a guard anew.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run-freezer.h"
#include "run/run-guard.h"
#include "host/process/process.h"

#define MS 1000000ull
#define HURRY (-20)          /* its nice value */
#define HELD_MAX 1000        /* at a time; more go on unheld */
#define PEERS_MAX 64         /* guards of others that are watched */
#define TURN_MS 200          /* between looks at who has been held for too long */
#define LOOK_NS 500000000ull /* between looks at whoever holds one that we wait for */
#define SOON_NS 100000ull    /* between looks at who is about to stand, at first */
#define BEAT_MS 300          /* between signs of life */
#define SILENCE_MS 2500      /* without any, the guard is taken for stopped, */
#define SILENCES 10          /* looked at so many times */
#define STOPPED_MS 2500      /* so long the driver may be stopped while it traces somebody; */
#define CONTINUED_MS 500     /* so long it may take to go on when it is told to */

struct held {
	u64 number, since, looked, dev, ino;
	u64 unheld; /* since when nobody holds one that we wait for: he has been caught, or who held him was killed */
	struct run_hold hold;
	int fd; /* whose opening waits for our answer; -1: it has it */
	pid_t pid, tid;
	bool in_exec, told;
};

static int control = -1, watch = -1, beat = -1;
static pid_t driver, keeper, busy_with, expected;
static struct held held[HELD_MAX];
static u32 nheld;
static struct peer { /* a guard to which processes have been passed on */
	pid_t pid;
	int fd; /* pidfd */
} peers[PEERS_MAX];
static u32 npeers;
static u64 numbers, beaten;
static u64 worked;    /* when the driver said last that it works on somebody, or is done with him; or got a processor */
static u64 processor; /* how much of it it has had */
static struct dp_guard_look driver_look;

/* ---- messages ---- */

int dp_guard_send(int fd, const struct guard_message *m, int with)
{
	struct iovec iov = {(void *)m, sizeof(*m)};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};

	if (with >= 0) {
		memcpy(CMSG_DATA(&c.head), &with, sizeof(with));
		head.msg_control = &c;
		head.msg_controllen = sizeof(c);
	}
	return sendmsg(fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*m) ? 0 : -errno;
}

int dp_guard_receive(int fd, struct guard_message *m, int *with)
{
	struct iovec iov = {m, sizeof(*m)};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c;
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	ssize_t n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*with = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	if (n != sizeof(*m))
		return -EPIPE;
	if (head.msg_controllen >= sizeof(c.head) && c.head.cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(with, CMSG_DATA(&c.head), sizeof(*with));
	return 0;
}

/* ---- those who are held ---- */

static bool is_alive(pid_t pid)
{
	char state = dp_thread_state(pid, pid);

	return state && state != 'Z' && state != 'X';
}

/* Nanoseconds of a processor that a process has had; 0: not known. */
static u64 time_of(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%llu", &ns) != 1)
			ns = 0;
		fclose(f);
	}
	return ns;
}

/* A sign of life for the keeper. */
static void live(void)
{
	u64 now = dp_now_ns();

	if (beat < 0 || now - beaten < BEAT_MS * MS)
		return;
	beaten = now;
	if (write(beat, "", 1) < 0 && errno == EPIPE) {
		close(beat);
		beat = -1;
	}
}

static void answer(struct held *h)
{
	struct fanotify_response r = {.fd = h->fd, .response = FAN_ALLOW};

	if (h->fd < 0)
		return;
	if (write(watch, &r, sizeof(r)) < 0 && errno != ENOENT)
		exit(1); /* the kernel lets all of them go on */
	close(h->fd);
	h->fd = -1;
}

/* Nobody else might let those go that it holds when it is killed. Should that have happened already, we do. */
static void note_peer(pid_t pid)
{
	int fd;

	for (u32 i = 0; i < npeers; i++)
		if (peers[i].pid == pid)
			return;
	fd = npeers < PEERS_MAX ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (fd >= 0)
		peers[npeers++] = (struct peer){pid, fd};
	else
		dp_run_thaw_all();
}

static void look_at_peers(void)
{
	u32 n = 0, ended;

	for (u32 i = 0; i < npeers; i++) {
		struct pollfd p = {peers[i].fd, POLLIN, 0};

		if (!poll(&p, 1, 0))
			peers[n++] = peers[i];
		else
			close(peers[i].fd);
	}
	ended = npeers - n;
	npeers = n;
	if (ended)
		dp_run_thaw_all();
}

/* Who waits for it as well gets it then, unless the driver has had it, and passes it on himself. */
static void let_go(struct held *h, bool caught)
{
	pid_t to;

	answer(h);
	to = dp_run_thaw(&h->hold, !caught);
	if (to)
		note_peer(to);
}

static void tell_let_go(const struct held *h)
{
	struct guard_message m = {.op = GUARD_LET_GO, .pid = h->pid, .number = h->number, .dev = h->dev, .ino = h->ino};

	dp_guard_send(control, &m, -1);
}

/* False: he has been let go, since the driver cannot be told. */
static bool tell(struct held *h)
{
	struct guard_message m = {.op = GUARD_CAUGHT,
				  .pid = h->pid,
				  .tid = h->tid,
				  .in_exec = h->in_exec,
				  .frozen = h->hold.events >= 0,
				  .number = h->number,
				  .dev = h->dev,
				  .ino = h->ino};

	h->told = true;
	if (!dp_guard_send(control, &m, -1))
		return true;
	let_go(h, false);
	return false;
}

/*
 * Those go on that are of this process, but for the one with that number; or (pid 0) only that one. caught: the driver
 * has got hold of it.
 */
static void release(pid_t pid, u64 number, bool caught)
{
	u32 n = 0;

	for (u32 i = 0; i < nheld; i++)
		if (pid ? held[i].pid == pid && held[i].number != number : held[i].number == number)
			let_go(&held[i], caught);
		else
			held[n++] = held[i];
	nheld = n;
}

/* A driver that gets a processor now and then does something, if slowly: the machine may be full. */
static void look_at_driver(void)
{
	u64 ns = nheld ? time_of(driver) : processor;

	if (ns != processor)
		worked = dp_now_ns();
	processor = ns;
}

/* Nobody waits for a driver that does nothing; where many start at once, each has to wait for those before it. */
static bool is_late(const struct held *h, u64 now)
{
	if (h->hold.waits) /* for others, who have to do with many, perhaps; it does not wait for us */
		return now - h->since > GUARD_QUEUE_MS * MS || (h->unheld && now - h->unheld > GUARD_HELD_MS * MS);
	return now - DP_MAX(h->since, worked) > GUARD_HELD_MS * MS || now - h->since > GUARD_QUEUE_MS * MS;
}

/* One who was passed on to us is held from now on. */
static enum run_hold_state look_at_hold(struct held *h, u64 now)
{
	enum run_hold_state state = h->hold.events >= 0 ? dp_run_hold_state(&h->hold) : RUN_HOLD_MOVING;

	if (h->hold.waits && state == RUN_HOLD_EMPTY && now - h->looked > LOOK_NS) {
		h->looked = now;
		if (dp_run_take_over(&h->hold))
			state = RUN_HOLD_MOVING;
		h->unheld = dp_run_is_held(h->pid) ? 0 : h->unheld ? h->unheld : now;
	}
	if (h->hold.waits && state != RUN_HOLD_EMPTY) {
		h->hold.waits = false;
		h->since = now;
	}
	return state;
}

/* Tell of those who have come to stand; let those go who are dead, or have been held for too long. */
static void look_at_held(void)
{
	u64 now = dp_now_ns();
	u32 n = 0;

	for (u32 i = 0; i < nheld; i++) {
		struct held *h = &held[i];
		enum run_hold_state state = look_at_hold(h, now);
		bool empty = state == RUN_HOLD_EMPTY, lives = !empty || is_alive(h->pid);
		bool late = is_late(h, now);

		if (h->hold.waits && lives && !late) {
			held[n++] = *h;
			continue;
		}
		/* One that lives and is gone from there was moved by others; one that was not passed on has run. */
		if (empty ? !h->told && (lives || h->hold.waits) : late && (h->fd >= 0 || h->hold.events >= 0))
			tell_let_go(h);
		if (late || empty) {
			let_go(h, false);
			continue;
		}
		if (!h->told && state == RUN_HOLD_FROZEN && !tell(h))
			continue;
		held[n++] = *h;
	}
	nheld = n;
}

/* ---- who comes ---- */

/* The process of a thread, and who traces it. */
static pid_t process_of(pid_t tid, pid_t *tracer)
{
	char path[64], line[256];
	int tgid = 0, by = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Tgid: %d", &tgid);
		if (sscanf(line, "TracerPid: %d", &by) == 1)
			break;
	}
	if (f)
		fclose(f);
	*tracer = by;
	return tgid;
}

/* The interpreter of a program is opened by its execve. */
static bool is_in_exec(pid_t pid)
{
	for (u32 i = 0; i < nheld; i++)
		if (held[i].pid == pid && held[i].in_exec)
			return true;
	return false;
}

static void on_event(const struct fanotify_event_metadata *m)
{
	struct held h = {.number = ++numbers,
			 .since = dp_now_ns(),
			 .hold = {m->pid, -1, -1},
			 .fd = m->fd,
			 .tid = m->pid,
			 .in_exec = m->mask & FAN_OPEN_EXEC_PERM};
	pid_t tracer = 0;
	struct stat st;

	h.pid = process_of(h.tid, &tracer);
	if (!h.pid || tracer == driver || h.pid == busy_with || fstat(h.fd, &st) ||
	    (dp_run_is_ours(h.pid) && !(h.in_exec && h.pid == expected)) || is_in_exec(h.pid)) {
		answer(&h);
		return;
	}
	h.dev = st.st_dev;
	h.ino = st.st_ino;
	if (nheld == HELD_MAX || tracer) { /* who is traced by somebody else cannot be caught */
		answer(&h);
		tell_let_go(&h);
		return;
	}
	if (h.in_exec) {
		dp_run_freeze(&h.hold, h.pid);
		answer(&h);
	}
	if (h.hold.events >= 0 || tell(&h))
		held[nheld++] = h;
}

static void take_commands(void);

/* False: the watch is closed. */
static bool take_events(void)
{
	union {
		struct fanotify_event_metadata m;
		char bytes[4096];
	} buf;
	ssize_t n = read(watch, &buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	for (struct fanotify_event_metadata *m = &buf.m; FAN_EVENT_OK(m, n); m = FAN_EVENT_NEXT(m, n)) {
		if (m->fd < 0)
			continue;
		take_commands(); /* what the driver works on it has told before that came here */
		on_event(m);
		live();
	}
	return true;
}

/* ---- the driver ---- */

static void mark(const struct guard_message *m, int file)
{
	struct guard_message reply = {.op = GUARD_REPLY, .number = m->number};
	char path[32];

	/* By the descriptor: the path may be that of another mount namespace. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (fanotify_mark(watch, m->op == GUARD_MARK ? FAN_MARK_ADD : FAN_MARK_REMOVE, m->events, AT_FDCWD, path))
		reply.error = -errno;
	if (m->op == GUARD_MARK)
		dp_guard_send(control, &reply, -1);
}

static void end(int status)
{
	for (u32 i = 0; i < nheld; i++)
		let_go(&held[i], false);
	if (beat >= 0)
		close(beat); /* by which the keeper ends */
	if (keeper > 0)
		waitpid(keeper, NULL, 0);
	exit(status);
}

static void take_commands(void)
{
	struct guard_message m;
	int with, r;

	while (!(r = dp_guard_receive(control, &m, &with))) {
		if (m.op == GUARD_MARK || m.op == GUARD_UNMARK)
			mark(&m, with);
		else if (m.op == GUARD_EXPECT)
			expected = m.pid;
		else if (m.op == GUARD_DONE)
			release(0, m.number, m.caught);
		else if (m.op == GUARD_PASSED)
			note_peer(m.pid);
		else if (m.op == GUARD_BUSY)
			busy_with = m.pid;
		if (m.op == GUARD_DONE || m.op == GUARD_BUSY)
			worked = dp_now_ns();
		if (m.op == GUARD_BUSY && m.pid)
			release(m.pid, m.number, false);
		if (with >= 0)
			close(with);
	}
	if (r == -EPIPE)
		end(0);
}

static bool traces_somebody(pid_t pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	bool found = false;

	while (dir && !found && (e = readdir(dir))) {
		pid_t tracer = 0;

		if (isdigit((unsigned char)e->d_name[0]))
			process_of((pid_t)atoi(e->d_name), &tracer);
		found = tracer == pid;
	}
	if (dir)
		closedir(dir);
	return found;
}

void dp_guard_look(pid_t of, struct dp_guard_look *l)
{
	char state = dp_thread_state(of, of);
	u64 now = dp_now_ns();

	if (state != 'T' && state != 't') {
		l->since = l->continued = 0;
		return;
	}
	if (!l->since)
		l->since = now;
	if (now - l->since < STOPPED_MS * MS)
		return;
	if (l->continued) {
		if (now - l->continued > CONTINUED_MS * MS)
			kill(of, SIGKILL);
		return;
	}
	if (traces_somebody(of)) {
		kill(of, SIGCONT);
		l->continued = now;
	}
}

/* The keeper is started anew when it has ended. */
static void keep(void)
{
	int ends[2];
	char fd[16];

	if (keeper && !waitpid(keeper, NULL, WNOHANG))
		return;
	if (beat >= 0)
		close(beat);
	beat = -1;
	keeper = 0;
	if (pipe2(ends, O_CLOEXEC))
		return;
	keeper = fork();
	if (!keeper) {
		dup2(ends[0], 3); /* 3 is the control socket here, which the keeper must not have */
		snprintf(fd, sizeof(fd), "%d", 3);
		for (int i = 4; i < 1024; i++)
			close(i);
		execl("/proc/self/exe", GUARD_NAME, "keeper", fd, (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	beat = ends[1];
	fcntl(beat, F_SETFL, O_NONBLOCK);
}

/*
 * How long to wait for events. That somebody has come to stand the kernel tells up to 10 ms late, since it tells of a
 * directory no more often than that, and just has told that it is populated: so look oneself, soon at first.
 */
static struct timespec turn(void)
{
	u64 ns = TURN_MS * MS, now = dp_now_ns();

	for (u32 i = 0; i < nheld; i++)
		if (!held[i].told && !held[i].hold.waits && held[i].hold.events >= 0)
			ns = DP_MIN(ns, DP_MAX((now - held[i].since) / 4, SOON_NS));
	return (struct timespec){0, (long)ns};
}

static void loop(void)
{
	static struct pollfd p[HELD_MAX + PEERS_MAX + 2];

	for (;;) {
		struct timespec most = turn();
		u32 n = 2;

		p[0] = (struct pollfd){control, POLLIN, 0};
		p[1] = (struct pollfd){watch, POLLIN, 0};
		for (u32 i = 0; i < nheld; i++)
			if (!held[i].told && held[i].hold.events >= 0)
				p[n++] = (struct pollfd){held[i].hold.events, POLLPRI, 0};
		for (u32 i = 0; i < npeers; i++)
			p[n++] = (struct pollfd){peers[i].fd, POLLIN, 0};
		ppoll(p, n, &most, NULL);
		take_commands();
		if (p[1].revents && !take_events())
			break;
		look_at_driver();
		look_at_held();
		look_at_peers();
		dp_guard_look(driver, &driver_look);
		keep();
		live();
	}
}

int dp_guard_main(int fd, int of)
{
	struct guard_message hello = {.op = GUARD_HELLO, .pid = getpid()};

	prctl(PR_SET_NAME, GUARD_NAME);
	setpriority(PRIO_PROCESS, 0, HURRY); /* who starts waits for it */
	signal(SIGPIPE, SIG_IGN);
	control = fd;
	driver = of;
	watch = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_REPORT_TID | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC);
	if (watch < 0)
		hello.error = -errno;
	else if (dp_run_freezer_why())
		snprintf(hello.why, sizeof(hello.why), "%s", dp_run_freezer_why());
	if (watch >= 0)
		dp_run_thaw_all(); /* whom a predecessor has left */
	if (dp_guard_send(control, &hello, -1) || hello.error)
		return 1;
	keep();
	loop();
	end(1);
	return 1;
}

int dp_keeper_main(int pipe)
{
	struct pollfd p = {pipe, POLLIN, 0};
	pid_t guard = getppid();
	char buf[64];
	u32 silent = 0;

	prctl(PR_SET_NAME, GUARD_NAME);
	for (;;) {
		/* Looks that are counted, not a time: while the machine stands still, we do, too. */
		int n = poll(&p, 1, SILENCE_MS / SILENCES);

		silent = n ? 0 : silent + 1;
		if (silent == SILENCES && getppid() == guard)
			kill(guard, SIGKILL); /* stopped: whoever waits for its answers goes on, by the kernel */
		if (n > 0 && read(pipe, buf, sizeof(buf)) == 0)
			break;
	}
	dp_run_thaw_all();
	return 0;
}
