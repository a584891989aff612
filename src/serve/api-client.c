/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A client: JSON-RPC 2.0, a request a line, in a process that is the client's user (api.c). When the client goes, its
 * insertions go.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/now.h"
#include "serve/api-priv.h"

#define REQUEST_MAX 65536
#define DEPTH_MAX 8
#define OUTPUT_MAX (4u << 20) /* records that find no room are left out, and told */
#define TABLES_SIZE_MAX (4u << 20)
#define RATE_MAX 100 /* requests in a second */
#define SECONDS_MAX 86400
#define HITS_MAX 10000000
#define TEXT_MAX 16384

/* What JSON-RPC has, and ours. */
enum rpc_code {
	RPC_PARSE = -32700,
	RPC_REQUEST = -32600,
	RPC_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_REFUSED = -32000, /* by dprobes: data says why */
	RPC_LIMIT = -32001,
	RPC_NONE = -32002, /* no such insertion of this client */
};

struct client {
	const struct dp_api *api;
	pid_t server;
	int fd;
	struct json_tokener *parser;
	char in[REQUEST_MAX];
	size_t n;
	bool skips; /* the rest of a line that is too long */
	struct dp_line out;
	struct dp_api_insertion v[DP_API_INSERTIONS_MAX];
	struct dp_api_insertion *now; /* whose output is read */
	u32 ids;
	u64 second;
	u32 requests; /* in it */
};

static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	ended = sig;
}

/* ---- what is sent ---- */

static struct json_object *text(const char *s)
{
	return json_object_new_string(s);
}

static bool has_room(const struct client *c, size_t n)
{
	return c->out.n + n < OUTPUT_MAX;
}

/* Takes the object. */
static void send_object(struct client *c, struct json_object *o)
{
	const char *s = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

	dp_line_str(&c->out, s);
	dp_line_char(&c->out, '\n');
	json_object_put(o);
}

static struct json_object *envelope(struct json_object *id)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "jsonrpc", text("2.0"));
	json_object_object_add(o, "id", json_object_get(id));
	return o;
}

/* Takes the result. */
static void reply(struct client *c, struct json_object *id, struct json_object *result)
{
	struct json_object *o = envelope(id);

	json_object_object_add(o, "result", result);
	send_object(c, o);
}

/* Takes data, which may be NULL. */
static void refuse(struct client *c, struct json_object *id, enum rpc_code code, const char *message,
		   struct json_object *data)
{
	struct json_object *o = envelope(id), *e = json_object_new_object();

	json_object_object_add(e, "code", json_object_new_int(code));
	json_object_object_add(e, "message", text(message));
	if (data)
		json_object_object_add(e, "data", data);
	json_object_object_add(o, "error", e);
	send_object(c, o);
}

static void notify(struct client *c, const char *method, struct json_object *params)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "jsonrpc", text("2.0"));
	json_object_object_add(o, "method", text(method));
	json_object_object_add(o, "params", params);
	send_object(c, o);
}

/* ---- insertions ---- */

static const char *reason_of(const struct dp_api_insertion *i)
{
	struct json_object *code = NULL;

	if (i->removed)
		return "removed";
	if (i->error && json_object_object_get_ex(i->error, "code", &code))
		return !strcmp(json_object_get_string(code), "E-TRACE-RATE") ? "budget" : "failed";
	return (double)(dp_now_ns() - i->begun_ns) / 1e9 >= i->seconds ? "expired" : "process ended";
}

static struct json_object *described(const struct dp_api_insertion *i)
{
	static const char *const states[] = {"starting", "running", "ended"};
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "id", json_object_new_int64(i->id));
	json_object_object_add(o, "state", text(states[i->state]));
	json_object_object_add(o, "params", json_object_get(i->wanted));
	json_object_object_add(o, "records", json_object_new_uint64(i->records));
	json_object_object_add(o, "dropped", json_object_new_uint64(i->dropped));
	return o;
}

static void tell_ended(struct client *c, struct dp_api_insertion *i)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "id", json_object_new_int64(i->id));
	json_object_object_add(o, "reason", text(reason_of(i)));
	json_object_object_add(o, "error", json_object_get(i->error));
	json_object_object_add(o, "summary", json_object_get(i->summary));
	json_object_object_add(o, "dropped", json_object_new_uint64(i->dropped));
	notify(c, "ended", o);
}

static void take_message(void *arg, struct json_object *o)
{
	struct client *c = arg;
	struct dp_api_insertion *i = c->now;
	struct json_object *v;

	if (json_object_object_get_ex(o, "ready", &v) && i->state == DP_API_STARTING) {
		i->state = DP_API_RUNNING;
		v = json_object_new_object();
		json_object_object_add(v, "id", json_object_new_int64(i->id));
		reply(c, i->request, v);
		json_object_put(i->request);
		i->request = NULL;
	} else if (json_object_object_get_ex(o, "error", &v) && !i->error) {
		i->error = json_object_get(v);
	} else if (json_object_object_get_ex(o, "summary", &v) && !i->summary) {
		i->summary = json_object_get(v);
	}
}

static bool same_member(struct json_object *a, struct json_object *b, const char *key)
{
	struct json_object *x = NULL, *y = NULL;

	json_object_object_get_ex(a, key, &x);
	json_object_object_get_ex(b, key, &y);
	return json_object_equal(x, y);
}

static bool is_same_table(struct json_object *a, struct json_object *b)
{
	return same_member(a, b, "aggregate") && same_member(a, b, "kind") && same_member(a, b, "module") &&
	       same_member(a, b, "pid");
}

static size_t size_of_tables(const struct client *c)
{
	size_t n = 0;

	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		for (u32 k = 0; k < c->v[i].ntables; k++)
			n += c->v[i].tables[k].size;
	return n;
}

/* The latest of each table is kept. */
static void take_table(struct client *c, struct dp_api_insertion *i, struct json_object *o)
{
	size_t size = strlen(
	    json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	u32 k = 0;

	while (k < i->ntables && !is_same_table(i->tables[k].latest, o))
		k++;
	if (k < i->ntables) {
		json_object_put(i->tables[k].latest);
		i->tables[k] = i->tables[--i->ntables];
	}
	i->has_more_tables |= i->ntables == DP_API_TABLES_MAX || size_of_tables(c) + size > TABLES_SIZE_MAX;
	if (!i->has_more_tables)
		i->tables[i->ntables++] = (struct dp_api_table){json_object_get(o), size};
}

static void take_output(void *arg, struct json_object *o)
{
	struct client *c = arg;
	struct dp_api_insertion *i = c->now;
	struct json_object *params;

	if (json_object_object_get_ex(o, "aggregate", NULL)) {
		take_table(c, i, o);
		return;
	}
	i->records++;
	if (!i->streams)
		return;
	if (!has_room(c, 2 * strlen(json_object_to_json_string(o)) + 256)) {
		i->dropped++;
		return;
	}
	params = json_object_new_object();
	json_object_object_add(params, "id", json_object_new_int64(i->id));
	json_object_object_add(params, "record", json_object_get(o));
	notify(c, "event", params);
}

static void end_insertion(struct client *c, struct dp_api_insertion *i)
{
	i->state = DP_API_ENDED;
	if (i->request)
		refuse(c, i->request, RPC_REFUSED, "the insertion is refused", json_object_get(i->error));
	else
		tell_ended(c, i);
	dp_api_forget(i);
}

static void look_at(struct client *c, struct dp_api_insertion *i, const struct pollfd *out,
		    const struct pollfd *messages)
{
	c->now = i;
	if (out->revents && !dp_api_read(&i->out, take_output, c)) {
		close(i->out.fd);
		i->out.fd = -1;
	}
	/* The messages end last. */
	if (messages->revents && !dp_api_read(&i->messages, take_message, c)) {
		while (i->out.fd >= 0 && dp_api_read(&i->out, take_output, c))
			;
		end_insertion(c, i);
	}
}

/* ---- requests ---- */

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, type) ? v : NULL;
}

/* A text without what would end it early, or a second line. */
static const char *text_in(struct json_object *v, bool is_line)
{
	const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
	size_t n = s ? (size_t)json_object_get_string_len(v) : 0;

	return s && n && n <= TEXT_MAX && strlen(s) == n && !(is_line && (strchr(s, '\n') || *s == '#')) ? s : NULL;
}

/* NULL: params can be used; texts are theirs. */
static const char *read_wanted(struct json_object *params, struct dp_api_wanted *w, const char **lines)
{
	struct json_object *pid = member(params, "pid", json_type_int), *v = NULL;
	struct json_object *array = member(params, "lines", json_type_array);

	if (!pid || json_object_get_int64(pid) < 1 || json_object_get_int64(pid) > 1 << 22)
		return "pid: the id of a process";
	w->pid = (pid_t)json_object_get_int64(pid);
	if (!json_object_object_get_ex(params, "seconds", &v) ||
	    !(json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double)) ||
	    !(json_object_get_double(v) >= 0.001 && json_object_get_double(v) <= SECONDS_MAX))
		return "seconds: when it expires, 0.001 to 86400";
	w->seconds = json_object_get_double(v);
	v = member(params, "max_hits_per_second", json_type_int);
	if (!v || json_object_get_int64(v) < 1 || json_object_get_int64(v) > HITS_MAX)
		return "max_hits_per_second: 1 to 10000000";
	w->rate = json_object_get_uint64(v);
	w->streams = json_object_get_boolean(member(params, "events", json_type_boolean));
	v = member(params, "program", json_type_string);
	if (!v == !array)
		return "lines or program: one of them";
	w->program = v ? text_in(v, false) : NULL;
	if (v)
		return w->program && strstr(w->program, "#pragma") ? NULL : "program: handlers in C with their pragmas";
	w->nlines = (u32)DP_MIN(json_object_array_length(array), DP_API_LINES_MAX + 1ul);
	if (!w->nlines || w->nlines > DP_API_LINES_MAX)
		return "lines: 1 to 32 event lines";
	for (u32 i = 0; i < w->nlines; i++)
		if (!(lines[i] = text_in(json_object_array_get_idx(array, i), true)))
			return "lines: each a text without the end of a line, of 16384 bytes at most";
	w->lines = lines;
	return NULL;
}

static void insert(struct client *c, struct json_object *id, struct json_object *params)
{
	const char *lines[DP_API_LINES_MAX], *wrong;
	struct dp_api_wanted w = {.pid = 0};
	struct dp_api_insertion *i = c->v;
	struct dp_error err = {0};

	wrong = read_wanted(params, &w, lines);
	if (wrong) {
		refuse(c, id, RPC_PARAMS, wrong, NULL);
		return;
	}
	while (i < c->v + DP_API_INSERTIONS_MAX && i->id)
		i++;
	if (i == c->v + DP_API_INSERTIONS_MAX) {
		refuse(c, id, RPC_LIMIT, "a client has 16 insertions at most", NULL);
		return;
	}
	if (dp_api_start(i, c->api, &w, &err)) {
		dp_api_forget(i);
		refuse(c, id, RPC_REFUSED, err.detail, NULL);
		return;
	}
	i->id = ++c->ids;
	i->state = DP_API_STARTING;
	i->request = json_object_get(id);
	i->wanted = json_object_get(params);
}

/* That the params name; NULL: the client has been told. */
static struct dp_api_insertion *named(struct client *c, struct json_object *id, struct json_object *params)
{
	struct json_object *v = member(params, "id", json_type_int);

	for (u32 i = 0; v && i < DP_API_INSERTIONS_MAX; i++)
		if (c->v[i].id && c->v[i].id == json_object_get_uint64(v))
			return &c->v[i];
	refuse(c, id, v ? RPC_NONE : RPC_PARAMS, v ? "this client has no such insertion" : "id: of an insertion", NULL);
	return NULL;
}

static void list(struct client *c, struct json_object *id, struct json_object *params)
{
	struct json_object *a = json_object_new_array();

	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		if (c->v[i].id)
			json_object_array_add(a, described(&c->v[i]));
	reply(c, id, a);
}

static void tables(struct client *c, struct json_object *id, struct json_object *params)
{
	struct dp_api_insertion *i = named(c, id, params);
	struct json_object *a;

	if (!i)
		return;
	if (i->has_more_tables) {
		refuse(c, id, RPC_LIMIT, "the tables of a client have 4 MiB at most", NULL);
		return;
	}
	a = json_object_new_array();
	for (u32 k = 0; k < i->ntables; k++)
		json_object_array_add(a, json_object_get(i->tables[k].latest));
	reply(c, id, a);
}

static void events(struct client *c, struct json_object *id, struct json_object *params)
{
	struct dp_api_insertion *i = named(c, id, params);
	struct json_object *follow = member(params, "follow", json_type_boolean);

	if (!i)
		return;
	i->streams = !follow || json_object_get_boolean(follow);
	reply(c, id, json_object_new_boolean(i->streams));
}

/* The notice that it has ended follows. */
static void take_out(struct client *c, struct json_object *id, struct json_object *params)
{
	struct dp_api_insertion *i = named(c, id, params);

	if (!i)
		return;
	i->removed = true;
	dp_api_stop(i);
	reply(c, id, json_object_new_boolean(true));
}

static void explain(struct client *c, struct json_object *id, struct json_object *params)
{
	struct json_object *v = member(params, "code", json_type_string), *o;
	enum dp_code code = v ? dp_error_by_name(json_object_get_string(v)) : DP_OK;
	const struct dp_error_info *info = dp_error_info(code);

	if (code == DP_OK) {
		refuse(c, id, RPC_PARAMS, "code: of an error, such as E-SITE-MIDINSN", NULL);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "code", text(info->name));
	json_object_object_add(o, "message", text(info->sentence));
	json_object_object_add(o, "hint", info->hint ? text(info->hint) : NULL);
	json_object_object_add(o, "explanation", text(info->explanation));
	reply(c, id, o);
}

static void version(struct client *c, struct json_object *id, struct json_object *params)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "dprobes", text(DP_VERSION));
	json_object_object_add(o, "api", json_object_new_int(1));
	json_object_object_add(o, "allows_writes", json_object_new_boolean(c->api->allows_writes));
	reply(c, id, o);
}

static const struct method {
	const char *name;
	void (*run)(struct client *c, struct json_object *id, struct json_object *params);
	struct {
		const char *name;
		enum json_type type; /* integers are doubles, too */
	} takes[7];
} methods[] = {
    {"insert",
     insert,
     {{"pid", json_type_int},
      {"lines", json_type_array},
      {"program", json_type_string},
      {"seconds", json_type_double},
      {"max_hits_per_second", json_type_int},
      {"events", json_type_boolean}}},
    {"list", list, {{NULL}}},
    {"tables", tables, {{"id", json_type_int}}},
    {"events", events, {{"id", json_type_int}, {"follow", json_type_boolean}}},
    {"remove", take_out, {{"id", json_type_int}}},
    {"explain", explain, {{"code", json_type_string}}},
    {"version", version, {{NULL}}},
};

/* Nothing but what it takes, so that a misspelt name is not passed over in silence. */
static bool fits(const struct method *m, struct json_object *params)
{
	json_object_object_foreach(params, key, value)
	{
		u32 i = 0;

		while (m->takes[i].name && strcmp(m->takes[i].name, key))
			i++;
		if (!m->takes[i].name)
			return false;
		if (!json_object_is_type(value, m->takes[i].type) &&
		    !(m->takes[i].type == json_type_double && json_object_is_type(value, json_type_int)))
			return false;
	}
	return true;
}

static void run_method(struct client *c, const struct method *m, struct json_object *id, struct json_object *params)
{
	if (json_object_is_type(params, json_type_object) && fits(m, params))
		m->run(c, id, params);
	else
		refuse(c, id, RPC_PARAMS, "params: a name that the method does not take, or a value of another type",
		       NULL);
}

static void call(struct client *c, struct json_object *o)
{
	struct json_object *version_of = member(o, "jsonrpc", json_type_string), *params = NULL, *id = NULL;
	struct json_object *method = member(o, "method", json_type_string), *none = NULL;

	json_object_object_get_ex(o, "id", &id);
	if (!json_object_is_type(o, json_type_object) || !version_of ||
	    strcmp(json_object_get_string(version_of), "2.0") || !method ||
	    !(json_object_is_type(id, json_type_int) || json_object_is_type(id, json_type_string))) {
		refuse(c, NULL, RPC_REQUEST, "a request has jsonrpc \"2.0\", an id and a method", NULL);
		return;
	}
	if (!json_object_object_get_ex(o, "params", &params))
		params = none = json_object_new_object();
	for (u32 i = 0; i < DP_ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, json_object_get_string(method)))
			continue;
		run_method(c, &methods[i], id, params);
		json_object_put(none);
		return;
	}
	refuse(c, id, RPC_METHOD, "insert, list, tables, events, remove, explain and version are the methods", NULL);
	json_object_put(none);
}

/* False: it asks too much, and is let go. */
static bool take_request(struct client *c, const char *line, size_t n)
{
	u64 now = dp_now_ns();
	struct json_object *o;

	if (now - c->second > 1000000000u) {
		c->second = now;
		c->requests = 0;
	}
	if (++c->requests > RATE_MAX) {
		refuse(c, NULL, RPC_LIMIT, "100 requests in a second are the most", NULL);
		return c->requests < 100 * RATE_MAX;
	}
	json_tokener_reset(c->parser);
	o = json_tokener_parse_ex(c->parser, line, (int)n + 1); /* with the byte behind it, which ends a number */
	if (json_tokener_get_error(c->parser) != json_tokener_success || json_tokener_get_parse_end(c->parser) < n)
		refuse(c, NULL, RPC_PARSE,
		       json_tokener_get_error(c->parser) == json_tokener_error_parse_number
			   ? "not JSON, or a number that does not fit into 64 bits"
			   : "not JSON",
		       NULL);
	else
		call(c, o);
	json_object_put(o);
	return true;
}

/* False: the client has gone. */
static bool receive(struct client *c)
{
	ssize_t n = recv(c->fd, c->in + c->n, sizeof(c->in) - c->n, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->n += (size_t)n;
	return n > 0;
}

/* Whole lines, as long as there is room for replies. False: the client is let go. */
static bool take_requests(struct client *c)
{
	char *at = c->in, *end;
	bool good = true;

	while (good && has_room(c, REQUEST_MAX) && (end = memchr(at, '\n', c->n - (size_t)(at - c->in)))) {
		*end = '\0';
		if (!c->skips && end > at)
			good = take_request(c, at, (size_t)(end - at));
		c->skips = false;
		at = end + 1;
	}
	c->n -= (size_t)(at - c->in);
	memmove(c->in, at, c->n);
	if (c->n == sizeof(c->in) && !memchr(c->in, '\n', c->n)) {
		if (!c->skips)
			refuse(c, NULL, RPC_LIMIT, "a request has 65535 bytes at most", NULL);
		c->skips = true;
		c->n = 0;
	}
	return good;
}

static bool write_replies(struct client *c)
{
	ssize_t n = c->out.n ? send(c->fd, c->out.text, c->out.n, MSG_NOSIGNAL) : 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->out.n -= (size_t)n;
	memmove(c->out.text, c->out.text + n, c->out.n);
	return true;
}

static void end_all(struct client *c)
{
	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		if (c->v[i].id)
			dp_api_stop(&c->v[i]);
	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		if (c->v[i].id)
			dp_api_forget(&c->v[i]);
}

/* False: the end. */
static bool turn(struct client *c)
{
	struct pollfd p[1 + 2 * DP_API_INSERTIONS_MAX];
	bool reads = has_room(c, REQUEST_MAX) && c->n < sizeof(c->in);

	/* Who does not read is not read from. */
	p[0] = (struct pollfd){.fd = c->fd, .events = (short)((reads ? POLLIN : 0) | (c->out.n ? POLLOUT : 0))};
	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++) {
		p[1 + 2 * i] = (struct pollfd){.fd = c->v[i].id ? c->v[i].out.fd : -1, .events = POLLIN};
		p[2 + 2 * i] = (struct pollfd){.fd = c->v[i].id ? c->v[i].messages.fd : -1, .events = POLLIN};
	}
	if (poll(p, DP_ARRAY_SIZE(p), 1000) < 0)
		return errno == EINTR && !ended;
	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		if (c->v[i].id)
			look_at(c, &c->v[i], &p[1 + 2 * i], &p[2 + 2 * i]);
	if (p[0].revents & (POLLHUP | POLLERR) || (p[0].revents & POLLIN && !receive(c)))
		return false;
	return write_replies(c) && take_requests(c) && !ended && getppid() == c->server && !c->out.broken;
}

_Noreturn void dp_api_client(const struct dp_api *api, int fd, pid_t server)
{
	static struct client c;
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	c.api = api;
	c.fd = fd;
	c.server = server;
	c.parser = json_tokener_new_ex(DEPTH_MAX);
	if (c.parser)
		json_tokener_set_flags(c.parser, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	for (u32 i = 0; i < DP_API_INSERTIONS_MAX; i++)
		c.v[i].out.fd = c.v[i].messages.fd = -1;
	while (c.parser && turn(&c))
		;
	end_all(&c);
	_exit(0);
}
