/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HTTP, by libmicrohttpd, in a process without privileges: GET and HEAD of /metrics and /healthz. One thread; a
 * connection has one request, and a limited time for all of it. This is a part of its own, with what makes the answers
 * (snapshot.c, families*.c): libmicrohttpd brings many libraries along.
 */
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/now.h"
#include "base/part.h"
#include "serve/http.h"
#include "serve/serve-priv.h"

#define CONNECTIONS 16
#define REQUEST_BYTES 16384
#define IDLE_S 10u
#define LIFE_NS 30000000000ull
#define FRESH_NS 500000000ull /* what was asked is told again so long */
#define TEXT_MAX (64u << 20)

#define OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PLAIN "text/plain; version=0.0.4; charset=utf-8"
#define PROTO "application/vnd.google.protobuf"
#define PROTO_FAMILY "proto=io.prometheus.client.MetricFamily"
#define PROTO_DELIMITED "encoding=delimited"

struct client {
	int fd; /* -1: none */
	u64 since;
};

struct http {
	struct MHD_Daemon *daemon;
	struct dp_snapshot *snapshot;
	struct client clients[CONNECTIONS];
	int listener, parent;
	u32 asked, answered; /* numbers of questions */
	u64 taken_ns;        /* 0: nothing was taken yet */
};

/* ---- our parent ---- */

static bool receive(const struct http *h, void *p, size_t n, u64 end)
{
	while (n) {
		struct pollfd pfd = {.fd = h->parent, .events = POLLIN};
		u64 now = dp_now_ns();
		ssize_t r;

		if (now >= end || poll(&pfd, 1, (int)DP_MIN((end - now) / 1000000 + 1, 1000ull)) < 0)
			return false;
		r = recv(h->parent, p, n, MSG_DONTWAIT);
		if (r == 0)
			_exit(0); /* it has ended */
		if (r > 0) {
			p = (char *)p + r;
			n -= (size_t)r;
		} else if (errno != EAGAIN && errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* One answer; of another question it says nothing any more. Half of one leaves us without a parent. */
static bool take_answer(struct http *h, u64 asked_ns, u64 end)
{
	struct dp_serve_answer a;
	char *driver, *own;

	if (!receive(h, &a, sizeof(a), end))
		return false;
	if (a.driver_len > TEXT_MAX || a.own_len > TEXT_MAX)
		_exit(1);
	driver = calloc(1, a.driver_len + 1ull);
	own = calloc(1, a.own_len + 1ull);
	if (!driver || !own || !receive(h, driver, a.driver_len, ~0ull) || !receive(h, own, a.own_len, ~0ull))
		_exit(1);
	h->answered = a.number;
	if (asked_ns && a.number == h->asked)
		dp_snapshot_take(h->snapshot, a.has_driver ? driver : NULL, own,
				 (double)(dp_now_ns() - asked_ns) / 1e9);
	free(driver);
	free(own);
	return true;
}

static bool refresh(struct http *h)
{
	u64 now = dp_now_ns(), end = now + DP_SERVE_PATIENCE_MS * 1000000ull;

	if (h->taken_ns && now - h->taken_ns < FRESH_NS)
		return true;
	h->asked++;
	if (send(h->parent, &h->asked, sizeof(h->asked), MSG_NOSIGNAL) != sizeof(h->asked))
		return false;
	do
		if (!take_answer(h, now, end))
			return false;
	while (h->answered != h->asked);
	h->taken_ns = dp_now_ns();
	return true;
}

/* ---- requests ---- */

static bool has_parameter(const char *range, size_t n, const char *parameter)
{
	return memmem(range, n, parameter, strlen(parameter));
}

/* How much the client wants this type, with these parameters where they are not NULL; 0: not at all. */
static double wanted(const char *accept, const char *type, const char *one, const char *other)
{
	double best = 0;

	for (const char *p = accept; p && *p; p += strcspn(p, ","), p += *p == ',') {
		size_t n;
		double q = 1;

		p += strspn(p, " \t");
		n = strcspn(p, ",; \t");
		if (n != strlen(type) || strncmp(p, type, n))
			continue;
		if (one && !(has_parameter(p, strcspn(p, ","), one) && has_parameter(p, strcspn(p, ","), other)))
			continue;
		for (const char *s = p + n; *s && *s != ','; s++)
			if (*s == ';' && !strncmp(s + 1 + strspn(s + 1, " \t"), "q=", 2))
				q = strtod(strchr(s, '=') + 1, NULL);
		best = DP_MAX(best, q);
	}
	return best;
}

/* What the client likes best; of equals the one that has more. */
static enum dp_exposition choose(const char *accept)
{
	double plain = wanted(accept, "text/plain", NULL, NULL),
	       openmetrics = wanted(accept, "application/openmetrics-text", NULL, NULL),
	       proto = wanted(accept, PROTO, PROTO_FAMILY, PROTO_DELIMITED);

	if (proto > 0 && proto >= openmetrics && proto >= plain)
		return DP_EXPOSITION_PROTO;
	return openmetrics > 0 && openmetrics >= plain ? DP_EXPOSITION_OPENMETRICS : DP_EXPOSITION_TEXT;
}

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type, const char *text, size_t n)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result done = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
	    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
	    (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
	     MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES))
		done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result reply_text(struct MHD_Connection *c, unsigned status, const char *text)
{
	return reply(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result reply_metrics(struct http *h, struct MHD_Connection *c)
{
	static const char *const types[] = {
	    [DP_EXPOSITION_TEXT] = PLAIN,
	    [DP_EXPOSITION_OPENMETRICS] = OPENMETRICS,
	    [DP_EXPOSITION_PROTO] = PROTO "; " PROTO_FAMILY "; " PROTO_DELIMITED,
	};
	enum dp_exposition format = choose(MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	struct dp_line l = {0};
	enum MHD_Result r;

	if (!refresh(h))
		return reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no answer within 10 seconds\n");
	dp_snapshot_write(h->snapshot, format, &l);
	r = l.broken ? reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory\n")
		     : reply(c, MHD_HTTP_OK, types[format], l.text, l.n);
	dp_line_free(&l);
	return r;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *c, const char *url, const char *method,
			      const char *version, const char *data, size_t *size, void **state)
{
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
	if (!*state) { /* the headers; a body would follow */
		*state = c;
		return MHD_YES;
	}
	if (*size)
		return MHD_NO;
	if (!strcmp(url, "/metrics"))
		return reply_metrics(arg, c);
	if (!strcmp(url, "/healthz"))
		return reply_text(c, MHD_HTTP_OK, "ok\n");
	return reply_text(c, MHD_HTTP_NOT_FOUND, "/metrics or /healthz\n");
}

/* ---- connections ---- */

static void note_connection(void *arg, struct MHD_Connection *c, void **state, enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http *h = arg;
	int fd = info ? info->connect_fd : -1, wanted_fd = what == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd;

	for (u32 i = 0; i < CONNECTIONS; i++)
		if (h->clients[i].fd == wanted_fd) {
			h->clients[i] = (struct client){what == MHD_CONNECTION_NOTIFY_STARTED ? fd : -1, dp_now_ns()};
			return;
		}
}

/* The library's own limit begins anew with each byte. */
static void end_slow_ones(struct http *h)
{
	u64 now = dp_now_ns();

	for (u32 i = 0; i < CONNECTIONS; i++)
		if (h->clients[i].fd >= 0 && now - h->clients[i].since > LIFE_NS)
			shutdown(h->clients[i].fd, SHUT_RDWR);
}

static bool has_room(const struct http *h)
{
	for (u32 i = 0; i < CONNECTIONS; i++)
		if (h->clients[i].fd < 0)
			return true;
	return false;
}

/*
 * Until something is to be done, here or in the library. While there is no room for another connection, clients wait
 * in the listener's queue: the library would accept them and reset the connection. False: this cannot be waited for.
 */
static bool wait_for_events(struct http *h, fd_set *in, fd_set *out, fd_set *other)
{
	struct timeval tv = {.tv_usec = 500000};
	MHD_UNSIGNED_LONG_LONG ms;
	MHD_socket top = h->parent;
	int n;

	FD_ZERO(in);
	FD_ZERO(out);
	FD_ZERO(other);
	FD_SET(h->parent, in);
	if (MHD_get_fdset(h->daemon, in, out, other, &top) != MHD_YES)
		return false;
	if (!has_room(h))
		FD_CLR(h->listener, in);
	if (MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms < 500)
		tv.tv_usec = (suseconds_t)ms * 1000;
	n = select(DP_MAX(top, h->parent) + 1, in, out, other, &tv);
	if (n < 0) {
		FD_ZERO(in);
		FD_ZERO(out);
		FD_ZERO(other);
	}
	return n >= 0 || errno == EINTR;
}

static _Noreturn void http_main(int listener, int parent)
{
	static struct http h;
	fd_set in, out, other;

	h.listener = listener;
	h.parent = parent;
	h.snapshot = dp_snapshot_new();
	for (u32 i = 0; i < CONNECTIONS; i++)
		h.clients[i].fd = -1;
	h.daemon = MHD_start_daemon(MHD_NO_FLAG, 0, NULL, NULL, handle, &h, MHD_OPTION_LISTEN_SOCKET, listener,
				    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
				    IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
				    MHD_OPTION_NOTIFY_CONNECTION, note_connection, &h, MHD_OPTION_END);
	while (h.snapshot && h.daemon && wait_for_events(&h, &in, &out, &other)) {
		if (FD_ISSET(parent, &in))
			take_answer(&h, 0, ~0ull); /* too late; or the end */
		MHD_run_from_select(h.daemon, &in, &out, &other);
		end_slow_ones(&h);
	}
	_exit(1);
}

static const struct dp_http_part part = {.main = http_main, .version = MHD_get_version};

DP_PART(&part);
