/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What can be told of a run before the hit. Knows no processor; allocates nothing. */
#ifndef DP_FORETELL_H
#define DP_FORETELL_H

#include "program/code.h"

/*
 * Whether a verified program of the Dynamic Probes language stops without a record, and without having changed or
 * counted anything, at every hit at which these n words are so, whatever else holds there. rt: its limits. False where
 * that cannot be told.
 */
bool dp_program_is_idle(const u8 *code, u32 len, const struct dp_code_rt *rt, const struct dp_known_word *known, u32 n);

/* Whether the program reads that word by name (push r). */
bool dp_program_reads(const u8 *code, u32 len, u32 reg_word);

#endif
