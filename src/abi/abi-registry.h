/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What `dprobes list` finds in a process that uses libdprobes, by the name dp_self_registry. */
#ifndef DP_SELF_REGISTRY_H
#define DP_SELF_REGISTRY_H

#include "base/base.h"

#define SELF_REGISTRY_MAGIC 0x3142454552504444ull
#define SELF_REGISTRY_VERSION 3 /* of the layouts of struct dp_registered and struct kprobe */

struct self_registry {
	u64 magic;
	u32 version, pad;
	u64 probes; /* address of the pointer to the newest struct dp_registered */
};

/* The same for hooks, by the name dp_self_hooks. */
#define SELF_HOOKS_VERSION 1 /* of struct dp_hooks, dp_hook_place, hook and hook_rec */

struct self_hooks_registry {
	u64 magic;
	u32 version, lock_size;
	u64 hooks; /* address of the struct dp_hooks */
	u64 lock;  /* of the mutex, whose first word is 0 while nobody changes anything */
};

#endif
