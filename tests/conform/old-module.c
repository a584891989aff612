// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A module as it was written for Kprobes in 2005, with a probe of each kind; built for the kernel and for processes.
 * Only the command line of the compiler says which, and whose Kprobes these are.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/kprobes.h>
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/random.h>

#define ROUNDS 5

static struct kprobe kp;
static u32 number, sum;
static int before, behind, entered, returned, batch;

int old_work(u32 a, int b);

/* What is probed. */
noinline __attribute__((noipa)) int old_work(u32 a, int b)
{
	sum += a;
	return b < 0 ? -1 : b + 1;
}

/* Called just before the probed instruction is executed. */
int handler_pre(struct kprobe *p, struct pt_regs *regs)
{
	if (!before++) {
		printk("old: pre_handler: right place %d, argument %d, flags %d\n",
		       regs->rip - (unsigned long)p->addr <= 1, (u32)regs->rdi == number, !(regs->eflags & 0x100));
		dump_stack();
	}
	return 0;
}

/* Called after the probed instruction is executed. */
void handler_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	behind += flags == 0;
}

/* Called if an exception is generated for any instruction within the handlers or the probed one. */
int handler_fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	printk("old: fault_handler: p->addr=0x%p, trap #%d\n", p->addr, trapnr);
	return 0;
}

static int handler_batch(struct kprobe *p, struct pt_regs *regs)
{
	batch++;
	return 0;
}

/* With the prototype of what is probed. */
int jold_work(u32 a, int b)
{
	entered += a == number;
	jprobe_return();
	return 0;
}

static struct jprobe my_jprobe = {.entry = (kprobe_opcode_t *)jold_work};

static int ret_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int retval = (int)regs->rax;

	returned += retval == ROUNDS + 1;
	return 0;
}

static struct kretprobe my_kretprobe = {.handler = ret_handler, .maxactive = 20};

static struct kprobe first = {.symbol_name = "old_work", .pre_handler = handler_batch};
static struct kprobe second = {.symbol_name = "old_work", .pre_handler = handler_batch};
static struct kprobe *both[2] = {&first, &second};

int init_module(void)
{
	int ret, i;

	kp.pre_handler = handler_pre;
	kp.post_handler = handler_post;
	kp.fault_handler = handler_fault;
	kp.addr = (kprobe_opcode_t *)kallsyms_lookup_name("old_work");
	if (!kp.addr) {
		printk("Couldn't find %s to plant kprobe\n", "old_work");
		return -1;
	}
	if (kallsyms_lookup_name("no_such_function_at_all"))
		return -1;
	do {
		number = get_random_u32();
	} while (number < 10);
	if ((ret = register_kprobe(&kp)) < 0) {
		printk("register_kprobe failed, returned %d\n", ret);
		return -1;
	}
	my_jprobe.kp.addr = (kprobe_opcode_t *)kallsyms_lookup_name("old_work");
	if ((ret = register_jprobe(&my_jprobe)) < 0) {
		printk("register_jprobe failed, returned %d\n", ret);
		return -1;
	}
	my_kretprobe.kp.addr = (kprobe_opcode_t *)kallsyms_lookup_name("old_work");
	if ((ret = register_kretprobe(&my_kretprobe)) < 0) {
		printk("register_kretprobe failed, returned %d\n", ret);
		return -1;
	}
	if ((ret = register_kprobes(both, 2)) < 0) {
		printk("register_kprobes failed, returned %d\n", ret);
		return -1;
	}
	for (i = 0; i < ROUNDS; i++)
		old_work(number, ROUNDS);
	return 0;
}

void cleanup_module(void)
{
	unregister_kprobes(both, 2);
	unregister_kretprobe(&my_kretprobe);
	unregister_jprobe(&my_jprobe);
	unregister_kprobe(&kp);
	old_work(number, ROUNDS);
	printk("old: %d before, %d behind, %d entered, %d returned, %d of a batch\n", before, behind, entered, returned,
	       batch);
}

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests: a module as of 2005");
