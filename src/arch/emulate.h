/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Branches carried out in C: part of the contract of an architecture (arch.h) that a host includes once, after it has
 * defined what the architecture's file asks for. No include guard: it is made of static functions.
 */
#include "arch/x86_64/emulate.h"
