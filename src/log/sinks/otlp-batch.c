/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See otlp-batch.h. What a process is called may be set as for every program that sends OpenTelemetry's data. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "log/sinks/otlp-batch.h"

#define PROCESSES 64 /* in one request */
#define ITEMS 512
#define BYTES (256u << 10)
#define WAIT_NS 1000000000u

#define SERVICE "service.name"

struct process {
	u32 pid;
	char comm[16];
	struct {
		struct dp_line text; /* objects with commas between them */
		struct dp_json json;
		u32 n;
	} of[DP_OTLP_KINDS];
};

struct dp_otlp_batch {
	struct process v[PROCESSES];
	u32 n, items;
	u64 since_ns; /* when the first item came */
	char host[64];
	struct dp_line full; /* requests that were written as there was no room for another process */
};

static const struct {
	const char *resources, *scopes, *items;
} members[] = {
    [DP_OTLP_SPANS] = {"resourceSpans", "scopeSpans", "spans"},
    [DP_OTLP_LOGS] = {"resourceLogs", "scopeLogs", "logRecords"},
    [DP_OTLP_METRICS] = {"resourceMetrics", "scopeMetrics", "metrics"},
};

struct dp_otlp_batch *dp_otlp_batch_new(const char *host)
{
	struct dp_otlp_batch *b = dp_alloc(sizeof(*b));

	if (b)
		dp_format(b->host, sizeof(b->host), "%s", host);
	return b;
}

void dp_otlp_batch_free(struct dp_otlp_batch *b)
{
	for (u32 i = 0; b && i < PROCESSES; i++)
		for (u32 k = 0; k < DP_OTLP_KINDS; k++)
			dp_line_free(&b->v[i].of[k].text);
	if (b)
		dp_line_free(&b->full);
	dp_free(b);
}

/* ---- pieces ---- */

void dp_otlp_integer(struct dp_json *j, s64 v)
{
	char digits[24];

	dp_json_text(j, digits, (size_t)dp_format(digits, sizeof(digits), "%lld", (long long)v));
}

void dp_otlp_put_time(struct dp_json *j, const char *key, u64 unix_ns)
{
	dp_json_key(j, key);
	dp_otlp_integer(j, (s64)unix_ns);
}

void dp_otlp_open(struct dp_json *j, const char *key, const char *type)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "key", key);
	dp_json_key(j, "value");
	dp_json_open(j, '{');
	dp_json_key(j, type);
}

void dp_otlp_close(struct dp_json *j)
{
	dp_json_close(j, '}');
	dp_json_close(j, '}');
}

void dp_otlp_text(struct dp_json *j, const char *key, const char *text)
{
	dp_otlp_open(j, key, "stringValue");
	dp_json_string(j, text);
	dp_otlp_close(j);
}

void dp_otlp_number(struct dp_json *j, const char *key, s64 v)
{
	dp_otlp_open(j, key, "intValue");
	dp_otlp_integer(j, v);
	dp_otlp_close(j);
}

/* ---- whose they are ---- */

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Undoes %XX, in place. */
static void decode(char *s)
{
	char *to = s;

	for (; *s; s++) {
		bool coded = *s == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0;

		*to++ = coded ? (char)(hex(s[1]) << 4 | hex(s[2])) : *s;
		s += coded ? 2 : 0;
	}
	*to = '\0';
}

/* OTEL_RESOURCE_ATTRIBUTES: KEY=VALUE,... Those that we set ourselves are not taken; the service's name is returned. */
static void put_given(struct dp_json *j, char *text, char **service)
{
	char *rest = NULL;

	for (char *pair = strtok_r(text, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(pair, '=');

		pair += strspn(pair, " \t");
		if (!value || value <= pair)
			continue;
		*value++ = '\0';
		decode(pair);
		decode(value);
		if (!strcmp(pair, SERVICE))
			*service = value;
		else if (strcmp(pair, "host.name") && strncmp(pair, "process.", 8))
			dp_otlp_text(j, pair, value);
	}
}

static void put_resource(struct dp_json *j, const struct dp_otlp_batch *b, const struct process *p)
{
	const char *given = getenv("OTEL_RESOURCE_ATTRIBUTES"), *name = getenv("OTEL_SERVICE_NAME");
	char *text = given ? strdup(given) : NULL, *service = NULL;

	dp_json_key(j, "resource");
	dp_json_open(j, '{');
	dp_json_key(j, "attributes");
	dp_json_open(j, '[');
	if (text)
		put_given(j, text, &service);
	dp_otlp_text(j, SERVICE, name && *name ? name : service ? service : p->pid ? p->comm : "kernel");
	if (b->host[0])
		dp_otlp_text(j, "host.name", b->host);
	if (p->pid) {
		dp_otlp_number(j, "process.pid", p->pid);
		dp_otlp_text(j, "process.command", p->comm);
	}
	dp_json_close(j, ']');
	dp_json_close(j, '}');
	free(text);
}

static struct process *process_of(const struct dp_otlp_batch *b, u32 pid)
{
	for (u32 i = 0; i < b->n; i++)
		if (b->v[i].pid == pid)
			return (struct process *)&b->v[i];
	return NULL;
}

bool dp_otlp_knows(const struct dp_otlp_batch *b, u32 pid)
{
	return process_of(b, pid);
}

/* ---- items ---- */

struct dp_json *dp_otlp_item(struct dp_otlp_batch *b, enum dp_otlp_kind kind, u32 pid, const char *comm)
{
	struct process *p = process_of(b, pid);

	if (!p && b->n == PROCESSES)
		dp_otlp_write(b, &b->full);
	if (!p) {
		p = &b->v[b->n++];
		p->pid = pid;
		dp_format(p->comm, sizeof(p->comm), "%s", comm);
	}
	if (!b->items++)
		b->since_ns = dp_now_ns();
	p->of[kind].n++;
	p->of[kind].json.line = &p->of[kind].text;
	return &p->of[kind].json;
}

bool dp_otlp_is_full(const struct dp_otlp_batch *b)
{
	size_t bytes = b->full.n;

	for (u32 i = 0; i < b->n; i++)
		for (u32 k = 0; k < DP_OTLP_KINDS; k++)
			bytes += b->v[i].of[k].text.n;
	return b->items >= ITEMS || bytes >= BYTES;
}

bool dp_otlp_is_due(const struct dp_otlp_batch *b)
{
	return b->full.n || (b->items && dp_now_ns() - b->since_ns >= WAIT_NS);
}

static void put_process(struct dp_json *j, const struct dp_otlp_batch *b, const struct process *p,
			enum dp_otlp_kind kind)
{
	dp_json_open(j, '{');
	put_resource(j, b, p);
	dp_json_key(j, members[kind].scopes);
	dp_json_open(j, '[');
	dp_json_open(j, '{');
	dp_json_key(j, "scope");
	dp_json_open(j, '{');
	dp_json_put_string(j, "name", "dprobes");
	dp_json_close(j, '}');
	dp_json_key(j, members[kind].items);
	dp_json_open(j, '[');
	dp_line_bytes(j->line, p->of[kind].text.text, p->of[kind].text.n);
	dp_json_close(j, ']');
	dp_json_close(j, '}');
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

static void put_request(struct dp_otlp_batch *b, enum dp_otlp_kind kind, struct dp_line *to)
{
	struct dp_json j = {.line = to};
	bool any = false;

	for (u32 i = 0; i < b->n; i++)
		any |= b->v[i].of[kind].n != 0;
	if (!any)
		return;
	dp_json_open(&j, '{');
	dp_json_key(&j, members[kind].resources);
	dp_json_open(&j, '[');
	for (u32 i = 0; i < b->n; i++)
		if (b->v[i].of[kind].n)
			put_process(&j, b, &b->v[i], kind);
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_json_end(&j);
}

void dp_otlp_write(struct dp_otlp_batch *b, struct dp_line *to)
{
	if (to != &b->full) {
		dp_line_bytes(to, b->full.text, b->full.n);
		dp_line_reset(&b->full);
	}
	for (enum dp_otlp_kind kind = 0; kind < DP_OTLP_KINDS; kind++)
		put_request(b, kind, to);
	for (u32 i = 0; i < b->n; i++)
		for (u32 k = 0; k < DP_OTLP_KINDS; k++) {
			dp_line_reset(&b->v[i].of[k].text);
			b->v[i].of[k].json = (struct dp_json){0};
			b->v[i].of[k].n = 0;
		}
	b->n = b->items = 0;
}
