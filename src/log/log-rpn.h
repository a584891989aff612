/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of probe programs: goes through one and hands it to the sink of a format. Records come from memory that the
 * probed program can overwrite: nothing in them is trusted.
 */
#ifndef DP_LOG_RPN_H
#define DP_LOG_RPN_H

#include "log/format.h"
#include "log/sink.h"

struct dp_record;
struct dp_rpn_probe;
struct dp_rpn_unit;

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
	u64 offset;                 /* of the probe in its module */
	u64 realtime_ns, ns;        /* ns: of the monotonic clock */
	dp_symbolize_fn *symbolize; /* NULL: addresses stay numbers */
	dp_code_file_fn *code_file; /* may be NULL */
	void *symbolize_arg;        /* for both */
	u32 pid;                    /* of the process; 0: the kernel */
	const struct dp_rf *rf;     /* the program's own description of its records; NULL: none */
	/* What a recording has of it: the program, and the probe or the body. They stay as long as the output. */
	const struct dp_rpn_unit *unit;
	const struct dp_rpn_probe *probe;
};

/* The heads of columns, in formats that have some; of records that are shown as events (struct dp_rf_event). */
void dp_rpn_log_head(struct dp_line *l, enum dp_format format, bool events);

/* False when the record is none of an RPN program. */
bool dp_rpn_log(struct dp_line *l, enum dp_format format, const struct dp_record *rec, const struct dp_rpn_context *c);

/* In the driver's file rows of its bytes follow each record that is text. The mark, which no text has, begins each. */
#define DP_RPN_RAW '\x1f'
void dp_rpn_log_raw(struct dp_line *l, const struct dp_record *rec);

/* The process as the record has it; 0: it is none of an RPN program. */
u32 dp_rpn_pid(const struct dp_record *rec);
/* Its first fields that are numbers: v[i] is set to the i-th one if the record has it. */
void dp_rpn_values(const struct dp_record *rec, u64 *v, u32 n);

/* The same through a sink of a format that is whole. */
bool dp_rpn_walk(struct dp_sink *s, const struct dp_record *rec, const struct dp_rpn_context *c);

/* The events that a program's records are of, at most one for each of its probes. Their number. */
u32 dp_rpn_events(const struct dp_rpn_unit *u, struct dp_event_info *to);

/* What entries and returns of one function have in common where lines are programs: dp_event_info.function. */
u64 dp_rpn_function(const char *module, const char *symbol);

/* One section of its data alone, with its record's flags. False, and nothing written, when the bytes do not parse. */
bool dp_rpn_log_section(struct dp_line *l, enum dp_format format, enum dp_sink_section what, u32 flags,
			const struct dp_rpn_context *c, const u8 *p, size_t n);

#endif
