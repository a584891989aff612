/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The detour emitter: the code that a patched site jumps to. Freestanding. */
#ifndef DP_DETOUR_H
#define DP_DETOUR_H

#include "arch/x86_64/relocate.h"
#include "arch/x86_64/site.h"

#define DP_NO_POINT 0xffffffffu

/* How a detour enters the hit path; an index into the addresses of entry.S's four entries. */
enum dp_entry {
	DP_ENTRY_PLAIN,
	DP_ENTRY_FLAGS,
	DP_ENTRY_ZONE,
	DP_ENTRY_ZONE_FLAGS,
	DP_NENTRIES
};

struct dp_detour {
	/* input */
	const struct dp_window *win; /* link-time addresses */
	const u8 *code;		     /* original bytes at win->start */
	u64 start;		     /* run-time address of win->start */
	u32 point[DP_WINDOW_INSNS];  /* hit before the copy of instruction i, or DP_NO_POINT */
	u8 entry[DP_WINDOW_INSNS];   /* enum dp_entry */
	u64 direct[DP_WINDOW_INSNS]; /* code of its own that the hit goes to instead; 0 none */
	bool confirm[DP_WINDOW_INSNS]; /* a second hit behind the copy, which says that it was carried out */
	/* output: offsets in the emitted code */
	u16 arrive[DP_WINDOW_INSNS]; /* where control meant for instruction i goes: its hit, else its copy */
	u16 copy[DP_WINDOW_INSNS];   /* the copy itself */
	u16 after[DP_WINDOW_INSNS];  /* the second hit; 0: there is none */
	u16 back;		     /* the jump back; 0 when control never falls out of the window */
};

/*
 * Emit the detour at e->addr. entries: run addresses of the four entries.
 * Errors: E_RELOC_*, and E_RELOC_RANGE when the way back does not reach.
 */
int dp_detour_emit(struct dp_emit *e, struct dp_detour *d, const u64 entries[DP_NENTRIES],
		   struct dp_error *err);

#define DP_DETOUR_MAX (DP_WINDOW_INSNS * (DP_RELOC_MAX + 2 * 26 + 8) + 48)

#endif
