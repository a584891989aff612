/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that are started, and libraries that are loaded, while probes for them are inserted: the kernel holds the
 * execve, or the linker's open of a probed library, until we have caught them, so that not even the shortest
 * process runs without its probes. A thread of its own answers for ourselves, who open these files
 * as well; all others are for the driver's loop, since ptrace is bound to it. Should the driver
 * die, the kernel lets everybody go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/driver-priv.h"

#define HELD_MOST_NS                                                                               \
	3000000000ull /* a driver that is busy for longer must not be in anybody's way */
#define LOOK_MS 200

struct held {
	int fd; /* of the file; what is answered is told by it */
	pid_t tid, pid;
	bool in_exec;
	u64 since;
};

static int watch = -1; /* fanotify */

/* From the thread to the loop. What the loop works on must not be held: it would wait for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *waiting;
static u32 nwaiting;
static pid_t busy_with;
static int wake = -1; /* eventfd */
static pid_t expected; /* 0: none. Atomic */

static void answer(void *arg)
{
	const struct held *h = arg;
	struct fanotify_response r = {.fd = h->fd, .response = FAN_ALLOW};

	if (write(watch, &r, sizeof(r)) < 0)
		return; /* closed: all are let go */
	close(h->fd);
}

static pid_t process_of(pid_t tid)
{
	char path[64], line[256];
	int tgid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	f = fopen(path, "re");
	while (f && !tgid && fgets(line, sizeof(line), f))
		sscanf(line, "Tgid: %d", &tgid);
	if (f)
		fclose(f);
	return tgid;
}

/* The driver and its commands open what they look at: held, they would wait for themselves. */
static bool is_ours(pid_t pid)
{
	char path[64], exe[4096], own[4096];
	ssize_t n, k = readlink("/proc/self/exe", own, sizeof(own));

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe));
	return n > 0 && n == k && !memcmp(exe, own, (size_t)n);
}

/* A copy of the command that is about to become the program whose probes it has asked for. */
static bool is_expected(const struct held *h)
{
	return h->in_exec && h->pid == __atomic_load_n(&expected, __ATOMIC_RELAXED);
}

/* False: it is to go on at once. */
static bool enqueue(const struct held *h)
{
	struct held *v = NULL;
	u64 one = 1;

	pthread_mutex_lock(&lock);
	if (h->pid != busy_with)
		v = realloc(waiting, (nwaiting + 1) * sizeof(*v));
	if (v) {
		waiting = v;
		waiting[nwaiting++] = *h;
	}
	pthread_mutex_unlock(&lock);
	return v && write(wake, &one, sizeof(one)) == sizeof(one);
}

static bool dequeue(struct held *h)
{
	bool any;

	pthread_mutex_lock(&lock);
	any = nwaiting > 0;
	if (any) {
		*h = waiting[0];
		memmove(waiting, waiting + 1, --nwaiting * sizeof(*waiting));
	}
	pthread_mutex_unlock(&lock);
	return any;
}

/* Under the lock: let those go on that are of this process, or have been held since before then. */
static void let_on(pid_t pid, u64 then)
{
	u32 n = 0;

	for (u32 i = 0; i < nwaiting; i++)
		if (waiting[i].pid == pid || waiting[i].since < then)
			answer(&waiting[i]);
		else
			waiting[n++] = waiting[i];
	nwaiting = n;
}

pid_t drv_busy_with(pid_t pid)
{
	pid_t before;

	pthread_mutex_lock(&lock);
	before = busy_with;
	busy_with = pid;
	let_on(pid, 0);
	pthread_mutex_unlock(&lock);
	return before;
}

/* False: the watch is closed. */
static bool take_events(void)
{
	union {
		struct fanotify_event_metadata m;
		char bytes[4096];
	} buf;
	ssize_t n = read(watch, &buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	for (struct fanotify_event_metadata *m = &buf.m; FAN_EVENT_OK(m, n);
	     m = FAN_EVENT_NEXT(m, n)) {
		struct held h = {m->fd, m->pid, process_of(m->pid), m->mask & FAN_OPEN_EXEC_PERM,
				 dp_now_ns()};

		if (m->fd >= 0 && (!h.pid || (is_ours(h.pid) && !is_expected(&h)) || !enqueue(&h)))
			answer(&h);
	}
	return true;
}

static void *listen(void *arg)
{
	struct pollfd p = {watch, POLLIN, 0};

	while (poll(&p, 1, LOOK_MS) >= 0 || errno == EINTR) {
		if (p.revents && !take_events())
			break;
		p.revents = 0;
		pthread_mutex_lock(&lock);
		let_on(-1, dp_now_ns() - HELD_MOST_NS);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

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
		Elf_Data *data =
		    ph.p_type == PT_DYNAMIC
			? elf_getdata_rawchunk(elf, (s64)ph.p_offset, ph.p_filesz, ELF_T_DYN)
			: NULL;

		for (int k = 0; data && !found && gelf_getdyn(data, k, &dyn); k++)
			found = dyn.d_tag == DT_FLAGS_1 && dyn.d_un.d_val & DF_1_PIE;
	}
	elf_end(elf);
	return found;
}

static void open_watch(struct driver *d)
{
	pthread_t t;

	d->no_watch = true; /* unless all of this works */
	watch =
	    fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_REPORT_TID, O_RDONLY | O_CLOEXEC);
	if (watch < 0)
		return;
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0 || pthread_create(&t, NULL, listen, NULL)) {
		close(watch);
		return;
	}
	pthread_detach(t);
	d->no_watch = false;
	d->watch_wake = wake;
}

void drv_watch_file(struct driver *d, struct drv_module *m, const char *path)
{
	u64 what;
	int fd;

	if (m->watched || (m->pid && !(m->flags & DP_DRIVER_LATER)) || d->no_watch)
		return;
	if (watch < 0)
		open_watch(d);
	if (m->flags & DP_DRIVER_LATER)
		__atomic_store_n(&expected, m->pid, __ATOMIC_RELAXED);
	fd = d->no_watch ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	what = is_program(fd) ? FAN_OPEN_EXEC_PERM : FAN_OPEN_PERM;
	/* By the descriptor: the path may be that of another mount namespace. */
	snprintf(m->watched_as, sizeof(m->watched_as), "/proc/self/fd/%d", fd);
	m->watched = !fanotify_mark(watch, FAN_MARK_ADD, what, AT_FDCWD, m->watched_as);
	m->watched_fd = fd;
	m->watched_for = what;
	if (!m->watched)
		close(fd);
}

void drv_unwatch(struct drv_module *m)
{
	if (!m->watched)
		return;
	fanotify_mark(watch, FAN_MARK_REMOVE, m->watched_for, AT_FDCWD, m->watched_as);
	close(m->watched_fd);
	m->watched = false;
}

/* Whether probes for the file are wanted in the process. anew: it maps the file now, whatever it had mapped before. */
static bool is_wanted(struct driver *d, const struct stat *file, pid_t pid, bool anew)
{
	bool wanted = false;
	struct stat st;

	for (struct drv_module *m = d->modules; m; m = m->next) {
		if (!m->watched || (m->pid && m->pid != pid) || fstat(m->watched_fd, &st) || st.st_ino != file->st_ino ||
		    st.st_dev != file->st_dev)
			continue;
		wanted = true;
		if (anew)
			drv_mapped_anew(d, m, pid);
	}
	return wanted;
}

void drv_catch(struct driver *d)
{
	struct stat file;
	struct held h;
	u64 n;

	if (wake < 0 || read(wake, &n, sizeof(n)) != sizeof(n))
		return;
	while (dequeue(&h)) {
		struct dp_parking p;

		if (fstat(h.fd, &file) || !is_wanted(d, &file, h.pid, false)) {
			answer(&h);
			continue;
		}
		drv_busy_with(h.pid); /* it may open more of our files on its way */
		if (!dp_catch(&p, h.tid, h.pid, h.in_exec, answer, &h, NULL)) {
			is_wanted(d, &file, h.pid, !h.in_exec);
			drv_look_at(d, h.pid);
			dp_unpark(&p, NULL);
		}
		drv_busy_with(0);
	}
}
