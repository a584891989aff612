/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes serve`: the tables of inserted programs, and of lines that are traced while it runs, for Prometheus. HTTP is
 * answered by a child without privileges (serve/serve.h); this process only collects.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd-trace.h"
#include "cmd/cmd.h"
#include "cmd/probes.h"
#include "cmd/trace-lines.h"
#include "driver/driver.h"
#include "run/run.h"
#include "serve/api.h"
#include "serve/serve.h"

struct server {
	struct trace t; /* lines, and whom they are for */
	const char *address;
	bool is_public;
	struct dp_listener listener;
	struct dp_exporter exporter;
	const char *api_address;
	struct dp_listener api_listener;
	struct dp_api api;
};

#define API_ADDRESS "unix:/run/dprobes-api.sock"

static int take_option(void *arg, int id, const char *value)
{
	struct server *s = arg;

	switch (id) {
	case OPT_LISTEN:
		if (s->address)
			return dp_ui_fail(E_CMD_EXTRA, "give one address", "--listen %s", value);
		s->address = value;
		return CMD_OK;
	case OPT_API:
		if (s->api_address)
			return dp_ui_fail(E_CMD_EXTRA, "give one address", "--api %s", value);
		s->api_address = value;
		return CMD_OK;
	case OPT_ALLOW_WRITES:
		s->api.allows_writes = true;
		return CMD_OK;
	case OPT_PUBLIC:
		s->is_public = true;
		return CMD_OK;
	default:
		return dp_cmd_trace_line_option(&s->t, id, value);
	}
}

/* Nothing beside it that is for metrics. */
static int check_api(const struct server *s)
{
	if (s->address || s->is_public || s->t.lines.n || dp_select_any(&s->t.select) || s->t.opt.allow_trap ||
	    s->t.ndefines)
		return dp_ui_fail(E_CMD_EXTRA, "serve metrics by another `dprobes serve`",
				  "--api, and events or options for metrics");
	if (strncmp(s->api_address, "unix:", 5))
		return dp_ui_fail(E_CMD_VALUE, "give " API_ADDRESS, "--api %s is not a socket", s->api_address);
	return CMD_OK;
}

static int parse(struct server *s, int argc, char **argv, bool *done)
{
	int r = dp_cmd_options(VERB_SERVE, argc, argv, take_option, s, NULL, done);
	bool selects = dp_select_any(&s->t.select);

	if (r || *done)
		return r;
	if (s->api_address)
		return check_api(s);
	if (s->api.allows_writes)
		return dp_ui_fail(E_CMD_EXTRA, "give --api, or leave it out", "--allow-writes");
	if (!s->address)
		return dp_ui_fail(E_CMD_MISSING, "for example --listen 127.0.0.1:9464", "no --listen ADDRESS");
	if (!s->t.lines.n)
		return !selects ? CMD_OK : dp_ui_fail(E_CMD_MISSING, "for example 'p libc:malloc count'", "no event");
	if (!selects)
		return dp_ui_fail(E_CMD_MISSING, "give processes with -p, or --all FILE", "no process to probe");
	dp_event_lines_parse(&s->t.lines, false);
	if (!dp_cmd_lines_need_compiler(&s->t.lines))
		return dp_ui_fail(E_CMD_VALUE, "add a table, such as `count` or `hist(VALUE)`",
				  "the lines have no tables, and only these can be served");
	return CMD_OK;
}

/* What the run of the lines tells; NULL: nothing. */
static char *own_metrics(struct dp_run *run)
{
	const struct dp_run_request rq = {.op = DP_RUN_METRICS};
	struct dp_error err = {0};
	char *text = NULL;
	size_t n = 0;
	FILE *f = run ? open_memstream(&text, &n) : NULL;

	if (!f)
		return NULL;
	dp_run_request(run, &rq, "", NULL, f, &err);
	fclose(f);
	return text;
}

/* A question of the child. False: it has ended. */
static bool answer(void *arg, struct dp_run *run)
{
	struct server *s = arg;
	struct dp_error err = {0};
	char *driver = NULL, *own;
	bool good;

	if (!dp_exporter_asks(&s->exporter))
		return false;
	if (dp_driver_metrics(&driver, &err)) {
		free(driver);
		driver = NULL;
	}
	own = own_metrics(run);
	good = dp_exporter_answer(&s->exporter, driver, own);
	free(driver);
	free(own);
	return good;
}

static void tell_ready(void *arg)
{
	const struct dp_listener *l = &((const struct server *)arg)->listener;

	dp_ui_note("serving %s%s%s", l->is_path ? "the socket " : "http://", l->name, l->is_path ? "" : "/metrics");
}

/* Without lines there is nothing to do but to answer. */
static int wait_for_questions(struct server *s)
{
	struct pollfd p = {.fd = s->exporter.fd, .events = POLLIN};

	tell_ready(s);
	while (!dp_cmd_stop)
		if (poll(&p, 1, 500) == 1 && !answer(s, NULL))
			return dp_ui_fail(E_SERVE_START, NULL, "the process that answers HTTP has ended");
	return CMD_OK;
}

static int run(struct server *s)
{
	struct dp_error err = {0};
	int status;

	dp_cmd_catch_signals();
	if (dp_listener_open(&s->listener, s->address, s->is_public, &err) ||
	    dp_exporter_start(&s->exporter, &s->listener, &err)) {
		dp_ui_error(&err, NULL);
		dp_listener_close(&s->listener);
		return dp_ui_status(err.code);
	}
	s->t.wake_fd = s->exporter.fd;
	s->t.on_ready = tell_ready;
	s->t.on_wake = answer;
	s->t.wake_arg = s;
	s->t.quiet = true;
	status = s->t.lines.n ? dp_cmd_trace_lines(&s->t) : wait_for_questions(s);
	dp_exporter_end(&s->exporter);
	dp_listener_close(&s->listener);
	return status;
}

/* ---- requests of programs ---- */

static bool has_tables(const char *const *lines, u32 n)
{
	struct event_lines e = {0};
	struct dp_error err;
	bool has;

	for (u32 i = 0; i < n; i++)
		dp_event_lines_add(&e, lines[i], "", &err);
	dp_event_lines_parse(&e, false);
	has = dp_cmd_lines_need_compiler(&e);
	dp_event_lines_free(&e);
	return has;
}

static int run_api(struct server *s)
{
	struct pollfd p = {.events = POLLIN};
	struct dp_error err = {0};

	if (!dp_api_built())
		return dp_ui_fail(E_SERVE_BUILD, NULL, "--api");
	dp_cmd_catch_signals();
	if (dp_listener_open(&s->api_listener, s->api_address, false, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	s->api.has_tables = has_tables;
	dp_ui_note("serving the socket %s", s->api_listener.name);
	p.fd = s->api_listener.fd;
	while (!dp_cmd_stop)
		if (poll(&p, 1, 500) == 1)
			dp_api_accept(&s->api, p.fd);
		else
			dp_api_reap();
	dp_listener_close(&s->api_listener);
	return CMD_OK;
}

int dp_cmd_serve(int argc, char **argv)
{
	struct server s = {.listener.fd = -1, .api_listener.fd = -1, .exporter = {.fd = -1, .pid = -1}};
	bool done = false;
	int status = parse(&s, argc, argv, &done);

	if (status == CMD_OK && !done)
		status = s.api_address ? run_api(&s) : run(&s);
	dp_cmd_trace_drop(&s.t);
	dp_probes_args_free(&(struct probes_args){.defines = s.t.defines, .ndefines = s.t.ndefines});
	return status;
}
