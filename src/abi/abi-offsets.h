/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Offsets of the structures of this folder for assembly; checked against the C declarations in hit.c. */
#ifndef DP_OFFSETS_H
#define DP_OFFSETS_H

#define DP_BLOB_MAGIC 0x424f4c4250445350
#define DP_RSEQ_SIG 0x53053053

#ifdef __ASSEMBLER__
#define DP_HIT_SLOT_SIZE 0x40000
#define DP_HIT_SLOT_SHIFT 18
#define DP_HIT_SLOT_STACK_TOP DP_HIT_SLOT_SIZE
#define DP_HIT_SLOT_TRIES 16
#endif

/* struct dp_hit_slot's busy, while a hit goes on: on the program's stack; on the slot's own */
#define DP_HIT_SLOT_TAKEN 1
#define DP_HIT_SLOT_ENTERED 2

/* struct dp_hit_slot, from the slot's start */
#define S_OWNER 4096
#define S_BUSY (S_OWNER + 8)
#define S_RSEQ (S_OWNER + 16)
#define S_CALM (S_OWNER + 32)
#define S_CALM_SIZE (S_OWNER + 40)
#define S_MASK (S_OWNER + 48)
#define S_BLOCKED (S_OWNER + 56)
#define S_CS_COMMIT (S_OWNER + 64)
#define S_CS_COUNT (S_OWNER + 96)
#define S_DOUBTS (S_OWNER + 204)
#define S_ALTERNATE (S_OWNER + 208)
#define S_FRAME (S_OWNER + 232)
#define S_CS_LOAD (S_OWNER + 256)
#define S_HINTS (S_OWNER + 288)
#define S_WANTS (S_OWNER + 304)
#define DP_MANY_DOUBTS 1024

/* struct dp_regs */
#define R_R15 0
#define R_R14 8
#define R_R13 16
#define R_R12 24
#define R_BP 32
#define R_BX 40
#define R_R11 48
#define R_R10 56
#define R_R9 64
#define R_R8 72
#define R_AX 80
#define R_CX 88
#define R_DX 96
#define R_SI 104
#define R_DI 112
#define R_ORIG_AX 120
#define R_IP 128
#define R_CS 136
#define R_FLAGS 144
#define R_SP 152
#define R_SS 160
#define R_SIZE 168

/* The frame that an entry builds on the probed program's stack; F_RET leads back into the detour. */
#define F_CX 0
#define F_SI 8
#define F_AX 16
#define F_RET 24
#define F_DI 32
#define F_SIZE 40

/* struct dp_control */
#define C_CAPS 12
#define C_RING0 40
#define C_RING_STRIDE 48
#define C_RING_SIZE 56
#define C_COUNTS 64
#define C_COUNTS_STRIDE 72
#define C_NCPUS 80
#define C_POINTS 120
#define C_PROBES 128

/* struct dp_stretches: its tables follow one another */
#define STRETCH_STATE 0
#define STRETCH_LO (4096 + 16)
#define STRETCH_HI (4096 + 24)
#define STRETCH_TABLE_SHIFT 12

#define DP_CAPS_BLOCK 0x50    /* DP_CAP_SIGALTSTACK, DP_CAP_PROBE_READ */
#define DP_CAP_ALTERNATE 0x10 /* DP_CAP_SIGALTSTACK */

/* struct dp_point, struct dp_probe_rt, struct dp_counts */
#define POINT_FIRST 16
#define POINT_N 20
#define POINT_SIZE 32
#define PROBE_EVENT 96
#define PROBE_FLAGS 100
#define PROBE_SIZE 112
#define DP_PROBE_IS_ENABLED 1
#define DP_PROBE_IS_GUARD 0x20
#define COUNT_MISSED 24
#define COUNTS_SHIFT 6
#define DP_HIT_SECOND 0xc0000000 /* DP_HIT_AFTER, DP_HIT_PAGE */

/* struct ucontext of the kernel */
#define DP_CONTEXT_SIZE 304

/* struct dp_ring */
#define RING_HEAD 0
#define RING_BY 8
#define RING_AT 16
#define RING_TAIL 64

#endif
