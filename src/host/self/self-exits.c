/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities that this program and its shared objects register. A row that is taken is complete. */
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "arch/arch.h"
#include "host/self/self-exits.h"
#include "host/self/self-priv.h"

#define COMPONENTS 0xe7u /* x87, SSE, AVX, AVX-512 */
#define LEGACY 576u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects changes of dp_self_exits */

/* Components of the format in which each has its fixed place. */
static void find_state(void)
{
	u32 a, b, c, d, mask, size = LEGACY;

	if (dp_self_exit_xsize || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	mask = dp_xcr0() & COMPONENTS;
	for (u32 i = 2; i < 8; i++)
		if (mask >> i & 1 && __get_cpuid_count(0xd, i, &a, &b, &c, &d))
			size = DP_MAX(size, a + b);
	dp_self_exit_xmask = mask;
	dp_self_exit_xsize = size;
}

/* The other threads are not there any more, nor are their calls. */
static void after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	for (u32 i = 0; i < DP_EXITS_MAX; i++)
		dp_self_exits.rows[i].inside = dp_self_exit_depth && dp_self_exits.rows[i].inside ? 1 : 0;
}

static void set_up(void)
{
	find_state();
	pthread_atfork(NULL, NULL, after_fork);
}

static int take_row(struct dp_exit *e, const void *owner)
{
	struct dp_exits_row *row = NULL;

	for (u32 i = 0; i < DP_EXITS_MAX; i++) {
		struct dp_exits_row *r = &dp_self_exits.rows[i];

		if (r->exit && !strcmp(r->name, e->name))
			return r->exit == (u64)e ? -EINVAL : -EEXIST;
		/* A name is changed only where nobody can be comparing it. Pairs with dp_self_exit_call(). */
		if (!r->exit && !__atomic_load_n(&r->inside, __ATOMIC_SEQ_CST))
			row = row ? row : r;
	}
	if (!row)
		return -ENOSPC;
	row->owner = (u64)owner;
	row->nargs = e->nargs;
	row->nresults = e->nresults;
	memset(row->name, 0, sizeof(row->name));
	memcpy(row->name, e->name, strlen(e->name));
	__atomic_store_n(&row->exit, (u64)e, __ATOMIC_SEQ_CST);
	return 0;
}

EXPORT int dp_register_exit_for(struct dp_exit *e, const void *owner)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t len = e->name ? strnlen(e->name, DP_EXIT_NAME) : 0;
	int r;

	if (!len || len >= DP_EXIT_NAME || !e->handler || e->nargs > DP_EXIT_WORDS || e->nresults > DP_EXIT_WORDS)
		return -EINVAL;
	if (dp_self_exit_depth)
		return -EDEADLK;
	pthread_once(&once, set_up);
	pthread_mutex_lock(&lock);
	r = take_row(e, owner);
	pthread_mutex_unlock(&lock);
	return r;
}

/* Nobody calls it any more, and nobody looks at its name. In a facility of its own it cannot be waited for. */
static void leave(struct dp_exits_row *row)
{
	/* Pairs with dp_self_exit_call(). */
	__atomic_store_n(&row->exit, 0, __ATOMIC_SEQ_CST);
	while (!dp_self_exit_depth && __atomic_load_n(&row->inside, __ATOMIC_SEQ_CST))
		usleep(200);
}

EXPORT void dp_unregister_exit(struct dp_exit *e)
{
	pthread_mutex_lock(&lock);
	for (u32 i = 0; i < DP_EXITS_MAX; i++)
		if (e && dp_self_exits.rows[i].exit == (u64)e)
			leave(&dp_self_exits.rows[i]);
	pthread_mutex_unlock(&lock);
}

EXPORT void dp_unregister_exits_for(const void *owner)
{
	pthread_mutex_lock(&lock);
	for (u32 i = 0; i < DP_EXITS_MAX; i++)
		if (dp_self_exits.rows[i].exit && dp_self_exits.rows[i].owner == (u64)owner)
			leave(&dp_self_exits.rows[i]);
	pthread_mutex_unlock(&lock);
}
