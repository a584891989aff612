/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The registers in the context of a signal handler: part of the contract of an architecture (arch.h) for hosts with a C
 * library.
 */
#ifndef DP_CONTEXT_H
#define DP_CONTEXT_H

#include "arch/x86_64/context-words.h"

#endif
