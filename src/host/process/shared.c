/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Words that several processes share: a file of ours, mapped into the target. It gets the descriptor through a pair of sockets of
 * which we take one end, so it need neither see our files nor be allowed to open them. It keeps none of the
 * three descriptors; only a dprobes that is killed in these microseconds leaves them open there: the sockets for good,
 * the file until the next one shares it.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/process/session-priv.h"

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

/* One system call there. */
static s64 call(struct dp_remote *r, struct dp_call c, const char *what, struct dp_error *err)
{
	int e = dp_remote_calls(r, &c, 1, err);

	if (e)
		return e;
	if (c.ret < 0 && c.ret > -4096)
		return dp_fail(err, E_TARGET_SHARE, "%s: %s", what, strerror((int)-c.ret));
	return c.ret;
}

static int send_descriptor(int pidfd, int theirs, int fd, struct dp_error *err)
{
	struct message m = {.byte = 1};
	struct cmsghdr *c = &m.control.head;
	int end = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0), r = 0;

	m.iov = (struct iovec){&m.byte, 1};
	m.head = (struct msghdr){.msg_iov = &m.iov, .msg_iovlen = 1, .msg_control = &m.control, .msg_controllen = sizeof(m.control)};
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (end < 0 || sendmsg(end, &m.head, MSG_NOSIGNAL) != 1)
		r = dp_fail(err, E_TARGET_SHARE, "%s: %s", end < 0 ? "pidfd_getfd" : "sendmsg", strerror(errno));
	if (end >= 0)
		close(end);
	return r;
}

/* Receive it there. Returns its number there. */
static s64 receive(struct dp_remote *r, u64 at, int theirs, struct dp_error *err)
{
	struct message m = {.byte = 0};
	struct dp_call c = {SYS_recvmsg, {(u64)theirs, at + offsetof(struct message, head), MSG_CMSG_CLOEXEC}, 0};
	int fd;
	s64 e;

	m.iov = (struct iovec){(void *)(at + offsetof(struct message, byte)), 1};
	m.head = (struct msghdr){.msg_iov = (void *)(at + offsetof(struct message, iov)),
				 .msg_iovlen = 1,
				 .msg_control = (void *)(at + offsetof(struct message, control)),
				 .msg_controllen = sizeof(m.control)};
	e = dp_mem_write(r->mem, at, &m, sizeof(m), err);
	if (!e)
		e = call(r, c, "recvmsg", err);
	if (e >= 0)
		e = dp_mem_read(r->mem, at, &m, sizeof(m), err);
	if (e)
		return e;
	if (m.control.head.cmsg_len != CMSG_LEN(sizeof(int)))
		return dp_fail(err, E_TARGET_SHARE, "recvmsg: no descriptor came");
	memcpy(&fd, CMSG_DATA(&m.control.head), sizeof(fd));
	return fd;
}

static bool is_file(const char *path, void *arg)
{
	const struct stat *file = arg;
	struct stat st;

	return !stat(path, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev && S_ISREG(st.st_mode);
}

int dp_share_file(struct dp_remote *r, int pidfd, int fd, u64 addr, u64 size, struct dp_error *err)
{
	u64 scratch = r->table + 3072;
	struct stat file;
	int ends[2];
	s64 e, there;

	_Static_assert(sizeof(struct message) <= 1024, "scratch space");
	if (!fstat(fd, &file))
		dp_remote_close(r, is_file, &file, NULL); /* left there by somebody who was killed */
	e = call(r, (struct dp_call){SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch}, 0}, "socketpair", err);
	if (!e)
		e = dp_mem_read(r->mem, scratch, ends, sizeof(ends), err);
	if (e)
		return (int)e;
	e = send_descriptor(pidfd, ends[0], fd, err);
	there = e ? e : receive(r, scratch, ends[1], err);
	struct dp_call calls[] = {
	    {SYS_close, {(u64)ends[0]}, 0},
	    {SYS_close, {(u64)ends[1]}, 0},
	    {SYS_mmap, {addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, (u64)there, 0}, 0},
	    {SYS_close, {(u64)there}, 0},
	};
	e = dp_remote_calls(r, calls, there < 0 ? 2 : 4, there < 0 ? NULL : err);
	if (there < 0 || e)
		return (int)(there < 0 ? there : e);
	return calls[2].ret == (s64)addr ? 0 : dp_fail(err, E_TARGET_SHARE, "mmap: %s", strerror((int)-calls[2].ret));
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
