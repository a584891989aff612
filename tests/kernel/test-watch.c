// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * dp_register_kwatch() and dp_dr_alloc() of <dprobes/kernel.h>: what they refuse, what a watchpoint sees, who gets
 * which register; and beside them the kernel's other users of debug registers, perf's way and that of debuggers.
 */
#include <linux/gfp.h>
#include <linux/hw_breakpoint.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "test.h"

enum { REGISTERS = 4 };

static struct {
	u64 a, b, c;
	u32 half[2];
	u64 more[REGISTERS];
} __aligned(8) data;

static int watched;
static unsigned long seen_ip;
static void *seen_addr;

static void on_access(struct dp_kwatch *w, struct pt_regs *regs, void *addr)
{
	watched++;
	seen_ip = regs->ip;
	seen_addr = addr;
}

static noinline __attribute__((noipa)) void store(u64 *to, u64 v)
{
	WRITE_ONCE(*to, v);
}

static noinline __attribute__((noipa)) u64 load(u64 *from)
{
	return READ_ONCE(*from);
}

static int refused(struct dp_kwatch w, int r, const char *code)
{
	int got = dp_register_kwatch(&w);

	if (!got)
		dp_unregister_kwatch(&w);
	return got == r && w.refusal && !strcmp(w.refusal, code) && !w.dp_private;
}

static void test_arguments(void)
{
	ok(refused((struct dp_kwatch){.addr = &data.a, .len = 3, .type = DP_KWATCH_WRITE, .handler = on_access},
		   -EINVAL, "E-WATCH-ARGUMENT"),
	   "3 bytes");
	ok(refused((struct dp_kwatch){.addr = &data.half[1], .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access},
		   -EINVAL, "E-WATCH-ARGUMENT"),
	   "8 bytes that are not aligned");
	ok(refused((struct dp_kwatch){.addr = &data.a, .len = 8, .type = DP_KWATCH_WRITE}, -EINVAL, "E-WATCH-ARGUMENT"),
	   "no handler");
	ok(refused(
	       (struct dp_kwatch){
		   .addr = &data.a, .symbol_name = "jiffies", .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access},
	       -EINVAL, "E-WATCH-ARGUMENT"),
	   "both an address and a symbol");
	ok(refused((struct dp_kwatch){.addr = (void *)0x1000, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access},
		   -EINVAL, "E-WATCH-ARGUMENT"),
	   "an address of user memory");
	ok(refused((struct dp_kwatch){.addr = (void *)store, .len = 2, .type = DP_KWATCH_EXECUTE, .handler = on_access},
		   -EINVAL, "E-WATCH-ARGUMENT"),
	   "execution of 2 bytes");
	ok(refused((struct dp_kwatch){.addr = &data.a, .len = 1, .type = DP_KWATCH_IO, .handler = on_access},
		   -EOPNOTSUPP, "E-WATCH-TYPE"),
	   "a port");
	ok(refused(
	       (struct dp_kwatch){
		   .symbol_name = "no_such_variable", .len = 4, .type = DP_KWATCH_WRITE, .handler = on_access},
	       -ENOENT, "E-SYM-NONE"),
	   "no such variable");
	ok(refused((struct dp_kwatch){.addr = &data.a,
				      .len = 8,
				      .type = DP_KWATCH_WRITE,
				      .handler = on_access,
				      .flags = DP_KWATCH_FLAG_DR,
				      .dr = 3},
		   -EINVAL, "E-WATCH-ARGUMENT"),
	   "a register that was not set aside");
}

static void test_accesses(void)
{
	struct dp_kwatch w = {.addr = &data.a, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access};
	struct dp_kwatch rw = {.addr = &data.b, .len = 8, .type = DP_KWATCH_RW, .handler = on_access};
	struct dp_kwatch x = {.addr = (void *)load, .len = 1, .type = DP_KWATCH_EXECUTE, .handler = on_access};
	struct dp_kwatch half = {.addr = &data.half[1], .len = 4, .type = DP_KWATCH_WRITE, .handler = on_access};

	watched = 0;
	ok(!dp_register_kwatch(&w) && w.dr == REGISTERS - 1, "writes; the highest register (%d)", w.dr);
	ok(dp_register_kwatch(&w) == -EINVAL, "registering it twice is -EINVAL");
	store(&data.a, 1);
	ok(watched == 1 && seen_addr == &data.a, "a write is seen");
	ok(seen_ip > (unsigned long)store && seen_ip < (unsigned long)store + 32, "behind the instruction");
	load(&data.a);
	store(&data.b, 1);
	ok(watched == 1, "a read is not, nor its neighbour");
	ok(!dp_register_kwatch(&rw) && !dp_register_kwatch(&x) && !dp_register_kwatch(&half) && rw.dr == 2 &&
	       x.dr == 1 && !half.dr,
	   "three more");
	ok(refused((struct dp_kwatch){.addr = &data.c, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access}, -EBUSY,
		   "E-WATCH-BUSY"),
	   "and no fifth");
	watched = 0;
	store(&data.b, 2);
	ok(watched == 1, "a write of what is watched for both");
	load(&data.b);
	ok(watched == 3 && seen_addr == &data.b, "a read, and execution before it (%d)", watched);
	watched = 0;
	store((u64 *)data.half, 3); /* its upper half is watched */
	ok(watched == 1 && seen_addr == &data.half[1], "a wider write");
	dp_unregister_kwatch(&half);
	dp_unregister_kwatch(&x);
	dp_unregister_kwatch(&rw);
	dp_unregister_kwatch(&w);
	dp_unregister_kwatch(&w);
	watched = 0;
	store(&data.a, 4);
	load(&data.b);
	ok(!watched && !w.nmissed, "unregistered, nothing is seen");
}

static void store_here(void *to)
{
	store(to, 7);
}

static atomic_t everywhere;

static void count(struct dp_kwatch *w, struct pt_regs *regs, void *addr)
{
	atomic_inc(&everywhere);
}

static void test_processors(void)
{
	struct dp_kwatch w = {.addr = &data.a, .len = 8, .type = DP_KWATCH_WRITE, .handler = count};

	ok(!dp_register_kwatch(&w), "on all processors");
	on_each_cpu(store_here, &data.a, 1);
	ok(atomic_read(&everywhere) == num_online_cpus(), "each one's write is seen (%d)", atomic_read(&everywhere));
	dp_unregister_kwatch(&w);
}

/* ---- the arbiter ---- */

static void test_arbiter(void)
{
	ok(dp_dr_alloc(4, DP_DR_GLOBAL) == -EINVAL && dp_dr_alloc(-2, DP_DR_GLOBAL) == -EINVAL &&
	       dp_dr_alloc(0, 2) == -EINVAL,
	   "registers: a number or kind that does not exist");
	ok(dp_dr_free(0) == -EINVAL && dp_dr_free(4) == -EINVAL && dp_dr_free(-1) == -EINVAL,
	   "registers: what nobody has is not freed");
	ok(dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL) == 3, "registers: for one owner from above");
	ok(dp_dr_alloc(3, DP_DR_GLOBAL) == -EBUSY && dp_dr_alloc(3, DP_DR_LOCAL) == -EBUSY,
	   "registers: and for nobody else");
	ok(dp_dr_alloc(DP_DR_ANY, DP_DR_LOCAL) == 0 && dp_dr_alloc(DP_DR_ANY, DP_DR_LOCAL) == 0,
	   "registers: tasks share one from below");
	ok(dp_dr_alloc(1, DP_DR_LOCAL) == 1 && dp_dr_alloc(DP_DR_ANY, DP_DR_LOCAL) == 0,
	   "registers: and prefer a shared one");
	ok(dp_dr_alloc(1, DP_DR_GLOBAL) == -EBUSY, "registers: which has no owner");
	ok(dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL) == 2 && dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL) == -EBUSY,
	   "registers: all in use");
	ok(refused((struct dp_kwatch){.addr = &data.c, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access}, -EBUSY,
		   "E-WATCH-BUSY"),
	   "registers: those of tasks are not for watchpoints of the kernel");
	ok(!dp_dr_free(0) && !dp_dr_free(0) && dp_dr_alloc(0, DP_DR_GLOBAL) == -EBUSY,
	   "registers: shared until the last one");
	ok(!dp_dr_free(0) && dp_dr_free(0) == -EINVAL && dp_dr_alloc(0, DP_DR_GLOBAL) == 0, "registers: gives it back");
	ok(!dp_dr_free(0) && !dp_dr_free(1) && !dp_dr_free(2) && !dp_dr_free(3) && dp_dr_free(3) == -EINVAL,
	   "registers: all free");
}

static void test_set_aside(void)
{
	int n = dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL);
	struct dp_kwatch w = {.addr = &data.a,
			      .len = 8,
			      .type = DP_KWATCH_WRITE,
			      .handler = on_access,
			      .flags = DP_KWATCH_FLAG_DR,
			      .dr = n};
	struct dp_kwatch second = w;
	struct dp_kwatch x = w;

	watched = 0;
	store(&data.a, 1);
	ok(n == 3 && !watched, "set aside: watches nothing");
	ok(!dp_register_kwatch(&w), "set aside: a watchpoint has it");
	store(&data.a, 2);
	ok(watched == 1, "set aside: and sees");
	ok(dp_register_kwatch(&second) == -EINVAL, "set aside: only one at a time");
	ok(dp_dr_free(n) == -EBUSY, "set aside: it is not freed meanwhile");
	dp_unregister_kwatch(&w);
	store(&data.a, 3);
	ok(watched == 1, "set aside: unregistered, nothing is seen");
	x.addr = load;
	x.len = 1;
	x.type = DP_KWATCH_EXECUTE;
	ok(!dp_register_kwatch(&x), "set aside: something else, of another kind");
	load(&data.a);
	store(&data.a, 4);
	ok(watched == 2 && seen_addr == (void *)load && seen_ip == (unsigned long)load,
	   "set aside: sees that, and not the other");
	dp_unregister_kwatch(&x);
	ok(!dp_dr_free(n), "set aside: freed");
}

/* ---- the kernel's other users ---- */

static int theirs;

static void on_theirs(struct perf_event *bp, struct perf_sample_data *d, struct pt_regs *regs)
{
	theirs++;
}

static void describe(struct perf_event_attr *attr, unsigned long at)
{
	hw_breakpoint_init(attr);
	attr->bp_addr = at;
	attr->bp_len = HW_BREAKPOINT_LEN_8;
	attr->bp_type = HW_BREAKPOINT_W;
}

/* As many as there are, on all processors, each of its own word: emulators tell only one of several for the same. */
static int take_wide(struct perf_event *__percpu **v, void *at)
{
	struct perf_event_attr attr;
	int n = 0;

	for (; n < REGISTERS; n++) {
		describe(&attr, (unsigned long)at + 8 * n);
		v[n] = register_wide_hw_breakpoint(&attr, on_theirs, NULL);
		if (IS_ERR_VALUE((unsigned long __force)v[n]))
			break;
	}
	return n;
}

static void give_wide(struct perf_event *__percpu **v, int n)
{
	while (n--)
		unregister_wide_hw_breakpoint(v[n]);
}

/* Those of a debugger, in this task. */
static int take_task(struct perf_event **v)
{
	struct perf_event_attr attr;
	int n = 0;

	describe(&attr, 0x1000);
	for (; n < REGISTERS; n++) {
		v[n] = register_user_hw_breakpoint(&attr, on_theirs, NULL, current);
		if (IS_ERR(v[n]))
			break;
	}
	return n;
}

static void give_task(struct perf_event **v, int n)
{
	while (n--)
		unregister_hw_breakpoint(v[n]);
}

static void test_others(void)
{
	struct dp_kwatch w = {.addr = &data.a, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access};
	struct perf_event *__percpu *wide[REGISTERS];
	struct perf_event *task[REGISTERS];
	int n;

	dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL);
	dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL);
	n = take_wide(wide, data.more);
	ok(n == 2, "others: get what was not set aside (%d of 4)", n);
	w.flags = DP_KWATCH_FLAG_DR;
	w.dr = 2;
	watched = theirs = 0;
	ok(!dp_register_kwatch(&w), "others: ours is certain all the same");
	store(&data.a, 1);
	ok(watched == 1 && !theirs, "others: our hit is ours");
	store(&data.more[1], 1);
	ok(watched == 1 && theirs == 1, "others: theirs is theirs (%d)", theirs);
	dp_unregister_kwatch(&w);
	give_wide(wide, n);
	n = take_task(task);
	ok(n == 2, "others: so does a debugger (%d of 4)", n);
	give_task(task, n);
	ok(!dp_dr_free(3) && !dp_dr_free(2), "others: freed");
	n = take_wide(wide, data.more);
	ok(n == 4 && dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL) == -EBUSY, "others: have them all (%d): nothing is set aside",
	   n);
	w.flags = 0;
	ok(refused(w, -EBUSY, "E-WATCH-BUSY"), "others: nor watched");
	give_wide(wide, n);
	n = take_task(task);
	ok(n == 4 && dp_dr_alloc(DP_DR_ANY, DP_DR_GLOBAL) == -EBUSY, "others: one task's (%d) are missing, too", n);
	ok(dp_dr_alloc(DP_DR_ANY, DP_DR_LOCAL) == 0 && !dp_dr_free(0), "others: what is left to tasks needs none");
	give_task(task, n);
	ok(!dp_register_kwatch(&w), "others: are gone");
	watched = 0;
	store(&data.a, 2);
	ok(watched == 1, "others: and it works again");
	dp_unregister_kwatch(&w);
}

/* ---- what cannot be watched ---- */

/* Type 2, which is a port where the debug extensions are on, for a register that is off. */
#define PORT_IN_0 (2ul << 16)

struct debugging {
	bool has_ports; /* CR4.DE */
	unsigned long control;
};

static void read_debugging(void *to)
{
	struct debugging *d = to;

	d->has_ports |= !!(native_read_cr4() & X86_CR4_DE);
	get_debugreg(d->control, 7);
}

static void ask_for_port(void *unused)
{
	unsigned long control;

	get_debugreg(control, 7);
	set_debugreg(control | PORT_IN_0, 7);
}

/* Whether the kernel's layer takes a breakpoint of that type. */
static bool takes_type(u32 type)
{
	struct perf_event_attr attr;
	struct perf_event *__percpu *v;

	describe(&attr, (unsigned long)&data.c);
	attr.bp_type = type;
	attr.bp_len = type == HW_BREAKPOINT_X ? sizeof(long) : HW_BREAKPOINT_LEN_8;
	v = register_wide_hw_breakpoint(&attr, on_theirs, NULL);
	if (IS_ERR_VALUE((unsigned long __force)v))
		return false;
	unregister_wide_hw_breakpoint(v);
	return true;
}

static void test_ports(void)
{
	struct dp_kwatch w = {.addr = &data.a, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access};
	struct debugging d = {false};
	u32 types = 0;

	for (u32 type = 0; type <= HW_BREAKPOINT_INVALID; type++)
		types |= takes_type(type) << type;
	types &= ~(1u << HW_BREAKPOINT_X); /* code alone, of other lengths on some kernels */
	ok(types == (1u << HW_BREAKPOINT_W | 1u << HW_BREAKPOINT_RW),
	   "ports: the kernel's layer has no type for them (%#x)", types);
	on_each_cpu(read_debugging, &d, 1);
	ok(!d.has_ports, "ports: the processors' debug extensions are off");
	smp_call_function_single(0, ask_for_port, NULL, 1);
	smp_call_function_single(0, read_debugging, &d, 1);
	ok(d.control & PORT_IN_0, "ports: the type can be written");
	ok(!dp_register_kwatch(&w), "ports: somebody watches something else");
	smp_call_function_single(0, read_debugging, &d, 1);
	dp_unregister_kwatch(&w);
	ok(!(d.control & PORT_IN_0), "ports: then the kernel has written the register from its own copy");
}

/* One page at two addresses. */
static void test_physical(void)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	u64 *one = page ? page_address(page) : NULL, *other = page ? vmap(&page, 1, VM_MAP, PAGE_KERNEL) : NULL;
	struct dp_kwatch w = {.addr = other, .len = 8, .type = DP_KWATCH_WRITE, .handler = on_access};

	ok(other && !dp_register_kwatch(&w), "physical: a page at two addresses, watched at one");
	if (other) {
		watched = 0;
		store(one, 7);
		ok(!watched && *other == 7, "physical: a write at the other is not seen");
		store(other, 8);
		ok(watched == 1 && *one == 8, "physical: a write at this one is");
		dp_unregister_kwatch(&w);
		vunmap(other);
	}
	if (page)
		__free_page(page);
}

void test_watch(void)
{
	test_arguments();
	test_accesses();
	test_processors();
	test_arbiter();
	test_set_aside();
	test_others();
	test_ports();
	test_physical();
}
