/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Messages for programs: with DPROBES_MESSAGES=json each message is an object on a line, on standard error or on a
 * descriptor of their own (doc/output.md). ui.c and summary.c ask here whether that is wanted. dpcc does not have it.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

#define WANTED "DPROBES_MESSAGES"

static FILE *to; /* NULL: messages are for people */

/* "json", or "json:N" for a descriptor that programs which we start do not get. NULL: neither. */
static FILE *stream_of(const char *text)
{
	char *end;
	long n;

	if (!strcmp(text, "json"))
		return stderr;
	if (strncmp(text, "json:", 5))
		return NULL;
	n = strtol(text + 5, &end, 10);
	if (end == text + 5 || *end || n <= STDERR_FILENO || n > INT_MAX || fcntl((int)n, F_SETFD, FD_CLOEXEC))
		return NULL;
	return fdopen((int)n, "w");
}

int dp_ui_messages_begin(void)
{
	const char *text = getenv(WANTED);
	int r = CMD_OK;

	if (text && *text && strcmp(text, "text")) {
		to = stream_of(text);
		if (!to)
			r = dp_ui_fail(E_CMD_VALUE, "use json, json:DESCRIPTOR or text", WANTED " is '%s'", text);
	}
	unsetenv(WANTED); /* programs that we start have messages of their own */
	return r;
}

bool dp_ui_messages_json(void)
{
	return to;
}

void dp_ui_message_open(struct dp_json *j, const char *what)
{
	dp_json_open(j, '{');
	dp_json_key(j, what);
}

void dp_ui_message_close(struct dp_json *j)
{
	dp_json_close(j, '}');
	dp_ui_json_write(j, to);
	fflush(to);
}

void dp_ui_message_error(const struct dp_error *err, const char *hint, const char *text)
{
	const struct dp_error_info *info = dp_error_info(err->code);
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_ui_message_open(&j, "error");
	dp_json_open(&j, '{');
	dp_json_put_string(&j, "code", info->name);
	dp_json_put_string(&j, "message", info->sentence);
	dp_json_put_string(&j, "detail", err->detail);
	dp_json_put_string(&j, "hint", hint);
	if (text) {
		dp_json_put_string(&j, "text", text);
		if (err->column >= 0)
			dp_json_put_unsigned(&j, "column", (u64)err->column);
	}
	dp_json_close(&j, '}');
	dp_ui_message_close(&j);
}

void dp_ui_message_note(const char *text, size_t n)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_ui_message_open(&j, "note");
	dp_json_text(&j, text, n);
	dp_ui_message_close(&j);
}

void dp_ui_ready(void)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	if (!to)
		return;
	dp_ui_message_open(&j, "ready");
	dp_json_bool(&j, true);
	dp_ui_message_close(&j);
}

/* ---- remarks that others write as lines ---- */

static ssize_t take_lines(void *arg, const char *text, size_t n)
{
	struct dp_line *rest = arg; /* of a line that is not whole yet */

	for (size_t i = 0; i < n; i++) {
		if (text[i] != '\n') {
			dp_line_char(rest, text[i]);
			continue;
		}
		if (!rest->broken && rest->n)
			dp_ui_message_note(rest->text, rest->n);
		dp_line_reset(rest);
	}
	return (ssize_t)n;
}

FILE *dp_ui_notes(void)
{
	static struct dp_line rest;
	static FILE *lines;

	if (!to)
		return stderr;
	if (!lines) {
		lines = fopencookie(&rest, "w", (cookie_io_functions_t){.write = take_lines});
		if (lines)
			setvbuf(lines, NULL, _IONBF, 0);
	}
	return lines ? lines : stderr;
}
