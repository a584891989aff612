/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Collects event lines. What they mean is the event front end's business. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/events.h"

int dp_event_lines_add(struct event_lines *e, const char *text, const char *where, struct dp_error *err)
{
	struct event_line *v = realloc(e->v, (e->n + 1) * sizeof(*v));

	if (!v)
		return dp_fail(err, E_CMD_EVENTS, "no memory");
	e->v = v;
	v[e->n] = (struct event_line){.text = strdup(text), .where = strdup(where)};
	if (!v[e->n].text || !v[e->n].where) {
		free(v[e->n].text);
		free(v[e->n].where);
		return dp_fail(err, E_CMD_EVENTS, "no memory");
	}
	e->n++;
	return 0;
}

int dp_event_lines_read(struct event_lines *e, const char *path, struct dp_error *err)
{
	bool is_stdin = !strcmp(path, "-");
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	size_t room = 0;
	char *line = NULL, where[300];
	int number = 0, r = 0;
	ssize_t n;

	if (!f)
		return dp_fail(err, E_CMD_EVENTS, "%s: %s", path, strerror(errno));
	while (!r && (n = getline(&line, &room, f)) >= 0) {
		char *start = line + strspn(line, " \t");

		number++;
		if (strlen(line) != (size_t)n) {
			r = dp_fail(err, E_CMD_EVENTS, "%s:%d: not a line of text", path, number);
			break;
		}
		line[strcspn(line, "\r\n")] = '\0';
		if (!*start || *start == '#')
			continue;
		snprintf(where, sizeof(where), "%s:%d: ", path, number);
		r = dp_event_lines_add(e, line, where, err);
	}
	if (!r && ferror(f))
		r = dp_fail(err, E_CMD_EVENTS, "%s: %s", path, strerror(errno));
	free(line);
	if (!is_stdin)
		fclose(f);
	return r;
}

int dp_event_lines_default(struct event_lines *e, struct dp_error *err)
{
	static const char *const lines[] = {
	    "p:open libc:open64 path=+0($arg1):string flags=$arg2:x32",
	    "p:openat libc:openat64 path=+0($arg2):string flags=$arg3:x32",
	    "p:fopen libc:fopen64 path=+0($arg1):string mode=+0($arg2):string",
	    "p:execve libc:execve path=+0($arg1):string",
	    "p:unlink libc:unlink path=+0($arg1):string",
	    "p:rename libc:rename from=+0($arg1):string to=+0($arg2):string",
	    "p:mkdir libc:mkdir path=+0($arg1):string mode=$arg2:x32",
	    "p:connect libc:connect fd=$arg1:s32",
	    "p:kill libc:kill pid=$arg1:s32 signal=$arg2:s32",
	    "p:exit libc:exit status=$arg1:s32",
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(lines); i++) {
		int r = dp_event_lines_add(e, lines[i], "", err);

		if (r)
			return r;
		e->v[e->n - 1].optional = true;
	}
	return 0;
}

void dp_event_lines_parse(struct event_lines *e, bool is_kernel)
{
	for (u32 i = 0; i < e->n; i++) {
		dp_event_line_free(e->v[i].parsed);
		e->v[i].err = (struct dp_error){0};
		dp_event_read(&e->v[i].parsed, e->v[i].text, is_kernel, &e->v[i].err);
	}
}

void dp_event_lines_free(struct event_lines *e)
{
	for (u32 i = 0; i < e->n; i++) {
		dp_event_line_free(e->v[i].parsed);
		free(e->v[i].text);
		free(e->v[i].where);
		free(e->v[i].added);
	}
	free(e->v);
	*e = (struct event_lines){NULL};
}
