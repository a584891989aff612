/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a hit logs: the record, its payload and how the fields of an event's payload are read. The hit path and the
 * kernel write records; whoever shows them reads them, and trusts none.
 */
#ifndef DP_ABI_RECORD_H
#define DP_ABI_RECORD_H

#include "base/base.h"

#define DP_RECORD_MAX 4096 /* bytes of one record, header included */

struct dp_record { /* 8-byte aligned in the ring; payload follows */
	u16 len;   /* bytes, header included, multiple of 8 */
	u16 flags; /* DP_REC_* */
	u32 event; /* index of the probe (dp_probe_rt) */
	u32 tid;
	u32 cpu;
	u64 tsc;
};

#define DP_REC_FAULTED 0x1   /* an argument could not be read; its field holds the fault marker */
#define DP_REC_TRUNCATED 0x2 /* payload shortened to the log budget */
#define DP_REC_PAD 0x4       /* filler, no record */
#define DP_REC_RPN 0x8       /* the payload begins with struct dp_rpn_head */
#define DP_REC_TRACE 0x10    /* and then comes a stack trace */
#define DP_REC_EXIT 0x20     /* the program handed over to a facility */
#define DP_REC_COMM 0x40     /* the last DP_COMM_SIZE bytes are the task's name (the kernel host) */
#define DP_REC_STOP 0x80     /* the process stopped for a debugger behind this record */
#define DP_REC_ITEMS 0x100   /* a program has logged items with a prefix, */
#define DP_REC_BARE 0x200    /* words without one */

#define DP_COMM_SIZE 16

struct dp_rpn_head { /* begins the payload of records that RPN programs log */
	u16 major, minor;
	u16 cs, ss;
	u32 pid;
	u32 pad; /* its lowest three bits: bytes behind the last item, since records have whole words; DP_CORE_* */
	u64 ip, sp;
};

/* Of an exit to a core dump, in the head: what has become of it, and the process that had it. */
#define DP_CORE_MADE 0x8
#define DP_CORE_LIMITED 0x10 /* the process's own RLIMIT_CORE is 0 */
#define DP_CORE_FAILED 0x20
#define DP_CORE_PID(pad) ((pad) >> 8)

/* Items of a log record: token (s8), count (u16), then bytes or words. */
enum dp_token {
	DP_TOKEN_SEGFAULT = -2,
	DP_TOKEN_FAULT = -1,
	DP_TOKEN_MEMORY,
	DP_TOKEN_ASCII,
	DP_TOKEN_TRACES,
	DP_TOKEN_FRAMES,
	DP_TOKEN_STACK,
	DP_TOKEN_LOCALS,
	DP_TOKEN_GLOBALS,
	DP_TOKEN_WORDS,
};

/* How a logged field is to be read and printed. */
enum dp_field_type {
	DP_FIELD_U8,
	DP_FIELD_U16,
	DP_FIELD_U32,
	DP_FIELD_U64,
	DP_FIELD_S8,
	DP_FIELD_S16,
	DP_FIELD_S32,
	DP_FIELD_S64,
	DP_FIELD_X8,
	DP_FIELD_X16,
	DP_FIELD_X32,
	DP_FIELD_X64,
	DP_FIELD_CHAR,   /* u8 shown as a character */
	DP_FIELD_STRING, /* u32 descriptor of the text, see struct dp_field */
	DP_FIELD_SYMBOL, /* u64 address shown as symbol+offset */
	DP_FIELD_FRAME,  /* arrays only: u64 addresses of a call chain, the hit first, zeros behind its end */
};

#define DP_NAME_MAX 64
#define DP_ARRAY_MAX 64
#define DP_FIELDS_MAX 128

/*
 * One field of a record. Fixed-size fields stand at `offset` in the payload, each scalar in its own
 * natural width, arrays back to back. Strings are variable: at `offset` stands a u32, low half the
 * byte offset of the text from the start of the payload, high half its length including NUL;
 * length 0 means that the memory could not be read. Scalars that could not be read are zero and
 * their bit in the record's fault mask is set (the first 8 bytes of the payload when has_faultmask:
 * bit i: field i, and bit 63 for any field from 63 on).
 */
struct dp_field {
	char name[DP_NAME_MAX];
	u8 type;      /* enum dp_field_type */
	u8 count;     /* elements of an array; 0: not an array */
	u8 bit_width; /* bitfields: already shifted and masked by the program; for display only */
	u8 can_fault;
	u16 offset; /* in the payload */
	u16 size;   /* bytes of one element (strings: 4, the descriptor) */
};

#endif
