/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between the files that generate code. */
#ifndef DPCC_GEN_H
#define DPCC_GEN_H

#include "lang/dpcc/dpcc-priv.h"

enum place_kind {
	PLACE_WORD,   /* a word of the machine: of the frame, static, global */
	PLACE_OWN,    /* the handler's own memory, at a known offset */
	PLACE_MEMORY, /* an address, which has been pushed */
	PLACE_PIECES, /* a variable of the program in registers or pieces */
};

struct place {
	enum place_kind kind;
	struct node *base; /* N_VAR, N_PROBE, N_DEREF */
	struct type *type;
	u64 offset, size; /* bytes that are loaded and stored */
	u32 bits, shift;  /* of a bitfield; bits 0: none */
	bool in_target, whole;
};

struct place dp_cc_place_of(struct dpcc *c, struct node *n);
void dp_cc_place_address(struct dpcc *c, const struct place *p); /* ( -- addr) */
void dp_cc_place_load(struct dpcc *c, const struct place *p);
void dp_cc_place_store(struct dpcc *c, const struct place *p, const struct tok *t);

/* ---- gen-aggregate.c ---- */
void dp_cc_gen_aggregate(struct dpcc *c, struct node *n);
void dp_cc_gen_row(struct dpcc *c, struct node *n);
void dp_cc_gen_row_change(struct dpcc *c, struct node *n);
void dp_cc_gen_forget(struct dpcc *c, struct node *n);
/* What a body asks of the control side, for each aggregate of this name. */
void dp_cc_gen_ask(struct dpcc *c, enum dp_control_op op, const char *name);

/* ---- gen-calls.c ---- */
void dp_cc_gen_call_begin(struct dpcc *c, struct node *n);
void dp_cc_gen_call_pass(struct dpcc *c, struct node *n);
void dp_cc_gen_call_end(struct dpcc *c, struct node *n);
void dp_cc_gen_call_done(struct dpcc *c, struct node *n);

void dp_cc_gen_statement(struct dpcc *c, struct node *n);

#endif
