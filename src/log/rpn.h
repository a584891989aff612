/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of RPN programs as text, in the two lines that Dynamic Probes writes to the system log,
 * and as JSON lines. Records come from memory that the probed program can overwrite: nothing in
 * them is trusted.
 */
#ifndef DP_LOG_RPN_H
#define DP_LOG_RPN_H

#include "hit/hit.h"
#include "log/line.h"
#include "log/symbol.h"

/* Which fields the first line shows (--log). */
enum dp_rpn_log_fields {
	DP_RPN_LOG_PROCNAME = 0x0100,
	DP_RPN_LOG_PID = 0x0200,
	DP_RPN_LOG_UID = 0x0400,
	DP_RPN_LOG_SSESP = 0x0800,
	DP_RPN_LOG_CSEIP = 0x1000,
	DP_RPN_LOG_TSC = 0x2000,
	DP_RPN_LOG_CPU = 0x4000,
	DP_RPN_LOG_ALL = 0xff00,
	DP_RPN_LOG_UNFORMATTED = 0x200000, /* the data as bare hex on one line */
};

struct dp_rf;

struct dp_rpn_context { /* what is known of a record beside its bytes */
	const char *module, *comm;
	u32 fields; /* enum dp_rpn_log_fields */
	u32 id;
	u32 uid;
	u64 offset; /* of the probe in its module */
	u64 realtime_ns;
	dp_symbolize_fn *symbolize; /* NULL: addresses stay numbers */
	void *symbolize_arg;
	const struct dp_rf *rf; /* the program's own description of its records; NULL: none */
};

/* False when the record is none of an RPN program. */
bool dp_rpn_log_text(struct dp_line *l, const struct dp_record *rec,
		     const struct dp_rpn_context *c);
bool dp_rpn_log_json(struct dp_line *l, const struct dp_record *rec,
		     const struct dp_rpn_context *c);

/* The items as a JSON array: {"ascii":"text"}, {"memory":"hex"}, {"words":[...]}, ... False when
 * they do not parse. */
bool dp_rpn_items_json(struct dp_line *l, const u8 *p, size_t n);

/* The traces of a stack-trace record likewise; what was cut off is left out. */
void dp_rpn_traces_json(struct dp_line *l, const u8 *p, size_t n);

#endif
