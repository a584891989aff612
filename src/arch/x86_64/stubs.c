/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Pieces of code that the control side puts into a process that it has stopped (arch.h says what each does). */
#include "arch/x86_64/stubs.h"

/* syscall; pop rcx,rax,rdx,rsi,rdi,r8,r9,r10,r11; popfq; ret $128 */
const u8 dp_stub_call[DP_STUB_CALL] = {0x0f, 0x05, 0x59, 0x58, 0x5a, 0x5e, 0x5f, 0x41, 0x58, 0x41,
				       0x59, 0x41, 0x5a, 0x41, 0x5b, 0x9d, 0xc2, 0x80, 0x00};

const u8 dp_stub_wait[DP_STUB_WAIT] = {
    0x44, 0x8b, 0x1d, 27,   0, 0, 0, /* 1: mov word(%rip), %r11d */
    0xb9, 0,    0,    0,    0,       /* mov pauses, %ecx */
    0xf3, 0x90, 0xe2, 0xfc,          /* 2: pause; loop 2b */
    0x8b, 0x0d, 12,   0,    0, 0,    /* mov word(%rip), %ecx */
    0x49, 0xf7, 0xd3,                /* not %r11 */
    0x4a, 0x8d, 0x4c, 0x19, 1,       /* lea 1(%rcx,%r11), %rcx: the difference */
    0xe3, 6,                         /* jrcxz behind the word */
    0xeb, 0xde,                      /* jmp 1b */
    0,    0,    0,    0,             /* the word */
};

const u8 dp_stub_wait_once[DP_STUB_WAIT_ONCE] = {0xb9, 0, 0, 0, 0, 0xf3, 0x90, 0xe2, 0xfc};

const u8 dp_stub_far[DP_STUB_FAR] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
