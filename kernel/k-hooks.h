/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks in the kernel: hooks.c has the calls and the places, hooks-files.c what root sees of them.
 */
#ifndef DP_KERNEL_HOOKS_H
#define DP_KERNEL_HOOKS_H

#include <linux/mutex.h>

#include "engine/hooks.h"

extern struct mutex dp_k_hooks_lock; /* protects dp_k_hooks; taken before dp_k_lock */
extern struct dp_hooks dp_k_hooks;

int dp_k_hooks_init(void);
void dp_k_hooks_exit(void);
/* A module comes; only its init code goes, or all of it. */
void dp_k_hooks_come(struct module *mod);
void dp_k_hooks_gone(struct module *mod, bool init_only);
int dp_k_hook_open(const char *name, bool on);

/* hooks-files.c: a file for each exit. Without the lock: they wait for who is at a file. */
int dp_k_hook_files_init(void);
void dp_k_hook_files_exit(void);
void dp_k_hook_file_add(struct hook *hook, struct hook_rec *rec);
void dp_k_hook_file_remove(struct hook_rec *rec);

#endif
