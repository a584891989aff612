// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Which functions the kernel's Kprobes never probes: those on its list, and the parts that the compiler has made of
 * them (name.part.0, name.cold). For a part the kernel looks for what has the name before the dot, and without an index
 * it goes through all of its names, which takes milliseconds each time. For such kernels the names of the functions on
 * the list are collected once, when the module is loaded: entries of the kernel itself, which never change.
 */
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/sort.h>

#include "kernel-priv.h"
#include "base/hash.h"

static struct dp_span *listed; /* sorted, none overlaps another */
/* Hashes, sorted. Two names with the same one would keep probes off a function without need: one kernel in 10^12. */
static u64 *names;
static u32 nlisted, nnames, cap;
static bool known; /* both are there */

static bool is_listed(u64 addr)
{
	size_t i = DP_COUNT_UP_TO(listed, nlisted, lo, addr);

	return dp_k_sym.kprobe_never(addr) || (i && addr < listed[i - 1].hi);
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* What begins with dp_span.lo is sorted by it. */
static_assert(offsetof(struct dp_span, lo) == 0);

static int read_list(void)
{
	const struct kprobe_blacklist_entry *e;
	u32 n = 0, kept = 0;

	mutex_lock(dp_k_sym.kprobe_mutex);
	list_for_each_entry(e, dp_k_sym.kprobe_list, list)
		n++;
	listed = dp_alloc((n + 1) * sizeof(*listed));
	if (listed)
		list_for_each_entry(e, dp_k_sym.kprobe_list, list)
			if (dp_k_sym.core_text(e->start_addr))
				listed[nlisted++] = (struct dp_span){e->start_addr, e->end_addr};
	mutex_unlock(dp_k_sym.kprobe_mutex);
	if (!listed)
		return -ENOMEM;
	sort(listed, nlisted, sizeof(*listed), by_value, NULL);
	for (u32 i = 0; i < nlisted; i++)
		if (kept && listed[i].lo <= listed[kept - 1].hi)
			listed[kept - 1].hi = max(listed[kept - 1].hi, listed[i].hi);
		else
			listed[kept++] = listed[i];
	nlisted = kept;
	return 0;
}

/* Those of modules come behind all of the kernel's. */
static int note_name(DP_K_SYMBOL_ARGS)
{
	if (!dp_k_symbol_is_core(addr))
		return 1;
	if (strchr(name, '.') || !is_listed(addr))
		return 0;
	if (nnames == cap) {
		u32 more = cap ? cap * 2 : 1024;
		void *v = dp_resize(names, cap * sizeof(*names), more * sizeof(*names));

		if (!v)
			return -ENOMEM;
		names = v;
		cap = more;
	}
	names[nnames++] = dp_hash(DP_HASH_BEGIN, name, strlen(name));
	return 0;
}

/* Where something is missing, or names have an index, the kernel is asked. */
int dp_k_nokprobe_init(void)
{
	int r;

	if (DP_K_NAMES_INDEXED || !dp_k_sym.kprobe_mutex || !dp_k_sym.kprobe_list || !dp_k_sym.kprobe_never ||
	    !dp_k_sym.each_symbol || !dp_k_sym.symbol_name)
		return 0;
	r = read_list();
	if (!r)
		r = dp_k_sym.each_symbol(note_name, NULL);
	if (r < 0) {
		dp_k_nokprobe_exit();
		return r;
	}
	sort(names, nnames, sizeof(*names), by_value, NULL);
	known = true;
	return 0;
}

void dp_k_nokprobe_exit(void)
{
	dp_free(listed);
	dp_free(names);
	listed = NULL;
	names = NULL;
	nlisted = nnames = cap = 0;
	known = false;
}

static bool name_is_listed(const char *name, size_t len)
{
	u64 h = dp_hash(DP_HASH_BEGIN, name, len);
	size_t i = dp_count_below(names, nnames, sizeof(*names), 0, h);

	return i < nnames && names[i] == h;
}

/* An entry is as long as the symbol that it begins in: what meets a function has its first byte or its last. */
bool dp_k_is_nokprobe(u64 lo, u64 hi)
{
	char name[KSYM_NAME_LEN];
	const char *dot;

	if (!dp_k_sym.kprobe_blacklist)
		return false;
	if (known && dp_k_sym.core_text(lo) && !dp_k_sym.symbol_name(lo, name)) {
		dot = strchr(name, '.');
		if (dot)
			return is_listed(lo) || is_listed(hi - 1) || name_is_listed(name, dot - name);
	}
	return dp_k_sym.kprobe_blacklist(lo) || dp_k_sym.kprobe_blacklist(hi - 1);
}
