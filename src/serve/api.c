/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Clients are accepted, and each gets a process that is its user. Nothing that a client says is read here. */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/api.h"

#define CLIENTS_MAX 64
#define OF_USER_MAX 16
#define GROUPS_MAX 256

static struct {
	pid_t pid; /* 0: free */
	uid_t user;
} clients[CLIENTS_MAX];

bool dp_api_built(void)
{
	return true;
}

void dp_api_reap(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].pid && waitpid(clients[i].pid, NULL, WNOHANG))
			clients[i].pid = 0;
}

/* Returns a free place; -1: this user, or all users, have too many clients. */
static int find_place(uid_t user)
{
	int place = -1, same = 0;

	dp_api_reap();
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (!clients[i].pid)
			place = i;
		else
			same += clients[i].user == user;
	}
	return same < OF_USER_MAX ? place : -1;
}

/* With the groups that the client has. */
static bool become(int fd, const struct ucred *peer)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (geteuid() != 0)
		return peer->uid == geteuid();
	if (peer->uid == 0)
		return true;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) && !setgroups(len / sizeof(*groups), groups) &&
	       !setresgid(peer->gid, peer->gid, peer->gid) && !setresuid(peer->uid, peer->uid, peer->uid);
}

static void set_environment(uid_t user)
{
	char dir[64];

	clearenv();
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
	snprintf(dir, sizeof(dir), "/run/user/%u", (unsigned)user);
	if (user && !access(dir, W_OK))
		setenv("XDG_RUNTIME_DIR", dir, 1);
}

static _Noreturn void serve(const struct dp_api *api, int fd, const struct ucred *peer, pid_t parent)
{
	if (prctl(PR_SET_DUMPABLE, 0) || !become(fd, peer) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) || getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "dprobes-api");
	setsid(); /* what a terminal sends is for our parent */
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	set_environment(peer->uid);
	dp_api_client(api, fd, parent);
}

void dp_api_accept(const struct dp_api *api, int listener)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), place;
	pid_t parent = getpid(), pid;

	if (fd < 0)
		return;
	place = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ? -1 : find_place(peer.uid);
	pid = place < 0 ? -1 : fork();
	if (pid == 0) {
		close(listener);
		serve(api, fd, &peer, parent);
	}
	if (pid > 0) {
		clients[place].pid = pid;
		clients[place].user = peer.uid;
	}
	close(fd);
}
