/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The part of the machine that only programs of the Dynamic Probes language use, out of the interpreter's way: log
 * items, frames, exceptions, stack traces, heap (hit-rpn.c), tables and aggregates (hit-tables.c). Functions that may
 * fail return the code of the exception to raise (0: none) and leave its parameters in the state.
 */
#ifndef DP_RPN_STATE_H
#define DP_RPN_STATE_H

#include "abi/abi-machine.h"
#include "abi/abi-record.h"
#include "hit/vm.h"
#include "program/opcode.h"

/* The exception of that code is to be raised, with these parameters. */
static inline u32 dp_rpn_failed(struct dp_hit *h, u32 code, u64 parm1, u64 parm2)
{
	h->vm->rpn.parm1 = parm1;
	h->vm->rpn.parm2 = parm2;
	return code;
}

/* A new run: head of the record, outermost frame, count of hits. False: the hit is passed over. */
bool dp_rpn_begin(struct dp_hit *h);

/* The run ends well: what is to become of the record. */
enum dp_run_result dp_rpn_end(struct dp_hit *h);

struct dp_rpn_head *dp_rpn_head(struct dp_hit *h);

/* Where the next item goes, from the first one on. */
u32 dp_rpn_position(const struct dp_hit *h);
u32 dp_rpn_go_back(struct dp_hit *h, u64 position);

u32 dp_rpn_log_str(struct dp_hit *h, u64 len, u64 addr);
u32 dp_rpn_log_mrf(struct dp_hit *h, u64 len, u64 addr);
/* n words from stack index sp on; token < 0: without a prefix. */
u32 dp_rpn_log_stack(struct dp_hit *h, u32 sp, u64 n, int token);
u32 dp_rpn_log_vars(struct dp_hit *h, u64 first, u64 n, int token);

u32 dp_rpn_call(struct dp_hit *h, u32 called, u32 ret);
/* Leaves the frame; next: where to go on. */
u32 dp_rpn_ret(struct dp_hit *h);

enum dp_raised { DP_RAISED_STOP, DP_RAISED_IGNORED, DP_RAISED_HANDLED };

/*
 * Raise the exception in the state: by the mask of the program, push it and find a handler (next),
 * go on, or stop. top: the stack's top from now on.
 */
enum dp_raised dp_rpn_raise(struct dp_hit *h, u32 sp);
/* The run has cost all that it may: an exception, which handlers may take once; the next time it stops. */
enum dp_raised dp_rpn_spent(struct dp_hit *h, u32 sp);
/* The same for an exception that lies on the stack already, without a look at the mask. */
enum dp_raised dp_rpn_reraise(struct dp_hit *h, u32 sp);

u32 dp_rpn_trace_vars(struct dp_hit *h, u64 first, u64 n, int token);
void dp_rpn_trace(struct dp_hit *h);
u32 dp_rpn_trace_back(struct dp_hit *h, u64 position);

/* Push words of the processor's state; returns the new top. */
u32 dp_rpn_push_state(struct dp_hit *h, u32 sp, u32 number);
/* In the place of the leaf on the top: four words. */
u32 dp_rpn_cpuid(struct dp_hit *h, u32 sp);

/* n words of the call chain, the hit on top; returns the new top. */
u32 dp_rpn_push_frames(struct dp_hit *h, u32 sp, u32 n);

/*
 * Calls the exit facility of that name (len bytes) with nargs words of the stack, in whose place its results are put:
 * what lies deeper was there first.
 */
u32 dp_rpn_call_exit(struct dp_hit *h, u32 sp, const u8 *name, u32 len, u32 nargs, u32 nresults);

/* n words of the text in scratch; returns the new top. */
u32 dp_rpn_push_text(struct dp_hit *h, u32 sp, u32 n);
/* Index of the call chain's n words in the table at lv[first], ~0: that has no room. */
u64 dp_rpn_chain(struct dp_hit *h, u32 n, u32 first, u32 keys);
/* Index of the words that belong to the key in the k words on the stack, ~0: the table at lv[first] has no room. */
u64 dp_rpn_find(struct dp_hit *h, u32 sp, u32 k, u32 first, u32 keys, u32 words);
/* In a kernel: what the thread has in the table of its process that the one at lv[first] has the address of, or 0. */
u64 dp_rpn_thread_value(struct dp_hit *h, u32 first, u32 processes, u32 keys);
/* how: the kind, and DP_FOLD_APART. */
u32 dp_rpn_fold(struct dp_hit *h, u32 how, u64 index, u64 value);

u32 dp_rpn_heap_alloc(struct dp_hit *h, u64 size);
u32 dp_rpn_heap_free(struct dp_hit *h, u64 handle);
/* `bytes` bytes of a block; NULL: the exception is in the state. */
u8 *dp_rpn_heap(struct dp_hit *h, u64 handle, u64 offset, u64 bytes);

#endif
