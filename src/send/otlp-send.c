/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * OTLP over HTTP, in its JSON encoding: requests wait in a queue of limited size, and a thread posts one after the
 * other. A collector that is busy or away is asked again, later each time; what it refuses, and what finds no room in
 * the queue meanwhile, is counted. The library is loaded when it is needed: it brings some twenty others along.
 */
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "log/line.h"
#include "send/send.h"

#define QUEUE_BYTES (16u << 20)
#define ANSWER 4096 /* bytes of an answer that are looked at */
#define FIRST_WAIT_NS 100000000u
#define LONGEST_WAIT_NS 30000000000u
#define PATIENCE_MS 10000 /* usual OTEL_EXPORTER_OTLP_TIMEOUT */

/* What the library is asked for. */
static struct library {
	void *handle;
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_version_info) *version_info;
	__typeof__(curl_easy_init) *init;
	__typeof__(curl_easy_cleanup) *cleanup;
	__typeof__(curl_easy_setopt) *setopt;
	__typeof__(curl_easy_perform) *perform;
	__typeof__(curl_easy_getinfo) *getinfo;
	__typeof__(curl_easy_strerror) *strerror;
	__typeof__(curl_slist_append) *append;
	__typeof__(curl_slist_free_all) *free_all;
} curl;

enum kind { SPANS, LOGS, METRICS, KINDS };

/* A request's member, where it goes, a member that each item has once, and how an answer counts those it refused. */
static const struct {
	const char *member, *path, *mark, *rejected, *one, *many;
} kinds[KINDS] = {
    [SPANS] = {"resourceSpans", "/v1/traces", "startTimeUnixNano", "rejectedSpans", "span", "spans"},
    [LOGS] = {"resourceLogs", "/v1/logs", "severityNumber", "rejectedLogRecords", "log record", "log records"},
    [METRICS] = {"resourceMetrics", "/v1/metrics", "dataPoints", "rejectedDataPoints", "table", "tables"},
};

struct request {
	struct request *next;
	enum kind kind;
	u64 items;
	size_t size;
	char text[];
};

struct dp_sender {
	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows, up to the thread's own */
	pthread_cond_t changed;
	struct request *first, **last; /* the first one may be under way */
	size_t bytes;
	bool ends;
	u64 give_up_ns; /* then; 0: not yet */
	u64 taken_ns;   /* when the collector last took something */
	u64 sent[KINDS], lost;
	char trouble[200]; /* why something was lost; empty: nothing was */

	/* The thread's own. */
	CURL *easy;
	struct curl_slist *headers;
	char *endpoint;
	char answer[ANSWER];
	size_t answered;
	char error[CURL_ERROR_SIZE];

	/* The reader's own. */
	struct dp_line rest; /* of a line that is not whole yet */
	u64 patience_ns;
	bool patient;
};

/* ---- the library ---- */

static bool load(void)
{
	static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
	const struct {
		const char *name;
		void *to;
	} functions[] = {
	    {"curl_global_init", &curl.global_init}, {"curl_version_info", &curl.version_info},
	    {"curl_easy_init", &curl.init},          {"curl_easy_cleanup", &curl.cleanup},
	    {"curl_easy_setopt", &curl.setopt},      {"curl_easy_perform", &curl.perform},
	    {"curl_easy_getinfo", &curl.getinfo},    {"curl_easy_strerror", &curl.strerror},
	    {"curl_slist_append", &curl.append},     {"curl_slist_free_all", &curl.free_all},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(names) && !curl.handle; i++)
		curl.handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	for (u32 i = 0; i < DP_ARRAY_SIZE(functions) && curl.handle; i++) {
		void *found = dlsym(curl.handle, functions[i].name);

		if (!found) {
			dlclose(curl.handle);
			curl.handle = NULL;
			break;
		}
		memcpy(functions[i].to, &found, sizeof(found));
	}
	return curl.handle;
}

const char *dp_sender_library(void)
{
	return curl.handle || load() ? curl.version_info(CURLVERSION_NOW)->version : NULL;
}

/* ---- the queue; all of these hold the lock ---- */

static void lose(struct dp_sender *s, const struct request *r, const char *why)
{
	s->lost += r->items;
	if (!s->trouble[0])
		dp_format(s->trouble, sizeof(s->trouble), "%s", why);
}

static void drop_first(struct dp_sender *s)
{
	struct request *r = s->first;

	s->first = r->next;
	if (!s->first)
		s->last = &s->first;
	s->bytes -= r->size;
	free(r);
	pthread_cond_broadcast(&s->changed);
}

/* Until something changes, or that time has come. */
static void wait_until(struct dp_sender *s, u64 ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

static bool has_room(const struct dp_sender *s, size_t n)
{
	return !s->first || s->bytes + n <= QUEUE_BYTES;
}

/* A recording's reader waits while the collector goes on taking what there is. */
static bool wait_for_room(struct dp_sender *s, size_t n)
{
	while (s->patient && !has_room(s, n) && dp_now_ns() - s->taken_ns < s->patience_ns)
		wait_until(s, s->taken_ns + s->patience_ns);
	return has_room(s, n);
}

/* ---- requests ---- */

/* A word that is the key of a member. Within a text its quotation marks have a backslash in front. */
static u64 count_items(const char *text, size_t n, const char *key)
{
	size_t len = strlen(key);
	u64 items = 0;

	for (const char *at = text, *end = text + n; (at = memmem(at, (size_t)(end - at), key, len)); at += len)
		items += at > text && at[-1] == '"' && (size_t)(end - at) > len && at[len] == '"';
	return items;
}

/* By its first member. KINDS: it is none of ours. */
static enum kind kind_of(const char *line)
{
	const char *quote = strchr(line, '"');
	enum kind kind = quote ? 0 : KINDS;

	while (kind < KINDS && strncmp(quote + 1, kinds[kind].member, strlen(kinds[kind].member)))
		kind++;
	return kind;
}

static bool queue_line(struct dp_sender *s, const char *text, size_t n)
{
	struct request *r = malloc(sizeof(*r) + n);
	enum kind kind = kind_of(text);

	if (!r || kind == KINDS) {
		free(r);
		return !r;
	}
	*r = (struct request){.kind = kind, .items = count_items(text, n, kinds[kind].mark), .size = n};
	memcpy(r->text, text, n);
	pthread_mutex_lock(&s->lock);
	if (wait_for_room(s, n)) {
		*s->last = r;
		s->last = &r->next;
		s->bytes += n;
		pthread_cond_broadcast(&s->changed);
	} else {
		lose(s, r, s->patient ? "the collector takes nothing" : "the collector is too slow: the queue is full");
		free(r);
	}
	pthread_mutex_unlock(&s->lock);
	return true;
}

bool dp_sender_take(void *sender, const char *text, size_t n)
{
	struct dp_sender *s = sender;
	const char *end = text + n, *line;

	while ((line = memchr(text, '\n', (size_t)(end - text)))) {
		dp_line_bytes(&s->rest, text, (size_t)(line - text));
		dp_line_char(&s->rest, '\0');
		if (s->rest.broken || !queue_line(s, s->rest.text, s->rest.n - 1))
			return false;
		dp_line_reset(&s->rest);
		text = line + 1;
	}
	dp_line_bytes(&s->rest, text, (size_t)(end - text));
	return !s->rest.broken;
}

/* ---- the thread ---- */

static size_t take_answer(char *text, size_t size, size_t n, void *arg)
{
	struct dp_sender *s = arg;
	size_t more = DP_MIN(size * n, sizeof(s->answer) - 1 - s->answered);

	memcpy(s->answer + s->answered, text, more);
	s->answered += more;
	s->answer[s->answered] = '\0';
	return size * n;
}

/* {"partialSuccess":{"rejectedSpans":"3"}} */
static u64 rejected(const struct dp_sender *s, enum kind kind)
{
	const char *at = strstr(s->answer, kinds[kind].rejected);

	return at ? strtoull(at + strcspn(at, "0123456789"), NULL, 10) : 0;
}

struct answer {
	long status;  /* 0: none came */
	u64 after_ns; /* when to ask again, as it wants; 0: it does not tell */
};

static struct answer post(struct dp_sender *s, const struct request *r, u64 limit_ns)
{
	struct answer a = {0};
	char url[1024];
	curl_off_t after = 0;

	dp_format(url, sizeof(url), "%s%s", s->endpoint, kinds[r->kind].path);
	s->answered = 0;
	s->answer[0] = s->error[0] = '\0';
	curl.setopt(s->easy, CURLOPT_URL, url);
	curl.setopt(s->easy, CURLOPT_POSTFIELDS, r->text);
	curl.setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->size);
	curl.setopt(s->easy, CURLOPT_TIMEOUT_MS, (long)(limit_ns / 1000000 + 1));
	if (curl.perform(s->easy) != CURLE_OK)
		return a;
	curl.getinfo(s->easy, CURLINFO_RESPONSE_CODE, &a.status);
	curl.getinfo(s->easy, CURLINFO_RETRY_AFTER, &after);
	a.after_ns = after > 0 ? (u64)after * 1000000000u : 0;
	return a;
}

/* What the specification says of answers: these are worth another try, as is none at all. */
static bool is_worth_it(long status)
{
	return !status || status == 429 || status == 502 || status == 503 || status == 504;
}

static void describe(const struct dp_sender *s, long status, char *why, size_t size)
{
	if (status)
		dp_format(why, size, "the collector's answer is %ld", status);
	else
		dp_format(why, size, "%.150s", s->error[0] ? s->error : "there is no answer");
}

/* One request, until it is taken, refused or given up. It stays in the queue meanwhile, which others only add to. */
static void send_first(struct dp_sender *s)
{
	const struct request *r = s->first;
	u64 wait = FIRST_WAIT_NS, until;
	struct answer a;
	char why[200];

	for (;;) {
		u64 now = dp_now_ns(), limit = s->ends ? s->give_up_ns - DP_MIN(now, s->give_up_ns) : s->patience_ns;

		pthread_mutex_unlock(&s->lock);
		a = post(s, r, limit);
		pthread_mutex_lock(&s->lock);
		if (!is_worth_it(a.status))
			break;
		until = dp_now_ns() + (a.after_ns ? DP_MIN(a.after_ns, LONGEST_WAIT_NS) : wait);
		wait = DP_MIN(wait * 2, LONGEST_WAIT_NS);
		describe(s, a.status, why, sizeof(why));
		while (dp_now_ns() < until && !(s->ends && dp_now_ns() >= s->give_up_ns))
			wait_until(s, s->ends ? DP_MIN(until, s->give_up_ns) : until);
		if (s->ends && dp_now_ns() >= s->give_up_ns) {
			lose(s, r, why);
			return;
		}
	}
	if (a.status / 100 == 2) {
		u64 refused = DP_MIN(rejected(s, r->kind), r->items);

		s->taken_ns = dp_now_ns();
		s->sent[r->kind] += r->items - refused;
		s->lost += refused;
		if (refused && !s->trouble[0])
			dp_format(s->trouble, sizeof(s->trouble), "the collector refused some of them");
		return;
	}
	describe(s, a.status, why, sizeof(why));
	lose(s, r, why);
}

static void *sends(void *arg)
{
	struct dp_sender *s = arg;

	pthread_mutex_lock(&s->lock);
	while (s->first || !s->ends) {
		if (!s->first) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		send_first(s);
		drop_first(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- begin and end ---- */

/* OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE,... False: no memory. */
static bool add_headers(struct dp_sender *s)
{
	const char *given = getenv("OTEL_EXPORTER_OTLP_HEADERS");
	char *text = strdup(given ? given : ""), *rest = NULL, line[1024];
	struct curl_slist *more = curl.append(NULL, "Content-Type: application/json");

	for (char *one = text ? strtok_r(text, ",", &rest) : NULL; one && more; one = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(one, '=');

		s->headers = more;
		if (!value || strpbrk(one, "\r\n"))
			continue;
		*value++ = '\0';
		dp_format(line, sizeof(line), "%s: %s", one + strspn(one, " "), value);
		more = curl.append(s->headers, line);
	}
	s->headers = more ? more : s->headers;
	free(text);
	return text && more;
}

static bool prepare(struct dp_sender *s)
{
	const char *trusted = getenv("OTEL_EXPORTER_OTLP_CERTIFICATE");

	s->easy = curl.global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl.init();
	if (!s->easy || !add_headers(s))
		return false;
	curl.setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
	curl.setopt(s->easy, CURLOPT_HTTPHEADER, s->headers);
	curl.setopt(s->easy, CURLOPT_USERAGENT, "dprobes");
	curl.setopt(s->easy, CURLOPT_WRITEFUNCTION, take_answer);
	curl.setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl.setopt(s->easy, CURLOPT_ERRORBUFFER, s->error);
	if (trusted && *trusted)
		curl.setopt(s->easy, CURLOPT_CAINFO, trusted);
	return true;
}

static void free_sender(struct dp_sender *s)
{
	while (s->first)
		drop_first(s);
	if (s->easy)
		curl.cleanup(s->easy);
	curl.free_all(s->headers);
	dp_line_free(&s->rest);
	free(s->endpoint);
	free(s);
}

/* No signal is delivered to it: they are the command's. */
static bool start_thread(struct dp_sender *s)
{
	pthread_condattr_t monotonic;
	sigset_t all, before;
	bool started;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&s->lock, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = !pthread_create(&s->thread, NULL, sends, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static bool is_url(const char *endpoint)
{
	return (!strncmp(endpoint, "http://", 7) && endpoint[7]) || (!strncmp(endpoint, "https://", 8) && endpoint[8]);
}

int dp_sender_new(struct dp_sender **out, const struct dp_sender_options *opt, struct dp_error *err)
{
	const char *time = getenv("OTEL_EXPORTER_OTLP_TIMEOUT");
	u64 ms = time ? strtoull(time, NULL, 10) : 0;
	size_t n = strlen(opt->endpoint);
	struct dp_sender *s;

	if (!is_url(opt->endpoint) || n > 900)
		return dp_fail(err, E_OTLP_ADDRESS, "%.150s", opt->endpoint);
	if (!dp_sender_library())
		return dp_fail(err, E_OTLP_BUILD, "%.150s", opt->endpoint);
	s = calloc(1, sizeof(*s));
	if (!s)
		return dp_fail(err, E_OTLP_START, "no memory");
	while (opt->endpoint[n - 1] == '/')
		n--;
	s->endpoint = strndup(opt->endpoint, n);
	s->last = &s->first;
	s->patient = opt->patient;
	s->patience_ns = (ms && ms < 86400000 ? ms : PATIENCE_MS) * 1000000;
	s->taken_ns = dp_now_ns();
	if (!s->endpoint || !prepare(s) || !start_thread(s)) {
		free_sender(s);
		return dp_fail(err, E_OTLP_START, "%.150s", opt->endpoint);
	}
	*out = s;
	return 0;
}

static void tell(const struct dp_sender *s, char *told, size_t size)
{
	struct dp_line l = {0};

	for (u32 i = 0; i < KINDS; i++)
		if (s->sent[i])
			dp_line_format(&l, "%s%llu %s", l.n ? ", " : "", (unsigned long long)s->sent[i],
				       s->sent[i] == 1 ? kinds[i].one : kinds[i].many);
	dp_line_format(&l, "%s sent to %s", l.n ? "" : "nothing was", s->endpoint);
	dp_format(told, size, "%.*s", (int)l.n, l.text ? l.text : "");
	dp_line_free(&l);
}

int dp_sender_end(struct dp_sender *s, char *told, size_t size, struct dp_error *err)
{
	int r = 0;

	pthread_mutex_lock(&s->lock);
	s->ends = true;
	s->give_up_ns = dp_now_ns() + s->patience_ns;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	tell(s, told, size);
	if (s->lost)
		r = dp_fail(err, E_OTLP_LOST, "%llu of them; %.150s", (unsigned long long)s->lost, s->trouble);
	free_sender(s);
	return r;
}
