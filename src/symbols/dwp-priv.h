/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Packages of split debug information (.dwp): what dwp.c, which reads them, and dwo.c, which takes a
 * unit out of one, share.
 */
#ifndef DP_DWP_PRIV_H
#define DP_DWP_PRIV_H

#include "symbols/module-priv.h"

enum dwp_section {
	DWP_INFO,
	DWP_TYPES,
	DWP_ABBREV,
	DWP_LINE,
	DWP_LOC,
	DWP_LOCLISTS,
	DWP_RNGLISTS,
	DWP_STR_OFFSETS, /* those up to here are cut into contributions */
	DWP_STR,
	DWP_CU_INDEX,
	DWP_TU_INDEX,
	DWP_SECTIONS
};
#define DWP_CUT DWP_STR

struct dwp_bytes {
	const u8 *p;
	u64 n;
};

struct dwp_index {   /* a hash table: signature to row, and the parts of each section that a row has */
	u32 version; /* 2 or 5; 0: there is none */
	u32 columns, rows, slots;
	const u8 *signatures, *numbers, *heads, *offsets, *sizes;
};

struct dwp {
	int fd;
	Elf *elf;
	struct dwp_bytes sec[DWP_SECTIONS];
	struct dwp_index units, types;
	int window; /* this descriptor stands for the unit that is asked for */
	char window_path[32];
	Elf *skeletons;  /* the module's debug information, with other names of its .dwo files */
	void *copies[8]; /* of the sections that are changed in it */
	u32 ncopies;
	bool *asked; /* by row: the unit was asked for, and libdw has it */
};

extern const char *const dp_dwp_section_names[DWP_SECTIONS];

/* The row of a signature, from 1; 0: it is not there. */
u32 dp_dwp_row(const struct dwp_index *x, u64 signature);

/* A row's part of a section, empty when it has none. false: it lies beyond the section. */
bool dp_dwp_part(const struct dwp *d, const struct dwp_index *x, u32 row, enum dwp_section s, struct dwp_bytes *part);

/* dwo.c: a file as compilers write it (.dwo) with one unit and the types that it refers to: a
 * descriptor, or -1 with *why. */
int dp_dwp_unit_file(const struct dwp *d, u32 row, const char **why);

#endif
