/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See journal.h. An entry that is too large for a datagram goes as a sealed file, as the protocol wants it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log/line.h"
#include "send/journald.h"

#define JOURNAL "/run/systemd/journal/socket"
#define PATIENCE_MS 100
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct dp_journald {
	int fd;
	bool is_slow;                    /* the last entry was lost: nobody waits again before one is taken */
	unsigned long long lost, untold; /* untold: the journal does not have an entry about them yet */
	struct dp_line rest;             /* of an entry that is not whole yet */
};

int dp_journald_new(struct dp_journald **out, struct dp_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = JOURNAL};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return dp_fail(err, E_JOURNALD_NONE, JOURNAL ": %s", strerror(error));
	}
	*out = calloc(1, sizeof(**out));
	if (!*out) {
		close(fd);
		return dp_fail(err, E_JOURNALD_NONE, "no memory");
	}
	(*out)->fd = fd;
	return 0;
}

/* The file's descriptor is all that the datagram has. */
static bool send_file(int to, const char *text, size_t n)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_control = &control, .msg_controllen = sizeof(control)};
	int fd = memfd_create("dprobes-entry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool sent = fd >= 0 && write(fd, text, n) == (ssize_t)n && !fcntl(fd, F_ADD_SEALS, SEALS);

	control.head = (struct cmsghdr){
	    .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sent = sent && sendmsg(to, &m, MSG_NOSIGNAL) >= 0;
	if (fd >= 0)
		close(fd);
	return sent;
}

static bool send_entry(struct dp_journald *j, const char *text, size_t n)
{
	struct pollfd p = {.fd = j->fd, .events = POLLOUT};

	for (int turn = 0; turn < 2; turn++) {
		if (send(j->fd, text, n, MSG_NOSIGNAL) >= 0)
			return true;
		if (errno == EMSGSIZE || errno == ENOBUFS)
			return send_file(j->fd, text, n);
		if (errno != EAGAIN || j->is_slow || poll(&p, 1, PATIENCE_MS) <= 0)
			return false;
	}
	return false;
}

/* It goes on: what is missing from here on back is told there, too. */
static void tell_lost(struct dp_journald *j)
{
	struct dp_line l = {0};

	dp_line_format(&l,
		       "PRIORITY=4\nSYSLOG_IDENTIFIER=dprobes\nDPROBES_LOST=%llu\n"
		       "MESSAGE=%llu entries were lost: the journal was slow\n",
		       j->untold, j->untold);
	if (!l.broken && send_entry(j, l.text, l.n))
		j->untold = 0;
	dp_line_free(&l);
}

bool dp_journald_take(void *journal, const char *text, size_t n)
{
	struct dp_journald *j = journal;
	struct dp_line *l = &j->rest;
	char *begin, *end;

	dp_line_bytes(l, text, n);
	if (l->broken)
		return false;
	begin = l->text;
	while (l->n && (end = memmem(begin, (size_t)(l->text + l->n - begin), "\n\n", 2))) {
		j->is_slow = !send_entry(j, begin, (size_t)(end + 1 - begin));
		j->lost += j->is_slow;
		j->untold += j->is_slow;
		if (j->untold && !j->is_slow)
			tell_lost(j);
		begin = end + 2;
	}
	l->n -= (size_t)(begin - l->text);
	memmove(l->text, begin, l->n);
	return true;
}

unsigned long long dp_journald_end(struct dp_journald *j)
{
	unsigned long long lost = j->lost;

	close(j->fd);
	dp_line_free(&j->rest);
	free(j);
	return lost;
}
