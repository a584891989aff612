/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The detour emitter: the code that a patched site jumps to. Freestanding. */
#ifndef DP_DETOUR_H
#define DP_DETOUR_H

#include "arch/site.h"
#include "base/emit.h"

#define DP_NO_POINT 0xffffffffu

/* How a detour enters the hit path; an index into the addresses of hit-entry.S's four entries. */
enum dp_entry { DP_ENTRY_PLAIN, DP_ENTRY_FLAGS, DP_ENTRY_ZONE, DP_ENTRY_ZONE_FLAGS, DP_NENTRIES };

/* A hit of another session that probes the same instruction: who comes last has the hits of all in its detour. */
struct dp_other_hit {
	u64 addr;  /* run-time address of the instruction */
	u32 point; /* of that session */
	bool confirm;
	u64 entries[DP_NENTRIES];
	u8 entry; /* enum dp_entry */
};

#define DP_OTHERS_MAX 32 /* such hits in one detour */

struct dp_detour {
	/* input */
	const struct dp_window *win;   /* link-time addresses */
	const u8 *code;                /* original bytes at win->start */
	u64 start;                     /* run-time address of win->start */
	u32 point[DP_WINDOW_INSNS];    /* hit before the copy of instruction i, or DP_NO_POINT */
	u8 entry[DP_WINDOW_INSNS];     /* enum dp_entry */
	u64 direct[DP_WINDOW_INSNS];   /* code of its own that the hit goes to instead; 0 none */
	bool confirm[DP_WINDOW_INSNS]; /* a second hit behind the copy, which says that it was carried out */
	const struct dp_other_hit *others;
	u32 nothers;
	/* output: offsets in the emitted code */
	u16 arrive[DP_WINDOW_INSNS]; /* where control meant for instruction i goes: its hit, else its copy */
	u16 copy[DP_WINDOW_INSNS];   /* the copy itself */
	u16 after[DP_WINDOW_INSNS];  /* the second hit; 0: there is none */
	u16 back;                    /* the jump back; 0 when control never falls out of the window */
	u16 words;                   /* aligned to eight: where the hits of others lead, a return before the first */
	u8 nwords;
};

/*
 * Emit the detour at e->addr. entries: run addresses of the four entries.
 * Errors: E_RELOC_*, and E_RELOC_RANGE when the way back does not reach.
 */
int dp_detour_emit(struct dp_emit *e, struct dp_detour *d, const u64 entries[DP_NENTRIES], struct dp_error *err);

#define DP_DETOUR_MAX (DP_WINDOW_INSNS * (DP_RELOC_MAX + 2 * 26 + 8) + DP_OTHERS_MAX * 2 * (26 + 8) + 64)

/*
 * Code out of line for a host whose handlers are C functions: a hit, copies of the instructions at a place, perhaps a
 * second hit, the way back. A hit steps over the red zone, hands its word over on the stack, and goes to the host's
 * entry, which comes back with all registers as they were or as handlers have set them. No flag is touched.
 */
struct dp_outline {
	/* input */
	const u8 *code; /* original bytes */
	u64 start;      /* run-time address of code */
	u32 len;        /* bytes of whole instructions; 0: none are copied, and the first hit never returns */
	u64 word[2];    /* what the hits before and behind the copies hand over; [1] 0: there is no second one */
	u64 entry[2];   /* run addresses of where they go; [0] 0: there is no hit, only copies and the way back */
	u32 zone;       /* bytes below the stack pointer that must be left alone */
	/* The entries are in reach of a direct call: kernels prefer it not predicted. Not with entry_jumps. */
	bool near;
	/* Jump there, and push the address to come back to: the stack of return addresses stays as it is. */
	bool entry_jumps;
	/* output: the copies */
	u8 ninsns;
	u8 off[DP_WINDOW_INSNS];       /* of the originals, from start */
	u16 copy[DP_WINDOW_INSNS + 1]; /* of the copies, in the emitted code; the last: the end of the last copy */
};

/* Emit it at e->addr; the length does not depend on addresses. Errors: E_SITE_BADINSN, E_RELOC_*. */
int dp_outline_emit(struct dp_emit *e, struct dp_outline *o, struct dp_error *err);

#endif
