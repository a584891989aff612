/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The estimate of what hits have cost. `make bench` measures it, and compares (bench-cost.py). */
#include <string.h>

#include "host/measure/measure.h"
#include "program/code.h"
#include "program/opcode.h"
#include "run/run-trace.h"

/* In nanoseconds, beside what is measured on the machine. */
#define HIT 3
#define RECORD 5
#define HIT_INTERPRETED 12
#define RECORD_INTERPRETED 15
#define LOADS 8     /* the first word that is loaded, instead of a read by the system */
#define LOADED 2    /* a word, or a piece of a text, that a read of memory has brought */
#define CALLERS 105 /* a chain of some eight callers */
#define KEY 8       /* of a table, found again */
#define COUNTED 30  /* a locked operation */
#define CHAIN 30    /* known by what the thread has found before */
#define FOLDED 30   /* into an aggregate */

/* The same of programs that are plain. */
#define PLAIN_LOADS 5
#define PLAIN_LOADED 0.5
#define PLAIN_KEY 3
#define PLAIN_COUNTED 1
#define PLAIN_FOLDED 2 /* to what the processor keeps apart */

/* What the instruction takes where it is not a few cycles. *reads: it reads memory. */
static double cost_of(const struct dp_op_view *op, bool is_plain, bool *reads)
{
	switch (op->opcode) {
	case DP_OP_LD8 ... DP_OP_LD64:
	case DP_OP_PUSH_MEM8 ... DP_OP_PUSH_MEM64:
	case DP_OP_LOGSTR:
	case DP_OP_LOGSTR_S:
	case DP_OP_LOG_STR:
	case DP_OP_STR:
	case DP_OP_LOGM:
	case DP_OP_LOGM_S:
	case DP_OP_LOG_MRF:
		*reads = true;
		return is_plain ? PLAIN_LOADED : LOADED;
	case DP_OP_LOGCOMM:
	case DP_OP_STRCOMM:
		return 2 * dp_measure_call_ns(); /* prctl() */
	case DP_OP_LOG_ST:
	case DP_OP_PUSH_FRAMES:
		return CALLERS;
	case DP_OP_PUSH_CHAIN:
		return CHAIN;
	case DP_OP_INC_LV:
	case DP_OP_INC_GV:
		return is_plain ? PLAIN_COUNTED : COUNTED;
	case DP_OP_FIND_LV:
		return is_plain ? PLAIN_KEY : KEY;
	case DP_OP_FOLD_LV:
		return is_plain ? PLAIN_FOLDED : FOLDED;
	default:
		return 0;
	}
}

/* What lies close together comes with one read. Measured only for programs that read: it takes a thousand calls. */
static double reads_ns(bool reads, struct dp_trace_way way)
{
	if (!reads)
		return 0;
	if (!way.loads)
		return dp_measure_read_ns();
	return way.needs_slot ? LOADS : PLAIN_LOADS;
}

void dp_trace_row_program(struct dp_trace_row *row, const struct dp_program *prog, struct dp_trace_way way)
{
	double ns = 0, filtered = -1;
	bool reads = false;
	struct dp_op_view op;

	for (u32 at = 0; at < prog->len && !dp_op_decode(prog->code, prog->len, at, &op); at += op.len) {
		if (filtered < 0 && (op.opcode == DP_OP_REC || op.opcode == DP_OP_RECM))
			filtered = ns + reads_ns(reads, way);
		ns += cost_of(&op, !way.needs_slot, &reads);
	}
	ns += reads_ns(reads, way);
	row->interpreted |= way.interpreted;
	row->run_ns = DP_MAX(row->run_ns, ns);
	row->filtered_ns = DP_MAX(row->filtered_ns, filtered < 0 ? ns : filtered);
}

double dp_trace_cost_ns(const struct dp_trace_row *row)
{
	const u64 *v = row->counts.v;
	u64 records = v[DP_COUNT_RECORDED] + v[DP_COUNT_LOST];
	double ns = (double)row->hits * (row->interpreted ? HIT_INTERPRETED : HIT);

	if (records)
		ns += (double)records * ((row->interpreted ? RECORD_INTERPRETED : RECORD) + dp_measure_stamp_ns());
	ns += (double)(records + v[DP_COUNT_PASSED]) * row->run_ns + (double)v[DP_COUNT_FILTERED] * row->filtered_ns;
	if (row->hits && strstr(row->via, "trap"))
		ns += (double)row->hits * dp_measure_signal_ns();
	else if (row->hits && strstr(row->via, "watch"))
		ns += (double)row->hits * (dp_measure_watch_ns() + dp_measure_signal_ns());
	return ns;
}

void dp_trace_row_finish(struct dp_trace_row *row, struct dp_trace_row *total)
{
	row->hits = dp_counts_hits(&row->counts);
	row->cost_ns = dp_trace_cost_ns(row);
	for (int k = 0; k < DP_NCOUNTS; k++)
		total->counts.v[k] += row->counts.v[k];
	total->hits += row->hits;
	total->cost_ns += row->cost_ns;
}

const char *dp_trace_row_via(const struct dp_probe_info *info)
{
	bool trap = info->outcome == DP_OUTCOME_TRAP;

	if (info->absent)
		return info->absent;
	if (info->via)
		return info->via;
	if (info->outcome == DP_OUTCOME_REFUSED)
		return "left-out"; /* one of a pattern's that could not be armed */
	if (info->event->is_return)
		return trap ? "exits+trap" : "exits";
	return trap ? "trap" : "jump";
}
