/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a probe program says about its records, taken apart (lang/rpn/rpn-fields.c does that): structures, and the items
 * in a record. The program itself does not need it; who shows the records does.
 */
#ifndef DP_DESCRIBED_H
#define DP_DESCRIBED_H

#include "base/base.h"

/*
 * Fields are taken in order, one for each item. A words item whose first word is DP_FIELD_MARK + N
 * names field N instead: of its further words, or, without any, of the items up to the next mark.
 */
#define DP_FIELD_MARK 0x6669656c64000000ull
#define DP_FIELD_MARK_MASK 0xffffffffff000000ull

enum dp_rf_kind {
	DP_RF_UNSIGNED,
	DP_RF_SIGNED,
	DP_RF_HEX,
	DP_RF_OCTAL,
	DP_RF_CHAR,
	DP_RF_BOOL,
	DP_RF_FLOAT,
	DP_RF_COMPLEX, /* two of the former, each half the size */
	DP_RF_POINTER,
	DP_RF_STRING, /* text up to a NUL or the item's end */
	DP_RF_BYTES,  /* the item as it is */
	DP_RF_PRINTF, /* name is the format of the items that follow */
	DP_RF_LAYOUT,
	DP_RF_CODE,    /* a pointer to a function: its name stands beside it */
	DP_RF_NOTHING, /* an item that is not shown */
	DP_RF_FRAME,   /* addresses of a call chain, the hit first, zeros behind its end */
};

struct dp_rf_type {
	enum dp_rf_kind kind;
	u32 size;    /* bytes of one element */
	u32 layout;  /* index in the table */
	u32 dims[8]; /* innermost first */
	u32 ndims;
};

struct dp_rf_member {
	char *name;
	struct dp_rf_type type;
	u32 offset, shift, bits; /* bits 0: no bitfield */
	s64 value;               /* of an enumerator, or a flag, */
	u64 mask;                /* which is a value of these bits */
	bool is_default;         /* a variant of all numbers that are no other's; value is the number of others */
	bool is_bare;            /* a variant that is its name alone */
};

struct dp_rf_layout {
	u32 number, size;
	bool is_enum, is_flags; /* is_flags: an enumeration of which several are set together */
	bool is_hex, is_half;   /* numbers without a name are shown so, or by their lower half alone */
	bool is_variants;       /* one of the members is there, as a number tells */
	u32 which, which_size;  /* where that number is, and its bytes */
	struct dp_rf_member *members;
	u32 n;
};

struct dp_rf_event { /* the record is shown as one of an event line */
	char *name;  /* "": none was given */
	char *group;
	char *symbol;
	u64 offset;
	bool is_return;
	bool ends; /* the trace, with its first record */
};

struct dp_rf {
	struct dp_rf_event *event; /* NULL: it is shown as a program's */
	struct dp_rf_layout *layouts;
	u32 nlayouts;
	struct dp_rf_member *fields;
	u32 nfields;
};

#endif
