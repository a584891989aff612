/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See log-guard.h. Memory files are sealed against this where we make them; what another version made need not be. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log/log-guard.h"

#define PAGE 4096ull

/* Entries are never freed, since a handler may be walking over them; they are used again. */
struct guarded {
	struct guarded *next; /* written before the entry is linked in */
	u64 lo, size;         /* size 0: free. Atomic: read by the handler of any thread */
};

static struct guarded *list; /* atomic */
static u32 nfree;            /* entries of it: with a thousand targets it is not searched for each */
static bool installed;
static struct sigaction before;

static bool is_guarded(u64 addr)
{
	/* Pairs with the release in dp_guard_add(). */
	for (struct guarded *g = __atomic_load_n(&list, __ATOMIC_ACQUIRE); g; g = g->next) {
		u64 size = __atomic_load_n(&g->size, __ATOMIC_ACQUIRE);

		if (addr - __atomic_load_n(&g->lo, __ATOMIC_RELAXED) < size)
			return true;
	}
	return false;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	u64 addr = (u64)info->si_addr;
	int e = errno;

	(void)context;
	if (info->si_code != BUS_ADRERR || !is_guarded(addr) ||
	    mmap((void *)(addr & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		sigaction(sig, &before, NULL); /* the access is made again, and is fatal as ever */
	errno = e;
}

static void install(void)
{
	struct sigaction ours = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (!installed)
		installed = !sigaction(SIGBUS, &ours, &before);
}

bool dp_guard_add(const void *at, u64 size)
{
	struct guarded *g = nfree ? list : NULL;

	install();
	while (g && g->size)
		g = g->next;
	nfree -= g != NULL;
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return false;
		g->next = list;
		/* Like those of size: pairs with the acquires of the handler, which may run at any time. */
		__atomic_store_n(&list, g, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&g->lo, (u64)at, __ATOMIC_RELAXED);
	__atomic_store_n(&g->size, size, __ATOMIC_RELEASE); /* pairs with the handler's acquire: lo is there */
	return installed;
}

void dp_guard_drop(const void *at)
{
	for (struct guarded *g = list; g; g = g->next)
		if (g->size && g->lo == (u64)at) {
			__atomic_store_n(&g->size, 0, __ATOMIC_RELEASE); /* pairs as in dp_guard_add() */
			nfree++;
			return;
		}
}
