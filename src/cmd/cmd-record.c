/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes record`: a trace whose output is a recording (log/recording.h): in a file, in several, or kept in memory. */
#include <signal.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd-trace.h"
#include "run/run-recover.h"

#define LIMIT_MIN (64u << 10)
#define LIMIT_MIN_NS 100000000u
#define MEMORY_MAX (1ull << 30) /* of a flight recorder that is told a time */

static volatile sig_atomic_t asked;

static void on_ask(int sig)
{
	asked = 1;
}

static void note(const char *text)
{
	dp_ui_note("written: %s", dp_ui_clean(text));
}

static void on_saved(void *arg, const char *text)
{
	dp_ui_note("%s", text);
}

/* So many bytes, or so long. A small m may be minutes. */
static int parse_limit(struct trace *t, const char *value, bool in_memory)
{
	struct dp_chunks *p = &t->chunks;
	size_t n = strlen(value);

	if (t->run.chunks) {
		dp_ui_fail(E_CMD_EXTRA, "leave out all but one", "several of --rotate and --last");
		return CMD_USAGE;
	}
	t->run.chunks = p;
	p->in_memory = in_memory;
	if (dp_cmd_parse_time(value, &p->ns) && p->ns >= LIMIT_MIN_NS) {
		p->bytes = in_memory ? MEMORY_MAX : 0;
		return 0;
	}
	p->ns = 0;
	p->bytes = n && value[n - 1] == 'm' ? 0 : dp_cmd_bytes(value);
	if (p->bytes >= LIMIT_MIN)
		return 0;
	dp_ui_fail(E_CMD_VALUE, "give bytes, such as 64M, or a time, such as 30s or 10min", "'%s' is no limit%s", value,
		   p->bytes ? ": it is too small" : "");
	return CMD_USAGE;
}

int dp_cmd_record_option(struct trace *t, int id, const char *value)
{
	switch (id) {
	case OPT_DUMP_ON:
		t->dump_on = value;
		return 0;
	case OPT_KEEP:
		return dp_cmd_parse_count(value, &t->keep) ? 0 : CMD_USAGE;
	default: /* OPT_LAST, OPT_ROTATE */
		return parse_limit(t, value, id == OPT_LAST);
	}
}

static int check(struct trace *t)
{
	struct dp_chunks *p = t->run.chunks;

	if (!t->out_path)
		return dp_ui_fail(E_CMD_MISSING, "name the file: -o run.dpt", "nowhere to record to");
	if (p && !strcmp(t->out_path, "-"))
		return dp_ui_fail(E_CMD_VALUE, "name the file: -o run.dpt", "-o -: --rotate and --last write files");
	if (t->keep && (!p || p->in_memory))
		return dp_ui_fail(E_CMD_MISSING, "for example --rotate 100M", "--keep, and no --rotate");
	if ((t->dump_on || t->rule.asks) && (!p || !p->in_memory))
		return dp_ui_fail(E_CMD_MISSING, "for example --last 64M", "--dump-on, and no --last");
	return CMD_OK;
}

static void set_up(struct trace *t)
{
	struct sigaction sa = {.sa_handler = on_ask, .sa_flags = SA_RESTART};
	struct dp_chunks *p = t->run.chunks;

	if (!p)
		return;
	p->path = t->out_path;
	p->keep = (u32)DP_MIN(t->keep, (u64)UINT32_MAX);
	p->on_event = t->dump_on;
	p->asked = &asked;
	p->note = t->quiet ? NULL : note;
	if (p->in_memory)
		sigaction(SIGUSR1, &sa, NULL);
}

int dp_cmd_record_begin(struct trace *t)
{
	int status = check(t);

	if (status != CMD_OK)
		return status;
	set_up(t);
	dp_recover_chunks(on_saved, NULL);
	return CMD_OK;
}

int dp_cmd_record(int argc, char **argv)
{
	struct trace t = {.status = CMD_OK, .format = DP_FORMAT_RECORDING};
	bool done = false;

	if (dp_cmd_traces_program(argc, argv))
		return dp_cmd_record_program(argc, argv);
	t.status = dp_cmd_trace_parse(&t, VERB_RECORD, argc, argv, &done);
	if (!t.status && !done)
		t.status = dp_cmd_record_begin(&t);
	if (t.status != CMD_OK || done)
		return dp_cmd_trace_drop(&t);
	dp_cmd_trace_parsed(&t);
	dp_chunks_free(&t.chunks);
	return t.status;
}
