/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that several processes share: a file of ours, mapped into the target. It gets the descriptor through a pair of
 * sockets of which we take one end, so it need neither see our files nor be allowed to open them. It keeps none of the
 * three descriptors; what a dprobes that is killed in these microseconds leaves open there, the next one closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/process/session-priv.h"

#define SCRATCH 3072               /* from the table of the calls */
#define MARK 0x5048535f44505244ull /* in an argument that socketpair has not: the pair is ours */

struct message { /* in the target, in the scratch space of the calls */
	int ends[2];
	struct msghdr head;
	struct iovec iov;
	char byte, pad[7];
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
};

static int fail_share(const char *what, s64 ret, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_SHARE, "%s: %s", what, strerror((int)-ret));
}

static bool is_error(s64 ret)
{
	return ret < 0 && ret > -4096;
}

/* Both its own name and its partner's are empty: a pair that nobody else has a part in. */
static bool is_pair(int fd)
{
	struct sockaddr_un name;
	socklen_t own = sizeof(name), other = sizeof(name), size = sizeof(int);
	int type = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_DGRAM &&
	       !getsockname(fd, (struct sockaddr *)&name, &own) && name.sun_family == AF_UNIX &&
	       own == sizeof(sa_family_t) && !getpeername(fd, (struct sockaddr *)&name, &other) &&
	       other == sizeof(sa_family_t);
}

/* Our own copy of one end; not blocking, whatever it is. */
static int take_end(int pidfd, int theirs, struct dp_error *err)
{
	int end = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);

	if (end < 0)
		return dp_fail(err, E_TARGET_SHARE, "pidfd_getfd: %s", strerror(errno));
	if (is_pair(end))
		return end;
	close(end);
	return dp_fail(err, E_TARGET_SHARE, "pidfd_getfd: it is another descriptor");
}

static int send_descriptor(int end, int fd, struct dp_error *err)
{
	struct message m = {.byte = 1};
	struct cmsghdr *c = &m.control.head;

	m.iov = (struct iovec){&m.byte, 1};
	m.head = (struct msghdr){
	    .msg_iov = &m.iov, .msg_iovlen = 1, .msg_control = &m.control, .msg_controllen = sizeof(m.control)};
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(end, &m.head, MSG_NOSIGNAL | MSG_DONTWAIT) == 1
		   ? 0
		   : dp_fail(err, E_TARGET_SHARE, "sendmsg: %s", strerror(errno));
}

/* Receive it there, and close both ends. Returns its number there. */
static s64 receive(struct dp_remote *r, const int ends[2], struct dp_error *err)
{
	u64 at = r->table + SCRATCH;
	struct message m = {.byte = 0};
	struct dp_call calls[] = {
	    {SYS_close, {(u64)ends[0]}, 0}, /* first: there may be room for two descriptors only */
	    {SYS_recvmsg, {(u64)ends[1], at + offsetof(struct message, head), MSG_CMSG_CLOEXEC | MSG_DONTWAIT}, 0},
	    {SYS_close, {(u64)ends[1]}, 0},
	};
	int fd;
	s64 e;

	m.iov = (struct iovec){(void *)(at + offsetof(struct message, byte)), 1};
	m.head = (struct msghdr){.msg_iov = (void *)(at + offsetof(struct message, iov)),
				 .msg_iovlen = 1,
				 .msg_control = (void *)(at + offsetof(struct message, control)),
				 .msg_controllen = sizeof(m.control)};
	e = dp_mem_write(r->mem, at, &m, sizeof(m), err);
	if (!e)
		e = dp_remote_calls(r, calls, DP_ARRAY_SIZE(calls), err);
	if (!e)
		e = dp_mem_read(r->mem, at, &m, sizeof(m), err);
	if (e)
		return e;
	if (is_error(calls[1].ret))
		return fail_share("recvmsg", calls[1].ret, err);
	if (m.control.head.cmsg_len != CMSG_LEN(sizeof(int)))
		return dp_fail(err, E_TARGET_SHARE, "recvmsg: no descriptor came");
	memcpy(&fd, CMSG_DATA(&m.control.head), sizeof(fd));
	return fd < 0 ? dp_fail(err, E_TARGET_SHARE, "recvmsg: no descriptor came") : fd;
}

static bool is_file(const char *path, void *arg)
{
	const struct stat *file = arg;
	struct stat st;

	return !stat(path, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev && S_ISREG(st.st_mode);
}

int dp_share_made(const struct dp_call *mapping, struct dp_error *err)
{
	return mapping->ret == (s64)mapping->arg[0]
		   ? 0
		   : dp_fail(err, E_TARGET_CALL, "mmap of shared memory: %s", strerror((int)-mapping->ret));
}

static int map_there(struct dp_remote *r, u64 there, u64 addr, u64 size, bool replace, struct dp_call later[2],
		     struct dp_error *err)
{
	u64 fixed = replace ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	struct dp_call calls[] = {
	    {SYS_mmap, {addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, there, 0}, 0},
	    {SYS_close, {there}, 0},
	};
	int e;

	if (later) {
		memcpy(later, calls, sizeof(calls));
		dp_remote_later(r, later, DP_ARRAY_SIZE(calls));
		return 0;
	}
	e = dp_remote_calls(r, calls, DP_ARRAY_SIZE(calls), err);
	return e ? e : dp_share_made(&calls[0], err);
}

/* A process is known by its first thread; where that has ended, by another one (Linux 6.9). */
static int open_pidfd(pid_t pid)
{
	pid_t tid = dp_memory_tid(pid);

	return (int)syscall(SYS_pidfd_open, tid, tid == pid ? 0 : O_EXCL /* PIDFD_THREAD */);
}

int dp_share_file(struct dp_remote *r, int pidfd, int fd, bool was_there, u64 addr, u64 size, bool replace,
		  struct dp_call later[2], struct dp_error *err)
{
	struct dp_call pair = {SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, r->table + SCRATCH, 0, MARK}, 0};
	int own = dp_memory_tid(r->tracer->pid) == r->tracer->pid ? -1 : open_pidfd(r->tracer->pid);
	struct stat file;
	int ends[2], end;
	s64 e, there;

	_Static_assert(sizeof(struct message) <= 1024, "scratch space");
	if (was_there && !fstat(fd, &file))
		dp_remote_close(r, is_file, &file, NULL); /* left there by somebody who was killed */
	e = dp_remote_calls(r, &pair, 1, err);
	if (!e && is_error(pair.ret))
		e = fail_share("socketpair", pair.ret, err);
	if (!e)
		e = dp_mem_read(r->mem, r->table + SCRATCH, ends, sizeof(ends), err);
	if (e) {
		if (own >= 0)
			close(own);
		return (int)e;
	}
	end = take_end(own >= 0 ? own : pidfd, ends[0], err);
	if (own >= 0)
		close(own);
	e = end < 0 ? end : send_descriptor(end, fd, err);
	there = receive(r, ends, e ? NULL : err); /* in any case: it closes both ends there */
	if (end >= 0)
		close(end);
	if (e || there < 0)
		return (int)(e ? e : there);
	return map_there(r, (u64)there, addr, size, replace, later, err);
}

static uid_t user_of(pid_t pid)
{
	char ids[64] = "";
	unsigned v[4] = {~0u, ~0u, ~0u, ~0u};

	dp_status_field(pid, dp_memory_tid(pid), "Uid", ids, sizeof(ids));
	sscanf(ids, "%u %u %u %u", &v[0], &v[1], &v[2], &v[3]);
	return v[3]; /* of its files */
}

int dp_share_theirs(struct dp_remote *r, u64 addr, u64 size, struct dp_call later[2], struct dp_error *err)
{
	static const char name[] = "dprobes-rings";
	struct dp_call make = {SYS_memfd_create, {r->table + SCRATCH, MFD_CLOEXEC | MFD_ALLOW_SEALING}, 0};
	pid_t pid = r->tracer->pid;
	char path[64];
	int fd, e = dp_mem_write(r->mem, r->table + SCRATCH, name, sizeof(name), err);

	if (!e)
		e = dp_remote_calls(r, &make, 1, err);
	if (e)
		return e;
	if (is_error(make.ret))
		return dp_fail(err, E_TARGET_CALL, "memfd_create: %s", strerror((int)-make.ret));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)dp_memory_tid(pid), (int)make.ret);
	fd = dp_memory_adopt(path, user_of(pid), size, err);
	if (fd < 0) {
		struct dp_call shut = {SYS_close, {(u64)make.ret}, 0};

		dp_remote_calls(r, &shut, 1, NULL);
		return fd;
	}
	e = map_there(r, (u64)make.ret, addr, size, false, later, err);
	if (e) {
		close(fd);
		return e;
	}
	return fd;
}

static bool is_socket(pid_t pid, int fd)
{
	char path[64], link[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)dp_memory_tid(pid), fd);
	n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	return !strncmp(link, "socket:", 7);
}

/* Killed behind the pair's making: its call still stands in the table, and its numbers where they were put. */
void dp_share_clean(struct dp_remote *r)
{
	struct dp_call c, shut[2];
	int ends[2];

	if (dp_mem_read(r->mem, r->table, &c, sizeof(c), NULL) || c.arg[5] != MARK || c.ret ||
	    dp_mem_read(r->mem, r->table + SCRATCH, ends, sizeof(ends), NULL) || !is_socket(r->tracer->pid, ends[0]) ||
	    !is_socket(r->tracer->pid, ends[1]))
		return;
	for (u32 i = 0; i < 2; i++)
		shut[i] = (struct dp_call){SYS_close, {(u64)ends[i]}, 0};
	dp_remote_calls(r, shut, 2, NULL);
}

bool dp_is_shared_at(pid_t pid, int fd, u64 addr)
{
	const struct dp_map *m;
	struct dp_maps maps;
	struct stat st;
	bool same;

	if (fstat(fd, &st) || dp_maps_read(&maps, pid, NULL))
		return false;
	m = dp_maps_at(&maps, addr);
	same = m && m->inode == st.st_ino && m->shared;
	dp_maps_free(&maps);
	return same;
}
