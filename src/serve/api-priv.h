/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The inside of a client's process: its insertions, each a `dprobes trace`, and what they send. */
#ifndef DP_API_PRIV_H
#define DP_API_PRIV_H

#include <json-c/json.h>
#include <sys/types.h>

#include "log/line.h"
#include "serve/api.h"

#define DP_API_INSERTIONS_MAX 16
#define DP_API_LINE_MAX (4u << 20) /* of what a trace writes */
#define DP_API_TABLES_MAX 256

enum dp_api_state { DP_API_STARTING, DP_API_RUNNING, DP_API_ENDED };

struct dp_api_wanted { /* what an insertion is to be; texts are the request's */
	pid_t pid;
	const char *const *lines;
	u32 nlines;
	const char *program; /* NULL: lines */
	double seconds;
	u64 rate;
	bool streams;
};

struct dp_api_stream { /* lines that come out of a pipe */
	int fd;
	char *text;
	size_t n;
};

struct dp_api_insertion {
	u32 id; /* 0: free */
	enum dp_api_state state;
	pid_t trace, pid;
	struct dp_api_stream out, messages;
	struct json_object *request; /* the id of the request that waits for its reply; NULL: it has it */
	struct json_object *error;   /* why it has ended, as the trace tells it; NULL: nothing went wrong */
	struct json_object *summary; /* counts at the end */
	struct json_object *wanted;  /* its parameters */
	struct dp_api_table {
		struct json_object *latest;
		size_t size; /* as text */
	} tables[DP_API_TABLES_MAX];
	u32 ntables;
	bool has_more_tables; /* than are kept */
	u64 records, dropped, begun_ns;
	double seconds;
	bool streams, removed;
};

/* E_SERVE_START. */
int dp_api_start(struct dp_api_insertion *i, const struct dp_api *api, const struct dp_api_wanted *w,
		 struct dp_error *err);
void dp_api_stop(struct dp_api_insertion *i);
void dp_api_forget(struct dp_api_insertion *i); /* waits for its end */

/* Reads what there is, and gives each line to take. False: nothing more will come. */
bool dp_api_read(struct dp_api_stream *s, void (*take)(void *arg, struct json_object *o), void *arg);

#endif
