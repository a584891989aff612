/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where a server listens: loopback unless told otherwise, or a socket in the file system. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/serve.h"

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un path;
};

static bool parse_port(const char *text, in_port_t *port)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	*port = htons((u16)v);
	return *text >= '0' && *text <= '9' && !*end && v <= 65535;
}

/* An address and a port in digits; no name is looked up. Returns the address's length; 0: it is none. */
static socklen_t parse_internet(const char *text, union address *a)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	char host[64];
	in_port_t port;

	if (!n || n >= sizeof(host) || !parse_port(colon + 1, &port))
		return 0;
	snprintf(host, sizeof(host), "%.*s", (int)n, text);
	if (!strcmp(host, "localhost"))
		strcpy(host, "127.0.0.1");
	if (inet_pton(AF_INET, host, &a->four.sin_addr) == 1) {
		a->four.sin_family = AF_INET;
		a->four.sin_port = port;
		return sizeof(a->four);
	}
	if (*host != '[' || host[n - 1] != ']')
		return 0;
	host[n - 1] = '\0';
	if (inet_pton(AF_INET6, host + 1, &a->six.sin6_addr) != 1)
		return 0;
	a->six.sin6_family = AF_INET6;
	a->six.sin6_port = port;
	return sizeof(a->six);
}

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->four.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->six.sin6_addr);
}

static int parse(const char *text, bool is_public, union address *a, socklen_t *len, struct dp_error *err)
{
	if (!strncmp(text, "unix:", 5)) {
		if (text[5] != '/' || strlen(text + 5) >= sizeof(a->path.sun_path))
			return dp_fail(err, E_SERVE_ADDRESS, "%.150s: not the path of a socket", text);
		a->path.sun_family = AF_UNIX;
		strcpy(a->path.sun_path, text + 5);
		*len = sizeof(a->path);
		return 0;
	}
	*len = parse_internet(text, a);
	if (!*len)
		return dp_fail(err, E_SERVE_ADDRESS, "%.150s", text);
	if (!is_public && !is_loopback(a))
		return dp_fail(err, E_SERVE_PUBLIC, "%.150s", text);
	return 0;
}

/* The socket of a server that was killed is replaced; nothing else is. */
static void remove_stale(const union address *a)
{
	struct stat st;
	int fd;

	if (lstat(a->path.sun_path, &st) || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, &a->any, sizeof(a->path)) && errno == ECONNREFUSED)
		unlink(a->path.sun_path);
	if (fd >= 0)
		close(fd);
}

static void name_of(struct dp_listener *l, const char *text)
{
	union address a = {0};
	socklen_t len = sizeof(a);
	const char *colon = strrchr(text, ':');

	l->is_path = !strncmp(text, "unix:", 5);
	snprintf(l->name, sizeof(l->name), "%s", l->is_path ? text + 5 : text);
	if (l->is_path || getsockname(l->fd, &a.any, &len))
		return;
	/* Port 0 is any that is free. */
	snprintf(l->name, sizeof(l->name), "%.*s:%u", (int)(colon - text), text,
		 ntohs(a.any.sa_family == AF_INET ? a.four.sin_port : a.six.sin6_port));
}

int dp_listener_open(struct dp_listener *l, const char *address, bool is_public, struct dp_error *err)
{
	union address a = {0};
	socklen_t len = 0;
	mode_t old;
	int one = 1, r = parse(address, is_public, &a, &len, err);

	l->fd = -1;
	if (r)
		return r;
	l->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a.any.sa_family == AF_UNIX)
		remove_stale(&a);
	else if (l->fd >= 0)
		setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	old = umask(0117);
	r = l->fd < 0 || bind(l->fd, &a.any, len) || listen(l->fd, 64) ? errno : 0;
	umask(old);
	if (!r) {
		name_of(l, address);
		return 0;
	}
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	return dp_fail(err, E_SERVE_ADDRESS, "%.150s: %s", address, strerror(r));
}

void dp_listener_close(struct dp_listener *l)
{
	if (l->fd < 0)
		return;
	if (l->is_path)
		unlink(l->name);
	close(l->fd);
	l->fd = -1;
}
