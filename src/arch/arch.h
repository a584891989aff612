/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The contract of an architecture. All else in src/ and kernel/ includes this header and no other of an architecture's
 * folder; no instruction byte, no inline assembly and no register's name stands outside of that folder
 * (tests/cmd/test_house.py).
 *
 * The calls, each described where it is declared:
 *
 *	dp_insn_decode		take an instruction apart; dp_insn_falls_through, _target, _is_nop, _is_landing_pad,
 *				_may_fault and _is_general answer questions about it
 *	dp_code_analyse		where control may arrive in a module's code; dp_code_know: in one function of it
 *	dp_code_exits		where a function returns
 *	dp_text_find_calls	where an argument of a system call is loaded
 *	dp_site_judge		what a probe at an address will be, or why there is none
 *	dp_window_build		the instructions that a jump displaces
 *	dp_relocate		a copy of an instruction for another address; dp_can_relocate asks without making it
 *	dp_detour_emit		code out of line with hits that call the hit path (hosts whose handlers are programs)
 *	dp_outline_emit		the same with hits that call a host's entry (hosts whose handlers are C functions)
 *	dp_emit_jmp		the way back; the other dp_emit_* put bytes into a buffer
 *	dp_store_read		what an instruction stores: dp_store_address, _segment, _repeated and _is_string
 *				answer questions about it, dp_store_emit makes a copy that a hit follows
 *	dp_jit_compile		a small program as code that a detour calls; dp_jit_usable: whether the machine can run
 *				it
 *	dp_rpn_jit_compile	a program of the Dynamic Probes language as a function
 *
 * The names of registers in the texts of programs and their numbers in DWARF: DP_NAME_*, dp_name_of_*, DP_DWARF_*; the
 * registers of a hit and of a thread by what they are for: dp_regs_*, dp_user_*; the words of a signal's context:
 * DP_CTX_*.
 * The tables and constants: DP_TRAP_BYTE, DP_TRAP_BYTES, DP_JUMP_BYTE, DP_JUMP_LEN, the two forms of a hook's place,
 * dp_stub_*; and for the hit path the instructions that tell time, processor and thread (machine.h), as inline
 * functions.
 * The entries, in entry/, are assembled by whoever needs them: hit-entry.S is the blob's, self-entry.S and landing.S
 * the library's, k-entry.S the module's, load-code.S loads a library into a process. emulate.h carries branches out in
 * C (arch/emulate.h).
 *
 * Freestanding.
 */
#ifndef DP_ARCH_H
#define DP_ARCH_H

#ifndef __x86_64__
#error "there is no src/arch/ folder for this architecture"
#endif

#include "arch/x86_64/call-args.h"
#include "arch/x86_64/detour.h"
#include "arch/x86_64/direct.h"
#include "arch/x86_64/forms.h"
#include "arch/x86_64/insn.h"
#include "arch/x86_64/machine.h"
#include "arch/x86_64/names.h"
#include "arch/x86_64/regs.h"
#include "arch/x86_64/relocate.h"
#include "arch/x86_64/rpn-compile.h"
#include "arch/x86_64/signal-context.h"
#include "arch/x86_64/site.h"
#include "arch/x86_64/store.h"
#include "arch/x86_64/stubs.h"
#include "arch/x86_64/text.h"

#endif
