// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Names and addresses of the running kernel. Almost nothing of this is offered to modules: the
 * address of kallsyms_lookup_name comes as a parameter, everything else is found through it.
 */
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kgdb.h>
#include <linux/kprobes.h>

#include "kernel-priv.h"

struct dp_symbols dp_k_sym;

#ifdef CONFIG_KGDB /* declared only then */
static_assert(__same_type(&kgdb_handle_exception, dp_k_sym.kgdb_enter));
static_assert(__same_type(&kgdb_connected, dp_k_sym.kgdb_connected));
static_assert(sizeof(dbg_io_ops) == sizeof(*dp_k_sym.kgdb_line));
#endif

static typeof(kallsyms_lookup_name) *lookup_name;

unsigned long dp_k_lookup(const char *name)
{
	return lookup_name(name);
}

static const struct {
	const char *name;
	size_t at;
	bool needed;
} wanted[] = {
#define SYMBOL(name, member, needed)                               \
	{                                                          \
#name, offsetof(struct dp_symbols, member), needed \
	}
    SYMBOL(kallsyms_lookup_size_offset, size_offset, true),
    SYMBOL(core_kernel_text, core_text, true),
    SYMBOL(__module_text_address, module_text, true),
    SYMBOL(find_module, find_module, true),
    SYMBOL(__get_vm_area_caller, vm_area, true),
    SYMBOL(init_mm, init_mm, true),
    SYMBOL(_stext, stext, true),
    SYMBOL(_etext, etext, true),
    SYMBOL(within_kprobe_blacklist, kprobe_blacklist, false),
    SYMBOL(arch_within_kprobe_blacklist, kprobe_never, false),
    SYMBOL(kprobe_blacklist, kprobe_list, false),
    SYMBOL(lookup_symbol_name, symbol_name, false),
    SYMBOL(ftrace_location, ftrace_location, false),
    SYMBOL(alternatives_text_reserved, alternatives_reserved, false),
    SYMBOL(text_mutex, text_mutex, false),
    SYMBOL(recover_probed_instruction, recover, false),
    SYMBOL(get_kprobe, get_kprobe, false),
    SYMBOL(kprobe_mutex, kprobe_mutex, false),
    SYMBOL(klp_mutex, klp_mutex, false),
    SYMBOL(klp_patches, klp_patches, false),
    SYMBOL(security_locked_down, locked_down, false),
    SYMBOL(kallsyms_on_each_symbol, each_symbol, false),
    SYMBOL(copy_to_kernel_nofault, copy_to_kernel, false),
    SYMBOL(stack_trace_save_regs, save_trace, false),
    SYMBOL(bpf_ksym_add, ksym_add, false),
    SYMBOL(bpf_ksym_del, ksym_del, false),
    SYMBOL(kgdb_handle_exception, kgdb_enter, false),
    SYMBOL(kgdb_connected, kgdb_connected, false),
    SYMBOL(dbg_kdb_mode, kdb_mode, false),
    SYMBOL(kdb_stub, kdb, false),
    SYMBOL(dbg_io_ops, kgdb_line, false),
#undef SYMBOL
};

int dp_k_symbols_init(unsigned long lookup)
{
	char name[KSYM_SYMBOL_LEN];

	/* A wrong address would be called: at least it must be the function of that name. */
	sprint_symbol(name, lookup);
	if (!lookup || strncmp(name, "kallsyms_lookup_name+0x0/", 25)) {
		pr_err("dprobes: E-KERNEL-LOOKUP: lookup=0x%lx is not the address of kallsyms_lookup_name\n", lookup);
		return -ENOENT;
	}
	lookup_name = (void *)lookup;
	for (u32 i = 0; i < DP_ARRAY_SIZE(wanted); i++) {
		unsigned long v = lookup_name(wanted[i].name);

		if (!v && wanted[i].needed) {
			pr_err("dprobes: E-KERNEL-LOOKUP: %s\n", wanted[i].name);
			return -ENOENT;
		}
		*(unsigned long *)((char *)&dp_k_sym + wanted[i].at) = v;
	}
	return 0;
}

/*
 * It may go at any time unless something else keeps it: the pointer is to be compared, or as a name of what is known of
 * it.
 */
struct module *dp_k_module_of(u64 addr)
{
	struct module *mod;

	rcu_read_lock_sched();
	mod = dp_k_sym.module_text(addr);
	rcu_read_unlock_sched();
	return mod;
}

/* Under it kernels change their own instructions, and the list of alternatives with their modules. */
void dp_k_text_lock(void)
{
	if (dp_k_sym.text_mutex)
		mutex_lock(dp_k_sym.text_mutex);
}

void dp_k_text_unlock(void)
{
	if (dp_k_sym.text_mutex)
		mutex_unlock(dp_k_sym.text_mutex);
}

bool dp_k_is_alternative(u64 addr, u32 len)
{
	void *lo = (void *)(unsigned long)addr;
	bool is;

	if (!dp_k_sym.alternatives_reserved)
		return false;
	dp_k_text_lock();
	is = dp_k_sym.alternatives_reserved(lo, lo + len - 1);
	dp_k_text_unlock();
	return is;
}

#ifdef CONFIG_OPTPROBES
#define KPROBE_JUMP_LEN 5

static bool covers(const struct kprobe *kp, u32 distance)
{
	const struct optimized_kprobe *op = container_of(kp, struct optimized_kprobe, kp);

	if (kprobe_ftrace((struct kprobe *)kp))
		return false;
	return distance < KPROBE_JUMP_LEN || (kp->flags & KPROBE_FLAG_OPTIMIZED && op->optinsn.size > distance);
}
#else
#define MAX_OPTIMIZED_LENGTH 1

static bool covers(const struct kprobe *kp, u32 distance)
{
	return false;
}
#endif

/*
 * Such a jump is written over whatever stands behind the kprobe by then, from a copy of what stood there when the
 * kprobe came; a breakpoint there would be lost, and taking it back would change where the jump leads to. One that is
 * registered and disabled has its copy, too, and no byte in the code that shows it.
 */
bool dp_k_kprobe_covers(u64 addr, u32 n)
{
	bool is = false;

	if (!dp_k_sym.get_kprobe)
		return false;
	preempt_disable(); /* what get_kprobe() asks for */
	for (u32 i = 1; i < MAX_OPTIMIZED_LENGTH && !is; i++) {
		const struct kprobe *kp = dp_k_sym.get_kprobe((void *)(unsigned long)(addr - i));

		is = kp && covers(kp, i);
	}
	for (u32 i = 0; i < n && !is; i++)
		is = dp_k_sym.get_kprobe((void *)(unsigned long)(addr + i));
	preempt_enable();
	return is;
}

u64 dp_k_tracers_bytes(u64 function)
{
	u64 at = dp_k_sym.ftrace_location ? dp_k_sym.ftrace_location(function) : 0;

	return at >= function && at - function <= 4 ? at : 0; /* a landing pad may come first */
}

unsigned long dp_symbol_address(const char *name)
{
	return lookup_name(name);
}
EXPORT_SYMBOL_GPL(dp_symbol_address);

/* 1: the module is not there. */
static int module_is_missing(const char *name, size_t len)
{
	char module[MODULE_NAME_LEN];
	bool there;

	if (len >= sizeof(module))
		return 0;
	memcpy(module, name, len);
	module[len] = '\0';
	rcu_read_lock_sched(); /* what find_module() asks for; the result is not kept */
	there = dp_k_sym.find_module(module);
	rcu_read_unlock_sched();
	return !there;
}

/* Its exit has begun: what is in there will not be called any more. */
static bool is_going(u64 addr)
{
	struct module *mod;
	bool going;

	rcu_read_lock_sched();
	mod = dp_k_sym.module_text(addr);
	going = mod && mod->state == MODULE_STATE_GOING;
	rcu_read_unlock_sched();
	return going;
}

int dp_k_resolve(const char *name, u64 *addr, struct dp_error *err)
{
	const char *colon = strchr(name, ':');

	*addr = lookup_name(name);
	if (*addr)
		return colon && is_going(*addr);
	if (colon && module_is_missing(name, colon - name))
		return 1;
	return dp_fail(err, E_KERNEL_SYMBOL, "%s", name);
}

struct namesakes {
	const char *name;
	u32 n;
};

static int count_namesake(DP_K_SYMBOL_ARGS)
{
	struct namesakes *s = arg;

	s->n += dp_k_symbol_is_core(addr) && !strcmp(name, s->name);
	return s->n > 1;
}

bool dp_k_ambiguous(const char *name)
{
	struct namesakes s = {name, 0};

	if (dp_k_sym.each_symbol)
		dp_k_sym.each_symbol(count_namesake, &s);
	return s.n > 1;
}
