/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* An insertion: a `dprobes trace` that ends by itself, its records and tables, and its messages (doc/output.md). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "base/nowhere.h"
#include "serve/api-priv.h"

#define MESSAGES_FD 3

static _Noreturn void become_trace(char **argv, int out, int messages, pid_t parent)
{
	int null = dp_open_nowhere();

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(126);
	if (messages == MESSAGES_FD ? fcntl(messages, F_SETFD, 0) : dup2(messages, MESSAGES_FD) < 0)
		_exit(126);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(126);
	setenv("DPROBES_MESSAGES", "json:3", 1);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static int fork_trace(struct dp_api_insertion *i, char **argv, struct dp_error *err)
{
	pid_t parent = getpid();
	int out[2], messages[2];

	if (pipe2(out, O_CLOEXEC))
		return dp_fail(err, E_SERVE_START, "%s", strerror(errno));
	if (pipe2(messages, O_CLOEXEC)) {
		close(out[0]);
		close(out[1]);
		return dp_fail(err, E_SERVE_START, "%s", strerror(errno));
	}
	i->trace = fork();
	if (i->trace == 0)
		become_trace(argv, out[1], messages[1], parent);
	close(out[1]);
	close(messages[1]);
	i->out.fd = out[0];
	i->messages.fd = messages[0];
	if (i->trace > 0)
		return 0;
	close(out[0]);
	close(messages[0]);
	return dp_fail(err, E_SERVE_START, "%s", strerror(errno));
}

int dp_api_start(struct dp_api_insertion *i, const struct dp_api *api, const struct dp_api_wanted *w,
		 struct dp_error *err)
{
	const char *argv[16 + 2 * DP_API_LINES_MAX] = {"dprobes", "trace", "--json", "-p"};
	char pid[16], seconds[32], rate[24];
	u32 n = 4;

	snprintf(pid, sizeof(pid), "%d", (int)w->pid);
	snprintf(seconds, sizeof(seconds), "%.3f", w->seconds);
	snprintf(rate, sizeof(rate), "%llu", (unsigned long long)w->rate);
	argv[n++] = pid;
	argv[n++] = "--duration";
	argv[n++] = seconds;
	argv[n++] = "--max-rate";
	argv[n++] = rate;
	if (!api->allows_writes)
		argv[n++] = "--read-only";
	if (w->program || api->has_tables(w->lines, w->nlines)) {
		argv[n++] = "--interval";
		argv[n++] = "0.5";
	}
	for (u32 k = 0; k < (w->program ? 1 : w->nlines); k++) {
		argv[n++] = "-e";
		argv[n++] = w->program ? w->program : w->lines[k];
	}
	i->begun_ns = dp_now_ns();
	i->seconds = w->seconds;
	i->pid = w->pid;
	i->streams = w->streams;
	return fork_trace(i, (char **)argv, err);
}

void dp_api_stop(struct dp_api_insertion *i)
{
	if (i->trace > 0)
		kill(i->trace, SIGTERM);
}

static void end_stream(struct dp_api_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->text);
	*s = (struct dp_api_stream){.fd = -1};
}

void dp_api_forget(struct dp_api_insertion *i)
{
	end_stream(&i->out); /* it waits for nobody who reads */
	end_stream(&i->messages);
	if (i->trace > 0)
		waitpid(i->trace, NULL, 0);
	json_object_put(i->request);
	json_object_put(i->error);
	json_object_put(i->summary);
	json_object_put(i->wanted);
	for (u32 k = 0; k < i->ntables; k++)
		json_object_put(i->tables[k].latest);
	*i = (struct dp_api_insertion){.out.fd = -1, .messages.fd = -1};
}

static void take_lines(struct dp_api_stream *s, void (*take)(void *arg, struct json_object *o), void *arg)
{
	char *at = s->text, *end;

	while ((end = memchr(at, '\n', s->n - (size_t)(at - s->text)))) {
		struct json_object *o;

		*end = '\0';
		o = json_tokener_parse(at);
		if (json_object_is_type(o, json_type_object))
			take(arg, o);
		json_object_put(o);
		at = end + 1;
	}
	s->n -= (size_t)(at - s->text);
	memmove(s->text, at, s->n);
}

bool dp_api_read(struct dp_api_stream *s, void (*take)(void *arg, struct json_object *o), void *arg)
{
	ssize_t n;

	if (!s->text)
		s->text = malloc(DP_API_LINE_MAX);
	if (!s->text || s->n == DP_API_LINE_MAX)
		return false;
	n = read(s->fd, s->text + s->n, DP_API_LINE_MAX - s->n);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return false;
	s->n += (size_t)n;
	take_lines(s, take, arg);
	return true;
}
