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

/* struct dp_control */
#define C_CAPS 12
#define C_RING0 40
#define C_RING_STRIDE 48
#define C_RING_SIZE 56
#define C_COUNTS 64
#define C_COUNTS_STRIDE 72
#define C_NCPUS 80

#define DP_CAPS_BLOCK 0x50 /* DP_CAP_SIGALTSTACK, DP_CAP_PROBE_READ */

/* struct ucontext of the kernel */
#define DP_CONTEXT_SIZE 304

/* struct dp_ring */
#define RING_HEAD 0
#define RING_BY 8
#define RING_AT 16
#define RING_TAIL 64

#endif
