/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Call chains that go on from the kernel into the code of processes: the module gets the unwind tables of all that they
 * have mapped, and what it finds is named by their files.
 */
#ifndef DP_USER_STACKS_H
#define DP_USER_STACKS_H

#include "symbols/symbols.h"

struct symbolizer;

struct dp_user_stacks {
	struct dp_process *processes;
	struct symbolizer **names;
	u32 n;
};

/*
 * Of the processes of now, at most as many as the module takes: of others chains end where the kernel was entered. fd:
 * of the device, before it is armed. E_ARM_NOMEM, and what the device says.
 */
int dp_user_stacks_send(struct dp_user_stacks *s, int fd, const s32 *pids, u32 npids, struct dp_error *err);
/* "symbol+0x12"; false: no process has something there. */
bool dp_user_stacks_name(struct dp_user_stacks *s, u64 addr, char *buf, size_t size);
void dp_user_stacks_free(struct dp_user_stacks *s);

#endif
