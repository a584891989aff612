/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the formats share: the formatter, task names, and the checked view of a record's fields. */
#ifndef DP_FORMAT_PRIV_H
#define DP_FORMAT_PRIV_H

#include "log/format.h"
#include "log/line.h"

#define DP_TASKS 4096 /* names kept; a power of two */

struct dp_task {
	u32 tid;
	u32 ours; /* the same thread's id as we know it, 0: not looked up */
	bool known;
	char comm[16];
	u64 looked_ns; /* when it was last looked up */
};

struct dp_formatter {
	enum dp_format format;
	FILE *out;
	struct dp_format_env env;
	struct dp_line line;
	struct dp_task *tasks; /* by the low bits of the id */
};

/* The thread's name, or "<...>". */
const char *dp_task_name(struct dp_formatter *f, u32 tid, u64 ns);
u32 dp_task_id(struct dp_formatter *f, u32 tid); /* as we know it; after dp_task_name() */

enum dp_value_state {
	DP_VALUE_OK,
	DP_VALUE_FAULT, /* the memory could not be read */
	DP_VALUE_CUT,   /* the record was shortened and does not hold it */
};

struct dp_value {
	enum dp_value_state state;
	u64 bits;         /* numbers: zero-extended; signed ones sign-extended */
	const char *text; /* strings, without the NUL */
	size_t len;
};

/* A record with its layout. */
struct dp_view {
	const struct dp_record *rec;
	const struct dp_layout *layout;
	const u8 *payload;
	size_t size;
};

void dp_view_init(struct dp_view *v, const struct dp_record *rec, const struct dp_layout *layout);

/* Element `at` of field `i`; 0 for what is not an array. */
struct dp_value dp_view_value(const struct dp_view *v, unsigned i, unsigned at);

/* The return address of a return event. */
bool dp_view_ret_addr(const struct dp_view *v, u64 *addr);

static inline bool dp_field_is_signed(const struct dp_field *f)
{
	return f->type >= DP_FIELD_S8 && f->type <= DP_FIELD_S64;
}

static inline bool dp_field_is_hex(const struct dp_field *f)
{
	return f->type >= DP_FIELD_X8 && f->type <= DP_FIELD_X64;
}

void dp_format_text(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev);
void dp_format_json(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev);

#endif
