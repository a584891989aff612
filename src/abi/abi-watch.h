/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that is watched: by debug registers for good or for the length of a call, and what threads and the control
 * side ask each other meanwhile.
 */
#ifndef DP_ABI_WATCH_H
#define DP_ABI_WATCH_H

#include "base/base.h"

/* What a memory access leads to. The numbers are those of Dynamic Probes and of the processor. */
enum dp_watch_type {
	DP_WATCH_X,  /* execution: the hit comes before the instruction */
	DP_WATCH_W,  /* a store: the hit comes behind it */
	DP_WATCH_IO, /* an access to an I/O port */
	DP_WATCH_RW, /* a load or a store: the hit comes behind it */
};

struct dp_watch_rt { /* one watched piece of memory: at most 8 bytes, or any number where its pages are watched */
	u64 addr;    /* 0: that of the call which the thread is in, see struct dp_hit_slot */
	u32 len;
	u32 type;  /* enum dp_watch_type */
	u32 first; /* first probe, index into probes[] */
	u32 n;
	u64 last;  /* address of the word that holds its value at the last hit; of pages: of a copy of all len bytes */
	u32 paged; /* by its pages, not by a register */
	u32 pad;
};

/*
 * In the data of the signal that a hit raises: what it is of, the region of the session that watches (whole pages, in
 * the lower half of the addresses), and the index into watches[].
 */
#define DP_WATCH_MAGIC 0xd957ull
#define DP_WATCH_DATA(magic, region, index) ((magic) << 48 | (region) | (index))
#define DP_WATCH_INDEX(data) ((u32)(data)&0xfff)
#define DP_WATCH_OF(data) ((data) & ~0xfffull) /* without the index */
#define DP_TRAP_PERF 6                         /* si_code of that signal */
#define DP_WATCH_CHUNK 8

/* From a register along pointers: each offset but the last leads to a word that is the next pointer. */
#define DP_WATCH_PATH_MAX 8

struct dp_watch_path {
	u32 watch;   /* index into watches[] */
	u8 reg_word; /* the register: word of struct dp_regs */
	u8 n;        /* offsets */
	u16 pad;
	u64 offsets[DP_WATCH_PATH_MAX];
};

/* Behind the words in the mapping of the rings: threads that want memory to be watched, or no longer. */
#define DP_ASKS 64

enum dp_ask_state { DP_ASK_FREE, DP_ASK_TAKEN, DP_ASK_ASKED, DP_ASK_DONE, DP_ASK_REFUSED };

struct dp_ask {
	u32 state; /* the thread waits on it (futex) */
	u32 tid;   /* as the process knows it */
	u32 watch; /* index into watches[] */
	u32 pad;
	u64 addr; /* 0: watched no more */
};

struct dp_asks {
	u32 serving;  /* somebody answers */
	u32 doorbell; /* counts questions; who answers waits on it */
	u32 pad[14];
	struct dp_ask v[DP_ASKS];
};

#endif
