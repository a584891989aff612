/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The character device of dprobes.ko, as both of its sides see it. Each opening is a session of its
 * own: add programs, arm them all, map the rings, close. Whoever holds the last descriptor or mapping
 * keeps the probes; with it they go. Only root may open it. Kernel-clean.
 */
#ifndef DP_DEVICE_H
#define DP_DEVICE_H

#include "base/base.h"

#define DP_DEV_PATH "/dev/dprobes"
#define DP_DEV_ABI 10 /* change it with anything here or in a layout of this folder that the module hands out */

#define DP_DEV_PLACE_MAX 320 /* "function", "module:function" */

struct dp_dev_error { /* struct dp_error, with the code by its name */
	char code[40];
	s32 column;
	u32 pad;
	char detail[256];
	char hint[160];
};

struct dp_dev_hello {
	u32 abi, rings_abi;
	u32 ncpus; /* rings */
	u32 pad;
};

#define DP_DEV_RETURN 0x1 /* at the function's return */
/*
 * In user code: at a file's offset, in all processes that map it; the place is for listings. Opcodes are not checked.
 */
#define DP_DEV_USER 0x2
#define DP_DEV_WATCH 0x4 /* at accesses to memory */
#define DP_DEV_WAITS 0x8 /* with DP_DEV_USER: what is logged waits until the probed instruction has been carried out */

#define DP_DEV_TRACEPOINT 0x10 /* at the tracepoint that the place names */
#define DP_DEV_CALL 0x20       /* at the system call of that number (offset), -1: at all; the place is for listings */

/* One probe with its program. The program is verified again, whatever the sender says of it. */
struct dp_dev_probe {
	u64 error;                    /* address of a struct dp_dev_error, filled in when the call fails; may be 0 */
	char place[DP_DEV_PLACE_MAX]; /* empty: addr is given */
	u64 addr;                     /* out: where the place is; 0: in a module that is not loaded */
	s64 offset;                   /* from the place; from addr, 0 */
	u32 flags, maxactive;
	s32 opcode; /* first byte of the instruction that must stand there, -1: any */
	u32 index;  /* out: in records and counts */
	u64 image;  /* address of image_size bytes: the program, see abi/abi-image.h */
	u32 image_size;
	u32 locals, globals, gate; /* RPN programs: where their words begin among those of dp_dev_arm */
	s32 fd;                    /* DP_DEV_USER: of the file, open for reading */
	u16 watch_len, watch_type; /* bytes, enum dp_watch_type */
	u32 pad;
};

struct dp_dev_arm {
	u64 error;
	u64 ring_size; /* bytes of data for each processor, a power of two */
	u64 words;     /* address of the first values of nwords words that the programs share */
	u32 nwords, npids;
	u64 pids;      /* address of s32: hits of other processes are passed over; npids 0: of none */
	u64 size;      /* out: of the mapping, struct dp_rings first (abi-ring.h) */
	u64 words_off; /* out: where the words are in it */
};

/*
 * By which the call chains of programs go on from the kernel into the code of that process: before the session is
 * armed, once for each process.
 */
struct dp_dev_unwind {
	u64 error;
	s32 pid;
	u32 nmodules;
	u64 modules; /* address of struct dp_unwind_module (abi-unwind.h), whose rows are addresses here */
};

/*
 * In the place of the processes of dp_dev_arm: these, and those that they start from now on. More may follow at any
 * time, but the first ones must come before the session is armed. Without any it is a question.
 */
struct dp_dev_follow {
	u64 error;
	u64 pids; /* address of s32 */
	u32 npids;
	u32 live; /* out: whether there is a process whose hits count */
};

enum dp_dev_how {
	DP_DEV_OFF,
	DP_DEV_TRAP,
	DP_DEV_JUMP,
	DP_DEV_PENDING,
	DP_DEV_GONE,
	DP_DEV_FTRACE,
	DP_DEV_UPROBE,
	DP_DEV_WATCHES,
	DP_DEV_TRACED /* at a tracepoint, or at system calls */
};

struct dp_dev_state {
	u32 index;
	u32 how;      /* out: enum dp_dev_how */
	u64 addr;     /* out */
	char why[40]; /* out: what keeps it from being a jump; may be empty */
};

struct dp_dev_judge { /* what a probe at an address would be; -errno with its error when it is refused */
	u64 error;
	u64 addr; /* out: the instruction that would be probed */
	u64 size; /* out: of its function */
	u32 how;  /* out: DP_DEV_TRAP, DP_DEV_JUMP or DP_DEV_FTRACE */
	u32 pad;
	char why[40];
};

struct dp_dev_symbol { /* "function+0x12 [module]" of an address */
	u64 addr;
	u64 offset;                  /* out */
	char name[DP_DEV_PLACE_MAX]; /* out: "function", "function [module]"; empty: none */
};

#define DP_DEV_LIST_DISABLED 0x1
#define DP_DEV_LIST_PATCHED 0x2 /* not reached: its function is live patched */

struct dp_dev_row {
	u64 addr;
	char type; /* k r j w of modules; p r w t s of events and sessions */
	u8 how;    /* enum dp_dev_how */
	u8 flags;
	u8 pad;
	s32 pid; /* of the session's opener; 0: the event files; -1: a module */
	char place[DP_DEV_PLACE_MAX];
};

struct dp_dev_list {
	u64 rows;     /* address of room for n struct dp_dev_row */
	u32 start, n; /* n, out: how many were there */
};

#define DP_DEV_IOC(nr, type, dir) (dir << 30 | (u32)sizeof(type) << 16 | 0xdbu << 8 | (nr))
#define DP_DEV_HELLO DP_DEV_IOC(0, struct dp_dev_hello, 2u)
#define DP_DEV_ADD DP_DEV_IOC(1, struct dp_dev_probe, 3u)
#define DP_DEV_ARM DP_DEV_IOC(2, struct dp_dev_arm, 3u)
#define DP_DEV_STATE DP_DEV_IOC(3, struct dp_dev_state, 3u)
#define DP_DEV_JUDGE DP_DEV_IOC(4, struct dp_dev_judge, 3u)
#define DP_DEV_SYMBOL DP_DEV_IOC(5, struct dp_dev_symbol, 3u)
#define DP_DEV_LIST DP_DEV_IOC(6, struct dp_dev_list, 3u)
#define DP_DEV_UNWIND DP_DEV_IOC(9, struct dp_dev_unwind, 3u)
#define DP_DEV_FOLLOW DP_DEV_IOC(10, struct dp_dev_follow, 3u)
#define DP_DEV_SYNC 0xdb07u   /* bring the counts of missed hits up to date in the mapping */
#define DP_DEV_DISARM 0xdb08u /* take the probes out; the mapping stays */

#endif
