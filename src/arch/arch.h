/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The contract of an architecture. All else in src/ and kernel/ includes this header, arch/context.h and
 * arch/emulate.h, and none of an architecture's folder; no instruction byte, no inline assembly and no register's name
 * stands outside of that folder (tests/cmd/test_house.py).
 *
 * An architecture defines these functions. Each is described where it is declared:
 *
 *	insn	 dp_insn_decode		take an instruction apart
 *		 dp_insn_traits		what it does, as a set of bits
 *	analysis.h dp_code_know		where control may arrive, in one function or in a whole module
 *		 dp_code_exits		where a function returns
 *		 dp_text_find_calls	system calls, with their numbers where these are loaded before
 *	site.h	 dp_site_judge		what a probe at an address will be, or why there is none
 *		 dp_window_build	the instructions that a jump displaces
 *	detour.h dp_detour_emit		code out of line, with hits for handlers that are programs
 *		 dp_outline_emit	the same with hits for handlers that are C functions, or with none
 *	store.h	 dp_store_read		what an instruction stores
 *		 dp_store_address	where it stores, with given registers
 *		 dp_store_emit		a copy of it that a hit follows
 *	compile.h dp_jit_compile	a small program as code that a detour calls
 *		 dp_jit_usable		whether such code can run in the probed world
 *		 dp_rpn_jit_compile	a program of the Dynamic Probes language as a function
 *
 * tables.h lists what it defines besides: constants, tables and inline functions. What is the same for all
 * architectures is in analysis.c and in the headers themselves.
 *
 * The entries, in entry/, are assembled by whoever needs them: hit-entry.S is the blob's, self-entry.S and landing.S
 * the library's, k-entry.S the module's, load-code.S loads a library into a process.
 *
 * Freestanding.
 */
#ifndef DP_ARCH_H
#define DP_ARCH_H

#include "arch/analysis.h"
#include "arch/compile.h"
#include "arch/detour.h"
#include "arch/site.h"
#include "arch/store.h"
#include "arch/tables.h"

#endif
