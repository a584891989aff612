/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What an architecture defines by constants, tables and inline functions, each in a header of its folder:
 *
 *	forms.h			the breakpoint, the other bytes that trap, the jump, the place of a hook
 *	insn.h			struct dp_insn, of which all may use len, cls, rel and rel_size; its two functions
 *	machine.h		instructions that no language has words for: time, processor, thread, system calls
 *	names.h			registers in the texts of programs and in DWARF
 *	regs.h			registers of a hit and of a thread, by what they are for
 *	signal-context.h	the words of a signal's context
 *	stubs.h			pieces of code that a thread is sent to
 */
#ifndef DP_TABLES_H
#define DP_TABLES_H

#ifndef __x86_64__
#error "there is no src/arch/ folder for this architecture"
#endif

#include "arch/x86_64/forms.h"
#include "arch/x86_64/insn.h"
#include "arch/x86_64/machine.h"
#include "arch/x86_64/names.h"
#include "arch/x86_64/regs.h"
#include "arch/x86_64/signal-context.h"
#include "arch/x86_64/stubs.h"

#endif
