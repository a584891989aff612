// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What may not be probed: regions by where they are, functions that run before a breakpoint is
 * handled, and single instructions that the kernel knows by their address. All of it is read from
 * the running kernel's own tables. In doubt an address is in.
 */
#include <linux/extable.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/notifier.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/static_call.h>

#include "kernel-priv.h"

struct region {
	const char *first, *last; /* symbols at its ends; last NULL: one function */
	enum dp_code why;
	u64 lo, hi;
};

static struct region regions[] = {
    {"__entry_text_start", "__entry_text_end", E_SITE_ENTRY},
    {"__noinstr_text_start", "__noinstr_text_end", E_SITE_ENTRY},
    {"__irqentry_text_start", "__irqentry_text_end", E_SITE_ENTRY},
    {"__cpuidle_text_start", "__cpuidle_text_end", E_SITE_ENTRY},
    {"__kprobes_text_start", "__kprobes_text_end", E_KPROBE_BLACKLIST},
    {"__indirect_thunk_start", "__indirect_thunk_end", E_SITE_TRAPPATH},
    {"__x86_indirect_thunk_array", "__x86_return_thunk", E_SITE_TRAPPATH}, /* where nothing has the two names above */
    {"__static_call_text_start", "__static_call_text_end", E_SITE_STATICCALL},
    /* Called between the breakpoint and our handler, or by what we do in it. */
    {"__rcu_read_lock", NULL, E_SITE_TRAPPATH},
    {"__rcu_read_unlock", NULL, E_SITE_TRAPPATH},
    {"rcu_read_unlock_special", NULL, E_SITE_TRAPPATH},
    {"rcu_read_unlock_strict", NULL, E_SITE_TRAPPATH},
    {"notify_die", NULL, E_SITE_TRAPPATH},
    {"notifier_call_chain", NULL, E_SITE_TRAPPATH},
    {"atomic_notifier_call_chain", NULL, E_SITE_TRAPPATH},
    {"__x86_return_thunk", NULL, E_SITE_TRAPPATH},
    {"fixup_bad_iret", NULL, E_SITE_TRAPPATH},
    {"sync_regs", NULL, E_SITE_TRAPPATH},
    {"do_user_addr_fault", NULL, E_SITE_TRAPPATH},
    {"rcu_lockdep_current_cpu_online", NULL, E_SITE_TRAPPATH},
    {"debug_lockdep_rcu_enabled", NULL, E_SITE_TRAPPATH},
    {"rcu_is_watching", NULL, E_SITE_TRAPPATH},
    {"rcu_read_lock_held", NULL, E_SITE_TRAPPATH},
    {"rcu_read_lock_any_held", NULL, E_SITE_TRAPPATH},
    {"rcu_read_lock_sched_held", NULL, E_SITE_TRAPPATH},
    {"__traceiter_lock_acquire", NULL, E_SITE_TRAPPATH},
    {"__traceiter_lock_release", NULL, E_SITE_TRAPPATH},
    {"trace_hardirqs_off_finish", NULL, E_SITE_TRAPPATH},
    {"trace_hardirqs_on_prepare", NULL, E_SITE_TRAPPATH},
    {"kmsan_unpoison_entry_regs", NULL, E_SITE_TRAPPATH},
    {"__traceiter_irq_disable", NULL, E_SITE_TRAPPATH},
    {"__traceiter_irq_enable", NULL, E_SITE_TRAPPATH},
    {"preempt_schedule_notrace", NULL, E_SITE_TRAPPATH},
    {"preempt_schedule_notrace_thunk", NULL, E_SITE_TRAPPATH},
    /* Templates: the function tracer runs copies of these bytes. */
    {"ftrace_caller", NULL, E_SITE_FTRACE},
    {"ftrace_regs_caller", NULL, E_SITE_FTRACE},
    {"__fentry__", NULL, E_SITE_FTRACE},
    {"ftrace_stub", NULL, E_SITE_FTRACE},
    {"ftrace_epilogue", NULL, E_SITE_FTRACE},
    {"ftrace_caller_end", NULL, E_SITE_FTRACE},
    {"ftrace_caller_op_ptr", NULL, E_SITE_FTRACE},
    {"ftrace_call", NULL, E_SITE_FTRACE},
    {"ftrace_regs_call", NULL, E_SITE_FTRACE},
    {"ftrace_regs_caller_op_ptr", NULL, E_SITE_FTRACE},
    {"ftrace_regs_caller_jmp", NULL, E_SITE_FTRACE},
    {"ftrace_regs_caller_end", NULL, E_SITE_FTRACE},
    {"return_to_handler", NULL, E_SITE_FTRACE},
};

/*
 * What watches a kernel's own locks and memory, where it does, runs before our handler as well, and calls functions of
 * its files of which not all have names that would tell. A file's functions lie together: from the first of these names
 * to the last.
 */
#define NAMES 12
static const char *const watchers[][NAMES] = {
    {"noop_count", "find_held_lock", "__bfs", "hlock_class", "mark_lock", "__lock_acquire", "lock_acquire",
     "lock_release", "lockdep_free_key_range", "lockdep_sys_exit"},
    {"kasan_enable_current", "__kasan_kmalloc", "__kasan_slab_free", "__kasan_check_byte",
     "__kasan_unpoison_vmap_areas"},
    {"__asan_unregister_globals", "__asan_load1", "__asan_store8", "kasan_check_range", "kasan_byte_accessible",
     "kasan_save_alloc_info", "kasan_save_free_info"},
    {"__kasan_check_read", "__kasan_check_write", "kasan_poison", "kasan_unpoison", "__kasan_poison_vmalloc"},
    {"check_preemption_disabled", "debug_smp_processor_id", "__this_cpu_preempt_check"},
};
#define WATCHER_MAX (256 * 1024) /* bytes of such a file; more: one of the names is elsewhere */

/* Handlers of the chain that come before ours, what watches, and what modules ask for. */
#define MOST 64
static struct region found[MOST];
static u32 nfound;

static u64 end_of(u64 addr)
{
	unsigned long size, off;

	return dp_k_sym.size_offset(addr, &size, &off) ? addr - off + size : addr + 1;
}

static u64 start_of(u64 addr)
{
	unsigned long size, off;

	return dp_k_sym.size_offset(addr, &size, &off) ? addr - off : addr;
}

int dp_k_forbid(u64 addr)
{
	if (nfound == MOST)
		return -ENOSPC;
	found[nfound++] = (struct region){.lo = start_of(addr), .hi = end_of(addr), .why = E_SITE_TRAPPATH};
	return 0;
}

/* All that is in the chain now comes before us: our priority is the highest, and among equals the
 * order is that of registration. */
static void forbid_chain(void)
{
	struct atomic_notifier_head *chain = (void *)dp_k_lookup("die_chain");
	struct notifier_block *nb;

	if (!chain)
		return;
	rcu_read_lock();
	for (nb = rcu_dereference(chain->head); nb; nb = rcu_dereference(nb->next))
		if (nb->priority == INT_MAX)
			dp_k_forbid((unsigned long)nb->notifier_call);
	rcu_read_unlock();
}

static void forbid_watchers(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(watchers); i++) {
		struct region r = {.lo = ~0ull, .why = E_SITE_TRAPPATH};

		for (u32 k = 0; k < NAMES && watchers[i][k]; k++) {
			u64 at = dp_k_lookup(watchers[i][k]);

			if (at) {
				r.lo = min(r.lo, at);
				r.hi = max(r.hi, end_of(at));
			}
		}
		if (r.hi && r.hi - r.lo < WATCHER_MAX && nfound < MOST)
			found[nfound++] = r;
	}
}

static bool is_in(const struct region *v, u32 n, u64 addr, enum dp_code *why)
{
	for (u32 i = 0; i < n; i++)
		if (addr >= v[i].lo && addr < v[i].hi) {
			*why = v[i].why;
			return true;
		}
	return false;
}

int dp_k_allowed(u64 addr, struct dp_error *err)
{
	struct module *mod = dp_k_module_of(addr);
	enum dp_code why = DP_OK;

	if (mod == THIS_MODULE)
		why = E_SITE_OWN;
	else if (!mod && !dp_k_sym.core_text(addr))
		why = E_SITE_NOTEXT;
	else if (!is_in(regions, DP_ARRAY_SIZE(regions), addr, &why))
		is_in(found, nfound, addr, &why);
	return why ? dp_fail(err, why, "%pS", (void *)(unsigned long)addr) : 0;
}

static void show_region(struct seq_file *s, const struct region *r)
{
	if (r->lo)
		seq_printf(s, "0x%px-0x%px\t%ps\t%s\n", (void *)(unsigned long)r->lo, (void *)(unsigned long)r->hi,
			   (void *)(unsigned long)r->lo, dp_error_info(r->why)->name);
}

void dp_k_blacklist_show(struct seq_file *s)
{
	u64 lo, hi;

	for (u32 i = 0; i < DP_ARRAY_SIZE(regions); i++)
		show_region(s, &regions[i]);
	for (u32 i = 0; i < nfound; i++)
		show_region(s, &found[i]);
	dp_k_module_text(THIS_MODULE, &lo, &hi);
	seq_printf(s, "0x%llx-0x%llx\t[dprobes]\t%s\n", lo, hi, dp_error_info(E_SITE_OWN)->name);
}

/* ---- single instructions ---- */

static int by_addr(const void *a, const void *b)
{
	u64 x = ((const struct dp_mark *)a)->addr, y = ((const struct dp_mark *)b)->addr;

	return x < y ? -1 : x > y;
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

struct tables {
	const struct exception_table_entry *ex;
	const struct jump_entry *jump;
	const struct static_call_site *call;
	u32 nex, njump, ncall;
};

static void *table(const char *first, const char *last, size_t size, u32 *n)
{
	unsigned long lo = dp_k_lookup(first), hi = dp_k_lookup(last);

	*n = lo && hi > lo ? (hi - lo) / size : 0;
	return (void *)lo;
}

static void find_tables(struct module *mod, struct tables *t)
{
	memset(t, 0, sizeof(*t));
	if (mod) {
		t->ex = mod->extable;
		t->nex = mod->num_exentries;
#ifdef CONFIG_JUMP_LABEL
		t->jump = mod->jump_entries;
		t->njump = mod->num_jump_entries;
#endif
#ifdef CONFIG_HAVE_STATIC_CALL_INLINE
		t->call = mod->static_call_sites;
		t->ncall = mod->num_static_call_sites;
#endif
		return;
	}
	t->ex = table("__start___ex_table", "__stop___ex_table", sizeof(*t->ex), &t->nex);
	t->jump = table("__start___jump_table", "__stop___jump_table", sizeof(*t->jump), &t->njump);
	t->call = table("__start_static_call_sites", "__stop_static_call_sites", sizeof(*t->call), &t->ncall);
}

/* Entries of these tables are distances from the place where they stand. */
static u64 far(const int *field)
{
	return (u64)(unsigned long)field + (u64)(s64)*field;
}

static void fill_marks(struct dp_marks *m, const struct tables *t)
{
	for (u32 i = 0; i < t->nex; i++)
		m->v[m->n++] = (struct dp_mark){far(&t->ex[i].insn), far(&t->ex[i].fixup), MARK_EXTABLE};
	for (u32 i = 0; i < t->njump; i++)
		m->v[m->n++] = (struct dp_mark){far((const int *)&t->jump[i].code),
						far((const int *)&t->jump[i].target), MARK_JUMPLABEL};
	for (u32 i = 0; i < t->ncall; i++)
		m->v[m->n++] = (struct dp_mark){far((const int *)&t->call[i].addr), 0, MARK_STATICCALL};
	for (u32 i = 0; i < m->n; i++)
		if (m->v[i].target)
			m->targets[m->ntargets++] = m->v[i].target;
}

int dp_k_marks_of(struct module *mod, struct dp_marks *m)
{
	struct tables t;
	u32 n;

	find_tables(mod, &t);
	n = t.nex + t.njump + t.ncall;
	memset(m, 0, sizeof(*m));
	m->v = dp_alloc((n + 1) * sizeof(*m->v));
	m->targets = dp_alloc((n + 1) * sizeof(*m->targets));
	if (!m->v || !m->targets) {
		dp_k_marks_free(m);
		return -ENOMEM;
	}
	fill_marks(m, &t);
	sort(m->v, m->n, sizeof(*m->v), by_addr, NULL);
	sort(m->targets, m->ntargets, sizeof(*m->targets), by_value, NULL);
	return 0;
}

void dp_k_marks_free(struct dp_marks *m)
{
	dp_free(m->v);
	dp_free(m->targets);
	memset(m, 0, sizeof(*m));
}

/* The first mark at or above addr. */
static u32 first_mark(const struct dp_marks *m, u64 addr)
{
	return (u32)DP_COUNT_BELOW(m->v, m->n, addr, addr);
}

static const enum dp_code code_of[] = {
    [MARK_EXTABLE] = E_SITE_EXTABLE,
    [MARK_JUMPLABEL] = E_SITE_JUMPLABEL,
    [MARK_STATICCALL] = E_SITE_STATICCALL,
};

int dp_k_marked(const struct dp_marks *m, u64 addr, u32 len, struct dp_error *err)
{
	u32 i = first_mark(m, addr);
	enum dp_code why = DP_OK;

	if (i < m->n && m->v[i].addr < addr + len)
		why = code_of[m->v[i].kind];
	else if (dp_k_is_alternative(addr, len))
		why = E_SITE_ALTERNATIVE;
	return why ? dp_fail(err, why, "%pS", (void *)(unsigned long)addr) : 0;
}

int dp_k_blacklist_init(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(regions); i++) {
		struct region *r = &regions[i];

		r->lo = dp_k_lookup(r->first);
		if (r->lo)
			r->hi = r->last ? dp_k_lookup(r->last) : end_of(r->lo);
	}
	forbid_chain();
	forbid_watchers();
	return dp_k_nokprobe_init();
}

void dp_k_blacklist_exit(void)
{
	dp_k_nokprobe_exit();
	nfound = 0;
}
