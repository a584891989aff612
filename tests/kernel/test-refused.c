// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What must not be probed, and the name of each refusal. Everything here has been seen to bring a
 * kernel down, or to break a part of it, when it was probed all the same.
 */
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/static_call.h>

#include "test.h"

static int refused(void *addr, const char *symbol, unsigned int offset, const char *code)
{
	struct dp_kprobe kp = {.addr = addr, .symbol_name = symbol, .offset = offset, .pre_handler = count_hit};
	int r = dp_register_kprobe(&kp);

	if (!r)
		dp_unregister_kprobe(&kp);
	return r && kp.refusal && !strcmp(kp.refusal, code);
}

static void by_name(const char *symbol, const char *code)
{
	if (!find(symbol))
		ok(1, "%s # SKIP this kernel has no such function", symbol);
	else
		ok(refused(NULL, symbol, 0, code), "%s: %s", symbol, code);
}

/* ---- instructions that the kernel changes ---- */

static DEFINE_STATIC_KEY_FALSE(key);

static noinline __attribute__((noipa)) int keyed(int a)
{
	if (static_branch_unlikely(&key))
		return a + 100;
	return a;
}

static int one(void)
{
	return 1;
}

static int two(void)
{
	return 2;
}

DEFINE_STATIC_CALL(chosen, one);

static noinline __attribute__((noipa)) int calls_static(void)
{
	return static_call(chosen)() + 10;
}

static const u8 pad[4] = {0xf3, 0x0f, 0x1e, 0xfa}; /* a landing pad: what is probed there stands behind it */

/* Every offset of a function: how many are refused with the code. All others are probed meanwhile.
 */
#define MOST 64
static struct dp_kprobe all[MOST];

static int probe_all(void *f, int len, const char *code, int *n)
{
	int count = 0;

	*n = 0;
	for (int i = memcmp(f, pad, sizeof(pad)) ? 0 : sizeof(pad); i < len && *n < MOST; i++) {
		all[*n] = (struct dp_kprobe){.addr = f + i, .pre_handler = count_hit};
		if (!dp_register_kprobe(&all[*n]))
			++*n;
		else if (all[*n].refusal && !strcmp(all[*n].refusal, code))
			count++;
		if (*(u8 *)(f + i) == 0xc3)
			break;
	}
	dp_wait_for_kprobe_optimizer();
	return count;
}

static void remove_all(int n)
{
	for (int i = 0; i < n; i++)
		dp_unregister_kprobe(&all[i]);
}

static void test_changed(void)
{
	int n, count = probe_all(keyed, 24, "E-SITE-JUMPLABEL", &n), wrong;

	ok(count == 1 && n > 0, "a jump label: E-SITE-JUMPLABEL (%d, %d others probed)", count, n);
	wrong = keyed(1) != 1;
	static_branch_enable(&key);
	wrong += keyed(1) != 101;
	static_branch_disable(&key);
	wrong += keyed(1) != 1;
	ok(!wrong, "the key is switched between probes");
	remove_all(n);
	count = probe_all(calls_static, 24, "E-SITE-STATICCALL", &n);
	ok(count == 1 && n > 0, "a static call: E-SITE-STATICCALL (%d, %d others probed)", count, n);
	wrong = calls_static() != 11;
	static_call_update(chosen, two);
	wrong += calls_static() != 12;
	static_call_update(chosen, one);
	ok(!wrong && calls_static() == 11, "the call is changed between probes");
	remove_all(n);
}

static void test_extable(void)
{
	struct dp_kprobe before = {.addr = t_fault, .pre_handler = count_hit};
	long v = 7;

	ok(refused(T_FAULT_INSN, NULL, 0, "E-SITE-EXTABLE"), "an instruction that may fault: E-SITE-EXTABLE");
	ok(!dp_register_kprobe(&before), "the one before it is probed");
	dp_wait_for_kprobe_optimizer();
	ok(t_fault(&v) == 7 && t_fault((long *)0xffffffffff000000ul) == -14, "and a fault is handled as ever");
	dp_unregister_kprobe(&before);
}

/* ---- landing pads of indirect branches ---- */

static notrace noinline __attribute__((noipa)) long padded(long a)
{
	return a + 5;
}

static long (*volatile call_padded)(long) = padded; /* what nobody calls by its address loses its pad */

static int count_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}

/* The function's start means what comes behind the pad, where the compiler has put one. */
static void test_landing_pads(void)
{
	char *start = (char *)call_padded;
	bool has = !memcmp(start, pad, sizeof(pad));
	struct dp_kprobe kp = {.addr = start, .pre_handler = count_hit};
	struct dp_kretprobe rp = {.kp.addr = start, .handler = count_return};
	int r;

	ok(has == IS_ENABLED(CONFIG_X86_KERNEL_IBT), "a function that is called by its address %s a landing pad",
	   has ? "has" : "needs no");
	r = dp_register_kprobe(&kp);
	dp_wait_for_kprobe_optimizer();
	ok(!r && kp.addr == start + (has ? sizeof(pad) : 0), "a probe of it stands behind that (+%td)",
	   (char *)kp.addr - start);
	atomic_set(&hits, 0);
	ok(call_padded(1) == 6 && atomic_read(&hits) == 1 && (!has || !memcmp(start, pad, sizeof(pad))),
	   "and is hit, the pad being as it was");
	r = dp_register_kretprobe(&rp);
	dp_wait_for_kprobe_optimizer();
	atomic_set(&hits, 0);
	ok(!r && call_padded(1) == 6 && atomic_read(&hits) == 2, "so is a return probe");
	dp_unregister_kretprobe(&rp);
	dp_unregister_kprobe(&kp);
	ok(refused(T_LANDING_PAD, NULL, 0, "E-SITE-LANDING") && t_landing(3) == 5,
	   "inside a function one is refused: E-SITE-LANDING");
}

/* ---- others' breakpoints ---- */

static int nothing(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void test_kprobes_of_kernel(void)
{
	struct kprobe theirs = {.addr = (void *)t_wide, .pre_handler = nothing};
	struct dp_kprobe ours = {.addr = t_wide, .pre_handler = count_hit};
	struct dp_kprobe behind = {.addr = t_short, .offset = 9, .pre_handler = count_hit};
	struct kprobe before = {.addr = (void *)t_short, .pre_handler = nothing};

	ok(!register_kprobe(&theirs), "a kprobe of the kernel");
	ok(refused(t_wide, NULL, 0, "E-SITE-FOREIGN"), "on the same instruction: E-SITE-FOREIGN");
	unregister_kprobe(&theirs);
	settle(); /* until then its jump may stay */
	ok(!dp_register_kprobe(&ours), "when it is gone, ours");
	theirs = (struct kprobe){.addr = (void *)t_wide, .pre_handler = nothing};
	ok(register_kprobe(&theirs) < 0, "which the kernel refuses in its turn");
	dp_unregister_kprobe(&ours);

	ok(!register_kprobe(&before), "a kprobe in front");
	ok(refused(t_short, NULL, 1, "E-SITE-FOREIGN"), "what its jump will cover: E-SITE-FOREIGN");
	settle(); /* its jump is there */
	ok(refused(t_short, NULL, 1, "E-SITE-FOREIGN") && refused(t_short, NULL, 4, "E-SITE-FOREIGN"),
	   "what its jump covers: E-SITE-FOREIGN");
	ok(!dp_register_kprobe(&behind), "behind that: %s", behind.refusal ? behind.refusal : "");
	atomic_set(&hits, 0);
	ok(t_short(20, 3) == 23 && atomic_read(&hits) == 1, "the function works");
	dp_unregister_kprobe(&behind);
	unregister_kprobe(&before);
	settle();
	ok(t_short(20, 3) == 23, "and without");
}

/* What was probed once is looked at again when it is to be probed once more. */
static void test_kprobes_between(void)
{
	struct dp_kprobe first = {.addr = t_short, .pre_handler = count_hit};
	struct dp_kprobe second = {.addr = t_short, .offset = 1, .pre_handler = count_hit};
	struct kprobe theirs = {.addr = (void *)t_short, .pre_handler = nothing};

	ok(!dp_register_kprobe(&first) && !dp_register_kprobe(&second), "two of ours");
	ok(!dp_disable_kprobe(&first) && !dp_disable_kprobe(&second), "are disabled");
	ok(!register_kprobe(&theirs), "and a kprobe comes");
	for (int i = 0; i < 2; i++) {
		int r1 = dp_enable_kprobe(&first), r2 = dp_enable_kprobe(&second);

		ok(r1 == -EEXIST && r2 == -EEXIST && !strcmp(first.refusal, "E-SITE-FOREIGN") &&
		       first.flags & second.flags & DP_KPROBE_FLAG_DISABLED && t_short(20, 3) == 23,
		   "they are not enabled over its %s (%d %d)", i ? "jump" : "breakpoint", r1, r2);
		settle();
	}
	dp_unregister_kprobe(&second);
	dp_unregister_kprobe(&first);
	ok(t_short(20, 3) == 23, "nor is anything restored over it");
	unregister_kprobe(&theirs);
	settle();
	first.addr = t_short;
	ok(!dp_register_kprobe(&first), "until it is gone");
	dp_unregister_kprobe(&first);
	ok(t_short(20, 3) == 23, "all as before");
}

static int theirs_hit;

static int count_theirs(struct kprobe *p, struct pt_regs *regs)
{
	theirs_hit++;
	return 0;
}

/* The kernel looks for instructions in the code as it stands, with our jumps, which cover more than they write. */
static void test_kprobes_inside(void)
{
	struct dp_kprobe ours = {.addr = t_region, .pre_handler = count_hit};
	struct kprobe theirs = {.addr = T_REGION_INSIDE, .pre_handler = count_theirs};
	unsigned char before[16];
	int r;

	memcpy(before, t_region, sizeof(before));
	dp_register_kprobe(&ours);
	dp_wait_for_kprobe_optimizer();
	ok(ours.flags & DP_KPROBE_FLAG_OPTIMIZED, "a jump that covers eight bytes");
	r = register_kprobe(&theirs);
	ok(r < 0, "no kprobe comes inside (%d)", r);
	if (!r)
		unregister_kprobe(&theirs);
	theirs = (struct kprobe){.addr = T_REGION_BEHIND, .pre_handler = count_theirs};
	r = register_kprobe(&theirs);
	atomic_set(&hits, 0);
	ok(!r && t_region(20, 3) == 24 && theirs_hit == 1 && atomic_read(&hits) == 1,
	   "one behind it does, and both are hit (%d, %d)", r, theirs_hit);
	dp_disable_kprobe(&ours);
	ok(t_region(20, 3) == 24 && theirs_hit == 2 && atomic_read(&hits) == 1, "without ours theirs is hit");
	dp_enable_kprobe(&ours);
	dp_wait_for_kprobe_optimizer();
	ok(t_region(20, 3) == 24 && theirs_hit == 3 && atomic_read(&hits) == 2 && ours.flags & DP_KPROBE_FLAG_OPTIMIZED,
	   "and with it again");
	if (!r)
		unregister_kprobe(&theirs);
	settle();
	dp_unregister_kprobe(&ours);
	ok(!memcmp(before, t_region, sizeof(before)) && t_region(20, 3) == 24, "every byte is restored");
}

/* ---- places ---- */

static void test_named(void)
{
	int inside;
	u8 *clock;

	by_name("entry_SYSCALL_64", "E-SITE-ENTRY");
	by_name("asm_exc_page_fault", "E-SITE-ENTRY");
	by_name("asm_exc_nmi", "E-SITE-ENTRY");
	by_name("exc_int3", "E-SITE-ENTRY");
	by_name("exc_nmi", "E-SITE-ENTRY");
	by_name("do_syscall_64", "E-SITE-ENTRY");
	by_name("irqentry_nmi_enter", "E-SITE-ENTRY");
	by_name("native_safe_halt", "E-SITE-ENTRY");
	by_name("poke_int3_handler", "E-SITE-ENTRY");
	by_name("kprobe_int3_handler", "E-KPROBE-BLACKLIST");
	by_name("__rcu_read_lock", "E-SITE-TRAPPATH");
	by_name("__rcu_read_unlock", "E-SITE-TRAPPATH");
	by_name("rcu_read_unlock_special", "E-SITE-TRAPPATH");
	by_name("rcu_read_unlock_strict", "E-SITE-TRAPPATH");
	by_name("notify_die", "E-SITE-TRAPPATH");
	by_name("atomic_notifier_call_chain", "E-SITE-TRAPPATH");
	by_name("hw_breakpoint_exceptions_notify", "E-SITE-TRAPPATH");
	by_name("__x86_indirect_thunk_rax", "E-SITE-TRAPPATH");
	by_name("ftrace_caller", "E-SITE-FTRACE");
	by_name("ftrace_regs_caller", "E-SITE-FTRACE");
	ok(refused((void *)tracers_bytes((void *)find("vfs_read")), NULL, 2, "E-SITE-FTRACE"),
	   "inside the function tracer's bytes: E-SITE-FTRACE");
	clock = (u8 *)find("native_sched_clock");
	inside = (*clock & 0xf8) == 0x50 ? 2 : 1; /* a push of one byte may come first */
	ok(refused(clock, NULL, inside, "E-SITE-MIDINSN") || refused(clock, NULL, inside, "E-SITE-ENTRY") ||
	       refused(clock, NULL, inside, "E-SITE-FTRACE"),
	   "inside an instruction of a function without tracer's bytes");
	ok(refused(find, NULL, 1, "E-SITE-MIDINSN"), "inside an instruction of a module");
	ok(refused((void *)0x1000, NULL, 0, "E-SITE-NOTEXT"), "a user's address: E-SITE-NOTEXT");
	ok(refused((void *)dp_unregister_kprobe, NULL, 0, "E-SITE-OWN"), "our own code: E-SITE-OWN");
}

/* ---- parts that the compiler has made of functions ---- */

static unsigned long parts[MOST];
static u32 nparts, parts_seen;
static unsigned long text_begins, text_ends;

/* Parts of the kernel's functions, from all over it. */
static int note_part(DP_K_SYMBOL_ARGS)
{
	if (!dp_k_symbol_is_core(addr) || nparts == MOST)
		return 1;
	if (strchr(name, '.') && addr >= text_begins && addr < text_ends && !(parts_seen++ & 63))
		parts[nparts++] = addr;
	return 0;
}

static void test_parts(void)
{
	typeof(within_kprobe_blacklist) *theirs = (void *)find("within_kprobe_blacklist");
	typeof(kallsyms_on_each_symbol) *on_each = (void *)find("kallsyms_on_each_symbol");
	static const char *const listed[] = {"do_trap.cold", "oops_end.cold", "pci_serr_error.part.0"};
	ktime_t t, ours_took = 0, theirs_took = 0;
	u32 wrong = 0;

	text_begins = find("_stext");
	text_ends = find("_etext");
	on_each(note_part, NULL);
	for (u32 i = 0; i < ARRAY_SIZE(listed); i++)
		if (find(listed[i]) && nparts < MOST)
			parts[nparts++] = find(listed[i]);
	for (u32 i = 0; i < nparts; i++) {
		struct dp_kprobe kp = {.addr = (void *)parts[i], .flags = DP_KPROBE_FLAG_DISABLED};
		bool never;
		int r;

		t = ktime_get();
		never = theirs(parts[i]);
		theirs_took += ktime_get() - t;
		t = ktime_get();
		r = dp_register_kprobe(&kp);
		ours_took += ktime_get() - t;
		wrong += never ? !r : r && !strcmp(kp.refusal, "E-KPROBE-BLACKLIST");
		if (!r)
			dp_unregister_kprobe(&kp);
	}
	for (u32 i = 0; i < ARRAY_SIZE(listed); i++)
		by_name(listed[i], "E-KPROBE-BLACKLIST");
	ok(nparts > 10 && !wrong, "parts of functions are refused when Kprobes refuses them (%u of %u are not)", wrong,
	   nparts);
	if (DP_K_NAMES_INDEXED)
		ok(1, "registering parts # SKIP this kernel has an index of its names");
	else
		ok(ours_took < theirs_took,
		   "registering %u parts takes %lld ms, less than a look at their names: %lld ms", nparts,
		   ktime_to_ms(ours_took), ktime_to_ms(theirs_took));
}

static void test_returns_refused(void)
{
	struct dp_kretprobe rp = {.kp.symbol_name = "__switch_to"};

	ok(dp_register_kretprobe(&rp) == -EINVAL, "a return probe on __switch_to: -EINVAL");
}

void test_refused(void)
{
	test_named();
	test_changed();
	test_extable();
	test_landing_pads();
	test_kprobes_of_kernel();
	test_kprobes_between();
	test_kprobes_inside();
	test_parts();
	test_returns_refused();
}
