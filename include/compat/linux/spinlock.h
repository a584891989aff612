/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A lock that waits awake: what holds it must not sleep, and a signal handler must not want it. */
#ifndef DP_COMPAT_LINUX_SPINLOCK_H
#define DP_COMPAT_LINUX_SPINLOCK_H

#include <sched.h>

typedef struct {
	int held;
} spinlock_t;

#define __SPIN_LOCK_UNLOCKED(name) {0}
#define SPIN_LOCK_UNLOCKED ((spinlock_t){0})
#define DEFINE_SPINLOCK(name) spinlock_t name = {0}
#define spin_lock_init(lock) ((void)((lock)->held = 0))

static inline void spin_lock(spinlock_t *lock)
{
	while (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE)) /* pairs with the release in spin_unlock() */
		sched_yield();
}

static inline void spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); /* pairs with the acquire in spin_lock() */
}

#define spin_lock_irqsave(lock, flags) ((void)((flags) = 0), spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))

#endif
