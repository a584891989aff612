/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A hit of a pagepoint. The kernel marks the pages: a store there faults, the kernel opens the page, and tells us by a
 * SIGTRAP before the store is made again. The thread is sent to a copy of its instruction (copy.c), which stores and
 * leads back here; then the page is closed, and the programs run for what was stored. Whoever is in between when others
 * fault, end or are killed leaves an open page: never a thread that cannot go on.
 */
#include "abi/abi-offsets.h"
#include "abi/abi-page.h"
#include "abi/abi-point.h"
#include "abi/abi-watch.h"
#include "arch/arch.h"
#include "hit/blob.h"
#include "hit/hit-priv.h"
#include "abi/abi-pagemap.h"

#define PAGE 4096ull
#define SYS_OPEN 2
#define SYS_CLOSE 3
#define SYS_IOCTL 16
#define SYS_FUTEX 202
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define O_CLOEXEC_BIT 02000000
#define FLAG_DF 0x400
#define ENOTTY_NR 25
#define EBADF_NR 9
#define ASK_MS 100

/* ---- the kernel's marks on pages ---- */

/*
 * Close the pages of [lo, hi) that are open; returns how many stretches of them v has (at most n), negative on error.
 * *end: how far.
 */
static s64 close_pages(const struct dp_control *ctl, u64 lo, u64 hi, struct dp_stretch *v, u32 n, u64 *end)
{
	static const char name[] = "/proc/self/pagemap";
	struct dp_scan s;
	s64 r, fd;

	memset(&s, 0, sizeof(s));
	s.size = sizeof(s);
	s.flags = DP_SCAN_CLOSES | DP_SCAN_CHECKS;
	s.start = lo;
	s.end = hi;
	s.vec = (u64)v;
	s.vec_len = n;
	s.mask = s.result = DP_PAGE_WRITTEN;
	r = dp_syscall(SYS_IOCTL, (u64)(s64)ctl->pagemap, DP_PAGEMAP_SCAN, (u64)&s, 0, 0, 0);
	if (r == -EBADF_NR || r == -ENOTTY_NR) { /* the program has closed it */
		fd = dp_syscall(SYS_OPEN, (u64)name, O_CLOEXEC_BIT, 0, 0, 0, 0);
		if (fd < 0)
			return fd;
		r = dp_syscall(SYS_IOCTL, (u64)fd, DP_PAGEMAP_SCAN, (u64)&s, 0, 0, 0);
		dp_syscall(SYS_CLOSE, (u64)fd, 0, 0, 0, 0, 0);
	}
	*end = s.walk_end;
	return r;
}

static const struct dp_range *range_of(const struct dp_control *ctl, u64 addr)
{
	const struct dp_range *v = (const struct dp_range *)ctl->pages;
	u32 lo = 0, hi = ctl->npages;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (addr >= v[mid].hi)
			lo = mid + 1;
		else if (addr < v[mid].lo)
			hi = mid;
		else
			return &v[mid];
	}
	return NULL;
}

/* Close what is watched of the pages of [lo, hi); whether any was open. */
static bool close_around(const struct dp_control *ctl, u64 lo, u64 hi)
{
	const struct dp_range *v = (const struct dp_range *)ctl->pages;
	struct dp_stretch found;
	bool any = false;
	u64 end;

	lo &= ~(PAGE - 1);
	hi = (hi + PAGE - 1) & ~(PAGE - 1);
	for (u32 i = 0; i < ctl->npages && v[i].lo < hi; i++) {
		u64 from = DP_MAX(lo, v[i].lo), to = DP_MIN(hi, v[i].hi);

		/* Stretch by stretch: the kernel stops where it has no more room to tell. */
		while (from < to && close_pages(ctl, from, to, &found, 1, &end) > 0) {
			any = true;
			from = DP_MAX(end, from + PAGE);
		}
	}
	return any;
}

void dp_page_close(const struct dp_control *ctl, u64 addr)
{
	close_around(ctl, addr, addr + 1);
}

/* ---- telling ---- */

/* Put what stands in n bytes now in the place of what was seen last, which is returned. */
static u64 exchange(u64 seen, u64 now, u32 n)
{
	u64 old = 0;

	/* Each value is told once as the new one, and once as the old one, whoever comes between. */
	if (n == 8 && !(seen & 7))
		return __atomic_exchange_n((u64 *)seen, now, __ATOMIC_RELAXED);
	if (n == 4 && !(seen & 3))
		return __atomic_exchange_n((u32 *)seen, (u32)now, __ATOMIC_RELAXED);
	memcpy(&old, (const void *)seen, n);
	memcpy((void *)seen, &now, n);
	return old;
}

/* The programs of w, for what is in [lo, hi) now, of which all is watched. */
static void tell(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_watch_rt *w, u64 lo, u64 hi)
{
	struct dp_watch_regs *regs = (struct dp_watch_regs *)h->regs;
	u32 n = (u32)DP_MIN(hi - lo, 8ull);

	regs->addr = lo;
	regs->old = regs->now = 0;
	if (!dp_hit_read(h, &regs->now, lo, n)) {
		regs->old = exchange(w->last + (lo - w->addr), regs->now, n);
		if (hi - lo > n)
			dp_hit_read(h, (void *)(w->last + (lo - w->addr) + n), lo + n, (u32)(hi - lo - n));
	}
	if (dp_hit_probes(h, slot, w->first, w->n))
		dp_hit_stop(slot, DP_STOPPED_BEHIND);
}

/* The first and the last of the watched bytes in [lo, hi) that differ from what was seen last. */
static bool find_changes(struct dp_hit *h, const struct dp_watch_rt *w, u64 lo, u64 hi, u64 *first, u64 *last)
{
	u8 now[256];
	bool any = false;

	for (u64 at = lo; at < hi; at += sizeof(now)) {
		u32 n = (u32)DP_MIN(hi - at, (u64)sizeof(now));
		const u8 *seen = (const u8 *)(w->last + (at - w->addr));

		if (dp_hit_read(h, now, at, n))
			break;
		for (u32 i = 0; i < n; i++) {
			if (now[i] == seen[i])
				continue;
			if (!any)
				*first = at + i;
			*last = at + i;
			any = true;
		}
	}
	return any;
}

/*
 * What has changed in [lo, hi), as one hit of each watch; where nothing has, the byte at `else_at` if it is watched (0:
 * none).
 */
static void tell_changes(struct dp_hit *h, struct dp_hit_slot *slot, u64 lo, u64 hi, u64 else_at)
{
	const struct dp_watch_rt *w = (const struct dp_watch_rt *)h->ctl->watches;

	for (u32 i = 0; i < h->ctl->nwatches; i++, w++) {
		u64 from = DP_MAX(lo, w->addr), to = DP_MIN(hi, w->addr + w->len), first, last;

		if (!w->paged || from >= to)
			continue;
		if (find_changes(h, w, from, to, &first, &last)) {
			first = DP_MAX(first & ~7ull, w->addr); /* the word that it is in, rather */
			last = DP_MIN(last | 7, w->addr + w->len - 1);
			tell(h, slot, w, first, last + 1);
		} else if (else_at - w->addr < w->len && else_at) {
			tell(h, slot, w, else_at, DP_MIN(else_at + 8, w->addr + w->len));
		}
	}
}

/* ---- hits ---- */

/* What a string instruction has gone over since its pointer was at `from`. */
static void span_of_string(const struct dp_watch_regs *regs, u64 from, u32 element, u64 *lo, u64 *hi)
{
	u64 now = dp_regs_arg(&regs->regs, 0);

	*lo = from;
	*hi = now;
	if (regs->regs.flags & FLAG_DF || now < from) {
		*lo = now + element;
		*hi = from + element;
	}
}

void dp_page_swept(struct dp_watch_regs *regs, void *slot_base, const struct dp_control *ctl)
{
	const struct dp_range *v = (const struct dp_range *)ctl->pages;
	struct dp_stretch found[16];
	struct dp_hit h;

	dp_watch_begin(&h, regs, slot_base, ctl);
	for (u32 i = 0; i < ctl->npages; i++) {
		u64 from = v[i].lo, end;
		s64 n;

		while (from < v[i].hi && (n = close_pages(ctl, from, v[i].hi, found, DP_ARRAY_SIZE(found), &end)) > 0) {
			for (s64 k = 0; k < n; k++)
				for (u64 page = found[k].start; page < found[k].end; page += PAGE)
					tell_changes(&h, (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD),
						     page, page + PAGE, 0);
			from = DP_MAX(end, from + PAGE);
		}
	}
}

static void tell_store(struct dp_watch_regs *regs, u32 element, void *slot_base, const struct dp_control *ctl)
{
	struct dp_hit_slot *slot = (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);
	const struct dp_watch_rt *w = (const struct dp_watch_rt *)ctl->watches;
	u64 lo = slot->page_addr, hi = lo + (slot->page_len ? slot->page_len : DP_STORE_MAX);
	struct dp_hit h;
	bool opened;

	if (element)
		span_of_string(regs, slot->page_addr, element, &lo, &hi);
	/*
	 * Where the bytes are not known it may have been a load, which opens nothing. Then only changes count: the
	 * control side may have closed the page before us.
	 */
	opened = close_around(ctl, lo, hi);
	dp_watch_begin(&h, regs, slot_base, ctl);
	if (!slot->page_len) {
		tell_changes(&h, slot, lo, hi, opened ? lo : 0);
		return;
	}
	for (u32 i = 0; i < ctl->nwatches; i++, w++) {
		u64 from = DP_MAX(lo, w->addr), to = DP_MIN(hi, w->addr + w->len);

		if (w->paged && from < to)
			tell(&h, slot, w, from, to);
	}
}

/* The instruction of a copy has stored; known: what it stores stands in the slot. */
static u32 stored(struct dp_watch_regs *regs, u32 copy, bool known, void *slot_base, const struct dp_control *ctl)
{
	struct dp_hit_slot *slot = (struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);
	u64 sp = regs->regs.sp, next, left;
	u32 element;

	next = dp_home_of(ctl, dp_copy_next(ctl, copy, &element));
	regs->regs.ip = next;
	if (known)
		tell_store(regs, element, slot_base, ctl);
	else /* a signal handler that came between has had a hit of its own */
		dp_page_swept(regs, slot_base, ctl);
	slot->page_copy = 0;
	slot->page_lost &= known;
	left = slot->page_left;
	slot->page_left = 0;
	if (left)
		dp_page_close(ctl, left);
	return regs->regs.ip != next || regs->regs.sp != sp;
}

u32 dp_page_stored(struct dp_watch_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl)
{
	const struct dp_hit_slot *slot = (const struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);

	return stored(regs, index, slot->page_copy == index + 1, slot_base, ctl);
}

static void expect(struct dp_hit_slot *slot, const struct dp_store *store, u32 what)
{
	slot->page_lost |= slot->page_copy != 0;
	slot->page_addr = store->addr;
	slot->page_len = store->len;
	slot->page_copy = what;
}

void dp_page_expect(const struct dp_regs *regs, u32 index, struct dp_hit_slot *slot, const struct dp_control *ctl)
{
	const struct dp_point *point = (const struct dp_point *)ctl->points + index;
	const struct dp_range *v = (const struct dp_range *)ctl->pages;
	struct dp_store store;
	u64 uc[DP_CTX_WORDS];

	/* In the child of a fork that word is wiped; its pages are its own, and not watched. */
	if (((const u32 *)ctl->tids)[ctl->nslots] != ctl->pid)
		return;
	dp_context_of(regs, uc);
	dp_copy_expect(ctl, (u32)point->store - 1, uc, &store);
	for (u32 i = 0; i < ctl->npages; i++)
		if (store.lo < v[i].hi && v[i].lo < store.hi) {
			expect(slot, &store, (index + 1) | DP_HIT_AFTER);
			break;
		}
}

u32 dp_page_passed(struct dp_watch_regs *regs, u32 index, void *slot_base, const struct dp_control *ctl)
{
	const struct dp_hit_slot *slot = (const struct dp_hit_slot *)((u8 *)slot_base + DP_HIT_SLOT_HEAD);
	const struct dp_point *point = (const struct dp_point *)ctl->points + index;
	bool known = slot->page_copy == ((index + 1) | DP_HIT_AFTER);

	if (!known && (slot->page_copy || !slot->page_lost))
		return 0; /* not to the pages */
	return stored(regs, (u32)point->store - 1, known, slot_base, ctl);
}

/* Whether the thread is at a point that has been told of the store, and will be told when it is made. */
static bool is_expected(const struct dp_hit_slot *slot, u64 ip, const struct dp_control *ctl)
{
	const struct dp_point *v = (const struct dp_point *)ctl->points;
	u32 index = (slot->page_copy & ~DP_HIT_AFTER) - 1;

	return slot->page_copy & DP_HIT_AFTER && index < ctl->npoints && ip - v[index].resume < DP_RELOC_MAX;
}

/* ---- instructions that are to have a point of their own (host/process/extend.c) ---- */

/*
 * Whether other threads may store to the pages in the time that the instruction at ip takes, and it may still get a
 * point.
 */
static bool should_ask(u64 ip, const struct dp_control *ctl)
{
	const struct dp_copies *all = (const struct dp_copies *)ctl->copies;

	return !(ctl->single && *(const volatile u8 *)ctl->single) &&
	       __atomic_load_n(&all->nasked, __ATOMIC_RELAXED) < DP_COPY_ASKS && !dp_copy_answered(ctl, ip);
}

/*
 * Wait, with the page closed, until the control side has given the instruction of a copy a point or knows that it
 * cannot have one: ASK_MS at most; if that is not enough nobody waits again. The thread goes to the instruction once
 * more then.
 */
static void ask_for_point(u32 copy, u64 addr, const struct dp_control *ctl)
{
	struct dp_copies *all = (struct dp_copies *)ctl->copies;
	struct dp_rings *g = (struct dp_rings *)ctl->rings;
	struct dp_copy *c = &all->v[copy];
	u32 nobody = DP_COPY_UNASKED, seen;
	const s64 ms[2] = {0, 1000000};

	dp_page_close(ctl, addr);
	if (__atomic_compare_exchange_n(&c->asked, &nobody, DP_COPY_ASKED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&all->nasked, 1, __ATOMIC_RELAXED);
		/* Pairs with the acquire of who reads it, and looks for what is asked then. */
		__atomic_fetch_add(&g->doorbell, 1, __ATOMIC_RELEASE);
		dp_syscall(SYS_FUTEX, (u64)&g->doorbell, FUTEX_WAKE, 1, 0, 0, 0);
	}
	for (u32 i = 0; i < ASK_MS; i++) {
		seen = __atomic_load_n(&g->answered, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&c->asked, __ATOMIC_RELAXED) == DP_COPY_ANSWERED)
			return;
		dp_syscall(SYS_FUTEX, (u64)&g->answered, FUTEX_WAIT, seen, (u64)ms, 0, 0);
	}
	__atomic_store_n(&all->nasked, DP_COPY_ASKS, __ATOMIC_RELAXED);
}

/*
 * Whether what stands at ip is, or is going to be, carried out by a point of its own: the thread has come to its
 * detour, has been moved there, or finds other bytes by now. By the control block that is in force: the caller's may be
 * the one before.
 */
static bool is_led_on(u64 ip, const struct dp_control *ctl)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)ctl->region_lo;
	/* Pairs with the one store by which extend.c publishes a block that it has written before. */
	const struct dp_control *now = (const struct dp_control *)__atomic_load_n(&head->ctl, __ATOMIC_ACQUIRE);
	const struct dp_point *v = (const struct dp_point *)now->points;
	u64 home = dp_home_of(now, ip);

	for (u32 i = 0; i < now->npoints; i++)
		if (v[i].store && v[i].addr == home)
			return true;
	return false;
}

static void miss(const struct dp_control *ctl, u64 addr)
{
	const struct dp_watch_rt *w = (const struct dp_watch_rt *)ctl->watches;

	for (u32 i = 0; i < ctl->nwatches; i++, w++)
		if (w->paged && addr - w->addr < w->len)
			dp_hit_passed_by(ctl, w->first, w->n, DP_COUNT_MISSED);
}

void dp_on_page(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl)
{
	u64 addr = si->perf.addr, ip = uc[DP_CTX_IP];
	bool by_call = si->perf.data & DP_PAGE_BY_CALL;
	struct dp_hit_slot *slot;
	struct dp_store store;
	bool asks;
	u8 *base;

	if (!range_of(ctl, addr))
		return;
	/*
	 * By a copy, which goes on: a further page of its store, or one that was closed again before it came. Or by
	 * code of ours.
	 */
	if (ip >= ctl->region_lo && ip < ctl->region_hi)
		return;
	base = dp_find_hit_slot(ctl);
	slot = (struct dp_hit_slot *)(base + DP_HIT_SLOT_HEAD);
	if (base && !slot->busy && (is_expected(slot, ip, ctl) || (dp_home_of(ctl, ip) != ip && is_led_on(ip, ctl))) &&
	    !by_call)
		return;
	if (!base || slot->busy || si->perf.flags & DP_PERF_ASYNC) {
		miss(ctl, addr);
		/* From a signal handler that interrupts a hit: that hit closes the page when it ends. */
		if (base && slot->busy)
			slot->page_left = addr;
		return;
	}
	*(volatile u32 *)&slot->busy = DP_HIT_SLOT_TAKEN;
	asks = !by_call && should_ask(ip, ctl);
	if (by_call) {
		dp_watch_run(base, NULL, uc, ctl);
	} else if (dp_copy_find(ctl, uc, addr, asks ? dp_page_close : NULL, &store)) {
		if (asks) {
			*(volatile u32 *)&slot->busy = 0;
			ask_for_point(store.index, addr, ctl);
			return;
		}
		expect(slot, &store, store.index + 1);
		uc[DP_CTX_IP] = ctl->copies_lo + (u64)store.index * DP_COPY_CODE;
	} else if (!is_led_on(ip, ctl)) {
		/*
		 * Not this instruction's: a restartable sequence was aborted by the signal, say, and would be again,
		 * for ever. The page stays open until the control side comes by.
		 */
		miss(ctl, addr);
	}
	*(volatile u32 *)&slot->busy = 0;
}
