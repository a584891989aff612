/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A checked view of a record's fields: records may come from memory that the probed program can
 * overwrite. Shared by the formats and the kernel's trace files.
 */
#ifndef DP_VIEW_H
#define DP_VIEW_H

#include "abi/abi-record.h"
#include "log/line.h"
#include "program/program.h"

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

/* Elements of an array to show: those of a call chain end where it ends. */
unsigned dp_view_count(const struct dp_view *v, unsigned i);

/* Element `at` of field `i`; 0 for what is not an array. */
struct dp_value dp_view_value(const struct dp_view *v, unsigned i, unsigned at);

/* The name of the task that the record brings along: DP_COMM_SIZE bytes, perhaps without a NUL. NULL: none. */
static inline const char *dp_view_comm(const struct dp_record *rec)
{
	bool has = rec->flags & DP_REC_COMM && rec->len >= sizeof(*rec) + DP_COMM_SIZE;

	return has ? (const char *)rec + rec->len - DP_COMM_SIZE : NULL;
}

/* The return address of a return event. */
bool dp_view_ret_addr(const struct dp_view *v, u64 *addr);

static inline bool dp_field_is_signed(const struct dp_field *f)
{
	return f->type >= DP_FIELD_S8 && f->type <= DP_FIELD_S64;
}

static inline bool dp_field_is_address(const struct dp_field *f)
{
	return f->type == DP_FIELD_SYMBOL || f->type == DP_FIELD_FRAME;
}

static inline bool dp_field_is_hex(const struct dp_field *f)
{
	return f->type >= DP_FIELD_X8 && f->type <= DP_FIELD_X64;
}

#endif
