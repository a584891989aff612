/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The bytes that are written into the code of the probed world, and those that are looked for there. Freestanding. */
#ifndef DP_FORMS_H
#define DP_FORMS_H

#include "base/base.h"

#define DP_TRAP_BYTE 0xcc /* a breakpoint */
#define DP_JUMP_BYTE 0xe9 /* jmp rel32, */
#define DP_JUMP_LEN 5     /* with its displacement behind it */

/* The jump from one address to another. False: it does not reach. */
static inline bool dp_jump_make(u8 jump[DP_JUMP_LEN], u64 from, u64 to)
{
	s64 rel = (s64)(to - (from + DP_JUMP_LEN));
	s32 near = (s32)rel;

	jump[0] = DP_JUMP_BYTE;
	memcpy(jump + 1, &near, sizeof(near));
	return near == rel;
}

/* Where such a jump leads. */
static inline u64 dp_jump_target(const u8 jump[DP_JUMP_LEN], u64 from)
{
	s32 near;

	memcpy(&near, jump + 1, sizeof(near));
	return from + DP_JUMP_LEN + (u64)(s64)near;
}

#define DP_PUSH_BYTE 0x68 /* pushes the 32-bit constant behind it, sign-extended */
#define DP_RELOC_MAX 48   /* most bytes of the copy of one instruction */

/*
 * Bytes that trap when executed as the first byte of an instruction: a breakpoint, or privileged
 * one-byte instructions (general protection fault). The latter serve where a breakpoint as the top byte
 * of a displacement would point at memory that is not there, as below a low executable.
 */
#define DP_TRAP_BYTES 0xcc, 0x6c, 0x6d, 0x6e, 0x6f, 0xf4, 0xec, 0xed, 0xee, 0xef, 0xfa, 0xfb

/* Whether it is one of those that raise a general protection fault. */
static inline __attribute__((always_inline)) bool dp_code_faults(u8 b)
{
	return (b >= 0x6c && b <= 0x6f) || (b >= 0xec && b <= 0xef) || b == 0xf4 || b == 0xfa || b == 0xfb;
}

/* The place of a hook: idle, it is an instruction with no effect; one bit makes it a jump. */
#define DP_HOOK_LEN 5
#define DP_HOOK_IDLE 0xa9  /* test $imm32, %eax */
#define DP_HOOK_ARMED 0xe9 /* jmp rel32 */

#define DP_SYSCALL_LEN 2 /* bytes of the instruction that calls the system */

static inline bool dp_code_is_syscall(const u8 code[DP_SYSCALL_LEN])
{
	return code[0] == 0x0f && code[1] == 0x05;
}

/* The other ways into the system, by the calls of 32-bit programs. */
static inline bool dp_code_is_old_syscall(const u8 code[DP_SYSCALL_LEN])
{
	return (code[0] == 0xcd && code[1] == 0x80) || (code[0] == 0x0f && code[1] == 0x34);
}

/*
 * Whether the call at code + at, with `at` bytes in front of it, is the one by which a signal handler returns.
 * Unwinders and debuggers know it by its bytes, so they must not change.
 */
static inline bool dp_code_is_sigreturn(const u8 *code, u64 at)
{
	static const u8 wide[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0}, narrow[] = {0xb8, 15, 0, 0, 0};

	return (at >= sizeof(wide) && !memcmp(code + at - sizeof(wide), wide, sizeof(wide))) ||
	       (at >= sizeof(narrow) && !memcmp(code + at - sizeof(narrow), narrow, sizeof(narrow)));
}

/* As that tells, by the instruction in front: clone, vfork, clone3, as functions written by hand make them. */
static inline bool dp_code_is_clone(const u8 *code, u64 at)
{
	static const u8 numbers[][5] = {{0xb8, 56}, {0xb8, 58}, {0xb8, 0xb3, 1}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(numbers); i++)
		if (at >= sizeof(numbers[i]) && !memcmp(code + at - sizeof(numbers[i]), numbers[i], sizeof(numbers[i])))
			return true;
	return false;
}

/* Whether the number of a call is loaded shortly before it, as code does, and tables do by chance only. */
static inline bool dp_code_loads_number(const u8 *code, u64 at)
{
	const u8 *p = code + at;

	for (u64 k = 3; k <= 16 && k <= at; k++) {
		if (p[-k] == 0x6a && p[2 - k] == 0x58) /* push $number; pop %rax */
			return true;
		if (k >= 5 && p[-k] == 0xb8 && p[2 - k] <= 2 && !p[3 - k] && !p[4 - k]) /* mov $number, %eax */
			return true;
		if (k >= 6 && p[-k] == 0xc7 && p[1 - k] == 0xc0 && p[3 - k] <= 2 && !p[4 - k] && !p[5 - k])
			return true;
	}
	return false;
}

/*
 * As that, the one by which glibc, since 2.41, and musl make all calls that a thread can be cancelled in
 * (__syscall_cancel_arch(), __syscall_cp_asm()). The handler of a cancellation asks whether the thread is between the
 * beginning of that function and this call, so no instruction of it may run somewhere else: the thread would wait for
 * ever.
 */
#define DP_CANCEL_MOVES 33 /* bytes by which the arguments come into the registers of the call */

static inline bool dp_code_is_cancel_point(const u8 *code, u64 at)
{
	static const u8 moves[DP_CANCEL_MOVES] = {0x49, 0x89, 0xfb, 0x48, 0x89, 0xf0, 0x48, 0x89, 0xd7, 0x48, 0x89,
						  0xce, 0x4c, 0x89, 0xc2, 0x4d, 0x89, 0xca, 0x4c, 0x8b, 0x44, 0x24,
						  0x08, 0x4c, 0x8b, 0x4c, 0x24, 0x10, 0x4c, 0x89, 0x5c, 0x24, 0x08};

	return at >= sizeof(moves) && !memcmp(code + at - sizeof(moves), moves, sizeof(moves));
}

/*
 * Where that function begins: it looks first whether the thread has been cancelled, and jumps away then. Its arguments
 * are a pointer to that, the call's number, and the call's arguments. False: it begins in another way.
 */
static inline bool dp_code_cancel_begin(const u8 *code, u64 at, u64 *begin)
{
	static const u8 glibc[] = {0x8b, 0x07, 0xf6, 0x07, 0x08, 0x0f, 0x85}, musl[] = {0x8b, 0x07, 0x85, 0xc0, 0x75};
	u64 glibc_size = DP_CANCEL_MOVES + sizeof(glibc) + 4, musl_size = DP_CANCEL_MOVES + sizeof(musl) + 1;
	bool is_glibc = at >= glibc_size && !memcmp(code + at - glibc_size, glibc, sizeof(glibc));

	*begin = at - (is_glibc ? glibc_size : musl_size);
	return is_glibc || (at >= musl_size && !memcmp(code + *begin, musl, sizeof(musl)));
}

/* The arguments of that function that are the call's number and its first argument; those that follow are the next. */
#define DP_CANCEL_NUMBER 1
#define DP_CANCEL_ARG 2

#define DP_CALL_BYTE 0xe8 /* call rel32, as long as a jump */

/* Whether the byte may be the first of a breakpoint or of a jump that was put there. */
static inline bool dp_code_may_be_patched(u8 byte)
{
	return byte == DP_TRAP_BYTE || byte == DP_JUMP_BYTE;
}

#endif
